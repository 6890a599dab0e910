//! A volume that is made of rows of metadata.

use std::sync::Arc;

use weir_meta::kv::Kv;
use weir_meta::{Meta, Sum, first_row, load, sum};
use weir_object::{BucketUrl, Component, StripeSet};
use weir_types::{Result, Settings, VolumeFormat};

use super::held::Held;
use crate::services::links::paused::pause_all;
use crate::volume::context::Clock;
use crate::volume::format::{VOLUME_KEY, abandon, encode, exists};
use crate::volume::metadata::Metadata;

/// Where it is to be, and what it is. What must always hold: it is a volume when all of it is there, and ended anywhere
/// before it is none.
pub(super) struct Making<'a> {
    pub(super) url: &'a BucketUrl,
    pub(super) format: VolumeFormat,
    pub(super) to: StripeSet,
    pub(super) held: &'a Held,
    pub(super) clock: &'a Clock,
    pub(super) keep_links: bool,
    pub(super) timeout_ms: u64,
}

impl Making<'_> {
    /// Its metadata, not opened.
    pub(super) fn metadata(&self) -> Result<Metadata> {
        Metadata::of(&self.format, &self.to, None, self.timeout_ms)
    }

    /// Empty metadata, over what an earlier try left.
    pub(super) async fn begin(&self, metadata: &Metadata) -> Result<Arc<dyn Kv>> {
        metadata.remove().await?;
        let kv = metadata.create().await?;
        load(&*kv, vec![first_row()?]).await?;
        Ok(kv)
    }

    /// Reads back what was loaded, as the next mount opens it.
    pub(super) async fn read_back(&self, metadata: &Metadata) -> Result<Sum> {
        let kv = metadata.follow(Component::Meta).await?;
        let there = sum(&*kv, &|_| ()).await;
        let _ = kv.close().await;
        there
    }

    /// Has links neither import nor export, unless they are to go on: the first volume may still do so. Answers how many.
    pub(super) async fn pause_links(&self, metadata: &Metadata) -> Result<u64> {
        if self.keep_links {
            return Ok(0);
        }
        let kv = metadata.follow(Component::Meta).await?;
        let some = self.meta(kv.clone()).await?.links().await;
        let _ = kv.close().await;
        if some?.is_empty() {
            return Ok(0);
        }
        let opened = metadata.open(("restore", true), &Settings::default(), None).await?;
        let meta = self.meta(opened.kv).await?;
        let paused = pause_all(&meta).await?;
        meta.close().await?;
        Ok(paused)
    }

    /// Makes a volume of what was made, or removes what failed to be. Without an answer it may be a volume.
    pub(super) async fn end<T>(&self, metadata: &Metadata, made: Result<T>) -> Result<T> {
        let ended = match &made {
            Ok(_) => self.held.check().await,
            Err(_) => Ok(()),
        };
        if made.is_err() || ended.is_err() {
            abandon(metadata).await;
        }
        let (made, ()) = (made?, ended?);
        let bytes = encode(&self.format)?;
        if !self.to.first().put_new(Component::Volume, VOLUME_KEY, bytes).await? {
            abandon(metadata).await;
            return Err(exists(self.url));
        }
        Ok(made)
    }

    pub(super) async fn meta(&self, kv: Arc<dyn Kv>) -> Result<Meta> {
        Meta::open(kv, self.clock.now.clone()).await
    }
}
