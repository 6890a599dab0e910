//! Hydrations that nodes divide among them.
#![allow(clippy::disallowed_methods, reason = "nodes beat by the real clock here")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_engine::testing::{WRITE, World, create, new_dir, new_file, noise, read_all};
use weir_engine::{ActionKind, ActionRequest, ActionState, ActionView, Engine, Root};
use weir_types::{Bytes, ErrorKind, Ino};

use crate::whole::{Node, shared, wait_until};

const MIB: usize = 1 << 20;

struct Tree {
    root: Ino,
    files: Vec<(Ino, Vec<u8>)>,
}

impl Tree {
    fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    fn request(&self, max_bytes_per_s: Option<u64>) -> ActionRequest {
        let roots = vec![Root { ino: self.root, path: "tree".to_owned() }];
        ActionRequest {
            kind: ActionKind::Hydrate,
            roots,
            recursive: true,
            max_bytes_per_s,
            restore: None,
        }
    }

    /// Bytes of it that are here.
    async fn here(&self, engine: &Engine) -> u64 {
        let mut sum = 0;
        for (ino, bytes) in &self.files {
            let state = engine.file_state(*ino).await.expect("a state");
            sum += state.resident_bytes.min(bytes.len() as u64);
        }
        sum
    }

    /// Waits until all of it is here, and says what is missing if it never is.
    async fn all_here(&self, engine: &Engine, whose: &str) {
        let began = Instant::now();
        while self.here(engine).await != self.bytes() {
            if began.elapsed() > Duration::from_secs(30) {
                let mut missing = Vec::new();
                for (at, (ino, bytes)) in self.files.iter().enumerate() {
                    let state = engine.file_state(*ino).await.expect("a state");
                    if state.resident_bytes < bytes.len() as u64 {
                        missing.push((at, *ino, bytes.len(), state));
                    }
                }
                panic!("{} files are not at {whose}: {missing:?}", missing.len());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn check(&self, engine: &Arc<Engine>) {
        for (ino, bytes) in &self.files {
            assert!(read_all(engine, *ino).await.expect("reads") == *bytes, "inode {ino}");
        }
    }
}

/// Large files and small ones, in the bucket and nowhere else.
fn tree(world: &World) -> Tree {
    let engine = world.engine();
    world.run(async {
        let root = engine.create(Ino::ROOT, b"tree", new_dir()).await.expect("creates").ino;
        let mut files = Vec::new();
        let sizes = [40 * MIB, 20 * MIB + 5].into_iter().chain((0..300).map(|n| 10_000 + n * 7));
        for (seed, size) in sizes.enumerate() {
            let name = format!("f{seed}");
            let made = engine.create(root, name.as_bytes(), new_file()).await.expect("creates").ino;
            let file = engine.open(made, WRITE).await.expect("opens");
            let bytes = noise(seed as u64, size);
            for (at, piece) in bytes.chunks(MIB).enumerate() {
                engine.write(&file, (at * MIB) as u64, piece).await.expect("writes");
            }
            // Not one by one: small files are to lie together.
            files.push((made, bytes));
            tokio::spawn({
                let engine = engine.clone();
                async move { engine.close(file).await.expect("closes") }
            });
        }
        engine.flush_all().await.expect("flushes");
        let tree = Tree { root, files };
        wait_until("nothing of it is here", async || {
            engine.release_all().await.expect("releases");
            tree.here(&engine).await == 0
        })
        .await;
        tree
    })
}

/// The portions of the hydration whose first action this is.
async fn portions(engine: &Engine, group: &[ActionView]) -> Vec<ActionView> {
    let mut all = engine.actions().await.expect("lists");
    let of = |view: &ActionView| view.portion.map(|portion| portion.group);
    all.retain(|view| of(view) == of(&group[0]));
    assert_eq!(all.len(), group.len(), "{all:?}");
    all
}

async fn ended(engine: &Engine, group: &[ActionView]) -> Vec<ActionView> {
    wait_until("all portions are done", async || {
        let all = portions(engine, group).await;
        all.iter().all(|view| view.state == ActionState::Done)
    })
    .await;
    portions(engine, group).await
}

async fn know_each_other(nodes: &[&Arc<Engine>]) {
    for engine in nodes {
        wait_until("nodes know each other", async || {
            let peers = engine.status().await.expect("tells").peers;
            peers.is_some_and(|peers| peers.others == nodes.len() as u64 - 1)
        })
        .await;
    }
}

#[test]
fn each_node_brings_its_portion_and_the_bucket_is_asked_once() {
    let world = shared();
    let tree = tree(&world);
    let engine = world.engine();
    let [one, two] = ["one", "two"].map(|name| Node::of(&world, name));
    world.run(async {
        know_each_other(&[&engine, &one.engine, &two.engine]).await;
        let refused = ActionRequest { kind: ActionKind::Release, ..tree.request(None) };
        let error = engine.start_spread(refused, false).await.expect_err("only hydrations");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let before = engine.meter().snapshot().bytes_received();
        let group = engine.start_spread(tree.request(None), false).await.expect("starts");
        assert_eq!(group.len(), 3, "{group:?}");
        let all = ended(&two.engine, &group).await;
        let sum = |of: fn(&ActionView) -> u64| all.iter().map(of).sum::<u64>();
        assert_eq!(sum(|view| view.files_done), tree.files.len() as u64, "{all:?}");
        assert_eq!((sum(|view| view.bytes_done), sum(|view| view.refused)), (tree.bytes(), 0));
        let mut here = Vec::new();
        for engine in [&engine, &one.engine, &two.engine] {
            here.push(tree.here(engine).await);
        }
        assert!(here.iter().all(|bytes| (1..tree.bytes()).contains(bytes)), "{here:?}");
        // But for neighbours of small files, which a request brings along.
        let most = tree.bytes() + (2 << 20);
        assert!((tree.bytes()..most).contains(&here.iter().sum()), "each byte is at one: {here:?}");
        let asked = engine.meter().snapshot().bytes_received() - before;
        assert!(asked < tree.bytes() * 11 / 10, "{asked} bytes of {}", tree.bytes());
        // All have all then, and from each other what is large.
        let group = one.engine.start_spread(tree.request(None), true).await.expect("starts");
        let all = ended(&engine, &group).await;
        assert!(
            all.iter().all(|view| view.bytes_done == tree.bytes() && view.refused == 0),
            "{all:?}"
        );
        for (engine, whose) in [(&engine, "the first"), (&one.engine, "one"), (&two.engine, "two")]
        {
            tree.all_here(engine, whose).await;
            tree.check(engine).await;
        }
        let asked = engine.meter().snapshot().bytes_received() - before;
        // But for what a busy machine did not give in time.
        assert!(asked < tree.bytes() * 3 / 2, "{asked} bytes of {}", tree.bytes());
    });
    one.unmount();
    two.unmount();
}

#[test]
fn the_portion_of_a_node_that_died_is_brought_by_another_and_any_can_end_all() {
    let world = shared();
    let tree = tree(&world);
    let engine = world.engine();
    let [one, two] = ["one", "two"].map(|name| Node::of(&world, name));
    let group = world.run(async {
        know_each_other(&[&engine, &one.engine, &two.engine]).await;
        let group = engine.start_spread(tree.request(Some(6 << 20)), false).await.expect("starts");
        wait_until("all have begun", async || {
            portions(&engine, &group).await.iter().all(|view| view.state == ActionState::Running)
        })
        .await;
        group
    });
    one.kill();
    // One that joins now brings nothing unless it takes the place of one that went.
    let late = Node::of(&world, "late");
    world.run(async {
        let all = ended(&engine, &group).await;
        assert_eq!(all.iter().map(|view| view.bytes_done).sum::<u64>(), tree.bytes(), "{all:?}");
        let mut here = 0;
        for engine in [&engine, &two.engine, &late.engine] {
            here += tree.here(engine).await;
        }
        assert!(here >= tree.bytes(), "{here} bytes are here");
        tree.check(&engine).await;
        engine.release_all().await.expect("releases");
        let slowly = tree.request(Some(192 << 10));
        let group = two.engine.start_spread(slowly, true).await.expect("starts");
        let last = group.last().expect("some").id;
        engine.cancel_action(last).await.expect("cancels");
        let all = portions(&late.engine, &group).await;
        assert!(all.iter().all(|view| view.state == ActionState::Cancelled), "{all:?}");
    });
    two.unmount();
    late.unmount();
}

#[test]
fn what_finds_no_room_at_one_node_goes_to_another() {
    let world = shared();
    let tree = tree(&world);
    let engine = world.engine();
    let ballast = world.run(async {
        let ballast = create(&engine, "ballast", &noise(1_000, 44 * MIB)).await;
        engine.flush_all().await.expect("flushes");
        ballast
    });
    let small = Node::with(&world, "small", |options| {
        options.settings.tier_bytes = Bytes::mib(64);
    });
    small.run(async {
        let roots = vec![Root { ino: ballast, path: "ballast".to_owned() }];
        small.engine.pin(&roots, false, true).await.expect("pins");
        read_all(&small.engine, ballast).await.expect("reads");
    });
    world.run(async {
        know_each_other(&[&engine, &small.engine]).await;
        let group = engine.start_spread(tree.request(None), false).await.expect("starts");
        let all = ended(&engine, &group).await;
        assert!(all.iter().all(|view| view.refused == 0), "{all:?}");
        assert!(all.iter().all(|view| view.node.as_ref().is_some_and(|node| node.here)), "{all:?}");
        assert_eq!(all.iter().map(|view| view.bytes_done).sum::<u64>(), tree.bytes(), "{all:?}");
        let (here, there) = (tree.here(&engine).await, tree.here(&small.engine).await);
        assert!(there > 4 << 20, "{there} bytes are there");
        assert!(
            (tree.bytes()..tree.bytes() + (9 << 20)).contains(&(here + there)),
            "{here} {there}"
        );
    });
    small.unmount();
}
