//! SEQUENCE and its limits, BIND_CONN_TO_SESSION, several connections.

use crate::common::client::{Client, FIRST_LIFE, bare, compound, exchange_id, reply};
use crate::common::codes::{
    BAD_HIGH_SLOT, BADSESSION, BADSLOT, BADXDR, INVAL, NOT_ONLY_OP, OK, REP_TOO_BIG,
    REP_TOO_BIG_TO_CACHE, REQ_TOO_BIG, SEQ_MISORDERED, TOO_MANY_OPS, attr, stable,
};
use crate::common::ops::{StateId, getattr, getfh, mkdir, putfh, putrootfh, read, write};
use crate::common::ops_session::{Channel, NewSession, Sequence, bind_conn_to_session};
use crate::common::replies::{Body, Reply};
use crate::common::rpc::{Answer, Connection, Cred, Head};
use crate::common::{Served, assert_any, noise};

/// A client whose session has this channel.
fn with_channel(served: &Served, fore: Channel) -> Client {
    let mut connection = Connection::open(served.address());
    let cred = Cred::root();
    let known = exchange_id(&mut connection, &cred, "small", FIRST_LIFE);
    let new = NewSession { client: known.client, sequence: known.sequence, flags: 0, fore };
    let session = bare(&mut connection, &cred, 1, &[new.op()]).ok().last().session();
    let mut client = served.client("small");
    client.slots = vec![0; session.fore.requests as usize];
    client.session = session;
    client
}

#[test]
fn sequence_answers_with_its_slot_and_what_there_is() {
    let served = Served::new();
    let mut client = served.client("a");
    let sequence = client.sequence(1);
    let done = client.call_with(&sequence, &[]).ok().last().sequenced();
    assert_eq!((done.session, done.seqid, done.slot), (sequence.session, 1, 1));
    assert!(done.highest < client.session.fore.requests, "{done:?}");
    assert!(done.target < client.session.fore.requests, "{done:?}");
    assert_eq!(done.flags & !0x201, 0, "nothing is wrong but that there are no callbacks");
}

#[test]
fn a_session_that_is_not_there_is_bad() {
    let served = Served::new();
    let mut client = served.client("a");
    let right = client.sequence(0);
    for byte in 0..16 {
        let mut session = right.session;
        session[byte] ^= 0x55;
        let wrong = Sequence { session, ..right };
        assert_eq!(client.call_with(&wrong, &[putrootfh()]).stat, BADSESSION, "byte {byte}");
    }
    client.call_with(&right, &[putrootfh()]).ok();
}

#[test]
fn slots_are_those_that_were_agreed_on() {
    let served = Served::new();
    let mut client = served.client("a");
    let slots = client.session.fore.requests;
    for slot in 0..slots {
        let sequence = client.sequence(slot);
        client.call_with(&sequence, &[putrootfh()]).ok();
    }
    let right = client.sequence(0);
    for slot in [slots, slots + 1, u32::MAX] {
        let wrong = Sequence { slot, highest: slot, seqid: 1, ..right };
        assert_any(client.call_with(&wrong, &[]).stat, &[BADSLOT]);
    }
    let wrong = Sequence { slot: 3, highest: 1, seqid: 2, ..right };
    assert_eq!(client.call_with(&wrong, &[]).stat, BAD_HIGH_SLOT);
    client.call_with(&right, &[putrootfh()]).ok();
}

#[test]
fn sequence_numbers_go_up_by_one() {
    let served = Served::new();
    let mut client = served.client("a");
    let fresh = Sequence { slot: 2, ..client.sequence(0) };
    for seqid in [0, 2, 3, u32::MAX] {
        let wrong = Sequence { seqid, ..fresh };
        assert_eq!(client.call_with(&wrong, &[]).stat, SEQ_MISORDERED, "first {seqid}");
    }
    for seqid in [1, 2, 3, 4] {
        client.call_with(&Sequence { seqid, ..fresh }, &[putrootfh()]).ok();
    }
    for seqid in [0, 1, 2, 3, 6, u32::MAX] {
        let wrong = Sequence { seqid, ..fresh };
        assert_eq!(client.call_with(&wrong, &[]).stat, SEQ_MISORDERED, "after 4: {seqid}");
    }
    client.call_with(&Sequence { seqid: 5, ..fresh }, &[putrootfh()]).ok();
}

