//! Copying a range of a file by sharing its extents.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use weir_types::{
    ByteRange, CHUNK_BYTES, ChunkIndex, ErrorKind, Extent, FsError, Ino, Inode, Result, SegmentId,
    UnixTime, chunk_range,
};

use crate::codec::Seen;
use crate::data::{Row, check_size, cut_to_commit, data_changed, page_end, regular, within_chunk};
use crate::op::{Tries, Tx};
use crate::{Meta, extents, keys};

/// Chunks with data that one commit reads of each file.
const BATCH_CHUNKS: usize = 500;

/// What to copy where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareRange {
    /// The file to copy from.
    pub src: Ino,
    /// Offset of the first byte in it.
    pub src_offset: u64,
    /// The file to copy to; may be the same, where the ranges do not overlap.
    pub dst: Ino,
    /// Offset of the first byte in it.
    pub dst_offset: u64,
    /// Bytes.
    pub len: u64,
    /// The target's size as its writer knows it. Its size afterwards is this, the stored size or
    /// the end of the copy, whichever is largest.
    pub dst_size: u64,
}

impl Meta {
    /// Copies without moving a byte: the target's extents point at the source's records; holes are
    /// copied as holes. Only stored bytes are copied: flush the source before. Sets the target's
    /// mtime and ctime to `now`. Four read rounds and one commit for each 500 chunks with data,
    /// or fewer with many extents.
    pub async fn share(&self, range: ShareRange, now: UnixTime) -> Result<Inode> {
        let ends = |offset: u64| offset.saturating_add(range.len);
        check_size(range.src, ends(range.src_offset))?;
        check_size(range.dst, ends(range.dst_offset).max(range.dst_size))?;
        let apart = range.src_offset.abs_diff(range.dst_offset) >= range.len;
        if range.src == range.dst && !apart {
            let context = format!("inode {}: the ranges to copy overlap", range.src);
            return Err(FsError::new(ErrorKind::Invalid, context));
        }
        let mut rest = range;
        let mut tries = Tries::new("share a range");
        loop {
            tries.next().await?;
            let (done, inode) = match self.share_batch(rest, now).await? {
                Some(done) => done,
                None => continue,
            };
            if done == rest.len {
                return Ok(inode);
            }
            rest.src_offset += done;
            rest.dst_offset += done;
            rest.len -= done;
            tries = Tries::new("share a range");
        }
    }

    /// Copies as much from the start as one commit may; returns how many bytes. `None`: redo it.
    async fn share_batch(&self, range: ShareRange, now: UnixTime) -> Result<Option<(u64, Inode)>> {
        let past = self.past(range.src).await?;
        let src = match &past {
            Some(past) => regular(past.view.stored_inode(past.ino).await?)?,
            None => regular(self.stored_inode(range.src).await?)?,
        };
        if src.value.native.is_some() {
            let context = format!("inode {}: bytes of a native object are not shared", range.src);
            return Err(FsError::new(ErrorKind::Unsupported, context));
        }
        let dst = regular(self.stored_inode(range.dst).await?)?;
        let first = range.src_offset / CHUNK_BYTES;
        let mut from = match &past {
            Some(past) => past.view.rows(past.ino, first, BATCH_CHUNKS).await?,
            None => self.rows(range.src, first, BATCH_CHUNKS).await?,
        };
        let target = chunk_range(range.dst_offset, range.dst_offset + range.len);
        let mut onto = self.rows_over(&dst.value, target.start, target.end, BATCH_CHUNKS).await?;
        let more = cut_to_commit(&mut from, BATCH_CHUNKS);
        let from_end = page_end(&from, more, range.src_offset + range.len);
        let more = cut_to_commit(&mut onto, BATCH_CHUNKS);
        let onto_end = page_end(&onto, more, range.dst_offset + range.len);
        let len = (from_end - range.src_offset).min(onto_end - range.dst_offset);
        let range = ShareRange { len, ..range };
        let mut tx = Tx::default();
        let used = from.iter().filter(|row| row.chunk * CHUNK_BYTES < range.src_offset + len);
        match past {
            // Nothing of it changes, but it may be deleted, and then its segments go.
            Some(_) => self.check_segments(&mut tx, used).await?,
            // New rows of a file come with a change of its inode; moves of its records to another
            // segment change only the row. So what was copied hangs on both.
            None => {
                tx.check_inode(&src);
                for row in used {
                    tx.check(keys::extents(range.src, row.chunk), row.version);
                }
            }
        }
        let native = dst.value.native.is_some();
        let grown = paste(&mut tx, &range, &from, &onto, native)?;
        let inode = changed_target(dst, &range, grown, now, &mut tx)?;
        Ok(self.apply(tx).await?.then_some((len, inode)))
    }
}

