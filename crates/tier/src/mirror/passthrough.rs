//! A mirror file in other hands: the kernel reads it for programs (FUSE passthrough), and some may
//! have it mapped.
//!
//! A mapping outlives the open file it was made with, and nobody says when it goes. So what was
//! lent stays lent until a lease shows that we alone have the file open ([`crate::lease`]).
//!
//! Who may map it for writing changes it without us. Traces of that are in the file's mtime: it is
//! set to a mark, and the first store into each page sets it to the time. What is found to be
//! changed is dirty as a whole, since nobody says which pages were.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

use weir_types::{ByteRange, ErrorKind, FsError, Result};

use crate::disk;
use crate::lease;
use crate::log::Entry;
use crate::mirror::passthrough_use::{InPassthrough, Lent, PassthroughUse};
use crate::mirror::{Mirror, Residency, gaps_below};
use crate::mirror_file::{data_ranges, last_store, set_mark};
use crate::pending::Pending;
use crate::ranges::{PageState, page_ceil};

impl Mirror {
    /// Lends the mirror file for reading, if all of the file is here, it has `least` bytes, and the
    /// tier can spare it: no page is released and the length is the file's size until
    /// [`Mirror::end_passthrough`] finds it unused, or others change the file ([`Mirror::lends`]). Call both
    /// equally often. What is lent already is lent again. `Unsupported` where the tier's file system has
    /// no leases; `Corrupt` where bytes of what is lent are in doubt.
    pub fn passthrough(&self, least: u64) -> Result<Option<Lent>> {
        // Nobody asks after the kernel has read.
        let sound = self.check_sound();
        let mut residency = self.write_state();
        let size = residency.state.size;
        let active = residency.passthrough.active;
        if let Err(error) = sound {
            return if active { Err(error) } else { Ok(None) };
        }
        let here = gaps_below(&residency.state, 0, page_ceil(size)).is_empty();
        let fits = active || self.shared.may_pass_through(residency.local_bytes);
        let wanted = self.is_wanted(&residency, least);
        if residency.gone || (size == 0 && !active) || !here || !fits || !wanted {
            return Ok(None);
        }
        self.take_out_leftover(&mut residency)?;
        let file = self.whole_file(size)?;
        if !self.shared.leases.load(Ordering::Relaxed) {
            lease::nobody_else(&file).map_err(|e| {
                let text = "the tier's file system has no leases (fcntl F_SETLEASE)";
                FsError::new(ErrorKind::Unsupported, text).with_source(e)
            })?;
            self.shared.leases.store(true, Ordering::Relaxed);
        }
        residency.passthrough.opens += 1;
        self.set_passthrough(&mut residency, true);
        Ok(Some(Lent { file, lending: residency.passthrough.lending }))
    }

    /// The kernel no longer opens the file that [`Mirror::passthrough`] gave it for this lending.
    pub fn end_passthrough(&self, lending: u64) -> Result<()> {
        let mut residency = self.write_state();
        if residency.passthrough.lending != lending {
            return Ok(());
        }
        residency.passthrough.opens = residency.passthrough.opens.saturating_sub(1);
        self.settle(&mut residency)
    }

    /// One more open file through which what is lent may be mapped for writing, until
    /// [`Mirror::end_passthrough_writer`].
    pub fn passthrough_writable(&self) -> Result<()> {
        let mut residency = self.write_state();
        self.check_alive(&residency)?;
        if !residency.passthrough.writable {
            self.note(&mut residency, Entry::Lent { ino: self.ino, writable: true })?;
            // Nobody can have mapped it for writing yet, so the next store into any page shows.
            set_mark(&*self.file()?).map_err(|e| self.io("mark", e))?;
            residency.passthrough.writable = true;
        }
        residency.passthrough.writers += 1;
        Ok(())
    }

    /// Ends what [`Mirror::passthrough_writable`] began; a mapping may still be there.
    pub fn end_passthrough_writer(&self) -> Result<()> {
        let mut residency = self.write_state();
        residency.passthrough.writers = residency.passthrough.writers.saturating_sub(1);
        self.settle(&mut residency)
    }

    /// Whether others may have the mirror file open or mapped, now that we looked again.
    pub fn in_passthrough(&self) -> Result<bool> {
        let known = {
            let residency = self.read_state();
            residency.passthrough.active || residency.passthrough.active_before
        };
        if !known {
            return Ok(false);
        }
        self.settle_passthrough(&mut self.write_state())
    }

    /// The same with the residency at hand.
    pub(crate) fn settle_passthrough(&self, residency: &mut Residency) -> Result<bool> {
        if residency.passthrough.active {
            self.settle(residency)?;
        }
        if residency.passthrough.active_before {
            // Where there are no leases, nothing was ever lent.
            let unused = self.unused(residency, lease::nobody_else).unwrap_or(true);
            residency.passthrough.active_before = !unused;
        }
        Ok(residency.passthrough.active || residency.passthrough.active_before)
    }

