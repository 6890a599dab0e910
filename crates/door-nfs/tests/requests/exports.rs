//! Exports: what is seen of the volume, from where, and what leads out of it.

use std::net::IpAddr;

use weir_door_nfs::{Export, Squash};
use weir_engine::testing::new_dir;
use weir_types::Ino;

use crate::common::client::{Client, FIRST_LIFE};
use crate::common::codes::{
    ACCESS, BADNAME, EXIST, INVAL, NOENT, OK, PERM, ROFS, STALE, Stat, WRONGSEC, XDEV, attr,
};
use crate::common::ops::{
    self, Open, StateId, getattr, getfh, link, lookup, lookupp, mkdir, putfh, putrootfh, rename,
};
use crate::common::ops_session::reclaim_complete;
use crate::common::rpc::Cred;
use crate::common::{Served, assert_any, connect_from, open_export};

/// A directory of the root, made past the server.
fn directory(served: &Served, name: &str) -> Ino {
    let engine = served.world.engine();
    let made = served.world.run(engine.create(Ino::ROOT, name.as_bytes(), new_dir()));
    made.expect("a directory").ino
}

fn export(id: u32, name: &str, root: Ino) -> Export {
    let path = format!("/{name}");
    Export { id, name: name.into(), root, path, squash: Squash::None, ..Export::whole() }
}

/// A server that exports /home and /data, and not the whole.
fn two() -> Served {
    let served = Served::new();
    let (home, data) = (directory(&served, "home"), directory(&served, "data"));
    directory(&served, "hidden");
    served.server().set_exports(vec![export(1, "home", home), export(2, "data", data)]);
    served
}

#[test]
fn the_root_shows_exports_and_nothing_else() {
    let served = two();
    let mut client = served.client("a");
    let root = client.root();
    assert_eq!(client.names(&root), ["data", "home"]);
    assert_eq!(client.lookup(&root, "hidden").unwrap_err(), NOENT);
    assert_eq!(client.stat(&root, lookupp()), NOENT);
    let attrs = client.attrs(&root, &[attr::TYPE, attr::FSID, attr::FILEID, attr::MODE]);
    assert_eq!(attrs.kind(), 2);
    // Nothing is made or changed there.
    let refused = &[ACCESS, ROFS, PERM];
    assert_any(client.stat(&root, mkdir("new", 0o755)), refused);
    assert_any(client.open(&root, &Open::making("new")).unwrap_err(), refused);
    assert_any(client.stat(&root, ops::remove("home")), &[ACCESS, ROFS, PERM, XDEV]);
    assert_any(client.set(&root, &crate::common::attrs::Set::new().mode(0o777)), refused);
    assert_any(client.between(&root, &root, rename("home", "h")).stat, &[ACCESS, ROFS, PERM, XDEV]);
    assert_any(client.stat(&root, mkdir("home", 0o755)), &[ACCESS, ROFS, PERM, EXIST]);
}

#[test]
fn nothing_leads_out_of_an_export() {
    let served = two();
    let mut client = served.client("a");
    let root = client.root();
    let home = client.lookup(&root, "home").expect("an export");
    let up = client.call(&[putfh(&home), lookupp(), getfh()]);
    match up.stat {
        OK => assert_eq!(up.last().handle(), root, "to where it is mounted, not to the volume"),
        other => assert_eq!(other, NOENT),
    }
    let dir = client.mkdir(&home, "dir", 0o755);
    let back = client.call(&[putfh(&dir), lookupp(), getfh()]).ok().last().handle();
    assert_eq!(back, home);
    for name in ["..", ".", "../hidden", "dir/..", "/"] {
        for at in [&home, &dir] {
            assert_any(client.stat(at, lookup(name)), &[BADNAME, INVAL, NOENT]);
        }
    }
    assert_any(client.stat(&home, lookup("..")), &[BADNAME, INVAL]);
}

#[test]
fn file_systems_differ_and_numbers_do_too() {
    let served = two();
    let mut client = served.client("a");
    let root = client.root();
    let home = client.lookup(&root, "home").expect("an export");
    let data = client.lookup(&root, "data").expect("an export");
    let file = client.file(&home, "file", b"1");
    let key = |client: &mut Client, handle: &[u8]| {
        let attrs = client.attrs(handle, &[attr::FSID, attr::FILEID]);
        (attrs.pair(attr::FSID), attrs.number(attr::FILEID))
    };
    let keys = [&root, &home, &data, &file].map(|handle| key(&mut client, handle));
    for (at, one) in keys.iter().enumerate() {
        assert!(keys[at + 1..].iter().all(|other| other != one), "{keys:?}");
    }
    assert_eq!(keys[1].0, keys[3].0, "one export is one file system");
    assert_ne!(keys[0].0, keys[1].0, "the root is another one");
}

#[test]
fn names_do_not_move_between_exports() {
    let served = two();
    let mut client = served.client("a");
    let root = client.root();
    let home = client.lookup(&root, "home").expect("an export");
    let data = client.lookup(&root, "data").expect("an export");
    let file = client.file(&home, "file", b"1");
    assert_eq!(client.between(&home, &data, rename("file", "file")).stat, XDEV);
    assert_eq!(client.between(&file, &data, link("file")).stat, XDEV);
    assert_eq!(client.names(&data), Vec::<String>::new());
}

