//! Bytes that no client sends: each is answered with an error or the end of the connection, and harms nobody else.

use std::net::SocketAddr;

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use crate::common::attrs::Set;
use crate::common::client::compound;
use crate::common::codes::{BADXDR, OK, Stat, op};
use crate::common::ops::{self, Locker, Make, Op, Open, StateId, putfh, putrootfh};
use crate::common::ops_session::{self, Channel, NewSession, Sequence, SetHow};
use crate::common::replies::Reply;
use crate::common::rpc::{Answer, Connection, Cred, Head};
use crate::common::xdr::Writer;
use crate::common::{Served, seed};
use crate::witness::Witness;

/// Sends a call's arguments on a connection, or on a new one where the server has closed it; nothing if it closed
/// this one.
fn ask(connection: &mut Connection, address: SocketAddr, arguments: &[u8]) -> Option<Answer> {
    let xid = connection.xid();
    let record = Head::compound(&Cred::root()).record(xid, arguments);
    let said = connection.send_record(&record).then(|| connection.try_receive(xid)).flatten();
    if said.is_none() {
        *connection = Connection::open(address);
    }
    said.map(|said| said.answer)
}

/// One of each operation, with arguments that are well-formed.
fn one_of_each(file: &[u8], id: StateId) -> Vec<Op> {
    let set = Set::new().size(5).mode(0o600).owner("0").modified(Some((1, 2)));
    let page = ops::Page { cookie: 0, verifier: [0; 8], dircount: 100, maxcount: 1_000 };
    let new = NewSession { client: 1, sequence: 1, flags: 0, fore: Channel::FORE };
    let range = (0, 10);
    vec![
        ops::access(0x3f),
        ops::close(id),
        ops::commit(0, 0),
        ops::mkdir("name", 0o700),
        ops::symlink("name", "target"),
        ops::getattr(&[1, 40, 70]),
        ops::link("name"),
        ops::lock(1, false, range, &Locker::New(id, b"owner")),
        ops::lock(1, false, range, &Locker::Known(id)),
        ops::lockt(1, range, b"owner"),
        ops::locku(id, range),
        ops::lookup("name"),
        ops::verify(&Set::new().size(5).mode(0o600).owner("0")),
        Open::both("name").make(Make::Unchecked(set.clone())).op(),
        Open::both("name").make(Make::Exclusive41([7; 8], Set::new().mode(0o600))).op(),
        Open::handle(1).op(),
        ops::open_downgrade(id, 1, 0),
        putfh(file),
        ops::read(id, 0, 10),
        ops::readdir(page, &[1]),
        ops::remove("name"),
        ops::rename("name", "other"),
        ops::secinfo("name"),
        ops::setattr(id, &set),
        ops::write(id, 0, 0, b"data"),
        ops_session::exchange_id([1; 8], b"owner", 0),
        new.op(),
        ops_session::test_stateid(&[id, id]),
        ops_session::copy(id, id, (0, 0), 1),
        ops_session::seek(id, 0, true),
        ops_session::setxattr(SetHow::Either, "name", b"value"),
        ops_session::listxattrs(0, 100),
    ]
}

fn is_malformed(answer: &Option<Answer>) -> bool {
    match answer {
        None | Some(Answer::Garbage) => true,
        Some(Answer::Done(bytes)) => Reply::read(bytes).stat == BADXDR,
        _ => false,
    }
}

fn stat(answer: &Option<Answer>) -> Option<Stat> {
    match answer {
        Some(Answer::Done(bytes)) => Some(Reply::read(bytes).stat),
        _ => None,
    }
}

