//! Disks: block devices kept in the volume.
//!
//! A disk is a file that has no name in the tree. What must always hold:
//! - Reads see every write that had returned, also after `kill -9`: clients live on and know nothing
//!   of it.
//! - [`Disk::flush`] returns when all writes that had returned before are durable, whoever made
//!   them; before that a power cut may take them, as with any disk that has a write cache.
//! - Where nodes share the volume one of them has a disk: what another one writes to it changes nothing.

mod disk;
mod hold;
mod manage;
mod parts;
mod whole;

pub use disk::{Disk, DiskExtent};
pub(crate) use hold::hold_loop;
pub(crate) use manage::Disks;
pub use manage::{DiskOptions, DiskView};
pub(crate) use parts::DiskParts;
