//! Leases that go along with those that others ask for.
//!
//! A node remembers the files that it made. Where another one removes a tree of them, or changes all of it, each would
//! be asked for by itself, which takes both nodes some milliseconds. So where the asking goes on and on, those that come
//! next and were not used for a second are given up, too.

use weir_types::Ino;

use super::Remembered;

/// Leases that go along at once.
const ALONG_MAX: usize = 256;

impl Remembered {
    /// Others ask for leases on these. Answers others that may go along, `if_free`: those of the numbers that follow.
    pub(in crate::leases) fn along(
        &mut self,
        asked: &[Ino],
        now_ms: u64,
        if_free: impl Fn(Ino) -> bool,
    ) -> Vec<Ino> {
        let before = self.asking.goes_on(now_ms, self.now);
        // What is used from now on was used later than that.
        self.now += 1;
        let Some(before) = before else { return Vec::new() };
        let Some(first) = asked.iter().min() else { return Vec::new() };
        let idle = self.held.iter().filter(|(ino, held)| {
            *ino > first && held.used.get() <= before && !asked.contains(ino) && if_free(**ino)
        });
        let mut idle: Vec<Ino> = idle.map(|(ino, _)| *ino).collect();
        if idle.len() > ALONG_MAX {
            idle.select_nth_unstable(ALONG_MAX);
            idle.truncate(ALONG_MAX);
        }
        idle
    }
}
