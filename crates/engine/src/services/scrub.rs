//! Scrubbing: every byte that the volume needs is read from its buckets and held against its checksum, at a bounded
//! rate; what is damaged there and whole here is sent off anew, and what is nowhere is named.
//!
//! What must always hold:
//! - Nothing that was read well changes, and nothing is sent off that was not local and clean.
//! - A segment is called damaged only if the metadata still names it after it was read.
//! - How far it is, is kept with the volume: a restart, or another machine, goes on there.

mod parts;
mod repair;
mod row;

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_meta::SegmentUse;
use weir_object::Component;
use weir_segment::{Scanned, scan_records};
use weir_types::{ByteRange, ErrorKind, Result, SegmentId};

use crate::services::actions::rate::Rate;

pub(crate) use parts::ScrubParts;
use repair::{Damage, Mended};
use row::ScrubRow;
pub use row::{Lost, ScrubView};

/// Segments between two notes of how far it is.
const PAGE: usize = 64;
/// Segments read at once, where no rate is given.
const PARALLEL: usize = 4;
/// After an error, how long until it goes on.
const PAUSE: Duration = Duration::from_secs(15);

/// Reads the volume's buckets, all of them.
pub(crate) struct Scrubber {
    parts: ScrubParts,
    /// Names this mount.
    owner: String,
    state: Mutex<State>,
    /// It was begun or ended.
    changed: Notify,
}

#[derive(Default)]
struct State {
    row: ScrubRow,
    /// Why it stands still.
    trouble: Option<String>,
}

impl Scrubber {
    pub(crate) fn new(parts: ScrubParts) -> Self {
        let (owner, state) = (uuid::Uuid::new_v4().to_string(), Mutex::default());
        Self { parts, owner, state, changed: Notify::new() }
    }

    /// How far it is, or how the last one ended. One read.
    pub(crate) async fn view(&self) -> Result<ScrubView> {
        let now_ms = self.unix_ms();
        let running = self.state.lock().row.running;
        // Another machine may have written the volume since.
        let row = match running {
            true => self.state.lock().row.clone(),
            false => ScrubRow::read(&self.parts.meta).await?,
        };
        Ok(row.view(now_ms, self.state.lock().trouble.clone()))
    }

    /// Begins one, or gives the one that runs another rate. Two reads at most, and a commit.
    pub(crate) async fn begin(&self, max_bytes_per_s: Option<u64>) -> Result<ScrubView> {
        self.parts.context.check_writable()?;
        let mut row = ScrubRow::read(&self.parts.meta).await?;
        if !row.running {
            let all = self.parts.meta.segment_bytes().await?;
            row = ScrubRow::begun(&self.owner, self.unix_ms(), all.segments, all.bytes);
        }
        (row.owner, row.max_bytes_per_s) = (self.owner.clone(), max_bytes_per_s);
        row.write(&self.parts.meta).await?;
        self.state.lock().row = row;
        self.changed.notify_waiters();
        self.view().await
    }

    /// Ends the one that runs, if one does. A read and a commit.
    pub(crate) async fn end(&self) -> Result<ScrubView> {
        self.parts.context.check_writable()?;
        let mut row = ScrubRow::read(&self.parts.meta).await?;
        if row.running {
            (row.running, row.cancelled, row.ended_ms) = (false, true, self.unix_ms());
            row.write(&self.parts.meta).await?;
            self.state.lock().row = row;
            self.changed.notify_waiters();
        }
        self.view().await
    }

    async fn resume(&self) -> Result<()> {
        let mut row = ScrubRow::read(&self.parts.meta).await?;
        if row.running {
            row.owner = self.owner.clone();
            row.write(&self.parts.meta).await?;
        }
        self.state.lock().row = row;
        Ok(())
    }

    fn unix_ms(&self) -> u64 {
        (self.parts.context.now().0 / 1_000_000).max(0).cast_unsigned()
    }

