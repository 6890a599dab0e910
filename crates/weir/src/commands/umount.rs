//! `weir umount` and `weir stop`: end a daemon, and wait until everything is in the bucket.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use weir_engine::BucketUrl;
use weir_types::{ErrorKind, FsError, Result};

use crate::api::Unmount;
use crate::cli::{StopArgs, UmountArgs};
use crate::client::Client;
use crate::progress::{Waited, left, or_ctrl_c};
use crate::{paths, render};

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long a daemon that has flushed all may take to be gone.
const GONE_MAX: Duration = Duration::from_secs(30);

pub(crate) async fn run(args: UmountArgs) -> Result<ExitCode> {
    let mountpoint = paths::real(&args.dir)?;
    let Some(client) = Client::of(&mountpoint) else {
        return without_daemon(&mountpoint, args.lazy || args.force);
    };
    if args.lazy {
        client.call(&Unmount { lazy: true, force: false }).await?;
        return Ok(ExitCode::SUCCESS);
    }
    match client.status().await {
        // It hangs, which is what force is for.
        Err(_) if args.force => without_daemon(&mountpoint, true),
        _ => end(&client, args.force).await,
    }
}

pub(crate) async fn stop(args: StopArgs) -> Result<ExitCode> {
    let url: BucketUrl = args.url.parse()?;
    if let Some(client) = Client::of(&paths::of_volume(&url)) {
        return end(&client, false).await;
    }
    let mounted = Client::having(&url).await.and_then(|(_, status)| status.mountpoint);
    let text = match mounted {
        Some(dir) => format!("{url} is mounted: `weir umount {}` ends that", dir.display()),
        None => format!("{url} is not served here: see `weir status` for what is"),
    };
    Err(FsError::new(ErrorKind::NotFound, text))
}

/// Ends a daemon; returns when its process is gone. Ctrl-C leaves it to that.
async fn end(client: &Client, force: bool) -> Result<ExitCode> {
    let pid = client.status().await?.pid;
    let unmount = Unmount { lazy: false, force };
    let ending = async {
        let unmounting = client.call(&unmount);
        tokio::select! {
            done = unmounting => done.map(drop)?,
            never = super::flush::show_what_is_left(client) => never,
        }
        ended(pid).await
    };
    match or_ctrl_c(ending).await? {
        Waited::Ended(()) => Ok(ExitCode::SUCCESS),
        Waited::Left => Ok(left(&format!(
            "nothing is lost: what was begun goes on in the daemon (process {pid}); `weir status` \
             and its log tell how far it is"
        ))),
    }
}

/// Returns when the process is gone.
pub(super) async fn gone(pid: u32) {
    while runs(pid) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Returns when a process is gone that said that it ends.
async fn ended(pid: u32) -> Result<()> {
    tokio::time::timeout(GONE_MAX, gone(pid)).await.map_err(|_| {
        let text = format!(
            "all is flushed, but the daemon's process {pid} did not end within {} s: it waits for a \
             disk or a device (`cat /proc/{pid}/stack`); it can be killed",
            GONE_MAX.as_secs()
        );
        FsError::new(ErrorKind::Retry, text)
    })
}

/// Whether the process is there, and not a zombie that nobody has buried.
pub(super) fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with(['Z', 'X']));
    state == Some(false)
}

/// Cleans up after a daemon that died, or unmounts past one that cannot be asked.
fn without_daemon(mountpoint: &Path, lazy: bool) -> Result<ExitCode> {
    let dead = weir_door_fuse::dead_mount(mountpoint).is_some();
    weir_door_fuse::unmount(mountpoint, lazy || dead)?;
    let shown = mountpoint.display();
    if !dead {
        let text = format!(
            "{shown}: unmounted, but its daemon cannot be asked (another user's?) and may still be \
             flushing"
        );
        return Err(FsError::new(ErrorKind::Retry, text));
    }
    render::say(&format!(
        "{shown}: its daemon was gone; the dead mount is cleared away. What it had not flushed is \
         in its tier: mount again with the same --tier to go on.\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}
