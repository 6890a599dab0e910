//! The redo log: every metadata commit before it is acknowledged, and with `--journal` the data
//! that was fsynced.
//!
//! It lies in the tier directory, where it outlives `kill -9`, or in a directory on a persistent
//! disk of its own (then it is *durable*: `fsync` means syncing it). Beside it a note names the mounts
//! that wrote it ([`crate::volume::belongs`]); a log that has not the volume's last writer is never replayed.
//!
//! Its disk may be full. Data then goes to the bucket instead; what voids data is owed until the log
//! takes it, and until then no sync succeeds.

pub(crate) mod size;

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize, Serializer};
use tokio::sync::Notify;
use weir_meta::kv::{CommitLog, Version};
use weir_tier::{
    ASIDE, Cause, Manifest, Mirror, Pending, ReadOutcome, RecordLog, Unjournaled, make_private,
    private, sync_directory,
};
use weir_types::{ByteRange, ErrorKind, FsError, Ino, Result, UnixTime};

use crate::volume::belongs::Note;
use crate::volume::context::blocking;
use crate::volume::locks::{self, Place};

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
    /// Bytes by offset; none lie over another. So what is flushed of them voids no newer ones.
    pub(crate) writes: BTreeMap<u64, Vec<u8>>,
    /// Size and times at the last fsync.
    pub(crate) attributes: Option<(u64, Option<UnixTime>, Option<UnixTime>)>,
}

/// The log and its place.
pub(crate) struct Journal {
    directory: PathBuf,
    /// On a persistent disk, so that syncing it is what `fsync` needs.
    pub(crate) durable: bool,
    log: OnceLock<RecordLog>,
    /// Held against a second daemon with the same directory.
    lock: OnceLock<Arc<fs::File>>,
    /// Locks that this process has from the one in whose place it goes on.
    held: Vec<Arc<fs::File>>,
    /// Entries that void or follow others, and that the log had no room for.
    owed: Mutex<VecDeque<Vec<u8>>>,
    /// Most bytes of it, and free ones on its disk, when that was last looked at.
    limit_bytes: AtomicU64,
    free_bytes: AtomicU64,
    /// Times that an `fsync` went to the bucket because it was full.
    refused: AtomicU64,
    /// Wakes who empties it.
    pub(crate) long: Notify,
    /// Held by who empties it.
    pub(crate) emptying: locks::Mutex,
    /// Shared by those who note data; held alone by who needs that there is none.
    pub(crate) taking_data: locks::RwLock,
}

impl Journal {
    /// A journal in `directory`, not yet opened.
    pub(crate) fn new(directory: &Path, durable: bool, held: Vec<Arc<fs::File>>) -> Arc<Self> {
        let directory = directory.to_owned();
        Arc::new(Self {
            directory,
            durable,
            log: OnceLock::new(),
            lock: OnceLock::new(),
            held,
            owed: Mutex::default(),
            limit_bytes: AtomicU64::new(0),
            free_bytes: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            long: Notify::new(),
            emptying: locks::Mutex::new(Place::LogEmptying, 0, ()),
            taking_data: locks::RwLock::new(Place::JournalData, 0),
        })
    }

    /// The lock of its directory, once it has it.
    pub(crate) fn held_lock(&self) -> Option<Arc<fs::File>> {
        self.lock.get().cloned()
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The note of the mounts whose log this is. Makes nothing: the disk of the directory may not be
    /// mounted.
    pub(crate) fn note(&self) -> Result<Note> {
        if self.directory.exists() {
            // Nothing is opened or made where another user could put links.
            private::make_directory(&self.directory)?;
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
            let _ = self.lock.set(weir_tier::lock_directory(&self.directory, &self.held)?);
        }
        Ok(())
    }

    /// Where entry `label` of what is set aside is, beside the log and on its disk.
    pub(crate) fn aside(&self, label: &str) -> PathBuf {
        self.directory.join(ASIDE).join(label)
    }

    /// Bytes of the log, which must not be open. What was written ahead of its end is cut off first.
    pub(crate) fn stored_bytes(&self) -> u64 {
        let log = self.directory.join(LOG);
        if log.exists()
            && let Err(error) = RecordLog::trim(&log)
        {
            tracing::warn!(log = %log.display(), %error, "the size of a redo log may be too large");
        }
        let files = fs::read_dir(log).into_iter().flatten();
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
        private::make_directory(&self.directory)?;
        self.lock()?;
        let log =
            RecordLog::open(&self.directory.join(LOG), |bytes| replay.take(bytes, with_data))?;
        self.log
            .set(log)
            .map_err(|_| FsError::new(ErrorKind::Bug, "the journal was opened twice"))?;
        Ok(replay)
    }

    /// Notes a file's unsynced ranges, its size and times. `NoSpace` if not all of it fits.
    pub(crate) fn note_data(&self, mirror: &Mirror, unjournaled: &Unjournaled) -> Result<()> {
        // What voids older data of these ranges must not come behind the new.
        self.pay()?;
        let Unjournaled { ranges, size, pending } = unjournaled;
        let ino = mirror.ino();
        let mut buffer = Vec::new();
        for &ByteRange { start, end } in ranges {
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
                let entry = encode(&Entry::Data { ino, offset, bytes: &buffer })?;
                self.log()?.append_if_room(&entry)?;
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
            true => self.append_or_owe(&Entry::Attributes { ino, size, mtime, ctime }),
            false => Ok(()),
        }
    }

    /// Notes that data entries of a range are void. Only a durable journal has any.
    pub(crate) fn forget(&self, ino: Ino, start: u64, end: u64) {
        if self.durable
            && let Err(error) = self.append_or_owe(&Entry::Forget { ino, start, end })
        {
            tracing::warn!(%ino, %error, "the journal could not take a note: tried again");
        }
    }

    /// Appends an entry, or owes it where the disk is full.
    fn append_or_owe(&self, entry: &Entry<'_>) -> Result<()> {
        self.owed().push_back(encode(entry)?);
        match self.pay() {
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                self.long.notify_one();
                Ok(())
            }
            paid => paid,
        }
    }

