//! The client alone, for programs that measure servers.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::allow_attributes,
    reason = "each program uses its own part"
)]

pub mod attrs;
pub mod callbacks;
pub mod client;
pub mod codes;
pub mod ops;
pub mod ops_session;
pub mod replies;
pub mod rpc;
pub mod xdr;
