//! Throughput rules over mounts: as rows of the metadata, with the burst credits as they stood.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weir_throughput::efs::{Limiter, LimiterState, Mode, Rules};
use weir_types::{ErrorKind, FsError, Ino, NanoUsd, Result};

use crate::data::admission::limit::{Limit, Subject, now_ns};
use crate::services::limits::Limits;

/// A rule as stored; the row of the root also holds the budget.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    name: String,
    rules: Rules,
    state: LimiterState,
    exact: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    budget: Option<(NanoUsd, String)>,
}

impl Limits {
    /// Takes up the rules that were stored; the volume has one in any case. Credits grow while
    /// nothing is mounted, as those of a file system that nobody uses.
    pub(crate) async fn load_rules(&self) -> Result<()> {
        let now_ns = now_ns(&self.context.clock);
        let mut limits = Vec::new();
        for (number, row) in self.meta.throughput_rules().await? {
            let subject = of_number(number);
            if let Subject::Directory(dir) = subject
                && self
                    .meta
                    .inode(dir)
                    .await
                    .is_err_and(|error| error.kind() == ErrorKind::NotFound)
            {
                continue;
            }
            let row: Row = serde_json::from_slice(&row).map_err(|e| {
                let text = format!("the throughput rule {number:x} cannot be read");
                FsError::new(ErrorKind::Corrupt, text).with_source(e)
            })?;
            let stored_bytes = self.stored_for(subject).await;
            let unix_ms = self.context.unix_ms();
            let limiter = Limiter::restore(row.rules, &row.state, stored_bytes, now_ns, unix_ms);
            limits.push(Arc::new(Limit::new(subject, row.name, limiter, row.exact)));
            if let Some((rate, region)) = &row.budget {
                let seen = self.context.meter.snapshot();
                self.admission.budget.set(Some((*rate, region.as_str())), seen, now_ns);
            }
        }
        if limits.iter().all(|limit| limit.subject != Subject::VOLUME) {
            let stored_bytes = self.stored_for(Subject::VOLUME).await;
            let limiter = Limiter::new(Rules::today(), Mode::Elastic, stored_bytes, now_ns);
            limits.push(Arc::new(Limit::new(Subject::VOLUME, "/".to_owned(), limiter, false)));
        }
        self.admission.areas.change(|all| *all = limits);
        Ok(())
    }

    /// Stores these rules, or that there are none. One commit.
    pub(crate) async fn store_rules(&self, all: &[Subject]) -> Result<()> {
        if self.context.read_only {
            // They hold for this mount only.
            return Ok(());
        }
        let mut rows = Vec::with_capacity(all.len());
        for subject in all {
            let limit = self.admission.areas.limit(*subject);
            rows.push((number_of(*subject), limit.map(|limit| self.row(&limit)).transpose()?));
        }
        self.meta.set_throughput_rules(&rows).await
    }

    /// Stores the credits of those that have any to lose.
    pub(crate) async fn store_credits(&self) -> Result<()> {
        let limits = self.admission.areas.limits();
        let spent: Vec<Subject> = limits
            .iter()
            .filter(|limit| {
                let stand = limit.stand(&self.context.clock);
                stand.mode != Mode::Elastic && stand.credit_bytes < stand.credit_cap_bytes
            })
            .map(|limit| limit.subject)
            .collect();
        match spent.is_empty() {
            true => Ok(()),
            false => self.store_rules(&spent).await,
        }
    }

    fn row(&self, limit: &Limit) -> Result<Bytes> {
        let unix_ms = self.context.unix_ms();
        let (rules, state) = limit.with(&self.context.clock, |limiter, now_ns| {
            (limiter.rules().clone(), limiter.state(now_ns, unix_ms))
        });
        let budget = self.admission.budget.view().filter(|_| limit.subject == Subject::VOLUME);
        let row = Row {
            name: limit.name.clone(),
            rules,
            state,
            exact: limit.stand(&self.context.clock).exact,
            budget: budget.map(|budget| (budget.nano_usd_per_hour, budget.region)),
        };
        let bytes = serde_json::to_vec(&row)
            .map_err(|e| FsError::new(ErrorKind::Bug, "write a throughput rule").with_source(e))?;
        Ok(bytes.into())
    }
}

/// Inodes never get so far.
const CLIENTS: u64 = 0xffff_ffff << 32;

fn number_of(subject: Subject) -> u64 {
    match subject {
        Subject::Directory(dir) => dir.0,
        Subject::Client(client) => CLIENTS | u64::from(client),
    }
}

fn of_number(number: u64) -> Subject {
    match number >= CLIENTS {
        true => Subject::Client(number as u32),
        false => Subject::Directory(Ino(number)),
    }
}
