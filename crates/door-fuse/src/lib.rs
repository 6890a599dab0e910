//! The FUSE door: a volume as a mounted file system of this kernel.
//!
//! In come the kernel's requests, already permitted by it (`default_permissions` is always on);
//! out go calls of the [`weir_engine::Engine`] and its answers in FUSE's words. Errno lives here
//! and nowhere else.
//!
//! What must always hold:
//! - An event loop never waits: a request that is not answered from memory goes on in the runtime.
//! - Every request is answered once, also when the code that serves it panics.
//! - A write is with the engine before it is acknowledged: there is no writeback cache.
//! - What the kernel may cache for long changes only through this kernel ([`FuseOptions::exclusive`]).

mod atimes;
mod attrs;
mod beside;
mod cached;
mod convert;
mod counts;
mod data;
mod dirs;
mod door;
mod elsewhere;
mod errno;
mod faces;
mod fresh;
mod handles;
mod handover;
mod late;
mod listings;
mod locks;
mod modes;
mod mount;
mod mountpoint;
mod names;
mod ops;
mod options;
mod pages;
mod passthrough;
mod privileges;
mod remount;
mod signals;
mod table;
mod underway;
mod unmount;
mod view;
mod xattrs;

pub use handover::{FuseHandover, HeldMount};
pub use mount::{FuseMount, mount, resume};
pub use mountpoint::{check_mountpoint, dead_mount, mounts_below, our_mounts};
pub use options::{FuseOptions, Now, Transport, users_may_allow_other};
pub use passthrough::PassthroughState;
pub use remount::remount;
pub use unmount::unmount;
pub use view::{FuseView, TransportState};
pub use weir_fuse::Notifier;
