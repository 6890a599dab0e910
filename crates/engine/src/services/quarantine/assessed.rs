//! An entry with all that is known of it.

use weir_types::{ByteRange, Ino, Inode, UnixTime};

use super::entry::Entry;
use super::log::{Lost, LostLog};
use super::views::Standing;

/// An entry with all that is known of it.
pub(crate) struct Assessed {
    pub(crate) entry: Entry,
    pub(crate) log: LostLog,
    pub(crate) lost: Lost,
    pub(crate) items: Vec<Item>,
    pub(crate) operations: Vec<Operation>,
}

/// One file of an entry.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) ino: Ino,
    /// Its former mirror file, by which the manifest knows it, if its bytes were in the tier.
    pub(crate) kept: Option<String>,
    pub(crate) standing: Standing,
    /// More of that for people.
    pub(crate) why: &'static str,
    /// Where it is, or was, in the tree.
    pub(crate) names: Vec<(Ino, Vec<u8>)>,
    pub(crate) path: Option<String>,
    pub(crate) size: u64,
    pub(crate) mtime: Option<UnixTime>,
    /// Ranges of bytes that are here.
    pub(crate) ranges: Vec<ByteRange>,
    /// The inode as lost commits made it.
    pub(crate) made: Option<Inode>,
    /// The inode as the volume has it.
    pub(crate) now: Option<Inode>,
}

/// A change of names or attributes that was acknowledged and is in no volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) what: &'static str,
    pub(crate) path: String,
}

impl Item {
    pub(crate) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.within(0, self.size).len()).sum()
    }

    /// What has its number now may be another file.
    pub(super) fn forget_other(&mut self) {
        let other = |now: &Inode, made: &Inode| now.btime != made.btime;
        let pair = self.now.as_ref().zip(self.made.as_ref());
        if self.standing == Standing::Removed || pair.is_some_and(|(now, made)| other(now, made)) {
            self.now = None;
        }
    }

    /// Nothing of it is unknown: what is not among its ranges is the volume's, or zeros.
    pub(crate) fn is_whole(&self, lost: &Lost) -> bool {
        match self.standing {
            Standing::Unchanged => true,
            Standing::New | Standing::Blocked => {
                let extents = lost.inodes.get(&self.ino).is_some_and(|lost| lost.extents);
                !extents || covers(&self.ranges, self.size)
            }
            _ => covers(&self.ranges, self.size),
        }
    }
}

pub(super) fn covers(ranges: &[ByteRange], size: u64) -> bool {
    let mut at = 0;
    for &ByteRange { start, end } in ranges {
        if start > at {
            return false;
        }
        at = at.max(end);
    }
    at >= size
}
