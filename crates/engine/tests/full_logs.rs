//! The disk of a log is full for a moment, while the bucket is away or is not.

mod common;

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use common::{WRITE, World, create, noise, read_all, settings};
use weir_engine::Wrap;
use weir_object::testing::{FaultControl, FaultPlan, FaultStore};
use weir_tier::disk::Op;
use weir_tier::disk::testing::{Fault, Laid, Plan};
use weir_types::{ErrorKind, Ino, Settings};

/// A journaled world, and what makes its bucket go away.
fn world() -> (World, Vec<FaultControl>) {
    let controls: Arc<Mutex<Vec<FaultControl>>> = Arc::default();
    let made = controls.clone();
    let wrap: Wrap = Arc::new(move |store| {
        let store = FaultStore::new(store, &FaultPlan::default());
        made.lock().push(store.control());
        Arc::new(store)
    });
    let quiet = Settings {
        flush_age_ms: 600_000,
        meta_flush_ms: 600_000,
        bucket_timeout_ms: 1_000,
        ..settings()
    };
    let mut world = World::with(quiet, Some(wrap));
    world.unmount().expect("unmounts");
    world.options.journal = Some(world.path("journal"));
    world.mount().expect("mounts");
    let controls = controls.lock().clone();
    (world, controls)
}

fn away(controls: &[FaultControl], away: bool) {
    controls.iter().for_each(|control| control.set_vanished(away));
}

/// The next write below `directory` finds its disk full.
fn full(directory: PathBuf) -> Laid {
    Plan::lay(&directory, 1, Fault::Fail(libc::ENOSPC), Some(Op::Write))
}

fn content(world: &World, name: &str) -> Vec<u8> {
    let engine = world.engine();
    let inode = world.run(engine.lookup(Ino::ROOT, name.as_bytes())).expect("is there");
    world.run(read_all(&engine, inode.ino)).expect("reads")
}

fn write(world: &World, ino: Ino, offset: u64, bytes: &[u8]) {
    world.run(async {
        let engine = world.engine();
        let file = engine.open(ino, WRITE).await.expect("opens");
        engine.write(&file, offset, bytes).await.expect("writes");
        engine.close(file).await.expect("closes");
    });
}

/// The bucket is back, and whoever tries it anew now and then finds out.
fn synced_soon(world: &World, ino: Ino) {
    let mut last = None;
    for _ in 0..30 {
        match world.run(world.engine().fsync(ino)) {
            Ok(()) => return,
            Err(error) => last = Some(error),
        }
    }
    panic!("the bucket is back: {last:?}");
}

/// The tier is gone, the journal is not.
fn lose_tier(world: &mut World) {
    world.kill();
    world.lose_tier();
    world.mount().expect("mounts");
}

#[test]
fn a_truncation_that_neither_log_nor_bucket_took_voids_what_the_journal_has() {
    let (mut world, controls) = world();
    let old = noise(1, 50_000);
    let a = world.run(create(&world.engine(), "a", &old));
    world.run(world.engine().fsync(a)).expect("in the journal");
    let laid = full(world.path("journal"));
    away(&controls, true);
    world.run(world.engine().truncate(a, 10)).expect_err("nothing took it");
    assert!(laid.hit().is_some());
    drop(laid);
    away(&controls, false);
    let size = world.run(world.engine().getattr(a)).expect("stat").size;
    assert_eq!(size, 10, "the metadata took it");
    write(&world, a, 20_000, b"behind");
    synced_soon(&world, a);
    lose_tier(&mut world);
    let expected = [&old[..10], &vec![0; 19_990][..], b"behind"].concat();
    assert!(content(&world, "a") == expected, "cut bytes came back");
    world.unmount().expect("unmounts");
    world.fsck();
}

/// A commit that is seen and that nothing has: what is fsynced after it must not be acknowledged by
/// the journal alone, which would replay it without.
#[test]
fn an_fsync_behind_a_commit_that_no_log_has_waits_for_the_bucket() {
    let (mut world, controls) = world();
    let a = world.run(create(&world.engine(), "a", b"old"));
    world.run(world.engine().fsync(a)).expect("in the journal");
    let laid = full(world.path("journal"));
    away(&controls, true);
    let mode = weir_engine::SetAttr { mode: Some(0o600), ..weir_engine::SetAttr::default() };
    let changed = world.run(world.engine().setattr(a, mode));
    assert!(laid.hit().is_some());
    drop(laid);
    let seen = world.run(world.engine().getattr(a)).expect("stat").mode & 0o777;
    write(&world, a, 0, b"new");
    let synced = world.run(world.engine().fsync(a));
    away(&controls, false);
    if seen == 0o600 && synced.is_ok() {
        lose_tier(&mut world);
        let inode = world.run(world.engine().lookup(Ino::ROOT, b"a")).expect("is there");
        assert_eq!(inode.mode & 0o777, 0o600, "acknowledged: {changed:?}");
    }
    synced_soon(&world, a);
    lose_tier(&mut world);
    let inode = world.run(world.engine().lookup(Ino::ROOT, b"a")).expect("is there");
    assert_eq!(inode.mode & 0o777, seen);
    assert_eq!(content(&world, "a"), b"new");
}

#[test]
fn a_flush_that_the_tier_could_not_note_is_not_committed_twice() {
    let (mut world, _) = world();
    let bytes = noise(2, 200_000);
    let a = world.run(create(&world.engine(), "a", &bytes));
    let generation = || world.run(world.engine().getattr(a)).expect("stat").data.generation;
    let before = generation();
    let volume = std::fs::read_dir(world.path("tier")).expect("lists").next().expect("a volume");
    let laid = full(volume.expect("lists").path().join("residency"));
    let error = world.run(world.engine().flush_all()).expect_err("not noted");
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(laid.hit().is_some());
    drop(laid);
    world.run(world.engine().flush_all()).expect("flushes");
    assert_eq!(generation(), before + 1, "one commit named its bytes");
    assert!(content(&world, "a") == bytes);
    world.unmount().expect("unmounts");
    world.fsck();
    world.lose_machine_after_unmount();
    world.mount().expect("mounts");
    assert!(content(&world, "a") == bytes);
}
