//! What this node has of each limit to which nodes keep together, and the rows that say so.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_meta::kv::Version;
use weir_meta::{SeenRow, ShareRow};
use weir_throughput::budget;
use weir_throughput::efs::Limiter;
use weir_throughput::shares::{Account, Held, Member, Part, WHOLE, Whole};
use weir_types::{ErrorKind, FsError, Ino, NanoUsd, Result};

use crate::data::admission::budget::{Budget, Slowed};
use crate::data::admission::limit::{Limit, Subject, now_ns};
use crate::volume::context::Clock;

/// The account of the budget: no inode has this number.
pub(super) const BUDGET: u64 = 0;
/// A row is written anew after so long, in milliseconds, if there was no other cause.
const SAY_MS: u64 = 60_000;
const HOUR_S: f64 = 3_600.0;

/// The account of a limit as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AccountRow {
    /// Of which rule it is: one that was set anew begins anew.
    pub(super) rule: u64,
    /// The balance of all, and what they used, when this was written.
    pub(super) balance: i64,
    pub(super) used: u64,
    pub(super) account: Account,
}

/// What a node has, as stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HeldRow {
    /// When it said so, in milliseconds since 1970.
    pub(super) unix_ms: u64,
    /// These are its last words.
    pub(super) ended: bool,
    /// By number and rule.
    pub(super) limits: Vec<(u64, u64, Held)>,
}

impl HeldRow {
    /// What it has of a limit: of one that was set anew since it has only a share.
    pub(super) fn of(&self, number: u64, rule: u64) -> Held {
        match self.limits.iter().find(|(of, ..)| *of == number) {
            Some((_, of_rule, held)) if *of_rule == rule => *held,
            Some((.., held)) => Held { share: held.share, ..Held::default() },
            None => Held::default(),
        }
    }
}

/// A limit to which nodes keep together.
pub(super) enum Shared {
    Limit(u64, Arc<Limit>),
    Budget(Arc<Budget>),
}

impl Shared {
    pub(super) fn number(&self) -> u64 {
        match self {
            Self::Limit(number, _) => *number,
            Self::Budget(_) => BUDGET,
        }
    }

    fn set_share(&self, share: u32, clock: &Clock) {
        let share = f64::from(share) / f64::from(WHOLE);
        match self {
            Self::Limit(_, limit) => {
                limit.with(clock, |limiter, now| limiter.set_share(share, now))
            }
            Self::Budget(budget) => {
                budget.with(|budget| budget.set_share(share, now_ns(clock)));
            }
        }
    }

    fn add(&self, amount: i64, clock: &Clock) {
        match self {
            Self::Limit(_, limit) => {
                limit.with(clock, |limiter, now| limiter.add_credits(amount as f64, now));
            }
            Self::Budget(budget) => {
                budget.with(|budget| budget.add(NanoUsd(amount), now_ns(clock)));
            }
        }
    }

    fn balance(&self, clock: &Clock) -> i64 {
        match self {
            Self::Limit(_, limit) => {
                limit.with(clock, |limiter, now| limiter.balance_bytes(now) as i64)
            }
            Self::Budget(budget) => {
                budget.with(|budget| budget.level(now_ns(clock)).0).unwrap_or(0)
            }
        }
    }

    fn used(&self) -> u64 {
        match self {
            Self::Limit(_, limit) => limit.metered_bytes(),
            Self::Budget(budget) => budget.spent(),
        }
    }

    fn take_waits(&self) -> bool {
        match self {
            Self::Limit(_, limit) => limit.take_waits(),
            Self::Budget(budget) => budget.slows(Slowed::Hydration),
        }
    }

    /// All of it, where all have this balance.
    pub(super) fn whole(&self, balance: i64, clock: &Clock) -> Whole {
        match self {
            Self::Limit(_, limit) => limit.with(clock, |limiter, _| Whole {
                per_s: limiter.whole_bytes_per_s(balance > 0),
                balance_max: limiter.credit_cap_bytes() as i64,
            }),
            Self::Budget(budget) => {
                let whole = |budget: &mut budget::Budget| Whole {
                    per_s: budget.rate().0 as f64 / HOUR_S,
                    balance_max: budget.whole_depth().0,
                };
                budget.with(whole).unwrap_or(Whole { per_s: 0.0, balance_max: 0 })
            }
        }
    }

    /// What is saved up a second while nobody does anything.
    pub(super) fn earned_per_s(&self, clock: &Clock) -> f64 {
        match self {
            Self::Limit(_, limit) => limit.with(clock, |limiter, _| limiter.baseline_bytes_per_s()),
            Self::Budget(_) => self.whole(0, clock).per_s,
        }
    }
}

