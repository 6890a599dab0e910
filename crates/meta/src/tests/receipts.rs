//! Rows that are kept by the very commit of a change.

use bytes::Bytes;
use weir_types::{ErrorKind, FileKind, Ino};

use super::{assert_sound, dir, file, meta, new};
use crate::{Meta, Receipt, RenameMode, XattrMode, with_receipt};

fn receipt(name: &str) -> Receipt {
    Receipt { name: format!("r/{name}"), value: Bytes::from_static(b"done") }
}

async fn kept(meta: &Meta) -> Vec<String> {
    let rows = meta.kept("r/").await.unwrap();
    rows.into_iter().map(|(name, _)| name).collect()
}

#[tokio::test]
async fn each_change_of_a_name_keeps_one_and_what_fails_none() {
    let meta = meta().await;
    let root = Ino::ROOT;
    let a = file(&meta, root, "a").await;
    dir(&meta, root, "full").await;
    assert_eq!(kept(&meta).await, Vec::<String>::new());
    let made = with_receipt(receipt("1"), meta.create(root, b"d", new(FileKind::Directory))).await;
    made.unwrap();
    with_receipt(receipt("2"), meta.link(a, root, b"b")).await.unwrap();
    with_receipt(receipt("3"), meta.unlink(root, b"a")).await.unwrap();
    let replaces = meta.rename(root, b"b", root, b"c", RenameMode::Replace);
    with_receipt(receipt("4"), replaces).await.unwrap();
    with_receipt(receipt("5"), meta.rmdir(root, b"d")).await.unwrap();
    let set = meta.xattr_set(a, b"user.a", b"x", XattrMode::Create);
    with_receipt(receipt("6"), set).await.unwrap();
    with_receipt(receipt("7"), meta.xattr_remove(a, b"user.a")).await.unwrap();
    let all: Vec<_> = (1..=7).map(|n| format!("r/{n}")).collect();
    assert_eq!(kept(&meta).await, all);

    let refused = with_receipt(receipt("8"), meta.unlink(root, b"a")).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotFound);
    let refused = with_receipt(receipt("8"), meta.create(root, b"c", new(FileKind::Regular))).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Exists);
    // A rename between two names of one file changes nothing.
    meta.link(a, root, b"e").await.unwrap();
    let same = meta.rename(root, b"c", root, b"e", RenameMode::Replace);
    with_receipt(receipt("8"), same).await.unwrap();
    assert_eq!(kept(&meta).await, all);
    assert_sound(&meta).await;
}
