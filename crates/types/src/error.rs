//! The one error of the file system: a kind that says what the caller does next, and a message.

use std::error::Error as StdError;
use std::fmt;

use crate::error_code::ErrorCode;

/// The result of every file system operation.
pub type Result<T, E = FsError> = std::result::Result<T, E>;

/// What went wrong, by what the caller does next. Doors map each kind to errno or protocol status
/// in one exhaustive match; the message text is for people and is not API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The same call may work later: the bucket is slow, away or asked for less.
    Retry,
    /// Somebody else changed what this operation rested on: read again and redo it.
    Conflict,
    /// The file, object, attribute holder or volume is not there.
    NotFound,
    /// The name is taken.
    Exists,
    /// The directory has entries.
    NotEmpty,
    /// A directory was needed and this is none.
    NotDirectory,
    /// A directory stands where none may.
    IsDirectory,
    /// A name or path is longer than the system allows.
    NameTooLong,
    /// The extended attribute is not set.
    NoAttribute,
    /// The file has as many hard links as it may have.
    TooManyLinks,
    /// The size or offset is past the largest file.
    TooLarge,
    /// The buffer that the caller gave is too small for the answer.
    Range,
    /// No room: in the tier, in the volume or on a disk below them.
    NoSpace,
    /// A quota is used up: of the tree, the owner or the group.
    Quota,
    /// A name cannot move or be given there, for another quota counts there: copy instead.
    CrossDevice,
    /// The credentials or the file's owner do not allow it.
    Permission,
    /// The mount or volume is read-only.
    ReadOnly,
    /// A lock is held by somebody else and the caller does not want to wait.
    WouldBlock,
    /// Waiting for this lock would wait for itself.
    Deadlock,
    /// The wait was interrupted by its caller.
    Interrupted,
    /// The arguments make no sense, or the bytes given are not what they should be.
    Invalid,
    /// This volume, mount or build does not offer the operation.
    Unsupported,
    /// Stored bytes are not what was stored: checksum, length or structure is wrong.
    Corrupt,
    /// Another writer took the volume over: this mount may write no more.
    Fenced,
    /// A broken promise inside Weir; report it.
    Bug,
}

/// An error of the file system: its kind, what was being done, and what caused it.
#[derive(Debug)]
pub struct FsError {
    kind: ErrorKind,
    code: Option<ErrorCode>,
    context: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl FsError {
    /// An error of `kind`; `context` says what failed, why, and what to do about it.
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        Self { kind, code: None, context: context.into(), source: None }
    }

    /// The same error with the cause below it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same error by its name in docs/errors.md.
    #[must_use]
    pub fn coded(mut self, code: ErrorCode) -> Self {
        self.code = Some(code);
        self
    }

    /// The same kind, told from one level higher: `context: old context`.
    #[must_use]
    pub fn within(mut self, context: impl fmt::Display) -> Self {
        self.context = format!("{context}: {}", self.context);
        self
    }

    /// An I/O error of the local disk, with what was being done; full disks become `NoSpace`.
    pub fn local_io(context: impl fmt::Display, error: std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        let kind = match error.kind() {
            Io::StorageFull | Io::QuotaExceeded => ErrorKind::NoSpace,
            Io::NotFound => ErrorKind::NotFound,
            Io::PermissionDenied => ErrorKind::Permission,
            Io::ReadOnlyFilesystem => ErrorKind::ReadOnly,
            _ => ErrorKind::Retry,
        };
        Self::new(kind, format!("{context}: {error}")).with_source(error)
    }

    /// What the caller does next.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Its name in docs/errors.md, if it has one.
    pub fn code(&self) -> Option<ErrorCode> {
        let of_kind = match self.kind {
            ErrorKind::Fenced => Some(ErrorCode::Fenced),
            ErrorKind::Corrupt => Some(ErrorCode::VolumeDamaged),
            ErrorKind::Bug => Some(ErrorCode::Bug),
            _ => None,
        };
        self.code.or(of_kind)
    }

    /// A second error of the same kind, code and message, for the other waiters of a shared request.
    #[must_use]
    pub fn share(&self) -> Self {
        Self { code: self.code, ..Self::new(self.kind, self.context.clone()) }
    }
}

impl fmt::Display for FsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl StdError for FsError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|s| s as _)
    }
}
