//! The block door: disks of a volume by NBD, for any client, and as block devices of this machine's
//! own kernel.
//!
//! In come requests of a protocol for byte ranges of a disk; out go calls of
//! [`weir_engine::Disk`]. Errno lives here and nowhere below.

pub mod attach;
mod body;
mod counts;
mod nbd;

#[doc(hidden)]
pub use nbd::protocol;
pub use nbd::{NbdOptions, NbdServer};
pub use weir_tls::ServerFiles;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

// What tests of the inside share with those of the outside.
#[cfg(test)]
extern crate self as weir_door_block;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;

/// What the door did since it was opened. Each of the counts only grows, but for `connections`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockCounts {
    /// Connections open by now.
    pub connections: u64,
    /// Connections that ever came past the handshake.
    pub connections_total: u64,
    /// Reads that were answered, errors too.
    pub reads: u64,
    /// Writes, zeroes among them.
    pub writes: u64,
    /// Trims.
    pub trims: u64,
    /// Flushes; a write with FUA is none.
    pub flushes: u64,
    /// Requests that were answered with an error.
    pub errors: u64,
    /// Bytes that went to clients.
    pub bytes_read: u64,
    /// Bytes that came from clients.
    pub bytes_written: u64,
}
