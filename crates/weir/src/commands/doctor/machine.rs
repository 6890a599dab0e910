//! What a machine must have, and what makes it faster.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use rustix::process::Resource;
use weir_types::Bytes;

use super::finding::Finding;

const AREA: &str = "machine";
/// The first kernel that reads files past a FUSE daemon.
const PASSTHROUGH_SINCE: (u32, u32) = (6, 9);
/// Says whether the kernel offers FUSE's requests over io_uring.
const URING: &str = "/sys/module/fuse/parameters/enable_uring";
/// The oldest kernel that Weir is tried on.
const OLDEST: (u32, u32) = (5, 4);
/// Descriptors that a busy mount may have open.
const FILES_MIN: u64 = 65_536;
/// Memory below which a mount is cramped.
const MEMORY_MIN: u64 = 1 << 30;

pub(super) fn look() -> Vec<Finding> {
    let root = rustix::process::geteuid().is_root();
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let offered = std::fs::read_to_string(URING).ok();
    let mut found = vec![kernel(&release), fuse(), passthrough(&release, root)];
    found.push(uring(offered.as_deref()));
    if !root {
        found.push(helper());
    }
    found.extend([open_files(), memory(), block_devices()]);
    found
}

fn kernel(release: &str) -> Finding {
    let finding = Finding::good(AREA, "kernel", release);
    match version(release) {
        Some(version) if version < OLDEST => {
            finding.bad(format!("Linux {}.{} or later is needed", OLDEST.0, OLDEST.1))
        }
        _ => finding,
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn fuse() -> Finding {
    let device = "/dev/fuse";
    match OpenOptions::new().read(true).write(true).open(device) {
        Ok(_) => Finding::good(AREA, "FUSE", format!("{device} can be opened")),
        Err(error) => {
            let advice = match error.kind() {
                io::ErrorKind::NotFound => {
                    "load it with `modprobe fuse`; in a container: `--device /dev/fuse --cap-add \
                     SYS_ADMIN`"
                }
                _ => {
                    "in a container: `--device /dev/fuse --cap-add SYS_ADMIN`; else `chmod 666 \
                      /dev/fuse`"
                }
            };
            Finding::good(AREA, "FUSE", format!("{device}: {error}")).bad(advice)
        }
    }
}

fn passthrough(release: &str, root: bool) -> Finding {
    let new = version(release).is_none_or(|version| version >= PASSTHROUGH_SINCE);
    let finding = |found: &str| Finding::good(AREA, "passthrough", found);
    match (new, root) {
        (true, true) => finding("the kernel reads local files past the daemon"),
        (true, false) => {
            finding("only for root").warn("mount as root: local files are read faster")
        }
        (false, _) => finding("this kernel has none")
            .warn("with Linux 6.9 or later local files are read past the daemon"),
    }
}

/// Nothing to be mended: `auto` does without.
fn uring(offered: Option<&str>) -> Finding {
    let found = match offered.map(str::trim) {
        None => "not for FUSE in this kernel, which takes Linux 6.14".to_owned(),
        Some("Y" | "1") => "offered: `weir mount --transport uring` uses it".to_owned(),
        Some(_) => format!("off: `echo Y >{URING}` lets `weir mount --transport uring` use it"),
    };
    Finding::good(AREA, "io_uring", found)
}

/// What users other than root mount by.
fn helper() -> Finding {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|dir| dir.join("fusermount3").exists());
    match (there, weir_door_fuse::users_may_allow_other()) {
        (false, _) => Finding::good(AREA, "fusermount3", "is not there")
            .bad("install it (package fuse3): users other than root mount by it"),
        (true, true) => Finding::good(AREA, "fusermount3", "is there, with user_allow_other"),
        (true, false) => Finding::good(AREA, "fusermount3", "is there, without user_allow_other")
            .warn("for --allow-other root must put `user_allow_other` into /etc/fuse.conf"),
    }
}

fn open_files() -> Finding {
    let most = rustix::process::getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let finding = Finding::good(AREA, "open files", format!("{most} at most"));
    match most < FILES_MIN {
        true => finding.warn(format!("raise the limit to {FILES_MIN}: `ulimit -Hn`, LimitNOFILE=")),
        false => finding,
    }
}

fn memory() -> Finding {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let Some(bytes) = available(&text) else {
        return Finding::good(AREA, "memory", "is not told");
    };
    let finding = Finding::good(AREA, "memory", format!("{} available", Bytes(bytes)));
    let finding = finding.measured(bytes as f64, "bytes");
    match bytes < MEMORY_MIN {
        true => finding.warn("give --memory less than what is there, or the machine more"),
        false => finding,
    }
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Whether disks can be devices of this machine.
fn block_devices() -> Finding {
    let nbd = Path::new("/sys/module/nbd").exists() || Path::new("/sys/block/nbd0").exists();
    let ublk = Path::new("/dev/ublk-control").exists();
    let built = if cfg!(feature = "ublk") { "" } else { ", and this weir is built without ublk" };
    match (nbd, ublk) {
        (true, _) => Finding::good(AREA, "block devices", "NBD is loaded"),
        (false, true) => Finding::good(AREA, "block devices", format!("ublk is loaded{built}")),
        (false, false) => Finding::good(AREA, "block devices", format!("no NBD yet{built}"))
            .warn("only for `weir attach`: `modprobe nbd`"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn releases_are_read_as_distributions_write_them() {
        assert_eq!(version("6.18.5"), Some((6, 18)));
        assert_eq!(version("5.10.0-28-cloud-amd64"), Some((5, 10)));
        assert_eq!(version("6.1.0+rpt"), Some((6, 1)));
        assert_eq!(version("strange"), None);
        assert_eq!(kernel("4.18.0-477.el8").verdict, Verdict::Bad);
        assert_eq!(kernel("strange").verdict, Verdict::Good);
    }

    #[test]
    fn passthrough_is_for_root_on_a_new_kernel() {
        let verdict = |release, root| passthrough(release, root).verdict;
        assert_eq!(verdict("6.9.0", true), Verdict::Good);
        assert_eq!(verdict("6.9.0", false), Verdict::Warning);
        assert_eq!(verdict("6.8.12", true), Verdict::Warning);
    }

    #[test]
    fn io_uring_is_told_of_and_never_in_the_way() {
        for (offered, wanted) in [(None, "6.14"), (Some("N\n"), "off: "), (Some("Y\n"), "offered")]
        {
            let finding = uring(offered);
            assert!(finding.found.contains(wanted), "{}", finding.found);
            assert_eq!(finding.verdict, Verdict::Good);
        }
    }

    #[test]
    fn memory_is_what_is_available() {
        let text = "MemTotal:  2 kB\nMemAvailable:    1048576 kB\n";
        assert_eq!(available(text), Some(1 << 30));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
    }
}
