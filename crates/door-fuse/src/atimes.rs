//! Times of reads (`relatime`). The kernel leaves them to the daemon, and reads much without it: from its
//! page cache, and from mirror files. So to open a file for reading is to read it.

use std::path::Path;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

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

impl Atimes {
    /// Whether they are, by the options of the mount there.
    pub(crate) fn are_kept(&self, mountpoint: &Path) -> bool {
        let mut looked = self.looked.lock();
        match *looked {
            Some((at, kept)) if at.elapsed() < LOOK_EVERY => kept,
            _ => {
                let mount = mounted_on(mountpoint).ok().flatten();
                let kept = mount.is_none_or(|mount| !mount.has("ro") && !mount.has("noatime"));
                *looked = Some((Instant::now(), kept));
                kept
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
