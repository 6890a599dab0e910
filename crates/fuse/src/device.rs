//! A channel to the kernel: `/dev/fuse`, opened once for the mount and cloned for each thread.
#![allow(unsafe_code, reason = "two ioctls that no library has")]

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};

/// `FUSE_DEV_IOC_CLONE`
const CLONE: libc::c_ulong = 0x8004_e500;
/// `FUSE_DEV_IOC_BACKING_OPEN`
const BACKING_OPEN: libc::c_ulong = 0x4010_e501;
/// `FUSE_DEV_IOC_BACKING_CLOSE`
const BACKING_CLOSE: libc::c_ulong = 0x4004_e502;

/// `struct fuse_backing_map`
#[repr(C)]
struct BackingMap {
    fd: i32,
    flags: u32,
    padding: u64,
}

#[derive(Debug)]
pub(crate) struct Device(pub(crate) OwnedFd);

impl Device {
    /// One more channel of the same mount.
    pub(crate) fn clone_channel(&self) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
        let source = self.0.as_raw_fd() as u32;
        // SAFETY: both descriptors are open, and the kernel reads four bytes at the address.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), CLONE, &raw const source) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(Self(file.into())) }
    }

    /// Has the kernel know a file that opens may name.
    pub(crate) fn register(&self, file: &File) -> io::Result<u32> {
        let map = BackingMap { fd: file.as_raw_fd(), flags: 0, padding: 0 };
        // SAFETY: both descriptors are open, and the kernel reads one such struct at the address.
        let id = unsafe { libc::ioctl(self.0.as_raw_fd(), BACKING_OPEN, &raw const map) };
        u32::try_from(id).map_err(|_| io::Error::last_os_error())
    }

    pub(crate) fn unregister(&self, id: u32) -> io::Result<()> {
        // SAFETY: the descriptor is open, and the kernel reads four bytes at the address.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), BACKING_CLOSE, &raw const id) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    pub(crate) fn read(&self, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        rustix::io::read(&self.0, buffer)
    }

    /// Sends a message: its header and its parts, in one system call as the kernel wants it.
    pub(crate) fn send(&self, unique: u64, error: i32, body: &[u8]) -> io::Result<()> {
        let mut header = [0; 16];
        header[..4].copy_from_slice(&((16 + body.len()) as u32).to_ne_bytes());
        header[4..8].copy_from_slice(&error.to_ne_bytes());
        header[8..].copy_from_slice(&unique.to_ne_bytes());
        rustix::io::writev(&self.0, &[IoSlice::new(&header), IoSlice::new(body)])?;
        Ok(())
    }
}
