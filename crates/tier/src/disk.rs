//! The local disk: what tier, redo log and journal do to it, so that tests can make any of it fail.
//!
//! Each function is the call of the system that it is named after. In builds for tests a plan may
//! be laid for a directory (`disk::testing`); in others nothing stands between.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

mod op;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use op::Op;
use op::Turn;

#[cfg(any(test, feature = "testing"))]
use testing::{turn_of, turn_of_file};

#[cfg(not(any(test, feature = "testing")))]
#[inline]
fn turn_of(_: Op, _: &Path) -> io::Result<Turn> {
    Ok(Turn::Whole)
}

#[cfg(not(any(test, feature = "testing")))]
#[inline]
fn turn_of_file(_: Op, _: &File) -> io::Result<Turn> {
    Ok(Turn::Whole)
}

/// Opens a file as `options` say.
pub fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
    turn_of(Op::Open, path)?;
    options.open(path)
}

/// Opens a file for reading.
pub fn open_read(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true))
}

/// All bytes of a file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    turn_of(Op::Read, path)?;
    fs::read(path)
}

/// All bytes of an open file, from its start.
pub fn read_all(file: &File) -> io::Result<Vec<u8>> {
    turn_of_file(Op::Read, file)?;
    let length = file.metadata()?.len() as usize;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Appends up to `most` bytes from `offset` on to `buffer`, as far as it has room; see pread(2).
#[expect(unsafe_code, reason = "no library reads into a part of a vector's spare room")]
pub(crate) fn read_spare(
    file: &File,
    buffer: &mut Vec<u8>,
    most: usize,
    offset: u64,
) -> io::Result<usize> {
    turn_of_file(Op::Read, file)?;
    let spare = buffer.spare_capacity_mut();
    let most = most.min(spare.len());
    let read = rustix::io::pread(file, &mut spare[..most], offset)?.0.len();
    // SAFETY: so many bytes behind the length are within the capacity, and the kernel filled them.
    unsafe { buffer.set_len(buffer.len() + read) };
    Ok(read)
}

/// The most bytes that one call writes. For more the page cache takes pieces of memory as large, which
/// a kernel has from what was idle longest: where a virtual machine's host took that back, each of its
/// pages has to be brought again, at ten times the cost of the copy.
const WRITE_BYTES: usize = 64 << 10;

/// Writes all of `bytes` at `offset`.
pub(crate) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    match turn_of_file(Op::Write, file)? {
        Turn::Whole => (offset..)
            .step_by(WRITE_BYTES)
            .zip(bytes.chunks(WRITE_BYTES))
            .try_for_each(|(at, part)| file.write_all_at(part, at)),
        #[cfg(any(test, feature = "testing"))]
        Turn::Short => {
            file.write_all_at(&bytes[..bytes.len() / 2], offset)?;
            Err(testing::full())
        }
        #[cfg(any(test, feature = "testing"))]
        Turn::Lost => {
            file.write_all_at(bytes, offset)?;
            testing::lose(file, offset, bytes.len() as u64)
        }
    }
}

/// Writes all of `bytes` at `offset`, where a log ends.
pub(crate) fn append_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    match turn_of_file(Op::Write, file)? {
        Turn::Whole => file.write_all_at(bytes, offset),
        #[cfg(any(test, feature = "testing"))]
        Turn::Short => {
            file.write_all_at(&bytes[..bytes.len() / 2], offset)?;
            Err(testing::full())
        }
        // The kernel has it until the next mount; that a sync fails is found at once.
        #[cfg(any(test, feature = "testing"))]
        Turn::Lost => {
            file.write_all_at(bytes, offset)?;
            testing::lose(file, 0, 0)
        }
    }
}

/// `fdatasync`.
pub(crate) fn sync_data(file: &File) -> io::Result<()> {
    turn_of_file(Op::Sync, file)?;
    file.sync_data()
}

