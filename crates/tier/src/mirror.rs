//! One mirror file and its residency.

mod change;
mod doubt;
mod fill;
pub(crate) mod flush;
mod invalidations;
mod note;
mod parted;
mod passthrough;
pub(crate) mod passthrough_use;
mod residency;
mod written;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use weir_types::{ByteRange, ErrorKind, FsError, Ino, Result, UnixTime};

use crate::disk;
use crate::log::{Entry, MirrorState};
use crate::pending::Pending;
use crate::private;
use crate::ranges::{PAGE_BYTES, PageState, RangeMap, page_ceil, page_floor};
use crate::recover::Left;
use crate::shared::TierState;

use invalidations::Invalidations;
use passthrough_use::PassthroughUse;
use residency::memory_of;
pub(crate) use residency::{Residency, gaps_below};
use written::Written;

/// What a read found.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// This many bytes were read; fewer than asked for at the end of the file.
    Done(usize),
    /// These page ranges must be fetched first.
    Missing(Vec<ByteRange>),
}

/// How many bytes of a file's pages are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Nowhere: they are zeros.
    pub hole: u64,
    /// In the bucket only.
    pub released: u64,
    /// In the tier, and in the bucket.
    pub resident: u64,
    /// In the tier, and not in the bucket yet.
    pub dirty: u64,
}

/// The sparse local file of one inode and what is known of each of its pages.
///
/// All methods block for as long as the local disk does; none waits for the network.
#[derive(Debug)]
pub struct Mirror {
    pub(crate) ino: Ino,
    pub(crate) shared: Arc<TierState>,
    pub(crate) residency: RwLock<Residency>,
    file: Mutex<Option<Arc<File>>>,
    last_used: AtomicU64,
    /// Another one each time that others changed the file, by [`Tier::tick`](crate::Tier::tick).
    epoch: AtomicU64,
    pub(crate) sealed: AtomicBool,
    /// Fills under way: their bytes may be in the file before residency knows.
    pub(crate) filling: AtomicUsize,
    /// Programs change it in place; see [`Mirror::changed_in_place`].
    rewritten: AtomicBool,
    /// Until when it is not lent, in the tier's milliseconds: others changed it while it was.
    not_lent_before_ms: AtomicU64,
    /// The disk lost bytes of the mirror file, and residency does not tell yet.
    lost: Mutex<Option<std::io::Error>>,
    /// Held by the one [`Mirror::scan_mapped_writes`] at a time, and taken before the residency.
    scanning: Mutex<()>,
}

impl Mirror {
    /// A mirror that the log speaks of, as it was left.
    pub(crate) fn recovered(shared: Arc<TierState>, left: Left) -> Self {
        let mirror = Self::new(shared, left.state);
        mirror.sealed.store(left.sealed, Ordering::Relaxed);
        let mut residency = mirror.write_state();
        (residency.verified, residency.logged, residency.doubt) = (false, true, left.doubt);
        if left.doubt {
            mirror.shared.doubted().insert(mirror.ino);
        }
        mirror.list(&mut residency);
        drop(residency);
        mirror
    }

    /// A mirror in step with its inode, without a file or an entry in the log yet.
    pub(crate) fn new(shared: Arc<TierState>, mut state: MirrorState) -> Self {
        // A flush that was under way when the daemon ended is not.
        state.ranges.turn(0, u64::MAX, PageState::Flushing, PageState::Dirty);
        let (local_bytes, dirty_bytes) = (state.local_bytes(), state.dirty_bytes());
        shared.account(local_bytes, 0, dirty_bytes, 0);
        let memory_bytes = memory_of(&state.ranges);
        shared.files.fetch_add(1, Ordering::Relaxed);
        shared.memory_bytes.fetch_add(memory_bytes, Ordering::Relaxed);
        let has_unflushed = dirty_bytes > 0 || state.pending != Pending::default();
        let dirty_since_ms = has_unflushed.then(|| shared.now_ms());
        // Whether a journal has what was dirty before is not known any more.
        let mut unjournaled = RangeMap::default();
        for (ByteRange { start, end }, _) in state.ranges.iter().filter(|r| r.1.is_dirty()) {
            unjournaled.set(start, end, PageState::Dirty);
        }
        Self {
            ino: state.ino,
            last_used: AtomicU64::new(shared.tick()),
            epoch: AtomicU64::new(shared.tick()),
            shared,
            residency: RwLock::new(Residency {
                state,
                local_bytes,
                dirty_bytes,
                memory_bytes,
                stamp: Invalidations::default(),
                drops: Invalidations::default(),
                flushes: 0,
                dirty_since_ms,
                unjournaled,
                written: Written::default(),
                changes: 0,
                later: None,
                verified: true,
                logged: false,
                listed: false,
                changed_since_stamp: false,
                doubt: false,
                leftover: RangeMap::default(),
                gone: false,
                passthrough: PassthroughUse::default(),
            }),
            file: Mutex::new(None),
            sealed: AtomicBool::new(false),
            filling: AtomicUsize::new(0),
            rewritten: AtomicBool::new(false),
            not_lent_before_ms: AtomicU64::new(0),
            lost: Mutex::default(),
            scanning: Mutex::new(()),
        }
    }

