//! Throughput modes of a mount, its budget, and who is counted for what.
//!
//! Reads and writes that reach the daemon are metered as EFS meters them and wait where a mode says
//! so. Reads that the kernel answers, from its page cache or from a lent file, are not seen; below
//! a limit nothing is lent.

mod bucket_bytes;
mod did;
mod history;
mod kept;
mod rules;
mod shares;
mod views;

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bucket_bytes::{BucketBytes, Found};
use history::{History, SAMPLE_MS};
use kept::{BUDGET, Shares, number_of};
use tokio::sync::Notify;
use views::{REMOVED, tell_apart, tenant_view};
use weir_cost::{Item, PriceBook};
use weir_meta::{Meta, SegmentBytes};
use weir_throughput::efs::{Limiter, Mode, Rules};
use weir_types::{ErrorKind, FileKind, FsError, Ino, NanoUsd, Result};

use crate::data::admission::areas::Used;
use crate::data::admission::budget::BudgetView;
use crate::data::admission::limit::{Limit, Subject, now_ns};
use crate::data::admission::{Admission, budget};
use crate::names::past::check_present;
use crate::volume::context::Context;
use crate::volume::together::Together;

pub use history::{ColdTotals, Period, RestoredTotals, Totals};
pub use views::{
    LimitStatus, ShareView, TenantView, ThroughputChange, ThroughputReport, ThroughputView,
};

/// How often the budget is settled, in milliseconds.
const SETTLE_MS: u64 = 200;
/// How soon nodes look at their parts again where the metadata did not answer.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a sample waits for the sum of the segments; else it has the last one.
const LOOK_MAX: Duration = Duration::from_secs(30);
/// Entries of the root that are looked through for the names of areas.
const NAMES: usize = 10_000;

/// The throughput rules of a mount, and what was used.
pub(crate) struct Limits {
    context: Arc<Context>,
    meta: Arc<Meta>,
    admission: Arc<Admission>,
    /// What this mount did, and what all nodes did that share the volume.
    history: History,
    volume: History,
    bucket_bytes: BucketBytes,
    /// What this mount goes by, and what it has of it where nodes share the volume.
    shares: Shares,
    /// When it looks for other rules, and who has it do that now.
    follow_at: AtomicU64,
    followed: Notify,
    metadata_ops: OnceLock<Box<dyn Fn() -> u64 + Send + Sync>>,
}

impl Limits {
    pub(crate) fn new(context: Arc<Context>, meta: Arc<Meta>, admission: Arc<Admission>) -> Self {
        let (history, volume, bucket_bytes) = Default::default();
        let (shares, follow_at, followed) = Default::default();
        let metadata_ops = OnceLock::new();
        Self {
            context,
            meta,
            admission,
            history,
            volume,
            bucket_bytes,
            shares,
            follow_at,
            followed,
            metadata_ops,
        }
    }

    /// How the throughput of the mount stands. One look at the names below the root.
    pub(crate) async fn throughput(&self) -> Result<ThroughputReport> {
        self.size_limits().await;
        let mut rules: Vec<_> =
            self.admission.areas.limits().iter().map(|l| self.view(l)).collect();
        rules.sort_by(|a, b| a.name.cmp(&b.name));
        tell_apart(&mut rules);
        let names = self.area_names(&rules).await?;
        let (mut tenants, mut removed) = (Vec::new(), BTreeMap::<u32, TenantView>::new());
        for ((dir, client), used) in &self.admission.areas.tenants() {
            match names.get(dir) {
                Some(name) => tenants.push(tenant_view(name.clone(), *client, used)),
                // One row for all of them: directories come and go by the thousand.
                None => {
                    let gone = tenant_view(REMOVED.to_owned(), *client, used);
                    removed.entry(*client).and_modify(|sum| sum.add(&gone)).or_insert(gone);
                }
            }
        }
        tenants.extend(removed.into_values());
        Ok(ThroughputReport { tenants, budget: self.budget_view(), rules })
    }

