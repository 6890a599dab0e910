//! What a scrub works with.

use std::sync::Arc;

use weir_meta::Meta;
use weir_object::StripeSet;
use weir_tier::Tier;

use crate::data::fetch::Fetcher;
use crate::data::flush::Flusher;
use crate::data::mirrors::Mirrors;
use crate::data::nodes::Nodes;
use crate::volume::context::Context;

/// The parts of a volume that a scrub reads, and by which it repairs.
pub(crate) struct ScrubParts {
    pub(crate) context: Arc<Context>,
    pub(crate) meta: Arc<Meta>,
    pub(crate) tier: Arc<Tier>,
    pub(crate) buckets: StripeSet,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) mirrors: Arc<Mirrors>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) fetcher: Arc<Fetcher>,
}