#[test]
fn many_slots_are_in_flight_at_once() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let slots = client.session.fore.requests.min(32);
    for round in 0..4 {
        let calls: Vec<u32> = (0..slots)
            .map(|slot| {
                client.start(slot, &[putfh(&root), mkdir(&format!("{round}-{slot}"), 0o755)])
            })
            .collect();
        for xid in calls.into_iter().rev() {
            client.finish(xid).ok();
        }
    }
    assert_eq!(client.names(&root).len() as u32, 4 * slots);
}

#[test]
fn a_request_larger_than_agreed_is_refused() {
    let served = Served::new();
    let fore = Channel { request: 4_096, ..Channel::FORE };
    let mut client = with_channel(&served, fore);
    let root = client.root();
    let (file, id) = client.make(&root, "file");
    let large = noise(1, client.session.fore.request as usize);
    let res = client.write(&file, id, 0, stable::UNSTABLE, &large);
    assert_eq!(res.unwrap_err(), REQ_TOO_BIG);
    // SEQUENCE itself failed: the slot has not moved.
    client.slots[0] -= 1;
    let small = noise(1, 2_048);
    client.write(&file, id, 0, stable::UNSTABLE, &small).expect("writes");
    assert_eq!(client.size(&file), 2_048);
}

#[test]
fn a_reply_is_no_larger_than_agreed() {
    let served = Served::new();
    let fore = Channel { response: 4_096, cached: 512, ..Channel::FORE };
    let mut client = with_channel(&served, fore);
    assert!(client.session.fore.response <= 4_096 && client.session.fore.cached <= 512);
    let root = client.root();
    let file = served.client("writer").file(&root, "file", &noise(2, 10_000));
    let some = || read(StateId::ANONYMOUS, 0, 1_500);
    for (cache, reads, most) in
        [(false, 2, 4_096), (false, 3, 4_096), (false, 6, 4_096), (true, 1, 512), (true, 4, 512)]
    {
        let sequence = Sequence { cache, ..client.sequence(0) };
        let ops = [&[sequence.op(), putfh(&file)][..], &vec![some(); reads]].concat();
        let xid = client.connection.send(&Head::compound(&client.cred), &compound(1, &ops));
        let Answer::Done(bytes) = client.connection.receive(xid).answer else { panic!("no reply") };
        // Before it is the head of the reply.
        assert!(bytes.len() + 24 <= most, "{reads} of them: {}", bytes.len());
        let too_big = if cache { REP_TOO_BIG_TO_CACHE } else { REP_TOO_BIG };
        // A server may also read less than was asked for.
        assert_any(Reply::read(&bytes).stat, &[OK, too_big]);
    }
    client.call(&[putrootfh()]).ok();
}

#[test]
fn a_change_whose_reply_would_not_fit_is_not_made() {
    let served = Served::new();
    let fore = Channel { response: 640, cached: 640, operations: 40, ..Channel::FORE };
    let mut client = with_channel(&served, fore);
    let root = client.root();
    let (mut made, mut refused) = (0, 0);
    // What is read before it grows by a few bytes each time.
    for fill in 0..64u32 {
        let name = format!("made-{fill}");
        let eights = vec![getattr(&[attr::CHANGE, attr::FILEID]); fill as usize / 4];
        let fours = [attr::TYPE, attr::MODE, attr::NUMLINKS];
        let rest = getattr(&fours[..fill as usize % 4]);
        let ops = [&[putfh(&root)][..], &eights, &[rest, mkdir(&name, 0o755)]].concat();
        let sequence = Sequence { cache: false, ..client.sequence(0) };
        let reply = client.call_with(&sequence, &ops);
        let is_there = client.lookup(&root, &name).is_ok();
        assert_eq!(is_there, reply.stat == OK, "2.10.6.4: {fill}, {:?}", reply.stat);
        if is_there { made += 1 } else { refused += 1 }
    }
    assert!(made > 0 && refused > 0, "{made} {refused}");
}

