//! How much is below the volume's directories, and how much of it is here, for those who look at a
//! picture of it: one walk of the metadata, which ends soon, for all who ask within a minute.
//!
//! What must always hold: nobody is told a name that not every user of the machine may list. What
//! lies below such a directory is counted, and counts for the directory.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_meta::{DirEntryPlus, Meta};
use weir_tier::{Census, Tier};
use weir_types::{FileKind, Ino, Inode, Result};

use crate::volume::context::Context;
use crate::volume::locks::{Mutex, Place};

/// How old a survey may be.
const FRESH_MS: u64 = 60_000;
/// A walk ends after so many names, or so long.
const NAMES_MAX: u64 = 50_000;
const WALK_MAX: Duration = Duration::from_millis(500);
/// Names that are asked for at once.
const PAGE: usize = 1_000;
/// Directories below the root that have a row of their own.
const DEPTH: usize = 2;
/// Rows of a directory: the largest ones.
const ROWS: usize = 30;
/// Others may list a directory, and go into it.
const LISTED_BY_ALL: u32 = 0o005;

/// How much is below the directories of a volume, as of a walk that ends after 50,000 names or half a
/// second: up to a minute old.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Survey {
    /// When it was made, in milliseconds since 1970.
    pub unix_ms: u64,
    /// How long that took.
    pub took_ms: u64,
    /// Names that were looked at.
    pub names: u64,
    /// Whether that is all; else there is more than it says.
    pub complete: bool,
    /// The root.
    pub root: Surveyed,
}

/// What is in a directory and below.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Surveyed {
    /// Its name; empty for the root.
    pub name: String,
    /// Files in it and below.
    pub files: u64,
    /// Bytes that they hold, holes apart.
    pub bytes: u64,
    /// Of these, bytes in the tier.
    pub resident_bytes: u64,
    /// The largest directories in it, 30 at most and two levels deep, largest first. What is in none
    /// of them is in the sums only, and so is what is below a directory that not all users may list.
    pub directories: Vec<Surveyed>,
}

/// Looks, and keeps what it saw for a while.
pub(crate) struct Surveyor {
    context: Arc<Context>,
    meta: Arc<Meta>,
    tier: Arc<Tier>,
    last: Mutex<Option<(u64, Survey)>>,
}

impl Surveyor {
    pub(crate) fn new(context: Arc<Context>, meta: Arc<Meta>, tier: Arc<Tier>) -> Self {
        Self { context, meta, tier, last: Mutex::new(Place::Survey, 0, None) }
    }

    /// Those who ask at the same time wait for the same walk.
    pub(crate) async fn survey(&self) -> Result<Survey> {
        let mut last = self.last.lock().await;
        let began_ms = self.context.now_ms();
        match &*last {
            Some((at_ms, survey)) if began_ms.saturating_sub(*at_ms) < FRESH_MS => {
                return Ok(survey.clone());
            }
            _ => {}
        }
        let mut sums = Sums::default();
        // The bucket may be slow, or away: what was seen until then is told.
        let ended = tokio::time::timeout(WALK_MAX, self.walk(&mut sums)).await;
        let complete = match ended {
            Ok(Err(error)) if sums.names == 0 => return Err(error),
            ended => matches!(ended, Ok(Ok(true))),
        };
        let names = sums.names;
        let survey = Survey {
            unix_ms: self.context.unix_ms(),
            took_ms: self.context.now_ms().saturating_sub(began_ms),
            names,
            complete,
            root: sums.told(),
        };
        *last = Some((self.context.now_ms(), survey.clone()));
        Ok(survey)
    }

    /// Level by level, and of large directories some names in turn, so that an early end leaves the
    /// depths out and not the breadth. Answers whether it saw all. What nobody looked into of a lazy
    /// link stays so.
    async fn walk(&self, sums: &mut Sums) -> Result<bool> {
        let until_ms = self.context.now_ms() + WALK_MAX.as_millis() as u64;
        let root = self.meta.inode(Ino::ROOT).await?;
        let mut ahead = VecDeque::from([(Ino::ROOT, 0, sums.begin(&root))]);
        while let Some((dir, cookie, place)) = ahead.pop_front() {
            let entries = self.meta.readdir_plus(dir, cookie, PAGE).await?;
            for DirEntryPlus { entry, inode } in &entries {
                if sums.names == NAMES_MAX {
                    return Ok(false);
                }
                sums.names += 1;
                match inode.kind {
                    FileKind::Directory => {
                        let place = sums.enter(place, &entry.name, inode);
                        ahead.push_back((inode.ino, 0, place));
                    }
                    FileKind::Regular => sums.add(place, inode, self.here(inode)),
                    _ => {}
                }
            }
            if let Some(last) = entries.last() {
                ahead.push_back((dir, last.entry.cookie, place));
            }
            if self.context.now_ms() >= until_ms {
                return Ok(ahead.is_empty());
            }
            // What is in memory is answered without a pause for others.
            tokio::task::yield_now().await;
        }
        Ok(true)
    }

    /// Bytes of a file that are in the tier.
    fn here(&self, inode: &Inode) -> u64 {
        self.tier.find(inode.ino).map_or(0, |mirror| {
            let Census { resident, dirty, .. } = mirror.census();
            (resident + dirty).min(mirror.size())
        })
    }
}

/// Sums of directories, those with a row of their own.
#[derive(Default)]
struct Sums {
    names: u64,
    rows: Vec<Row>,
    /// Files with several names that were counted.
    linked: HashSet<Ino>,
}

/// The sums of a directory, without those of the rows below it.
struct Row {
    above: usize,
    sum: Surveyed,
}

/// Where a directory's files count, and whether directories in it have rows of their own.
#[derive(Clone, Copy)]
struct Position {
    row: usize,
    depth: usize,
    is_shown: bool,
}

