//! What this node gives to others, and how much of it in a second.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use weir_meta::Leases;
use weir_peer::{Answer, Ask, FileRecord, Fingerprint, GIVEN_BYTES, Handler, ObjectRange, Refusal};
use weir_tier::Tier;
use weir_types::{CHUNK_BYTES, Ino, Result};

use super::Figures;
use super::askers::Askers;
use super::held::Held;
use super::resident::{self, RECORDS_MAX};
use crate::volume::context::{Counts, blocking};

/// Answers other nodes.
pub(super) struct Giver {
    pub(super) held: Arc<Held>,
    pub(super) figures: Arc<Figures>,
    pub(super) rate: Rate,
    pub(super) leases: Option<Arc<Leases>>,
    pub(super) askers: Arc<Askers>,
    pub(super) tier: Option<Arc<Tier>>,
    /// One is done after the other, as many at once as there are processors: side by side all would be late.
    pub(super) packing: Semaphore,
}

/// Turns of those who pack.
pub(super) fn packing() -> Semaphore {
    Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from))
}

#[async_trait]
impl Handler for Giver {
    async fn answer(&self, from: &Fingerprint, ask: Ask) -> Answer {
        match ask {
            Ask::Bytes(range) => self.give(range).await,
            Ask::Look => {
                self.leases.iter().for_each(|leases| leases.look_now());
                Answer::Given(Bytes::new())
            }
            Ask::Who(segment, part) => {
                Answer::Given(resident::given(&self.askers.before((segment, part), *from)))
            }
            Ask::Records(records) => self.give_records(records).await,
            Ask::Whole(ranges) => {
                let here =
                    |range| u8::from(self.tier.as_ref().is_some_and(|tier| has(tier, range)));
                Answer::Given(ranges.iter().map(here).collect())
            }
        }
    }
}

/// Whether a tier has all bytes of a range of a file.
fn has(tier: &Tier, (ino, start, end): &(Ino, u64, u64)) -> bool {
    tier.find(*ino).is_some_and(|mirror| mirror.missing(*start, mirror.size().min(*end)).is_empty())
}

impl Giver {
    async fn give(&self, ObjectRange { object, start, end }: ObjectRange) -> Answer {
        let within = start < end && start / GIVEN_BYTES == (end - 1) / GIVEN_BYTES;
        if !within {
            return Answer::Refused(Refusal::Unknown);
        }
        if !self.rate.may(end - start) {
            return Answer::Refused(Refusal::Busy);
        }
        self.given(self.held.get(&object, start..end).await)
    }

    /// What of a tier is given is read and packed for it.
    async fn give_records(&self, records: Vec<FileRecord>) -> Answer {
        let bytes = records.iter().map(|of| u64::from(of.record.stored_bytes)).sum();
        let sane = |of: &FileRecord| u64::from(of.record.raw_bytes) <= CHUNK_BYTES;
        if records.len() > RECORDS_MAX || bytes > GIVEN_BYTES || !records.iter().all(sane) {
            return Answer::Refused(Refusal::Unknown);
        }
        let Some(tier) = self.tier.clone() else { return Answer::Refused(Refusal::NotHere) };
        if !self.rate.may(bytes) {
            return Answer::Refused(Refusal::Busy);
        }
        // Never closed.
        let _turn = self.packing.acquire().await;
        match blocking(move || Ok(resident::packed(&tier, &records))).await {
            Ok(Some(packed)) => self.given(Ok(packed)),
            Ok(None) => Answer::Refused(Refusal::NotHere),
            Err(error) => self.given(Err(error)),
        }
    }

    fn given(&self, found: Result<Bytes>) -> Answer {
        match found {
            Ok(bytes) => {
                Counts::add(&self.figures.given_bytes, bytes.len() as u64);
                Answer::Given(bytes)
            }
            Err(error) => {
                tracing::debug!(%error, "what another node asked for could not be had");
                Answer::Refused(Refusal::NotHere)
            }
        }
    }
}

/// So many bytes in a second, and as many at once after a quiet one.
pub(super) struct Rate {
    per_s: u64,
    /// What may be given, and as of when.
    left: Mutex<(f64, Instant)>,
}

impl Rate {
    /// 0 is no limit.
    pub(super) fn new(per_s: u64) -> Self {
        Self { per_s, left: Mutex::new((Self::full(per_s), Instant::now())) }
    }

    /// One piece can always be given after a while.
    fn full(per_s: u64) -> f64 {
        per_s.max(GIVEN_BYTES) as f64
    }

    pub(super) fn may(&self, bytes: u64) -> bool {
        if self.per_s == 0 {
            return true;
        }
        let mut state = self.left.lock();
        let (left, since) = *state;
        let now = Instant::now();
        let come = self.per_s as f64 * (now - since).as_secs_f64();
        let left = (left + come).min(Self::full(self.per_s));
        let may = left >= bytes as f64;
        *state = (if may { left - bytes as f64 } else { left }, now);
        may
    }
}
