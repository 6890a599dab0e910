//! How a node's beats go, for whoever watches it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use weir_meta::sessions::Session;

/// This node among those that share the volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodesStatus {
    /// Its session, as `weir nodes` names it.
    pub id: String,
    /// Beats that were answered since the mount: one each 3 s.
    pub beats: u64,
    /// Beats that failed since the mount.
    pub beats_failed: u64,
    /// How long ago the last one was answered, or the node joined, in milliseconds. After 12 s the others shut
    /// it out.
    pub since_beat_ms: u64,
    /// Nodes that lived at the last look, this one too.
    pub live: u64,
    /// The versions of Weir that they run.
    pub builds: BTreeSet<String>,
    /// Nodes that this one shut out since the mount, because they were silent.
    pub evicted: u64,
    /// Whether it collects, imports and exports for all.
    pub on_duty: bool,
    /// Whether the others shut it out: it changes nothing any more.
    pub shut_out: bool,
}

/// What is counted of a session's beats.
#[derive(Debug)]
pub(crate) struct Pulse {
    answered: AtomicU64,
    failed: AtomicU64,
    evicted: AtomicU64,
    last: Mutex<Instant>,
}

impl Pulse {
    /// Of a session that joins now.
    pub(crate) fn new() -> Self {
        let (answered, failed, evicted) = Default::default();
        Self { answered, failed, evicted, last: Mutex::new(Instant::now()) }
    }

    /// A beat is in the metadata.
    pub(crate) fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        *self.last.lock() = Instant::now();
    }

    /// A beat, or the look after it, failed.
    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// This session shut another one out.
    pub(crate) fn evicted(&self) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
    }

    /// All of it, with who lived at the last look.
    pub(crate) fn status(&self, id: String, live: &[Session]) -> NodesStatus {
        let since = self.last.lock().elapsed().as_millis();
        NodesStatus {
            id,
            beats: self.answered.load(Ordering::Relaxed),
            beats_failed: self.failed.load(Ordering::Relaxed),
            since_beat_ms: u64::try_from(since).unwrap_or(u64::MAX),
            live: live.len() as u64,
            builds: live.iter().map(|session| session.node.build.clone()).collect(),
            evicted: self.evicted.load(Ordering::Relaxed),
            on_duty: false,
            shut_out: false,
        }
    }
}