    /// A mount before this one may have lent the mirror file, and programs that it served may be
    /// alive: their pages must not turn into zeros.
    pub(crate) fn may_be_in_passthrough(&self) {
        self.write_state().passthrough.active_before = true;
    }

    /// Whether programs may store into the mirror file without us.
    pub fn may_be_stored(&self) -> bool {
        self.read_state().passthrough.writable
    }

    /// The file is opened to be changed in place: it is not lent any more until it is cut to
    /// nothing. What is changed in place mostly is so again and again (a database, a disk image),
    /// and beside readers of a lent file that costs more than it brings them.
    pub fn changed_in_place(&self) {
        self.rewritten.store(true, Ordering::Relaxed);
    }

    /// Marks the file dirty if somebody stored into it through a mapping. To be called now and
    /// then; [`Mirror::scan_mapped_writes`] before a flush.
    pub fn look_for_mapped_writes(&self) -> Result<()> {
        let mut residency = self.write_state();
        self.settle(&mut residency)?;
        if residency.passthrough.writable && self.was_stored(&residency)? {
            residency.passthrough.stored = true;
            self.mark_stored(&mut residency)?;
        }
        Ok(())
    }

    /// The same, so that a flush that follows has all stores up to now, and later ones are found
    /// again. Costs an `fdatasync` of the mirror file if there were any, or may have been: a write
    /// of our own makes its pages writable without a trace, and hides one of the same moment.
    pub fn scan_mapped_writes(&self) -> Result<()> {
        // Whoever comes second must not return while the first still syncs.
        let _scan = self.scanning.lock();
        let file = {
            let mut residency = self.write_state();
            self.settle(&mut residency)?;
            let passthrough = &residency.passthrough;
            if !passthrough.writable || !(passthrough.hidden || self.was_stored(&residency)?) {
                return Ok(());
            }
            // Stays if the sync fails. A write of our own during it hides stores anew.
            residency.passthrough.stored = true;
            (residency.passthrough.hidden, residency.passthrough.caught) = (false, true);
            let file = self.file()?;
            self.take_time(&mut residency, &file)?;
            set_mark(&file).map_err(|e| self.io("mark", e))?;
            file
        };
        // A page that is on the disk is write-protected: the next store into it shows in the mtime.
        // A flush meanwhile may take pages as they were before, so all are marked after it.
        if let Err(error) = disk::sync_data(&file) {
            self.lost_at_sync(error);
            return Err(self.doubt_error());
        }
        drop(file);
        let mut residency = self.write_state();
        self.mark_stored(&mut residency)?;
        residency.passthrough.stored = false;
        Ok(())
    }

    /// Before a change of our own to a file that others may have mapped: notes the traces of theirs.
    pub(crate) fn before_own_change(&self, residency: &mut Residency) -> Result<()> {
        if residency.passthrough.writable && !residency.passthrough.stored {
            residency.passthrough.stored = self.was_stored(residency)?;
        }
        Ok(())
    }

    /// After it: takes away its own trace. A store of others at the same moment leaves none then,
    /// so the next [`Mirror::scan_mapped_writes`] takes all of the file for changed, and so does the end,
    /// when nobody can store any more.
    pub(crate) fn after_own_change(&self, residency: &mut Residency) -> Result<()> {
        if residency.passthrough.writable {
            residency.passthrough.hidden = true;
            set_mark(&*self.file()?).map_err(|e| self.io("mark", e))?;
        }
        Ok(())
    }

    /// How others have it, if they do.
    pub(crate) fn passthrough_use(&self) -> Option<InPassthrough> {
        let residency = self.read_state();
        let PassthroughUse { lending, opens, writers, active, writable, .. } =
            residency.passthrough;
        active.then_some(InPassthrough { ino: self.ino, opens, writers, writable, lending })
    }

    /// Others had it so of the daemon before this one, and go on to. That one may have known of
    /// stores that left no trace.
    pub(crate) fn stays_in_passthrough(&self, before: &InPassthrough) {
        let mut residency = self.write_state();
        let passthrough = &mut residency.passthrough;
        (passthrough.opens, passthrough.writers) = (before.opens, before.writers);
        passthrough.lending = before.lending;
        (passthrough.writable, passthrough.hidden) = (before.writable, before.writable);
        self.set_passthrough(&mut residency, true);
    }

