//! Putting flushed data into the metadata: many small files in one commit.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::{
    ByteRange, CHUNK_BYTES, ChunkIndex, ErrorKind, Extent, FsError, Ino, Inode, RecordRef, Result,
    SegmentId, UnixTime,
};

use crate::codec::{Seen, decode_seen};
use crate::data::{changed, check_size, only_chunk, regular, within_chunk};
use crate::kv::{Key, Version};
use crate::op::{COMMIT_BYTES, Tries, Tx, seen_inode};
use crate::{Meta, SegmentInfo, extents, keys};

/// Pieces and files at which a commit is full. An entry is never split, so one with more pieces
/// goes over it.
const COMMIT_KEYS: usize = 4_000;

/// Chunks that one [`FileFlush`] may touch, or it could need more than a commit can hold: a chunk of
/// fragments has 256 extents before and after. More of a file goes in several entries.
pub const FLUSH_CHUNKS_MAX: usize = 256;

/// A record that now holds some bytes of a file, from the record's first byte on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Offset in the file of the first byte. The piece must not cross a chunk's edge.
    pub offset: u64,
    /// The record.
    pub record: RecordRef,
    /// How many of the record's bytes are meant; at most `record.raw_bytes`.
    pub len: u32,
}

/// Flushed bytes of one file, in at most [`FLUSH_CHUNKS_MAX`] chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileFlush {
    /// The file.
    pub ino: Ino,
    /// What is stored where. Later pieces win over earlier ones. Bytes past the size are dropped.
    pub pieces: Vec<Piece>,
    /// The file's size from now on, exactly. Where that is less than the volume has, the file is
    /// truncated to it first. `None` only grows it as far as the pieces reach.
    pub size: Option<u64>,
    /// Others change the file, too: of which generation it was to whoever flushes it. If it is of that one
    /// still, the size only grows it; else the pieces alone do.
    pub since: Option<u64>,
    /// Last change of the data; `None` leaves it.
    pub mtime: Option<UnixTime>,
    /// Last change of the inode; `None` leaves it.
    pub ctime: Option<UnixTime>,
    /// The byte range whose earlier local bytes the pieces make void: they did not come from the
    /// mirror file. `None` for a flush of it, which changes no byte.
    pub replaced: Option<ByteRange>,
    /// These are all bytes of the file: the write lease on it ends with it.
    pub whole: bool,
}

/// Segments that are in the bucket, and the files whose bytes they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlushCommit {
    /// The new segments.
    pub segments: Vec<(SegmentId, SegmentInfo)>,
    /// The files. One that needs several entries has them one behind the other, and only the last
    /// one says size and times.
    pub files: Vec<FileFlush>,
}

/// What a commit made of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// The inode after it.
    pub inode: Inode,
    /// Its generation before.
    pub before: u64,
}

/// The extents of one chunk while a commit is put together.
struct ChunkState {
    key: Key,
    version: Option<Version>,
    before: Vec<Extent>,
    after: Vec<Extent>,
}

/// All that one commit reads and changes.
struct Part {
    inodes: BTreeMap<Ino, Option<Seen<Inode>>>,
    /// Their generations as they were read.
    generations: BTreeMap<Ino, u64>,
    chunks: BTreeMap<(Ino, ChunkIndex), ChunkState>,
}

impl Meta {
    /// [`Meta::commit_flush_each`], answering each entry's inode after it.
    pub async fn commit_flush(&self, flush: FlushCommit) -> Result<Vec<(Ino, Option<Inode>)>> {
        let mut done = Vec::with_capacity(flush.files.len());
        let each = |file: &FileFlush, flushed: Option<Flushed>| {
            done.push((file.ino, flushed.map(|flushed| flushed.inode)));
            Ok(())
        };
        self.commit_flush_each(&flush, each).await?;
        Ok(done)
    }

