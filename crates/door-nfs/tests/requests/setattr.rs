//! SETATTR.

use crate::common::Served;
use crate::common::assert_any;
use crate::common::attrs::Set;
use crate::common::client::Client;
use crate::common::codes::{
    ACCESS, ATTRNOTSUPP, BAD_STATEID, BADOWNER, BADXDR, FBIG, INVAL, ISDIR, NOSPC, OK, OPENMODE,
    PERM, Stat, attr, op, stable,
};
use crate::common::ops::{Open, StateId, close, getattr, putfh, raw, setattr, symlink};
use crate::common::rpc::Cred;
use crate::common::xdr::Writer;

/// A file of user 1000 in a directory of its own.
fn owned(served: &Served) -> (Client, Vec<u8>, Vec<u8>) {
    let mut client = served.client("a");
    let root = client.root();
    let dir = client.mkdir(&root, "home", 0o755);
    assert_eq!(client.set(&dir, &Set::new().owner("1000").group("1000")), OK);
    client.cred = Cred::Sys { uid: 1000, gid: 1000, gids: vec![2000] };
    let file = client.file(&dir, "file", b"bytes");
    (client, dir, file)
}

#[test]
fn sizes_grow_with_zeros_and_shrink() {
    let served = Served::new();
    let (mut client, _, file) = owned(&served);
    assert_eq!(client.set(&file, &Set::new().size(3)), OK);
    assert_eq!(client.content(&file), b"byt");
    assert_eq!(client.set(&file, &Set::new().size(6)), OK);
    assert_eq!(client.content(&file), b"byt\0\0\0");
    assert_eq!(client.set(&file, &Set::new().size(5 << 30)), OK);
    assert_eq!(client.size(&file), 5 << 30);
    let (bytes, eof) = client.read(&file, StateId::ANONYMOUS, (5 << 30) - 10, 100).expect("reads");
    assert_eq!((bytes, eof), (vec![0; 10], true));
    assert_eq!(client.set(&file, &Set::new().size(0)), OK);
    assert_any(client.set(&file, &Set::new().size(u64::MAX)), &[FBIG, INVAL, NOSPC]);
    assert_eq!(client.size(&file), 0);
}

#[test]
fn the_state_of_a_new_size_is_looked_at() {
    let served = Served::new();
    let (mut client, dir, file) = owned(&served);
    let size = Set::new().size(1);
    let reader = client.open_as(&dir, "reader", Open::read("file")).expect("opens");
    let writer = client.open_as(&dir, "writer", Open::both("file")).expect("opens");
    assert_eq!(client.stat(&file, setattr(reader, &size)), OPENMODE, "18.30.3");
    assert_eq!(client.stat(&file, setattr(writer, &size)), OK);
    let other = StateId { seqid: 1, other: [0x5a; 12] };
    assert_eq!(client.stat(&file, setattr(other, &size)), BAD_STATEID);
    assert_eq!(client.stat(&file, close(writer)), OK);
    assert_eq!(client.stat(&file, setattr(writer, &size)), BAD_STATEID);
    // For anything but a size it does not matter.
    assert_eq!(client.stat(&file, setattr(StateId::ANONYMOUS, &Set::new().mode(0o600))), OK);
}

#[test]
fn only_files_have_a_size_to_set() {
    let served = Served::new();
    let (mut client, dir, _) = owned(&served);
    assert_any(client.set(&dir, &Set::new().size(0)), &[ISDIR, INVAL]);
    assert_eq!(client.stat(&dir, symlink("link", "x")), OK);
    let link = client.lookup(&dir, "link").expect("a symlink");
    assert_ne!(client.set(&link, &Set::new().size(0)), OK);
}

#[test]
fn all_that_was_set_is_told() {
    let served = Served::new();
    let (mut client, _, file) = owned(&served);
    let set = Set::new()
        .size(2)
        .mode(0o640)
        .group("2000")
        .accessed(Some((1_000_000_000, 1)))
        .modified(Some((1_100_000_000, 999_999_999)));
    let res = client.at(&file, setattr(StateId::ANONYMOUS, &set));
    assert_eq!((res.stat, res.set()), (OK, set.numbers()));
    let asked = [
        attr::SIZE,
        attr::MODE,
        attr::OWNER,
        attr::OWNER_GROUP,
        attr::TIME_ACCESS,
        attr::TIME_MODIFY,
    ];
    let attrs = client.attrs(&file, &asked);
    assert_eq!((attrs.size(), attrs.mode(), attrs.owners()), (2, 0o640, (1000, 2000)));
    assert_eq!(attrs.time(attr::TIME_ACCESS), (1_000_000_000, 1));
    assert_eq!(attrs.time(attr::TIME_MODIFY), (1_100_000_000, 999_999_999));
    let res = client.at(&file, setattr(StateId::ANONYMOUS, &Set::new()));
    assert_eq!((res.stat, res.set()), (OK, vec![]), "nothing is set by nothing");
}

