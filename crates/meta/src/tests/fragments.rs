//! Large files in fragments: whatever is done to them goes in commits that a redo log can hold, and
//! a crash between two of them leaves the volume sound.

use std::sync::Arc;

use parking_lot::Mutex;
use weir_types::{CHUNK_BYTES, Extent, Ino, RecordRef, Result, SegmentId, UnixTime};

use super::{assert_sound, file, info, meta_over, record};
use crate::codec::encode;
use crate::kv::memory::MemoryKv;
use crate::kv::{Commit, CommitLog, Version};
use crate::op::COMMIT_BYTES;
use crate::{
    FLUSH_CHUNKS_MAX, FileFlush, FlushCommit, Flushed, Meta, Piece, ShareRange, check, extents,
    keys,
};

const PAGE: u32 = 4096;
const PAGES: u32 = CHUNK_BYTES as u32 / PAGE;
const SEGMENT: u128 = u128::MAX - 7;
const NOW: UnixTime = UnixTime(50);

/// Keeps what a redo log would hold.
#[derive(Default)]
pub(super) struct Kept(Mutex<Vec<(Version, Vec<u8>)>>);

impl CommitLog for Kept {
    fn append(&self, version: Version, entry: &[u8]) -> Result<()> {
        self.0.lock().push((version, entry.to_vec()));
        Ok(())
    }
}

