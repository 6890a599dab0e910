//! LOOKUP, LOOKUPP, CREATE, READLINK, REMOVE, RENAME, LINK, SECINFO.

use crate::common::attrs::Set;
use crate::common::client::Client;
use crate::common::codes::{
    ACCESS, BADCHAR, BADNAME, BADTYPE, EXIST, INVAL, ISDIR, NAMETOOLONG, NOENT, NOFILEHANDLE,
    NOTDIR, NOTEMPTY, OK, PERM, SYMLINK, Stat, WRONG_TYPE, attr, kind,
};
use crate::common::ops::{
    Op, Open, create, getattr, getfh, link, lookup, lookup_bytes, lookupp, mkdir, putfh, readlink,
    remove, rename, secinfo, secinfo_no_name, symlink,
};
use crate::common::replies::{Body, Change};
use crate::common::rpc::Cred;
use crate::common::xdr::Writer;
use crate::common::{Served, assert_any};

const NO_NAME: &[Stat] = &[BADNAME, INVAL];

/// A directory with a file, a directory and a symlink in it.
fn furnished(served: &Served) -> (Client, Vec<u8>) {
    let mut client = served.client("a");
    let root = client.root();
    let dir = client.mkdir(&root, "work", 0o755);
    client.file(&dir, "file", b"bytes");
    client.mkdir(&dir, "sub", 0o755);
    assert_eq!(client.stat(&dir, symlink("link", "file")), OK);
    (client, dir)
}

#[test]
fn lookup_says_why_there_is_nothing() {
    let served = Served::new();
    let (mut client, dir) = furnished(&served);
    assert_eq!(client.stat(&dir, lookup("absent")), NOENT);
    let file = client.lookup(&dir, "file").expect("a file");
    assert_eq!(client.stat(&file, lookup("x")), NOTDIR);
    let link = client.lookup(&dir, "link").expect("a symlink");
    assert_eq!(client.stat(&link, lookup("x")), SYMLINK, "18.13.3");
    assert_eq!(client.stat(&dir, lookup("")), INVAL, "18.13.3");
    for name in [".", "..", "a/b", "/", "sub/..", "nul\0l"] {
        assert_any(client.stat(&dir, lookup(name)), NO_NAME);
    }
    let longest = "n".repeat(255);
    assert_eq!(client.stat(&dir, lookup(&longest)), NOENT);
    assert_eq!(client.stat(&dir, lookup(&(longest + "n"))), NAMETOOLONG);
    assert_eq!(client.stat(&dir, lookup(&"n".repeat(5_000))), NAMETOOLONG);
    assert_any(client.stat(&dir, lookup_bytes(b"\xff\xfe")), &[NOENT, INVAL, BADCHAR]);
}

#[test]
fn lookupp_goes_up_to_the_root() {
    let served = Served::new();
    let (mut client, dir) = furnished(&served);
    let root = client.root();
    let sub = client.lookup(&dir, "sub").expect("a directory");
    let mut up = |from: &[u8]| client.call(&[putfh(from), lookupp(), getfh()]).ok().last().handle();
    assert_eq!(up(&sub), dir);
    assert_eq!(up(&dir), root);
    assert_eq!(client.stat(&root, lookupp()), NOENT, "18.14.3");
    let file = client.lookup(&dir, "file").expect("a file");
    assert_eq!(client.stat(&file, lookupp()), NOTDIR);
    let link = client.lookup(&dir, "link").expect("a symlink");
    assert_any(client.stat(&link, lookupp()), &[NOTDIR, SYMLINK]);
    assert_eq!(client.stat(&root, remove("work")), NOTEMPTY);
}

