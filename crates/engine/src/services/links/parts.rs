//! What the work on links is made of.

use std::sync::Arc;

use weir_meta::Meta;
use weir_object::StripeSet;

use super::detacher::Detacher;
use super::exporter::Exporter;
use super::importer::Importer;
use super::registry::Registry;
use super::resolver::Resolver;
use crate::data::nodes::Nodes;
use crate::volume::context::Context;

/// All links of a mount: making, showing and ending them.
pub(crate) struct Links {
    pub(crate) context: Arc<Context>,
    pub(crate) meta: Arc<Meta>,
    pub(crate) buckets: StripeSet,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) resolver: Arc<Resolver>,
    pub(crate) detacher: Arc<Detacher>,
    pub(crate) importer: Arc<Importer>,
    pub(crate) exporter: Arc<Exporter>,
}
