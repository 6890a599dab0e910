//! Disks as block devices of this machine's kernel.
//!
//! The kernel sends requests, and tasks of this process answer them. A device whose process dies
//! keeps its requests for a minute, if its driver is NBD; who attaches the disk again by then goes
//! on with it.

mod blocking;
mod device;
mod nbd;
mod netlink;
#[cfg(feature = "ublk")]
mod ublk;
#[cfg(not(feature = "ublk"))]
#[path = "attach/no_ublk.rs"]
mod ublk;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use weir_engine::{Disk, Engine};
use weir_types::{ErrorKind, FsError, Result};

use crate::BlockCounts;
use crate::counts::Counts;
use crate::nbd::connection::{transmission_flags, transmit};
use blocking::blocking;

/// Which of the kernel's drivers is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
    /// `/dev/nbdN`: part of every distribution's kernel. It outlives a daemon that dies.
    Nbd,
    /// `/dev/ublkbN`: faster, from Linux 6.6 on. It goes with its daemon.
    Ublk,
}

/// What to attach, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachOptions {
    /// The disk.
    pub name: String,
    /// `None` takes that of the device, else NBD.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attached {
    /// The disk.
    pub name: String,
    /// The device.
    pub device: PathBuf,
    /// Subject device it is.
    pub driver: Driver,
    /// Nobody may write it here.
    pub read_only: bool,
}

/// How often a device in use is tried to be taken away, and how many times.
const TRY_EVERY: Duration = Duration::from_millis(100);
const TRIES: u32 = 4;

/// The block devices of one daemon.
pub struct Devices {
    engine: Arc<Engine>,
    counts: Arc<Counts>,
    open: Mutex<BTreeMap<PathBuf, Device>>,
    /// Devices come and go one at a time.
    change: tokio::sync::Mutex<()>,
    /// Becomes true when the engine is about to end.
    cut: watch::Sender<bool>,
}

/// One device, and the task that answers its requests.
struct Device {
    attached: Attached,
    backend: String,
    served: JoinHandle<()>,
    /// Nobody has it open, and it is being taken away.
    going: Arc<AtomicBool>,
}

