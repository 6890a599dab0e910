//! What is different between two states of a volume: names that came, names that went, and what lies under the same
//! name and is not the same.
//!
//! Entries of all directories are read side by side, in the order of their keys, and of each name that both have the
//! inodes. An inode number is one file for ever, so that who reads it can tell a name that moved: it went in one
//! place, and came in another with the same number.

use std::cmp::Ordering;
use std::collections::HashMap;

use weir_types::{FileKind, Ino, Inode, Result};

use crate::codec::{Dirent, decode, last_key};
use crate::keys;
use crate::kv::{Key, Kv, Versioned};
use crate::op::seen_inode;
use crate::paths::path_of;

/// Entries read at once of each side.
const PAGE: usize = 2_000;

/// How a name is different.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was not there before.
    Came,
    /// It is not there any more.
    Went,
    /// What it leads to is not as it was.
    Changed {
        /// Its bytes, or what it is at all, and not only its attributes.
        content: bool,
    },
}

/// A name that is different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// How.
    pub change: Change,
    /// Below the root; as it is after, or was before if it went.
    pub path: Vec<u8>,
    /// What it leads to, or led to if it went.
    pub ino: Ino,
    /// What that is.
    pub kind: FileKind,
    /// The inode was there before, and its bytes are others now.
    pub rewritten: bool,
}

/// Some of the differences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// In the order of the keys of entries.
    pub found: Vec<Difference>,
    /// Where the rest begins, if there is any.
    pub next: Option<Key>,
    /// Entries that were looked at, in the state after.
    pub entries: u64,
}

/// The two states.
#[derive(Clone, Copy)]
pub struct Between<'a> {
    /// The one that is compared with.
    pub before: &'a dyn Kv,
    /// The other.
    pub after: &'a dyn Kv,
}

/// The differences from a place on. Two reads of up to 2,000 entries, two of the inodes of those, and two for each
/// directory above one that differs.
pub async fn differences(between: Between<'_>, from: Option<&[u8]>) -> Result<Differences> {
    let Between { before, after } = between;
    let mut pages = [
        before.scan(&[keys::DIRENT], from, PAGE).await?,
        after.scan(&[keys::DIRENT], from, PAGE).await?,
    ];
    // Beyond the last one of a page that is full the other side cannot be compared yet.
    let full = pages.iter().filter(|page| page.len() >= PAGE);
    let place = |key: &Key| after.ordered_by(key).into_owned();
    let bound = full.filter_map(|page| last_key(page)).min_by_key(place);
    if let Some(bound) = &bound {
        let bound = place(bound);
        pages.iter_mut().for_each(|page| page.retain(|(key, _)| place(key) <= bound));
    }
    let [old, new] = pages;
    let entries = new.len() as u64;
    let pairs = side_by_side(&old, &new, place)?;
    let found = Compare { between, paths: HashMap::new() }.all(&pairs).await?;
    Ok(Differences { found, next: bound, entries })
}

/// A name, and what it leads to before and after.
struct Pair<'a> {
    key: &'a Key,
    before: Option<Dirent>,
    after: Option<Dirent>,
}

fn side_by_side<'a>(
    old: &'a [(Key, Versioned)],
    new: &'a [(Key, Versioned)],
    place: impl Fn(&Key) -> Key,
) -> Result<Vec<Pair<'a>>> {
    let entry = |(key, found): &(Key, Versioned)| decode::<Dirent>(key, &found.value);
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    let mut pairs = Vec::new();
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return Ok(pairs),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((a, _)), Some((b, _))) => match a == b {
                true => Ordering::Equal,
                false => place(a).cmp(&place(b)),
            },
        };
        let a = if order.is_le() { old.next() } else { None };
        let b = if order.is_ge() { new.next() } else { None };
        let Some((key, _)) = a.or(b) else { return Ok(pairs) };
        let (before, after) = (a.map(entry).transpose()?, b.map(entry).transpose()?);
        pairs.push(Pair { key, before, after });
    }
}