#[test]
fn a_handle_ends_with_its_export() {
    let served = two();
    let mut client = served.client("a");
    let root = client.root();
    let home = client.lookup(&root, "home").expect("an export");
    let file = client.file(&home, "file", b"1");
    let data = served.options.exports.clone();
    served.server().set_exports(data);
    for handle in [&home, &file] {
        assert_any(client.stat(handle, getattr(&[attr::SIZE])), &[STALE, ACCESS]);
    }
    // The same file by the export of the whole volume has another handle.
    let root = client.root();
    let home_again = client.lookup(&root, "home").expect("a directory of the volume");
    let again = client.lookup(&home_again, "file").expect("its file");
    assert_ne!(again, file);
    assert_eq!(client.content(&again), b"1");
}

#[test]
fn an_export_below_another_has_rules_of_its_own() {
    let served = Served::new();
    let home = directory(&served, "home");
    let read_only = Export { read_only: true, ..export(7, "ro", home) };
    served.server().set_exports(vec![open_export(), read_only]);
    let mut client = served.client("a");
    let root = client.root();
    let writable = client.lookup(&root, "home").expect("a directory");
    client.file(&writable, "file", b"1");
    let same = client.lookup(&root, "ro").expect("an export by its name");
    let file = client.lookup(&same, "file").expect("the same file");
    assert_eq!(client.stat(&same, mkdir("dir", 0o755)), ROFS);
    assert_eq!(client.open(&same, &Open::making("new")).unwrap_err(), ROFS);
    assert_eq!(client.open(&same, &Open::both("file")).unwrap_err(), ROFS);
    assert_eq!(client.stat(&same, ops::remove("file")), ROFS);
    assert_eq!(client.between(&same, &same, rename("file", "f")).stat, ROFS);
    assert_eq!(client.between(&file, &same, link("f")).stat, ROFS);
    assert_eq!(client.set(&file, &ops::set_size(0)), ROFS);
    assert_any(client.write(&file, StateId::ANONYMOUS, 0, 0, b"x").unwrap_err(), &[ROFS]);
    let (_, opened) = client.open(&same, &Open::read("file")).expect("reads");
    assert_eq!(client.read(&file, opened.id, 0, 9).expect("reads").0, b"1");
    let granted = client.at(&same, ops::access(0x3f)).body;
    assert!(matches!(granted, crate::common::replies::Body::Access(_, bits) if bits & 0x1c == 0));
    client.mkdir(&writable, "dir", 0o755);
}

#[test]
fn a_server_that_changes_nothing_lets_nothing_change() {
    let served = Served::with(|options| options.read_only = true);
    let mut client = served.client("a");
    let root = client.root();
    assert_eq!(client.stat(&root, mkdir("dir", 0o755)), ROFS);
    assert_eq!(client.open(&root, &Open::making("new")).unwrap_err(), ROFS);
    assert_eq!(client.names(&root), Vec::<String>::new());
}

/// What a client from an address sees of an export.
fn from(served: &Served, address: &str) -> (Client, Result<Vec<u8>, Stat>) {
    let address: IpAddr = address.parse().expect("an address");
    let connection = connect_from(served.address(), address);
    let name = format!("from {address}");
    let mut client = Client::over(connection, served.address(), &name, FIRST_LIFE);
    client.call(&[reclaim_complete(false)]).ok();
    let got = client.call(&[putrootfh(), lookup("home"), getfh()]);
    let seen = if got.stat == OK { Ok(got.last().handle()) } else { Err(got.stat) };
    (client, seen)
}

#[test]
fn an_export_is_there_for_those_that_it_allows() {
    let served = two();
    let home = {
        let mut client = served.client("first");
        let root = client.root();
        client.lookup(&root, "home").expect("an export")
    };
    let number = served.world.run(served.world.engine().lookup(Ino::ROOT, b"home"));
    let ino = number.expect("a directory").ino;
    let allow = vec!["127.0.0.2/32".parse().expect("a network")];
    served.server().set_exports(vec![Export { allow, ..export(1, "home", ino) }]);
    let (mut allowed, seen) = from(&served, "127.0.0.2");
    assert_eq!(seen.expect("sees it"), home);
    let file = allowed.file(&home, "file", b"1");
    let (mut other, seen) = from(&served, "127.0.0.3");
    let refused = &[NOENT, ACCESS, PERM, WRONGSEC, STALE];
    assert_any(seen.unwrap_err(), refused);
    // Not with the handles of who is allowed either.
    for handle in [&home, &file] {
        assert_any(other.stat(handle, getattr(&[attr::SIZE])), refused);
    }
    let root = other.root();
    let listed = other.call(&[
        putfh(&root),
        ops::readdir(ops::Page { cookie: 0, verifier: [0; 8], dircount: 0, maxcount: 4_096 }, &[]),
    ]);
    if listed.stat == OK {
        assert_eq!(listed.last().listing().entries.len(), 0, "its name is not told");
    }
    assert_eq!(allowed.by(Cred::root()).content(&file), b"1");
}
