//! What is done for whole trees and volumes, on top of names and the data plane. Each owns its state.

pub(crate) mod actions;
pub(crate) mod backups;
pub(crate) mod disks;
pub(crate) mod lifecycle;
pub(crate) mod limits;
pub(crate) mod links;
pub(crate) mod quarantine;
pub(crate) mod quotas;
pub(crate) mod scrub;
pub(crate) mod snapshots;
pub(crate) mod survey;
