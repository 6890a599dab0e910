//! `weir upgrade`: another binary in the place of a mount's, while programs use it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use weir_types::{ErrorKind, FsError, Result};

use crate::api::{GetUpgrade, Upgrade, Upgraded};
use crate::cli::UpgradeArgs;
use crate::client::Client;
use crate::commands::umount::runs;
use crate::daemon::{self, Answer, HANDOVER_VERSIONS, Question, Work};
use crate::{cli, failpoints, render};

const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) async fn run(args: UpgradeArgs) -> Result<ExitCode> {
    let client = Client::at(&args.dir)?;
    let pid = client.status().await?.pid;
    let binary = match &args.binary {
        Some(path) => {
            let at = |e| FsError::local_io(path.display(), e);
            std::fs::canonicalize(path).map_err(at)?
        }
        None => this_program()?,
    };
    let id = format!("{:032x}", rand::random::<u128>());
    // Where it is answered at all it was refused.
    client.call_or_gone(&Upgrade { binary, id: id.clone() }).await?;
    let Upgraded { from, to, waited_ms, failed, .. } = outcome(&client, pid, &id).await?;
    let (shown, seconds) = (args.dir.display(), waited_ms as f64 / 1e3);
    match failed {
        None => render::say(&format!(
            "{shown}: {to} goes on in the place of {from}; programs waited {seconds:.2} s\n"
        ))
        .map(|()| ExitCode::SUCCESS),
        Some(why) => {
            let text = format!(
                "{shown}: the new binary could not take over, and {to} goes on: {why}. Nothing is \
                 lost; programs waited {seconds:.2} s"
            );
            Err(FsError::new(ErrorKind::Retry, text))
        }
    }
}

/// How it came out, from whoever goes on.
async fn outcome(client: &Client, pid: u32, id: &str) -> Result<Upgraded> {
    while runs(pid) {
        let told = client.call_or_gone(&GetUpgrade {}).await.ok().flatten();
        if let Some(upgraded) = told.and_then(|told| told.last).filter(|last| last.id == id) {
            return Ok(upgraded);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let text = "the daemon died while it was upgraded; see its log. What it had acknowledged is in \
                its tier: `weir umount`, then mount again with the same --tier";
    Err(FsError::new(ErrorKind::Bug, text))
}

/// The program that runs this command, which a package may have replaced since.
fn this_program() -> Result<PathBuf> {
    let path = std::env::current_exe().map_err(|e| FsError::local_io("find this program", e))?;
    match path.exists() {
        true => Ok(path),
        false => {
            let text = "this program was replaced just now: call it again, or name one by --binary";
            Err(FsError::new(ErrorKind::NotFound, text))
        }
    }
}

/// Says whether this binary would go on with a mount that was called as standard input says.
pub(crate) fn can_take_over() -> Result<ExitCode> {
    let asked: Question = serde_json::from_reader(std::io::stdin().lock()).map_err(|error| {
        let text = "can-take-over: it is asked by `weir upgrade` only";
        FsError::new(ErrorKind::Invalid, text).with_source(error)
    })?;
    let mut handover = HANDOVER_VERSIONS.to_vec();
    if failpoints::plays("weir-of-another-version") {
        handover = vec![0];
    }
    let answer = Answer { handover, version: env!("CARGO_PKG_VERSION").to_owned() };
    let text = serde_json::to_string(&answer)
        .map_err(|e| FsError::new(ErrorKind::Bug, "write an answer").with_source(e))?;
    render::say(&(text + "\n"))?;
    let mount = cli::mount_of(&asked.argv)
        .map_err(|error| FsError::new(ErrorKind::Invalid, format!("this command line: {error}")))?;
    daemon::could_go_on(Work::Mount(mount), &asked)?;
    Ok(ExitCode::SUCCESS)
}
