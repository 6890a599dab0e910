//! The talk between nodes that share a volume: questions and answers over mutual TLS 1.3.
//!
//! A node makes an [`Identity`], a key pair, each time it joins, and puts its [`Fingerprint`] and its
//! address where only members can: into the volume's metadata. Both sides of a connection prove their
//! keys, and each asks [`Members`] whether the other's is that of a session that lives: when the
//! connection is made, and again for each question. No certificate authority, no shared secret, nothing
//! that expires.
//!
//! A question is an [`Ask`], an answer an [`Answer`]; many are under way on one connection. Whatever the
//! other side does, memory is bounded: by the size of frames, by questions under way and by connections.
//! Nothing here is ever needed: who gets no answer does what it would have done alone.

mod ask;
mod backoff;
mod client;
mod connection;
mod frame;
mod identity;
mod server;
#[cfg(test)]
mod tests;
mod tls;

pub use ask::{Answer, Ask, FileRecord, GIVEN_BYTES, Object, ObjectRange, Refusal};
pub use client::{Client, Failure, Node};
pub use identity::{Fingerprint, Identity};
pub use server::{Handler, Server};
pub use tls::Members;
