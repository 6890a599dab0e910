//! The metadata of one open volume, and what belongs to the volume as a whole.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_types::{Result, UnixTime};

use crate::kv::{Kv, Version};

/// Where the time comes from.
pub type Clock = Arc<dyn Fn() -> UnixTime + Send + Sync>;

/// The metadata of one volume.
pub struct Meta {
    pub(crate) kv: Arc<dyn Kv>,
    clock: Clock,
    /// Inode numbers reserved by a checked commit and not given out yet.
    inos: tokio::sync::Mutex<Range<u64>>,
}

/// Attributes of the root directory of a new volume.
#[derive(Clone, Copy, Debug)]
pub struct RootAttr {
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// What the volume holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Inodes, removed but not yet purged ones included.
    pub inodes: u64,
    /// File bytes that extents cover.
    pub stored_bytes: u64,
}

/// Which node writes the volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriterRecord {
    /// Counts the takeovers, from 1.
    pub epoch: u64,
    /// The writer's name for people.
    pub node: String,
    /// When it took over.
    pub since: UnixTime,
}

impl Meta {
    /// Makes the root directory in an empty Kv; `Exists` if it holds a volume already. One read
    /// and one commit.
    pub async fn format(_kv: &dyn Kv, _root: RootAttr, _now: UnixTime) -> Result<()> {
        todo!()
    }

    /// The metadata in `kv`; `NotFound` if it was never formatted, `Unsupported` if a newer build
    /// did. One read.
    pub async fn open(kv: Arc<dyn Kv>, clock: Clock) -> Result<Meta> {
        Ok(Meta { kv, clock, inos: tokio::sync::Mutex::new(0..0) })
    }

    /// The Kv below.
    pub fn kv(&self) -> &Arc<dyn Kv> {
        &self.kv
    }

    /// Counts of inodes and bytes. One read round.
    pub async fn usage(&self) -> Result<Usage> {
        todo!()
    }

    /// Who writes the volume; `None` if nobody ever did. One read.
    pub async fn writer(&self) -> Result<Option<WriterRecord>> {
        todo!()
    }

    /// Makes `node` the writer, if the record is still of epoch `expected` (`None`: there is
    /// none); `Conflict` if somebody else was faster. One read and one commit.
    pub async fn take_writer(&self, _expected: Option<u64>, _node: &str) -> Result<WriterRecord> {
        todo!()
    }

    /// Returns when all that was committed before is durable.
    pub async fn sync(&self) -> Result<()> {
        self.kv.sync().await
    }

    /// The newest commit known to be durable.
    pub fn durable(&self) -> Version {
        self.kv.durable()
    }

    /// Syncs and ends; no call may follow.
    pub async fn close(&self) -> Result<()> {
        self.kv.close().await
    }
}
