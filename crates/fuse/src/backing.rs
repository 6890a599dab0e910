//! Files that the kernel reads and maps without the daemon (passthrough).

use std::fs::File;
use std::io;
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

    /// The kernel's number for it, by which whoever goes on with the mount knows it.
    pub fn id(&self) -> u32 {
        self.id
    }
}

/// Has the kernel know files that answers to opens may name.
#[derive(Clone, Debug)]
pub struct Registrar(pub(crate) Arc<Device>);

impl Registrar {
    /// Has the kernel know a file.
    ///
    /// # Errors
    /// The kernel's: EPERM without CAP_SYS_ADMIN, ELOOP on a stacked file system, others where it
    /// does not have this.
    pub fn register(&self, file: &File) -> io::Result<Backing> {
        Ok(Backing::new(&self.0, self.0.register(file)?))
    }

    /// A file that the kernel knows already by this number.
    pub fn known(&self, id: u32) -> Backing {
        Backing::new(&self.0, id)
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
