//! EXCHANGE_ID, CREATE_SESSION, DESTROY_SESSION, DESTROY_CLIENTID, RECLAIM_COMPLETE.

use crate::common::client::{Client, FIRST_LIFE, bare, exchange_id};
use crate::common::codes::{
    BADSESSION, BADXDR, CLID_INUSE, CLIENTID_BUSY, COMPLETE_ALREADY, GRACE, INVAL, NOENT,
    NOFILEHANDLE, NOT_ONLY_OP, NOT_SAME, OK, PERM, SEQ_MISORDERED, SHARE_DENIED, STALE_CLIENTID,
    Stat, TOOSMALL, exchange, lock, op, share,
};
use crate::common::ops::{Locker, Op, Open, Verifier, close, lock, putrootfh, raw};
use crate::common::ops_session::{self, Channel, NewSession, destroy_clientid, destroy_session};
use crate::common::replies::Exchanged;
use crate::common::rpc::{Connection, Cred};
use crate::common::xdr::Writer;
use crate::common::{Served, assert_any};

const SECOND_LIFE: Verifier = [2; 8];

fn new_session(known: &Exchanged) -> NewSession {
    NewSession { client: known.client, sequence: known.sequence, flags: 0, fore: Channel::FORE }
}

fn stat(connection: &mut Connection, cred: &Cred, op: Op) -> Stat {
    bare(connection, cred, 1, &[op]).stat
}

/// EXCHANGE_ID with flags: what came.
fn update(connection: &mut Connection, cred: &Cred, life: Verifier) -> Stat {
    stat(connection, cred, ops_session::exchange_id(life, b"a", exchange::UPDATE))
}

#[test]
fn exchange_id_makes_a_client_known_which_create_session_confirms() {
    let served = Served::new();
    let mut connection = Connection::open(served.address());
    let cred = Cred::root();
    let first = exchange_id(&mut connection, &cred, "a", FIRST_LIFE);
    assert_eq!(first.flags & exchange::CONFIRMED, 0, "{first:?}");
    assert_eq!(first.flags & exchange::MASK_PNFS, exchange::USE_NON_PNFS, "{first:?}");
    assert!(!first.major_id.is_empty() && !first.scope.is_empty(), "{first:?}");
    bare(&mut connection, &cred, 1, &[new_session(&first).op()]).ok();
    let again = exchange_id(&mut connection, &cred, "a", FIRST_LIFE);
    assert_eq!(again.client, first.client, "18.35.4, case 2");
    assert_ne!(again.flags & exchange::CONFIRMED, 0, "{again:?}");
    let other = exchange_id(&mut connection, &cred, "b", FIRST_LIFE);
    assert_ne!(other.client, first.client);
    assert_eq!((other.major_id, other.scope), (first.major_id, first.scope), "one server");
}

#[test]
fn only_the_last_of_two_unconfirmed_exchanges_counts() {
    let served = Served::new();
    let mut connection = Connection::open(served.address());
    let cred = Cred::root();
    let first = exchange_id(&mut connection, &cred, "a", FIRST_LIFE);
    let second = exchange_id(&mut connection, &cred, "a", SECOND_LIFE);
    assert_ne!(first.client, second.client, "18.35.4, case 4");
    assert_eq!(stat(&mut connection, &cred, new_session(&first).op()), STALE_CLIENTID);
    assert_eq!(stat(&mut connection, &cred, new_session(&second).op()), OK);
}

