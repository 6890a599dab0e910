//! Many tasks at once over one Kv that lets others run before each call, by seeded dice.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use parking_lot::Mutex;
use weir_types::{ErrorKind, FileKind, Ino, Result, SegmentId, UnixTime};

use super::{Dice, assert_sound, clock, dir, file, meta_over, new, record, write};
use crate::kv::memory::MemoryKv;
use crate::kv::{Commit, Key, Kv, Outcome, Version, Versioned};
use crate::{Meta, RenameMode, SetAttr, ShareRange};

const ROOT: Ino = Ino::ROOT;
const SEEDS: u64 = 60;

/// Gives way a random number of times before each call.
struct Jumbled {
    inner: MemoryKv,
    dice: Mutex<Dice>,
    far: bool,
}

impl Jumbled {
    async fn give_way(&self) {
        let times = self.dice.lock().below(4);
        for _ in 0..times {
            tokio::task::yield_now().await;
        }
    }
}

#[async_trait]
impl Kv for Jumbled {
    /// One key after the other: the contract does not promise one moment for all.
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        let mut found = Vec::new();
        for key in keys {
            self.give_way().await;
            found.extend(self.inner.get_many(std::slice::from_ref(key)).await?);
        }
        Ok(found)
    }

    fn is_far(&self) -> bool {
        self.far
    }

    fn expect_absent(&self, key: &Key, never_had: &dyn Fn() -> bool) {
        self.inner.expect_absent(key, never_had);
    }

    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Versioned)>> {
        self.give_way().await;
        self.inner.scan(prefix, after, limit).await
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome> {
        self.give_way().await;
        self.inner.commit(commit).await
    }

    async fn sync(&self) -> Result<()> {
        self.inner.sync().await
    }

    fn durable(&self) -> Version {
        self.inner.durable()
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}

pub(super) async fn jumbled(seed: u64) -> Meta {
    eprintln!("seed {seed}");
    let dice = Mutex::new(Dice::new(seed));
    let far = seed % 2 == 1;
    meta_over(Arc::new(Jumbled { inner: MemoryKv::new(), dice, far })).await
}

#[tokio::test]
async fn many_creators_in_one_directory() {
    let meta = jumbled(1).await;
    // A second mount of the same volume takes its own inode numbers.
    let other = Meta::open(Arc::clone(meta.kv()), clock()).await.unwrap();
    let create = async |i: u32| {
        let kind = if i.is_multiple_of(3) { FileKind::Directory } else { FileKind::Regular };
        let meta = if i.is_multiple_of(2) { &meta } else { &other };
        meta.create(ROOT, format!("f{i}").as_bytes(), new(kind)).await.unwrap().ino
    };
    let mut inos = join_all((0..200).map(create)).await;
    inos.sort();
    inos.dedup();
    assert_eq!(inos.len(), 200);
    assert_eq!(meta.readdir(ROOT, 0, 1_000).await.unwrap().len(), 200);
    assert_sound(&meta).await;
}

#[tokio::test]
async fn creators_of_one_name_agree_on_a_winner() {
    for seed in 0..SEEDS {
        let meta = jumbled(seed).await;
        let made = join_all((0..8).map(|_| meta.create(ROOT, b"a", new(FileKind::Regular)))).await;
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
        assert_sound(&meta).await;
    }
}

#[tokio::test]
async fn a_create_and_a_removal_of_its_directory_never_both_win() {
    let (mut made_first, mut removed_first) = (0, 0);
    for seed in 0..10 * SEEDS {
        let meta = jumbled(seed).await;
        let top = dir(&meta, ROOT, "d").await;
        let (made, removed) =
            tokio::join!(meta.create(top, b"f", new(FileKind::Regular)), meta.rmdir(ROOT, b"d"));
        assert!(made.is_ok() != removed.is_ok(), "{made:?} {removed:?}");
        made_first += u32::from(made.is_ok());
        removed_first += u32::from(removed.is_ok());
        assert_sound(&meta).await;
    }
    assert!(made_first > 0 && removed_first > 0, "{made_first} {removed_first}");
}

#[tokio::test]
async fn moves_into_a_directory_and_its_removal() {
    for seed in 0..SEEDS {
        let meta = jumbled(seed).await;
        let (top, from) = (dir(&meta, ROOT, "d").await, dir(&meta, ROOT, "from").await);
        let ino = file(&meta, from, "f").await;
        let other = file(&meta, from, "g").await;
        let moved = meta.rename(from, b"f", top, b"f", RenameMode::Replace);
        let (moved, linked, removed, touched) = tokio::join!(
            moved,
            meta.link(other, top, b"g"),
            meta.rmdir(ROOT, b"d"),
            meta.setattr(top, SetAttr { mtime: Some(UnixTime(5)), ..SetAttr::default() }),
        );
        assert!(removed.is_err() || (moved.is_err() && linked.is_err()));
        assert!(touched.is_ok());
        assert!(meta.inode(ino).await.unwrap().nlink == 1);
        assert_sound(&meta).await;
    }
}

#[tokio::test]
async fn renames_never_make_a_ring() {
    for seed in 0..SEEDS {
        let meta = jumbled(seed).await;
        let tops: Vec<Ino> = join_all(["a", "b", "c"].map(|name| dir(&meta, ROOT, name))).await;
        let inner: Vec<Ino> = join_all(tops.iter().map(|top| dir(&meta, *top, "x"))).await;
        let into = async |i: usize| {
            let (name, to) = (["a", "b", "c"][i], inner[(i + 1) % 3]);
            meta.rename(ROOT, name.as_bytes(), to, b"in", RenameMode::Replace).await
        };
        let moved = join_all((0..3).map(into)).await;
        let refused = moved.iter().filter_map(|moved| moved.as_ref().err());
        assert_eq!(
            refused.map(weir_types::FsError::kind).collect::<Vec<_>>(),
            [ErrorKind::Invalid]
        );
        assert_sound(&meta).await;
    }
}

#[tokio::test]
async fn links_and_unlinks_keep_the_count() {
    for seed in 0..SEEDS {
        let meta = jumbled(seed).await;
        let ino = file(&meta, ROOT, "f").await;
        let act = async |i: usize| {
            let name = format!("n{}", i % 3);
            // Which of them win does not matter here.
            let _ = meta.link(ino, ROOT, name.as_bytes()).await;
            let _ = meta.unlink(ROOT, name.as_bytes()).await;
            if i == 4 {
                let _ = meta.unlink(ROOT, b"f").await;
                let _ = meta.purge(ino).await;
            }
        };
        join_all((0..6).map(act)).await;
        assert_sound(&meta).await;
    }
}

#[tokio::test]
async fn writers_collectors_and_removers_of_one_file() {
    let now = UnixTime(9);
    for seed in 0..SEEDS {
        let meta = jumbled(seed).await;
        let (a, b) = (file(&meta, ROOT, "a").await, file(&meta, ROOT, "b").await);
        write(&meta, a, 0, record(1, 80, 100)).await;
        let share =
            ShareRange { src: a, src_offset: 0, dst: b, dst_offset: 30, len: 90, dst_size: 0 };
        let moves = [(record(1, 80, 100), record(9, 80, 100))];
        let segments = [(SegmentId(9), super::info(100))];
        let collect = async {
            let owners = meta.references(SegmentId(1), &[(a, 0)]).await.unwrap();
            for reference in owners {
                meta.relocate(reference.ino, reference.chunk, &moves, &segments).await.unwrap();
            }
            meta.forget_segment(SegmentId(1), meta.snapshots_seen().await.unwrap()).await.unwrap()
        };
        let remove = async {
            meta.unlink(ROOT, b"b").await.unwrap();
            meta.purge(b).await.unwrap();
        };
        let (_, _, _, _, shared, forgot, _) = tokio::join!(
            write(&meta, a, 50, record(2, 80, 100)),
            meta.truncate(a, 40, now),
            meta.punch(a, 10..60, now),
            meta.xattr_set(a, b"user.x", b"v", crate::XattrMode::Any),
            meta.share(share, now),
            collect,
            remove,
        );
        let known = meta.segment_known(&[SegmentId(1)]).await.unwrap()[0];
        assert!(known != forgot, "{shared:?}");
        assert_sound(&meta).await;
    }
}
