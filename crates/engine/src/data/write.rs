//! Writing: into the mirror file, marked dirty; the bucket sees it later.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_meta::Meta;
use weir_tier::{Mirror, Tier};
use weir_types::{ErrorKind, FsError, Result};

use crate::data::fetch::{Fetcher, Priority};
use crate::data::journal::Journal;
use crate::data::mirrors::Mirrors;
use crate::data::nodes::Nodes;
use crate::data::space::{Space, amount_for};
use crate::data::throttle::WriteThrottle;
use crate::volume::context::Context;

/// Times that a write is tried again where the disk was full though it had told of room.
const FULL_TRIES: usize = 3;

/// Largest file in bytes.
pub(crate) const FILE_BYTES_MAX: u64 = weir_meta::FILE_BYTES_MAX;

/// Changes files: bytes, sizes, holes.
pub(crate) struct Writer {
    pub(super) context: Arc<Context>,
    pub(super) meta: Arc<Meta>,
    pub(super) tier: Arc<Tier>,
    pub(super) nodes: Arc<Nodes>,
    pub(super) journal: Option<Arc<Journal>>,
    pub(super) mirrors: Arc<Mirrors>,
    space: Arc<Space>,
    fetcher: Arc<Fetcher>,
    throttle: WriteThrottle,
}

impl Writer {
    pub(crate) fn new(fetcher: Arc<Fetcher>, journal: Option<Arc<Journal>>) -> Self {
        Self {
            context: fetcher.context.clone(),
            meta: fetcher.meta.clone(),
            tier: fetcher.tier.clone(),
            nodes: fetcher.nodes.clone(),
            journal,
            mirrors: fetcher.mirrors.clone(),
            space: fetcher.space.clone(),
            fetcher,
            throttle: WriteThrottle::default(),
        }
    }

    pub(crate) async fn write_mirror(
        self: &Arc<Self>,
        mirror: &Arc<Mirror>,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        if offset.checked_add(data.len() as u64).is_none_or(|end| end > FILE_BYTES_MAX) {
            let text = format!("offset {offset}: the largest file is {FILE_BYTES_MAX} bytes");
            return Err(FsError::new(ErrorKind::TooLarge, text));
        }
        if data.is_empty() {
            return Ok(());
        }
        let wanted = amount_for(mirror, data.len() as u64);
        self.space.wait_for_room(wanted).await?;
        self.throttle(data.len() as u64).await;
        let mut full = 0;
        loop {
            match mirror.write_at(offset, data, self.context.now()) {
                Ok(missing) if missing.is_empty() => break,
                Ok(missing) => self.fetcher.fetch(mirror, &missing, Priority::Demand).await?,
                Err(error) if error.kind() == ErrorKind::NoSpace && full < FULL_TRIES => {
                    full += 1;
                    self.space.disk_was_full().await?;
                    self.space.wait_for_room(wanted).await?;
                }
                Err(error) => return Err(error),
            }
        }
        if self.tier.dirty_bytes() > self.context.settings.flush_start_bytes.0 {
            self.space.flush_wanted.notify_one();
        }
        Ok(())
    }

    /// Holds a writer back while the bucket does not keep up.
    async fn throttle(&self, len: u64) {
        let dirty = self.tier.dirty_bytes();
        let room = self.tier.limit().map_or(dirty, |limit| limit.bytes);
        if dirty <= room / 2 {
            return;
        }
        let flushed = self.context.counts.bytes_flushed.load(Ordering::Relaxed);
        let wait_ms = self.throttle.wait_ms((dirty, room), len, flushed, self.context.now_ms());
        if wait_ms > 0 {
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        }
    }
}
