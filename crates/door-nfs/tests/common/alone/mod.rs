//! The client alone, for programs that measure servers.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::allow_attributes,
    reason = "each program uses its own part"
)]

#[path = "../attrs.rs"]
pub mod attrs;
#[path = "../callbacks.rs"]
pub mod callbacks;
#[path = "../client.rs"]
pub mod client;
#[path = "../codes.rs"]
pub mod codes;
#[path = "../ops.rs"]
pub mod ops;
#[path = "../ops_session.rs"]
pub mod ops_session;
#[path = "../replies.rs"]
pub mod replies;
#[path = "../rpc.rs"]
pub mod rpc;
#[path = "../xdr.rs"]
pub mod xdr;
