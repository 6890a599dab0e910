//! How long something is left alone of which others asked a lease back.

/// The first time, in milliseconds, and twice as long each time that follows soon.
const FIRST_MS: u64 = 500;
/// How often that doubles: up to four minutes.
const DOUBLES_MAX: u32 = 9;
/// So many reads that find it unchanged end the first pause, and twice as many each time that follows soon: to be asked
/// takes who asks some ten reads.
const FIRST_LOOKS: u32 = 16;
/// What comes so many times as long behind the last time as that lasted is a first time.
const SOON: u64 = 8;

/// A pause of a lease.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pause {
    doubles: u32,
    began_ms: Option<u64>,
}

impl Pause {
    /// Somebody asks for it now; answers until when none is taken.
    pub(crate) fn asked(&mut self, now_ms: u64) -> u64 {
        let lasted = FIRST_MS << self.doubles;
        self.doubles = match self.began_ms {
            Some(began) if now_ms < began + SOON * lasted => (self.doubles + 1).min(DOUBLES_MAX),
            _ => 0,
        };
        self.began_ms = Some(now_ms);
        now_ms + (FIRST_MS << self.doubles)
    }

    /// How many reads that find it unchanged end it before its time.
    pub(crate) fn looks(self) -> u32 {
        FIRST_LOOKS << self.doubles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_asked_again_and_again_waits_longer_and_who_is_asked_seldom_does_not() {
        let mut pause = Pause::default();
        assert_eq!([1_000, 2_000, 9_000].map(|now| pause.asked(now) - now), [500, 1_000, 2_000]);
        assert_eq!(pause.asked(9_000 + 16_000) - 25_000, 500, "long after");
        let mut now = 0;
        let pauses = (0..20).map(|_| {
            let until = pause.asked(now);
            let lasts = until - now;
            now = until;
            lasts
        });
        assert_eq!(pauses.last(), Some(500 << DOUBLES_MAX));
    }
}
