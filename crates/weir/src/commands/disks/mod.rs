//! `weir disk`: makes, lists, resizes, copies and deletes disks.
//!
//! Where a daemon of this machine has the volume it does the work. Else the volume is opened for the
//! moment, but never one whose last writer did not end cleanly: what that one had not flushed waits
//! in its tier, and would be set aside for good.

mod change;
mod describe;

use std::process::ExitCode;

use serde_json::json;
use weir_engine::{BucketUrl, DiskOptions, DiskView};
use weir_types::Result;

use crate::api::ListDisks;
use crate::cli::{DiskCommand, VolumeArgs};
use crate::client::Client;
use crate::commands::temporary_mount::TemporaryMount;
use crate::render;
use change::Change;
use describe::Listed;

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
            let mount = TemporaryMount::open(&url, &volume.connect, false).await?;
            mount.run(async |engine| change.make(engine).await).await?
        }
    };
    match (volume.json, &done) {
        (true, Some(disk)) => render::say_json(disk)?,
        (true, None) => render::say_json(&json!({ "deleted": change.name() }))?,
        (false, _) => render::say(&describe::changed(&change, done.as_ref()))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(volume: &VolumeArgs) -> Result<ExitCode> {
    let url: BucketUrl = volume.url.parse()?;
    let (disks, devices) = match Client::having(&url).await {
        Some((client, status)) => (client.call(&ListDisks {}).await?, status.block.devices),
        None => {
            let mount = TemporaryMount::open(&url, &volume.connect, true).await?;
            (mount.run(async |engine| engine.disks().await).await?, Vec::new())
        }
    };
    let listed = |disk: DiskView| {
        let of_it = devices.iter().filter(|device| device.name == disk.name);
        let devices = of_it.map(|device| device.device.clone()).collect();
        Listed { disk, devices }
    };
    let disks: Vec<_> = disks.into_iter().map(listed).collect();
    match volume.json {
        true => render::say_json_rows(&disks)?,
        false => render::say(&describe::list(&disks, &url))?,
    }
    Ok(ExitCode::SUCCESS)
}
