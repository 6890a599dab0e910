//! A volume in a directory, mounted by this kernel, as the tests share it.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "helpers of tests are tests too, and each test file uses its own part"
)]

use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use weir_door_fuse::{
    FuseHandover, FuseMount, FuseOptions, Transport, check_mountpoint, mount, resume,
};
use weir_engine::{
    AcceptLoss, BucketUrl, Clock, ConnectOptions, Connector, Engine, FormatOptions, Host,
    Inherited, Meter, MountOptions, Wrap, format,
};
use weir_types::{Codec, ErrorCode, ErrorKind, FsError, Settings, UnixTime};

/// Where the tests' clock starts: it ticks a millisecond whenever somebody looks.
pub const START: i64 = 1_700_000_000_000_000_000;

pub struct Volume {
    pub dir: tempfile::TempDir,
    pub runtime: Runtime,
    pub settings: Settings,
    /// Locks that somebody else in this process holds.
    pub locks: Vec<Arc<fs::File>>,
    clock: Clock,
    connector: Connector,
}

/// A mounted volume; unmounted also when a test fails.
pub struct Mounted {
    pub engine: Arc<Engine>,
    pub mount: Option<FuseMount>,
    pub path: PathBuf,
}

fn clock() -> Clock {
    let (wall, ticks, chance) = (AtomicI64::new(START), AtomicU64::new(0), AtomicU64::new(7));
    Clock {
        now: Arc::new(move || UnixTime(wall.fetch_add(1_000_000, Ordering::Relaxed))),
        now_ms: Arc::new(move || ticks.fetch_add(1, Ordering::Relaxed)),
        random: Arc::new(move || {
            let low = chance.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            u128::from(low) << 64 | u128::from(low.rotate_left(32))
        }),
    }
}

impl Volume {
    /// A new volume; `None` where nothing can be mounted.
    pub fn new() -> Option<Self> {
        Self::with(None)
    }

    /// The same, with a bucket that is wrapped.
    pub fn with(wrap: Option<Wrap>) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        for name in ["bucket", "tier", "mnt"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        if let Err(error) = check_mountpoint(&dir.path().join("mnt")) {
            assert!(
                matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Permission),
                "{error}"
            );
            eprintln!("SKIPPED: {error}");
            return None;
        }
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let mut connector = Connector::new(ConnectOptions::default(), Meter::new());
        connector.wrap = wrap;
        let settings = Settings { free_floor_bytes: weir_types::Bytes(0), ..Settings::default() };
        let volume = Self { dir, runtime, settings, locks: Vec::new(), clock: clock(), connector };
        let options = FormatOptions {
            url: volume.url(),
            stripe: Vec::new(),
            connector: volume.connector.clone(),
            record_bytes: 1 << 20,
            segment_bytes: 16 << 20,
            codec: Codec::Lz4,
            root: (0o777, 0, 0),
            now: UnixTime(START),
            metadata: None,
            encrypt: None,
        };
        volume.runtime.block_on(format(options)).unwrap();
        Some(volume)
    }

    fn url(&self) -> BucketUrl {
        format!("file://{}", self.dir.path().join("bucket").display()).parse().unwrap()
    }

    /// The volume, with what another engine of this process left to it.
    fn engine(&self, inherited: Inherited) -> Arc<Engine> {
        let options = MountOptions {
            url: self.url(),
            connector: self.connector.clone(),
            tier: self.dir.path().join("tier"),
            journal: None,
            read_only: false,
            shared: false,
            take_over: false,
            turn: None,
            accept_loss: AcceptLoss::Nothing,
            only_clean: false,
            ask_space: weir_engine::DiskSpace::kernel(),
            settings: self.settings.clone(),
            clock: self.clock.clone(),
            host: Host::this(),
            inherited,
        };
        // A child that another test has just forked holds the lock of a tier until it executes.
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            match self.runtime.block_on(Engine::mount(options.clone())) {
                Err(error)
                    if error.code() == Some(ErrorCode::TierInUse) && Instant::now() < until =>
                {
                    let rest = async { tokio::time::sleep(Duration::from_millis(20)).await };
                    self.runtime.block_on(rest);
                }
                mounted => return Arc::new(mounted.unwrap()),
            }
        }
    }

    /// Goes on with a mount that stands still.
    pub fn resume(&self, inherited: Inherited, handed: (OwnedFd, FuseHandover)) -> Mounted {
        let engine = self.engine(inherited);
        let path = self.dir.path().join("mnt");
        let options = FuseOptions::new(&path, "file:///test", self.clock.now.clone());
        let handle = self.runtime.handle().clone();
        let mount = resume(engine.clone(), handle, options, handed).unwrap();
        Mounted { engine, mount: Some(mount), path }
    }

    pub fn mount(&self, change: impl FnOnce(FuseOptions) -> FuseOptions) -> Mounted {
        let mut inherited = Inherited::default();
        inherited.tier.locks = self.locks.clone();
        let engine = self.engine(inherited);
        let path = self.dir.path().join("mnt");
        let options = FuseOptions::new(&path, "file:///test", self.clock.now.clone());
        let handle = self.runtime.handle().clone();
        let options = change(options);
        let mount = || mount(engine.clone(), handle, options.clone()).unwrap();
        let mount = match options.transport {
            Transport::Uring => with_uring(mount),
            _ => mount(),
        };
        Mounted { engine, mount: Some(mount), path }
    }

    /// The same over io_uring; `None` where that is not to be had.
    pub fn mount_over_uring(
        &self,
        change: impl FnOnce(FuseOptions) -> FuseOptions,
    ) -> Option<Mounted> {
        let over = |options| FuseOptions { transport: Transport::Uring, ..options };
        let mounted = self.mount(|options| over(change(options)));
        match mounted.mount.as_ref().unwrap().view().transport().without_rings {
            None => Some(mounted),
            Some(why) => {
                eprintln!("SKIPPED: requests do not come over io_uring here: {why}");
                self.end(mounted);
                None
            }
        }
    }

    pub fn end(&self, mut mounted: Mounted) {
        // The process of another test, just forked off, has all files of this one until it execs.
        let unmount = || mounted.mount.as_ref().unwrap().unmount(false);
        let busy = |error: &FsError| error.kind() == ErrorKind::Retry;
        let tries = std::iter::repeat_with(unmount).take(1000);
        let mut ended = tries.skip_while(|done| done.as_ref().is_err_and(busy));
        ended.next().expect("it stays busy").unwrap();
        drop(ended);
        mounted.mount.take().unwrap().wait().unwrap();
        self.runtime.block_on(mounted.engine.shutdown()).unwrap();
    }
}

/// Has the kernel offer io_uring to what is mounted meanwhile, which is when it is asked for; others
/// that do the same wait.
fn with_uring<T>(mount: impl FnOnce() -> T) -> T {
    const ENABLE: &str = "/sys/module/fuse/parameters/enable_uring";
    let lock = fs::File::create(std::env::temp_dir().join("weir-enable-uring.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let before = fs::read_to_string(ENABLE).ok();
    let is_set = before.is_some() && fs::write(ENABLE, "Y").is_ok();
    let mounted = mount();
    if let Some(before) = before.filter(|_| is_set) {
        fs::write(ENABLE, before).unwrap();
    }
    mounted
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(mount) = &self.mount {
            let _ = mount.unmount(true);
        }
    }
}

pub fn errno<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}
