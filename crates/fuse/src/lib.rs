//! The kernel's FUSE protocol: mounting, requests, replies, notifications.
//!
//! In come the kernel's messages, out go typed requests for a [`Handler`]; back go its replies. It
//! knows no file system and no runtime.
//!
//! # How a file system is made of it
//!
//! 1. [`mount`] mounts on a directory and answers the descriptor that requests come from: as root by
//!    the system call, else by `fusermount3`.
//! 2. [`Session::begin`] shakes hands. The kernel says what it has ([`Offer`], flags of [`init`]), the
//!    file system what it wants of that ([`Answer`]): an old kernel lacks some, and is asked for no more.
//! 3. [`Session::serve`] calls [`Handler::handle`] for each request until it is unmounted, by several
//!    threads at once. It gets who asks ([`Request`]), what ([`Operation`]), and where the answer goes
//!    ([`Reply`]), which may be given at once, or later and by any thread: an `async` file system moves
//!    it into a task. What borrows from an operation (names, the bytes of a write) is there until the
//!    handler returns.
//!
//! `examples/memory.rs` is a whole file system: files in memory that can be made, read, written, listed,
//! renamed and removed, in less than 300 lines.
//!
//! # What else there is
//!
//! - [`Interrupted`] is a future that is ready when a signal came to the thread that waits. Who answers
//!   EINTR then lets it go; who does nothing has it wait on, and unless it is killed nothing is lost.
//! - [`Session::notifier`] tells the kernel to forget what others changed.
//! - [`Reply::registrar`] has the kernel read and map a file of another file system without the daemon
//!   ([`init::PASSTHROUGH`], Linux 6.9).
//! - With [`init::OVER_IO_URING`] requests come over io_uring (Linux 6.14, where `enable_uring` is on);
//!   [`Session::transport`] says whether they do, and why not. A handler sees no difference.
//!
//! # What must always hold
//!
//! - Every request is answered once: a [`Reply`] that is dropped answers EIO.
//! - A reply goes to the channel that its request came from.
//! - An entry of a ring is the kernel's or that of one who answers, and its memory outlives both.
//! - A mount that is held still has every request in the kernel, answered, or with whoever asked for it.
//! - An interrupt is heard, also one that comes before anybody listens for it.

mod abi;
mod attr;
mod backing;
mod bytes;
mod control;
#[doc(hidden)]
pub mod decoding;
mod device;
mod dirs;
mod interrupts;
mod mount;
mod notify;
mod readers;
mod reply;
mod request;
mod ring;
mod session;

pub use abi::{init, lock, open, release, write};
pub use attr::{Attr, Entry, Time, Timestamp};
pub use backing::{Backing, Registrar};
pub use control::{Agreed, Control, Still};
pub use dirs::DirBuffer;
pub use interrupts::Interrupted;
pub use mount::{MountOptions, mount};
pub use notify::Notifier;
pub use reply::{Errno, Opened, Reply, Space};
pub use request::{LockRange, Operation, Request, SetAttr};
pub use ring::Transport;
pub use session::{Answer, Handler, Offer, Session};
