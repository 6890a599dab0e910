//! A mount in the hands of another daemon: what it must know of what the kernel holds, beside the
//! volume itself, and how it goes on with that.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLockWriteGuard;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use weir_engine::{Lock, LockOwner, LockSpace, OpenFlags, TreeChange};
use weir_fuse::{Agreed, Control, Registrar, Still};
use weir_types::{ErrorKind, FsError, Ino, Result};

use crate::door::DoorState;
use crate::faces::Known;
use crate::handles::{Dir, File};
use crate::listings::{Copy, ListingHandover};
use crate::passthrough::LentFile;
use crate::view::FuseView;

/// Files that are opened at once again.
const OPENS_AT_ONCE: usize = 64;

/// What the kernel holds of a mount. Its parts are told apart by the numbers that it knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FuseHandover {
    /// What was agreed on with the kernel.
    session: SessionHandover,
    /// The last number of an open file.
    files_last: u64,
    files: Vec<FileHandover>,
    /// The last number of an open directory.
    dirs_last: u64,
    dirs: Vec<DirHandover>,
    modes: Vec<ModeHandover>,
    /// Inodes of which the kernel's page cache is not to be believed; `None`: any.
    stale: Option<Vec<Known>>,
    /// Numbers by which files are opened that are not their first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    turned: Vec<Known>,
    listings: Vec<ListingHandover>,
    locks: Vec<LockHandover>,
    /// Changes of the tree that are no door's doing, and of which the kernel may not know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    untold: Vec<TreeChange>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionHandover {
    write_bytes: u32,
    setxattr_ext: bool,
    resends: bool,
    /// The kernel obeys access control lists.
    acl: bool,
    /// Files may have been in passthrough.
    passthrough: bool,
    /// Why none is any more.
    passthrough_off: Option<String>,
}

/// An open file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileHandover {
    handle: u64,
    /// By which number the kernel has it open.
    ino: Known,
    write: bool,
    client: u32,
    direct: bool,
    maps_writable: bool,
}

/// An open directory. Where a listing is in it the kernel says each time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DirHandover {
    handle: u64,
    ino: Ino,
    copy: Copy,
    ended: bool,
}

/// Whether it is left out, as versions before wrote it.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How an open inode is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModeHandover {
    ino: Known,
    files: usize,
    /// The kernel's number of the mirror file.
    backing: Option<u32>,
    /// Which lending of it this is.
    #[serde(default, skip_serializing_if = "is_zero")]
    lending: u64,
}

/// A lock, where they are the daemon's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockHandover {
    ino: Ino,
    whole_file: bool,
    owner: u64,
    start: u64,
    last: u64,
    exclusive: bool,
    pid: u32,
}

impl FuseHandover {
    /// The inodes that are open, each once.
    pub fn open(&self) -> Vec<Ino> {
        let files = self.files.iter().map(|file| file.ino.ino());
        let all: BTreeSet<_> = files.chain(self.dirs.iter().map(|dir| dir.ino)).collect();
        all.into_iter().collect()
    }

    pub(crate) fn agreed(&self) -> Agreed {
        let SessionHandover { write_bytes, setxattr_ext, resends, .. } = self.session;
        Agreed { write_bytes, setxattr_ext, resends }
    }

    pub(crate) fn untold(&self) -> &[TreeChange] {
        &self.untold
    }

    pub(crate) fn obeys_acls(&self) -> bool {
        self.session.acl
    }
}

/// A mount that stands still: the kernel keeps what programs ask for, until this goes.
pub struct HeldMount<'a> {
    still: Still<'a>,
    shared: &'a DoorState,
    resends: bool,
    began: Instant,
    _gate: RwLockWriteGuard<'a, ()>,
}

impl FuseView {
    /// Whether the mount can be held still at all; `Unsupported` says why not.
    pub fn check_holdable(&self) -> Result<()> {
        self.control().map(drop)
    }

    fn control(&self) -> Result<&Control> {
        self.0.control.get().and_then(Option::as_ref).ok_or_else(|| {
            let text = "requests of this mount come over io_uring, and its rings cannot be handed \
                        over: `weir umount` and mount again with the new version";
            FsError::new(ErrorKind::Unsupported, text)
        })
    }

    /// Has the mount stand still, with no request under way. `Retry` if that is not to be had within
    /// `limit`; it goes on then. Blocking.
    pub fn hold(&self, limit: Duration) -> Result<HeldMount<'_>> {
        let shared = &*self.0;
        let control = self.control()?;
        let gate = shared.gate.try_write_for(limit).ok_or_else(|| {
            let text = "the kernel is being told of what an import or a direct write changed, and \
                        that waits for programs";
            FsError::new(ErrorKind::Retry, text)
        })?;
        let began = Instant::now();
        let still = control.hold(limit).map_err(|error| {
            FsError::new(ErrorKind::Retry, format!("the mount cannot be held still: {error}"))
        })?;
        let resends = control.agreed().resends;
        let held = HeldMount { still, shared, resends, began, _gate: gate };
        shared.underway.drain(resends, limit).map_err(|in_the_way| {
            let text = format!(
                "requests of programs did not end within {} s, for the bucket, a limit or room in \
                 the tier: {in_the_way}",
                limit.as_secs()
            );
            FsError::new(ErrorKind::Retry, text)
        })?;
        Ok(held)
    }
}

