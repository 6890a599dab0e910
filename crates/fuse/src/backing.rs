//! Files that the kernel reads and maps without the daemon (passthrough).

use std::sync::{Arc, Weak};

use crate::device::Device;

/// A file that the kernel knows; it forgets it when this goes.
#[derive(Debug)]
pub struct Backing {
    device: Weak<Device>,
    pub(crate) id: u32,
}

impl Backing {
    pub(crate) fn new(device: &Arc<Device>, id: u32) -> Self {
        Self { device: Arc::downgrade(device), id }
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        // After the mount there is nobody to forget it.
        if let Some(device) = self.device.upgrade()
            && let Err(error) = device.unregister(self.id)
        {
            tracing::debug!(%error, "the kernel did not let a file go");
        }
    }
}
