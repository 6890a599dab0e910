//! An append-only log in a directory of numbered files.
//!
//! One mechanism, two strengths: an append is with the kernel when it returns, which is what
//! outlives `kill -9`; after [`RecordLog::sync`] it is on the disk, which outlives a power cut.
//! Old files are dropped whole once what they say is safe elsewhere.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};
use weir_types::{ErrorKind, FsError, Result};

use crate::disk;
use crate::frames::{FrameEnd, push_frame, read_frames};
use crate::private;

/// Room that the disk keeps behind the end of a log. Half of it is only for entries that cannot go
/// elsewhere.
const AHEAD_BYTES: u64 = 4 << 20;

/// A log of entries; see the module.
#[derive(Debug)]
pub struct RecordLog {
    directory: PathBuf,
    head: Mutex<Head>,
    synced: Mutex<u64>,
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
    /// A write or sync failed in a way that leaves the log in doubt: it takes no more.
    broken: bool,
}

impl RecordLog {
    /// Opens the log in `directory` (made if absent), hands every good entry to `each` in order,
    /// cuts off what a crash tore, and starts a new file for what comes.
    ///
    /// A file is on the disk, whole, before one behind it takes anything. So only the last file that
    /// holds anything can be torn by a crash; another one is `Corrupt`, and nothing is changed.
    pub fn open(directory: &Path, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<Self> {
        let at = |e| FsError::local_io(format!("log directory {}", directory.display()), e);
        private::make_directories(directory).map_err(at)?;
        let numbers = file_numbers(directory)?;
        let mut older_bytes = 0;
        let mut files = Vec::new();
        let mut torn: Option<(PathBuf, u64)> = None;
        for &number in &numbers {
            let path = path_of(directory, number);
            let mut options = OpenOptions::new();
            let file = disk::open(&path, options.read(true).write(true)).map_err(at)?;
            let bytes = disk::read_all(&file).map_err(at)?;
            if bytes.is_empty() {
                continue;
            }
            if let Some((torn, good)) = torn {
                return Err(torn_before(&torn, good, &path));
            }
            older_bytes += bytes.len() as u64;
            if let FrameEnd::Torn(good) = read_frames(&bytes, &mut each)? {
                older_bytes -= bytes.len() as u64 - good;
                torn = Some((path, good));
            }
            files.push(file);
        }
        if let (Some((path, good)), Some(file)) = (&torn, files.last()) {
            tracing::warn!(file = %path.display(), good, "log ends in a torn entry: cut off");
            disk::set_len(file, *good).map_err(at)?;
        }
        // Whoever was killed may not have synced them.
        files.iter().try_for_each(disk::sync_data).map_err(|e| {
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
            broken: false,
        };
        Ok(Self { directory: directory.to_owned(), head: Mutex::new(head), synced: Mutex::new(0) })
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
            let context = format!("log in {}", self.directory.display());
            return Err(FsError::local_io(context, error));
        }
        let at = |e| FsError::local_io(format!("append to log {}", self.directory.display()), e);
        if let Err(error) = disk::append_all(&head.file, &frames) {
            // Part of a frame may be in the file; what follows it would be lost behind it.
            head.broken = disk::set_len(&head.file, head.file_bytes).is_err();
            head.kept_bytes = 0;
            return Err(at(error));
        }
        head.file_bytes += frames.len() as u64;
        head.appended += frames.len() as u64;
        Ok(())
    }

    /// Returns when all that was appended before is on the disk. Callers at the same time share
    /// one `fdatasync`.
    pub fn sync(&self) -> Result<()> {
        let wanted = self.head().appended;
        let mut synced = self.synced.lock();
        if *synced >= wanted {
            return Ok(());
        }
        let (file, appended) = {
            let head = self.head();
            self.check(&head)?;
            (head.file.clone(), head.appended)
        };
        self.sync_file(&file).inspect_err(|_| self.head().broken = true)?;
        *synced = appended;
        Ok(())
    }

    /// The kernel tells of a failed write-back once: what a later sync says of it means nothing.
    fn sync_file(&self, file: &File) -> Result<()> {
        disk::sync_data(file)
            .map_err(|e| FsError::local_io(format!("sync log {}", self.directory.display()), e))
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
        // What was kept behind its end is for the next one.
        let _ = disk::set_len(&head.file, head.file_bytes);
        if let Err(error) = self.sync_file(&head.file) {
            head.broken = true;
            return Err(error);
        }
        head.older_bytes += head.file_bytes;
        head.number += 1;
        head.file = file;
        (head.file_bytes, head.kept_bytes) = (0, 0);
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
        let at = |e| FsError::local_io(format!("empty log {}", self.directory.display()), e);
        // The older files first: what voids their entries is in this one.
        disk::sync_directory(&self.directory).map_err(at)?;
        disk::set_len(&head.file, 0).map_err(at)?;
        (head.file_bytes, head.kept_bytes) = (0, 0);
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

    /// Bytes that all files of the log take.
    pub fn bytes(&self) -> u64 {
        let head = self.head();
        head.file_bytes + head.older_bytes
    }

    fn head(&self) -> MutexGuard<'_, Head> {
        self.head.lock()
    }
}

impl Head {
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
    let file = disk::open(&path, private::options().append(true)).map_err(at)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(directory: &Path) -> (RecordLog, Vec<Vec<u8>>) {
        let mut found = Vec::new();
        let log = RecordLog::open(directory, |p| {
            found.push(p.to_vec());
            Ok(())
        });
        (log.expect("opens"), found)
    }

