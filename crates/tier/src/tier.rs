//! The tier directory: all mirrors, their account, and the life of the whole.
//!
//! ```text
//! lock                 held (flock) by the daemon that uses the tier
//! residency/*.log      what is known of each page
//! mirror/<2 hex>/<16 hex>  mirror files, by the low byte and all of the inode number
//! aside/<label>/       dirty data that must not be flushed, and a manifest of it
//! ```

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use weir_types::{ErrorKind, FsError, Ino, Inode, Result};

use crate::disk;
use crate::locked::lock_directory;
use crate::log::{Entry, MirrorState};
use crate::mirror::Mirror;
use crate::mirror::passthrough_use::InPassthrough;
use crate::place::{check_directory, file_system_instance};
use crate::private;
use crate::record_log::RecordLog;
use crate::recover::{Era, Recovered, Replay, remove_unknown};
use crate::sealed::SealedDirectory;
use crate::settled::{Moment, Settling};
use crate::shared::TierState;
use crate::space::{AskSpace, Asked};

/// Log bytes at which the residency log is written anew in short; on a small disk, a part of it.
const COMPACT_BYTES: u64 = 64 << 20;
const COMPACT_PART: u64 = 64;

/// File that names, in hex, the inodes of which what was in doubt was set aside in a recovery that is
/// not complete.
const LOST: &str = "lost";

/// Most mirror files that stay open only to be told if the disk loses bytes of them.
const OPEN_FILES_MAX: u64 = 32_768;

/// What a tier is opened with.
#[derive(Clone)]
pub struct TierOptions {
    /// The directory; made if absent. One volume, one daemon.
    pub directory: PathBuf,
    /// Room for mirror files, in bytes.
    pub tier_bytes: u64,
    /// Share in percent of that room above which clean pages are released.
    pub high_water_percent: u8,
    /// Share in percent down to which they are released.
    pub low_water_percent: u8,
    /// Bytes that the disk keeps free whatever the tier may take.
    pub free_floor_bytes: u64,
    /// Names this boot of the machine: another one means that unsynced bytes are lost.
    pub boot_id: String,
    /// Milliseconds on a clock that never goes back.
    pub now_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Memory for what is known of the files in the tier, in bytes.
    pub memory_bytes: u64,
    /// Tells the disk's space.
    pub ask_space: AskSpace,
    /// What the daemon had in whose place this one goes on, if there was one.
    pub inherited: Inherited,
    /// Encrypted directories that it lies in, or what else must stay as long as this: they are closed behind it.
    pub sealed: Vec<Arc<SealedDirectory>>,
}

/// What a daemon leaves to one that goes on in its place, beside what is on the disk.
#[derive(Clone, Debug, Default)]
pub struct Inherited {
    /// Its locks of directories, held ever since.
    pub locks: Vec<Arc<File>>,
    /// The mirror files that others have open or mapped.
    pub in_passthrough: Vec<InPassthrough>,
}

/// All mirror files of one volume on one machine.
pub struct Tier {
    pub(crate) shared: Arc<TierState>,
    pub(crate) mirrors: Mutex<HashMap<Ino, Arc<Mirror>>>,
    pub(crate) options: TierOptions,
    pub(crate) asked: Mutex<Option<Asked>>,
    confirmed: AtomicBool,
    era: Era,
    /// What stands in the log for it until then, if a recovery is not one from a power cut.
    until_confirmed: Option<Era>,
    /// Files of which what was in doubt was set aside in the recovery that goes on.
    lost: Mutex<BTreeSet<Ino>>,
    /// The directory, open since before anything was read from it: it is told of each loss.
    root: File,
    /// There was one.
    unsound: AtomicBool,
    lock: Arc<File>,
}

