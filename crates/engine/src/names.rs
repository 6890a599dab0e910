//! Names, attributes and open files: what programs ask for, on top of the data plane.
//!
//! What links know of names is reached through [`tree::LinkedNames`].

pub(crate) mod atimes;
mod counted;
pub(crate) mod files;
pub(crate) mod locks;
pub(crate) mod orphans;
pub(crate) mod passthrough;
pub(crate) mod past;
pub(crate) mod promises;
pub(crate) mod reclaims;
pub(crate) mod removed;
pub(crate) mod tree;
pub(crate) mod waits;
