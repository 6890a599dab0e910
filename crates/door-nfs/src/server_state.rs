//! What all requests work with.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weir_engine::{ACL_ACCESS, Bytes, DoorChange, Engine, OtherDoor};
use weir_types::{ErrorKind, Ino, Inode, Result, UnixTime};

use crate::books::Books;
use crate::caller::Caller;
use crate::counts::Counts;
use crate::exports::Exports;
use crate::handle::HandleKey;
use crate::options::Now;
use crate::protocol::status::{Served, Status};
use crate::uses::Uses;

/// How long it is believed that a volume has no access control lists.
const LISTS_LOOKED: Duration = Duration::from_secs(1);
/// Before what failed is tried again.
const PAUSE: Duration = Duration::from_millis(250);

/// One server.
pub(crate) struct ServerState {
    pub(crate) engine: Arc<Engine>,
    pub(crate) books: Books,
    pub(crate) exports: Exports,
    pub(crate) handles: HandleKey,
    pub(crate) counts: Counts,
    pub(crate) uses: Uses,
    pub(crate) read_only: bool,
    pub(crate) manage_gids: bool,
    pub(crate) now: Now,
    /// Names this volume among those that a client has mounted.
    pub(crate) fsid: u64,
    /// Another one in each life: what was written and not committed may be gone.
    pub(crate) verifier: [u8; 8],
    /// What clients compare to see that two addresses are one server.
    pub(crate) scope: String,
    pub(crate) began: UnixTime,
    pub(crate) stopping: AtomicBool,
    pub(crate) lists: Lists,
    /// Whose clients see what is changed here, too.
    pub(crate) beside: OnceLock<Arc<dyn OtherDoor>>,
    /// Shared by requests under way; had alone by who holds the server still.
    pub(crate) under_way: Arc<tokio::sync::RwLock<()>>,
}

/// What a client is told of only when it is done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Durable {
    /// A file's data and attributes are durable.
    File(Ino),
    /// A directory's entries are, and attributes.
    Names(Ino),
    /// Other nodes find what was written to a file.
    Closed(Ino),
}

/// Whether access control lists have to be looked at.
#[derive(Default)]
pub(crate) struct Lists {
    any: AtomicBool,
    looked: Mutex<Option<Instant>>,
}

impl ServerState {
    /// Has the other door of this daemon know of what was changed by now, before the client does.
    pub(crate) async fn tell(&self, changes: impl IntoIterator<Item = DoorChange>) {
        if let Some(beside) = self.beside.get() {
            beside.changed(changes.into_iter().collect()).await;
        }
    }

    /// What of reading, writing and executing a caller may do with an inode.
    pub(crate) async fn allowed(&self, caller: &Caller, inode: &Inode) -> Result<u32> {
        // Root and the owner are asked for by the bits alone.
        if caller.is_root() || caller.uid == inode.uid || !self.has_lists().await? {
            return Ok(caller.allowed(inode, None));
        }
        match self.engine.xattr_get(inode.ino, ACL_ACCESS).await {
            Ok(list) => Ok(caller.allowed(inode, Some(&list))),
            Err(error) if error.kind() == ErrorKind::NoAttribute => Ok(caller.allowed(inode, None)),
            Err(error) => Err(error),
        }
    }

    async fn has_lists(&self) -> Result<bool> {
        if self.lists.any.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let looked = *self.lists.looked.lock();
        if looked.is_some_and(|looked| looked.elapsed() < LISTS_LOOKED) {
            return Ok(false);
        }
        let any = self.engine.has_acls().await?;
        self.lists.any.store(any, Ordering::Relaxed);
        *self.lists.looked.lock() = Some(Instant::now());
        Ok(any)
    }

    /// Does what has to succeed, however long the bucket is away: the client waits, as it would for a server
    /// that does not answer. What will never succeed is an error.
    pub(crate) async fn insist(&self, what: Durable) -> Served<()> {
        loop {
            let done = match what {
                Durable::File(ino) => self.engine.fsync(ino).await,
                Durable::Names(dir) => self.engine.fsync_dir(dir).await,
                Durable::Closed(ino) => self.engine.flush_for_others(ino).await,
            };
            match done {
                Err(error) if error.kind() == ErrorKind::Retry => {
                    if self.stopping.load(Ordering::Acquire) {
                        return Err(Status::DELAY.into());
                    }
                    tracing::debug!("NFS tries again: {error}");
                    tokio::time::sleep(PAUSE).await;
                }
                other => return Ok(other?),
            }
        }
    }
}

/// A number that grows whenever an inode changes.
pub(crate) fn change_of(inode: &Inode) -> u64 {
    inode.ctime.max(inode.mtime).0 as u64
}

/// Bytes of a name, if it may be one.
pub(crate) fn check_name(name: Bytes) -> Result<Bytes, Status> {
    match &name[..] {
        b"" => Err(Status::INVAL),
        b"." | b".." => Err(Status::BADNAME),
        name if name.len() > crate::protocol::numbers::NAME_BYTES_MAX => Err(Status::NAMETOOLONG),
        name if name.contains(&b'/') || name.contains(&0) => Err(Status::BADNAME),
        _ => Ok(name),
    }
}

/// Adds to a count.
pub(crate) fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}
