//! Commits that were noted in a redo log and never became part of the volume: what they say, which
//! of them did reach it, and how files of theirs are made again.

use bytes::Bytes;
use weir_types::{ChunkIndex, FileKind, FsError, Ino, Inode, Result};

use crate::codec::{Dirent, decode, decode_inode};
use crate::data::changed;
use crate::kv::{Key, Version, logged};
use crate::op::{Tries, Tx, at_name, check_name, live_dir, no_inode, seen_inode};
use crate::orphans::WHOLE;
use crate::{Meta, keys};

/// Rows whose values no two commits share.
const UNIQUE: [u8; 4] = [keys::INODE, keys::DIR_TIMES, keys::EXTENTS, keys::SEGMENT];

/// What a commit of a log changes, as far as it tells of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoggedRow {
    /// The inode was this after it.
    Inode(Inode),
    /// The inode was removed.
    InodeGone(Ino),
    /// The name led there.
    Name {
        /// The directory.
        dir: Ino,
        /// The name.
        name: Vec<u8>,
        /// Where it led.
        ino: Ino,
        /// What that was.
        kind: FileKind,
    },
    /// The name was removed.
    NameGone {
        /// The directory.
        dir: Ino,
        /// The name.
        name: Vec<u8>,
    },
    /// The extents of this chunk changed.
    Extents(Ino, ChunkIndex),
    /// The extended attribute was set, or removed where there is no value.
    Attribute(Ino, Vec<u8>, Option<Bytes>),
}

/// What one commit of a log says, as [`crate::kv::CommitLog`] noted it; `Corrupt` if it cannot be
/// read. Pure.
pub fn logged_rows(version: Version, entry: &[u8]) -> Result<Vec<LoggedRow>> {
    let (puts, deletes) = logged(version, entry)?;
    let mut rows = Vec::new();
    for (key, value) in &puts {
        rows.extend(put_row(key, value)?);
    }
    rows.extend(deletes.iter().filter_map(deleted_row));
    Ok(rows)
}

fn put_row(key: &Key, value: &Bytes) -> Result<Option<LoggedRow>> {
    Ok(match (key.first(), keys::parse_ino(key)) {
        (Some(&keys::INODE), Some(_)) => Some(LoggedRow::Inode(decode_inode(key, value)?)),
        (Some(&keys::DIRENT), Some(dir)) => {
            let Dirent { ino, kind } = decode(key, value)?;
            name_of(key).map(|name| LoggedRow::Name { dir, name, ino, kind })
        }
        (Some(&keys::EXTENTS), Some(ino)) => {
            keys::parse_chunk(key).map(|chunk| LoggedRow::Extents(ino, chunk))
        }
        (Some(&keys::XATTR), Some(ino)) => {
            Some(LoggedRow::Attribute(ino, key[9..].to_vec(), Some(value.clone())))
        }
        _ => None,
    })
}

fn deleted_row(key: &Key) -> Option<LoggedRow> {
    let ino = keys::parse_ino(key)?;
    match *key.first()? {
        keys::INODE => Some(LoggedRow::InodeGone(ino)),
        keys::DIRENT => Some(LoggedRow::NameGone { dir: ino, name: name_of(key)? }),
        keys::EXTENTS => Some(LoggedRow::Extents(ino, keys::parse_chunk(key)?)),
        keys::XATTR => Some(LoggedRow::Attribute(ino, key[9..].to_vec(), None)),
        _ => None,
    }
}

fn name_of(key: &Key) -> Option<Vec<u8>> {
    keys::parse_dirent(key).map(|(_, name)| name.to_vec())
}

impl Meta {
    /// The newest of these commits, in order, of which a row is in the volume as it put it: that one
    /// and all before it surely reached the volume. 0 if none is known to have. A read for each that
    /// did not.
    pub async fn reached(&self, log: &[(Version, Vec<u8>)]) -> Result<Version> {
        for (version, entry) in log.iter().rev() {
            let (mut puts, _) = logged(*version, entry)?;
            // Two histories may come to the same count in commits of one number, but not to the
            // same nanosecond or segment.
            puts.retain(|(key, _)| UNIQUE.contains(&key.first().copied().unwrap_or_default()));
            let keys: Vec<_> = puts.iter().map(|(key, _)| key.clone()).collect();
            let found = self.get(&keys).await?;
            let same = |((_, value), found): (&(Key, Bytes), &Option<crate::kv::Versioned>)| {
                let here = |f: &crate::kv::Versioned| f.version == *version && f.value == *value;
                found.as_ref().is_some_and(here)
            };
            if puts.iter().zip(&found).any(same) {
                return Ok(*version);
            }
        }
        Ok(0)
    }

    /// An inode like `like`, with a number of its own, without a name and without bytes: an orphan
    /// until [`Meta::name_orphan`]; should that never come, the next mount purges it. One commit.
    pub async fn new_orphan(&self, like: &Inode) -> Result<Inode> {
        let ino = self.next_ino().await?;
        crate::data::check_size(ino, like.size)?;
        let (data, stored_bytes, native) = Default::default();
        let inode = Inode { ino, nlink: 0, data, stored_bytes, native, ..like.clone() };
        let mut tx = Tx::default();
        tx.put_new_inode(&inode)?;
        tx.put(keys::orphan(ino), Bytes::from_static(WHOLE));
        tx.add(keys::INODES.to_vec(), 1);
        match self.apply(tx).await? {
            true => Ok(inode),
            false => {
                let text = "a commit without checks was refused";
                Err(FsError::new(weir_types::ErrorKind::Bug, text))
            }
        }
    }

