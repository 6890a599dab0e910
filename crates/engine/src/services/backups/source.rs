//! A snapshot of a volume, opened to be taken elsewhere.

use std::sync::Arc;

use weir_meta::{Meta, SnapshotRow};
use weir_object::{BucketUrl, Component, StripeSet};
use weir_types::{Result, UnixTime, VolumeFormat};

use crate::volume::connector::Connector;
use crate::volume::format::{read_format_in, stripe_set};
use crate::volume::metadata::Metadata;

pub(super) struct Source {
    pub(super) format: VolumeFormat,
    pub(super) buckets: StripeSet,
    pub(super) row: SnapshotRow,
    pub(super) view: Arc<Meta>,
}

impl Source {
    /// Opens a snapshot, without a word to whoever has the volume mounted.
    pub(super) async fn open(
        url: &BucketUrl,
        connector: &Connector,
        snapshot: &str,
    ) -> Result<Self> {
        let first = connector.connect(url)?;
        let format = read_format_in(&first).await?;
        let buckets = stripe_set(&format, first, connector).await?;
        let timeout_ms = connector.options.timeout_ms;
        let metadata = Metadata::of(&format, &buckets, None, timeout_ms)?.hasty();
        let kv = metadata.follow(Component::Check).await?;
        let meta = Meta::open(kv, Arc::new(|| UnixTime(0))).await?;
        meta.checkpoints()?;
        let row = meta.snapshot(snapshot).await?;
        let view = meta.view_as(&row).await?;
        Ok(Source { format, buckets, row, view })
    }
}