/// What a name that cannot be is answered with, by each operation that makes or removes one.
#[test]
fn names_that_cannot_be_are_refused_everywhere() {
    let served = Served::new();
    let (mut client, dir) = furnished(&served);
    let file = client.lookup(&dir, "file").expect("a file");
    let long = "n".repeat(256);
    for (name, wanted) in [
        ("", &[INVAL, BADNAME][..]),
        (".", NO_NAME),
        ("..", NO_NAME),
        ("a/b", NO_NAME),
        (&long, &[NAMETOOLONG]),
    ] {
        assert_any(client.stat(&dir, mkdir(name, 0o755)), wanted);
        assert_any(client.stat(&dir, remove(name)), wanted);
        assert_any(client.open(&dir, &Open::making(name)).unwrap_err(), wanted);
        assert_any(client.between(&dir, &dir, rename("file", name)).stat, wanted);
        assert_any(client.between(&dir, &dir, rename(name, "x")).stat, wanted);
        assert_any(client.between(&file, &dir, link(name)).stat, wanted);
        assert_any(client.stat(&dir, symlink(name, "x")), wanted);
    }
    assert_eq!(client.names(&dir), ["file", "link", "sub"]);
}

#[test]
fn names_are_bytes_that_come_back() {
    let served = Served::new();
    let (mut client, dir) = furnished(&served);
    let longest = "é".repeat(127) + "n";
    for name in ["Ünïcödé", " ", "a b", "-", "...", "\u{1f600}", "*", "new\nline", &longest] {
        let made = client.mkdir(&dir, name, 0o755);
        assert_eq!(client.lookup(&dir, name).expect("looks up"), made);
        assert!(client.names(&dir).iter().any(|listed| listed == name), "{name}");
        assert_eq!(client.stat(&dir, remove(name)), OK);
    }
    assert_eq!(client.stat(&dir, lookup("FILE")), NOENT, "case counts");
}

/// CREATE of a kind with what belongs to it.
fn made(what: Writer, name: &str) -> Op {
    create(what, name.as_bytes(), &Set::new().mode(0o640))
}

#[test]
fn create_makes_what_is_no_file() {
    let served = Served::new();
    let (mut client, dir) = furnished(&served);
    let device = |kind: u32| Writer::new().u32(kind).u32(8).u32(17);
    for (name, what, number) in [
        ("fifo", Writer::new().u32(kind::FIFO), kind::FIFO),
        ("sock", Writer::new().u32(kind::SOCK), kind::SOCK),
        ("chr", device(kind::CHR), kind::CHR),
        ("blk", device(kind::BLK), kind::BLK),
        ("dir", Writer::new().u32(kind::DIR), kind::DIR),
        ("lnk", Writer::new().u32(kind::LNK).opaque(b"to"), kind::LNK),
    ] {
        let before = client.change(&dir);
        let asked = getattr(&[attr::TYPE, attr::MODE, attr::RAWDEV, attr::NUMLINKS]);
        let reply = client.call(&[putfh(&dir), made(what, name), asked]).ok();
        let Body::Created(change, set) = &reply.results[1].body else { panic!("{reply:?}") };
        assert_eq!((change.before, change.after), (before, client.change(&dir)), "{name}");
        assert_ne!(change.before, change.after, "{name}");
        let attrs = reply.last().attrs();
        assert_eq!(attrs.kind(), number, "{name}");
        if number != kind::LNK {
            assert_eq!((attrs.mode(), &set[..]), (0o640, &[attr::MODE][..]), "{name}");
        }
        if [kind::CHR, kind::BLK].contains(&number) {
            assert_eq!(attrs.pair(attr::RAWDEV), (8, 17), "{name}");
        }
        assert_eq!(attrs.number(attr::NUMLINKS), if number == kind::DIR { 2 } else { 1 });
    }
}

