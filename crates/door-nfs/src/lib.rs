//! The NFS door: a volume by NFS version 4.1 and 4.2, for clients that have nothing but their kernel.
//!
//! In come requests of the protocol (RFC 8881, 7862, 8276) by TCP, or TLS below that (RFC 9289); out go calls of the
//! [`weir_engine::Engine`]. Who may do what is decided here, by the rules that a kernel has for local programs.
//! Statuses of the protocol live here and nowhere below.
//!
//! What must always hold:
//! - A request is done once: one that comes again gets the answer of the first time.
//! - What a client may claim after a restart is in the metadata before it has it.
//! - A write that was answered as durable, and a COMMIT, were an `fsync`.
//! - A handle leads to the file that it was made for or to none, and nowhere outside of its export.

mod attributes;
mod books;
mod caller;
mod compound;
mod connection;
mod counts;
#[doc(hidden)]
pub mod decode;
mod dispatch;
mod exports;
mod handle;
mod memory;
mod moved;
mod names;
mod ops;
mod options;
mod protocol;
mod recalls;
mod server;
mod server_state;
mod state;
mod sweep;
mod uses;

pub use counts::{ClientView, NfsCounts};
pub use options::{Export, Identity, NOBODY, Network, NfsOptions, Now, Squash, TlsOptions};
pub use server::{BoundNfs, NfsHeld, NfsServer};
pub use uses::UseView;
pub use weir_tls::ServerFiles;
