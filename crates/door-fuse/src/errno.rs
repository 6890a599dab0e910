//! The file system's errors in the kernel's numbers, and the log of those that say too little.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weir_fuse::Errno;
use weir_types::{ErrorKind, FsError, Ino};

/// One line of log for each kind of error in this time, and for each damaged file.
const LOG_EVERY: Duration = Duration::from_secs(1);
/// Damaged files of which single lines are kept apart.
const DAMAGED_MAX: usize = 1_000;

/// Why a request is refused: an error of the engine, or a number of the protocol itself.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The engine's error.
    Engine(FsError),
    /// What only FUSE knows of.
    Errno(Errno),
}

impl Refusal {
    /// That of a request for an inode which the kernel knows by a name: where the inode is gone,
    /// its name was removed or replaced since the kernel looked. ESTALE makes it look once more,
    /// where ENOENT would tell the caller that a name is missing which is not.
    pub(crate) fn of_known(self) -> Self {
        match self {
            Self::Engine(error) if error.kind() == ErrorKind::NotFound => {
                Self::Errno(Errno(libc::ESTALE))
            }
            other => other,
        }
    }
}

impl From<FsError> for Refusal {
    fn from(error: FsError) -> Self {
        Self::Engine(error)
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// The errno of each kind.
pub(crate) fn errno(kind: ErrorKind) -> Errno {
    match kind {
        ErrorKind::NotFound => Errno(libc::ENOENT),
        ErrorKind::Exists => Errno(libc::EEXIST),
        ErrorKind::NotEmpty => Errno(libc::ENOTEMPTY),
        ErrorKind::NotDirectory => Errno(libc::ENOTDIR),
        ErrorKind::IsDirectory => Errno(libc::EISDIR),
        ErrorKind::NameTooLong => Errno(libc::ENAMETOOLONG),
        ErrorKind::NoAttribute => Errno(libc::ENODATA),
        ErrorKind::TooManyLinks => Errno(libc::EMLINK),
        ErrorKind::TooLarge => Errno(libc::EFBIG),
        ErrorKind::Range => Errno(libc::ERANGE),
        ErrorKind::NoSpace => Errno(libc::ENOSPC),
        ErrorKind::Quota => Errno(libc::EDQUOT),
        ErrorKind::CrossDevice => Errno(libc::EXDEV),
        // The kernel has checked the file's own permissions: this is the bucket's refusal.
        ErrorKind::Permission => Errno(libc::EACCES),
        ErrorKind::ReadOnly => Errno(libc::EROFS),
        ErrorKind::WouldBlock => Errno(libc::EAGAIN),
        ErrorKind::Deadlock => Errno(libc::EDEADLK),
        ErrorKind::Interrupted => Errno(libc::EINTR),
        ErrorKind::Invalid => Errno(libc::EINVAL),
        ErrorKind::Unsupported => Errno(libc::EOPNOTSUPP),
        ErrorKind::Retry
        | ErrorKind::Conflict
        | ErrorKind::Corrupt
        | ErrorKind::Fenced
        | ErrorKind::Bug => Errno(libc::EIO),
    }
}

/// Logs what programs see only as "Input/output error" or as a refusal of the bucket.
#[derive(Debug, Default)]
pub(crate) struct ErrorLog {
    kinds: Mutex<HashMap<(ErrorKind, Option<Ino>), Quiet>>,
}

#[derive(Debug)]
struct Quiet {
    since: Instant,
    left_out: u64,
}

impl ErrorLog {
    /// The errno for `refusal`; logged where the errno does not say what happened.
    pub(crate) fn errno(&self, op: &'static str, ino: Ino, refusal: &Refusal) -> Errno {
        let error = match refusal {
            Refusal::Errno(errno) => return *errno,
            Refusal::Engine(error) => error,
        };
        let errno = errno(error.kind());
        tracing::debug!(op, %ino, kind = ?error.kind(), "{error}");
        if matches!(errno.0, libc::EIO | libc::EACCES)
            && let Some(left_out) = self.may_log(error.kind(), ino)
        {
            tracing::warn!(op, %ino, kind = ?error.kind(), left_out, "{error}");
        }
        errno
    }

    /// How many of this kind went unlogged before, if this one may be logged.
    fn may_log(&self, kind: ErrorKind, ino: Ino) -> Option<u64> {
        let now = Instant::now();
        let mut kinds = self.kinds.lock();
        // A bucket that is away says the same of every file; damage is another one in each.
        let one = kind == ErrorKind::Corrupt && kinds.len() < DAMAGED_MAX;
        let which = (kind, one.then_some(ino));
        match kinds.get_mut(&which) {
            Some(quiet) if now.duration_since(quiet.since) < LOG_EVERY => {
                quiet.left_out += 1;
                None
            }
            Some(quiet) => {
                quiet.since = now;
                Some(std::mem::take(&mut quiet.left_out))
            }
            None => {
                kinds.insert(which, Quiet { since: now, left_out: 0 });
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_errno() {
        use ErrorKind as K;
        for (kind, number) in [
            (K::Retry, libc::EIO),
            (K::Conflict, libc::EIO),
            (K::NotFound, libc::ENOENT),
            (K::Exists, libc::EEXIST),
            (K::NotEmpty, libc::ENOTEMPTY),
            (K::NotDirectory, libc::ENOTDIR),
            (K::IsDirectory, libc::EISDIR),
            (K::NameTooLong, libc::ENAMETOOLONG),
            (K::NoAttribute, libc::ENODATA),
            (K::TooManyLinks, libc::EMLINK),
            (K::TooLarge, libc::EFBIG),
            (K::Range, libc::ERANGE),
            (K::NoSpace, libc::ENOSPC),
            (K::Quota, libc::EDQUOT),
            (K::CrossDevice, libc::EXDEV),
            (K::Permission, libc::EACCES),
            (K::ReadOnly, libc::EROFS),
            (K::WouldBlock, libc::EAGAIN),
            (K::Deadlock, libc::EDEADLK),
            (K::Interrupted, libc::EINTR),
            (K::Invalid, libc::EINVAL),
            (K::Unsupported, libc::EOPNOTSUPP),
            (K::Corrupt, libc::EIO),
            (K::Fenced, libc::EIO),
            (K::Bug, libc::EIO),
        ] {
            assert_eq!(errno(kind), Errno(number), "{kind:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_storm_of_one_kind_is_one_line_a_second() {
        let log = ErrorLog::default();
        let may = |kind, ino| log.may_log(kind, Ino(ino));
        assert_eq!(may(ErrorKind::Retry, 1), Some(0));
        assert_eq!(may(ErrorKind::Retry, 1), None);
        assert_eq!(may(ErrorKind::Retry, 2), None);
        assert_eq!(may(ErrorKind::Corrupt, 1), Some(0), "another kind is another matter");
        assert_eq!(may(ErrorKind::Corrupt, 1), None);
        assert_eq!(may(ErrorKind::Corrupt, 2), Some(0), "each damaged file is told");
        tokio::time::advance(LOG_EVERY).await;
        assert_eq!(may(ErrorKind::Retry, 2), Some(2));
        assert_eq!(may(ErrorKind::Retry, 1), None);
    }
}
