//! Rules of compounds: what comes first, what is known, what is done after a failure; current and saved file.

use crate::common::client::compound;
use crate::common::codes::{
    BADXDR, INVAL, MINOR_VERS_MISMATCH, NO_SAVED_HANDLE, NOENT, NOFILEHANDLE, NOTSUPP, OK,
    OP_ILLEGAL, OP_NOT_IN_SESSION, SEQUENCE_POS, Stat, access, attr, op,
};
use crate::common::ops::{
    self, Op, Open, StateId, close, commit, getattr, getfh, lookup, lookupp, mkdir, putfh,
    putpubfh, putrootfh, raw, readlink, remove, restorefh, savefh,
};
use crate::common::ops_session::{destroy_session, reclaim_complete, seek};
use crate::common::replies::Reply;
use crate::common::rpc::{Answer, Head};
use crate::common::xdr::Writer;
use crate::common::{Served, assert_any};

#[test]
fn only_operations_that_make_sessions_come_without_one() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let set = ops::setattr(StateId::ANONYMOUS, &ops::set_size(0));
    for op in [putrootfh(), putfh(&root), getfh(), reclaim_complete(false), set] {
        assert_eq!(client.bare(&[op]).stat, OP_NOT_IN_SESSION);
    }
    let sequence = client.sequence(0);
    assert_eq!(client.bare(&[putrootfh(), sequence.op()]).stat, OP_NOT_IN_SESSION);
    let second = client.sequence(1);
    let reply = client.call_with(&sequence, &[putrootfh(), second.op()]);
    assert_eq!((reply.stat, reply.results.len()), (SEQUENCE_POS, 3), "2.10.6");
    assert_eq!(client.call_with(&second, &[putrootfh()]).stat, OK, "that slot was not used");
}

#[test]
fn a_compound_of_nothing_does_nothing() {
    let served = Served::new();
    let mut client = served.client("a");
    let reply = client.bare(&[]);
    assert_eq!((reply.stat, reply.results.len()), (OK, 0));
    assert_eq!(reply.tag, b"weir", "the tag comes back");
    for tag in [&b""[..], b"12345", &[b'x'; 1000]] {
        let arguments = Writer::new().opaque(tag).u32(1).u32(0).0;
        let said = client.connection.call(&Head::compound(&client.cred), &arguments);
        let Answer::Done(bytes) = said.answer else { panic!("{said:?}") };
        let reply = Reply::read(&bytes);
        assert_eq!((reply.stat, &reply.tag[..]), (OK, tag));
    }
    let sequence = client.sequence(0);
    assert_eq!(client.call_with(&sequence, &[]).ok().results.len(), 1);
}

#[test]
fn minor_versions_are_those_that_are_spoken() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    for minor in [0, 3, 99, u32::MAX] {
        client.minor = minor;
        let reply = client.bare(&[putfh(&root)]);
        assert_eq!((reply.stat, reply.results.len()), (MINOR_VERS_MISMATCH, 0), "{minor}");
        assert_eq!(reply.tag, b"weir");
    }
    for minor in [2, 1] {
        client.minor = minor;
        client.call(&[putfh(&root)]).ok();
    }
}

#[test]
fn an_operation_that_nobody_knows_is_illegal() {
    let served = Served::new();
    let mut client = served.client("a");
    for number in [0, 1, 2, 200, 9_999, op::ILLEGAL, u32::MAX] {
        let unknown = || raw(number, Writer::new());
        let reply = client.call(&[putrootfh(), unknown(), putrootfh()]);
        assert_eq!((reply.stat, reply.results.len()), (OP_ILLEGAL, 2), "{number}");
        assert_eq!(reply.last().op, op::ILLEGAL, "15.2: the operation of the result");
        let reply = client.bare(&[unknown()]);
        assert_any(reply.stat, &[OP_ILLEGAL, OP_NOT_IN_SESSION]);
    }
    // What came with 4.2 is not there in 4.1.
    let reply = client.call(&[putrootfh(), seek(StateId::ANONYMOUS, 0, true)]);
    assert_any(reply.stat, &[OP_ILLEGAL, NOTSUPP]);
}

#[test]
fn what_a_server_need_not_do_is_not_supported() {
    let served = Served::new();
    let mut client = served.client("a");
    let state = || Writer::new().stateid(StateId::ANONYMOUS);
    // Those of 4.0 that 4.1 forbids, and those that 4.1 makes optional.
    let old: Vec<Op> = vec![
        raw(op::OPEN_CONFIRM, state().u32(0)),
        raw(op::RENEW, Writer::new().u64(1)),
        raw(op::SETCLIENTID_CONFIRM, Writer::new().u64(1).u64(2)),
        raw(op::RELEASE_LOCKOWNER, Writer::new().u64(1).opaque(b"owner")),
    ];
    let optional: Vec<Op> = vec![
        raw(op::OPENATTR, Writer::new().bool(false)),
        raw(op::GETDEVICELIST, Writer::new().u32(1).u32(1).u64(0).u64(0)),
        raw(op::SET_SSV, Writer::new().opaque(b"").opaque(b"")),
    ];
    for op in old.into_iter().chain(optional) {
        let number = op.number;
        let stat = client.call(&[putrootfh(), op]).stat;
        assert_any(stat, if number == op::SET_SSV { &[NOTSUPP, INVAL] } else { &[NOTSUPP] });
    }
}

