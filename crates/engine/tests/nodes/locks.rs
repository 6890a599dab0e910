//! Advisory locks of two nodes that share a volume.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_engine::testing::{World, create};
use weir_engine::{Engine, Lock, LockOwner, LockSpace, MountOptions, NodesOptions, evict_node};
use weir_types::{ErrorKind, Ino};

const OWNERS: u64 = 3;
const TURNS: usize = 60;

fn whole(owner: u64, exclusive: bool) -> Lock {
    Lock { owner: LockOwner(owner), start: 0, last: u64::MAX, exclusive, pid: 1 }
}

/// Two nodes with a file.
fn two_nodes() -> (World, [Arc<Engine>; 2], Ino) {
    let mut world = World::new();
    world.unmount().expect("unmounts");
    world.options.shared = true;
    world.mount().expect("mounts");
    let options = MountOptions { tier: world.path("tier-b"), ..world.options.clone() };
    let other = world.run(Engine::mount(options)).expect("mounts");
    let first = world.engine();
    let ino = world.run(create(&first, "f", b"x"));
    (world, [first, Arc::new(other)], ino)
}

/// Takes turns at a lock, each alone.
async fn takes_turns(
    engine: Arc<Engine>,
    file: (Ino, LockSpace),
    owner: u64,
    inside: Arc<AtomicUsize>,
) {
    for turn in 0..TURNS {
        let granted = engine.lock(file, whole(owner, true), true).await.expect("locks");
        granted.expect("was waited for").keep();
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "owner {owner}, turn {turn}");
        tokio::task::yield_now().await;
        inside.fetch_sub(1, Ordering::SeqCst);
        engine.unlock(file, LockOwner(owner), (0, u64::MAX)).await.expect("unlocks");
    }
}

#[test]
fn one_owner_at_a_time_has_an_exclusive_lock_of_all_nodes() {
    let (world, nodes, ino) = two_nodes();
    let inside = Arc::new(AtomicUsize::new(0));
    world.run(async {
        let mut turns = tokio::task::JoinSet::new();
        for node in &nodes {
            for owner in 0..OWNERS {
                let file = (ino, LockSpace::Posix);
                turns.spawn(takes_turns(node.clone(), file, owner, inside.clone()));
            }
        }
        while let Some(ended) = turns.join_next().await {
            ended.expect("no two had it");
        }
    });
    world.run(nodes[1].shutdown()).expect("ends");
}

#[test]
fn a_lock_that_nobody_keeps_is_free() {
    let (world, nodes, ino) = two_nodes();
    let file = (ino, LockSpace::Flock);
    world.run(async {
        let [first, second] = &nodes;
        drop(first.lock(file, whole(1, true), false).await.expect("locks").expect("is free"));
        // It waits until that is undone, here and there.
        let granted = first.lock(file, whole(2, true), true).await.expect("locks");
        assert!(second.lock(file, whole(1, false), false).await.expect("asks").is_none());
        let held = second.test_lock(file, whole(1, false)).await.expect("asks");
        assert_eq!(held, Some(Lock { pid: 0, ..whole(2, true) }));
        drop(granted);
        let granted = second.lock(file, whole(1, true), true).await.expect("locks");
        granted.expect("was waited for").keep();
        assert!(first.lock(file, whole(2, false), false).await.expect("asks").is_none());
        // Who gives up while it waits leaves nothing behind.
        let waits = tokio::time::timeout(
            std::time::Duration::from_millis(50),
            first.lock(file, whole(2, true), true),
        );
        assert!(waits.await.is_err());
        second.release_locks(ino, LockOwner(1)).await.expect("lets go");
        assert!(first.held_locks().is_empty() && second.held_locks().is_empty());
        let granted = second.lock(file, whole(3, true), true).await.expect("locks");
        granted.expect("was waited for").keep();
        second.shutdown().await.expect("ends");
        let granted = first.lock(file, whole(1, true), false).await.expect("locks");
        granted.expect("its session ended").keep();
    });
}

/// Only reads were done under the first of the locks, so no write could tell.
#[test]
fn who_was_shut_out_hears_at_the_unlock_that_the_lock_was_lost() {
    for taken_since in [false, true] {
        let (world, [first, second], ino) = two_nodes();
        let file = (ino, LockSpace::Flock);
        let options = NodesOptions {
            url: world.options.url.clone(),
            connector: world.options.connector.clone(),
            metadata_url: None,
        };
        world.run(async {
            let granted = second.lock(file, whole(1, false), false).await.expect("locks");
            granted.expect("is free").keep();
            let session = second.session().expect("is shared").to_string();
            let now = weir_types::UnixTime::from_parts(0, 0);
            evict_node(&options, &session, now).await.expect("evicts");
            if taken_since {
                let granted = first.lock(file, whole(2, true), true).await.expect("locks");
                granted.expect("was waited for").keep();
            }
            let told = second.unlock(file, LockOwner(1), (0, u64::MAX)).await;
            assert_eq!(told.expect_err("was lost").kind(), ErrorKind::Fenced, "{taken_since}");
            second.unlock(file, LockOwner(1), (0, u64::MAX)).await.expect("holds nothing now");
            if taken_since {
                first.unlock(file, LockOwner(2), (0, u64::MAX)).await.expect("unlocks");
            }
        });
    }
}
