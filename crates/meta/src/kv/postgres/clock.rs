//! Versions: unique in the database, and rising in each node.
//!
//! A version is 42 bits of milliseconds since 2025 by the server's clock, 20 bits of the lane, and a
//! 0. A lane has one transaction at a time and each of its versions is past the last one, which the
//! lane's row holds against all others; so no version is ever there twice. The last bit is 1 in
//! versions of counters, which are sums of those of their rows.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::super::contract::Version;

/// 2025-01-01 in milliseconds since 1970.
const BEGAN_MS: i64 = 1_735_689_600_000;

/// Bits below the milliseconds.
const BELOW: u32 = 21;

/// Highest number of a lane.
pub(super) const LANE_MAX: i32 = (1 << 20) - 1;

/// Gives versions out.
#[derive(Default)]
pub(super) struct Versions {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The server's time when it was last asked, in milliseconds since 2025.
    told: Option<(i64, Instant)>,
    /// The milliseconds of the newest version.
    last_ms: i64,
    /// Versions of commits that are on their way.
    under_way: BTreeSet<i64>,
    /// The newest of those that were applied.
    applied: i64,
}

impl Versions {
    /// Notes the server's time.
    pub(super) fn tell(&self, now_ms: i64) {
        let mut state = self.state.lock();
        state.told = Some((now_ms - BEGAN_MS, Instant::now()));
    }

    /// No version from now on is below this one.
    pub(super) fn pass(&self, version: i64) {
        let mut state = self.state.lock();
        state.last_ms = state.last_ms.max(version >> BELOW);
    }

    /// A version for a commit that begins now.
    pub(super) fn next(&self, lane: i32) -> UnderWay<'_> {
        let mut state = self.state.lock();
        let now = state.now();
        state.last_ms = now.max(state.last_ms + 1);
        let version = (state.last_ms << BELOW) | (i64::from(lane) << 1);
        state.under_way.insert(version);
        UnderWay { versions: self, version }
    }

    /// A version that none of the commits has that are applied after this call.
    pub(super) fn newest(&self) -> Version {
        let mut state = self.state.lock();
        let newest = match state.under_way.first() {
            Some(first) => first - 1,
            // What others committed before us is not newer than the time.
            None if state.applied == 0 => {
                state.last_ms = state.last_ms.max(state.now());
                ((state.last_ms + 1) << BELOW) - 2
            }
            None => state.applied,
        };
        newest.cast_unsigned()
    }
}

impl State {
    fn now(&self) -> i64 {
        let (told, at) = self.told.unwrap_or((0, Instant::now()));
        told + i64::try_from(at.elapsed().as_millis()).unwrap_or(0)
    }
}

/// A version that is being committed.
pub(super) struct UnderWay<'a> {
    versions: &'a Versions,
    pub(super) version: i64,
}

impl UnderWay<'_> {
    /// Notes that it is applied.
    pub(super) fn applied(&self) {
        let mut state = self.versions.state.lock();
        state.applied = state.applied.max(self.version);
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.versions.state.lock().under_way.remove(&self.version);
    }
}
