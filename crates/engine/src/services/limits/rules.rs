//! Throughput rules over mounts: as rows of the metadata, with the burst credits as they stood. Nodes that
//! share a volume look at them now and then.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weir_meta::kv::Version;
use weir_throughput::efs::{Limiter, LimiterState, Mode, Rules};
use weir_types::{ErrorKind, FsError, NanoUsd, Result};

use crate::data::admission::budget::Asked;
use crate::data::admission::limit::{Limit, Subject, now_ns};
use crate::services::limits::Limits;
use crate::services::limits::kept::{BUDGET, number_of, of_number};

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
    /// Takes up the rules that are stored, as far as they are not known; the volume has one in any case.
    /// Credits grow while nothing is mounted, as those of a file system that nobody uses. One read, and
    /// one more for each rule that is new.
    pub(crate) async fn load_rules(&self) -> Result<()> {
        let rows = self.meta.throughput_rules().await?;
        let stored: Vec<Subject> = rows.iter().map(|(number, ..)| of_number(*number)).collect();
        let mut added = Vec::new();
        for (number, version, row) in rows {
            if self.shares.knows(number, version) {
                continue;
            }
            let subject = of_number(number);
            if let Subject::Directory(dir) = subject
                && self
                    .meta
                    .inode(dir)
                    .await
                    .is_err_and(|error| error.kind() == ErrorKind::NotFound)
            {
                self.shares.pass_over(number, version);
                continue;
            }
            let row: Row = serde_json::from_slice(&row).map_err(|e| {
                let text = format!("the throughput rule {number:x} cannot be read");
                FsError::new(ErrorKind::Corrupt, text).with_source(e)
            })?;
            added.extend(self.take_up(subject, version, row).await);
        }
        let areas = &self.admission.areas;
        if areas.limit(Subject::VOLUME).is_none() && !stored.contains(&Subject::VOLUME) {
            let stored_bytes = self.stored_for(Subject::VOLUME).await;
            let now_ns = now_ns(&self.context.clock);
            let limiter = Limiter::new(Rules::today(), Mode::Elastic, stored_bytes, now_ns);
            added.push(Arc::new(Limit::new(Subject::VOLUME, "/".to_owned(), limiter, false)));
        }
        if !added.is_empty() {
            areas.change(|all| all.extend(added));
        }
        for limit in areas.limits() {
            if limit.subject != Subject::VOLUME && !stored.contains(&limit.subject) {
                areas.remove(limit.subject, &self.context.clock);
                self.shares.forget(number_of(limit.subject));
            }
        }
        Ok(())
    }

    /// Goes on by a rule that is stored; answers its limit, if that is a new one.
    async fn take_up(&self, subject: Subject, version: Version, row: Row) -> Option<Arc<Limit>> {
        let now_ns = now_ns(&self.context.clock);
        let stored_bytes = self.stored_for(subject).await;
        let unix_ms = self.context.unix_ms();
        let limiter = Limiter::restore(row.rules, &row.state, stored_bytes, now_ns, unix_ms);
        let number = number_of(subject);
        let limiter = match self.context.is_shared() {
            true => self.shares.begin(number, version, limiter, now_ns),
            false => {
                self.shares.pass_over(number, version);
                limiter
            }
        };
        if subject == Subject::VOLUME {
            let budget = row.budget.as_ref();
            self.set_budget(budget.map(|(rate, region)| (*rate, region.as_str())));
        }
        match self.admission.areas.limit(subject) {
            Some(limit) => {
                limit.replace(limiter, row.exact);
                None
            }
            None => Some(Arc::new(Limit::new(subject, row.name, limiter, row.exact))),
        }
    }

    /// Sets the budget, or takes it away. One that nodes keep to together begins with what there is of it.
    pub(crate) fn set_budget(&self, budget: Option<(NanoUsd, &str)>) {
        let kept = &self.admission.budget;
        let (clock, shared) = (&self.context.clock, self.context.is_shared());
        let is_so = kept
            .view()
            .is_some_and(|view| budget == Some((view.nano_usd_per_hour, view.region.as_str())));
        if shared && is_so {
            return;
        }
        kept.set(budget, Asked::of(&self.context), now_ns(clock));
        if !shared {
            return;
        }
        match budget {
            None => self.shares.forget(BUDGET),
            Some((rate, _)) => {
                let now_ns = now_ns(clock);
                let all = kept.with(|budget| {
                    let all = budget.level(now_ns);
                    budget.add(NanoUsd(-all.0), now_ns);
                    all
                });
                let share = self.shares.begin_budget(rate, all.unwrap_or(NanoUsd(0)));
                kept.with(|budget| budget.set_share(share, now_ns));
            }
        }
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

    /// Stores the credits of those that have any to lose. Where nodes share the volume accounts have them.
    pub(crate) async fn store_credits(&self) -> Result<()> {
        if self.context.is_shared() {
            return Ok(());
        }
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
