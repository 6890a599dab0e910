//! Leases: a client that is silent loses what is in another's way, and keeps the rest.

use crate::common::client::Client;
use crate::common::codes::{
    BAD_STATEID, BADSESSION, DENIED, EXPIRED, OK, SHARE_DENIED, STALE_CLIENTID, Stat, lock, share,
    stable, status,
};
use crate::common::ops::{self, Locker, Open, Range, StateId, close, putrootfh};
use crate::common::ops_session::{free_stateid, test_stateid};
use crate::common::{Served, assert_any};

const LEASE_MS: u64 = 1_000;
const ALL: Range = (0, u64::MAX);

fn short() -> Served {
    Served::with(|options| options.lease_ms = LEASE_MS)
}

/// Waits for leases to run out, while others keep theirs.
fn wait(served: &Served, leases: u64, others: &mut [&mut Client]) {
    for _ in 0..leases * 5 {
        served.wait(LEASE_MS / 5);
        for other in others.iter_mut() {
            other.call(&[putrootfh()]).ok();
        }
    }
}

/// Tries until it works, for some leases; the last failure.
fn until<T>(served: &Served, mut one: impl FnMut() -> Result<T, Stat>) -> Result<T, Stat> {
    for _ in 0..40 {
        if let Ok(done) = one() {
            return Ok(done);
        }
        served.wait(LEASE_MS / 4);
    }
    one()
}

#[test]
fn another_gets_what_a_silent_client_denied() {
    let served = short();
    let mut silent = served.client("silent");
    let mut other = served.client("other");
    let root = silent.root();
    let (file, opened) =
        silent.open(&root, &Open::making("file").deny(share::BOTH)).expect("opens");
    assert_eq!(other.open(&root, &Open::both("file")).unwrap_err(), SHARE_DENIED);
    let got = until(&served, || other.open(&root, &Open::both("file")));
    let (_, theirs) = got.expect("a lease later");
    other.write(&file, theirs.id, 0, stable::UNSTABLE, b"other").expect("writes");
    // It comes back: its state is gone, and it is told so.
    let reply = silent.call_with_flags();
    let gone = &[EXPIRED, BAD_STATEID];
    match reply {
        Ok(flags) => {
            let told = flags & (status::EXPIRED_ALL | status::EXPIRED_SOME);
            assert_ne!(told, 0, "8.4.3: {flags:#x}");
            let written = silent.write(&file, opened.id, 0, stable::UNSTABLE, b"mine");
            assert_any(written.unwrap_err(), gone);
            let tested = silent.call(&[test_stateid(&[opened.id])]).ok().last().tested();
            assert_any(tested[0], gone);
            assert_any(silent.call(&[free_stateid(opened.id)]).stat, &[OK, BAD_STATEID]);
            let flags = silent.call_with_flags().expect("goes on");
            assert_eq!(
                flags & (status::EXPIRED_ALL | status::EXPIRED_SOME),
                0,
                "freed: {flags:#x}"
            );
        }
        Err(stat) => assert_any(stat, &[BADSESSION, STALE_CLIENTID]),
    }
    assert_eq!(other.content(&file), b"other");
}

#[test]
fn another_gets_what_a_silent_client_locked() {
    let served = short();
    let mut silent = served.client("silent");
    let mut other = served.client("other");
    let root = silent.root();
    let (file, open) = silent.make(&root, "file");
    let locker = Locker::New(open, b"owner");
    assert_eq!(silent.stat(&file, ops::lock(lock::WRITE, false, ALL, &locker)), OK);
    let (_, theirs) = other.open(&root, &Open::both("file")).expect("opens");
    let mut take = || {
        let locker = Locker::New(theirs.id, b"owner");
        match other.stat(&file, ops::lock(lock::WRITE, false, ALL, &locker)) {
            OK => Ok(()),
            stat => Err(stat),
        }
    };
    assert_eq!(take().unwrap_err(), DENIED);
    until(&served, take).expect("a lease later");
}

#[test]
fn a_client_that_says_anything_keeps_its_lease() {
    let served = short();
    let mut client = served.client("a");
    let mut other = served.client("b");
    let root = client.root();
    client.open(&root, &Open::making("file").deny(share::BOTH)).expect("opens");
    for _ in 0..4 {
        // SEQUENCE alone.
        wait(&served, 1, &mut [&mut client]);
        assert_eq!(other.open(&root, &Open::read("file")).unwrap_err(), SHARE_DENIED);
    }
    let flags = client.call_with_flags().expect("goes on");
    assert_eq!(flags & (status::EXPIRED_ALL | status::EXPIRED_SOME), 0);
}

#[test]
fn a_silent_client_with_nobody_in_its_way_keeps_what_it_has() {
    let served = short();
    let mut silent = served.client("silent");
    let mut other = served.client("other");
    let root = silent.root();
    let (file, open) = silent.make(&root, "file");
    let locker = Locker::New(open, b"owner");
    let id = silent.at(&file, ops::lock(lock::WRITE, false, ALL, &locker)).state();
    wait(&served, 4, &mut [&mut other]);
    // Somebody who is not in its way.
    let (_, theirs) = other.open(&root, &Open::read("file")).expect("opens");
    assert_eq!(other.stat(&file, close(theirs.id)), OK);
    silent.write(&file, open, 0, stable::UNSTABLE, b"still").expect("writes");
    assert_eq!(silent.call(&[test_stateid(&[open, id])]).ok().last().tested(), [OK; 2]);
    assert_eq!(silent.stat(&file, ops::locku(id, ALL)), OK);
    assert_eq!(silent.stat(&file, close(open)), OK);
}

#[test]
fn a_client_whose_connection_ended_is_a_silent_one() {
    let served = short();
    let mut gone = served.client("gone");
    let root = gone.root();
    let (_, opened) = gone.open(&root, &Open::making("file").deny(share::BOTH)).expect("opens");
    let id = opened.id;
    gone.connection = gone.connect();
    gone.call(&[test_stateid(&[id])]).ok();
    drop(gone);
    let mut other = served.client("other");
    until(&served, || other.open(&root, &Open::read("file"))).expect("a lease later");
}

#[test]
fn a_client_that_never_made_a_session_is_forgotten() {
    let served = short();
    let mut other = served.client("other");
    let mut connection = other.connect();
    for at in 0..200 {
        let name = format!("ghost {at}");
        crate::common::client::exchange_id(&mut connection, &other.cred, &name, [1; 8]);
    }
    assert_eq!(served.server().clients().len(), 1, "they are no clients yet");
    wait(&served, 3, &mut [&mut other]);
    other.call(&[putrootfh()]).ok();
}

#[test]
fn bytes_of_a_silent_client_are_kept() {
    let served = short();
    let mut silent = served.client("silent");
    let mut other = served.client("other");
    let root = silent.root();
    let (file, open) = silent.make(&root, "file");
    silent.write(&file, open, 0, stable::UNSTABLE, b"said").expect("writes");
    wait(&served, 3, &mut [&mut other]);
    assert_eq!(other.read(&file, StateId::ANONYMOUS, 0, 10).expect("reads").0, b"said");
}