    /// Changes the rule of a directory or user, with its name for people; it holds within a second,
    /// on other nodes within about 3 s, and over mounts. Files that are open past the daemon stay so until they are closed.
    /// One commit.
    pub(crate) async fn set_throughput(
        &self,
        subject: Subject,
        name: &str,
        change: ThroughputChange,
    ) -> Result<ThroughputReport> {
        self.check_throughput(subject, &change).await?;
        if change.remove {
            self.admission.areas.remove(subject, &self.context.clock);
            self.shares.forget(number_of(subject));
        } else {
            let others = self.credits_elsewhere(subject).await?;
            let add = |credits| move |limiter: &mut Limiter, now| limiter.add_credits(credits, now);
            let limit = self.admission.areas.limit(subject);
            limit.iter().for_each(|limit| limit.with(&self.context.clock, add(others)));
            if let Err(error) = self.change_limit(subject, name, &change).await {
                limit.iter().for_each(|limit| limit.with(&self.context.clock, add(-others)));
                return Err(error);
            }
        }
        if let Some((rate, region)) = &change.budget {
            self.set_budget((rate.0 > 0).then_some((*rate, region.as_str())));
        }
        self.store_rules(&[subject]).await?;
        self.follow_soon();
        self.throughput().await
    }

    /// Tells where the metadata operations are counted; once, by the daemon that has the doors.
    pub(crate) fn count_metadata_by(&self, count: impl Fn() -> u64 + Send + Sync + 'static) {
        // The first one stays.
        let _ = self.metadata_ops.set(Box::new(count));
    }

    /// What was used of late: in a minute, or up to two.
    pub(crate) async fn used_lately(&self) -> Period {
        let now = self.totals().await;
        self.history.since(Some(now.unix_ms.saturating_sub(SAMPLE_MS)), now)
    }

    /// What was used here since `unix_ms`, or since the mount; never of more than a week ago.
    pub(crate) async fn used_here_since(&self, unix_ms: Option<u64>) -> Period {
        let now = self.totals().await;
        self.history.since(unix_ms, now)
    }

    /// Totals of each minute since about `unix_ms`, or since the mount, and now.
    pub(crate) async fn history(&self, unix_ms: Option<u64>) -> Vec<Totals> {
        let now = self.totals().await;
        self.history.each_since(unix_ms, now)
    }
}

impl Limits {
    /// Directories and users of which the daemon sees every byte.
    pub(crate) fn metered(&self) -> Vec<String> {
        let limits = self.admission.areas.limits();
        let mut names: Vec<_> =
            limits.iter().filter(|limit| limit.sees_all()).map(|l| l.name.clone()).collect();
        names.sort();
        names
    }

