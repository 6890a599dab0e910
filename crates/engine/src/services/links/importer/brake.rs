//! What an import finds to be gone goes only after all was listed, and if it is not too much:
//! a listing that is empty by mistake must not empty the link.

use parking_lot::{Mutex, MutexGuard};
use weir_meta::ObjectRow;
use weir_object::ListedObject;

/// So many files may go in one look, however few the link has.
const REMOVED_MIN: u64 = 20;
/// One file of so many may.
const SHARE: u64 = 4;
/// So many are kept in mind at most.
const REMOVED_MAX: u64 = 100_000;

/// What is known to the metadata and not in the bucket.
#[derive(Debug)]
pub(super) enum Missing {
    /// An object.
    Object(ObjectRow),
    /// A directory of a lazy link into which nobody looked.
    Directory(ObjectRow),
}

/// What is missing in one import.
#[derive(Debug)]
pub(super) struct Brake {
    missing: Mutex<Found>,
    /// Files that the link has.
    pub(super) of: u64,
    /// More than so many are held.
    pub(super) most: u64,
}

#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) rows: Vec<Missing>,
    pub(super) files: u64,
    /// What came beside missing ones, maybe in the place of them.
    pub(super) added: Vec<ListedObject>,
}

impl Brake {
    /// For a link that has `of` files. Somebody has said that `confirmed` may go.
    pub(super) fn new(of: u64, confirmed: Option<u64>) -> Self {
        let usual = REMOVED_MIN.max(of / SHARE).min(REMOVED_MAX);
        let most = confirmed.map_or(usual, |files| files.saturating_add(usual));
        Self { missing: Mutex::default(), of, most }
    }

    pub(super) fn found(&self) -> MutexGuard<'_, Found> {
        self.missing.lock()
    }

    /// Notes what is missing; of too much the number only.
    pub(super) fn note(&self, missing: Missing) {
        let mut found = self.found();
        let (Missing::Object(row) | Missing::Directory(row)) = &missing;
        found.files += u64::from(row.object.ino.is_some());
        match found.files > self.most {
            true => found.rows.clear(),
            false => found.rows.push(missing),
        }
    }

    /// Has objects made after what is missing has gone: they may need its names.
    pub(super) fn then_make(&self, added: Vec<ListedObject>) {
        self.found().added.extend(added);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_may_go_and_a_quarter_of_many() {
        let most = |of, confirmed| Brake::new(of, confirmed).most;
        assert_eq!([0, 10, 80, 84].map(|of| most(of, None)), [20, 20, 20, 21]);
        assert_eq!((most(1_000_000, None), most(1_000, Some(900))), (100_000, 1_150));
    }
}