/// What this node has of one limit.
#[derive(Clone, Debug, Default)]
struct Kept {
    /// Of which rule, and what that begins with.
    rule: u64,
    initial: i64,
    member: Member,
    /// What was used before the rule began, and up to when the rate was told.
    used_before: u64,
    rated: (u64, u64),
    waits: bool,
    /// As it was seen last.
    account: Option<AccountRow>,
}

/// What this node is to say, and to do once it has.
pub(super) struct Saying {
    pub(super) row: HeldRow,
    /// Whether there is anything new in it.
    pub(super) is_new: bool,
    /// The accounts that must be as they were read.
    pub(super) seen: Vec<(ShareRow, Option<Version>)>,
    next: Vec<(u64, Member)>,
}

/// What this node has of all of them.
#[derive(Default)]
pub(crate) struct Shares {
    kept: Mutex<BTreeMap<u64, Kept>>,
    said: Mutex<Option<HeldRow>>,
}

impl Shares {
    /// Whether the rule of this number is the one that it goes by.
    pub(super) fn knows(&self, number: u64, rule: Version) -> bool {
        self.kept().get(&number).is_some_and(|kept| kept.rule == rule)
    }

    /// The rule that it goes by, and the balance that all had when that was set.
    pub(super) fn rule(&self, number: u64) -> Option<(u64, i64)> {
        self.kept().get(&number).map(|kept| (kept.rule, kept.initial))
    }

    /// Goes by a rule that was set anew: what was saved up with it is everybody's.
    pub(super) fn begin(
        &self,
        number: u64,
        rule: Version,
        mut limiter: Limiter,
        now_ns: u64,
    ) -> Limiter {
        if !limiter.limits() {
            // Nobody has a share of it, nor says that it has.
            self.pass_over(number, rule);
            return limiter;
        }
        let initial = limiter.credit_bytes(now_ns) as i64;
        let share = self.begin_kept(number, rule, initial);
        limiter = limiter.with_credits(0.0);
        limiter.set_share(share, now_ns);
        limiter
    }

    /// Knows of a rule that is not shared.
    pub(super) fn pass_over(&self, number: u64, rule: Version) {
        self.kept().insert(number, Kept { rule, ..Kept::default() });
    }

    /// The same as [`Shares::begin`] for a budget of this money an hour, of which all have this together.
    /// Answers the share that this node has, 0 to 1.
    pub(super) fn begin_budget(&self, rate: NanoUsd, initial: NanoUsd) -> f64 {
        self.begin_kept(BUDGET, rate.0.cast_unsigned(), initial.0)
    }

    /// Answers the share that it has, 0 to 1.
    fn begin_kept(&self, number: u64, rule: u64, initial: i64) -> f64 {
        let mut all = self.kept();
        let kept = all.entry(number).or_default();
        let used_before = kept.used_before + kept.rated.0;
        *kept = Kept {
            rule,
            initial,
            member: Member { taken: 0, ..kept.member },
            used_before: if number == BUDGET { 0 } else { used_before },
            ..Kept::default()
        };
        f64::from(kept.member.share) / f64::from(WHOLE)
    }

    pub(super) fn forget(&self, number: u64) {
        self.kept().remove(&number);
    }

    /// Whether it has no share yet of one of these.
    pub(super) fn lacks(&self, shared: &[Shared]) -> bool {
        let kept = self.kept();
        shared.iter().any(|one| kept.get(&one.number()).is_none_or(|of| of.member.share == 0))
    }

    /// The account of a limit as it was seen last, and the share that this node has of it.
    pub(super) fn account(&self, number: u64) -> Option<(AccountRow, f64)> {
        let all = self.kept();
        let kept = all.get(&number)?;
        let share = f64::from(kept.member.share) / f64::from(WHOLE);
        Some((kept.account.clone().filter(|row| row.rule == kept.rule)?, share))
    }

    /// Does less where accounts say so, and answers what there is to be said, before it does more.
    pub(super) fn obey(
        &self,
        node: u64,
        accounts: &[(&Shared, Option<(Version, AccountRow)>)],
        (now_ms, unix_ms): (u64, u64),
        clock: &Clock,
    ) -> Saying {
        let mut saying = Saying {
            row: HeldRow { unix_ms, ..HeldRow::default() },
            is_new: false,
            seen: Vec::new(),
            next: Vec::new(),
        };
        for (shared, account) in accounts {
            let number = shared.number();
            let Some((moved, share)) = self.lower(node, number, account.as_ref()) else { continue };
            // No lock is held here: limits have their own.
            shared.add(moved, clock);
            shared.set_share(share, clock);
            let (balance, used) = (shared.balance(clock), shared.used());
            let waits = shared.take_waits();
            let mut all = self.kept();
            let Some(kept) = all.get_mut(&number) else { continue };
            let next = kept.member.wanted(part_of(node, kept));
            if next != kept.member {
                let version = account.as_ref().map(|(version, _)| *version);
                saying.seen.push((ShareRow::Account(number), version));
                saying.next.push((number, next));
            }
            let used = used.saturating_sub(kept.used_before);
            kept.waits |= waits;
            let held = Held {
                share: next.share,
                taken: next.taken,
                balance: balance + next.taken - kept.member.taken,
                used,
                per_s: rate(kept.rated, (used, now_ms)),
                waits: kept.waits,
            };
            kept.rated = (used, now_ms);
            saying.row.limits.push((number, kept.rule, held));
        }
        saying.is_new = self.is_new(&saying.row);
        saying
    }

