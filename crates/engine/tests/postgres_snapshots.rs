//! Snapshots, clones, backups and lost metadata over PostgreSQL: this program's name makes
//! [`weir_engine::testing::World`] keep it there.
#![allow(clippy::duplicate_mod, reason = "both have the same helpers")]

#[path = "clones.rs"]
mod clones;
#[path = "snapshots_model.rs"]
mod snapshots_model;
