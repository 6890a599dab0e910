//! A volume, a tier and an engine in a temporary directory, to be used, killed and mounted again:
//! for tests, those of the doors too.
#![allow(clippy::disallowed_methods, reason = "the clock that tests hand in begins here")]
#![allow(clippy::expect_used, clippy::missing_panics_doc, reason = "a test that cannot go on ends")]

mod postgres;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use weir_keys::Secret;
use weir_meta::NewInode;
use weir_object::{BucketUrl, ConnectOptions, Meter};
use weir_tier::DiskSpace;
use weir_types::{Bytes, Codec, FileKind, Ino, Result, Settings, UnixTime};

use crate::engine::Engine;
use crate::names::files::{OpenFile, OpenFlags};
use crate::volume::boxed::{Boxed, boxed};
use crate::volume::connector::{Connector, Wrap};
use crate::volume::context::Clock;
use crate::volume::format::{FormatOptions, format};
use crate::volume::fsck::{FsckOptions, fsck};
use crate::volume::host::Host;
use crate::volume::options::{AcceptLoss, MountOptions};

/// One machine with one volume.
pub struct World {
    /// All that is on its disks, and its bucket.
    pub dir: TempDir,
    /// How it mounts the next time.
    pub options: MountOptions,
    runtime: Option<Runtime>,
    engine: Option<Arc<Engine>>,
}

/// The clock of this machine.
pub fn clock() -> Clock {
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

/// Those of a small machine.
pub fn settings() -> Settings {
    Settings {
        tier_bytes: Bytes::mib(256),
        free_floor_bytes: Bytes(0),
        bucket_timeout_ms: 20_000,
        ..Settings::default()
    }
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime")
}

/// How a volume of tests is made.
pub fn format_options(url: &BucketUrl, connector: &Connector) -> FormatOptions {
    FormatOptions {
        url: url.clone(),
        stripe: Vec::new(),
        connector: connector.clone(),
        record_bytes: 1 << 20,
        segment_bytes: 4 << 20,
        codec: Codec::Lz4,
        root: (0o755, 0, 0),
        now: (clock().now)(),
        metadata: None,
        encrypt: None,
    }
}

/// A key made by chance.
pub fn secret() -> Secret {
    let text = Secret::new_key_file().expect("random bytes");
    Secret::parse(text.as_bytes()).expect("a key")
}

/// How it is mounted, on a small machine that says whose it is.
pub fn mount_options(url: BucketUrl, connector: Connector, tier: &Path) -> MountOptions {
    MountOptions {
        url,
        connector,
        tier: tier.to_owned(),
        journal: None,
        read_only: false,
        shared: false,
        take_over: false,
        turn: None,
        accept_loss: AcceptLoss::Nothing,
        only_clean: false,
        ask_space: DiskSpace::kernel(),
        settings: settings(),
        clock: clock(),
        host: Host {
            machine_id: "this machine".into(),
            hardware_id: "its hardware".into(),
            ..Host::this()
        },
        inherited: crate::Inherited::default(),
    }
}

impl World {
    /// A fresh volume in a directory, mounted; encrypted if the test program is called so.
    pub fn new() -> Self {
        Self::with(settings(), None)
    }

    /// The same with these settings, and a bucket that is wrapped.
    pub fn with(settings: Settings, wrap: Option<Wrap>) -> Self {
        Self::opened_by(settings, wrap, postgres::encrypts().then(secret))
    }

    /// The same, encrypted where `seed` is odd.
    pub fn by_seed(seed: u64, settings: Settings, wrap: Option<Wrap>) -> Self {
        Self::opened_by(settings, wrap, (seed % 2 == 1).then(secret))
    }

    /// The same, encrypted where there is a secret.
    pub fn opened_by(settings: Settings, wrap: Option<Wrap>, secret: Option<Secret>) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("bucket")).expect("a bucket");
        let url: BucketUrl =
            format!("file://{}/bucket", dir.path().display()).parse().expect("a URL");
        let connect = ConnectOptions { timeout_ms: 20_000, ..ConnectOptions::default() };
        let mut connector = Connector::new(connect, Meter::new());
        let (metadata, encrypt) =
            (postgres::url_if_wanted(), secret.as_ref().map(|_| "first".to_owned()));
        connector.secret = secret;
        let made = FormatOptions { metadata, encrypt, ..format_options(&url, &connector) };
        let made = runtime().block_on(format(made));
        made.expect("formats");
        connector.wrap = wrap;
        let options =
            MountOptions { settings, ..mount_options(url, connector, &dir.path().join("tier")) };
        let mut world = Self { dir, options, runtime: None, engine: None };
        world.mount().expect("mounts");
        world
    }

    /// Whether its metadata is in PostgreSQL: so it is in the test program that is called that.
    pub fn over_postgres(&self) -> bool {
        postgres::url_if_wanted().is_some()
    }

    /// Mounts the volume.
    pub fn mount(&mut self) -> Result<()> {
        let runtime = runtime();
        let engine = runtime.block_on(Engine::mount(self.options.clone()))?;
        (self.runtime, self.engine) = (Some(runtime), Some(Arc::new(engine)));
        // Said once: the next loss is not accepted by it.
        self.options.accept_loss = AcceptLoss::Nothing;
        Ok(())
    }

    /// What is mounted.
    pub fn engine(&self) -> Arc<Engine> {
        self.engine.clone().expect("mounted")
    }

    /// Waits for something that the engine does.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.runtime.as_ref().expect("mounted").block_on(future)
    }

    /// Goes on with an engine that another machine started.
    pub fn adopt(&mut self, runtime: Runtime, engine: Engine) {
        (self.runtime, self.engine) = (Some(runtime), Some(Arc::new(engine)));
    }

    /// Ends the engine as `kill -9` would: nothing is flushed, no task ends its work.
    pub fn kill(&mut self) {
        self.engine = None;
        self.runtime.take().expect("mounted").shutdown_timeout(Duration::from_secs(10));
    }

    /// As [`World::kill`], and the machine has booted anew since.
    pub fn reboot(&mut self) {
        self.kill();
        self.options.host.boot_id.push('+');
    }

    /// Flushes, and ends the engine.
    pub fn unmount(&mut self) -> Result<()> {
        let engine = self.engine.take().expect("mounted");
        let runtime = self.runtime.take().expect("mounted");
        let result = runtime.block_on(engine.shutdown());
        drop(engine);
        runtime.shutdown_timeout(Duration::from_secs(10));
        result
    }

    /// Loses everything local, as when the machine is gone; the next mount says that it knows.
    pub fn lose_machine(&mut self) {
        self.kill();
        self.lose_tier();
    }

    /// Loses the tier of a volume that is not mounted; the next mount says that it knows.
    pub fn lose_tier(&mut self) {
        std::fs::remove_dir_all(self.dir.path().join("tier")).expect("removes");
        self.options.accept_loss = AcceptLoss::Tier;
    }

    /// The same after a clean unmount.
    pub fn lose_machine_after_unmount(&mut self) {
        std::fs::remove_dir_all(self.dir.path().join("tier")).expect("removes");
    }

    /// Checks the volume as it is in the bucket; nothing may be wrong.
    pub fn fsck(&self) {
        let connector = Connector { wrap: None, ..self.options.connector.clone() };
        let metadata_url = self.options.settings.metadata_url.clone();
        let url = self.options.url.clone();
        let options = FsckOptions { url, connector, data: true, metadata_url };
        let report = runtime().block_on(fsck(options, |_, _| {})).expect("checks");
        assert_eq!(report.problems, Vec::<String>::new());
    }

    /// A path in its directory.
    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
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

