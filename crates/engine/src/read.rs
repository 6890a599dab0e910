//! Reading: from the mirror when the bytes are here, after their fetch when they are not.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use weir_object::Component;
use weir_throughput::efs::Io;
use weir_tier::{Amount, Mirror, ReadOutcome};
use weir_types::{CHUNK_BYTES, ErrorKind, FsError, Result, chunk_range};

use crate::engine::{Core, Counts, Engine};
use crate::fetch::Priority;
use crate::files::OpenFile;
use crate::records::{extent_bytes, get_all};
use crate::room::amount_for;
use crate::streams::{Ahead, Read};
use crate::throughput::Slowed;

/// Rounds of fetch and read before a reader whose pages are released under it reads past the tier.
const ROUNDS: usize = 8;

impl Engine {
    /// Reads up to `len` bytes at `offset`; fewer only at the end of the file. Bytes that are not
    /// here cost ranged GETs, shared with everybody who wants them.
    pub async fn read(&self, file: &Arc<OpenFile>, offset: u64, len: usize) -> Result<Bytes> {
        self.core.read(file, offset, len).await
    }
}

impl Core {
    /// [`Engine::read`].
    pub(crate) async fn read(
        self: &Arc<Self>,
        file: &OpenFile,
        offset: u64,
        len: usize,
    ) -> Result<Bytes> {
        let core = self;
        let size = file.mirror.size();
        let len = (len as u64).min(size.saturating_sub(offset));
        if len == 0 {
            return Ok(Bytes::new());
        }
        let missing = file.mirror.missing(offset, offset + len);
        let fetched = missing.iter().map(|(start, end)| end - start).sum();
        let tenant = file.tenant(core).await;
        core.admit(&tenant, Io::Read, len).await;
        core.read_ahead(file, (offset, len), size, fetched > 0);
        let bytes = core.read_mirror(&file.mirror, offset, len as usize).await?;
        core.meter(&tenant, Io::Read, bytes.len() as u64);
        tenant.used.bytes_fetched.fetch_add(fetched, Ordering::Relaxed);
        Counts::add(&core.counts.bytes_read, bytes.len() as u64);
        Ok(bytes)
    }

    /// Starts to fetch what this read lets expect of the next ones.
    fn read_ahead(
        self: &Arc<Self>,
        file: &OpenFile,
        (offset, len): (u64, u64),
        size: u64,
        waits: bool,
    ) {
        let most = self.settings.read_ahead_bytes.0;
        if most == 0 || self.throughput.purse.slows(Slowed::ReadAhead) {
            return;
        }
        let read = Read { offset, len, size, waits, now_ms: self.now_ms() };
        let wanted = {
            let mut streams = file.node.streams.lock();
            streams.note(read, most)
        };
        for Ahead { start, end, part_bytes } in wanted {
            let missing = file.mirror.missing(start, end);
            let bytes: u64 = missing.iter().map(|(s, e)| e - s).sum();
            // Ahead only where it pushes nothing out: room is for those who wait.
            let wanted = Amount { bytes: bytes + CHUNK_BYTES, files: 1 };
            if !missing.is_empty() && self.room_to_spare(wanted) {
                let priority = Priority::Ahead { part_bytes };
                drop(self.start_fetch(&file.mirror, &missing, priority));
            }
        }
    }

    /// Reads through the mirror, fetching what is missing.
    pub(crate) async fn read_mirror(
        self: &Arc<Self>,
        mirror: &Arc<Mirror>,
        offset: u64,
        len: usize,
    ) -> Result<Bytes> {
        let mut buffer = Vec::new();
        for _ in 0..ROUNDS {
            match mirror.read_at(offset, len, &mut buffer)? {
                ReadOutcome::Done(_) => return Ok(buffer.into()),
                ReadOutcome::Missing(missing) => {
                    self.actions.needed(mirror.ino());
                    let chunks = missing.iter().map(|(s, e)| chunk_range(*s, *e).count() as u64);
                    let wanted = amount_for(mirror, chunks.sum::<u64>() * CHUNK_BYTES);
                    if !self.make_room(wanted).await? {
                        break;
                    }
                    match self.fetch(mirror, &missing, Priority::Demand).await {
                        // The disk was full before it said so.
                        Err(error) if error.kind() == ErrorKind::NoSpace => break,
                        fetched => fetched?,
                    }
                }
            }
        }
        self.read_past_tier(mirror, offset, vec![0; len]).await
    }

