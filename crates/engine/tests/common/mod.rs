//! What the engine's tests share.
#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test file uses its own part")]

pub mod lake;
pub mod still;

pub use weir_engine::testing::*;