#[test]
fn create_says_why_it_makes_nothing() {
    let served = Served::new();
    let (mut client, dir) = furnished(&served);
    let plain = |kind: u32| Writer::new().u32(kind);
    assert_eq!(client.stat(&dir, made(plain(kind::REG), "new")), BADTYPE, "18.4.3");
    assert_eq!(client.stat(&dir, made(plain(kind::ATTRDIR), "new")), BADTYPE);
    for name in ["file", "sub", "link"] {
        assert_eq!(client.stat(&dir, mkdir(name, 0o755)), EXIST);
        assert_eq!(client.stat(&dir, symlink(name, "x")), EXIST);
    }
    let file = client.lookup(&dir, "file").expect("a file");
    assert_eq!(client.stat(&file, mkdir("new", 0o755)), NOTDIR);
    assert_any(client.stat(&dir, symlink("empty", "")), &[INVAL, NOENT]);
    assert_any(client.stat(&dir, symlink("long", &"x".repeat(5_000))), &[NAMETOOLONG, INVAL]);
    let sized = create(plain(kind::DIR), b"new", &Set::new().size(9));
    assert_eq!(client.stat(&dir, sized), INVAL, "a directory has no size to set");
    assert_eq!(client.set(&dir, &Set::new().mode(0o777)), OK);
    client.cred = Cred::user(1000);
    let device = Writer::new().u32(kind::BLK).u32(8).u32(0);
    assert_any(client.stat(&dir, made(device, "disk")), &[PERM, ACCESS]);
    assert_eq!(client.stat(&dir, made(plain(kind::FIFO), "fifo")), OK, "everybody may");
}

#[test]
fn readlink_gives_back_what_was_put_in() {
    let served = Served::new();
    let (mut client, dir) = furnished(&served);
    for (at, target) in
        ["x", "../..", "/abs/olute", &"t/".repeat(2_000), "\u{fffd}"].iter().enumerate()
    {
        let name = format!("l{at}");
        assert_eq!(client.stat(&dir, symlink(&name, target)), OK);
        let link = client.lookup(&dir, &name).expect("a symlink");
        assert_eq!(client.at(&link, readlink()).text(), target.as_bytes());
        assert_eq!(client.size(&link), target.len() as u64);
    }
    for name in ["file", "sub"] {
        let other = client.lookup(&dir, name).expect("is there");
        assert_any(client.stat(&other, readlink()), &[WRONG_TYPE, INVAL]);
    }
}

#[test]
fn remove_takes_names_of_all_kinds() {
    let served = Served::new();
    let (mut client, dir) = furnished(&served);
    let sub = client.lookup(&dir, "sub").expect("a directory");
    client.file(&sub, "inner", b"");
    assert_eq!(client.stat(&dir, remove("sub")), NOTEMPTY);
    assert_eq!(client.stat(&sub, remove("inner")), OK);
    for name in ["sub", "file", "link"] {
        let before = client.change(&dir);
        let change = client.at(&dir, remove(name)).change();
        let after = client.change(&dir);
        assert_eq!((change.before, change.after), (before, after), "{name}");
        assert_ne!(before, after);
        assert_eq!(client.stat(&dir, remove(name)), NOENT);
    }
    let root = client.root();
    let file = client.file(&root, "file", b"");
    assert_eq!(client.stat(&file, remove("x")), NOTDIR);
}

#[test]
fn rename_moves_a_name_over_what_fits() {
    let served = Served::new();
    let (mut client, dir) = furnished(&served);
    let root = client.root();
    let other = client.mkdir(&root, "other", 0o755);
    let file = client.lookup(&dir, "file").expect("a file");
    let before = [client.change(&dir), client.change(&other)];
    let moved = client.between(&dir, &other, rename("file", "moved"));
    let Body::Renamed(source, target) = moved.body else { panic!("{moved:?}") };
    let after = [client.change(&dir), client.change(&other)];
    let pairs = |change: Change| [change.before, change.after];
    assert_eq!([pairs(source), pairs(target)], [[before[0], after[0]], [before[1], after[1]]]);
    assert_eq!(client.lookup(&other, "moved").expect("is there"), file);
    assert_eq!(client.stat(&dir, lookup("file")), NOENT);
    // Over a file, over an empty directory.
    client.file(&other, "second", b"2");
    assert_eq!(client.between(&other, &other, rename("moved", "second")).stat, OK);
    assert_eq!(client.lookup(&other, "second").expect("is there"), file);
    assert_eq!(client.names(&other), ["second"]);
    client.mkdir(&other, "empty", 0o755);
    assert_eq!(client.between(&dir, &other, rename("sub", "empty")).stat, OK);
    let sub = client.lookup(&other, "empty").expect("is there");
    let up = client.call(&[putfh(&sub), lookupp(), getfh()]).ok().last().handle();
    assert_eq!(up, other, "a directory's parent moves too");
}

