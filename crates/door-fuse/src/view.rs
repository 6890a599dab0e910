//! What a mount tells of itself, for as long as anybody asks.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use weir_types::{FsError, Result};

use crate::door::DoorState;
use crate::elsewhere;
use crate::mountpoint::mounted_on;
use crate::options::Transport;
use crate::passthrough::PassthroughState;

/// Why a shared mount has no rings. They have room for so many requests; a lock that others wait
/// for would never be let go if all of it were theirs.
const SHARED: &str = "others may change the volume, so that locks wait in the daemon";

/// How long a thread that serves may be busy with one request.
const STOP_MAX: Duration = Duration::from_secs(5);

/// What a mount counts, for as long as anybody asks.
#[derive(Clone)]
pub struct FuseView(pub(crate) Arc<DoorState>);

/// How requests come from the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportState {
    /// Why they come from `/dev/fuse`; `None` if they come over io_uring.
    pub without_rings: Option<String>,
}

impl std::fmt::Debug for FuseView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FuseView({})", self.0.options.mountpoint.display())
    }
}

impl FuseView {
    /// Whether resident files are read past the daemon.
    pub fn passthrough(&self) -> PassthroughState {
        self.0.passthrough.state()
    }

    /// How requests come from the kernel.
    pub fn transport(&self) -> TransportState {
        let without = match self.0.options.transport {
            Transport::Auto => Some("the default"),
            Transport::Dev => Some("chosen for this mount"),
            Transport::Uring if !self.0.options.exclusive => Some(SHARED),
            Transport::Uring => match self.0.transport.get() {
                Some(transport) => transport.without_rings(),
                None => Some("not mounted yet"),
            },
        };
        TransportState { without_rings: without.map(str::to_owned) }
    }

    /// Where it is mounted, in words, as far as this user may see; `None` if nowhere that can be seen.
    pub fn mounted_where(&self) -> Option<String> {
        elsewhere::shown(&self.0.mounted.get()?.device)
    }

    /// Whether it is what is mounted at its mount point, and not another file system since.
    pub fn in_tree(&self) -> bool {
        let Some(ours) = self.0.mounted.get() else { return true };
        let on = mounted_on(&ours.mountpoint);
        on.is_ok_and(|on| on.is_some_and(|on| on.device == ours.device))
    }

    /// Serves no more, wherever it is mounted yet: whoever uses it there waits until this process
    /// ends, and gets errors from then on. Blocking, for as long as one request is served.
    pub fn stop_serving(&self) -> Result<()> {
        let at = |error| FsError::local_io("stop serving a mount that is used elsewhere", error);
        match self.0.control.get().and_then(Option::as_ref) {
            Some(control) => match control.end(STOP_MAX).map_err(at)? {
                true => Ok(()),
                false => Err(at(io::ErrorKind::TimedOut.into())),
            },
            // The kernel ends rings.
            None => self.abort().map_err(at),
        }
    }

    fn abort(&self) -> io::Result<()> {
        let minor = self.0.mounted.get().and_then(|mounted| mounted.device.split(':').nth(1));
        let minor = minor.ok_or(io::ErrorKind::NotFound)?;
        std::fs::write(format!("/sys/fs/fuse/connections/{minor}/abort"), "1")
    }

    /// Requests that the kernel sent since the mount, by kind, without those that never came.
    pub fn requests(&self) -> Vec<(&'static str, u64)> {
        self.0.counts.all()
    }
}
