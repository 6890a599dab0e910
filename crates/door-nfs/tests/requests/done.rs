//! Changes that a server made and could not answer before it ended: who asks again hears that they are done.

use crate::common::Served;
use crate::common::client::{Client, FIRST_LIFE};
use crate::common::codes::{BADSESSION, NOENT, OK, attr};
use crate::common::ops::{Op, getattr, getfh, link, mkdir, putfh, remove, rename, savefh, symlink};
use crate::common::ops_session::{Sequence, SetHow, reclaim_complete, removexattr, setxattr};
use crate::common::replies::Reply;
use crate::common::rpc::Connection;

const LEASE_MS: u64 = 500;

/// Requests that fail if they are done twice, each in a slot of its own, and what they were answered.
struct Asked {
    requests: Vec<(Sequence, Vec<Op>)>,
    answers: Vec<Reply>,
    names: Vec<String>,
}

fn ask(client: &mut Client) -> Asked {
    let root = client.root();
    for name in ["gone", "old", "file", "bare"] {
        client.file(&root, name, b"bytes");
    }
    let empty = client.mkdir(&root, "empty", 0o755);
    let file = client.lookup(&root, "file").expect("is there");
    let bare = client.lookup(&root, "bare").expect("is there");
    assert_eq!(client.stat(&bare, setxattr(SetHow::Create, "a", b"b")), OK);
    let two = [putfh(&root), savefh(), putfh(&empty)];
    let asked = vec![
        vec![putfh(&root), mkdir("dir", 0o750), getfh(), getattr(&[attr::FILEID, attr::MODE])],
        vec![putfh(&root), symlink("link", "file"), getfh()],
        vec![putfh(&root), remove("gone")],
        [&two[..], &[rename("old", "new")]].concat(),
        vec![putfh(&file), savefh(), putfh(&root), link("second"), getattr(&[attr::CHANGE])],
        vec![putfh(&file), setxattr(SetHow::Create, "a", b"b")],
        vec![putfh(&bare), removexattr("a")],
        // The first of them is done as well.
        vec![putfh(&root), remove("link"), remove("dir"), mkdir("dir", 0o700), getfh()],
    ];
    let requests: Vec<_> = (0..).map(|slot| client.sequence(slot)).zip(asked).collect();
    let answers = requests.iter().map(|(sequence, ops)| client.call_with(sequence, ops).ok());
    let answers: Vec<_> = answers.collect();
    Asked { answers, names: client.names(&root), requests }
}

fn kept(served: &Served) -> usize {
    served.world.run(served.world.engine().kept("nfs/done/")).expect("reads").len()
}

fn goes_on(end: impl FnOnce(&mut Served)) {
    let mut served = Served::with(|options| options.lease_ms = LEASE_MS);
    let mut client = served.client("a").minor2();
    let asked = ask(&mut client);
    let failing = (client.sequence(20), vec![putfh(&client.root()), remove("no such name")]);
    assert_eq!(client.call_with(&failing.0, &failing.1).stat, NOENT);
    end(&mut served);

    client.connection = Connection::open(served.address());
    let again = asked.requests.iter().zip(&asked.answers).skip(2);
    for ((sequence, ops), before) in again {
        let answer = client.call_with(sequence, ops).ok();
        assert_eq!(answer.results.len(), before.results.len());
    }
    // What the last of them removed and made again has another handle by now.
    let (sequence, ops) = asked.requests.last().expect("there are some");
    assert_eq!(client.call_with(sequence, ops).last(), asked.answers.last().expect("some").last());
    // What did nothing, and what was never asked, belongs to no session.
    assert_eq!(client.call_with(&failing.0, &failing.1).stat, BADSESSION);
    let next = client.sequence(2);
    assert_eq!(client.call_with(&next, &failing.1).stat, BADSESSION);
    let no_slot = client.sequence(50);
    assert_eq!(client.call_with(&no_slot, &failing.1).stat, BADSESSION);

    // Once the client has come, nobody asks by its old session any more.
    let before = kept(&served);
    assert!(before >= asked.requests.len(), "{before}");
    let mut client = Client::before_reclaim(served.address(), "a", FIRST_LIFE).minor2();
    client.call(&[reclaim_complete(false)]).ok();
    let root = client.root();
    assert_eq!(client.names(&root), asked.names);
    for _ in 0..400 {
        if kept(&served) == 0 {
            break;
        }
        served.wait(50);
        // It is there, and does nothing that is to be kept.
        client.root();
    }
    assert_eq!(kept(&served), 0, "rows of a session that is no more");
    let (sequence, ops) = &asked.requests[2];
    assert_eq!(client.call_with(sequence, ops).stat, BADSESSION);
}

#[test]
fn a_change_that_a_killed_server_made_is_not_made_again() {
    goes_on(Served::kill);
}

#[test]
fn nor_one_of_a_server_that_ended() {
    goes_on(Served::restart);
}

#[test]
fn nor_by_another_machine_that_has_nothing_of_the_first() {
    goes_on(Served::lose_machine);
}

#[test]
fn what_a_client_does_not_want_kept_leaves_nothing() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let sequence = Sequence { cache: false, ..client.sequence(0) };
    client.call_with(&sequence, &[putfh(&root), mkdir("dir", 0o755)]).ok();
    assert_eq!(kept(&served), 0);
    let sequence = client.sequence(1);
    client.call_with(&sequence, &[putfh(&root), mkdir("other", 0o755)]).ok();
    let sequence = client.sequence(1);
    client.call_with(&sequence, &[putfh(&root), remove("other")]).ok();
    assert_eq!(kept(&served), 1, "a row for each slot");
}