    /// The inode that it mirrors.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// The file's size as local writers made it.
    pub fn size(&self) -> u64 {
        self.read_state().state.size
    }

    /// Size and the attributes that the metadata does not have yet.
    pub fn pending(&self) -> (u64, Pending) {
        let residency = self.read_state();
        (residency.state.size, residency.state.pending)
    }

    /// The file's size where the mirror says it and not the metadata: a write or a growth is not
    /// there yet, or programs read the mirror file itself, which must never be found shorter than
    /// anybody was told.
    pub fn size_that_counts(&self) -> Option<u64> {
        let residency = self.read_state();
        let counts = residency.state.pending.size || residency.passthrough.active;
        counts.then_some(residency.state.size)
    }

    /// Whether it has no file on the disk yet, as far as is known.
    pub fn is_new(&self) -> bool {
        !self.read_state().logged
    }

    /// Whether something here is not yet in the bucket.
    pub fn has_unflushed(&self) -> bool {
        self.read_state().has_unflushed()
    }

    /// Whether pages that were written here in part may be old in the rest: they are let go once they are
    /// flushed.
    pub fn is_stale_in_part(&self) -> bool {
        let residency = self.read_state();
        residency.dirty_bytes > 0 && residency.written.is_stale()
    }

    /// Bytes that are nowhere but here.
    pub fn dirty_bytes(&self) -> u64 {
        self.read_state().dirty_bytes
    }

    /// Room that its pages take.
    pub fn local_bytes(&self) -> u64 {
        self.read_state().local_bytes
    }

    /// When the oldest dirty byte was written, in the tier's milliseconds.
    pub fn dirty_since_ms(&self) -> Option<u64> {
        self.read_state().dirty_since_ms
    }

    /// Bytes within the file, by what is known of their pages.
    pub fn census(&self) -> Census {
        let residency = self.read_state();
        let state = &residency.state;
        let end = page_ceil(state.size);
        let count = |which: fn(PageState) -> bool| state.ranges.bytes(0, end, which);
        let released: u64 = gaps_below(state, 0, end).iter().map(|range| range.len()).sum();
        let (resident, dirty) = (count(|s| s == PageState::Resident), count(PageState::is_dirty));
        Census { hole: end - released - resident - dirty, released, resident, dirty }
    }

    /// Changes whenever a fetch that began before must not be stored any more.
    pub fn stamp(&self) -> u64 {
        self.read_state().stamp.now()
    }

    /// Whether bytes of `start..end` that were looked for at `stamp` are still those of the file.
    pub fn is_fresh(&self, stamp: u64, start: u64, end: u64) -> bool {
        self.read_state().stamp.spare(stamp, &[ByteRange::new(start, end)])
    }

    /// The page ranges within `start..end` that must be fetched before they can be read.
    pub fn missing(&self, start: u64, end: u64) -> Vec<ByteRange> {
        let residency = self.read_state();
        gaps_below(&residency.state, page_floor(start), page_ceil(end))
    }

    /// Bytes of whole pages of `start..end` that are nowhere: what a write there adds. Holes in what is
    /// not here are not known.
    pub fn hole_bytes(&self, start: u64, end: u64) -> u64 {
        let residency = self.read_state();
        let state = &residency.state;
        let (start, end) = (page_floor(start), page_ceil(end));
        let released: u64 = gaps_below(state, start, end).iter().map(|range| range.len()).sum();
        let here = state.ranges.bytes(start, end, |state| state != PageState::Hole);
        end - start - released - here
    }

