//! A volume that is mounted, and served beside that.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::Handle;
use weir_door_fuse::{FuseMount, FuseOptions, check_mountpoint, mount};
use weir_door_nfs::{BoundNfs, NfsOptions, NfsServer};
use weir_engine::testing::{World, clock};
use weir_types::ErrorKind;

use crate::common::client::Client;
use crate::common::open_export;

/// Both doors of one engine.
pub(crate) struct Both {
    pub(crate) world: World,
    pub(crate) at: PathBuf,
    server: NfsServer,
    mount: Option<FuseMount>,
}

impl Both {
    /// `None` where nothing can be mounted.
    pub(crate) fn new() -> Option<Self> {
        Self::with(|options| options)
    }

    /// Mounted with other options.
    pub(crate) fn with(change: impl FnOnce(FuseOptions) -> FuseOptions) -> Option<Self> {
        let world = World::new();
        let at = world.path("mnt");
        std::fs::create_dir(&at).expect("a directory");
        if let Err(error) = check_mountpoint(&at) {
            let kinds = [ErrorKind::Unsupported, ErrorKind::Permission];
            assert!(kinds.contains(&error.kind()), "{error}");
            eprintln!("SKIPPED: {error}");
            return None;
        }
        let options = FuseOptions::new(&at, "file:///test", clock().now).beside();
        let runtime = world.run(async { Handle::current() });
        let mounted = mount(world.engine(), runtime, change(options)).expect("mounts");
        let mut nfs = NfsOptions::new("127.0.0.1:0".parse().expect("an address"), clock().now);
        nfs.exports = vec![open_export()];
        let bound = world.run(BoundNfs::new(world.engine(), nfs)).expect("listens");
        let view = Arc::new(mounted.view());
        let server = world.run(async move { bound.serve(Some(view)) });
        Some(Self { world, at, server, mount: Some(mounted) })
    }

    /// Where a name is in the mount.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }

    /// A client of root.
    pub(crate) fn client(&self, name: &str) -> Client {
        Client::new(self.server.address(), name)
    }

    /// Opens that the kernel serves by itself.
    pub(crate) fn lent(&self) -> u64 {
        self.mount.as_ref().expect("mounted").view().passthrough().opens
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        let Some(mounted) = self.mount.take() else { return };
        let left = mounted.unmount(true);
        if std::thread::panicking() {
            return;
        }
        left.expect("unmounts");
        self.world.run(self.server.stop());
        mounted.wait().expect("is served to its end");
        self.world.unmount().expect("flushes");
        self.world.fsck();
    }
}