    /// Appends what is owed. `NoSpace` if the disk is still full.
    pub(crate) fn pay(&self) -> Result<()> {
        let mut owed = self.owed();
        while let Some(entry) = owed.front() {
            self.log()?.append(entry)?;
            owed.pop_front();
        }
        Ok(())
    }

    fn owed(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.owed.lock()
    }

    /// Returns when all noted before is on the disk. `NoSpace` if something is owed.
    pub(crate) async fn sync(self: &Arc<Self>) -> Result<()> {
        let journal = self.clone();
        blocking(move || journal.sync_here()).await
    }

    /// The same, on this thread.
    pub(crate) fn sync_here(&self) -> Result<()> {
        self.pay()?;
        self.log()?.sync()
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

    /// Empties the log: all it says is durable elsewhere, and nobody notes anything.
    pub(crate) fn clear(&self) -> Result<()> {
        let mark = self.appended()?;
        self.clear_if(mark).map(drop)
    }

    /// Empties the log in place, unless something was noted since the mark.
    pub(crate) fn clear_if(&self, mark: u64) -> Result<bool> {
        let mut owed = self.owed();
        let cleared = self.log()?.clear_if(mark)?;
        if cleared {
            owed.clear();
        }
        Ok(cleared)
    }

    pub(crate) fn appended(&self) -> Result<u64> {
        Ok(self.log()?.appended())
    }

    /// Bytes that the log takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.log.get().map_or(0, RecordLog::bytes)
    }

    fn log(&self) -> Result<&RecordLog> {
        self.log.get().ok_or_else(|| FsError::new(ErrorKind::Bug, "the journal is not open"))
    }
}

fn encode(entry: &Entry<'_>) -> Result<Vec<u8>> {
    postcard::to_stdvec(entry)
        .map_err(|e| FsError::new(ErrorKind::Bug, "encode journal entry").with_source(e))
}

impl CommitLog for Journal {
    fn append(&self, version: Version, entry: &[u8]) -> Result<()> {
        fail::fail_point!("engine::commit-log", |_| {
            Err(FsError::new(ErrorKind::Retry, "the fail point says that no commit is taken"))
        });
        let logged = self.log()?.append(&encode(&Entry::Commit { version, entry })?);
        logged.inspect_err(|error| self.commit_refused(error))?;
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
                self.files.entry(ino).or_default().write(offset, bytes);
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
    fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.cut(offset, offset + bytes.len() as u64);
        self.writes.insert(offset, bytes.to_vec());
    }

    /// Takes `start..end` out of the writes.
    fn cut(&mut self, start: u64, end: u64) {
        let before = self.writes.range(..start).next_back().map_or(start, |(offset, _)| *offset);
        let inside: Vec<u64> = self.writes.range(before..end).map(|(offset, _)| *offset).collect();
        for offset in inside {
            let Some(mut bytes) = self.writes.remove(&offset) else { continue };
            let last = offset + bytes.len() as u64;
            if last > end {
                self.writes.insert(end, bytes[(end - offset) as usize..].to_vec());
            }
            if offset < start {
                bytes.truncate((start - offset) as usize);
                self.writes.insert(offset, bytes);
            }
        }
    }

    /// Data of `start..end` is void.
    fn forget(&mut self, start: u64, end: u64) {
        self.cut(start, end);
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
        let mut file = FileReplay { attributes: Some((15, None, None)), ..FileReplay::default() };
        file.write(0, &[1; 10]);
        file.write(5, &[2; 10]);
        let writes = |file: &FileReplay| file.writes.clone().into_iter().collect::<Vec<_>>();
        assert_eq!(writes(&file), [(0, vec![1; 5]), (5, vec![2; 10])], "the newest bytes only");
        file.forget(3, 6);
        assert_eq!(writes(&file), [(0, vec![1; 3]), (6, vec![2; 9])]);
        file.write(1, &[3]);
        assert_eq!(writes(&file)[..3], [(0, vec![1]), (1, vec![3]), (2, vec![1])]);
        file.forget(8, u64::MAX);
        assert_eq!(file.attributes, Some((8, None, None)));
        file.forget(0, u64::MAX);
        assert!(file.writes.is_empty());
        assert_eq!(file.attributes, Some((0, None, None)));
    }
}
