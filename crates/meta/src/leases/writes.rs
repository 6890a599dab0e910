//! The write leases of a session ([`bring`](super::bring)).

use std::collections::HashMap;

use weir_types::Ino;

use crate::kv::Version;
use crate::session::SessionId;

/// Most files with a write lease; a close of one that is made beyond them waits for the bucket.
const WRITES_MAX: usize = 1 << 16;
/// Files that come along with one that somebody asks for.
const ALONG_MAX: usize = 512;
/// Files of others of which it is known that nothing is to come. When there would be more all are forgotten,
/// and asked for once more.
const BROUGHT_MAX: usize = 1 << 16;
/// Stands for all files in the row that asks for a lease.
pub(super) const ALL: Ino = Ino(0);

/// Why a write lease may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndOfWrites {
    /// Somebody waits for it.
    Asked,
    /// It is old.
    Age,
    /// Somebody waits for another one: they share an object, and who asks looks for more.
    Along,
}

/// The write leases of a session.
#[derive(Default)]
pub(super) struct Writes {
    all: HashMap<Ino, Write>,
    last: u64,
    /// Which row asked for all files, and what the last of them was then.
    all_asked: (Version, u64),
    /// Rows of files whose writers had no more to bring, and the versions of these.
    brought: HashMap<Ino, Version>,
}

/// One of them.
struct Write {
    number: u64,
    since_ms: u64,
    /// It ends once the volume has all of the file; a close waits for that.
    ends: bool,
    /// Somebody waits for that.
    asked: bool,
}

impl Writes {
    pub(super) fn begin(&mut self, ino: Ino, now_ms: u64) {
        self.last += 1;
        let number = self.last;
        self.all.insert(ino, Write { number, since_ms: now_ms, ends: false, asked: false });
    }

    pub(super) fn has_room(&self) -> bool {
        self.all.len() < WRITES_MAX
    }

    /// Whether there is one on a file, and whether it ends.
    pub(super) fn of(&self, ino: Ino) -> Option<bool> {
        self.all.get(&ino).map(|write| write.ends)
    }

    /// Whether a file that others write is as it was when nothing more was to come.
    pub(super) fn was_brought(&self, ino: Ino, version: Version) -> bool {
        self.brought.get(&ino) == Some(&version)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn ended(&mut self, inos: impl IntoIterator<Item = Ino>) {
        for ino in inos {
            self.all.remove(&ino);
        }
    }

    /// A row of this version asks for the lease on a file, or on all there are; answers whether something is
    /// to be brought first.
    pub(super) fn asked_for(&mut self, ino: Ino, row: Version) -> bool {
        if ino != ALL {
            let Some(write) = self.all.get_mut(&ino) else { return false };
            (write.ends, write.asked) = (true, true);
            return true;
        }
        if self.all_asked.0 != row {
            self.all_asked = (row, self.last);
        }
        let (_, last) = self.all_asked;
        let asked = self.all.values_mut().filter(|write| write.number <= last);
        asked.map(|write| (write.ends, write.asked) = (true, true)).count() > 0
    }

    /// Files whose lease may end now.
    pub(super) fn candidates(&self, before_ms: u64) -> Vec<(Ino, EndOfWrites)> {
        let is_any_asked = self.all.values().any(|write| write.asked);
        let mut along = 0;
        let of = |(ino, write): (&Ino, &Write)| {
            let why = match () {
                () if write.asked => EndOfWrites::Asked,
                () if write.since_ms <= before_ms => EndOfWrites::Age,
                () if is_any_asked && along < ALONG_MAX => EndOfWrites::Along,
                () => return None,
            };
            along += usize::from(why == EndOfWrites::Along);
            Some((*ino, why))
        };
        let mut found: Vec<_> = self.all.iter().filter_map(of).collect();
        found.sort_unstable_by_key(|(ino, _)| *ino);
        found
    }

    pub(super) fn end(&mut self, inos: impl IntoIterator<Item = Ino>) {
        for ino in inos {
            self.all.entry(ino).and_modify(|write| write.ends = true);
        }
    }

    pub(super) fn nothing_to_come(&mut self, rows: &[(Ino, Version, SessionId)]) {
        if self.brought.len() + rows.len() > BROUGHT_MAX {
            self.brought.clear();
        }
        self.brought.extend(rows.iter().map(|(ino, version, _)| (*ino, *version)));
    }
}