#[test]
fn times_are_the_clients_or_the_servers() {
    let served = Served::new();
    let (mut client, _, file) = owned(&served);
    let both = [attr::TIME_ACCESS, attr::TIME_MODIFY];
    for time in [(0, 0), (-1, 5), (1, 999_999_999), (4_102_444_800, 0)] {
        let set = Set::new().accessed(Some(time)).modified(Some(time));
        assert_eq!(client.set(&file, &set), OK, "{time:?}");
        let attrs = client.attrs(&file, &both);
        assert_eq!(both.map(|number| attrs.time(number)), [time, time]);
    }
    let wrong = Set::new().modified(Some((1, 1_000_000_000)));
    assert_any(client.set(&file, &wrong), &[INVAL, BADXDR]);
    assert_eq!(client.set(&file, &Set::new().accessed(None).modified(None)), OK);
    let attrs = client.attrs(&file, &both);
    let now = (served.options.now)().0 / 1_000_000_000;
    for number in both {
        assert!((attrs.time(number).0 - now).abs() < 60, "{:?}", attrs.time(number));
    }
}

#[test]
fn owners_are_numbers_or_names_that_somebody_knows() {
    let served = Served::new();
    let (mut client, _, file) = owned(&served);
    client.cred = Cred::root();
    let owners =
        |client: &mut Client| client.attrs(&file, &[attr::OWNER, attr::OWNER_GROUP]).owners();
    assert_eq!(client.set(&file, &Set::new().owner("4711").group("4712")), OK);
    assert_eq!(owners(&mut client), (4711, 4712));
    assert_eq!(client.set(&file, &Set::new().owner("4294967294")), OK);
    assert_eq!(owners(&mut client), (4_294_967_294, 4712));
    for wrong in ["", "no such user", "nobody-is-this@example.invalid", "-1", "4294967296", "1 "] {
        assert_any(client.set(&file, &Set::new().owner(wrong)), &[BADOWNER, INVAL]);
        assert_any(client.set(&file, &Set::new().group(wrong)), &[BADOWNER, INVAL]);
    }
    assert_eq!(owners(&mut client), (4_294_967_294, 4712));
}

#[test]
fn who_may_set_what() {
    let served = Served::new();
    let (mut client, _, file) = owned(&served);
    let owner = client.cred.clone();
    let try_as = |client: &mut Client, cred: Cred, set: Set| {
        client.cred = cred;
        client.set(&file, &set)
    };
    let none = &[PERM, ACCESS];
    // The owner.
    assert_any(try_as(&mut client, owner.clone(), Set::new().owner("1001")), none);
    assert_any(try_as(&mut client, owner.clone(), Set::new().group("3000")), none);
    assert_eq!(try_as(&mut client, owner.clone(), Set::new().group("2000")), OK);
    assert_eq!(try_as(&mut client, owner.clone(), Set::new().owner("1000")), OK, "as it is");
    // Somebody else, who may not write.
    let other = Cred::user(1001);
    for set in [
        Set::new().mode(0o777),
        Set::new().size(0),
        Set::new().modified(Some((5, 0))),
        Set::new().modified(None),
        Set::new().owner("1001"),
        Set::new().group("1001"),
    ] {
        assert_any(try_as(&mut client, other.clone(), set), none);
    }
    assert_eq!(client.content(&file), b"bytes");
    // Somebody else who may write: sizes, and the time of now, but no other time.
    assert_eq!(try_as(&mut client, owner.clone(), Set::new().mode(0o666)), OK);
    assert_eq!(try_as(&mut client, other.clone(), Set::new().size(2)), OK);
    assert_eq!(try_as(&mut client, other.clone(), Set::new().modified(None)), OK);
    assert_any(try_as(&mut client, other.clone(), Set::new().modified(Some((5, 0)))), none);
    assert_any(try_as(&mut client, other, Set::new().mode(0o777)), none);
    // The owner whom the mode keeps from writing may all of it: it may have the file open.
    assert_eq!(try_as(&mut client, owner.clone(), Set::new().mode(0)), OK);
    assert_eq!(try_as(&mut client, owner.clone(), Set::new().size(0)), OK);
    assert_eq!(try_as(&mut client, owner.clone(), Set::new().modified(Some((5, 0)))), OK);
    assert_eq!(try_as(&mut client, owner, Set::new().mode(0o644)), OK);
}