impl HeldMount<'_> {
    /// Since when it stands still.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// What goes on with it must know. What was sent and not answered is sent to that one.
    pub fn hand_over(&self) -> Result<FuseHandover> {
        let state = self.shared.to_hand_over(self.resends);
        if self.resends {
            self.still
                .send_again()
                .map_err(|e| FsError::local_io("ask the kernel for what was not answered", e))?;
        }
        Ok(state)
    }
}

impl AsFd for HeldMount<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.still.as_fd()
    }
}

impl Drop for HeldMount<'_> {
    fn drop(&mut self) {
        if self.shared.underway.go_on()
            && let Err(error) = self.still.send_again()
        {
            tracing::error!(%error, "the kernel does not send again what nobody answered");
        }
    }
}

impl DoorState {
    fn to_hand_over(&self, resends: bool) -> FuseHandover {
        let agreed = self.control.get().and_then(Option::as_ref).map(|control| control.agreed());
        let agreed = agreed.unwrap_or(Agreed { write_bytes: 0, setxattr_ext: false, resends });
        let (files_last, files) = self.files.all();
        let files = files.into_iter().map(|(handle, file)| FileHandover {
            handle,
            ino: file.known,
            write: file.open.writes(),
            client: file.open.client(),
            direct: file.direct,
            maps_writable: file.maps_writable,
        });
        let (dirs_last, dirs) = self.dirs.all();
        let dirs = dirs.into_iter().map(|(handle, dir)| DirHandover {
            handle,
            ino: dir.ino,
            copy: dir.copy,
            ended: dir.ended.load(std::sync::atomic::Ordering::Relaxed),
        });
        let modes = self.passthrough.modes().all().into_iter();
        let modes = modes.map(|(ino, files, lent)| ModeHandover {
            ino,
            files,
            backing: lent.as_ref().map(|lent| lent.backing.id()),
            lending: lent.map_or(0, |lent| lent.lending),
        });
        // Those of no process are of clients of another door, who claim them there.
        let locks = self.engine.held_locks().into_iter().filter(|(_, _, lock)| lock.pid != 0);
        let locks = locks.map(|(ino, space, lock)| LockHandover {
            ino,
            whole_file: space == LockSpace::Flock,
            owner: lock.owner.0,
            start: lock.start,
            last: lock.last,
            exclusive: lock.exclusive,
            pid: lock.pid,
        });
        FuseHandover {
            session: SessionHandover {
                write_bytes: agreed.write_bytes,
                setxattr_ext: agreed.setxattr_ext,
                resends: agreed.resends,
                acl: self.acl,
                passthrough: self.passthrough.was_on(),
                passthrough_off: self.passthrough.state().off,
            },
            files_last,
            files: files.collect(),
            dirs_last,
            dirs: dirs.collect(),
            modes: modes.collect(),
            stale: self.passthrough.modes().stale(),
            turned: self.passthrough.faces().all(),
            listings: self.listings.all(),
            locks: locks.collect(),
            untold: self.engine.untold_changes(),
        }
    }

    /// Goes on with what the kernel holds of a mount that another daemon had. The engine keeps what
    /// is open until this lets it go.
    pub(crate) async fn take_over(
        self: &Arc<Self>,
        state: FuseHandover,
        registrar: &Registrar,
    ) -> Result<()> {
        let kept = state.open();
        let FuseHandover { session, files_last, files, dirs_last, dirs, .. } = state;
        self.passthrough.go_on(session.passthrough, session.passthrough_off);
        let modes = state.modes.into_iter().map(|ModeHandover { ino, files, backing, lending }| {
            let lent = |id| LentFile { backing: registrar.known(id), lending };
            (ino, files, backing.map(lent))
        });
        self.passthrough.modes().restore(modes, state.stale);
        self.passthrough.faces().restore(state.turned);
        self.listings.restore(state.listings);
        for LockHandover { ino, whole_file, owner, start, last, exclusive, pid } in state.locks {
            let space = if whole_file { LockSpace::Flock } else { LockSpace::Posix };
            let lock = Lock { owner: LockOwner(owner), start, last, exclusive, pid };
            self.engine.restore_lock((ino, space), lock).await?;
        }
        for dir in dirs {
            self.engine.hold(dir.ino)?;
            let ended = std::sync::atomic::AtomicBool::new(dir.ended);
            self.dirs.put(dir.handle, Dir { ino: dir.ino, copy: dir.copy, ended });
        }
        self.dirs.go_on_after(dirs_last);
        self.files.go_on_after(files_last);
        for some in files.chunks(OPENS_AT_ONCE) {
            let mut opens = JoinSet::new();
            for file in some {
                let (shared, file) = (self.clone(), file.clone());
                opens.spawn(async move { shared.open_again(file).await });
            }
            while let Some(opened) = opens.join_next().await {
                opened.map_err(|error| {
                    FsError::new(ErrorKind::Bug, format!("opening a file again failed: {error}"))
                })??;
            }
        }
        for ino in kept {
            self.engine.let_go(ino).await;
        }
        Ok(())
    }

    async fn open_again(&self, file: FileHandover) -> Result<()> {
        let FileHandover { handle, ino: known, write, client, direct, maps_writable } = file;
        let ino = known.ino();
        let flags = OpenFlags { write, truncate: false, client };
        match self.engine.open(ino, flags).await {
            Ok(open) => {
                let file = File {
                    open,
                    known,
                    direct,
                    pages: self.pages.opened_before(ino, !direct, write).await,
                    maps_writable,
                    plain_since: Default::default(),
                    bare_since: Default::default(),
                };
                self.files.put(handle, file);
                Ok(())
            }
            // Whoever uses it is told, and nobody else.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                tracing::error!(%ino, "a file that is open is no more in the volume: {error}");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
