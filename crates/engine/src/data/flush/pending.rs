//! What is to be flushed soon, and how flushing in the background goes.

use std::time::Duration;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use weir_types::{FsError, Ino};

/// How long files that were written anew from nothing gather: at most four segments a second.
const GATHER: Duration = Duration::from_millis(250);
/// Rest after a first failure, in milliseconds.
const REST_MS: u64 = 1_000;
/// No rest is longer, in milliseconds.
const REST_MS_MAX: u64 = 30_000;

/// How flushing in the background fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlushFailed {
    /// What the last try met.
    pub error: String,
    /// Milliseconds since then.
    pub last_ms_ago: u64,
    /// Tries in a row that failed.
    pub failures: u32,
}

/// What is to be flushed soon, and how the last try went.
#[derive(Default)]
pub(crate) struct Background {
    /// Files to be flushed soon.
    soon: Mutex<Vec<Ino>>,
    soon_wanted: Notify,
    /// The last try, if it failed, and when that was.
    failed: Mutex<Option<(u64, FlushFailed)>>,
    /// Wakes who rests after a failure.
    goes_on: Notify,
}

impl Background {
    /// Has a file flushed, with others of the same moment.
    pub(crate) fn flush_soon(&self, ino: Ino) {
        self.soon.lock().push(ino);
        self.soon_wanted.notify_one();
    }

    /// Waits for files to be flushed soon, and a little longer, so that they share segments.
    pub(super) async fn wait_for_soon(&self) -> Vec<Ino> {
        loop {
            self.soon_wanted.notified().await;
            tokio::time::sleep(GATHER).await;
            let mut inos = std::mem::take(&mut *self.soon.lock());
            inos.sort_unstable();
            inos.dedup();
            if !inos.is_empty() {
                return inos;
            }
        }
    }

    /// How the last try failed, if no later one succeeded.
    pub(crate) fn failed(&self, now_ms: u64) -> Option<FlushFailed> {
        let failed = self.failed.lock().clone();
        let (at_ms, told) = failed?;
        Some(FlushFailed { last_ms_ago: now_ms.saturating_sub(at_ms), ..told })
    }

    /// Takes note of how a try went, the nth in a row to fail.
    pub(super) fn note_failed(&self, failures: u32, error: Option<&FsError>, now_ms: u64) {
        let error = error.map(ToString::to_string);
        let told = error.map(|error| FlushFailed { error, last_ms_ago: 0, failures });
        *self.failed.lock() = told.map(|told| (now_ms, told));
    }

    /// Something left for the bucket: who rests after a failure may go on.
    pub(super) fn went_on(&self) {
        *self.failed.lock() = None;
        self.goes_on.notify_waiters();
    }

    /// Rests after the nth failure in a row: twice as long each time, up to half a minute, less a
    /// part by chance; and no longer than until something leaves.
    pub(super) async fn rest(&self, failures: u32, chance: u128) {
        let most = REST_MS.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(REST_MS_MAX);
        let rest_ms = most / 2 + (chance % u128::from(most / 2 + 1)) as u64;
        let rest = Duration::from_millis(rest_ms);
        let _ = tokio::time::timeout(rest, self.goes_on.notified()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_failure_in_a_row_rests_twice_as_long_up_to_half_a_minute() {
        let background = Background::default();
        for (failures, most) in [(1, 1), (2, 2), (3, 4), (5, 16), (6, 30), (40, 30), (u32::MAX, 30)]
        {
            for chance in [0, 1 << 80, u128::MAX] {
                let began = tokio::time::Instant::now();
                background.rest(failures, chance).await;
                let rest = began.elapsed().as_secs_f64();
                let least = f64::from(most) / 2.0;
                assert!((least..=f64::from(most) + 0.01).contains(&rest), "{failures}: {rest} s");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_rest_ends_when_something_leaves() {
        let background = Background::default();
        let began = tokio::time::Instant::now();
        let rest = background.rest(9, 0);
        let leaves = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            background.went_on();
        };
        tokio::join!(rest, leaves);
        assert!(began.elapsed().as_millis() < 200);
    }
}
