//! Rows for what doors keep: clients that may come back, directories that are exported. Of no meaning here.

use bytes::Bytes;
use weir_types::{ErrorKind, FsError, Result};

use crate::codec::last_key;
use crate::kv::Key;
use crate::op::Tx;
use crate::{Meta, keys};

/// Rows read at once.
const PAGE: usize = 1_000;
/// Longest name of a row.
const NAME_BYTES_MAX: usize = 255;

impl Meta {
    /// All rows whose names begin so, by name. One read for each 1,000.
    pub async fn kept(&self, prefix: &str) -> Result<Vec<(String, Bytes)>> {
        let mut all = Vec::new();
        let mut after: Option<Key> = None;
        loop {
            let page = self.kv.scan(&keys::kept(prefix), after.as_deref(), PAGE).await?;
            for (key, found) in &page {
                let name = String::from_utf8_lossy(&key[1..]).into_owned();
                all.push((name, found.value.clone()));
            }
            if page.len() < PAGE {
                return Ok(all);
            }
            after = last_key(&page);
        }
    }

    /// Sets rows of these names, or removes them. One commit. `Invalid` for a name of none or of more than
    /// 255 bytes.
    pub async fn keep(&self, rows: &[(String, Option<Bytes>)]) -> Result<()> {
        let mut tx = Tx::default();
        for (name, value) in rows {
            if name.is_empty() || name.len() > NAME_BYTES_MAX {
                let text = format!("`{name}` is no name of a row: 1 to {NAME_BYTES_MAX} bytes");
                return Err(FsError::new(ErrorKind::Invalid, text));
            }
            match value {
                Some(value) => tx.put(keys::kept(name), value.clone()),
                None => tx.delete(keys::kept(name)),
            }
        }
        self.apply(tx).await.map(drop)
    }
}
