//! Changes of a file that are not writes: growth, truncation, holes, and what happened elsewhere.

use std::fs;
use std::sync::atomic::Ordering;

use weir_types::{ByteRange, ErrorKind, FsError, Inode, Result, UnixTime};

use crate::disk;
use crate::log::{Entry, MirrorState};
use crate::mirror::written::Written;
use crate::mirror::{Mirror, Residency, gaps_below};
use crate::mirror_file::copy_file;
use crate::pending::Pending;
use crate::ranges::{PAGE_BYTES, PageState, page_ceil, page_floor};

impl Mirror {
    /// Makes the file at least `size` bytes long; the new ones are zeros.
    pub fn grow(&self, size: u64, now: UnixTime) -> Result<()> {
        let mut residency = self.write_state();
        self.check_alive(&residency)?;
        if size <= residency.state.size {
            return Ok(());
        }
        self.take_out_leftover(&mut residency)?;
        let pending = Pending::written(now);
        self.note(&mut residency, Entry::Pending { ino: self.ino, size, pending })?;
        residency.dirty_since_ms.get_or_insert_with(|| self.shared.now_ms());
        if residency.passthrough.active {
            self.before_own_change(&mut residency)?;
            disk::set_len(&*self.file()?, size).map_err(|e| self.io("extend", e))?;
            self.after_own_change(&mut residency)?;
        }
        Ok(())
    }

    /// Clean pages of `start..end` (whole pages) become dirty, so that they leave for the bucket once
    /// more: where they came from is not to be needed any longer. No byte or time changes.
    pub fn adopt(&self, start: u64, end: u64) -> Result<()> {
        let mut residency = self.write_state();
        self.check_alive(&residency)?;
        let resident = residency.state.ranges.within(page_floor(start), page_ceil(end));
        let clean: Vec<_> = resident.filter(|r| r.1 == PageState::Resident).collect();
        let (ino, size, pending) = (self.ino, residency.state.size, residency.state.pending);
        for (ByteRange { start, end }, _) in clean {
            self.note(&mut residency, Entry::Dirtied { ino, start, end, size, pending })?;
            residency.unjournaled.set(start, end, PageState::Dirty);
            residency.written.all_of(start, end);
        }
        if residency.has_unflushed() {
            residency.dirty_since_ms.get_or_insert_with(|| self.shared.now_ms());
        }
        Ok(())
    }

    /// Somebody set the times in the metadata: what a write left pending for them is void.
    pub fn forget_pending_times(&self, mtime: bool, ctime: bool) -> Result<()> {
        self.shared.settling.note(self.ino);
        let mut residency = self.write_state();
        let mut pending = residency.state.pending;
        pending.mtime = pending.mtime.filter(|_| !mtime);
        pending.ctime = pending.ctime.filter(|_| !ctime);
        if pending == residency.state.pending {
            return Ok(());
        }
        let size = residency.state.size;
        self.note(&mut residency, Entry::Pending { ino: self.ino, size, pending })
    }

    /// The metadata dropped `start..end` (a truncation, hole or copy) in `generation`: local bytes
    /// there are void. `size` is the new size where that was the point; else the file ends where it
    /// did, or where a copy ends. `remote` says whether the range holds bytes of the bucket
    /// afterwards (a copy) or zeros.
    pub fn dropped(
        &self,
        range: ByteRange,
        size: Option<u64>,
        generation: u64,
        remote: bool,
    ) -> Result<()> {
        let ByteRange { start, end } = range;
        self.shared.settling.note(self.ino);
        let mut residency = self.write_state();
        self.unseal()?;
        let old_size = residency.state.size;
        // What ends elsewhere than before is another file: no size that was noted before holds.
        match size.is_none() && end <= old_size {
            true => residency.mark_dropped(page_floor(start), page_ceil(end)),
            false => residency.mark_all_dropped(),
        }
        if residency.gone {
            return Ok(());
        }
        let cut_to = size;
        if cut_to == Some(0) {
            self.rewritten.store(false, Ordering::Relaxed);
        }
        let size = size.unwrap_or(if remote { old_size.max(end) } else { old_size });
        // Pages covered in part keep their other bytes.
        let (first, last) =
            (page_ceil(start), page_floor(end.min(size.max(start))).max(page_ceil(start)));
        let cut_at_end = end >= residency.state.size;
        let clear_to = if cut_at_end { u64::MAX / PAGE_BYTES * PAGE_BYTES } else { last };
        let remote_end = match () {
            () if remote => residency.state.remote_end.max(end),
            () if cut_at_end => residency.state.remote_end.min(start),
            () => residency.state.remote_end,
        };
        let ino = self.ino;
        let entry =
            Entry::Dropped { ino, start: first, end: clear_to, size, generation, remote_end };
        let nothing_here = residency.state.ranges.within(first, clear_to).next().is_none();
        self.note(&mut residency, entry)?;
        residency.unjournaled.clear(first, clear_to);
        // A disk whose records go past the tier has no file to change for each.
        if remote && cut_to.is_none() && nothing_here && self.filling.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        self.before_own_change(&mut residency)?;
        let file = self.file()?;
        // Who reads the mirror file itself must never find it shorter than the file.
        let end = clear_to.min(page_ceil(old_size));
        let (changed, void) = match cut_to {
            Some(size) => (disk::set_len(&file, size), (size, u64::MAX)),
            None => (disk::punch(&file, first, end), (first, end)),
        };
        if let Err(error) = changed {
            residency.leftover.set(void.0, void.1, PageState::Hole);
            return Err(self.io("cut or punch", error));
        }
        if cut_to.is_none() {
            self.name_holes(
                &mut residency,
                ByteRange::new(first, if remote { first } else { end }),
            )?;
        }
        self.after_own_change(&mut residency)
    }

