//! Disks: files without a name in the tree, found by a row of their own.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weir_types::{DiskCache, ErrorKind, FileKind, FsError, Ino, Inode, Result};

use crate::codec::{Seen, decode, decode_seen, encode, last_key};
use crate::kv::Key;
use crate::op::{Tries, Tx, no_inode, seen_inode};
use crate::orphans::WHOLE;
use crate::{Meta, keys};

/// Rows read at once.
const PAGE: usize = 1_000;

/// A disk as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskRow {
    /// The file that holds its bytes.
    pub ino: Ino,
    /// Writes of whole records of this many bytes become an object each.
    pub record_bytes: u64,
    /// What of it is kept on the local disk.
    pub cache: DiskCache,
    /// Nobody may write it: it is a snapshot.
    pub read_only: bool,
    /// The disk that it was copied from.
    pub origin: Option<String>,
}

impl Meta {
    /// All disks by name. One read for each 1,000.
    pub async fn disks(&self) -> Result<Vec<(String, DiskRow)>> {
        let mut all = Vec::new();
        let mut after: Option<Key> = None;
        loop {
            let page = self.kv.scan(&[keys::DISK], after.as_deref(), PAGE).await?;
            for (key, found) in &page {
                let name = String::from_utf8_lossy(&key[1..]).into_owned();
                all.push((name, decode(key, &found.value)?));
            }
            if page.len() < PAGE {
                return Ok(all);
            }
            after = last_key(&page);
        }
    }

    /// The disk of this name; `NotFound` if there is none. One read round.
    pub async fn disk(&self, name: &str) -> Result<DiskRow> {
        self.seen_disk(name).await.map(|seen| seen.value)
    }

    pub(crate) async fn seen_disk(&self, name: &str) -> Result<Seen<DiskRow>> {
        let key = keys::disk(name);
        let found = self.get(std::slice::from_ref(&key)).await?;
        decode_seen(&key, found[0].as_ref())?.ok_or_else(|| no_disk(name))
    }

    /// A file of zeros for a disk, an orphan until [`Meta::name_disk`]: should that never come, the
    /// next mount purges it. One commit.
    pub async fn new_disk_file(&self, size_bytes: u64) -> Result<Inode> {
        let like = Inode::new(Ino::ROOT, FileKind::Regular, Ino::ROOT, self.now());
        self.new_orphan(&Inode { mode: 0o600, size: size_bytes, ..like }).await
    }

    /// Makes a file of [`Meta::new_disk_file`] the disk `name`; `Exists` if the name is taken. One
    /// read round and one commit.
    pub async fn name_disk(&self, name: &str, row: &DiskRow) -> Result<()> {
        let mut tries = Tries::new("name a disk");
        loop {
            tries.next().await?;
            let found = self.get(&[keys::inode(row.ino), keys::disk(name)]).await?;
            if found[1].is_some() {
                let text = format!("there is a disk `{name}` already: choose another name");
                return Err(FsError::new(ErrorKind::Exists, text));
            }
            let Some(mut seen) = seen_inode(row.ino, found[0].as_ref())? else {
                return Err(no_inode(row.ino));
            };
            seen.value.nlink = 1;
            let mut tx = Tx::default();
            tx.check_inode(&seen);
            tx.check(keys::disk(name), None);
            tx.put_inode(&seen.value)?;
            tx.delete(keys::orphan(row.ino));
            tx.put(keys::disk(name), encode(row)?);
            if self.apply(tx).await? {
                return Ok(());
            }
        }
    }

    /// Takes a disk's name away and makes its file an orphan, to be purged. Answers the file. One
    /// read round and one commit.
    pub async fn remove_disk(&self, name: &str) -> Result<Ino> {
        let mut tries = Tries::new("remove a disk");
        loop {
            tries.next().await?;
            let row = self.seen_disk(name).await?;
            let ino = row.value.ino;
            let found = self.get(&[keys::inode(ino)]).await?;
            let mut tx = Tx::default();
            tx.check(keys::disk(name), Some(row.version));
            tx.delete(keys::disk(name));
            // Whoever removes it has it, where nodes share the volume.
            tx.delete(keys::disk_hold(ino));
            if let Some(mut seen) = seen_inode(ino, found[0].as_ref())? {
                seen.value.nlink = 0;
                tx.check_inode(&seen);
                tx.put_inode(&seen.value)?;
                tx.put(keys::orphan(ino), Bytes::from_static(WHOLE));
            }
            if self.apply(tx).await? {
                return Ok(ino);
            }
        }
    }
}

fn no_disk(name: &str) -> FsError {
    FsError::new(ErrorKind::NotFound, format!("there is no disk `{name}` in this volume"))
}
