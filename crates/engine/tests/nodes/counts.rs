//! Quotas that several nodes set and count.
#![allow(clippy::disallowed_methods, reason = "nodes beat by the real clock here")]

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weir_engine::testing::{World, new_dir, new_file};
use weir_engine::{Engine, QuotaChange, QuotaSubject, QuotaView, RenameMode};
use weir_types::{ErrorKind, FileKind, Ino};

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

const NODES: usize = 2;
/// What each node does while the others do the like.
const STEPS: usize = 80;

/// Directories in each other, and one beside them, with files.
async fn nested(engine: &Engine) -> Vec<Ino> {
    let mut dirs = Vec::new();
    let mut above = Ino::ROOT;
    for (name, depth) in [("a", 0), ("b", 1), ("c", 2), ("d", 0)] {
        let parent = if depth == 0 { Ino::ROOT } else { above };
        above = engine.create(parent, name.as_bytes(), new_dir()).await.expect("mkdir").ino;
        for at in 0..300 {
            engine.create(above, format!("f{at}").as_bytes(), new_file()).await.expect("creates");
        }
        dirs.push(above);
    }
    dirs
}

/// Sets and removes quotas, and moves, makes and removes what counts for them.
async fn stir(engine: &Engine, dirs: &[Ino], node: usize, mut rng: StdRng) {
    let fine = [
        ErrorKind::NotFound,
        ErrorKind::CrossDevice,
        ErrorKind::Conflict,
        ErrorKind::Exists,
        ErrorKind::NotEmpty,
        ErrorKind::Invalid,
    ];
    for step in 0..STEPS {
        let mut dir = || dirs[rng.random_range(0..dirs.len())];
        let (one, two) = (dir(), dir());
        let (name, new) = (format!("f{}", rng.random_range(0..300)), format!("n{node}-{step}"));
        let (name, new) = (name.as_bytes(), new.as_bytes());
        let done = match rng.random_range(0..20) {
            0..6 => {
                engine.set_quota(QuotaSubject::Directory(one.0), limit(1_000_000)).await.map(drop)
            }
            6..10 => engine.remove_quota(QuotaSubject::Directory(one.0)).await.map(drop),
            10..13 => engine.rename((one, name), (two, name), RenameMode::Replace).await.map(drop),
            13 => engine.rename((one, name), (two, name), RenameMode::Exchange).await.map(drop),
            14 => engine.rename((one, name), (two, new), RenameMode::NoReplace).await.map(drop),
            15 => engine.create(one, new, new_file()).await.map(drop),
            16 => engine.unlink(one, name).await,
            17 => match engine.lookup(one, name).await {
                Ok(file) => engine.link(file.ino, one, new).await.map(drop),
                Err(error) => Err(error),
            },
            _ => match engine.create(one, new, new_dir()).await {
                Ok(made) => {
                    engine.create(made.ino, b"in it", new_file()).await.expect("creates");
                    engine.rename((one, new), (two, new), RenameMode::NoReplace).await.map(drop)
                }
                Err(error) => Err(error),
            },
        };
        if let Err(error) = done {
            assert!(fine.contains(&error.kind()), "node {node}, step {step}: {error}");
        }
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..8))).await;
    }
}

/// The inodes of a directory and all below it. Of several names of a file none is elsewhere.
async fn inodes_below(engine: &Engine, dir: Ino) -> u64 {
    let (mut left, mut all) = (vec![dir], std::collections::BTreeSet::new());
    while let Some(dir) = left.pop() {
        all.insert(dir);
        let entries = engine.readdir(dir, 0, 10_000).await.expect("lists");
        for entry in entries {
            match entry.kind {
                FileKind::Directory => left.push(entry.ino),
                _ => drop(all.insert(entry.ino)),
            }
        }
    }
    all.len() as u64
}

#[test]
fn quotas_that_nodes_set_and_remove_at_once_count_what_lies_in_them() {
    let seed = std::env::var("WEIR_SEED").ok().and_then(|text| text.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| rand::random_range(1..1 << 40));
    eprintln!("WEIR_SEED={seed}");
    let mut world = shared();
    let dirs = world.run(nested(&world.engine()));
    let others: Vec<Node> = (1..NODES).map(|at| Node::of(&world, &format!("node{at}"))).collect();
    std::thread::scope(|scope| {
        let rng = |node: usize| StdRng::seed_from_u64(seed + node as u64);
        for (at, node) in (1..).zip(&others) {
            let dirs = &dirs;
            scope.spawn(move || node.run(stir(&node.engine, dirs, at, rng(at))));
        }
        world.run(stir(&world.engine(), &dirs, 0, rng(0)));
    });
    let engine = world.engine();
    let began = Instant::now();
    world.run(async {
        loop {
            let mut wrong = Vec::new();
            for quota in engine.quotas().await.expect("lists") {
                let QuotaSubject::Directory(dir) = quota.subject else { continue };
                let is = inodes_below(&engine, Ino(dir)).await;
                if quota.counting.is_some() || quota.removed || quota.files_used != is {
                    wrong.push((quota, is));
                }
            }
            if wrong.is_empty() {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "seed {seed}: {wrong:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    others.into_iter().for_each(Node::unmount);
    world.unmount().expect("unmounts");
    world.fsck();
}
