//! A mount in other hands: held still, and gone on with by whoever has its descriptor next.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use crate::abi::notify;
use crate::device::Device;
use crate::readers::Readers;

/// What kernel and daemon agreed on when they shook hands, as far as whoever goes on must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Bytes of the largest request.
    pub write_bytes: u32,
    /// Requests for extended attributes are long.
    pub setxattr_ext: bool,
    /// The kernel can be asked for what it sent and nobody answered (Linux 6.9).
    pub resends: bool,
}

/// Holds a mount still. Its clones are one.
#[derive(Clone, Debug)]
pub struct Control {
    pub(crate) device: Arc<Device>,
    pub(crate) readers: Arc<Readers>,
    pub(crate) agreed: Agreed,
}

/// A mount that stands still, until this goes: no request is read.
#[derive(Debug)]
pub struct Still<'a>(&'a Control);

impl Control {
    /// What goes on with the mount is to know.
    pub fn agreed(&self) -> Agreed {
        self.agreed
    }

    /// Reads no more requests. Returns when each thread stands still; what they passed on may be
    /// under way.
    ///
    /// # Errors
    /// `TimedOut` where one of them is busy for longer, `NotConnected` where it is unmounted.
    pub fn hold(&self, limit: Duration) -> io::Result<Still<'_>> {
        self.readers.hold(limit)?;
        Ok(Still(self))
    }

    /// Serves no more, although the file system is mounted somewhere yet: whoever uses it waits until
    /// all channels are closed, and gets errors then. `false` where a thread is busy for longer than
    /// `limit`; it leaves later.
    ///
    /// # Errors
    /// Those of the system that lets no signal be heard.
    pub fn end(&self, limit: Duration) -> io::Result<bool> {
        self.readers.end(limit)
    }
}

impl Still<'_> {
    /// Has the kernel send again what it sent and has no answer to, in the order in which it came;
    /// what is answered until then is not. To whoever reads next.
    ///
    /// # Errors
    /// `InvalidInput` where the kernel cannot.
    pub fn send_again(&self) -> io::Result<()> {
        self.0.device.send(0, notify::RESEND, &[])
    }
}

impl AsFd for Still<'_> {
    /// The channel that the mount was made with: whoever has it open keeps the mount.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.device.0.as_fd()
    }
}

impl Drop for Still<'_> {
    fn drop(&mut self) {
        self.0.readers.go_on();
    }
}
