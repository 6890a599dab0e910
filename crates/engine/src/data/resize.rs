//! Changing a file's size and making holes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_tier::{Mirror, PAGE_BYTES, page_ceil, page_floor};
use weir_types::{ByteRange, ErrorKind, FsError, Ino, Inode, Result};

use crate::data::mirrors::Change;
use crate::data::nodes::Node;
use crate::data::write::{FILE_BYTES_MAX, Writer};

/// What `fallocate` is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallocate {
    /// Room for a range. A bucket has it always; the file grows to the range's end unless told to
    /// keep its size.
    Allocate {
        /// Leave the size as it is.
        keep_size: bool,
    },
    /// The range becomes a hole; the size stays.
    PunchHole,
    /// The range becomes zeros.
    ZeroRange {
        /// Leave the size as it is.
        keep_size: bool,
    },
}

impl Writer {
    /// Sets the size: what lies past it is gone, what is new are zeros. One metadata commit.
    pub(crate) async fn truncate(&self, ino: Ino, size: u64) -> Result<Inode> {
        self.context.check_writable()?;
        check_size(size)?;
        let node = self.nodes.get(ino);
        let _change = node.change.lock().await;
        let before = self.meta.inode(ino).await?;
        let mirror = self.tier.find(ino).map(|_| self.tier.mirror(&before)).transpose()?;
        let after = match self.meta.truncate(ino, size, self.context.now()).await {
            Ok(after) => after,
            Err(error) => {
                let change =
                    Change { range: ByteRange::new(size, u64::MAX), copied: false, since: &before };
                return Err(self.mirrors.changed_in_part(change, error).await);
            }
        };
        fail::fail_point!("engine::truncate-committed");
        if size == 0 && before.size > 0 {
            node.emptied.store(true, Ordering::Release);
        }
        // First: the tier's disk may fail, and what the journal has is void all the same.
        if let Some(journal) = &self.journal {
            journal.forget(ino, size, u64::MAX);
        }
        if let Some(mirror) = mirror {
            mirror.dropped(
                ByteRange::new(size, u64::MAX),
                Some(size),
                after.data.generation,
                false,
            )?;
            mirror.forget_pending_times(true, true)?;
            self.mirrors.changed_by_us(&mirror, before.data.generation, &after)?;
        }
        Ok(self.mirrors.merged(after))
    }

    /// Allocates, punches or zeroes a range of a regular file.
    pub(crate) async fn fallocate(
        self: &Arc<Self>,
        ino: Ino,
        mode: Fallocate,
        offset: u64,
        len: u64,
    ) -> Result<()> {
        self.context.check_writable()?;
        if len == 0 {
            return Err(FsError::new(ErrorKind::Invalid, "a range of no bytes"));
        }
        let end = offset.saturating_add(len);
        check_size(end)?;
        let node = self.nodes.get(ino);
        let mirror = self.mirrors.open_mirror(&node).await?;
        if matches!(mode, Fallocate::Allocate { .. }) {
            // Only asked: no room is kept.
            drop(self.capacity.check(&mirror, offset, len).await?);
        } else {
            self.zero(&node, &mirror, offset, end).await?;
        }
        let keep_size = match mode {
            Fallocate::Allocate { keep_size } | Fallocate::ZeroRange { keep_size } => keep_size,
            Fallocate::PunchHole => true,
        };
        if !keep_size {
            mirror.grow(end, self.context.now())?;
        }
        Ok(())
    }

    /// Makes `offset..end` zeros as far as the file goes: whole pages become a hole, the parts of
    /// pages at the edges are written.
    async fn zero(
        self: &Arc<Self>,
        node: &Node,
        mirror: &Arc<Mirror>,
        offset: u64,
        end: u64,
    ) -> Result<()> {
        let size = mirror.size();
        let end = end.min(size);
        if offset >= end {
            return Ok(());
        }
        let zeros = [0; PAGE_BYTES as usize];
        // What lies past the size is zeros already, so the last page of the file is whole.
        let (first, last) = match end == size {
            true => (page_ceil(offset), page_ceil(end)),
            false => (page_ceil(offset), page_floor(end)),
        };
        if offset < first {
            let edge = first.min(end) - offset;
            self.write_mirror(mirror, offset, &zeros[..edge as usize]).await?;
        }
        if last < end && last >= first {
            self.write_mirror(mirror, last, &zeros[..(end - last) as usize]).await?;
        }
        if first < last {
            self.punch(node, mirror, first, last).await?;
        }
        Ok(())
    }

    async fn punch(&self, node: &Node, mirror: &Mirror, start: u64, end: u64) -> Result<()> {
        let _change = node.change.lock().await;
        let since = self.meta.inode(node.ino).await?;
        let after = match self.meta.punch(node.ino, start..end, self.context.now()).await {
            Ok(after) => after,
            Err(error) => {
                let change =
                    Change { range: ByteRange { start, end }, copied: false, since: &since };
                return Err(self.mirrors.changed_in_part(change, error).await);
            }
        };
        if let Some(journal) = &self.journal {
            journal.forget(node.ino, start, end);
        }
        mirror.dropped(ByteRange::new(start, end), None, after.data.generation, false)?;
        mirror.forget_pending_times(true, true)?;
        self.mirrors.changed_by_us(mirror, since.data.generation, &after)
    }
}

fn check_size(size: u64) -> Result<()> {
    if size > FILE_BYTES_MAX {
        let text = format!("{size} bytes: the largest file is {FILE_BYTES_MAX}");
        return Err(FsError::new(ErrorKind::TooLarge, text));
    }
    Ok(())
}
