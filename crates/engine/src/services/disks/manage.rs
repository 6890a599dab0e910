//! Making, listing, resizing, copying and removing disks.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedReceiver;
use weir_meta::DiskRow;
use weir_types::{Bytes, DiskCache, ErrorKind, FsError, Ino, Result, UnixTime};

use super::disk::{Disk, DiskState};
use super::parts::DiskParts;
use crate::volume::locks::{self, Place};

/// Longest name of a disk, and the longest that a snapshot has behind its `@`, in bytes.
const NAME_BYTES: usize = 128;
/// A disk's size is a multiple of this: what clients write at least, and the tier's page.
const BLOCK_BYTES: u64 = 4096;

/// A disk to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskOptions {
    /// Letters, digits, `.`, `_` and `-`, at most 128.
    pub name: String,
    /// A multiple of 4 KiB, at most 16 TiB less 4 KiB.
    pub size_bytes: u64,
    /// A power of two from 4 KiB to the volume's record size; `None` takes that.
    #[serde(default)]
    pub record_bytes: Option<u64>,
    /// What of it is kept on the local disk.
    #[serde(default)]
    pub cache: DiskCache,
}

/// A disk as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskView {
    /// Its name; that of a snapshot is `DISK@SNAPSHOT`.
    pub name: String,
    /// What clients see as its size.
    pub size_bytes: u64,
    /// Writes of whole records become an object each.
    pub record_bytes: u64,
    /// What of it is kept on the local disk.
    pub cache: DiskCache,
    /// It is a snapshot.
    pub read_only: bool,
    /// The disk that it was copied from.
    pub origin: Option<String>,
    /// When it was made.
    pub created: UnixTime,
    /// Bytes of it that are in the bucket, before compression; copies share them.
    pub stored_bytes: u64,
    /// Handles open by now: connections, and devices attached.
    pub opens: u64,
    /// The machine of the node that has it, where nodes share the volume.
    #[serde(default)]
    pub node: Option<String>,
}

/// The disks of a volume.
pub(crate) struct Disks {
    pub(super) parts: Arc<DiskParts>,
    /// Those that are open.
    open: Mutex<HashMap<Ino, Weak<DiskState>>>,
    /// Held while one is opened, or given up to other nodes.
    pub(super) opening: locks::Mutex,
    /// Those that were closed, until somebody takes that up.
    pub(super) closed: Mutex<Option<UnboundedReceiver<Ino>>>,
}

impl Disks {
    pub(crate) fn new(parts: DiskParts, closed: UnboundedReceiver<Ino>) -> Self {
        let opening = locks::Mutex::new(Place::DiskOpen, 0, ());
        let (open, closed) = (Mutex::default(), Mutex::new(Some(closed)));
        Self { parts: Arc::new(parts), open, opening, closed }
    }

