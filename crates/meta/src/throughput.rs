//! Rows for throughput rules, as whoever keeps them wrote them.

use bytes::Bytes;
use weir_types::Result;

use crate::codec::last_key;
use crate::kv::{Key, Version};
use crate::op::Tx;
use crate::{Meta, keys};

/// Rows read at once.
const PAGE: usize = 1_000;

impl Meta {
    /// All rules by number, which is that of an inode or whatever the caller gave, with the version of
    /// each. One read for each 1,000.
    pub async fn throughput_rules(&self) -> Result<Vec<(u64, Version, Bytes)>> {
        let mut all = Vec::new();
        let mut after: Option<Key> = None;
        loop {
            let page = self.kv.scan(&[keys::THROUGHPUT], after.as_deref(), PAGE).await?;
            for (key, found) in &page {
                let rule = |number| (number, found.version, found.value.clone());
                all.extend(keys::parse_throughput(key).map(rule));
            }
            if page.len() < PAGE {
                return Ok(all);
            }
            after = last_key(&page);
        }
    }

    /// Sets the rules of these numbers, or removes them. One commit.
    pub async fn set_throughput_rules(&self, rules: &[(u64, Option<Bytes>)]) -> Result<()> {
        let mut tx = Tx::default();
        for (number, rule) in rules {
            match rule {
                Some(rule) => tx.put(keys::throughput(*number), rule.clone()),
                None => tx.delete(keys::throughput(*number)),
            }
        }
        self.apply(tx).await.map(drop)
    }
}
