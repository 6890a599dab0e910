//! What this node gives to others, and how much of it in a second.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;
use weir_meta::Leases;
use weir_peer::{Answer, Ask, Fingerprint, GIVEN_BYTES, Handler, ObjectRange, Refusal};

use super::Figures;
use super::held::Held;
use crate::volume::context::Counts;

/// Answers other nodes.
pub(super) struct Giver {
    pub(super) held: Arc<Held>,
    pub(super) figures: Arc<Figures>,
    pub(super) rate: Rate,
    pub(super) leases: Option<Arc<Leases>>,
}

#[async_trait]
impl Handler for Giver {
    async fn answer(&self, _from: &Fingerprint, ask: Ask) -> Answer {
        match ask {
            Ask::Bytes(range) => self.give(range).await,
            Ask::Look => {
                self.leases.iter().for_each(|leases| leases.look_now());
                Answer::Given(Bytes::new())
            }
        }
    }
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
        match self.held.get(&object, start..end).await {
            Ok(bytes) => {
                Counts::add(&self.figures.given_bytes, end - start);
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
