//! A volume with disks and an NBD server, in a temporary directory.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test file uses its own part")]
#![allow(clippy::disallowed_methods, reason = "the clock that tests hand in begins here")]

pub mod client;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use weir_door_block::{NbdOptions, NbdServer};
use weir_engine::{
    AcceptLoss, BucketUrl, Clock, ConnectOptions, Connector, DiskCache, DiskOptions, Engine,
    FormatOptions, Host, Meter, MountOptions, format,
};
use weir_object::testing::{FaultControl, FaultPlan, FaultStore};
use weir_types::{Bytes, Codec, Settings, UnixTime};

/// One machine with one volume.
pub struct World {
    pub dir: TempDir,
    bucket: FaultControl,
    runtime: Option<Runtime>,
    engine: Option<Arc<Engine>>,
}

fn clock() -> Clock {
    let began = Instant::now();
    Clock {
        now: Arc::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
            UnixTime(since.as_nanos() as i64)
        }),
        now_ms: Arc::new(move || began.elapsed().as_millis() as u64 + 1),
        random: Arc::new(rand::random),
    }
}

impl World {
    /// A fresh volume, mounted, without disks.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("bucket")).expect("a bucket");
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime");
        let (engine, bucket) = runtime.block_on(mount(&dir));
        Self { dir, bucket, runtime: Some(runtime), engine: Some(Arc::new(engine)) }
    }

    /// As new, with one disk of 64 MiB.
    pub fn with_disk(name: &str, cache: DiskCache) -> Self {
        let world = Self::new();
        world.run(world.create(name, 64 << 20, cache));
        world
    }

    pub fn engine(&self) -> Arc<Engine> {
        self.engine.clone().expect("mounted")
    }

    /// From here on the bucket answers no read, until what this returns is dropped.
    pub fn stuck(&self) -> Stuck {
        self.bucket.set_silent(true);
        Stuck(self.bucket.clone())
    }

    pub async fn create(&self, name: &str, size_bytes: u64, cache: DiskCache) {
        let options = DiskOptions { name: name.to_owned(), size_bytes, record_bytes: None, cache };
        self.engine().create_disk(options).await.expect("a disk");
    }

    /// A server on a port of its own.
    pub async fn serve(&self) -> NbdServer {
        self.serve_with(NbdOptions { memory_bytes: 256 << 20, ..NbdOptions::default() }).await
    }

    pub async fn serve_with(&self, options: NbdOptions) -> NbdServer {
        let listen = Some("127.0.0.1:0".parse().expect("an address"));
        NbdServer::start(self.engine(), NbdOptions { listen, ..options }).await.expect("serves")
    }

    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.runtime.as_ref().expect("runs").block_on(future)
    }
}

/// While it lives the bucket answers no read.
pub struct Stuck(FaultControl);

impl Drop for Stuck {
    fn drop(&mut self) {
        self.0.set_silent(false);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.engine = None;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(10));
        }
    }
}

async fn mount(dir: &TempDir) -> (Engine, FaultControl) {
    let url: BucketUrl = format!("file://{}/bucket", dir.path().display()).parse().expect("a URL");
    let connect = ConnectOptions { timeout_ms: 20_000, ..ConnectOptions::default() };
    let mut connector = Connector::new(connect, Meter::new());
    let volume = FormatOptions {
        url: url.clone(),
        stripe: Vec::new(),
        connector: connector.clone(),
        record_bytes: 1 << 20,
        segment_bytes: 4 << 20,
        codec: Codec::Lz4,
        root: (0o755, 0, 0),
        now: (clock().now)(),
    };
    format(volume).await.expect("formats");
    let bucket: Arc<Mutex<Option<FaultControl>>> = Arc::default();
    let made = bucket.clone();
    connector.wrap = Some(Arc::new(move |store| {
        let store = FaultStore::new(store, &FaultPlan::default());
        *made.lock() = Some(store.control());
        Arc::new(store)
    }));
    let settings = Settings {
        tier_bytes: Bytes::mib(256),
        free_floor_bytes: Bytes(0),
        bucket_timeout_ms: 20_000,
        ..Settings::default()
    };
    let options = MountOptions {
        url,
        connector,
        tier: dir.path().join("tier"),
        journal: None,
        read_only: false,
        take_over: false,
        accept_loss: AcceptLoss::Nothing,
        only_clean: false,
        ask_space: weir_engine::DiskSpace::kernel(),
        settings,
        clock: clock(),
        host: Host::this(),
    };
    let engine = Engine::mount(options).await.expect("mounts");
    let control = bucket.lock().take().expect("a bucket");
    (engine, control)
}

/// Bytes that lz4 cannot shrink and nobody can mistake for others.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    StdRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}
