//! Files that become objects of links.

use weir_types::{CHUNK_BYTES, ErrorKind, Ino, Inode, LinkId, Native, UnixTime};

use super::fragments::{fragments, logged};
use super::{assert_sound, kind_of};
use crate::kv::memory::MemoryKv;
use crate::{AtimeChange, ExportCommit, ExportContent, Meta, check};

fn whole(link: LinkId, key: &str, size: u64, fresh: bool) -> ExportCommit {
    let object = Native::directory(link, key.to_owned(), true, false);
    ExportCommit {
        native: Native { object_bytes: size, end: size, ..object },
        modified_ms: 0,
        content: ExportContent::Whole { fresh, size, mtime: None, ctime: None },
        row: None,
    }
}

async fn extents(meta: &Meta, ino: Ino) -> (usize, usize) {
    let found = meta.chunks(ino, 0..1_000).await.unwrap().list;
    let (native, own): (Vec<_>, Vec<_>) =
        found.into_iter().flat_map(|(_, list)| list).partition(|extent| extent.is_native());
    (native.len(), own.len())
}

#[tokio::test]
async fn no_old_byte_is_read_over_a_new_object_after_any_commit() {
    let (meta, log) = logged().await;
    let link = meta.add_link(b"link").await.unwrap();
    // What fits goes with the commit that makes the object the file's.
    let small = fragments(&meta, "small", 50).await;
    let from = log.len();
    let export = whole(link, "small", 50 * CHUNK_BYTES, true);
    assert!(meta.commit_export(small, &export).await.unwrap().is_some());
    assert_eq!(log.len() - from, 1);
    assert_eq!(extents(&meta, small).await, (50, 0));
    // What does not must be no older than the object.
    let large = fragments(&meta, "large", 300).await;
    let before = meta.inode(large).await.unwrap();
    assert!(!meta.extents_fit(large).await.unwrap());
    let mut export = whole(link, "large", 300 * CHUNK_BYTES, true);
    assert_eq!(kind_of(meta.commit_export(large, &export).await), ErrorKind::Retry);
    assert_eq!(meta.inode(large).await.unwrap(), before);
    let from = log.len();
    export.content = whole(link, "large", 300 * CHUNK_BYTES, false).content;
    assert!(meta.commit_export(large, &export).await.unwrap().is_some());
    assert!(log.len() - from > 2, "{} commits", log.len() - from);
    assert_eq!(extents(&meta, large).await, (300, 0));
    assert_sound(&meta).await;
    let replayed = MemoryKv::new();
    for (n, (version, entry)) in log.since(0).into_iter().enumerate() {
        assert!(replayed.replay(version, &entry).await.unwrap());
        if n >= from {
            assert_eq!(check(&replayed).await.unwrap(), [], "after entry {n}");
        }
    }
}

#[tokio::test]
async fn a_file_without_names_takes_no_object() {
    let (meta, _) = logged().await;
    let link = meta.add_link(b"link").await.unwrap();
    let ino = fragments(&meta, "gone", 2).await;
    meta.unlink(Ino::ROOT, b"gone").await.unwrap();
    let export = whole(link, "gone", 2 * CHUNK_BYTES, true);
    assert_eq!(meta.commit_export(ino, &export).await.unwrap(), None);
    assert_eq!(extents(&meta, ino).await.0, 0);
    let removed = meta.removed_objects(link, None, 9).await.unwrap();
    assert_eq!(removed, [b"gone".to_vec()], "the object is to go");
}

#[tokio::test]
async fn to_set_the_time_of_a_read_changes_nothing_else() {
    let (meta, log) = logged().await;
    let link = meta.add_link(b"link").await.unwrap();
    let ino = fragments(&meta, "a", 2).await;
    let export = whole(link, "a", 2 * CHUNK_BYTES, true);
    assert!(meta.commit_export(ino, &export).await.unwrap().is_some());
    let before = meta.inode(ino).await.unwrap();
    let over = |before, after| AtimeChange { ino, before, after: UnixTime(after) };
    let gone = AtimeChange { ino: Ino(999_999), ..over(before.atime, 5) };
    let from = log.len();
    meta.set_atimes(&[over(before.atime, 77), gone]).await.unwrap();
    assert_eq!(log.len() - from, 1, "one commit");
    let after = Inode { atime: UnixTime(77), ..before.clone() };
    assert_eq!(meta.inode(ino).await.unwrap(), after);
    assert!(!meta.is_to_export(link, ino).await.unwrap());
    meta.set_atimes(&[over(before.atime, 99)]).await.unwrap();
    assert_eq!(meta.inode(ino).await.unwrap(), after, "one that was set meanwhile stays");
    assert_sound(&meta).await;
}
