//! Mirror files in other hands that other nodes change.
//!
//! Who was lent a mirror file must find no bytes there that the file never had: no zeros where something is not
//! here yet. So what is not believed any more is written over in one go, or the mirror gets another file and is
//! *parted* from those who have that of before: that is another lending.

use std::sync::atomic::Ordering;

use weir_types::{ByteRange, Inode, Result};

use crate::disk;
use crate::log::Entry;
use crate::mirror::{Mirror, Residency, gaps_below};
use crate::ranges::{PageState, page_ceil, page_floor};

/// How long a file is not lent that others changed, or somebody here wants to write, in milliseconds.
const CHANGED_MS: u64 = 5_000;

impl Mirror {
    /// Whether who was lent the mirror file by this lending has the file's bytes as they are known here.
    pub fn lends(&self, lending: u64) -> bool {
        self.read_state().passthrough.lending == lending
    }

    /// Whether it is worth lending: it is large enough, and nobody changes it in place, nor did another node or a
    /// writer of this one of late. On a mount that is alone all who have it open use the mirror file.
    pub(super) fn is_wanted(&self, residency: &Residency, least: u64) -> bool {
        let among_nodes = self.shared.among_nodes.load(Ordering::Acquire);
        if !among_nodes && residency.passthrough.active {
            return true;
        }
        let quiet = !among_nodes
            || !residency.has_unflushed()
                && self.shared.now_ms() >= self.not_lent_before_ms.load(Ordering::Relaxed);
        residency.state.size >= least && quiet && !self.rewritten.load(Ordering::Relaxed)
    }

    /// Somebody else is to have the file than who reads it without the daemon: it is not lent for a while.
    pub fn not_lent_for_now(&self) {
        let not_before_ms = self.shared.now_ms() + CHANGED_MS;
        self.not_lent_before_ms.store(not_before_ms, Ordering::Relaxed);
    }

    /// Others changed the file, and who was lent the mirror file is to keep that as it is: the caller put another
    /// one in its place.
    pub(super) fn part(&self, residency: &mut Residency) {
        self.close_file();
        if residency.passthrough.active {
            self.set_passthrough(residency, false);
            residency.passthrough = residency.passthrough.parted();
            self.not_lent_for_now();
        }
    }

    /// Others changed a file that is lent since it had the generation `since`, and these are the bytes that
    /// `inode` has elsewhere than it had, or may have, by their offsets: who reads the mirror file finds them
    /// there, and no zeros in between. `false`, and nothing is done, where it is not lent or not of that
    /// generation, or where something of it is dirty.
    pub fn bring(&self, inode: &Inode, since: u64, changes: &[(u64, &[u8])]) -> Result<bool> {
        let mut residency = self.write_state();
        let state = &residency.state;
        let is_lent = residency.passthrough.active && residency.verified && !residency.gone;
        let whole = gaps_below(state, 0, page_ceil(state.size)).is_empty();
        if !is_lent || residency.generation() != since || residency.has_unflushed() || !whole {
            return Ok(false);
        }
        self.take_out_leftover(&mut residency)?;
        let brought = self.bring_to(&mut residency, inode, changes);
        if brought.is_err() {
            self.let_all_go(&mut residency);
        }
        brought.map(|()| true)
    }

    fn bring_to(
        &self,
        residency: &mut Residency,
        inode: &Inode,
        changes: &[(u64, &[u8])],
    ) -> Result<()> {
        let ino = self.ino;
        let mut state = residency.state.clone();
        let pages = |&(offset, bytes): &(u64, &[u8])| {
            ByteRange::new(page_floor(offset), page_ceil(offset + bytes.len() as u64))
        };
        let behind = ByteRange::new(page_ceil(inode.size), u64::MAX);
        for ByteRange { start, end } in changes.iter().map(pages).chain([behind]) {
            state.ranges.clear(start, end);
        }
        state.size = inode.size;
        (state.generation, residency.later) = (inode.data.generation, None);
        state.remote_end = inode.size;
        residency.stamp.add_all();
        self.next_epoch();
        // As if they were released: after a crash in the midst of it they are fetched.
        self.note(residency, Entry::Whole(state))?;
        let file = self.file()?;
        let length = file.metadata().map_err(|e| self.io("stat", e))?.len();
        if length > inode.size {
            disk::set_len(&file, inode.size).map_err(|e| self.io("trim", e))?;
        }
        for (offset, bytes) in changes {
            self.put(&file, bytes, *offset).map_err(|e| self.io("write", e))?;
        }
        if length < inode.size {
            disk::set_len(&file, inode.size).map_err(|e| self.io("extend", e))?;
        }
        for ByteRange { start, end } in changes.iter().map(pages) {
            self.note(residency, Entry::Filled { ino, start, end, state: PageState::Resident })?;
        }
        self.name_holes(residency, ByteRange::new(0, inode.size))
    }

    /// Nothing of it is here any more, and nothing was dirty. Who was lent the mirror file keeps that.
    fn let_all_go(&self, residency: &mut Residency) {
        let released = Entry::Released { ino: self.ino, start: 0, end: u64::MAX };
        let noted = self.note(residency, released.clone()).and_then(|()| self.shared.log.sync());
        if noted.is_err() {
            self.take_up(residency, &released);
        }
        let removed = disk::remove_file(&self.path()).map_err(|e| self.io("remove", e));
        if let Err(error) = noted.and(removed) {
            tracing::warn!(ino = %self.ino, %error, "a mirror file that is changed in part stays");
        }
        self.part(residency);
    }
}
