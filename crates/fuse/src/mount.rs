//! Mounting: as root by the system call, else by fusermount3.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::{Errno, FdFlags};
use rustix::mount::MountFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};

/// How to mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// What `mount(8)` and `df` show as the device.
    pub source: String,
    /// The file system type is `fuse.` and this.
    pub subtype: String,
    /// Words that the kernel knows as flags: `ro`, `nodev`, `nosuid`, `noexec`, `noatime`, `sync`,
    /// `dirsync`.
    pub flags: Vec<String>,
    /// Words that FUSE knows: `default_permissions`, `allow_other`, `max_read=…`, `context=…`.
    pub words: Vec<String>,
}

/// Mounts on a directory, and answers the descriptor that requests come from.
///
/// # Errors
/// The kernel's, or what fusermount3 says.
pub fn mount(mountpoint: &Path, options: &MountOptions) -> io::Result<OwnedFd> {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
    let (flags, data) = arguments(mountpoint, options, &device)?;
    let source = options.source.as_str();
    match rustix::mount::mount(source, mountpoint, c"fuse", flags, Some(data.as_c_str())) {
        Ok(()) => Ok(device.into()),
        Err(Errno::PERM) => mount_with_helper(mountpoint, options),
        Err(error) => Err(error.into()),
    }
}

fn arguments(
    mountpoint: &Path,
    options: &MountOptions,
    device: &File,
) -> io::Result<(MountFlags, CString)> {
    let mode = mountpoint.metadata()?.permissions().mode();
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let device = device.as_raw_fd();
    let mut data = format!("fd={device},rootmode={mode:o},user_id={user},group_id={group}");
    data += &format!(",subtype={}", options.subtype);
    for word in &options.words {
        data = data + "," + word;
    }
    let flags = options.flags.iter().map(|word| flag(word)).collect::<io::Result<MountFlags>>()?;
    Ok((flags, CString::new(data).map_err(io::Error::other)?))
}

fn flag(word: &str) -> io::Result<MountFlags> {
    Ok(match word {
        "ro" => MountFlags::RDONLY,
        "nodev" => MountFlags::NODEV,
        "nosuid" => MountFlags::NOSUID,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "sync" => MountFlags::SYNCHRONOUS,
        "dirsync" => MountFlags::DIRSYNC,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no flag: {word}"))),
    })
}

fn helper_options(options: &MountOptions) -> String {
    let source = options.source.replace('\\', "\\\\").replace(',', "\\,");
    let named = [format!("fsname={source}"), format!("subtype={}", options.subtype)];
    let all: Vec<_> = named.iter().chain(&options.flags).chain(&options.words).cloned().collect();
    all.join(",")
}

/// fusermount3, which is root, mounts and hands the descriptor over.
fn mount_with_helper(mountpoint: &Path, options: &MountOptions) -> io::Result<OwnedFd> {
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::io::fcntl_setfd(&theirs, FdFlags::empty())?;
    let mut helper = Command::new("fusermount3");
    helper.args(["-o", &helper_options(options), "--"]).arg(mountpoint);
    helper.env("_FUSE_COMMFD", theirs.as_raw_fd().to_string());
    let output = helper.stdin(Stdio::null()).output();
    drop(theirs);
    let output = output?;
    let said = String::from_utf8_lossy(&output.stderr);
    let refused = || io::Error::new(io::ErrorKind::PermissionDenied, said.trim().to_owned());
    if !output.status.success() {
        return Err(refused());
    }
    let device = receive(&ours)?.ok_or_else(refused)?;
    rustix::io::fcntl_setfd(&device, FdFlags::CLOEXEC)?;
    Ok(device)
}

fn receive(socket: impl AsFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::empty())?;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(descriptors.flatten().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_flags_or_words_of_the_kernel() {
        let options = MountOptions {
            source: "s3://b/v,w".to_owned(),
            subtype: "weir".to_owned(),
            flags: vec!["ro".to_owned(), "nosuid".to_owned()],
            words: vec!["default_permissions".to_owned(), "allow_other".to_owned()],
        };
        let device = File::open("/dev/null").expect("a device");
        let (flags, data) = arguments(Path::new("/"), &options, &device).expect("arguments");
        let data = data.into_string().expect("text");
        assert_eq!(flags, MountFlags::RDONLY | MountFlags::NOSUID);
        assert!(data.starts_with(&format!("fd={},rootmode=4", device.as_raw_fd())), "{data}");
        assert!(data.ends_with(",subtype=weir,default_permissions,allow_other"), "{data}");
        let helper = "fsname=s3://b/v\\,w,subtype=weir,ro,nosuid,default_permissions,allow_other";
        assert_eq!(helper_options(&options), helper);
        assert!(flag("fast").is_err());
    }
}
