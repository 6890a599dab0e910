//! What doors, the daemon and tests call: each method is that of one part.

mod actions;
mod disks;
mod files;
mod kept;
mod lifecycle;
mod limits;
mod links;
mod locks;
mod names;
mod passthrough;
mod quarantine;
mod quotas;
mod scrub;
mod snapshots;
mod survey;
