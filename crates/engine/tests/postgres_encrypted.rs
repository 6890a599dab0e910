//! Encrypted volumes over PostgreSQL, of one mount and of several nodes: this program's name makes
//! [`weir_engine::testing::World`] keep it there, and encrypt it.
#![allow(clippy::duplicate_mod, reason = "both have the same helpers")]

#[path = "encrypted.rs"]
mod encrypted;
#[path = "life.rs"]
mod life;
#[path = "nodes/spread.rs"]
mod spread;
#[path = "nodes/whole.rs"]
mod whole;
