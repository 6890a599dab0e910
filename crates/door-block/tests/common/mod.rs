//! A volume with disks and an NBD server, in a temporary directory.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test file uses its own part")]

pub mod client;

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_door_block::{NbdOptions, NbdServer};
pub use weir_engine::testing::noise;
use weir_engine::testing::{self, settings};
use weir_engine::{DiskCache, DiskOptions, Engine};
use weir_object::testing::{FaultControl, FaultPlan, FaultStore};

/// One machine with one volume, whose bucket can be told to be silent.
pub struct World {
    machine: testing::World,
    bucket: FaultControl,
}

impl World {
    /// A fresh volume, mounted, without disks.
    pub fn new() -> Self {
        let bucket: Arc<Mutex<Option<FaultControl>>> = Arc::default();
        let made = bucket.clone();
        let machine = testing::World::with(
            settings(),
            Some(Arc::new(move |store| {
                let store = FaultStore::new(store, &FaultPlan::default());
                *made.lock() = Some(store.control());
                Arc::new(store)
            })),
        );
        let bucket = bucket.lock().take().expect("a bucket");
        Self { machine, bucket }
    }

    /// As new, with one disk of 64 MiB.
    pub fn with_disk(name: &str, cache: DiskCache) -> Self {
        let world = Self::new();
        world.run(world.create(name, 64 << 20, cache));
        world
    }

    pub fn path(&self) -> &Path {
        self.machine.dir.path()
    }

    pub fn engine(&self) -> Arc<Engine> {
        self.machine.engine()
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
        self.machine.run(future)
    }
}

/// While it lives the bucket answers no read.
pub struct Stuck(FaultControl);

impl Drop for Stuck {
    fn drop(&mut self) {
        self.0.set_silent(false);
    }
}
