//! What a redo log that was set aside says. Decoding is pure and takes what it can of damaged
//! bytes; what it could not read is told.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use weir_meta::kv::Version;
use weir_meta::{LoggedRow, logged_rows};
use weir_tier::{FrameEnd, read_frames};
use weir_types::{FileKind, FsError, Ino, Inode, Result, UnixTime};

use crate::data::journal::{Entry, LOG};

/// The log of one entry.
#[derive(Debug, Default)]
pub(crate) struct LostLog {
    /// Commits in order.
    pub(crate) commits: Vec<(Version, Vec<u8>)>,
    /// Fsynced data that was not in the bucket, by file.
    pub(crate) files: BTreeMap<Ino, LostData>,
    /// Where it cannot be read, other than at its very end, which a crash may tear.
    pub(crate) damage: Option<String>,
}

/// Fsynced data of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LostData {
    /// In order of writing: later ones win.
    pub(crate) pieces: Vec<LostPiece>,
    /// Size and times at the last fsync.
    pub(crate) attributes: Option<(u64, Option<UnixTime>, Option<UnixTime>)>,
}

/// Where some bytes of a file are in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LostPiece {
    /// Offset in the file.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) len: u64,
    /// Number of the log file.
    pub(crate) number: u64,
    /// Offset in that.
    pub(crate) at: u64,
}

/// What the commits say that never reached the volume.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    /// Inodes that they changed.
    pub(crate) inodes: BTreeMap<Ino, LostInode>,
    /// Where names led after them; nowhere if they were removed.
    pub(crate) names: BTreeMap<(Ino, Vec<u8>), Option<Ino>>,
    /// When inodes were made of which the log speaks at all: their numbers may be another's now.
    pub(crate) born: BTreeMap<Ino, UnixTime>,
    /// Extended attributes of inodes that they made.
    pub(crate) attributes: BTreeMap<Ino, BTreeMap<Vec<u8>, Vec<u8>>>,
}

/// An inode in lost commits.
#[derive(Debug, Default)]
pub(crate) struct LostInode {
    /// As the last of them had it; `None` if it was removed.
    pub(crate) last: Option<Inode>,
    /// They made it.
    pub(crate) made: bool,
    /// They changed where its bytes are.
    pub(crate) extents: bool,
    /// Generations of its extents in them.
    pub(crate) generations: BTreeSet<u64>,
}

impl LostLog {
    /// Reads the log in the directory of an entry.
    pub(crate) fn read(directory: &Path) -> Result<Self> {
        let mut log = Self::default();
        let mut files = files(directory)?;
        // A file that is begun and holds nothing yet is not what the one before it waited for.
        files.retain(|(_, path)| std::fs::metadata(path).map_or(true, |m| m.len() > 0));
        let last = files.last().map(|(number, _)| *number);
        for (number, path) in files {
            let bytes = std::fs::read(&path)
                .map_err(|e| FsError::local_io(format!("read {}", path.display()), e))?;
            log.take(number, &bytes, Some(number) == last);
        }
        Ok(log)
    }

    /// Takes one file of the log up.
    pub(crate) fn take(&mut self, number: u64, bytes: &[u8], last: bool) {
        let mut bad = None;
        let end = read_frames(bytes, |payload| {
            // A slice of `bytes`, so this is where it begins there.
            let at = payload.as_ptr().addr() - bytes.as_ptr().addr();
            if let Err(error) = self.entry(number, at as u64, payload) {
                bad.get_or_insert(format!("file {number} at byte {at}: {error}"));
            }
            Ok(())
        });
        if let Ok(FrameEnd::Torn(good) | FrameEnd::Zeros(good)) = end
            && !last
        {
            bad.get_or_insert(format!("file {number} is torn at byte {good}"));
        }
        self.damage = self.damage.take().or(bad);
    }

    fn entry(&mut self, number: u64, at: u64, payload: &[u8]) -> Result<(), postcard::Error> {
        match postcard::from_bytes(payload)? {
            Entry::Commit { version, entry } => self.commits.push((version, entry.to_vec())),
            Entry::Data { ino, offset, bytes } => {
                let at = at + (bytes.as_ptr().addr() - payload.as_ptr().addr()) as u64;
                let piece = LostPiece { offset, len: bytes.len() as u64, number, at };
                self.files.entry(ino).or_default().pieces.push(piece);
            }
            Entry::Attributes { ino, size, mtime, ctime } => {
                self.files.entry(ino).or_default().attributes = Some((size, mtime, ctime));
            }
            Entry::Forget { ino, start, end } => {
                if let Some(file) = self.files.get_mut(&ino) {
                    file.forget(start, end);
                }
            }
        }
        Ok(())
    }