impl Sums {
    fn begin(&mut self, root: &Inode) -> Position {
        self.rows.push(Row { above: 0, sum: Surveyed::default() });
        Position { row: 0, depth: 0, is_shown: is_listed_by_all(root) }
    }

    fn enter(&mut self, above: Position, name: &[u8], inode: &Inode) -> Position {
        if !above.is_shown || above.depth == DEPTH {
            return Position { is_shown: false, ..above };
        }
        let name = String::from_utf8_lossy(name).into_owned();
        let sum = Surveyed { name, ..Surveyed::default() };
        self.rows.push(Row { above: above.row, sum });
        Position {
            row: self.rows.len() - 1,
            depth: above.depth + 1,
            is_shown: is_listed_by_all(inode),
        }
    }

    fn add(&mut self, place: Position, inode: &Inode, here: u64) {
        if inode.nlink > 1 && !self.linked.insert(inode.ino) {
            return;
        }
        let stored = inode.stored_bytes.max(inode.native.as_ref().map_or(0, |native| native.end));
        let sum = &mut self.rows[place.row].sum;
        sum.files += 1;
        sum.bytes += stored.min(inode.size).max(here);
        sum.resident_bytes += here;
    }

    /// The tree of the rows. Each is behind the one above it.
    fn told(mut self) -> Surveyed {
        while self.rows.len() > 1 {
            let Some(Row { above, sum }) = self.rows.pop() else { break };
            let above = &mut self.rows[above].sum;
            above.files += sum.files;
            above.bytes += sum.bytes;
            above.resident_bytes += sum.resident_bytes;
            above.directories.push(largest(sum));
        }
        self.rows.pop().map_or_else(Surveyed::default, |row| largest(row.sum))
    }
}

fn largest(mut sum: Surveyed) -> Surveyed {
    sum.directories.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    sum.directories.truncate(ROWS);
    sum
}

fn is_listed_by_all(directory: &Inode) -> bool {
    directory.mode & LISTED_BY_ALL == LISTED_BY_ALL
}

#[cfg(test)]
mod tests {
    use weir_types::UnixTime;

    use super::*;

    fn inode(ino: u64, kind: FileKind, mode: u32) -> Inode {
        Inode { mode, ..Inode::new(Ino(ino), kind, Ino::ROOT, UnixTime(0)) }
    }

    fn file(ino: u64, size: u64) -> Inode {
        Inode { size, stored_bytes: size, ..inode(ino, FileKind::Regular, 0o600) }
    }

    #[test]
    fn the_largest_have_rows_and_the_rest_is_in_the_sums() {
        let mut sums = Sums::default();
        let open = |ino| inode(ino, FileKind::Directory, 0o755);
        let root = sums.begin(&open(1));
        sums.add(root, &file(2, 7), 7);
        for n in 0..100 {
            let place = sums.enter(root, format!("d{n}").as_bytes(), &open(1_000 + n));
            sums.add(place, &file(2_000 + n, 10 * n), n);
        }
        let told = sums.told();
        assert_eq!((told.files, told.bytes, told.resident_bytes), (101, 7 + 49_500, 7 + 4_950));
        assert_eq!(told.directories.len(), ROWS);
        let first = &told.directories[0];
        assert_eq!((first.name.as_str(), first.bytes, first.resident_bytes), ("d99", 990, 99));
    }

    #[test]
    fn what_not_all_may_list_and_what_is_deep_has_no_row() {
        let mut sums = Sums::default();
        let root = sums.begin(&inode(1, FileKind::Directory, 0o755));
        let a = sums.enter(root, b"a", &inode(10, FileKind::Directory, 0o755));
        let b = sums.enter(a, b"b", &inode(11, FileKind::Directory, 0o755));
        let c = sums.enter(b, b"c", &inode(12, FileKind::Directory, 0o755));
        sums.add(c, &file(13, 100), 50);
        for (n, mode) in [0o700, 0o750, 0o711, 0o754].into_iter().enumerate() {
            let n = n as u64;
            let shut = sums.enter(root, b"shut", &inode(20 + n, FileKind::Directory, mode));
            let inner = sums.enter(shut, b"secret", &inode(30 + n, FileKind::Directory, 0o755));
            let deep = sums.enter(inner, b"secret", &inode(40 + n, FileKind::Directory, 0o755));
            sums.add(deep, &file(50 + n, 1), 0);
        }
        let text = serde_json::to_string(&sums.told()).expect("encodes");
        assert!(!text.contains("secret") && !text.contains("\"c\""), "{text}");
        let told: Surveyed = serde_json::from_str(&text).expect("decodes");
        assert_eq!((told.files, told.bytes), (5, 104));
        assert_eq!(told.directories[0].directories[0].bytes, 100, "c counts for b");
        let mut shut = Sums::default();
        let root = shut.begin(&inode(1, FileKind::Directory, 0o700));
        shut.enter(root, b"secret", &inode(2, FileKind::Directory, 0o755));
        assert_eq!(shut.told().directories, []);
    }

    #[test]
    fn a_file_of_two_names_counts_once_and_holes_do_not() {
        let mut sums = Sums::default();
        let root = sums.begin(&inode(1, FileKind::Directory, 0o755));
        let linked = Inode { nlink: 2, ..file(2, 100) };
        sums.add(root, &linked, 100);
        sums.add(root, &linked, 100);
        let sparse = Inode { stored_bytes: 4, ..file(3, 1 << 40) };
        sums.add(root, &sparse, 0);
        // Not flushed yet: the metadata knows of nothing.
        sums.add(root, &file(4, 0), 9);
        let told = sums.told();
        assert_eq!((told.files, told.bytes, told.resident_bytes), (3, 113, 109));
    }
}
