//! What a volume does through kills, reboots and losses, over metadata in PostgreSQL, and what nodes do
//! that share one: this program's name makes [`weir_engine::testing::World`] keep it there.
#![allow(clippy::duplicate_mod, reason = "both have the same helpers")]

#[path = "nodes/actions.rs"]
mod actions;
#[path = "nodes/appends.rs"]
mod appends;
#[path = "belongs.rs"]
mod belongs;
#[path = "nodes/counts.rs"]
mod counts;
#[path = "nodes/disks.rs"]
mod disks;
#[path = "life.rs"]
mod life;
#[path = "nodes/locks.rs"]
mod locks;
#[path = "nodes/names.rs"]
mod names;
#[path = "nodes/removed.rs"]
mod removed;
#[path = "nodes/shut_out.rs"]
mod shut_out;
#[path = "nodes/spread.rs"]
mod spread;
#[path = "nodes/whole.rs"]
mod whole;