#[test]
fn what_comes_after_a_failure_is_not_done() {
    let served = Served::new();
    let mut client = served.client("a");
    let ops =
        [putrootfh(), mkdir("one", 0o755), lookup("absent"), putrootfh(), mkdir("two", 0o755)];
    let reply = client.call(&ops);
    assert_eq!((reply.stat, reply.results.len()), (NOENT, 3));
    let root = client.root();
    assert_eq!(client.names(&root), ["one"]);
}

#[test]
fn operations_on_a_file_want_one() {
    let served = Served::new();
    let mut client = served.client("a").minor2();
    let id = StateId::ANONYMOUS;
    let page = ops::Page { cookie: 0, verifier: [0; 8], dircount: 0, maxcount: 4_096 };
    for op in [
        ops::access(access::READ),
        close(id),
        commit(0, 0),
        mkdir("x", 0o755),
        getattr(&[attr::SIZE]),
        getfh(),
        ops::lockt(1, (0, 1), b"owner"),
        ops::locku(id, (0, 1)),
        lookup("x"),
        lookupp(),
        ops::verify(&ops::set_size(0)),
        ops::nverify(&ops::set_size(0)),
        Open::read("x").op(),
        ops::open_downgrade(id, 1, 0),
        ops::read(id, 0, 1),
        ops::readdir(page, &[]),
        readlink(),
        remove("x"),
        savefh(),
        ops::secinfo("x"),
        ops::secinfo_no_name(false),
        ops::setattr(id, &ops::set_size(0)),
        ops::write(id, 0, 0, b"x"),
        seek(id, 0, false),
    ] {
        let number = op.number;
        assert_eq!(client.call(&[op]).stat, NOFILEHANDLE, "operation {number}");
    }
    for op in [ops::rename("a", "b"), ops::link("b")] {
        let number = op.number;
        let reply = client.call(&[putrootfh(), op]);
        assert_any(reply.stat, &[NOFILEHANDLE, NO_SAVED_HANDLE]);
        assert_eq!(reply.results.len(), 2, "operation {number}");
    }
}

#[test]
fn the_saved_file_is_given_back() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let dir = client.mkdir(&root, "dir", 0o755);
    assert_any(client.call(&[restorefh()]).stat, &[NOFILEHANDLE, NO_SAVED_HANDLE]);
    let ops = [putfh(&dir), savefh(), putrootfh(), getfh(), restorefh(), getfh()];
    let reply = client.call(&ops).ok();
    assert_eq!(reply.results[3].handle(), root);
    assert_eq!(reply.last().handle(), dir);
    // Both are of one compound only.
    assert_eq!(client.call(&[getfh()]).stat, NOFILEHANDLE);
    assert_any(client.call(&[restorefh()]).stat, &[NOFILEHANDLE, NO_SAVED_HANDLE]);
    // Saved twice: the last one counts. It may be taken twice.
    let ops = [putrootfh(), savefh(), putfh(&dir), savefh(), putrootfh(), restorefh(), restorefh()];
    let reply = client.call(&[&ops[..], &[getfh()]].concat());
    if reply.stat == OK {
        assert_eq!(reply.last().handle(), dir);
    }
}

#[test]
fn the_public_file_handle_is_the_root() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let public = client.call(&[putpubfh(), getfh()]).ok().last().handle();
    assert_eq!(public, root, "18.20: or another place, which ours is not");
}

#[test]
fn a_failure_in_the_middle_says_so_and_the_session_goes_on() {
    let served = Served::new();
    let mut client = served.client("a");
    for _ in 0..50 {
        let stats: Vec<Stat> = [lookup("absent"), getfh(), readlink()]
            .into_iter()
            .map(|op| client.call(&[putrootfh(), op]).stat)
            .collect();
        assert_eq!(stats[0], NOENT);
        assert_eq!(stats[1], OK);
        assert_ne!(stats[2], OK);
    }
    let session = client.session.id;
    assert_eq!(client.bare(&[destroy_session(&session)]).stat, OK);
}

#[test]
fn arguments_that_end_too_early_are_garbage_at_the_operation_that_has_them() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let sequence = client.sequence(0);
    let mut arguments = compound(1, &[sequence.op(), putfh(&root), lookup("name"), getfh()]);
    // The name is said to be longer than what is there.
    let at = arguments.len() - 4 - 8;
    arguments[at..at + 4].copy_from_slice(&4_000u32.to_be_bytes());
    let said = client.connection.call(&Head::compound(&client.cred), &arguments);
    match said.answer {
        Answer::Garbage => {}
        Answer::Done(bytes) => assert_eq!(Reply::read(&bytes).stat, BADXDR),
        other => panic!("{other:?}"),
    }
}