#[test]
fn a_compound_that_ends_too_early_is_malformed_wherever_it_ends() {
    let served = Served::new();
    let mut witness = Witness::new(&served);
    let mut client = served.client("a");
    let root = client.root();
    let nobody = StateId { seqid: 1, other: [5; 12] };
    let mut connection = client.connect();
    let session = client.session.id;
    let mut wrong = Vec::new();
    for what in one_of_each(&root, nobody) {
        for missing in 1..=what.arguments.0.len() {
            let seqid = client.slots[0] + 1;
            let next = Sequence { session, seqid, slot: 0, highest: 0, cache: true };
            let mut bytes = compound(2, &[next.op(), putfh(&root), what.clone()]);
            bytes.truncate(bytes.len() - missing);
            let answer = ask(&mut connection, served.address(), &bytes);
            if !is_malformed(&answer) {
                wrong.push((what.number, missing, stat(&answer)));
            }
            // The sequence number is used up where the server came as far as that.
            if let Some(Answer::Done(bytes)) = &answer {
                let first = Reply::read(bytes).results.first().map(|res| (res.op, res.stat));
                client.slots[0] += u32::from(first == Some((op::SEQUENCE, OK)));
            }
        }
    }
    assert!(wrong.is_empty(), "operation, bytes that are missing, status: {wrong:?}");
    witness.check();
    client.call(&[putrootfh()]).ok();
}

#[test]
fn what_makes_sessions_is_malformed_too_where_it_ends_too_early() {
    let served = Served::new();
    let mut witness = Witness::new(&served);
    let mut connection = Connection::open(served.address());
    let new = NewSession { client: 1, sequence: 1, flags: 0, fore: Channel::FORE };
    let next = Sequence { session: [1; 16], seqid: 1, slot: 0, highest: 0, cache: true };
    for what in [
        ops_session::bind_conn_to_session(&[1; 16], 1),
        ops_session::exchange_id([1; 8], b"owner", 0),
        new.op(),
        ops_session::destroy_session(&[1; 16]),
        ops_session::destroy_clientid(1),
        next.op(),
    ] {
        let whole = compound(1, std::slice::from_ref(&what));
        for missing in 1..=what.arguments.0.len() {
            let bytes = &whole[..whole.len() - missing];
            let answer = ask(&mut connection, served.address(), bytes);
            let number = what.number;
            assert!(is_malformed(&answer), "operation {number} without {missing}: {answer:?}");
        }
    }
    witness.check();
}

#[test]
fn the_heads_of_calls_and_compounds_are_looked_at_too() {
    let served = Served::new();
    let mut witness = Witness::new(&served);
    let mut client = served.client("a");
    let sequence = client.sequence(0);
    let arguments = compound(1, &[sequence.op(), putrootfh()]);
    let whole = Head::compound(&Cred::root()).record(1, &arguments);
    for end in 0..whole.len() {
        let mut connection = Connection::open(served.address());
        if !connection.send_record(&whole[..end]) {
            continue;
        }
        connection.end_sending();
        // Whatever it says, it says it at once.
        while connection.next().is_some() {}
    }
    witness.check();
}

#[test]
fn lengths_that_nothing_has_are_refused_before_room_is_made() {
    let served = Served::new();
    let mut witness = Witness::new(&served);
    let mut client = served.client("a");
    let root = client.root();
    let mut connection = client.connect();
    let state = || Writer::new().stateid(StateId::ANONYMOUS);
    for len in [0x0100_0000, 0x7fff_ffff, 0x8000_0000, u32::MAX - 3, u32::MAX] {
        for (number, arguments) in [
            (op::LOOKUP, Writer::new()),
            (op::PUTFH, Writer::new()),
            (op::GETATTR, Writer::new()),
            (op::WRITE, state().u64(0).u32(0)),
            (op::SETATTR, state()),
            (op::SETATTR, state().bitmap(&[33])),
            (op::TEST_STATEID, Writer::new()),
            (op::CREATE, Writer::new().u32(5)),
            (op::EXCHANGE_ID, Writer::new().u64(1)),
            (op::OPEN, Writer::new().u32(0).u32(1).u32(0).u64(1)),
        ] {
            let what = ops::raw(number, arguments.u32(len));
            let bytes = compound(1, &[client.sequence(0).op(), putfh(&root), what]);
            let answer = ask(&mut connection, served.address(), &bytes);
            assert!(is_malformed(&answer), "operation {number}, {len:#x}: {answer:?}");
            let used = matches!(&answer, Some(Answer::Done(_)));
            client.slots[0] -= u32::from(!used);
        }
        // So many operations, and so long a tag.
        let many = Writer::new().opaque(b"").u32(1).u32(len).0;
        let answer = ask(&mut connection, served.address(), &many);
        assert!(!matches!(&answer, Some(Answer::Done(bytes)) if Reply::read(bytes).stat == OK));
        let tag = Writer::new().u32(len).0;
        assert!(is_malformed(&ask(&mut connection, served.address(), &tag)));
    }
    witness.check();
}

