//! The server's surroundings fail while clients work: the bucket does not answer, or the tier is full. Nobody is told
//! that bytes are safe which are not, nobody gets an error that passes, and all of it goes on by itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_door_nfs::NfsOptions;
use weir_engine::testing::{World, settings};
use weir_object::testing::Gate;
use weir_types::{Bytes, Settings};

use crate::common::client::Client;
use crate::common::codes::{DELAY, GRACE, NOSPC, OK, Stat, stable};
use crate::common::ops::{self, Open, StateId, commit};
use crate::common::{Served, noise};

/// How long anything may take that goes on by itself.
const SOON: Duration = Duration::from_secs(60);
/// Bytes of one request.
const PIECE: usize = 1 << 18;

/// A server over a bucket that can be made not to answer, and that nobody waits for long.
fn served(settings: Settings) -> (Served, Gate) {
    let gate = Gate::default();
    let of = gate.clone();
    let settings = Settings { bucket_timeout_ms: 500, ..settings };
    let world = World::with(settings, Some(Arc::new(move |store| Arc::new(of.store(store)))));
    let short = |options: &mut NfsOptions| options.lease_ms = 1_000;
    (Served::over(world, short), gate)
}

/// Asks again as clients do, for as long as it is told to.
fn until_served(served: &Served, mut ask: impl FnMut() -> Stat) -> Stat {
    let began = Instant::now();
    loop {
        match ask() {
            DELAY | GRACE if began.elapsed() < SOON => served.wait(50),
            stat => return stat,
        }
    }
}

fn write(client: &mut Client, file: &[u8], id: StateId, at: u64, bytes: &[u8]) -> Stat {
    client.write(file, id, at, stable::UNSTABLE, bytes).map_or_else(|stat| stat, |_| OK)
}

fn read(client: &mut Client, file: &[u8]) -> Stat {
    client.read(file, StateId::ANONYMOUS, 0, PIECE as u32).map_or_else(|stat| stat, |_| OK)
}

#[test]
fn a_bucket_that_is_away_holds_up_commits_alone_and_nothing_is_lost() {
    let (mut served, gate) = served(settings());
    let mut client = served.client("a");
    let root = client.root();
    let (file, id) = client.make(&root, "file");
    let bytes = noise(1, 4 * PIECE);
    gate.shut();
    for (piece, at) in bytes.chunks(PIECE).zip(0u64..) {
        let at = at * PIECE as u64;
        assert_eq!(write(&mut client, &file, id, at, piece), OK, "the tier takes it");
    }
    assert!(client.content(&file) == bytes, "what is here is read without the bucket");
    // Who commits waits for the bucket, and holds up nobody else of this client.
    let waits = client.start(1, &[ops::putfh(&file), commit(0, 0)]);
    served.wait(2_000);
    assert!(client.content(&file) == bytes);
    assert_eq!(write(&mut client, &file, id, 4 * PIECE as u64, b"more"), OK);
    gate.open();
    assert_eq!(client.finish(waits).stat, OK, "the bucket is back");
    assert_eq!(until_served(&served, || client.stat(&file, commit(0, 0))), OK);
    // What was committed outlives the machine.
    drop(client);
    served.lose_machine();
    let mut client = served.client("b");
    let root = client.root();
    let file = client.lookup(&root, "file").expect("its name is there");
    assert_eq!(until_served(&served, || read(&mut client, &file)), OK);
    let all = [&bytes[..], b"more"].concat();
    assert!(client.content(&file) == all, "a COMMIT was answered, and its bytes are gone");
}

#[test]
fn who_reads_what_is_in_a_bucket_that_is_away_is_told_to_ask_again() {
    let (mut served, gate) = served(settings());
    let mut client = served.client("a");
    let root = client.root();
    let bytes = noise(2, PIECE);
    let file = client.file(&root, "file", &bytes);
    assert_eq!(client.stat(&file, commit(0, 0)), OK);
    drop(client);
    served.lose_machine();
    let mut client = served.client("b");
    let root = client.root();
    let file = client.lookup(&root, "file").expect("its name is there");
    // A server that has just come waits for those who were there, and a bucket that is away makes that longer.
    let made = until_served(&served, || {
        client.open(&root, &Open::making("other")).map_or_else(|stat| stat, |_| OK)
    });
    assert_eq!(made, OK);
    gate.shut();
    assert_eq!(read(&mut client, &file), DELAY);
    gate.open();
    assert_eq!(until_served(&served, || read(&mut client, &file)), OK);
    assert!(client.content(&file) == bytes);
}

#[test]
fn a_full_tier_says_so_and_takes_more_once_the_bucket_has_some() {
    // The least that there can be.
    let (served, gate) = served(Settings { tier_bytes: Bytes::mib(64), ..settings() });
    let mut client = served.client("a");
    let root = client.root();
    let (file, id) = client.make(&root, "file");
    let piece = |n: u64| noise(n, PIECE);
    let at = |n: u64| n * PIECE as u64;
    gate.shut();
    let mut written = 0;
    let refused = loop {
        match write(&mut client, &file, id, at(written), &piece(written)) {
            OK => written += 1,
            stat => break stat,
        }
        assert!(at(written) < 128 << 20, "a tier of 64 MiB took twice that");
    };
    assert!([NOSPC, DELAY].contains(&refused), "{refused:?}");
    assert!(at(written) >= 8 << 20, "only {written} pieces found room");
    gate.open();
    let all = written + 64;
    while written < all {
        let data = piece(written);
        let stat = until_served(&served, || {
            match write(&mut client, &file, id, at(written), &data) {
                // A program is told that there is no room; this one asks again.
                NOSPC => DELAY,
                stat => stat,
            }
        });
        assert_eq!(stat, OK, "piece {written}");
        written += 1;
    }
    assert_eq!(until_served(&served, || client.stat(&file, commit(0, 0))), OK);
    for n in 0..all {
        let stat = until_served(&served, || {
            match client.read(&file, StateId::ANONYMOUS, at(n), PIECE as u32) {
                Ok((bytes, _)) => {
                    assert!(bytes == piece(n), "piece {n} is not what was written");
                    OK
                }
                Err(stat) => stat,
            }
        });
        assert_eq!(stat, OK);
    }
    assert_eq!(client.stat(&file, ops::close(id)), OK);
}
