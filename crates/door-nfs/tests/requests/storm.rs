//! Several clients at once, each in a thread of its own.

use std::net::SocketAddr;
use std::thread;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::common::client::Client;
use crate::common::codes::{
    DELAY, DENIED, EXIST, INVAL, ISDIR, NOENT, NOTDIR, NOTEMPTY, OK, PERM, SHARE_DENIED, STALE,
    Stat, lock, share, stable,
};
use crate::common::ops::{self, Locker, Open, Range, close, link, mkdir, remove, rename};
use crate::common::{Served, assert_any, seed};

const ALL: Range = (0, u64::MAX);

/// Runs this in so many threads, each with its number.
fn together(count: u64, one: impl Fn(u64) + Clone + Send + 'static) {
    let threads: Vec<_> = (0..count)
        .map(|at| {
            let one = one.clone();
            thread::spawn(move || one(at))
        })
        .collect();
    for thread in threads {
        thread.join().expect("a thread that does not fail");
    }
}

/// Adds one to a number in a file, under a lock, so many times.
fn count(address: SocketAddr, name: &str, times: u64) {
    let mut client = Client::new(address, name);
    let root = client.root();
    let (file, opened) = client.open(&root, &Open::both("counter")).expect("opens");
    let mut state = None;
    for _ in 0..times {
        let taken = loop {
            let locker = state.map_or(Locker::New(opened.id, b"counter"), Locker::Known);
            let res = client.at(&file, ops::lock(lock::WRITE, false, ALL, &locker));
            match res.stat {
                OK => break res.state(),
                other => assert_any(other, &[DENIED, DELAY]),
            }
        };
        let (bytes, _) = client.read(&file, taken, 0, 8).expect("reads");
        let number = u64::from_be_bytes(bytes.try_into().expect("eight bytes")) + 1;
        let bytes = number.to_be_bytes();
        client.write(&file, taken, 0, stable::UNSTABLE, &bytes).expect("writes");
        let free = client.at(&file, ops::locku(taken, ALL));
        assert_eq!(free.stat, OK);
        state = Some(free.state());
    }
    assert_eq!(client.stat(&file, close(opened.id)), OK);
}

#[test]
fn a_number_under_a_lock_loses_no_step() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let file = client.file(&root, "counter", &[0; 8]);
    let address = served.address();
    together(4, move |at| count(address, &format!("counter {at}"), 50));
    assert_eq!(client.content(&file), 200u64.to_be_bytes());
    assert_eq!(served.world.engine().held_locks().len(), 0);
}

#[test]
fn one_of_many_who_deny_each_other_has_it() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let file = client.file(&root, "file", &[0; 8]);
    let address = served.address();
    together(4, move |at| {
        let mut client = Client::new(address, &format!("denier {at}"));
        let root = client.root();
        for _ in 0..25 {
            let open = Open::both("file").deny(share::BOTH);
            let (file, opened) = loop {
                match client.open(&root, &open) {
                    Ok(done) => break done,
                    Err(stat) => assert_any(stat, &[SHARE_DENIED, DELAY]),
                }
            };
            let (bytes, _) = client.read(&file, opened.id, 0, 8).expect("reads");
            let number = u64::from_be_bytes(bytes.try_into().expect("eight bytes")) + 1;
            let bytes = number.to_be_bytes();
            client.write(&file, opened.id, 0, stable::UNSTABLE, &bytes).expect("writes");
            assert_eq!(client.stat(&file, close(opened.id)), OK);
        }
    });
    assert_eq!(client.content(&file), 100u64.to_be_bytes());
}

/// What may come of an operation on names that others change at the same time.
const EXPECTED: &[Stat] = &[OK, NOENT, EXIST, NOTDIR, ISDIR, NOTEMPTY, INVAL, STALE, DELAY, PERM];

/// One client's share of a storm.
fn rage(address: SocketAddr, at: u64, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed.wrapping_add(at));
    let mut client = Client::new(address, &format!("storm {at}"));
    let root = client.root();
    let mut dirs = vec![root];
    for _ in 0..150 {
        let [one, two] = [0, 1].map(|_| format!("n{}", random.random_range(0..4)));
        let [dir, to] = [0, 1].map(|_| dirs[random.random_range(0..dirs.len())].clone());
        let stat = match random.random_range(0..7) {
            0 => client.stat(&dir, mkdir(&one, 0o755)),
            1 => client.stat(&dir, remove(&one)),
            2 => client.between(&dir, &to, rename(&one, &two)).stat,
            3 => match client.lookup(&dir, &one) {
                Ok(found) => client.between(&found, &to, link(&two)).stat,
                Err(stat) => stat,
            },
            4 => match client.lookup(&dir, &one) {
                Ok(found) => {
                    dirs.push(found);
                    OK
                }
                Err(stat) => stat,
            },
            _ => match client.open(&dir, &Open::making(&one)) {
                Ok((file, opened)) => {
                    let bytes = [at as u8; 5_000];
                    client.write(&file, opened.id, 0, stable::UNSTABLE, &bytes).expect("writes");
                    client.stat(&file, close(opened.id))
                }
                Err(stat) => stat,
            },
        };
        // Files are looked into too, and links of directories asked for.
        assert_any(stat, EXPECTED);
        dirs.truncate(4);
    }
}

#[test]
fn a_storm_of_names_leaves_a_volume_that_is_whole() {
    let mut served = Served::new();
    let (address, seed) = (served.address(), seed());
    together(4, move |at| rage(address, at, seed));
    let mut client = served.client("after");
    let root = client.root();
    for name in client.names(&root) {
        client.lookup(&root, &name).expect("what is listed is there");
    }
    served.stop();
    served.world.unmount().expect("unmounts");
    served.world.fsck();
}
