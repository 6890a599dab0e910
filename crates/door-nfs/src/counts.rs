//! What the door counts while it runs, and how its clients stand.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_types::UnixTime;

/// What the door did since it was opened. Each of the counts only grows, but for `connections`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NfsCounts {
    /// Connections open by now.
    pub connections: u64,
    /// Connections that ever were.
    pub connections_total: u64,
    /// Requests that were answered: each is a list of operations.
    pub requests: u64,
    /// Operations that were done.
    pub operations: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Operations that were refused or failed; that a name is not there is one as well.
    pub errors: u64,
    /// Requests that came again, and were answered and not done again.
    pub replays: u64,
    /// Files that clients were given to keep a copy of (delegations).
    pub delegations_given: u64,
    /// Those that were asked back, as somebody wanted to change the file.
    pub delegations_recalled: u64,
    /// Those that were taken from clients that did not give them back in time.
    pub delegations_revoked: u64,
    /// Bytes of files that went to clients.
    pub bytes_read: u64,
    /// Bytes of files that came from clients.
    pub bytes_written: u64,
}

/// A client as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClientView {
    /// Names it in this life of the server.
    pub id: u64,
    /// The address that it was heard from last.
    pub address: String,
    /// What it calls itself.
    pub name: String,
    /// Since when it is here.
    pub since: UnixTime,
    /// How long it is silent, in ms.
    pub silent_ms: u64,
    /// It is silent for so long that others may have what it holds.
    pub expired: bool,
    /// Whether it came by TLS.
    pub tls: bool,
    /// Files that it has open.
    pub opens: u64,
    /// Files that it may keep a copy of, until it is asked to give that up (delegations).
    pub delegations: u64,
    /// Owners of locks of files among its programs.
    pub locks: u64,
    /// Requests that it sent.
    pub requests: u64,
    /// Bytes of files that it read.
    pub bytes_read: u64,
    /// Bytes of files that it wrote.
    pub bytes_written: u64,
}

/// [`NfsCounts`] as they grow.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) connections: AtomicU64,
    pub(crate) connections_total: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) operations: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) replays: AtomicU64,
    pub(crate) delegations_given: AtomicU64,
    pub(crate) delegations_recalled: AtomicU64,
    pub(crate) delegations_revoked: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
}

impl Counts {
    /// As they are now.
    pub(crate) fn get(&self) -> NfsCounts {
        NfsCounts {
            connections: self.connections.load(Relaxed),
            connections_total: self.connections_total.load(Relaxed),
            requests: self.requests.load(Relaxed),
            operations: self.operations.load(Relaxed),
            reads: self.reads.load(Relaxed),
            writes: self.writes.load(Relaxed),
            errors: self.errors.load(Relaxed),
            replays: self.replays.load(Relaxed),
            delegations_given: self.delegations_given.load(Relaxed),
            delegations_recalled: self.delegations_recalled.load(Relaxed),
            delegations_revoked: self.delegations_revoked.load(Relaxed),
            bytes_read: self.bytes_read.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
        }
    }
}