    /// Reads piece by piece, from the mirror what is there and from the bucket what is not,
    /// without storing it: the tier has no room.
    async fn read_past_tier(
        &self,
        mirror: &Mirror,
        offset: u64,
        mut buffer: Vec<u8>,
    ) -> Result<Bytes> {
        self.throughput.purse.wait(Slowed::Demand).await;
        for _ in 0..ROUNDS {
            let stamp = mirror.stamp();
            let length = (buffer.len() as u64).min(mirror.size().saturating_sub(offset));
            buffer.truncate(length as usize);
            let end = offset + length;
            let missing = mirror.missing(offset, end);
            let mut at = offset;
            let mut whole = true;
            for (s, e) in missing.iter().map(|&(s, e)| (s.max(offset), e.min(end))) {
                whole &= read_exactly(mirror, offset, &mut buffer, at, s)?;
                self.read_remote(
                    mirror,
                    s,
                    &mut buffer[(s - offset) as usize..(e - offset) as usize],
                )
                .await?;
                at = e;
            }
            whole &= read_exactly(mirror, offset, &mut buffer, at, end)?;
            if whole && mirror.is_fresh(stamp, offset, end) {
                return Ok(buffer.into());
            }
        }
        let text = "the tier is full and its pages come and go faster than they can be read: \
                    give it more room with --tier-size";
        Err(FsError::new(ErrorKind::Retry, text))
    }

    /// Reads bytes of the bucket into `into`; holes are zeros.
    async fn read_remote(&self, mirror: &Mirror, start: u64, into: &mut [u8]) -> Result<()> {
        let end = start + into.len() as u64;
        into.fill(0);
        let chunks = self.seen(self.meta.chunks(mirror.ino(), chunk_range(start, end)).await)?;
        let in_file = chunks.list.iter().flat_map(|(chunk, extents)| {
            let base = chunk * CHUNK_BYTES;
            let low = start.saturating_sub(base).min(CHUNK_BYTES) as u32;
            let high = (end - base).min(CHUNK_BYTES) as u32;
            extents.iter().filter_map(move |e| Some((*chunk, e.slice(low, high)?)))
        });
        let wanted: Vec<_> = in_file.collect();
        let extents = wanted.iter().map(|(_, e)| *e);
        let most = self.settings.fetch_bytes.0;
        let demand = &self.fetcher.demand;
        let mut decoded = get_all(&self.buckets, Component::Data, extents, most, demand).await?;
        if let Some(native) = &chunks.native {
            let ino = mirror.ino();
            decoded.extend(self.get_all_native(ino, native, &wanted, most).await?);
        }
        for (chunk, extent) in wanted {
            let bug = || FsError::new(ErrorKind::Bug, "an extent reaches past its record");
            let bytes = extent_bytes(chunk, &extent, &decoded).ok_or_else(bug)?;
            let at = (chunk * CHUNK_BYTES + u64::from(extent.start) - start) as usize;
            into[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }
}

/// Reads `from..to` of the mirror into its place in the buffer; `false` if it is not all there.
fn read_exactly(
    mirror: &Mirror,
    offset: u64,
    buffer: &mut [u8],
    from: u64,
    to: u64,
) -> Result<bool> {
    if from >= to {
        return Ok(true);
    }
    let part = &mut buffer[(from - offset) as usize..(to - offset) as usize];
    let mut here = Vec::new();
    if mirror.read_at(from, part.len(), &mut here)? != ReadOutcome::Done(part.len()) {
        return Ok(false);
    }
    part.copy_from_slice(&here);
    Ok(true)
}
