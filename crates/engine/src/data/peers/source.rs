//! The buckets behind all nodes.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;
use weir_object::{Component, StripeSet};
use weir_peer::Object;
use weir_types::Result;

use super::patience::Patience;
use crate::data::upward::NativeObjects;

/// Where objects come from in the end.
pub(crate) struct Source {
    buckets: StripeSet,
    natives: Arc<dyn NativeObjects>,
    /// How long it takes to be had, by this way and by that of peers.
    pub(super) patience: Patience,
}

impl Source {
    pub(crate) fn new(buckets: StripeSet, natives: Arc<dyn NativeObjects>) -> Self {
        Self { buckets, natives, patience: Patience::default() }
    }

    /// A range of an object. One GET; of a native object as long as it is that version.
    pub(super) async fn get(&self, object: &Object, range: Range<u64>) -> Result<Bytes> {
        let began = Instant::now();
        let got = self.try_get(object, range).await;
        if got.is_ok() {
            self.patience.bucket_took(began.elapsed());
        }
        got
    }

    async fn try_get(&self, object: &Object, range: Range<u64>) -> Result<Bytes> {
        match object {
            Object::Segment(id) => {
                let bucket = self.buckets.bucket_for(*id);
                bucket.get_range(Component::Data, &id.object_key(), range).await
            }
            Object::Native { link, key, etag } => {
                let bucket = self.natives.bucket(*link)?;
                let got = bucket.get_range_if_match(Component::Link, key, range, etag).await?;
                self.natives.object_was_read(*link, key, got.len() as u64);
                Ok(got)
            }
        }
    }
}
