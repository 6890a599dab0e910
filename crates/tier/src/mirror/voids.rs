//! What became void since work on a mirror began: the whole of it, or ranges.

use std::collections::VecDeque;

/// Ranges remembered one by one. Work that began before the oldest of them is taken for void.
const RANGES: usize = 1024;

/// Counts what makes work under way void, and remembers of late where.
#[derive(Debug, Default)]
pub(crate) struct Voids {
    last: u64,
    /// Work that began before this is void everywhere.
    all_before: u64,
    /// Number, start and end of each range since.
    ranges: VecDeque<(u64, u64, u64)>,
}

impl Voids {
    /// What work that begins now is told.
    pub(crate) fn now(&self) -> u64 {
        self.last
    }

    /// Everything under way is void.
    pub(crate) fn add_all(&mut self) {
        self.last += 1;
        self.all_before = self.last;
        self.ranges.clear();
    }

    /// What is under way is void where it touches `start..end`.
    pub(crate) fn add(&mut self, start: u64, end: u64) {
        self.last += 1;
        if self.ranges.len() == RANGES
            && let Some((number, ..)) = self.ranges.pop_front()
        {
            self.all_before = number;
        }
        self.ranges.push_back((self.last, start, end));
    }

    /// Whether work on `start..end` that began at `since` is still good.
    pub(crate) fn spare(&self, since: u64, start: u64, end: u64) -> bool {
        let later = self.ranges.iter().rev().take_while(|(number, ..)| *number > since);
        since >= self.all_before && later.clone().all(|(_, s, e)| *e <= start || end <= *s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_touched_is_void() {
        let mut voids = Voids::default();
        let began = voids.now();
        voids.add(10, 20);
        assert!(voids.spare(began, 0, 10) && voids.spare(began, 20, 30));
        assert!(!voids.spare(began, 0, 11) && !voids.spare(began, 19, 20));
        assert!(voids.spare(voids.now(), 0, 30));
        let began = voids.now();
        voids.add_all();
        assert!(!voids.spare(began, 100, 101));
        assert!(voids.spare(voids.now(), 10, 20));
    }

    #[test]
    fn what_is_forgotten_counts_as_void() {
        let mut voids = Voids::default();
        let began = voids.now();
        (0..RANGES).for_each(|_| voids.add(0, 1));
        assert!(voids.spare(began, 5, 6));
        voids.add(0, 1);
        assert!(!voids.spare(began, 5, 6));
        assert!(voids.spare(began + 1, 5, 6));
    }
}
