//! Who may do what: users, groups, sticky directories, squashed and forced users.

use weir_door_nfs::{Export, Identity, Squash};

use crate::common::attrs::Set;
use crate::common::client::Client;
use crate::common::codes::{ACCESS, OK, PERM, Stat, access, attr, stable};
use crate::common::ops::{
    self, Open, StateId, link, lookup, mkdir, readlink, remove, rename, symlink,
};
use crate::common::replies::Body;
use crate::common::rpc::Cred;
use crate::common::{Served, assert_any, identity, open_export};

const REFUSED: &[Stat] = &[ACCESS, PERM];

fn user(uid: u32, gid: u32, gids: &[u32]) -> Cred {
    Cred::Sys { uid, gid, gids: gids.to_vec() }
}

/// What ACCESS grants of all bits.
fn granted(client: &mut Client, file: &[u8]) -> u32 {
    match client.at(file, ops::access(0x3f)).body {
        Body::Access(looked_at, granted) => {
            assert_eq!(granted & !looked_at, 0);
            granted
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn access_goes_by_owner_group_and_others() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let file = client.file(&root, "file", b"bytes");
    let set = Set::new().owner("1000").group("100").mode(0o754);
    assert_eq!(client.set(&file, &set), OK);
    let write = access::MODIFY | access::EXTEND;
    for (cred, wanted) in [
        (user(1000, 1000, &[]), access::READ | access::EXECUTE | write),
        (user(1001, 100, &[]), access::READ | access::EXECUTE),
        (user(1001, 1001, &[7, 100]), access::READ | access::EXECUTE),
        (user(1001, 1001, &[7, 101]), access::READ),
        (user(0, 0, &[]), access::READ | access::EXECUTE | write),
        (Cred::None, access::READ),
    ] {
        client.cred = cred.clone();
        assert_eq!(granted(&mut client, &file) & !access::DELETE, wanted, "{cred:?}");
    }
    client.cred = Cred::root();
    assert_eq!(client.set(&file, &Set::new().mode(0o640)), OK);
    assert_eq!(granted(&mut client, &file) & access::EXECUTE, 0, "nobody executes it");
    let dir = client.mkdir(&root, "dir", 0o751);
    assert_eq!(client.set(&dir, &Set::new().owner("1000").group("100")), OK);
    client.cred = user(1000, 1000, &[]);
    let all = access::READ | access::LOOKUP | access::MODIFY | access::EXTEND;
    assert_eq!(granted(&mut client, &dir) & all, all);
    client.cred = user(1001, 1001, &[]);
    assert_eq!(granted(&mut client, &dir) & (all | access::DELETE), access::LOOKUP);
}

#[test]
fn what_access_refuses_is_refused() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let dir = client.mkdir(&root, "dir", 0o711);
    let file = client.file(&dir, "file", b"secret");
    assert_eq!(client.set(&file, &Set::new().mode(0o600)), OK);
    client.cred = Cred::user(1000);
    assert_eq!(client.lookup(&dir, "file").expect("may pass"), file);
    let page = ops::Page { cookie: 0, verifier: [0; 8], dircount: 0, maxcount: 4_096 };
    assert_eq!(client.stat(&dir, ops::readdir(page, &[])), ACCESS);
    assert_eq!(client.open(&dir, &Open::read("file")).unwrap_err(), ACCESS);
    assert_eq!(client.open(&dir, &Open::both("file")).unwrap_err(), ACCESS);
    assert_eq!(client.open(&dir, &Open::making("file")).unwrap_err(), ACCESS);
    assert_eq!(client.open(&dir, &Open::making("new")).unwrap_err(), ACCESS);
    assert_eq!(client.read(&file, StateId::ANONYMOUS, 0, 6).unwrap_err(), ACCESS);
    let written = client.write(&file, StateId::ANONYMOUS, 0, stable::UNSTABLE, b"x");
    assert_eq!(written.unwrap_err(), ACCESS);
    for op in [mkdir("new", 0o755), symlink("new", "x"), remove("file")] {
        assert_eq!(client.stat(&dir, op), ACCESS);
    }
    assert_eq!(client.between(&dir, &dir, rename("file", "f")).stat, ACCESS);
    assert_any(client.between(&file, &dir, link("f")).stat, REFUSED);
    client.cred = Cred::root();
    assert_eq!(client.set(&dir, &Set::new().mode(0o600)), OK);
    client.cred = Cred::user(1000);
    assert_eq!(client.stat(&dir, lookup("file")), ACCESS, "no execution, no way through");
    client.cred = Cred::root();
    assert_eq!(client.content(&file), b"secret");
}

#[test]
fn a_user_may_write_what_it_opened_although_the_mode_changed() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let dir = client.mkdir(&root, "dir", 0o777);
    assert_eq!(client.set(&dir, &Set::new().mode(0o777)), OK);
    client.cred = Cred::user(1000);
    let made = Open::both("file").make(ops::Make::Guarded(Set::new().mode(0o444)));
    let (file, opened) = client.open(&dir, &made).expect("makes a file that is only read");
    client.write(&file, opened.id, 0, stable::FILE_SYNC, b"once").expect("writes by its open");
    assert_eq!(client.attrs(&file, &[attr::MODE]).mode(), 0o444);
    assert_eq!(client.attrs(&file, &[attr::OWNER, attr::OWNER_GROUP]).owners(), (1000, 1000));
    assert_eq!(client.read(&file, opened.id, 0, 9).expect("reads").0, b"once");
}

