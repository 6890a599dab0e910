//! What the kernel does not keep of a mount and mount(8) does, in a table of its own
//! (/run/mount/utab).
//!
//! Of a mount that is not noted there umount(8) hears the type `fuse`, and so never comes to our
//! helper, `umount.fuse.weir`; and systemd takes every FUSE mount for a local one, which may go after
//! the network has gone: `_netdev` tells it otherwise. `uhelper` is for users who are not root.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::mountpoint::{FS_TYPE, mounted_on};

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
    match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => tracing::debug!(
            said = %String::from_utf8_lossy(&output.stderr).trim(),
            "the table of mount(8) was not changed"
        ),
        Err(error) => tracing::debug!(%error, "the table of mount(8) was not changed"),
    }
}
