//! Actions of nodes that share a volume: each is one node's, and all tell of it.
#![allow(clippy::disallowed_methods, reason = "nodes beat by the real clock here")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_engine::testing::{World, clock, create, new_file, noise, settings};
use weir_engine::{
    ActionId, ActionKind, ActionRequest, ActionState, ActionView, Engine, NodesOptions, Root, Wrap,
    evict_node,
};
use weir_object::testing::{Slow, SlowStore};
use weir_types::Ino;

use crate::whole::{Node, shared, wait_until};

const MIB: usize = 1 << 20;

fn request(kind: ActionKind, ino: Ino, max_bytes_per_s: Option<u64>) -> ActionRequest {
    let roots = vec![Root { ino, path: "file".to_owned() }];
    ActionRequest { kind, roots, recursive: false, max_bytes_per_s, restore: None }
}

/// A file that is in the bucket.
async fn flushed(engine: &Arc<Engine>, bytes: &[u8]) -> Ino {
    let file = create(engine, "file", bytes).await;
    engine.flush_all().await.expect("flushes");
    file
}

/// As a node tells of it; `None` if it does not.
async fn told(engine: &Engine, id: ActionId) -> Option<ActionView> {
    let all = engine.actions().await.expect("lists");
    all.into_iter().find(|action| action.id == id)
}

async fn is(engine: &Engine, id: ActionId, here: bool, state: ActionState) -> bool {
    told(engine, id).await.is_some_and(|view| {
        view.state == state && view.node.as_ref().is_some_and(|node| node.here == here)
    })
}

#[test]
fn an_action_is_one_nodes_all_tell_of_it_and_any_can_end_it() {
    let world = shared();
    let engine = world.engine();
    let other = Node::of(&world, "other");
    let file = world.run(flushed(&engine, &noise(1, 4 * MIB)));
    let slowly = || request(ActionKind::Hydrate, file, Some(64 << 10));
    let id = other.run(other.engine.start_action(slowly())).expect("starts").id;
    world.run(wait_until("the other one works on it", async || {
        is(&engine, id, false, ActionState::Running).await
    }));
    assert!(other.run(is(&other.engine, id, true, ActionState::Running)));
    let own = world.run(engine.start_action(slowly())).expect("starts").id;
    assert_eq!(own.0, id.0 + 1, "a number is used once");
    world.run(async {
        // What is here already is found, not fetched.
        let view = engine.wait_for_action(own, 60_000).await.expect("ends");
        assert_eq!(view.state, ActionState::Done);
        assert!(is(&other.engine, own, false, ActionState::Done).await);
        let cancelled = engine.cancel_action(id).await.expect("cancels");
        assert_eq!(cancelled.state, ActionState::Cancelled);
    });
    let view = other.run(other.engine.wait_for_action(id, 60_000)).expect("is told");
    assert_eq!(view.state, ActionState::Cancelled);
    // Who is shut out leaves what it was at.
    let id = other.run(other.engine.start_action(slowly())).expect("starts").id;
    let view = other.run(told(&other.engine, id)).expect("is there");
    let options = NodesOptions {
        url: world.options.url.clone(),
        connector: world.options.connector.clone(),
        metadata_url: None,
    };
    let node = view.node.expect("a node").id;
    world.run(evict_node(&options, &node, (clock().now)())).expect("evicts");
    let view = world.run(told(&engine, id)).expect("is there");
    assert_eq!((view.state, view.reasons.len()), (ActionState::Cancelled, 1), "{view:?}");
    other.kill();
}

#[test]
fn a_hydration_waits_for_its_node_and_goes_on_when_its_tier_comes_back() {
    let world = shared();
    let engine = world.engine();
    let other = Node::of(&world, "other");
    let file = world.run(flushed(&engine, &noise(2, 6 * MIB)));
    let hydrate = request(ActionKind::Hydrate, file, Some(MIB as u64));
    let id = other.run(other.engine.start_action(hydrate)).expect("starts").id;
    other.kill();
    world.run(wait_until("its node is away", async || {
        is(&engine, id, false, ActionState::Away).await
    }));
    // Another tier is none of its business.
    let third = Node::of(&world, "third");
    // It may see the dead one for a while, as all do.
    third.run(wait_until("its node is away", async || {
        is(&third.engine, id, false, ActionState::Away).await
    }));
    let other = Node::of(&world, "other");
    other.run(async {
        let view = other.engine.wait_for_action(id, 60_000).await.expect("ends");
        assert_eq!((view.state, view.refused), (ActionState::Done, 0), "{view:?}");
        let state = other.engine.file_state(file).await.expect("a state");
        assert!(!state.released && state.resident_bytes >= 6 * MIB as u64, "{state:?}");
    });
    assert!(third.run(is(&third.engine, id, false, ActionState::Done)));
    third.unmount();
    other.unmount();
}

#[test]
fn an_archive_that_lost_its_node_is_gone_on_with_by_another_one() {
    let slow = Slow { latency: Duration::from_millis(400), bytes_per_s: 0 };
    let wrap: Wrap = Arc::new(move |store| Arc::new(SlowStore::new(store, slow)));
    let mut world = World::with(settings(), Some(wrap));
    world.unmount().expect("unmounts");
    world.options.shared = true;
    world.mount().expect("joins");
    let engine = world.engine();
    let other = Node::of(&world, "other");
    let (file, id) = other.run(async {
        let made = other.engine.create(Ino::ROOT, b"file", new_file()).await.expect("creates");
        let flags = weir_engine::testing::WRITE;
        let open = other.engine.open(made.ino, flags).await.expect("opens");
        other.engine.write(&open, 0, &noise(3, MIB)).await.expect("writes");
        let archive = request(ActionKind::Archive, made.ino, None);
        (made.ino, other.engine.start_action(archive).await.expect("starts").id)
    });
    other.kill();
    let began = Instant::now();
    world.run(wait_until("this one has done it", async || {
        is(&engine, id, true, ActionState::Done).await
    }));
    assert!(began.elapsed() > Duration::from_secs(3), "its node was not waited for");
    assert_eq!(world.run(engine.getattr(file)).expect("is there").size, 0, "it was not flushed");
}

#[test]
fn pins_hold_on_other_nodes_too() {
    let world = shared();
    let engine = world.engine();
    let other = Node::of(&world, "other");
    let file = world.run(flushed(&engine, &noise(4, MIB)));
    let pinned =
        async |engine: &Arc<Engine>| engine.file_state(file).await.expect("a state").pinned;
    let roots = || vec![Root { ino: file, path: "file".to_owned() }];
    other.run(async {
        assert!(!pinned(&other.engine).await);
        assert_eq!(engine.pin(&roots(), false, true).await.expect("pins"), 1);
        wait_until("it is pinned there", async || pinned(&other.engine).await).await;
        other.engine.pin(&roots(), false, false).await.expect("unpins");
        wait_until("it is pinned nowhere", async || !pinned(&engine).await).await;
    });
    other.unmount();
}
