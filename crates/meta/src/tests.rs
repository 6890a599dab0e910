//! Tests over all of it: what the operations promise, a reference model, and races.

mod actions;
mod away;
mod data;
mod exports;
mod fragments;
mod golden;
mod holds;
mod model;
mod names;
mod quotas;
mod race;
mod receipts;
mod reference;
mod rounds;
mod segments;
mod snapshots;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weir_types::{ErrorKind, FileKind, Ino, Inode, RecordRef, Result, SegmentId, UnixTime};

use crate::kv::Kv;
use crate::kv::memory::MemoryKv;
use crate::{FileFlush, FlushCommit, Meta, NewInode, Piece, RootAttr, SegmentInfo, check};

/// A clock that moves on by one nanosecond whenever it is read.
pub(crate) fn clock() -> crate::Clock {
    let ticks = AtomicI64::new(1_000);
    Arc::new(move || UnixTime(ticks.fetch_add(1, Ordering::Relaxed)))
}

/// A new volume over `kv`.
pub(crate) async fn meta_over(kv: Arc<dyn Kv>) -> Meta {
    let root = RootAttr { mode: 0o755, uid: 0, gid: 0 };
    Meta::format(&*kv, root, UnixTime(1)).await.unwrap();
    Meta::open(kv, clock()).await.unwrap()
}

/// A new volume in memory.
pub(crate) async fn meta() -> Meta {
    meta_over(Arc::new(MemoryKv::new())).await
}

pub(crate) fn new(kind: FileKind) -> NewInode {
    let target = (kind == FileKind::Symlink).then(|| b"target".to_vec());
    NewInode { kind, mode: 0o644, umask: None, uid: 7, gid: 8, rdev: 0, target }
}

pub(crate) async fn file(meta: &Meta, dir: Ino, name: &str) -> Ino {
    meta.create(dir, name.as_bytes(), new(FileKind::Regular)).await.unwrap().ino
}

pub(crate) async fn dir(meta: &Meta, parent: Ino, name: &str) -> Ino {
    meta.create(parent, name.as_bytes(), new(FileKind::Directory)).await.unwrap().ino
}

pub(crate) fn kind_of<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

pub(crate) async fn assert_sound(meta: &Meta) {
    let problems = check(&**meta.kv()).await.unwrap();
    assert!(problems.is_empty(), "{problems:#?}");
}

pub(crate) fn record(segment: u128, position: u32, raw_bytes: u32) -> RecordRef {
    let segment = SegmentId(segment);
    RecordRef { segment, position, stored_bytes: raw_bytes + 40, raw_bytes, checksum: 5 }
}

pub(crate) fn info(raw_bytes: u64) -> SegmentInfo {
    SegmentInfo { raw_bytes, object_bytes: raw_bytes + 100, records: 1, created_ms: 9 }
}

/// Flushes one whole record to a file, whose size grows to hold it.
pub(crate) async fn write(meta: &Meta, ino: Ino, offset: u64, record: RecordRef) -> Inode {
    let len = record.raw_bytes;
    let size = meta.inode(ino).await.unwrap().size.max(offset + u64::from(len));
    let pieces = vec![Piece { offset, record, len }];
    let files = vec![FileFlush { ino, pieces, size: Some(size), ..FileFlush::default() }];
    let segments = vec![(record.segment, info(1 << 24))];
    let done = meta.commit_flush(FlushCommit { segments, files }).await.unwrap();
    done.into_iter().next().unwrap().1.unwrap()
}

/// Choices of a seed.
pub(crate) struct Dice(StdRng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0.random_range(0..n)
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}
