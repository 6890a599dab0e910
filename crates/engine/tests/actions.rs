//! Actions over trees: hydrate, release, archive; pins and states.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{WRITE, World, new_dir, new_file, noise, read_all, settings};
use weir_engine::{
    ActionKind, ActionRequest, ActionState, ActionView, Engine, OpenFlags, Root, Wrap,
};
use weir_object::testing::{
    FaultPlan, FaultRule, FaultStore, Place, Slow, SlowStore, Trigger, What,
};
use weir_object::{Component, RequestKind};
use weir_types::{Bytes, ErrorKind, FileKind, Ino, Settings};

const MIB: usize = 1 << 20;

fn request(kind: ActionKind, ino: Ino, recursive: bool) -> ActionRequest {
    let roots = vec![Root { ino, path: "/tree".to_owned() }];
    ActionRequest { kind, roots, recursive, max_bytes_per_s: None }
}

/// Starts an action and waits for its end.
async fn act(engine: &Engine, kind: ActionKind, ino: Ino) -> ActionView {
    let view = engine.start_action(request(kind, ino, true)).await.expect("starts");
    let view = engine.wait_for_action(view.id, 60_000).await.expect("waits");
    assert_eq!(view.state, ActionState::Done, "{view:?}");
    view
}

/// A file in `dir` with these bytes.
async fn put(engine: &Arc<Engine>, dir: Ino, name: &str, bytes: &[u8]) -> Ino {
    let inode = engine.create(dir, name.as_bytes(), new_file()).await.expect("creates");
    let file = engine.open(inode.ino, WRITE).await.expect("opens");
    for (at, piece) in bytes.chunks(MIB).enumerate() {
        engine.write(&file, (at * MIB) as u64, piece).await.expect("writes");
    }
    engine.close(file).await.expect("closes");
    inode.ino
}

/// A tree with large, middling and small files, flushed and released.
struct Tree {
    root: Ino,
    files: Vec<(Ino, Vec<u8>)>,
    bytes: u64,
}

async fn tree(engine: &Arc<Engine>, large: usize, small: usize) -> Tree {
    let root = engine.create(Ino::ROOT, b"tree", new_dir()).await.expect("creates").ino;
    let mut files = Vec::new();
    for i in 0..large {
        let bytes = noise(i as u64 + 1, 12 * MIB + i * 1000);
        files.push((put(engine, root, &format!("large{i}"), &bytes).await, bytes));
    }
    let below = engine.create(root, b"below", new_dir()).await.expect("creates").ino;
    for i in 0..small {
        let bytes = noise(1_000 + i as u64, 5_000 + i * 37 % 30_000);
        files.push((put(engine, below, &format!("small{i}"), &bytes).await, bytes));
    }
    files.push((put(engine, below, "empty", b"").await, Vec::new()));
    let bytes = files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    engine.flush_all().await.expect("flushes");
    engine.release_all().await.expect("releases");
    Tree { root, files, bytes }
}

async fn resident(engine: &Engine, tree: &Tree) -> usize {
    let mut resident = 0;
    for (ino, _) in &tree.files {
        resident += usize::from(!engine.file_state(*ino).await.expect("a state").released);
    }
    resident
}

fn data_gets(world: &World) -> (u64, u64) {
    let snapshot = world.engine().meter().snapshot();
    let row = snapshot.row(Component::Data, RequestKind::Get);
    row.map_or((0, 0), |row| (row.requests, row.bytes_received))
}

fn slow(latency_ms: u64, settings: Settings) -> World {
    let slow = Slow { latency: Duration::from_millis(latency_ms), bytes_per_s: 0 };
    let wrap: Wrap = Arc::new(move |store| Arc::new(SlowStore::new(store, slow)));
    World::with(Settings { meta_flush_ms: 1_000, ..settings }, Some(wrap))
}

