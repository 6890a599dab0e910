//! Whole records, past the tier: a write becomes an object, a read is one GET.
//!
//! A write returns once its object is there and the metadata names it, so that `kill -9` loses
//! nothing that a client was told of: clients live on and connect again. A client that writes with
//! a deep queue keeps the bucket busy all the same. Bytes that the bucket does not take go to the
//! tier, and leave from there when it does.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;
use weir_meta::{FileFlush, FlushCommit, Meta, Piece};
use weir_object::Component;
use weir_segment::{Owner, SealedSegment, SegmentBuilder};
use weir_tier::Mirror;
use weir_types::{ByteRange, CHUNK_BYTES, ErrorKind, FsError, Ino, Result};

use crate::data::admission::budget::{Budget, Slowed};
use crate::data::fetch::Fetcher;
use crate::data::journal::Journal;
use crate::data::mirrors::Mirrors;
use crate::data::nodes::Node;
use crate::data::segments::{InFlight, PERMIT_BYTES, Segments, segment_info};
use crate::volume::context::{Context, blocking};

/// Records in the bucket that nothing names yet.
struct Sent {
    sealed: SealedSegment,
    pieces: Vec<Piece>,
    _in_flight: InFlight,
}

/// Reads and writes whole records past the tier.
pub(crate) struct DirectRecords {
    context: Arc<Context>,
    meta: Arc<Meta>,
    journal: Option<Arc<Journal>>,
    mirrors: Arc<Mirrors>,
    segments: Arc<Segments>,
    fetcher: Arc<Fetcher>,
    budget: Arc<Budget>,
    /// Memory of whole records on their way, in [`PERMIT_BYTES`].
    memory: Semaphore,
}

impl DirectRecords {
    pub(crate) fn new(
        fetcher: Arc<Fetcher>,
        journal: Option<Arc<Journal>>,
        segments: Arc<Segments>,
        budget: Arc<Budget>,
    ) -> Self {
        let context = fetcher.context.clone();
        let permits = context.settings.memory().uploads.div_ceil(PERMIT_BYTES) as usize;
        Self {
            context,
            meta: fetcher.meta.clone(),
            journal,
            mirrors: fetcher.mirrors.clone(),
            segments,
            fetcher,
            budget,
            memory: Semaphore::new(permits),
        }
    }

    /// Stores whole records of a disk as one object, then names them. The caller holds them
    /// alone. One PUT and one metadata commit.
    pub(crate) async fn store_records(
        self: &Arc<Self>,
        (node, mirror): (&Node, &Mirror),
        record_bytes: u64,
        start: u64,
        data: &Bytes,
    ) -> Result<()> {
        let ino = node.ino;
        let permits = data.len().div_ceil(PERMIT_BYTES as usize) as u32;
        // Never closed: without a permit there is no limit.
        let memory = self.memory.acquire_many(permits).await.ok();
        let sent = self.send_records(ino, record_bytes, start, data.clone()).await?;
        fail::fail_point!("engine::record-put");
        // A snapshot may take a while to let this disk's extents change.
        drop(memory);
        let _change = node.change.lock().await;
        match self
            .name_records(mirror, sent, ByteRange::new(start, start + data.len() as u64))
            .await
        {
            Ok(()) => Ok(()),
            Err(error) => Err(self.mirrors.extents_unsure(ino, error).await),
        }
    }

    /// Writes bytes of one chunk past the tier, whose disk has no room for them. Nobody else may
    /// use the file meanwhile.
    pub(crate) async fn write_past_tier(
        self: &Arc<Self>,
        mirror: &Mirror,
        start: u64,
        data: Bytes,
    ) -> Result<()> {
        let range = ByteRange::new(start, start + data.len() as u64);
        let sent =
            self.send_records(mirror.ino(), self.context.format.record_bytes, start, data).await?;
        self.name_records(mirror, sent, range).await
    }