    /// Whether what is here is of the file as the metadata has it, but for what it does not have yet.
    pub fn is_in_step(&self, inode: &Inode) -> bool {
        let residency = self.read_state();
        let state = &residency.state;
        let same_size = state.pending.size || state.size == inode.size;
        residency.verified && residency.generation() == inode.data.generation && same_size
    }

    /// Compares with the inode, and lets go of what changed elsewhere or was cut off by a crash
    /// between the metadata's commit and the note of it here.
    pub(crate) fn revalidate(&self, inode: &Inode) -> Result<()> {
        if self.is_in_step(inode) {
            return Ok(());
        }
        let mut residency = self.write_state();
        let mut state = residency.state.clone();
        if !state.pending.size {
            state.size = inode.size;
        }
        let missed = inode.data.generation.wrapping_sub(residency.generation());
        // Where others write the volume, who was lent the mirror file is parted from it by `trim`.
        let among_nodes = self.shared.among_nodes.load(Ordering::Acquire);
        let passthrough = residency.passthrough.active && !among_nodes;
        if missed != 0 {
            // What is lent was in step since this process began, and nobody else writes the volume.
            let ours = missed == 1 && (passthrough || self.shared.alone.load(Ordering::Acquire));
            if passthrough && !ours {
                let text = format!("inode {} changed elsewhere while programs read it", self.ino);
                return Err(FsError::new(ErrorKind::Conflict, text));
            }
            let ByteRange { start, end } = void_of_missed_drop(inode);
            if ours {
                let void: Vec<_> = state.ranges.within(start, end).collect();
                void.into_iter().for_each(|(range, _)| state.ranges.clear(range.start, range.end));
            } else {
                keep_dirty(&mut state, &residency.written, inode, 0);
                residency.written.others_changed();
            }
            if let (true, Some(ByteRange { start, end: u64::MAX })) = (ours, inode.data.dropped) {
                state.size = start;
                state.pending.size = false;
            }
            if ours {
                state.size = state.size.max(if state.pending.size { inode.size } else { 0 });
            }
            match among_nodes && !ours {
                true => residency.others_made(&mut state, inode.data.generation),
                false => state.generation = inode.data.generation,
            }
            state.remote_end = inode.size;
            if passthrough {
                // Nothing of it was released, so what has no bytes here has none anywhere.
                for ByteRange { start, end } in state.ranges.gaps(0, page_ceil(state.size)) {
                    state.ranges.set(start, end, PageState::Hole);
                }
            }
            match ours {
                true => residency.mark_all_dropped(),
                // What is on its way is as good as before.
                false => residency.stamp.add_all(),
            }
            self.next_epoch();
        } else if state.size != residency.state.size {
            self.next_epoch();
        }
        self.become_state(&mut residency, state)
    }

    /// The generation of the inode that its clean pages are of.
    pub fn generation(&self) -> u64 {
        self.read_state().generation()
    }

    /// Others changed the file between two changes of ours, or bytes were put behind its end that are not
    /// here, and `inode` is as it is now: no clean page from `first` on is believed. What is dirty stays, and
    /// is on its way still.
    pub fn changed_from(&self, inode: &Inode, first: u64) -> Result<()> {
        let mut residency = self.write_state();
        if residency.gone {
            return Ok(());
        }
        let mut state = residency.state.clone();
        keep_dirty(&mut state, &residency.written, inode, page_floor(first));
        residency.written.others_changed();
        self.next_epoch();
        residency.others_made(&mut state, inode.data.generation);
        state.remote_end = inode.size;
        residency.stamp.add_all();
        self.become_state(&mut residency, state)
    }