/// `fsync`.
pub fn sync_all(file: &File) -> io::Result<()> {
    turn_of_file(Op::Sync, file)?;
    file.sync_all()
}

/// Brings the names in a directory to the disk.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    turn_of(Op::Sync, path)?;
    File::open(path)?.sync_all()
}

/// `ftruncate`.
pub(crate) fn set_len(file: &File, bytes: u64) -> io::Result<()> {
    turn_of_file(Op::Truncate, file)?;
    file.set_len(bytes)
}

/// Has the disk keep room for bytes that will be written behind the end of a file; `false` where
/// its file system cannot. Nothing rests on it, so no plan makes it fail.
pub(crate) fn keep_room(file: &File, start: u64, len: u64) -> io::Result<bool> {
    match fallocate(file, FallocateFlags::KEEP_SIZE, start, len) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether the file system of this directory looks for room for each block of a write by itself (ext4):
/// to have it keep room for all of them first costs less there.
pub(crate) fn reserves_by_block(directory: &Path) -> bool {
    rustix::fs::statfs(directory).is_ok_and(|fs| fs.f_type as u64 == EXT)
}

/// `f_type` of ext4.
const EXT: u64 = 0xef53;

/// Whether the file system of `file` is known to write over written bytes where they are, so that
/// a sync of them has nothing to note but the bytes. `false` for those that never do (btrfs, ZFS, F2FS),
/// and for those of a network.
pub(crate) fn overwrites_in_place(file: &File) -> bool {
    const XFS: u64 = 0x5846_5342;
    const TMPFS: u64 = 0x0102_1994;
    // Tests are the same wherever their files are.
    let known = |fs: rustix::fs::StatFs| [EXT, XFS, TMPFS].contains(&(fs.f_type as u64));
    cfg!(test) || rustix::fs::fstatfs(file).is_ok_and(known)
}

/// Makes `start..end` a hole.
pub(crate) fn punch(file: &File, start: u64, end: u64) -> io::Result<()> {
    if start >= end {
        return Ok(());
    }
    turn_of_file(Op::Punch, file)?;
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(fallocate(file, flags, start, end - start)?)
}

/// Gives a file another name.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    turn_of(Op::Rename, from)?;
    fs::rename(from, to)
}

/// Removes a file.
pub fn remove_file(path: &Path) -> io::Result<()> {
    turn_of(Op::Remove, path)?;
    fs::remove_file(path)
}

/// Puts a file of these bytes in the place of `path`, in one step and durably.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let file = open(&new, crate::private::options().write(true).truncate(true))?;
    write_all_at(&file, bytes, 0)?;
    sync_all(&file)?;
    rename(&new, path)?;
    path.parent().map_or(Ok(()), sync_directory)
}

/// Brings all that was written to the file system of `file` to the disk. Fails if a write to it failed
/// since `file` was opened, once.
pub(crate) fn syncfs(file: &File) -> io::Result<()> {
    turn_of_file(Op::SyncAll, file)?;
    Ok(rustix::fs::syncfs(file)?)
}

/// Fails if bytes of this file were lost on their way to the disk while `file` was open, or before
/// that and nobody was told; once. The pages that held them may read as anything since.
///
/// Waits for nothing: no page of a file lies so far behind.
#[expect(unsafe_code, reason = "neither std nor rustix knows sync_file_range")]
pub(crate) fn lost_bytes(file: &File) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    turn_of_file(Op::Ask, file)?;
    // SAFETY: the descriptor is open as long as `file` is, and the call takes integers.
    let asked = unsafe {
        libc::sync_file_range(file.as_raw_fd(), 1 << 62, 1, libc::SYNC_FILE_RANGE_WAIT_BEFORE)
    };
    match asked {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            // A file system that cannot be asked so.
            e if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL | libc::ESPIPE)) => {
                file.sync_data()
            }
            e => Err(e),
        },
    }
}
