//! The statuses of the protocol, and which one an error of the file system is.

use weir_types::{ErrorKind, FsError};

use super::xdr::BadXdr;

/// An `nfsstat4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(pub(crate) u32);

macro_rules! statuses {
    ($($name:ident = $number:literal)*) => {
        impl Status {
            $(pub(crate) const $name: Status = Status($number);)*
        }
    };
}

statuses! {
    OK = 0
    PERM = 1
    NOENT = 2
    IO = 5
    ACCESS = 13
    EXIST = 17
    XDEV = 18
    NOTDIR = 20
    ISDIR = 21
    INVAL = 22
    FBIG = 27
    NOSPC = 28
    ROFS = 30
    MLINK = 31
    NAMETOOLONG = 63
    NOTEMPTY = 66
    DQUOT = 69
    STALE = 70
    BADHANDLE = 10001
    BAD_COOKIE = 10003
    NOTSUPP = 10004
    TOOSMALL = 10005
    SERVERFAULT = 10006
    BADTYPE = 10007
    DELAY = 10008
    SAME = 10009
    DENIED = 10010
    LOCKED = 10012
    GRACE = 10013
    SHARE_DENIED = 10015
    WRONGSEC = 10016
    CLID_INUSE = 10017
    NOFILEHANDLE = 10020
    MINOR_VERS_MISMATCH = 10021
    STALE_CLIENTID = 10022
    OLD_STATEID = 10024
    BAD_STATEID = 10025
    NOT_SAME = 10027
    SYMLINK = 10029
    RESTOREFH = 10030
    ATTRNOTSUPP = 10032
    NO_GRACE = 10033
    RECLAIM_BAD = 10034
    RECLAIM_CONFLICT = 10035
    BADXDR = 10036
    LOCKS_HELD = 10037
    OPENMODE = 10038
    BADOWNER = 10039
    BADNAME = 10041
    OP_ILLEGAL = 10044
    DEADLOCK = 10045
    BADSESSION = 10052
    BADSLOT = 10053
    COMPLETE_ALREADY = 10054
    NOT_ONLY_OP = 10081
    SEQ_MISORDERED = 10063
    SEQUENCE_POS = 10064
    REQ_TOO_BIG = 10065
    REP_TOO_BIG = 10066
    REP_TOO_BIG_TO_CACHE = 10067
    RETRY_UNCACHED_REP = 10068
    TOO_MANY_OPS = 10070
    OP_NOT_IN_SESSION = 10071
    CLIENTID_BUSY = 10074
    WRONG_TYPE = 10083
    DELEG_REVOKED = 10087
    NOXATTR = 10095
    XATTR2BIG = 10096
    BAD_HIGH_SLOT = 10077
    UNION_NOTSUPP = 10090
}

/// Why an operation is refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// By the protocol, or as it says it.
    Status(Status),
    /// By the file system.
    Engine(FsError),
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<BadXdr> for Refusal {
    fn from(_: BadXdr) -> Self {
        Self::Status(Status::BADXDR)
    }
}

impl From<FsError> for Refusal {
    fn from(error: FsError) -> Self {
        Self::Engine(error)
    }
}

/// How an operation ended.
pub(crate) type Served<T> = Result<T, Refusal>;

/// The status of each kind. What may pass is `DELAY`: the client asks again until it has, as a program expects
/// of a mount that is `hard`.
pub(crate) fn status(kind: ErrorKind) -> Status {
    match kind {
        ErrorKind::NotFound => Status::NOENT,
        ErrorKind::Exists => Status::EXIST,
        ErrorKind::NotEmpty => Status::NOTEMPTY,
        ErrorKind::NotDirectory => Status::NOTDIR,
        ErrorKind::IsDirectory => Status::ISDIR,
        ErrorKind::NameTooLong => Status::NAMETOOLONG,
        ErrorKind::NoAttribute => Status::NOXATTR,
        ErrorKind::TooManyLinks => Status::MLINK,
        ErrorKind::TooLarge => Status::FBIG,
        ErrorKind::Range => Status::XATTR2BIG,
        ErrorKind::NoSpace => Status::NOSPC,
        ErrorKind::Quota => Status::DQUOT,
        ErrorKind::CrossDevice => Status::XDEV,
        ErrorKind::Permission => Status::ACCESS,
        ErrorKind::ReadOnly => Status::ROFS,
        ErrorKind::Deadlock => Status::DEADLOCK,
        ErrorKind::Invalid => Status::INVAL,
        ErrorKind::Unsupported => Status::NOTSUPP,
        ErrorKind::Corrupt => Status::IO,
        ErrorKind::Bug => Status::SERVERFAULT,
        ErrorKind::Retry
        | ErrorKind::Conflict
        | ErrorKind::WouldBlock
        | ErrorKind::Interrupted
        | ErrorKind::Fenced => Status::DELAY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_status() {
        use ErrorKind as K;
        for (kind, number) in [
            (K::Retry, 10008),
            (K::Conflict, 10008),
            (K::NotFound, 2),
            (K::Exists, 17),
            (K::NotEmpty, 66),
            (K::NotDirectory, 20),
            (K::IsDirectory, 21),
            (K::NameTooLong, 63),
            (K::NoAttribute, 10095),
            (K::TooManyLinks, 31),
            (K::TooLarge, 27),
            (K::Range, 10096),
            (K::NoSpace, 28),
            (K::Quota, 69),
            (K::CrossDevice, 18),
            (K::Permission, 13),
            (K::ReadOnly, 30),
            (K::WouldBlock, 10008),
            (K::Deadlock, 10045),
            (K::Interrupted, 10008),
            (K::Invalid, 22),
            (K::Unsupported, 10004),
            (K::Corrupt, 5),
            (K::Fenced, 10008),
            (K::Bug, 10006),
        ] {
            assert_eq!(status(kind), Status(number), "{kind:?}");
        }
    }
}
