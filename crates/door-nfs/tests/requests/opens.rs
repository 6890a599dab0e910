//! OPEN: what it makes, what it claims, what it refuses; OPEN_DOWNGRADE and CLOSE.

use crate::common::attrs::Set;
use crate::common::client::Client;
use crate::common::codes::{
    BAD_STATEID, BADXDR, DELAY, EXIST, INVAL, ISDIR, NO_GRACE, NOENT, NOTDIR, NOTSUPP, OK,
    OLD_STATEID, OPENMODE, RESOURCE, SYMLINK, WRONG_TYPE, attr, kind, share, stable,
};
use crate::common::ops::{
    Claim, Make, Open, StateId, Verifier, close, create, getattr, getfh, open_downgrade, putfh,
    symlink,
};
use crate::common::xdr::Writer;
use crate::common::{Served, assert_any};

const VERIFIER: Verifier = *b"verifier";

#[test]
fn unchecked_makes_a_file_or_takes_the_one_that_is_there() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let before = client.change(&root);
    let make = |set: Set| Open::both("file").make(Make::Unchecked(set));
    let (file, opened) = client.open(&root, &make(Set::new().mode(0o640))).expect("makes");
    assert_eq!((opened.change.before, opened.change.after), (before, client.change(&root)));
    assert_ne!(opened.change.before, opened.change.after);
    assert_eq!(opened.set, [attr::MODE]);
    assert_eq!(opened.flags & 2, 0, "nothing is to be confirmed in 4.1");
    assert_eq!(opened.id.seqid, 1);
    client.write(&file, opened.id, 0, stable::UNSTABLE, b"bytes").expect("writes");
    let between = client.change(&root);
    let (again, opened) = client.open(&root, &make(Set::new().mode(0o777))).expect("takes it");
    assert_eq!(again, file);
    assert_eq!((opened.change.before, opened.change.after), (between, between));
    let attrs = client.attrs(&file, &[attr::MODE, attr::SIZE]);
    assert_eq!((attrs.mode(), attrs.size()), (0o640, 5), "18.16.3: only a size counts then");
    let (_, opened) = client.open(&root, &Client::truncating("file")).expect("cuts it");
    assert!(opened.set.contains(&attr::SIZE), "{:?}", opened.set);
    assert_eq!(client.size(&file), 0);
}

#[test]
fn guarded_makes_a_file_or_fails() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let make = |size| Open::both("file").make(Make::Guarded(Set::new().mode(0o600).size(size)));
    let (file, opened) = client.open(&root, &make(7)).expect("makes");
    assert_eq!(opened.set, [attr::SIZE, attr::MODE]);
    assert_eq!(client.size(&file), 7);
    assert_eq!(client.open(&root, &make(0)).unwrap_err(), EXIST);
    assert_eq!(client.size(&file), 7);
    client.mkdir(&root, "dir", 0o755);
    let over = Open::both("dir").make(Make::Guarded(Set::new()));
    assert_eq!(client.open(&root, &over).unwrap_err(), EXIST);
}

#[test]
fn exclusive_makes_a_file_once_for_each_verifier() {
    let mut served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let make = |verifier, mode| {
        Open::both("file").make(Make::Exclusive41(verifier, Set::new().mode(mode)))
    };
    let (file, opened) = client.open(&root, &make(VERIFIER, 0o640)).expect("makes");
    assert!(opened.set.contains(&attr::MODE), "{:?}", opened.set);
    assert_eq!(client.attrs(&file, &[attr::MODE]).mode(), 0o640);
    let (again, _) = client.open(&root, &make(VERIFIER, 0o640)).expect("the same request again");
    assert_eq!(again, file);
    assert_eq!(client.open(&root, &make(*b"another!", 0o640)).unwrap_err(), EXIST);
    let (_, opened) = client.open(&root, &Open::read("file")).expect("opens");
    assert_eq!(client.stat(&file, close(opened.id)), OK);
    // The answer was lost with the server: the client asks again of the next one.
    served.restart();
    let mut client = served.client("a");
    let (again, _) = client.open(&root, &make(VERIFIER, 0o640)).expect("after a restart too");
    assert_eq!(again, file);
    assert_eq!(client.open(&root, &make(*b"another!", 0o640)).unwrap_err(), EXIST);
}

