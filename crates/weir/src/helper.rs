//! The program under the names that `mount(8)` and `umount(8)` call: `mount.weir`, so that
//! `mount -t weir` and /etc/fstab work, and `umount.fuse.weir`, so that a plain `umount` waits until all
//! is in the bucket. Their arguments become those of `weir mount` and `weir umount`.

mod mount;
mod umount;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use weir_types::Result;

/// The options of `mount -t weir`, those of mount(8) and the kernel aside: flags of `weir mount`, and
/// whether each takes a value.
pub(crate) fn mount_options() -> &'static [(&'static str, bool)] {
    &mount::FLAGS
}

/// The command line of `weir` that does what a helper was called for. The line itself if the
/// program was not called as one, `None` if nothing is asked for.
pub(crate) fn weir_arguments(argv: Vec<OsString>) -> Result<Option<Vec<OsString>>> {
    let name = argv.first().and_then(|path| Path::new(path).file_name()).and_then(OsStr::to_str);
    match name.and_then(|name| name.split_once('.')).map(|(name, _)| name) {
        Some("mount") => mount::weir_arguments(&argv),
        Some("umount") => umount::weir_arguments(&argv).map(Some),
        _ => Ok(Some(argv)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides() {
        for (line, wanted) in [
            ("/usr/local/bin/weir status", "/usr/local/bin/weir status"),
            ("weir", "weir"),
            ("/sbin/mount.weir s3://b /mnt -o tier=/t", "weir mount --tier=/t -- s3://b /mnt"),
            ("mount.fuse.weir s3://b /mnt -o tier=/t", "weir mount --tier=/t -- s3://b /mnt"),
            ("mount.fuse.weir s3://b /mnt -o remount,ro", "weir remount -o remount,ro -- /mnt"),
            ("/sbin/umount.weir /mnt", "weir umount -- /mnt"),
            ("umount.fuse.weir /mnt", "weir umount -- /mnt"),
        ] {
            let argv = line.split(' ').map(OsString::from).collect();
            let wanted: Vec<OsString> = wanted.split(' ').map(OsString::from).collect();
            assert_eq!(weir_arguments(argv).expect(line), Some(wanted), "{line}");
        }
        assert_eq!(weir_arguments(Vec::new()).expect("nothing"), Some(Vec::new()));
    }
}