#[test]
fn an_update_changes_a_confirmed_client_of_the_same_life_and_principal_only() {
    let served = Served::new();
    let mut connection = Connection::open(served.address());
    let cred = Cred::root();
    assert_eq!(update(&mut connection, &cred, FIRST_LIFE), NOENT, "18.35.4, case 7");
    let known = exchange_id(&mut connection, &cred, "a", FIRST_LIFE);
    assert_eq!(update(&mut connection, &cred, FIRST_LIFE), NOENT, "not confirmed yet");
    let known = match stat(&mut connection, &cred, new_session(&known).op()) {
        OK => known,
        _ => {
            let known = exchange_id(&mut connection, &cred, "a", FIRST_LIFE);
            bare(&mut connection, &cred, 1, &[new_session(&known).op()]).ok();
            known
        }
    };
    let op = ops_session::exchange_id(FIRST_LIFE, b"a", exchange::UPDATE);
    let updated = bare(&mut connection, &cred, 1, &[op]).ok().last().exchanged();
    assert_eq!(updated.client, known.client, "case 6");
    assert_ne!(updated.flags & exchange::CONFIRMED, 0);
    assert_eq!(update(&mut connection, &cred, SECOND_LIFE), NOT_SAME, "case 8");
    assert_eq!(update(&mut connection, &Cred::user(7), FIRST_LIFE), PERM, "case 9");
}

#[test]
fn a_client_that_restarted_loses_what_it_held_when_it_makes_a_session() {
    let served = Served::new();
    let mut first = served.client("a");
    let root = first.root();
    first.file(&root, "file", b"");
    let open = Open::both("file").deny(share::BOTH);
    first.open(&root, &open).expect("opens");
    let mut other = served.client("other");
    assert_eq!(other.open(&root, &Open::read("file")).unwrap_err(), SHARE_DENIED);
    let mut connection = Connection::open(served.address());
    let cred = Cred::root();
    let known = exchange_id(&mut connection, &cred, "a", SECOND_LIFE);
    assert_ne!(known.client, first.id, "18.35.4, case 5");
    assert_eq!(known.flags & exchange::CONFIRMED, 0);
    assert_eq!(first.call(&[putrootfh()]).stat, OK, "nothing is lost before it is confirmed");
    assert_eq!(other.open(&root, &Open::read("file")).unwrap_err(), SHARE_DENIED);
    bare(&mut connection, &cred, 1, &[new_session(&known).op()]).ok();
    assert_eq!(first.call(&[putrootfh()]).stat, BADSESSION);
    other.open(&root, &Open::read("file")).expect("nobody denies it now");
}

#[test]
fn another_principal_cannot_end_a_client_by_its_name() {
    let served = Served::new();
    let mut first = served.client("a");
    let root = first.root();
    first.make(&root, "file");
    let mut connection = Connection::open(served.address());
    let thief = Cred::user(4711);
    for life in [FIRST_LIFE, SECOND_LIFE] {
        let reply = bare(&mut connection, &thief, 1, &[ops_session::exchange_id(life, b"a", 0)]);
        // Either it is told so, or it is told of a client as if it were its own (AUTH_SYS proves nothing).
        assert_any(reply.stat, &[OK, CLID_INUSE]);
        assert_eq!(first.call(&[putrootfh()]).stat, OK, "goes on");
    }
}

#[test]
fn exchange_id_says_what_is_wrong_with_its_arguments() {
    let served = Served::new();
    let mut connection = Connection::open(served.address());
    let cred = Cred::root();
    for flags in [exchange::CONFIRMED, 1 << 27] {
        let op = ops_session::exchange_id(FIRST_LIFE, b"a", flags);
        assert_eq!(stat(&mut connection, &cred, op), INVAL, "flags {flags:#x}");
    }
    let long = ops_session::exchange_id(FIRST_LIFE, &[b'x'; 1025], 0);
    assert_any(stat(&mut connection, &cred, long), &[BADXDR, INVAL]);
    let longest = ops_session::exchange_id(FIRST_LIFE, &[b'x'; 1024], 0);
    assert_eq!(stat(&mut connection, &cred, longest), OK);
    // Protection by a machine's credential needs RPCSEC_GSS.
    let head = || Writer::new().fixed(&FIRST_LIFE).opaque(b"b").u32(0);
    let protected = raw(op::EXCHANGE_ID, head().u32(1).words(&[]).words(&[]).u32(0));
    assert_eq!(stat(&mut connection, &cred, protected), INVAL);
    let unknown = raw(op::EXCHANGE_ID, head().u32(9).u32(0));
    assert_any(stat(&mut connection, &cred, unknown), &[BADXDR, INVAL]);
    let alone = ops_session::exchange_id(FIRST_LIFE, b"a", 0);
    assert_eq!(bare(&mut connection, &cred, 1, &[alone, putrootfh()]).stat, NOT_ONLY_OP);
}