fn faulty(plan: FaultPlan) -> World {
    let wrap: Wrap = Arc::new(move |store| Arc::new(FaultStore::new(store, &plan)));
    World::with(settings(), Some(wrap))
}

#[test]
fn a_tree_is_hydrated_whole_with_few_requests_and_released_again() {
    let world = World::new();
    world.run(async {
        let engine = world.engine();
        let tree = tree(&engine, 3, 400).await;
        assert_eq!(resident(&engine, &tree).await, 1, "an empty file is never released");
        let before = data_gets(&world);
        let view = act(&engine, ActionKind::Hydrate, tree.root).await;
        let files = tree.files.len() as u64;
        assert_eq!((view.files_total, view.files_done, view.refused), (files, files, 0));
        assert_eq!((view.bytes_total, view.bytes_done), (tree.bytes, tree.bytes));
        assert!(view.counted);
        let after = data_gets(&world);
        let (gets, bytes) = (after.0 - before.0, after.1 - before.1);
        assert!(gets <= 30, "{gets} GETs for 36 MiB in 3 files and 8 MB in 400");
        assert!(bytes <= tree.bytes * 102 / 100, "{bytes} bytes for {}", tree.bytes);
        assert_eq!(resident(&engine, &tree).await, tree.files.len());
        for (ino, bytes) in &tree.files {
            assert!(read_all(&engine, *ino).await.expect("reads") == *bytes);
        }
        assert_eq!(data_gets(&world), after, "all of it was here");
        act(&engine, ActionKind::Hydrate, tree.root).await;
        assert_eq!(data_gets(&world), after, "what is here is not fetched again");

        let view = act(&engine, ActionKind::Release, tree.root).await;
        assert_eq!((view.files_done, view.refused), (files, 0));
        assert_eq!(resident(&engine, &tree).await, 1);
        assert_eq!(engine.status().await.expect("status").tier.used_bytes, 0);
        let (ino, bytes) = &tree.files[0];
        assert!(read_all(&engine, *ino).await.expect("reads") == *bytes);
    });
    world.fsck();
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let world = World::new();
    world.run(async {
        let engine = world.engine();
        let dir = engine.create(Ino::ROOT, b"dir", new_dir()).await.expect("creates").ino;
        let kind = |result: weir_types::Result<ActionView>| result.expect_err("refused").kind();
        let start = |request| engine.start_action(request);
        let hydrate = ActionKind::Hydrate;
        assert_eq!(kind(start(request(hydrate, dir, false)).await), ErrorKind::Invalid);
        assert_eq!(kind(start(request(hydrate, Ino(999), false)).await), ErrorKind::NotFound);
        let nothing = ActionRequest { roots: Vec::new(), ..request(hydrate, dir, true) };
        assert_eq!(kind(start(nothing).await), ErrorKind::Invalid);
        assert_eq!(kind(engine.action(weir_engine::ActionId(7)).await), ErrorKind::NotFound);
        assert_eq!(engine.file_state(dir).await.expect_err("no file").kind(), ErrorKind::Invalid);
    });
}

