//! How writers are held back when data comes in faster than the bucket takes it.
//!
//! Up to half of the room nobody waits. From there on each write waits a little longer, until at
//! nine tenths writers are as fast as the flush: so they slow down evenly, instead of running at
//! full speed into a full tier and standing still.

use parking_lot::Mutex;

/// How long a rate is measured, in milliseconds.
const MEASURED_MS: u64 = 500;
/// No write waits longer, in milliseconds: the full tier is what stops writers in the end.
const WAIT_MS_MAX: u64 = 500;

/// How fast the flush has been of late.
#[derive(Debug, Default)]
pub(crate) struct WriteThrottle {
    measured: Mutex<Measured>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    since_ms: u64,
    flushed: u64,
    bytes_per_ms: u64,
}

impl WriteThrottle {
    /// How long a write of `len` bytes should wait, in milliseconds, when `dirty` bytes of `room`
    /// wait for the bucket. `flushed` counts the bytes that it ever took.
    pub(crate) fn wait_ms(
        &self,
        (dirty, room): (u64, u64),
        len: u64,
        flushed: u64,
        now_ms: u64,
    ) -> u64 {
        let soft = room / 2;
        if dirty <= soft {
            return 0;
        }
        let rate = self.rate(flushed, now_ms);
        // In thousandths: 0 at half of the room, 1,000 at nine tenths of it.
        let pressure = (dirty - soft) * 1_000 / (room * 2 / 5).max(1);
        (len * pressure / 1_000 / rate).min(WAIT_MS_MAX)
    }

    /// Bytes a millisecond that the flush takes.
    fn rate(&self, flushed: u64, now_ms: u64) -> u64 {
        let mut measured = self.measured.lock();
        let elapsed_ms = now_ms.saturating_sub(measured.since_ms);
        if elapsed_ms >= MEASURED_MS {
            let bytes_per_ms = flushed.saturating_sub(measured.flushed) / elapsed_ms;
            *measured = Measured { since_ms: now_ms, flushed, bytes_per_ms };
        }
        // A bucket that is away does not make writers wait for ever: the full tier does.
        measured.bytes_per_ms.max(1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Lets a writer of 1 MiB at a time fill a tier of 1 GiB that drains at `drain` MiB/s; answers
    /// the dirty MiB and the writer's MiB/s in the last of 120 seconds.
    fn settle(drain: u64) -> (u64, u64) {
        let throttle = WriteThrottle::default();
        let (mut dirty, mut flushed, mut wrote) = (0_u64, 0, 0);
        let mut free_at = 0;
        for now in 0..120_000_u64 {
            let out = (drain * MIB / 1000).min(dirty);
            (dirty, flushed) = (dirty - out, flushed + out);
            if now == 110_000 {
                wrote = 0;
            }
            // At most 1,000 MiB/s, as a local disk.
            if now >= free_at && dirty + MIB <= 1024 * MIB {
                free_at = now + 1 + throttle.wait_ms((dirty, 1024 * MIB), MIB, flushed, now);
                (dirty, wrote) = (dirty + MIB, wrote + 1);
            }
        }
        (dirty / MIB, wrote / 10)
    }

    #[test]
    fn writers_settle_at_the_speed_of_the_flush_before_the_tier_is_full() {
        for drain in [20, 100, 400] {
            let (dirty, wrote) = settle(drain);
            assert!((500..950).contains(&dirty), "{drain} MiB/s: {dirty} MiB dirty");
            assert!(wrote.abs_diff(drain) <= drain / 10 + 1, "{drain} MiB/s: wrote {wrote}");
        }
    }

    #[test]
    fn nobody_waits_while_there_is_room() {
        assert_eq!(WriteThrottle::default().wait_ms((100 * MIB, 1024 * MIB), MIB, 0, 1_000_000), 0);
    }
}
