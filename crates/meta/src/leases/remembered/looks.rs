//! How inodes without a lease are looked at, and when they are worth one.

use super::pause::Pause;
use crate::keys;
use crate::kv::{Key, Version, Versioned};

/// A second look counts this much after the first one: one operation of a program looks several times.
const LOOK_AGAIN_MS: u64 = 50;
/// And not later than this.
const LOOK_LATE_MS: u64 = 300_000;
/// No lease is taken for this long on what was changed here: others may be about to change it, too.
const CHANGED_MS: u64 = 100;

/// How an inode without a lease was looked at.
#[derive(Clone, Copy, Default)]
pub(super) struct Looks {
    first_ms: Option<u64>,
    not_before_ms: u64,
    pause: Pause,
    /// The versions of its row and of the times of its entries, as they were read last.
    seen: [Option<Version>; 2],
    /// Reads of its row since one of them changed.
    quiet: u32,
}

impl Looks {
    /// It is changed here.
    pub(super) fn changed(&mut self, now_ms: u64) {
        self.first_ms = None;
        self.not_before_ms = self.not_before_ms.max(now_ms + CHANGED_MS);
    }

    /// A read found a row of it.
    pub(super) fn saw(&mut self, key: &Key, found: Option<&Versioned>) {
        let at = match key.first() {
            Some(&keys::INODE) => 0,
            Some(&keys::DIR_TIMES) => 1,
            _ => return,
        };
        let version = found.map(|found| found.version);
        if self.seen[at] != version {
            self.seen[at] = version;
            self.quiet = 0;
        } else if at == 0 {
            self.quiet = self.quiet.saturating_add(1);
        }
    }

    /// Whether no lease is taken now, since others asked for it lately, and may do so again: for a while, or until it was
    /// read so often without having changed that the reads cost more than to be asked once more.
    pub(super) fn is_left_alone(&self, now_ms: u64) -> bool {
        now_ms < self.not_before_ms && self.quiet < self.pause.looks()
    }

    /// Others ask for a lease on it, because they want to change it.
    pub(super) fn asked_back(&mut self, now_ms: u64) {
        self.first_ms = None;
        self.quiet = 0;
        self.not_before_ms = self.pause.asked(now_ms);
    }

    /// Somebody looks at it; answers whether it is worth a lease.
    pub(super) fn look(&mut self, now_ms: u64) -> bool {
        if self.is_left_alone(now_ms) {
            return false;
        }
        match self.first_ms.filter(|first| now_ms <= first + LOOK_LATE_MS) {
            Some(first) if now_ms < first + LOOK_AGAIN_MS => false,
            Some(_) => {
                self.first_ms = None;
                true
            }
            None => {
                self.first_ms = Some(now_ms);
                false
            }
        }
    }

    /// Nobody asked for anything back.
    #[cfg(test)]
    pub(super) fn forgive(&mut self) {
        (self.not_before_ms, self.pause) = (0, Pause::default());
    }
}
