//! Rows for the throughput rules of directories, as whoever keeps them wrote them.

use bytes::Bytes;
use weir_types::{Ino, Result};

use crate::codec::last_key;
use crate::kv::Key;
use crate::op::Tx;
use crate::{Meta, keys};

/// Rows read at once.
const PAGE: usize = 1_000;

impl Meta {
    /// All rules with their directories, also of directories that are gone. One read for each 1,000.
    pub async fn throughput_rules(&self) -> Result<Vec<(Ino, Bytes)>> {
        let mut all = Vec::new();
        let mut after: Option<Key> = None;
        loop {
            let page = self.kv.scan(&[keys::THROUGHPUT], after.as_deref(), PAGE).await?;
            for (key, found) in &page {
                all.extend(keys::parse_ino(key).map(|ino| (ino, found.value.clone())));
            }
            if page.len() < PAGE {
                return Ok(all);
            }
            after = last_key(&page);
        }
    }

    /// Sets the rules of directories, or removes them. One commit.
    pub async fn set_throughput_rules(&self, rules: &[(Ino, Option<Bytes>)]) -> Result<()> {
        let mut tx = Tx::default();
        for (ino, rule) in rules {
            match rule {
                Some(rule) => tx.put(keys::throughput(*ino), rule.clone()),
                None => tx.delete(keys::throughput(*ino)),
            }
        }
        self.apply(tx).await.map(drop)
    }
}
