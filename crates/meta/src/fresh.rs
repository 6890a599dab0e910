//! What is known of the inodes whose numbers this process reserved: nobody knew them before, so what
//! was not done to them here was not done at all. No engine need be asked for it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_types::Ino;
use xxhash_rust::xxh3::xxh3_64;

use crate::keys;
use crate::kv::Key;

/// Bits of the filter of names: 1 MiB. Of 800,000 names it takes 1% of new ones for known, of
/// 2,000,000 14%.
const NAME_BITS: u64 = 1 << 23;
/// Bits of each name.
const BITS_OF_ONE: u64 = 4;

/// The inodes of this process.
#[derive(Debug)]
pub(crate) struct Fresh {
    /// Others change them, too.
    shared: AtomicBool,
    /// The first of them.
    from: AtomicU64,
    /// Some of them may have extended attributes.
    attributes: AtomicBool,
    names: Names,
}

/// Names that some of them were given, by key: a Bloom filter. Nothing is ever taken out.
#[derive(Debug, Default)]
struct Names(OnceLock<Box<[AtomicU64]>>);

impl Fresh {
    /// Numbers from this one on were reserved. To be called before one of them is given out.
    pub(crate) fn begin(&self, from: u64) {
        self.from.fetch_min(from, Ordering::AcqRel);
    }

    /// Others know these numbers from the moment they are given out: nothing is known of any.
    pub(crate) fn nothing_is(&self) {
        self.shared.store(true, Ordering::Release);
    }

    fn is_fresh(&self, ino: Ino) -> bool {
        !self.shared.load(Ordering::Acquire) && ino.0 >= self.from.load(Ordering::Acquire)
    }

    /// Whether `ino` has no extended attribute for sure.
    pub(crate) fn is_bare(&self, ino: Ino) -> bool {
        self.is_fresh(ino) && !self.attributes.load(Ordering::Acquire)
    }

    /// `ino` is about to get an extended attribute.
    pub(crate) fn attribute_comes(&self, ino: Ino) {
        if self.is_fresh(ino) {
            self.attributes.store(true, Ordering::Release);
        }
    }

    /// Whether a directory never had this entry for sure, up to now.
    pub(crate) fn never_had(&self, dir: Ino, entry: &Key) -> bool {
        self.is_fresh(dir) && !self.names.may_have(entry)
    }

    /// A row is about to be put.
    pub(crate) fn comes(&self, key: &Key) {
        if key.first() == Some(&keys::DIRENT)
            && keys::parse_ino(key).is_some_and(|dir| self.is_fresh(dir))
        {
            self.names.add(key);
        }
    }
}

impl Default for Fresh {
    fn default() -> Self {
        Self {
            shared: AtomicBool::new(false),
            from: AtomicU64::new(u64::MAX),
            attributes: AtomicBool::new(false),
            names: Names::default(),
        }
    }
}

impl Names {
    fn add(&self, key: &Key) {
        let all = self.0.get_or_init(|| (0..NAME_BITS / 64).map(|_| AtomicU64::new(0)).collect());
        for (word, bit) in places(key) {
            all[word].fetch_or(bit, Ordering::AcqRel);
        }
    }

    fn may_have(&self, key: &Key) -> bool {
        let Some(all) = self.0.get() else { return false };
        places(key).all(|(word, bit)| all[word].load(Ordering::Acquire) & bit != 0)
    }
}

/// The words in which a key has its bits.
fn places(key: &Key) -> impl Iterator<Item = (usize, u64)> {
    let hash = xxh3_64(key);
    let (first, step) = (hash, (hash >> 32) | 1);
    (0..BITS_OF_ONE).map(move |n| {
        let at = first.wrapping_add(n.wrapping_mul(step)) % NAME_BITS;
        ((at / 64) as usize, 1 << (at % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_came_is_never_taken_for_new_and_few_new_ones_for_known() {
        let fresh = Fresh::default();
        let entry = |dir, n: u32| keys::dirent(Ino(dir), format!("{n}").as_bytes());
        assert!(!fresh.never_had(Ino(7), &entry(7, 0)), "nobody's number");
        fresh.begin(5);
        assert!(fresh.never_had(Ino(7), &entry(7, 0)));
        assert!(!fresh.never_had(Ino(4), &entry(4, 0)), "it was there before");
        (0..100_000).for_each(|n| fresh.comes(&entry(7, n)));
        assert!((0..100_000).all(|n| !fresh.never_had(Ino(7), &entry(7, n))));
        let taken = (100_000..200_000).filter(|n| !fresh.never_had(Ino(7), &entry(7, *n)));
        assert!(taken.count() < 100, "one in a thousand");
        fresh.comes(&keys::inode(Ino(9)));
        fresh.comes(&entry(4, 1));
        assert!(!fresh.never_had(Ino(4), &entry(4, 1)));
    }
}
