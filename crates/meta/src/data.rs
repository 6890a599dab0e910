//! Where a file's bytes are: reading extents, cutting them off, punching holes.

use std::ops::Range;
use std::sync::atomic::Ordering;

use weir_types::{
    ByteRange, CHUNK_BYTES, ChunkIndex, ErrorKind, Extent, FileKind, FsError, Ino, Inode, Native,
    Result, UnixTime, chunk_range,
};

use crate::codec::{Seen, decode};
use crate::kv::{Key, Version, Versioned};
use crate::op::{COMMIT_BYTES, Tries, Tx, seen_inode};
use crate::{FILE_BYTES_MAX, Meta, extents, keys};

/// Chunks that one commit of a truncation, hole or purge changes.
pub(crate) const BATCH_CHUNKS: usize = 2_000;
/// Chunks read at once.
const PAGE_CHUNKS: usize = 1_024;
/// Up to so many chunks are asked for by key; a scan sets out for more.
pub(crate) const BY_KEY_MAX: u64 = 4;

/// The extents of one chunk as read.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) chunk: ChunkIndex,
    /// `None`: the chunk has no row, and its bytes are those of the native object.
    pub(crate) version: Option<Version>,
    pub(crate) extents: Vec<Extent>,
}

impl Row {
    fn native(native: &Native, chunk: ChunkIndex) -> Self {
        Self { chunk, version: None, extents: native.extents(chunk) }
    }

    /// Most bytes that a commit needs to take extents from the row, or to add some.
    pub(crate) fn commit_bytes(&self) -> usize {
        extents::commit_bytes(2 * self.extents.len())
    }
}

/// Where the bytes of some chunks are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunks {
    /// The object that native extents are of.
    pub native: Option<Native>,
    /// The chunks that have extents, in order.
    pub list: Vec<(ChunkIndex, Vec<Extent>)>,
}

impl Meta {
    /// The extents of those of `range`'s chunks that have any. One read round, one more for each
    /// 1,024 chunks of a long range.
    pub async fn chunks(&self, ino: Ino, range: Range<ChunkIndex>) -> Result<Chunks> {
        match self.past(ino).await? {
            // Nothing of it changes.
            Some(past) => past.view.chunks_once(past.ino, range).await,
            None => self.chunks_here(ino, range).await,
        }
    }

    async fn chunks_here(&self, ino: Ino, range: Range<ChunkIndex>) -> Result<Chunks> {
        let mut tries = Tries::new("read where bytes are");
        loop {
            tries.next().await?;
            let chunks = self.chunks_once(ino, range.clone()).await?;
            // Where files become objects and objects files, rows and inode may be of two moments.
            if !self.has_links.load(Ordering::Acquire)
                || self.native_of(ino).await? == chunks.native
            {
                return Ok(chunks);
            }
        }
    }

    async fn native_of(&self, ino: Ino) -> Result<Option<Native>> {
        let found = self.get(&[keys::inode(ino)]).await?;
        Ok(seen_inode(ino, found[0].as_ref())?.and_then(|seen| seen.value.native))
    }

    async fn chunks_once(&self, ino: Ino, range: Range<ChunkIndex>) -> Result<Chunks> {
        let few = range.end.saturating_sub(range.start) <= BY_KEY_MAX;
        let by_key = if few { range.clone() } else { 0..0 };
        let mut wanted = vec![keys::inode(ino)];
        wanted.extend(by_key.clone().map(|chunk| keys::extents(ino, chunk)));
        let found = self.get(&wanted).await?;
        let native = seen_inode(ino, found[0].as_ref())?.and_then(|seen| seen.value.native);
        let rows = match few {
            true => {
                let found = wanted.iter().zip(&found).skip(1);
                let rows = found.filter_map(|(key, found)| Some(decode_row(key, found.as_ref()?)));
                rows.collect::<Result<Vec<_>>>()?
            }
            false => self.rows_in(ino, range.clone()).await?,
        };
        let rows = match &native {
            Some(native) => with_native(native, rows, range),
            None => rows,
        };
        let list = rows.into_iter().filter(|row| !row.extents.is_empty());
        Ok(Chunks { list: list.map(|row| (row.chunk, row.extents)).collect(), native })
    }

