//! Exactly once: requests that come again are answered as before, and not done again (2.10.6).

use crate::common::Served;
use crate::common::assert_any;
use crate::common::client::compound;
use crate::common::codes::{
    DELAY, EXIST, NOENT, OK, RETRY_UNCACHED_REP, SEQ_FALSE_RETRY, attr, stable,
};
use crate::common::ops::{Open, StateId, getattr, mkdir, putfh, putrootfh, read, remove, write};
use crate::common::ops_session::Sequence;
use crate::common::replies::Reply;
use crate::common::rpc::Head;

#[test]
fn a_retry_is_answered_from_the_cache_and_done_once() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let create = client.sequence(0);
    let ops = [putfh(&root), mkdir("dir", 0o755), getattr(&[attr::FILEID, attr::CHANGE])];
    let first = client.call_with(&create, &ops).ok();
    let change = client.sequence(1);
    let before = client.call_with(&change, &[putfh(&root), getattr(&[attr::CHANGE])]).ok();
    for _ in 0..3 {
        assert_eq!(client.call_with(&create, &ops), first);
    }
    let change = client.sequence(1);
    let after = client.call_with(&change, &[putfh(&root), getattr(&[attr::CHANGE])]).ok();
    assert_eq!(before.last().attrs(), after.last().attrs(), "the directory did not change");
    let removal = client.sequence(0);
    let ops = [putfh(&root), remove("dir")];
    let removed = client.call_with(&removal, &ops).ok();
    let other = client.sequence(1);
    client.call_with(&other, &[putfh(&root), mkdir("dir", 0o755)]).ok();
    assert_eq!(client.call_with(&removal, &ops), removed);
    client.lookup(&root, "dir").expect("the second one is not removed by a retry");
}

#[test]
fn a_failure_is_cached_too() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let sequence = client.sequence(0);
    let ops = [putfh(&root), remove("file")];
    let failed = client.call_with(&sequence, &ops);
    assert_eq!(failed.stat, NOENT);
    let other = client.sequence(1);
    client.call_with(&other, &[putfh(&root), Open::making("file").op()]).ok();
    assert_eq!(client.call_with(&sequence, &ops), failed);
    client.lookup(&root, "file").expect("is there");
}

#[test]
fn a_retry_on_another_connection_is_answered_there() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let sequence = client.sequence(0);
    let ops = [putfh(&root), mkdir("dir", 0o755)];
    // The connection ends before the reply is read.
    client.send_with(&sequence, &ops);
    client.connection = client.connect();
    let mut reply = client.call_with(&sequence, &ops);
    for _ in 0..100 {
        if reply.stat != DELAY {
            break;
        }
        served.wait(50);
        reply = client.call_with(&sequence, &ops);
    }
    reply.ok();
    assert_eq!(client.names(&root), ["dir"]);
}

#[test]
fn two_of_one_request_at_once_are_done_once() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let (file, id) = client.make(&root, "file");
    for round in 0..20 {
        let sequence = client.sequence(0);
        let name = format!("dir{round}");
        let ops = [putfh(&file), write(id, 0, stable::FILE_SYNC, b"x"), putfh(&root)];
        let ops = [&ops[..], &[mkdir(&name, 0o755)]].concat();
        let calls = [client.send_with(&sequence, &ops), client.send_with(&sequence, &ops)];
        let replies = calls.map(|xid| client.finish(xid));
        assert!(replies.iter().any(|reply| reply.stat == OK), "{replies:?}");
        for reply in replies {
            assert_any(reply.stat, &[OK, DELAY]);
        }
    }
    assert_eq!(client.names(&root).len(), 21);
}

#[test]
fn another_request_under_an_old_number_is_not_done() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let sequence = client.sequence(0);
    let first = client.call_with(&sequence, &[putfh(&root), mkdir("one", 0o755)]).ok();
    let false_retry = client.call_with(&sequence, &[putfh(&root), mkdir("two", 0o755)]);
    assert!(false_retry.stat == SEQ_FALSE_RETRY || false_retry == first, "{false_retry:?}");
    assert_eq!(client.names(&root), ["one"]);
    client.call(&[putrootfh()]).ok();
}

#[test]
fn what_was_not_to_be_cached_is_not_done_again_either() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let sequence = Sequence { cache: false, ..client.sequence(0) };
    let ops = [putfh(&root), mkdir("dir", 0o755)];
    let first = client.call_with(&sequence, &ops).ok();
    let again = client.call_with(&sequence, &ops);
    assert!(again.stat == RETRY_UNCACHED_REP || again == first, "2.10.6.1.3: {again:?}");
    assert_ne!(again.stat, EXIST);
    client.call(&[putrootfh()]).ok();
}

#[test]
fn large_replies_are_not_kept_where_nobody_asked() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let file = client.file(&root, "file", &[7; 100_000]);
    let ops = [putfh(&file), read(StateId::ANONYMOUS, 0, 100_000)];
    let sequence = Sequence { cache: false, ..client.sequence(0) };
    let first = client.call_with(&sequence, &ops).ok();
    let again = client.call_with(&sequence, &ops);
    assert!(again.stat == RETRY_UNCACHED_REP || again == first, "{:?}", again.stat);
}

#[test]
fn an_open_that_is_retried_opens_once() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let sequence = client.sequence(0);
    let ops = [putfh(&root), Open::making("file").op()];
    let first = client.call_with(&sequence, &ops).ok();
    assert_eq!(client.call_with(&sequence, &ops), first, "and not with a seqid of 2");
    let id = first.last().opened().id;
    assert_eq!(id.seqid, 1);
}

#[test]
fn the_cache_is_of_a_slot_in_a_session() {
    let served = Served::new();
    let mut client = served.client("a");
    let mut other = served.client("b");
    let root = client.root();
    other.root();
    let ops = [putfh(&root), mkdir("dir", 0o755)];
    let sequence = client.sequence(0);
    client.call_with(&sequence, &ops).ok();
    let theirs = Sequence { session: other.session.id, ..other.sequence(0) };
    assert_eq!(other.call_with(&theirs, &ops).stat, EXIST, "done, not answered by the cache of a");
    // A session of one client under the number of another's connection is that client's.
    let head = Head::compound(&client.cred);
    let ops = [&[sequence.op()], &ops[..]].concat();
    let said = other.connection.call(&head, &compound(1, &ops));
    let reply: Reply = crate::common::client::reply(said.answer);
    assert_eq!(reply.stat, OK, "the retry of a through a connection of b");
}
