//! What somebody else does between two steps of an operation. Fail points hold the first one.
#![cfg(feature = "failpoints")]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use common::{WRITE, World, create, noise, read_all};
use fail::FailScenario;
use weir_engine::{Engine, QuotaChange, QuotaSubject};
use weir_types::{ErrorKind, Ino};

/// Runs `work`, and `meanwhile` when it first comes by the fail point.
fn between<W: Future>(
    world: &World,
    point: &str,
    work: W,
    meanwhile: impl Future<Output = ()> + Send,
) -> W::Output {
    let scenario = FailScenario::setup();
    let (reached, wait) = mpsc::channel();
    let (release, done) = mpsc::channel();
    let done = parking_lot::Mutex::new(done);
    let first = AtomicBool::new(true);
    fail::cfg_callback(point, move || {
        if first.swap(false, Ordering::AcqRel) {
            reached.send(()).expect("somebody waits");
            done.lock().recv().expect("it ends");
        }
    })
    .expect("a fail point");
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            wait.recv().expect("comes by the fail point");
            world.run(meanwhile);
            release.send(()).expect("it waits");
        });
        world.run(work)
    });
    scenario.teardown();
    output
}

/// Lets a file grow to so many bytes, which are not flushed.
async fn grow(engine: &Arc<Engine>, ino: Ino, to: usize) {
    let file = engine.open(ino, WRITE).await.expect("opens");
    engine.write(&file, to as u64 - 4096, &noise(to as u64, 4096)).await.expect("writes");
    engine.close(file).await.expect("closes");
}

#[test]
fn a_flush_beside_a_look_at_the_attributes_never_shows_the_size_of_before() {
    let mut world = World::new();
    let engine = world.engine();
    let ino = world.run(create(&engine, "a", &noise(1, 4096)));
    world.run(engine.flush_all()).expect("flushes");
    for turn in 1..=4_usize {
        let size = (turn + 1) * 4096;
        world.run(grow(&engine, ino, size));
        let before = world.run(engine.getattr(ino)).expect("is there");
        let look = async {
            match turn {
                1 => engine.getattr(ino).await,
                2 => engine.lookup(Ino::ROOT, b"a").await,
                3 => {
                    let listed = engine.readdir_plus(Ino::ROOT, 0, 10).await;
                    listed.map(|entries| entries[0].inode.clone())
                }
                _ => engine.link(ino, Ino::ROOT, b"b").await,
            }
        };
        let flush = async { engine.flush_all().await.expect("flushes") };
        let seen = between(&world, "engine::inode-read", look, flush).expect("is there");
        assert_eq!((seen.ino, seen.size), (ino, size as u64), "turn {turn}");
        assert!(seen.mtime >= before.mtime, "turn {turn}");
    }
    drop(engine);
    world.unmount().expect("unmounts");
}

#[test]
fn a_copy_says_how_much_of_a_source_that_is_cut_meanwhile_it_copied() {
    let mut world = World::new();
    let engine = world.engine();
    for (n, len, cut) in [(0, 100_000, 10_000), (1, 3 << 20, (2 << 20) + 5), (2, 3 << 20, 0)] {
        let bytes = noise(n, len);
        let from = world.run(create(&engine, &format!("from{n}"), &bytes));
        let to = world.run(create(&engine, &format!("to{n}"), b""));
        let copy = engine.copy_range((from, 0), (to, 0), len as u64, 0);
        let shrink = async { drop(engine.truncate(from, cut as u64).await.expect("cuts")) };
        let copied = between(&world, "engine::copy-measured", copy, shrink).expect("copies");
        assert_eq!(copied, cut as u64);
        assert!(world.run(read_all(&engine, to)).expect("reads") == bytes[..cut]);
    }
    drop(engine);
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn what_a_quota_let_in_counts_while_it_is_on_its_way() {
    let mut world = World::new();
    let engine = world.engine();
    let content = noise(1, 100_000);
    let from = world.run(create(&engine, "from", &content));
    let to = world.run(create(&engine, "to", b""));
    let other = world.run(create(&engine, "other", b""));
    let subject = QuotaSubject::Directory(Ino::ROOT.0);
    let change = QuotaChange { bytes_max: Some(250_000), files_max: None };
    world.run(engine.set_quota(subject, change)).expect("sets");
    let listed = || world.run(engine.quotas()).expect("lists");
    while listed().iter().any(|quota| quota.counting.is_some()) {
        std::thread::yield_now();
    }
    let write = async {
        // A look, which finds nothing of the copy.
        engine.quotas().await.expect("lists");
        let file = engine.open(other, WRITE).await.expect("opens");
        let refused = engine.write(&file, 0, &content).await.expect_err("three do not fit");
        assert_eq!(refused.kind(), ErrorKind::Quota, "{refused}");
        engine.close(file).await.expect("closes");
    };
    let copy = engine.copy_range((from, 0), (to, 0), content.len() as u64, 0);
    let copied = between(&world, "engine::copy-measured", copy, write).expect("copies");
    assert_eq!(copied, content.len() as u64);
    drop(engine);
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn nobody_is_told_of_a_size_that_a_lent_file_does_not_have_yet() {
    let mut world = World::new();
    let ino = world.run(create(&world.engine(), "a", &noise(1, 300_000)));
    let engine = world.engine();
    let (file, lent) = world.run(async {
        engine.fsync(ino).await.expect("syncs");
        let file = engine.open(ino, WRITE).await.expect("opens");
        let lent = file.passthrough().expect("lends").expect("all of it is here").file;
        (file, lent)
    });
    let size_told = async || engine.getattr(ino).await.expect("attributes").size;
    let mapped_bytes = || lent.metadata().expect("a mirror file").len();
    let told_in_time = async || {
        let told = size_told().await;
        assert!(told <= mapped_bytes(), "{told} bytes are told, {} can be mapped", mapped_bytes());
    };
    let grown =
        between(&world, "engine::truncate-committed", engine.truncate(ino, 1 << 20), async {
            told_in_time().await;
        });
    grown.expect("grows");
    world.run(async {
        assert_eq!((size_told().await, mapped_bytes()), (1 << 20, 1 << 20));
        file.end_passthrough(0).expect("takes back");
        engine.close(file).await.expect("closes");
    });
    drop(engine);
    world.unmount().expect("unmounts");
    world.fsck();
}
