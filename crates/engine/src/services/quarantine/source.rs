//! The bytes of a file that was set aside: in its former mirror file, or in the log.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use weir_types::{ByteRange, FsError, Result};

use super::assessed::{Assessed, Item};
use super::log::{LostPiece, files};

/// Where a file's bytes are.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// In this file, at their offsets.
    Mirror(PathBuf),
    /// In the files of a log, later pieces over earlier ones.
    Log { files: Vec<(u64, PathBuf)>, pieces: Vec<LostPiece> },
}

impl Source {
    /// That of a file of an entry.
    pub(crate) fn of(assessed: &Assessed, item: &Item) -> Result<Self> {
        if let (Some(file), Some(directory)) = (&item.kept, &assessed.entry.files) {
            return Ok(Self::Mirror(directory.join(file)));
        }
        let files = assessed.entry.log_directory().map_or(Ok(Vec::new()), files)?;
        let data = assessed.log.files.get(&item.ino);
        Ok(Self::Log { files, pieces: data.map_or_else(Vec::new, |data| data.pieces.clone()) })
    }

    /// The bytes `start..end`, all of which are here.
    pub(crate) fn read(&self, start: u64, end: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; (end - start) as usize];
        match self {
            Self::Mirror(path) => read_at(path, start, &mut bytes)?,
            Self::Log { files, pieces } => {
                for piece in pieces {
                    let (from, to) = (piece.offset.max(start), (piece.offset + piece.len).min(end));
                    let path = files.iter().find(|(number, _)| *number == piece.number);
                    if let (Some((_, path)), true) = (path, from < to) {
                        let into = &mut bytes[(from - start) as usize..(to - start) as usize];
                        read_at(path, piece.at + (from - piece.offset), into)?;
                    }
                }
            }
        }
        Ok(bytes)
    }
}

/// Fills a buffer; what is past the end of the file are zeros.
fn read_at(path: &Path, offset: u64, into: &mut [u8]) -> Result<()> {
    let at = |e| FsError::local_io(format!("read {}", path.display()), e);
    let file = File::open(path).map_err(at)?;
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(got) => done += got,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(at(e)),
        }
    }
    Ok(())
}

/// Sorted.
pub(crate) type Ranges = Vec<ByteRange>;

/// Of these sorted ranges, the first up to `most` bytes in at most `pieces` pieces cut at multiples
/// of `record`, and what is left.
pub(crate) fn first_part(
    ranges: &[ByteRange],
    most: u64,
    pieces: usize,
    record: u64,
) -> (Ranges, Ranges) {
    let (mut part, mut rest) = (Vec::new(), Vec::new());
    let mut room = most;
    for &ByteRange { start, end } in ranges {
        let mut at = start;
        while at < end && rest.is_empty() {
            let next = ((at / record + 1) * record).min(end);
            if part.len() == pieces || (next - at > room && !part.is_empty()) {
                rest.push(ByteRange::new(at, end));
                break;
            }
            room = room.saturating_sub(next - at);
            part.push(ByteRange::new(at, next));
            at = next;
        }
        if at == start && !rest.iter().any(|r| r.start == start) {
            rest.push(ByteRange { start, end });
        }
    }
    (part, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_at_records_and_together_are_all() {
        let ranges = [(10, 250), (300, 310), (400, 900)].map(ByteRange::from);
        let (part, rest) = first_part(&ranges, 1_000, 100, 100);
        assert_eq!(part[..3], [(10, 100), (100, 200), (200, 250)]);
        assert!(rest.is_empty() && part.last() == Some(&ByteRange::new(800, 900)));
        let (part, rest) = first_part(&ranges, 200, 100, 100);
        assert_eq!(part, [(10, 100), (100, 200)]);
        assert_eq!(rest, [(200, 250), (300, 310), (400, 900)]);
        let (part, rest) = first_part(&ranges, 1_000, 3, 100);
        assert_eq!(
            (part.len(), rest),
            (3, vec![ByteRange::new(300, 310), ByteRange::new(400, 900)])
        );
        let (part, rest) = first_part(&ranges, 5, 9, 100);
        assert_eq!((part, rest.len()), (vec![ByteRange::new(10, 100)], 3));
        assert_eq!(first_part(&[], 5, 9, 100), (vec![], vec![]));
    }
}
