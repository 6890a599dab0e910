//! Several machines of which one serves a volume while the others wait until it is gone.
//!
//! Who has the volume says every [`BEAT_MS`] that it lives, in an object of its own, and looks then whether
//! `writer.json` still names it. It may answer clients for [`ANSWERS_MS`] from the start of a beat that did both.
//! Who waits looks as often: one whose beat was the same over [`SILENT_LOOKS`] looks that were answered answers
//! nobody any more, and is taken for gone. Should it beat once more while the volume is being taken, who takes it
//! waits until that is over, too.
//!
//! The metadata's fencing protects the volume; this keeps clients from reading what another one has changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use weir_object::{Bucket, Component, StripeSet};
use weir_types::{ErrorKind, FsError, Result};

use super::claim::{read_lease, shown_of};
use super::fence::Fence;
use super::format::BEAT_KEY;
use super::options::MountOptions;
use super::turn::{Beat, Turn};

/// How often who has the volume says so, in milliseconds. Also how often others look.
const BEAT_MS: u64 = 2_000;
/// How long it answers after the start of a beat, in milliseconds.
const ANSWERS_MS: u64 = 6_000;
/// Looks over which a beat is the same of one that is gone.
const SILENT_LOOKS: u32 = 5;
const _: () = assert!((SILENT_LOOKS as u64 - 1) * BEAT_MS > ANSWERS_MS);

async fn read_beat(bucket: &Bucket) -> Result<Option<Beat>> {
    match bucket.get(Component::Volume, BEAT_KEY).await {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Time since the machine was started, in which it slept, too.
fn now_ms() -> u64 {
    let time = Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default();
    time.as_millis() as u64
}

/// The beats of a mount that others wait for.
pub(crate) struct Beats {
    buckets: StripeSet,
    id: String,
    count: AtomicU64,
    /// When the last one began that was good.
    last_ms: AtomicU64,
}

impl Beats {
    /// As [`Beats::begin`], where others wait.
    pub(crate) async fn begin_if(
        turn: Option<&Turn>,
        buckets: &StripeSet,
        id: &str,
    ) -> Result<Option<Arc<Self>>> {
        match turn {
            Some(turn) => Self::begin(buckets.clone(), id, turn).await.map(Some),
            None => Ok(None),
        }
    }

    /// Begins, once `writer.json` names this mount: it may answer clients when this returns. Two PUTs and two
    /// GETs at most; waits for as long as the one before may still answer.
    async fn begin(buckets: StripeSet, id: &str, turn: &Turn) -> Result<Arc<Self>> {
        if let Some(silent) = &turn.silent
            && read_beat(buckets.first()).await?.is_some_and(|now| now != *silent)
        {
            tracing::warn!(
                "who had the volume came back at the last moment: waiting until it knows"
            );
            tokio::time::sleep(Duration::from_millis(ANSWERS_MS)).await;
        }
        let (count, last_ms) = (AtomicU64::new(0), AtomicU64::new(0));
        let beats = Self { buckets, id: id.to_owned(), count, last_ms };
        match beats.beat().await? {
            true => Ok(Arc::new(beats)),
            false => {
                let text = "another one took the volume at the same time: try again";
                Err(FsError::new(ErrorKind::Fenced, text))
            }
        }
    }

    /// Whether nobody else answers clients.
    pub(crate) fn may_answer(&self) -> bool {
        now_ms().saturating_sub(self.last_ms.load(Ordering::Acquire)) < ANSWERS_MS
    }

    /// One beat; answers whether the volume is still this mount's. One PUT, one GET.
    async fn beat(&self) -> Result<bool> {
        let (began_ms, first) = (now_ms(), self.buckets.first());
        let beat = self.count.fetch_add(1, Ordering::Relaxed);
        let text = serde_json::to_vec(&Beat { id: self.id.clone(), beat })
            .map_err(|e| FsError::new(ErrorKind::Bug, "encode a beat").with_source(e))?;
        first.replace(Component::Volume, BEAT_KEY, Bytes::from(text)).await?;
        // Behind it: who takes the volume after this sees the beat.
        let is_ours = read_lease(first).await?.is_some_and(|lease| lease.id == self.id);
        if is_ours {
            self.last_ms.fetch_max(began_ms, Ordering::AcqRel);
        }
        Ok(is_ours)
    }
}

/// Beats until the volume is somebody else's.
pub(crate) async fn standby_loop(beats: Arc<Beats>, fence: Arc<Fence>) {
    let limit = Duration::from_millis(ANSWERS_MS);
    while !fence.is_up() {
        tokio::time::sleep(Duration::from_millis(BEAT_MS)).await;
        match tokio::time::timeout(limit, beats.beat()).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => fence.raise(),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the others were not told that this one lives")
            }
            Err(_) => {
                tracing::warn!("the others were not told that this one lives: it took too long")
            }
        }
    }
}

