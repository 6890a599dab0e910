//! What went wrong, as a caller of the interface is told.

use tonic::{Code, Status};

/// A code that says what the caller is to do, and a sentence for people.
#[derive(Debug)]
pub(crate) struct Fault {
    code: Code,
    text: String,
}

/// What may go wrong.
pub(crate) type Result<T> = std::result::Result<T, Fault>;

impl Fault {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// The request itself is wrong.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, text)
    }

    /// Something is in the way that somebody must take out of it.
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self::new(Code::FailedPrecondition, text)
    }

    pub(crate) fn exists(text: impl Into<String>) -> Self {
        Self::new(Code::AlreadyExists, text)
    }

    pub(crate) fn internal(text: impl Into<String>) -> Self {
        Self::new(Code::Internal, text)
    }

    /// What the caller is to do.
    #[cfg(test)]
    pub(crate) fn code(&self) -> Code {
        self.code
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Fault> for Status {
    fn from(fault: Fault) -> Self {
        Status::new(fault.code, fault.text)
    }
}

/// Says what was tried when a call of the system failed.
pub(crate) trait Tried<T> {
    fn tried(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: std::fmt::Display> Tried<T> for std::result::Result<T, E> {
    fn tried(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| Fault::internal(format!("{}: {e}", what())))
    }
}
