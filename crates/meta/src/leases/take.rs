//! Taking leases.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use weir_types::{Ino, Result};

use super::Leases;
use super::remembered::{Made, Stamp};
use crate::codec::{lend, lend_to_writer, lent_to, writer_of};
use crate::keys;
use crate::kv::{Check, Commit, Kv, Outcome, Versioned};
use crate::session::SessionId;

/// Leases that one commit takes.
const AT_ONCE: usize = 64;
/// Directories with more entries are not read whole.
const LIST_MAX: usize = 4_096;
/// How long more of them are waited for.
const GATHER: Duration = Duration::from_millis(5);
/// Sessions that may have a lease on one inode.
const HOLDERS_MAX: usize = 64;
/// Tries to take write leases: what makes them worth one changes their rows meanwhile.
const TO_WRITE_TRIES: usize = 4;

impl Leases {
    /// Takes leases on what is looked at again and again: one read and one commit for up to 64 of them. And reads
    /// lists.
    pub async fn take_loop(&self, kv: &dyn Kv) {
        loop {
            self.wanted.notified().await;
            tokio::time::sleep(GATHER).await;
            loop {
                let inos = self.state.lock().wanted(AT_ONCE);
                if inos.is_empty() {
                    break;
                }
                self.take(kv, &inos).await;
            }
            let to_write = self.state.lock().take_to_write();
            for some in to_write.chunks(AT_ONCE) {
                // Without them names are made one by one, and closes wait for the bucket.
                let _ = self.take_to_write(kv, some).await;
            }
            self.read_lists(kv).await;
        }
    }

    /// Reads the lists of directories in which names are missed. One read for each.
    async fn read_lists(&self, kv: &dyn Kv) {
        while let Some((dir, began)) = self.list_wanted() {
            match kv.scan(&keys::dirents(dir), None, LIST_MAX + 1).await {
                Ok(rows) if rows.len() <= LIST_MAX => {
                    self.state.lock().learn_list(dir, rows, began);
                }
                // Names are asked for one by one.
                Ok(_) | Err(_) => {}
            }
        }
    }

    fn list_wanted(&self) -> Option<(Ino, Stamp)> {
        let mut state = self.state.lock();
        let dir = state.list_wanted()?;
        Some((dir, state.stamp()))
    }

    /// Takes leases on these; those that cannot be had now are left alone.
    async fn take(&self, kv: &dyn Kv, inos: &[Ino]) {
        self.had_any.store(true, Ordering::Release);
        // Without them all goes on, only slower.
        let mut taken = self.try_take(kv, inos).await.unwrap_or(Some(Vec::new()));
        if taken.is_none() {
            let mut each = Vec::new();
            for ino in inos {
                let one = self.try_take(kv, std::slice::from_ref(ino)).await;
                each.extend(one.ok().flatten().unwrap_or_default());
            }
            taken = Some(each);
        }
        let mut taken: HashMap<_, _> = taken.unwrap_or_default().into_iter().collect();
        let mut state = self.state.lock();
        let have = inos.iter().filter(|ino| state.taken(**ino, taken.remove(*ino))).count();
        self.counts.taken.fetch_add(have as u64, Ordering::Relaxed);
    }

    /// Adds this session to those who have leases on these; `None`: something changed meanwhile, and
    /// nothing was done. Answers the rows as they are put.
    async fn try_take(&self, kv: &dyn Kv, inos: &[Ino]) -> Result<Option<Vec<(Ino, Versioned)>>> {
        let keys: Vec<_> = inos.iter().map(|ino| keys::inode(*ino)).collect();
        let found = kv.get_many(&keys).await?;
        let mut commit = Commit::default();
        let mut rows: Vec<(Ino, Bytes)> = Vec::with_capacity(inos.len());
        for ((ino, key), found) in inos.iter().zip(keys).zip(found) {
            let Some(found) = found.filter(|found| self.is_to_be_had(*ino, found)) else {
                continue;
            };
            let Some(holders) = self.holders_with_us(kv, &found).await? else { continue };
            let row = lend(&found.value, &holders);
            commit.checks.push(Check::Version(key.clone(), found.version));
            commit.puts.push((key, row.clone()));
            rows.push((*ino, row));
        }
        if rows.is_empty() {
            return Ok(Some(Vec::new()));
        }
        Ok(match kv.commit(commit).await? {
            Outcome::Conflict => None,
            Outcome::Applied(version) => {
                let of = |(ino, value)| (ino, Versioned { version, value });
                Some(rows.into_iter().map(of).collect())
            }
        })
    }