impl Devices {
    /// None yet.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self {
            engine,
            counts: Arc::default(),
            open: Mutex::default(),
            change: tokio::sync::Mutex::default(),
            cut: watch::Sender::new(false),
        }
    }

    /// Makes a disk a block device of this machine. `Unsupported` where the kernel has no such
    /// driver; `Permission` for all but root.
    pub async fn attach(&self, options: AttachOptions) -> Result<Attached> {
        let _change = self.change.lock().await;
        if *self.cut.borrow() {
            let text = "the daemon is about to end: start another one, then attach";
            return Err(FsError::new(ErrorKind::Retry, text));
        }
        if let Some(there) = self.list().into_iter().find(|there| there.name == options.name) {
            let text = format!(
                "disk `{}` is {} already: detach it first",
                there.name,
                there.device.display()
            );
            return Err(FsError::new(ErrorKind::Exists, text));
        }
        let disk = self.engine.open_disk(&options.name).await?;
        let device = match driver(&options)? {
            Driver::Nbd => self.attach_nbd(&options, disk).await?,
            Driver::Ublk => self.attach_ublk(&options, disk).await?,
        };
        let attached = device.attached.clone();
        self.open().insert(attached.device.clone(), device);
        Ok(attached)
    }

    /// Takes a device away, by its path or the disk's name; waits until what the kernel has of it
    /// is written. `WouldBlock` while it is mounted or open.
    pub async fn detach(&self, device_or_name: &str) -> Result<Attached> {
        let _change = self.change.lock().await;
        let attached = self.find(device_or_name)?;
        let Attached { device: path, driver, .. } = attached.clone();
        let going = self.open().get(&path).map(|device| device.going.clone()).unwrap_or_default();
        let mut tries = 1;
        loop {
            let (path, going) = (path.clone(), going.clone());
            match blocking(move || take_away(&path, driver, &going)).await {
                // udev looks at a device for a moment whenever somebody who wrote it closes it.
                Err(error) if error.kind() == ErrorKind::WouldBlock && tries < TRIES => {
                    tries += 1;
                    tokio::time::sleep(TRY_EVERY).await;
                }
                done => break done?,
            }
        }
        let removed = self.open().remove(&attached.device);
        if let Some(device) = removed {
            // Its end is logged where it is answered.
            let _ = device.served.await;
        }
        Ok(attached)
    }

    /// All devices.
    pub fn list(&self) -> Vec<Attached> {
        self.open().values().map(|device| device.attached.clone()).collect()
    }

    /// What all of them did so far.
    pub fn counts(&self) -> BlockCounts {
        self.counts.get()
    }

    /// Tells the kernel a disk's size after it was changed, if it is attached.
    pub async fn resized(&self, name: &str) -> Result<()> {
        let _change = self.change.lock().await;
        let found = self
            .open()
            .values()
            .find(|device| device.attached.name == name)
            .map(|device| (device.attached.clone(), device.backend.clone()));
        let Some((Attached { device: path, driver, .. }, backend)) = found else {
            return Ok(());
        };
        let size_bytes = self.engine.open_disk(name).await?.size_bytes();
        blocking(move || match driver {
            Driver::Nbd => nbd::resize(number(&path, driver)?, &backend, size_bytes),
            Driver::Ublk => ublk::resize(number(&path, driver)?, size_bytes),
        })
        .await
    }

    /// Takes all devices away, as [`Devices::detach`] does; answers those that are still in use.
    pub async fn stop(&self) -> Vec<Attached> {
        let mut left = Vec::new();
        for attached in self.list() {
            let path = attached.device.display().to_string();
            match self.detach(&path).await {
                Ok(_) => {}
                // The kernel took it away by itself.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::debug!(device = path, disk = attached.name, %error, "stays attached");
                    left.push(attached);
                }
            }
        }
        left
    }

    /// Answers nothing any more, and waits for the requests under way: the engine may end then. The
    /// kernel keeps what it has no answer to for the daemon that attaches the disk again, if the
    /// driver is NBD. A device of ublk ends with this process.
    pub async fn cut(&self) {
        self.cut.send_replace(true);
        // Whoever attaches or detaches by now has ended with it, or sees that it is so.
        let devices = std::mem::take(&mut *self.open());
        for device in devices.into_values() {
            let Device { attached, served, going, .. } = device;
            let _ = served.await;
            if going.load(Relaxed) {
                // Nobody needs it, and somebody waits for an answer to its last flush.
                let Attached { device: path, driver, .. } = attached;
                if let Err(error) = blocking(move || disconnect(&path, driver)).await {
                    // Mostly because that was just done.
                    tracing::debug!("a device that nobody uses may stay: {error}");
                }
            }
        }
    }

    async fn attach_nbd(&self, options: &AttachOptions, disk: Disk) -> Result<Device> {
        let index = options.device.as_deref().map(|path| number(path, Driver::Nbd)).transpose()?;
        let read_only = options.read_only || disk.read_only();
        let volume = self.engine.status().await?.volume_id;
        let backend = format!("weir {volume} {}", options.name);
        let wanted = nbd::Wanted {
            backend: backend.clone(),
            size_bytes: disk.size_bytes(),
            flags: transmission_flags(&disk, read_only).into(),
            index,
        };
        let (index, socket) = blocking(move || nbd::connect(&wanted)).await?;
        let socket = tokio::net::UnixStream::from_std(socket)
            .map_err(|error| FsError::local_io("take up a socket", error))?;
        let (counts, cut) = (self.counts.clone(), self.cut.subscribe());
        let served = tokio::spawn(transmit(socket, disk, counts, read_only, cut));
        let path = device::path(nbd::PREFIX, index);
        tune(&path).await;
        // One that is taken up again is as writable as it was.
        let read_only = read_only || device::read_only(&path);
        let name = options.name.clone();
        let attached = Attached { name, device: path, driver: Driver::Nbd, read_only };
        Ok(Device { attached, backend, served, going: Arc::default() })
    }

    async fn attach_ublk(&self, options: &AttachOptions, disk: Disk) -> Result<Device> {
        let index = options.device.as_deref().map(|path| number(path, Driver::Ublk)).transpose()?;
        let read_only = options.read_only || disk.read_only();
        let (counts, cut) = (self.counts.clone(), self.cut.subscribe());
        let (index, served) = ublk::connect(disk, counts, read_only, index, cut).await?;
        let path = device::path(ublk::PREFIX, index);
        tune(&path).await;
        let name = options.name.clone();
        let attached = Attached { name, device: path, driver: Driver::Ublk, read_only };
        Ok(Device { attached, backend: String::new(), served, going: Arc::default() })
    }

    fn find(&self, device_or_name: &str) -> Result<Attached> {
        let list = self.list();
        let by_path = list.iter().find(|attached| attached.device == Path::new(device_or_name));
        let by_name = || list.iter().find(|attached| attached.name == device_or_name);
        by_path.or_else(by_name).cloned().ok_or_else(|| {
            let text = format!(
                "`{device_or_name}` is neither a device of this volume nor a disk that is one"
            );
            FsError::new(ErrorKind::NotFound, text)
        })
    }

    /// The devices that are there: the kernel may have taken some away by itself.
    fn open(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Device>> {
        let mut open = self.open.lock();
        open.retain(|_, device| !device.served.is_finished());
        open
    }
}

