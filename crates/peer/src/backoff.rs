//! How long a node that could not be reached is left alone.

use std::time::Duration;

/// The first pause.
const LEAST: Duration = Duration::from_millis(200);
/// The longest one.
const MOST: Duration = Duration::from_secs(30);

/// The pause after so many failures in a row, of which the last is the first to count.
pub(crate) fn pause(failures: u32) -> Duration {
    LEAST.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(MOST)
}