    /// Whoever writes it has it alone, as long as it is known here who that is, or there may be more to come.
    fn is_to_be_had(&self, ino: Ino, found: &Versioned) -> bool {
        let writes = self.writes.lock();
        match writer_of(&found.value) {
            None => true,
            Some(writer) if self.is_ours(writer) => writes.of(ino).is_none(),
            Some(_) => writes.was_brought(ino, found.version),
        }
    }

    /// Who has a lease on an inode once this session has one; `None`: too many have. One read, where it
    /// seems so.
    async fn holders_with_us(
        &self,
        kv: &dyn Kv,
        inode: &Versioned,
    ) -> Result<Option<Vec<SessionId>>> {
        let mut holders = lent_to(&inode.value);
        holders.retain(|one| *one != self.session);
        if holders.len() >= HOLDERS_MAX {
            let keys: Vec<_> = holders.iter().map(|one| keys::presence(one.0)).collect();
            let mut there = kv.get_many(&keys).await?.into_iter();
            holders.retain(|_| there.next().flatten().is_some());
        }
        if holders.len() >= HOLDERS_MAX {
            return Ok(None);
        }
        holders.push(self.session);
        Ok(Some(holders))
    }

    /// Takes write leases on directories in which this node makes names, and on files that it writes again and again,
    /// where it has a lease and nobody else has. One read and one commit, four of each at most, and a read for each that others
    /// seem to have.
    async fn take_to_write(&self, kv: &dyn Kv, inos: &[(Ino, bool)]) -> Result<()> {
        for _ in 0..TO_WRITE_TRIES {
            if self.try_take_to_write(kv, inos).await? {
                break;
            }
        }
        Ok(())
    }

    /// Whether these who have a lease are this session, and such as are gone. One read, where there are others.
    async fn is_alone(&self, kv: &dyn Kv, holders: &[SessionId]) -> Result<bool> {
        let others = holders.iter().filter(|one| **one != self.session);
        let others: Vec<_> = others.map(|one| keys::presence(one.0)).collect();
        if others.len() == holders.len() {
            return Ok(false);
        }
        Ok(others.is_empty() || kv.get_many(&others).await?.iter().all(Option::is_none))
    }

    async fn try_take_to_write(&self, kv: &dyn Kv, inos: &[(Ino, bool)]) -> Result<bool> {
        let may = self.may_write();
        let inos: Vec<_> = inos
            .iter()
            .filter(|(_, is_dir)| if *is_dir { may.directories } else { may.files })
            .collect();
        let keys: Vec<_> = inos.iter().map(|(ino, _)| keys::inode(*ino)).collect();
        let found = kv.get_many(&keys).await?;
        let mut commit = Commit::default();
        let mut rows = Vec::new();
        for ((of, key), found) in inos.into_iter().zip(keys).zip(found) {
            let Some(found) = found.filter(|found| self.is_to_be_had(of.0, found)) else {
                continue;
            };
            if !self.is_alone(kv, &lent_to(&found.value)).await? {
                continue;
            }
            commit.checks.push(Check::Version(key.clone(), found.version));
            commit.puts.push((key.clone(), lend_to_writer(&found.value, self.session)));
            rows.push((*of, key));
        }
        if rows.is_empty() {
            return Ok(true);
        }
        // As any commit of ours is noted: of two that cross it is not known which came last, and what would be remembered
        // of the other one could be without the mark.
        let changed: Vec<_> = rows.iter().map(|(_, key)| (key.clone(), false)).collect();
        let changes = self.state.lock().begins_to_change(&changed, self.now_ms());
        let outcome = kv.commit(commit).await;
        let made = matches!(outcome, Ok(Outcome::Applied(_)));
        let _turn = self.deferring.lock();
        let now_ms = self.now_ms();
        let (mut state, mut writes) = (self.state.lock(), self.writes.lock());
        state.ends_to_change(changes, &Made::new());
        for ((ino, is_dir), _) in rows {
            // Who asked meanwhile was told that there is nothing, and so it must be.
            if made && state.has(ino) && (is_dir || !writes.holds_off(now_ms)) {
                writes.begin(ino, now_ms, is_dir);
            }
            if outcome.is_err() {
                // It may be made yet.
                state.forget(&[ino]);
            }
        }
        outcome.map(|_| made)
    }
}
