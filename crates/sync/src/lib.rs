//! Trees copied from one place to another: directories (a Weir mount, EFS, NFS, any) and buckets, in
//! each direction.
//!
//! In come two places; out go the changes that make the second like the first. Both are listed in
//! the order of keys and held against each other as they come, so that files of any number take
//! little memory (directories, further names and what is to be deleted are kept until the end), and
//! a run that was broken off goes on with what is missing.
//!
//! What must always hold:
//! - A file is seen at its place when all of it is there: it is written under another name first.
//! - Nothing outside the destination changes: symbolic links in it are never followed.
//! - Nothing is deleted unless that is asked for and the whole source could be listed.
//! - A file that changes while it is copied is told as failed, and its old copy stays.

mod attributes;
mod bucket;
mod compare;
mod directory;
mod entry;
mod finish;
mod place;
mod run;
mod scope;
mod target;
mod unfinished;
mod walk;
mod xattrs;

pub use compare::Comparison;
pub use place::{Place, Root};
pub use run::{Options, Progress, Report, Unsynced, sync};
pub use scope::Scope;
