//! Extents through the operations that change them.

use weir_types::{ByteRange, CHUNK_BYTES, ErrorKind, FileKind, Ino, UnixTime};

use super::{assert_sound, file, info, kind_of, meta, new, record, write};
use crate::{FLUSH_CHUNKS_MAX, FileFlush, FlushCommit, Meta, Piece, ShareRange};

const ROOT: Ino = Ino::ROOT;
const NOW: UnixTime = UnixTime(50);

/// Start, length, segment, skip of each extent, the start in the file.
async fn shape(meta: &Meta, ino: Ino) -> Vec<(u64, u32, u128, u32)> {
    let chunks = meta.chunks(ino, 0..u64::MAX).await.unwrap();
    let flat = chunks.list.iter().flat_map(|(chunk, list)| list.iter().map(move |e| (chunk, e)));
    flat.map(|(chunk, e)| {
        (chunk * CHUNK_BYTES + u64::from(e.start), e.len, e.record.segment.0, e.skip)
    })
    .collect()
}

#[tokio::test]
async fn a_flush_replaces_what_it_covers() {
    let meta = meta().await;
    let ino = file(&meta, ROOT, "a").await;
    let first = write(&meta, ino, 0, record(1, 80, 100)).await;
    assert_eq!((first.size, first.stored_bytes, first.data.generation), (100, 100, 1));
    let second = write(&meta, ino, 40, record(2, 80, 20)).await;
    assert_eq!((second.stored_bytes, second.data.generation), (100, 2));
    assert_eq!(shape(&meta, ino).await, [(0, 40, 1, 0), (40, 20, 2, 0), (60, 40, 1, 60)]);
    let live: Vec<_> =
        meta.segments(None, 9).await.unwrap().iter().map(|segment| segment.live_bytes).collect();
    assert_eq!(live, [80, 20]);
    assert_eq!(meta.usage().await.unwrap().stored_bytes, 100);
    assert_sound(&meta).await;
}

#[tokio::test]
async fn a_flush_of_many_files_tells_which_are_gone() {
    let meta = meta().await;
    let (a, b) = (file(&meta, ROOT, "a").await, file(&meta, ROOT, "b").await);
    meta.unlink(ROOT, b"b").await.unwrap();
    meta.purge(b).await.unwrap();
    let flush = |ino, position| FileFlush {
        ino,
        pieces: vec![Piece { offset: 5, record: record(1, position, 10), len: 10 }],
        size: Some(12),
        mtime: Some(UnixTime(3)),
        ctime: Some(UnixTime(4_000)),
        ..FileFlush::default()
    };
    let files = vec![flush(a, 80), flush(b, 130)];
    let segments = vec![(record(1, 0, 0).segment, info(20))];
    let done = meta.commit_flush(FlushCommit { segments, files }).await.unwrap();
    let after = done[0].1.as_ref().unwrap();
    assert_eq!((after.size, after.mtime, after.ctime), (12, UnixTime(3), UnixTime(4_000)));
    assert_eq!(done[1], (b, None));
    // What lies past the size is not kept.
    assert_eq!(shape(&meta, a).await, [(5, 7, 1, 0)]);
    assert_sound(&meta).await;
}

#[tokio::test]
async fn flushes_beyond_one_commit_are_cut_by_file() {
    let meta = meta().await;
    let mut files = Vec::new();
    for i in 0..3_000 {
        let ino = file(&meta, ROOT, &format!("f{i}")).await;
        let pieces = vec![Piece { offset: 0, record: record(1, i, 8), len: 8 }];
        files.push(FileFlush { ino, pieces, size: Some(8), ..FileFlush::default() });
    }
    let segments = vec![(record(1, 0, 0).segment, info(24_000))];
    let done = meta.commit_flush(FlushCommit { segments, files }).await.unwrap();
    assert!(done.len() == 3_000 && done.iter().all(|(_, inode)| inode.is_some()));
    assert_eq!(meta.segments(None, 9).await.unwrap()[0].live_bytes, 24_000);
    assert_sound(&meta).await;
}