/// The driver that is asked for, or that the device is one of, or the one whose devices outlive a
/// daemon.
fn driver(options: &AttachOptions) -> Result<Driver> {
    let named = match options.device.as_deref() {
        Some(path) if number(path, Driver::Ublk).is_ok() => Some(Driver::Ublk),
        Some(path) => number(path, Driver::Nbd).map(|_| Some(Driver::Nbd))?,
        None => None,
    };
    match (named, options.driver) {
        (Some(named), Some(wanted)) if named != wanted => {
            let text = "the device is one of another driver: name one of them only";
            Err(FsError::new(ErrorKind::Invalid, text))
        }
        (named, wanted) => Ok(named.or(wanted).unwrap_or(Driver::Nbd)),
    }
}

/// N of a driver's device.
fn number(path: &Path, driver: Driver) -> Result<u32> {
    let prefix = match driver {
        Driver::Nbd => nbd::PREFIX,
        Driver::Ublk => ublk::PREFIX,
    };
    device::index(path, prefix).ok_or_else(|| {
        let text = format!("{}: need a device such as /dev/{prefix}0", path.display());
        FsError::new(ErrorKind::Invalid, text)
    })
}

/// Takes a device away that nobody uses; `going` says when that is known.
fn take_away(path: &Path, driver: Driver, going: &AtomicBool) -> Result<()> {
    // Nobody mounts it before it is gone.
    let alone = device::open_alone(path)?;
    going.store(true, Relaxed);
    device::write_out(path, &alone).inspect_err(|_| going.store(false, Relaxed))?;
    disconnect(path, driver)
}

fn disconnect(path: &Path, driver: Driver) -> Result<()> {
    match driver {
        Driver::Nbd => nbd::disconnect(number(path, driver)?),
        Driver::Ublk => ublk::disconnect(number(path, driver)?),
    }
}

/// A device that is there works with the kernel's own values too.
async fn tune(path: &Path) {
    let path = path.to_owned();
    if let Err(error) = blocking(move || device::tune(&path)).await {
        tracing::warn!("a device keeps the kernel's sizes of requests: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(device: Option<&str>, driver: Option<Driver>) -> AttachOptions {
        let device = device.map(PathBuf::from);
        AttachOptions { name: "d".to_owned(), driver, device, read_only: false }
    }

    #[test]
    fn a_device_names_its_driver() {
        use Driver::{Nbd, Ublk};
        let chosen = |device, wanted| driver(&options(device, wanted)).map_err(|e| e.kind());
        assert_eq!(chosen(Some("/dev/nbd3"), None), Ok(Nbd));
        assert_eq!(chosen(Some("/dev/ublkb3"), None), Ok(Ublk));
        assert_eq!(chosen(Some("/dev/nbd3"), Some(Nbd)), Ok(Nbd));
        assert_eq!(chosen(None, Some(Ublk)), Ok(Ublk));
        assert_eq!(chosen(Some("/dev/nbd3"), Some(Ublk)), Err(ErrorKind::Invalid));
        assert_eq!(chosen(Some("/dev/sda"), None), Err(ErrorKind::Invalid));
        assert_eq!(chosen(None, None), Ok(Nbd), "it outlives the daemon");
    }
}
