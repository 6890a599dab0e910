//! What the engine's tests share.
#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test file uses its own part")]

pub mod aging;
pub mod lake;
pub mod still;
pub mod trees;

pub use weir_engine::testing::*;

/// `u::rwx,u:7:rwx,g::r-x,m::rwx,o::---` in the bytes of Linux.
pub const ACL: &[u8] = b"\x02\0\0\0\x01\0\x07\0\xff\xff\xff\xff\x02\0\x07\0\x07\0\0\0\
    \x04\0\x05\0\xff\xff\xff\xff\x10\0\x07\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";