    /// All rows of a range of chunks.
    async fn rows_in(&self, ino: Ino, range: Range<ChunkIndex>) -> Result<Vec<Row>> {
        let mut all = Vec::new();
        let mut next = range.start;
        while next < range.end {
            let limit = PAGE_CHUNKS.min(usize::try_from(range.end - next).unwrap_or(PAGE_CHUNKS));
            let page = self.rows(ino, next, limit).await?;
            let full = page.len() == limit;
            next = page.last().map_or(range.end, |row| row.chunk + 1);
            all.extend(page.into_iter().filter(|row| row.chunk < range.end));
            if !full {
                break;
            }
        }
        Ok(all)
    }

    /// The first `limit` chunks with bytes from chunk `from` on, those of the native object below
    /// chunk `until` among them.
    pub(crate) async fn rows_over(
        &self,
        inode: &Inode,
        from: ChunkIndex,
        until: ChunkIndex,
        limit: usize,
    ) -> Result<Vec<Row>> {
        let rows = self.rows(inode.ino, from, limit).await?;
        let Some(native) = &inode.native else { return Ok(rows) };
        let known_to = match rows.last() {
            Some(last) if rows.len() == limit => last.chunk + 1,
            _ => until,
        };
        let most = from.saturating_add(limit as u64);
        let mut rows = with_native(native, rows, from..known_to.min(until).min(most));
        rows.truncate(limit);
        Ok(rows)
    }

    /// The first `limit` chunks with extents from chunk `from` on.
    pub(crate) async fn rows(&self, ino: Ino, from: ChunkIndex, limit: usize) -> Result<Vec<Row>> {
        let after = from.checked_sub(1).map(|before| keys::extents(ino, before));
        let page = self.kv.scan(&keys::extents_of(ino), after.as_deref(), limit).await?;
        page.iter().map(|(key, found)| decode_row(key, found)).collect()
    }

    /// The first `limit` ranges of the file that extents cover in chunks of `within`,
    /// adjacent ones as one, the first cut at its start; the last may reach past its end. One read
    /// round for each 1,024 chunks that are looked at.
    pub async fn stored_ranges(
        &self,
        ino: Ino,
        within: Range<u64>,
        limit: usize,
    ) -> Result<Vec<ByteRange>> {
        match self.past(ino).await? {
            Some(past) => past.view.stored_ranges_here(past.ino, within, limit).await,
            None => self.stored_ranges_here(ino, within, limit).await,
        }
    }

    async fn stored_ranges_here(
        &self,
        ino: Ino,
        within: Range<u64>,
        limit: usize,
    ) -> Result<Vec<ByteRange>> {
        let (start, last_chunk) = (within.start, within.end.div_ceil(CHUNK_BYTES));
        let mut ranges: Vec<ByteRange> = Vec::new();
        let mut next = start / CHUNK_BYTES;
        // Holes within a native object are not looked for: calling them data is allowed.
        if let Some(native) = self.stored_inode(ino).await?.value.native.filter(|n| start < n.end) {
            ranges.push(ByteRange::new(start, native.end));
            next = native.end.div_ceil(CHUNK_BYTES);
        }
        loop {
            let left = usize::try_from(last_chunk.saturating_sub(next)).unwrap_or(PAGE_CHUNKS);
            if left == 0 {
                return Ok(ranges);
            }
            let most = left.min(PAGE_CHUNKS);
            let page = self.rows(ino, next, most).await?;
            for row in page.iter().filter(|row| row.chunk < last_chunk) {
                for extent in &row.extents {
                    let base = row.chunk * CHUNK_BYTES;
                    let from = (base + u64::from(extent.start)).max(start);
                    let to = base + u64::from(extent.end());
                    let full = ranges.len() == limit;
                    match ranges.last_mut() {
                        _ if from >= to => {}
                        Some(last) if last.end == from => last.end = to,
                        _ if full => return Ok(ranges),
                        _ => ranges.push(ByteRange::new(from, to)),
                    }
                }
            }
            match page.last() {
                Some(last) if page.len() == most => next = last.chunk + 1,
                _ => return Ok(ranges),
            }
        }
    }

    /// Sets the size; what lies past it is gone. Sets mtime and ctime to `now`. Cutting more than
    /// about 2,000 chunks, or fewer with many extents, takes several commits, each by itself a
    /// truncation to a smaller size.
    /// Two read rounds and one commit for each.
    pub async fn truncate(&self, ino: Ino, size: u64, now: UnixTime) -> Result<Inode> {
        check_size(ino, size)?;
        regular(self.stored_inode(ino).await?)?;
        let mut stops = self.stops_past(ino, size).await?;
        loop {
            // The first stop is the wanted size itself, so the last one cut to.
            let last = stops.len() <= 1;
            let target = if last { size } else { stops.pop().unwrap_or(size) };
            let inode = self.truncate_batch(ino, target, last, now).await?;
            if last {
                return Ok(inode);
            }
        }
    }

