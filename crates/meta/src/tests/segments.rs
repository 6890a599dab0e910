//! Segments from their first use to their end.

use weir_types::{CHUNK_BYTES, ErrorKind, Ino, SegmentId, StorageClass, UnixTime};

use super::{assert_sound, file, info, kind_of, meta, record, write};
use crate::{Meta, SegmentAge, ShareRange};

const NOW: UnixTime = UnixTime(50);

async fn uses(meta: &Meta, segment: u128, owners: &[(Ino, u64)]) -> Vec<(Ino, u64)> {
    let found = meta.references(SegmentId(segment), owners).await.unwrap();
    found.iter().map(|reference| (reference.ino, reference.chunk)).collect()
}

#[tokio::test]
async fn shared_bytes_are_found_moved_and_forgotten() {
    let meta = meta().await;
    let (a, b) = (file(&meta, Ino::ROOT, "a").await, file(&meta, Ino::ROOT, "b").await);
    write(&meta, a, 0, record(1, 80, 100)).await;
    let share = ShareRange {
        src: a,
        src_offset: 10,
        dst: b,
        dst_offset: CHUNK_BYTES - 5,
        len: 20,
        dst_size: 0,
    };
    meta.share(share, NOW).await.unwrap();
    // The owner of the record is known from the segment's index, the two others by back reference.
    assert_eq!(uses(&meta, 1, &[(a, 0), (a, 7)]).await, [(a, 0), (b, 0), (b, 1)]);
    assert_eq!(meta.segments(None, 9).await.unwrap()[0].live_bytes, 120);
    assert!(
        !meta.forget_segment(SegmentId(1), meta.snapshots_seen().await.unwrap()).await.unwrap()
    );

    let moves = [(record(1, 80, 100), record(2, 80, 100))];
    let segments = [(SegmentId(2), info(100))];
    for (ino, chunk) in [(a, 0), (b, 0), (b, 1)] {
        assert!(meta.relocate(ino, chunk, &moves, &segments).await.unwrap());
        assert!(!meta.relocate(ino, chunk, &moves, &segments).await.unwrap());
        assert_sound(&meta).await;
    }
    assert_eq!(uses(&meta, 1, &[(a, 0)]).await, []);
    assert_eq!(uses(&meta, 2, &[(a, 0)]).await, [(a, 0), (b, 0), (b, 1)]);
    assert_eq!(meta.inode(b).await.unwrap().data.generation, 1);
    assert!(meta.forget_segment(SegmentId(1), meta.snapshots_seen().await.unwrap()).await.unwrap());
    assert_eq!(meta.segment_known(&[SegmentId(1), SegmentId(2)]).await.unwrap(), [false, true]);
    assert_eq!(meta.segments(Some(SegmentId(1)), 9).await.unwrap().len(), 1);
    assert_sound(&meta).await;
}

#[tokio::test]
async fn a_copy_that_overlaps_itself_is_refused() {
    let meta = meta().await;
    let a = file(&meta, Ino::ROOT, "a").await;
    write(&meta, a, 0, record(1, 80, 100)).await;
    let share = ShareRange { src: a, src_offset: 0, dst: a, dst_offset: 50, len: 60, dst_size: 0 };
    assert_eq!(kind_of(meta.share(share, NOW).await), ErrorKind::Invalid);
    let after = meta.share(ShareRange { len: 50, ..share }, NOW).await.unwrap();
    assert_eq!((after.size, after.stored_bytes), (100, 100));
    assert_sound(&meta).await;
}

#[tokio::test]
async fn a_segment_with_many_back_references_is_forgotten_whole() {
    let meta = meta().await;
    let (a, b) = (file(&meta, Ino::ROOT, "a").await, file(&meta, Ino::ROOT, "b").await);
    write(&meta, a, 0, record(1, 80, 1)).await;
    for chunk in 0..2_100 {
        let share = ShareRange {
            src: a,
            src_offset: 0,
            dst: b,
            dst_offset: chunk * CHUNK_BYTES,
            len: 1,
            dst_size: 0,
        };
        meta.share(share, NOW).await.unwrap();
    }
    for ino in [a, b] {
        meta.truncate(ino, 0, NOW).await.unwrap();
    }
    assert!(meta.forget_segment(SegmentId(1), meta.snapshots_seen().await.unwrap()).await.unwrap());
    assert!(meta.kv().scan(b"R", None, 9).await.unwrap().is_empty());
    assert_sound(&meta).await;
}

#[tokio::test]
async fn ages_are_of_segments_that_there_are_and_end_with_them() {
    let meta = meta().await;
    let a = file(&meta, Ino::ROOT, "a").await;
    write(&meta, a, 0, record(1, 80, 100)).await;
    let ids = [SegmentId(1), SegmentId(2)];
    let age = |class, bytes| SegmentAge {
        used_day: 20_000,
        class,
        since_day: 20_030,
        object_bytes: bytes,
        stays: None,
    };
    let cold = age(StorageClass::GlacierIr, 50);
    meta.change_ages(&ids, |_, before| before.is_none().then_some(cold)).await.unwrap();
    assert_eq!(meta.ages(&ids).await.unwrap(), [Some(cold), None], "nobody has the second");
    assert_eq!(meta.segment_bytes().await.unwrap().cold, [0, 0, 50]);
    let used = |_, before: Option<SegmentAge>| {
        Some(SegmentAge { used_day: 20_040, ..before.unwrap_or_default() })
    };
    let noted = meta.change_ages(&ids, used);
    noted.await.unwrap();
    let after = meta.ages(&ids).await.unwrap()[0].unwrap();
    assert_eq!((after.used_day, after.class), (20_040, StorageClass::GlacierIr));
    assert_sound(&meta).await;
    meta.unlink(Ino::ROOT, b"a").await.unwrap();
    meta.purge(a).await.unwrap();
    assert!(meta.forget_segment(ids[0], meta.snapshots_seen().await.unwrap()).await.unwrap());
    assert_eq!(meta.ages(&ids).await.unwrap(), [None, None]);
    meta.change_ages(&ids, used).await.unwrap();
    assert_eq!(meta.ages(&ids).await.unwrap(), [None, None], "none comes back");
    assert_eq!(meta.segment_bytes().await.unwrap().cold, [0; 3]);
    assert_sound(&meta).await;
}
