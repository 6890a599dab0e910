//! `weir attach` and `weir detach`: disks as block devices of this machine.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use weir_door_block::attach::{AttachOptions, Attached};
use weir_engine::BucketUrl;
use weir_types::{ErrorKind, FsError, Result};

use crate::api::{Attach, Detach, ListDevices, ListDisks};
use crate::cli::{AttachArgs, DetachArgs};
use crate::client::{Client, Heard};
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
    let question = async |client: &Client| client.ask(&ListDevices {}).await;
    let heard = Heard::from(Client::all(), question).await;
    let mut found = Vec::new();
    for (client, devices) in &heard.answers {
        let those = |device: &&Attached| device.device == wanted || device.name == args.device;
        found.extend(devices.iter().filter(those).map(|device| (client, device)));
    }
    let (client, device) = match &found[..] {
        [one] => one,
        [] => {
            let text = format!(
                "{}: no daemon here has attached that: see `weir status` for what is{}",
                args.device,
                heard.unheard()
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
    // It may have attached one of that name, too.
    heard.warn();
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
    let question = async |client: &Client| client.ask(&ListDisks {}).await;
    let heard = Heard::from(Client::all(), question).await;
    let having = heard.answers.iter().filter(|(_, disks)| disks.iter().any(|d| d.name == name));
    match &having.collect::<Vec<_>>()[..] {
        [(one, _)] => {
            // It may have a disk of that name, too.
            heard.warn();
            Ok(one.clone())
        }
        [] => {
            let text = format!(
                "no volume that is served or mounted here has a disk `{name}`: `weir serve` its \
                 volume first; `weir disk list URL` lists disks{}",
                heard.unheard()
            );
            Err(FsError::new(ErrorKind::NotFound, text))
        }
        several => {
            let mut volumes = Vec::new();
            for (client, _) in several {
                volumes.push(client.status().await?.engine.volume);
            }
            let text =
                format!("{} have a disk `{name}`: choose one with --volume", volumes.join(" and "));
            Err(FsError::new(ErrorKind::Invalid, text))
        }
    }
}
