//! Names and attributes, with all that the kernel may remember of them in its memory.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::both::Both;
use crate::common::attrs::Set;
use crate::common::codes::{NOENT, OK, attr, stable};
use crate::common::ops::{self, link, remove, rename};

/// The names of a directory of the mount, listed twice: so that the kernel has its own copy, and uses it.
fn listed(dir: &Path) -> BTreeSet<String> {
    let list = || {
        let entries = fs::read_dir(dir).expect("lists");
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
        names.map(|name| name.expect("UTF-8")).collect::<BTreeSet<_>>()
    };
    let first = list();
    assert_eq!(list(), first);
    first
}

fn is_missing(found: io::Result<Metadata>) -> bool {
    found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

#[test]
fn names_that_come_and_go_by_nfs_do_so_in_the_mount() {
    let Some(both) = Both::new() else { return };
    let mut client = both.client("a");
    let root = client.root();
    let (one, two) = (both.path("one"), both.path("two"));
    let names = |wanted: &[&str]| {
        let wanted: BTreeSet<_> = wanted.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(listed(&both.at), wanted);
    };
    for _ in 0..2 {
        // The kernel remembers that it is not there.
        assert!(is_missing(fs::metadata(&one)) && is_missing(fs::metadata(&one)));
        names(&[]);
        client.file(&root, "one", b"1");
        assert_eq!(fs::read(&one).expect("is there"), b"1");
        names(&["one"]);
        assert!(is_missing(fs::metadata(&two)));
        assert_eq!(client.between(&root, &root, rename("one", "two")).stat, OK);
        assert!(is_missing(fs::metadata(&one)), "it has another name");
        assert_eq!(fs::read(&two).expect("is there"), b"1");
        names(&["two"]);
        client.file(&root, "one", b"another");
        assert_eq!(fs::read(&one).expect("is there"), b"another");
        assert_eq!(client.between(&root, &root, rename("one", "two")).stat, OK);
        assert_eq!(fs::read(&two).expect("is there"), b"another", "it was replaced");
        assert!(is_missing(fs::metadata(&one)));
        assert_eq!(client.stat(&root, remove("two")), OK);
        assert!(is_missing(fs::metadata(&two)) && is_missing(fs::metadata(&one)));
        names(&[]);
    }
    let dir = both.path("dir");
    assert!(is_missing(fs::metadata(&dir)));
    let made = client.mkdir(&root, "dir", 0o750);
    assert_eq!(fs::metadata(&dir).expect("is there").permissions().mode() & 0o7777, 0o750);
    assert!(is_missing(fs::metadata(dir.join("below"))));
    client.file(&made, "below", b"x");
    assert!(fs::metadata(dir.join("below")).is_ok() && listed(&dir).len() == 1);
    assert_eq!(client.stat(&made, remove("below")), OK);
    assert_eq!(client.stat(&root, remove("dir")), OK);
    assert!(is_missing(fs::metadata(&dir)));
    assert!(is_missing(fs::symlink_metadata(both.path("link"))));
    assert_eq!(client.stat(&root, ops::symlink("link", "to")), OK);
    assert_eq!(fs::read_link(both.path("link")).expect("is there"), Path::new("to"));
}

#[test]
fn a_directory_that_somebody_is_in_can_move_and_go_by_nfs() {
    let Some(both) = Both::new() else { return };
    let mut client = both.client("a");
    let root = client.root();
    let (from, to) = (client.mkdir(&root, "from", 0o755), client.mkdir(&root, "to", 0o755));
    client.mkdir(&from, "dir", 0o755);
    fs::write(both.path("from/dir/file"), b"kept").expect("writes");
    let held = fs::File::open(both.path("from/dir")).expect("opens");
    assert_eq!(client.between(&from, &to, rename("dir", "moved")).stat, OK);
    assert_eq!(fs::read(both.path("to/moved/file")).expect("is there"), b"kept");
    assert!(is_missing(fs::metadata(both.path("from/dir"))));
    assert!(held.metadata().expect("is open").is_dir());
    let above = fs::metadata(both.path("to/moved/..")).expect("is there").ino();
    assert_eq!(above, fs::metadata(both.path("to")).expect("is there").ino());
}

#[test]
fn attributes_that_change_by_nfs_do_so_in_the_mount() {
    let Some(both) = Both::new() else { return };
    let mut client = both.client("a");
    let root = client.root();
    let path = both.path("file");
    fs::write(&path, b"0123456789").expect("writes");
    let held = fs::File::open(&path).expect("opens");
    let file = client.lookup(&root, "file").expect("is there");
    let seen = || {
        let (by_name, by_file) = (fs::metadata(&path).expect("is there"), held.metadata());
        let by_file = by_file.expect("is open");
        let told = |m: &Metadata| (m.mode() & 0o7777, m.uid(), m.len(), m.mtime(), m.nlink());
        assert_eq!(told(&by_name), told(&by_file));
        by_name
    };
    assert_eq!(seen().len(), 10);
    assert_eq!(client.set(&file, &Set::new().mode(0o640)), OK);
    assert_eq!(seen().mode() & 0o7777, 0o640);
    assert_eq!(client.set(&file, &Set::new().size(4)), OK);
    assert_eq!(seen().len(), 4);
    let (_, opened) = client.open(&root, &ops::Open::both("file")).expect("opens");
    let before = seen().ctime_nsec();
    client.write(&file, opened.id, 100, stable::UNSTABLE, b"far").expect("writes");
    assert_eq!(seen().len(), 103);
    assert_ne!(seen().ctime_nsec(), before);
    assert_eq!(client.between(&file, &root, link("other")).stat, OK);
    assert_eq!(
        (seen().nlink(), seen().ino()),
        (2, fs::metadata(both.path("other")).expect("is there").ino())
    );
    assert_eq!(client.stat(&root, remove("other")), OK);
    assert_eq!(seen().nlink(), 1);
}

#[test]
fn what_the_mount_changes_nfs_sees() {
    let Some(both) = Both::new() else { return };
    let mut client = both.client("a");
    let root = client.root();
    assert_eq!(client.lookup(&root, "file").unwrap_err(), NOENT);
    fs::write(both.path("file"), b"by the mount").expect("writes");
    let file = client.lookup(&root, "file").expect("is there");
    assert_eq!(client.content(&file), b"by the mount");
    let before = client.change(&file);
    let open = fs::OpenOptions::new().write(true).open(both.path("file")).expect("opens");
    std::os::unix::fs::FileExt::write_at(&open, b"BY", 0).expect("writes");
    assert_eq!(client.content(&file), b"BY the mount", "before it is closed, too");
    assert_ne!(client.change(&file), before, "clients are to drop what they have of it");
    open.set_len(2).expect("cuts");
    assert_eq!((client.size(&file), client.content(&file)), (2, b"BY".to_vec()));
    fs::set_permissions(both.path("file"), fs::Permissions::from_mode(0o600)).expect("sets");
    assert_eq!(client.attrs(&file, &[attr::MODE]).number(attr::MODE), 0o600);
    fs::rename(both.path("file"), both.path("moved")).expect("moves");
    assert_eq!(client.lookup(&root, "file").unwrap_err(), NOENT);
    assert_eq!(client.names(&root), ["moved"]);
    fs::remove_file(both.path("moved")).expect("removes");
    assert_eq!(client.names(&root), Vec::<String>::new());
}
