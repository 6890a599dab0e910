//! Each kind of damage is told.

use bytes::Bytes;
use weir_types::{Extent, FileKind, Ino, SegmentId};

use crate::codec::{Dirent, encode};
use crate::kv::{Commit, Key};
use crate::tests::{assert_sound, dir, file, meta, record, write};
use crate::{Meta, check, keys};

/// A volume with a bit of everything: directories 2 and 3 (in 2), file 4 with data and two names,
/// orphan 5.
async fn volume() -> Meta {
    let meta = meta().await;
    let top = dir(&meta, Ino::ROOT, "top").await;
    let inner = dir(&meta, top, "inner").await;
    let data = file(&meta, inner, "data").await;
    meta.link(data, top, b"again").await.unwrap();
    write(&meta, data, 10, record(1, 80, 100)).await;
    let gone = file(&meta, top, "gone").await;
    meta.unlink(top, b"gone").await.unwrap();
    assert_eq!([top, inner, data, gone], [Ino(2), Ino(3), Ino(4), Ino(5)]);
    assert_sound(&meta).await;
    meta
}

/// What is told after one row is put or removed.
async fn told_after(key: Key, value: Option<Bytes>) -> Vec<String> {
    let meta = volume().await;
    let mut commit = Commit::default();
    match value {
        Some(value) => commit.puts.push((key, value)),
        None => commit.deletes.push(key),
    }
    meta.kv().commit(commit).await.unwrap();
    check(&**meta.kv()).await.unwrap().iter().map(ToString::to_string).collect()
}

fn count(n: i64) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(&n.to_le_bytes()))
}

fn entry(ino: u64, kind: FileKind) -> Option<Bytes> {
    Some(encode(&Dirent { ino: Ino(ino), kind }).unwrap())
}

fn extents(list: &[(u32, u32)]) -> Option<Bytes> {
    let extent =
        |&(start, len): &(u32, u32)| Extent { start, len, record: record(1, 80, 100), skip: 0 };
    Some(encode(&list.iter().map(extent).collect::<Vec<_>>()).unwrap())
}

#[tokio::test]
async fn every_damage_is_told() {
    let (four, one) = (Ino(4), SegmentId(1));
    let inner = keys::dirent(Ino(2), b"inner");
    let mut misplaced = keys::dirents_at(Ino(2), 77);
    misplaced.extend_from_slice(b"odd");
    let parent = {
        let meta = volume().await;
        let mut inode = meta.inode(Ino(3)).await.unwrap();
        inode.parent = Ino(3);
        Some(encode(&inode).unwrap())
    };
    let cases = [
        (keys::inode(four), None, "inode 4 is not there"),
        (keys::inode(four), Some(Bytes::from_static(&[9, 9])), "layout version 9"),
        (keys::inode(four), Some(Bytes::from_static(&[1, 4])), "metadata value"),
        (keys::inode(Ino(3)), parent.clone(), "its parent 3 has no entry for it"),
        (keys::inode(Ino(3)), parent, "do not lead to the root"),
        (inner.clone(), None, "no name leads here"),
        (inner.clone(), None, "nlink is 3, should be 2"),
        (inner.clone(), entry(3, FileKind::Regular), "is of another kind"),
        (misplaced, entry(4, FileKind::Regular), "wrong hash"),
        (keys::dirent(Ino(5), b"x"), entry(4, FileKind::Regular), "is removed or none"),
        (keys::dir_count(Ino(2)), count(1), "its entry counter is 1 too small"),
        (keys::dir_count(Ino(9)), count(1), "directory 9 has an entry counter"),
        (keys::orphan(Ino(5)), None, "no name leads here and it is no orphan"),
        (keys::orphan(four), Some(Bytes::from_static(&[1])), "marked an orphan but has a name"),
        (keys::extents(four, 0), None, "extents cover 0 bytes, it says 100"),
        (keys::extents(four, 0), extents(&[(10, 50), (50, 50)]), "extent at 50 is out of place"),
        (keys::extents(four, 0), extents(&[(0, 101)]), "reaches past its record"),
        (keys::extents(four, 0), extents(&[(20, 100)]), "past the end of the file"),
        (keys::extents(four, 0), extents(&[]), "an empty list"),
        (keys::extents(Ino(9), 0), extents(&[(0, 1)]), "the inode is not there"),
        (keys::live(one), count(99), "100 bytes are used, the counter says 99"),
        (keys::live(one), Some(Bytes::from_static(b"no")), "is not 8 bytes long"),
        (keys::segment(one), None, "is used but not there"),
        (keys::back_ref(SegmentId(2), four, 0), Some(Bytes::new()), "back reference"),
        (keys::xattr(Ino(9), b"user.x"), Some(Bytes::new()), "inode 9 is not there"),
        (keys::INODES.to_vec(), count(4), "says 4, there are 5"),
        (keys::STORED.to_vec(), None, "says 0, there are 100"),
        (keys::NEXT_INO.to_vec(), Some(encode(&5_u64).unwrap()), "next inode number"),
    ];
    for (key, value, wanted) in cases {
        let told = told_after(key.clone(), value).await;
        let name = key.escape_ascii();
        assert!(told.iter().any(|told| told.contains(wanted)), "{name}: {wanted}: {told:#?}");
    }
}
