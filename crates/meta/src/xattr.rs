//! Extended attributes.

use bytes::Bytes;
use weir_types::{Ino, Inode, Result};

use crate::Meta;

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
    /// Sets an attribute; values up to 64 KiB, all names and values of an inode up to 1 MiB.
    pub async fn xattr_set(
        &self,
        _ino: Ino,
        _name: &[u8],
        _value: &[u8],
        _mode: XattrMode,
    ) -> Result<Inode> {
        todo!()
    }

    /// The value of an attribute; `NoAttribute` if it is not set. One read round.
    pub async fn xattr_get(&self, _ino: Ino, _name: &[u8]) -> Result<Bytes> {
        todo!()
    }

    /// The names of all attributes, sorted.
    pub async fn xattr_list(&self, _ino: Ino) -> Result<Vec<Vec<u8>>> {
        todo!()
    }

    /// Removes an attribute; `NoAttribute` if it is not set.
    pub async fn xattr_remove(&self, _ino: Ino, _name: &[u8]) -> Result<Inode> {
        todo!()
    }
}
