//! Files that one node removes while another one has them open.
#![allow(clippy::disallowed_methods, reason = "nodes beat by the real clock here")]

use std::time::{Duration, Instant};

use weir_engine::testing::{WRITE, World, create, new_file, noise, read_all, settings};
use weir_engine::{Engine, OpenFlags, RenameMode};
use weir_types::{Bytes, ErrorKind, Ino, Settings};

use crate::whole::Node;

/// Longer than it takes to purge what nobody holds, and than a dead node is waited for.
const PATIENCE: Duration = Duration::from_secs(90);

/// A node that collects at once, and reads nothing ahead.
fn first_node() -> World {
    let settings = Settings {
        collect_interval_s: 1,
        collect_grace_s: 2,
        read_ahead_bytes: Bytes(0),
        ..settings()
    };
    let mut world = World::with(settings, None);
    world.unmount().expect("unmounts");
    world.options.shared = true;
    world.mount().expect("joins");
    world
}

fn objects(world: &World) -> usize {
    let mut directories = vec![world.path("bucket/seg")];
    let mut found = 0;
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type().expect("a type").is_dir() {
                true => directories.push(entry.path()),
                false => found += 1,
            }
        }
    }
    found
}

async fn lookup(engine: &Engine, name: &str) -> Ino {
    engine.lookup(Ino::ROOT, name.as_bytes()).await.expect("is there").ino
}

