//! Which open directories may use the kernel's copy of a listing (`FOPEN_CACHE_DIR`).
//!
//! The kernel keeps one copy for each directory. Whoever lists to the end fills it, several
//! listers together, and it asks whether the directory changed since only at the start of a
//! listing. A lister that began without the copy goes on in it as soon as another has completed it,
//! and that one may have begun before a change whose caller then opened this one. So:
//!
//! - The first one after a change has the copy alone, until it was closed; whatever incomplete copy
//!   was there from before, nobody else goes on in it.
//! - When it was read to its end, all have the copy, which is complete or begun anew since.
//! - After a change nobody more has it, before all who do have closed.
//! - Who begins again meanwhile (`rewinddir`) has the kernel drop it first; see
//!   [`Listings::begins`].
//!
//! The kernel makes no change of a directory while it waits for a page of its listing.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use weir_types::Ino;

/// Directories of which it is remembered that all may have the copy: some 100 KiB of them.
const REMEMBERED_MAX: usize = 4096;

/// Whether an open directory may use the kernel's copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Copy {
    /// It reads all from the daemon.
    No,
    /// It may fill the copy, alone.
    Alone,
    /// It may use it with others.
    DoorState,
}

/// The directories that are open with the copy, or that may be by all.
#[derive(Debug, Default)]
pub(crate) struct Listings {
    dirs: Mutex<HashMap<Ino, Dir>>,
}

#[derive(Debug, Default)]
struct Dir {
    /// Open ones with the copy.
    open: usize,
    /// One that was alone has read to its end.
    whole: bool,
    /// A name came or went since the first of those that are open.
    changed: bool,
}

/// What is known of a directory, for whoever goes on with the mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListingHandover {
    pub(crate) ino: Ino,
    pub(crate) open: usize,
    pub(crate) whole: bool,
    pub(crate) changed: bool,
}

impl Listings {
    /// One more open directory. To be ended by [`Listings::close`] unless it is [`Copy::No`].
    pub(crate) fn open(&self, ino: Ino) -> Copy {
        let mut dirs = self.dirs();
        if dirs.len() >= REMEMBERED_MAX && !dirs.contains_key(&ino) {
            dirs.retain(|_, dir| dir.open > 0);
        }
        let dir = dirs.entry(ino).or_default();
        match dir {
            Dir { open: 0, whole: false, .. } => {
                dir.open = 1;
                Copy::Alone
            }
            Dir { whole: true, changed: false, .. } => {
                dir.open += 1;
                Copy::DoorState
            }
            _ => Copy::No,
        }
    }

    /// One that has the copy is closed; `ended` if it was read to its end.
    pub(crate) fn close(&self, ino: Ino, ended: bool) {
        let mut dirs = self.dirs();
        let Some(dir) = dirs.get_mut(&ino) else { return };
        dir.open -= 1;
        // Those that are not whole are alone.
        dir.whole |= ended;
        if dir.open == 0 && (dir.changed || !dir.whole) {
            dirs.remove(&ino);
        }
    }

    /// A name in `ino` came or went. To be called before whoever did it is told.
    pub(crate) fn changed(&self, ino: Ino) {
        let mut dirs = self.dirs();
        match dirs.get_mut(&ino) {
            Some(dir) if dir.open > 0 => dir.changed = true,
            Some(_) => drop(dirs.remove(&ino)),
            None => {}
        }
    }

    /// One that has the copy begins a listing in the daemon. Answers whether the kernel must drop
    /// the copy first: another may have begun one before a change that this one must see.
    pub(crate) fn begins(&self, ino: Ino) -> bool {
        self.dirs().get(&ino).is_some_and(|dir| dir.changed && dir.open > 1)
    }

    /// All that is known, for whoever goes on with the mount.
    pub(crate) fn all(&self) -> Vec<ListingHandover> {
        let dirs = self.dirs();
        let all = dirs.iter().map(|(ino, Dir { open, whole, changed })| ListingHandover {
            ino: *ino,
            open: *open,
            whole: *whole,
            changed: *changed,
        });
        all.collect()
    }

    /// Goes on with what another knew.
    pub(crate) fn restore(&self, all: Vec<ListingHandover>) {
        let dirs = all.into_iter().map(|ListingHandover { ino, open, whole, changed }| {
            (ino, Dir { open, whole, changed })
        });
        self.dirs().extend(dirs);
    }

    fn dirs(&self) -> MutexGuard<'_, HashMap<Ino, Dir>> {
        self.dirs.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: Ino = Ino(7);

    /// With one who read to the end while nothing changed.
    fn listed() -> Listings {
        let listings = Listings::default();
        assert_eq!(listings.open(DIR), Copy::Alone);
        listings.close(DIR, true);
        listings
    }

    #[test]
    fn the_first_is_alone_and_after_its_end_all_share() {
        let listings = Listings::default();
        assert_eq!(listings.open(DIR), Copy::Alone);
        assert_eq!(listings.open(DIR), Copy::No);
        listings.close(DIR, true);
        assert_eq!(listings.open(DIR), Copy::DoorState);
        assert_eq!(listings.open(DIR), Copy::DoorState);
        listings.close(DIR, false);
        listings.close(DIR, false);
        assert_eq!(listings.open(DIR), Copy::DoorState, "nothing changed");
    }

    #[test]
    fn one_that_stopped_half_way_leaves_nothing_to_share() {
        let listings = Listings::default();
        assert_eq!(listings.open(DIR), Copy::Alone);
        listings.close(DIR, false);
        assert_eq!(listings.open(DIR), Copy::Alone);
    }

    #[test]
    fn after_a_change_nobody_joins_those_who_began_before() {
        let listings = listed();
        assert_eq!(listings.open(DIR), Copy::DoorState);
        assert_eq!(listings.open(DIR), Copy::DoorState);
        assert!(!listings.begins(DIR));
        listings.changed(DIR);
        assert_eq!(listings.open(DIR), Copy::No);
        assert!(listings.begins(DIR), "the other one may be half-way");
        listings.close(DIR, true);
        assert!(!listings.begins(DIR), "nobody else is");
        assert_eq!(listings.open(DIR), Copy::No);
        listings.close(DIR, true);
        assert_eq!(listings.open(DIR), Copy::Alone);
        listings.changed(DIR);
        listings.close(DIR, true);
        assert_eq!(listings.open(DIR), Copy::Alone, "its end was that of an old listing");
    }

    #[test]
    fn a_change_while_nobody_lists_makes_the_next_one_the_first() {
        let listings = listed();
        listings.changed(DIR);
        listings.changed(Ino(8));
        assert_eq!(listings.open(DIR), Copy::Alone);
    }

    #[test]
    fn no_more_is_remembered_than_so_many() {
        let listings = listed();
        for ino in 100..100 + 2 * REMEMBERED_MAX as u64 {
            listings.open(Ino(ino));
            listings.close(Ino(ino), true);
        }
        assert!(listings.dirs().len() <= REMEMBERED_MAX);
        assert_eq!(listings.open(DIR), Copy::Alone, "forgotten");
    }
}
