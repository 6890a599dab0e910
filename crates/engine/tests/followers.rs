//! Mounts that only read, beside the one that writes: what they have open follows it.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{WRITE, World, create, noise};
use weir_engine::{Engine, OpenFile, OpenFlags, TreeChange};
use weir_types::{ErrorKind, Ino};

const MIB: u64 = 1 << 20;

fn follower(world: &World) -> Arc<Engine> {
    let mut options = world.options.clone();
    (options.read_only, options.tier) = (true, world.path("follower"));
    Arc::new(world.run(Engine::mount(options)).expect("mounts"))
}

async fn write(world: &World, ino: Ino, offset: u64, bytes: &[u8]) {
    let engine = world.engine();
    let file = engine.open(ino, WRITE).await.expect("opens");
    engine.write(&file, offset, bytes).await.expect("writes");
    engine.fsync(ino).await.expect("syncs");
    engine.close(file).await.expect("closes");
}

/// Returns when this holds of a file that stays open.
async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed().as_secs() < 60, "it does not come: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn size(engine: &Engine, file: &Arc<OpenFile>) -> u64 {
    engine.getattr(file.ino()).await.expect("its attributes").size
}

async fn all(engine: &Engine, file: &Arc<OpenFile>) -> Vec<u8> {
    engine.read(file, 0, 16 << 20).await.expect("reads").to_vec()
}

#[test]
fn an_open_file_grows_shrinks_and_changes_as_the_writer_makes_it_durable() {
    let world = World::new();
    let mut wanted = noise(1, 3 << 20);
    let ino = world.run(create(&world.engine(), "log", &wanted));
    world.run(world.engine().flush_all()).expect("flushes");
    let reader = follower(&world);
    world.run(async {
        let told = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let tells = told.clone();
        reader.watch_tree(move |change| tells.lock().push(change.clone()));
        let file = reader.open(ino, OpenFlags::default()).await.expect("opens");
        assert!(all(&reader, &file).await == wanted);

        let more = noise(2, 70_000);
        write(&world, ino, wanted.len() as u64, &more).await;
        wanted.extend(&more);
        until("an append", async || size(&reader, &file).await == wanted.len() as u64).await;
        assert!(all(&reader, &file).await == wanted, "what was appended");
        let from = |change: &TreeChange| match change {
            TreeChange::File(at, from) if *at == ino => *from,
            other => panic!("{other:?}"),
        };
        until("the doors", async || !told.lock().is_empty()).await;
        assert_eq!(from(&told.lock()[0]), Some(3 * MIB), "what is before is as it was");
        let fetched = reader.status().await.expect("status").since_mount.bytes_fetched;
        assert!(fetched < 2 * 3 * MIB, "all was fetched again for an append: {fetched}");

        let other = noise(3, 5_000);
        write(&world, ino, MIB + 100, &other).await;
        wanted[MIB as usize + 100..][..other.len()].copy_from_slice(&other);
        until("an overwrite", async || all(&reader, &file).await == wanted).await;

        world.engine().truncate(ino, 1_000_000).await.expect("cuts");
        world.engine().flush_all().await.expect("flushes");
        wanted.truncate(1_000_000);
        until("a cut", async || size(&reader, &file).await == 1_000_000).await;
        assert!(all(&reader, &file).await == wanted);
        world.engine().truncate(ino, 1_100_000).await.expect("grows");
        world.engine().flush_all().await.expect("flushes");
        wanted.resize(1_100_000, 0);
        until("a growth", async || all(&reader, &file).await == wanted).await;
        reader.close(file).await.expect("closes");
    });
    world.run(reader.shutdown()).expect("ends");
}

#[test]
fn a_file_that_the_writer_removes_stays_what_it_was_for_who_has_it_open() {
    let world = World::new();
    let (old, new) = (noise(4, 2 << 20), noise(5, 100_000));
    let ino = world.run(create(&world.engine(), "name", &old));
    world.run(world.engine().flush_all()).expect("flushes");
    let reader = follower(&world);
    world.run(async {
        let engine = world.engine();
        let file = reader.open(ino, OpenFlags::default()).await.expect("opens");
        assert!(reader.read(&file, 0, 4096).await.expect("reads") == old[..4096]);
        reader.release_all().await.expect("nothing of it is here any more");
        let made = create(&engine, "next", &new).await;
        let root = Ino::ROOT;
        let replace = weir_engine::RenameMode::Replace;
        engine.rename((root, b"next"), (root, b"name"), replace).await.expect("renames");
        engine.flush_all().await.expect("flushes");
        until("the new name", async || {
            reader.lookup(root, b"name").await.expect("a file").ino == made
        })
        .await;
        // The writer's inode goes a moment after its name.
        until("its end", async || reader.getattr(ino).await.expect("is open").nlink == 0).await;
        engine.flush_all().await.expect("flushes");
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(size(&reader, &file).await, old.len() as u64);
        assert!(all(&reader, &file).await == old, "what was not read before the end");
        let next = reader.open(made, OpenFlags::default()).await.expect("opens");
        assert!(all(&reader, &next).await == new);
        reader.close(next).await.expect("closes");
        reader.close(file).await.expect("closes");
        let gone = reader.open(ino, OpenFlags::default()).await.expect_err("it is removed");
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    });
    world.run(reader.shutdown()).expect("ends");
}

#[test]
fn what_goes_on_in_the_place_of_a_follower_counts_all_that_is_open() {
    let world = World::new();
    let ino = world.run(create(&world.engine(), "a", b"one"));
    world.run(world.engine().flush_all()).expect("flushes");
    let mut options = world.options.clone();
    (options.read_only, options.tier) = (true, world.path("follower"));
    options.inherited.open = vec![ino];
    let heir = Arc::new(world.run(Engine::mount(options)).expect("mounts"));
    world.run(async {
        let file = heir.open(ino, OpenFlags::default()).await.expect("opens again");
        heir.let_go(ino).await;
        world.engine().unlink(Ino::ROOT, b"a").await.expect("unlinks");
        world.engine().flush_all().await.expect("flushes");
        // Only of what is open anything is known by then.
        until("its end", async || heir.getattr(ino).await.expect("it is open").nlink == 0).await;
        heir.close(file).await.expect("closes");
    });
    world.run(heir.shutdown()).expect("ends");
}