    #[test]
    fn entries_come_back_in_order_over_files_and_torn_ends() {
        let dir = tempfile::tempdir().expect("tempdir");
        let (log, none) = entries(dir.path());
        assert!(none.is_empty());
        log.append(b"a").expect("appends");
        log.rotate().expect("rotates");
        log.append(b"b").expect("appends");
        log.append(b"c").expect("appends");
        log.sync().expect("syncs");
        drop(log);
        let newest = file_numbers(dir.path()).expect("lists").pop().expect("some");
        let path = path_of(dir.path(), newest);
        let bytes = fs::read(&path).expect("reads");
        fs::write(&path, &bytes[..bytes.len() - 1]).expect("writes");

        let (log, found) = entries(dir.path());
        assert_eq!(found, [b"a".to_vec(), b"b".to_vec()]);
        log.append(b"d").expect("appends");
        let (_, found) = entries(dir.path());
        assert_eq!(found, [b"a".to_vec(), b"b".to_vec(), b"d".to_vec()], "nothing hides behind");
    }

    #[test]
    fn a_file_that_is_torn_before_another_is_refused_and_nothing_is_changed() {
        let dir = tempfile::tempdir().expect("tempdir");
        let (log, _) = entries(dir.path());
        log.append(b"first").expect("appends");
        log.append(b"second").expect("appends");
        log.rotate().expect("rotates");
        log.append(b"third").expect("appends");
        log.sync().expect("syncs");
        drop(log);
        let (first, second) = (path_of(dir.path(), 1), path_of(dir.path(), 2));
        let good = fs::read(&first).expect("reads");
        fs::write(&first, &good[..good.len() - 1]).expect("writes");
        let state = || (fs::read(&first).expect("reads"), fs::read(&second).expect("reads"));
        let before = state();
        let error = RecordLog::open(dir.path(), |_| Ok(())).expect_err("refuses");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("0000000000000002.log away"), "{error}");
        assert_eq!(state(), before);
        fs::remove_file(&second).expect("as it says");
        assert_eq!(entries(dir.path()).1, [b"first".to_vec()]);
    }

    #[test]
    fn an_older_file_is_on_the_disk_before_a_newer_one_takes_anything() {
        use crate::disk::{Op, testing::Fault, testing::Plan};
        let dir = tempfile::tempdir().expect("tempdir");
        let (log, _) = entries(dir.path());
        log.append(b"never synced").expect("appends");
        drop(log);
        // A killed log's file is synced by who opens it next; if it cannot be, nothing follows it.
        let laid = Plan::lay(dir.path(), 1, Fault::Fail(libc::EIO), Some(Op::Sync));
        let error = RecordLog::open(dir.path(), |_| Ok(())).expect_err("its disk failed");
        assert_eq!(laid.hit().expect("hit").1, path_of(dir.path(), 1), "{error}");
        assert_eq!(file_numbers(dir.path()).expect("lists"), [1]);
        drop(laid);
        let (log, found) = entries(dir.path());
        assert_eq!(found.len(), 1);
        log.append(b"newer").expect("appends");
        // The first is that of the directory, which has the name of the next file.
        let laid = Plan::lay(dir.path(), 2, Fault::Fail(libc::EIO), Some(Op::Sync));
        log.rotate().expect_err("cannot be synced");
        drop(laid);
        log.rotate().expect_err("and what became of it is not known");
        log.append(b"x").expect_err("so nothing follows it");
    }

    #[test]
    fn dropped_files_are_gone_and_counted() {
        let dir = tempfile::tempdir().expect("tempdir");
        let (log, _) = entries(dir.path());
        log.append(&[7; 1000]).expect("appends");
        let number = log.rotate().expect("rotates");
        log.append(b"kept").expect("appends");
        assert!(log.bytes() > 1000);
        log.drop_before(number).expect("drops");
        assert!(log.bytes() < 100);
        let (_, found) = entries(dir.path());
        assert_eq!(found, [b"kept".to_vec()]);
    }

    #[test]
    fn a_log_of_which_nobody_knows_if_it_was_emptied_takes_no_more() {
        use crate::disk::{Op, testing::Fault, testing::Plan};
        let dir = tempfile::tempdir().expect("tempdir");
        let (log, _) = entries(dir.path());
        log.append(b"a").expect("appends");
        // The first is that of the directory.
        let laid = Plan::lay(dir.path(), 2, Fault::Fail(libc::EIO), Some(Op::Sync));
        log.clear_if(log.appended()).expect_err("its disk failed");
        assert!(laid.hit().is_some());
        drop(laid);
        log.append(b"b").expect_err("what is before it is not known");
        log.sync().expect_err("nor is that");
    }
}
