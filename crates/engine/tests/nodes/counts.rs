//! Quotas that several nodes set and count.
#![allow(clippy::disallowed_methods, reason = "nodes beat by the real clock here")]

use std::time::{Duration, Instant};

use weir_engine::testing::{World, new_dir, new_file};
use weir_engine::{Engine, QuotaChange, QuotaSubject, QuotaView};
use weir_types::Ino;

use crate::whole::{Node, shared};

/// Longer than a dead node is waited for, and what it has left.
const PATIENCE: Duration = Duration::from_secs(90);
const FILES: usize = 2_000;

fn limit(files_max: u64) -> QuotaChange {
    QuotaChange { files_max: Some(files_max), ..QuotaChange::default() }
}

async fn new_tree(engine: &Engine, name: &str, files: usize) -> Ino {
    let dir = engine.create(Ino::ROOT, name.as_bytes(), new_dir()).await.expect("mkdir").ino;
    for at in 0..files {
        engine.create(dir, format!("f{at}").as_bytes(), new_file()).await.expect("creates");
    }
    dir
}

fn quota_of(world: &World, dir: Ino) -> QuotaView {
    let all = world.run(world.engine().quotas()).expect("lists");
    let mut found = all.into_iter().filter(|of| of.subject == QuotaSubject::Directory(dir.0));
    let quota = found.next().expect("there is one");
    assert_eq!(found.next(), None, "a directory has one");
    quota
}

#[test]
fn what_a_node_that_is_gone_has_not_counted_another_one_counts() {
    let mut world = shared();
    let mut tries = 0;
    let dir = loop {
        tries += 1;
        assert!(tries <= 10, "each node has counted all before it was killed");
        let dir = world.run(new_tree(&world.engine(), &format!("tree{tries}"), FILES));
        let node = Node::of(&world, &format!("counts{tries}"));
        let set = node.engine.set_quota(QuotaSubject::Directory(dir.0), limit(1_000_000));
        node.run(set).expect("sets");
        node.kill();
        if quota_of(&world, dir).counting.is_some() {
            break dir;
        }
    };
    let began = Instant::now();
    while quota_of(&world, dir).counting.is_some() {
        assert!(began.elapsed() < PATIENCE, "nobody goes on: {:?}", quota_of(&world, dir));
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(quota_of(&world, dir).files_used, FILES as u64 + 1);
    world.unmount().expect("unmounts");
    world.fsck();
}

#[test]
fn a_directory_has_one_quota_whoever_sets_it_first() {
    let mut world = shared();
    let node = Node::of(&world, "other");
    for round in 0..10 {
        let dir = world.run(new_tree(&world.engine(), &format!("tree{round}"), 3));
        let subject = QuotaSubject::Directory(dir.0);
        let both = std::thread::scope(|scope| {
            let other = scope.spawn(|| node.run(node.engine.set_quota(subject, limit(100))));
            let bytes = QuotaChange { bytes_max: Some(1 << 30), ..QuotaChange::default() };
            let set = world.run(world.engine().set_quota(subject, bytes));
            [set, other.join().expect("no panic")]
        });
        for set in both {
            set.expect("sets");
        }
        // What either of them has said.
        let quota = quota_of(&world, dir);
        assert_eq!((quota.bytes_max, quota.files_max), (Some(1 << 30), Some(100)), "round {round}");
    }
    node.unmount();
    world.unmount().expect("unmounts");
    world.fsck();
}
