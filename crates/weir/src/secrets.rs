//! What opens an encrypted volume, as it is named on the command line or in the environment.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use weir_engine::Secret;
use weir_kms::SealedKey;
use weir_types::{ErrorKind, FsError, Result};
use zeroize::Zeroizing;

use crate::cli::{ConnectArgs, KeyArgs};
use crate::passphrase::{ask, is_asked_for};

const FILE_VARIABLE: &str = "WEIR_KEY_FILE";
const COMMAND_VARIABLE: &str = "WEIR_KEY_COMMAND";
pub(crate) const PASSPHRASE_VARIABLE: &str = "WEIR_PASSPHRASE";
/// More than a key or passphrase takes: it is another file.
const MOST_BYTES: u64 = 4096;

/// What was typed at the terminal.
static ASKED: OnceLock<Zeroizing<String>> = OnceLock::new();

/// Whether the flags say that the passphrase is to be asked for.
fn asks(args: &ConnectArgs) -> bool {
    args.key.key_file.as_deref().is_some_and(is_asked_for)
}

fn asked(new: bool) -> Result<&'static Zeroizing<String>> {
    if let Some(words) = ASKED.get() {
        return Ok(words);
    }
    let words = ask(if new { "New passphrase" } else { "Passphrase" }, new)?;
    Ok(ASKED.get_or_init(|| words))
}

/// Asks for the passphrase that opens a volume, where the flags say that it is asked for, before anything else is.
pub(crate) fn ask_first(args: &ConnectArgs) -> Result<()> {
    for_daemon(args).map(drop)
}

/// Asks for the passphrase that a volume is to have, where the flags say that it is asked for.
pub(crate) fn ask_for_new(args: &ConnectArgs) -> Result<()> {
    if asks(args) && std::env::var_os(PASSPHRASE_VARIABLE).is_none() {
        asked(true)?;
    }
    Ok(())
}

/// What the daemon is to be told in its environment, because it cannot ask: the passphrase, where the flags say that it is
/// asked for.
pub(crate) fn for_daemon(args: &ConnectArgs) -> Result<Option<&'static str>> {
    if !asks(args) || std::env::var_os(PASSPHRASE_VARIABLE).is_some() {
        return Ok(None);
    }
    let words = asked(false)?;
    // As in a file: one line.
    Ok(Some(words.strip_suffix('\n').unwrap_or(words)))
}

/// What the flags name, else what the environment does; `None` if neither names anything.
pub(crate) fn secret(args: &ConnectArgs) -> Result<Option<Secret>> {
    let (KeyArgs { key_file, key_command }, profile) = (&args.key, args.profile.as_deref());
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if asks(args) {
        // Who was asked once is not asked again, nor is the daemon, which has no terminal.
        return match (ASKED.get(), set(PASSPHRASE_VARIABLE)) {
            (Some(words), _) => parsed(words.as_bytes(), "what was typed", profile).map(Some),
            (None, Some(words)) => {
                parsed(words.as_encoded_bytes(), PASSPHRASE_VARIABLE, profile).map(Some)
            }
            (None, None) => parsed(asked(false)?.as_bytes(), "what was typed", profile).map(Some),
        };
    }
    if let Some(path) = key_file {
        return of_file(path, profile).map(Some);
    }
    if let Some(command) = key_command {
        return of_command(command, profile).map(Some);
    }
    if let Some(path) = set(FILE_VARIABLE) {
        return of_file(&PathBuf::from(path), profile).map(Some);
    }
    if let Some(command) = set(COMMAND_VARIABLE) {
        return of_command(&command.to_string_lossy(), profile).map(Some);
    }
    let Some(words) = set(PASSPHRASE_VARIABLE) else { return Ok(None) };
    parsed(words.as_encoded_bytes(), PASSPHRASE_VARIABLE, profile).map(Some)
}

/// What a file holds; the profile is that by which AWS KMS is asked, where it holds what only that opens.
pub(crate) fn of_file(path: &Path, profile: Option<&str>) -> Result<Secret> {
    if is_asked_for(path) {
        return parsed(ask("Passphrase", false)?.as_bytes(), "what was typed", profile);
    }
    let name = path.display().to_string();
    let read = || {
        let file = File::open(path)?;
        let mode = file.metadata()?.permissions().mode();
        // Room for all: no copy stays behind where the memory grows.
        let mut text = Zeroizing::new(Vec::with_capacity(MOST_BYTES as usize + 32));
        file.take(MOST_BYTES + 1).read_to_end(&mut text)?;
        Ok((text, mode))
    };
    let (text, mode) =
        read().map_err(|e| FsError::local_io(format!("read the key file {name}"), e))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(FsError::new(
            ErrorKind::Invalid,
            format!("{name} is no key file: it is too large"),
        ));
    }
    let secret = parsed(&text, &name, profile)?;
    if mode & 0o077 != 0 && SealedKey::parse(&text).is_none() {
        tracing::warn!(file = name, "others may read this key file: `chmod 600` it");
    }
    Ok(secret)
}

/// The same of one that a volume is to have.
pub(crate) fn of_new_file(path: &Path, profile: Option<&str>) -> Result<Secret> {
    match is_asked_for(path) {
        true => parsed(ask("New passphrase", true)?.as_bytes(), "what was typed", profile),
        false => of_file(path, profile),
    }
}

fn of_command(command: &str, profile: Option<&str>) -> Result<Secret> {
    let run = Command::new("sh")
        .arg("-c")
        .arg(command)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    let run = run.map_err(|e| FsError::local_io("run the command that says the key", e))?;
    if !run.status.success() {
        let text = format!("the command that says the key failed ({}): {command}", run.status);
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    parsed(&Zeroizing::new(run.stdout), "what the command that says the key printed", profile)
}

fn parsed(text: &[u8], what: &str, profile: Option<&str>) -> Result<Secret> {
    let secret = match SealedKey::parse(text) {
        Some(sealed) => {
            sealed.and_then(|sealed| wait_for(sealed.open(profile))).map(Secret::of_key)
        }
        None => Secret::parse(text),
    };
    secret.map_err(|error| error.within(what))
}

/// Waits for a request as for the command that says a key, wherever the caller runs.
pub(crate) fn wait_for<T: Send>(asked: impl Future<Output = Result<T>> + Send) -> Result<T> {
    let wait = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| FsError::local_io("make a runtime", e))?;
        runtime.block_on(asked)
    };
    let done = std::thread::scope(|scope| scope.spawn(wait).join());
    done.unwrap_or_else(|_| Err(FsError::new(ErrorKind::Bug, "the request for a key panicked")))
}
