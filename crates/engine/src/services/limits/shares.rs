//! One limit for all nodes: each keeps to its part, and the node on duty says who has what.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_meta::kv::Version;
use weir_meta::sessions::SessionId;
use weir_meta::{ShareChange, ShareRow};
use weir_throughput::shares::{Held, WHOLE};
use weir_types::Result;

use crate::data::admission::limit::Subject;
use crate::services::limits::Limits;
use crate::services::limits::kept::{
    AccountRow, BUDGET, HeldRow, Saying, Shared, decode, encode, number_of, of_number,
};
use crate::volume::together::Together;

/// How often rules are looked at, in milliseconds, and how often parts of those that limit.
const RULES_MS: u64 = 3_000;
const SHARE_MS: u64 = 1_000;
/// How soon again as long as this node has no part of one.
const SOON_MS: u64 = 200;
/// How long a node that died may have gone on unheard: its beats are missed, and looked at.
const UNHEARD_S: f64 = 16.0;

/// All rows.
#[derive(Default)]
struct Table {
    accounts: BTreeMap<u64, (Version, AccountRow)>,
    held: BTreeMap<SessionId, HeldRow>,
}

impl Limits {
    /// One look: follows the rules, says who has what if this node is on duty, and keeps to its part.
    /// Answers when to look again. Where no rule limits, one read each 3 s. Else in each second one read,
    /// and one commit where something was used; of the node on duty one read more, and one commit more
    /// where parts change.
    pub(crate) async fn keep_together(&self, together: &Together) -> Result<Duration> {
        let now_ms = self.context.now_ms();
        let due = self.follow_at.load(Ordering::Relaxed);
        if now_ms >= due {
            self.load_rules().await?;
            // What was set meanwhile makes it due again.
            let _ = self.follow_at.compare_exchange(
                due,
                now_ms + RULES_MS,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
        let shared = self.shared();
        if shared.is_empty() {
            return Ok(Duration::from_millis(RULES_MS));
        }
        if together.is_on_duty() {
            self.share_out(together, &shared).await?;
        }
        self.keep_to_parts(together.id(), &shared).await?;
        let ms = if self.shares.lacks(&shared) { SOON_MS } else { SHARE_MS };
        Ok(Duration::from_millis(ms))
    }

    /// Takes over what nodes had that shared the volume, for a mount that is alone. One read, and two
    /// commits where there is anything.
    pub(crate) async fn take_from_nodes(&self) -> Result<()> {
        let table = self.table().await?;
        let mut taken = Vec::new();
        for (number, (_, row)) in &table.accounts {
            let held = table.held.iter();
            let held: Vec<_> = held.map(|(id, of)| (id.0, of.of(*number, row.rule))).collect();
            let subject = of_number(*number);
            if let Some(limit) = self.admission.areas.limit(subject).filter(|_| *number != BUDGET)
                && self.shares.knows(*number, row.rule)
            {
                let credits = row.account.balance(&held) as f64;
                limit.with(&self.context.clock, |limiter, _| {
                    *limiter = limiter.clone().with_credits(credits);
                });
                taken.push(subject);
            }
        }
        let accounts = table.accounts.keys().map(|number| ShareRow::Account(*number));
        let deletes: Vec<_> =
            accounts.chain(table.held.keys().map(|id| ShareRow::Held(*id))).collect();
        if deletes.is_empty() {
            return Ok(());
        }
        if !taken.is_empty() {
            self.store_rules(&taken).await?;
        }
        self.meta.change_shares(ShareChange { deletes, ..ShareChange::default() }).await.map(drop)
    }

    /// The last words of this node: what it did, and that what it has is free. One commit, and one more if
    /// it ever had anything.
    pub(crate) async fn leave_together(&self, together: &Together) -> Result<()> {
        self.say_did(self.totals().await, together).await?;
        if !self.shares.has_spoken() {
            return Ok(());
        }
        let mut saying = self.saying(together.id(), &self.shared(), &[]);
        saying.row.ended = true;
        let puts = vec![(ShareRow::Held(together.id()), encode(&saying.row)?)];
        self.meta.change_shares(ShareChange { puts, ..ShareChange::default() }).await.map(drop)
    }

    /// What nodes share: that which holds anything back.
    pub(super) fn shared(&self) -> Vec<Shared> {
        let limits = self.admission.areas.limits().into_iter().filter(|limit| limit.limits());
        let limits = limits.map(|limit| Shared::Limit(number_of(limit.subject), limit));
        let budget = &self.admission.budget;
        let budget = budget.is_set().then(|| Shared::Budget(budget.clone()));
        let known = |one: &Shared| self.shares.rule(one.number()).is_some();
        limits.chain(budget).filter(known).collect()
    }

    async fn keep_to_parts(&self, me: SessionId, shared: &[Shared]) -> Result<()> {
        let numbers: Vec<_> = shared.iter().map(Shared::number).collect();
        let mut accounts = Vec::with_capacity(numbers.len());
        for (number, (rule, account)) in
            numbers.iter().zip(self.meta.rules_and_accounts(&numbers).await?)
        {
            let version = rule.map(|(version, _)| version);
            if *number != BUDGET && version != self.shares.rule(*number).map(|(rule, _)| rule) {
                self.follow_soon();
            }
            accounts.push(account.as_ref().map(decode::<AccountRow>).transpose()?);
        }
        let saying = self.saying(me, shared, &accounts);
        if !saying.is_new {
            return Ok(());
        }
        let change = ShareChange {
            seen: saying.seen.clone(),
            puts: vec![(ShareRow::Held(me), encode(&saying.row)?)],
            ..ShareChange::default()
        };
        if self.meta.change_shares(change).await? {
            self.shares.said(saying, shared, &self.context.clock);
        }
        Ok(())
    }

    fn saying(
        &self,
        me: SessionId,
        shared: &[Shared],
        accounts: &[Option<(Version, AccountRow)>],
    ) -> Saying {
        let times = (self.context.now_ms(), self.context.unix_ms());
        let accounts = accounts.iter().cloned().chain(std::iter::repeat(None));
        let accounts: Vec<_> = shared.iter().zip(accounts).collect();
        self.shares.obey(me.0, &accounts, times, &self.context.clock)
    }

    /// Credits of a limit that other nodes have, or nobody, in bytes; none where nodes share none. One read
    /// then.
    pub(super) async fn credits_elsewhere(&self, subject: Subject) -> Result<f64> {
        let limit = self.admission.areas.limit(subject).filter(|limit| limit.limits());
        let number = number_of(subject);
        let (Some(limit), true) = (limit, self.context.is_shared()) else { return Ok(0.0) };
        let table = self.table().await?;
        let all = match (table.accounts.get(&number), self.shares.rule(number)) {
            (Some((_, row)), Some((rule, _))) if row.rule == rule => {
                let held = table.held.iter().map(|(id, of)| (id.0, of.of(number, rule)));
                row.account.balance(&held.collect::<Vec<_>>())
            }
            (_, rule) => rule.map_or(0, |(_, initial)| initial),
        };
        let here = limit.with(&self.context.clock, |limiter, now_ns| limiter.balance_bytes(now_ns));
        Ok(all as f64 - here)
    }

    /// Has the rules looked at by the next look.
    pub(super) fn follow_soon(&self) {
        self.follow_at.store(0, Ordering::Relaxed);
        self.followed.notify_one();
    }
}

impl Limits {
    /// Says who has what of each limit. One read, one more where a node may be gone, and one commit where
    /// something changes.
    async fn share_out(&self, together: &Together, shared: &[Shared]) -> Result<()> {
        let table = self.table().await?;
        let gone = self.gone(&table, together).await?;
        let mut change = ShareChange::default();
        for one in shared {
            let number = one.number();
            let before = table.accounts.get(&number);
            let Some(after) = self.allotted(one, (before, &table.held), &gone, together.id())
            else {
                continue;
            };
            if before.is_none_or(|(_, before)| self.differs(one, before, &after)) {
                let row = ShareRow::Account(number);
                change.seen.push((row, before.map(|(version, _)| *version)));
                change.puts.push((row, encode(&after)?));
            }
        }
        for (number, (version, _)) in &table.accounts {
            if !shared.iter().any(|one| one.number() == *number) {
                let row = ShareRow::Account(*number);
                change.seen.push((row, Some(*version)));
                change.deletes.push(row);
            }
        }
        // Their parts are in no account any more.
        let rows = gone.iter().filter(|id| table.held.contains_key(id));
        change.deletes.extend(rows.map(|id| ShareRow::Held(*id)));
        if change.puts.is_empty() && change.deletes.is_empty() {
            return Ok(());
        }
        // Where somebody else changed one meanwhile it is done with the next look.
        self.meta.change_shares(change).await.map(drop)
    }

    async fn table(&self) -> Result<Table> {
        let mut table = Table::default();
        for (row, found) in self.meta.share_rows().await? {
            match row {
                ShareRow::Account(number) => {
                    table.accounts.insert(number, decode(&found)?);
                }
                ShareRow::Held(session) => {
                    table.held.insert(session, decode(&found)?.1);
                }
                ShareRow::Did(_) | ShareRow::DidBefore => {}
            }
        }
        Ok(table)
    }

    /// Sessions that have a part and are not there any more. None comes back.
    async fn gone(&self, table: &Table, together: &Together) -> Result<Vec<SessionId>> {
        let live = together.live();
        let parts = table.accounts.values().flat_map(|(_, row)| &row.account.parts);
        let mut missing: Vec<_> = parts.map(|part| SessionId(part.node)).collect();
        missing.extend(table.held.keys());
        missing.sort();
        missing.dedup();
        missing.retain(|id| live.iter().all(|session| session.id != *id));
        if missing.is_empty() {
            return Ok(missing);
        }
        // Who joined since the last look is there.
        let there = self.meta.are_there(&missing).await?;
        let mut there = there.into_iter();
        missing.retain(|_| there.next() == Some(false));
        Ok(missing)
    }

    /// The account of a limit as it should be now.
    fn allotted(
        &self,
        one: &Shared,
        (before, held): (Option<&(Version, AccountRow)>, &BTreeMap<SessionId, HeldRow>),
        gone: &[SessionId],
        me: SessionId,
    ) -> Option<AccountRow> {
        let (number, clock) = (one.number(), &self.context.clock);
        let (rule, initial) = self.shares.rule(number)?;
        let mut account = before.map(|(_, row)| row.account.clone()).unwrap_or_default();
        let parts = account.parts.iter();
        let mut idle = !parts.clone().any(|part| !gone.contains(&SessionId(part.node)));
        idle &= parts.len() > 0;
        if before.is_none_or(|(_, row)| row.rule != rule) {
            account.begin(initial);
            idle = false;
        }
        let of = |row: &HeldRow| row.of(number, rule);
        for id in gone {
            let row = held.get(id);
            let was = row.map(of).unwrap_or_default();
            let unheard_s = if row.is_some_and(|row| row.ended) { 0.0 } else { UNHEARD_S };
            let rate = one.whole(was.balance, clock).per_s * f64::from(was.share);
            account.settle(id.0, was, (rate / f64::from(WHOLE) * unheard_s) as i64);
        }
        if idle {
            // It grew while nobody had the volume mounted.
            let last = gone.iter().filter_map(|id| held.get(id)).map(|row| row.unix_ms).max();
            let last_ms = last.unwrap_or(self.context.unix_ms());
            let idle_s = self.context.unix_ms().saturating_sub(last_ms) as f64 / 1_000.0;
            account.free = account.free.saturating_add((one.earned_per_s(clock) * idle_s) as i64);
        }
        let rest = held.iter().filter(|(id, _)| !gone.contains(id) && **id != me);
        let mine = held.get(&me).map(of).unwrap_or_default();
        let mut nodes: Vec<(u64, Held)> = rest.map(|(id, row)| (id.0, of(row))).collect();
        nodes.push((me.0, mine));
        let balance = account.balance(&nodes);
        let whole = one.whole(balance, clock);
        account.free -= (balance - whole.balance_max).max(0);
        account.allot(&nodes, whole);
        let used = account.used + nodes.iter().map(|(_, held)| held.used).sum::<u64>();
        let balance = balance.min(whole.balance_max);
        Some(AccountRow { rule, balance, used, account })
    }

    /// Whether an account is worth to be written anew.
    fn differs(&self, one: &Shared, before: &AccountRow, after: &AccountRow) -> bool {
        let per_s = one.whole(after.balance, &self.context.clock).per_s as u64 / 4;
        let far = |a: u64, b: u64| a.abs_diff(b) > per_s.max(a.max(b) / 64);
        let (a, b) = (before.balance.max(0), after.balance.max(0));
        before.rule != after.rule
            || before.account != after.account
            || far(a.cast_unsigned(), b.cast_unsigned())
            || far(before.used, after.used)
    }
}
