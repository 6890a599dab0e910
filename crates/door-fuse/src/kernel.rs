//! The mount itself, as root makes it.
//!
//! fuser would do it, too, but it unmounts at the end of a session whatever is on the mount point by
//! then (0.18 takes a mount that is gone for one that is there): what was mounted below, or anew.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fuser::{Config, MountOption, SessionACL};
use rustix::io::Errno;
use rustix::mount::MountFlags;

/// Mounts on this directory and answers the descriptor that requests come from. `None`: this user
/// may not, and needs fusermount3.
pub(crate) fn mount(mountpoint: &Path, config: &Config) -> io::Result<Option<OwnedFd>> {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
    let (source, flags, data) = arguments(mountpoint, config, &device)?;
    match rustix::mount::mount(source, mountpoint, c"fuse", flags, Some(data.as_c_str())) {
        Ok(()) => Ok(Some(device.into())),
        Err(Errno::PERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn arguments(
    mountpoint: &Path,
    config: &Config,
    device: &File,
) -> io::Result<(String, MountFlags, CString)> {
    let mode = mountpoint.metadata()?.permissions().mode();
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let device = device.as_raw_fd();
    let mut data = format!("fd={device},rootmode={mode:o},user_id={user},group_id={group}");
    let mut source = String::new();
    let mut flags = MountFlags::empty();
    for option in &config.mount_options {
        match option {
            MountOption::FSName(name) => source.clone_from(name),
            MountOption::CUSTOM(text) => data = data + "," + text,
            MountOption::DefaultPermissions => data += ",default_permissions",
            MountOption::NoDev => flags |= MountFlags::NODEV,
            MountOption::NoSuid => flags |= MountFlags::NOSUID,
            MountOption::NoExec => flags |= MountFlags::NOEXEC,
            MountOption::NoAtime => flags |= MountFlags::NOATIME,
            MountOption::RO => flags |= MountFlags::RDONLY,
            MountOption::Sync => flags |= MountFlags::SYNCHRONOUS,
            MountOption::DirSync => flags |= MountFlags::DIRSYNC,
            // The others are what a mount is without them.
            _ => {}
        }
    }
    if config.acl == SessionACL::All {
        data += ",allow_other";
    }
    let data = CString::new(data).map_err(io::Error::other)?;
    Ok((source, flags, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_flags_or_words_of_the_kernel() {
        let mut config = Config::default();
        config.acl = SessionACL::All;
        config.mount_options = vec![
            MountOption::FSName("s3://b/v".to_owned()),
            MountOption::CUSTOM("subtype=weir".to_owned()),
            MountOption::DefaultPermissions,
            MountOption::RO,
            MountOption::Dev,
            MountOption::NoSuid,
        ];
        let device = File::open("/dev/null").expect("a device");
        let (source, flags, data) = arguments(Path::new("/"), &config, &device).expect("arguments");
        let data = data.into_string().expect("text");
        assert_eq!((source.as_str(), flags), ("s3://b/v", MountFlags::RDONLY | MountFlags::NOSUID));
        assert!(data.starts_with(&format!("fd={},rootmode=4", device.as_raw_fd())), "{data}");
        assert!(data.ends_with(",subtype=weir,default_permissions,allow_other"), "{data}");
    }
}
