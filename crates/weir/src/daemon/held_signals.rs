//! Signals that end a daemon, or have it open its log anew. All threads hold them back, so that each
//! waits for this process until somebody takes it here, also while the process executes another
//! binary: one that comes in the last moment is the new binary's.
#![allow(unsafe_code, reason = "neither std nor rustix has these calls")]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

const HELD: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// What somebody wants of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// It is to end.
    End,
    /// It is to open its log anew.
    Log,
}

/// Holds them back in this thread and in those that it starts from now on.
pub(super) fn hold() {
    mask(libc::SIG_BLOCK);
}

fn mask(how: libc::c_int) {
    let held = held();
    // SAFETY: the set is one; only this thread's mask changes.
    unsafe { libc::pthread_sigmask(how, &raw const held, std::ptr::null_mut()) };
}

fn held() -> libc::sigset_t {
    // SAFETY: the set is made before it is added to, of signals that exist.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in HELD {
            libc::sigaddset(&raw mut set, signal);
        }
        set
    }
}

/// Whether one waits that is to end the process.
pub(super) fn is_asked_to_end() -> bool {
    // SAFETY: the set is filled before it is read.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&raw mut set) == 0
            && (libc::sigismember(&raw const set, libc::SIGTERM) == 1
                || libc::sigismember(&raw const set, libc::SIGINT) == 1)
    }
}

/// Those that wait.
#[derive(Debug)]
pub(super) struct Signals(AsyncFd<OwnedFd>);

impl Signals {
    /// To be made in the runtime.
    pub(super) fn new() -> io::Result<Self> {
        let held = held();
        // SAFETY: the kernel reads the set, and makes a descriptor that nobody else owns.
        let descriptor = unsafe {
            let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
            let number = libc::signalfd(-1, &raw const held, flags);
            if number < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(number)
        };
        // SAFETY: an `OwnedFd` stays open, and the same, until it is dropped.
        let descriptor = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
        Ok(Self(descriptor?))
    }

    /// Returns when one waits; it waits on.
    pub(super) async fn until_one(&self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            if pending() {
                return Ok(());
            }
            ready.clear_ready();
        }
    }

    /// Takes one, if any waits.
    pub(super) fn take(&self) -> io::Result<Option<Wanted>> {
        let mut info = [0_u8; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(self.0.get_ref(), &mut info) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
            // Its number comes first.
            Ok(_) => Ok(Some(match info.first_chunk().map(|number| i32::from_ne_bytes(*number)) {
                Some(libc::SIGHUP) => Wanted::Log,
                _ => Wanted::End,
            })),
        }
    }
}

fn pending() -> bool {
    // SAFETY: the set is filled before it is read.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&raw mut set) == 0
            && HELD.into_iter().any(|signal| libc::sigismember(&raw const set, signal) == 1)
    }
}

/// Lets those that come end this process, as if none were held back: it serves nobody yet. What
/// whoever started it wants to be ignored is.
pub(super) async fn end_by(signals: Signals) {
    while signals.until_one().await.is_ok() {
        mask(libc::SIG_UNBLOCK);
        mask(libc::SIG_BLOCK);
    }
}
