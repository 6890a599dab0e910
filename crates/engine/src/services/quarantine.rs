//! What was set aside: dirty data and logs of mounts that are not part of the volume, until
//! somebody settles what becomes of them.
//!
//! `weir-tier` and the journal put entries there; here they are found, told of, held against the
//! volume, and merged, written out or given up. What must always hold:
//! - Whatever is set aside is told of by every mount that can see it.
//! - A merge changes no byte that somebody changed since, and takes nothing out of an entry before
//!   the volume has it durably.

mod assess;
mod assessed;
mod entry;
mod extract;
mod label;
mod log;
mod manage;
mod merge;
mod outside;
mod parts;
mod paths;
mod shown;
mod source;
mod views;

pub(crate) use entry::Places;
pub use entry::{AsideEntry, AsideSummary};
pub(crate) use label::label_for;
pub(crate) use parts::Quarantine;
pub use views::{
    AsideFile, AsideView, ExtractReport, Extracted, LostOperation, MergeReport, RecoverProgress,
    Standing,
};
