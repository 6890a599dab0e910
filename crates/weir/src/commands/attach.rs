//! `weir attach` and `weir detach`: disks as block devices of this machine.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use weir_door_block::attach::{AttachOptions, Attached};
use weir_engine::BucketUrl;
use weir_types::{ErrorKind, FsError, Result};

use crate::api::{Attach, Detach, ListDevices, ListDisks};
use crate::cli::{AttachArgs, DetachArgs};
use crate::client::Client;
use crate::render;

pub(crate) async fn attach(args: AttachArgs) -> Result<ExitCode> {
    let options = AttachOptions {
        name: args.name.clone(),
        driver: args.driver.map(Into::into),
        device: args.device.as_deref().map(absolute).transpose()?,
        read_only: args.read_only,
    };
    let client = match &args.volume {
        Some(url) => daemon_of(&url.parse()?).await?,
        None => daemon_with(&args.name).await?,
    };
    say(&client.call(&Attach(options)).await?, args.json)
}

pub(crate) async fn detach(args: DetachArgs) -> Result<ExitCode> {
    let wanted = match args.device.starts_with('/') {
        true => std::fs::canonicalize(&args.device).ok(),
        false => None,
    };
    let wanted = wanted.unwrap_or_else(|| PathBuf::from(&args.device));
    let mut found = Vec::new();
    for client in Client::all() {
        for device in client.call(&ListDevices {}).await? {
            if device.device == wanted || device.name == args.device {
                found.push((client.clone(), device));
            }
        }
    }
    let (client, device) = match &found[..] {
        [one] => one,
        [] => {
            let text = format!(
                "{}: no daemon here has attached that: see `weir status` for what is",
                args.device
            );
            return Err(FsError::new(ErrorKind::NotFound, text));
        }
        several => {
            let devices: Vec<_> =
                several.iter().map(|(_, d)| d.device.display().to_string()).collect();
            let text =
                format!("{} is {}: name the one to detach", args.device, devices.join(" and "));
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
    };
    let device = device.device.to_string_lossy();
    say(&client.call(&Detach { device: device.into_owned() }).await?, args.json)
}

/// Of a detached device too its path is what people ask for.
fn say(device: &Attached, json: bool) -> Result<ExitCode> {
    match json {
        true => render::say_json(device)?,
        false => render::say(&format!("{}\n", device.device.display()))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|e| FsError::local_io(path.display(), e))
}

async fn daemon_of(url: &BucketUrl) -> Result<Client> {
    let found = Client::having(url).await;
    found.map(|(client, _)| client).ok_or_else(|| {
        let text = format!("{url} has no daemon here: `weir serve {url} --tier DIR` first");
        FsError::new(ErrorKind::NotFound, text)
    })
}

/// The only daemon of this machine that has such a disk.
async fn daemon_with(name: &str) -> Result<Client> {
    let mut having = Vec::new();
    for client in Client::all() {
        if client.call(&ListDisks {}).await?.iter().any(|disk| disk.name == name) {
            having.push(client);
        }
    }
    match &having[..] {
        [one] => Ok(one.clone()),
        [] => {
            let text = format!(
                "no volume that is served or mounted here has a disk `{name}`: `weir serve` its \
                 volume first; `weir disk list URL` lists disks"
            );
            Err(FsError::new(ErrorKind::NotFound, text))
        }
        several => {
            let mut volumes = Vec::new();
            for client in several {
                volumes.push(client.status().await?.engine.volume);
            }
            let text =
                format!("{} have a disk `{name}`: choose one with --volume", volumes.join(" and "));
            Err(FsError::new(ErrorKind::Invalid, text))
        }
    }
}
