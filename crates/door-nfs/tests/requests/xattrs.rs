//! Extended attributes (RFC 8276).

use crate::common::attrs::Set;
use crate::common::client::Client;
use crate::common::codes::{
    ACCESS, EXIST, INVAL, NAMETOOLONG, NOXATTR, OK, PERM, Stat, TOOSMALL, XATTR2BIG, access, attr,
};
use crate::common::ops;
use crate::common::ops_session::{SetHow, getxattr, listxattrs, removexattr, setxattr};
use crate::common::replies::Body;
use crate::common::rpc::Cred;
use crate::common::{Served, assert_any};

fn with_file(served: &Served) -> (Client, Vec<u8>) {
    let mut client = served.client("a").minor2();
    let root = client.root();
    let file = client.file(&root, "file", b"");
    (client, file)
}

/// A page of names: where it ends, the names, whether they are all.
fn page(
    client: &mut Client,
    file: &[u8],
    cookie: u64,
    max: u32,
) -> Result<(u64, Vec<String>, bool), Stat> {
    let res = client.at(file, listxattrs(cookie, max));
    match res.body {
        Body::Names { cookie, names, eof } => {
            let names = names.into_iter().map(|name| String::from_utf8(name).expect("UTF-8"));
            Ok((cookie, names.collect(), eof))
        }
        _ => Err(res.stat),
    }
}

fn all(client: &mut Client, file: &[u8], max: u32) -> Vec<String> {
    let (mut at, mut all) = (0, Vec::new());
    loop {
        let (cookie, names, eof) = page(client, file, at, max).expect("lists");
        assert!(eof || !names.is_empty(), "neither names nor the end");
        all.extend(names);
        at = cookie;
        if eof {
            all.sort();
            return all;
        }
    }
}

#[test]
fn a_value_comes_back_until_it_is_removed() {
    let served = Served::new();
    let (mut client, file) = with_file(&served);
    let told = client.attrs(&file, &[attr::XATTR_SUPPORT]);
    assert!(told.bool(attr::XATTR_SUPPORT), "RFC 8276, 8.2");
    for value in [&b""[..], b"v", &[0xff; 3_000]] {
        let before = client.change(&file);
        let change = client.at(&file, setxattr(SetHow::Either, "name", value)).change();
        assert_eq!((change.before, change.after), (before, client.change(&file)));
        assert_ne!(change.before, change.after);
        assert_eq!(client.at(&file, getxattr("name")).text(), value);
    }
    let root = client.root();
    assert_eq!(client.stat(&root, setxattr(SetHow::Either, "of a directory", b"1")), OK);
    assert_eq!(all(&mut client, &file, 4_096), ["name"]);
    let change = client.at(&file, removexattr("name")).change();
    assert_ne!(change.before, change.after);
    assert_eq!(client.stat(&file, getxattr("name")), NOXATTR);
    assert_eq!(client.stat(&file, removexattr("name")), NOXATTR);
    assert_eq!(all(&mut client, &file, 4_096), Vec::<String>::new());
}

#[test]
fn what_is_there_is_replaced_or_made_as_asked() {
    let served = Served::new();
    let (mut client, file) = with_file(&served);
    assert_eq!(client.stat(&file, setxattr(SetHow::Replace, "x", b"1")), NOXATTR);
    assert_eq!(client.stat(&file, setxattr(SetHow::Create, "x", b"1")), OK);
    assert_eq!(client.stat(&file, setxattr(SetHow::Create, "x", b"2")), EXIST);
    assert_eq!(client.at(&file, getxattr("x")).text(), b"1");
    assert_eq!(client.stat(&file, setxattr(SetHow::Replace, "x", b"3")), OK);
    assert_eq!(client.at(&file, getxattr("x")).text(), b"3");
}

#[test]
fn names_are_listed_in_pieces() {
    let served = Served::new();
    let (mut client, file) = with_file(&served);
    let mut wanted: Vec<String> = (0..60).map(|at| format!("attribute-{at:03}")).collect();
    for name in &wanted {
        assert_eq!(client.stat(&file, setxattr(SetHow::Create, name, b"value")), OK);
    }
    wanted.sort();
    for max in [4_096, 300, 100] {
        assert_eq!(all(&mut client, &file, max), wanted, "{max}");
    }
    assert_eq!(page(&mut client, &file, 0, 8).unwrap_err(), TOOSMALL);
}

#[test]
fn names_and_values_have_limits() {
    let served = Served::new();
    let (mut client, file) = with_file(&served);
    let long = "n".repeat(300);
    assert_any(client.stat(&file, setxattr(SetHow::Either, &long, b"")), &[NAMETOOLONG, INVAL]);
    let empty = client.stat(&file, setxattr(SetHow::Either, "", b""));
    assert_any(empty, &[INVAL, NOXATTR]);
    let large = vec![1; 70_000];
    let stat = client.stat(&file, setxattr(SetHow::Either, "large", &large));
    assert_any(stat, &[XATTR2BIG]);
    assert_eq!(client.stat(&file, getxattr("large")), NOXATTR);
}

#[test]
fn who_may_read_and_write_a_file_may_its_attributes() {
    let served = Served::new();
    let (mut client, file) = with_file(&served);
    assert_eq!(client.stat(&file, setxattr(SetHow::Either, "x", b"1")), OK);
    assert_eq!(client.set(&file, &Set::new().owner("1000").mode(0o640)), OK);
    let bits = access::XAREAD | access::XAWRITE | access::XALIST;
    let granted = |client: &mut Client| match client.at(&file, ops::access(bits)).body {
        Body::Access(_, granted) => granted,
        other => panic!("{other:?}"),
    };
    client.cred = Cred::user(1000);
    assert_eq!(granted(&mut client), bits);
    assert_eq!(client.stat(&file, setxattr(SetHow::Either, "x", b"2")), OK);
    client.cred = Cred::user(1001);
    assert_eq!(granted(&mut client) & (access::XAREAD | access::XAWRITE), 0);
    let refused = &[ACCESS, PERM];
    assert_any(client.stat(&file, setxattr(SetHow::Either, "x", b"3")), refused);
    assert_any(client.stat(&file, removexattr("x")), refused);
    assert_any(client.stat(&file, getxattr("x")), refused);
    client.cred = Cred::root();
    assert_eq!(client.at(&file, getxattr("x")).text(), b"2");
}

#[test]
fn only_attributes_of_users_are_seen() {
    let served = Served::new();
    let (mut client, file) = with_file(&served);
    let root = weir_types::Ino::ROOT;
    let engine = served.world.engine();
    let ino = served.world.run(engine.lookup(root, b"file")).expect("a file").ino;
    assert_eq!(client.stat(&file, setxattr(SetHow::Either, "mine", b"1")), OK);
    let names = served.world.run(engine.xattr_list(ino)).expect("lists");
    assert_eq!(names, [b"user.mine".to_vec()], "RFC 8276, 6: the names of users");
    // By no name does anybody reach what is trusted or of the system.
    for name in ["system.posix_acl_access", "trusted.x", "security.capability"] {
        assert_any(client.stat(&file, setxattr(SetHow::Either, name, b"1")), &[OK, INVAL]);
    }
    let names = served.world.run(engine.xattr_list(ino)).expect("lists");
    assert!(names.iter().all(|name| name.starts_with(b"user.")), "{names:?}");
}