    /// The limits that hold anything back.
    pub(crate) fn limiting(&self) -> Vec<LimitStatus> {
        let limits = self.admission.areas.limits();
        let views = limits.iter().map(|limit| self.view(limit));
        let limiting = views.filter_map(|view| {
            let permitted_bytes_per_s = view.permitted_bytes_per_s?;
            let share = view.share.map(|share| share.share);
            Some(LimitStatus { name: view.name, permitted_bytes_per_s, share })
        });
        let mut all: Vec<_> = limiting.collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    fn view(&self, limit: &Limit) -> ThroughputView {
        let stand = limit.stand(&self.context.clock);
        let (mut permitted, mut credit_bytes) = (stand.permitted_bytes_per_s, stand.credit_bytes);
        let mut share = None;
        if self.context.is_shared() && limit.limits() {
            let account = self.shares.account(number_of(limit.subject));
            let (balance, of_it, nodes) = account.map_or((0, 0.0, 0), |(row, share)| {
                (row.balance, share, row.account.parts.len() as u64)
            });
            share = Some(ShareView {
                share: of_it,
                permitted_bytes_per_s: permitted,
                credit_bytes,
                nodes,
            });
            permitted = stand.whole_bytes_per_s[usize::from(balance <= 0)];
            credit_bytes = balance.max(0) as f64;
        }
        ThroughputView {
            subject: limit.subject,
            name: limit.name.clone(),
            mode: stand.mode,
            rules_until: stand.rules_until,
            permitted_bytes_per_s: permitted.is_finite().then_some(permitted),
            baseline_bytes_per_s: stand.baseline_bytes_per_s,
            credit_bytes,
            credit_cap_bytes: stand.credit_cap_bytes,
            metered_bytes: stand.metered_bytes,
            waiting: stand.waiting as u64,
            waited_ms: stand.waited_ms,
            sees_all: limit.sees_all(),
            share,
        }
    }

    fn budget_view(&self) -> Option<BudgetView> {
        let view = self.admission.budget.view()?;
        if !self.context.is_shared() {
            return Some(view);
        }
        let (used, share) = self.shares.account(BUDGET).map_or((0, 0.0), |(row, s)| (row.used, s));
        let spent_nano_usd = NanoUsd(view.spent_nano_usd.0.max(used.cast_signed()));
        Some(BudgetView { spent_nano_usd, share: Some(share), ..view })
    }

    async fn check_throughput(&self, subject: Subject, change: &ThroughputChange) -> Result<()> {
        let invalid = |text: String| Err(FsError::new(ErrorKind::Invalid, text));
        if let Subject::Directory(dir) = subject {
            check_present(&[dir])?;
        }
        if let Subject::Directory(dir) = subject
            && self.meta.inode(dir).await?.kind != FileKind::Directory
        {
            return invalid("a throughput rule is for a directory or a user".to_owned());
        }
        if let Some(Mode::Provisioned { mib_per_s }) = change.mode
            && !(mib_per_s > 0.0 && mib_per_s <= 1e6)
        {
            return invalid(format!("{mib_per_s} MiB/s cannot be provisioned: 1 to 1,000,000"));
        }
        if change.remove && subject == Subject::VOLUME {
            return invalid(
                "the volume's own rule cannot go: `--mode elastic` limits nothing".to_owned(),
            );
        }
        if let Some((rate, region)) = &change.budget {
            if subject != Subject::VOLUME {
                return invalid("a budget is for the whole volume".to_owned());
            }
            let book = PriceBook::built_in();
            let known = |item| book.at(region).of(&item).is_some();
            if rate.0 < 0 || !known(Item::S3Put) || !known(Item::S3Get) {
                return invalid(format!("what requests cost in region `{region}` is not known"));
            }
        }
        Ok(())
    }

    async fn change_limit(
        &self,
        subject: Subject,
        name: &str,
        change: &ThroughputChange,
    ) -> Result<()> {
        let now_ns = now_ns(&self.context.clock);
        let stored_bytes = self.stored_for(subject).await;
        let rules = || change.rules.clone().unwrap_or_else(Rules::today);
        let limit = match self.admission.areas.limit(subject) {
            Some(limit) => limit,
            None => {
                let limiter =
                    Limiter::new(subject.ruled(rules()), Mode::Elastic, stored_bytes, now_ns);
                Arc::new(Limit::new(subject, name.to_owned(), limiter, false))
            }
        };
        limit.with(&self.context.clock, |limiter, now_ns| {
            let mut next = match &change.rules {
                // Other rules are another file system: with its own credits.
                Some(rules) => {
                    Limiter::new(subject.ruled(rules.clone()), limiter.mode(), stored_bytes, now_ns)
                }
                None => limiter.clone(),
            };
            if let Some(mode) = change.mode {
                let locked = |e: weir_throughput::efs::Locked| {
                    FsError::new(ErrorKind::Permission, e.to_string())
                };
                next.set_mode(mode, now_ns).map_err(locked)?;
            }
            if let Some(bytes) = change.credit_bytes {
                // What they grew by before is not to come on top.
                next.credit_bytes(now_ns);
                next = next.with_credits(bytes as f64);
            }
            *limiter = next;
            Ok(())
        })?;
        if let Some(exact) = change.exact {
            limit.set_exact(exact);
        }
        self.admission.areas.change(|limits| {
            limits.retain(|other| other.subject != subject);
            limits.push(limit);
        });
        Ok(())
    }

    /// What counts as stored for a rule: what is below a directory, or of a user, is not known, and
    /// taken for little.
    pub(crate) async fn stored_for(&self, subject: Subject) -> u64 {
        match subject {
            Subject::VOLUME => self.meta.usage().await.map_or(0, |usage| usage.stored_bytes),
            _ => 0,
        }
    }

    /// Tells the volume's limit how much is stored.
    async fn size_limits(&self) {
        let Some(limit) = self.admission.areas.limit(Subject::VOLUME) else { return };
        let stored_bytes = self.stored_for(Subject::VOLUME).await;
        limit.with(&self.context.clock, |limiter, now_ns| {
            limiter.set_stored_bytes(stored_bytes, now_ns)
        });
    }

    /// The paths of areas: those of rules, and the names below the root.
    async fn area_names(&self, rules: &[ThroughputView]) -> Result<HashMap<Ino, String>> {
        let mut names: HashMap<_, _> = rules
            .iter()
            .filter_map(|rule| match rule.subject {
                Subject::Directory(dir) => Some((dir, rule.name.clone())),
                Subject::Client(_) => None,
            })
            .collect();
        names.insert(Ino::ROOT, "/".to_owned());
        let entries = self.meta.readdir(Ino::ROOT, 0, NAMES).await?;
        for entry in entries {
            let name = || format!("/{}", entry.name.escape_ascii());
            names.entry(entry.ino).or_insert_with(name);
        }
        Ok(names)
    }

    /// What the segments take in their buckets, as far as a look of no longer than that tells.
    pub(crate) async fn bucket_bytes(&self, patience: Duration) -> Option<SegmentBytes> {
        Some(self.look(patience).await?.segments)
    }

    async fn look(&self, patience: Duration) -> Option<Found> {
        self.bucket_bytes.get(&self.meta, self.context.now_ms(), patience).await
    }

    /// The counters as they stand.
    async fn totals(&self) -> Totals {
        let requests = self.context.meter.snapshot();
        let priced = budget::requests_of(&requests);
        let counts = &self.context.counts;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let tenants = self.admission.areas.tenants();
        let sum = |of: fn(&Used) -> &AtomicU64| tenants.iter().map(|(_, used)| get(of(used))).sum();
        let stored_bytes = self.meta.usage().await.map_or(0, |usage| usage.stored_bytes);
        let found = self.look(LOOK_MAX).await;
        let Found { segments, linked } = found.unwrap_or_default();
        let in_class = segments.cold;
        let cold = std::array::from_fn(|at| ColdTotals {
            bucket_bytes: in_class[at],
            moved: get(&counts.cold[at].moved),
            requests: get(&counts.cold[at].requests),
            read_bytes: get(&counts.cold[at].read_bytes),
            early_byte_days: get(&counts.cold[at].early_byte_days),
        });
        let restored = counts.restored.used().map(|class| class.map(RestoredTotals::from));
        Totals {
            unix_ms: self.context.unix_ms(),
            stored_bytes,
            bucket_bytes: found.map_or(stored_bytes, |found| found.segments.bytes),
            linked_bytes: linked.in_class,
            put_requests: priced.put,
            get_requests: priced.get,
            delete_requests: priced.delete,
            sent_bytes: requests.bytes_sent(),
            received_bytes: requests.bytes_received(),
            opens: sum(|used| &used.opens),
            reads: sum(|used| &used.reads),
            writes: sum(|used| &used.writes),
            metadata_ops: self.metadata_ops.get().map_or(0, |count| count()),
            read_bytes: get(&counts.bytes_read),
            written_bytes: get(&counts.bytes_written),
            unmetered_opens: sum(|used| &used.opens_unmetered),
            cold,
            restored,
        }
    }
}

/// Keeps to limits together with the other nodes of the volume.
pub(crate) async fn shares_loop(limits: Arc<Limits>, together: Arc<Together>) {
    loop {
        let next = match limits.keep_together(&together).await {
            Ok(next) => next,
            Err(error) => {
                tracing::debug!(%error, "this node keeps the parts of limits that it has");
                AGAIN
            }
        };
        tokio::select! {
            () = tokio::time::sleep(next) => {}
            () = limits.followed.notified() => {}
        }
    }
}

/// Settles the budget, takes samples, and stores credits now and then.
pub(crate) async fn throughput_loop(limits: Arc<Limits>) {
    // What the mount itself asked of the buckets is a part of what it costs.
    let Totals { unix_ms, stored_bytes, bucket_bytes, linked_bytes, cold, .. } =
        limits.totals().await;
    let cold = cold.map(|ColdTotals { bucket_bytes, .. }| ColdTotals {
        bucket_bytes,
        ..ColdTotals::default()
    });
    let nothing =
        Totals { unix_ms, stored_bytes, bucket_bytes, linked_bytes, cold, ..Totals::default() };
    limits.history.add(nothing);
    limits.sample_volume(nothing).await;
    let mut sampled_ms = limits.context.now_ms();
    loop {
        tokio::time::sleep(Duration::from_millis(SETTLE_MS)).await;
        if limits.admission.budget.is_set() {
            let asked = budget::Asked::of(&limits.context);
            limits.admission.budget.settle(asked, now_ns(&limits.context.clock));
        }
        let now_ms = limits.context.now_ms();
        if now_ms.saturating_sub(sampled_ms) >= SAMPLE_MS {
            sampled_ms = now_ms;
            limits.size_limits().await;
            let own = limits.totals().await;
            limits.history.add(own);
            limits.sample_volume(own).await;
            if let Err(error) = limits.store_credits().await {
                tracing::debug!(%error, "the burst credits were not stored: tried again");
            }
        }
    }
}
