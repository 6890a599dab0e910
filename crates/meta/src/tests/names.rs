//! Names, attributes, directories.

use std::collections::BTreeSet;

use weir_types::{ErrorKind, FileKind, Ino, UnixTime};

use super::{assert_sound, dir, file, kind_of, meta, new};
use crate::codec::encode;
use crate::op::Tx;
use crate::{ACL_ACCESS, ACL_DEFAULT, LastMount, NewInode, RenameMode, SetAttr, XattrMode, keys};

const ROOT: Ino = Ino::ROOT;

#[tokio::test]
async fn what_is_made_is_found() {
    let meta = meta().await;
    let made = meta.create(ROOT, b"a", new(FileKind::Regular)).await.unwrap();
    assert_eq!(meta.lookup(ROOT, b"a").await.unwrap(), made);
    assert_eq!((made.nlink, made.uid, made.gid, made.mode), (1, 7, 8, 0o644));
    let link = meta.create(ROOT, b"s", new(FileKind::Symlink)).await.unwrap();
    assert_eq!((link.size, link.target), (6, Some(b"target".to_vec())));
    assert_eq!(kind_of(meta.create(ROOT, b"a", new(FileKind::Fifo)).await), ErrorKind::Exists);
    assert_eq!(kind_of(meta.lookup(ROOT, b"b").await), ErrorKind::NotFound);
    assert_eq!(
        kind_of(meta.create(made.ino, b"x", new(FileKind::Regular)).await),
        ErrorKind::NotDirectory
    );
    assert_eq!(meta.usage().await.unwrap().inodes, 3);
    assert_sound(&meta).await;
}

#[tokio::test]
async fn bad_names_are_refused() {
    let meta = meta().await;
    let long = [b'x'; 256];
    let cases: [(&[u8], ErrorKind); 6] = [
        (b"", ErrorKind::Invalid),
        (b".", ErrorKind::Invalid),
        (b"..", ErrorKind::Invalid),
        (b"a/b", ErrorKind::Invalid),
        (b"a\0", ErrorKind::Invalid),
        (&long, ErrorKind::NameTooLong),
    ];
    for (name, kind) in cases {
        assert_eq!(kind_of(meta.create(ROOT, name, new(FileKind::Regular)).await), kind);
        assert_eq!(kind_of(meta.lookup(ROOT, name).await), kind);
    }
    meta.create(ROOT, &long[..255], new(FileKind::Regular)).await.unwrap();
}

#[tokio::test]
async fn set_gid_directories_hand_down_their_group() {
    let meta = meta().await;
    let top = dir(&meta, ROOT, "d").await;
    let set = SetAttr { mode: Some(0o2775), gid: Some(99), ..SetAttr::default() };
    meta.setattr(top, set).await.unwrap();
    let inner = meta.create(top, b"d", new(FileKind::Directory)).await.unwrap();
    assert_eq!((inner.gid, inner.mode), (99, 0o2644));
    let inner = meta.create(top, b"f", new(FileKind::Regular)).await.unwrap();
    assert_eq!((inner.gid, inner.mode), (99, 0o644));
}

#[tokio::test]
async fn a_removed_file_stays_readable_until_it_is_purged() {
    let meta = meta().await;
    let ino = file(&meta, ROOT, "a").await;
    assert_eq!(meta.link(ino, ROOT, b"b").await.unwrap().nlink, 2);
    assert_eq!(meta.unlink(ROOT, b"a").await.unwrap().nlink, 1);
    assert_eq!(kind_of(meta.purge(ino).await), ErrorKind::Invalid);
    assert_eq!(meta.unlink(ROOT, b"b").await.unwrap().nlink, 0);
    assert_eq!(meta.inode(ino).await.unwrap().nlink, 0);
    assert_eq!(meta.orphans(None, 10).await.unwrap(), [ino]);
    assert_eq!(meta.orphans(Some(ino), 10).await.unwrap(), []);
    assert_eq!(kind_of(meta.link(ino, ROOT, b"c").await), ErrorKind::NotFound);
    assert_sound(&meta).await;
    meta.purge(ino).await.unwrap();
    meta.purge(ino).await.unwrap();
    assert_eq!(kind_of(meta.inode(ino).await), ErrorKind::NotFound);
    assert_sound(&meta).await;
}

