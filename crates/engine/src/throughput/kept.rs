//! Throughput rules over mounts: as rows of the metadata, with the burst credits as they stood.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weir_throughput::efs::{Limiter, Mode, Rules};
use weir_types::{ErrorKind, FsError, Ino, NanoUsd, Result};

use super::limit::{Limit, now_ns};
use crate::engine::Core;

/// A rule as stored; the row of the root also holds the budget.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    path: String,
    mode: Mode,
    rules: Rules,
    credit_bytes: f64,
    at_unix_ms: u64,
    exact: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    budget: Option<(NanoUsd, String)>,
}

impl Core {
    /// Takes up the rules that were stored; the volume has one in any case. Credits grow while
    /// nothing is mounted, as those of a file system that nobody uses.
    pub(crate) async fn load_rules(&self) -> Result<()> {
        let now_ns = now_ns(&self.clock);
        let stored_bytes = self.seen(self.meta.usage().await)?.stored_bytes;
        let mut limits = Vec::new();
        for (ino, row) in self.seen(self.meta.throughput_rules().await)? {
            if ino != Ino::ROOT && self.stored(ino).await.is_err_and(|e| is_gone(&e)) {
                continue;
            }
            let row: Row = serde_json::from_slice(&row).map_err(|e| {
                let text = format!("the throughput rule of inode {ino} cannot be read");
                FsError::new(ErrorKind::Corrupt, text).with_source(e)
            })?;
            let limiter = Limiter::new(row.rules, row.mode, stored_bytes, now_ns);
            let away_s = self.unix_ms().saturating_sub(row.at_unix_ms) as f64 / 1e3;
            let credit_bytes = row.credit_bytes + away_s * limiter.baseline_bytes_per_s();
            let limiter = limiter.with_credits(credit_bytes);
            limits.push(Arc::new(Limit::new(ino, row.path, limiter, row.exact)));
            if let Some((rate, region)) = &row.budget {
                let seen = self.meter.snapshot();
                self.throughput.purse.set(Some((*rate, region.as_str())), seen, now_ns);
            }
        }
        if limits.iter().all(|limit| limit.dir != Ino::ROOT) {
            let limiter = Limiter::new(Rules::today(), Mode::Elastic, stored_bytes, now_ns);
            limits.push(Arc::new(Limit::new(Ino::ROOT, "/".to_owned(), limiter, false)));
        }
        self.throughput.areas.change(|all| *all = limits);
        Ok(())
    }

    /// Stores the rules of these directories, or that they have none. One commit.
    pub(crate) async fn store_rules(&self, dirs: &[Ino]) -> Result<()> {
        if self.read_only {
            // They hold for this mount only.
            return Ok(());
        }
        let limits = self.throughput.areas.limits();
        let mut rows = Vec::with_capacity(dirs.len());
        for dir in dirs {
            let limit = limits.iter().find(|limit| limit.dir == *dir);
            rows.push((*dir, limit.map(|limit| self.row(limit)).transpose()?));
        }
        self.seen(self.meta.set_throughput_rules(&rows).await)
    }

    /// Stores the credits of those that have any to lose.
    pub(crate) async fn store_credits(&self) -> Result<()> {
        let limits = self.throughput.areas.limits();
        let spent: Vec<Ino> = limits
            .iter()
            .filter(|limit| {
                let stand = limit.stand(&self.clock);
                stand.mode != Mode::Elastic && stand.credit_bytes < stand.credit_cap_bytes
            })
            .map(|limit| limit.dir)
            .collect();
        match spent.is_empty() {
            true => Ok(()),
            false => self.store_rules(&spent).await,
        }
    }

    fn row(&self, limit: &Limit) -> Result<Bytes> {
        let stand = limit.stand(&self.clock);
        let budget = self.throughput.purse.view().filter(|_| limit.dir == Ino::ROOT);
        let row = Row {
            path: limit.path.clone(),
            mode: stand.mode,
            rules: limit.with(&self.clock, |limiter, _| limiter.rules().clone()),
            credit_bytes: stand.credit_bytes,
            at_unix_ms: self.unix_ms(),
            exact: stand.exact,
            budget: budget.map(|budget| (budget.nano_usd_per_hour, budget.region)),
        };
        let bytes = serde_json::to_vec(&row)
            .map_err(|e| FsError::new(ErrorKind::Bug, "write a throughput rule").with_source(e))?;
        Ok(bytes.into())
    }
}

fn is_gone(error: &FsError) -> bool {
    error.kind() == ErrorKind::NotFound
}
