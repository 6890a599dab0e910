//! All rows of one Kv, copied to another one or summed up, in the order in which it has them.
//!
//! Versions are not copied: they are each engine's own, and nothing outside a Kv may keep them.

use weir_types::{ErrorKind, FsError, Result};
use xxhash_rust::xxh3::Xxh3;

use crate::kv::{Commit, Key, Kv, Outcome, Versioned};

/// Rows read at once.
const PAGE: usize = 1_000;
/// Bytes of rows after which a commit is made.
pub(crate) const COMMIT_BYTES: usize = 4 << 20;

/// What a Kv holds, in numbers that two Kvs with other rows do not share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Rows.
    pub rows: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// XXH3 of all keys and values, each behind its length, in the order in which they were read.
    pub xxh3: u128,
    /// The same of each row, added up: whatever the order.
    rows_xxh3: u128,
}

impl Sum {
    /// Whether the other one is of the same rows, in whatever order.
    pub fn is_of_same(&self, other: &Self) -> bool {
        let of = |sum: &Self| (sum.rows, sum.bytes, sum.rows_xxh3);
        of(self) == of(other)
    }
}

/// Rows that are summed up one by one.
#[derive(Default)]
pub struct Adding {
    sum: Sum,
    hash: Xxh3,
}

impl Adding {
    /// Adds a row.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let mut row = Xxh3::new();
        for part in [key, value] {
            for hash in [&mut self.hash, &mut row] {
                hash.update(&(part.len() as u64).to_le_bytes());
                hash.update(part);
            }
            self.sum.bytes += part.len() as u64;
        }
        self.sum.rows += 1;
        self.sum.rows_xxh3 = self.sum.rows_xxh3.wrapping_add(row.digest128());
    }

    /// The sum of all.
    pub fn end(self) -> Sum {
        Sum { xxh3: self.hash.digest128(), ..self.sum }
    }
}

/// Sums up all rows. `progress` is told how many were read.
pub async fn sum(kv: &dyn Kv, progress: &(dyn Fn(u64) + Sync)) -> Result<Sum> {
    let mut adding = Adding::default();
    let mut after: Option<Key> = None;
    loop {
        let page = kv.scan(&[], after.as_deref(), PAGE).await?;
        page.iter().for_each(|(key, found)| adding.add(key, &found.value));
        progress(adding.sum.rows);
        match page.last() {
            Some((key, _)) => after = Some(key.clone()),
            None => return Ok(adding.end()),
        }
    }
}

/// Copies all rows of `from`, which nobody may change meanwhile, to `to`, which is empty; durable
/// when this returns. Answers the sum of what was read. `progress` is told how many rows that are.
pub async fn copy(from: &dyn Kv, to: &dyn Kv, progress: &(dyn Fn(u64) + Sync)) -> Result<Sum> {
    let mut adding = Adding::default();
    let mut after: Option<Key> = None;
    loop {
        let page = from.scan(&[], after.as_deref(), PAGE).await?;
        let Some((last, _)) = page.last() else { break };
        after = Some(last.clone());
        let (mut commit, mut bytes) = (Commit::default(), 0);
        for (key, Versioned { value, .. }) in page {
            adding.add(&key, &value);
            bytes += key.len() + value.len();
            commit.puts.push((key, value));
            if bytes >= COMMIT_BYTES {
                put(to, std::mem::take(&mut commit)).await?;
                bytes = 0;
            }
        }
        put(to, commit).await?;
        progress(adding.sum.rows);
    }
    to.sync().await?;
    Ok(adding.end())
}

pub(crate) async fn put(to: &dyn Kv, commit: Commit) -> Result<()> {
    match to.commit(commit).await? {
        Outcome::Applied(_) => Ok(()),
        Outcome::Conflict => {
            Err(FsError::new(ErrorKind::Bug, "a copy of metadata that checks nothing conflicts"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::MemoryKv;

    async fn filled(rows: usize) -> MemoryKv {
        let kv = MemoryKv::new();
        for at in 0..rows {
            let value = vec![at as u8; at % 7 * 100_000];
            let key = [&[b'I'][..], &at.to_be_bytes()].concat();
            kv.commit(Commit { puts: vec![(key, value.into())], ..Commit::default() })
                .await
                .expect("commits");
        }
        kv
    }

    #[tokio::test]
    async fn a_copy_has_the_same_rows_and_the_same_sum() {
        let from = filled(2_345).await;
        let to = MemoryKv::new();
        let told = std::sync::atomic::AtomicU64::new(0);
        let progress = |rows| told.store(rows, std::sync::atomic::Ordering::Relaxed);
        let copied = copy(&from, &to, &progress).await.expect("copies");
        assert_eq!((copied.rows, told.into_inner()), (2_345, 2_345));
        assert_eq!(sum(&from, &|_| ()).await.expect("sums"), copied);
        assert_eq!(sum(&to, &|_| ()).await.expect("sums"), copied);
        let rows = |found: Vec<(Key, Versioned)>| {
            found.into_iter().map(|(key, found)| (key, found.value)).collect::<Vec<_>>()
        };
        assert_eq!(
            rows(from.scan(&[], None, 9_999).await.expect("scans")),
            rows(to.scan(&[], None, 9_999).await.expect("scans"))
        );
    }

    #[tokio::test]
    async fn a_row_more_another_byte_or_a_byte_on_the_other_side_is_another_sum() {
        let sum_of = async |rows: &[(&str, &str)]| {
            let kv = MemoryKv::new();
            let puts = rows.iter().map(|(k, v)| (k.as_bytes().to_vec(), v.to_string().into()));
            let commit = Commit { puts: puts.collect(), ..Commit::default() };
            kv.commit(commit).await.expect("commits");
            sum(&kv, &|_| ()).await.expect("sums").xxh3
        };
        let base = sum_of(&[("a", "bc"), ("d", "")]).await;
        assert_eq!(base, sum_of(&[("d", ""), ("a", "bc")]).await);
        for other in [
            &[("a", "bc")][..],
            &[("a", "bd"), ("d", "")],
            &[("ab", "c"), ("d", "")],
            &[("a", "bc"), ("d", ""), ("e", "")],
        ] {
            assert_ne!(base, sum_of(other).await, "{other:?}");
        }
    }
}
