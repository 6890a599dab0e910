//! The import: what changed in a bucket shows in the tree.

mod apply;
mod brake;
mod due;
mod lazy;
mod missing;
pub(super) mod pass;

use std::sync::Arc;

use weir_meta::Meta;

use super::detacher::Detacher;
use super::registry::Registry;
use super::resolver::Resolver;
use crate::data::mirrors::Mirrors;
use crate::data::nodes::Nodes;
use crate::data::space::Space;
use crate::volume::context::Context;

/// Has the tree follow the buckets that are linked.
pub(crate) struct Importer {
    pub(crate) context: Arc<Context>,
    pub(crate) meta: Arc<Meta>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) mirrors: Arc<Mirrors>,
    pub(crate) space: Arc<Space>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) resolver: Arc<Resolver>,
    pub(crate) detacher: Arc<Detacher>,
}
