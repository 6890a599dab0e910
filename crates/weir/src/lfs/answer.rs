//! What is written, and how a command ends.

use std::error::Error;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use rustix::io::Errno;
use weir_types::{ErrorKind, FsError};

use crate::render;

/// An error of one path: Lustre's tools exit with an errno.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) errno: Errno,
    pub(super) text: String,
}

impl Failure {
    pub(super) fn new(errno: Errno, text: impl Into<String>) -> Self {
        Self { errno, text: text.into() }
    }

    /// The first error of the system below it, else what is nearest to its kind.
    pub(super) fn from(error: &FsError) -> Self {
        let system = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        let errno = system.and_then(io::Error::raw_os_error).map(Errno::from_raw_os_error);
        let nearest = || match error.kind() {
            ErrorKind::NotFound => Errno::NOENT,
            ErrorKind::Invalid | ErrorKind::IsDirectory => Errno::INVAL,
            ErrorKind::Permission | ErrorKind::ReadOnly => Errno::PERM,
            ErrorKind::Unsupported => Errno::OPNOTSUPP,
            ErrorKind::NoSpace | ErrorKind::Quota => Errno::NOSPC,
            _ => Errno::IO,
        };
        // As the system words it, without Rust's number at its end.
        let text = error.to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        Self::new(errno.unwrap_or_else(nearest), text)
    }
}

/// Output, and the first error, which is the exit code.
pub(super) struct Answer<'a> {
    pub(super) command: &'a str,
    pub(super) out: Vec<u8>,
    pub(super) first: Option<Errno>,
}

impl Answer<'_> {
    /// `PATH` as it was written, then `rest`.
    pub(super) fn line(&mut self, path: &OsStr, rest: &str) {
        self.out.extend_from_slice(path.as_encoded_bytes());
        self.out.extend_from_slice(rest.as_bytes());
        self.out.push(b'\n');
    }

    pub(super) fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    pub(super) fn fail(&mut self, path: Option<&Path>, failure: &Failure) {
        self.first.get_or_insert(failure.errno);
        let at = path.map(|path| format!("{}: ", path.display())).unwrap_or_default();
        // Messages of ours often name their path already.
        let at = if failure.text.starts_with(&at) { String::new() } else { at };
        render::tell(&format!("lfs {}: {at}{}\n", self.command, failure.text));
    }

    pub(super) fn end(self) -> ExitCode {
        let mut out = io::stdout().lock();
        // Whoever stops reading (`| head`) is no error.
        let _ = out.write_all(&self.out).and_then(|()| out.flush());
        code(self.first)
    }
}

fn code(first: Option<Errno>) -> ExitCode {
    let raw = first.map_or(0, Errno::raw_os_error);
    ExitCode::from(u8::try_from(raw).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_become_errno() {
        let io = io::Error::from_raw_os_error(13);
        assert_eq!(Failure::from(&FsError::local_io("x", io)).errno, Errno::ACCESS);
        let bare = FsError::new(ErrorKind::Unsupported, "x");
        assert_eq!(Failure::from(&bare).errno, Errno::OPNOTSUPP);
    }
}