impl Tier {
    /// Opens the tier in its directory, takes its lock, and recovers what the last user left.
    pub fn open(options: TierOptions) -> Result<(Self, Recovered)> {
        let directory = options.directory.clone();
        check_directory("tier", &directory)?;
        private::make_directory(&directory)?;
        let lock = lock_directory(&directory, &options.inherited.locks)?;
        let root = disk::open_read(&directory)
            .map_err(|e| FsError::local_io(format!("open {}", directory.display()), e))?;
        let mirrors = make_mirror_directories(&directory)?;
        let mut replay = Replay::default();
        let log = RecordLog::open(&directory.join("residency"), |bytes| replay.entry(bytes))?;
        let era =
            Era { boot: options.boot_id.clone(), file_system: file_system_instance(&directory) };
        let held = options.inherited.in_passthrough.iter();
        let held: HashMap<Ino, InPassthrough> = held.map(|one| (one.ino, *one)).collect();
        let stays = |ino| held.contains_key(&ino);
        let lost_bytes = || disk::syncfs(&root).is_err();
        let outcome = replay.finish(&era, &mirrors, lost_bytes, stays)?;
        let lost = read_lost(&directory)?;
        let space = (options.ask_space)(&directory)?;
        let floor = space.floor_bytes(options.free_floor_bytes);
        let shared = Arc::new(TierState {
            reserves_by_block: disk::reserves_by_block(&directory),
            directory,
            log,
            used_bytes: AtomicU64::new(0),
            dirty_bytes: AtomicU64::new(0),
            files: AtomicU64::new(0),
            memory_bytes: AtomicU64::new(0),
            ticks: AtomicU64::new(0),
            settling: Settling::default(),
            idle_empty: Mutex::default(),
            listed: Mutex::default(),
            alone: AtomicBool::new(false),
            among_nodes: AtomicBool::new(false),
            passthrough: Mutex::default(),
            passthrough_bytes: AtomicU64::new(0),
            passthrough_bytes_max: options.tier_bytes.min(space.bytes - floor) / 2,
            leases: AtomicBool::new(false),
            doubted: Mutex::default(),
            open_files: AtomicU64::new(0),
            open_files_max: open_files_max(),
            now_ms: options.now_ms.clone(),
        });
        let recovered = outcome.mirrors.into_iter().map(|left| {
            let mirror = Arc::new(Mirror::recovered(shared.clone(), left));
            mirror.may_be_in_passthrough();
            let before = held.get(&mirror.ino).filter(|_| outcome.how == Recovered::Killed);
            before.into_iter().for_each(|before| mirror.stays_in_passthrough(before));
            (mirror.ino, mirror)
        });
        let all = Mutex::new(recovered.collect());
        let confirmed = matches!(outcome.how, Recovered::Clean | Recovered::Killed);
        let tier = Self {
            shared,
            mirrors: all,
            options,
            asked: Mutex::default(),
            confirmed: AtomicBool::new(confirmed),
            era,
            until_confirmed: outcome.incomplete,
            root,
            unsound: AtomicBool::new(false),
            lost,
            lock,
        };
        tier.finish_set_aside()?;
        tier.compact()?;
        let known = |ino| tier.all().contains_key(&ino);
        remove_unknown(&mirrors, outcome.how, &outcome.gone, known)?;
        Ok((tier, outcome.how))
    }

    /// Says that nobody but the users of this tier changed the volume since it was last used. A
    /// mirror that is one change behind its inode then missed one of our own, which a crash cut
    /// off from its note here; without this, any difference means that its pages are stale.
    pub fn set_alone(&self) {
        self.shared.alone.store(true, Ordering::Release);
    }

    /// Says that others write the volume, too: from now on only those bytes of a page leave that were written
    /// here, and not the whole page.
    pub fn set_shared(&self) {
        self.shared.among_nodes.store(true, Ordering::Release);
    }

    /// The mirror of a file, made if absent, and in step with the inode as the metadata has it.
    pub fn mirror(&self, inode: &Inode) -> Result<Arc<Mirror>> {
        let mirror = {
            let mut all = self.all();
            if let Some(mirror) = all.get(&inode.ino) {
                mirror.clone()
            } else {
                let state = MirrorState::new(inode.ino, inode.size, inode.data.generation);
                let mirror = Arc::new(Mirror::new(self.shared.clone(), state));
                all.insert(inode.ino, mirror.clone());
                return Ok(mirror);
            }
        };
        mirror.revalidate(inode)?;
        Ok(mirror)
    }

    /// The mirror of `ino`, if it has one.
    pub fn find(&self, ino: Ino) -> Option<Arc<Mirror>> {
        self.all().get(&ino).cloned()
    }

    /// The file is no more: its mirror goes, dirty or not.
    pub fn remove(&self, ino: Ino) -> Result<()> {
        let Some(mirror) = self.all().remove(&ino) else {
            return Ok(());
        };
        let mut residency = mirror.write_state();
        mirror.set_passthrough(&mut residency, false);
        // Without the note the next mount finds a mirror of a file that is no more, and lets it go.
        let noted = match residency.logged {
            true => Entry::Gone { ino }.encode().and_then(|entry| self.shared.log.append(&entry)),
            false => Ok(()),
        };
        let state = &residency.state;
        self.shared.account(0, state.local_bytes(), 0, state.dirty_bytes());
        self.shared.doubted().remove(&ino);
        mirror.unlist(&mut residency);
        residency.mark_gone();
        mirror.close_file();
        remove_if_there(&mirror).and(noted)
    }