/// How often the same beat was seen.
#[derive(Debug, Default)]
struct Watch {
    seen: Option<(String, Option<Beat>)>,
    looks: u32,
}

impl Watch {
    /// One more look at the one that has the volume. Answers its last beat if it is gone.
    fn look(&mut self, id: &str, beat: Option<Beat>) -> Option<Beat> {
        let beat = beat.filter(|beat| beat.id == id);
        let seen = Some((id.to_owned(), beat.clone()));
        if seen == self.seen {
            self.looks += 1;
        } else {
            (self.seen, self.looks) = (seen, 1);
        }
        // Of one that never says that it lives nobody knows.
        beat.filter(|_| self.looks >= SILENT_LOOKS)
    }

    /// It could not be looked: a bucket that was away for both tells nothing.
    fn missed(&mut self) {
        self.looks = self.looks.min(1);
    }
}

/// Waits until nobody has the volume who is not known to be gone. `waits` is told, once, whom it waits for. Two
/// GETs every 2 s. An error only where the first look fails.
pub async fn await_turn(options: &MountOptions, waits: impl FnOnce(&str)) -> Result<Turn> {
    let bucket = options.connector.connect(&options.url)?;
    let (mut watch, mut waits, mut first) = (Watch::default(), Some(waits), true);
    loop {
        let looked = async { Ok((read_lease(&bucket).await?, read_beat(&bucket).await?)) };
        match looked.await {
            Ok((None, _)) => return Ok(Turn::default()),
            Ok((Some(lease), _)) if options.host.knows_dead(&lease.host) => {
                return Ok(Turn::default());
            }
            Ok((Some(lease), beat)) => {
                if let Some(waits) = waits.take() {
                    waits(&shown_of(&lease, beat.as_ref().is_some_and(|beat| beat.id == lease.id)));
                }
                if let Some(silent) = watch.look(&lease.id, beat) {
                    return Ok(Turn { silent: Some(silent) });
                }
            }
            Err(error) if first => return Err(error),
            Err(error) => {
                tracing::warn!(%error, "whether the volume is served cannot be seen");
                watch.missed();
            }
        }
        first = false;
        tokio::time::sleep(Duration::from_millis(BEAT_MS)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(id: &str, beat: u64) -> Option<Beat> {
        Some(Beat { id: id.to_owned(), beat })
    }

    #[test]
    fn one_whose_beat_stays_the_same_is_gone() {
        let mut watch = Watch::default();
        for number in 0..100 {
            assert_eq!(watch.look("a", beat("a", number)), None, "it lives");
        }
        for _ in 2..SILENT_LOOKS {
            assert_eq!(watch.look("a", beat("a", 99)), None);
        }
        assert_eq!(watch.look("a", beat("a", 99)), beat("a", 99));
        assert_eq!(watch.look("b", beat("a", 99)), None, "somebody else has it");
        assert_eq!(watch.look("b", beat("b", 0)), None);
    }

    #[test]
    fn looks_that_failed_tell_nothing_and_who_never_beats_may_live() {
        let mut watch = Watch::default();
        for _ in 0..100 {
            assert_eq!(watch.look("a", beat("a", 7)), None);
            watch.missed();
        }
        let mut watch = Watch::default();
        for _ in 0..100 {
            assert_eq!(watch.look("a", None), None);
            assert_eq!(watch.look("b", beat("a", 7)), None);
            assert_eq!(watch.look("b", beat("a", 7)), None);
        }
        for _ in 0..100 {
            assert_eq!(watch.look("b", beat("a", 7)), None, "of one before it");
        }
    }
}
