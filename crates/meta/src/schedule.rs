//! When snapshots are made by themselves: one row.

use serde::{Deserialize, Serialize};
use weir_types::Result;

use crate::codec::{decode_seen, encode, version};
use crate::op::{Tries, Tx};
use crate::{Meta, keys};

/// The schedule of a volume's snapshots. There is a row as long as there is a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleRow {
    /// Each has another name.
    pub rules: Vec<ScheduleRule>,
}

/// A snapshot for each period, of which some are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleRule {
    /// What its snapshots say that made them.
    pub name: String,
    /// The newest ones that are kept.
    pub keep: u32,
    /// When the period began for which the newest one was made, in seconds since 1970.
    pub made_s: Option<i64>,
}

impl Meta {
    /// The schedule of snapshots; without rules if there is none. One read.
    pub async fn schedule(&self) -> Result<ScheduleRow> {
        let found = self.get(&[keys::SCHEDULE.to_vec()]).await?;
        Ok(decode_seen(keys::SCHEDULE, found[0].as_ref())?
            .map_or_else(Default::default, |s| s.value))
    }

    /// Changes the schedule of snapshots, and answers what it is then. Durable when it returns. One read, one commit
    /// and a sync.
    pub async fn change_schedule(
        &self,
        change: impl Fn(ScheduleRow) -> ScheduleRow,
    ) -> Result<ScheduleRow> {
        let key = keys::SCHEDULE.to_vec();
        let mut tries = Tries::new("change the schedule of snapshots");
        loop {
            tries.next().await?;
            let found = self.get(std::slice::from_ref(&key)).await?;
            let before = decode_seen::<ScheduleRow>(&key, found[0].as_ref())?;
            let row = change(before.map_or_else(Default::default, |seen| seen.value));
            let mut tx = Tx::default();
            tx.check(key.clone(), version(found[0].as_ref()));
            match row.rules.is_empty() {
                true => tx.delete(key.clone()),
                false => tx.put(key.clone(), encode(&row)?),
            }
            if self.apply(tx).await? {
                self.sync().await?;
                return Ok(row);
            }
        }
    }
}
