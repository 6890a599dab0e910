//! The block door of a daemon: the NBD server, if one is asked for, and the devices of this machine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use weir_door_block::attach::{AttachOptions, Attached, Devices};
use weir_door_block::{BlockCounts, NbdOptions, NbdServer};
use weir_engine::{DiskView, Engine};
use weir_types::{ErrorKind, FsError, Result};

use super::ending::Ending;
use crate::api::{BlockStatus, NbdStatus, Tls};

/// How often devices in use are tried again by a daemon that is to end.
const TRY_EVERY: Duration = Duration::from_millis(200);
/// How long a status may wait for the metadata, which mostly is in memory.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// The block door of one daemon.
pub(crate) struct BlockDoor {
    engine: Arc<Engine>,
    nbd: Option<Nbd>,
    devices: Devices,
}

struct Nbd {
    server: NbdServer,
    unix: Option<PathBuf>,
    tls: Option<Tls>,
}

impl BlockDoor {
    /// Listens for NBD clients where that is asked for.
    pub(crate) async fn open(engine: &Arc<Engine>, options: NbdOptions) -> Result<Self> {
        let NbdOptions { listen, unix, tls, .. } = &options;
        let asked = listen.is_some() || unix.is_some();
        let unix = unix.clone();
        let tls = tls.as_ref().map(|tls| match tls.client_authority {
            None => Tls::Required,
            Some(_) => Tls::ClientCertificate,
        });
        if let Some(address) = listen.filter(|address| !address.ip().is_loopback())
            && !matches!(tls, Some(Tls::ClientCertificate))
        {
            tracing::warn!(
                "whoever reaches {address} may read and write every disk: --nbd-tls-client-ca \
                 lets in only those with a certificate"
            );
        }
        let nbd = match asked {
            false => None,
            true => {
                let server = NbdServer::start(engine.clone(), options).await?;
                Some(Nbd { server, unix, tls })
            }
        };
        let devices = Devices::new(engine.clone());
        Ok(Self { engine: engine.clone(), nbd, devices })
    }

    /// How it stands. Tells so too when the bucket is away.
    pub(crate) async fn status(&self) -> BlockStatus {
        let looked = tokio::time::timeout(LOOK_MAX, self.engine.disks()).await;
        let disks = looked.ok().and_then(|disks| disks.ok());
        let count = |counts: fn(&DiskView) -> bool| {
            let disks = disks.as_ref()?;
            Some(disks.iter().filter(|disk| counts(disk)).count() as u64)
        };
        let nbd = self.nbd.as_ref().map(|nbd| NbdStatus {
            address: nbd.server.address(),
            unix: nbd.unix.clone(),
            tls: nbd.tls,
        });
        BlockStatus {
            disks: count(|_| true),
            disks_open: count(|disk| disk.opens > 0),
            nbd,
            devices: self.devices.list(),
            counts: sum(
                self.nbd.as_ref().map(|nbd| nbd.server.counts()).unwrap_or_default(),
                self.devices.counts(),
            ),
        }
    }

    pub(crate) fn devices(&self) -> Vec<Attached> {
        self.devices.list()
    }

    pub(crate) async fn attach(&self, options: AttachOptions) -> Result<Attached> {
        self.devices.attach(options).await
    }

    pub(crate) async fn detach(&self, device_or_name: &str) -> Result<Attached> {
        self.devices.detach(device_or_name).await
    }

    /// Tells the kernel the new size of a disk, if it is a device.
    pub(crate) async fn resized(&self, name: &str) -> Result<()> {
        self.devices.resized(name).await
    }

    /// Takes all devices away. `Retry` if one is in use.
    pub(crate) async fn detach_all(&self) -> Result<()> {
        let busy = self.devices.stop().await;
        if busy.is_empty() {
            return Ok(());
        }
        let text = format!("{} still in use: unmount or close what is on it", shown(&busy));
        Err(FsError::new(ErrorKind::Retry, text))
    }

    /// Takes all devices away once nobody uses them any more, or gives them up as soon as the end is
    /// forced, then closes.
    pub(crate) async fn let_go(&self, mut ending: watch::Receiver<Ending>) {
        tokio::select! {
            biased;
            _ = ending.wait_for(|now| *now == Ending::Forced) => {}
            () = self.detach_until_done() => {}
        }
        let left = self.devices.list();
        if !left.is_empty() {
            let left = shown(&left);
            tracing::warn!("{left} still in use; ending all the same: attach them again to go on");
        }
        self.close().await;
    }

    async fn detach_until_done(&self) {
        let mut told = false;
        while let Err(error) = self.detach_all().await {
            if !told {
                tracing::warn!("{error}; waiting for that");
                told = true;
            }
            tokio::time::sleep(TRY_EVERY).await;
        }
    }

    /// Lets all NBD clients go and answers devices no more. Nothing that either asked for is under
    /// way in the engine when this returns.
    pub(crate) async fn close(&self) {
        let clients = async {
            if let Some(nbd) = &self.nbd {
                nbd.server.stop().await;
            }
        };
        tokio::join!(clients, self.devices.cut());
    }
}

fn sum(a: BlockCounts, b: BlockCounts) -> BlockCounts {
    BlockCounts {
        connections: a.connections + b.connections,
        connections_total: a.connections_total + b.connections_total,
        reads: a.reads + b.reads,
        writes: a.writes + b.writes,
        trims: a.trims + b.trims,
        flushes: a.flushes + b.flushes,
        errors: a.errors + b.errors,
        bytes_read: a.bytes_read + b.bytes_read,
        bytes_written: a.bytes_written + b.bytes_written,
    }
}

/// Devices for people: `/dev/nbd0 (disk `a`), /dev/nbd1 (disk `b`)`.
fn shown(devices: &[Attached]) -> String {
    let one = |d: &Attached| format!("{} (disk `{}`)", d.device.display(), d.name);
    devices.iter().map(one).collect::<Vec<_>>().join(", ")
}
