//! What every operation is made of: reads, a transaction that gathers checks and changes, and the
//! bounded redoing when the checks did not hold.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use weir_types::{ErrorKind, Extent, FileKind, FsError, Ino, Inode, Result, UnixTime};

use crate::codec::{Dirent, Seen, decode_inode, encode, encode_inode, encode_time, lend, lent_to};
use crate::counted::Counted;
use crate::kv::{Check, Commit, Key, Kv, Outcome, Version, Versioned};
use crate::session::SessionId;
use crate::{NAME_BYTES_MAX, extents, keys};

/// How often an operation is redone before it gives up with `Conflict`. Every conflict means that
/// somebody else got through, so this bounds unfairness, not progress.
const TRIES_MAX: u32 = 1_000;

/// Bytes at which a commit is full, as [`extents::commit_bytes`] counts them. What a commit takes
/// at least may go over it, but never over what a [`Kv`] takes.
pub(crate) const COMMIT_BYTES: usize = 8 << 20;

/// Counts the tries of one operation.
pub(crate) struct Tries {
    what: &'static str,
    made: u32,
}

impl Tries {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, made: 0 }
    }

    /// Begins a try; lets others run first if it is not the first one.
    pub(crate) async fn next(&mut self) -> Result<()> {
        if self.made == TRIES_MAX {
            let what = self.what;
            let context = format!("{what}: others were faster {TRIES_MAX} times; try again");
            return Err(FsError::new(ErrorKind::Conflict, context));
        }
        if self.made > 0 {
            tokio::task::yield_now().await;
        }
        self.made += 1;
        Ok(())
    }
}

/// A commit being put together. Each key is changed at most once; adds to one key are summed.
#[derive(Default)]
pub(crate) struct Tx {
    checks: Vec<Check>,
    puts: BTreeMap<Key, Bytes>,
    deletes: BTreeSet<Key>,
    adds: BTreeMap<Key, i64>,
    /// Inodes that are made in it, or that it checks.
    known: BTreeSet<Ino>,
    /// Those of them on which somebody has a lease.
    lent: BTreeMap<Ino, Seen<Inode>>,
    /// What those that quotas count were, and are after it.
    counted: Counted,
    raises: BTreeMap<Key, Bytes>,
}

impl Tx {
    /// The key must still be as it was seen: of this version, or absent.
    pub(crate) fn check(&mut self, key: Key, seen: Option<Version>) {
        self.checks.push(match seen {
            Some(version) => Check::Version(key, version),
            None => Check::Absent(key),
        });
    }

    pub(crate) fn check_inode(&mut self, seen: &Seen<Inode>) {
        let ino = seen.value.ino;
        self.check(keys::inode(ino), Some(seen.version));
        self.known.insert(ino);
        self.counted.before(&seen.value);
        if !seen.lent_to.is_empty() {
            self.lent.insert(ino, seen.clone());
        }
    }

    pub(crate) fn put(&mut self, key: Key, value: Bytes) {
        self.deletes.remove(&key);
        self.puts.insert(key, value);
    }

    /// The keys of the rows that it puts, but for counters.
    pub(crate) fn puts(&self) -> impl Iterator<Item = &Key> {
        self.puts.keys()
    }

    pub(crate) fn delete(&mut self, key: Key) {
        self.puts.remove(&key);
        self.deletes.insert(key);
    }

    pub(crate) fn add(&mut self, key: Key, n: i64) {
        *self.adds.entry(key).or_default() += n;
    }

    /// Puts an inode that it checks, or makes.
    pub(crate) fn put_inode(&mut self, inode: &Inode) -> Result<()> {
        self.counted.after(inode);
        self.put(keys::inode(inode.ino), encode_inode(inode)?);
        Ok(())
    }

    /// Puts an inode whose number nobody has had.
    pub(crate) fn put_new_inode(&mut self, inode: &Inode) -> Result<()> {
        self.known.insert(inode.ino);
        self.put_inode(inode)
    }

    /// Removes an inode that it checks.
    pub(crate) fn delete_inode(&mut self, ino: Ino) {
        self.counted.gone(ino);
        self.delete(keys::inode(ino));
    }

    /// The keys that it checks.
    pub(crate) fn checked(&self) -> impl Iterator<Item = &Key> {
        self.checks.iter().map(|check| match check {
            Check::Absent(key) | Check::Version(key, _) => key,
        })
    }

