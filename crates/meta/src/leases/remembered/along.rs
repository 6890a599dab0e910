//! Leases that go along with those that others ask for.
//!
//! A node remembers the files that it made. Where another one removes a tree of them, or changes all of it, each would
//! be asked for by itself, which takes both nodes some milliseconds. So where the asking goes on and on, those that come
//! next and were not used meanwhile are given up, too.

use weir_types::Ino;

use super::Remembered;
use crate::behind::is_provisional;
use crate::keys;
use crate::kv::Versioned;

/// Asking goes on as long as no pause is longer than this.
const PAUSE_MS: u64 = 250;
/// Leases go along that were not used for this long, while asking went on.
const IDLE_MS: u64 = 1_000;
/// Leases that go along at once.
const ALONG_MAX: usize = 256;

/// Others ask for leases again and again.
#[derive(Default)]
pub(super) struct Asking {
    last_ms: u64,
    /// When it began, or when a while had passed, and the stamp of then.
    since: Option<(u64, u64)>,
    /// The stamp of a while before that.
    before: Option<u64>,
}

impl Asking {
    /// Somebody asks, now; answers the stamp of a while ago, if asking goes on since.
    fn goes_on(&mut self, now_ms: u64, stamp: u64) -> Option<u64> {
        if now_ms > self.last_ms + PAUSE_MS {
            (self.since, self.before) = (None, None);
        }
        self.last_ms = now_ms;
        match self.since {
            None => self.since = Some((now_ms, stamp)),
            Some((since_ms, then)) if now_ms >= since_ms + IDLE_MS => {
                self.before = Some(then);
                self.since = Some((now_ms, stamp));
            }
            Some(_) => {}
        }
        self.before
    }
}

impl Remembered {
    /// Others ask for leases on these. Answers others that may go along, `if_free`, with the rows of their inodes:
    /// those of the numbers that follow. There is no lease on them any more.
    pub(in crate::leases) fn along(
        &mut self,
        asked: &[Ino],
        now_ms: u64,
        if_free: impl Fn(Ino) -> bool,
    ) -> Vec<(Ino, Versioned)> {
        let Some(before) = self.asking.goes_on(now_ms, self.now) else { return Vec::new() };
        self.now += 1;
        let Some(first) = asked.iter().min() else { return Vec::new() };
        let idle = self.held.iter().filter(|(ino, held)| {
            *ino > first && held.used.get() <= before && !asked.contains(ino) && if_free(**ino)
        });
        let mut idle: Vec<Ino> = idle.map(|(ino, _)| *ino).collect();
        if idle.len() > ALONG_MAX {
            idle.select_nth_unstable(ALONG_MAX);
            idle.truncate(ALONG_MAX);
        }
        let row = |ino| {
            let key = keys::inode(ino);
            let row = self.held.get(&ino)?.row(&key)??;
            let is_known = !self.changing.contains_key(&key) && !is_provisional(row.version);
            is_known.then_some((ino, row))
        };
        let along: Vec<_> = idle.into_iter().filter_map(row).collect();
        self.forget(&along.iter().map(|(ino, _)| *ino).collect::<Vec<_>>());
        along
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_goes_on_where_no_pause_is_long_and_a_while_has_passed() {
        let mut asking = Asking::default();
        for now_ms in (1_000..2_000).step_by(100) {
            assert_eq!(asking.goes_on(now_ms, now_ms), None);
        }
        assert_eq!(asking.goes_on(2_000, 2_000), Some(1_000), "what was used since stays");
        assert_eq!(asking.goes_on(2_100, 2_100), Some(1_000));
        for now_ms in (2_200..3_000).step_by(100) {
            assert_eq!(asking.goes_on(now_ms, now_ms), Some(1_000));
        }
        assert_eq!(asking.goes_on(3_000, 3_000), Some(2_000));
        assert_eq!(asking.goes_on(3_251, 3_251), None, "a pause");
        for now_ms in (3_351..4_251).step_by(100) {
            assert_eq!(asking.goes_on(now_ms, now_ms), None);
        }
        assert_eq!(asking.goes_on(4_251, 4_251), Some(3_251));
    }
}