struct Compare<'a> {
    between: Between<'a>,
    /// Of directories, after and before.
    paths: HashMap<(Ino, bool), Option<Vec<u8>>>,
}

impl Compare<'_> {
    async fn all(&mut self, pairs: &[Pair<'_>]) -> Result<Vec<Difference>> {
        let inos: Vec<Key> = pairs
            .iter()
            .filter_map(|pair| pair.after.or(pair.before))
            .map(|entry| keys::inode(entry.ino))
            .collect();
        let before = self.between.before.get_many(&inos).await?;
        let after = self.between.after.get_many(&inos).await?;
        let mut found = Vec::new();
        for ((pair, before), after) in pairs.iter().zip(&before).zip(&after) {
            let Some(Dirent { ino, kind }) = pair.after.or(pair.before) else { continue };
            // An inode that is as it was is not decoded: most are.
            let is_same =
                before.as_ref().zip(after.as_ref()).is_some_and(|(a, b)| a.value == b.value);
            let (attributes, content) = match is_same {
                true => (false, false),
                false => different(ino, before.as_ref(), after.as_ref())?,
            };
            let change = match (pair.before, pair.after) {
                (None, _) => Change::Came,
                (_, None) => Change::Went,
                (Some(a), Some(b)) if a.ino != b.ino => Change::Changed { content: true },
                _ if content || attributes => Change::Changed { content },
                _ => continue,
            };
            let rewritten = content && change != Change::Went;
            // A name of a directory that is on its way out of the tree shows nowhere.
            if let Some(path) = self.path(pair.key, change != Change::Went).await? {
                found.push(Difference { change, path, ino, kind, rewritten });
            }
        }
        Ok(found)
    }

    async fn path(&mut self, key: &Key, after: bool) -> Result<Option<Vec<u8>>> {
        let (Some(dir), Some((_, name))) = (keys::parse_ino(key), keys::parse_dirent(key)) else {
            return Ok(None);
        };
        if !self.paths.contains_key(&(dir, after)) {
            let kv = if after { self.between.after } else { self.between.before };
            self.paths.insert((dir, after), path_of(kv, dir).await?);
        }
        Ok(self.paths.get(&(dir, after)).cloned().flatten().map(|above| match &above[..] {
            b"." => name.to_vec(),
            _ => [&above, name].join(&b'/'),
        }))
    }
}

