//! What goes into one segment: parts of files, and the memory that they take on their way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::OwnedSemaphorePermit;
use weir_meta::{FLUSH_CHUNKS_MAX, Piece};
use weir_segment::SealedSegment;
use weir_tier::{Mirror, Snapshot};
use weir_types::{CHUNK_BYTES, VolumeFormat};

use crate::data::nodes::Node;
use crate::data::segments::PERMIT_BYTES;
use crate::volume::locks::OwnedMutexGuard;

/// How far segments of late were compressed.
#[derive(Default)]
pub(super) struct Compression {
    /// Bytes of late segments before and after.
    raw_bytes: AtomicU64,
    stored_bytes: AtomicU64,
}

impl Compression {
    /// Bytes of files that fill a segment, if they compress as those of late.
    pub(super) fn load_bytes(&self, format: &VolumeFormat) -> u64 {
        let raw = self.raw_bytes.load(Ordering::Relaxed);
        let stored = self.stored_bytes.load(Ordering::Relaxed).max(1);
        let tenths = (raw * 10 / stored).clamp(10, 40);
        format.segment_bytes * tenths / 10
    }

    /// Takes note of a segment. Older ones count half as much with each.
    pub(super) fn packed(&self, sealed: &SealedSegment) {
        let fade = |sum: &AtomicU64, new: u64| {
            sum.store(sum.load(Ordering::Relaxed) / 2 + new, Ordering::Relaxed);
        };
        fade(&self.raw_bytes, sealed.raw_bytes);
        fade(&self.stored_bytes, sealed.bytes.len() as u64);
    }
}

/// A file that a round flushes; nobody else does meanwhile.
pub(super) struct Flushing {
    pub(super) node: Arc<Node>,
    pub(super) mirror: Arc<Mirror>,
    pub(super) lock: Arc<OwnedMutexGuard>,
}

impl Flushing {
    /// From here on the part gives its ranges back, whatever ends the flush.
    pub(super) fn part(&self, snapshot: Snapshot) -> Part {
        Part {
            node: self.node.clone(),
            mirror: self.mirror.clone(),
            snapshot,
            pieces: Vec::new(),
            named: false,
            lock: Some(self.lock.clone()),
        }
    }
}

/// A part of one file on its way: what one segment holds of it.
pub(super) struct Part {
    pub(super) node: Arc<Node>,
    pub(super) mirror: Arc<Mirror>,
    pub(super) snapshot: Snapshot,
    pub(super) pieces: Vec<Piece>,
    /// The metadata names its bytes; only the note of that here is missing.
    pub(super) named: bool,
    /// Keeps other flushes of the file away until this part is committed, or waits for that.
    pub(super) lock: Option<Arc<OwnedMutexGuard>>,
}

impl Part {
    /// It was sent and waits for its commit: others may flush the file meanwhile.
    pub(super) fn wait(&mut self) {
        if self.lock.take().is_some() {
            self.node.sent.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The part in slices that a commit can take, whatever is in it.
    pub(super) fn slices(mut self) -> Vec<Part> {
        let mut slices = Vec::new();
        while let Some(full) = first_past(&self.pieces, FLUSH_CHUNKS_MAX) {
            let rest = self.pieces.split_off(full);
            let at = rest[0].offset / CHUNK_BYTES * CHUNK_BYTES;
            slices.push(Part {
                node: self.node.clone(),
                mirror: self.mirror.clone(),
                snapshot: self.snapshot.split_head(at),
                pieces: std::mem::replace(&mut self.pieces, rest),
                named: false,
                lock: self.lock.clone(),
            });
        }
        slices.push(self);
        slices
    }
}

/// The first piece behind so many chunks.
fn first_past(pieces: &[Piece], chunks: usize) -> Option<usize> {
    let starts = |i: &usize| *i == 0 || chunk_of(&pieces[*i]) != chunk_of(&pieces[*i - 1]);
    (0..pieces.len()).filter(starts).nth(chunks)
}

fn chunk_of(piece: &Piece) -> u64 {
    piece.offset / CHUNK_BYTES
}

// A commit of the metadata must be an entry of the redo log, whatever else the entry says.
const _: () = assert!(weir_meta::kv::COMMIT_BYTES_MAX * 3 / 2 < weir_tier::ENTRY_BYTES_MAX);

impl Drop for Part {
    /// Whatever ended the flush before its commit, the ranges are dirty again; after it none is
    /// in flight any more, and this does nothing.
    fn drop(&mut self) {
        if self.lock.is_none() {
            self.node.sent.fetch_sub(1, Ordering::AcqRel);
        }
        self.mirror.flush_failed(&self.snapshot);
    }
}

/// What goes into one segment.
pub(super) struct Load {
    pub(super) parts: Vec<Part>,
    pub(super) raw_bytes: u64,
    /// A MiB each of memory; `None` only when the engine is gone.
    pub(super) permits: Option<OwnedSemaphorePermit>,
}

impl Load {
    /// Gives back what compression saved.
    pub(super) fn shrink(&mut self, bytes: usize) {
        let needed = bytes.div_ceil(PERMIT_BYTES as usize);
        if let Some(permits) = &mut self.permits
            && let Some(more) = permits.num_permits().checked_sub(needed)
        {
            drop(permits.split(more));
        }
    }
}
