//! What a request saw may have changed before its answer is with the kernel, which remembers it for long.

use parking_lot::RwLock;

/// Counts changes that the kernel is told of.
#[derive(Debug, Default)]
pub(crate) struct Fresh(RwLock<u64>);

/// When somebody looked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looked(u64);

impl Fresh {
    /// Begins to look.
    pub(crate) fn look(&self) -> Looked {
        Looked(*self.0.read())
    }

    /// Something changed. To be called before the kernel is told: who looked before either has its answer
    /// there by then, or will say that it is for now only.
    pub(crate) fn changed(&self) {
        *self.0.write() += 1;
    }

    /// Has `answer` tell the kernel what was seen, and whether that is still so.
    pub(crate) fn answer<T>(&self, looked: Looked, answer: impl FnOnce(bool) -> T) -> T {
        let now = self.0.read();
        answer(*now == looked.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_since_it_was_seen_is_for_now_only() {
        let fresh = Fresh::default();
        let before = fresh.look();
        assert!(fresh.answer(before, |still| still));
        fresh.changed();
        assert!(!fresh.answer(before, |still| still));
        let after = fresh.look();
        assert!(fresh.answer(after, |still| still));
        fresh.answer(after, |_| assert!(fresh.0.try_write().is_none(), "a change waits"));
    }
}
