//! Mirror files as such: where they are, which bytes they have, and who stored into them.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{SeekFrom, Timespec, Timestamps, UTIME_OMIT};
use weir_types::{ByteRange, Ino, UnixTime};

use crate::disk;
use crate::private;
use crate::ranges::{PAGE_BYTES, page_ceil, page_floor};

/// The mtime of a mirror file that nobody stored into, in seconds since 1970.
pub(crate) const MARK_S: i64 = 1;

/// Where the mirror file of `ino` is: 256 directories keep each of them small.
pub(crate) fn mirror_path(mirrors: &Path, ino: Ino) -> PathBuf {
    mirrors.join(format!("{:02x}", ino.0 as u8)).join(format!("{:016x}", ino.0))
}

/// When somebody last stored into a mirror file that was marked; `None` if nobody did.
pub(crate) fn last_store(file: &File) -> io::Result<Option<UnixTime>> {
    let metadata = file.metadata()?;
    let (secs, nanos) = (metadata.mtime(), metadata.mtime_nsec() as u32);
    Ok((secs != MARK_S).then(|| UnixTime::from_parts(secs, nanos)))
}

/// Marks a mirror file: the next store into any of its pages shows in [`last_store`].
pub(crate) fn set_mark(file: &File) -> io::Result<()> {
    let last_modification = Timespec { tv_sec: MARK_S, tv_nsec: 0 };
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    Ok(rustix::fs::futimens(file, &Timestamps { last_access, last_modification })?)
}

/// The pages below `size` that the file system holds bytes of.
pub(crate) fn data_ranges(file: &File, size: u64) -> io::Result<Vec<ByteRange>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) if start < size => start,
            Ok(_) | Err(rustix::io::Errno::NXIO) => break,
            Err(e) => return Err(e.into()),
        };
        at = rustix::fs::seek(file, SeekFrom::Hole(start))?;
        found.push(ByteRange::new(page_floor(start), page_ceil(at.min(size))));
    }
    Ok(found)
}

/// Puts a file with the same bytes in these ranges, and no others, in the place of the one at
/// `path`. Who has that open keeps it.
pub(crate) fn copy_file(path: &Path, ranges: &[ByteRange], size: u64) -> io::Result<()> {
    let copy = path.with_extension("copy");
    let copied = copy_ranges(path, &copy, ranges, size).and_then(|()| disk::rename(&copy, path));
    if copied.is_err() {
        let _ = disk::remove_file(&copy);
    }
    copied
}

fn copy_ranges(path: &Path, copy: &Path, ranges: &[ByteRange], size: u64) -> io::Result<()> {
    let to = disk::open(copy, private::options().write(true).truncate(true))?;
    let from = disk::open_read(path)?;
    disk::set_len(&to, size)?;
    let mut buffer = vec![0; 256 * PAGE_BYTES as usize];
    for &ByteRange { start, end } in ranges {
        let mut at = start;
        while at < end.min(size) {
            let most = buffer.len().min((end.min(size) - at) as usize);
            let got = from.read_at(&mut buffer[..most], at)?;
            if got == 0 {
                break;
            }
            disk::write_all_at(&to, &buffer[..got], at)?;
            at += got as u64;
        }
    }
    disk::lost_bytes(&from)
}