#[test]
fn exclusive_sets_what_it_says_that_it_can() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let can = client.attrs(&root, &[attr::SUPPATTR_EXCLCREAT]);
    for number in [attr::TIME_ACCESS_SET, attr::TIME_MODIFY_SET] {
        if !can.bits(attr::SUPPATTR_EXCLCREAT).contains(&number) {
            let value = Writer::new().u32(1).u64(5).u32(5);
            let set = Set::new().raw(number, value);
            let open = Open::both("file").make(Make::Exclusive41(VERIFIER, set));
            assert_eq!(client.open(&root, &open).unwrap_err(), INVAL, "18.16.3");
        }
    }
    // The old way, which has no attributes.
    let old = Open::both("old").make(Make::Exclusive(VERIFIER));
    match client.open(&root, &old) {
        Ok((file, _)) => {
            assert_eq!(client.open(&root, &old).expect("again").0, file);
            let other = Open::both("old").make(Make::Exclusive(*b"another!"));
            assert_eq!(client.open(&root, &other).unwrap_err(), EXIST);
        }
        Err(stat) => assert_any(stat, &[INVAL, NOTSUPP]),
    }
}

#[test]
fn open_says_what_it_cannot_open() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let file = client.file(&root, "file", b"");
    let dir = client.mkdir(&root, "dir", 0o755);
    assert_eq!(client.stat(&root, symlink("link", "file")), OK);
    assert_eq!(client.stat(&root, create(Writer::new().u32(kind::FIFO), b"fifo", &Set::new())), OK);
    let mut stat = |at: &[u8], open: Open| client.open(at, &open).unwrap_err();
    assert_eq!(stat(&root, Open::read("absent")), NOENT);
    assert_eq!(stat(&root, Open::read("dir")), ISDIR);
    assert_eq!(stat(&root, Open::making("dir")), ISDIR);
    assert_eq!(stat(&root, Open::read("link")), SYMLINK);
    assert_eq!(stat(&root, Open::making("link")), SYMLINK);
    assert_any(stat(&root, Open::read("fifo")), &[WRONG_TYPE, INVAL]);
    assert_eq!(stat(&file, Open::read("x")), NOTDIR);
    assert_eq!(stat(&file, Open::making("x")), NOTDIR);
    assert_eq!(stat(&root, Open::new(0, "file")), INVAL, "without access");
    assert_any(stat(&root, Open::new(1 << 4, "file")), &[INVAL]);
    assert_any(stat(&root, Open::read("file").deny(4)), &[INVAL]);
    assert_any(stat(&dir, Open::handle(share::READ)), &[ISDIR]);
    let making = Open::handle(share::BOTH).make(Make::Unchecked(Set::new()));
    assert_any(stat(&file, making), &[INVAL]);
}

#[test]
fn open_takes_wishes_for_delegations_without_having_to_give_one() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    client.file(&root, "file", b"");
    for wish in [share::WANT_READ_DELEG, share::WANT_NO_DELEG, 0x200, 0x300, 0x500] {
        let open = Open::new(share::READ | wish, "file");
        let (_, opened) = client.open(&root, &open).expect("opens");
        if wish == share::WANT_NO_DELEG {
            assert_eq!(opened.delegation, None);
        }
    }
}

#[test]
fn open_by_handle_is_open_by_name() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let file = client.file(&root, "file", b"bytes");
    let reply = client.call(&[putfh(&file), Open::handle(share::BOTH).op(), getfh()]).ok();
    let by_handle = reply.results[1].opened();
    assert_eq!(reply.last().handle(), file);
    let (_, by_name) = client.open(&root, &Open::read("file")).expect("opens");
    assert_eq!(by_name.id.other, by_handle.id.other, "one owner, one file, one open");
    assert_eq!(by_name.id.seqid, by_handle.id.seqid + 1);
}

#[test]
fn what_was_open_is_claimed_in_a_grace_period_only() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let file = client.file(&root, "file", b"");
    let previous = Open::read("").claim(Claim::Previous);
    assert_eq!(client.open(&file, &previous).unwrap_err(), NO_GRACE);
    // Claims by delegations that nobody has.
    let some = StateId { seqid: 1, other: [3; 12] };
    for claim in [
        Claim::Raw(2, Writer::new().stateid(some).opaque(b"file")),
        Claim::Raw(5, Writer::new().stateid(some)),
        Claim::Raw(3, Writer::new().opaque(b"file")),
        Claim::Raw(6, Writer::new()),
    ] {
        let at = if matches!(claim, Claim::Raw(2 | 3, _)) { &root } else { &file };
        let stat = client.open(at, &Open::read("").claim(claim.clone())).unwrap_err();
        assert_ne!(stat, OK, "{claim:?}");
    }
    let unknown = Open::read("").claim(Claim::Raw(77, Writer::new()));
    assert_any(client.open(&root, &unknown).unwrap_err(), &[BADXDR, INVAL, NOTSUPP]);
}

