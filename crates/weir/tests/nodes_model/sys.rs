//! Calls of the system that no library has as they are needed here: `close` that says whether it went
//! well, locks of ranges, and one clock for all processes.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::OnceLock;
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

/// Set where nodes are shut out in a run: what is only closed, and names that are only made, outlive no node that made
/// the file.
const SYNC: &str = "WEIR_SYNC";

fn syncs() -> bool {
    static SYNCS: OnceLock<bool> = OnceLock::new();
    *SYNCS.get_or_init(|| std::env::var_os(SYNC).is_some())
}

/// Has what was done to names below a directory be for good.
pub(crate) fn settle(root: BorrowedFd<'_>) -> Result<(), Errno> {
    use rustix::fs::{Mode, OFlags, fsync, openat};
    if syncs() {
        fsync(openat(root, ".", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?)?;
    }
    Ok(())
}

/// Closes, and says whether what was written is where it belongs.
#[allow(unsafe_code, reason = "libraries drop what `close` says")]
pub(crate) fn close(file: OwnedFd) -> Result<(), Errno> {
    if syncs() {
        rustix::fs::fsync(&file)?;
    }
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

/// A shared mapping of the beginning of a file, which must be so long as long as the mapping is there.
pub(crate) struct Mapping {
    at: *mut u8,
    len: usize,
}

impl Mapping {
    #[allow(unsafe_code, reason = "no library that is here maps files")]
    pub(crate) fn new(file: impl AsFd, len: usize, writable: bool) -> Result<Self, Errno> {
        let access = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        let file = file.as_fd().as_raw_fd();
        // SAFETY: a new mapping, wherever the kernel puts it.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, file, 0) };
        match at == libc::MAP_FAILED {
            true => Err(last_error()),
            false => Ok(Self { at: at.cast(), len }),
        }
    }

    #[allow(unsafe_code, reason = "others change what is mapped")]
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        // SAFETY: all of it is mapped, and bytes are copied whatever they are.
        unsafe { std::ptr::copy_nonoverlapping(self.at, bytes.as_mut_ptr(), self.len) };
        bytes
    }

    #[allow(unsafe_code, reason = "others read what is mapped")]
    pub(crate) fn store(&mut self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.len, "all of it is stored");
        // SAFETY: so much is mapped, for writing.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at, self.len) };
    }

    #[allow(unsafe_code, reason = "no library that is here has this call")]
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        // SAFETY: that is what is mapped.
        match unsafe { libc::msync(self.at.cast(), self.len, libc::MS_SYNC) } {
            0 => Ok(()),
            _ => Err(last_error()),
        }
    }
}

impl Drop for Mapping {
    #[allow(unsafe_code, reason = "no library that is here maps files")]
    fn drop(&mut self) {
        // SAFETY: nobody has a reference into it.
        let done = unsafe { libc::munmap(self.at.cast(), self.len) };
        assert_eq!(done, 0, "what is mapped can be unmapped");
    }
}

/// All of a file that is open for direct reads.
#[allow(unsafe_code, reason = "into memory that is aligned as disks want it")]
pub(crate) fn read_direct(file: impl AsFd) -> Result<Vec<u8>, Errno> {
    const PART: usize = 1 << 20;
    let mut buffer = vec![0_u8; PART + 4096];
    let aligned = buffer.as_ptr().align_offset(4096);
    let mut all = Vec::new();
    loop {
        let into = &mut buffer[aligned..aligned + PART];
        let (at, file) = (all.len() as libc::off_t, file.as_fd().as_raw_fd());
        // SAFETY: the kernel writes so many bytes at most at the address.
        match unsafe { libc::pread(file, into.as_mut_ptr().cast(), PART, at) } {
            0 => return Ok(all),
            read if read > 0 => {
                all.extend_from_slice(&into[..read as usize]);
                // A part of a block is the end.
                if !(read as usize).is_multiple_of(4096) {
                    return Ok(all);
                }
            }
            _ => return Err(last_error()),
        }
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
