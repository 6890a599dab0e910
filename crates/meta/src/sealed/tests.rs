//! What the engine below sees of rows, and that nothing above sees a difference.

use std::collections::BTreeSet;

use weir_types::{FileKind, UnixTime};

use super::*;
use crate::kv::MemoryKv;
use crate::tests::{assert_sound, clock, dir, file, kind_of, meta_over, new};
use crate::{Between, Change, Meta, RenameMode, XattrMode, copy, differences, sum};

fn by_chance() -> VolumeKeys {
    VolumeKeys::by_chance().expect("random bytes")
}

/// A volume whose rows are sealed, and what is below it.
async fn volume(keys: &VolumeKeys) -> (Arc<MemoryKv>, Arc<dyn Kv>, Meta) {
    let below = Arc::new(MemoryKv::new());
    let kv = sealed_rows(below.clone(), keys);
    let meta = meta_over(kv.clone()).await;
    (below, kv, meta)
}

async fn rows(kv: &dyn Kv) -> Vec<(Key, Versioned)> {
    kv.scan(&[], None, usize::MAX).await.expect("reads")
}

fn shows(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}

fn of(key: &[u8], tag: u8) -> bool {
    key.first() == Some(&tag)
}

#[tokio::test]
async fn nothing_of_names_attributes_and_targets_shows_below() {
    let (below, kv, meta) = volume(&by_chance()).await;
    let at = dir(&meta, Ino::ROOT, "hidden-directory").await;
    let ino = file(&meta, at, "hidden-file").await;
    meta.xattr_set(ino, b"user.hidden-attribute", b"hidden-value", XattrMode::Any).await.unwrap();
    let target = Some(b"hidden-target".to_vec());
    let link = crate::NewInode { target, ..new(FileKind::Symlink) };
    meta.create(at, b"hidden-link", link).await.unwrap();
    let cookie = keys::cookie(b"hidden-file").to_be_bytes();
    for (key, found) in rows(&*below).await {
        for what in [&b"hidden"[..], &cookie[..]] {
            let shown = shows(&key, what) || shows(&found.value, what);
            assert!(!shown, "{} in row {}", what.escape_ascii(), key.escape_ascii());
        }
    }
    assert_eq!(meta.xattr_list(ino).await.unwrap(), [b"user.hidden-attribute".to_vec()]);
    assert_eq!(meta.xattr_get(ino, b"user.hidden-attribute").await.unwrap(), &b"hidden-value"[..]);
    // The same name is another one in another directory.
    file(&meta, Ino::ROOT, "hidden-file").await;
    let names: BTreeSet<Key> = rows(&*below)
        .await
        .into_iter()
        .filter(|(key, _)| of(key, keys::DIRENT))
        .map(|(key, _)| key[OF_INO..].to_vec())
        .collect();
    assert_eq!(names.len(), 4);
    assert_sound(&Meta::open(kv, clock()).await.unwrap()).await;
}

#[tokio::test]
async fn a_directory_is_listed_in_pages_of_any_size_and_each_name_once() {
    let (_, kv, meta) = volume(&by_chance()).await;
    let at = dir(&meta, Ino::ROOT, "d").await;
    for n in 0..300 {
        file(&meta, at, &format!("n{n}")).await;
    }
    for limit in [1, 7, 299, 1_000] {
        let (mut names, mut last) = (BTreeSet::new(), 0);
        loop {
            let page = meta.readdir(at, last, limit).await.unwrap();
            let Some(end) = page.last() else { break };
            assert!(page.is_sorted_by_key(|entry| entry.cookie) && end.cookie > last);
            last = end.cookie;
            // What is made and removed meanwhile moves no other name.
            file(&meta, at, "passing").await;
            meta.unlink(at, b"passing").await.unwrap();
            for entry in page {
                assert!(names.insert(entry.name.clone()), "{} twice", entry.name.escape_ascii());
            }
        }
        assert_eq!(names.len(), 300);
    }
    for n in 0..300 {
        let (from, to) = (format!("n{n}"), format!("m{n}"));
        let mode = RenameMode::Replace;
        meta.rename(at, from.as_bytes(), Ino::ROOT, to.as_bytes(), mode).await.unwrap();
    }
    assert!(meta.readdir(at, 0, 10).await.unwrap().is_empty());
    assert!(meta.lookup(Ino::ROOT, b"m299").await.is_ok());
    assert_sound(&Meta::open(kv, clock()).await.unwrap()).await;
}

