//! An append-only log in a directory of numbered files.
//!
//! One mechanism, two strengths: an append is with the kernel when it returns, which is what
//! outlives `kill -9`; after [`RecordLog::sync`] it is on the disk, which outlives a power cut.
//! Old files are dropped whole once what they say is safe elsewhere.
//!
//! Where little is appended between syncs, zeros are written ahead of the end: an entry that takes
//! their place changes neither the file's size nor its extents, and the sync that follows has nothing
//! but its bytes to bring to the disk. Only the newest file has such zeros. They are cut off before
//! another follows it, so that zeros in the place of entries are never taken for an end.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};
use weir_types::{ErrorKind, FsError, Result};

use crate::disk;
use crate::frames::{FrameEnd, push_frame, read_frames};
use crate::private;

mod group;
#[cfg(test)]
mod tests;

use group::Group;

/// Room that the disk keeps behind the end of a log. Half of it is only for entries that cannot go
/// elsewhere.
const AHEAD_BYTES: u64 = 4 << 20;
/// Most bytes between two syncs for which zeros are worth their writing.
const SMALL_SYNC_BYTES: u64 = 64 << 10;
/// Least and most zeros that are written at once; between them as many as the file has bytes, so that
/// a short log stays short.
const ZEROS_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 20;
const BLOCK_BYTES: u64 = 4096;

static ZEROS: [u8; *ZEROS_BYTES.end() as usize] = [0; *ZEROS_BYTES.end() as usize];

/// A log of entries; see the module.
#[derive(Debug)]
pub struct RecordLog {
    directory: PathBuf,
    head: Mutex<Head>,
    /// What is synced, of what was appended.
    group: Group,
}

#[derive(Debug)]
struct Head {
    number: u64,
    file: std::sync::Arc<File>,
    /// Bytes in the newest file.
    file_bytes: u64,
    /// Bytes ever appended by this process: the clock of group commit.
    appended: u64,
    /// Bytes in the older files that are still there.
    older_bytes: u64,
    /// Bytes of the newest file that the disk keeps room for; `u64::MAX` where it cannot.
    kept_bytes: u64,
    /// Where the zeros end that were written behind the newest file's entries, if not before those;
    /// `u64::MAX` where none are to be.
    zeroed_bytes: u64,
    /// A write or sync failed in a way that leaves the log in doubt: it takes no more.
    broken: bool,
}