#[test]
fn rename_refuses_what_does_not_fit() {
    let served = Served::new();
    let (mut client, dir) = furnished(&served);
    let sub = client.lookup(&dir, "sub").expect("a directory");
    let file = client.lookup(&dir, "file").expect("a file");
    let full = client.mkdir(&dir, "full", 0o755);
    client.file(&full, "inner", b"");
    let mut stat = |from: &[u8], to: &[u8], old: &str, new: &str| {
        client.between(from, to, rename(old, new)).stat
    };
    assert_eq!(stat(&dir, &dir, "absent", "x"), NOENT);
    assert_any(stat(&dir, &dir, "file", "sub"), &[EXIST, ISDIR]);
    assert_any(stat(&dir, &dir, "sub", "file"), &[EXIST, NOTDIR]);
    assert_any(stat(&dir, &dir, "sub", "full"), &[EXIST, NOTEMPTY]);
    assert_eq!(stat(&dir, &sub, "sub", "x"), INVAL, "into itself");
    assert_eq!(stat(&dir, &full, "full", "x"), INVAL);
    assert_eq!(stat(&file, &dir, "x", "y"), NOTDIR);
    assert_eq!(stat(&dir, &file, "file", "y"), NOTDIR);
    assert_eq!(stat(&dir, &dir, "file", "file"), OK, "to itself");
    let other = client.between(&file, &dir, link("hard"));
    assert_eq!(other.stat, OK);
    assert_eq!(client.between(&dir, &dir, rename("file", "hard")).stat, OK, "the same file");
    assert_eq!(client.names(&dir), ["file", "full", "hard", "link", "sub"], "18.26.3");
}

#[test]
fn link_gives_a_file_one_more_name() {
    let served = Served::new();
    let (mut client, dir) = furnished(&served);
    let file = client.lookup(&dir, "file").expect("a file");
    let before = client.change(&dir);
    let change = client.between(&file, &dir, link("second")).change();
    assert_eq!((change.before, change.after), (before, client.change(&dir)));
    assert_eq!(client.attrs(&file, &[attr::NUMLINKS]).number(attr::NUMLINKS), 2);
    assert_eq!(client.between(&file, &dir, link("sub")).stat, EXIST);
    assert_eq!(client.between(&file, &dir, link("second")).stat, EXIST);
    let sub = client.lookup(&dir, "sub").expect("a directory");
    assert_any(client.between(&sub, &dir, link("x")).stat, &[ISDIR, PERM]);
    assert_eq!(client.between(&file, &file, link("x")).stat, NOTDIR);
    let symlink = client.lookup(&dir, "link").expect("a symlink");
    assert_eq!(client.between(&symlink, &dir, link("link2")).stat, OK);
    assert_eq!(client.stat(&dir, remove("file")), OK);
    assert_eq!(client.content(&file), b"bytes", "by its other name");
}

#[test]
fn secinfo_tells_flavours_and_takes_the_file_away() {
    let served = Served::new();
    let (mut client, dir) = furnished(&served);
    let root = client.root();
    let mut asked = |file: &[u8], op: Op| client.call(&[putfh(file), op, getfh()]);
    for (file, op) in [
        (&dir, secinfo("file")),
        (&root, secinfo("work")),
        (&dir, secinfo_no_name(false)),
        (&root, secinfo_no_name(false)),
        (&dir, secinfo_no_name(true)),
    ] {
        let reply = asked(file, op);
        assert_eq!(reply.stat, NOFILEHANDLE, "2.6.3.1.1.8: consumed");
        assert!(reply.results[1].flavours().contains(&1), "{reply:?}");
    }
    assert_eq!(asked(&dir, secinfo("absent")).stat, NOENT);
    assert_eq!(asked(&root, secinfo_no_name(true)).stat, NOENT, "the root has no parent");
    let file = client.lookup(&dir, "file").expect("a file");
    assert_eq!(client.stat(&file, secinfo("x")), NOTDIR);
    assert_eq!(client.stat(&dir, getfh()), OK, "PUTFH sets it again");
}
