//! Commits of the metadata that fail after their segment was sent.

#![allow(clippy::disallowed_methods, reason = "the collector runs by the real clock here")]

mod common;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use common::{WRITE, World, create, noise, read_all, settings};
use weir_object::{Component, RequestKind};
use weir_types::{Ino, Settings};

/// Held by each test: a fail point is the whole process's.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock()
}

/// While this lives no commit is taken.
struct NoCommits;

impl NoCommits {
    fn begin() -> Self {
        fail::cfg("engine::commit-log", "return").expect("a fail point");
        Self
    }

    /// But for the next one.
    fn after_one() -> Self {
        fail::cfg("engine::commit-log", "1*off->return").expect("a fail point");
        Self
    }
}

impl Drop for NoCommits {
    fn drop(&mut self) {
        fail::remove("engine::commit-log");
    }
}

fn segments_sent(world: &World) -> u64 {
    let snapshot = world.engine().meter().snapshot();
    snapshot.row(Component::Data, RequestKind::Put).map_or(0, |row| row.requests)
}

/// The object of the one segment that there is.
fn only_segment(world: &World) -> PathBuf {
    let entries = |dir: PathBuf| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut all = entries(world.path("bucket/seg")).flat_map(|entry| entries(entry.path()));
    let first = all.next().expect("there is one").path();
    assert!(all.next().is_none(), "there is only one");
    first
}

fn write(world: &World, ino: Ino, offset: u64, bytes: &[u8]) {
    world.run(async {
        let engine = world.engine();
        let file = engine.open(ino, WRITE).await.expect("opens");
        engine.write(&file, offset, bytes).await.expect("writes");
        engine.close(file).await.expect("closes");
    });
}

fn content(world: &World, name: &str) -> Vec<u8> {
    let engine = world.engine();
    let inode = world.run(engine.lookup(Ino::ROOT, name.as_bytes())).expect("is there");
    world.run(read_all(&engine, inode.ino)).expect("reads")
}