#[tokio::test]
async fn a_removed_directory_takes_no_entries() {
    let meta = meta().await;
    let top = dir(&meta, ROOT, "d").await;
    let ino = file(&meta, top, "f").await;
    assert_eq!(kind_of(meta.rmdir(ROOT, b"d").await), ErrorKind::NotEmpty);
    assert_eq!(kind_of(meta.unlink(ROOT, b"d").await), ErrorKind::IsDirectory);
    assert_eq!(kind_of(meta.rmdir(top, b"f").await), ErrorKind::NotDirectory);
    assert_eq!(meta.inode(ROOT).await.unwrap().nlink, 3);
    meta.unlink(top, b"f").await.unwrap();
    assert_eq!(meta.rmdir(ROOT, b"d").await.unwrap().nlink, 0);
    assert_eq!(meta.inode(ROOT).await.unwrap().nlink, 2);
    let made = meta.create(top, b"x", new(FileKind::Regular)).await;
    assert_eq!(kind_of(made), ErrorKind::NotFound);
    assert_sound(&meta).await;
    for gone in [top, ino] {
        meta.purge(gone).await.unwrap();
    }
    assert_sound(&meta).await;
}

#[tokio::test]
async fn directory_times_follow_the_entries_and_what_is_set() {
    let meta = meta().await;
    let before = meta.inode(ROOT).await.unwrap();
    file(&meta, ROOT, "a").await;
    let after = meta.inode(ROOT).await.unwrap();
    assert!(after.mtime > before.mtime && after.ctime > before.ctime);
    let future = UnixTime(i64::MAX);
    let set = SetAttr { mtime: Some(future), ..SetAttr::default() };
    assert_eq!(meta.setattr(ROOT, set).await.unwrap().mtime, future);
    assert_eq!(meta.inode(ROOT).await.unwrap().mtime, future);
    // A change of entries is later than the setting, even though the time set is not.
    file(&meta, ROOT, "b").await;
    let after = meta.inode(ROOT).await.unwrap();
    assert!(after.mtime < future && after.mtime > before.mtime);
    let mode = SetAttr { mode: Some(0o700), ..SetAttr::default() };
    let changed = meta.setattr(ROOT, mode).await.unwrap();
    assert_eq!(changed.mtime, after.mtime);
    assert_eq!(meta.inode(ROOT).await.unwrap(), changed);
    assert_eq!(meta.inodes(&[Ino(77), ROOT]).await.unwrap(), [None, Some(changed)]);
    assert_sound(&meta).await;
}

#[tokio::test]
async fn a_change_of_owner_clears_privileges_when_told() {
    let meta = meta().await;
    let ino = file(&meta, ROOT, "a").await;
    let mode = |mode| SetAttr { mode: Some(mode), ..SetAttr::default() };
    let chown = SetAttr { uid: Some(1), clear_privileges: true, ..SetAttr::default() };
    meta.setattr(ino, mode(0o6755)).await.unwrap();
    assert_eq!(meta.setattr(ino, chown).await.unwrap().mode, 0o755);
    meta.setattr(ino, mode(0o6745)).await.unwrap();
    assert_eq!(meta.setattr(ino, chown).await.unwrap().mode, 0o2745);
    let outside = SetAttr { clear_set_gid: true, ..chown };
    assert_eq!(meta.setattr(ino, outside).await.unwrap().mode, 0o745);
    let dir = dir(&meta, ROOT, "d").await;
    meta.setattr(dir, mode(0o2745)).await.unwrap();
    assert_eq!(meta.setattr(dir, chown).await.unwrap().mode, 0o2745, "what it hands down");
    // As a list of access by somebody who is not in its group does.
    assert_eq!(meta.setattr(dir, outside).await.unwrap().mode, 0o745);
}

