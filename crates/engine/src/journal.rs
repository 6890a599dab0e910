//! The redo log: every metadata commit before it is acknowledged, and with `--journal` the data
//! that was fsynced.
//!
//! It lies in the tier directory, where it outlives `kill -9`, or in a directory on a persistent
//! disk of its own (then it is *durable*: `fsync` means syncing it). Beside it a note names the mounts
//! that wrote it ([`crate::belongs`]); a log that has not the volume's last writer is never replayed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use serde::{Deserialize, Serialize, Serializer};
use weir_meta::kv::{CommitLog, Version};
use weir_tier::{
    ASIDE, Cause, Manifest, Mirror, Pending, ReadOutcome, RecordLog, Unjournaled, make_private,
    sync_directory,
};
use weir_types::{ErrorKind, FsError, Ino, Result, UnixTime};

use crate::belongs::Note;

/// Bytes after which a new file is begun, so that old ones can go.
const FILE_BYTES: u64 = 16 << 20;
/// Data bytes in one entry.
const DATA_BYTES: u64 = 1 << 20;
/// Directory of the log's files.
pub(crate) const LOG: &str = "log";

// An entry of data, with its numbers.
const _: () = assert!(DATA_BYTES as usize + 64 < weir_tier::ENTRY_BYTES_MAX);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Entry<'a> {
    /// A metadata commit.
    Commit {
        version: Version,
        #[serde(serialize_with = "as_bytes")]
        entry: &'a [u8],
    },
    /// Bytes of a file that was fsynced.
    Data {
        ino: Ino,
        offset: u64,
        #[serde(serialize_with = "as_bytes")]
        bytes: &'a [u8],
    },
    /// Its size and times.
    Attributes { ino: Ino, size: u64, mtime: Option<UnixTime>, ctime: Option<UnixTime> },
    /// Data entries in this range are void: flushed to the bucket, cut off or replaced.
    Forget { ino: Ino, start: u64, end: u64 },
}

/// The same bytes as serde's own way, which goes byte by byte.
fn as_bytes<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_bytes(bytes)
}

/// What the log of an earlier mount holds.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// Commits in order.
    pub(crate) commits: Vec<(Version, Vec<u8>)>,
    /// Fsynced data by file, unless the caller had no use for it.
    pub(crate) files: BTreeMap<Ino, FileReplay>,
}

/// The fsynced data of one file.
#[derive(Debug, Default)]
pub(crate) struct FileReplay {
    /// (offset, bytes) in order of writing.
    pub(crate) writes: Vec<(u64, Vec<u8>)>,
    /// Size and times at the last fsync.
    pub(crate) attributes: Option<(u64, Option<UnixTime>, Option<UnixTime>)>,
}

/// The log and its place.
pub(crate) struct Journal {
    directory: PathBuf,
    /// On a persistent disk, so that syncing it is what `fsync` needs.
    pub(crate) durable: bool,
    log: OnceLock<RecordLog>,
    /// What is void and could not be noted: nothing is durable here before it is.
    owed: Mutex<Vec<(Ino, u64, u64)>>,
    /// Held against a second daemon with the same directory.
    lock: OnceLock<fs::File>,
}

impl Journal {
    /// A journal in `directory`, not yet opened.
    pub(crate) fn new(directory: &Path, durable: bool) -> Arc<Self> {
        let directory = directory.to_owned();
        let (log, lock, owed) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        Arc::new(Self { directory, durable, log, owed, lock })
    }

    /// The note of the mounts whose log this is. Makes nothing: the disk of the directory may not be
    /// mounted.
    pub(crate) fn note(&self) -> Result<Note> {
        if self.directory.exists() {
            self.lock()?;
        }
        Note::read(&self.directory)
    }

    /// Durably notes the mounts that may have written this log.
    pub(crate) fn set_note(&self, mounts: &[&str]) -> Result<()> {
        Note::write(&self.directory, mounts)
    }

    fn lock(&self) -> Result<()> {
        if self.lock.get().is_none() {
            let _ = self.lock.set(weir_tier::lock_directory(&self.directory)?);
        }
        Ok(())
    }

    /// Where entry `label` of what is set aside is, beside the log and on its disk.
    pub(crate) fn aside(&self, label: &str) -> PathBuf {
        self.directory.join(ASIDE).join(label)
    }

    /// Bytes of the log, which need not be open.
    pub(crate) fn stored_bytes(&self) -> u64 {
        let files = fs::read_dir(self.directory.join(LOG)).into_iter().flatten();
        files.filter_map(|f| f.ok()?.metadata().ok()).map(|m| m.len()).sum()
    }