#[test]
fn one_owner_has_one_open_of_a_file_and_closes_it_once() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let file = client.file(&root, "file", b"bytes");
    let (_, first) = client.open(&root, &Open::read("file")).expect("opens");
    let res = client.write(&file, first.id, 0, stable::UNSTABLE, b"x");
    assert_eq!(res.unwrap_err(), OPENMODE);
    let (_, upgraded) = client.open(&root, &Open::new(share::WRITE, "file")).expect("opens");
    assert_eq!(upgraded.id, first.id.with(2));
    client.write(&file, upgraded.id, 0, stable::UNSTABLE, b"B").expect("writes");
    client.read(&file, upgraded.id, 0, 1).expect("reads still");
    let other = client.open_as(&root, "other", Open::read("file")).expect("opens");
    assert_ne!(other.other, upgraded.id.other);
    let closed = client.at(&file, close(upgraded.id));
    assert_eq!(closed.stat, OK);
    assert_eq!(client.read(&file, upgraded.id, 0, 1).unwrap_err(), BAD_STATEID);
    client.read(&file, other, 0, 1).expect("the other owner's is open");
}

#[test]
fn downgrade_leaves_what_is_asked_for() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let file = client.file(&root, "file", b"bytes");
    client.open(&root, &Open::read("file")).expect("opens");
    let (_, opened) = client.open(&root, &Open::new(share::WRITE, "file")).expect("opens");
    assert_eq!(opened.id.seqid, 2);
    let stat = |client: &mut Client, id, access, deny| {
        client.stat(&file, open_downgrade(id, access, deny))
    };
    assert_eq!(stat(&mut client, opened.id, 0, 0), INVAL);
    assert_eq!(stat(&mut client, opened.id, share::READ, share::WRITE), INVAL, "never denied");
    assert_eq!(stat(&mut client, opened.id.with(1), share::READ, 0), OLD_STATEID);
    let res = client.at(&file, open_downgrade(opened.id, share::READ, 0));
    assert_eq!((res.stat, res.state()), (OK, opened.id.with(3)));
    let id = res.state();
    let written = client.write(&file, id, 0, stable::UNSTABLE, b"x");
    assert_eq!(written.unwrap_err(), OPENMODE);
    client.read(&file, id, 0, 1).expect("reads");
    assert_eq!(stat(&mut client, id, share::BOTH, 0), INVAL, "that is no downgrade");
    let nobody = StateId { seqid: 1, other: [9; 12] };
    assert_eq!(stat(&mut client, nobody, share::READ, 0), BAD_STATEID);
}

#[test]
fn close_looks_at_the_state() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let other = client.file(&root, "other", b"");
    client.file(&root, "file", b"");
    client.open(&root, &Open::read("file")).expect("opens");
    let (file, opened) = client.open(&root, &Open::both("file")).expect("opens");
    assert_eq!(opened.id.seqid, 2);
    assert_eq!(client.stat(&file, close(opened.id.with(1))), OLD_STATEID);
    assert_eq!(client.stat(&file, close(opened.id.with(3))), BAD_STATEID);
    assert_eq!(client.stat(&other, close(opened.id)), BAD_STATEID, "of another file");
    for special in [StateId::ANONYMOUS, StateId::BYPASS, StateId::INVALID] {
        assert_eq!(client.stat(&file, close(special)), BAD_STATEID);
    }
    let mut stranger = served.client("b");
    assert_eq!(stranger.stat(&file, close(opened.id)), BAD_STATEID, "of another client");
    assert_eq!(client.stat(&file, close(opened.id.with(0))), OK, "8.2.2: 0 is the last one");
    assert_eq!(client.stat(&file, close(opened.id)), BAD_STATEID);
}

#[test]
fn all_is_done_in_one_compound_by_the_current_state() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let now = StateId::CURRENT;
    let ops = [
        putfh(&root),
        Open::making("file").op(),
        crate::common::ops::write(now, 0, stable::UNSTABLE, b"bytes"),
        crate::common::ops::read(now, 0, 10),
        close(now),
        getattr(&[attr::SIZE]),
    ];
    let reply = client.call(&ops).ok();
    assert_eq!(reply.last().attrs().size(), 5);
    // There is none before it is made, and none of the compound before.
    let file = client.lookup(&root, "file").expect("is there");
    assert_eq!(client.stat(&file, close(now)), BAD_STATEID);
    // PUTFH forgets it.
    let ops = [putfh(&root), Open::read("file").op(), putfh(&file), close(now)];
    assert_eq!(client.call(&ops).stat, BAD_STATEID, "16.2.3.1.2");
}

#[test]
fn two_thousand_opens_of_one_file_are_held_apart() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let file = client.file(&root, "file", b"bytes");
    let mut held = Vec::new();
    for at in 0..2_000 {
        match client.open_as(&root, &format!("owner {at}"), Open::read("file")) {
            Ok(id) => held.push(id),
            Err(stat) => {
                assert_any(stat, &[DELAY, RESOURCE]);
                break;
            }
        }
    }
    for id in held {
        client.read(&file, id, 0, 1).expect("reads");
        assert_eq!(client.stat(&file, close(id)), OK);
    }
}
