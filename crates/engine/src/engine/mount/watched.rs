//! The metadata as a mount opens it: watched for another writer, and for its answers.

use std::sync::Arc;

use weir_meta::Meta;
use weir_meta::kv::Kv;
use weir_types::Result;

use crate::engine::Watched;
use crate::volume::fence::{Fence, FencedKv};
use crate::volume::health::Health;
use crate::volume::metadata::Metadata;
use crate::volume::options::MountOptions;

/// The metadata in `kv`, with the fence that goes up when another writer takes it.
pub(super) async fn open_watched(
    options: &MountOptions,
    metadata: &Metadata,
    kv: Arc<dyn Kv>,
) -> Result<Watched> {
    let fence = Arc::new(Fence::new(options.url.to_string(), options.shared));
    let health = metadata.is_durable_at_once().then(Arc::<Health>::default);
    let watching = FencedKv { kv, fence: fence.clone(), health: health.clone() };
    let meta = Meta::open(Arc::new(watching), options.clock.now.clone()).await?;
    Ok(Watched { meta, fence, place: metadata.place.to_string(), health })
}
