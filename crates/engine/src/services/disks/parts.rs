//! What disks are made of.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;
use weir_meta::Meta;
use weir_types::Ino;

use crate::data::admission::Admission;
use crate::data::direct::DirectRecords;
use crate::data::durability::Durability;
use crate::data::flush::Flusher;
use crate::data::mirrors::Mirrors;
use crate::data::nodes::Nodes;
use crate::data::read::Reader;
use crate::data::write::Writer;
use crate::names::files::OpenFiles;
use crate::volume::context::Context;

/// The parts of the data plane that disks use.
pub(crate) struct DiskParts {
    pub(crate) context: Arc<Context>,
    pub(crate) meta: Arc<Meta>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) mirrors: Arc<Mirrors>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) durability: Arc<Durability>,
    pub(crate) records: Arc<DirectRecords>,
    pub(crate) files: Arc<OpenFiles>,
    /// This machine, for those at other nodes.
    pub(crate) host: String,
    /// Disks that nobody has open here any more, and that are to be given up.
    pub(crate) closed: UnboundedSender<Ino>,
}