    /// Somebody else changed the file since it had the generation `since`: these ranges hold other
    /// bytes, or any where that is not known. For who only reads the volume.
    pub fn changed_elsewhere(
        &self,
        inode: &Inode,
        since: u64,
        ranges: Option<&[ByteRange]>,
    ) -> Result<()> {
        let mut residency = self.write_state();
        let mut state = residency.state.clone();
        if residency.passthrough.active {
            let text = format!("inode {} changed elsewhere while programs read it", self.ino);
            return Err(FsError::new(ErrorKind::Conflict, text));
        }
        let all = [ByteRange::new(0, u64::MAX)];
        let known = ranges.filter(|_| residency.verified && residency.generation() == since);
        let behind = ByteRange::new(page_ceil(inode.size), u64::MAX);
        for ByteRange { start, end } in known.unwrap_or(&all).iter().chain([&behind]) {
            state.ranges.clear(*start, *end);
        }
        state.size = inode.size;
        (state.generation, residency.later) = (inode.data.generation, None);
        state.remote_end = inode.size;
        residency.mark_all_dropped();
        self.become_state(&mut residency, state)
    }

    /// Clean pages whose bytes are not believed go.
    pub(super) fn let_go_stale(&self, residency: &mut Residency, pages: &[u64]) -> Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        let mut state = residency.state.clone();
        pages.iter().for_each(|page| state.ranges.clear(*page, page + PAGE_BYTES));
        residency.stamp.add_all();
        self.next_epoch();
        self.become_state(residency, state)
    }

    fn become_state(&self, residency: &mut Residency, state: MirrorState) -> Result<()> {
        let differs = state != residency.state;
        if let Err(error) = self.trim(residency, &state) {
            // Some of it may be zeros by now.
            let known: Vec<_> = residency.state.ranges.iter().collect();
            for ByteRange { start, end } in
                known.iter().flat_map(|(range, _)| state.ranges.gaps(range.start, range.end))
            {
                let ino = self.ino;
                self.take_up(residency, &Entry::Released { ino, start, end });
            }
            return Err(error);
        }
        if differs {
            self.note(residency, Entry::Whole(state))?;
        }
        residency.verified = true;
        Ok(())
    }

    /// Makes the file hold zeros wherever `new` no longer has pages that `old` had, and end where
    /// `new` ends: a write that a crash cut off may have left bytes behind the end.
    fn trim(&self, residency: &mut Residency, new: &MirrorState) -> Result<()> {
        let Ok(metadata) = fs::metadata(self.path()) else {
            return Ok(());
        };
        self.unseal()?;
        let longer = metadata.len() > new.size;
        let old = residency.state.ranges.iter();
        let void: Vec<_> =
            old.flat_map(|(range, _)| new.ranges.gaps(range.start, range.end)).collect();
        let among_nodes = self.shared.among_nodes.load(Ordering::Acquire);
        // What is not here would be zeros to who reads the mirror file.
        let lacks = among_nodes && !gaps_below(new, 0, page_ceil(new.size)).is_empty();
        let parts = among_nodes || !residency.passthrough.active;
        let differs = longer || lacks || !void.is_empty();
        if differs && parts && self.settle_passthrough(residency)? {
            // Programs of a mount before this one, and where other nodes change it those of this one, go on
            // with the file as it was.
            let kept: Vec<_> = new.ranges.iter().map(|(range, _)| range).collect();
            copy_file(&self.path(), &kept, new.size).map_err(|e| self.io("copy", e))?;
            self.part(residency);
            return Ok(());
        }
        let file = self.file()?;
        let resize = metadata.len() != new.size && (longer || residency.passthrough.active);
        if !resize && void.is_empty() {
            return Ok(());
        }
        self.before_own_change(residency)?;
        if resize {
            disk::set_len(&file, new.size).map_err(|e| self.io("trim", e))?;
        }
        for ByteRange { start, end } in void {
            disk::punch(&file, start, end).map_err(|e| self.io("punch", e))?;
        }
        self.after_own_change(residency)
    }
}

/// Lets go of all from `first` on that is not dirty, since others changed the file. It ends where they say,
/// or behind the last byte that was written here: behind that it may have been longer before they cut it.
fn keep_dirty(state: &mut MirrorState, written: &Written, inode: &Inode, first: u64) {
    let all: Vec<_> = state.ranges.iter().collect();
    let mut end = inode.size;
    for (range, page) in all {
        match page.is_dirty() {
            true => end = end.max(written.end_of(&range, page).min(state.size)),
            false => state.ranges.clear(range.start.max(first), range.end.max(first)),
        }
    }
    state.size = end;
    state.pending.size = end != inode.size;
}

/// The pages that the last drop of an inode voided, where the note of it was missed. The last page
/// of the file may have been replaced in part.
fn void_of_missed_drop(inode: &Inode) -> ByteRange {
    match inode.data.dropped {
        Some(ByteRange { start, end }) if end >= inode.size => {
            ByteRange::new(page_ceil(start), page_ceil(end))
        }
        Some(ByteRange { start, end }) => ByteRange::new(page_ceil(start), page_floor(end)),
        None => ByteRange::default(),
    }
}