impl RecordLog {
    /// Opens the log in `directory` (made if absent), hands every good entry to `each` in order,
    /// cuts off what a crash tore and zeros written ahead, and starts a new file for what comes.
    ///
    /// A file is on the disk, whole and without such zeros, before one behind it takes anything. So
    /// only the last file that holds anything can be torn by a crash or end in zeros; another one is
    /// `Corrupt`, and nothing is changed.
    pub fn open(directory: &Path, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<Self> {
        let at = |e| FsError::local_io(format!("log directory {}", directory.display()), e);
        private::make_directories(directory).map_err(at)?;
        let numbers = file_numbers(directory)?;
        let mut older_bytes = 0;
        let mut files = Vec::new();
        let mut cut: Option<(PathBuf, u64)> = None;
        let mut torn = false;
        for &number in &numbers {
            let path = path_of(directory, number);
            let mut options = OpenOptions::new();
            let file = disk::open(&path, options.read(true).write(true)).map_err(at)?;
            let bytes = disk::read_all(&file).map_err(at)?;
            if bytes.is_empty() {
                continue;
            }
            if let Some((cut, good)) = cut {
                return Err(torn_before(&cut, good, &path));
            }
            older_bytes += match read_frames(&bytes, &mut each)? {
                FrameEnd::Whole => bytes.len() as u64,
                FrameEnd::Zeros(good) => cut.insert((path, good)).1,
                FrameEnd::Torn(good) => {
                    torn = true;
                    cut.insert((path, good)).1
                }
            };
            files.push(file);
        }
        if let (Some((path, good)), Some(file)) = (&cut, files.last()) {
            if torn {
                tracing::warn!(file = %path.display(), good, "log ends in a torn entry: cut off");
            }
            disk::set_len(file, *good).map_err(at)?;
        }
        // Whoever was killed may not have synced them; and what was cut off must not come back.
        files.iter().try_for_each(disk::sync_all).map_err(|e| {
            let text = format!(
                "the log in {}: its disk lost a part of what it had taken; look after the disk and \
                 mount again",
                directory.display()
            );
            FsError::local_io(text, e)
        })?;
        let number = numbers.last().map_or(1, |last| last + 1);
        let file = create(directory, number)?;
        let head = Head {
            number,
            file,
            file_bytes: 0,
            appended: 0,
            older_bytes,
            kept_bytes: 0,
            zeroed_bytes: 0,
            broken: false,
        };
        let (directory, head) = (directory.to_owned(), Mutex::new(head));
        Ok(Self { directory, head, group: Group::default() })
    }

    /// Cuts zeros that were written ahead off the log in `directory`, which nobody has open. What a
    /// crash tore stays.
    pub fn trim(directory: &Path) -> Result<()> {
        let at = |e| FsError::local_io(format!("log directory {}", directory.display()), e);
        for number in file_numbers(directory)?.into_iter().rev() {
            let path = path_of(directory, number);
            let mut options = OpenOptions::new();
            let file = disk::open(&path, options.read(true).write(true)).map_err(at)?;
            let bytes = disk::read_all(&file).map_err(at)?;
            if let FrameEnd::Zeros(good) = read_frames(&bytes, |_| Ok(()))? {
                disk::set_len(&file, good).map_err(at)?;
            }
            // Only the last that holds anything can have them.
            if !bytes.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Appends one entry; it is with the kernel when this returns. After an error the log is as it
    /// was before.
    pub fn append(&self, payload: &[u8]) -> Result<()> {
        self.append_all(&[payload])
    }

    /// Appends entries with one write; what a crash leaves of them is a prefix.
    pub(crate) fn append_all(&self, payloads: &[impl AsRef<[u8]>]) -> Result<()> {
        self.append_kept(payloads, false)
    }

    /// Appends an entry that could go elsewhere: `NoSpace` where it would take of the room that is
    /// kept on the disk for those that cannot.
    pub fn append_if_room(&self, payload: &[u8]) -> Result<()> {
        self.append_kept(&[payload], true)
    }

    fn append_kept(&self, payloads: &[impl AsRef<[u8]>], if_room: bool) -> Result<()> {
        let mut frames = Vec::new();
        payloads.iter().try_for_each(|payload| push_frame(&mut frames, payload.as_ref()))?;
        let mut head = self.head();
        self.check(&head)?;
        if let Err(error) = head.keep_room(frames.len() as u64)
            && if_room
        {
            return Err(self.at("keep room for", error));
        }
        if let Err(error) = disk::append_all_at(&head.file, &frames, head.file_bytes) {
            // Part of a frame may be in the file; what follows it would be lost behind it.
            head.broken = head.cut().is_err();
            return Err(self.at("append to", error));
        }
        head.file_bytes += frames.len() as u64;
        head.appended += frames.len() as u64;
        Ok(())
    }

    /// Returns when all that was appended before is on the disk. Callers at the same time share
    /// one `fdatasync`.
    pub fn sync(&self) -> Result<()> {
        let wanted = self.head().appended;
        self.group.reach(wanted, |synced| self.sync_newest(synced))
    }

    /// Syncs the newest file, the only one that may not be on the disk, and returns how far that
    /// brought the log. It was there up to `synced`.
    fn sync_newest(&self, synced: u64) -> Result<u64> {
        let (file, appended) = {
            let mut head = self.head();
            self.check(&head)?;
            let unsynced_bytes = head.appended - synced;
            if let Err(error) = head.write_zeros(unsynced_bytes) {
                let directory = self.directory.display();
                tracing::warn!(%directory, %error, "no zeros ahead of a log: its syncs take longer");
            }
            (head.file.clone(), head.appended)
        };
        self.sync_file(&file).inspect_err(|_| self.head().broken = true)?;
        Ok(appended)
    }

    /// The kernel tells of a failed write-back once: what a later sync says of it means nothing.
    fn sync_file(&self, file: &File) -> Result<()> {
        disk::sync_data(file).map_err(|e| self.at("sync", e))
    }

    fn at(&self, what: &str, error: std::io::Error) -> FsError {
        FsError::local_io(format!("{what} log {}", self.directory.display()), error)
    }

    fn check(&self, head: &Head) -> Result<()> {
        if head.broken {
            let text = format!(
                "the log in {} is in doubt after an error of its disk: mend the disk and mount again",
                self.directory.display()
            );
            return Err(FsError::new(ErrorKind::Retry, text));
        }
        Ok(())
    }

    /// Starts a new file and returns its number; the older files are synced and stay until
    /// [`RecordLog::drop_before`].
    pub fn rotate(&self) -> Result<u64> {
        let mut head = self.head();
        if head.file_bytes == 0 {
            return Ok(head.number);
        }
        self.check(&head)?;
        let file = create(&self.directory, head.number + 1)?;
        // What was kept behind its end is for the next one, and zeros there would look like entries
        // that the disk lost.
        head.cut().map_err(|e| self.at("cut", e))?;
        if let Err(error) = disk::sync_all(&head.file) {
            head.broken = true;
            return Err(self.at("sync", error));
        }
        head.older_bytes += head.file_bytes;
        head.number += 1;
        head.file = file;
        head.file_bytes = 0;
        Ok(head.number)
    }

    /// Bytes ever appended: a mark for [`RecordLog::clear_if`].
    pub fn appended(&self) -> u64 {
        self.head().appended
    }

    /// Empties the log without a new file, for which a full disk has no room; `false` if something
    /// was appended since the mark. All that it says must be safe elsewhere.
    pub fn clear_if(&self, appended: u64) -> Result<bool> {
        let number = self.head().number;
        self.drop_before(number)?;
        let mut head = self.head();
        if head.appended != appended || head.number != number {
            return Ok(false);
        }
        self.check(&head)?;
        let at = |e| self.at("empty", e);
        // The older files first: what voids their entries is in this one.
        disk::sync_directory(&self.directory).map_err(at)?;
        let file_bytes = std::mem::take(&mut head.file_bytes);
        if let Err(error) = head.cut() {
            head.file_bytes = file_bytes;
            return Err(at(error));
        }
        if let Err(error) = disk::sync_all(&head.file) {
            head.broken = true;
            return Err(at(error));
        }
        Ok(true)
    }

    /// Removes the files older than file `number`: what they say is safe elsewhere.
    pub fn drop_before(&self, number: u64) -> Result<()> {
        let mut head = self.head();
        for old in file_numbers(&self.directory)?.into_iter().filter(|n| *n < number) {
            let path = path_of(&self.directory, old);
            let bytes = fs::metadata(&path).map_or(0, |m| m.len());
            disk::remove_file(&path)
                .map_err(|e| FsError::local_io(format!("remove {}", path.display()), e))?;
            head.older_bytes = head.older_bytes.saturating_sub(bytes);
        }
        Ok(())
    }

    /// Bytes that all entries of the log take.
    pub fn bytes(&self) -> u64 {
        let head = self.head();
        head.file_bytes + head.older_bytes
    }

    fn head(&self) -> MutexGuard<'_, Head> {
        self.head.lock()
    }
}

impl Head {
    /// Cuts off all that is behind the entries: what the disk keeps room for, zeros, and what was left
    /// of a write that failed.
    fn cut(&mut self) -> std::io::Result<()> {
        (self.kept_bytes, self.zeroed_bytes) = (0, 0);
        disk::set_len(&self.file, self.file_bytes)
    }

    /// Writes zeros behind the entries if the sync that is to follow has a new size to bring to the disk
    /// anyway, and only `unsynced_bytes`. Takes no room but what is kept already. Where that fails, it is
    /// not tried again in this file; nothing rests on it.
    fn write_zeros(&mut self, unsynced_bytes: u64) -> std::io::Result<()> {
        let start = self.file_bytes;
        if start <= self.zeroed_bytes || unsynced_bytes > SMALL_SYNC_BYTES {
            return Ok(());
        }
        if self.kept_bytes == u64::MAX || !disk::overwrites_in_place(&self.file) {
            self.zeroed_bytes = u64::MAX;
            return Ok(());
        }
        let wanted = start + start.clamp(*ZEROS_BYTES.start(), *ZEROS_BYTES.end());
        let end = wanted.min(self.kept_bytes) / BLOCK_BYTES * BLOCK_BYTES;
        if end <= start {
            return Ok(());
        }
        self.zeroed_bytes = u64::MAX;
        disk::write_all_at(&self.file, &ZEROS[..(end - start) as usize], start)?;
        self.zeroed_bytes = end;
        Ok(())
    }

    /// Has the disk keep room for `len` bytes and some that come behind them, so that a disk that
    /// others fill still takes these.
    fn keep_room(&mut self, len: u64) -> std::io::Result<()> {
        let end = self.file_bytes + len;
        if self.kept_bytes >= end + AHEAD_BYTES / 2 {
            return Ok(());
        }
        let wanted = len + AHEAD_BYTES;
        self.kept_bytes = match disk::keep_room(&self.file, self.file_bytes, wanted)? {
            true => self.file_bytes + wanted,
            false => u64::MAX,
        };
        Ok(())
    }
}

fn create(directory: &Path, number: u64) -> Result<std::sync::Arc<File>> {
    let path = path_of(directory, number);
    let at = |e| FsError::local_io(format!("create log file {}", path.display()), e);
    // Not create_new: an earlier try may have ended right after this. Nothing is in the file then.
    let file = disk::open(&path, private::options().write(true)).map_err(at)?;
    // The name must outlive a power cut, or synced entries would be in a file nobody finds.
    disk::sync_directory(directory).map_err(at)?;
    Ok(std::sync::Arc::new(file))
}

fn torn_before(torn: &Path, good: u64, behind: &Path) -> FsError {
    let text = format!(
        "{} is damaged from byte {good} on, but {} behind it holds entries: the disk lost what it \
         had taken. Nothing was changed. Look after the disk; to go on without all that the log \
         says from there on, move {} away and mount again",
        torn.display(),
        behind.display(),
        behind.display(),
    );
    FsError::new(ErrorKind::Corrupt, text)
}

fn path_of(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:016x}.log"))
}

fn file_numbers(directory: &Path) -> Result<Vec<u64>> {
    let at = |e| FsError::local_io(format!("list log {}", directory.display()), e);
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory).map_err(at)? {
        let name = entry.map_err(at)?.file_name();
        let number = name.to_str().and_then(|n| n.strip_suffix(".log"));
        numbers.extend(number.and_then(|n| u64::from_str_radix(n, 16).ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}