    /// What the commits after `reached` say. Those that cannot be read count as damage.
    pub(crate) fn lost(&mut self, reached: Version) -> Lost {
        let mut lost = Lost::default();
        for (version, entry) in &self.commits {
            match logged_rows(*version, entry) {
                Ok(rows) => lost.take(&rows, *version > reached),
                Err(error) => {
                    self.damage.get_or_insert(error.to_string());
                }
            }
        }
        lost
    }
}

impl LostData {
    fn forget(&mut self, start: u64, end: u64) {
        let mut kept = Vec::new();
        for piece in self.pieces.drain(..) {
            let last = piece.offset.saturating_add(piece.len);
            if piece.offset < start {
                kept.push(LostPiece { len: piece.len.min(start - piece.offset), ..piece });
            }
            if last > end {
                let cut = end.saturating_sub(piece.offset);
                let (offset, at) = (piece.offset + cut, piece.at + cut);
                kept.push(LostPiece { offset, at, len: piece.len - cut, ..piece });
            }
        }
        self.pieces = kept;
        if let Some((size, mtime, ctime)) = &mut self.attributes {
            if end == u64::MAX {
                *size = (*size).min(start);
            }
            if self.pieces.is_empty() {
                (*mtime, *ctime) = (None, None);
            }
        }
    }

    /// Nothing of it is left that the bucket had not.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

impl Lost {
    fn take(&mut self, rows: &[LoggedRow], lost: bool) {
        for row in rows {
            if let LoggedRow::Inode(inode) = row {
                self.born.insert(inode.ino, inode.btime);
            }
            if lost {
                self.row(row, rows);
            }
        }
    }

    fn row(&mut self, row: &LoggedRow, rows: &[LoggedRow]) {
        match row {
            LoggedRow::Inode(inode) => {
                let named = |row: &LoggedRow| matches!(row, LoggedRow::Name { ino, .. } if *ino == inode.ino);
                let first = !self.inodes.contains_key(&inode.ino);
                let known = self.inodes.entry(inode.ino).or_default();
                known.made |= first && inode.btime == inode.ctime && rows.iter().any(named);
                known.generations.insert(inode.data.generation);
                known.last = Some(inode.clone());
            }
            LoggedRow::InodeGone(ino) => self.inodes.entry(*ino).or_default().last = None,
            LoggedRow::Name { dir, name, ino, .. } => {
                self.names.insert((*dir, name.clone()), Some(*ino));
            }
            LoggedRow::NameGone { dir, name } => {
                self.names.insert((*dir, name.clone()), None);
            }
            LoggedRow::Extents(ino, _) => self.inodes.entry(*ino).or_default().extents = true,
            LoggedRow::Attribute(ino, name, value) => {
                let of = self.attributes.entry(*ino).or_default();
                match value {
                    Some(value) => of.insert(name.clone(), value.to_vec()),
                    None => of.remove(name),
                };
            }
        }
    }

    /// The inode, if lost commits made it and did not remove it again.
    pub(crate) fn made(&self, ino: Ino) -> Option<&Inode> {
        let lost = self.inodes.get(&ino).filter(|lost| lost.made)?;
        lost.last.as_ref().filter(|inode| inode.nlink > 0)
    }

    /// All names of an inode.
    pub(crate) fn names_of(&self, ino: Ino) -> impl Iterator<Item = (Ino, &[u8])> {
        let of = self.names.iter().filter(move |(_, to)| **to == Some(ino));
        of.map(|((dir, name), _)| (*dir, name.as_slice()))
    }

