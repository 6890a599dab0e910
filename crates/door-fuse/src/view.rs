//! What a mount tells of itself, for as long as anybody asks.

use std::sync::Arc;

use crate::door::DoorState;
use crate::options::Transport;
use crate::passthrough::PassthroughState;

/// Why a shared mount has no rings. They have room for so many requests; a lock that others wait
/// for would never be let go if all of it were theirs.
const SHARED: &str = "others may change the volume, so that locks wait in the daemon";

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

    /// Requests that the kernel sent since the mount, by kind, without those that never came.
    pub fn requests(&self) -> Vec<(&'static str, u64)> {
        self.0.counts.all()
    }
}