#[tokio::test]
async fn rename_keeps_posix_rules() {
    use RenameMode::{Exchange, NoReplace, Replace};
    let meta = meta().await;
    let (a, b) = (dir(&meta, ROOT, "a").await, dir(&meta, ROOT, "b").await);
    let f = file(&meta, a, "f").await;
    let g = file(&meta, b, "g").await;
    let rename = |from, name: &'static str, to, new_name: &'static str, mode| {
        meta.rename(from, name.as_bytes(), to, new_name.as_bytes(), mode)
    };
    assert_eq!(kind_of(rename(a, "f", b, "g", NoReplace).await), ErrorKind::Exists);
    assert_eq!(kind_of(rename(a, "x", b, "g", Replace).await), ErrorKind::NotFound);
    assert_eq!(kind_of(rename(a, "f", b, "x", Exchange).await), ErrorKind::NotFound);
    assert_eq!(kind_of(rename(ROOT, "a", a, "x", Replace).await), ErrorKind::Invalid);
    assert_eq!(kind_of(rename(ROOT, "a", ROOT, "b", Replace).await), ErrorKind::NotEmpty);
    assert_eq!(kind_of(rename(ROOT, "a", b, "g", Replace).await), ErrorKind::NotDirectory);
    assert_eq!(kind_of(rename(a, "f", ROOT, "b", Replace).await), ErrorKind::IsDirectory);
    assert_eq!(kind_of(rename(a, "f", ROOT, "a", Exchange).await), ErrorKind::Invalid);

    let renamed = rename(a, "f", b, "g", Replace).await.unwrap();
    assert_eq!(renamed.moved.ino, f);
    assert_eq!(renamed.replaced.map(|old| (old.ino, old.nlink)), Some((g, 0)));
    assert_eq!(meta.orphans(None, 9).await.unwrap(), [g]);

    // A directory goes to another one, and its parent and both link counts with it.
    rename(ROOT, "a", b, "a", Replace).await.unwrap();
    assert_eq!(meta.parent(a).await.unwrap(), b);
    assert_eq!(meta.inode(ROOT).await.unwrap().nlink, 3);
    assert_eq!(meta.inode(b).await.unwrap().nlink, 3);

    let swapped = rename(b, "a", b, "g", Exchange).await.unwrap();
    assert_eq!((swapped.moved.ino, swapped.replaced.unwrap().ino), (a, f));
    assert_eq!(meta.lookup(b, b"g").await.unwrap().ino, a);

    meta.link(f, ROOT, b"other").await.unwrap();
    let same = rename(ROOT, "other", b, "a", Replace).await.unwrap();
    assert_eq!((same.moved.nlink, same.replaced), (2, None));
    assert_sound(&meta).await;
}

#[tokio::test]
async fn readdir_pages_are_stable_and_whole() {
    let meta = meta().await;
    for i in 0..100 {
        file(&meta, ROOT, &format!("f{i}")).await;
    }
    dir(&meta, ROOT, "d").await;
    let (mut after, mut seen) = (0, BTreeSet::new());
    loop {
        let page = meta.readdir_plus(ROOT, after, 7).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.entry.cookie;
        for plus in page {
            assert_eq!(plus.inode, meta.inode(plus.entry.ino).await.unwrap());
            assert!(plus.entry.cookie >= keys::COOKIE_MIN && plus.entry.cookie < 1 << 63);
            assert!(seen.insert(plus.entry.name.clone()));
        }
        // Taking entries away and adding some does not move those still to come.
        let gone = seen.iter().next().unwrap().clone();
        if gone.starts_with(b"f") && meta.unlink(ROOT, &gone).await.is_ok() {
            file(&meta, ROOT, std::str::from_utf8(&gone).unwrap()).await;
        }
    }
    assert_eq!(seen.len(), 101);
    assert_sound(&meta).await;
}

