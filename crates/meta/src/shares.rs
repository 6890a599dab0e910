//! Rows by which nodes keep to limits together and sum up what they did, as whoever keeps them wrote
//! them. They outlive the sessions that wrote them: what a node had is settled by another one.

use bytes::Bytes;
use weir_types::Result;

use crate::codec::last_key;
use crate::kv::{Key, Version, Versioned};
use crate::op::Tx;
use crate::session::SessionId;
use crate::share_row::ShareRow;
use crate::{Meta, keys};

/// Rows read at once.
const PAGE: usize = 1_000;

/// Changes of such rows.
#[derive(Debug, Default)]
pub struct ShareChange {
    /// Rows that must be as they were seen: of this version, or absent.
    pub seen: Vec<(ShareRow, Option<Version>)>,
    /// Rows to set.
    pub puts: Vec<(ShareRow, Bytes)>,
    /// Rows to remove.
    pub deletes: Vec<ShareRow>,
}

/// A row that was read, and its version.
pub type SeenRow = (Version, Bytes);

impl Meta {
    /// All accounts, and what sessions have of them. One read for each 1,000.
    pub async fn share_rows(&self) -> Result<Vec<(ShareRow, SeenRow)>> {
        self.shares_below(&[keys::SHARE]).await
    }

    /// What sessions did, those that are settled, too. One read for each 1,000.
    pub async fn did_rows(&self) -> Result<Vec<(ShareRow, SeenRow)>> {
        self.shares_below(&[keys::DID]).await
    }

    async fn shares_below(&self, prefix: &[u8]) -> Result<Vec<(ShareRow, SeenRow)>> {
        let mut all = Vec::new();
        let mut after: Option<Key> = None;
        loop {
            let page = self.kv.scan(prefix, after.as_deref(), PAGE).await?;
            for (key, found) in &page {
                all.extend(keys::parse_share(key).zip(Some(seen(found))));
            }
            if page.len() < PAGE {
                return Ok(all);
            }
            after = last_key(&page);
        }
    }

    /// The throughput rules of these numbers and the accounts of them; `None` where there is none. One
    /// read.
    pub async fn rules_and_accounts(
        &self,
        numbers: &[u64],
    ) -> Result<Vec<(Option<SeenRow>, Option<SeenRow>)>> {
        let rules = numbers.iter().map(|number| keys::throughput(*number));
        let accounts = numbers.iter().map(|number| keys::share(ShareRow::Account(*number)));
        let wanted: Vec<_> = rules.chain(accounts).collect();
        let found = self.kv.get_many(&wanted).await?;
        let found: Vec<_> = found.iter().map(|row| row.as_ref().map(seen)).collect();
        let (rules, accounts) = found.split_at(numbers.len());
        Ok(rules.iter().cloned().zip(accounts.iter().cloned()).collect())
    }

    /// Whether these sessions are there. One read.
    pub async fn are_there(&self, sessions: &[SessionId]) -> Result<Vec<bool>> {
        let rows: Vec<_> = sessions.iter().map(|session| keys::presence(session.0)).collect();
        Ok(self.kv.get_many(&rows).await?.iter().map(Option::is_some).collect())
    }

    /// Changes rows, or answers `false` where one is not as it was seen. One commit.
    pub async fn change_shares(&self, change: ShareChange) -> Result<bool> {
        let mut tx = Tx::default();
        for (row, version) in change.seen {
            tx.check(keys::share(row), version);
        }
        for (row, value) in change.puts {
            tx.put(keys::share(row), value);
        }
        for row in change.deletes {
            tx.delete(keys::share(row));
        }
        self.apply(tx).await
    }
}

fn seen(found: &Versioned) -> SeenRow {
    (found.version, found.value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{assert_sound, meta};

    #[tokio::test]
    async fn rows_are_told_apart_and_changed_only_as_they_were_seen() {
        let meta = meta().await;
        let one = SessionId(1);
        let rows =
            [ShareRow::Account(7), ShareRow::Held(one), ShareRow::DidBefore, ShareRow::Did(one)];
        let put = |row: &ShareRow| (*row, Bytes::from_static(b"{}"));
        let puts = rows.iter().map(put).collect();
        let seen = vec![(rows[0], None)];
        let change = ShareChange { seen: seen.clone(), puts, ..ShareChange::default() };
        assert!(meta.change_shares(change).await.unwrap());
        let named = |found: Vec<(ShareRow, SeenRow)>| -> Vec<ShareRow> {
            found.into_iter().map(|(row, _)| row).collect()
        };
        assert_eq!(named(meta.share_rows().await.unwrap()), rows[..2]);
        assert_eq!(named(meta.did_rows().await.unwrap()), [rows[3], rows[2]]);
        let deletes = vec![rows[1]];
        let change = ShareChange { seen, deletes, ..ShareChange::default() };
        assert!(!meta.change_shares(change).await.unwrap(), "it is there by now");
        let read = meta.rules_and_accounts(&[7, 8]).await.unwrap();
        let [(None, Some((version, value))), (None, None)] = &read[..] else { panic!("{read:?}") };
        assert_eq!(&value[..], b"{}");
        let change = ShareChange {
            seen: vec![(rows[0], Some(*version))],
            deletes: vec![rows[0], rows[1]],
            ..ShareChange::default()
        };
        assert!(meta.change_shares(change).await.unwrap());
        assert_eq!(meta.share_rows().await.unwrap(), []);
        assert_eq!(meta.are_there(&[one]).await.unwrap(), [false]);
        assert_sound(&meta).await;
    }
}