impl Kept {
    /// The entries since entry `from`.
    pub(super) fn since(&self, from: usize) -> Vec<(Version, Vec<u8>)> {
        self.0.lock()[from..].to_vec()
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

pub(super) async fn logged() -> (Meta, Arc<Kept>) {
    let log = Arc::new(Kept::default());
    (meta_over(Arc::new(MemoryKv::with_log(log.clone()))).await, log)
}

/// The extents of a chunk in which each page is a record of its own.
fn pages() -> Vec<Extent> {
    let page = |i| Extent {
        start: i * PAGE,
        len: PAGE,
        record: RecordRef {
            checksum: u64::MAX - u64::from(i),
            ..record(SEGMENT, i * PAGE + (1 << 28), PAGE)
        },
        skip: 0,
    };
    (0..PAGES).map(page).collect()
}

/// A file of so many chunks in fragments, made without the flushes that it would take.
pub(super) async fn fragments(meta: &Meta, name: &str, chunks: u64) -> Ino {
    let ino = file(meta, Ino::ROOT, name).await;
    let (row, page) = (encode(&pages()).unwrap(), i64::from(PAGE));
    for batch in (0..chunks).collect::<Vec<_>>().chunks(500) {
        let bytes = batch.len() as i64 * i64::from(PAGES) * page;
        let mut puts: Vec<_> =
            batch.iter().map(|chunk| (keys::extents(ino, *chunk), row.clone())).collect();
        puts.push((keys::segment(SegmentId(SEGMENT)), encode(&info(1 << 40)).unwrap()));
        let mut inode = meta.inode(ino).await.unwrap();
        inode.size = (batch[batch.len() - 1] + 1) * CHUNK_BYTES;
        inode.stored_bytes += bytes as u64;
        puts.push((keys::inode(ino), encode(&inode).unwrap()));
        let adds = vec![(keys::live(SegmentId(SEGMENT)), bytes), (keys::STORED.to_vec(), bytes)];
        meta.kv().commit(Commit { puts, adds, ..Commit::default() }).await.unwrap();
    }
    ino
}

/// One page written anew in each of so many chunks, as entries of a flush.
fn rewrite(ino: Ino, chunks: u64) -> FlushCommit {
    let piece = |chunk: u64| Piece {
        offset: chunk * CHUNK_BYTES + u64::from(PAGE) * (chunk % 200),
        record: record(SEGMENT + 1, chunk as u32, PAGE),
        len: PAGE,
    };
    let all: Vec<_> = (0..chunks).map(piece).collect();
    let entry =
        |pieces: &[Piece]| FileFlush { ino, pieces: pieces.to_vec(), ..FileFlush::default() };
    let mut files: Vec<_> = all.chunks(FLUSH_CHUNKS_MAX).map(entry).collect();
    let last = files.last_mut().unwrap();
    (last.size, last.mtime) = (Some(chunks * CHUNK_BYTES), Some(NOW));
    FlushCommit { segments: vec![(SegmentId(SEGMENT + 1), info(1 << 30))], files }
}

/// More than a redo log takes as one entry, if it went as one commit.
#[tokio::test]
async fn a_flush_over_a_fragmented_file_goes_in_commits_that_a_log_can_hold() {
    let (meta, log) = logged().await;
    let chunks = 3_500;
    let ino = fragments(&meta, "a", chunks).await;
    let row = encode(&pages()).unwrap().len() * chunks as usize;
    assert!(row > crate::kv::COMMIT_BYTES_MAX, "{row} bytes prove nothing");
    let from = log.len();
    let mut told = 0;
    let each = |_: &FileFlush, done: Option<Flushed>| {
        told += 1;
        assert_eq!(done.is_some_and(|done| done.inode.mtime == NOW), told == 14, "times come last");
        Ok(())
    };
    meta.commit_flush_each(&rewrite(ino, chunks), each).await.unwrap();
    let entries = log.since(from);
    let largest = entries.iter().map(|(_, entry)| entry.len()).max().unwrap();
    assert!(largest < 2 * COMMIT_BYTES, "{largest} bytes in one entry");
    let after = meta.inode(ino).await.unwrap();
    assert_eq!((after.size, after.mtime), (chunks * CHUNK_BYTES, NOW));
    assert_eq!(after.data.generation, entries.len() as u64, "each commit raises it");
    let live: Vec<_> = meta.segments(None, 9).await.unwrap().iter().map(|s| s.live_bytes).collect();
    let page = u64::from(PAGE);
    assert_eq!(live, [(chunks * u64::from(PAGES) - chunks) * page, chunks * page]);
}

#[tokio::test]
async fn all_that_is_done_to_fragments_is_sound_after_each_of_its_commits() {
    let (meta, log) = logged().await;
    let chunks = 300;
    let ino = fragments(&meta, "a", chunks).await;
    let copy = file(&meta, Ino::ROOT, "copy").await;
    let bytes = chunks * CHUNK_BYTES;
    // One commit for the change itself, where it fits.
    let ends = |name: &'static str, least: usize, from: usize| {
        let commits = log.len() - from;
        assert!(commits >= least, "{name}: {commits} commits");
        log.len()
    };
    let mut from = log.len();
    let began = from;
    meta.commit_flush(rewrite(ino, chunks)).await.unwrap();
    from = ends("flush", 2, from);
    let (src, dst) = ((ino, 0), (copy, u64::from(PAGE)));
    let range = ShareRange {
        src: src.0,
        src_offset: src.1,
        dst: dst.0,
        dst_offset: dst.1,
        len: bytes,
        dst_size: 0,
    };
    let shared = meta.share(range, NOW).await.unwrap();
    assert_eq!(shared.stored_bytes, bytes);
    from = ends("share", 2, from);
    meta.punch(copy, CHUNK_BYTES..bytes - CHUNK_BYTES, NOW).await.unwrap();
    from = ends("punch", 2, from);
    assert_eq!(meta.truncate(ino, 3, NOW).await.unwrap().stored_bytes, 3);
    from = ends("truncate", 2, from);
    let third = fragments(&meta, "third", chunks).await;
    from = ends("make", 1, from);
    meta.unlink(Ino::ROOT, b"third").await.unwrap();
    meta.purge(third).await.unwrap();
    ends("purge", 3, from);
    assert_sound(&meta).await;

    let replayed = MemoryKv::new();
    for (n, (version, entry)) in log.since(0).into_iter().enumerate() {
        assert!(entry.len() < 2 * COMMIT_BYTES, "{} bytes in one entry", entry.len());
        assert!(replayed.replay(version, &entry).await.unwrap());
        if n >= began {
            assert_eq!(check(&replayed).await.unwrap(), [], "after entry {n}");
        }
    }
}

#[test]
fn an_extent_is_never_more_than_a_commit_counts_for_it() {
    let most = u32::MAX;
    let mut record = record(u128::MAX, most, most - 40);
    (record.stored_bytes, record.checksum) = (most, u64::MAX);
    let extent = Extent { start: most, len: most, record, skip: most };
    let shared = keys::back_ref(record.segment, Ino(u64::MAX), u64::MAX).len() + 3;
    let counted = keys::live(record.segment).len() + 8 + 3;
    let bytes = encode(&extent).unwrap().len() + shared + counted;
    assert!(bytes <= extents::commit_bytes(1) - extents::commit_bytes(0), "{bytes} bytes");
    let row = keys::extents(Ino(u64::MAX), u64::MAX).len() + encode(&[extent; 0]).unwrap().len();
    assert!(row + 12 <= extents::commit_bytes(0));
    // A commit is full at COMMIT_BYTES, and may then take one entry of a flush more.
    let entry = FLUSH_CHUNKS_MAX * extents::commit_bytes(2 * PAGES as usize);
    assert!(COMMIT_BYTES + entry <= crate::kv::COMMIT_BYTES_MAX);
}

#[tokio::test]
async fn a_flush_of_small_files_changes_a_bounded_number_of_rows() {
    let (meta, log) = logged().await;
    let mut files = Vec::new();
    for i in 0..2_100 {
        let ino = file(&meta, Ino::ROOT, &format!("f{i}")).await;
        let pieces = vec![Piece { offset: 0, record: record(1, i, 8), len: 8 }];
        files.push(FileFlush { ino, pieces, size: Some(8), ..FileFlush::default() });
    }
    let from = log.len();
    let segments = vec![(SegmentId(1), info(1 << 20))];
    meta.commit_flush(FlushCommit { segments, files }).await.unwrap();
    let (mut rows, mut bytes) = (0, 0);
    for (version, entry) in log.since(from) {
        let (puts, deletes) = crate::kv::logged(version, &entry).unwrap();
        rows = rows.max(puts.len() + deletes.len());
        bytes = bytes.max(entry.len());
    }
    // An inode and a chunk of each, and a few of the segment and the volume. This is more than the
    // 3,000 rows that Aurora DSQL takes in one transaction; PostgreSQL has no such limit.
    assert!((4_000..4_100).contains(&rows), "{rows} rows");
    assert!(bytes < 1 << 20, "{bytes} bytes");
}
