//! Looking for damage: every invariant of the metadata, in one pass over all keys.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use accounts::Accounts;
use serde::de::DeserializeOwned;
use weir_types::{Account, CHUNK_BYTES, Extent, FileKind, Ino, Restore, Result, SegmentId};

use crate::codec::{Dirent, counter, decode, decode_inode, last_key};
use crate::counted::Counted;
use crate::kv::{Key, Kv, Versioned};
use crate::node_locks::NodeLock;
use crate::reclaims::ReclaimRow;
use crate::{
    ActionPortion, ActionRow, DiskRow, LinkObject, ObjectAge, QuotaRow, SegmentAge, SegmentInfo,
    SnapshotRow, extents, keys,
};

mod accounts;

/// Rows read at once.
const PAGE: usize = 1_000;
/// Problems after which the rest is only counted.
const PROBLEMS_MAX: usize = 10_000;

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(pub String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is remembered of an inode.
struct Node {
    kind: FileKind,
    nlink: u32,
    parent: Ino,
    account: Account,
    size: u64,
    stored_bytes: u64,
    /// End of its native object's bytes, if it has one.
    native_end: Option<u64>,
    /// Entries that lead here.
    names: u64,
    /// Of a directory: its entries, and those of them that are directories.
    entries: i64,
    subdirs: u64,
    /// Of a directory: an entry in its parent leads here.
    in_parent: bool,
    orphan: bool,
    covered: u64,
    /// The number of the walk towards the root that came by; 0: none did.
    walk: u64,
}

/// What is remembered of a segment.
#[derive(Default)]
struct Use {
    raw_bytes: u64,
    known: bool,
    used: i64,
    counted: i64,
}

#[derive(Default)]
struct Checker {
    nodes: HashMap<Ino, Node>,
    segments: HashMap<SegmentId, Use>,
    /// What the counters of quotas must say, until their rows are seen.
    quotas: BTreeMap<Key, i64>,
    accounts: Accounts,
    problems: Vec<Problem>,
    untold: usize,
}

/// All that is wrong; empty when the volume is sound. Nothing may write meanwhile. Memory: one
/// small entry for each inode and segment.
pub async fn check(kv: &dyn Kv) -> Result<Vec<Problem>> {
    let mut checker = Checker::default();
    // Inodes, segments and quotas first: the other rows are held against them.
    type Visit = fn(&mut Checker, &Key, &Versioned);
    let visits: [(u8, Visit); 29] = [
        (keys::INODE, Checker::inode),
        (keys::SEGMENT, Checker::segment),
        (keys::QUOTA, Checker::quota_row),
        (keys::DIRENT, Checker::dirent),
        (keys::DISK, Checker::disk),
        (keys::ORPHAN, Checker::orphan),
        (keys::DIR_COUNT, Checker::dir_count),
        (keys::EXTENTS, Checker::extents),
        (keys::LIVE, Checker::live),
        (keys::BACK_REF, Checker::back_ref),
        (keys::DIR_TIMES, Checker::of_some_inode),
        (keys::XATTR, Checker::of_some_inode),
        (keys::PIN, Checker::of_some_inode),
        (keys::HOLD, Checker::of_some_inode),
        (keys::DISK_HOLD, Checker::of_some_inode),
        (keys::NODE_LOCKS, Checker::node_locks),
        (keys::NODE_WAITS, Checker::node_waits),
        (keys::RECLAIM, Checker::reclaim),
        (keys::BEHIND, Checker::behind),
        (keys::ACTION, Checker::action),
        (keys::ACTION_PORTION, Checker::portion),
        (keys::ACTION_RESTORE, Checker::restore),
        (keys::COUNTER, Checker::counter),
        (keys::QUOTA_COUNT, Checker::quota),
        (keys::LINK_OBJECT, Checker::link_object),
        (keys::HELD, Checker::held),
        (keys::SEGMENT_AGE, Checker::age),
        (keys::OBJECT_AGE, Checker::object_age),
        (keys::SNAPSHOT, Checker::snapshot),
    ];
    for (tag, visit) in visits {
        let mut after: Option<Key> = None;
        loop {
            let page = kv.scan(&[tag], after.as_deref(), PAGE).await?;
            page.iter().for_each(|(key, found)| visit(&mut checker, key, found));
            if page.len() < PAGE {
                break;
            }
            after = last_key(&page);
        }
    }
    let volume = kv
        .get_many(&[keys::NEXT_INO.to_vec(), keys::INODES.to_vec(), keys::STORED.to_vec()])
        .await?;
    checker.volume(&volume);
    checker.finish();
    Ok(checker.problems)
}

impl Checker {
    fn tell(&mut self, what: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem(what));
        } else {
            self.untold += 1;
        }
    }

    fn decoded<T: DeserializeOwned>(&mut self, key: &Key, found: &Versioned) -> Option<T> {
        match decode(key, &found.value) {
            Ok(value) => Some(value),
            Err(error) => {
                self.tell(error.to_string());
                None
            }
        }
    }

    /// The parsed key, or a problem told.
    fn parsed<T>(&mut self, key: &Key, parsed: Option<T>) -> Option<T> {
        if parsed.is_none() {
            self.tell(format!("key {} is too short", key.escape_ascii()));
        }
        parsed
    }

    fn number(&mut self, key: &[u8], found: Option<&Versioned>) -> i64 {
        counter(key, found).unwrap_or_else(|error| {
            self.tell(error.to_string());
            0
        })
    }

    fn inode(&mut self, key: &Key, found: &Versioned) {
        let Some(ino) = self.parsed(key, keys::parse_ino(key)) else {
            return;
        };
        let inode = match decode_inode(key, &found.value) {
            Ok(inode) => inode,
            Err(error) => return self.tell(error.to_string()),
        };
        if inode.ino != ino {
            self.tell(format!("inode {ino} calls itself {}", inode.ino));
        }
        let mut counted = Counted::default();
        counted.after(&inode);
        counted.into_adds().for_each(|(key, n)| *self.quotas.entry(key).or_default() += n);
        let node = Node {
            kind: inode.kind,
            nlink: inode.nlink,
            parent: inode.parent,
            account: inode.account,
            size: inode.size,
            stored_bytes: inode.stored_bytes,
            native_end: inode.native.as_ref().map(|native| native.end),
            names: 0,
            entries: 0,
            subdirs: 0,
            in_parent: false,
            orphan: false,
            covered: 0,
            walk: 0,
        };
        self.nodes.insert(ino, node);
    }

    fn segment(&mut self, key: &Key, found: &Versioned) {
        let Some(id) = self.parsed(key, keys::parse_segment(key)) else {
            return;
        };
        let Some(info) = self.decoded::<SegmentInfo>(key, found) else {
            return;
        };
        let entry = self.segments.entry(id).or_default();
        (entry.known, entry.raw_bytes) = (true, info.raw_bytes);
    }

    fn dirent(&mut self, key: &Key, found: &Versioned) {
        let parts = keys::parse_ino(key).zip(keys::parse_dirent(key));
        let Some((dir, (cookie, name))) = self.parsed(key, parts) else {
            return;
        };
        let Some(entry) = self.decoded::<Dirent>(key, found) else {
            return;
        };
        let what = format!("entry `{}` of directory {dir}", name.escape_ascii());
        if cookie != keys::cookie(name) {
            self.tell(format!("{what} lies under the wrong hash"));
        }
        let is_dir = entry.kind == FileKind::Directory;
        match self.nodes.get_mut(&dir) {
            Some(node) if node.kind == FileKind::Directory && node.nlink > 0 => {
                node.entries += 1;
                node.subdirs += u64::from(is_dir);
            }
            Some(_) => self.tell(format!("{what}: the directory is removed or none")),
            None => self.tell(format!("{what}: the directory is not there")),
        }
        match self.nodes.get_mut(&entry.ino) {
            Some(node) if node.kind == entry.kind => {
                node.names += 1;
                node.in_parent |= node.parent == dir;
            }
            Some(_) => self.tell(format!("{what}: inode {} is of another kind", entry.ino)),
            None => self.tell(format!("{what}: inode {} is not there", entry.ino)),
        }
        if let (Some(dir), Some(node)) = (self.nodes.get(&dir), self.nodes.get(&entry.ino))
            && let Some(wrong) =
                self.accounts.misplaced((entry.ino, is_dir), node.account, dir.account)
        {
            self.tell(format!("{what}: inode {} {wrong}", entry.ino));
        }
    }

    /// A disk's row is the name of its file.
    fn disk(&mut self, key: &Key, found: &Versioned) {
        let Some(row) = self.decoded::<DiskRow>(key, found) else {
            return;
        };
        let what = format!("disk `{}`", key[1..].escape_ascii());
        match self.nodes.get_mut(&row.ino) {
            Some(node) if node.kind == FileKind::Regular => node.names += 1,
            Some(_) => self.tell(format!("{what}: inode {} is no regular file", row.ino)),
            None => self.tell(format!("{what}: inode {} is not there", row.ino)),
        }
    }

    fn orphan(&mut self, key: &Key, _: &Versioned) {
        let Some(ino) = self.parsed(key, keys::parse_ino(key)) else {
            return;
        };
        match self.nodes.get_mut(&ino) {
            Some(node) => node.orphan = true,
            None => self.tell(format!("orphan {ino} is not there")),
        }
    }

    /// Entries are counted down here, so that what is left in the end is the difference.
    fn dir_count(&mut self, key: &Key, found: &Versioned) {
        let Some(ino) = self.parsed(key, keys::parse_ino(key)) else {
            return;
        };
        let count = self.number(key, Some(found));
        match self.nodes.get_mut(&ino) {
            Some(node) => node.entries -= count,
            None => self.tell(format!("directory {ino} has an entry counter but is not there")),
        }
    }

    fn extents(&mut self, key: &Key, found: &Versioned) {
        let parts = keys::parse_ino(key).zip(keys::parse_chunk(key));
        let Some((ino, chunk)) = self.parsed(key, parts) else {
            return;
        };
        let Some(list) = self.decoded::<Vec<Extent>>(key, found) else {
            return;
        };
        let what = format!("chunk {chunk} of inode {ino}");
        let mut end = 0;
        for extent in &list {
            let (start, len) = (u64::from(extent.start), u64::from(extent.len));
            if start < end || len == 0 || start + len > CHUNK_BYTES {
                self.tell(format!("{what}: the extent at {start} is out of place"));
            }
            end = start + len;
            if extent.is_native() {
                continue;
            }
            if u64::from(extent.skip) + len > u64::from(extent.record.raw_bytes) {
                self.tell(format!("{what}: the extent at {start} reaches past its record"));
            }
            let segment = self.segments.entry(extent.record.segment).or_default();
            segment.used += i64::from(extent.len);
        }
        let native_end = self.nodes.get(&ino).and_then(|node| node.native_end);
        if list.is_empty() && native_end.is_none() {
            self.tell(format!("{what}: an empty list is stored"));
        }
        let base = chunk * CHUNK_BYTES;
        let past = |e: &Extent| base + u64::from(e.end()) > native_end.unwrap_or(0);
        if list.iter().any(|e| e.is_native() && past(e)) {
            self.tell(format!("{what}: bytes of a native object lie past its end"));
        }
        match self.nodes.get_mut(&ino) {
            Some(node) => {
                node.covered += extents::covered(&list).max(0).cast_unsigned();
                if chunk * CHUNK_BYTES + end > node.size {
                    self.tell(format!("{what}: extents lie past the end of the file"));
                }
            }
            None => self.tell(format!("{what}: the inode is not there")),
        }
    }

    fn live(&mut self, key: &Key, found: &Versioned) {
        let Some(id) = self.parsed(key, keys::parse_segment(key)) else {
            return;
        };
        let count = self.number(key, Some(found));
        self.segments.entry(id).or_default().counted = count;
    }

    fn back_ref(&mut self, key: &Key, _: &Versioned) {
        let Some(id) = self.parsed(key, keys::parse_segment(key)) else {
            return;
        };
        if !self.segments.get(&id).is_some_and(|segment| segment.known) {
            self.tell(format!("segment {id} has a back reference but is not there"));
        }
    }

    fn held(&mut self, key: &Key, found: &Versioned) {
        let Some(id) = self.parsed(key, keys::parse_segment(key)) else {
            return;
        };
        let _: Option<u32> = self.decoded(key, found);
        if !self.segments.get(&id).is_some_and(|segment| segment.known) {
            self.tell(format!("segment {id} is held for a snapshot but is not there"));
        }
    }

    fn age(&mut self, key: &Key, found: &Versioned) {
        let Some(id) = self.parsed(key, keys::parse_segment(key)) else {
            return;
        };
        let _: Option<SegmentAge> = self.decoded(key, found);
        if !self.segments.get(&id).is_some_and(|segment| segment.known) {
            self.tell(format!("segment {id} has an age but is not there"));
        }
    }

    // Those of files that are gone go with the next pass.
    fn object_age(&mut self, key: &Key, found: &Versioned) {
        let _ = self.parsed(key, keys::parse_ino(key));
        let _: Option<ObjectAge> = self.decoded(key, found);
    }

    fn snapshot(&mut self, key: &Key, found: &Versioned) {
        let _: Option<SnapshotRow> = self.decoded(key, found);
    }

    fn of_some_inode(&mut self, key: &Key, _: &Versioned) {
        let Some(ino) = self.parsed(key, keys::parse_ino(key)) else {
            return;
        };
        if !self.nodes.contains_key(&ino) {
            self.tell(format!("key {}: inode {ino} is not there", key.escape_ascii()));
        }
    }

    fn node_locks(&mut self, key: &Key, found: &Versioned) {
        self.of_some_inode(key, found);
        let _ = self.decoded::<Vec<NodeLock>>(key, found);
    }

    fn node_waits(&mut self, key: &Key, found: &Versioned) {
        let _ = self.parsed(key, keys::parse_session(key));
        let _ = self.decoded::<Vec<(Ino, NodeLock)>>(key, found);
    }

    fn reclaim(&mut self, key: &Key, found: &Versioned) {
        let _ = self.parsed(key, keys::parse_session(key));
        let _ = self.decoded::<ReclaimRow>(key, found);
    }

    fn behind(&mut self, key: &Key, found: &Versioned) {
        let _ = self.parsed(key, keys::parse_session(key));
        let _ = self.decoded::<u64>(key, found);
    }

    fn link_object(&mut self, key: &Key, found: &Versioned) {
        let Some(object) = self.decoded::<LinkObject>(key, found) else {
            return;
        };
        // Rows of directories outlive them.
        let of_file = object.ino.filter(|_| !key.ends_with(b"/"));
        if let Some(ino) = of_file.filter(|ino| !self.nodes.contains_key(ino)) {
            self.tell(format!("object {}: its inode {ino} is not there", key.escape_ascii()));
        }
    }

    fn action(&mut self, key: &Key, found: &Versioned) {
        let _ = self.parsed(key, keys::parse_action(key));
        let _: Option<ActionRow> = self.decoded(key, found);
    }

    fn portion(&mut self, key: &Key, found: &Versioned) {
        let _ = self.parsed(key, keys::parse_action(key));
        let _: Option<ActionPortion> = self.decoded(key, found);
    }

    fn restore(&mut self, key: &Key, found: &Versioned) {
        let _ = self.parsed(key, keys::parse_action(key));
        let _: Option<Restore> = self.decoded(key, found);
    }

    fn counter(&mut self, key: &Key, _: &Versioned) {
        if key != keys::INODES && key != keys::STORED {
            self.tell(format!("counter {} is unknown", key.escape_ascii()));
        }
    }

    fn quota(&mut self, key: &Key, found: &Versioned) {
        let (count, sum) = (self.number(key, Some(found)), self.quotas.remove(key).unwrap_or(0));
        if count != sum {
            let key = key.escape_ascii();
            self.tell(format!("the counter {key} of a quota says {count}, there are {sum}"));
        }
    }

    fn quota_row(&mut self, key: &Key, found: &Versioned) {
        let Some(of) = self.parsed(key, keys::parse_quota(key)) else {
            return;
        };
        if let Some(row) = self.decoded::<QuotaRow>(key, found) {
            self.accounts.quota(of, &row);
        }
    }

    /// The counters of the whole volume, and its next inode number.
    fn volume(&mut self, found: &[Option<Versioned>]) {
        let next = match &found[0] {
            Some(row) => self.decoded::<u64>(&keys::NEXT_INO.to_vec(), row),
            None => None,
        };
        let largest = self.nodes.keys().map(|ino| ino.0).max().unwrap_or(0);
        if next.is_none_or(|next| next <= largest) {
            self.tell(format!("next inode number is {next:?} but inode {largest} is there"));
        }
        let stored: u64 = self.nodes.values().map(|node| node.stored_bytes).sum();
        let sums = [("inodes", self.nodes.len() as u64), ("stored bytes", stored)];
        for ((what, sum), row) in sums.into_iter().zip(&found[1..]) {
            let count = self.number(b"C", row.as_ref());
            if i64::try_from(sum) != Ok(count) {
                self.tell(format!("the counter of {what} says {count}, there are {sum}"));
            }
        }
    }

    fn finish(&mut self) {
        if !self.nodes.contains_key(&Ino::ROOT) {
            self.tell("the root directory is not there".to_owned());
        }
        let root = self.nodes.get(&Ino::ROOT).map(|root| root.account).unwrap_or_default();
        let wrong = self.accounts.misplaced((Ino::ROOT, true), root, Account::default());
        if let Some(wrong) = wrong {
            self.tell(format!("the root directory {wrong}"));
        }
        let mut inos: Vec<_> = self.nodes.keys().copied().collect();
        inos.sort_unstable();
        for (walk, ino) in (1..).zip(inos) {
            for what in node_problems(ino, &self.nodes[&ino]) {
                self.tell(format!("inode {ino}: {what}"));
            }
            if !self.leads_to_root(ino, walk) {
                self.tell(format!("directory {ino}: its parents do not lead to the root"));
            }
        }
        for (key, sum) in std::mem::take(&mut self.quotas) {
            if sum != 0 {
                let key = key.escape_ascii();
                self.tell(format!("the counter {key} of a quota is not there, there are {sum}"));
            }
        }
        let mut segments: Vec<_> = std::mem::take(&mut self.segments).into_iter().collect();
        segments.sort_unstable_by_key(|(id, _)| *id);
        for (id, segment) in segments {
            let (used, counted) = (segment.used, segment.counted);
            if used != counted {
                self.tell(format!(
                    "segment {id}: {used} bytes are used, the counter says {counted}"
                ));
            }
            if !segment.known && used != 0 {
                self.tell(format!("segment {id} is used but not there"));
            }
        }
        if self.untold > 0 {
            self.problems.push(Problem(format!("and {} more", self.untold)));
        }
    }

    /// Whether a living directory's parents lead to the root. Each directory is passed by one walk
    /// only: where a later walk meets an earlier one, the earlier has told already; where it meets
    /// itself, there is a ring.
    fn leads_to_root(&mut self, ino: Ino, walk: u64) -> bool {
        let mut at = ino;
        loop {
            let Some(node) = self.nodes.get_mut(&at) else {
                return false;
            };
            if node.kind != FileKind::Directory || node.nlink == 0 {
                return at == ino;
            }
            if at == Ino::ROOT || (node.walk != 0 && node.walk != walk) {
                return true;
            }
            if node.walk == walk {
                return false;
            }
            node.walk = walk;
            at = node.parent;
        }
    }
}

