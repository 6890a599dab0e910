//! How much a volume may hold, where somebody said so: what `statfs` shows, and what writes of files
//! obey, as they obey quotas. A bucket has no end; this one is for people.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use weir_meta::{Meta, Usage};
use weir_tier::{Mirror, Tier};
use weir_types::{Bytes, ErrorKind, FsError, Ino, Result};

use super::nodes::Nodes;
use super::quotas::{Grant, Quotas};
use crate::volume::context::Context;

/// How old what is known of the metadata may be where there is room by it, in milliseconds.
const OLD_MS: u64 = 1_000;
/// Nobody looked yet.
const NEVER: u64 = u64::MAX;
/// How often, and after which time each, it is looked again where removed files still take room: who
/// removes one to write another must not be refused because the first is purged a moment later.
const LOOKS: usize = 10;
const LOOK: Duration = Duration::from_millis(50);
/// How long a write waits for the metadata to say what is used.
const PATIENCE: Duration = Duration::from_secs(1);

/// The size of a volume, and what of it is used.
pub(crate) struct Capacity {
    context: Arc<Context>,
    meta: Arc<Meta>,
    tier: Arc<Tier>,
    nodes: Arc<Nodes>,
    quotas: Arc<Quotas>,
    /// What was used when somebody looked, less what had been written since the mount: with what has by
    /// now it is at least what is used, wherever that lies.
    used_beside_written: AtomicI64,
    looked_ms: AtomicU64,
}

impl Capacity {
    pub(crate) fn new(
        context: Arc<Context>,
        meta: Arc<Meta>,
        tier: Arc<Tier>,
        nodes: Arc<Nodes>,
        quotas: Arc<Quotas>,
    ) -> Self {
        let (used_beside_written, looked_ms) = (AtomicI64::new(0), AtomicU64::new(NEVER));
        Self { context, meta, tier, nodes, quotas, used_beside_written, looked_ms }
    }

    /// Bytes that the volume may hold; `None` if it has no size.
    pub(crate) fn limit(&self) -> Option<u64> {
        Some(self.context.settings.volume_bytes.0).filter(|bytes| *bytes > 0)
    }

    /// What the volume holds, and bytes of it. What is written anew and has not left counts twice.
    pub(crate) async fn usage(&self) -> Result<(Usage, u64)> {
        let written = self.written_bytes();
        // In this order: what leaves meanwhile counts twice and not never.
        let dirty_bytes = self.tier.dirty_bytes();
        let usage = self.meta.usage().await?;
        let used_bytes = usage.stored_bytes + dirty_bytes;
        let beside = used_bytes.cast_signed().wrapping_sub(written);
        self.used_beside_written.store(beside, Ordering::Relaxed);
        self.looked_ms.store(self.context.now_ms(), Ordering::Relaxed);
        Ok((usage, used_bytes))
    }

    /// Lets so many more bytes of a file in where they fit by what is known. `None` where somebody must look.
    pub(crate) fn surely_holds(&self, ino: Ino, bytes: u64) -> Option<Grant> {
        self.volume_holds(bytes).then(|| self.quotas.surely_hold(ino, bytes)).flatten()
    }

    fn volume_holds(&self, bytes: u64) -> bool {
        let Some(limit) = self.limit() else { return true };
        let looked_ms = self.looked_ms.load(Ordering::Relaxed);
        let is_known =
            looked_ms != NEVER && self.context.now_ms().saturating_sub(looked_ms) < OLD_MS;
        is_known && self.known_bytes().saturating_add(bytes) <= limit
    }

    /// `NoSpace` where `offset..offset + len` of a file needs more than is free, `Quota` where it needs more
    /// than its quotas have left. What is there already needs nothing. The caller holds the answer until all
    /// is written.
    pub(crate) async fn check(&self, mirror: &Mirror, offset: u64, len: u64) -> Result<Grant> {
        let grant = self.quotas.check_bytes(mirror, offset, len).await?;
        let Some(limit) = self.limit() else { return Ok(grant) };
        if self.volume_holds(len) {
            return Ok(grant);
        }
        let needed = mirror.hole_bytes(offset, offset.saturating_add(len));
        if needed == 0 {
            return Ok(grant);
        }
        let mut free = limit.saturating_sub(self.used_bytes().await);
        for _ in 0..LOOKS {
            if needed <= free || !self.nodes.any_to_purge() {
                break;
            }
            tokio::time::sleep(LOOK).await;
            free = limit.saturating_sub(self.used_bytes().await);
        }
        if needed <= free {
            return Ok(grant);
        }
        let (limit, free, needed) = (Bytes(limit), Bytes(free), Bytes(needed));
        let text = format!(
            "the volume is full: it was mounted with --size {limit}, of which {free} are free, and \
             {needed} are needed: remove files, or mount it with a larger --size"
        );
        Err(FsError::new(ErrorKind::NoSpace, text))
    }

    /// Bytes that the volume holds, or was known to hold where the metadata does not tell soon: while
    /// the bucket is away writes go on as without a size.
    async fn used_bytes(&self) -> u64 {
        match tokio::time::timeout(PATIENCE, self.usage()).await {
            Ok(Ok((_, used_bytes))) => used_bytes,
            _ if self.looked_ms.load(Ordering::Relaxed) == NEVER => 0,
            _ => self.known_bytes(),
        }
    }

    /// The same by what was seen last, and what has been written since.
    fn known_bytes(&self) -> u64 {
        let beside = self.used_beside_written.load(Ordering::Relaxed);
        beside.wrapping_add(self.written_bytes()).max(0).cast_unsigned()
    }

    fn written_bytes(&self) -> i64 {
        self.context.counts.bytes_written.load(Ordering::Relaxed).cast_signed()
    }
}