#[test]
fn release_refuses_what_is_dirty_open_or_pinned_and_says_why() {
    let world = World::new();
    world.run(async {
        let engine = world.engine();
        let root = engine.create(Ino::ROOT, b"tree", new_dir()).await.expect("creates").ino;
        let bytes = noise(1, 300_000);
        let mut inos = Vec::new();
        for name in ["clean", "dirty", "open", "pinned"] {
            inos.push(put(&engine, root, name, &bytes).await);
        }
        let [clean, dirty, open, pinned] = inos[..] else { panic!("four files") };
        engine.flush_all().await.expect("flushes");
        let file = engine.open(dirty, WRITE).await.expect("opens");
        engine.write(&file, 0, b"new").await.expect("writes");
        engine.close(file).await.expect("closes");
        let held = engine.open(open, OpenFlags::default()).await.expect("opens");
        let pin = vec![Root { ino: pinned, path: "/tree/pinned".to_owned() }];
        assert_eq!(engine.pin(&pin, false, true).await.expect("pins"), 1);
        let states = async || {
            let mut states = Vec::new();
            for ino in [clean, dirty, open, pinned] {
                let s = engine.file_state(ino).await.expect("a state");
                assert!(s.exists && s.size == 300_000);
                states.push((s.released, s.dirty, s.archived, s.pinned));
            }
            states
        };
        let before = [
            (false, false, true, false),
            (false, true, false, false),
            (false, false, true, false),
            (false, false, true, true),
        ];
        assert_eq!(states().await, before);

        let view = act(&engine, ActionKind::Release, root).await;
        assert_eq!((view.files_total, view.files_done, view.refused), (4, 4, 3));
        let why = |name: &str| {
            let path = format!("/tree/{name}");
            let found = view.reasons.iter().find(|r| r.path == path);
            found.unwrap_or_else(|| panic!("{view:?}")).reason.clone()
        };
        assert!(why("dirty").contains("has changes that are not in the bucket"));
        assert!(why("open").contains("open"));
        assert!(why("pinned").contains("pinned"));
        let mut after = before;
        after[0].0 = true;
        assert_eq!(states().await, after);

        // Nothing else takes a pinned file either.
        engine.release_all().await.expect("releases");
        assert!(!engine.file_state(pinned).await.expect("a state").released);

        let view = act(&engine, ActionKind::Archive, root).await;
        assert_eq!((view.files_done, view.refused), (4, 0));
        assert!(engine.file_state(dirty).await.expect("a state").archived);
        engine.close(held).await.expect("closes");
        assert_eq!(engine.pin(&pin, false, false).await.expect("unpins"), 1);
        let view = act(&engine, ActionKind::Release, root).await;
        assert_eq!(view.refused, 0, "{view:?}");
        let all = [clean, dirty, open, pinned];
        for ino in all {
            assert!(engine.file_state(ino).await.expect("a state").released);
        }
    });
    world.fsck();
}

#[test]
fn archived_files_survive_the_loss_of_the_machine() {
    let mut world = World::new();
    let bytes = noise(1, 3 * MIB);
    let ino = world.run(async {
        let engine = world.engine();
        let ino = put(&engine, Ino::ROOT, "a", &bytes).await;
        assert!(!engine.file_state(ino).await.expect("a state").exists);
        act(&engine, ActionKind::Archive, ino).await;
        ino
    });
    world.lose_machine();
    world.mount().expect("mounts");
    assert!(world.run(read_all(&world.engine(), ino)).expect("reads") == bytes);
}

#[test]
fn pins_survive_a_kill_and_go_with_their_file() {
    let mut world = World::new();
    let (root, inos) = world.run(async {
        let engine = world.engine();
        let root = engine.create(Ino::ROOT, b"tree", new_dir()).await.expect("creates").ino;
        let mut inos = Vec::new();
        for i in 0..5 {
            inos.push(put(&engine, root, &format!("f{i}"), &noise(i, 10_000)).await);
        }
        let roots = [Root { ino: root, path: "/tree".to_owned() }];
        let error = engine.pin(&roots, false, true).await.expect_err("a directory");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(engine.pin(&roots, true, true).await.expect("pins"), 5);
        put(&engine, root, "later", b"not pinned").await;
        engine.flush_all().await.expect("flushes");
        (root, inos)
    });
    world.kill();
    world.mount().expect("mounts");
    world.run(async {
        let engine = world.engine();
        let view = act(&engine, ActionKind::Release, root).await;
        assert_eq!((view.files_done, view.refused), (6, 5));
        assert!(engine.file_state(inos[0]).await.expect("a state").pinned);
        for i in 0..5 {
            engine.unlink(root, format!("f{i}").as_bytes()).await.expect("unlinks");
        }
    });
    world.unmount().expect("ends");
    // A pin without its file is a problem to the check.
    world.fsck();
}