/// What is wrong with one inode by itself, once all rows were seen.
fn node_problems(ino: Ino, node: &Node) -> Vec<String> {
    let mut found = Vec::new();
    let is_dir = node.kind == FileKind::Directory;
    let names = node.names + u64::from(ino == Ino::ROOT);
    let nlink = match node.nlink {
        0 => u64::from(is_dir && names > 0),
        _ if is_dir => 2 + node.subdirs,
        _ => names,
    };
    if u64::from(node.nlink) != nlink {
        found.push(format!("nlink is {}, should be {nlink}", node.nlink));
    }
    if names == 0 && !node.orphan {
        found.push("no name leads here and it is no orphan".to_owned());
    }
    if node.orphan && (node.nlink > 0 || names > 0) {
        found.push("is marked an orphan but has a name".to_owned());
    }
    if is_dir && names > 1 {
        found.push(format!("is a directory with {names} names"));
    }
    if is_dir && names == 1 && ino != Ino::ROOT && !node.in_parent {
        found.push(format!("its parent {} has no entry for it", node.parent));
    }
    if node.entries != 0 {
        found.push(format!("its entry counter is {} too small", node.entries));
    }
    if node.covered != node.stored_bytes {
        let (covered, stored) = (node.covered, node.stored_bytes);
        found.push(format!("extents cover {covered} bytes, it says {stored}"));
    }
    found
}

#[cfg(test)]
mod tests;
