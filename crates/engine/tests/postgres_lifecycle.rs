//! Storage classes of a volume with its metadata in PostgreSQL: this program's name makes
//! [`weir_engine::testing::World`] keep it there.

#[path = "lifecycle.rs"]
mod lifecycle;
