//! What a disk is, on which a tier or a journal is to be: its file system, room and speed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::FallocateFlags;
use weir_tier::{DiskSpace, check_directory};
use weir_types::{Bytes, FsError};

use super::finding::Finding;

/// Bytes that are written to see how fast that is.
const WRITTEN_BYTES: u64 = 64 << 20;
/// Small writes, each made durable, of which the middle one counts.
const SYNCS: usize = 15;
/// A disk that takes longer makes an fsync slow, in milliseconds.
const SLOW_SYNC_MS: f64 = 20.0;
/// A disk that writes less in a second holds up a copy to it.
const SLOW_BYTES: f64 = 100e6;
const FREE_MIN: u64 = 1 << 30;
const FREE_FILES_MIN: u64 = 100_000;

/// Looks at the disk below a directory, which need not be there yet: it is not made.
pub(super) fn look(area: &'static str, directory: &Path) -> Vec<Finding> {
    let there = match existing(directory) {
        Ok(there) => there,
        Err(error) => return vec![refused(area, &FsError::local_io(directory.display(), error))],
    };
    if let Err(error) = check_directory(&format!("--{area}"), &there) {
        return vec![refused(area, &error)];
    }
    let mut found = vec![kind(area, &there)];
    let space = match DiskSpace::ask(&there) {
        Ok(space) => space,
        Err(error) => return vec![refused(area, &error)],
    };
    found.push(room(area, &space));
    if space.free_bytes < 2 * WRITTEN_BYTES {
        return found;
    }
    match measure(&there) {
        Ok(measured) => found.extend(measured.findings(area)),
        Err(error) => found.push(refused(area, &FsError::local_io(there.display(), error))),
    }
    found
}

/// The nearest directory above, or itself, that is there.
fn existing(directory: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(directory)?;
    let there = absolute.ancestors().find(|above| above.is_dir()).unwrap_or(Path::new("/"));
    Ok(there.to_owned())
}

fn refused(area: &'static str, error: &FsError) -> Finding {
    Finding::good(area, "directory", error.to_string()).bad("name a directory on a local disk")
}

fn kind(area: &'static str, directory: &Path) -> Finding {
    let name = rustix::fs::statfs(directory).map(|found| file_system(found.f_type as u64));
    let name = name.unwrap_or("a file system that does not say what it is");
    let turns = fs::metadata(directory).ok().and_then(|found| turns(found.dev()));
    let disk = match turns {
        Some(true) => ", a disk that turns",
        Some(false) => ", a disk without moving parts",
        None => "",
    };
    let finding = Finding::good(area, "file system", format!("{name}{disk}"));
    match (name, turns) {
        ("ext4" | "XFS", Some(true)) => {
            finding.warn("a tier is to be fast: NVMe, or a network SSD")
        }
        ("ext4" | "XFS", _) => finding,
        _ => finding.warn("ext4 and XFS are what Weir is tried on"),
    }
}

fn file_system(magic: u64) -> &'static str {
    match magic & 0xffff_ffff {
        0xef53 => "ext4",
        0x5846_5342 => "XFS",
        0x9123_683e => "btrfs",
        0x2fc1_2fc1 => "ZFS",
        0x794c_7630 => "an overlay",
        _ => "another file system",
    }
}

/// Whether the disk of this number has moving parts, as far as the kernel says.
fn turns(device: u64) -> Option<bool> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let at = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    // A partition lies below its disk.
    let mut said = [at.as_path(), at.parent()?].into_iter();
    let said = said.find_map(|at| fs::read_to_string(at.join("queue/rotational")).ok())?;
    Some(said.trim() == "1")
}

fn room(area: &'static str, space: &DiskSpace) -> Finding {
    let files = match space.free_files {
        u64::MAX => String::new(),
        files => format!(", {files} inodes"),
    };
    let found = format!("{}{files} free", Bytes(space.free_bytes));
    let finding = Finding::good(area, "room", found).measured(space.free_bytes as f64, "bytes");
    match (space.free_bytes < FREE_MIN, space.free_files < FREE_FILES_MIN) {
        (true, _) => finding.bad("make room: a tier wants a few GiB at least"),
        (_, true) => finding.warn(
            "each file that is here takes an inode: make the file system anew \
                                   with more (`mkfs.ext4 -i 16384`), or take XFS",
        ),
        _ => finding,
    }
}

struct Measured {
    bytes_per_s: f64,
    sync_ms: f64,
    holes: bool,
}

/// Writes a file that has no name, so that nothing is left behind.
fn measure(directory: &Path) -> io::Result<Measured> {
    let mut file = tempfile::tempfile_in(directory)?;
    // What does not shrink, should the file system compress.
    let mut block = vec![0; 1 << 20];
    rand::Rng::fill_bytes(&mut rand::rng(), &mut block);
    let began = Instant::now();
    for _ in 0..WRITTEN_BYTES >> 20 {
        file.write_all(&block)?;
    }
    file.sync_data()?;
    let bytes_per_s = WRITTEN_BYTES as f64 / began.elapsed().as_secs_f64();
    let mut syncs = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let began = Instant::now();
        file.write_all(&block[..4096])?;
        file.sync_data()?;
        syncs.push(began.elapsed().as_secs_f64() * 1e3);
    }
    syncs.sort_by(f64::total_cmp);
    Ok(Measured { bytes_per_s, sync_ms: syncs[SYNCS / 2], holes: punches(&file) })
}

fn punches(file: &File) -> bool {
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(file, how, 0, 1 << 20).is_ok()
}

impl Measured {
    fn findings(&self, area: &'static str) -> Vec<Finding> {
        let speed = format!("{:.0} MB/s", self.bytes_per_s / 1e6);
        let speed = Finding::good(area, "writes", speed).measured(self.bytes_per_s, "bytes/s");
        let speed = match self.bytes_per_s < SLOW_BYTES {
            true => speed.warn("slow for a tier: what is cold will come no faster than that"),
            false => speed,
        };
        let sync = format!("{:.2} ms", self.sync_ms);
        let sync = Finding::good(area, "fsync", sync).measured(self.sync_ms, "ms");
        let sync = match self.sync_ms > SLOW_SYNC_MS {
            true => sync.warn("slow: each fsync to a journal there waits as long"),
            false => sync,
        };
        let holes = match self.holes {
            true => Finding::good(area, "holes", "can be made in files"),
            false => Finding::good(area, "holes", "cannot be made in files")
                .bad("take ext4 or XFS: a part of a file is released by a hole"),
        };
        vec![speed, sync, holes]
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn a_directory_that_is_not_there_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let wanted = dir.path().join("a/b");
        let found = look("tier", &wanted);
        assert!(found.iter().any(|finding| finding.name == "fsync"), "{found:?}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn little_room_is_told() {
        let space = |free_bytes, free_files| {
            let space = DiskSpace { bytes: 1 << 40, free_bytes, files: 1 << 30, free_files };
            room("tier", &space).verdict
        };
        assert_eq!(space(1 << 40, 1 << 20), Verdict::Good);
        assert_eq!(space(1 << 20, 1 << 20), Verdict::Bad);
        assert_eq!(space(1 << 40, 10), Verdict::Warning);
        assert_eq!(space(1 << 40, u64::MAX), Verdict::Good);
    }

    #[test]
    fn memory_and_networks_will_not_do() {
        let found = look("tier", Path::new("/dev/shm"));
        assert_eq!(found[0].verdict, Verdict::Bad, "{found:?}");
        assert!(found[0].found.contains("tmpfs"), "{found:?}");
    }
}