#[test]
fn pins_that_fill_the_tier_give_writers_an_error_and_readers_their_bytes() {
    let world = World::with(Settings { tier_bytes: Bytes::mib(64), ..settings() }, None);
    world.run(async {
        let engine = world.engine();
        let cold = noise(9, 4 * MIB);
        let cold_ino = put(&engine, Ino::ROOT, "cold", &cold).await;
        engine.flush_all().await.expect("flushes");
        engine.release_all().await.expect("releases");
        let mut roots = Vec::new();
        for i in 0..6 {
            let ino = put(&engine, Ino::ROOT, &format!("f{i}"), &noise(i, 10 * MIB)).await;
            roots.push(Root { ino, path: format!("/f{i}") });
        }
        engine.flush_all().await.expect("flushes");
        engine.pin(&roots, false, true).await.expect("pins");
        let ino = engine.create(Ino::ROOT, b"new", new_file()).await.expect("creates").ino;
        let file = engine.open(ino, WRITE).await.expect("opens");
        let error = loop {
            let at = engine.getattr(ino).await.expect("a size").size;
            match engine.write(&file, at, &noise(7, MIB)).await {
                Ok(_) => engine.fsync(ino).await.expect("syncs"),
                Err(error) => break error,
            }
            // What is written and flushed goes again: make it stay.
            let root = Root { ino, path: "/new".to_owned() };
            engine.pin(&[root], false, true).await.expect("pins");
        };
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        assert!(error.to_string().contains("weir unpin"), "{error}");
        engine.close(file).await.expect("closes");
        assert!(read_all(&engine, cold_ino).await.expect("reads") == cold);
        engine.pin(&roots[..3], false, false).await.expect("unpins");
        put(&engine, Ino::ROOT, "more", &noise(8, 10 * MIB)).await;
    });
}

#[test]
fn a_hydration_goes_on_after_a_kill_and_fetches_nothing_twice() {
    let one_at_a_time = Settings { fetch_parallel: 1, ..settings() };
    let mut world = slow(20, one_at_a_time);
    let (tree, view) = world.run(async {
        let engine = world.engine();
        let tree = tree(&engine, 12, 300).await;
        let hydrate = request(ActionKind::Hydrate, tree.root, true);
        let view = engine.start_action(hydrate).await.expect("starts");
        loop {
            let now = engine.wait_for_action(view.id, 5).await.expect("waits");
            assert_eq!(now.ended_unix_ms, None, "it ended before half of it was seen");
            if now.bytes_done > tree.bytes / 4 {
                break;
            }
        }
        (tree, view)
    });
    world.kill();
    world.mount().expect("mounts");
    world.run(async {
        let engine = world.engine();
        let again = engine.wait_for_action(view.id, 60_000).await.expect("is there");
        assert_eq!((again.state, again.refused), (ActionState::Done, 0));
        assert_eq!(again.request, view.request);
        assert_eq!((again.bytes_done, again.bytes_total), (tree.bytes, tree.bytes));
        assert_eq!(resident(&engine, &tree).await, tree.files.len());
        for (ino, bytes) in &tree.files {
            assert!(read_all(&engine, *ino).await.expect("reads") == *bytes);
        }
    });
    // Those of both mounts. What was under way when it was killed comes twice: one GET here.
    let all = data_gets(&world).1;
    let most = tree.bytes * 102 / 100 + 9 * MIB as u64;
    assert!(all <= most, "{all} bytes in all for {}", tree.bytes);
    world.unmount().expect("ends");
    world.mount().expect("mounts");
    world.run(async {
        let engine = world.engine();
        let kept = engine.actions().await.expect("lists");
        assert_eq!(kept.len(), 1);
        assert_eq!((kept[0].id, kept[0].state), (view.id, ActionState::Done));
        let next = act(&engine, ActionKind::Hydrate, tree.root).await;
        assert_eq!(next.id.0, view.id.0 + 1, "a number is used once");
    });
}

