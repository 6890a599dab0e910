//! Links: directories of the volume that are bound to a bucket prefix, where one object is one file.
//!
//! An import compares the sorted listing of the bucket with the rows of known objects, and applies
//! the differences; it holds one page of each at a time. Polls, requests and events are imports of
//! all or of some keys.
//!
//! What must always hold:
//! - Bytes of two versions of an object never come together in one file: a changed object becomes a
//!   new inode under the same name, and each GET names the ETag of its inode.
//! - Where both sides changed, the bucket's version has the name and the local one stays beside it.
//! - What was removed or renamed here is not made again by an import, unless the object changed.

mod attributes;
mod classes;
mod confirm;
mod detacher;
mod due;
mod end;
mod exporter;
mod follow;
mod importer;
mod manage;
mod parts;
pub(crate) mod paused;
mod plan;
mod reads;
mod registry;
mod resolver;
mod rule;
mod views;
mod wrote;

pub(crate) use detacher::Detacher;
pub(crate) use due::{follow_nodes_loop, links_loop};
pub(crate) use exporter::Exporter;
pub use exporter::planned::{PlannedChange, PlannedExport, PlannedExports};
pub(crate) use follow::follow_loop;
pub(crate) use importer::Importer;
pub(crate) use parts::Links;
pub use plan::LinkPlan;
pub(crate) use reads::ObjectRead;
pub(crate) use registry::{Link, Registry};
pub(crate) use resolver::Resolver;
pub use views::{
    Attributes, HeldDeletions, HiddenObject, ImportView, LinkOptions, LinkView, Policy, TreeChange,
};