    /// Where a truncation to `size` stops on its way: before every so many chunks with data.
    async fn stops_past(&self, ino: Ino, size: u64) -> Result<Vec<u64>> {
        let mut stops = Vec::new();
        let mut next = size / CHUNK_BYTES;
        loop {
            let mut page = self.rows(ino, next, BATCH_CHUNKS).await?;
            let full = cut_to_commit(&mut page, BATCH_CHUNKS);
            let Some(last) = page.last() else {
                return Ok(stops);
            };
            stops.push((page[0].chunk * CHUNK_BYTES).max(size));
            if !full {
                return Ok(stops);
            }
            next = last.chunk + 1;
        }
    }

    /// Truncates in one commit, however many chunks that cuts. A stop on the way (not `last`) never
    /// makes the file larger, should somebody else have cut it meanwhile.
    async fn truncate_batch(
        &self,
        ino: Ino,
        size: u64,
        last: bool,
        now: UnixTime,
    ) -> Result<Inode> {
        let mut tries = Tries::new("truncate");
        loop {
            tries.next().await?;
            let seen = regular(self.stored_inode(ino).await?)?;
            let mut tx = Tx::default();
            let mut grown = 0;
            let mut next = size / CHUNK_BYTES;
            loop {
                let page = self.rows(ino, next, BATCH_CHUNKS).await?;
                for row in &page {
                    // Where the chunk goes on below, an empty list says that the native object has
                    // nothing there; past the end nobody asks.
                    let below = seen.value.native.is_some() && row.chunk * CHUNK_BYTES < size;
                    grown += cut_row(&mut tx, ino, row, size..u64::MAX, below)?;
                    if row.extents.is_empty() && !below {
                        tx.check(keys::extents(ino, row.chunk), row.version);
                        tx.delete(keys::extents(ino, row.chunk));
                    }
                }
                match page.last() {
                    Some(last) if page.len() == BATCH_CHUNKS => next = last.chunk + 1,
                    _ => break,
                }
            }
            tx.check_inode(&seen);
            let mut inode = seen.value;
            // From the new size on, even when that is past the old one: a writer's local bytes may
            // reach further than the size known here, and are kept up to the new size.
            let dropped = ByteRange::new(size, u64::MAX);
            inode.size = if last { size } else { size.min(inode.size) };
            if let Some(native) = &mut inode.native {
                native.end = native.end.min(size);
            }
            data_changed(&mut inode, grown, Some(dropped), now);
            tx.export_data(&inode);
            tx.put_inode(&inode)?;
            if self.apply(tx).await? {
                return Ok(inode);
            }
        }
    }

    /// Makes the bytes `range` a hole; the size stays. Sets mtime and ctime to `now`. Two read
    /// rounds and one commit for each 2,000 chunks with data, or fewer with many extents.
    pub async fn punch(&self, ino: Ino, range: Range<u64>, now: UnixTime) -> Result<Inode> {
        let mut start = range.start;
        let mut tries = Tries::new("punch a hole");
        loop {
            tries.next().await?;
            let seen = regular(self.stored_inode(ino).await?)?;
            if start >= range.end {
                return Ok(seen.value);
            }
            let chunks = chunk_range(start, range.end);
            let mut page =
                self.rows_over(&seen.value, chunks.start, chunks.end, BATCH_CHUNKS).await?;
            let full = cut_to_commit(&mut page, BATCH_CHUNKS);
            let end = page_end(&page, full, range.end);
            let is_native = seen.value.native.is_some();
            let mut tx = Tx::default();
            let mut grown = 0;
            for row in &page {
                grown += cut_row(&mut tx, ino, row, start..end, is_native)?;
            }
            tx.check_inode(&seen);
            let mut inode = seen.value;
            data_changed(&mut inode, grown, Some(ByteRange { start, end }), now);
            tx.export_data(&inode);
            tx.put_inode(&inode)?;
            if self.apply(tx).await? {
                if end == range.end {
                    return Ok(inode);
                }
                start = end;
                tries = Tries::new("punch a hole");
            }
        }
    }
}