impl Meta {
    /// Has a commit hang on it that the volume knows the segments of these rows, which no extent of it
    /// may use any more.
    async fn check_segments(
        &self,
        tx: &mut Tx,
        rows: impl Iterator<Item = &Row> + Send,
    ) -> Result<()> {
        let used = rows.flat_map(|row| &row.extents).filter(|extent| !extent.is_native());
        let ids: BTreeSet<SegmentId> = used.map(|extent| extent.record.segment).collect();
        let wanted: Vec<_> = ids.iter().map(|id| keys::segment(*id)).collect();
        let found = self.get(&wanted).await?;
        for (key, found) in wanted.into_iter().zip(found) {
            let Some(found) = found else {
                let context = "the snapshot that it is copied from is deleted";
                return Err(FsError::new(ErrorKind::NotFound, context));
            };
            tx.check(key, Some(found.version));
        }
        Ok(())
    }
}

fn changed_target(
    dst: Seen<Inode>,
    range: &ShareRange,
    grown: i64,
    now: UnixTime,
    tx: &mut Tx,
) -> Result<Inode> {
    tx.check_inode(&dst);
    let mut inode = dst.value;
    let end = range.dst_offset + range.len;
    inode.size = inode.size.max(end).max(range.dst_size);
    data_changed(&mut inode, grown, Some(ByteRange::new(range.dst_offset, end)), now);
    tx.export_data(&inode);
    tx.put_inode(&inode)?;
    Ok(inode)
}

/// Puts the source's extents in place of the target's; returns how the stored bytes grow.
fn paste(tx: &mut Tx, range: &ShareRange, from: &[Row], onto: &[Row], native: bool) -> Result<i64> {
    let mut copied = copied(range, from);
    let target = range.dst_offset..range.dst_offset + range.len;
    let old: BTreeMap<ChunkIndex, &Row> = onto.iter().map(|row| (row.chunk, row)).collect();
    let in_target = |chunk: &&ChunkIndex| chunk_range(target.start, target.end).contains(chunk);
    let chunks: BTreeSet<ChunkIndex> =
        old.keys().filter(in_target).chain(copied.keys()).copied().collect();
    let mut grown = 0;
    for chunk in chunks {
        let row = old.get(&chunk);
        let before = row.map_or(&[][..], |row| &row.extents);
        let (start, end) = within_chunk(chunk, &target);
        let mut after = extents::cut(before, start, end);
        for extent in copied.remove(&chunk).unwrap_or_default() {
            let row_of_use = keys::back_ref(extent.record.segment, range.dst, chunk);
            tx.put(row_of_use, Bytes::from_static(&[1]));
            after = extents::replace(&after, extent);
        }
        let key = keys::extents(range.dst, chunk);
        grown += tx.set_extents(key, row.and_then(|row| row.version), before, &after, native)?;
    }
    Ok(grown)
}

/// The source's extents as extents of the target's chunks, cut at their edges.
fn copied(range: &ShareRange, from: &[Row]) -> BTreeMap<ChunkIndex, Vec<Extent>> {
    let source = range.src_offset..range.src_offset + range.len;
    let mut copied: BTreeMap<ChunkIndex, Vec<Extent>> = BTreeMap::new();
    for row in from {
        let (start, end) = within_chunk(row.chunk, &source);
        for extent in extents::slice(&row.extents, start, end) {
            let at = row.chunk * CHUNK_BYTES + u64::from(extent.start);
            let at = at - range.src_offset + range.dst_offset;
            let to = at + u64::from(extent.len);
            for chunk in chunk_range(at, to) {
                let base = chunk * CHUNK_BYTES;
                let (from, to) = (at.max(base), to.min(base + CHUNK_BYTES));
                copied.entry(chunk).or_default().push(Extent {
                    start: (from - base) as u32,
                    len: (to - from) as u32,
                    skip: extent.skip + (from - at) as u32,
                    ..extent
                });
            }
        }
    }
    copied
}