#[test]
fn a_cancelled_hydration_stops_and_stays_cancelled() {
    let mut world = slow(40, Settings { fetch_parallel: 1, ..settings() });
    let id = world.run(async {
        let engine = world.engine();
        let tree = tree(&engine, 15, 10).await;
        let hydrate = request(ActionKind::Hydrate, tree.root, true);
        let view = engine.start_action(hydrate).await.expect("starts");
        while engine.action(view.id).await.expect("is there").bytes_done < 2 * MIB as u64 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let view = engine.cancel_action(view.id).await.expect("cancels");
        assert_eq!(view.state, ActionState::Cancelled);
        // What was under way comes, and no more.
        let mut last = data_gets(&world).1;
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let now = data_gets(&world).1;
            if now == last {
                break;
            }
            last = now;
        }
        assert!(last < tree.bytes / 2, "{last} of {} bytes came", tree.bytes);
        assert!(resident(&engine, &tree).await < tree.files.len());
        let again = engine.cancel_action(view.id).await.expect("is no error");
        assert_eq!(again, engine.action(view.id).await.expect("is there"));
        view.id
    });
    world.kill();
    world.mount().expect("mounts");
    let view = world.run(world.engine().action(id)).expect("is there");
    assert_eq!(view.state, ActionState::Cancelled);
}

#[test]
fn errors_of_the_bucket_are_overcome_and_what_is_damaged_is_told() {
    // A tenth of all GETs of segments fail; those of one segment bring damaged bytes, always.
    let flaky = FaultRule {
        kind: Some(RequestKind::Get),
        trigger: Trigger::Chance(0.1),
        key: "seg/".to_owned(),
        place: Some(Place::Before),
        what: Some(What::Unavailable),
    };
    let world = faulty(FaultPlan { seed: 5, rules: vec![flaky] });
    world.run(async {
        let engine = world.engine();
        let tree = tree(&engine, 4, 200).await;
        let view = act(&engine, ActionKind::Hydrate, tree.root).await;
        assert_eq!(view.refused, 0, "{view:?}");
        assert_eq!(resident(&engine, &tree).await, tree.files.len());
    });
}

#[test]
fn a_file_that_cannot_be_had_is_refused_and_the_others_come() {
    let world = World::new();
    world.run(async {
        let engine = world.engine();
        let root = engine.create(Ino::ROOT, b"tree", new_dir()).await.expect("creates").ino;
        let bad = put(&engine, root, "bad", &noise(1, 2 * MIB)).await;
        engine.flush_all().await.expect("flushes");
        let damaged = std::fs::read_dir(world.path("bucket/seg")).expect("lists");
        let damaged: Vec<_> = damaged.map(|entry| entry.expect("an entry").path()).collect();
        let mut good = Vec::new();
        for i in 0..100 {
            good.push(put(&engine, root, &format!("f{i}"), &noise(i + 2, 9_000)).await);
        }
        engine.flush_all().await.expect("flushes");
        engine.release_all().await.expect("releases");
        for directory in damaged {
            for entry in std::fs::read_dir(directory).expect("lists") {
                let path = entry.expect("an entry").path();
                let mut bytes = std::fs::read(&path).expect("reads");
                // Only the first one holds as much.
                if bytes.len() > 2 * MIB {
                    bytes[MIB / 2] ^= 1;
                    std::fs::write(&path, bytes).expect("writes");
                }
            }
        }
        let view = act(&engine, ActionKind::Hydrate, root).await;
        assert_eq!((view.files_done, view.refused), (101, 1), "{view:?}");
        assert_eq!(view.reasons[0].path, "/tree/bad");
        assert!(engine.file_state(bad).await.expect("a state").released);
        for ino in good {
            assert!(!engine.file_state(ino).await.expect("a state").released);
        }
    });
}

