//! A read happens once: counted in GETs.

mod common;

use std::sync::Arc;

use common::{World, create, noise, read_all, settings};
use weir_object::RequestKind;
use weir_object::testing::{Slow, SlowStore};
use weir_types::{Ino, Settings};

fn data_gets(world: &World) -> (u64, u64) {
    let snapshot = world.engine().meter().snapshot();
    let row = snapshot.row(weir_object::Component::Data, RequestKind::Get);
    row.map_or((0, 0), |row| (row.requests, row.bytes_received))
}

fn slow() -> World {
    let slow = Slow { latency: std::time::Duration::from_millis(20), bytes_per_s: 1 << 40 };
    let wrap: weir_engine::Wrap = Arc::new(move |store| Arc::new(SlowStore::new(store, slow)));
    World::with(Settings { meta_flush_ms: 1_000, ..settings() }, Some(wrap))
}

#[test]
fn eight_readers_of_a_cold_file_cost_one_pass() {
    let world = slow();
    let bytes = noise(1, 24 << 20);
    let ino = world.run(create(&world.engine(), "a", &bytes));
    world.run(async {
        let engine = world.engine();
        engine.flush_all().await.expect("flushes");
        engine.release_all().await.expect("releases");
    });
    let before = data_gets(&world);
    world.run(async {
        let readers: Vec<_> = (0..8)
            .map(|_| {
                let engine = world.engine();
                tokio::spawn(async move { read_all(&engine, ino).await.expect("reads") })
            })
            .collect();
        for reader in readers {
            assert!(reader.await.expect("ends") == bytes);
        }
    });
    let got = data_gets(&world).1 - before.1;
    assert!(got < (24 << 20) * 102 / 100, "{got} bytes for one pass over 24 MiB");
}

#[test]
fn small_files_come_with_their_neighbours() {
    let world = slow();
    let files: Vec<_> = (0..200).map(|i| noise(i, 16_000)).collect();
    let inos: Vec<Ino> = world.run(async {
        let engine = world.engine();
        let mut inos = Vec::new();
        for (i, bytes) in files.iter().enumerate() {
            inos.push(create(&engine, &format!("f{i}"), bytes).await);
        }
        engine.flush_all().await.expect("flushes");
        engine.unlink(Ino::ROOT, b"f7").await.expect("unlinks");
        engine.release_all().await.expect("releases");
        inos
    });
    let before = data_gets(&world).0;
    for (i, ino) in inos.iter().enumerate().filter(|(i, _)| *i != 7) {
        assert!(world.run(read_all(&world.engine(), *ino)).expect("reads") == files[i], "file {i}");
    }
    let gets = data_gets(&world).0 - before;
    assert!(gets <= 8, "{gets} GETs for 3.2 MB in 200 files");
}

#[test]
fn a_changed_neighbour_is_not_filled_with_old_bytes() {
    let world = slow();
    let (old, new) = (noise(1, 16_000), noise(2, 16_000));
    world.run(async {
        let engine = world.engine();
        let first = create(&engine, "first", &old).await;
        let second = create(&engine, "second", &old).await;
        engine.flush_all().await.expect("flushes");
        let file = engine.open(second, common::WRITE).await.expect("opens");
        engine.write(&file, 0, &new).await.expect("writes");
        engine.close(file).await.expect("closes");
        engine.flush_all().await.expect("flushes");
        engine.release_all().await.expect("releases");
        assert!(read_all(&engine, first).await.expect("reads") == old);
        assert!(read_all(&engine, second).await.expect("reads") == new);
    });
}

#[test]
fn who_waits_overtakes_what_is_fetched_ahead() {
    let slow = Slow { latency: std::time::Duration::from_millis(5), bytes_per_s: 1 << 40 };
    let wrap: weir_engine::Wrap = Arc::new(move |store| Arc::new(SlowStore::new(store, slow)));
    let settings = Settings {
        fetch_parallel: 1,
        fetch_bytes: weir_types::Bytes::mib(1),
        meta_flush_ms: 1_000,
        ..settings()
    };
    let world = World::with(settings, Some(wrap));
    let bytes = noise(1, 48 << 20);
    let ino = world.run(create(&world.engine(), "a", &bytes));
    world.run(async {
        let engine = world.engine();
        engine.flush_all().await.expect("flushes");
        engine.release_all().await.expect("releases");
        let file = engine.open(ino, Default::default()).await.expect("opens");
        for at in 0..6 {
            engine.read(&file, at << 20, 1 << 20).await.expect("reads");
        }
        // By now the window goes far beyond this place, which one GET at a time comes to last.
        let far = 30 << 20;
        let got = engine.read(&file, far, 4096).await.expect("reads");
        assert!(got == bytes[far as usize..far as usize + 4096]);
        let released = engine.residency(ino).await.expect("residency").released;
        assert!(released > 24 << 20, "only {released} bytes were left to fetch");
        engine.close(file).await.expect("closes");
    });
}