    /// Gives an orphan, no directory, its only name; `Exists` if that is taken. One read round and
    /// one commit.
    pub async fn name_orphan(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Inode> {
        check_name(name)?;
        let key = keys::dirent(parent, name);
        let mut tries = Tries::new("name a file");
        loop {
            tries.next().await?;
            let found = self.get(&[keys::inode(ino), keys::inode(parent), key.clone()]).await?;
            let dir = live_dir(parent, found[1].as_ref())?;
            let seen = seen_inode(ino, found[0].as_ref())?.ok_or_else(|| no_inode(ino))?;
            if found[2].is_some() {
                let kind = weir_types::ErrorKind::Exists;
                return Err(at_name(kind, parent, name, "the name is taken"));
            }
            let mut tx = Tx::default();
            tx.check_inode(&dir);
            tx.check_inode(&seen);
            tx.check(key.clone(), None);
            let mut inode = seen.value;
            (inode.nlink, inode.parent, inode.account) = (1, parent, dir.value.account);
            inode.native = crate::native::in_link(&dir.value, &inode, name);
            changed(&mut inode);
            tx.export_name(&dir.value, name, &inode)?;
            tx.export_data(&inode);
            tx.put_inode(&inode)?;
            tx.put_dirent(key.clone(), ino, inode.kind)?;
            tx.delete(keys::orphan(ino));
            tx.touch_dir(parent, 1, self.now())?;
            if self.apply(tx).await? {
                return Ok(inode);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_types::UnixTime;

    use super::*;
    use crate::kv::encode_for_tests;
    use crate::tests::{assert_sound, file, meta};

    #[tokio::test]
    async fn an_orphan_gets_its_name_once() {
        let meta = meta().await;
        let like = Inode {
            mode: 0o640,
            uid: 5,
            ..Inode::new(Ino(9), FileKind::Regular, Ino(1), UnixTime(4))
        };
        let orphan = meta.new_orphan(&like).await.expect("makes");
        assert!(orphan.nlink == 0 && orphan.uid == 5 && orphan.ino != Ino(9));
        assert_eq!(meta.orphans(None, 9).await.expect("lists"), [orphan.ino]);
        file(&meta, Ino::ROOT, "taken").await;
        let taken = meta.name_orphan(orphan.ino, Ino::ROOT, b"taken").await.expect_err("taken");
        assert_eq!(taken.kind(), weir_types::ErrorKind::Exists);
        meta.name_orphan(orphan.ino, Ino::ROOT, b"free").await.expect("names");
        let found = meta.lookup(Ino::ROOT, b"free").await.expect("is there");
        assert_eq!((found.ino, found.nlink, found.btime), (orphan.ino, 1, UnixTime(4)));
        assert!(meta.orphans(None, 9).await.expect("lists").is_empty());
        assert_sound(&meta).await;
    }

    #[tokio::test]
    async fn commits_that_reached_the_volume_are_told_from_those_that_did_not() {
        let meta = meta().await;
        let ino = file(&meta, Ino::ROOT, "a").await;
        let found = meta.get(&[keys::inode(ino), keys::INODES.to_vec()]).await.expect("reads");
        let [Some(row), Some(count)] = &found[..] else { panic!("{found:?}") };
        let commit = |version, key, value: &Bytes| {
            (version, encode_for_tests(version, vec![(key, value.clone())], vec![]))
        };
        let there = commit(row.version, keys::inode(ino), &row.value);
        let other = commit(row.version + 1, keys::inode(ino), &row.value);
        assert_eq!(meta.reached(&[there.clone(), other]).await.expect("looks"), row.version);
        // A count is the same in both histories.
        let counted = commit(count.version, keys::INODES.to_vec(), &count.value);
        assert_eq!(meta.reached(&[counted]).await.expect("looks"), 0);
    }

    #[test]
    fn damaged_commits_are_refused_and_never_more_than_that() {
        let inode = Inode::new(Ino(7), FileKind::Regular, Ino::ROOT, UnixTime(1));
        let puts = vec![
            (keys::inode(Ino(7)), crate::codec::encode_inode(&inode).expect("encodes")),
            (
                keys::dirent(Ino::ROOT, b"a"),
                crate::codec::encode(&Dirent { ino: Ino(7), kind: inode.kind }).expect("encodes"),
            ),
            (keys::xattr(Ino(7), b"user.x"), Bytes::from_static(b"v")),
            (b"Mwriter".to_vec(), Bytes::from_static(b"?")),
        ];
        let deletes = vec![keys::dirent(Ino::ROOT, b"b"), keys::extents(Ino(7), 3)];
        let good = encode_for_tests(5, puts, deletes);
        let rows = logged_rows(5, &good).expect("reads");
        assert_eq!(
            rows,
            [
                LoggedRow::Inode(inode.clone()),
                LoggedRow::Name {
                    dir: Ino::ROOT,
                    name: b"a".to_vec(),
                    ino: Ino(7),
                    kind: inode.kind
                },
                LoggedRow::Attribute(Ino(7), b"user.x".to_vec(), Some(Bytes::from_static(b"v"))),
                LoggedRow::NameGone { dir: Ino::ROOT, name: b"b".to_vec() },
                LoggedRow::Extents(Ino(7), 3),
            ]
        );
        assert!(logged_rows(6, &good).is_err(), "of another commit");
        for at in 0..good.len() {
            let _ = logged_rows(5, &good[..at]);
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                let _ = logged_rows(5, &bad);
            }
        }
        assert!(logged_rows(5, &good[..good.len() - 1]).is_err());
    }
}
