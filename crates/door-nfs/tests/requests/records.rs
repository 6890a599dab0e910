//! RPC: records and fragments, programs and versions, credentials.

use crate::common::client::{bare, compound};
use crate::common::codes::OK;
use crate::common::ops::{getfh, putrootfh};
use crate::common::rpc::{Answer, Connection, Cred, Head, NFS};
use crate::common::xdr::Writer;
use crate::common::{Served, codes};

#[test]
fn null_does_nothing_for_everybody() {
    let served = Served::new();
    let mut connection = Connection::open(served.address());
    for cred in [Cred::None, Cred::root(), Cred::user(1000)] {
        let said = connection.call(&Head::null(cred), &[]);
        assert_eq!(said.answer, Answer::Done(vec![]));
        assert_eq!(said.verifier, (0, vec![]));
    }
}

#[test]
fn a_record_comes_in_any_pieces() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    for lengths in
        [&[0][..], &[1], &[4], &[3, 1, 5, 2], &[0, 0, 7, 0], &[1; 60], &[40, 40], &[1_000]]
    {
        let ops = [client.sequence(0).op(), putrootfh(), getfh()];
        let xid = client.connection.xid();
        let record = Head::compound(&client.cred).record(xid, &compound(1, &ops));
        assert!(client.connection.send_fragments(&record, lengths));
        assert_eq!(client.finish(xid).ok().last().handle(), root, "{lengths:?}");
    }
}

#[test]
fn a_record_comes_byte_by_byte_and_two_come_at_once() {
    let served = Served::new();
    let mut client = served.client("a");
    let head = Head::compound(&client.cred);
    let ops = [client.sequence(0).op(), putrootfh(), getfh()];
    let xid = client.connection.xid();
    let record = head.record(xid, &compound(1, &ops));
    let mut bytes = (record.len() as u32 | 1 << 31).to_be_bytes().to_vec();
    bytes.extend(&record);
    for byte in &bytes {
        assert!(client.connection.send_raw(&[*byte]));
    }
    client.finish(xid).ok();
    let mut both = Vec::new();
    let calls = [0, 1].map(|slot| {
        let ops = [client.sequence(slot).op(), putrootfh(), getfh()];
        let xid = client.connection.xid();
        let record = head.record(xid, &compound(1, &ops));
        both.extend((record.len() as u32 | 1 << 31).to_be_bytes());
        both.extend(record);
        xid
    });
    assert!(client.connection.send_raw(&both));
    for xid in calls {
        client.finish(xid).ok();
    }
}

#[test]
fn what_was_sent_before_the_end_is_answered() {
    let served = Served::new();
    let mut client = served.client("a");
    let xid = client.start(0, &[putrootfh(), getfh()]);
    client.connection.end_sending();
    client.finish(xid).ok();
    client.connection.assert_closed();
}

#[test]
fn only_nfs_4_is_served() {
    let served = Served::new();
    let mut connection = Connection::open(served.address());
    let nfs = Head::compound(&Cred::root());
    let arguments = compound(1, &[]);
    let mut ask = |head: Head| connection.call(&head, &arguments).answer;
    for program in [0, 100_000, 100_005, 400_010, u32::MAX] {
        assert_eq!(ask(Head { program, ..nfs.clone() }), Answer::NoProgram);
    }
    for version in [0, 2, 3, 5, u32::MAX] {
        assert_eq!(ask(Head { version, ..nfs.clone() }), Answer::NoVersion(4, 4));
    }
    for procedure in [2, 3, 100, u32::MAX] {
        assert_eq!(ask(Head { procedure, ..nfs.clone() }), Answer::NoProcedure);
    }
    for rpc in [0, 1, 3] {
        assert_eq!(ask(Head { rpc, ..nfs.clone() }), Answer::NoRpcVersion(2, 2));
    }
    assert!(matches!(ask(nfs.clone()), Answer::Done(_)), "the connection lives on");
    assert_eq!(nfs.program, NFS);
}

#[test]
fn credentials_are_those_that_are_known() {
    let served = Served::new();
    let mut connection = Connection::open(served.address());
    let arguments = compound(1, &[]);
    let mut ask = |cred: Cred| connection.call(&Head::compound(&cred), &arguments).answer;
    let sys = |gids: u32| {
        let to = Writer::new().u32(0).opaque(b"host").u32(1).u32(2).u32(gids);
        (0..gids).fold(to, Writer::u32).0
    };
    assert!(matches!(ask(Cred::Raw(1, sys(16))), Answer::Done(_)), "16 groups");
    for (wrong, what) in [
        (Cred::Raw(2, vec![]), "AUTH_SHORT"),
        (Cred::Raw(3, vec![]), "AUTH_DH"),
        (Cred::Raw(6, vec![0; 20]), "RPCSEC_GSS"),
        (Cred::Raw(99, vec![]), "nobody's"),
        (Cred::Raw(1, vec![]), "AUTH_SYS of nothing"),
        (Cred::Raw(1, vec![0; 8]), "AUTH_SYS that ends too early"),
        (Cred::Raw(1, sys(17)), "17 groups"),
        (Cred::Raw(1, [sys(2), vec![0; 4]].concat()), "AUTH_SYS and more"),
        (Cred::Tls, "AUTH_TLS of a compound"),
    ] {
        match ask(wrong) {
            Answer::BadAuth(_) => {}
            // RFC 5531 bounds both: a decoder may say so instead.
            Answer::Garbage if what.starts_with("AUTH_SYS") || what == "17 groups" => {}
            other => panic!("{what}: {other:?}"),
        }
    }
    let root = bare(&mut connection, &Cred::root(), 1, &[]);
    assert_eq!(root.stat, OK, "the connection lives on");
    assert_eq!(root.results.len(), 0);
}

#[test]
fn a_reply_is_no_call() {
    let served = Served::new();
    let mut connection = Connection::open(served.address());
    // Somebody answers what nobody asked: no answer to that, or the end.
    let reply = Writer::new().u32(77).u32(1).u32(0).u32(0).u32(0).u32(0).0;
    connection.send_record(&reply);
    if connection.send_record(&Head::null(Cred::None).record(78, &[])) {
        let said = connection.next();
        assert!(said.is_none_or(|said| said.xid == 78));
    }
    assert_eq!(served.client("a").call(&[putrootfh()]).stat, codes::OK, "others go on");
}
