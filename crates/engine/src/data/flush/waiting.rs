//! Commits of segments that were sent and whose commit failed.

use std::sync::atomic::AtomicU64;

use weir_meta::SegmentInfo;
use weir_types::{FsError, SegmentId};

use super::load::Part;
use crate::data::segments::InFlight;
use crate::volume::locks::{self, Place};

/// What was sent in one segment, or needed none, and is not committed yet.
pub(super) struct Sent {
    pub(super) segment: Option<(SegmentId, SegmentInfo)>,
    pub(super) parts: Vec<Part>,
    pub(super) in_flight: InFlight,
}

/// Commits to be tried again.
pub(super) struct Waiting {
    pub(super) sent: parking_lot::Mutex<Vec<Sent>>,
    /// Held by whoever tries them; how the last try that failed did.
    pub(super) turn: locks::Mutex<Option<FsError>>,
    pub(super) failed: AtomicU64,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self {
            sent: parking_lot::Mutex::default(),
            turn: locks::Mutex::new(Place::CommitTurn, 0, None),
            failed: AtomicU64::new(0),
        }
    }

    pub(super) fn push(&self, sent: Sent) {
        self.sent.lock().push(sent);
    }

    pub(super) fn pop(&self) -> Option<Sent> {
        self.sent.lock().pop()
    }
}
