//! Locks of programs of the mount and of NFS clients are in one table.

use std::fs::{File, OpenOptions};

use rustix::fs::{FlockOperation, fcntl_lock};

use crate::both::Both;
use crate::common::codes::{DENIED, OK, lock};
use crate::common::ops::{self, Locker, Open, close, lockt, locku};

const ALL: ops::Range = (0, u64::MAX);

fn open(both: &Both) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(both.path("file")).expect("opens")
}

#[test]
fn what_the_mount_locks_nfs_cannot_and_the_other_way_round() {
    let Some(both) = Both::new() else { return };
    let own = open(&both);
    let mut client = both.client("a");
    let root = client.root();
    let (file, opened) = client.open(&root, &Open::both("file")).expect("opens");
    let locker = Locker::New(opened.id, b"owner");
    let taking = ops::lock(lock::WRITE, false, ALL, &locker);
    fcntl_lock(&own, FlockOperation::NonBlockingLockExclusive).expect("locks");
    assert_eq!(client.at(&file, taking.clone()).stat, DENIED);
    fcntl_lock(&own, FlockOperation::NonBlockingUnlock).expect("lets go");
    let taken = client.at(&file, taking);
    assert_eq!(taken.stat, OK);
    let refused = fcntl_lock(&own, FlockOperation::NonBlockingLockExclusive).unwrap_err();
    assert!([rustix::io::Errno::AGAIN, rustix::io::Errno::ACCESS].contains(&refused));
    assert_eq!(client.stat(&file, locku(taken.state(), ALL)), OK);
    fcntl_lock(&own, FlockOperation::NonBlockingLockExclusive).expect("locks");
    assert_eq!(client.stat(&file, lockt(lock::READ, ALL, b"owner")), DENIED);
    // Another descriptor of the process that is closed lets go of it.
    drop(open(&both));
    assert_eq!(client.stat(&file, lockt(lock::WRITE, ALL, b"owner")), OK);
    assert_eq!(client.stat(&file, close(opened.id)), OK);
}

#[test]
fn a_program_that_waits_has_the_lock_when_a_client_lets_go() {
    let Some(both) = Both::new() else { return };
    let own = open(&both);
    let mut client = both.client("a");
    let root = client.root();
    let (file, opened) = client.open(&root, &Open::both("file")).expect("opens");
    let locker = Locker::New(opened.id, b"owner");
    let taken = client.at(&file, ops::lock(lock::WRITE, false, ALL, &locker));
    assert_eq!(taken.stat, OK);
    let (has, had) = std::sync::mpsc::channel();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            fcntl_lock(&own, FlockOperation::LockExclusive).expect("locks");
            has.send(()).expect("somebody waits");
        });
        let soon = std::time::Duration::from_millis(100);
        assert!(had.recv_timeout(soon).is_err(), "it has what a client has");
        assert_eq!(client.stat(&file, locku(taken.state(), ALL)), OK);
        had.recv_timeout(std::time::Duration::from_secs(30)).expect("it has it");
    });
}
