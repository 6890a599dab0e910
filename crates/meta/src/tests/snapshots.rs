//! Snapshots that several nodes make, delete and judge by, between each other's steps.

use object_store::memory::InMemory;

use super::*;
use crate::SnapshotState;
use crate::kv::{CheckpointId, Commit, SlateKv, SlateOptions};

async fn kept() -> Meta {
    let options = SlateOptions { create: true, timeout_ms: 20_000, ..SlateOptions::default() };
    let kv = SlateKv::open(Arc::new(InMemory::new()), "meta", options, None).await.unwrap();
    meta_over(Arc::new(kv)).await
}

async fn finish(meta: &Meta, name: &str, row: crate::SnapshotRow) {
    let state = SnapshotState {
        checkpoint: CheckpointId(1),
        newest_segment: SegmentId(9),
        inodes: 1,
        stored_bytes: 0,
    };
    let row = crate::SnapshotRow { state: Some(state), ..row };
    meta.finish_snapshot(name, &row).await.unwrap();
}

#[tokio::test]
async fn only_what_nobody_finished_is_given_up_and_nobody_elses() {
    let meta = kept().await;
    let first = meta.begin_snapshot("a", None).await.unwrap();
    let number = first.number;
    finish(&meta, "a", first).await;
    // It was seen unfinished, and is whole by now: somebody was told that it is there.
    meta.give_up_snapshot("a", number, true).await.unwrap();
    assert_eq!(meta.snapshot("a").await.unwrap().number, number);
    // Who made it and failed behind that takes it back.
    meta.give_up_snapshot("a", number, false).await.unwrap();
    assert_eq!(kind_of(meta.snapshot("a").await), ErrorKind::NotFound);
    // Its name is another one's then.
    let second = meta.begin_snapshot("a", None).await.unwrap();
    let other = second.number;
    for unfinished in [false, true] {
        meta.give_up_snapshot("a", number, unfinished).await.unwrap();
    }
    finish(&meta, "a", second).await;
    assert_eq!(meta.snapshot("a").await.unwrap().number, other);
    let third = meta.begin_snapshot("b", None).await.unwrap();
    meta.give_up_snapshot("b", third.number, true).await.unwrap();
    assert_eq!(kind_of(meta.finish_snapshot("b", &third).await), ErrorKind::NotFound);
}

#[tokio::test]
async fn no_segment_is_forgotten_once_a_snapshot_was_begun_that_was_not_asked() {
    let meta = kept().await;
    let row = Commit {
        puts: vec![(crate::keys::segment(SegmentId(1)), segment_row())],
        ..Commit::default()
    };
    meta.kv().commit(row).await.unwrap();
    let seen = meta.snapshots_seen().await.unwrap();
    let begun = meta.begin_snapshot("a", None).await.unwrap();
    assert!(!meta.forget_segment(SegmentId(1), seen).await.unwrap());
    finish(&meta, "a", begun).await;
    assert!(!meta.forget_segment(SegmentId(1), seen).await.unwrap());
    let seen = meta.snapshots_seen().await.unwrap();
    assert!(meta.forget_segment(SegmentId(1), seen).await.unwrap());
}

fn segment_row() -> bytes::Bytes {
    crate::codec::encode(&SegmentInfo::default()).unwrap()
}