    /// Moves the whole log away as entry `label`: it must not be replayed. Must not be open.
    pub(crate) fn set_aside(&self, label: &str, cause: &Cause) -> Result<()> {
        let to = self.aside(label);
        make_private(&to)?;
        sync_directory(&self.directory.join(ASIDE))?;
        sync_directory(&self.directory)?;
        // Nothing is here but the log, and it is listed before it comes.
        Manifest { complete: true, ..Manifest::new(cause.clone()) }.write(&to)?;
        let at = |e| FsError::local_io(format!("set the redo log aside in {}", to.display()), e);
        fs::rename(self.directory.join(LOG), to.join(LOG)).map_err(at)?;
        sync_directory(&to)?;
        sync_directory(&self.directory)
    }

    /// Opens the log and reads what is in it; `with_data` keeps the fsynced data as well.
    pub(crate) fn open(&self, with_data: bool) -> Result<Replay> {
        let mut replay = Replay::default();
        fs::create_dir_all(&self.directory).map_err(|e| {
            FsError::local_io(format!("make the log directory {}", self.directory.display()), e)
        })?;
        self.lock()?;
        let log =
            RecordLog::open(&self.directory.join(LOG), |bytes| replay.take(bytes, with_data))?;
        self.log
            .set(log)
            .map_err(|_| FsError::new(ErrorKind::Bug, "the journal was opened twice"))?;
        Ok(replay)
    }

    /// Notes a file's unsynced ranges, its size and times.
    pub(crate) fn note_data(&self, mirror: &Mirror, unjournaled: &Unjournaled) -> Result<()> {
        // Before what comes now, or it would be void as well.
        self.settle()?;
        let Unjournaled { ranges, size, pending } = unjournaled;
        let ino = mirror.ino();
        let mut buffer = Vec::new();
        for &(start, end) in ranges {
            let mut offset = start;
            while offset < end {
                buffer.clear();
                let len = (end - offset).min(DATA_BYTES) as usize;
                let ReadOutcome::Done(len) = mirror.read_at(offset, len, &mut buffer)? else {
                    break;
                };
                if len == 0 {
                    break;
                }
                self.append(&Entry::Data { ino, offset, bytes: &buffer })?;
                offset += len as u64;
            }
        }
        match *pending == Pending::default() {
            true => Ok(()),
            false => self.note_attributes(ino, *size, pending.mtime, pending.ctime),
        }
    }

    /// Notes a file's size and times. Only a durable journal has use for them.
    pub(crate) fn note_attributes(
        &self,
        ino: Ino,
        size: u64,
        mtime: Option<UnixTime>,
        ctime: Option<UnixTime>,
    ) -> Result<()> {
        match self.durable {
            true => self.append(&Entry::Attributes { ino, size, mtime, ctime }),
            false => Ok(()),
        }
    }

    /// Notes that data entries of a range are void. Only a durable journal has any.
    pub(crate) fn forget(&self, ino: Ino, start: u64, end: u64) {
        if self.durable
            && let Err(error) = self.append(&Entry::Forget { ino, start, end })
        {
            tracing::warn!(%ino, %error, "the journal could not take a note: tried again");
            self.owed.lock().unwrap_or_else(|e| e.into_inner()).push((ino, start, end));
        }
    }

    /// Notes what could not be noted when it was time: a replay would put old bytes over newer ones.
    fn settle(&self) -> Result<()> {
        let mut owed = self.owed.lock().unwrap_or_else(|e| e.into_inner());
        while let Some(&(ino, start, end)) = owed.last() {
            self.append(&Entry::Forget { ino, start, end })?;
            owed.pop();
        }
        Ok(())
    }

    /// Returns when all noted before is on the disk.
    pub(crate) async fn sync(self: &Arc<Self>) -> Result<()> {
        let journal = self.clone();
        let sync = move || {
            journal.settle()?;
            journal.log()?.sync()
        };
        let synced = tokio::task::spawn_blocking(sync).await;
        synced.unwrap_or_else(|e| Err(FsError::new(ErrorKind::Bug, format!("journal: {e}"))))
    }

    /// Whether the log is so long that it should be emptied.
    pub(crate) fn is_long(&self, journal_bytes: u64) -> bool {
        let limit = if self.durable { journal_bytes / 2 } else { FILE_BYTES };
        self.log.get().is_some_and(|log| log.bytes() > limit)
    }

