//! Volumes that begin as another one was: what they share, and that neither changes the other.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use common::{World, create, noise, read_all, settings};
use weir_engine::testing::clock;
use weir_engine::{
    AcceptLoss, BackupProgress, CloneOptions, ClonedVolume, SnapshotOptions, clone_volume,
};
use weir_types::{ErrorKind, Ino, Result, Settings, UnixTime};

fn eager() -> Settings {
    Settings { collect_grace_s: 0, ..settings() }
}

/// All objects below a directory, with their bytes.
fn objects(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let Ok(entries) = std::fs::read_dir(directory) else { return found };
    for entry in entries {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => found.extend(objects(&path)),
            false => {
                drop(found.insert(path.display().to_string(), std::fs::read(&path).expect("reads")))
            }
        }
    }
    found
}

fn segments(world: &World, bucket: &str) -> BTreeMap<String, Vec<u8>> {
    objects(&world.path(bucket).join("seg"))
}

fn content(world: &World, name: &str) -> Result<Vec<u8>> {
    let engine = world.engine();
    let ino = world.run(engine.lookup(Ino::ROOT, name.as_bytes()))?.ino;
    world.run(read_all(&engine, ino))
}

fn keep(world: &World, name: &str) {
    let options = SnapshotOptions { name: name.to_owned(), flush: true, rule: None };
    world.run(world.engine().create_snapshot(&options)).expect("keeps");
    world.run(world.engine().hold_snapshot(name, true)).expect("holds");
}