#[test]
fn what_was_sent_is_not_sent_again_because_its_commit_failed() {
    let _alone = alone();
    let mut world = World::new();
    let bytes = noise(1, 300_000);
    let a = world.run(create(&world.engine(), "a", &bytes));
    let b = world.run(create(&world.engine(), "b", &bytes[..9_000]));
    let commits = NoCommits::begin();
    for _ in 0..5 {
        world.run(world.engine().fsync(a)).expect_err("no commit is taken");
        world.run(world.engine().flush_all()).expect_err("no commit is taken");
    }
    assert_eq!(segments_sent(&world), 1, "one object for the first try, and none for the others");
    write(&world, a, 50_000, b"newer");
    drop(commits);
    world.run(world.engine().fsync(a)).expect("syncs");
    world.run(world.engine().fsync(b)).expect("syncs");
    assert_eq!(segments_sent(&world), 3, "the newer bytes, and the other file");
    world.lose_machine();
    world.mount().expect("mounts");
    let mut newer = bytes.clone();
    newer[50_000..50_005].copy_from_slice(b"newer");
    assert_eq!(content(&world, "a"), newer);
    assert_eq!(content(&world, "b"), bytes[..9_000]);
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn a_truncation_voids_what_waits_for_its_commit() {
    let _alone = alone();
    let mut world = World::new();
    let bytes = noise(2, 200_000);
    let a = world.run(create(&world.engine(), "a", &bytes));
    world.run(create(&world.engine(), "b", &bytes));
    let commits = NoCommits::begin();
    world.run(world.engine().flush_all()).expect_err("no commit is taken");
    drop(commits);
    world.run(world.engine().truncate(a, 10)).expect("truncates");
    write(&world, a, 30, b"behind");
    world.run(world.engine().flush_all()).expect("flushes");
    world.lose_machine();
    world.mount().expect("mounts");
    let expected = [&bytes[..10], &[0; 20], b"behind"].concat();
    assert_eq!(content(&world, "a"), expected);
    assert_eq!(content(&world, "b"), bytes);
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn what_waits_for_its_commit_survives_a_kill_and_a_failed_unmount() {
    let _alone = alone();
    let mut world = World::new();
    let bytes = noise(3, 200_000);
    world.run(create(&world.engine(), "a", &bytes));
    let commits = NoCommits::begin();
    world.run(world.engine().flush_all()).expect_err("no commit is taken");
    world.kill();
    drop(commits);
    world.mount().expect("mounts");
    assert_eq!(content(&world, "a"), bytes);
    let commits = NoCommits::begin();
    world.unmount().expect_err("no commit is taken");
    drop(commits);
    world.mount().expect("mounts");
    assert_eq!(content(&world, "a"), bytes);
    world.unmount().expect("unmounts");
    world.fsck();
}

/// What was sent holds older bytes than the journal by then, and voids them there when it is named.
#[test]
fn an_fsync_beside_what_waits_for_its_commit_is_durable_without_the_tier() {
    let _alone = alone();
    let quiet = Settings { flush_age_ms: 600_000, ..settings() };
    let mut world = World::with(quiet, None);
    world.unmount().expect("unmounts");
    world.options.journal = Some(world.path("journal"));
    world.mount().expect("mounts");
    let large = noise(5, 2 << 20);
    let a = world.run(create(&world.engine(), "a", &noise(4, 100_000)));
    let c = world.run(create(&world.engine(), "c", &large));
    let d = world.run(create(&world.engine(), "d", b""));
    let commits = NoCommits::begin();
    world.run(world.engine().flush_all()).expect_err("no commit is taken");
    drop(commits);
    write(&world, a, 0, &noise(6, 100_000));
    world.run(world.engine().fsync(a)).expect("syncs");
    // A copy that shares extents flushes both its files, and no other.
    let copied = world.run(world.engine().copy_range((c, 0), (d, 0), 2 << 20, 0));
    assert_eq!(copied.expect("copies"), 2 << 20);
    world.lose_machine();
    world.mount().expect("mounts");
    assert_eq!(content(&world, "a"), noise(6, 100_000), "the newest that was fsynced");
    world.unmount().expect("unmounts");
    world.fsck();
}

/// Not what is written here and there, which is likely to be written again.
#[test]
fn a_file_that_is_written_in_one_go_leaves_while_it_is_written() {
    let _alone = alone();
    let flush_start_bytes = weir_types::Bytes::mib(32);
    let quiet = Settings { flush_age_ms: 600_000, flush_start_bytes, ..settings() };
    let mut world = World::with(quiet, None);
    let (here_and_there, in_one_go) = (16 << 20, noise(8, 16 << 20));
    let scattered = world.run(create(&world.engine(), "scattered", b""));
    for at in (0..here_and_there).step_by(32 << 10) {
        write(&world, scattered, 2 * at, &in_one_go[at as usize..][..32 << 10]);
    }
    let ino = world.run(create(&world.engine(), "in one go", b""));
    let dirty = || world.run(world.engine().status()).expect("status").tier.dirty_bytes;
    assert_eq!(dirty(), here_and_there, "stays");
    for (at, piece) in in_one_go.chunks(1 << 20).enumerate() {
        write(&world, ino, (at as u64) << 20, piece);
    }
    let end = Instant::now() + Duration::from_secs(20);
    while dirty() != here_and_there {
        assert!(Instant::now() < end, "{} bytes are dirty", dirty());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(content(&world, "in one go") == in_one_go);
    world.unmount().expect("unmounts");
    world.fsck();
}

/// So many files take two commits; only the first is taken, and what that named goes again.
#[test]
fn a_segment_of_which_a_part_waits_for_its_commit_is_not_collected() {
    let _alone = alone();
    let eager =
        Settings { collect_interval_s: 1, collect_grace_s: 0, flush_age_ms: 600_000, ..settings() };
    let mut world = World::with(eager, None);
    let engine = world.engine();
    let name = |n: u64| format!("f{n}");
    world.run(create(&engine, "dead", b"gone soon"));
    world.run(engine.flush_all()).expect("flushes");
    let dead = only_segment(&world);
    let files: Vec<_> =
        (0..2_010).map(|n| world.run(create(&engine, &name(n), &noise(n, 100)))).collect();
    let commits = NoCommits::after_one();
    world.run(engine.flush_all()).expect_err("the second commit is not taken");
    drop(commits);
    assert_eq!(segments_sent(&world), 2, "in one segment");
    let waits = |ino: &Ino| world.run(engine.getattr(*ino)).expect("stat").data.generation == 0;
    let named = files.iter().position(waits).expect("some wait");
    assert!(named > 1_000, "{named}");
    (0..named as u64).for_each(|n| {
        world.run(engine.unlink(Ino::ROOT, name(n).as_bytes())).expect("unlinks");
    });
    world.run(engine.unlink(Ino::ROOT, b"dead")).expect("unlinks");
    // Whoever took that one looked at the other, too.
    let began = Instant::now();
    while dead.exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is collected");
        std::thread::sleep(Duration::from_millis(50));
    }
    world.run(engine.flush_all()).expect("flushes");
    drop(engine);
    world.unmount().expect("unmounts");
    world.fsck();
    world.lose_machine_after_unmount();
    world.mount().expect("mounts");
    (named as u64..2_010).for_each(|n| assert_eq!(content(&world, &name(n)), noise(n, 100)));
}