    /// The mirrors whose files others may have open or mapped.
    pub fn in_passthrough_now(&self) -> Vec<Arc<Mirror>> {
        let in_passthrough: Vec<_> = {
            let known = self.shared.passthrough.lock();
            known.iter().copied().collect()
        };
        in_passthrough.into_iter().filter_map(|ino| self.find(ino)).collect()
    }

    /// What a daemon that goes on in the place of this one is to be given.
    pub fn to_inherit(&self) -> Inherited {
        let all = self.in_passthrough_now();
        let in_passthrough = all.iter().filter_map(|mirror| mirror.passthrough_use()).collect();
        Inherited { locks: vec![self.lock.clone()], in_passthrough }
    }

    /// Whether `ino` is among them, as far as was looked.
    pub fn in_passthrough(&self, ino: Ino) -> bool {
        self.shared.passthrough.lock().contains(&ino)
    }

    /// The mirrors of which dirty bytes are in doubt; see [`Mirror::check_sound`].
    pub fn in_doubt(&self) -> Vec<Arc<Mirror>> {
        let doubted: Vec<_> = self.shared.doubted().iter().copied().collect();
        doubted.into_iter().filter_map(|ino| self.find(ino)).collect()
    }

    /// Whether any mirror may have something that the bucket has not. Costs nothing.
    pub fn may_have_unflushed(&self) -> bool {
        !self.shared.listed().is_empty()
    }

    /// The mirrors that have something the bucket has not, and of which no byte is in doubt, those
    /// waiting longest first.
    pub fn unflushed(&self) -> Vec<Arc<Mirror>> {
        let listed: Vec<_> = self.shared.listed().iter().copied().collect();
        let mut found = Vec::new();
        for mirror in listed.into_iter().filter_map(|ino| self.find(ino)) {
            let (unflushed, doubt) = {
                let residency = mirror.read_state();
                (residency.has_unflushed(), residency.doubt)
            };
            if unflushed {
                found.extend((!doubt).then_some(mirror));
                continue;
            }
            let mut residency = mirror.write_state();
            if !residency.has_unflushed() {
                mirror.unlist(&mut residency);
            }
        }
        found.sort_by_key(|m| m.dirty_since_ms());
        found
    }

    /// The time of uses: what is used later has a larger one.
    pub fn tick(&self) -> u64 {
        self.shared.tick()
    }

    /// Now. To be taken before the metadata is read.
    pub fn moment(&self) -> Moment {
        self.shared.settling.moment()
    }

    /// Whether what the mirror of `ino` had pending may have gone to the metadata since. To be
    /// asked after the mirror was.
    pub fn settled_since(&self, moment: &Moment, ino: Ino) -> bool {
        self.shared.settling.noted_since(moment, ino)
    }

    /// Bytes that are not in the bucket yet.
    pub fn dirty_bytes(&self) -> u64 {
        self.shared.dirty_bytes.load(Ordering::Relaxed)
    }

    /// The encrypted directories that it was opened with. Who goes on having them when all else is gone closes them.
    pub fn sealed(&self) -> &[Arc<SealedDirectory>] {
        &self.options.sealed
    }

    /// Where it lies.
    pub fn directory(&self) -> &Path {
        &self.options.directory
    }

    /// Durably remembers that what a journal has of these files is needed, until [`Tier::confirm`].
    pub(crate) fn remember_lost(&self, mirrors: &[Arc<Mirror>]) -> Result<()> {
        if mirrors.is_empty() {
            return Ok(());
        }
        let path = self.options.directory.join(LOST);
        let mut lost = self.lost.lock();
        lost.extend(mirrors.iter().map(|mirror| mirror.ino));
        let text = lost.iter().map(|ino| format!("{:x}\n", ino.0)).collect::<String>();
        disk::replace(&path, text.as_bytes())
            .map_err(|e| FsError::local_io(format!("write {}", path.display()), e))
    }

    /// The files of which what was here was set aside by [`Tier::set_doubtful_aside`] in a recovery
    /// that is not complete: what a journal has of them is needed.
    pub fn lost(&self) -> BTreeSet<Ino> {
        self.lost.lock().clone()
    }