    /// Begins a new file; what is in the older ones may be dropped with [`Journal::drop_before`]
    /// once it is all durable elsewhere.
    pub(crate) fn rotate(&self) -> Result<u64> {
        self.log()?.rotate()
    }

    /// Drops the files before `number`.
    pub(crate) fn drop_before(&self, number: u64) -> Result<()> {
        self.log()?.drop_before(number)
    }

    /// Empties the log: all it says is durable elsewhere.
    pub(crate) fn clear(&self) -> Result<()> {
        let number = self.rotate()?;
        self.drop_before(number)
    }

    /// Bytes that the log takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.log.get().map_or(0, RecordLog::bytes)
    }

    fn append(&self, entry: &Entry<'_>) -> Result<()> {
        let bytes = postcard::to_stdvec(entry)
            .map_err(|e| FsError::new(ErrorKind::Bug, "encode journal entry").with_source(e))?;
        self.log()?.append(&bytes)
    }

    fn log(&self) -> Result<&RecordLog> {
        self.log.get().ok_or_else(|| FsError::new(ErrorKind::Bug, "the journal is not open"))
    }
}

impl CommitLog for Journal {
    fn append(&self, version: Version, entry: &[u8]) -> Result<()> {
        fail::fail_point!("engine::commit-log", |_| {
            Err(FsError::new(ErrorKind::Retry, "the fail point says that no commit is taken"))
        });
        Journal::append(self, &Entry::Commit { version, entry })?;
        fail::fail_point!("engine::commit-logged");
        Ok(())
    }
}

impl Replay {
    fn take(&mut self, bytes: &[u8], with_data: bool) -> Result<()> {
        let entry = postcard::from_bytes(bytes).map_err(|e| {
            let text = "the redo log holds an entry this version cannot read; mount with the \
                        version that wrote it";
            FsError::new(ErrorKind::Corrupt, text).with_source(e)
        })?;
        match entry {
            Entry::Commit { version, entry } => self.commits.push((version, entry.to_vec())),
            Entry::Data { ino, offset, bytes } if with_data => {
                self.files.entry(ino).or_default().writes.push((offset, bytes.to_vec()));
            }
            Entry::Attributes { ino, size, mtime, ctime } if with_data => {
                self.files.entry(ino).or_default().attributes = Some((size, mtime, ctime));
            }
            Entry::Forget { ino, start, end } => {
                if let Some(file) = self.files.get_mut(&ino) {
                    file.forget(start, end);
                }
            }
            Entry::Data { .. } | Entry::Attributes { .. } => {}
        }
        Ok(())
    }
}

impl FileReplay {
    /// Cuts `start..end` out of the writes.
    fn forget(&mut self, start: u64, end: u64) {
        let mut kept = Vec::new();
        for (offset, bytes) in self.writes.drain(..) {
            let last = offset + bytes.len() as u64;
            if last <= start || offset >= end {
                kept.push((offset, bytes));
                continue;
            }
            if offset < start {
                kept.push((offset, bytes[..(start - offset) as usize].to_vec()));
            }
            if last > end {
                kept.push((end, bytes[(end - offset) as usize..].to_vec()));
            }
        }
        self.writes = kept;
        let Some((size, mtime, ctime)) = &mut self.attributes else { return };
        if end == u64::MAX {
            *size = (*size).min(start);
        }
        if self.writes.is_empty() {
            // The metadata took the times with the bytes.
            (*mtime, *ctime) = (None, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_noted_as_ever() {
        let entry = postcard::to_stdvec(&Entry::Commit { version: 300, entry: b"abc" });
        assert_eq!(entry.expect("encodes"), [0, 0xac, 2, 3, b'a', b'b', b'c']);
        let entry = Entry::Data { ino: Ino(2), offset: 1, bytes: &[9; 200] };
        let entry = postcard::to_stdvec(&entry).expect("encodes");
        assert_eq!(entry[..5], [1, 2, 1, 0xc8, 1]);
        assert!(entry[5..] == [9; 200]);
    }

    #[test]
    fn forgetting_cuts_writes() {
        let mut file = FileReplay {
            writes: vec![(0, vec![1; 10]), (5, vec![2; 10])],
            attributes: Some((15, None, None)),
        };
        file.forget(3, 6);
        assert_eq!(file.writes, [(0, vec![1; 3]), (6, vec![1; 4]), (6, vec![2; 9])]);
        file.forget(8, u64::MAX);
        assert_eq!(file.attributes, Some((8, None, None)));
        file.forget(0, u64::MAX);
        assert!(file.writes.is_empty());
        assert_eq!(file.attributes, Some((0, None, None)));
    }
}