#[test]
fn a_tier_that_is_too_small_keeps_what_came_first_and_says_what_it_needs() {
    let world = World::with(Settings { tier_bytes: Bytes::mib(64), ..settings() }, None);
    world.run(async {
        let engine = world.engine();
        let root = engine.create(Ino::ROOT, b"tree", new_dir()).await.expect("creates").ino;
        let mut inos = Vec::new();
        for i in 0..12 {
            inos.push(put(&engine, root, &format!("f{i}"), &noise(i, 10 * MIB)).await);
        }
        engine.flush_all().await.expect("flushes");
        let old = put(&engine, Ino::ROOT, "old", &noise(99, 20 * MIB)).await;
        engine.flush_all().await.expect("flushes");
        let view = act(&engine, ActionKind::Hydrate, root).await;
        // 95% of 64 MiB hold six of them, once what is older has made room.
        assert_eq!((view.files_done, view.refused), (12, 6), "{view:?}");
        assert!(view.reasons[0].reason.contains("--tier-size of 127 MiB"), "{view:?}");
        assert!(engine.file_state(old).await.expect("a state").released);
        let mut here = 0;
        for ino in inos {
            here += u64::from(!engine.file_state(ino).await.expect("a state").released);
        }
        assert_eq!(here, 6, "what came first stayed");
        assert_eq!(view.bytes_done, 60 * MIB as u64);
    });
}