impl Engine {
    /// Has the collector look now, with a listing of the buckets, as if it never had before.
    pub fn collect_now(&self) -> Boxed<'_, Result<()>> {
        boxed(self.data.collector.look_once())
    }

    /// Moves what is old between storage classes, as each day of a mount does.
    pub fn lifecycle_pass_now(&self) -> Boxed<'_, Result<()>> {
        boxed(self.lifecycle.pass_now())
    }

    /// Removes dumps of which there is no snapshot, as each hour of a mount does.
    pub fn sweep_dumps_now(&self) -> Boxed<'_, Result<()>> {
        boxed(self.snapshots.sweep_dumps())
    }
}

/// A regular file of root.
pub fn new_file() -> NewInode {
    NewInode {
        kind: FileKind::Regular,
        mode: 0o644,
        umask: None,
        uid: 0,
        gid: 0,
        rdev: 0,
        target: None,
    }
}

/// A directory of root.
pub fn new_dir() -> NewInode {
    NewInode { kind: FileKind::Directory, mode: 0o755, ..new_file() }
}

/// Opens for writing.
pub const WRITE: OpenFlags = OpenFlags { write: true, truncate: false, client: 0 };

/// Creates a file with these bytes.
pub async fn create(engine: &Arc<Engine>, name: &str, bytes: &[u8]) -> Ino {
    let inode = engine.create(Ino::ROOT, name.as_bytes(), new_file()).await.expect("creates");
    let file = engine.open(inode.ino, WRITE).await.expect("opens");
    engine.write(&file, 0, bytes).await.expect("writes");
    engine.close(file).await.expect("closes");
    inode.ino
}

/// All bytes of a file, read in pieces.
pub async fn read_all(engine: &Arc<Engine>, ino: Ino) -> Result<Vec<u8>> {
    let file: Arc<OpenFile> = engine.open(ino, OpenFlags::default()).await?;
    let mut bytes = Vec::new();
    loop {
        let piece = engine.read(&file, bytes.len() as u64, 300_000).await?;
        if piece.is_empty() {
            break;
        }
        bytes.extend_from_slice(&piece);
    }
    engine.close(file).await?;
    Ok(bytes)
}

/// Bytes that lz4 cannot shrink and nobody can mistake for others.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    StdRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// Entries of a directory, or 0 if it is not there.
pub fn entries(directory: &Path) -> usize {
    std::fs::read_dir(directory).map_or(0, Iterator::count)
}