#[test]
fn create_session_is_done_once_for_each_sequence_number() {
    let served = Served::new();
    let mut connection = Connection::open(served.address());
    let cred = Cred::root();
    let known = exchange_id(&mut connection, &cred, "a", FIRST_LIFE);
    let new = new_session(&known);
    let later = NewSession { sequence: new.sequence.wrapping_add(1), ..new };
    assert_eq!(stat(&mut connection, &cred, later.op()), SEQ_MISORDERED);
    let made = bare(&mut connection, &cred, 1, &[new.op()]).ok().last().session();
    assert_eq!(made.sequence, new.sequence);
    let replayed = bare(&mut connection, &cred, 1, &[new.op()]).ok().last().session();
    assert_eq!(made, replayed);
    let early = NewSession { sequence: new.sequence.wrapping_sub(1), ..new };
    assert_eq!(stat(&mut connection, &cred, early.op()), SEQ_MISORDERED);
    let second = bare(&mut connection, &cred, 1, &[later.op()]).ok().last().session();
    assert_ne!(second.id, made.id, "a second session of the client");
    let other = NewSession { client: new.client ^ 0xffff_0000, ..new };
    assert_eq!(stat(&mut connection, &cred, other.op()), STALE_CLIENTID);
}

#[test]
fn create_session_agrees_on_no_more_than_was_asked_for() {
    let served = Served::new();
    let mut connection = Connection::open(served.address());
    let cred = Cred::root();
    let known = exchange_id(&mut connection, &cred, "a", FIRST_LIFE);
    let mut new = new_session(&known);
    let most = Channel {
        request: u32::MAX,
        response: u32::MAX,
        cached: u32::MAX,
        operations: u32::MAX,
        requests: u32::MAX,
    };
    for asked in [most, Channel { requests: 1, operations: 4, ..Channel::FORE }, Channel::FORE] {
        new.fore = asked;
        // Flags: keep replies through a restart, and callbacks on this connection.
        new.flags = 3;
        let made = bare(&mut connection, &cred, 1, &[new.op()]).ok().last().session();
        new.sequence = new.sequence.wrapping_add(1);
        let got = made.fore;
        assert!(got.request <= asked.request && got.response <= asked.response, "{got:?}");
        assert!(got.cached <= asked.cached && got.operations <= asked.operations, "{got:?}");
        assert!(got.requests <= asked.requests && got.requests >= 1, "{got:?}");
        assert!(got.request <= 64 << 20 && got.requests <= 4096, "without a bound: {got:?}");
        assert_eq!(made.flags & !2, 0, "what the server cannot do");
    }
}

#[test]
fn create_session_refuses_what_no_request_fits_in() {
    let served = Served::new();
    let mut connection = Connection::open(served.address());
    let cred = Cred::root();
    let mut known = exchange_id(&mut connection, &cred, "a", FIRST_LIFE);
    for fore in [
        Channel { request: 8, ..Channel::FORE },
        Channel { response: 8, ..Channel::FORE },
        Channel { request: 0, response: 0, ..Channel::FORE },
    ] {
        let new = NewSession { fore, ..new_session(&known) };
        assert_eq!(stat(&mut connection, &cred, new.op()), TOOSMALL, "{fore:?}");
        known = exchange_id(&mut connection, &cred, "a", FIRST_LIFE);
        assert_eq!(known.flags & exchange::CONFIRMED, 0, "a failure confirms nobody");
    }
    let known = exchange_id(&mut connection, &cred, "b", FIRST_LIFE);
    let flags = NewSession { flags: 0x100, ..new_session(&known) };
    assert_eq!(stat(&mut connection, &cred, flags.op()), INVAL);
    let known = exchange_id(&mut connection, &cred, "c", FIRST_LIFE);
    let ops = [new_session(&known).op(), putrootfh()];
    assert_eq!(bare(&mut connection, &cred, 1, &ops).stat, NOT_ONLY_OP);
}

