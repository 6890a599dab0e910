//! What the kernel is told without having asked.

use std::io;
use std::sync::Arc;

use crate::abi::notify;
use crate::bytes::Output;
use crate::device::Device;

/// Tells the kernel to forget. A call may wait for requests of the mount.
#[derive(Clone, Debug)]
pub struct Notifier {
    device: Arc<Device>,
}

impl Notifier {
    pub(crate) fn new(device: Arc<Device>) -> Self {
        Self { device }
    }

    /// It drops the attributes of an inode, and its pages from `offset` on, `len` bytes or, with 0,
    /// to the end; none where `offset` is negative.
    ///
    /// # Errors
    /// `NotFound` if it knows no such inode.
    pub fn inval_inode(&self, ino: u64, offset: i64, len: i64) -> io::Result<()> {
        let mut out = Output::default();
        out.u64(ino).u64(offset as u64).u64(len as u64);
        self.device.send(0, notify::INVAL_INODE, &out.0)
    }

    /// It asks before it believes a name again, and drops what it knows of the names in the directory.
    /// What is mounted on the name stays, if that still leads to the same inode; kernels before Linux
    /// 6.2 drop the name, and that with it.
    ///
    /// # Errors
    /// `NotFound` if it knows no such name.
    pub fn expire_entry(&self, dir: u64, name: &[u8]) -> io::Result<()> {
        self.name(dir, name, notify::EXPIRE_ONLY)
    }

    /// It drops a name, known to be there or not to be, and asks for it when it is used again. What is
    /// mounted on it goes with it. It waits for requests that look for or change a name in the directory.
    ///
    /// # Errors
    /// `NotFound` if it knows no such name.
    pub fn inval_entry(&self, dir: u64, name: &[u8]) -> io::Result<()> {
        self.name(dir, name, 0)
    }

    fn name(&self, dir: u64, name: &[u8], flags: u32) -> io::Result<()> {
        let mut out = Output::default();
        out.u64(dir).u32(name.len() as u32).u32(flags);
        out.0.extend_from_slice(name);
        out.0.push(0);
        self.device.send(0, notify::INVAL_ENTRY, &out.0)
    }

    /// It believes no name any more that it knows by now, also none that it knows not to be there, and
    /// asks for each that is used again. At once, however many there are. It drops them, and does not
    /// expire them: what is mounted on one goes with it.
    ///
    /// # Errors
    /// `InvalidInput` where the kernel cannot: it needs Linux 6.16.
    pub fn inc_epoch(&self) -> io::Result<()> {
        self.device.send(0, notify::INC_EPOCH, &[])
    }
}
