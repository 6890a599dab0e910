//! When files were read last, as a mount with `relatime` keeps it.
//!
//! Where FUSE cannot be used (a container without /dev/fuse) the tests say so and do nothing.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

mod common;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::Path;

use common::Volume;
use rustix::fs::CWD;
use weir_door_fuse::FuseOptions;

/// By the rule of local file systems, whoever reads it: the kernel from its cache or from the mirror
/// file, or the daemon.
#[test]
fn times_of_reads_are_kept_where_that_is_asked_for() {
    let Some(volume) = Volume::new() else { return };
    let mounted = volume.mount(|options| FuseOptions { relatime: true, ..options });
    let at = |name: &str| mounted.path.join(name);
    let atime = |name: &str| {
        let of = fs::symlink_metadata(at(name)).unwrap();
        (of.atime(), of.atime_nsec())
    };
    let change = |name: &str| {
        let of = fs::symlink_metadata(at(name)).unwrap();
        (of.ctime(), of.ctime_nsec())
    };
    fs::write(at("small"), "text").unwrap();
    fs::write(at("large"), vec![7; 1 << 20]).unwrap();
    fs::create_dir(at("dir")).unwrap();
    symlink("small", at("link")).unwrap();
    let read = |name: &str| match name {
        "dir" => assert_eq!(fs::read_dir(at(name)).unwrap().count(), 0),
        "link" => drop(fs::read_link(at(name)).unwrap()),
        _ => drop(fs::read(at(name)).unwrap()),
    };
    for name in ["small", "large", "dir", "link"] {
        let (before, changed) = (atime(name), change(name));
        read(name);
        let first = atime(name);
        assert!(first > before, "{name} was read");
        read(name);
        assert_eq!(
            (atime(name), change(name)),
            (first, changed),
            "{name} was read since its change"
        );
    }
    for name in ["small", "large"] {
        let before = atime(name);
        let mut file = OpenOptions::new().append(true).open(at(name)).unwrap();
        file.write_all(b"more").unwrap();
        drop(file);
        assert_eq!(atime(name), before, "{name} was written, not read");
        read(name);
        assert!(atime(name) > before, "{name} has changed since it was read");
    }
    // What somebody sets is shown, until it is read again.
    let times = rustix::fs::Timestamps {
        last_access: rustix::fs::Timespec { tv_sec: 1_000_000, tv_nsec: 5 },
        last_modification: rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
    };
    rustix::fs::utimensat(CWD, at("small"), &times, rustix::fs::AtFlags::empty()).unwrap();
    assert_eq!(atime("small"), (1_000_000, 5));
    let unseen = libc::O_NOATIME;
    drop(OpenOptions::new().read(true).custom_flags(unseen).open(at("small")).unwrap());
    assert_eq!(atime("small"), (1_000_000, 5));
    read("small");
    assert!(atime("small") > (1_000_000, 5));
    let all = ["small", "large", "dir"].map(atime);
    volume.end(mounted);

    // Without it, what was kept stays.
    let mounted = volume.mount(|options| options);
    let at = |name: &str| mounted.path.join(name);
    fs::write(at("small"), "new").unwrap();
    for (name, kept) in ["small", "large", "dir"].into_iter().zip(all) {
        if name != "dir" {
            fs::read(at(name)).unwrap();
        }
        let of = fs::metadata(at(name)).unwrap();
        assert_eq!((of.atime(), of.atime_nsec()), kept, "{name}");
    }
    volume.end(mounted);
}

#[test]
fn the_kernel_tells_whether_times_of_reads_are_kept_and_may_stop_it() {
    let Some(volume) = Volume::new() else { return };
    let shows = |path: &Path, option: &str| {
        let table = fs::read_to_string("/proc/self/mounts").unwrap();
        let line = table.lines().find(|line| line.split(' ').nth(1) == path.to_str()).unwrap();
        line.split(' ').nth(3).unwrap().split(',').any(|has| has == option)
    };
    let mounted = volume.mount(|options| options);
    assert!(shows(&mounted.path, "noatime"));
    volume.end(mounted);
    let mounted = volume.mount(|options| FuseOptions { relatime: true, ..options });
    assert!(shows(&mounted.path, "relatime"));
    let file = mounted.path.join("file");
    fs::write(&file, "text").unwrap();
    let atime = || fs::metadata(&file).map(|of| (of.atime(), of.atime_nsec())).unwrap();
    if rustix::process::geteuid().is_root() {
        weir_door_fuse::remount(&mounted.path, &["ro".to_owned()]).unwrap();
        let before = atime();
        fs::read(&file).unwrap();
        assert_eq!(atime(), before, "nothing is written where the mount is read-only");
    }
    volume.end(mounted);
}