#[test]
fn a_record_that_is_too_large_ends_its_connection_only() {
    let served = Served::new();
    let mut witness = Witness::new(&served);
    for mark in [100u32 << 20, 100 << 20 | 1 << 31, u32::MAX, 0x7fff_ffff] {
        let mut connection = Connection::open(served.address());
        connection.send_raw(&mark.to_be_bytes());
        let piece = vec![0; 1 << 20];
        let mut sent = 0;
        while sent < 100 && connection.send_raw(&piece) {
            sent += 1;
        }
        assert!(sent < 100, "{mark:#x}: the server took 100 MiB for one call");
        witness.check();
    }
    // The same in small fragments that never end.
    let mut connection = Connection::open(served.address());
    let mut fragment = (1u32 << 20).to_be_bytes().to_vec();
    fragment.extend(vec![0; 1 << 20]);
    let mut sent = 0;
    while sent < 100 && connection.send_raw(&fragment) {
        sent += 1;
    }
    assert!(sent < 100, "the server took 100 MiB in fragments");
    witness.check();
}

#[test]
fn fragments_of_nothing_do_not_go_on_for_ever() {
    let served = Served::new();
    let mut witness = Witness::new(&served);
    let mut connection = Connection::open(served.address());
    let nothing = vec![0; 1 << 16];
    for _ in 0..64 {
        if !connection.send_raw(&nothing) {
            break;
        }
    }
    witness.check();
}

#[test]
fn random_bytes_are_answered_or_end_the_connection() {
    let mut random = StdRng::seed_from_u64(seed());
    let served = Served::new();
    let mut witness = Witness::new(&served);
    for _ in 0..300 {
        let mut bytes = vec![0; random.random_range(0..600)];
        random.fill_bytes(&mut bytes);
        let mut connection = Connection::open(served.address());
        let sent = match random.random_range(0..3) {
            0 => connection.send_raw(&bytes),
            1 => connection.send_record(&bytes),
            _ => connection.send_record(&Head::compound(&Cred::root()).record(7, &bytes)),
        };
        if sent {
            connection.end_sending();
            while connection.record().is_some() {}
        }
    }
    witness.check();
}

/// Changes some bytes.
fn mutate(random: &mut StdRng, bytes: &mut Vec<u8>) {
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..4) {
            0 => bytes[at] = random.random(),
            1 => bytes[at] ^= 1 << random.random_range(0..8),
            2 => bytes.truncate(at.max(4)),
            _ => {
                let word = at / 4 * 4;
                let value: u32 = [0, 1, 2, 0x7fff_ffff, u32::MAX][random.random_range(0..5)];
                if let Some(four) = bytes.get_mut(word..word + 4) {
                    four.copy_from_slice(&value.to_be_bytes());
                }
            }
        }
    }
}

#[test]
fn compounds_with_some_wrong_bytes_are_answered() {
    let mut random = StdRng::seed_from_u64(seed());
    let served = Served::new();
    let mut witness = Witness::new(&served);
    let mut client = served.client("a");
    let root = client.root();
    let dir = client.mkdir(&root, "dir", 0o755);
    let (file, id) = client.make(&dir, "file");
    let known = one_of_each(&file, id);
    let mut connection = client.connect();
    for round in 0..3_000u32 {
        // Slots are used anew for each: what the server made of the last one is not known.
        let seqid = 1 + round / client.session.fore.requests;
        let slot = round % client.session.fore.requests;
        let sequence =
            Sequence { session: client.session.id, seqid, slot, highest: slot, cache: true };
        let at = if random.random() { &dir } else { &file };
        let what = &known[random.random_range(0..known.len())];
        let more = &known[random.random_range(0..known.len())];
        let mut bytes = compound(2, &[sequence.op(), putfh(at), what.clone(), more.clone()]);
        let mut body = bytes.split_off(16 + 40);
        mutate(&mut random, &mut body);
        bytes.extend(body);
        if let Some(Answer::Done(bytes)) = ask(&mut connection, served.address(), &bytes) {
            Reply::read(&bytes);
        }
        if round % 500 == 0 {
            witness.check();
        }
    }
    witness.check();
}
