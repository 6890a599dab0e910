//! Segments that nothing uses any more go, half-dead ones are written anew, and no byte changes.

#![allow(clippy::disallowed_methods, reason = "the collector runs by the real clock here")]

mod common;

use std::time::{Duration, Instant};

use common::{WRITE, World, create, noise, read_all, settings};
use weir_types::{Ino, Settings};

fn objects(world: &World) -> (usize, u64) {
    let mut found = (0, 0);
    let mut directories = vec![world.path("bucket/seg")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.metadata().expect("stat") {
                m if m.is_dir() => directories.push(entry.path()),
                m => found = (found.0 + 1, found.1 + m.len()),
            }
        }
    }
    found
}

/// Looks until `done`, as long as the collector may reasonably take.
fn wait_until(world: &World, what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: {:?}", objects(world));
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn eager() -> Settings {
    Settings { collect_interval_s: 1, collect_grace_s: 0, ..settings() }
}

#[test]
fn dead_segments_go_and_sparse_ones_are_packed() {
    let mut world = World::with(eager(), None);
    let files: Vec<_> = (0..12).map(|i| noise(i, 1 << 20)).collect();
    let inos: Vec<_> =
        (0..12).map(|i| world.run(create(&world.engine(), &format!("f{i}"), &files[i]))).collect();
    let copy = world.run(create(&world.engine(), "copy", b""));
    world.run(async {
        let engine = world.engine();
        engine.flush_all().await.expect("flushes");
        let copied = engine.copy_range((inos[0], 0), (copy, 0), 1 << 20, 0).await.expect("copies");
        assert_eq!(copied, 1 << 20);
        // Two of three segments have one file of four left, the first one just half by the copy.
        for i in (0..12).filter(|i| i % 4 != 1) {
            engine.unlink(Ino::ROOT, format!("f{i}").as_bytes()).await.expect("unlinks");
        }
        engine.flush_all().await.expect("flushes");
    });
    wait_until(&world, "sparse segments stay", || objects(&world).1 < 7 << 20);
    world.run(world.engine().release_all()).expect("releases");
    for i in [1, 5, 9] {
        assert!(world.run(read_all(&world.engine(), inos[i])).expect("reads") == files[i]);
    }
    assert!(world.run(read_all(&world.engine(), copy)).expect("reads") == files[0], "shared");
    world.run(async {
        let engine = world.engine();
        for name in ["f1", "f5", "f9", "copy"] {
            engine.unlink(Ino::ROOT, name.as_bytes()).await.expect("unlinks");
        }
    });
    wait_until(&world, "dead segments stay", || objects(&world).0 == 0);
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn objects_without_a_name_are_found_by_listing() {
    let mut world = World::with(eager(), None);
    let ino = world.run(create(&world.engine(), "kept", &noise(1, 500_000)));
    world.run(world.engine().fsync(ino)).expect("syncs");
    let stray = weir_types::SegmentId::new(1_000_000, 77);
    let path = world.path("bucket").join(stray.object_key());
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("makes");
    std::fs::write(&path, b"a crash came after the PUT").expect("writes");
    wait_until(&world, "the stray object stays", || !path.exists());
    assert_eq!(objects(&world).0, 1, "the named one stays");
    world.unmount().expect("unmounts");
    world.fsck();
}

fn collected(world: &World) -> u64 {
    world.run(world.engine().status()).expect("status").since_mount.segments_collected
}

#[test]
fn collecting_and_writing_at_once_changes_no_byte() {
    let mut world = World::with(Settings { flush_age_ms: 100, ..eager() }, None);
    let mut content = noise(3, 6 << 20);
    let ino = world.run(create(&world.engine(), "busy", &content));
    let began = Instant::now();
    let mut round = 0;
    // Overwrites make segments sparse while the collector moves what is left of them.
    while began.elapsed() < Duration::from_secs(8) || collected(&world) == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is collected");
        round += 1;
        let at = (round * 700_001) % (5 << 20);
        let bytes = noise(round as u64, 300_000);
        content[at..at + bytes.len()].copy_from_slice(&bytes);
        world.run(async {
            let engine = world.engine();
            let file = engine.open(ino, WRITE).await.expect("opens");
            engine.write(&file, at as u64, &bytes).await.expect("writes");
            engine.close(file).await.expect("closes");
            engine.fsync(ino).await.expect("syncs");
            if round % 5 == 0 {
                engine.release_all().await.expect("releases");
            }
        });
        assert!(world.run(read_all(&world.engine(), ino)).expect("reads") == content);
    }
    world.unmount().expect("unmounts");
    world.fsck();
}
