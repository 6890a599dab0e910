//! The NBD server: disks by their names, for any client of the protocol.
//!
//! A connection is greeted, agrees on a disk (`handshake`) and then sends requests (`connection`),
//! each of which is a call of the engine (`session`). `protocol` knows the bytes and does no I/O.

pub(crate) mod connection;
pub(crate) mod errno;
mod handshake;
mod input;
mod options;
mod output;
pub mod protocol;
mod server;
mod session;

pub use options::NbdOptions;
pub use server::NbdServer;
