//! `weir quota`: limits of directories, users and groups.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use weir_engine::{QuotaChange, QuotaSubject, QuotaView};
use weir_types::{Bytes, ErrorKind, FsError, Result};

use crate::api::{GetQuotas, ListQuotas, QuotaTarget, RemoveQuota, SetQuota};
use crate::cli::{QuotaCommand, QuotaGetArgs, QuotaOfArgs, QuotaSetArgs};
use crate::client::Client;
use crate::progress::{self, Progress, Unit, Waited};
use crate::render;
use crate::targets::{self, Finder};

/// How often it is asked how far the counting is.
const ASK: Duration = Duration::from_millis(200);

pub(crate) async fn run(command: QuotaCommand) -> Result<ExitCode> {
    match command {
        QuotaCommand::Set(args) => set(args).await,
        QuotaCommand::Get(args) => get(args).await,
        QuotaCommand::List { place, json } => {
            say(&Client::at(&place)?.call(&ListQuotas {}).await?, json)?;
            Ok(ExitCode::SUCCESS)
        }
        QuotaCommand::Remove { of, json } => {
            let (client, target) = whose(&of)?;
            let quota = client.call(&RemoveQuota { target }).await?;
            match json {
                true => render::say_json(&quota)?,
                false => render::say(&format!("{} has no quota any more\n", name(&quota)))?,
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn set(args: QuotaSetArgs) -> Result<ExitCode> {
    let (client, target) = whose(&args.of)?;
    let change = QuotaChange { bytes_max: args.bytes.map(|max| max.0), files_max: args.files };
    let mut quota = client.call(&SetQuota { target, change }).await?;
    if quota.counting.is_some() && !args.no_wait {
        match progress::or_ctrl_c(counted(&client, quota.subject)).await? {
            Waited::Ended(now) => quota = now,
            Waited::Left => {
                return Ok(progress::left("the counting goes on: `weir quota list` shows how far"));
            }
        }
    }
    match args.json {
        true => render::say_json(&quota)?,
        false => render::say(&describe(std::slice::from_ref(&quota)))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The quota, once all that is there counts.
async fn counted(client: &Client, subject: QuotaSubject) -> Result<QuotaView> {
    let mut progress = Progress::new(Unit::Objects);
    loop {
        let all = client.call(&ListQuotas {}).await?;
        let Some(quota) = all.into_iter().find(|quota| quota.subject == subject) else {
            let text = "the quota was removed meanwhile";
            return Err(FsError::new(ErrorKind::Conflict, text));
        };
        let Some(done) = quota.counting else { return Ok(quota) };
        progress.show(done, None, &format!("{} counted", render::files(done)));
        tokio::time::sleep(ASK).await;
    }
}

async fn get(args: QuotaGetArgs) -> Result<ExitCode> {
    let (client, path) = match args.path {
        Some(path) => (Client::at(&args.place)?, path),
        None => located(&args.place)?,
    };
    say(&client.call(&GetQuotas { path }).await?, args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Whom to ask about whose quota.
fn whose(args: &QuotaOfArgs) -> Result<(Client, QuotaTarget)> {
    if let Some(user) = &args.user {
        let uid = number("passwd", "user", user)?;
        return Ok((Client::at(&args.place)?, QuotaTarget::User(uid)));
    }
    if let Some(group) = &args.group {
        let gid = number("group", "group", group)?;
        return Ok((Client::at(&args.place)?, QuotaTarget::Group(gid)));
    }
    let (client, path) = match &args.path {
        Some(path) => (Client::at(&args.place)?, path.clone()),
        None => located(&args.place)?,
    };
    Ok((client, QuotaTarget::Directory(path)))
}

/// The mount in which a path lies, and the path below its root.
pub(super) fn located(path: &Path) -> Result<(Client, String)> {
    let mut finder = Finder::default();
    let (mount, target) = finder.locate(path)?;
    let mount = finder.mounts.swap_remove(mount);
    let inner = targets::below(&mount.mountpoint, &target.real);
    Ok((mount.client, inner))
}

/// The number of a user or group, as this machine knows it.
fn number(database: &str, what: &str, named: &str) -> Result<u32> {
    if let Ok(number) = named.parse() {
        return Ok(number);
    }
    let unknown = || {
        let text = format!("{what} `{named}` is not known on this machine: give its number");
        FsError::new(ErrorKind::NotFound, text)
    };
    let found = Command::new("getent").args([database, "--", named]).output();
    let found = found.map_err(|_| unknown())?;
    let line = String::from_utf8_lossy(&found.stdout).into_owned();
    line.split(':').nth(2).and_then(|number| number.parse().ok()).ok_or_else(unknown)
}

fn say(quotas: &[QuotaView], json: bool) -> Result<()> {
    match json {
        true => render::say_json_rows(quotas),
        false => render::say(&describe(quotas)),
    }
}

fn name(quota: &QuotaView) -> String {
    match (quota.subject, &quota.path) {
        (QuotaSubject::Directory(_), Some(path)) => path.clone(),
        (QuotaSubject::Directory(ino), None) => format!("inode {ino}, which is removed"),
        (QuotaSubject::User(uid), _) => format!("user {uid}"),
        (QuotaSubject::Group(gid), _) => format!("group {gid}"),
    }
}

fn describe(quotas: &[QuotaView]) -> String {
    if quotas.is_empty() {
        return "There is no quota.\n".to_owned();
    }
    let head = ["quota of", "bytes", "of", "", "files", "of", "", ""];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for quota in quotas {
        let percent = |used: u64, max: Option<u64>| match max {
            Some(max) => format!("{:.0}%", 100.0 * used as f64 / max.max(1) as f64),
            None => String::new(),
        };
        let beside = match (quota.removed, quota.counting) {
            (true, _) => "removed, goes soon".to_owned(),
            (_, Some(done)) => format!("{} counted so far", render::files(done)),
            _ => String::new(),
        };
        let none = || "no limit".to_owned();
        rows.push(vec![
            name(quota),
            Bytes(quota.bytes_used).to_string(),
            quota.bytes_max.map_or_else(none, |max| Bytes(max).to_string()),
            percent(quota.bytes_used, quota.bytes_max),
            quota.files_used.to_string(),
            quota.files_max.map_or_else(none, |max| max.to_string()),
            percent(quota.files_used, quota.files_max),
            beside,
        ]);
    }
    render::table(&rows, 1)
}