#[test]
fn no_more_operations_than_agreed() {
    let served = Served::new();
    let mut client = with_channel(&served, Channel { operations: 6, ..Channel::FORE });
    let most = client.session.fore.operations as usize;
    assert!(most <= 6);
    let ops = vec![putrootfh(); most - 1];
    client.call(&ops).ok();
    let ops = vec![putrootfh(); most];
    let sequence = client.sequence(0);
    assert_eq!(client.call_with(&sequence, &ops).stat, TOO_MANY_OPS);
    client.slots[0] -= 1;
    client.call(&[putrootfh()]).ok();
}

#[test]
fn a_connection_is_bound_to_a_session() {
    let served = Served::new();
    let mut client = served.client("a");
    let mut second = client.connect();
    let (id, cred) = (client.session.id, client.cred.clone());
    let mut bind = |session, direction| {
        bare(&mut second, &cred, 1, &[bind_conn_to_session(session, direction)])
    };
    assert_eq!(bind(&[7; 16], 1).stat, BADSESSION);
    assert_any(bind(&id, 9).stat, &[INVAL, BADXDR]);
    assert_eq!(bind(&id, 1).ok().last().body, Body::Bound(id, 1));
    let Body::Bound(_, direction) = bind(&id, 3).ok().last().body else { panic!("no body") };
    assert!([1, 3].contains(&direction), "forward, or both: {direction}");
    let ops = [bind_conn_to_session(&id, 1), putrootfh()];
    assert_eq!(bare(&mut second, &cred, 1, &ops).stat, NOT_ONLY_OP);
    // Requests of one session on both connections, in different slots.
    std::mem::swap(&mut client.connection, &mut second);
    let root = client.root();
    let xid = client.start(1, &[putfh(&root), getfh()]);
    client.finish(xid).ok();
}

#[test]
fn a_session_is_used_on_connections_that_nobody_bound() {
    let served = Served::new();
    let mut client = served.client("a");
    let mut connections: Vec<_> = (0..3).map(|_| client.connect()).collect();
    for round in 0..4u32 {
        for (connection, slot) in connections.iter_mut().zip(1u32..) {
            let ops = [client.sequence(slot).op(), putrootfh(), getfh()];
            let xid = connection.send(&Head::compound(&client.cred), &compound(1, &ops));
            let said = connection.receive(xid);
            assert_eq!(reply(said.answer).stat, OK, "round {round}, slot {slot}");
        }
    }
    // The last one goes on where the first has ended.
    drop(connections);
    client.connection = client.connect();
    client.call(&[putrootfh()]).ok();
}

#[test]
fn writes_through_several_connections_are_one_file() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let (file, id) = client.make(&root, "file");
    let data = noise(5, 4 << 18);
    let mut connections: Vec<_> = (0..4).map(|_| client.connect()).collect();
    let mut calls = Vec::new();
    for (at, piece) in data.chunks(1 << 16).enumerate() {
        let slot = at as u32 % client.session.fore.requests.min(16);
        let ops = [
            client.sequence(slot).op(),
            putfh(&file),
            write(id, (at << 16) as u64, stable::UNSTABLE, piece),
        ];
        let connection = &mut connections[at % 4];
        calls.push((at % 4, connection.send(&Head::compound(&client.cred), &compound(1, &ops))));
        if slot + 1 == client.session.fore.requests.min(16) {
            for (which, xid) in calls.drain(..) {
                assert_eq!(reply(connections[which].receive(xid).answer).stat, OK);
            }
        }
    }
    for (which, xid) in calls {
        assert_eq!(reply(connections[which].receive(xid).answer).stat, OK);
    }
    assert!(client.content(&file) == data, "the bytes differ");
}
