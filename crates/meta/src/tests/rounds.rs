//! How often the metadata is asked: where it is far, each time costs a round trip.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use weir_types::{ErrorKind, FileKind, Ino, Result, UnixTime};

use super::{dir, file, kind_of, meta_over, new};
use crate::kv::memory::MemoryKv;
use crate::kv::{Commit, Followed, Key, Kv, Outcome, Version, Versioned};
use crate::{Meta, RenameMode, SetAttr};

const ROOT: Ino = Ino::ROOT;

/// Counts what a server would be asked.
struct Counted {
    kv: MemoryKv,
    far: bool,
    asked: AtomicU64,
}

impl Counted {
    fn one_more(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl Kv for Counted {
    fn is_far(&self) -> bool {
        self.far
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        self.one_more();
        self.kv.get_many(keys).await
    }

    async fn follow(&self, key: &Key, tags: &[u8]) -> Result<Followed> {
        let rounds = if self.far { 1 } else { 2 };
        self.asked.fetch_add(rounds, Ordering::Relaxed);
        self.kv.follow(key, tags).await
    }

    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Versioned)>> {
        self.one_more();
        self.kv.scan(prefix, after, limit).await
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome> {
        self.one_more();
        self.kv.commit(commit).await
    }

    async fn sync(&self) -> Result<()> {
        self.kv.sync().await
    }

    fn durable(&self) -> Version {
        self.kv.durable()
    }

    async fn close(&self) -> Result<()> {
        self.kv.close().await
    }
}

async fn counted(far: bool) -> (Arc<Counted>, Meta) {
    let kv = Arc::new(Counted { kv: MemoryKv::new(), far, asked: AtomicU64::new(0) });
    let meta = meta_over(kv.clone()).await;
    // Numbers of inodes are there from now on.
    file(&meta, ROOT, "first").await;
    (kv, meta)
}

impl Counted {
    async fn rounds<T>(&self, work: impl Future<Output = T>) -> (u64, T) {
        let before = self.asked.load(Ordering::Relaxed);
        let done = work.await;
        (self.asked.load(Ordering::Relaxed) - before, done)
    }
}

#[tokio::test]
async fn an_operation_asks_no_more_often_than_it_must() {
    // Of the three of an unlink two are asked at once.
    for (far, lookup, directory, unlink) in [(true, 1, 1, 3), (false, 2, 2, 3)] {
        let (kv, meta) = counted(far).await;
        let (rounds, made) = kv.rounds(meta.create(ROOT, b"f", new(FileKind::Regular))).await;
        let made = made.unwrap();
        assert_eq!(rounds, 2, "create");
        let inside = dir(&meta, ROOT, "d").await;
        file(&meta, inside, "x").await;
        let (rounds, found) = kv.rounds(meta.lookup(ROOT, b"f")).await;
        assert_eq!((rounds, found.unwrap()), (lookup, made.clone()));
        let (rounds, found) = kv.rounds(meta.inode(made.ino)).await;
        assert_eq!((rounds, found.unwrap()), (1, made.clone()));
        let (rounds, found) = kv.rounds(meta.lookup(ROOT, b"d")).await;
        assert_eq!(rounds, lookup, "a directory");
        let (rounds, same) = kv.rounds(meta.inode(inside)).await;
        assert_eq!((rounds, same.unwrap()), (directory, found.unwrap()));
        let (rounds, none) = kv.rounds(meta.lookup(ROOT, b"none")).await;
        assert_eq!((rounds, kind_of(none)), (1, ErrorKind::NotFound));
        meta.link(made.ino, ROOT, b"g").await.unwrap();
        let (rounds, gone) = kv.rounds(meta.unlink(ROOT, b"f")).await;
        assert_eq!((rounds, gone.unwrap().nlink), (unlink, 1));
        let renamed = meta.rename(ROOT, b"g", inside, b"h", RenameMode::Replace);
        let (rounds, moved) = kv.rounds(renamed).await;
        assert_eq!((rounds, moved.unwrap().moved.ino), (3, made.ino));
    }
}

#[tokio::test]
async fn near_and_far_metadata_tell_the_same() {
    let ((_, near), (_, far)) = (counted(false).await, counted(true).await);
    for meta in [&near, &far] {
        let inside = dir(meta, ROOT, "d").await;
        let made = file(meta, inside, "x").await;
        meta.link(made, ROOT, b"y").await.unwrap();
        meta.create(ROOT, b"s", new(FileKind::Symlink)).await.unwrap();
        assert_eq!(kind_of(meta.unlink(ROOT, b"d").await), ErrorKind::IsDirectory);
        assert_eq!(kind_of(meta.unlink(ROOT, b"none").await), ErrorKind::NotFound);
        assert_eq!(kind_of(meta.lookup(made, b"none").await), ErrorKind::NotFound);
        assert_eq!(kind_of(meta.inode(Ino(99_999)).await), ErrorKind::NotFound);
        // The times of its entries stand above the directory's own.
        let found = meta.lookup(ROOT, b"d").await.unwrap();
        assert!(found.mtime > found.btime, "{found:?}");
    }
    for name in [&b"d"[..], b"y", b"s", b"first"] {
        assert_eq!(near.lookup(ROOT, name).await.unwrap(), far.lookup(ROOT, name).await.unwrap());
    }
}

/// Every change of a directory's entries is one of its times, and these only rise, whatever the clocks
/// of the nodes say.
#[tokio::test]
async fn times_of_a_directory_rise_with_clocks_apart() {
    let kv = Arc::new(Counted { kv: MemoryKv::new(), far: true, asked: AtomicU64::new(0) });
    let first = meta_over(kv.clone()).await;
    let stopped =
        async |time| Meta::open(kv.clone(), Arc::new(move || UnixTime(time))).await.unwrap();
    let (ahead, behind) = (stopped(5_000_000).await, stopped(77).await);
    let [d, e] = [dir(&first, ROOT, "d").await, dir(&first, ROOT, "e").await];
    let mut before = first.inode(d).await.unwrap();
    let mut rose = async |what: &str| {
        let now = first.inode(d).await.unwrap();
        assert!(now.mtime > before.mtime && now.ctime > before.ctime, "{what}: {now:?}");
        before = now;
    };
    let regular = || new(FileKind::Regular);
    for (node, name) in [(&ahead, &b"a"[..]), (&behind, b"b"), (&first, b"c"), (&ahead, b"f")] {
        let made = node.create(d, name, regular()).await.unwrap();
        rose("create").await;
        behind.link(made.ino, d, b"link").await.unwrap();
        rose("link").await;
        behind.unlink(d, b"link").await.unwrap();
        rose("unlink").await;
        behind.rename(d, name, d, b"moved", RenameMode::Replace).await.unwrap();
        rose("rename").await;
        behind.rename(d, b"moved", e, name, RenameMode::Replace).await.unwrap();
        rose("rename away").await;
        behind.rename(e, name, d, name, RenameMode::Replace).await.unwrap();
        rose("rename here").await;
        dir(&behind, d, "sub").await;
        rose("mkdir").await;
        behind.rmdir(d, b"sub").await.unwrap();
        rose("rmdir").await;
    }
    // What is set is what they are, until entries change again.
    let set = SetAttr { mtime: Some(UnixTime(9)), ..SetAttr::default() };
    behind.setattr(d, set).await.unwrap();
    assert_eq!(ahead.lookup(ROOT, b"d").await.unwrap().mtime, UnixTime(9));
    behind.create(d, b"last", regular()).await.unwrap();
    assert_eq!(ahead.inode(d).await.unwrap().mtime, UnixTime(77));
}
