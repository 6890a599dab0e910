//! Bytes that the kernel lost.
//!
//! A page that cannot be written to the disk counts as clean for the kernel all the same, and is
//! forgotten: who reads it later gets zeros or old bytes. Those who have the file open are told once
//! each, when they ask. So a mirror with bytes that are nowhere else keeps its file open until they
//! left, and asks after each read, before anybody uses what was read.
//!
//! Nobody knows which bytes were lost. Clean ones are let go, and come again from the bucket. Dirty
//! ones are *in doubt*: they are not read, flushed or journaled any more, until they are cut off,
//! the file is removed, or the next mount sets them aside.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use weir_types::{ByteRange, ErrorKind, FsError, Result};

use crate::disk;
use crate::log::Entry;
use crate::mirror::{Mirror, Residency};
use crate::ranges::PageState;

impl Mirror {
    /// `Corrupt` if dirty bytes of this file are in doubt, or turn out to be.
    pub fn check_sound(&self) -> Result<()> {
        let residency = self.read_state();
        let open = self.file.lock().clone();
        let sound = open.is_none_or(|file| self.believed(&file));
        let doubt = residency.doubt;
        drop(residency);
        if !sound {
            self.take_up_losses();
            return self.check_sound();
        }
        if doubt { Err(self.doubt_error()) } else { Ok(()) }
    }

    /// Whether what was read from `file` until now is what was written to it. Whoever hears that it
    /// is not calls [`Mirror::take_up_losses`] and looks again.
    pub(crate) fn believed(&self, file: &File) -> bool {
        if self.sealed.load(Ordering::Acquire) {
            return true;
        }
        let mut lost = self.lost();
        if let Err(error) = disk::lost_bytes(file) {
            self.hear(&mut lost, error);
        }
        // Each descriptor is told once, and everybody must hear it.
        lost.is_none()
    }

    /// A sync of the mirror file failed with `error`: bytes were lost.
    pub(crate) fn lost_at_sync(&self, error: io::Error) {
        self.hear(&mut self.lost(), error);
        self.take_up_losses();
    }

    /// Notes at once what the kernel tells but once: who hears it may be killed before anybody
    /// takes it up.
    fn hear(&self, lost: &mut Option<io::Error>, error: io::Error) {
        if lost.is_none() {
            if let Err(error) = self.shared.log.append(&self.doubt_note()) {
                tracing::warn!(ino = %self.ino, %error, "the next mount is not told of the doubt");
            }
            *lost = Some(error);
        }
    }

    /// Whether bytes are in doubt, or will be once a loss is taken up.
    pub(crate) fn may_be_in_doubt(&self, residency: &Residency) -> bool {
        residency.doubt || self.lost().is_some()
    }

    fn lost(&self) -> MutexGuard<'_, Option<io::Error>> {
        self.lost.lock()
    }

    /// Bytes may have been lost: clean ones go, dirty ones are in doubt from here on.
    pub(crate) fn take_up_losses(&self) {
        let mut residency = self.write_state();
        // Others wait for the residency before they read again, so none sees this half done.
        let Some(error) = self.lost().take() else { return };
        tracing::error!(
            ino = %self.ino, %error, mirror = %self.path().display(),
            dirty_bytes = residency.dirty_bytes,
            "the tier's disk lost bytes that it had taken: look after it. What of this file is not \
             in the bucket is in doubt and is neither read nor flushed; write the file anew from \
             nothing, remove it, or mount again, which sets it aside"
        );
        self.let_go(&mut residency);
        if residency.dirty_bytes > 0 || residency.passthrough.active {
            residency.doubt = true;
            self.shared.doubted().insert(self.ino);
        }
    }

    /// The log's entry that dirty bytes of this mirror are in doubt.
    pub(crate) fn doubt_note(&self) -> Vec<u8> {
        Entry::Doubted { ino: self.ino }.encode().unwrap_or_default()
    }

    /// Clean pages go, as far as nobody has the file; they are in the bucket.
    pub(crate) fn let_go(&self, residency: &mut Residency) {
        if residency.passthrough.active || residency.gone {
            return;
        }
        let ranges = residency.state.ranges.iter();
        let clean: Vec<_> = ranges.filter(|r| r.1 == PageState::Resident).collect();
        for &(ByteRange { start, end }, _) in &clean {
            let entry = Entry::Released { ino: self.ino, start, end };
            let noted = entry.encode().and_then(|bytes| self.shared.log.append(&bytes));
            if let Err(error) = noted {
                tracing::warn!(ino = %self.ino, %error, "pages were let go without a note of it");
            }
            self.take_up(residency, &entry);
        }
        residency.mark_released();
        // Only for their room: what is fetched will be written over them.
        if let (false, Ok(file)) = (clean.is_empty(), self.file()) {
            for (ByteRange { start, end }, _) in clean {
                let _ = disk::punch(&file, start, end);
            }
        }
    }

    /// What was in doubt may have been cut off, or is in the bucket after all.
    pub(crate) fn settle_doubt(&self, residency: &mut Residency) {
        if residency.doubt {
            self.let_go(residency);
            residency.doubt = residency.dirty_bytes > 0 || residency.passthrough.active;
            if !residency.doubt {
                self.shared.doubted().remove(&self.ino);
            }
        }
    }

    pub(crate) fn doubt_error(&self) -> FsError {
        let text = format!(
            "inode {}: the tier's disk lost bytes that it had taken and that are not in the bucket \
             (the daemon's log says when): cut the file to nothing and write it anew, remove it, or \
             mount the volume again, which sets aside what is left of it",
            self.ino
        );
        FsError::new(ErrorKind::Corrupt, text)
    }
}

#[cfg(test)]
mod tests;
