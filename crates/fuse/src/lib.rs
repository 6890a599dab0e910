//! The kernel's FUSE protocol: mounting, requests, replies, notifications.
//!
//! In come the kernel's messages, out go typed requests for a [`Handler`]; back go its replies. It
//! knows no file system and no runtime.
//!
//! What must always hold:
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
