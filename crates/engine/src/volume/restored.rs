//! What was restored out of archive classes since the mount, for its price.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_cost::Restored;
use weir_types::{ArchiveClass, Restore, RestoreTier};

const WAYS: usize = RestoreTier::ALL.len();

/// A value for each class, in the order of them, and in it for each way to restore.
pub(crate) type ByRestore<T> = [[T; WAYS]; ArchiveClass::ALL.len()];

/// Counted by class and by how soon it was to come.
#[derive(Default)]
pub(crate) struct RestoredCounts(ByRestore<Counted>);

#[derive(Default)]
struct Counted {
    objects: AtomicU64,
    bytes: AtomicU64,
    copy_byte_days: AtomicU64,
}

impl RestoredCounts {
    /// An object was asked for.
    pub(crate) fn add(&self, class: ArchiveClass, restore: Restore, bytes: u64) {
        let of = Restored::of(class, restore, 1, bytes);
        let counted = &self.0[class as usize][restore.tier as usize];
        counted.objects.fetch_add(of.objects, Ordering::Relaxed);
        counted.bytes.fetch_add(of.bytes, Ordering::Relaxed);
        counted.copy_byte_days.fetch_add(of.copy_byte_days, Ordering::Relaxed);
    }

    /// As a bill has it.
    pub(crate) fn used(&self) -> ByRestore<Restored> {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ArchiveClass::ALL.map(|class| {
            RestoreTier::ALL.map(|tier| {
                let counted = &self.0[class as usize][tier as usize];
                Restored {
                    class,
                    tier,
                    objects: get(&counted.objects),
                    bytes: get(&counted.bytes),
                    copy_byte_days: get(&counted.copy_byte_days),
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_counted_where_it_is_looked_for() {
        let counts = RestoredCounts::default();
        for class in ArchiveClass::ALL {
            for tier in RestoreTier::ALL {
                let restore = Restore { tier, days: 3 };
                counts.add(class, restore, 5);
                counts.add(class, restore, 7);
                let used = counts.used()[class as usize][tier as usize];
                assert_eq!(used, Restored::of(class, restore, 2, 12));
            }
        }
    }
}
