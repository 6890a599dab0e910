//! Disks as block devices of this machine's kernel.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_engine::Engine;
use weir_types::{ErrorKind, FsError, Result};

/// Which of the kernel's drivers is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
    /// `/dev/nbdN`: part of every distribution's kernel.
    Nbd,
    /// `/dev/ublkbN`: faster, from Linux 6.0 on.
    Ublk,
}

/// What to attach, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttachOptions {
    /// The disk.
    pub name: String,
    /// `None` takes ublk where the kernel has it, else NBD.
    #[serde(default)]
    pub driver: Option<Driver>,
    /// The device, such as `/dev/nbd3`; `None` takes one that is free. One of which the server died
    /// goes on where it stopped.
    #[serde(default)]
    pub device: Option<PathBuf>,
    /// Nobody may write it here.
    #[serde(default)]
    pub read_only: bool,
}

/// A disk that is a block device of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// The disk.
    pub name: String,
    /// The device.
    pub device: PathBuf,
    /// Whose device it is.
    pub driver: Driver,
    /// Nobody may write it here.
    pub read_only: bool,
}

/// The block devices of one daemon.
pub struct Devices {}

impl Devices {
    /// None yet.
    pub fn new(_engine: Arc<Engine>) -> Self {
        Self {}
    }

    /// Makes a disk a block device of this machine. `Unsupported` where the kernel has no such
    /// driver; `Permission` for all but root.
    pub async fn attach(&self, _options: AttachOptions) -> Result<Attached> {
        Err(FsError::new(ErrorKind::Unsupported, "devices come with the next commit"))
    }

    /// Takes a device away, by its path or the disk's name; waits until what the kernel has of it
    /// is written. `WouldBlock` while it is mounted or open.
    pub async fn detach(&self, _device_or_name: &str) -> Result<Attached> {
        Err(FsError::new(ErrorKind::NotFound, "devices come with the next commit"))
    }

    /// All devices.
    pub fn list(&self) -> Vec<Attached> {
        Vec::new()
    }

    /// Takes all devices away, as [`Devices::detach`] does; answers those that are still in use.
    pub async fn stop(&self) -> Vec<Attached> {
        Vec::new()
    }
}
