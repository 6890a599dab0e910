//! Writing: into the mirror file, marked dirty; the bucket sees it later.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_meta::Meta;
use weir_tier::{Mirror, Tier};
use weir_types::{ErrorKind, FsError, Result};

use crate::data::capacity::Capacity;
use crate::data::fetch::{Fetcher, Priority};
use crate::data::journal::Journal;
use crate::data::mirrors::Mirrors;
use crate::data::nodes::Nodes;
use crate::data::quotas::Quotas;
use crate::data::space::{Space, amount_for};
use crate::data::throttle::WriteThrottle;
use crate::volume::context::Context;

/// Times that a write is tried again where the disk was full though it had told of room.
const FULL_TRIES: usize = 3;

/// Who writes so much at once is likely to write a file in one go.
const LONG_WRITE_BYTES: u64 = 64 << 10;

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
    pub(crate) capacity: Capacity,
}

impl Writer {
    pub(crate) fn new(
        fetcher: Arc<Fetcher>,
        journal: Option<Arc<Journal>>,
        quotas: Arc<Quotas>,
    ) -> Self {
        Self {
            context: fetcher.context.clone(),
            meta: fetcher.meta.clone(),
            tier: fetcher.tier.clone(),
            nodes: fetcher.nodes.clone(),
            journal,
            mirrors: fetcher.mirrors.clone(),
            space: fetcher.space.clone(),
            throttle: WriteThrottle::default(),
            capacity: Capacity::new(
                fetcher.context.clone(),
                fetcher.meta.clone(),
                fetcher.tier.clone(),
                fetcher.nodes.clone(),
                quotas,
            ),
            fetcher,
        }
    }

    pub(crate) async fn write_mirror(
        self: &Arc<Self>,
        mirror: &Arc<Mirror>,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        check_end(offset, data.len())?;
        if data.is_empty() {
            return Ok(());
        }
        let wanted = amount_for(mirror, data.len() as u64);
        self.space.wait_for_room(wanted).await?;
        let wait_ms = self.throttle_ms(data.len() as u64);
        if wait_ms > 0 {
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        }
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
        self.wake_flush(mirror, data.len());
        Ok(())
    }

    /// Writes if that waits for nothing: `false` where the tier has no room, its disk is full, a
    /// page must be fetched first, or writers are held back. Nothing is written then.
    pub(crate) fn try_write_mirror(
        &self,
        mirror: &Mirror,
        offset: u64,
        data: &[u8],
    ) -> Result<bool> {
        check_end(offset, data.len())?;
        let len = data.len() as u64;
        if len == 0 {
            return Ok(true);
        }
        if !self.space.room()?.covers(&amount_for(mirror, len)) || self.throttle_ms(len) > 0 {
            return Ok(false);
        }
        match mirror.write_at(offset, data, self.context.now()) {
            Ok(missing) if missing.is_empty() => {}
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == ErrorKind::NoSpace => return Ok(false),
            Err(error) => return Err(error),
        }
        self.wake_flush(mirror, data.len());
        Ok(true)
    }

    fn wake_flush(&self, mirror: &Mirror, len: usize) {
        let enough = self.tier.dirty_bytes() > self.context.settings.flush_start_bytes.0;
        let start = self.context.flush_start_of_one();
        if enough || (len as u64 >= LONG_WRITE_BYTES && mirror.dirty_bytes() >= start) {
            self.space.flush_wanted.notify_one();
        }
    }

    /// How long a write must wait because the bucket does not keep up, in milliseconds.
    fn throttle_ms(&self, len: u64) -> u64 {
        let dirty = self.tier.dirty_bytes();
        let room = self.tier.limit().map_or(dirty, |limit| limit.bytes);
        if dirty <= room / 2 {
            return 0;
        }
        let flushed = self.context.counts.bytes_flushed.load(Ordering::Relaxed);
        self.throttle.wait_ms((dirty, room), len, flushed, self.context.now_ms())
    }
}

fn check_end(offset: u64, len: usize) -> Result<()> {
    if offset.checked_add(len as u64).is_none_or(|end| end > FILE_BYTES_MAX) {
        let text = format!("offset {offset}: the largest file is {FILE_BYTES_MAX} bytes");
        return Err(FsError::new(ErrorKind::TooLarge, text));
    }
    Ok(())
}
