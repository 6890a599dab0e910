//! What the parts of a running daemon share.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::watch;
use weir_door_fuse::FuseView;
use weir_engine::Engine;
use weir_types::{ErrorKind, FsError, Result};

use super::block::BlockDoor;
use super::ending::Ending;
use super::handover::{Invocation, Sockets};
use super::nfs::NfsDoor;
use super::token::TokenFile;
use crate::api::Upgraded;

/// What the parts of a running daemon share.
pub(crate) struct DaemonState {
    pub(crate) engine: Arc<Engine>,
    /// The FUSE door, if the volume is mounted.
    pub(crate) fuse: Option<Fuse>,
    pub(crate) block: BlockDoor,
    pub(crate) nfs: NfsDoor,
    /// What lets cancel actions by the port, if anything does.
    pub(crate) token: Option<Arc<TokenFile>>,
    pub(crate) started: Instant,
    /// How it was called.
    pub(crate) invocation: Invocation,
    /// Its admin sockets, once more.
    pub(crate) sockets: Sockets,
    /// Held by an upgrade under way.
    pub(crate) upgrading: tokio::sync::Mutex<()>,
    /// The upgrade by which this process came to the mount.
    pub(crate) upgraded: Option<Upgraded>,
    pub(crate) ending: watch::Sender<Ending>,
    /// Whether the kernel's door is shut: it is mounted nowhere any more, or never was.
    pub(crate) shut: watch::Sender<bool>,
    /// How many try to end it: what they were asked for must not be lost with this binary.
    pub(crate) ends: AtomicUsize,
    /// Held while a signal is taken, and by who executes another binary: that one takes what comes then.
    pub(crate) hearing: parking_lot::Mutex<()>,
    /// How it ended: `None` while it runs, then how the last flush went.
    pub(crate) ended: watch::Sender<Option<std::result::Result<(), String>>>,
    /// Whether it begins anew then.
    pub(crate) again: AtomicBool,
}

/// The FUSE door of a daemon.
pub(crate) struct Fuse {
    pub(crate) view: FuseView,
    pub(crate) mountpoint: PathBuf,
}

impl DaemonState {
    /// Requests of the kernel, by name.
    pub(crate) fn fuse_requests(&self) -> Vec<(&'static str, u64)> {
        self.fuse.as_ref().map(|fuse| fuse.view.requests()).unwrap_or_default()
    }

    pub(crate) fn mountpoint(&self) -> Option<PathBuf> {
        self.fuse.as_ref().map(|fuse| fuse.mountpoint.clone())
    }

    /// Asks the daemon to end: devices are detached, then the volume is unmounted. `Retry` while a
    /// device or the mount is in use; with `lazy` the mount leaves the tree now, and the daemon ends
    /// when the last user has gone.
    pub(crate) async fn end(&self, lazy: bool) -> Result<()> {
        let _asked = self.asked_to_end();
        if !lazy {
            self.block.detach_all().await?;
        }
        // Else it left the tree already, and is used elsewhere or being flushed.
        let in_tree = self.fuse.as_ref().is_some_and(|fuse| fuse.view.in_tree());
        if let Some(path) = self.mountpoint().filter(|_| in_tree) {
            let done = tokio::task::spawn_blocking(move || weir_door_fuse::unmount(&path, lazy));
            match done.await.map_err(panicked)? {
                // Unmounted already, and flushing: what is asked for is under way.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                // It ends when it is mounted nowhere any more.
                Ok(()) if !lazy => {}
                done => return done,
            }
        }
        self.set_ending(Ending::Asked);
        Ok(())
    }

    /// Somebody tries to end it, for as long as what this answers is there.
    pub(crate) fn asked_to_end(&self) -> AskedToEnd<'_> {
        self.ends.fetch_add(1, Ordering::SeqCst);
        AskedToEnd(&self.ends)
    }

    /// Whether it was told to end, or somebody tries to.
    pub(crate) fn may_end(&self) -> bool {
        self.is_ending() || self.ends.load(Ordering::SeqCst) > 0
    }

    /// Returns when the kernel's door is shut.
    pub(crate) async fn until_shut(&self) {
        // The sender is there as long as this is.
        let _ = self.shut.subscribe().wait_for(|shut| *shut).await;
    }

    /// What the end waits for, in words, where it was asked for.
    pub(crate) fn waits_for(&self) -> Option<String> {
        let fuse = self.fuse.as_ref().filter(|_| !*self.shut.borrow());
        match fuse {
            _ if !self.is_ending() => None,
            Some(fuse) => Some(match fuse.view.mounted_where() {
                Some(places) => format!("the volume is still mounted at {places}"),
                None => "programs still use the volume, which is out of the tree".to_owned(),
            }),
            None => self.engine.ending_step().map(str::to_owned),
        }
    }

    /// Whether it was told to end.
    pub(crate) fn is_ending(&self) -> bool {
        *self.ending.borrow() > Ending::No
    }

    pub(crate) fn set_ending(&self, ending: Ending) {
        self.ending.send_if_modified(|now| {
            let further = *now < ending;
            *now = ending.max(*now);
            further
        });
    }
}

/// Somebody tries to end a daemon.
pub(crate) struct AskedToEnd<'a>(&'a AtomicUsize);

impl Drop for AskedToEnd<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A join error of a blocking task, which is a panic in it.
pub(crate) fn panicked(error: tokio::task::JoinError) -> FsError {
    FsError::new(ErrorKind::Bug, format!("a task of the daemon failed: {error}"))
}
