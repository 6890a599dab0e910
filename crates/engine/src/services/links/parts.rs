//! What the work on links is made of.

use std::sync::Arc;

use weir_meta::Meta;
use weir_object::StripeSet;
use weir_tier::Tier;

use super::registry::Registry;
use crate::data::fetch::Fetcher;
use crate::data::flush::Flusher;
use crate::data::journal::Journal;
use crate::data::mirrors::Mirrors;
use crate::data::nodes::Nodes;
use crate::data::read::Reader;
use crate::data::space::Space;
use crate::volume::context::Context;

/// All links of a mount, and what is done for them.
pub(crate) struct Links {
    pub(crate) context: Arc<Context>,
    pub(crate) meta: Arc<Meta>,
    pub(crate) tier: Arc<Tier>,
    pub(crate) buckets: StripeSet,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) journal: Option<Arc<Journal>>,
    pub(crate) mirrors: Arc<Mirrors>,
    pub(crate) space: Arc<Space>,
    pub(crate) fetcher: Arc<Fetcher>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) registry: Arc<Registry>,
}
