//! One limit, kept by several nodes together: what part of it is whose.
//!
//! Each node has a *share* of the rate and a part of the *balance*, which is what was saved up
//! (credits, money) or is owed, and keeps to them alone. An [`Account`] says who is to have what; a
//! node says what it has ([`Held`]): before it does more than it did, and after it does less. It may
//! say that it has more only as long as the account is as it read it. So the greater of the two is
//! the most that a node can do, and the account never lets these come to more than the whole: shares
//! move only once who had them has said that it does without.
//!
//! Balances move by sums: what was given to a node since it came, less what it says that it took. None
//! is given twice, and none gets lost, whoever is told late. Who spent meanwhile what it is to give
//! owes it, and pays it back from its share.

use serde::{Deserialize, Serialize};

/// All of a limit: shares are counted in millionths.
pub const WHOLE: u32 = 1_000_000;

/// Of the whole, what those have together who do not need it: one part in so many.
const IDLE_PARTS: u32 = 32;
/// What is given up to others, at least, where somebody waits; and what is given to anybody.
const STEP: u32 = WHOLE / 100;
const LEAST: u32 = 10;
/// Of a balance, what may lie at the wrong node: one part in so many, or what the rate moves in a
/// quarter of a second.
const BALANCE_PARTS: i64 = 16;
const BALANCE_S: f64 = 0.25;

/// What a node says of a limit. Units are the limit's: bytes, or nano-dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// It does no more than this share.
    pub share: u32,
    /// Of [`Part::given`], what it has in its balance.
    pub taken: i64,
    /// What it has saved up, or owes.
    pub balance: i64,
    /// What it used since the account began, or it came.
    pub used: u64,
    /// What it used of late, a second.
    pub per_s: u64,
    /// Somebody had to wait of late.
    pub waits: bool,
}

/// What a node is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The node.
    pub node: u64,
    /// Its share.
    pub share: u32,
    /// What was given to it since it came; below zero, what was taken.
    pub given: i64,
}

/// A limit as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Whole {
    /// What all may use now, a second.
    pub per_s: f64,
    /// The most that can be saved up.
    pub balance_max: i64,
}

/// Who is to have what of a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The part of the balance that no node has.
    pub free: i64,
    /// What nodes used that are gone.
    pub used: u64,
    /// Those of the nodes, in the order in which they came.
    pub parts: Vec<Part>,
}

/// What a node keeps to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Its share.
    pub share: u32,
    /// What it took of what was given to it.
    pub taken: i64,
}

impl Account {
    /// The part of a node.
    pub fn part(&self, node: u64) -> Option<Part> {
        self.parts.iter().find(|part| part.node == node).copied()
    }

    /// Has these nodes have what they need, as far as others have let it go. Nodes that are not among
    /// them keep what they have.
    pub fn allot(&mut self, nodes: &[(u64, Held)], whole: Whole) {
        for (node, _) in nodes {
            if self.part(*node).is_none() {
                self.parts.push(Part { node: *node, ..Part::default() });
            }
        }
        self.share_out(nodes, whole.per_s);
        self.spread(nodes, whole);
    }

    /// A node is gone. What it had is free, but for what it may have spent since it said so.
    pub fn settle(&mut self, node: u64, held: Held, may_have_spent: i64) {
        let at = self.parts.iter().position(|part| part.node == node);
        let part = at.map_or_else(Part::default, |at| self.parts.remove(at));
        let balance = balance(&part, &held);
        self.free += if balance > 0 { (balance - may_have_spent).max(0) } else { balance };
        self.used += held.used;
    }

    /// Another balance, of which nobody has anything, and nothing is used yet. Shares stay.
    pub fn begin(&mut self, balance: i64) {
        (self.free, self.used) = (balance, 0);
        self.parts.iter_mut().for_each(|part| part.given = 0);
    }

    /// The balance of all of it, as these nodes say.
    pub fn balance(&self, nodes: &[(u64, Held)]) -> i64 {
        let held = |part: &Part| balance(part, &held_by(nodes, part.node).unwrap_or_default());
        self.free + self.parts.iter().map(held).sum::<i64>()
    }

