//! Snapshots' metadata that was read of late, open.

use std::sync::Arc;

use parking_lot::Mutex;

/// Snapshots whose metadata stays open.
const OPEN_MAX: usize = 32;

/// What was opened of late, by the number of its snapshot: the last used in front.
pub(crate) struct RecentViews<T>(Mutex<Vec<(u32, Arc<T>)>>);

impl<T> Default for RecentViews<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> RecentViews<T> {
    pub(crate) fn get(&self, number: u32) -> Option<Arc<T>> {
        let mut open = self.0.lock();
        let at = open.iter().position(|(one, _)| *one == number)?;
        open[..=at].rotate_right(1);
        Some(open[0].1.clone())
    }

    /// Keeps one that was opened; the one that was used longest ago goes for it.
    pub(crate) fn put(&self, number: u32, view: Arc<T>) {
        let mut open = self.0.lock();
        open.retain(|(one, _)| *one != number);
        open.insert(0, (number, view));
        open.truncate(OPEN_MAX);
    }

    pub(crate) fn forget(&self, number: u32) {
        self.0.lock().retain(|(one, _)| *one != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_stays() {
        let views = RecentViews::default();
        for number in 0..40 {
            views.put(number, Arc::new(number));
            assert!(views.get(0).is_some_and(|view| *view == 0));
        }
        assert_eq!((views.get(1), views.get(8)), (None, None));
        assert_eq!((views.get(9).as_deref(), views.get(39).as_deref()), (Some(&9), Some(&39)));
        views.forget(9);
        assert_eq!(views.get(9), None);
        assert!(views.get(0).is_some());
    }
}
