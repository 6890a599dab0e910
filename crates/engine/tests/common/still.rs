//! A world in which what is there settles when a test says so.
#![allow(clippy::disallowed_methods, reason = "the collector runs by the real clock here")]

use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weir_engine::Engine;
use weir_object::{Component, RequestKind};
use weir_types::{Ino, Settings, UnixTime};

use super::{WRITE, World, create, noise, read_all, settings};

/// Longer than it takes the collector to look twice.
pub const LOOKS: Duration = Duration::from_secs(3);

/// A world whose wall clock moves only when it is told to. The collector looks each second.
pub struct Still {
    pub world: World,
    unix_ms: Arc<AtomicU64>,
}

impl Still {
    pub fn new() -> Self {
        let eager = Settings { collect_interval_s: 1, collect_grace_s: 0, ..settings() };
        let mut world = World::with(eager, None);
        world.unmount().expect("unmounts");
        let unix_ms = Arc::new(AtomicU64::new(1_800_000_000_000));
        let time = unix_ms.clone();
        world.options.clock.now =
            Arc::new(move || UnixTime(time.load(Ordering::Relaxed) as i64 * 1_000_000));
        world.mount().expect("mounts");
        Self { world, unix_ms }
    }

    pub fn engine(&self) -> Arc<Engine> {
        self.world.engine()
    }

    /// All that is there has settled.
    pub fn later(&self) {
        self.unix_ms.fetch_add(60_000, Ordering::Relaxed);
    }

    pub fn overwrite(&self, ino: Ino, at: usize, bytes: &[u8]) {
        self.world.run(async {
            let engine = self.engine();
            let file = engine.open(ino, WRITE).await.expect("opens");
            engine.write(&file, at as u64, bytes).await.expect("writes");
            engine.close(file).await.expect("closes");
            engine.fsync(ino).await.expect("syncs");
        });
    }

    /// A file of so many pages, each fsynced before the next one, in an order that is not theirs.
    pub fn pages(&self, name: &str, pages: usize) -> (Ino, Vec<u8>) {
        let ino = self.world.run(create(&self.engine(), name, b""));
        let content = noise(pages as u64, pages * 4096);
        for page in 0..pages {
            let at = page * 37 % pages * 4096;
            self.overwrite(ino, at, &content[at..at + 4096]);
        }
        (ino, content)
    }

    pub fn objects(&self) -> Vec<PathBuf> {
        objects_in(&self.world.path("bucket"))
    }

    pub fn requests(&self, component: Component, kind: RequestKind) -> u64 {
        let snapshot = self.engine().meter().snapshot();
        snapshot.row(component, kind).map_or(0, |row| row.requests)
    }

    /// GETs and PUTs of the collector.
    pub fn cost(&self) -> (u64, u64) {
        let of = |kind| self.requests(Component::Collect, kind);
        (of(RequestKind::Get), of(RequestKind::Put))
    }

    pub fn merged(&self) -> u64 {
        self.world.run(self.engine().status()).expect("status").since_mount.segments_merged
    }

    pub fn wait_until(&self, what: &str, done: impl Fn() -> bool) {
        let began = Instant::now();
        while !done() {
            let objects = self.objects().len();
            // The collector rests twenty times as long as a look took, which is long on a busy machine.
            assert!(began.elapsed() < Duration::from_secs(600), "{what}: {objects} objects");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Mounts on a machine that has nothing of the volume, and reads these files: GETs of that.
    pub fn cold_read(&mut self, files: &[(Ino, Vec<u8>)]) -> u64 {
        self.world.unmount().expect("unmounts");
        self.world.lose_machine_after_unmount();
        self.world.mount().expect("mounts");
        let before = self.requests(Component::Data, RequestKind::Get);
        for (ino, content) in files {
            let read = self.world.run(read_all(&self.engine(), *ino)).expect("reads");
            assert!(read == *content, "another content");
        }
        self.requests(Component::Data, RequestKind::Get) - before
    }

    pub fn sound(mut self) {
        self.world.unmount().expect("unmounts");
        self.world.fsck();
    }
}

/// Segments in a bucket.
pub fn objects_in(bucket: &Path) -> Vec<PathBuf> {
    let directories = std::fs::read_dir(bucket.join("seg")).into_iter().flatten();
    let in_it = |directory: std::io::Result<DirEntry>| {
        let listed = std::fs::read_dir(directory.expect("lists").path()).expect("lists");
        listed.map(|entry| entry.expect("lists").path()).collect::<Vec<_>>()
    };
    directories.flat_map(in_it).collect()
}
