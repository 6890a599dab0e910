//! What the kernel does not keep of a mount and mount(8) does, in a table of its own
//! (/run/mount/utab).
//!
//! Of a mount that is not noted there umount(8) hears the type `fuse`, and so never comes to our
//! helper, `umount.fuse.weir`; and systemd takes every FUSE mount for a local one, which may go after
//! the network has gone: `_netdev` tells it otherwise. `uhelper` is for users who are not root.

use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::mountpoint::{FS_TYPE, mounted_on};

/// How long a command may take: it waits for others who change the table.
const RUN_MAX: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Notes a mount that was just made. Only root can; and where there is no mount(8), nobody asks.
pub(crate) fn note(source: &str, mountpoint: &Path) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let network = if source.starts_with("file:") { "" } else { ",_netdev" };
    let mut mount = Command::new("mount");
    mount.args(["-i", "--fake", "-t", FS_TYPE, "-o"]).arg(format!("uhelper=weir{network}"));
    run(mount.arg("--").arg(source).arg(mountpoint));
}

/// Takes the note away once nothing of ours is mounted there.
pub(crate) fn forget(mountpoint: &Path) {
    let ours = mounted_on(mountpoint).is_ok_and(|on| on.is_some_and(|on| on.fs_type == FS_TYPE));
    if !ours && rustix::process::geteuid().is_root() {
        run(Command::new("umount").args(["-i", "--fake", "--"]).arg(mountpoint));
    }
}

fn run(command: &mut Command) {
    match run_for(command, RUN_MAX) {
        Ok(Some(status)) if status.success() => {}
        Ok(status) => tracing::debug!(?status, "the table of mount(8) was not changed"),
        Err(error) => tracing::debug!(%error, "the table of mount(8) was not changed"),
    }
}

/// Runs a command that says nothing; `None` if it was killed because it took longer.
fn run_for(command: &mut Command, limit: Duration) -> io::Result<Option<ExitStatus>> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
    child.kill()?;
    child.wait().map(|_| None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_hangs_is_waited_for_no_longer_than_its_limit() {
        let long = Duration::from_secs(60);
        assert!(run_for(&mut Command::new("true"), long).unwrap().unwrap().success());
        let short = Duration::from_millis(30);
        assert_eq!(run_for(Command::new("sleep").arg("600"), short).unwrap(), None);
    }
}
