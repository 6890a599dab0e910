//! The real clock and real chance: the one place where either enters.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use weir_engine::Clock;
use weir_types::UnixTime;

use crate::failpoints;

/// The wall clock.
#[expect(clippy::disallowed_methods, reason = "this is where time enters the program")]
pub(crate) fn now() -> UnixTime {
    let nanos = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    };
    UnixTime(nanos.saturating_add(failpoints::clock_ahead_s().saturating_mul(1_000_000_000)))
}

/// What the engine takes time and chance from.
pub(crate) fn real() -> Clock {
    let start = Instant::now();
    Clock {
        now: Arc::new(now),
        now_ms: Arc::new(move || u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)),
        random: Arc::new(rand::random::<u128>),
    }
}
