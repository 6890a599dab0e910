//! Rows that are sealed before a database has them.
//!
//! What the engine below must know of a row stays as it is: the tag and the numbers of its key, counters, the times of
//! directories, and to which inode an entry leads. All other values are sealed, each for its own row; an entry's is
//! followed by a seal, so that none stands in another one's place. Names of entries and of attributes are sealed so that the
//! same name is the same bytes in one directory. So the engine does not have the entries of a directory in the order of
//! [`keys::cookie`], but of what stands in its place, which tells nothing of the name ([`Kv::ordered_by`]).

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use weir_keys::{NAME_MORE_BYTES, NotOpened, RowKeys, VALUE_MORE_BYTES, VolumeKeys};
use weir_types::{ErrorKind, FsError, Ino, Result};

use crate::keys;
use crate::kv::{
    Check, CheckpointId, Checkpoints, Coming, Commit, Followed, Key, Kv, Outcome, Version,
    Versioned, leads_to,
};

/// Bytes of a tag and an inode.
const OF_INO: usize = 9;
/// And of what orders entries.
const OF_COOKIE: usize = OF_INO + 8;

/// A [`Kv`] whose rows nobody reads below it.
struct SealedKv {
    below: Arc<dyn Kv>,
    rows: Arc<RowKeys>,
}

/// What becomes of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sealing {
    /// The engine adds to it, or compares it.
    Plain,
    /// The engine reads where it leads.
    Behind,
    Whole,
}

fn sealing(key: &[u8]) -> Sealing {
    match key.first() {
        Some(
            &(keys::DIR_TIMES
            | keys::DIR_COUNT
            | keys::LIVE
            | keys::COUNTER
            | keys::LINK_COUNT
            | keys::QUOTA_COUNT),
        ) => Sealing::Plain,
        Some(&keys::DIRENT) => Sealing::Behind,
        _ => Sealing::Whole,
    }
}

/// `below` with its rows sealed; itself where the volume is not encrypted.
pub fn sealed_rows(below: Arc<dyn Kv>, keys: &VolumeKeys) -> Arc<dyn Kv> {
    match keys.rows() {
        Some(rows) => Arc::new(SealedKv { below, rows: Arc::new(rows) }),
        None => below,
    }
}

impl SealedKv {
    /// The key that the engine has for this one. What is no whole key of a name is as it is: the beginning of some.
    fn below_key<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        let name_at = match key.first() {
            Some(&keys::DIRENT) => OF_COOKIE,
            Some(&keys::XATTR) => OF_INO,
            _ => return Cow::Borrowed(key),
        };
        if key.len() <= name_at {
            return Cow::Borrowed(key);
        }
        let of = &key[..OF_INO];
        let name = self.rows.seal_name(of, &key[name_at..]);
        let mut below = Vec::with_capacity(name_at + name.len());
        below.extend_from_slice(of);
        if name_at == OF_COOKIE {
            below.extend_from_slice(&place(&name).to_be_bytes());
        }
        below.extend_from_slice(&name);
        Cow::Owned(below)
    }

    fn owned(&self, key: &[u8]) -> Key {
        self.below_key(key).into_owned()
    }

    /// The key of which the engine has this one.
    fn above_key(&self, below: Key) -> Result<Key> {
        let name_at = match below.first() {
            Some(&keys::DIRENT) => OF_COOKIE,
            Some(&keys::XATTR) => OF_INO,
            _ => return Ok(below),
        };
        let name =
            below.get(name_at..).and_then(|name| self.rows.open_name(&below[..OF_INO], name));
        let (Some(name), Some(ino)) = (name, keys::parse_ino(&below)) else {
            return Err(damaged(&below));
        };
        let key = match name_at {
            OF_COOKIE => keys::dirent(ino, &name),
            _ => keys::xattr(ino, &name),
        };
        match self.below_key(&key) == below {
            true => Ok(key),
            false => Err(damaged(&below)),
        }
    }

    fn seal(&self, key: &[u8], value: Bytes) -> Result<Bytes> {
        Ok(match sealing(key) {
            Sealing::Plain => value,
            Sealing::Whole => self.rows.seal_value(key, &value)?.into(),
            Sealing::Behind => {
                let seal = self.rows.seal_value(&entry(key, &value), &[])?;
                [&value[..], &seal].concat().into()
            }
        })
    }

    fn open(&self, key: &[u8], found: Versioned) -> Result<Versioned> {
        let Versioned { version, value } = found;
        let failed = |why| match why {
            NotOpened::Damaged => damaged(key),
            NotOpened::Newer => {
                let text =
                    "the volume's key was rotated since this mount began: unmount, and mount again";
                FsError::new(ErrorKind::Permission, text)
            }
        };
        let value = match sealing(key) {
            Sealing::Plain => value,
            Sealing::Whole => self.rows.open_value(key, &value).map_err(failed)?.into(),
            Sealing::Behind => {
                let at = value.len().checked_sub(VALUE_MORE_BYTES);
                let at = at.ok_or_else(|| damaged(key))?;
                self.rows.open_value(&entry(key, &value[..at]), &value[at..]).map_err(failed)?;
                value.slice(..at)
            }
        };
        Ok(Versioned { version, value })
    }

    fn open_all(
        &self,
        keys: &[Key],
        found: Vec<Option<Versioned>>,
    ) -> Result<Vec<Option<Versioned>>> {
        let open = |(key, found): (&Key, Option<Versioned>)| {
            found.map(|found| self.open(key, found)).transpose()
        };
        keys.iter().zip(found).map(open).collect()
    }

    /// The commit as the engine makes it.
    fn below_commit(&self, commit: Commit) -> Result<Commit> {
        let Commit { checks, puts, deletes, adds, raises } = commit;
        let firm = adds.iter().map(|(key, _)| key).chain(raises.iter().map(|(key, _)| key));
        if let Some(key) = firm.into_iter().find(|key| sealing(key) != Sealing::Plain) {
            let text = format!("row {} is sealed, and cannot be added to", key.escape_ascii());
            return Err(FsError::new(ErrorKind::Bug, text));
        }
        let check = |check| match check {
            Check::Absent(key) => Check::Absent(self.owned(&key)),
            Check::Version(key, version) => Check::Version(self.owned(&key), version),
        };
        let put = |(key, value): (Key, Bytes)| Ok((self.owned(&key), self.seal(&key, value)?));
        Ok(Commit {
            checks: checks.into_iter().map(check).collect(),
            puts: puts.into_iter().map(put).collect::<Result<_>>()?,
            deletes: deletes.iter().map(|key| self.owned(key)).collect(),
            adds,
            raises,
        })
    }
}

