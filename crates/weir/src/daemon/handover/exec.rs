//! Executing another binary in this process.
#![allow(unsafe_code, reason = "neither std nor rustix has these calls")]

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use rustix::io::FdFlags;

/// Executes a file, with this command line and these descriptors open. Signals that are held back wait
/// for it. Returns only if that fails.
pub(crate) fn exec(
    binary: BorrowedFd<'_>,
    argv: &[OsString],
    keep: &[BorrowedFd<'_>],
) -> io::Error {
    match prepare(argv) {
        Ok((argv, environment)) => {
            crate::descriptors::close_on_exec();
            let opened =
                keep.iter().try_for_each(|fd| rustix::io::fcntl_setfd(fd, FdFlags::empty()));
            if let Err(error) = opened {
                return error.into();
            }
            let error = call(binary, &argv, &environment);
            crate::descriptors::close_on_exec();
            error
        }
        Err(error) => error,
    }
}

type Words = Vec<CString>;

fn prepare(argv: &[OsString]) -> io::Result<(Words, Words)> {
    let word = |word: &OsStr| CString::new(word.as_bytes()).map_err(io::Error::other);
    let variable = |(name, value): (OsString, OsString)| {
        let mut whole = name;
        whole.push("=");
        whole.push(value);
        word(&whole)
    };
    let argv = argv.iter().map(|one| word(one)).collect::<io::Result<_>>()?;
    Ok((argv, std::env::vars_os().map(variable).collect::<io::Result<_>>()?))
}

fn call(binary: BorrowedFd<'_>, argv: &[CString], environment: &[CString]) -> io::Error {
    let pointers = |words: &[CString]| {
        let all = words.iter().map(|word| word.as_ptr());
        all.chain(std::iter::once(ptr::null())).collect::<Vec<_>>()
    };
    let (argv, environment) = (pointers(argv), pointers(environment));
    let path: *const libc::c_char = c"".as_ptr();
    // SAFETY: the descriptor is open, and both tables are of strings that live and end with zero.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            binary.as_raw_fd(),
            path,
            argv.as_ptr(),
            environment.as_ptr(),
            libc::AT_EMPTY_PATH,
        );
    }
    io::Error::last_os_error()
}

/// Names the process after the program, where the kernel named it after a descriptor.
pub(crate) fn name_process() {
    // SAFETY: the kernel reads a string that ends with zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"weir".as_ptr()) };
}

/// Nanoseconds on a clock that all processes of this boot share.
pub(crate) fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one such struct at the address.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}