    /// Whether `kind` is made by the same commits.
    pub(crate) fn makes_directory(&self, ino: Ino) -> bool {
        self.made(ino).is_some_and(|inode| inode.kind == FileKind::Directory)
    }
}

/// The files of a log in an entry's directory, in order.
pub(crate) fn files(directory: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let log = directory.join(LOG);
    let at = |e| FsError::local_io(format!("list {}", log.display()), e);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&log).map_err(at)? {
        let path = entry.map_err(at)?.path();
        let number = path.file_name().and_then(|n| n.to_str()?.strip_suffix(".log"));
        let number = number.and_then(|n| u64::from_str_radix(n, 16).ok());
        found.extend(number.map(|number| (number, path)));
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(entries: &[Entry<'_>]) -> Vec<u8> {
        let dir = tempfile::tempdir().expect("a directory");
        let log = weir_tier::RecordLog::open(dir.path(), |_| Ok(())).expect("opens");
        for entry in entries {
            log.append(&postcard::to_stdvec(entry).expect("encodes")).expect("appends");
        }
        std::fs::read(dir.path().join("0000000000000001.log")).expect("reads")
    }

    fn sample() -> Vec<u8> {
        log(&[
            Entry::Commit { version: 9, entry: b"not a commit" },
            Entry::Data { ino: Ino(2), offset: 10, bytes: b"0123456789" },
            Entry::Attributes { ino: Ino(2), size: 20, mtime: Some(UnixTime(1)), ctime: None },
            Entry::Data { ino: Ino(3), offset: 0, bytes: b"abc" },
            Entry::Forget { ino: Ino(2), start: 12, end: 15 },
        ])
    }

    fn bytes_of(data: &LostData, file: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let bytes = |p: &LostPiece| file[p.at as usize..(p.at + p.len) as usize].to_vec();
        data.pieces.iter().map(|piece| (piece.offset, bytes(piece))).collect()
    }

    #[test]
    fn fsynced_bytes_are_found_where_they_are() {
        let file = sample();
        let mut log = LostLog::default();
        log.take(1, &file, true);
        assert_eq!(log.damage, None);
        let two = &log.files[&Ino(2)];
        assert_eq!(bytes_of(two, &file), [(10, b"01".to_vec()), (15, b"56789".to_vec())]);
        assert_eq!(two.attributes, Some((20, Some(UnixTime(1)), None)));
        assert_eq!(bytes_of(&log.files[&Ino(3)], &file), [(0, b"abc".to_vec())]);
        let lost = log.lost(0);
        assert!(lost.names.is_empty() && log.damage.is_some(), "its commit is none");
    }

    #[test]
    fn damaged_bytes_cost_what_is_behind_them_and_are_told() {
        let file = sample();
        for at in 0..file.len() {
            let mut log = LostLog::default();
            log.take(1, &file[..at], true);
            assert!(log.damage.is_none(), "a crash tears the end: byte {at}");
            let mut bad = file.clone();
            for bit in 0..8 {
                bad[at] ^= 1 << bit;
                let mut log = LostLog::default();
                log.take(1, &bad, false);
                log.take(2, &file, true);
                assert!(log.damage.is_some(), "byte {at} bit {bit}");
                assert!(log.files.contains_key(&Ino(3)), "the next file is read");
                bad[at] ^= 1 << bit;
            }
        }
        // Zeros written ahead are an end, but none that another file follows.
        let ahead = [&file[..], &[0; 500]].concat();
        for (last, sound) in [(true, true), (false, false)] {
            let mut log = LostLog::default();
            log.take(1, &ahead, last);
            assert_eq!(log.damage.is_none(), sound, "{:?}", log.damage);
            assert!(log.files.contains_key(&Ino(3)));
        }
        // Sound frames around what is no entry.
        let dir = tempfile::tempdir().expect("a directory");
        let records = weir_tier::RecordLog::open(dir.path(), |_| Ok(())).expect("opens");
        for seed in 0..=255_u8 {
            records.append(&[seed; 40]).expect("appends");
        }
        let noise = std::fs::read(dir.path().join("0000000000000001.log")).expect("reads");
        let mut log = LostLog::default();
        log.take(1, &noise, true);
        assert!(log.damage.is_some());
    }
    #[test]
    fn a_file_that_was_only_begun_does_not_make_the_one_before_it_damaged() {
        let dir = tempfile::tempdir().expect("a directory");
        let logs = dir.path().join(LOG);
        std::fs::create_dir(&logs).expect("makes");
        let write = |number: u64, bytes: &[u8]| {
            std::fs::write(logs.join(format!("{number:016x}.log")), bytes).expect("writes");
        };
        let file = sample();
        for end in [&file[..file.len() - 1], &[&file[..], &[0; 100]].concat()] {
            write(1, end);
            write(2, b"");
            let log = LostLog::read(dir.path()).expect("reads");
            assert_eq!(log.damage, None, "a kill in the midst of a rotation");
            write(2, &file);
            assert!(LostLog::read(dir.path()).expect("reads").damage.is_some());
        }
    }
}