    fn share_out(&mut self, nodes: &[(u64, Held)], per_s: f64) {
        let most: Vec<u32> = self
            .parts
            .iter()
            .map(|part| held_by(nodes, part.node).map_or(0, |held| held.share).max(part.share))
            .collect();
        let taken = most.iter().fold(0_u32, |sum, share| sum.saturating_add(*share));
        let mut room = WHOLE.saturating_sub(taken);
        let wanted = wanted(nodes, per_s);
        let of = |part: &Part| wanted.iter().find(|(node, _)| *node == part.node).map(|(_, w)| *w);
        // Who came has what lets it begin without a wait.
        let lacks = |part: &Part| of(part).is_some() && part.share < least(nodes.len()) / 2;
        let in_need = nodes.iter().any(|(_, held)| held.waits) || self.parts.iter().any(lacks);
        for (part, most) in self.parts.iter_mut().zip(most) {
            let Some(wanted) = of(part) else { continue };
            if wanted < part.share {
                if in_need && part.share - wanted >= STEP {
                    part.share = wanted;
                }
                continue;
            }
            let share = wanted.min(most + room);
            if share < part.share + LEAST {
                continue;
            }
            room -= share.saturating_sub(most);
            part.share = share;
        }
    }

    /// Has each node have as much of the balance as of the rate, more or less.
    fn spread(&mut self, nodes: &[(u64, Held)], whole: Whole) {
        let known: Vec<(usize, i64)> = self
            .parts
            .iter()
            .enumerate()
            .filter_map(|(at, part)| Some((at, balance(part, &held_by(nodes, part.node)?))))
            .collect();
        let shares: i64 = known.iter().map(|(at, _)| i64::from(self.parts[*at].share)).sum();
        if shares == 0 {
            return;
        }
        let total = self.free + known.iter().map(|(_, have)| *have).sum::<i64>();
        let total = total.min(whole.balance_max);
        let due = |part: &Part| {
            let due = i128::from(total) * i128::from(part.share) / i128::from(shares);
            i64::try_from(due).unwrap_or(0)
        };
        let slack = (total.abs() / BALANCE_PARTS).max((whole.per_s * BALANCE_S) as i64);
        if known.iter().all(|(at, have)| (due(&self.parts[*at]) - have).abs() <= slack) {
            return;
        }
        self.free = total;
        for (at, have) in known {
            let part = &mut self.parts[at];
            let due = due(part);
            part.given += due - have;
            self.free -= due;
        }
    }
}

impl Member {
    /// Does what the account says, as far as that is less. Answers what goes from the balance: 0 or
    /// below.
    pub fn lower(&mut self, part: Part) -> i64 {
        self.share = self.share.min(part.share);
        let moved = (part.given - self.taken).min(0);
        self.taken += moved;
        moved
    }

    /// What it does once it has said so.
    pub fn wanted(&self, part: Part) -> Self {
        Self { share: part.share, taken: part.given }
    }
}

/// What a node has of the balance once it took all that was given.
fn balance(part: &Part, held: &Held) -> i64 {
    held.balance + part.given - held.taken
}

fn held_by(nodes: &[(u64, Held)], node: u64) -> Option<Held> {
    nodes.iter().find(|(of, _)| *of == node).map(|(_, held)| *held)
}

/// What a node has that needs nothing, of so many.
fn least(nodes: usize) -> u32 {
    WHOLE / IDLE_PARTS / u32::try_from(nodes.max(1)).unwrap_or(u32::MAX)
}

/// The share that each is to have: who waits as much as any other, who does not what it uses and a
/// quarter more. What is left over is everybody's.
fn wanted(nodes: &[(u64, Held)], per_s: f64) -> Vec<(u64, u32)> {
    let count = u32::try_from(nodes.len().max(1)).unwrap_or(u32::MAX);
    let least = least(nodes.len());
    let mut left = WHOLE - least * count;
    let need = |held: &Held| match held.waits {
        true => u32::MAX,
        false => (held.per_s as f64 * 1.25 / per_s * f64::from(WHOLE)).ceil() as u32,
    };
    let mut needs: Vec<(u64, u32)> = nodes.iter().map(|(node, held)| (*node, need(held))).collect();
    needs.sort_by_key(|(_, need)| *need);
    for (at, (_, need)) in needs.iter_mut().enumerate() {
        let others = count - u32::try_from(at).unwrap_or(0);
        *need = (*need).min(left / others);
        left -= *need;
    }
    needs.into_iter().map(|(node, share)| (node, least + share + left / count)).collect()
}

#[cfg(test)]
mod tests;