#[tokio::test]
async fn impossible_flushes_are_refused() {
    let meta = meta().await;
    let ino = file(&meta, ROOT, "a").await;
    let flush = |offset, raw, len| {
        let pieces = vec![Piece { offset, record: record(1, 0, raw), len }];
        let files = vec![FileFlush { ino, pieces, ..FileFlush::default() }];
        meta.commit_flush(FlushCommit { segments: vec![], files })
    };
    assert_eq!(kind_of(flush(CHUNK_BYTES - 1, 2, 2).await), ErrorKind::Invalid);
    assert_eq!(kind_of(flush(0, 2, 3).await), ErrorKind::Invalid);
    let piece = |chunk| Piece { offset: chunk * CHUNK_BYTES, record: record(1, 0, 1), len: 1 };
    let pieces = (0..=FLUSH_CHUNKS_MAX as u64).map(piece).collect();
    let files = vec![FileFlush { ino, pieces, ..FileFlush::default() }];
    let too_long = meta.commit_flush(FlushCommit { segments: vec![], files });
    assert_eq!(kind_of(too_long.await), ErrorKind::Invalid);
    assert_eq!(kind_of(flush(u64::MAX - 1, 8, 8).await), ErrorKind::TooLarge);
    assert_eq!(
        kind_of(meta.truncate(ino, crate::FILE_BYTES_MAX + 1, NOW).await),
        ErrorKind::TooLarge
    );
    assert_eq!(kind_of(meta.truncate(ROOT, 0, NOW).await), ErrorKind::IsDirectory);
    let link = meta.create(ROOT, b"l", new(FileKind::Symlink)).await.unwrap().ino;
    assert_eq!(kind_of(meta.truncate(link, 0, NOW).await), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_truncation_cuts_and_a_growth_shows_zeros() {
    let meta = meta().await;
    let ino = file(&meta, ROOT, "a").await;
    write(&meta, ino, 0, record(1, 0, 100)).await;
    write(&meta, ino, CHUNK_BYTES, record(2, 0, 50)).await;
    let after = meta.truncate(ino, 30, NOW).await.unwrap();
    assert_eq!((after.size, after.stored_bytes, after.mtime), (30, 30, NOW));
    assert_eq!(after.data.dropped, Some(ByteRange::new(30, u64::MAX)));
    let after = meta.truncate(ino, 1 << 40, NOW).await.unwrap();
    assert_eq!(after.data.dropped, Some(ByteRange::new(1 << 40, u64::MAX)));
    assert_eq!(shape(&meta, ino).await, [(0, 30, 1, 0)]);
    assert_sound(&meta).await;
}

#[tokio::test]
async fn a_flush_to_a_smaller_size_leaves_nothing_past_it() {
    let meta = meta().await;
    let ino = file(&meta, ROOT, "a").await;
    write(&meta, ino, 0, record(1, 0, 100)).await;
    write(&meta, ino, CHUNK_BYTES, record(2, 0, 50)).await;
    let files = vec![FileFlush { ino, size: Some(10), ..FileFlush::default() }];
    meta.commit_flush(FlushCommit { segments: vec![], files }).await.unwrap();
    assert_eq!(shape(&meta, ino).await, [(0, 10, 1, 0)]);
    assert_sound(&meta).await;
}

/// A file with a byte in each of `chunks` chunks.
async fn long_file(meta: &Meta, name: &str, chunks: u64) -> Ino {
    let ino = file(meta, ROOT, name).await;
    let piece = |chunk| Piece { offset: chunk * CHUNK_BYTES, record: record(1, 0, 1), len: 1 };
    let all: Vec<_> = (0..chunks).map(piece).collect();
    let entry =
        |pieces: &[Piece]| FileFlush { ino, pieces: pieces.to_vec(), ..FileFlush::default() };
    let mut files: Vec<_> = all.chunks(FLUSH_CHUNKS_MAX).map(entry).collect();
    files.last_mut().unwrap().size = Some(chunks * CHUNK_BYTES);
    let segments = vec![(record(1, 0, 0).segment, info(1))];
    meta.commit_flush(FlushCommit { segments, files }).await.unwrap();
    ino
}

#[tokio::test]
async fn work_on_long_files_takes_several_commits() {
    let meta = meta().await;
    let ino = long_file(&meta, "a", 4_500).await;
    let copy = file(&meta, ROOT, "b").await;
    let range = ShareRange {
        src: ino,
        src_offset: 0,
        dst: copy,
        dst_offset: 77,
        len: 4_500 * CHUNK_BYTES,
        dst_size: 0,
    };
    let after = meta.share(range, NOW).await.unwrap();
    assert_eq!((after.size, after.stored_bytes), (4_500 * CHUNK_BYTES + 77, 4_500));
    assert!(after.data.generation > 5);
    assert_eq!(shape(&meta, copy).await[1_234].0, 1_234 * CHUNK_BYTES + 77);
    assert_sound(&meta).await;

    let before = meta.inode(ino).await.unwrap().data.generation;
    let after = meta.truncate(ino, 3, NOW).await.unwrap();
    assert_eq!((after.size, after.stored_bytes), (3, 1));
    assert_eq!(after.data.generation, before + 3);
    let after = meta.punch(copy, 0..4_500 * CHUNK_BYTES, NOW).await.unwrap();
    assert_eq!((after.size, after.stored_bytes), (4_500 * CHUNK_BYTES + 77, 0));
    assert_sound(&meta).await;

    let third = long_file(&meta, "c", 2_500).await;
    meta.unlink(ROOT, b"c").await.unwrap();
    meta.purge(third).await.unwrap();
    assert_sound(&meta).await;
}

#[tokio::test]
async fn stored_ranges_join_over_chunks() {
    let meta = meta().await;
    let ino = file(&meta, ROOT, "a").await;
    write(&meta, ino, CHUNK_BYTES - 10, record(1, 0, 10)).await;
    write(&meta, ino, CHUNK_BYTES, record(1, 50, 10)).await;
    write(&meta, ino, 9 * CHUNK_BYTES, record(1, 90, 5)).await;
    let all = [(CHUNK_BYTES - 10, CHUNK_BYTES + 10), (9 * CHUNK_BYTES, 9 * CHUNK_BYTES + 5)];
    assert_eq!(meta.stored_ranges(ino, 0..u64::MAX, 9).await.unwrap(), all);
    assert_eq!(meta.stored_ranges(ino, 0..u64::MAX, 1).await.unwrap(), all[..1]);
    let from_inside = meta.stored_ranges(ino, CHUNK_BYTES + 3..u64::MAX, 1).await.unwrap();
    assert_eq!(from_inside, [(CHUNK_BYTES + 3, CHUNK_BYTES + 10)]);
    assert!(meta.stored_ranges(ino, 10 * CHUNK_BYTES..u64::MAX, 9).await.unwrap().is_empty());
    assert_eq!(meta.chunks(ino, 1..2).await.unwrap().list.len(), 1);
    assert_eq!(meta.chunks(ino, 1..8).await.unwrap().list.len(), 1);
}