/// Clones what the world has at hand into another directory of it.
fn cloned(world: &World, snapshot: &str, to: &str) -> Result<ClonedVolume> {
    std::fs::create_dir_all(world.path(to)).expect("a bucket");
    let options = CloneOptions {
        from: world.options.url.clone(),
        snapshot: snapshot.to_owned(),
        to: format!("file://{}", world.path(to).display()).parse().expect("a URL"),
        stripe: Vec::new(),
        metadata: None,
        keep_links: false,
        connector: world.options.connector.clone(),
        host: world.options.host.clone(),
        clock: world.options.clock.clone(),
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(clone_volume(options, &BackupProgress::default()))
}

/// Goes on with another volume, with an empty tier.
fn turn_to(world: &mut World, bucket: &str) {
    world.unmount().expect("unmounts");
    let _ = std::fs::remove_dir_all(world.path("tier"));
    world.options.url = format!("file://{}", world.path(bucket).display()).parse().expect("a URL");
    world.options.accept_loss = AcceptLoss::Nothing;
    world.mount().expect("mounts");
}

#[test]
fn a_clone_begins_as_the_snapshot_was_and_what_it_does_stays_with_it() {
    let mut world = World::opened_by(eager(), None, None);
    let (large, small) = (noise(1, 6_000_000), noise(2, 3_000));
    world.run(create(&world.engine(), "large", &large));
    world.run(create(&world.engine(), "small", &small));
    keep(&world, "monday");
    world.run(create(&world.engine(), "later", b"later"));
    world.run(world.engine().flush_all()).expect("flushes");
    let told = cloned(&world, "monday", "clone").expect("clones");
    assert!(told.segments >= 2 && told.object_bytes > 6_000_000, "{told:?}");
    assert!(segments(&world, "clone").is_empty(), "bytes were copied");
    let before = objects(&world.path("bucket"));

    turn_to(&mut world, "clone");
    let after_unmount = objects(&world.path("bucket"));
    assert_eq!(content(&world, "large").expect("reads"), large);
    assert_eq!(content(&world, "small").expect("reads"), small);
    assert_eq!(content(&world, "later").expect_err("came later").kind(), ErrorKind::NotFound);
    world.run(create(&world.engine(), "own", &large));
    let engine = world.engine();
    world.run(engine.unlink(Ino::ROOT, b"large")).expect("removes");
    world.run(engine.flush_all()).expect("flushes");
    for _ in 0..3 {
        world.run(engine.collect_now()).expect("collects");
    }
    drop(engine);
    assert!(!segments(&world, "clone").is_empty(), "its own segments are its own bucket's");
    world.unmount().expect("unmounts");
    world.fsck();
    let segments_before: Vec<_> = before.iter().filter(|(key, _)| key.contains("/seg/")).collect();
    let now = objects(&world.path("bucket"));
    assert!(now == after_unmount, "the clone changed the first volume");
    assert!(segments_before.iter().all(|(key, bytes)| now.get(*key) == Some(bytes)));

    // The first volume lets go of all it has; the snapshot keeps it for the clone.
    world.mount().expect("mounts");
    turn_to(&mut world, "bucket");
    let engine = world.engine();
    for name in [&b"large"[..], b"small", b"later"] {
        world.run(engine.unlink(Ino::ROOT, name)).expect("removes");
    }
    world.run(engine.flush_all()).expect("flushes");
    for _ in 0..3 {
        world.run(engine.collect_now()).expect("collects");
    }
    assert_eq!(
        world.run(engine.delete_snapshot("monday")).expect_err("it is held").kind(),
        ErrorKind::Permission
    );
    drop(engine);
    turn_to(&mut world, "clone");
    assert_eq!(content(&world, "small").expect("reads"), small);
    assert_eq!(content(&world, "own").expect("reads"), large);
}

#[test]
fn clones_of_clones_with_keys_and_a_clock_that_is_behind() {
    let mut world = World::by_seed(1, eager(), None);
    world.run(create(&world.engine(), "first", &noise(1, 2_000_000)));
    keep(&world, "a");
    cloned(&world, "a", "second").expect("clones");
    turn_to(&mut world, "second");
    // At once, with nothing of its own yet.
    keep(&world, "b");
    cloned(&world, "b", "third").expect("clones a clone");
    world.run(create(&world.engine(), "second", &noise(2, 2_000_000)));
    keep(&world, "c");
    cloned(&world, "c", "fourth").expect("clones a clone that has some");
    let mut behind = clock();
    behind.now = Arc::new(|| UnixTime(86_400_000_000_000));
    world.options.clock = behind;
    for (bucket, has, has_not) in [("third", "first", "second"), ("fourth", "second", "third")] {
        turn_to(&mut world, bucket);
        assert_eq!(content(&world, "first").expect("reads"), noise(1, 2_000_000));
        content(&world, has).expect("reads");
        content(&world, has_not).expect_err("is another's");
        world.run(create(&world.engine(), "own", &noise(3, 3_000_000)));
        world.run(world.engine().flush_all()).expect("flushes");
        world.unmount().expect("unmounts");
        world.fsck();
        world.mount().expect("mounts");
        turn_to(&mut world, bucket);
        assert_eq!(content(&world, "own").expect("reads"), noise(3, 3_000_000));
    }
    world.unmount().expect("unmounts");
    if world.over_postgres() {
        return;
    }
    world.options.connector.secret = None;
    assert_eq!(world.mount().expect_err("no key").kind(), ErrorKind::Permission);
}

#[test]
fn what_cannot_be_cloned_leaves_no_volume() {
    let world = World::new();
    world.run(create(&world.engine(), "a", b"a"));
    let options = SnapshotOptions { name: "free".to_owned(), flush: true, rule: None };
    world.run(world.engine().create_snapshot(&options)).expect("keeps");
    assert_eq!(
        cloned(&world, "free", "clone").expect_err("nobody holds it").kind(),
        ErrorKind::Conflict
    );
    assert_eq!(
        cloned(&world, "none", "clone").expect_err("there is none").kind(),
        ErrorKind::NotFound
    );
    world.run(world.engine().hold_snapshot("free", true)).expect("holds");
    assert!(!world.path("clone").join("volume.json").exists());
    cloned(&world, "free", "clone").expect("clones");
    assert_eq!(
        cloned(&world, "free", "clone").expect_err("there is one").kind(),
        ErrorKind::Exists
    );
    assert_eq!(cloned(&world, "free", "bucket").expect_err("itself").kind(), ErrorKind::Exists);
}
