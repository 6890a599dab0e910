//! A restart of the server: the grace period, and who may claim what (8.4.2).

use crate::common::Served;
use crate::common::assert_any;
use crate::common::client::{Client, FIRST_LIFE};
use crate::common::codes::{
    BADSESSION, DELAY, DENIED, GRACE, NO_GRACE, OK, RECLAIM_BAD, RECLAIM_CONFLICT, SHARE_DENIED,
    STALE_CLIENTID, Stat, lock, share, stable, status,
};
use crate::common::ops::{
    self, Claim, Locker, Open, Range, StateId, close, mkdir, putrootfh, remove, rename,
};
use crate::common::ops_session::{destroy_clientid, destroy_session, reclaim_complete};
use crate::common::rpc::Connection;

const LEASE_MS: u64 = 2_000;
const ALL: Range = (0, u64::MAX);
const REFUSED: &[Stat] = &[NO_GRACE, RECLAIM_BAD, RECLAIM_CONFLICT];

fn served() -> Served {
    Served::with(|options| options.lease_ms = LEASE_MS)
}

/// A client that has a file open, all of it denied and locked.
fn holder(served: &Served, name: &str, file: &str) -> (Client, Vec<u8>) {
    let mut client = served.client(name);
    let root = client.root();
    let open = Open::making(file).deny(share::WRITE);
    let (file, opened) = client.open(&root, &open).expect("opens");
    let locker = Locker::New(opened.id, b"owner");
    assert_eq!(client.stat(&file, ops::lock(lock::WRITE, false, ALL, &locker)), OK);
    (client, file)
}

/// The same client at the server's next life.
fn again(served: &Served, name: &str) -> Client {
    Client::before_reclaim(served.address(), name, FIRST_LIFE)
}

fn reclaim(client: &mut Client, file: &[u8]) -> Result<StateId, Stat> {
    let previous = Open::new(share::BOTH, "").deny(share::WRITE).claim(Claim::Previous);
    client.open(file, &previous).map(|(_, opened)| opened.id)
}

fn relock(served: &Served, client: &mut Client, file: &[u8], open: StateId) -> Stat {
    let locker = Locker::New(open, b"owner");
    for _ in 0..100 {
        match client.stat(file, ops::lock(lock::WRITE, true, ALL, &locker)) {
            DELAY => served.wait(50),
            done => return done,
        }
    }
    DELAY
}

fn complete(client: &mut Client) {
    client.call(&[reclaim_complete(false)]).ok();
}

/// Opens it when the grace period has ended.
fn open_after_grace(served: &Served, client: &mut Client, open: &Open) -> Result<StateId, Stat> {
    let root = client.root();
    for _ in 0..LEASE_MS / 50 {
        match client.open(&root, open) {
            Err(GRACE) => served.wait(100),
            done => return done.map(|(_, opened)| opened.id),
        }
    }
    Err(GRACE)
}

#[test]
fn a_server_that_knows_nobody_has_no_grace_period() {
    let mut served = served();
    served.restart();
    let mut client = served.client("a");
    let root = client.root();
    client.open(&root, &Open::making("file")).expect("opens at once");
    let file = client.lookup(&root, "file").expect("is there");
    assert_any(reclaim(&mut client, &file).unwrap_err(), REFUSED);
}

#[test]
fn a_client_claims_what_it_held_and_others_wait() {
    claimed(false);
}

#[test]
fn a_client_claims_what_it_held_after_a_kill_too() {
    claimed(true);
}

/// Through a restart, or a kill.
fn claimed(kill: bool) {
    let mut served = served();
    let (mut client, file) = holder(&served, "a", "file");
    if kill {
        served.kill()
    } else {
        served.restart()
    }
    client.connection = Connection::open(served.address());
    assert_any(client.call(&[putrootfh()]).stat, &[BADSESSION, STALE_CLIENTID]);
    let mut client = again(&served, "a");
    let mut other = served.client("b");
    let root = other.root();
    assert_eq!(other.open(&root, &Open::making("new")).expect_err("refused"), GRACE);
    assert_eq!(other.open(&root, &Open::read("file")).expect_err("refused"), GRACE);
    let id = reclaim(&mut client, &file).expect("claims its open");
    assert_eq!(relock(&served, &mut client, &file, id), OK);
    complete(&mut client);
    assert_any(reclaim(&mut client, &file).expect_err("refused"), &[NO_GRACE]);
    client.write(&file, id, 0, stable::UNSTABLE, b"goes on").expect("writes");
    let denied = open_after_grace(&served, &mut other, &Open::both("file"));
    assert_eq!(denied.expect_err("refused"), SHARE_DENIED, "as before");
    let theirs = open_after_grace(&served, &mut other, &Open::read("file")).expect("reads");
    let locker = Locker::New(theirs, b"owner");
    let res = other.at(&file, ops::lock(lock::READ, false, ALL, &locker));
    assert_eq!(res.stat, DENIED);
}

#[test]
fn who_has_something_to_claim_is_told_so_until_it_has() {
    let mut served = served();
    holder(&served, "a", "file");
    served.restart();
    let mut client = again(&served, "a");
    let flags = client.call_with_flags().expect("a session");
    assert_ne!(flags & status::RESTART_RECLAIM_NEEDED, 0, "18.46.3: {flags:#x}");
    complete(&mut client);
    let flags = client.call_with_flags().expect("a session");
    assert_eq!(flags & status::RESTART_RECLAIM_NEEDED, 0, "{flags:#x}");
}

