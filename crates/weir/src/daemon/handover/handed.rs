//! What is handed over: in sealed memory, in two lines of JSON. The first is understood by all
//! versions, so that each can go back to the binary that wrote the second.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::FdFlags;
use serde::{Deserialize, Serialize};
use weir_door_fuse::FuseHandover;
use weir_engine::{InPassthrough, Inherited, InheritedTier};
use weir_types::{ErrorKind, FsError, Result};

use super::binary::{Binary, VERSIONS};
use super::exec;
use super::invocation::Invocation;
use crate::daemon::held_signals::is_asked_to_end;

/// How long a new binary tries before the old one goes on.
const TRY_MAX: Duration = Duration::from_secs(15);
const TRY_EVERY: Duration = Duration::from_millis(500);

/// What every version understands. Fields may be added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attempt {
    /// Names the upgrade.
    pub(crate) id: String,
    /// The version that ran.
    pub(crate) from: String,
    /// When programs began to wait, as [`exec::now_ns`] has it.
    pub(crate) began_ns: u64,
    /// The binary that ran.
    pub(crate) old: i32,
    /// All descriptors that are handed over.
    pub(crate) kept: Vec<i32>,
    /// Why the new binary could not take over, in the hands of the one that ran.
    pub(crate) failed: Option<String>,
}

/// What the version understands that it is of. Descriptors are numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    pub(crate) version: u32,
    /// Where relative paths of the command line begin.
    pub(crate) directory: OsString,
    /// Where the volume is mounted.
    pub(crate) mountpoint: OsString,
    /// The channel to the kernel.
    pub(crate) device: i32,
    /// Locks of directories.
    pub(crate) locks: Vec<i32>,
    pub(crate) sockets: SocketNumbers,
    /// Mirror files that are lent to the kernel.
    pub(crate) in_passthrough: Vec<InPassthrough>,
    pub(crate) fuse: FuseHandover,
}

/// The admin sockets, listening.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SocketNumbers {
    unix: Option<i32>,
    users: Option<i32>,
    tcp: Option<i32>,
}

/// The admin sockets of a daemon, listening: who connects meanwhile waits.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    pub(crate) unix: Option<OwnedFd>,
    pub(crate) users: Option<OwnedFd>,
    pub(crate) tcp: Option<OwnedFd>,
}

impl Sockets {
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [&self.unix, &self.users, &self.tcp].into_iter().flatten().map(AsFd::as_fd)
    }

    pub(crate) fn numbers(&self) -> SocketNumbers {
        let of = |socket: &Option<OwnedFd>| socket.as_ref().map(number);
        SocketNumbers { unix: of(&self.unix), users: of(&self.users), tcp: of(&self.tcp) }
    }
}

/// What this process was handed.
#[derive(Debug)]
pub(crate) struct Handed {
    pub(crate) attempt: Attempt,
    /// The second line, as it came.
    text: Vec<u8>,
    state: State,
    /// All that is handed over, open until somebody has taken it.
    kept: Vec<OwnedFd>,
}

/// A descriptor's number.
pub(crate) fn number(of: &impl AsFd) -> i32 {
    of.as_fd().as_raw_fd()
}

fn at(what: &'static str) -> impl Fn(std::io::Error) -> FsError {
    move |error| FsError::local_io(what, error)
}

/// Puts what is handed over into memory that nobody can change any more.
pub(crate) fn memory(attempt: &Attempt, state: &[u8]) -> Result<File> {
    let at = at("make memory for what is handed over");
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create("weir-handover", flags).map_err(|e| at(e.into()))?;
    let mut memory = File::from(memory);
    let attempt = serde_json::to_vec(attempt).map_err(|e| at(e.into()))?;
    for part in [attempt.as_slice(), b"\n", state] {
        memory.write_all(part).map_err(&at)?;
    }
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&memory, seals).map_err(|e| at(e.into()))?;
    Ok(memory)
}

impl Handed {
    /// Reads what the binary before this one left in a descriptor. Where it is not understood, that
    /// one goes on.
    pub(crate) fn receive(descriptor: i32) -> Result<Self> {
        exec::name_process();
        let (attempt, text) = read(descriptor)?;
        let kept = attempt.kept.iter().map(|fd| own(*fd)).collect::<Result<Vec<_>>>()?;
        match understand(&text) {
            Ok(state) => Ok(Self { attempt, text, state, kept }),
            Err(error) => Err(go_back(attempt, &text, &kept, error)),
        }
    }

    /// Where relative paths of the command line begin.
    pub(crate) fn directory(&self) -> PathBuf {
        PathBuf::from(&self.state.directory)
    }

    /// Where the volume is mounted.
    pub(crate) fn mountpoint(&self) -> PathBuf {
        PathBuf::from(&self.state.mountpoint)
    }

    /// The mount's channel to the kernel, and what that holds.
    pub(crate) fn fuse(&self) -> Result<(OwnedFd, FuseHandover)> {
        Ok((self.duplicate(self.state.device)?, self.state.fuse.clone()))
    }

