//! The write leases of a session ([`bring`](super::bring)).

use std::collections::HashMap;

use weir_types::Ino;

use super::remembered::Pause;
use crate::kv::Version;
use crate::session::SessionId;

/// Most files with a write lease; a close of one that is made beyond them waits for the bucket.
const WRITES_MAX: usize = 1 << 16;
/// Files that come along with one that somebody asks for.
const ALONG_MAX: usize = 512;
/// Files of others of which it is known that nothing is to come. When there would be more all are forgotten,
/// and asked for once more.
const BROUGHT_MAX: usize = 1 << 16;
/// After so many waits for the bucket a file is worth a write lease.
const WAITS: u32 = 3;
/// A wait that comes so much later than the one before is the first one.
const WAITS_LATE_MS: u64 = 10_000;
/// No write lease is taken for this long where those on all files were asked for: a snapshot is made, which takes a
/// minute at most.
const ALL_ASKED_MS: u64 = 60_000;
/// Most files of which it is known how often something waited. When there would be more all are forgotten.
const WAITED_MAX: usize = 1 << 14;
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
    waited: HashMap<Ino, Waited>,
    /// Until when no lease is taken on files that were there.
    none_before_ms: u64,
}

/// How often something waited for the bucket, for want of a write lease on a file.
#[derive(Default)]
struct Waited {
    times: u32,
    last_ms: u64,
    /// Somebody asked for one; until when none is taken therefore.
    pause: Pause,
    not_before_ms: u64,
}

/// One of them.
struct Write {
    number: u64,
    /// When it began; of a directory, when a name was made there last.
    since_ms: u64,
    is_dir: bool,
    /// It ends once the volume has all of the file; a close waits for that.
    ends: bool,
    /// Somebody waits for that.
    asked: bool,
    /// Somebody looks at it or its like, and may change it: nothing of the lease is kept, for reading either.
    given_up: bool,
}

impl Writes {
    pub(super) fn begin(&mut self, ino: Ino, now_ms: u64, is_dir: bool) {
        self.last += 1;
        let number = self.last;
        self.all.insert(
            ino,
            Write { number, since_ms: now_ms, is_dir, ends: false, asked: false, given_up: false },
        );
    }

    /// Something waited for the bucket that would not with a write lease on this file; answers whether it is worth
    /// one.
    pub(super) fn waited(&mut self, ino: Ino, now_ms: u64) -> bool {
        if self.waited.len() >= WAITED_MAX && !self.waited.contains_key(&ino) {
            self.waited.clear();
        }
        let waited = self.waited.entry(ino).or_default();
        if now_ms > waited.last_ms + WAITS_LATE_MS {
            waited.times = 0;
        }
        (waited.times, waited.last_ms) = (waited.times.saturating_add(1), now_ms);
        waited.times >= WAITS
            && now_ms >= waited.not_before_ms.max(self.none_before_ms)
            && !self.all.contains_key(&ino)
    }

    /// Takes none on files that were there for a while: what is closed from now on is in the volume in this order.
    pub(super) fn hold_off(&mut self, now_ms: u64) {
        self.none_before_ms = now_ms + ALL_ASKED_MS;
    }

    /// Whether none is taken on files that were there.
    pub(super) fn holds_off(&self, now_ms: u64) -> bool {
        now_ms < self.none_before_ms
    }

    /// Names are made in these directories.
    pub(super) fn used(&mut self, dirs: impl Iterator<Item = Ino>, now_ms: u64) {
        for dir in dirs {
            self.all.entry(dir).and_modify(|write| write.since_ms = now_ms);
        }
    }

    /// Directories whose lease ends now, and whether somebody waits for that. No names are made there from now on
    /// but by commits that are waited for.
    pub(super) fn directories_due(&mut self, before_ms: u64) -> Vec<(Ino, bool)> {
        let due = self
            .all
            .iter_mut()
            .filter(|(_, write)| write.is_dir && (write.ends || write.since_ms <= before_ms));
        let end = |(ino, write): (&Ino, &mut Write)| {
            write.ends = true;
            (*ino, write.asked)
        };
        due.map(end).collect()
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

    /// Files that have one.
    pub(super) fn files(&self) -> usize {
        self.all.values().filter(|write| !write.is_dir).count()
    }

    /// Those of these of which nothing is kept.
    pub(super) fn given_up(&self, inos: impl Iterator<Item = Ino>) -> Vec<Ino> {
        inos.filter(|ino| self.all.get(ino).is_some_and(|write| write.given_up)).collect()
    }

    pub(super) fn ended(&mut self, inos: impl IntoIterator<Item = Ino>) {
        for ino in inos {
            self.all.remove(&ino);
        }
    }

    /// A row of this version asks for the lease on a file or directory, or on all files there are; answers whether
    /// something is to be brought first.
    pub(super) fn asked_for(&mut self, ino: Ino, row: Version, now_ms: u64) -> bool {
        if ino != ALL {
            let Some(write) = self.all.get_mut(&ino) else { return false };
            if let Some(waited) = self.waited.get_mut(&ino).filter(|_| !write.asked) {
                waited.times = 0;
                waited.not_before_ms = waited.pause.asked(now_ms);
            }
            (write.ends, write.asked, write.given_up) = (true, true, true);
            return true;
        }
        self.hold_off(now_ms);
        if self.all_asked.0 != row {
            self.all_asked = (row, self.last);
        }
        let (_, last) = self.all_asked;
        let asked = self.all.values_mut().filter(|write| write.number <= last && !write.is_dir);
        // They are brought, and looked at by nobody.
        asked.map(|write| (write.ends, write.asked) = (true, true)).count() > 0
    }

    /// Files whose lease may end now.
    pub(super) fn candidates(&self, before_ms: u64) -> Vec<(Ino, EndOfWrites)> {
        let is_any_asked = self.all.values().any(|write| write.asked && !write.is_dir);
        let mut along = 0;
        let of = |(ino, write): (&Ino, &Write)| {
            let why = match () {
                () if write.is_dir => return None,
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

    /// These end from now on; with each whether it is given up.
    pub(super) fn end(&mut self, inos: impl IntoIterator<Item = (Ino, bool)>) {
        for (ino, given_up) in inos {
            self.all.entry(ino).and_modify(|write| {
                write.ends = true;
                write.given_up |= given_up;
            });
        }
    }

    pub(super) fn nothing_to_come(&mut self, rows: &[(Ino, Version, SessionId)]) {
        if self.brought.len() + rows.len() > BROUGHT_MAX {
            self.brought.clear();
        }
        self.brought.extend(rows.iter().map(|(ino, version, _)| (*ino, *version)));
    }

    /// Nobody asked for anything, and one more wait is enough.
    #[cfg(test)]
    pub(super) fn forgive(&mut self) {
        self.none_before_ms = 0;
        self.waited
            .values_mut()
            .for_each(|waited| (waited.times, waited.not_before_ms) = (WAITS, 0));
    }
}