#[test]
fn who_waits_for_a_byte_goes_before_a_hydration() {
    let settings = Settings { fetch_parallel: 2, read_ahead_bytes: Bytes(0), ..settings() };
    let world = slow(40, settings);
    world.run(async {
        let engine = world.engine();
        let other = noise(77, 4 * MIB);
        let other_ino = put(&engine, Ino::ROOT, "other", &other).await;
        let tree = tree(&engine, 15, 0).await;
        let hydrate = request(ActionKind::Hydrate, tree.root, true);
        let view = engine.start_action(hydrate).await.expect("starts");
        while engine.action(view.id).await.expect("is there").bytes_done == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Each read of the other file costs one GET. Meanwhile the hydration makes no more than
        // its turns let it.
        let file = engine.open(other_ino, OpenFlags::default()).await.expect("opens");
        let before = data_gets(&world).0;
        for at in 0..4 {
            let got = engine.read(&file, at * MIB as u64, 1000).await.expect("reads");
            assert!(got == other[at as usize * MIB..at as usize * MIB + 1000]);
        }
        // One more may be answered on a busy machine before the reader is asked again.
        let gets = data_gets(&world).0 - before;
        assert!(gets <= 4 * 4, "{gets} GETs were answered while a reader waited for 4");
        engine.close(file).await.expect("closes");
        let now = engine.action(view.id).await.expect("is there");
        assert_eq!(now.state, ActionState::Running, "it had enough to do all the time");

        // A chunk far behind, that the hydration may have queued already.
        let (ino, bytes) = &tree.files[14];
        let file = engine.open(*ino, OpenFlags::default()).await.expect("opens");
        let got = engine.read(&file, 5 << 20, 4096).await.expect("reads");
        assert!(got == bytes[5 << 20..(5 << 20) + 4096]);
        let now = engine.action(view.id).await.expect("is there");
        assert!(now.bytes_done < tree.bytes / 2, "{now:?}");
        // The whole of a file that somebody opened comes next.
        while engine.file_state(*ino).await.expect("a state").released {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let now = engine.action(view.id).await.expect("is there");
        assert!(now.bytes_done < tree.bytes * 3 / 4, "{now:?}");
        engine.close(file).await.expect("closes");
        let view = engine.wait_for_action(view.id, 60_000).await.expect("waits");
        assert_eq!((view.state, view.refused), (ActionState::Done, 0));
        assert_eq!(view.bytes_done, tree.bytes);
    });
}

#[test]
fn readers_and_a_hydration_of_the_same_tree_cost_one_pass() {
    let world = slow(5, settings());
    world.run(async {
        let engine = world.engine();
        let tree = Arc::new(tree(&engine, 8, 1_500).await);
        let before = data_gets(&world);
        let hydrate = request(ActionKind::Hydrate, tree.root, true);
        let view = engine.start_action(hydrate).await.expect("starts");
        let readers: Vec<_> = (0..4)
            .map(|reader| {
                let (engine, tree) = (engine.clone(), tree.clone());
                tokio::spawn(async move { read_in_some_way(&engine, &tree, reader).await })
            })
            .collect();
        for reader in readers {
            reader.await.expect("ends");
        }
        let view = engine.wait_for_action(view.id, 60_000).await.expect("waits");
        assert_eq!((view.state, view.refused), (ActionState::Done, 0));
        let after = data_gets(&world);
        let bytes = after.1 - before.1;
        assert!(bytes * 100 <= tree.bytes * 102, "{bytes} bytes for {}", tree.bytes);
        let fetched = engine.status().await.expect("status").since_mount.bytes_fetched;
        assert!(fetched * 100 <= tree.bytes * 102, "{fetched} bytes of records");
    });
}

/// Four ways to read all of a tree.
async fn read_in_some_way(engine: &Arc<Engine>, tree: &Tree, reader: usize) {
    let order: Vec<_> = match reader {
        0 | 1 => (0..tree.files.len()).collect(),
        2 => (0..tree.files.len()).rev().collect(),
        _ => (0..tree.files.len()).map(|i| i * 7919 % tree.files.len()).collect(),
    };
    let step = [4096, 300_000, MIB, 100_001][reader];
    for at in order {
        let (ino, bytes) = &tree.files[at];
        let file = engine.open(*ino, OpenFlags::default()).await.expect("opens");
        let mut pieces: Vec<_> = (0..bytes.len()).step_by(step).collect();
        if reader == 2 {
            pieces.reverse();
        }
        for offset in pieces {
            let got = engine.read(&file, offset as u64, step).await.expect("reads");
            assert!(got == bytes[offset..(offset + step).min(bytes.len())], "file {at}, {offset}");
        }
        engine.close(file).await.expect("closes");
    }
}

#[test]
fn files_that_change_meanwhile_end_with_their_own_bytes() {
    let world = slow(2, settings());
    world.run(async {
        let engine = world.engine();
        let tree = tree(&engine, 2, 300).await;
        let hydrate = request(ActionKind::Hydrate, tree.root, true);
        let view = engine.start_action(hydrate).await.expect("starts");
        let mut expected = Vec::new();
        for (i, (ino, bytes)) in tree.files.iter().enumerate() {
            let mut bytes = bytes.clone();
            if i % 3 == 0 && !bytes.is_empty() {
                let file = engine.open(*ino, WRITE).await.expect("opens");
                let new = noise(i as u64 + 5_000, 2_000);
                let at = bytes.len() / 2;
                engine.write(&file, at as u64, &new).await.expect("writes");
                bytes.resize(bytes.len().max(at + new.len()), 0);
                bytes[at..at + new.len()].copy_from_slice(&new);
                engine.close(file).await.expect("closes");
            }
            if i % 50 == 0 {
                engine.flush_all().await.expect("flushes");
                engine.release_all().await.expect("releases");
            }
            expected.push((*ino, bytes));
        }
        let below = engine.lookup(tree.root, b"below").await.expect("is there").ino;
        engine.unlink(below, b"small7").await.expect("unlinks");
        let view = engine.wait_for_action(view.id, 60_000).await.expect("waits");
        assert_eq!(view.state, ActionState::Done, "{view:?}");
        // What was released meanwhile is not here, and is not said to be.
        assert!(view.reasons.iter().all(|r| r.reason.contains("released again")), "{view:?}");
        for (ino, bytes) in expected {
            let Ok(got) = read_all(&engine, ino).await else {
                assert_eq!(
                    engine.lookup(below, b"small7").await.expect_err("gone").kind(),
                    ErrorKind::NotFound
                );
                continue;
            };
            assert!(got == bytes, "inode {ino}");
        }
        engine.flush_all().await.expect("flushes");
    });
    world.fsck();
}

#[test]
fn holes_take_no_room_and_are_never_released() {
    let world = World::with(Settings { tier_bytes: Bytes::mib(64), ..settings() }, None);
    world.run(async {
        let engine = world.engine();
        let inode = engine.create(Ino::ROOT, b"sparse", new_file()).await.expect("creates");
        let hole = engine.create(Ino::ROOT, b"hole", new_file()).await.expect("creates").ino;
        let file = engine.open(inode.ino, WRITE).await.expect("opens");
        engine.write(&file, 0, b"begin").await.expect("writes");
        engine.write(&file, 300 << 20, b"end").await.expect("writes");
        engine.close(file).await.expect("closes");
        engine.truncate(hole, 1 << 40).await.expect("grows");
        engine.flush_all().await.expect("flushes");
        let state = async |ino| engine.file_state(ino).await.expect("a state");
        assert!(!state(inode.ino).await.released);
        assert!(!state(hole).await.released && state(hole).await.resident_bytes == 0);
        let view = act(&engine, ActionKind::Release, inode.ino).await;
        assert_eq!(view.refused, 0);
        assert!(state(inode.ino).await.released);
        let view = act(&engine, ActionKind::Hydrate, inode.ino).await;
        assert_eq!(view.refused, 0, "{view:?}");
        assert!(!state(inode.ino).await.released);
        act(&engine, ActionKind::Hydrate, hole).await;
        assert_eq!(engine.getattr(hole).await.expect("is there").kind, FileKind::Regular);
    });
}

#[test]
fn many_actions_run_side_by_side_and_old_ones_are_forgotten() {
    let mut world = World::new();
    let last = world.run(async {
        let engine = world.engine();
        let mut started = Vec::new();
        let mut inos = Vec::new();
        for i in 0..150 {
            inos.push(put(&engine, Ino::ROOT, &format!("f{i}"), &noise(i, 20_000)).await);
        }
        engine.flush_all().await.expect("flushes");
        engine.release_all().await.expect("releases");
        for ino in &inos {
            let view = engine.start_action(request(ActionKind::Hydrate, *ino, false)).await;
            started.push(view.expect("starts").id);
        }
        for id in &started {
            // Those that ended first may be forgotten by now.
            if let Ok(view) = engine.wait_for_action(*id, 60_000).await {
                assert_eq!((view.state, view.files_done), (ActionState::Done, 1));
            }
        }
        for ino in inos {
            let state = engine.file_state(ino).await.expect("a state");
            assert!(!state.released && state.action.is_none());
        }
        let kept = engine.actions().await.expect("lists").len();
        assert!((100..=101).contains(&kept), "{kept} are kept");
        *started.last().expect("some")
    });
    world.kill();
    world.mount().expect("mounts");
    let kept = world.run(world.engine().actions()).expect("lists");
    assert!((100..=101).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept.last().expect("some").id, last);
}

#[test]
fn a_reader_hydrates_and_releases_its_own_tier() {
    let mut world = World::new();
    let tree = world.run(async { tree(&world.engine(), 1, 20).await });
    world.unmount().expect("ends");
    world.options.read_only = true;
    world.mount().expect("mounts");
    world.run(async {
        let engine = world.engine();
        let files = tree.files.len();
        let view = act(&engine, ActionKind::Hydrate, tree.root).await;
        assert_eq!((view.files_done, view.refused), (files as u64, 0));
        assert_eq!(resident(&engine, &tree).await, files);
        act(&engine, ActionKind::Release, tree.root).await;
        assert_eq!(resident(&engine, &tree).await, 1);
        let archive = request(ActionKind::Archive, tree.root, true);
        let refused = engine.start_action(archive).await.expect_err("it writes nothing");
        assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    });
}