pub(crate) fn decode_row(key: &Key, found: &Versioned) -> Result<Row> {
    let chunk = keys::parse_chunk(key).ok_or_else(|| {
        let context = format!("metadata key {} is too short; run a check", key.escape_ascii());
        FsError::new(ErrorKind::Corrupt, context)
    })?;
    Ok(Row { chunk, version: Some(found.version), extents: decode(key, &found.value)? })
}

/// The rows with those of the native object between them, as far as `range` goes.
fn with_native(native: &Native, rows: Vec<Row>, range: Range<ChunkIndex>) -> Vec<Row> {
    let end = range.end.min(native.end.div_ceil(CHUNK_BYTES));
    let mut all = Vec::with_capacity(rows.len());
    let mut next = range.start;
    for row in rows {
        all.extend((next..row.chunk.min(end)).map(|chunk| Row::native(native, chunk)));
        next = next.max(row.chunk + 1);
        all.push(row);
    }
    all.extend((next..end.max(next)).map(|chunk| Row::native(native, chunk)));
    all
}

/// Leaves of a page that was read with this limit as many rows as one commit may change, at least
/// two. Answers whether there may be more rows than it has.
pub(crate) fn cut_to_commit(page: &mut Vec<Row>, limit: usize) -> bool {
    let full = page.len() == limit;
    let mut bytes = 0;
    let fits = page.iter().take_while(|row| {
        bytes += row.commit_bytes();
        bytes <= COMMIT_BYTES
    });
    let fits = fits.count().max(2);
    let cut = fits < page.len();
    page.truncate(fits);
    full || cut
}

/// Up to which byte a page of rows tells all there is: `end`, or, where there may be more, the start
/// of its last chunk. A page of two rows or more so always reaches past its own first chunk.
pub(crate) fn page_end(page: &[Row], more: bool, end: u64) -> u64 {
    match page.last() {
        Some(last) if more => end.min(last.chunk * CHUNK_BYTES),
        _ => end,
    }
}

/// `range` of the file as offsets within the chunk; empty where it does not touch it.
pub(crate) fn within_chunk(chunk: ChunkIndex, range: &Range<u64>) -> (u32, u32) {
    let base = chunk * CHUNK_BYTES;
    let clip = |at: u64| at.saturating_sub(base).min(CHUNK_BYTES) as u32;
    (clip(range.start), clip(range.end))
}

/// Removes the bytes `range` of the file from one chunk; returns how the stored bytes grow.
fn cut_row(tx: &mut Tx, ino: Ino, row: &Row, range: Range<u64>, native: bool) -> Result<i64> {
    let (start, end) = within_chunk(row.chunk, &range);
    let after = extents::cut(&row.extents, start, end);
    tx.set_extents(keys::extents(ino, row.chunk), row.version, &row.extents, &after, native)
}

/// Notes a change of the extents in the inode.
pub(crate) fn data_changed(
    inode: &mut Inode,
    grown: i64,
    dropped: Option<ByteRange>,
    now: UnixTime,
) {
    inode.stored_bytes = inode.stored_bytes.saturating_add_signed(grown);
    inode.data.generation += 1;
    inode.data.dropped = dropped;
    inode.mtime = now;
    inode.ctime = now;
    changed(inode);
}

/// The file is not its native object any more, if it was.
pub(crate) fn changed(inode: &mut Inode) {
    if let Some(native) = &mut inode.native {
        native.changed = true;
    }
}

pub(crate) fn regular(seen: Seen<Inode>) -> Result<Seen<Inode>> {
    let (kind, why) = match seen.value.kind {
        FileKind::Regular => return Ok(seen),
        FileKind::Directory => (ErrorKind::IsDirectory, "is a directory"),
        _ => (ErrorKind::Invalid, "is no regular file"),
    };
    Err(FsError::new(kind, format!("inode {} {why}: it holds no data", seen.value.ino)))
}

pub(crate) fn check_size(ino: Ino, size: u64) -> Result<()> {
    if size <= FILE_BYTES_MAX {
        return Ok(());
    }
    let context = format!("inode {ino}: {size} bytes is past the largest file, {FILE_BYTES_MAX}");
    Err(FsError::new(ErrorKind::TooLarge, context))
}

/// The chunk that holds all of `start..end`, if one does.
pub(crate) fn only_chunk(start: u64, end: u64) -> Option<ChunkIndex> {
    let chunks = chunk_range(start, end);
    (chunks.end == chunks.start + 1).then_some(chunks.start)
}