#[test]
fn destroy_session_ends_it() {
    let served = Served::new();
    let mut client = served.client("a");
    let id = client.session.id;
    assert_eq!(client.bare(&[destroy_session(&[9; 16])]).stat, BADSESSION);
    assert_eq!(client.bare(&[destroy_session(&id), putrootfh()]).stat, NOT_ONLY_OP);
    let not_last = client.call(&[destroy_session(&id), putrootfh()]);
    assert_eq!(not_last.stat, NOT_ONLY_OP, "18.37.3");
    assert_eq!(client.call(&[putrootfh()]).stat, OK);
    assert_eq!(client.bare(&[destroy_session(&id)]).stat, OK);
    assert_eq!(client.call(&[putrootfh()]).stat, BADSESSION);
    assert_eq!(client.bare(&[destroy_session(&id)]).stat, BADSESSION);
    // As the last operation of a request in it.
    let mut other = served.client("b");
    let id = other.session.id;
    assert_eq!(other.call(&[putrootfh(), destroy_session(&id)]).stat, OK);
    assert_eq!(other.call(&[putrootfh()]).stat, BADSESSION);
}

#[test]
fn destroy_clientid_waits_for_sessions_to_end() {
    let served = Served::new();
    let mut client = served.client("a");
    assert_eq!(served.server().clients().len(), 1);
    let id = client.id;
    assert_eq!(client.bare(&[destroy_clientid(id)]).stat, CLIENTID_BUSY);
    assert_eq!(client.bare(&[destroy_clientid(id), putrootfh()]).stat, NOT_ONLY_OP);
    let session = client.session.id;
    client.bare(&[destroy_session(&session)]).ok();
    assert_eq!(client.bare(&[destroy_clientid(id)]).stat, OK);
    assert_eq!(client.bare(&[destroy_clientid(id)]).stat, STALE_CLIENTID);
    let known = exchange_id(&mut client.connection, &client.cred, "a", FIRST_LIFE);
    assert_eq!(known.flags & exchange::CONFIRMED, 0, "forgotten");
    assert_eq!(served.server().clients().len(), 0, "not confirmed is not mounted");
    // Within a session of another client.
    let mut other = served.client("b");
    assert_eq!(other.call(&[destroy_clientid(known.client)]).stat, OK);
}

#[test]
fn what_clients_hold_is_told_to_who_asks() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let (file, id) = client.make(&root, "file");
    client.write(&file, id, 0, 0, &[1; 1_000]).expect("writes");
    client.read(&file, id, 0, 500).expect("reads");
    let lock = lock(lock::WRITE, false, (0, 1), &Locker::New(id, b"owner"));
    assert_eq!(client.stat(&file, lock), OK);
    let views = served.server().clients();
    assert_eq!(views.len(), 1);
    let view = &views[0];
    assert_eq!((view.id, view.name.as_str(), view.tls), (client.id, "a", false));
    assert_eq!((view.opens, view.locks, view.expired), (1, 1, false));
    assert_eq!((view.bytes_written, view.bytes_read), (1_000, 500));
    assert!(view.address.starts_with("127.0.0.1") && view.requests >= 5, "{}", view.address);
    assert_eq!(client.stat(&file, close(id)), OK);
    let view = &served.server().clients()[0];
    assert_eq!((view.opens, view.locks), (0, 0));
}

#[test]
fn reclaim_complete_is_said_once_and_before_anything_is_opened() {
    let served = Served::new();
    let mut client = Client::before_reclaim(served.address(), "a", FIRST_LIFE);
    let root = client.root();
    assert_eq!(client.open(&root, &Open::making("file")).unwrap_err(), GRACE, "18.51.3");
    assert_eq!(client.call(&[ops_session::reclaim_complete(true)]).stat, NOFILEHANDLE);
    assert_eq!(client.call(&[ops_session::reclaim_complete(false)]).stat, OK);
    assert_eq!(client.call(&[ops_session::reclaim_complete(false)]).stat, COMPLETE_ALREADY);
    client.open(&root, &Open::making("file")).expect("opens");
}
