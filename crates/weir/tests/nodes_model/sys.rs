//! Calls of the system that no library has as they are needed here: `close` that says whether it went
//! well, locks of ranges, and one clock for all processes.

use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;

/// Nanoseconds of CLOCK_MONOTONIC.
#[allow(unsafe_code, reason = "no library that is here tells the clock as a number")]
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec` at the address.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    assert_eq!(done, 0, "the clock cannot be read");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Waits until the clock says so.
pub(crate) fn sleep_until(then: u64) {
    if let Some(left) = then.checked_sub(now()) {
        pause(Duration::from_nanos(left));
    }
}

#[allow(clippy::disallowed_methods, reason = "what is waited for is the kernel")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

fn last_error() -> Errno {
    let error = std::io::Error::last_os_error();
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// Closes, and says whether what was written is where it belongs.
#[allow(unsafe_code, reason = "libraries drop what `close` says")]
pub(crate) fn close(file: OwnedFd) -> Result<(), Errno> {
    // SAFETY: the descriptor was owned here, and nobody uses it any more.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

/// How a range is locked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    Shared,
    Exclusive,
    None,
}

/// A record lock of this process on `bytes` from `at`; all of the file where `bytes` is 0.
#[allow(unsafe_code, reason = "no library locks ranges")]
pub(crate) fn lock_range(
    file: impl AsFd,
    how: Lock,
    (at, bytes): (u64, u64),
    wait: bool,
) -> Result<(), Errno> {
    let kind = match how {
        Lock::Shared => libc::F_RDLCK,
        Lock::Exclusive => libc::F_WRLCK,
        Lock::None => libc::F_UNLCK,
    };
    let range = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: at as libc::off_t,
        l_len: bytes as libc::off_t,
        l_pid: 0,
    };
    let command = if wait { libc::F_SETLKW } else { libc::F_SETLK };
    // SAFETY: the kernel reads one `flock` at the address.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, &raw const range) } {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

/// This process ends with the one that started it.
#[allow(unsafe_code, reason = "no library that is here has this call")]
pub(crate) fn end_with_parent() {
    // SAFETY: it takes numbers only.
    let done = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    assert_eq!(done, 0, "the kernel knows PR_SET_PDEATHSIG");
}

/// `truncate` of a path.
#[allow(unsafe_code, reason = "no library that is here has this call")]
pub(crate) fn truncate(path: &str, bytes: u64) -> Result<(), Errno> {
    let path = std::ffi::CString::new(path).map_err(|_| Errno::INVAL)?;
    // SAFETY: the path ends with a zero.
    match unsafe { libc::truncate(path.as_ptr(), bytes as libc::off_t) } {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}