    /// Waits until no client's write is under way any more.
    pub(crate) async fn settle(&self) {
        let open: Vec<_> = self.open().values().filter_map(Weak::upgrade).collect();
        for disk in open {
            drop(disk.hold_all().await);
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Ino, Weak<DiskState>>> {
        self.open.lock()
    }
}

impl Disks {
    /// Makes a disk of zeros. `Exists` if the name is taken. One metadata commit.
    pub(crate) async fn create_disk(self: &Arc<Self>, options: DiskOptions) -> Result<DiskView> {
        self.parts.context.check_writable()?;
        check_name(&options.name)?;
        check_size(options.size_bytes)?;
        let most = self.parts.context.format.record_bytes;
        let record_bytes = options.record_bytes.unwrap_or(most);
        if !(BLOCK_BYTES..=most).contains(&record_bytes) || !record_bytes.is_power_of_two() {
            let text = format!(
                "record size {}: need a power of two from 4 KiB to {}, the volume's own",
                Bytes(record_bytes),
                Bytes(most)
            );
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
        let row = DiskRow {
            ino: Ino::ROOT,
            record_bytes,
            cache: options.cache,
            read_only: false,
            origin: None,
        };
        let inode = self.parts.meta.new_disk_file(options.size_bytes).await?;
        self.name_disk(&options.name, DiskRow { ino: inode.ino, ..row }).await?;
        self.disk(&options.name).await
    }

    /// All disks and snapshots by name. Two reads for each at most.
    pub(crate) async fn disks(&self) -> Result<Vec<DiskView>> {
        let rows = self.parts.meta.disks().await?;
        let mut views = Vec::with_capacity(rows.len());
        for (name, row) in rows {
            match self.disk_view(name, row).await {
                // Removed since.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                view => views.push(view?),
            }
        }
        Ok(views)
    }

    /// One disk; `NotFound` if there is none of this name.
    pub(crate) async fn disk(&self, name: &str) -> Result<DiskView> {
        let row = self.parts.meta.disk(name).await?;
        self.disk_view(name.to_owned(), row).await
    }

    /// Sets a disk's size. New bytes are zeros; what is cut off is gone, and so `may_shrink` must
    /// say that this is meant. Connections that are open see it at once.
    pub(crate) async fn resize_disk(
        self: &Arc<Self>,
        name: &str,
        size_bytes: u64,
        may_shrink: bool,
    ) -> Result<DiskView> {
        self.parts.context.check_writable()?;
        check_size(size_bytes)?;
        let disk = self.open_disk(name).await?;
        disk.shared.check_writable()?;
        let still = disk.shared.hold_all().await;
        let before = disk.size_bytes();
        if size_bytes < before && !may_shrink {
            let text = format!(
                "`{name}` has {}: to cut it to {} destroys what lies behind; say --shrink if that \
                 is meant",
                Bytes(before),
                Bytes(size_bytes)
            );
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
        self.parts.writer.truncate(disk.shared.ino(), size_bytes).await?;
        self.durable().await?;
        drop(still);
        self.disk(name).await
    }

    /// Removes a disk; its objects are collected. `WouldBlock` while somebody has it open.
    pub(crate) async fn delete_disk(self: &Arc<Self>, name: &str) -> Result<()> {
        self.parts.context.check_writable()?;
        let _opening = self.opening.lock().await;
        let row = self.held(name).await?;
        if self.disk_opens(row.ino) > 0 {
            let text = format!("disk `{name}` is in use: disconnect its clients first");
            return Err(FsError::new(ErrorKind::WouldBlock, text));
        }
        let removed = self.parts.meta.remove_disk(name).await;
        let ino = removed.inspect_err(|_| self.unused(&[row.ino]))?;
        self.durable().await?;
        self.purge_disk_file(ino);
        Ok(())
    }

    /// Freezes a disk as it is now under `name@snapshot`, read-only. It holds all that was written
    /// before the call, nothing that is written after it returned, and of what is written meanwhile
    /// each write wholly or not at all in an order that a power cut could have left. Shares all
    /// bytes: metadata commits only, one for each 500 MiB stored; flushes of the disk wait for it.
    pub(crate) async fn snapshot_disk(
        self: &Arc<Self>,
        name: &str,
        snapshot: &str,
    ) -> Result<DiskView> {
        check_name(snapshot)?;
        self.copy_disk(name, &format!("{name}@{snapshot}"), true).await
    }

    /// A new disk that begins as a copy of a disk or snapshot and goes its own way then. Shares all
    /// bytes, as [`Disks::snapshot_disk`] does.
    pub(crate) async fn clone_disk(self: &Arc<Self>, name: &str, new: &str) -> Result<DiskView> {
        check_name(new)?;
        self.copy_disk(name, new, false).await
    }

    /// Opens a disk by its name. All handles of one disk work on the same state, so a flush of one
    /// covers the writes of all. `WouldBlock` while another node has it.
    pub(crate) async fn open_disk(self: &Arc<Self>, name: &str) -> Result<Disk> {
        let _opening = self.opening.lock().await;
        let row = self.held(name).await?;
        if let Some(shared) = self.open().get(&row.ino).and_then(|weak| weak.upgrade()) {
            return Ok(Disk { shared });
        }
        let opened = DiskState::new(&self.parts, name, &row).await;
        let shared = opened.inspect_err(|_| self.unused(&[row.ino]))?;
        let mut open = self.open();
        open.retain(|_, weak| weak.strong_count() > 0);
        open.insert(row.ino, Arc::downgrade(&shared));
        Ok(Disk { shared })
    }

    async fn copy_disk(
        self: &Arc<Self>,
        name: &str,
        new: &str,
        read_only: bool,
    ) -> Result<DiskView> {
        self.parts.context.check_writable()?;
        // Before the work, where it is cheap; whoever names first has the name.
        match self.parts.meta.disk(new).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(_) => {
                let text = format!("there is a disk `{new}` already: choose another name");
                return Err(FsError::new(ErrorKind::Exists, text));
            }
        }
        let from = self.open_disk(name).await?;
        // The copy gives it its size: the disk may be resized until then.
        let inode = self.parts.meta.new_disk_file(0).await?;
        let copied = from.shared.copy_to(inode.ino).await;
        let row = DiskRow {
            ino: inode.ino,
            read_only,
            origin: Some(name.to_owned()),
            ..from.shared.row().clone()
        };
        match copied {
            Ok(()) => self.name_disk(new, row).await?,
            Err(error) => {
                self.purge_disk_file(inode.ino);
                return Err(error);
            }
        }
        self.disk(new).await
    }
}

impl Disks {
    /// Gives a file its name, durably, or purges it.
    async fn name_disk(self: &Arc<Self>, name: &str, row: DiskRow) -> Result<()> {
        if let Err(error) = self.parts.meta.name_disk(name, &row).await {
            self.purge_disk_file(row.ino);
            return Err(error);
        }
        self.durable().await
    }

    /// Makes what was committed durable; the journal too, or a replay of it could undo some.
    async fn durable(self: &Arc<Self>) -> Result<()> {
        self.parts.meta.sync().await?;
        self.parts.durability.settle_journal().await
    }

    fn purge_disk_file(&self, ino: Ino) {
        if self.parts.nodes.unlinked(ino) {
            self.parts.nodes.purge_soon(ino);
        }
    }

    async fn disk_view(&self, name: String, row: DiskRow) -> Result<DiskView> {
        let inode = self.parts.meta.inode(row.ino).await?;
        let holder = match self.parts.context.is_shared() {
            true => self.parts.meta.disk_holder(row.ino).await?,
            false => None,
        };
        Ok(DiskView {
            name,
            size_bytes: inode.size,
            record_bytes: row.record_bytes,
            cache: row.cache,
            read_only: row.read_only,
            origin: row.origin,
            created: inode.btime,
            stored_bytes: inode.stored_bytes,
            opens: self.disk_opens(row.ino),
            node: holder.map(|holder| holder.node),
        })
    }

    pub(super) fn disk_opens(&self, ino: Ino) -> u64 {
        self.open().get(&ino).map_or(0, |weak| weak.strong_count() as u64)
    }
}

fn check_name(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.len() > NAME_BYTES || !name.chars().all(allowed) {
        let text = format!(
            "`{}` is no name for a disk: letters, digits, `.`, `_` and `-`, at most {NAME_BYTES}",
            name.escape_debug()
        );
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    Ok(())
}

fn check_size(size_bytes: u64) -> Result<()> {
    let most = weir_meta::FILE_BYTES_MAX;
    if size_bytes == 0 || size_bytes > most || !size_bytes.is_multiple_of(BLOCK_BYTES) {
        let text = format!(
            "size {size_bytes}: need a multiple of {BLOCK_BYTES} bytes, at most {most} (16 TiB \
             less 4 KiB); put several disks together for more"
        );
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    Ok(())
}