    /// Makes stored bytes part of their files: each entry whole in one commit, many sharing one
    /// (cut at about 4,000 pieces or 8 MiB). After each commit `each` is told of its entries, in
    /// order, with what became of it, or `None` for a file that was purged meanwhile; so an error
    /// leaves done what was told. One read round and one commit for each part.
    pub async fn commit_flush_each(
        &self,
        flush: &FlushCommit,
        mut each: impl FnMut(&FileFlush, Option<Flushed>) -> Result<()> + Send,
    ) -> Result<()> {
        flush.files.iter().try_for_each(check_file)?;
        let mut rest = flush.files.as_slice();
        loop {
            let done = self.flush_part(&flush.segments, &rest[..part_len(rest)]).await?;
            let (committed, after) = rest.split_at(done.len());
            committed.iter().zip(done).try_for_each(|(file, inode)| each(file, inode))?;
            rest = after;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    /// Commits together the first of these files, as many as fit; answers the inode after for each.
    /// The segments go with every part: putting them again changes nothing, and so none can have
    /// been forgotten between two parts.
    async fn flush_part(
        &self,
        segments: &[(SegmentId, SegmentInfo)],
        files: &[FileFlush],
    ) -> Result<Vec<Option<Flushed>>> {
        let mut tries = Tries::new("commit a flush");
        loop {
            tries.next().await?;
            let mut part = self.read_part(files).await?;
            if self.shrink_first(&part, files).await? {
                continue;
            }
            let mut bytes = 0;
            let fits = files.iter().take_while(|file| {
                let room = bytes < COMMIT_BYTES;
                bytes += if room { part.add(file) } else { 0 };
                room
            });
            let files = &files[..fits.count()];
            let flushed: BTreeSet<Ino> = files.iter().map(|file| file.ino).collect();
            part.inodes.retain(|ino, _| flushed.contains(ino));
            let mut tx = Tx::default();
            tx.put_segments(segments)?;
            part.finish(&mut tx)?;
            files.iter().filter(|file| file.whole).for_each(|file| tx.is_whole(file.ino));
            if self.apply(tx).await? {
                return Ok(files.iter().map(|file| part.flushed(file.ino)).collect());
            }
        }
    }

    /// Makes stored bytes the end of a file, if that is at `end` still; `None`, and nothing is changed, if
    /// it is elsewhere, or the file was purged. One read round and one commit.
    pub async fn append(
        &self,
        segment: (SegmentId, SegmentInfo),
        file: &FileFlush,
        end: u64,
    ) -> Result<Option<Flushed>> {
        check_file(file)?;
        let mut tries = Tries::new("append to a file");
        loop {
            tries.next().await?;
            let mut part = self.read_part(std::slice::from_ref(file)).await?;
            let size = part.inodes.get(&file.ino).and_then(Option::as_ref).map(|s| s.value.size);
            if size != Some(end) {
                return Ok(None);
            }
            part.add(file);
            let mut tx = Tx::default();
            tx.put_segments(std::slice::from_ref(&segment))?;
            part.finish(&mut tx)?;
            if self.apply(tx).await? {
                return Ok(part.flushed(file.ino));
            }
        }
    }

    async fn read_part(&self, files: &[FileFlush]) -> Result<Part> {
        let inos: BTreeSet<Ino> = files.iter().map(|file| file.ino).collect();
        let chunks: BTreeSet<_> = files.iter().flat_map(chunks_of).collect();
        let mut wanted: Vec<_> = inos.iter().map(|ino| keys::inode(*ino)).collect();
        wanted.extend(chunks.iter().map(|(ino, chunk)| keys::extents(*ino, *chunk)));
        let found = self.get(&wanted).await?;
        let (found_inodes, found_chunks) = found.split_at(inos.len());
        let mut part =
            Part { inodes: BTreeMap::new(), generations: BTreeMap::new(), chunks: BTreeMap::new() };
        for (ino, found) in inos.into_iter().zip(found_inodes) {
            let seen = seen_inode(ino, found.as_ref())?.map(regular).transpose()?;
            part.generations.extend(seen.as_ref().map(|seen| (ino, seen.value.data.generation)));
            part.inodes.insert(ino, seen);
        }
        let chunk_keys = wanted.into_iter().skip(part.inodes.len());
        for ((at, key), found) in chunks.into_iter().zip(chunk_keys).zip(found_chunks) {
            let seen: Option<Seen<Vec<Extent>>> = decode_seen(&key, found.as_ref())?;
            let (version, before) = match seen {
                Some(seen) => (Some(seen.version), seen.value),
                None => (None, part.native_extents(at)),
            };
            let after = before.clone();
            part.chunks.insert(at, ChunkState { key, version, before, after });
        }
        Ok(part)
    }

    /// Truncates the files whose size becomes less, so that nothing is left past their end.
    /// `true`: there were such, read again.
    async fn shrink_first(&self, part: &Part, files: &[FileFlush]) -> Result<bool> {
        let mut any = false;
        for file in files {
            let Some(Some(seen)) = part.inodes.get(&file.ino) else {
                continue;
            };
            let shrinks = |size: &u64| file.since.is_none() && *size < seen.value.size;
            let Some(size) = file.size.filter(shrinks) else {
                continue;
            };
            self.truncate(file.ino, size, file.mtime.unwrap_or(seen.value.mtime)).await?;
            any = true;
        }
        Ok(any)
    }
}

impl Part {
    /// What the commit made of a file, if it is there.
    fn flushed(&self, ino: Ino) -> Option<Flushed> {
        let seen = self.inodes.get(&ino).and_then(Option::as_ref)?;
        Some(Flushed { inode: seen.value.clone(), before: *self.generations.get(&ino)? })
    }

    /// What a chunk without a row holds.
    fn native_extents(&self, (ino, chunk): (Ino, ChunkIndex)) -> Vec<Extent> {
        let inode = self.inodes.get(&ino).and_then(Option::as_ref).map(|seen| &seen.value);
        inode.and_then(|i| i.native.as_ref()).map_or_else(Vec::new, |n| n.extents(chunk))
    }

    /// Takes one file's pieces and attributes over, if it is still there. Answers how many bytes
    /// of a commit that takes at most.
    fn add(&mut self, file: &FileFlush) -> usize {
        let before = self.generations.get(&file.ino).copied();
        let Some(Some(seen)) = self.inodes.get_mut(&file.ino) else {
            return 0;
        };
        let inode = &mut seen.value;
        let end = file.pieces.iter().map(|piece| piece.offset + u64::from(piece.len)).max();
        let reached = inode.size.max(end.unwrap_or(0));
        let size = match (file.size, file.since) {
            (Some(size), None) => size,
            (Some(size), since) if since == before => reached.max(size),
            _ => reached,
        };
        if size < inode.size {
            // The stored size is no larger; an earlier entry of the same file made it so.
            for ((_, chunk), state) in self.chunks.range_mut((file.ino, 0)..=(file.ino, u64::MAX)) {
                let (start, end) = within_chunk(*chunk, &(size..u64::MAX));
                state.after = extents::cut(&state.after, start, end);
            }
        }
        let resized = inode.size != size;
        inode.size = size;
        if let Some(native) = &mut inode.native {
            native.end = native.end.min(size);
        }
        inode.mtime = file.mtime.unwrap_or(inode.mtime);
        // A chmod or link since the write is the later change.
        inode.ctime = file.ctime.map_or(inode.ctime, |ctime| ctime.max(inode.ctime));
        let mut stored = false;
        for piece in &file.pieces {
            // Never leave bytes past the end: a later growth of the file would show them.
            let room = inode.size.saturating_sub(piece.offset);
            let len = u64::from(piece.len).min(room) as u32;
            let at = (file.ino, piece.offset / CHUNK_BYTES);
            let Some(chunk) = self.chunks.get_mut(&at).filter(|_| len > 0) else {
                continue;
            };
            let start = (piece.offset % CHUNK_BYTES) as u32;
            let extent = Extent { start, len, record: piece.record, skip: 0 };
            chunk.after = extents::replace(&chunk.after, extent);
            stored = true;
        }
        if stored {
            inode.data.generation += 1;
            inode.data.dropped = file.replaced;
        }
        if stored || resized {
            changed(inode);
        }
        let rows = chunks_of(file).into_iter().filter_map(|at| self.chunks.get(&at));
        rows.map(|row| extents::commit_bytes(row.before.len() + row.after.len())).sum()
    }

    fn finish(&mut self, tx: &mut Tx) -> Result<()> {
        self.inodes.values().flatten().for_each(|seen| tx.check_inode(seen));
        for ((ino, _), chunk) in &self.chunks {
            let key = chunk.key.clone();
            let Some(Some(seen)) = self.inodes.get_mut(ino) else { continue };
            let inode = &mut seen.value;
            let native = inode.native.is_some();
            let grown = tx.set_extents(key, chunk.version, &chunk.before, &chunk.after, native)?;
            inode.stored_bytes = inode.stored_bytes.saturating_add_signed(grown);
        }
        for seen in self.inodes.values().flatten() {
            tx.export_data(&seen.value);
            tx.put_inode(&seen.value)?;
        }
        Ok(())
    }
}

fn chunks_of(file: &FileFlush) -> BTreeSet<(Ino, ChunkIndex)> {
    file.pieces.iter().map(|piece| (file.ino, piece.offset / CHUNK_BYTES)).collect()
}

fn check_file(file: &FileFlush) -> Result<()> {
    check_size(file.ino, file.size.unwrap_or(0))?;
    let chunks = chunks_of(file).len();
    if chunks > FLUSH_CHUNKS_MAX {
        let (ino, most) = (file.ino, FLUSH_CHUNKS_MAX);
        let context = format!("inode {ino}: {chunks} chunks in one entry of a flush, over {most}");
        return Err(FsError::new(ErrorKind::Invalid, context));
    }
    for piece in &file.pieces {
        let end = piece.offset.saturating_add(u64::from(piece.len));
        check_size(file.ino, end)?;
        if piece.len > piece.record.raw_bytes || only_chunk(piece.offset, end).is_none() {
            let context = format!(
                "inode {}: {} bytes at {} lie not in one chunk or not in their record of {}",
                file.ino, piece.len, piece.offset, piece.record.raw_bytes
            );
            return Err(FsError::new(ErrorKind::Invalid, context));
        }
    }
    Ok(())
}

/// How many of the first files one commit may take; at least one, if there is one.
fn part_len(files: &[FileFlush]) -> usize {
    let mut weight = 0;
    let fits = |file: &&FileFlush| {
        weight += 1 + file.pieces.len();
        weight <= COMMIT_KEYS
    };
    files.iter().take_while(fits).count().max(1).min(files.len())
}
