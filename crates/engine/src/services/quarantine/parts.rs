//! What settles what was set aside is made of.

use std::sync::Arc;

use parking_lot::Mutex;
use weir_meta::Meta;
use weir_tier::Tier;

use super::entry::Places;
use super::views::RecoverProgress;
use crate::data::mirrors::Mirrors;
use crate::data::nodes::Nodes;
use crate::data::segments::Segments;
use crate::names::files::OpenFiles;
use crate::services::links::Links;
use crate::volume::context::Context;
use crate::volume::locks;

/// What was set aside, and what settles it.
pub(crate) struct Quarantine {
    pub(crate) context: Arc<Context>,
    pub(crate) meta: Arc<Meta>,
    pub(crate) tier: Arc<Tier>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) mirrors: Arc<Mirrors>,
    pub(crate) segments: Arc<Segments>,
    pub(crate) files: Arc<OpenFiles>,
    pub(crate) links: Arc<Links>,
    pub(crate) places: Places,
    /// Held by whoever changes entries.
    pub(crate) changing: locks::Mutex,
    pub(crate) progress: Mutex<RecoverProgress>,
}
