//! Trees that actions work on, and buckets that are slow or fail.

use std::sync::Arc;
use std::time::Duration;

use weir_engine::{ActionKind, ActionRequest, ActionState, ActionView, Engine, Root, Wrap};
use weir_object::testing::{FaultPlan, FaultStore, Slow, SlowStore};
use weir_object::{Component, RequestKind};
use weir_types::{Ino, Settings};

use super::{WRITE, World, new_dir, new_file, noise, settings};

pub const MIB: usize = 1 << 20;

pub fn request(kind: ActionKind, ino: Ino, recursive: bool) -> ActionRequest {
    let roots = vec![Root { ino, path: "/tree".to_owned() }];
    ActionRequest { kind, roots, recursive, max_bytes_per_s: None, restore: None }
}

/// Starts an action and waits for its end.
pub async fn act(engine: &Engine, kind: ActionKind, ino: Ino) -> ActionView {
    let view = engine.start_action(request(kind, ino, true)).await.expect("starts");
    let view = engine.wait_for_action(view.id, 60_000).await.expect("waits");
    assert_eq!(view.state, ActionState::Done, "{view:?}");
    view
}

/// A file in `dir` with these bytes.
pub async fn put(engine: &Arc<Engine>, dir: Ino, name: &str, bytes: &[u8]) -> Ino {
    let inode = engine.create(dir, name.as_bytes(), new_file()).await.expect("creates");
    let file = engine.open(inode.ino, WRITE).await.expect("opens");
    for (at, piece) in bytes.chunks(MIB).enumerate() {
        engine.write(&file, (at * MIB) as u64, piece).await.expect("writes");
    }
    engine.close(file).await.expect("closes");
    inode.ino
}

/// A tree with large, middling and small files, flushed and released.
pub struct Tree {
    pub root: Ino,
    pub files: Vec<(Ino, Vec<u8>)>,
    pub bytes: u64,
}

pub async fn tree(engine: &Arc<Engine>, large: usize, small: usize) -> Tree {
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

pub async fn resident(engine: &Engine, tree: &Tree) -> usize {
    let mut resident = 0;
    for (ino, _) in &tree.files {
        resident += usize::from(!engine.file_state(*ino).await.expect("a state").released);
    }
    resident
}

pub fn data_gets(world: &World) -> (u64, u64) {
    let snapshot = world.engine().meter().snapshot();
    let row = snapshot.row(Component::Data, RequestKind::Get);
    row.map_or((0, 0), |row| (row.requests, row.bytes_received))
}

pub fn slow(latency_ms: u64, settings: Settings) -> World {
    let slow = Slow { latency: Duration::from_millis(latency_ms), bytes_per_s: 0 };
    let wrap: Wrap = Arc::new(move |store| Arc::new(SlowStore::new(store, slow)));
    World::with(Settings { meta_flush_ms: 1_000, ..settings }, Some(wrap))
}

pub fn faulty(plan: FaultPlan) -> World {
    let wrap: Wrap = Arc::new(move |store| Arc::new(FaultStore::new(store, &plan)));
    World::with(settings(), Some(wrap))
}