    /// Reads what is behind the last note, up to the next one. `false` once all is read.
    async fn page(&self, rate: &mut Rate) -> Result<bool> {
        let ScrubRow { after, started_ms, max_bytes_per_s, .. } = self.state.lock().row.clone();
        let page = self.parts.meta.segments(after.map(SegmentId), PAGE).await?;
        let Some(last) = page.last().map(|segment| segment.id) else { return Ok(false) };
        let parallel = if max_bytes_per_s.is_some() { 1 } else { PARALLEL };
        let bytes: u64 = page.iter().map(|segment| segment.info.object_bytes).sum();
        let segments = page.len() as u64;
        let needed = self.needed(page).await?;
        let mut reading = stream::iter(needed)
            .map(|segment| async move { self.read(segment).await })
            .buffered(parallel);
        let mut damaged = Vec::new();
        while let Some((read, damage)) = reading.try_next().await? {
            damaged.extend(damage);
            if max_bytes_per_s.is_some() {
                let wait_ms = rate.take(read, self.parts.context.now_ms());
                tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            }
        }
        drop(reading);
        let mended = match damaged.is_empty() {
            true => Mended::default(),
            false => self.parts.repair(&damaged).await?,
        };
        let mut row = ScrubRow::read(&self.parts.meta).await?;
        if !row.running || row.started_ms != started_ms || row.owner != self.owner {
            // It was ended, or is another node's by now.
            self.state.lock().row = ScrubRow { running: false, ..row };
            return Ok(true);
        }
        row.after = Some(last.0);
        row.segments_done += segments;
        row.bytes_done += bytes;
        row.add(damaged.len() as u64, mended.segments, mended.lost);
        row.write(&self.parts.meta).await?;
        self.state.lock().row = row;
        Ok(true)
    }

    /// Those in which the volume or a snapshot has bytes: the collector takes the others.
    async fn needed(&self, page: Vec<SegmentUse>) -> Result<Vec<SegmentUse>> {
        let ids: Vec<_> = page.iter().map(|segment| segment.id).collect();
        let held = self.parts.meta.held(&ids).await?;
        let needed =
            page.into_iter().zip(held).filter(|(of, by)| of.live_bytes > 0 || by.is_some());
        Ok(needed.map(|(of, _)| of).collect())
    }

    /// Reads a segment. Answers how many bytes that were, and what is damaged.
    async fn read(&self, segment: SegmentUse) -> Result<(u64, Option<Damage>)> {
        let SegmentUse { id, info, .. } = segment;
        let whole = ByteRange::new(0, info.object_bytes);
        let bucket = self.parts.buckets.bucket_for(id);
        let got = bucket.get_range(Component::Check, &id.object_key(), 0..whole.end).await;
        let (ranges, why) = match got {
            Ok(bytes) => match scan_records(id, &bytes) {
                Ok(scan) => {
                    let mut why = String::new();
                    let mut ranges = Vec::new();
                    for scanned in scan {
                        if let Scanned::Skipped { start, end, error } = scanned {
                            why = error.to_string();
                            ranges.push(ByteRange::new(start, end));
                        }
                    }
                    (ranges, why)
                }
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    (vec![whole], error.to_string())
                }
                Err(error) => return Err(error),
            },
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt) => {
                (vec![whole], error.to_string())
            }
            Err(error) => return Err(error),
        };
        // The collector may have taken it meanwhile.
        let is_sound = ranges.is_empty() || !self.parts.meta.segment_known(&[id]).await?[0];
        let damage = (!is_sound).then_some(Damage { segment: id, ranges, why });
        Ok((info.object_bytes, damage))
    }
}

/// Goes on with what was begun, until the volume is another's.
pub(crate) async fn scrub_loop(scrubber: Arc<Scrubber>) {
    // What was under way goes on; among nodes it is that of another one.
    if scrubber.parts.context.together.is_none()
        && let Err(error) = scrubber.resume().await
    {
        tracing::warn!(%error, "how far the scrub is cannot be read");
    }
    loop {
        let changed = scrubber.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if !scrubber.state.lock().row.running {
            changed.await;
            continue;
        }
        let per_s = scrubber.state.lock().row.max_bytes_per_s.unwrap_or(u64::MAX);
        let mut rate = Rate::new(per_s, scrubber.parts.context.now_ms());
        let done = tokio::select! {
            done = run(&scrubber, &mut rate) => done,
            () = changed => continue,
        };
        match done {
            Err(error) if error.kind() == ErrorKind::Fenced => return,
            Err(error) => {
                tracing::warn!(%error, "the scrub stands still, and goes on in a moment");
                scrubber.state.lock().trouble = Some(error.to_string());
                tokio::time::sleep(PAUSE).await;
            }
            Ok(()) => {}
        }
    }
}

async fn run(scrubber: &Scrubber, rate: &mut Rate) -> Result<()> {
    while scrubber.page(rate).await? {
        scrubber.state.lock().trouble = None;
        fail::fail_point!("engine::scrub-noted");
        if !scrubber.state.lock().row.running {
            return Ok(());
        }
    }
    let mut row = scrubber.state.lock().row.clone();
    (row.running, row.ended_ms, row.after) = (false, scrubber.unix_ms(), None);
    row.write(&scrubber.parts.meta).await?;
    tracing::info!(
        segments = row.segments_done,
        damaged = row.damaged,
        repaired = row.repaired,
        lost = row.lost_files,
        "the scrub ended"
    );
    scrubber.state.lock().row = row;
    Ok(())
}
