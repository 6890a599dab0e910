//! What every operation is made of: reads, a transaction that gathers checks and changes, and the
//! bounded redoing when the checks did not hold.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use weir_types::{ErrorKind, Extent, FileKind, FsError, Ino, Inode, Result, UnixTime};

use crate::codec::{
    Dirent, Seen, decode_inode, encode, encode_inode, encode_time, lend, lend_to_writer, lent_to,
    writer_of,
};
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

/// What may be made with a write lease.
#[derive(Clone, Copy, Default)]
pub(crate) struct MayWrite {
    pub(crate) files: bool,
    pub(crate) directories: bool,
}

/// A commit being put together. Each key is changed at most once; adds to one key are summed.
#[derive(Clone, Default)]
pub(crate) struct Tx {
    checks: Vec<Check>,
    puts: BTreeMap<Key, Bytes>,
    deletes: BTreeSet<Key>,
    adds: BTreeMap<Key, i64>,
    /// Inodes that are made in it, or that it checks.
    known: BTreeSet<Ino>,
    /// Those of them on which somebody has a lease.
    lent: BTreeMap<Ino, Seen<Inode>>,
    /// Those that it makes with a lease on each, and what kind they are of.
    born: BTreeMap<Ino, FileKind>,
    /// Those of which the volume has all once it is made.
    whole: BTreeSet<Ino>,
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

    /// Puts an inode whose number nobody has had, and of which this node is to remember all.
    pub(crate) fn put_born_inode(&mut self, inode: &Inode) -> Result<()> {
        self.born.insert(inode.ino, inode.kind);
        self.put_new_inode(inode)
    }

    /// The volume has all of this inode once this is made.
    pub(crate) fn is_whole(&mut self, ino: Ino) {
        self.whole.insert(ino);
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

    /// The keys that it puts, deletes or raises and what they have then, as long as nobody else raises them; and
    /// whether it only raises them.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&Key, Option<&Bytes>, bool)> {
        let puts = self.puts.iter().map(|(key, value)| (key, Some(value), false));
        let raises = self.raises.iter().map(|(key, value)| (key, Some(value), true));
        puts.chain(self.deletes.iter().map(|key| (key, None, false))).chain(raises)
    }

    /// Whether it checks this inode, or makes it.
    pub(crate) fn knows(&self, ino: Ino) -> bool {
        self.known.contains(&ino)
    }

    /// To whom the inodes that it checks are lent.
    pub(crate) fn lent(&self) -> impl Iterator<Item = (Ino, &[SessionId])> {
        self.lent.iter().map(|(ino, seen)| (*ino, seen.lent_to.as_slice()))
    }

    /// From now on these inodes, which it changes something of, are lent to `to` at most, and these not at all.
    /// Whoever has a write lease keeps it until the volume has all, and for reading after that.
    pub(crate) fn lend_only(
        &mut self,
        inos: &BTreeSet<Ino>,
        to: SessionId,
        given_up: &[Ino],
    ) -> Result<()> {
        for seen in self.lent.values().filter(|seen| inos.contains(&seen.value.ino)) {
            let ino = seen.value.ino;
            let key = keys::inode(ino);
            let ours: &[SessionId] = match seen.lent_to.contains(&to) {
                true if !given_up.contains(&ino) => &[to],
                _ => &[],
            };
            let is_whole = self.whole.contains(&ino);
            let is_put = self.puts.contains_key(&key);
            if self.deletes.contains(&key) || !is_put && !is_whole && seen.lent_to == ours {
                continue;
            }
            let plain = match self.puts.get(&key) {
                Some(bytes) => bytes.clone(),
                None => encode_inode(&seen.value)?,
            };
            let lent = match seen.writer == Some(to) && !is_whole && !ours.is_empty() {
                true => lend_to_writer(&plain, to),
                false => lend(&plain, ours),
            };
            self.puts.insert(key, lent);
        }
        Ok(())
    }

    /// Lends what it makes to `to`, files and directories for writing as that may be had. Answers what that is,
    /// whether it is a directory, and whether it is for writing.
    pub(crate) fn lend_born(&mut self, to: SessionId, may: MayWrite) -> Vec<(Ino, bool, bool)> {
        let mut lent = Vec::with_capacity(self.born.len());
        for (&ino, &kind) in &self.born {
            let writes = match kind {
                FileKind::Regular => may.files,
                FileKind::Directory => may.directories,
                _ => false,
            };
            if !writes && kind != FileKind::Directory {
                continue;
            }
            let Some(row) = self.puts.get_mut(&keys::inode(ino)) else { continue };
            *row = match writes {
                true => lend_to_writer(row, to),
                false => lend(row, &[to]),
            };
            lent.push((ino, kind == FileKind::Directory, writes));
        }
        lent
    }

    /// The inodes whose writers bring the last of them with it.
    pub(crate) fn whole(&self) -> impl Iterator<Item = Ino> {
        self.whole.iter().copied()
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
    pub(crate) async fn apply_to(self, kv: &dyn Kv) -> Result<bool> {
        Ok(self.made_by(kv).await?.is_some())
    }

    /// The same, with the version of the commit.
    pub(crate) async fn made_by(mut self, kv: &dyn Kv) -> Result<Option<Version>> {
        if !kv.is_far() {
            // There is one writer, and what it says last is the latest: nothing need be compared.
            self.puts.append(&mut self.raises);
        }
        Ok(match kv.commit(self.into_commit()).await? {
            Outcome::Applied(version) => Some(version),
            Outcome::Conflict => None,
        })
    }
}

impl Tx {
    /// The commit itself.
    pub(crate) fn into_commit(mut self) -> Commit {
        for (key, n) in std::mem::take(&mut self.counted).into_adds() {
            self.add(key, n);
        }
        Commit {
            checks: self.checks,
            puts: self.puts.into_iter().collect(),
            deletes: self.deletes.into_iter().collect(),
            adds: self.adds.into_iter().filter(|(_, n)| *n != 0).collect(),
            raises: self.raises.into_iter().collect(),
        }
    }

    /// The same, of one that goes on.
    pub(crate) fn to_commit(&self) -> Commit {
        self.clone().into_commit()
    }

    /// What it checks, with the versions; `None` for what must be absent.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = (&Key, Option<Version>)> {
        self.checks.iter().map(|check| match check {
            Check::Absent(key) => (key, None),
            Check::Version(key, version) => (key, Some(*version)),
        })
    }

    /// A value that it checks has another version by now.
    pub(crate) fn now_has(&mut self, key: &Key, now: Version) {
        for check in &mut self.checks {
            if let Check::Version(checked, version) = check
                && checked == key
            {
                *version = now;
            }
        }
    }

    /// Whether it makes this inode, with a lease on it.
    pub(crate) fn bears(&self, ino: Ino) -> bool {
        self.born.contains_key(&ino)
    }

    /// Whether it removes anything.
    pub(crate) fn removes(&self) -> bool {
        !self.deletes.is_empty()
    }

    /// The keys that it raises.
    pub(crate) fn raised(&self) -> impl Iterator<Item = &Key> {
        self.raises.keys()
    }
}

pub(crate) fn seen_inode(ino: Ino, found: Option<&Versioned>) -> Result<Option<Seen<Inode>>> {
    let Some(found) = found else { return Ok(None) };
    let value = decode_inode(&keys::inode(ino), &found.value)?;
    let (lent_to, writer) = (lent_to(&found.value), writer_of(&found.value));
    Ok(Some(Seen { version: found.version, value, lent_to, writer }))
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