#[tokio::test]
async fn names_that_share_a_cookie_come_together() {
    let meta = meta().await;
    // Nobody finds two names of one hash quickly, so put the rows by hand.
    let mut commit = crate::kv::Commit::default();
    let value = crate::codec::encode(&crate::codec::Dirent { ino: ROOT, kind: FileKind::Regular });
    for (cookie, name) in [(20, "a"), (30, "b"), (30, "c"), (30, "d"), (40, "e")] {
        let mut key = keys::dirents_at(ROOT, cookie);
        key.extend_from_slice(name.as_bytes());
        commit.puts.push((key, value.as_ref().unwrap().clone()));
    }
    meta.kv().commit(commit).await.unwrap();
    let mut pages = Vec::new();
    let mut after = 0;
    loop {
        let page = meta.readdir(ROOT, after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.cookie;
        pages.push(page.iter().map(|entry| entry.name[0] as char).collect::<String>());
    }
    assert_eq!(pages, ["abcd", "e"]);
}

#[tokio::test]
async fn extended_attributes() {
    let meta = meta().await;
    let ino = file(&meta, ROOT, "a").await;
    let set = |name: &'static str, mode| meta.xattr_set(ino, name.as_bytes(), b"v", mode);
    assert_eq!(kind_of(set("user.a", XattrMode::Replace).await), ErrorKind::NoAttribute);
    let before = meta.inode(ino).await.unwrap().ctime;
    assert!(set("user.a", XattrMode::Create).await.unwrap().ctime > before);
    assert_eq!(kind_of(set("user.a", XattrMode::Create).await), ErrorKind::Exists);
    set("user.b", XattrMode::Any).await.unwrap();
    assert_eq!(meta.xattr_get(ino, b"user.a").await.unwrap(), b"v"[..]);
    assert_eq!(meta.xattr_list(ino).await.unwrap(), [b"user.a", b"user.b"]);
    meta.xattr_remove(ino, b"user.a").await.unwrap();
    assert_eq!(kind_of(meta.xattr_get(ino, b"user.a").await), ErrorKind::NoAttribute);
    assert_eq!(kind_of(meta.xattr_remove(ino, b"user.a").await), ErrorKind::NoAttribute);
    assert_eq!(kind_of(meta.xattr_get(Ino(99), b"user.a").await), ErrorKind::NotFound);
    let big = vec![0; (64 << 10) + 1];
    let too_large = meta.xattr_set(ino, b"user.c", &big, XattrMode::Any).await;
    assert_eq!(kind_of(too_large), ErrorKind::TooLarge);
    let mut full = Ok(());
    for i in 0..17 {
        let name = format!("user.{i}");
        full = meta.xattr_set(ino, name.as_bytes(), &big[1..], XattrMode::Any).await.map(|_| ());
    }
    assert_eq!(kind_of(full), ErrorKind::NoSpace);
    meta.unlink(ROOT, b"a").await.unwrap();
    meta.purge(ino).await.unwrap();
    assert_sound(&meta).await;
}

#[tokio::test]
async fn one_writer_after_the_other() {
    let meta = meta().await;
    assert_eq!(meta.writer().await.unwrap(), None);
    let mount = |node: &str| LastMount {
        node: node.to_owned(),
        host: "process 1 on there".to_owned(),
        tier: "/tier".to_owned(),
        journal: None,
        clean: false,
    };
    let first = meta.take_writer(None, &mount("one")).await.unwrap();
    assert_eq!(first.epoch, 1);
    assert_eq!(kind_of(meta.take_writer(None, &mount("two")).await), ErrorKind::Conflict);
    assert_eq!(meta.take_writer(Some(1), &mount("two")).await.unwrap().epoch, 2);
    assert_eq!(meta.writer().await.unwrap().unwrap().node, "two");
    assert_eq!(meta.last_writer().await.unwrap().1, Some(mount("two")));
    assert_eq!(kind_of(meta.end_cleanly(&mount("one")).await), ErrorKind::Conflict);
    meta.end_cleanly(&mount("two")).await.unwrap();
    assert!(meta.last_writer().await.unwrap().1.is_some_and(|mount| mount.clean));
    // A build that knows no such record writes the other one only.
    let newer = crate::WriterRecord { epoch: 3, node: "three".into(), since: UnixTime(0) };
    let mut tx = Tx::default();
    tx.put(crate::keys::WRITER.to_vec(), encode(&newer).unwrap());
    assert!(meta.apply(tx).await.unwrap());
    assert_eq!(meta.last_writer().await.unwrap(), (Some(newer), None));
    let again =
        crate::Meta::format(&**meta.kv(), crate::RootAttr { mode: 0, uid: 0, gid: 0 }, UnixTime(0));
    assert_eq!(kind_of(again.await), ErrorKind::Exists);
}

/// `u::rwx,u:7:rwx,g::r-x,m::rwx,o::---` in the bytes of Linux.
const LIST: &[u8] = b"\x02\0\0\0\x01\0\x07\0\xff\xff\xff\xff\x02\0\x07\0\x07\0\0\0\
    \x04\0\x05\0\xff\xff\xff\xff\x10\0\x07\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";
const MASK_AT: usize = 4 + 3 * 8 + 2;

#[tokio::test]
async fn a_list_and_the_mode_say_the_same() {
    let meta = meta().await;
    let ino = file(&meta, ROOT, "f").await;
    assert!(!meta.has_acls().await.unwrap());
    let after = meta.xattr_set(ino, ACL_ACCESS, LIST, XattrMode::Any).await.unwrap();
    assert_eq!(after.mode, 0o770);
    assert!(meta.has_acls().await.unwrap());
    let set = SetAttr { mode: Some(0o2640), ..SetAttr::default() };
    assert_eq!(meta.setattr(ino, set).await.unwrap().mode, 0o2640);
    let list = meta.xattr_get(ino, ACL_ACCESS).await.unwrap();
    assert_eq!(list[MASK_AT], 4, "chmod sets the mask");
    assert_eq!(list[MASK_AT - 8], 5, "and not what is behind it");
    // What the bits say whole is no list.
    let bits = [&LIST[..12], &LIST[20..28], &LIST[36..]].concat();
    assert_eq!(meta.xattr_set(ino, ACL_ACCESS, &bits, XattrMode::Any).await.unwrap().mode, 0o2750);
    assert!(meta.xattr_list(ino).await.unwrap().is_empty());
    let broken = meta.xattr_set(ino, ACL_ACCESS, &LIST[..20], XattrMode::Any).await;
    assert_eq!(kind_of(broken), ErrorKind::Invalid);
    let of_a_file = meta.xattr_set(ino, ACL_DEFAULT, LIST, XattrMode::Any).await;
    assert_eq!(kind_of(of_a_file), ErrorKind::Invalid);
    assert_sound(&meta).await;
}

#[tokio::test]
async fn what_is_made_in_a_directory_inherits_its_list_or_has_the_umask() {
    let meta = meta().await;
    let top = dir(&meta, ROOT, "d").await;
    let masked = |kind| NewInode { mode: 0o666, umask: Some(0o027), ..new(kind) };
    let plain = meta.create(top, b"plain", masked(FileKind::Regular)).await.unwrap();
    assert_eq!(plain.mode, 0o640);
    meta.xattr_set(top, ACL_DEFAULT, LIST, XattrMode::Any).await.unwrap();
    let made = meta.create(top, b"file", masked(FileKind::Regular)).await.unwrap();
    assert_eq!(made.mode, 0o660, "the list in the place of the umask");
    assert_eq!(meta.xattr_get(made.ino, ACL_ACCESS).await.unwrap()[MASK_AT], 6);
    assert_eq!(meta.xattr_list(made.ino).await.unwrap(), [ACL_ACCESS]);
    let inner = meta.create(top, b"dir", masked(FileKind::Directory)).await.unwrap();
    assert_eq!(meta.xattr_get(inner.ino, ACL_DEFAULT).await.unwrap(), LIST);
    let deep = meta.create(inner.ino, b"deep", masked(FileKind::Fifo)).await.unwrap();
    assert_eq!(deep.mode, 0o660);
    let link = meta.create(top, b"s", NewInode { umask: None, ..new(FileKind::Symlink) }).await;
    assert!(meta.xattr_list(link.unwrap().ino).await.unwrap().is_empty());
    let unaware = meta.create(top, b"unaware", new(FileKind::Regular)).await.unwrap();
    assert!(meta.xattr_list(unaware.ino).await.unwrap().is_empty());
    meta.unlink(top, b"file").await.unwrap();
    assert_sound(&meta).await;
}