/// Whether attributes of an inode are others that somebody set, and its bytes. Of one that was not there before, or is
/// not after, neither.
fn different(
    ino: Ino,
    before: Option<&Versioned>,
    after: Option<&Versioned>,
) -> Result<(bool, bool)> {
    let inode =
        |found| Ok::<_, weir_types::FsError>(seen_inode(ino, found)?.map(|seen| seen.value));
    let (Some(a), Some(b)) = (inode(before)?, inode(after)?) else { return Ok((false, false)) };
    // A directory's times are of its entries, which are told of by themselves.
    let is_dir = b.kind == FileKind::Directory;
    let content = !is_dir && (a.size != b.size || a.mtime != b.mtime || a.target != b.target);
    let of = |inode: &Inode| (inode.mode, inode.uid, inode.gid, inode.rdev);
    let attributes = of(&a) != of(&b) || (!is_dir && a.ctime != b.ctime);
    Ok((attributes, content))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_types::UnixTime;

    use super::*;
    use crate::kv::MemoryKv;
    use crate::tests::{dir, file, meta_over};

    /// All of them, by path, over as many pages as it takes.
    async fn between(before: &MemoryKv, after: &MemoryKv) -> Vec<(String, Change, bool)> {
        let (mut all, mut from) = (Vec::new(), None);
        loop {
            let page =
                differences(Between { before, after }, from.as_deref()).await.expect("reads");
            for one in page.found {
                let path = String::from_utf8(one.path).expect("a name");
                all.push((path, one.change, one.rewritten));
            }
            from = page.next;
            if from.is_none() {
                all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
                return all;
            }
        }
    }

    async fn copy(kv: &MemoryKv) -> MemoryKv {
        let copy = MemoryKv::new();
        for tag in [keys::INODE, keys::DIRENT] {
            let mut after: Option<Key> = None;
            loop {
                let page = kv.scan(&[tag], after.as_deref(), 500).await.expect("reads");
                let puts = page.iter().map(|(key, found)| (key.clone(), found.value.clone()));
                let puts = crate::kv::Commit { puts: puts.collect(), ..Default::default() };
                copy.commit(puts).await.expect("copies");
                after = last_key(&page);
                if page.len() < 500 {
                    break;
                }
            }
        }
        copy
    }

    #[tokio::test]
    async fn names_that_came_went_and_changed_are_told() {
        use Change::{Came, Changed, Went};
        let kv = Arc::new(MemoryKv::new());
        let meta = meta_over(kv.clone()).await;
        let (a, b) = (dir(&meta, Ino::ROOT, "a").await, dir(&meta, Ino::ROOT, "b").await);
        for name in ["same", "grows", "mode", "goes", "moves", "replaced"] {
            file(&meta, a, name).await;
        }
        let inside = dir(&meta, a, "inside").await;
        file(&meta, inside, "stays").await;
        let before = copy(&kv).await;
        assert_eq!(between(&before, &kv).await, []);
        let ino = async |name: &str| meta.lookup(a, name.as_bytes()).await.expect("is there").ino;
        let grown = crate::SetAttr { mtime: Some(UnixTime(5)), ..Default::default() };
        meta.setattr(ino("grows").await, grown).await.expect("grows");
        let mode = crate::SetAttr { mode: Some(0o600), ..Default::default() };
        meta.setattr(ino("mode").await, mode).await.expect("changes");
        meta.unlink(a, b"goes").await.expect("unlinks");
        let rename = crate::RenameMode::Replace;
        meta.rename(a, b"moves", b, b"moved", rename).await.expect("moves");
        file(&meta, b, "new").await;
        meta.rename(b, b"new", a, b"replaced", rename).await.expect("replaces");
        meta.rename(a, b"inside", b, b"outside", rename).await.expect("moves");
        let changed = |content| Changed { content };
        let told = between(&before, &kv).await;
        let wanted = [
            ("a/goes", Went, false),
            ("a/grows", changed(true), true),
            ("a/inside", Went, false),
            ("a/mode", changed(false), false),
            ("a/moves", Went, false),
            ("a/replaced", changed(true), false),
            ("b/moved", Came, false),
            ("b/outside", Came, false),
        ];
        assert_eq!(told, wanted.map(|(path, change, is)| (path.to_owned(), change, is)));
        let back: Vec<_> = between(&kv, &before).await.into_iter().map(|one| one.1).collect();
        assert_eq!(back.iter().filter(|change| **change == Came).count(), 3, "{back:?}");
    }

    #[tokio::test]
    async fn pages_that_end_in_different_places_are_compared_as_one() {
        let kv = Arc::new(MemoryKv::new());
        let meta = meta_over(kv.clone()).await;
        for n in 0..2 * PAGE + 7 {
            file(&meta, Ino::ROOT, &format!("f{n}")).await;
        }
        let before = copy(&kv).await;
        for n in (0..2 * PAGE).step_by(2) {
            meta.unlink(Ino::ROOT, format!("f{n}").as_bytes()).await.expect("unlinks");
        }
        file(&meta, Ino::ROOT, "new").await;
        let told = between(&before, &kv).await;
        assert_eq!(told.len(), PAGE + 1);
        assert_eq!(told.iter().filter(|one| one.1 == Change::Went).count(), PAGE);
    }
}
