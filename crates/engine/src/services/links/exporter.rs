//! The export: what changed in the tree shows in a bucket.

pub(super) mod conditions;
mod moves;
mod other_names;
mod pass;
pub(super) mod planned;
mod upload;

use std::sync::Arc;

use weir_meta::Meta;

use super::detacher::Detacher;
use super::importer::Importer;
use super::registry::Registry;
use super::resolver::Resolver;
use crate::data::flush::Flusher;
use crate::data::journal::Journal;
use crate::data::mirrors::Mirrors;
use crate::data::nodes::Nodes;
use crate::data::read::Reader;
use crate::data::space::Space;
use crate::volume::context::Context;

/// Has buckets follow the tree where links say so.
pub(crate) struct Exporter {
    pub(crate) context: Arc<Context>,
    pub(crate) meta: Arc<Meta>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) journal: Option<Arc<Journal>>,
    pub(crate) mirrors: Arc<Mirrors>,
    pub(crate) space: Arc<Space>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) resolver: Arc<Resolver>,
    pub(crate) detacher: Arc<Detacher>,
    pub(crate) importer: Arc<Importer>,
}
