//! Reading snapshots: inodes that carry a snapshot's number are read in its metadata, and what is told
//! of them carries it too.

use std::sync::Arc;

use weir_types::{ErrorKind, FileKind, FsError, Ino, Inode, Result, UnixTime};

use crate::snapshots::no_snapshot;
use crate::{DirEntry, DirEntryPlus, Meta, SnapshotRow, SnapshotState};

/// An inode's snapshot, opened, and the inode that it is there.
pub(crate) struct Past {
    pub(crate) view: Arc<Meta>,
    pub(crate) ino: Ino,
    number: u32,
}

impl Past {
    /// The inode as it is told.
    pub(crate) fn told(&self, inode: Inode) -> Inode {
        let above = match inode.ino {
            Ino::ROOT => Ino::SNAPSHOTS,
            _ => inode.parent.in_snapshot(self.number),
        };
        Inode { ino: inode.ino.in_snapshot(self.number), parent: above, ..inode }
    }

    pub(crate) fn told_entry(&self, entry: DirEntry) -> DirEntry {
        DirEntry { ino: entry.ino.in_snapshot(self.number), ..entry }
    }

    pub(crate) fn told_plus(&self, plus: DirEntryPlus) -> DirEntryPlus {
        DirEntryPlus { entry: self.told_entry(plus.entry), inode: self.told(plus.inode) }
    }
}

impl Meta {
    /// The metadata as a snapshot has it; `NotFound` if there is none of this number. A read and a few
    /// GETs where it was not read of late.
    pub async fn view(&self, number: u32) -> Result<Arc<Meta>> {
        if let Some(view) = self.recent_views.get(number) {
            return Ok(view);
        }
        let all = self.snapshots().await?;
        let row = all.into_iter().find(|(_, row)| row.number == number);
        let state = row.and_then(|(_, row)| row.state);
        let state = state.ok_or_else(|| {
            let text = "the snapshot that it was in is deleted";
            FsError::new(ErrorKind::NotFound, text)
        })?;
        self.open_view(number, &state).await
    }

    /// The same for a snapshot whose row is known.
    pub async fn view_as(&self, row: &SnapshotRow) -> Result<Arc<Meta>> {
        match (self.recent_views.get(row.number), &row.state) {
            (Some(view), _) => Ok(view),
            (None, Some(state)) => self.open_view(row.number, state).await,
            (None, None) => Err(no_snapshot(&row.state_name())),
        }
    }

    async fn open_view(&self, number: u32, state: &SnapshotState) -> Result<Arc<Meta>> {
        let kv = self.checkpoints()?.at(state.checkpoint).await?;
        let view = Arc::new(Meta::open(kv, self.clock()).await?);
        self.recent_views.put(number, view.clone());
        Ok(view)
    }

    pub(crate) fn forget_view(&self, number: u32) {
        self.recent_views.forget(number);
    }

    /// Where an inode of a snapshot is to be read; `None` for one of the volume as it is now.
    pub(crate) async fn past(&self, ino: Ino) -> Result<Option<Past>> {
        match ino.of_snapshot() {
            None => Ok(None),
            Some((number, ino)) => Ok(Some(Past { view: self.view(number).await?, ino, number })),
        }
    }

    /// The directory of the snapshots, as an inode of root.
    pub async fn snapshots_dir(&self) -> Result<Inode> {
        self.checkpoints()?;
        let rows = self.snapshots().await?;
        let newest = rows.iter().map(|(_, row)| row.created_ms).max();
        let changed = UnixTime((newest.unwrap_or(0) * 1_000_000).cast_signed());
        let like = Inode::new(Ino::SNAPSHOTS, FileKind::Directory, Ino::ROOT, changed);
        let whole = rows.iter().filter(|(_, row)| row.state.is_some()).count();
        Ok(Inode { mode: 0o555, nlink: 2 + whole as u32, ..like })
    }

    /// The root directory of a snapshot, by the snapshot's name.
    pub async fn snapshot_root(&self, name: &str) -> Result<Inode> {
        let row = self.snapshot(name).await?;
        let past = Past { view: self.view_as(&row).await?, ino: Ino::ROOT, number: row.number };
        Ok(past.told(past.view.inode_here(Ino::ROOT).await?))
    }
}