#[test]
fn a_sticky_directory_keeps_names_for_their_owners() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let tmp = client.mkdir(&root, "tmp", 0o1777);
    assert_eq!(client.set(&tmp, &Set::new().mode(0o1777)), OK);
    client.cred = Cred::user(1000);
    client.file(&tmp, "mine", b"1");
    client.file(&tmp, "other", b"1");
    client.cred = Cred::user(1001);
    client.file(&tmp, "theirs", b"2");
    assert_any(client.stat(&tmp, remove("mine")), REFUSED);
    assert_any(client.between(&tmp, &tmp, rename("mine", "x")).stat, REFUSED);
    assert_any(client.between(&tmp, &tmp, rename("theirs", "mine")).stat, REFUSED);
    client.cred = Cred::user(1000);
    assert_eq!(client.between(&tmp, &tmp, rename("mine", "other")).stat, OK);
    assert_eq!(client.stat(&tmp, remove("other")), OK);
    client.cred = Cred::root();
    assert_eq!(client.stat(&tmp, remove("theirs")), OK);
}

#[test]
fn a_set_gid_directory_gives_its_group() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let dir = client.mkdir(&root, "dir", 0o2777);
    assert_eq!(client.set(&dir, &Set::new().group("500").mode(0o2777)), OK);
    client.cred = Cred::user(1000);
    let file = client.file(&dir, "file", b"");
    let sub = client.mkdir(&dir, "sub", 0o755);
    let asked = [attr::OWNER, attr::OWNER_GROUP, attr::MODE];
    assert_eq!(client.attrs(&file, &asked).owners(), (1000, 500));
    assert_eq!(client.attrs(&sub, &asked).owners(), (1000, 500));
    assert_eq!(client.attrs(&sub, &asked).mode() & 0o2000, 0o2000);
}

/// The owners of a new file, by each of these users, in a directory that all may write.
fn owners(export: Export, creds: &[Cred]) -> Vec<(u32, u32)> {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    assert_eq!(client.set(&root, &Set::new().mode(0o777)), OK);
    served.server().set_exports(vec![export]);
    let root = client.root();
    let mut owners = Vec::new();
    for (at, cred) in creds.iter().enumerate() {
        client.cred = cred.clone();
        let file = client.file(&root, &format!("file{at}"), b"");
        owners.push(client.attrs(&file, &[attr::OWNER, attr::OWNER_GROUP]).owners());
    }
    owners
}

#[test]
fn root_is_nobody_where_it_is_squashed() {
    let creds = [Cred::root(), user(0, 5, &[0]), user(1000, 0, &[0]), user(1000, 1000, &[])];
    let got = owners(Export::whole(), &creds);
    let nobody = (65_534, 65_534);
    // The group of root is nobody's too, or stays: exports(5) squashes it.
    assert_eq!((got[0], got[1].0, got[3]), (nobody, 65_534, (1000, 1000)), "{got:?}");
    assert_eq!(got[2].0, 1000);
    let anonymous = identity(99, 98);
    let got = owners(Export { anonymous, ..Export::whole() }, &creds[..1]);
    assert_eq!(got, [(99, 98)]);
}

