//! Whether a directory can be a tier.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::statfs;
use weir_types::{ErrorKind, FsError, Result};

use crate::private;

/// File system types that forget at reboot or live on the network.
const UNFIT: [(u64, &str, &str); 7] = [
    (0x0102_1994, "tmpfs", "it is memory and forgets everything at a reboot"),
    (0x8584_58f6, "ramfs", "it is memory and forgets everything at a reboot"),
    (0x6969, "NFS", "it is on the network"),
    (0xff53_4d42, "CIFS", "it is on the network"),
    (0xfe53_4d42, "SMB", "it is on the network"),
    (0x6573_5546, "FUSE", "it is served by another program"),
    (0x0102_1997, "9p", "it is on the network"),
];

/// Makes the directory if it is absent, and refuses places that cannot keep a promise.
/// `what` is the option that named it, for the message.
pub fn check_directory(what: &str, directory: &Path) -> Result<()> {
    let shown = directory.display();
    private::make_directories(directory)
        .map_err(|e| FsError::local_io(format!("{what} {shown}: cannot make it"), e))?;
    // Made anew: in a directory that others may write, a name can be a link of theirs.
    let probe = directory.join(format!(".weir-probe-{}", std::process::id()));
    let _ = fs::remove_file(&probe);
    private::options()
        .write(true)
        .create_new(true)
        .open(&probe)
        .and_then(|mut file| file.write_all(b"probe"))
        .and_then(|()| fs::remove_file(&probe))
        .map_err(|e| FsError::local_io(format!("{what} {shown}: cannot write there"), e))?;
    let found =
        statfs(directory).map_err(|e| FsError::local_io(format!("{what} {shown}"), e.into()))?;
    let kind = found.f_type as u64 & 0xffff_ffff;
    match UNFIT.iter().find(|(magic, ..)| *magic == kind) {
        None => Ok(()),
        Some((_, name, why)) => {
            let text = format!(
                "{what} {shown} is on {name}, which will not do: {why}. Name a directory on a local \
                 disk with ext4 or xfs"
            );
            Err(FsError::new(ErrorKind::Invalid, text))
        }
    }
}

/// Names the file system that holds `directory` as it is mounted now: whoever unmounts it and mounts
/// it again gets another name. `None` where the kernel does not tell (other than ext4 and XFS).
pub(crate) fn file_system_instance(directory: &Path) -> Option<String> {
    #[cfg(any(test, feature = "testing"))]
    if let Some(name) = crate::disk::testing::pretended_instance(directory) {
        return Some(name);
    }
    let device = fs::metadata(directory).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let block = fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let name = block.file_name()?.to_str()?;
    // The kernel makes this directory at the mount, with a number that no other has in this boot.
    ["ext4", "xfs"].iter().find_map(|kind| {
        let made = fs::metadata(format!("/sys/fs/{kind}/{name}")).ok()?;
        Some(format!("{major}:{minor}:{}", made.ino()))
    })
}