#[test]
fn set_uid_goes_with_a_change_of_owner_or_bytes() {
    let served = Served::new();
    let (mut client, dir, file) = owned(&served);
    let owner = client.cred.clone();
    let mode = |client: &mut Client| client.attrs(&file, &[attr::MODE]).mode();
    assert_eq!(client.set(&file, &Set::new().mode(0o6777)), OK);
    assert_eq!(mode(&mut client), 0o6777);
    client.cred = Cred::user(1001);
    let (_, opened) = client.open(&dir, &Open::both("file")).expect("opens");
    client.write(&file, opened.id, 0, stable::FILE_SYNC, b"evil").expect("writes");
    assert_eq!(mode(&mut client) & 0o6000, 0, "by a write of somebody else");
    client.cred = owner;
    assert_eq!(client.set(&file, &Set::new().mode(0o4755)), OK);
    assert_eq!(client.set(&file, &Set::new().group("2000")), OK);
    assert_eq!(mode(&mut client) & 0o4000, 0, "by a change of the group");
    // A set-gid bit of a group that the owner is not in.
    client.cred = Cred::root();
    assert_eq!(client.set(&file, &Set::new().group("3000")), OK);
    client.cred = Cred::Sys { uid: 1000, gid: 1000, gids: vec![] };
    assert_any(client.set(&file, &Set::new().mode(0o2755)), &[OK, PERM]);
    assert_eq!(mode(&mut client) & 0o2000, 0);
}

#[test]
fn what_cannot_be_set_is_refused_and_nothing_with_it() {
    let served = Served::new();
    let (mut client, _, file) = owned(&served);
    let with = |number: u32, value: Writer| Set::new().mode(0o600).raw(number, value);
    let word = || Writer::new().u32(1);
    for (set, wanted) in [
        (with(attr::TYPE, word()), &[INVAL][..]),
        (with(attr::CHANGE, Writer::new().u64(1)), &[INVAL]),
        (with(attr::FILEID, Writer::new().u64(1)), &[INVAL]),
        (with(attr::NUMLINKS, word()), &[INVAL]),
        (with(attr::TIME_MODIFY, Writer::new().u64(1).u32(1)), &[INVAL]),
        (with(attr::SUPPORTED_ATTRS, Writer::new().words(&[1])), &[INVAL]),
        (with(attr::HIDDEN, word()), &[ATTRNOTSUPP, INVAL]),
        (with(attr::MIMETYPE, Writer::new().opaque(b"text")), &[ATTRNOTSUPP]),
    ] {
        let res = client.at(&file, setattr(StateId::ANONYMOUS, &set));
        assert_any(res.stat, wanted);
        assert_eq!(res.set(), Vec::<u32>::new());
    }
    assert_eq!(client.attrs(&file, &[attr::MODE]).mode(), 0o644, "nothing was done");
    assert_any(client.set(&file, &Set::new().mode(0o10000)), &[INVAL, OK]);
}

#[test]
fn values_that_do_not_fit_their_bitmap_are_malformed() {
    let served = Served::new();
    let (mut client, _, file) = owned(&served);
    let with = |bits: &[u32], values: &[u8]| {
        let head = Writer::new().stateid(StateId::ANONYMOUS);
        raw(op::SETATTR, head.bitmap(bits).opaque(values))
    };
    let malformed: &[Stat] = &[BADXDR, INVAL];
    for op in [
        with(&[attr::MODE], &[]),
        with(&[attr::MODE], &[0, 0]),
        with(&[attr::MODE], &[0, 0, 1, 0x80, 0, 0, 0, 0]),
        with(&[], &[0; 4]),
        with(&[attr::SIZE], &[0; 4]),
        with(&[attr::OWNER], &u32::MAX.to_be_bytes()),
        with(&[attr::TIME_MODIFY_SET], &7u32.to_be_bytes()),
    ] {
        assert_any(client.stat(&file, op), malformed);
    }
    let reply = client.call(&[putfh(&file), getattr(&[attr::MODE, attr::SIZE])]).ok();
    let attrs = reply.last().attrs();
    assert_eq!((attrs.mode(), attrs.size()), (0o644, 5));
}
