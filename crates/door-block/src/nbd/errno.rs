//! The file system's errors in the numbers of the protocol.

use weir_types::ErrorKind;

use super::protocol::NbdError;

/// The number of each kind.
pub(crate) fn errno(kind: ErrorKind) -> NbdError {
    match kind {
        ErrorKind::Permission | ErrorKind::ReadOnly => NbdError::Permission,
        ErrorKind::NoSpace | ErrorKind::TooLarge | ErrorKind::Quota => NbdError::NoSpace,
        ErrorKind::Invalid | ErrorKind::Range | ErrorKind::NameTooLong => NbdError::Invalid,
        ErrorKind::Unsupported => NbdError::Unsupported,
        ErrorKind::Retry
        | ErrorKind::Conflict
        | ErrorKind::NotFound
        | ErrorKind::Exists
        | ErrorKind::NotEmpty
        | ErrorKind::NotDirectory
        | ErrorKind::IsDirectory
        | ErrorKind::NoAttribute
        | ErrorKind::TooManyLinks
        | ErrorKind::CrossDevice
        | ErrorKind::WouldBlock
        | ErrorKind::Deadlock
        | ErrorKind::Interrupted
        | ErrorKind::Corrupt
        | ErrorKind::Fenced
        | ErrorKind::Bug => NbdError::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_number() {
        use ErrorKind as K;
        for (kind, number) in [
            (K::Retry, 5),
            (K::Conflict, 5),
            (K::NotFound, 5),
            (K::Exists, 5),
            (K::NotEmpty, 5),
            (K::NotDirectory, 5),
            (K::IsDirectory, 5),
            (K::NameTooLong, 22),
            (K::NoAttribute, 5),
            (K::TooManyLinks, 5),
            (K::TooLarge, 28),
            (K::Range, 22),
            (K::NoSpace, 28),
            (K::Quota, 28),
            (K::CrossDevice, 5),
            (K::Permission, 1),
            (K::ReadOnly, 1),
            (K::WouldBlock, 5),
            (K::Deadlock, 5),
            (K::Interrupted, 5),
            (K::Invalid, 22),
            (K::Unsupported, 95),
            (K::Corrupt, 5),
            (K::Fenced, 5),
            (K::Bug, 5),
        ] {
            assert_eq!(errno(kind) as u32, number, "{kind:?}");
        }
    }
}
