//! `weir disk`: makes, lists, resizes, copies and deletes disks.
//!
//! Where a daemon of this machine has the volume it does the work. Else the volume is opened for the
//! moment, but never one whose last writer did not end cleanly: what that one had not flushed waits
//! in its tier, and would be set aside for good.

mod describe;
mod passing;

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::json;
use weir_engine::{BucketUrl, DiskOptions, DiskView, Engine};
use weir_types::Result;

use crate::api::{CloneDisk, CreateDisk, DeleteDisk, ListDisks, ResizeDisk, SnapshotDisk};
use crate::cli::{DiskCommand, VolumeArgs};
use crate::client::Client;
use crate::render;
use passing::Passing;

/// What is to be done to a disk.
#[derive(Clone)]
enum Change {
    Create(DiskOptions),
    Resize { name: String, size_bytes: u64, may_shrink: bool },
    Delete { name: String },
    Snapshot { name: String, snapshot: String },
    Clone { name: String, new: String },
}

/// A disk as it is listed.
#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    disk: DiskView,
    /// The devices of this machine that it is.
    devices: Vec<PathBuf>,
}

pub(crate) async fn run(command: DiskCommand) -> Result<ExitCode> {
    let (volume, change) = match command {
        DiskCommand::List(volume) => return list(&volume).await,
        DiskCommand::Create(args) => {
            let options = DiskOptions {
                name: args.name,
                size_bytes: args.size.0,
                record_bytes: args.record.map(|size| size.0),
                cache: args.cache.into(),
            };
            (args.volume, Change::Create(options))
        }
        DiskCommand::Resize(args) => {
            let (name, size_bytes, may_shrink) = (args.name, args.size.0, args.shrink);
            (args.volume, Change::Resize { name, size_bytes, may_shrink })
        }
        DiskCommand::Delete(args) => (args.volume, Change::Delete { name: args.name }),
        DiskCommand::Snapshot(args) => {
            (args.volume, Change::Snapshot { name: args.name, snapshot: args.snapshot })
        }
        DiskCommand::Clone(args) => (args.volume, Change::Clone { name: args.name, new: args.new }),
    };
    let url: BucketUrl = volume.url.parse()?;
    let done = match Client::having(&url).await.filter(|(_, status)| !status.engine.read_only) {
        Some((client, _)) => change.ask(&client).await?,
        None => {
            let passing = Passing::open(&url, &volume.connect, false).await?;
            passing.run(async |engine| change.make(engine).await).await?
        }
    };
    match (volume.json, &done) {
        (true, Some(disk)) => render::say_json(disk)?,
        (true, None) => render::say_json(&json!({ "deleted": change.name() }))?,
        (false, _) => render::say(&describe::changed(&change, done.as_ref()))?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Change {
    /// The disk that there is when it is done, or was.
    fn name(&self) -> &str {
        match self {
            Change::Create(options) => &options.name,
            Change::Resize { name, .. }
            | Change::Delete { name }
            | Change::Snapshot { name, .. } => name,
            Change::Clone { new, .. } => new,
        }
    }

    /// Asks a daemon for it.
    async fn ask(&self, client: &Client) -> Result<Option<DiskView>> {
        match self.clone() {
            Change::Create(options) => client.call(&CreateDisk(options)).await.map(Some),
            Change::Resize { name, size_bytes, may_shrink } => {
                client.call(&ResizeDisk { name, size_bytes, may_shrink }).await.map(Some)
            }
            Change::Delete { name } => client.call(&DeleteDisk { name }).await.map(|_| None),
            Change::Snapshot { name, snapshot } => {
                client.call(&SnapshotDisk { name, snapshot }).await.map(Some)
            }
            Change::Clone { name, new } => client.call(&CloneDisk { name, new }).await.map(Some),
        }
    }

    /// Does it.
    async fn make(&self, engine: &Engine) -> Result<Option<DiskView>> {
        match self {
            Change::Create(options) => engine.create_disk(options.clone()).await.map(Some),
            Change::Resize { name, size_bytes, may_shrink } => {
                engine.resize_disk(name, *size_bytes, *may_shrink).await.map(Some)
            }
            Change::Delete { name } => engine.delete_disk(name).await.map(|()| None),
            Change::Snapshot { name, snapshot } => {
                engine.snapshot_disk(name, snapshot).await.map(Some)
            }
            Change::Clone { name, new } => engine.clone_disk(name, new).await.map(Some),
        }
    }
}

async fn list(volume: &VolumeArgs) -> Result<ExitCode> {
    let url: BucketUrl = volume.url.parse()?;
    let (disks, devices) = match Client::having(&url).await {
        Some((client, status)) => (client.call(&ListDisks {}).await?, status.block.devices),
        None => {
            let passing = Passing::open(&url, &volume.connect, true).await?;
            (passing.run(async |engine| engine.disks().await).await?, Vec::new())
        }
    };
    let listed = |disk: DiskView| {
        let of_it = devices.iter().filter(|device| device.name == disk.name);
        let devices = of_it.map(|device| device.device.clone()).collect();
        Listed { disk, devices }
    };
    let disks: Vec<_> = disks.into_iter().map(listed).collect();
    match volume.json {
        true => render::say_json(&disks)?,
        false => render::say(&describe::list(&disks, &url))?,
    }
    Ok(ExitCode::SUCCESS)
}