#[test]
fn only_who_held_something_claims_anything() {
    let mut served = served();
    let (_, file) = holder(&served, "a", "file");
    served.restart();
    let mut stranger = again(&served, "stranger");
    assert_any(reclaim(&mut stranger, &file).unwrap_err(), REFUSED);
    complete(&mut stranger);
    assert_any(reclaim(&mut stranger, &file).unwrap_err(), REFUSED);
    let mut client = again(&served, "a");
    reclaim(&mut client, &file).expect("nobody took it");
    complete(&mut client);
    assert_any(reclaim(&mut client, &file).unwrap_err(), &[NO_GRACE]);
}

#[test]
fn nobody_waits_for_a_client_that_restarted_too_and_says_so() {
    let mut served = served();
    holder(&served, "a", "file");
    served.restart();
    let mut client = Client::before_reclaim(served.address(), "a", [9; 8]);
    let root = client.root();
    assert_eq!(client.open(&root, &Open::both("file")).unwrap_err(), GRACE);
    complete(&mut client);
    served.client("b").open(&root, &Open::both("file")).expect("nobody has it");
}

#[test]
fn what_was_given_to_another_is_not_claimed_after_a_restart() {
    let mut served = Served::with(|options| options.lease_ms = 1_000);
    let (_, file) = holder(&served, "silent", "file");
    let mut other = served.client("other");
    let root = other.root();
    let mut taken = Err(SHARE_DENIED);
    for _ in 0..40 {
        taken = other.open(&root, &Open::both("file")).map(|(_, opened)| opened.id);
        if taken.is_ok() {
            break;
        }
        served.wait(250);
    }
    let id = taken.expect("a lease later");
    assert_eq!(other.stat(&file, close(id)), OK);
    served.restart();
    let mut silent = again(&served, "silent");
    assert_any(reclaim(&mut silent, &file).unwrap_err(), REFUSED);
}

#[test]
fn the_grace_period_ends_when_all_have_claimed_or_time_is_over() {
    let mut served = served();
    let (_, one) = holder(&served, "a", "one");
    let (_, two) = holder(&served, "b", "two");
    served.restart();
    let mut a = again(&served, "a");
    reclaim(&mut a, &one).expect("claims");
    complete(&mut a);
    let mut new = served.client("new");
    let root = new.root();
    // The other one is not back yet.
    assert_eq!(new.open(&root, &Open::making("three")).unwrap_err(), GRACE);
    let mut b = again(&served, "b");
    reclaim(&mut b, &two).expect("claims");
    complete(&mut b);
    new.open(&root, &Open::making("three")).expect("all are done");
    // Now one of the two does not come back: after a while the others go on.
    served.restart();
    let mut a = again(&served, "a");
    reclaim(&mut a, &one).expect("claims");
    complete(&mut a);
    let mut new = served.client("new");
    open_after_grace(&served, &mut new, &Open::both("two")).expect("time is over");
    let mut late = again(&served, "b");
    assert_any(reclaim(&mut late, &two).unwrap_err(), REFUSED);
}

#[test]
fn what_holds_nothing_works_in_a_grace_period() {
    let mut served = served();
    let (_, file) = holder(&served, "a", "file");
    served.restart();
    let mut other = served.client("b");
    let root = other.root();
    assert_eq!(other.stat(&root, mkdir("dir", 0o755)), OK);
    other.lookup(&root, "file").expect("looks up");
    other.size(&file);
    // A server may let these wait: it cannot know yet what is denied.
    let read = other.read(&file, StateId::ANONYMOUS, 0, 1).err().unwrap_or(OK);
    assert_any(read, &[OK, GRACE]);
    assert_any(other.stat(&root, remove("dir")), &[OK, GRACE]);
    let opened = other.open(&root, &Open::making("new")).map(|_| ());
    assert_eq!(opened.unwrap_err(), GRACE);
    assert_any(other.between(&root, &root, rename("file", "f")).stat, &[OK, GRACE]);
    let locker = Locker::New(StateId { seqid: 1, other: [1; 12] }, b"x");
    assert_ne!(other.stat(&file, ops::lock(lock::READ, false, ALL, &locker)), OK);
}

#[test]
fn state_that_ended_before_the_restart_delays_nobody() {
    let mut served = served();
    let (mut client, _) = holder(&served, "a", "file");
    let session = client.session.id;
    client.call(&[destroy_session(&session)]).ok();
    // What it held keeps the client busy until it restarts or its lease ends.
    let mut restarted = Client::before_reclaim(served.address(), "a", [2; 8]);
    complete(&mut restarted);
    let id = restarted.id;
    let session = restarted.session.id;
    restarted.bare(&[destroy_session(&session)]).ok();
    restarted.bare(&[destroy_clientid(id)]).ok();
    served.restart();
    let mut new = served.client("new");
    let root = new.root();
    new.open(&root, &Open::both("file")).expect("nobody is waited for");
}

#[test]
fn many_restarts_in_a_row_lose_nobody() {
    let mut served = served();
    let (mut client, file) = holder(&served, "a", "file");
    for round in 0..4 {
        if round % 2 == 0 {
            served.restart()
        } else {
            served.kill()
        }
        client = again(&served, "a");
        let id = reclaim(&mut client, &file).expect("claims");
        // It goes down again before the client is done, every other time.
        if round < 2 {
            assert_eq!(relock(&served, &mut client, &file, id), OK);
            complete(&mut client);
        }
    }
    complete(&mut client);
    let mut other = served.client("b");
    let denied = open_after_grace(&served, &mut other, &Open::both("file"));
    assert_eq!(denied.unwrap_err(), SHARE_DENIED);
}