    /// Puts bytes behind the end of a file, wherever other nodes have that by now; nothing of the file waits
    /// to be flushed. One PUT and one commit; again where another node was faster.
    pub(crate) async fn append(
        self: &Arc<Self>,
        (node, mirror): (&Node, &Mirror),
        data: &Bytes,
    ) -> Result<()> {
        let record_bytes = self.context.format.record_bytes;
        loop {
            let end = self.meta.inode(node.ino).await?.size;
            let sent = self.send_records(node.ino, record_bytes, end, data.clone()).await?;
            let _change = node.change.lock().await;
            let now = Some(self.context.now());
            let file = FileFlush {
                ino: node.ino,
                pieces: sent.pieces,
                mtime: now,
                ctime: now,
                ..FileFlush::default()
            };
            let segment = (sent.sealed.id, segment_info(&sent.sealed));
            let known = mirror.generation();
            if let Some(done) = self.meta.append(segment, &file, end).await? {
                let first = if known == done.before { end } else { 0 };
                // Who reads the mirror file itself finds it there.
                if first == end && mirror.bring(&done.inode, known, &[(end, data)])? {
                    return Ok(());
                }
                return mirror.changed_from(&done.inode, first);
            }
        }
    }

    /// Brings records to the bucket, in an object that nothing names yet.
    async fn send_records(
        self: &Arc<Self>,
        ino: Ino,
        record_bytes: u64,
        start: u64,
        data: Bytes,
    ) -> Result<Sent> {
        self.context.check_writable()?;
        let (in_flight, builder) = self.segments.new_segment();
        let (sealed, pieces) =
            blocking(move || pack(builder, ino, start, record_bytes, &data)).await?;
        self.segments.put_segment(&sealed, Component::Data).await?;
        Ok(Sent { sealed, pieces, _in_flight: in_flight })
    }

    /// Makes what was sent the bytes of its file. The caller holds the file's extents.
    async fn name_records(&self, mirror: &Mirror, sent: Sent, range: ByteRange) -> Result<()> {
        let ino = mirror.ino();
        let segments = vec![(sent.sealed.id, segment_info(&sent.sealed))];
        let pieces = sent.pieces;
        let file = FileFlush { ino, pieces, replaced: Some(range), ..FileFlush::default() };
        let commit = FlushCommit { segments, files: vec![file] };
        let done = self.meta.commit_flush(commit).await?;
        fail::fail_point!("engine::record-committed");
        // A file in use is not purged.
        let gone =
            || FsError::new(ErrorKind::Bug, format!("inode {ino}, which is in use, is gone"));
        let inode = done.into_iter().find_map(|(_, inode)| inode).ok_or_else(gone)?;
        mirror.dropped(range, None, inode.data.generation, true)?;
        if let Some(journal) = &self.journal {
            journal.forget(ino, range.start, range.end);
        }
        Ok(())
    }

    /// Reads stored bytes of one chunk past the tier. The caller shares them. One GET for each
    /// object that they are in.
    pub(crate) async fn read_records(&self, ino: Ino, start: u64, end: u64) -> Result<Bytes> {
        self.budget.wait(Slowed::Demand).await;
        self.fetcher.read_stored(ino, start..end).await
    }
}

/// Packs records that follow one another into a segment of their own. None crosses the edge of a chunk.
fn pack(
    mut builder: SegmentBuilder,
    ino: Ino,
    start: u64,
    record_bytes: u64,
    data: &[u8],
) -> Result<(SealedSegment, Vec<Piece>)> {
    let mut pieces = Vec::new();
    let mut offset = start;
    let mut rest = data;
    while !rest.is_empty() {
        let most = record_bytes.min(CHUNK_BYTES - offset % CHUNK_BYTES) as usize;
        let (bytes, after) = rest.split_at(rest.len().min(most));
        rest = after;
        let record = builder.push(Owner { ino, offset }, bytes)?;
        pieces.push(Piece { offset, record, len: bytes.len() as u32 });
        offset += bytes.len() as u64;
    }
    Ok((builder.finish(), pieces))
}
