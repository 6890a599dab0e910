//! What the work on whole trees is made of.

use std::sync::Arc;

use weir_meta::Meta;
use weir_tier::Tier;

use super::schedule::Schedule;
use crate::data::durability::Durability;
use crate::data::fetch::Fetcher;
use crate::data::flush::Flusher;
use crate::data::mirrors::Mirrors;
use crate::data::nodes::Nodes;
use crate::data::space::Space;
use crate::services::links::Links;
use crate::volume::context::Context;

/// What is asked for whole trees, and what does it.
pub(crate) struct Actions {
    pub(crate) context: Arc<Context>,
    pub(crate) meta: Arc<Meta>,
    pub(crate) tier: Arc<Tier>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) mirrors: Arc<Mirrors>,
    pub(crate) space: Arc<Space>,
    pub(crate) fetcher: Arc<Fetcher>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) durability: Arc<Durability>,
    pub(crate) links: Arc<Links>,
    pub(crate) schedule: Arc<Schedule>,
    /// This machine and its tier directory, for those at other nodes.
    pub(crate) host: String,
    pub(crate) tier_directory: String,
}
