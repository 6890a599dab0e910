//! Reading: from the mirror when the bytes are here, after their fetch when they are not.

use std::sync::Arc;

use bytes::Bytes;
use weir_tier::{Amount, Mirror, ReadOutcome};
use weir_types::{ByteRange, CHUNK_BYTES, ErrorKind, FsError, Ino, Result, chunk_range};

use crate::data::admission::budget::{Budget, Slowed};
use crate::data::fetch::{Fetcher, Priority};
use crate::data::nodes::Node;
use crate::data::space::{Space, amount_for};
use crate::data::streams::{Ahead, Read};
use crate::data::upward::WaitedFor;
use crate::volume::context::Context;

/// Rounds of fetch and read before a reader whose pages are released under it reads past the tier.
const ROUNDS: usize = 8;

/// Reads files, whether their bytes are here or not.
pub(crate) struct Reader {
    context: Arc<Context>,
    space: Arc<Space>,
    fetcher: Arc<Fetcher>,
    budget: Arc<Budget>,
    waited_for: Arc<dyn WaitedFor>,
}

impl Reader {
    pub(crate) fn new(
        fetcher: Arc<Fetcher>,
        budget: Arc<Budget>,
        waited_for: Arc<dyn WaitedFor>,
    ) -> Self {
        Self {
            context: fetcher.context.clone(),
            space: fetcher.space.clone(),
            fetcher,
            budget,
            waited_for,
        }
    }

    /// Somebody opened the file or waits for bytes of it: hydrations bring it next.
    pub(crate) fn needed(&self, ino: Ino) {
        if self.space.is_hydrating() {
            self.waited_for.needed(ino);
        }
    }

    /// Reads through the mirror, fetching what is missing.
    pub(crate) async fn read(
        &self,
        mirror: &Arc<Mirror>,
        offset: u64,
        len: usize,
    ) -> Result<Bytes> {
        let mut buffer = Vec::new();
        match mirror.read_at(offset, len, &mut buffer)? {
            ReadOutcome::Done(_) => Ok(buffer.into()),
            ReadOutcome::Missing(missing) => {
                self.fetch_and_read(mirror, offset, len, missing).await
            }
        }
    }

    /// The same for a program that reads an open file, and what that lets expect of its next reads.
    /// Answers how many bytes had to be fetched, too. A hit looks at the residency once.
    pub(crate) async fn read_stream(
        &self,
        (node, mirror): (&Node, &Arc<Mirror>),
        offset: u64,
        len: u64,
    ) -> Result<(Bytes, u64)> {
        let mut buffer = Vec::new();
        let outcome = mirror.read_at(offset, len as usize, &mut buffer)?;
        let fetched = match &outcome {
            ReadOutcome::Done(_) => 0,
            ReadOutcome::Missing(missing) => missing.iter().map(|range| range.len()).sum(),
        };
        self.read_ahead(
            node,
            mirror,
            ByteRange::new(offset, offset.saturating_add(len)),
            fetched > 0,
        );
        let bytes = match outcome {
            ReadOutcome::Done(_) => buffer.into(),
            ReadOutcome::Missing(missing) => {
                self.fetch_and_read(mirror, offset, len as usize, missing).await?
            }
        };
        Ok((bytes, fetched))
    }

    /// Starts to fetch what this read lets expect of the next ones.
    fn read_ahead(&self, node: &Node, mirror: &Arc<Mirror>, asked: ByteRange, waits: bool) {
        let most = self.context.settings.read_ahead_bytes.0;
        if most == 0 || self.budget.slows(Slowed::ReadAhead) {
            return;
        }
        let size = mirror.size();
        let (offset, len) = (asked.start, asked.len());
        let read = Read { offset, len, size, waits, now_ms: self.context.now_ms() };
        let wanted = node.streams.lock().note(read, most);
        for Ahead { start, end, part_bytes } in wanted {
            let missing = mirror.missing(start, end);
            let bytes: u64 = missing.iter().map(|range| range.len()).sum();
            // Ahead only where it pushes nothing out: room is for those who wait.
            let wanted = Amount { bytes: bytes + CHUNK_BYTES, files: 1 };
            if !missing.is_empty() && self.space.room_to_spare(wanted) {
                let priority = Priority::Ahead { part_bytes };
                drop(self.fetcher.start_fetch(mirror, &missing, priority));
            }
        }
    }

    /// Fetches what is missing of these bytes, and reads them.
    async fn fetch_and_read(
        &self,
        mirror: &Arc<Mirror>,
        offset: u64,
        len: usize,
        mut missing: Vec<ByteRange>,
    ) -> Result<Bytes> {
        let mut buffer = Vec::new();
        for _ in 0..ROUNDS {
            self.needed(mirror.ino());
            let chunks =
                missing.iter().map(|range| chunk_range(range.start, range.end).count() as u64);
            let wanted = amount_for(mirror, chunks.sum::<u64>() * CHUNK_BYTES);
            if !self.space.make_room(wanted).await? {
                break;
            }
            match self.fetcher.fetch(mirror, &missing, Priority::Demand).await {
                // The disk was full before it said so.
                Err(error) if error.kind() == ErrorKind::NoSpace => break,
                fetched => fetched?,
            }
            match mirror.read_at(offset, len, &mut buffer)? {
                ReadOutcome::Done(_) => return Ok(buffer.into()),
                ReadOutcome::Missing(still) => missing = still,
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
        self.budget.wait(Slowed::Demand).await;
        for _ in 0..ROUNDS {
            let stamp = mirror.stamp();
            let length = (buffer.len() as u64).min(mirror.size().saturating_sub(offset));
            buffer.truncate(length as usize);
            let end = offset + length;
            let missing = mirror.missing(offset, end);
            let mut at = offset;
            let mut whole = true;
            for ByteRange { start: s, end: e } in
                missing.iter().map(|range| range.within(offset, end))
            {
                whole &= read_exactly(mirror, offset, &mut buffer, at, s)?;
                let bytes = self.fetcher.read_stored(mirror.ino(), s..e).await?;
                buffer[(s - offset) as usize..(e - offset) as usize].copy_from_slice(&bytes);
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