    /// Syncs the disk and notes which mirrors are wholly on it: those a power cut does not touch.
    /// Costs one `syncfs`; a sealed mirror costs one `fdatasync` when it next changes.
    pub fn seal(&self) -> Result<()> {
        let all: Vec<_> = self.all().values().cloned().collect();
        let before: Vec<_> = all
            .into_iter()
            .filter(|m| !m.sealed.load(Ordering::Acquire))
            .filter_map(|m| {
                let residency = m.read_state();
                let wanted = residency.logged
                    && !residency.has_unflushed()
                    && !residency.passthrough.writable;
                let changes = residency.changes;
                drop(residency);
                wanted.then_some((changes, m))
            })
            .collect();
        self.sync_disk()?;
        for (changes, mirror) in before {
            let residency = mirror.write_state();
            if residency.changes == changes {
                let inos = vec![mirror.ino];
                self.shared.log.append(&Entry::Sealed { inos }.encode()?)?;
                mirror.sealed.store(true, Ordering::Release);
            }
        }
        self.shared.log.sync()
    }

    /// Brings all to the disk. Once that failed nothing is known of what was not on the disk before:
    /// clean pages go, and nothing is sealed until the tier is opened anew.
    fn sync_disk(&self) -> Result<()> {
        let failed = match self.unsound.load(Ordering::Acquire) {
            true => None,
            false => match disk::syncfs(&self.root) {
                Ok(()) => return Ok(()),
                Err(error) => Some(error),
            },
        };
        let text = "the tier's disk lost bytes that it had taken: look after it, and mount again; \
                    until then a power cut costs all that is in the tier only";
        let Some(error) = failed else { return Err(FsError::new(ErrorKind::Corrupt, text)) };
        self.unsound.store(true, Ordering::Release);
        tracing::error!(%error, directory = %self.options.directory.display(), "{text}");
        let all: Vec<_> = self.all().values().cloned().collect();
        for mirror in all.iter().filter(|m| !m.sealed.load(Ordering::Acquire)) {
            mirror.let_go(&mut mirror.write_state());
            // The next user of the tier is not told by a sync any more: what is in doubt is noted now.
            let _ = mirror.check_sound();
        }
        Err(FsError::new(ErrorKind::Corrupt, text).with_source(error))
    }

    /// Seals everything and notes a clean end. Nothing may use the tier after this.
    ///
    /// `safe` says that all else the last user knew is on a disk or in the bucket as well. What is
    /// dirty then stays dirty, over a reboot too.
    pub fn close(&self, safe: bool) -> Result<()> {
        let all: Vec<_> = self.all().values().cloned().collect();
        for mirror in all.iter().filter(|mirror| !mirror.read_state().logged) {
            // The next user takes every file for one that the log speaks of.
            remove_if_there(mirror)?;
        }
        self.compact()?;
        self.seal()?;
        if safe && self.confirmed.load(Ordering::Acquire) {
            self.shared.log.append(&Entry::Closed.encode()?)?;
        }
        self.shared.log.sync()
    }

