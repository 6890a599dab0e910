//! Times of reads (`relatime`). The kernel leaves them to the daemon, and reads much without it: from its
//! page cache, and from mirror files. So to open a file for reading is to read it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_types::Ino;

use crate::door::DoorState;
use crate::mountpoint::mounted_on;

/// How long it is believed what the mount's options are: somebody may mount it anew with others.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Whether times of reads are kept.
#[derive(Debug, Default)]
pub(crate) struct Atimes {
    looked: Mutex<Option<(Instant, bool)>>,
}

/// Whether an open with these flags is one for reading.
pub(crate) fn opens_to_read(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_WRONLY && flags & (libc::O_TRUNC | libc::O_NOATIME) == 0
}

impl DoorState {
    /// Notes that somebody reads `ino`, where that is kept. Nobody waits for it.
    pub(crate) fn was_read(self: &Arc<Self>, ino: Ino) {
        if !self.keeps_atimes() {
            return;
        }
        let door = self.clone();
        self.beside(async move {
            match door.engine.note_read(ino).await {
                // The kernel remembers the one of before.
                Ok(true) => door.forget_attributes(ino),
                Ok(false) => {}
                Err(error) => tracing::debug!(%ino, %error, "that it was read is not noted"),
            }
        });
    }

    fn keeps_atimes(&self) -> bool {
        if !self.options.relatime || self.options.read_only {
            return false;
        }
        let mut looked = self.atimes.looked.lock();
        match *looked {
            Some((at, keeps)) if at.elapsed() < LOOK_EVERY => keeps,
            _ => {
                let keeps = mounted_on(&self.options.mountpoint).ok().flatten();
                let keeps = keeps.is_none_or(|mount| !mount.has("ro") && !mount.has("noatime"));
                *looked = Some((Instant::now(), keeps));
                keeps
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_opens_for_reading_reads() {
        for flags in [libc::O_RDONLY, libc::O_RDWR, libc::O_RDONLY | libc::O_DIRECT] {
            assert!(opens_to_read(flags), "{flags:o}");
        }
        for flags in [
            libc::O_WRONLY,
            libc::O_WRONLY | libc::O_APPEND,
            libc::O_RDWR | libc::O_TRUNC,
            libc::O_RDONLY | libc::O_NOATIME,
        ] {
            assert!(!opens_to_read(flags), "{flags:o}");
        }
    }
}