#[tokio::test]
async fn a_row_that_is_changed_moved_or_another_volumes_is_damage() {
    let keys = by_chance();
    let (below, kv, meta) = volume(&keys).await;
    let (a, b) = (file(&meta, Ino::ROOT, "a").await, file(&meta, Ino::ROOT, "b").await);
    let put = async |key: Key, value: Bytes| {
        let commit = Commit { puts: vec![(key, value)], ..Commit::default() };
        below.commit(commit).await.unwrap();
    };
    let get = async |key: Key| below.get_many(&[key]).await.unwrap()[0].clone().unwrap().value;
    let entries: Vec<Key> = rows(&*below)
        .await
        .into_iter()
        .filter_map(|(key, _)| of(&key, keys::DIRENT).then_some(key))
        .collect();
    for (one, other) in [(keys::inode(a), keys::inode(b)), (entries[0].clone(), entries[1].clone())]
    {
        let (was, moved) = (get(one.clone()).await, get(other).await);
        let mut changed = was.to_vec();
        // Where an entry leads to; of others the nonce.
        changed[if of(&one, keys::DIRENT) { 1 } else { 3 }] ^= 1;
        for bad in [moved, changed.into(), was.slice(..5), Bytes::new()] {
            put(one.clone(), bad).await;
            let fresh = Meta::open(kv.clone(), clock()).await.unwrap();
            let looked = fresh.readdir_plus(Ino::ROOT, 0, 10).await;
            assert_eq!(kind_of(looked), ErrorKind::Corrupt);
        }
        put(one, was).await;
    }
    assert_eq!(
        Meta::open(kv, clock()).await.unwrap().lookup(Ino::ROOT, b"a").await.unwrap().ino,
        a
    );
    // A name in another directory's place.
    let mut other = entries[0].clone();
    other[8] ^= 1;
    put(other, get(entries[0].clone()).await).await;
    let kv = sealed_rows(below.clone(), &keys);
    assert_eq!(kind_of(kv.scan(&[keys::DIRENT], None, 10).await), ErrorKind::Corrupt);
    let others = sealed_rows(below.clone(), &by_chance());
    assert_eq!(kind_of(Meta::open(others, clock()).await.map(drop)), ErrorKind::Corrupt);
    let bare = Meta::open(below, clock()).await;
    assert!(bare.is_err(), "without keys it is no metadata");
}

#[tokio::test]
async fn rows_come_to_another_engine_and_back() {
    let (_, kv, meta) = volume(&by_chance()).await;
    let at = dir(&meta, Ino::ROOT, "d").await;
    for n in 0..50 {
        let ino = file(&meta, at, &format!("n{n}")).await;
        meta.xattr_set(ino, b"user.a", b"1", XattrMode::Any).await.unwrap();
    }
    let plain = Arc::new(MemoryKv::new());
    let copied = copy(&*kv, &*plain, &|_| ()).await.unwrap();
    assert!(sum(&*plain, &|_| ()).await.unwrap().is_of_same(&copied));
    assert_sound(&Meta::open(plain.clone(), clock()).await.unwrap()).await;
    let back = sealed_rows(Arc::new(MemoryKv::new()), &by_chance());
    let again = copy(&*plain, &*back, &|_| ()).await.unwrap();
    assert!(again.is_of_same(&copied) && sum(&*back, &|_| ()).await.unwrap().is_of_same(&again));
    let meta = Meta::open(back, clock()).await.unwrap();
    assert!(meta.lookup(at, b"n49").await.is_ok());
    assert_sound(&meta).await;
}

#[tokio::test]
async fn two_states_are_compared_though_names_have_another_order() {
    let (_, kv, meta) = volume(&by_chance()).await;
    let at = dir(&meta, Ino::ROOT, "d").await;
    for n in 0..100 {
        file(&meta, at, &format!("n{n}")).await;
    }
    let before = kv.checkpoints().unwrap().keep("one").await.unwrap();
    let before = kv.checkpoints().unwrap().at(before).await.unwrap();
    for n in 0..30 {
        meta.unlink(at, format!("n{n}").as_bytes()).await.unwrap();
        file(&meta, at, &format!("new{n}")).await;
    }
    let found = differences(Between { before: &*before, after: &*kv }, None).await.unwrap();
    let of = |change: Change| found.found.iter().filter(|one| one.change == change).count();
    assert_eq!((of(Change::Came), of(Change::Went), found.next), (30, 30, None));
    let dirs = found.found.iter().filter(|one| matches!(one.change, Change::Changed { .. }));
    assert!(dirs.count() <= 1, "no name that stayed");
}

#[tokio::test]
async fn what_is_sealed_is_not_added_to() {
    let (_, kv, meta) = volume(&by_chance()).await;
    let ino = file(&meta, Ino::ROOT, "a").await;
    for commit in [
        Commit { adds: vec![(keys::inode(ino), 1)], ..Commit::default() },
        Commit { raises: vec![(keys::inode(ino), Bytes::new())], ..Commit::default() },
    ] {
        assert_eq!(kind_of(kv.commit(commit).await), ErrorKind::Bug);
    }
    let time = meta.inode(Ino::ROOT).await.unwrap().mtime;
    assert!(time > UnixTime(0), "times of directories are raised");
}