    /// Appends up to `len` bytes from `offset` on to `buffer`, if all of them are here; reads past
    /// the end are short.
    pub fn read_at(&self, offset: u64, len: usize, buffer: &mut Vec<u8>) -> Result<ReadOutcome> {
        self.touch();
        let before = buffer.len();
        let residency = self.read_state();
        let size = residency.state.size;
        let length = (len as u64).min(size.saturating_sub(offset)) as usize;
        if length == 0 {
            return Ok(ReadOutcome::Done(0));
        }
        let end = offset + length as u64;
        let missing = gaps_below(&residency.state, page_floor(offset), page_ceil(end));
        if !missing.is_empty() {
            return Ok(ReadOutcome::Missing(missing));
        }
        self.check_doubt(&residency, offset, end)?;
        if !residency.leftover.is_empty() {
            drop(residency);
            self.take_out_leftover(&mut self.write_state())?;
            return self.read_at(offset, len, buffer);
        }
        let file = self.file()?;
        let whole = buffer.len() + length;
        buffer.reserve_exact(length);
        while buffer.len() < whole {
            let left = whole - buffer.len();
            // Into memory that nobody has filled with zeros before.
            match disk::read_spare(&file, buffer, left, end - left as u64) {
                Ok(0) => break,
                Ok(_) => {}
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.io("read", e)),
            }
        }
        if !self.believed(&file) {
            drop(residency);
            buffer.truncate(before);
            self.take_up_losses();
            return self.read_at(offset, len, buffer);
        }
        // A mirror file ends where its last written byte is; what follow are zeros.
        buffer.resize(whole, 0);
        Ok(ReadOutcome::Done(length))
    }

    /// Writes `data` at `offset` and marks its pages dirty. Where the write covers a page in part
    /// and that page is released, it answers `Missing`, and nothing is written.
    pub fn write_at(&self, offset: u64, data: &[u8], now: UnixTime) -> Result<Vec<ByteRange>> {
        self.touch();
        let end = offset + data.len() as u64;
        let (from, to) = (page_floor(offset), page_ceil(end));
        let mut residency = self.write_state();
        self.check_alive(&residency)?;
        self.check_doubt(&residency, 0, u64::MAX)?;
        self.take_out_leftover(&mut residency)?;
        let missing = partial_pages(&residency.state, offset, end);
        if !missing.is_empty() {
            return Ok(missing);
        }
        self.unseal()?;
        let size = residency.state.size.max(end);
        let pending = Pending::written(now);
        if self.shared.among_nodes.load(Ordering::Acquire) {
            let Residency { written, state, .. } = &mut *residency;
            written.wrote(offset, end, &state.ranges);
        }
        // Bytes that a crash would leave in readable pages need their mark first; bytes in pages
        // that nobody can read yet need it last, or a flush would take what is not there.
        self.note_readable(&mut residency, from, to)?;
        self.before_own_change(&mut residency)?;
        if let Err(error) = self.put(&*self.file()?, data, offset) {
            self.clean_up(&mut residency, from, to);
            return Err(self.io("write", error));
        }
        self.after_own_change(&mut residency)?;
        fail::fail_point!("tier::written");
        let entry = Entry::Dirtied { ino: self.ino, start: from, end: to, size, pending };
        if let Err(error) = self.note(&mut residency, entry) {
            self.clean_up(&mut residency, from, to);
            return Err(error);
        }
        residency.unjournaled.set(from, to, PageState::Dirty);
        residency.dirty_since_ms.get_or_insert_with(|| self.shared.now_ms());
        Ok(Vec::new())
    }

    /// Marks those pages of `from..to` dirty that can be read now and are not known to be: clean
    /// ones, those being flushed, and those past the bucket's bytes, which are zeros.
    fn note_readable(&self, residency: &mut Residency, from: u64, to: u64) -> Result<()> {
        let state = &residency.state;
        let to = to.min(page_ceil(state.size));
        let known = state.ranges.within(from, to).filter(|r| r.1 != PageState::Dirty);
        let mut pages: Vec<_> = known.map(|(range, _)| range).collect();
        pages.extend(state.ranges.gaps(from.max(page_ceil(state.remote_end)), to));
        let (ino, size, pending) = (self.ino, state.size, state.pending);
        pages.into_iter().try_for_each(|ByteRange { start, end }| {
            self.note(residency, Entry::Dirtied { ino, start, end, size, pending })?;
            // However the write ends, they are to leave.
            residency.unjournaled.set(start, end, PageState::Dirty);
            residency.dirty_since_ms.get_or_insert_with(|| self.shared.now_ms());
            Ok(())
        })
    }

    /// After a write that failed: no byte of it may show where residency knows nothing of it.
    fn clean_up(&self, residency: &mut Residency, from: u64, to: u64) {
        // A fill may have put its bytes here, and not noted them yet.
        residency.stamp.add(from, to);
        for ByteRange { start, end } in residency.state.ranges.gaps(from, to) {
            residency.leftover.set(start, end, PageState::Hole);
        }
        residency.leftover.set(residency.state.size, u64::MAX, PageState::Hole);
        if let Err(error) = self.take_out_leftover(residency) {
            tracing::warn!(ino = %self.ino, %error, "a failed write left bytes behind: tried again");
        }
    }

    /// Makes zeros of what must be zeros and is not yet.
    pub(crate) fn take_out_leftover(&self, residency: &mut Residency) -> Result<()> {
        if residency.leftover.is_empty() {
            return Ok(());
        }
        let file = self.file()?;
        let bytes = file.metadata().map_err(|e| self.io("stat", e))?.len();
        let leftover: Vec<_> = residency.leftover.iter().collect();
        for (ByteRange { start, end }, _) in leftover {
            if end < bytes {
                disk::punch(&file, start, end).map_err(|e| self.io("punch", e))?;
            } else if start < bytes {
                disk::set_len(&file, start).map_err(|e| self.io("truncate", e))?;
            }
        }
        if residency.passthrough.active {
            disk::set_len(&file, residency.state.size).map_err(|e| self.io("extend", e))?;
        }
        residency.leftover = RangeMap::default();
        Ok(())
    }

    /// Data and hole ranges as far as this mirror knows better than the metadata: the dirty ones.
    pub fn dirty_ranges(&self, start: u64, end: u64) -> Vec<ByteRange> {
        let residency = self.read_state();
        let dirty = residency.state.ranges.within(start, end).filter(|r| r.1.is_dirty());
        dirty.map(|(range, _)| range).collect()
    }

    /// Closes the mirror file until it is needed again. A mirror that holds nothing is forgotten
    /// soon, unless somebody comes for it.
    ///
    /// While it has bytes that are nowhere else it stays open, to be told if the disk loses them;
    /// where too many are, they are brought to the disk first.
    pub fn idle(&self) {
        let residency = self.read_state();
        let open = self.file.lock().clone();
        if let (true, Some(file)) = (residency.is_watched(), open) {
            if self.shared.may_stay_open() {
                return;
            }
            if let Err(error) = disk::sync_data(&file) {
                drop(residency);
                return self.lost_at_sync(error);
            }
        }
        self.close_file();
        if residency.is_empty() {
            self.shared.idle_empty().push(self.ino);
        }
    }

    pub(crate) fn close_file(&self) {
        if self.file.lock().take().is_some() {
            self.shared.count_open(false);
        }
    }

    /// When it was last used, by [`Tier::tick`](crate::Tier::tick): the oldest is released first.
    pub fn last_used(&self) -> u64 {
        self.last_used.load(Ordering::Relaxed)
    }

    /// Stays the same as long as nobody but the users of this tier changed the file, and it was not
    /// forgotten in between: what was read from it may be kept that long.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Others changed it.
    pub(crate) fn next_epoch(&self) {
        self.epoch.store(self.shared.tick(), Ordering::Release);
    }

    /// Counts as a use.
    pub fn touch(&self) {
        self.last_used.store(self.shared.tick(), Ordering::Relaxed);
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.shared.mirror_path(self.ino)
    }

    /// The open mirror file, made if absent.
    pub(crate) fn file(&self) -> Result<Arc<File>> {
        let mut slot = self.file.lock();
        if let Some(file) = &*slot {
            return Ok(file.clone());
        }
        let mut options = private::options();
        options.read(true).write(true).truncate(false);
        let file = disk::open(&self.path(), &options).map_err(|e| self.io("open", e))?;
        let file = Arc::new(file);
        self.shared.count_open(true);
        *slot = Some(file.clone());
        Ok(file)
    }

    pub(crate) fn read_state(&self) -> RwLockReadGuard<'_, Residency> {
        self.residency.read()
    }

    pub(crate) fn write_state(&self) -> RwLockWriteGuard<'_, Residency> {
        self.residency.write()
    }

    pub(crate) fn check_alive(&self, residency: &Residency) -> Result<()> {
        match residency.gone {
            true => {
                Err(FsError::new(ErrorKind::NotFound, format!("inode {} is removed", self.ino)))
            }
            false => Ok(()),
        }
    }

    /// Refuses what would read or change bytes of `start..end` that are in doubt.
    fn check_doubt(&self, residency: &Residency, start: u64, end: u64) -> Result<()> {
        let dirty = || residency.state.ranges.within(start, end).any(|r| r.1.is_dirty());
        match residency.doubt && (residency.passthrough.active || dirty()) {
            true => Err(self.doubt_error()),
            false => Ok(()),
        }
    }

    pub(crate) fn io(&self, what: &str, error: std::io::Error) -> FsError {
        FsError::local_io(format!("{what} mirror file {}", self.path().display()), error)
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.close_file();
        let residency = self.residency.get_mut();
        self.shared.files.fetch_sub(1, Ordering::Relaxed);
        self.shared.memory_bytes.fetch_sub(residency.memory_bytes, Ordering::Relaxed);
    }
}

/// The first and last page of a write, where it covers them in part and they are released.
fn partial_pages(state: &MirrorState, offset: u64, end: u64) -> Vec<ByteRange> {
    let mut missing = Vec::new();
    let (first, last) = (page_floor(offset), page_floor(end));
    if first != offset {
        missing.extend(gaps_below(state, first, first + PAGE_BYTES));
    }
    // Bytes past the end of the file are zeros, and no reason to fetch.
    let covers_rest = end >= state.remote_end;
    if last != end && !covers_rest && (last != first || first == offset) {
        missing.extend(gaps_below(state, last, last + PAGE_BYTES));
    }
    missing
}
