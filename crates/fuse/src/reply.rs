//! Answers to requests.

use std::sync::Arc;
use std::time::Duration;

use crate::attr::{Attr, Entry, Timestamp};
use crate::backing::{Backing, Registrar};
use crate::bytes::Output;
use crate::device::Device;
use crate::request::LockRange;
use crate::ring::Slot;

/// An error number of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// What an open comes to.
#[derive(Clone, Copy, Debug)]
pub struct Opened<'a> {
    /// The number by which the kernel is to name the open file.
    pub handle: u64,
    /// How it is to treat it: of [`crate::open`].
    pub flags: u32,
    /// What it is to read without the daemon, with [`crate::open::PASSTHROUGH`].
    pub backing: Option<&'a Backing>,
}

impl Opened<'_> {
    fn put(&self, out: &mut Output) {
        out.u64(self.handle).u32(self.flags).u32(self.backing.map_or(0, |backing| backing.id));
    }
}

/// The numbers of a `statfs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Blocks in all.
    pub blocks: u64,
    /// Those that are free.
    pub free: u64,
    /// Inodes in all.
    pub files: u64,
    /// Those that are free.
    pub files_free: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Bytes of the longest name.
    pub name_bytes_max: u32,
}

/// Where the answer to a request goes: where the request came from.
#[derive(Debug)]
enum Way {
    Device,
    Ring(Slot),
}

/// The answer to one request, to be given once. One that is dropped says EIO.
#[derive(Debug)]
pub struct Reply {
    unique: u64,
    device: Arc<Device>,
    /// Nowhere once it is given.
    way: Option<Way>,
}

impl Reply {
    pub(crate) fn new(device: &Arc<Device>, unique: u64) -> Self {
        Self { unique, device: device.clone(), way: Some(Way::Device) }
    }

    /// To a request of a ring. Files are registered on the device.
    pub(crate) fn of_ring(device: &Arc<Device>, unique: u64, slot: Slot) -> Self {
        Self { unique, device: device.clone(), way: Some(Way::Ring(slot)) }
    }

    pub(crate) fn is_of_ring(&self) -> bool {
        matches!(self.way, Some(Way::Ring(_)))
    }

    /// No answer is wanted.
    pub(crate) fn none(mut self) {
        match self.way.take() {
            // It goes back to the kernel all the same.
            Some(Way::Ring(slot)) => slot.answer(0, &[]),
            Some(Way::Device) | None => {}
        }
    }

    fn send(&mut self, error: i32, body: &[u8]) {
        let sent = match self.way.take() {
            None => return,
            Some(Way::Ring(slot)) => return slot.answer(error, body),
            Some(Way::Device) => self.device.send(self.unique, error, body),
        };
        if let Err(error) = sent {
            // Nobody waits any more: it was unmounted or aborted.
            tracing::debug!(unique = self.unique, %error, "an answer found nobody");
        }
    }

    /// Gives no answer, because the kernel is going to send the request again: only where a mount is
    /// held still. Of a ring it is EIO.
    pub fn leave(mut self) {
        if !self.is_of_ring() {
            self.way = None;
        }
    }

    /// No.
    pub fn error(mut self, errno: Errno) {
        self.send(-errno.0, &[]);
    }

    /// Done.
    pub fn ok(mut self) {
        self.send(0, &[]);
    }

    /// Bytes: of a file, a symlink's target, an extended attribute, a directory.
    pub fn bytes(mut self, bytes: &[u8]) {
        self.send(0, bytes);
    }

    /// What a name leads to.
    pub fn entry(mut self, entry: &Entry) {
        let mut out = Output::default();
        entry.put(&mut out);
        self.send(0, &out.0);
    }

    /// Attributes, and how long the kernel may remember them.
    pub fn attr(mut self, attr: &Attr, ttl: Duration) {
        let mut out = Output::default();
        out.u64(ttl.as_secs()).u32(ttl.subsec_nanos()).u32(0);
        attr.put(&mut out);
        self.send(0, &out.0);
    }

    /// The same, with the time of birth.
    pub fn statx(mut self, attr: &Attr, btime: Timestamp, ttl: Duration) {
        let mut out = Output::default();
        out.u64(ttl.as_secs()).u32(ttl.subsec_nanos()).u32(0).zeros(16);
        attr.put_statx(btime, &mut out);
        self.send(0, &out.0);
    }

    /// An open file or directory.
    pub fn opened(mut self, opened: Opened<'_>) {
        let mut out = Output::default();
        opened.put(&mut out);
        self.send(0, &out.0);
    }

    /// A new file, open.
    pub fn created(mut self, entry: &Entry, opened: Opened<'_>) {
        let mut out = Output::default();
        entry.put(&mut out);
        opened.put(&mut out);
        self.send(0, &out.0);
    }

    /// So many bytes were written or copied, or an extended attribute has.
    pub fn size(mut self, bytes: u32) {
        let mut out = Output::default();
        out.u32(bytes).u32(0);
        self.send(0, &out.0);
    }

    /// So many bytes were copied, by a request whose answer is wide.
    pub fn copied(mut self, bytes: u64) {
        self.send(0, &bytes.to_ne_bytes());
    }

    /// The offset that an lseek found.
    pub fn offset(mut self, offset: u64) {
        self.send(0, &offset.to_ne_bytes());
    }

    /// The lock that is in the way.
    pub fn lock(mut self, lock: LockRange) {
        let mut out = Output::default();
        out.u64(lock.start).u64(lock.end).u32(lock.kind as u32).u32(lock.pid);
        self.send(0, &out.0);
    }

    /// How full it is.
    pub fn space(mut self, space: Space) {
        let mut out = Output::default();
        out.u64(space.blocks).u64(space.free).u64(space.free);
        out.u64(space.files).u64(space.files_free);
        out.u32(space.block_bytes).u32(space.name_bytes_max).u32(space.block_bytes).zeros(28);
        self.send(0, &out.0);
    }

    /// Registers files with the kernel.
    pub fn registrar(&self) -> Registrar {
        Registrar(self.device.clone())
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.send(-libc::EIO, &[]);
    }
}

#[cfg(test)]
mod tests;
