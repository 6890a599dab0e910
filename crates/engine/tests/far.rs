//! A bucket that is far away: what it costs in the bucket's own time, which the tests hold still.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{create, format_options, mount_options, noise, settings};
use weir_engine::{
    ActionKind, ActionRequest, ActionState, BucketUrl, Clock, ConnectOptions, Connector, Engine,
    FormatOptions, Meter, MountOptions, Root, format,
};
use weir_object::testing::{Slow, SlowStore};
use weir_types::{Ino, Settings};

const MIB: usize = 1 << 20;

/// Runs `work` with an engine over a bucket with 20 ms of latency and 80 MiB/s for each connection.
async fn far<T>(name: &str, work: impl AsyncFnOnce(Arc<Engine>) -> T) -> T {
    let dir = tempfile::tempdir().expect("a directory");
    let url: BucketUrl = format!("memory://{name}").parse().expect("a URL");
    let mut connector = Connector::new(ConnectOptions::default(), Meter::new());
    let began = tokio::time::Instant::now();
    let clock = Clock {
        now_ms: Arc::new(move || began.elapsed().as_millis() as u64 + 1),
        ..common::clock()
    };
    let options = FormatOptions { segment_bytes: 16 << 20, ..format_options(&url, &connector) };
    format(options).await.expect("formats");
    let slow = Slow { latency: Duration::from_millis(20), bytes_per_s: 80 * MIB as u64 };
    connector.wrap = Some(Arc::new(move |store| Arc::new(SlowStore::new(store, slow))));
    let options = MountOptions {
        settings: Settings { tier_bytes: weir_types::Bytes::gib(4), ..settings() },
        clock,
        ..mount_options(url, connector, dir.path())
    };
    let engine = Arc::new(Engine::mount(options).await.expect("mounts"));
    let result = work(engine.clone()).await;
    engine.shutdown().await.expect("ends");
    result
}

#[tokio::test(start_paused = true)]
async fn a_cold_file_comes_over_many_connections_at_once() {
    let size = 256 * MIB;
    let took = far("far-read", async |engine| {
        let ino = create(&engine, "a", &noise(1, size)).await;
        engine.flush_all().await.expect("flushes");
        engine.release_all().await.expect("releases");
        let began = tokio::time::Instant::now();
        let file = engine.open(ino, Default::default()).await.expect("opens");
        for at in 0..(size / MIB) as u64 {
            engine.read(&file, at << 20, MIB).await.expect("reads");
        }
        engine.close(file).await.expect("closes");
        began.elapsed()
    })
    .await;
    // One connection takes 3.2 s, sixteen 0.2 s.
    assert!(took < Duration::from_millis(650), "{took:?}");
}

/// How long it takes to hydrate these files of the root directory.
async fn hydrate(engine: &Engine, max_bytes_per_s: Option<u64>) -> Duration {
    engine.flush_all().await.expect("flushes");
    engine.release_all().await.expect("releases");
    let began = tokio::time::Instant::now();
    let roots = vec![Root { ino: Ino::ROOT, path: "/".to_owned() }];
    let kind = ActionKind::Hydrate;
    let request = ActionRequest { kind, roots, recursive: true, max_bytes_per_s, restore: None };
    let view = engine.start_action(request).await.expect("starts");
    let view = engine.wait_for_action(view.id, 60_000).await.expect("waits");
    assert_eq!((view.state, view.refused), (ActionState::Done, 0));
    assert_eq!(view.bytes_done, view.bytes_total);
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_hydration_keeps_its_connections_busy() {
    let took = far("far-hydrate", async |engine| {
        create(&engine, "large", &noise(1, 192 * MIB)).await;
        for i in 0..16 {
            create(&engine, &format!("f{i}"), &noise(i, 4 * MIB)).await;
        }
        hydrate(&engine, None).await
    })
    .await;
    // Thirty-two connections take 0.1 s, and each request 20 ms more.
    assert!(took < Duration::from_millis(350), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hydration_keeps_to_its_rate() {
    let took = far("far-rate", async |engine| {
        create(&engine, "large", &noise(1, 64 * MIB)).await;
        for i in 0..1_000 {
            create(&engine, &format!("f{i}"), &noise(i, 16_384)).await;
        }
        hydrate(&engine, Some(20 << 20)).await
    })
    .await;
    // 80 MB at 21 MB/s, of which the last part need not wait for itself.
    assert!(took > Duration::from_millis(3_300) && took < Duration::from_millis(4_500), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_large_write_keeps_all_connections_busy() {
    let size = 256 * MIB;
    let took = far("far-write", async |engine| {
        let began = tokio::time::Instant::now();
        let inode = engine.create(Ino::ROOT, b"a", common::new_file()).await.expect("creates");
        let file = engine.open(inode.ino, common::WRITE).await.expect("opens");
        for (at, piece) in noise(1, size).chunks(MIB).enumerate() {
            engine.write(&file, (at * MIB) as u64, piece).await.expect("writes");
        }
        engine.fsync(inode.ino).await.expect("syncs");
        engine.close(file).await.expect("closes");
        began.elapsed()
    })
    .await;
    // Sixteen segments of 220 ms each, eight at once, and the metadata.
    assert!(took < Duration::from_millis(700), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_fsync_takes_two_round_trips_however_many_wait_for_it() {
    far("far-fsync", async |engine| {
        let mut files = Vec::new();
        for i in 0..8 {
            let name = format!("f{i}");
            let ino = create(&engine, &name, &noise(i, 4096)).await;
            engine.fsync(ino).await.expect("syncs");
            files.push(engine.open(ino, common::WRITE).await.expect("opens"));
        }
        let began = tokio::time::Instant::now();
        engine.write(&files[0], 0, &noise(9, 4096)).await.expect("writes");
        engine.fsync(files[0].ino()).await.expect("syncs");
        let one = began.elapsed();
        // A PUT takes 20 ms and a little: one for the data, one for the metadata.
        assert!(one <= Duration::from_millis(46), "{one:?}");
        let began = tokio::time::Instant::now();
        let syncing: Vec<_> = files
            .iter()
            .map(|file| {
                let (engine, file) = (engine.clone(), file.clone());
                tokio::spawn(async move {
                    engine.write(&file, 0, &noise(10, 4096)).await.expect("writes");
                    engine.fsync(file.ino()).await.expect("syncs");
                })
            })
            .collect();
        for each in syncing {
            each.await.expect("ends");
        }
        let eight = began.elapsed();
        assert!(eight <= 2 * one, "{eight:?}");
    })
    .await;
}