    /// The keys that it puts, raises or deletes, but for counters.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &Key> {
        self.puts.keys().chain(self.raises.keys()).chain(&self.deletes)
    }

    /// Whether it checks this inode, or makes it.
    pub(crate) fn knows(&self, ino: Ino) -> bool {
        self.known.contains(&ino)
    }

    /// To whom the inodes that it checks are lent.
    pub(crate) fn lent(&self) -> impl Iterator<Item = (Ino, &[SessionId])> {
        self.lent.iter().map(|(ino, seen)| (*ino, seen.lent_to.as_slice()))
    }

    /// From now on these inodes, which it changes something of, are lent to `to` at most.
    pub(crate) fn lend_only(&mut self, inos: &BTreeSet<Ino>, to: SessionId) -> Result<()> {
        for seen in self.lent.values().filter(|seen| inos.contains(&seen.value.ino)) {
            let key = keys::inode(seen.value.ino);
            let ours: &[SessionId] = if seen.lent_to.contains(&to) { &[to] } else { &[] };
            let is_put = self.puts.contains_key(&key);
            if self.deletes.contains(&key) || !is_put && seen.lent_to == ours {
                continue;
            }
            let plain = match self.puts.get(&key) {
                Some(bytes) => bytes.clone(),
                None => encode_inode(&seen.value)?,
            };
            self.puts.insert(key, lend(&plain, ours));
        }
        Ok(())
    }

    pub(crate) fn put_dirent(&mut self, key: Key, ino: Ino, kind: FileKind) -> Result<()> {
        self.put(key, encode(&Dirent { ino, kind })?);
        Ok(())
    }

    /// Notes that entries of `dir` changed `now`, and how many more there are. Nothing is checked, and
    /// no commit waits for another one's, so that many may change one directory at once.
    pub(crate) fn touch_dir(&mut self, dir: Ino, entries: i64, now: UnixTime) -> Result<()> {
        let time = encode_time(now);
        let raised = self.raises.entry(keys::dir_times(dir)).or_default();
        *raised = time.max(std::mem::take(raised));
        if entries != 0 {
            self.add(keys::dir_count(dir), entries);
        }
        Ok(())
    }

    /// Changes the extents of a chunk that was seen at `version`, with the counters that follow
    /// from it. Returns by how much the file's stored bytes grow. An empty list is kept where it
    /// says that bytes of a native object are none of the file's any more.
    pub(crate) fn set_extents(
        &mut self,
        key: Key,
        version: Option<Version>,
        before: &[Extent],
        after: &[Extent],
        keep_empty: bool,
    ) -> Result<i64> {
        if before == after {
            return Ok(0);
        }
        self.check(key.clone(), version);
        for (list, sign) in [(before, -1), (after, 1)] {
            for extent in list.iter().filter(|extent| !extent.is_native()) {
                self.add(keys::live(extent.record.segment), sign * i64::from(extent.len));
            }
        }
        let grown = extents::covered(after) - extents::covered(before);
        self.add(keys::STORED.to_vec(), grown);
        if after.is_empty() && !keep_empty {
            self.delete(key);
        } else {
            self.put(key, encode(&after)?);
        }
        Ok(grown)
    }

    /// Commits; `false`: a check did not hold. For what others may have a lease on see [`Meta::apply`].
    ///
    /// [`Meta::apply`]: crate::Meta::apply
    pub(crate) async fn apply_to(mut self, kv: &dyn Kv) -> Result<bool> {
        for (key, n) in std::mem::take(&mut self.counted).into_adds() {
            self.add(key, n);
        }
        if !kv.is_far() {
            // There is one writer, and what it says last is the latest: nothing need be compared.
            self.puts.append(&mut self.raises);
        }
        let commit = Commit {
            checks: self.checks,
            puts: self.puts.into_iter().collect(),
            deletes: self.deletes.into_iter().collect(),
            adds: self.adds.into_iter().filter(|(_, n)| *n != 0).collect(),
            raises: self.raises.into_iter().collect(),
        };
        Ok(matches!(kv.commit(commit).await?, Outcome::Applied(_)))
    }
}

pub(crate) fn seen_inode(ino: Ino, found: Option<&Versioned>) -> Result<Option<Seen<Inode>>> {
    let Some(found) = found else { return Ok(None) };
    let value = decode_inode(&keys::inode(ino), &found.value)?;
    Ok(Some(Seen { version: found.version, value, lent_to: lent_to(&found.value) }))
}

/// The directory that a read found, if it is one and not removed.
pub(crate) fn live_dir(dir: Ino, found: Option<&Versioned>) -> Result<Seen<Inode>> {
    let seen = seen_inode(dir, found)?.ok_or_else(|| no_inode(dir))?;
    if seen.value.kind != FileKind::Directory {
        return Err(FsError::new(ErrorKind::NotDirectory, format!("inode {dir} is no directory")));
    }
    if seen.value.nlink == 0 {
        return Err(FsError::new(ErrorKind::NotFound, format!("directory {dir} was removed")));
    }
    Ok(seen)
}

pub(crate) fn no_inode(ino: Ino) -> FsError {
    FsError::new(ErrorKind::NotFound, format!("inode {ino} is not there"))
}

/// An error about a name in a directory.
pub(crate) fn at_name(kind: ErrorKind, dir: Ino, name: &[u8], why: &str) -> FsError {
    FsError::new(kind, format!("`{}` in directory {dir}: {why}", name.escape_ascii()))
}

/// Refuses what no entry may be called.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    let (kind, why) = match name {
        _ if name.len() > NAME_BYTES_MAX => (ErrorKind::NameTooLong, "is longer than 255 bytes"),
        b"" => (ErrorKind::Invalid, "is empty"),
        b"." | b".." => (ErrorKind::Invalid, "stands for a directory itself"),
        _ if name.contains(&b'/') || name.contains(&0) => {
            (ErrorKind::Invalid, "has a slash or a zero byte in it")
        }
        _ => return Ok(()),
    };
    Err(FsError::new(kind, format!("name `{}` {why}", name.escape_ascii())))
}

/// `count` and `by` more or fewer; never below 0.
pub(crate) fn adjusted(count: u32, by: i64) -> u32 {
    u32::try_from((i64::from(count) + by).max(0)).unwrap_or(u32::MAX)
}
