//! The local disk below tier, redo log and journal fails: nothing wrong is served or flushed, no
//! acknowledged `fsync` is lost, and the volume mounts again.

mod common;
#[path = "disk_faults/lab.rs"]
mod lab;

use std::path::PathBuf;

use common::{WRITE, World, create, noise, read_all};
use weir_tier::disk::Op;
use weir_tier::disk::testing::{Fault, Plan, pretend_instance};
use weir_types::{ErrorKind, Ino};

fn content(world: &World, name: &str) -> weir_types::Result<Vec<u8>> {
    let ino = world.run(world.engine().lookup(Ino::ROOT, name.as_bytes()))?.ino;
    world.run(read_all(&world.engine(), ino))
}

fn aside_files(world: &World) -> u64 {
    let status = world.run(world.engine().status()).expect("status");
    status.mount.set_aside.map_or(0, |aside| aside.files)
}

/// Where the mirror files are.
fn mirrors(world: &World) -> PathBuf {
    let volume = std::fs::read_dir(world.path("tier")).expect("lists").next().expect("a volume");
    volume.expect("lists").path().join("mirror")
}

fn with_journal() -> World {
    let mut world = World::new();
    world.unmount().expect("unmounts");
    world.options.journal = Some(world.path("journal"));
    world.mount().expect("mounts");
    world
}

#[test]
fn bytes_that_the_disk_lost_are_never_flushed_and_say_so() {
    for journal in [false, true] {
        let mut world = if journal { with_journal() } else { World::new() };
        let (old, new) = (noise(1, 100_000), noise(2, 100_000));
        let ino = world.run(create(&world.engine(), "a", &old));
        let other = world.run(create(&world.engine(), "b", &old));
        world.run(world.engine().fsync(ino)).expect("syncs");
        let laid = Plan::lay(&mirrors(&world), 1, Fault::Lost, Some(Op::Write));
        world.run(async {
            let engine = world.engine();
            let file = engine.open(ino, WRITE).await.expect("opens");
            engine.write(&file, 0, &new).await.expect("is taken");
            engine.close(file).await.expect("closes");
        });
        assert!(laid.hit().is_some());
        let error = world.run(world.engine().fsync(ino)).expect_err("lost");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        drop(laid);
        world.run(world.engine().fsync(ino)).expect_err("still lost");
        content(&world, "a").expect_err("zeros are not what was written");
        world.run(world.engine().fsync(other)).expect("others go on");
        let error = world.unmount().expect_err("not all of it left");
        assert!(error.to_string().contains(&format!("inodes {ino};")), "{error}");

        world.mount().expect("mounts");
        assert_eq!(aside_files(&world), 1);
        assert!(content(&world, "a").expect("reads") == old, "what was fsynced");
        assert!(content(&world, "b").expect("reads") == old);
        world.unmount().expect("unmounts");
        world.fsck();
    }
}

#[test]
fn a_file_of_which_bytes_were_lost_can_be_written_anew() {
    let mut world = World::new();
    let laid = Plan::lay(&mirrors(&world), 1, Fault::Lost, Some(Op::Write));
    let ino = world.run(create(&world.engine(), "a", &noise(1, 50_000)));
    assert!(laid.hit().is_some());
    world.run(world.engine().fsync(ino)).expect_err("lost");
    world.run(world.engine().truncate(ino, 0)).expect("cuts");
    let new = noise(2, 70_000);
    world.run(async {
        let engine = world.engine();
        let file = engine.open(ino, WRITE).await.expect("opens");
        engine.write(&file, 0, &new).await.expect("writes");
        engine.close(file).await.expect("closes");
        engine.fsync(ino).await.expect("syncs");
    });
    drop(laid);
    world.unmount().expect("unmounts");
    world.fsck();
    world.lose_machine_after_unmount();
    world.mount().expect("mounts");
    assert!(content(&world, "a").expect("reads") == new);
}

#[test]
fn after_a_new_mount_of_the_tiers_file_system_dirty_files_are_set_aside() {
    for journal in [false, true] {
        let mut world = if journal { with_journal() } else { World::new() };
        let (synced, later) = (noise(3, 200_000), noise(4, 200_000));
        let ino = world.run(create(&world.engine(), "synced", &synced));
        world.run(world.engine().fsync(ino)).expect("syncs");
        world.run(async {
            let engine = world.engine();
            let file = engine.open(ino, WRITE).await.expect("opens");
            engine.write(&file, 0, &later).await.expect("writes");
            engine.close(file).await.expect("closes");
        });
        world.run(create(&world.engine(), "never synced", &later));
        world.kill();
        pretend_instance(&world.path("tier"), "mounted anew");
        world.mount().expect("mounts");
        assert_eq!(aside_files(&world), 2);
        assert!(content(&world, "synced").expect("reads") == synced, "journal {journal}");
        let never = content(&world, "never synced");
        assert!(never.is_ok_and(|bytes| bytes.is_empty()), "not a byte in doubt");
        world.unmount().expect("unmounts");
        world.fsck();
    }
}