#[test]
fn all_are_one_where_all_are_squashed() {
    let creds = [Cred::root(), user(1000, 1000, &[]), Cred::None];
    let anonymous = identity(99, 98);
    let export = Export { squash: Squash::All, anonymous, ..Export::whole() };
    assert_eq!(owners(export, &creds), [(99, 98); 3]);
}

#[test]
fn all_are_who_they_are_forced_to_be() {
    let creds = [Cred::root(), user(1000, 1000, &[]), Cred::None];
    let forced = Some(Identity { uid: 7, gid: 8, groups: vec![9] });
    for squash in [Squash::None, Squash::Root, Squash::All] {
        let export = Export { squash, forced: forced.clone(), ..Export::whole() };
        assert_eq!(owners(export, &creds), [(7, 8); 3]);
    }
}

#[test]
fn who_says_nothing_is_nobody() {
    let served = Served::with(|options| options.exports = vec![open_export()]);
    let mut client = served.client("a");
    let root = client.root();
    let file = client.file(&root, "file", b"secret");
    assert_eq!(client.set(&file, &Set::new().mode(0o600)), OK);
    client.cred = Cred::None;
    assert_eq!(client.read(&file, StateId::ANONYMOUS, 0, 6).unwrap_err(), ACCESS);
    assert_eq!(client.stat(&root, mkdir("dir", 0o755)), ACCESS);
}

#[test]
fn forced_groups_open_what_the_group_may_read() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let file = client.file(&root, "file", b"for the group");
    assert_eq!(client.set(&file, &Set::new().mode(0o640).group("9")), OK);
    let forced = Some(Identity { uid: 7, gid: 8, groups: vec![9] });
    served.server().set_exports(vec![Export { forced, ..Export::whole() }]);
    let root = client.root();
    let file = client.lookup(&root, "file").expect("is there");
    assert_eq!(client.content(&file), b"for the group");
    let forced = Some(identity(7, 8));
    served.server().set_exports(vec![Export { forced, ..Export::whole() }]);
    assert_eq!(client.read(&file, StateId::ANONYMOUS, 0, 1).unwrap_err(), ACCESS);
}

#[test]
fn a_symlink_is_read_by_everybody_who_reaches_it() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    assert_eq!(client.stat(&root, symlink("link", "target")), OK);
    client.cred = Cred::user(1000);
    let found = client.lookup(&root, "link").expect("reaches it");
    assert_eq!(client.at(&found, readlink()).text(), b"target");
}

#[test]
fn what_one_user_opened_another_uses_only_as_far_as_it_may() {
    let served = Served::new();
    let mut root = served.client("a");
    let dir = root.root();
    assert_eq!(root.set(&dir, &Set::new().mode(0o777)), OK);
    let mut client = served.client("users").by(Cred::user(1_000));
    let (file, opened) = client.open(&dir, &Open::making("private")).expect("opens");
    assert_eq!(client.set(&file, &Set::new().mode(0o600)), OK);
    client.write(&file, opened.id, 0, stable::UNSTABLE, b"mine").expect("writes");
    client.cred = Cred::user(1_001);
    assert_eq!(client.read(&file, opened.id, 0, 9).unwrap_err(), ACCESS);
    let written = client.write(&file, opened.id, 0, stable::UNSTABLE, b"theirs");
    assert_eq!(written.unwrap_err(), ACCESS);
    client.cred = Cred::user(1_000);
    assert_eq!(client.set(&file, &Set::new().mode(0o644)), OK);
    client.cred = Cred::user(1_001);
    assert_eq!(client.read(&file, opened.id, 0, 9).expect("all may read").0, b"mine");
    let written = client.write(&file, opened.id, 0, stable::UNSTABLE, b"theirs");
    assert_eq!(written.unwrap_err(), ACCESS);
    // The owner goes on where it may not open any more, as local programs do.
    client.cred = Cred::user(1_000);
    assert_eq!(client.set(&file, &Set::new().mode(0)), OK);
    assert_eq!(client.read(&file, opened.id, 0, 9).expect("it has it open").0, b"mine");
}