    /// Does less of one, where its account says so. Answers what goes from the balance, and the share.
    fn lower(
        &self,
        node: u64,
        number: u64,
        account: Option<&(Version, AccountRow)>,
    ) -> Option<(i64, u32)> {
        let mut all = self.kept();
        let kept = all.get_mut(&number)?;
        kept.account = account.map(|(_, row)| row.clone());
        let part = part_of(node, kept);
        Some((kept.member.lower(part), kept.member.share))
    }

    /// What was wanted is said: it does it.
    pub(super) fn said(&self, saying: Saying, shared: &[Shared], clock: &Clock) {
        for kept in self.kept().values_mut() {
            kept.waits = false;
        }
        for (number, next) in saying.next {
            let Some(one) = shared.iter().find(|shared| shared.number() == number) else {
                continue;
            };
            let moved = {
                let mut all = self.kept();
                let Some(kept) = all.get_mut(&number) else { continue };
                let before = std::mem::replace(&mut kept.member, next);
                next.taken - before.taken
            };
            one.add(moved, clock);
            one.set_share(next.share, clock);
        }
        *self.said.lock() = Some(saying.row);
    }

    /// Whether it ever said anything.
    pub(super) fn has_spoken(&self) -> bool {
        self.said.lock().is_some()
    }

    fn is_new(&self, row: &HeldRow) -> bool {
        let said = self.said.lock();
        let Some(said) = said.as_ref() else { return true };
        let same = |(a, b): (&(u64, u64, Held), &(u64, u64, Held))| {
            let waits = (a.2.waits, a.2.per_s > 0) == (b.2.waits, b.2.per_s > 0);
            (a.0, a.1, a.2.share, a.2.taken, a.2.used) == (b.0, b.1, b.2.share, b.2.taken, b.2.used)
                && waits
        };
        let old = row.unix_ms.abs_diff(said.unix_ms) >= SAY_MS;
        old || row.limits.len() != said.limits.len()
            || !row.limits.iter().zip(&said.limits).all(same)
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<u64, Kept>> {
        self.kept.lock()
    }
}

/// What a node is to have; of an account of another rule only the share is of now.
fn part_of(node: u64, kept: &Kept) -> Part {
    let row = kept.account.as_ref();
    let part = row.and_then(|row| row.account.part(node)).unwrap_or_default();
    match row.is_some_and(|row| row.rule == kept.rule) {
        true => part,
        false => Part { given: kept.member.taken, ..part },
    }
}

/// What was used a second between two moments, in milliseconds.
fn rate((used, at_ms): (u64, u64), (now_used, now_ms): (u64, u64)) -> u64 {
    match now_ms.saturating_sub(at_ms) {
        0 => 0,
        ms => now_used.saturating_sub(used).saturating_mul(1_000) / ms,
    }
}

pub(super) fn decode<T: DeserializeOwned>((version, row): &SeenRow) -> Result<(Version, T)> {
    let row = serde_json::from_slice(row).map_err(|e| {
        let text = "a row by which nodes keep to a limit together cannot be read";
        FsError::new(ErrorKind::Corrupt, text).with_source(e)
    })?;
    Ok((*version, row))
}

pub(super) fn encode<T: Serialize>(row: &T) -> Result<Bytes> {
    let bytes = serde_json::to_vec(row)
        .map_err(|e| FsError::new(ErrorKind::Bug, "write what nodes share").with_source(e))?;
    Ok(bytes.into())
}

/// Users are numbered from here on: inodes never get so far.
const CLIENTS: u64 = 0xffff_ffff << 32;

pub(super) fn number_of(subject: Subject) -> u64 {
    match subject {
        Subject::Directory(dir) => dir.0,
        Subject::Client(client) => CLIENTS | u64::from(client),
    }
}

pub(super) fn of_number(number: u64) -> Subject {
    match number >= CLIENTS {
        true => Subject::Client(number as u32),
        false => Subject::Directory(Ino(number)),
    }
}