    /// Ends what is over: lending to writers, and lending at all.
    fn settle(&self, residency: &mut Residency) -> Result<()> {
        let passthrough = &residency.passthrough;
        if passthrough.writable
            && passthrough.writers == 0
            && self.unused(residency, lease::no_writer)?
        {
            let passthrough = &residency.passthrough;
            if passthrough.hidden || passthrough.caught || self.was_stored(residency)? {
                self.mark_stored(residency)?;
            }
            self.note(residency, Entry::Lent { ino: self.ino, writable: false })?;
            let PassthroughUse { stored, hidden, caught, writable, .. } =
                &mut residency.passthrough;
            (*stored, *hidden, *caught, *writable) = (false, false, false, false);
        }
        let passthrough = &residency.passthrough;
        if passthrough.active
            && !passthrough.writable
            && passthrough.opens == 0
            && self.unused(residency, lease::nobody_else)?
        {
            self.set_passthrough(residency, false);
            self.settle_doubt(residency);
        }
        Ok(())
    }

    /// Whether nobody but us has the mirror file open as `probe` asks. Nobody of us uses it while
    /// the residency is locked for a change.
    fn unused(
        &self,
        residency: &Residency,
        probe: impl Fn(&File) -> io::Result<bool>,
    ) -> Result<bool> {
        let before = self.file.lock().clone();
        let file = match disk::open_read(&self.path()) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(e) => return Err(self.io("open", e)),
        };
        self.close_file();
        // One descriptor or the other is open all the time, so that no loss of bytes is missed.
        if let Some(before) = before {
            self.believed(&before);
        }
        let unused = probe(&file).map_err(|e| self.io("ask for a lease of", e));
        if residency.is_watched() {
            self.file()?;
            self.believed(&file);
        }
        unused
    }

    pub(crate) fn set_passthrough(&self, residency: &mut Residency, active: bool) {
        if residency.passthrough.active != active {
            residency.passthrough.active = active;
            self.shared.count_passthrough(self.ino, active, residency.local_bytes);
            // Nobody else comes by to say that it is idle.
            if residency.is_empty() {
                self.shared.idle_empty().push(self.ino);
            }
        }
    }

    fn was_stored(&self, residency: &Residency) -> Result<bool> {
        let stored = || last_store(&*self.file()?).map_err(|e| self.io("stat", e));
        Ok(residency.passthrough.stored || stored()?.is_some())
    }

    /// The time of the last store becomes the file's.
    fn take_time(&self, residency: &mut Residency, file: &File) -> Result<()> {
        let Some(stored) = last_store(file).map_err(|e| self.io("stat", e))? else {
            return Ok(());
        };
        let (size, pending) = (residency.state.size, Pending::written(stored));
        self.note(residency, Entry::Pending { ino: self.ino, size, pending })
    }

    /// All data of the file is dirty.
    fn mark_stored(&self, residency: &mut Residency) -> Result<()> {
        if residency.gone {
            return Ok(());
        }
        let file = self.file()?;
        self.take_time(residency, &file)?;
        let size = residency.state.size;
        for ByteRange { start, end } in
            data_ranges(&file, size).map_err(|e| self.io("look through", e))?
        {
            let known = residency.state.ranges.within(start, end);
            if known.filter(|r| r.1 == PageState::Dirty).map(|r| r.0.len()).sum::<u64>()
                == end - start
            {
                continue;
            }
            let (ino, pending) = (self.ino, residency.state.pending);
            self.note(residency, Entry::Dirtied { ino, start, end, size, pending })?;
            residency.unjournaled.set(start, end, PageState::Dirty);
        }
        if residency.has_unflushed() {
            residency.dirty_since_ms.get_or_insert_with(|| self.shared.now_ms());
        }
        Ok(())
    }

    /// The mirror file, open for reading, made if absent and exactly as long as the file: who reads
    /// it reads up to its end. What lies past the written bytes are zeros.
    fn whole_file(&self, size: u64) -> Result<File> {
        let file = match disk::open_read(&self.path()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.file()?;
                disk::open_read(&self.path())
            }
            opened => opened,
        };
        let file = file.map_err(|e| self.io("open", e))?;
        if file.metadata().map_err(|e| self.io("stat", e))?.len() != size {
            disk::set_len(&*self.file()?, size).map_err(|e| self.io("extend", e))?;
        }
        Ok(file)
    }

    /// While the file is lent, pages without a state are holes and must not count as released: a
    /// fetch of what programs stored there since would be the end of that. To be called where the
    /// bucket is about to know the file as longer, and after a hole was made.
    pub(crate) fn name_holes(
        &self,
        residency: &mut Residency,
        ByteRange { start, end }: ByteRange,
    ) -> Result<()> {
        if !residency.passthrough.active {
            return Ok(());
        }
        for ByteRange { start, end } in
            residency.state.ranges.gaps(page_ceil(start), page_ceil(end))
        {
            let state = PageState::Hole;
            self.note(residency, Entry::Filled { ino: self.ino, start, end, state })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