async fn is_there(engine: &Engine, ino: Ino) -> bool {
    match engine.getattr(ino).await {
        Ok(inode) => {
            assert_eq!(inode.nlink, 0);
            true
        }
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => panic!("{error}"),
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "it does not come: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn what_another_node_has_open_stays_until_it_is_closed() {
    let mut world = first_node();
    let (bytes, other) = (noise(1, 3 << 20), noise(2, 100_000));
    let [removed, replaced] =
        ["removed", "replaced"].map(|name| world.run(create(&world.engine(), name, &bytes)));
    world.run(create(&world.engine(), "new", &other));
    world.run(world.engine().flush_all()).expect("flushes");

    let node = Node::of(&world, "tier-b");
    let files = [("removed", WRITE), ("replaced", OpenFlags::default())].map(|(name, flags)| {
        node.run(async {
            let file = node.engine.open(lookup(&node.engine, name).await, flags).await;
            let file = file.expect("opens");
            let first = node.engine.read(&file, 0, 1_000).await.expect("reads");
            assert!(first == bytes[..1_000]);
            file
        })
    });
    world.run(async {
        let engine = world.engine();
        engine.unlink(Ino::ROOT, b"removed").await.expect("unlinks");
        let (from, to) = ((Ino::ROOT, &b"new"[..]), (Ino::ROOT, &b"replaced"[..]));
        engine.rename(from, to, RenameMode::Replace).await.expect("renames");
    });
    // Far longer than what nobody holds is there.
    std::thread::sleep(Duration::from_secs(20));
    node.run(async {
        let engine = &node.engine;
        engine.write(&files[0], 10, b"written").await.expect("writes");
        engine.flush_for_others(removed).await.expect("flushes");
        engine.append(&files[0], b"appended").await.expect("appends");
        let mut wanted = [&bytes[..], b"appended"].concat();
        wanted[10..17].copy_from_slice(b"written");
        let read = engine.read(&files[0], 0, 4 << 20).await.expect("reads");
        assert!(read == wanted, "a removed file");
        assert!(
            engine.read(&files[1], 0, 4 << 20).await.expect("reads") == bytes,
            "a replaced one"
        );
        assert!(is_there(engine, removed).await && is_there(engine, replaced).await);
        let name = lookup(engine, "replaced").await;
        assert!(name != replaced && read_all(engine, name).await.expect("reads") == other);
        for file in files {
            engine.close(file).await.expect("closes");
        }
    });
    until("their rows go", || {
        let there = async |ino| is_there(&world.engine(), ino).await;
        !world.run(there(removed)) && !world.run(there(replaced))
    });
    until("their objects go", || objects(&world) == 1);
    node.unmount();
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn what_a_dead_node_had_open_goes() {
    let mut world = first_node();
    let ino = world.run(create(&world.engine(), "a", &noise(3, 300_000)));
    let late = world.run(create(&world.engine(), "b", &noise(4, 300_000)));
    world.run(world.engine().flush_all()).expect("flushes");
    let open = |node: &Node, name: &str| {
        let engine = node.engine.clone();
        let opened = async { engine.open(lookup(&engine, name).await, WRITE).await };
        let file = node.run(opened).expect("opens");
        node.run(node.engine.write(&file, 0, b"never flushed")).expect("writes");
    };
    let node = Node::of(&world, "tier-b");
    open(&node, "a");
    world.run(world.engine().unlink(Ino::ROOT, b"a")).expect("unlinks");
    std::thread::sleep(Duration::from_secs(12));
    assert!(world.run(is_there(&world.engine(), ino)));
    node.kill();
    until("what it held goes", || !world.run(is_there(&world.engine(), ino)));

    // Another one dies, and the next mount is alone.
    let node = Node::of(&world, "tier-c");
    open(&node, "b");
    world.run(world.engine().unlink(Ino::ROOT, b"b")).expect("unlinks");
    std::thread::sleep(Duration::from_secs(4));
    node.kill();
    world.unmount().expect("unmounts");
    world.fsck();
    world.options.shared = false;
    world.mount().expect("mounts");
    assert!(!world.run(is_there(&world.engine(), late)));
    until("its objects go", || objects(&world) == 0);
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn a_file_that_was_found_just_before_it_was_removed_can_be_opened() {
    let mut world = first_node();
    let bytes = noise(5, 200_000);
    let inos = ["a", "b"].map(|name| world.run(create(&world.engine(), name, &bytes)));
    world.run(world.engine().flush_all()).expect("flushes");
    let node = Node::of(&world, "tier-b");
    let found = node.run(lookup(&node.engine, "a"));
    for name in [&b"a"[..], b"b"] {
        world.run(world.engine().unlink(Ino::ROOT, name)).expect("unlinks");
    }
    let file = node.run(node.engine.open(found, OpenFlags::default())).expect("opens");
    until("the other one goes", || !world.run(is_there(&world.engine(), inos[1])));
    std::thread::sleep(Duration::from_secs(10));
    let read = node.run(node.engine.read(&file, 0, 1 << 20)).expect("reads");
    assert!(read == bytes);
    let again = node.run(node.engine.open(found, OpenFlags::default())).expect("opens again");
    for file in [file, again] {
        node.run(node.engine.close(file)).expect("closes");
    }
    until("it goes", || !world.run(is_there(&world.engine(), found)));
    let error = node.run(node.engine.open(found, OpenFlags::default())).expect_err("it is gone");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    node.unmount();
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn many_removed_files_go_while_nodes_come_and_go() {
    const FILES: usize = 2_000;
    let mut world = first_node();
    let node = Node::of(&world, "tier-b");
    world.run(async {
        let engine = world.engine();
        for at in 0..FILES {
            let name = format!("f{at}");
            engine.create(Ino::ROOT, name.as_bytes(), new_file()).await.expect("creates");
        }
    });
    let held = node.run(async {
        let held = lookup(&node.engine, "f700").await;
        (held, node.engine.open(held, OpenFlags::default()).await.expect("opens"))
    });
    let inos = node.run(async {
        let last = lookup(&node.engine, &format!("f{}", FILES - 1)).await;
        for at in 0..FILES {
            node.engine.unlink(Ino::ROOT, format!("f{at}").as_bytes()).await.expect("unlinks");
        }
        [held.0, last]
    });
    // One more joins, and is the first one or not.
    let third = Node::of(&world, "tier-c");
    until("the last one goes", || !world.run(is_there(&world.engine(), inos[1])));
    assert!(third.run(is_there(&third.engine, inos[0])));
    third.unmount();
    node.run(node.engine.close(held.1)).expect("closes");
    node.unmount();
    until("what was held goes", || !world.run(is_there(&world.engine(), inos[0])));
    world.unmount().expect("unmounts");
    world.fsck();
}
