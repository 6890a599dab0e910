//! `weir key`: what opens an encrypted volume.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;

use weir_engine::{ConnectOptions, Connector, KeyChange, Secret, change_keys, volume_keys};
use weir_kms::SealedKey;
use weir_types::{Encryption, ErrorKind, FsError, Result, UnixTime};
use zeroize::Zeroizing;

use crate::cli::{ConnectArgs, KeyAddArgs, KeyCommand, KeyListArgs, KeyRemoveArgs, KeyRotateArgs};
use crate::{buckets, clock, failpoints, render, secrets};

/// Somebody waits at the terminal, and the address may be wrong: no minute of attempts here.
const TIMEOUT_MS: u64 = 15_000;

pub(crate) async fn run(command: KeyCommand) -> Result<ExitCode> {
    match command {
        KeyCommand::New { file, kms, profile } => {
            new(&file, kms.as_deref(), profile.as_deref()).await?
        }
        KeyCommand::List(args) => list(args).await?,
        KeyCommand::Add(args) => add(args).await?,
        KeyCommand::Remove(args) => remove(args).await?,
        KeyCommand::Rotate(args) => rotate(args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn new(file: &Path, kms: Option<&str>, profile: Option<&str>) -> Result<()> {
    let (text, said) = match kms {
        None => (Secret::new_key_file()?, "and only you can read it".to_owned()),
        Some(key_id) => {
            // Before anything is asked for: what is there stays.
            if file.symlink_metadata().is_ok() {
                let text = format!("{}: there is such a file already", file.display());
                return Err(FsError::new(ErrorKind::Exists, text));
            }
            let sealed = SealedKey::new(key_id, profile).await?;
            let said = format!("which is opened by who may use the KMS key {}", sealed.arn());
            (Zeroizing::new(sealed.to_text()), said)
        }
    };
    let write = || {
        let mut made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
        made.write_all(text.as_bytes())?;
        made.sync_all()
    };
    let name = file.display();
    write().map_err(|e| FsError::local_io(format!("make the key file {name}"), e))?;
    render::say(&format!(
        "{name} has a new key, {said}. Keep a copy elsewhere: what is sealed by it is lost without it.\n"
    ))
}

fn connector(connect: &ConnectArgs) -> Result<Connector> {
    let options = ConnectOptions { timeout_ms: TIMEOUT_MS, ..buckets::connect_options(connect) };
    buckets::volume_connector(connect, options)
}

async fn list(args: KeyListArgs) -> Result<()> {
    // Names need no key, and one that the environment names may be another volume's.
    let options =
        ConnectOptions { timeout_ms: TIMEOUT_MS, ..buckets::connect_options(&args.connect) };
    let encryption = volume_keys(&args.url.parse()?, &buckets::connector(options)?).await?;
    say(&encryption, args.json, "")
}

async fn add(args: KeyAddArgs) -> Result<()> {
    // In the order in which they are asked for.
    secrets::ask_first(&args.connect)?;
    let new = secrets::of_new_file(&args.new_key_file, args.connect.profile.as_deref())?;
    let change = KeyChange::Add(args.name.clone(), new);
    say(&changed(&args.url, &args.connect, change).await?, args.json, "")
}

async fn remove(args: KeyRemoveArgs) -> Result<()> {
    let encryption =
        changed(&args.url, &args.connect, KeyChange::Remove(args.name.clone())).await?;
    let note = "Who has that key and a copy of volume.json of before can still open it: `weir key rotate` hides what is \
                written from then on.\n";
    say(&encryption, args.json, note)
}

async fn rotate(args: KeyRotateArgs) -> Result<()> {
    let profile = args.connect.profile.as_deref();
    let stays = args.stays.iter().map(|file| secrets::of_file(file, profile));
    let stays = stays.collect::<Result<Vec<_>>>()?;
    let (stay, drop_others, metadata_url) = (stays, args.drop_others, args.meta);
    let change = KeyChange::Rotate { stay, drop_others, metadata_url };
    let encryption = changed(&args.url, &args.connect, change).await?;
    let note = "The new key seals what mounts write that begin from now on; all that was written stays readable.\n";
    say(&encryption, args.json, note)
}

async fn changed(url: &str, connect: &ConnectArgs, change: KeyChange) -> Result<Encryption> {
    failpoints::arm()?;
    change_keys(&url.parse()?, &connector(connect)?, change, clock::now()).await
}

fn say(encryption: &Encryption, json: bool, note: &str) -> Result<()> {
    match json {
        true => render::say_json(encryption),
        false => render::say(&(described(encryption) + note)),
    }
}

fn described(encryption: &Encryption) -> String {
    let head = ["NAME", "KIND", "SINCE"].map(render::heading).to_vec();
    let rows = encryption.wraps.iter().map(|wrap| {
        let since = UnixTime(wrap.created_unix_s.saturating_mul(1_000_000_000));
        vec![wrap.name.clone(), wrap.derivation.kind().to_owned(), day(since)]
    });
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    let before = match encryption.older.len() {
        0 => String::new(),
        1 => "One key of before opens what was written under it.\n".to_owned(),
        more => format!("{more} keys of before open what was written under them.\n"),
    };
    render::table(&rows, 3) + &before
}

fn day(at: UnixTime) -> String {
    weir_engine::moment_name(at.0 / 1_000_000).chars().take(10).collect()
}