    /// The recovery that [`Tier::open`] began is complete: what else survived (a journal) has been
    /// taken up. Until this, the next open recovers the same way again.
    pub fn confirm(&self) -> Result<()> {
        self.confirmed.store(true, Ordering::Release);
        self.shared.log.append(&self.opened().encode()?)?;
        self.shared.log.sync()?;
        match disk::remove_file(&self.options.directory.join(LOST)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(FsError::local_io(format!("remove {LOST} of the tier"), e))
            }
            _ => Ok(()),
        }
    }

    /// What this tier has is not all that must be recovered: until [`Tier::confirm`], the next open
    /// keeps no more of it than after a power cut.
    pub fn doubt(&self) -> Result<()> {
        self.confirmed.store(false, Ordering::Release);
        self.shared.log.append(&self.opened().encode()?)?;
        self.shared.log.sync()
    }

    /// What names the boot in the log; an unconfirmed recovery is of no boot.
    fn opened(&self) -> Entry {
        let confirmed = self.confirmed.load(Ordering::Acquire);
        let era = if confirmed { Some(&self.era) } else { self.until_confirmed.as_ref() };
        Entry::Opened { boot_id: era.map(Era::text).unwrap_or_default() }
    }

    /// The files that have a mirror.
    pub fn inos(&self) -> Vec<Ino> {
        self.all().keys().copied().collect()
    }

    /// Lets go of all mirrors, whatever they hold.
    pub fn remove_all(&self) -> Result<()> {
        self.inos().into_iter().try_for_each(|ino| self.remove(ino))
    }

    /// Forgets mirrors without local bytes that nobody holds.
    pub(crate) fn forget_empty(&self) -> Result<()> {
        let mut result = Ok(());
        self.all().retain(|_, mirror| {
            let keep = result.is_err() || in_use(mirror);
            if !keep {
                result = self.forget(mirror);
            }
            keep || result.is_err()
        });
        result
    }

    /// The same for those that held nothing when their last user went: memory grows with what is
    /// local, not with what was ever looked at.
    fn forget_idle(&self) -> Result<()> {
        let idle = std::mem::take(&mut *self.shared.idle_empty());
        for ino in idle {
            let mut all = self.all();
            if let Some(mirror) = all.get(&ino).filter(|mirror| !in_use(mirror)) {
                self.forget(mirror)?;
                all.remove(&ino);
            }
        }
        Ok(())
    }

    /// The file first: a mirror that is not known has none.
    fn forget(&self, mirror: &Mirror) -> Result<()> {
        remove_if_there(mirror)?;
        let mut residency = mirror.write_state();
        mirror.unlist(&mut residency);
        match residency.logged {
            true => self.shared.log.append(&Entry::Gone { ino: mirror.ino }.encode()?),
            false => Ok(()),
        }
    }

    /// Forgets what is not needed, and writes the residency log anew if it has grown long. To be
    /// called every second or so; cheap when there is nothing to do.
    pub fn tidy(&self) -> Result<()> {
        self.forget_idle()?;
        let usual = COMPACT_BYTES.min(self.space()?.bytes / COMPACT_PART);
        let floor = usual.max(self.all().len() as u64 * 400);
        if self.shared.log.bytes() > floor { self.compact() } else { Ok(()) }
    }

    /// Each mirror's whole state goes to a new file under the mirror's own lock, so that entries
    /// made meanwhile come after it; then the old files can go.
    pub(crate) fn compact(&self) -> Result<()> {
        let number = self.shared.log.rotate()?;
        self.shared.log.append(&Entry::Begin.encode()?)?;
        let all: Vec<_> = self.all().values().cloned().collect();
        for mirror in all {
            let residency = mirror.write_state();
            if residency.gone || !residency.logged {
                continue;
            }
            self.shared.log.append_all(&Entry::Whole(residency.state.clone()).encode_all()?)?;
            if mirror.sealed.load(Ordering::Acquire) {
                self.shared.log.append(&Entry::Sealed { inos: vec![mirror.ino] }.encode()?)?;
            }
            if residency.passthrough.writable {
                let entry = Entry::Lent { ino: mirror.ino, writable: true };
                self.shared.log.append(&entry.encode()?)?;
            }
            if mirror.may_be_in_doubt(&residency) {
                self.shared.log.append(&mirror.doubt_note())?;
            }
        }
        self.shared.log.append(&self.opened().encode()?)?;
        self.shared.log.sync()?;
        self.shared.log.drop_before(number)
    }

    pub(crate) fn all(&self) -> MutexGuard<'_, HashMap<Ino, Arc<Mirror>>> {
        self.mirrors.lock()
    }
}

fn read_lost(directory: &Path) -> Result<Mutex<BTreeSet<Ino>>> {
    let path = directory.join(LOST);
    let text = match disk::read(&path) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(FsError::local_io(format!("read {}", path.display()), e)),
    };
    Ok(Mutex::new(text.lines().filter_map(|l| u64::from_str_radix(l, 16).ok().map(Ino)).collect()))
}

/// Mirror files that may stay open without need: others need descriptors, too.
fn open_files_max() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    (limit.unwrap_or(u64::MAX) / 2).min(OPEN_FILES_MAX)
}

/// Whether the map is not the only one that holds a mirror, or it holds something itself. While
/// the map is locked nobody can come for it.
fn in_use(mirror: &Arc<Mirror>) -> bool {
    Arc::strong_count(mirror) > 1 || !mirror.read_state().is_empty()
}

fn remove_if_there(mirror: &Mirror) -> Result<()> {
    match disk::remove_file(&mirror.path()) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(mirror.io("remove", e)),
        _ => Ok(()),
    }
}

/// Where mirrors lie, in a directory for each lowest byte of an inode number.
fn make_mirror_directories(tier: &Path) -> Result<PathBuf> {
    let mirrors = tier.join("mirror");
    for low in 0..=0xff_u8 {
        let bucket = mirrors.join(format!("{low:02x}"));
        private::make_directories(&bucket)
            .map_err(|e| FsError::local_io(format!("make {}", bucket.display()), e))?;
    }
    Ok(mirrors)
}
