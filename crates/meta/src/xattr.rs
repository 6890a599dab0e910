//! Extended attributes.

use bytes::Bytes;
use weir_types::{ErrorKind, FsError, Ino, Inode, Result};

use crate::acl;
use crate::kv::{Key, Versioned};
use crate::op::{Tries, Tx, no_inode, seen_inode};
use crate::{Meta, NAME_BYTES_MAX, keys};

/// Largest value, as Linux has it.
const VALUE_BYTES_MAX: usize = 64 << 10;
/// Names and values of one inode together.
const TOTAL_BYTES_MAX: usize = 1 << 20;
/// Names of one inode together, each with the zero byte that a listing puts behind it, as Linux
/// has it.
const NAMES_BYTES_MAX: usize = 64 << 10;
/// More attributes than fit into [`NAMES_BYTES_MAX`].
const COUNT_MAX: usize = NAMES_BYTES_MAX / 2 + 1;
/// Bytes of a key before the name.
const KEY_HEAD: usize = 9;

/// Whether an attribute may or must be there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Either way.
    Any,
    /// It must not be: `Exists`.
    Create,
    /// It must be: `NoAttribute`.
    Replace,
}

impl Meta {
    /// Sets an attribute; values up to 64 KiB, all names and values of an inode up to 1 MiB
    /// (`NoSpace`). Two read rounds and one commit.
    pub async fn xattr_set(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<Inode> {
        check_xattr(name, value)?;
        let key = keys::xattr(ino, name);
        let mut tries = Tries::new("set an extended attribute");
        loop {
            tries.next().await?;
            // Every change of attributes changes the inode, so its version stands for all rows.
            let seen = self.stored_inode(ino).await?;
            let rows = self.xattr_rows(ino).await?;
            let present = rows.iter().any(|(row, _)| *row == key);
            match mode {
                XattrMode::Create if present => {
                    return Err(about(ErrorKind::Exists, ino, name, "is set already"));
                }
                XattrMode::Replace if !present => return Err(not_set(ino, name)),
                _ => {}
            }
            check_room(ino, &rows, &key, value.len())?;
            let mut tx = Tx::default();
            tx.check_inode(&seen);
            let mut inode = seen.value;
            inode.ctime = self.now();
            acl::put(&mut tx, key.clone(), &mut inode, name, value)?;
            tx.put_inode(&inode)?;
            self.fresh.attribute_comes(ino);
            tx.keep_receipt();
            if self.apply(tx).await? {
                return Ok(inode);
            }
        }
    }

    async fn xattr_rows(&self, ino: Ino) -> Result<Vec<(Key, Versioned)>> {
        self.kv.scan(&keys::xattrs(ino), None, COUNT_MAX).await
    }

    /// The value of an attribute; `NoAttribute` if it is not set. One read round.
    ///
    /// Linux asks for `security.capability` before the first write of every new file.
    pub async fn xattr_get(&self, ino: Ino, name: &[u8]) -> Result<Bytes> {
        check_xattr(name, b"")?;
        if ino == Ino::SNAPSHOTS {
            return Err(not_set(ino, name));
        }
        match self.past(ino).await? {
            Some(past) => past.view.xattr_get_here(past.ino, name).await,
            None => self.xattr_get_here(ino, name).await,
        }
    }

    async fn xattr_get_here(&self, ino: Ino, name: &[u8]) -> Result<Bytes> {
        if self.fresh.is_bare(ino) {
            self.stored_inode(ino).await?;
            return Err(not_set(ino, name));
        }
        let mut found = self.get(&[keys::inode(ino), keys::xattr(ino, name)]).await?;
        let value = found.pop().flatten();
        seen_inode(ino, found[0].as_ref())?.ok_or_else(|| no_inode(ino))?;
        value.map(|found| found.value).ok_or_else(|| not_set(ino, name))
    }

    /// The names of all attributes, sorted. Two read rounds.
    pub async fn xattr_list(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        if ino == Ino::SNAPSHOTS {
            return Ok(Vec::new());
        }
        match self.past(ino).await? {
            Some(past) => past.view.xattr_list_here(past.ino).await,
            None => self.xattr_list_here(ino).await,
        }
    }

    async fn xattr_list_here(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.stored_inode(ino).await?;
        let rows = self.xattr_rows(ino).await?;
        Ok(rows.into_iter().map(|(key, _)| key[KEY_HEAD..].to_vec()).collect())
    }

    /// Removes an attribute; `NoAttribute` if it is not set. One read round and one commit.
    pub async fn xattr_remove(&self, ino: Ino, name: &[u8]) -> Result<Inode> {
        check_xattr(name, b"")?;
        let key = keys::xattr(ino, name);
        let mut tries = Tries::new("remove an extended attribute");
        loop {
            tries.next().await?;
            let found = self.get(&[keys::inode(ino), key.clone()]).await?;
            let seen = seen_inode(ino, found[0].as_ref())?.ok_or_else(|| no_inode(ino))?;
            let Some(row) = &found[1] else {
                return Err(not_set(ino, name));
            };
            let mut tx = Tx::default();
            tx.check_inode(&seen);
            tx.check(key.clone(), Some(row.version));
            let mut inode = seen.value;
            inode.ctime = self.now();
            tx.put_inode(&inode)?;
            tx.delete(key.clone());
            tx.keep_receipt();
            if self.apply(tx).await? {
                return Ok(inode);
            }
        }
    }
}

fn check_xattr(name: &[u8], value: &[u8]) -> Result<()> {
    let (kind, why) = match name {
        b"" => (ErrorKind::Invalid, "has no name"),
        _ if name.contains(&0) => (ErrorKind::Invalid, "has a zero byte in its name"),
        _ if name.len() > NAME_BYTES_MAX => {
            (ErrorKind::NameTooLong, "has a name of more than 255 bytes")
        }
        _ if value.len() > VALUE_BYTES_MAX => {
            (ErrorKind::TooLarge, "has a value of more than 64 KiB")
        }
        _ => return Ok(()),
    };
    Err(FsError::new(kind, format!("extended attribute `{}` {why}", name.escape_ascii())))
}

/// Whether the row fits beside the others.
fn check_room(ino: Ino, rows: &[(Key, Versioned)], key: &Key, value: usize) -> Result<()> {
    let name_of = |key: &Key| key.len() - KEY_HEAD + 1;
    let others = rows.iter().filter(|(row, _)| row != key);
    let (mut names, mut total) = (name_of(key), name_of(key) + value);
    for (row, found) in others {
        names += name_of(row);
        total += name_of(row) + found.value.len();
    }
    if names > NAMES_BYTES_MAX || total > TOTAL_BYTES_MAX {
        let context = format!(
            "inode {ino}: all extended attributes together are at most 1 MiB, their names 64 KiB"
        );
        return Err(FsError::new(ErrorKind::NoSpace, context));
    }
    Ok(())
}

fn about(kind: ErrorKind, ino: Ino, name: &[u8], why: &str) -> FsError {
    let name = name.escape_ascii();
    FsError::new(kind, format!("extended attribute `{name}` of inode {ino} {why}"))
}

fn not_set(ino: Ino, name: &[u8]) -> FsError {
    about(ErrorKind::NoAttribute, ino, name, "is not set")
}
