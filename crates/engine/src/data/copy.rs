//! Copying between files: by sharing extents where pages allow it, byte by byte where not.

use std::sync::Arc;

use weir_meta::{Meta, ShareRange};
use weir_throughput::efs::Io;
use weir_tier::{Mirror, PAGE_BYTES, page_ceil, page_floor};
use weir_types::{ByteRange, ErrorKind, FsError, Ino, Result};

use crate::data::admission::Admission;
use crate::data::admission::areas::Tenant;
use crate::data::flush::Flusher;
use crate::data::journal::Journal;
use crate::data::mirrors::{Change, Mirrors};
use crate::data::nodes::{Node, Nodes};
use crate::data::read::Reader;
use crate::data::write::Writer;
use crate::volume::context::Context;

/// Below this, copying bytes is cheaper than flushing both files first.
const SHARE_BYTES_MIN: u64 = 1 << 20;
/// Bytes copied in one step.
const STEP_BYTES: u64 = 1 << 20;
/// Bytes that one copy moves: whoever is gone meanwhile leaves no more than that to be done.
const MOVED_BYTES_MAX: u64 = 1 << 31;

/// One side of a copy.
struct Side {
    node: Arc<Node>,
    mirror: Arc<Mirror>,
    tenant: Tenant,
}

/// Copies between files.
pub(crate) struct Copier {
    context: Arc<Context>,
    meta: Arc<Meta>,
    nodes: Arc<Nodes>,
    journal: Option<Arc<Journal>>,
    mirrors: Arc<Mirrors>,
    admission: Arc<Admission>,
    reader: Arc<Reader>,
    writer: Arc<Writer>,
    flusher: Arc<Flusher>,
}

impl Copier {
    pub(crate) fn new(
        admission: Arc<Admission>,
        reader: Arc<Reader>,
        writer: Arc<Writer>,
        flusher: Arc<Flusher>,
    ) -> Self {
        Self {
            context: writer.context.clone(),
            meta: writer.meta.clone(),
            nodes: writer.nodes.clone(),
            journal: writer.journal.clone(),
            mirrors: writer.mirrors.clone(),
            admission,
            reader,
            writer,
            flusher,
        }
    }

    /// Copies up to `len` bytes from one place to another as `client`; fewer at the end of the
    /// source, also where it is cut meanwhile, and where more than 2 GiB would have to be moved. Answers
    /// how many. Whole pages of 1 MiB and more cost no bytes, only metadata, and are not metered.
    pub(crate) async fn copy_range(
        &self,
        source: (Ino, u64),
        target: (Ino, u64),
        len: u64,
        client: u32,
    ) -> Result<u64> {
        self.context.check_writable()?;
        let from = self.side(source.0, client).await?;
        let to = self.side(target.0, client).await?;
        let len = len.min(from.mirror.size().saturating_sub(source.1));
        let overlap = source.0 == target.0 && source.1.abs_diff(target.1) < len;
        if overlap {
            return Err(FsError::new(ErrorKind::Invalid, "source and target overlap"));
        }
        if target.1.checked_add(len).is_none_or(|end| end > crate::data::write::FILE_BYTES_MAX) {
            return Err(FsError::new(ErrorKind::TooLarge, "the copy ends past the largest file"));
        }
        let _grant = self.writer.capacity.check(&to.mirror, target.1, len).await?;
        fail::fail_point!("engine::copy-measured");
        let mut done = 0;
        // Shared extents are bytes that are not here, and what is lent must stay here.
        if len >= SHARE_BYTES_MIN && !to.mirror.in_passthrough()? {
            let head = (page_ceil(target.1) - target.1).min(len);
            done = self.copy_bytes(&from, source.1, &to, target.1, head).await?;
            if done < head {
                return Ok(done);
            }
            done += self.share(&from, source.1 + done, &to, target.1 + done, len - done).await?;
        }
        let rest = (len - done).min(MOVED_BYTES_MAX);
        done += self.copy_bytes(&from, source.1 + done, &to, target.1 + done, rest).await?;
        Ok(done)
    }
}

impl Copier {
    async fn side(&self, ino: Ino, client: u32) -> Result<Side> {
        let node = self.nodes.get(ino);
        let (mirror, inode) = self.mirrors.open_mirror_of(&node).await?;
        let tenant = self.admission.tenant(inode.parent, client).await;
        Ok(Side { node, mirror, tenant })
    }

    /// Answers how many bytes it copied: fewer where the source ends.
    async fn copy_bytes(
        &self,
        from: &Side,
        source: u64,
        to: &Side,
        target: u64,
        len: u64,
    ) -> Result<u64> {
        let mut done = 0;
        while done < len {
            let step = (len - done).min(STEP_BYTES) as usize;
            self.admission.admit(&from.tenant, Io::Read, step as u64).await;
            let bytes = self.reader.read(&from.mirror, source + done, step).await?;
            if bytes.is_empty() {
                break;
            }
            let moved = bytes.len() as u64;
            self.admission.meter(&from.tenant, Io::Read, moved);
            self.admission.admit(&to.tenant, Io::Write, moved).await;
            self.writer.write_mirror(&to.mirror, target + done, &bytes).await?;
            self.admission.meter(&to.tenant, Io::Write, moved);
            done += moved;
        }
        Ok(done)
    }

    /// Lets the target use the source's extents. Answers how many bytes it did; 0 where the source
    /// is written meanwhile.
    async fn share(
        &self,
        from: &Side,
        source: u64,
        to: &Side,
        target: u64,
        len: u64,
    ) -> Result<u64> {
        if self.meta.inode(from.node.ino).await?.native.is_some() {
            return Ok(0);
        }
        // Of what is in a snapshot nothing waits to be flushed.
        let both = [to.node.ino, from.node.ino];
        let flushed = if from.node.ino.is_past() { &both[..1] } else { &both };
        self.flusher.flush_files(flushed).await?;
        let mut held = [&from.node, &to.node];
        held.sort_by_key(|n| n.ino);
        let _first = held[0].change.lock().await;
        let _second = match held[0].ino == held[1].ino {
            true => None,
            false => Some(held[1].change.lock().await),
        };
        // The last page may be shared in part only where the target ends with it.
        let to_end = target + len >= to.mirror.size();
        let len = if to_end { len } else { page_floor(len) };
        let source_changed =
            !from.mirror.dirty_ranges(page_floor(source), page_ceil(source + len)).is_empty();
        if len < PAGE_BYTES || source_changed || source + len > from.mirror.size() {
            return Ok(0);
        }
        let dst_size = to.mirror.size().max(target + len);
        let range = ShareRange {
            src: from.node.ino,
            src_offset: source,
            dst: to.node.ino,
            dst_offset: target,
            len,
            dst_size,
        };
        let since = self.meta.inode(to.node.ino).await?;
        let after = match self.meta.share(range, self.context.now()).await {
            Ok(after) => after,
            Err(error) => {
                let range = ByteRange::new(target, target + len);
                let change = Change { range, copied: true, since: &since };
                return Err(self.mirrors.changed_in_part(change, error).await);
            }
        };
        if let Some(journal) = &self.journal {
            journal.forget(to.node.ino, target, target + len);
        }
        to.mirror.dropped(
            ByteRange::new(target, target + len),
            None,
            after.data.generation,
            true,
        )?;
        to.mirror.forget_pending_times(true, true)?;
        self.mirrors.changed_by_us(&to.mirror, since.data.generation, &after)?;
        Ok(len)
    }
}
