//! Hydrations: what they cost, what they survive, and who goes before them.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::trees::{MIB, Tree, act, data_gets, faulty, put, request, resident, slow, tree};
use common::{WRITE, World, new_dir, noise, read_all, settings};
use weir_engine::{ActionKind, ActionState, Engine, OpenFlags};
use weir_object::RequestKind;
use weir_object::testing::{FaultPlan, FaultRule, Place, Trigger, What};
use weir_types::{Bytes, ErrorKind, Ino, Settings};

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