    pub(crate) fn inherited(&self) -> Result<Inherited> {
        let locks = self.state.locks.iter().map(|fd| Ok(Arc::new(self.duplicate(*fd)?.into())));
        let locks = locks.collect::<Result<_>>()?;
        let tier = InheritedTier { locks, in_passthrough: self.state.in_passthrough.clone() };
        Ok(Inherited { tier, open: self.state.fuse.open() })
    }

    pub(crate) fn sockets(&self) -> Result<Sockets> {
        let SocketNumbers { unix, users, tcp } = &self.state.sockets;
        let of = |socket: &Option<i32>| socket.map(|fd| self.duplicate(fd)).transpose();
        Ok(Sockets { unix: of(unix)?, users: of(users)?, tcp: of(tcp)? })
    }

    fn duplicate(&self, wanted: i32) -> Result<OwnedFd> {
        let found = self.kept.iter().find(|fd| fd.as_raw_fd() == wanted);
        let Some(found) = found else {
            let text = format!("descriptor {wanted} was not handed over");
            return Err(FsError::new(ErrorKind::Bug, text));
        };
        found.try_clone().map_err(at("take a descriptor over"))
    }

    /// Tries again, or has the binary go on that was there before; returns only if neither can be.
    pub(crate) fn failed(self, error: FsError) -> FsError {
        go_back(self.attempt, &self.text, &self.kept, error)
    }
}

/// Owns a descriptor that this process was handed.
#[expect(unsafe_code, reason = "a descriptor comes as a number")]
fn own(descriptor: i32) -> Result<OwnedFd> {
    // SAFETY: the number is only looked at; where nothing is open by it, that is the error.
    let is_open = unsafe { libc::fcntl(descriptor, libc::F_GETFD) } >= 0;
    if descriptor < 3 || !is_open {
        let text = format!("--handed-over: nothing was handed over by descriptor {descriptor}");
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    // SAFETY: it is open, and nobody in this process owns it: it was before its first line.
    let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
    rustix::io::fcntl_setfd(&owned, FdFlags::CLOEXEC).map_err(|e| at("keep it here")(e.into()))?;
    Ok(owned)
}

fn read(descriptor: i32) -> Result<(Attempt, Vec<u8>)> {
    let at = at("read what was handed over");
    let mut memory = File::from(own(descriptor)?);
    let mut bytes = Vec::new();
    memory.rewind().and_then(|()| memory.read_to_end(&mut bytes)).map_err(&at)?;
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let attempt = serde_json::from_slice(&bytes[..end]).map_err(|e| at(e.into()))?;
    Ok((attempt, bytes.split_off((end + 1).min(bytes.len()))))
}

fn understand(text: &[u8]) -> Result<State> {
    let state: State = serde_json::from_slice(text).map_err(|error| {
        let text = "what was handed over is of another version";
        FsError::new(ErrorKind::Unsupported, text).with_source(error)
    })?;
    match VERSIONS.contains(&state.version) {
        true => Ok(state),
        false => {
            let text = format!("what was handed over is of version {}", state.version);
            Err(FsError::new(ErrorKind::Unsupported, text))
        }
    }
}

/// Whether trying again may help.
fn may_pass(error: &FsError) -> bool {
    !matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported | ErrorKind::Bug)
}

fn go_back(mut attempt: Attempt, text: &[u8], kept: &[OwnedFd], error: FsError) -> FsError {
    let waited = Duration::from_nanos(exec::now_ns().saturating_sub(attempt.began_ns));
    // The binary that ran has nobody to go back to, and tries until it is told to end.
    let is_old = attempt.failed.is_some();
    if is_old && is_asked_to_end() {
        return error;
    }
    let again = is_old || (waited < TRY_MAX && may_pass(&error));
    tracing::warn!(again, "taking the mount over failed: {error}");
    if again {
        pause();
    } else {
        attempt.failed = Some(error.to_string());
    }
    match execute(&attempt, text, kept, again) {
        Ok(()) => error,
        Err(second) => error.within(format!("and going back failed: {second}")),
    }
}

fn pause() {
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() {
        runtime.block_on(tokio::time::sleep(TRY_EVERY));
    }
}

/// Executes this binary again, or the one before it.
fn execute(attempt: &Attempt, text: &[u8], kept: &[OwnedFd], again: bool) -> Result<()> {
    let memory = memory(attempt, text)?;
    let mut keep: Vec<_> = kept.iter().map(AsFd::as_fd).collect();
    keep.push(memory.as_fd());
    let own = Binary::own()?;
    let old = kept.iter().find(|fd| fd.as_raw_fd() == attempt.old);
    let binary = match old {
        Some(old) if !again => old.as_fd(),
        _ => own.as_fd(),
    };
    let argv: Vec<OsString> = std::env::args_os().collect();
    let argv = Invocation::new(&argv, PathBuf::new());
    let error = exec::exec(binary, &argv.handed(number(&memory)), &keep);
    Err(FsError::local_io("execute it", error))
}

#[cfg(test)]
mod tests;