/// What the seal behind an entry's value is for.
fn entry(key: &[u8], value: &[u8]) -> Vec<u8> {
    [&(key.len() as u32).to_le_bytes(), key, value].concat()
}

/// What stands in the place of a cookie: as many bits, and in their range.
fn place(sealed_name: &[u8]) -> u64 {
    const _: () = assert!(NAME_MORE_BYTES >= 8);
    let first = sealed_name.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    (first >> 1).max(keys::COOKIE_MIN)
}

fn damaged(key: &[u8]) -> FsError {
    let ino = keys::parse_ino(key).unwrap_or(Ino(0));
    let text = format!(
        "row `{}` of the metadata (number {ino}) was changed, or is another volume's: it cannot be opened by this \
         volume's keys",
        char::from(key.first().copied().unwrap_or(b'?'))
    );
    FsError::new(ErrorKind::Corrupt, text)
}

#[async_trait]
impl Kv for SealedKv {
    fn logged(&self) -> bool {
        self.below.logged()
    }

    fn expect_absent(&self, key: &Key, never_had: &dyn Fn() -> bool) {
        self.below.expect_absent(&self.owned(key), never_had);
    }

    fn ordered_by<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        self.below_key(key)
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        let below: Vec<Key> = keys.iter().map(|key| self.owned(key)).collect();
        self.open_all(keys, self.below.get_many(&below).await?)
    }

    fn is_far(&self) -> bool {
        self.below.is_far()
    }

    async fn follow(&self, key: &Key, tags: &[u8]) -> Result<Followed> {
        let Followed { from, to } = self.below.follow(&self.owned(key), tags).await?;
        let from = from.map(|from| self.open(key, from)).transpose()?;
        let keys = from.as_ref().map_or_else(Vec::new, |from| leads_to(&from.value, tags));
        let to = match keys.is_empty() {
            true => to,
            false => self.open_all(&keys, to)?,
        };
        Ok(Followed { from, to })
    }

    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Versioned)>> {
        let after = after.map(|after| self.below_key(after));
        let page = self.below.scan(prefix, after.as_deref(), limit).await?;
        let open = |(below, found)| {
            let key = self.above_key(below)?;
            let found = self.open(&key, found)?;
            Ok((key, found))
        };
        page.into_iter().map(open).collect()
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome> {
        self.below.commit(self.below_commit(commit)?).await
    }

    fn checkpoints(&self) -> Option<&dyn Checkpoints> {
        self.below.checkpoints().map(|_| self as &dyn Checkpoints)
    }

    fn sync_comes(&self) -> Coming {
        self.below.sync_comes()
    }

    async fn sync(&self) -> Result<()> {
        self.below.sync().await
    }

    fn durable(&self) -> Version {
        self.below.durable()
    }

    async fn close(&self) -> Result<()> {
        self.below.close().await
    }
}

#[async_trait]
impl Checkpoints for SealedKv {
    async fn keep(&self, name: &str) -> Result<CheckpointId> {
        self.kept_below()?.keep(name).await
    }

    async fn kept(&self) -> Result<Vec<(CheckpointId, String)>> {
        self.kept_below()?.kept().await
    }

    async fn release(&self, id: CheckpointId) -> Result<()> {
        self.kept_below()?.release(id).await
    }

    async fn at(&self, id: CheckpointId) -> Result<Arc<dyn Kv>> {
        let below = self.kept_below()?.at(id).await?;
        Ok(Arc::new(Self { below, rows: self.rows.clone() }))
    }
}

impl SealedKv {
    fn kept_below(&self) -> Result<&dyn Checkpoints> {
        let none = || FsError::new(ErrorKind::Unsupported, "this metadata keeps no states");
        self.below.checkpoints().ok_or_else(none)
    }
}

#[cfg(test)]
mod tests;
