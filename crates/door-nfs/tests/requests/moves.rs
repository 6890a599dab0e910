//! A client whose server ends for good, and who claims what it had at another server of the volume: for a case that
//! ends the first of the two in `WEIR_NFS` when the file `WEIR_HELD` is there.
#![allow(clippy::disallowed_methods, reason = "it waits for real servers")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use crate::common::client::{Client, FIRST_LIFE};
use crate::common::codes::{DELAY, DENIED, NO_GRACE, OK, RECLAIM_BAD, Stat, lock, share, stable};
use crate::common::ops::{self, Claim, Handle, Locker, Open, Range, StateId, commit};
use crate::common::ops_session::reclaim_complete;
use crate::common::rpc::Connection;
use crate::goes_on::servers;

const HELD: Range = (100, 100);
const PAUSE: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again what is to be asked again, for as long as a client may have to wait.
fn at_last(mut ask: impl FnMut() -> Stat) -> Stat {
    let began = Instant::now();
    loop {
        match ask() {
            DELAY if began.elapsed() < PATIENCE => sleep(PAUSE),
            answer => return answer,
        }
    }
}

fn claimed(client: &mut Client, file: &Handle) -> StateId {
    let previous = Open::new(share::BOTH, "").claim(Claim::Previous);
    client.open(file, &previous).expect("claims what it had open").1.id
}

/// Wants the lock at the other server all the time, and counts how often it has it.
fn rival(file: Handle, stop: Arc<AtomicBool>, tried: Arc<AtomicU64>) -> u64 {
    let mut client = Client::new(servers()[1], &format!("rival {}", std::process::id()));
    let root = client.root();
    let (_, opened) = client.open(&root, &Open::both("moves")).expect("opens");
    let mut had = 0;
    while !stop.load(Ordering::Acquire) {
        let locker = Locker::New(opened.id, b"rival");
        let taken = client.at(&file, ops::lock(lock::WRITE, false, (150, 1), &locker));
        tried.fetch_add(1, Ordering::AcqRel);
        match taken.stat {
            OK => {
                had += 1;
                assert_eq!(client.stat(&file, ops::locku(taken.state(), HELD)), OK);
            }
            DENIED | DELAY => {}
            other => panic!("the rival is answered {other:?}"),
        }
        sleep(PAUSE);
    }
    had
}

#[test]
#[ignore = "a case runs it beside two servers of one volume, of which it ends one"]
fn what_a_client_held_it_claims_at_another_server() {
    let name = format!("moves {}", std::process::id());
    let mut client = Client::new(servers()[0], &name);
    let root = client.root();
    let (file, opened) = client.open(&root, &Open::making("moves")).expect("opens");
    let locker = Locker::New(opened.id, b"owner");
    assert_eq!(client.stat(&file, ops::lock(lock::WRITE, false, HELD, &locker)), OK);
    client.write(&file, opened.id, 100, stable::UNSTABLE, b"under the lock").expect("writes");
    assert_eq!(client.stat(&file, commit(0, 0)), OK);

    let (stop, tried) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let rival = {
        let (file, stop, tried) = (file.clone(), stop.clone(), tried.clone());
        spawn(move || rival(file, stop, tried))
    };
    let tries = |more: u64| {
        let until = tried.load(Ordering::Acquire) + more;
        let began = Instant::now();
        while tried.load(Ordering::Acquire) < until {
            assert!(began.elapsed() < PATIENCE && !rival.is_finished(), "the rival is stuck");
            sleep(PAUSE);
        }
    };
    tries(2);
    let held = PathBuf::from(std::env::var_os("WEIR_HELD").expect("WEIR_HELD=FILE"));
    std::fs::write(&held, b"").expect("writes");
    let began = Instant::now();
    while Connection::open_within(servers()[0], PAUSE).is_some() {
        assert!(began.elapsed() < PATIENCE, "the case does not end the server");
        sleep(PAUSE);
    }

    let began = Instant::now();
    let mut stranger = Client::before_reclaim(servers()[1], &format!("not {name}"), FIRST_LIFE);
    let previous = Open::new(share::BOTH, "").claim(Claim::Previous);
    assert_eq!(stranger.open(&file, &previous).expect_err("had nothing"), NO_GRACE);
    let mut client = Client::before_reclaim(servers()[1], &name, FIRST_LIFE);
    let id = claimed(&mut client, &file);
    let locker = Locker::New(id, b"owner");
    let more = ops::lock(lock::WRITE, true, (100, 101), &locker);
    assert_eq!(at_last(|| client.stat(&file, more.clone())), RECLAIM_BAD, "it did not have that");
    let same = ops::lock(lock::WRITE, true, HELD, &locker);
    let mut state = None;
    let taken = at_last(|| {
        let taken = client.at(&file, same.clone());
        state = (taken.stat == OK).then(|| taken.state());
        taken.stat
    });
    assert_eq!(taken, OK, "it had that");
    eprintln!("claimed after {:?}", began.elapsed());
    client.call(&[reclaim_complete(false)]).ok();
    assert_eq!(client.stat(&file, same), NO_GRACE, "it said that it has all");
    let (bytes, _) = client.read(&file, id, 100, 14).expect("reads");
    assert_eq!(bytes, b"under the lock");
    tries(20);
    assert_eq!(client.stat(&file, ops::locku(state.expect("a lock"), HELD)), OK);
    tries(3);
    stop.store(true, Ordering::Release);
    let had = rival.join().expect("the rival ends");
    assert!((1..=5).contains(&had), "the rival had it {had} times, which is free at the end only");
}

#[test]
#[ignore = "a case runs it beside two servers of one volume, whose lease is 10 s"]
fn what_a_silent_client_held_at_another_server_is_free_after_a_lease() {
    let name = format!("silent {}", std::process::id());
    let mut client = Client::new(servers()[0], &name);
    let root = client.root();
    let (file, opened) = client.open(&root, &Open::making("silent")).expect("opens");
    let locker = Locker::New(opened.id, b"owner");
    assert_eq!(client.stat(&file, ops::lock(lock::WRITE, false, HELD, &locker)), OK);
    drop(client);
    let began = Instant::now();

    let mut other = Client::new(servers()[1], &format!("not {name}"));
    let (_, theirs) = other.open(&root, &Open::both("silent")).expect("opens");
    let theirs = ops::lock(lock::WRITE, false, HELD, &Locker::New(theirs.id, b"other"));
    assert_eq!(other.stat(&file, theirs.clone()), DENIED);

    // Its server lives, so that it cannot have the lock here; it hears so once that one has given it up.
    let mut client = Client::before_reclaim(servers()[1], &name, FIRST_LIFE);
    let id = claimed(&mut client, &file);
    let same = ops::lock(lock::WRITE, true, HELD, &Locker::New(id, b"owner"));
    assert_eq!(at_last(|| client.stat(&file, same.clone())), NO_GRACE);
    let after = began.elapsed();
    assert_eq!(other.stat(&file, theirs), OK);
    eprintln!("free after {after:?}");
    assert!(after > Duration::from_secs(9) && after < Duration::from_secs(30), "{after:?}");
}
