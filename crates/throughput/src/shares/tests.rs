use proptest::prelude::*;

use super::*;
use crate::efs::{Limiter, Mode, Rules};
use crate::{MIB, SECOND_NS};

const MS: u64 = 1_000_000;
const SECOND: u64 = SECOND_NS as u64;

fn waiting(share: u32) -> Held {
    Held { share, waits: true, ..Held::default() }
}

fn using(share: u32, per_s: u64) -> Held {
    Held { share, per_s, ..Held::default() }
}

const HUNDRED: Whole = Whole { per_s: 100.0, balance_max: i64::MAX };

#[test]
fn who_is_alone_has_all_of_it_at_once() {
    for held in [Held::default(), waiting(0), using(0, 7)] {
        let mut account = Account { free: 500, ..Account::default() };
        account.allot(&[(1, held)], HUNDRED);
        let part = account.part(1).expect("a part");
        assert!(part.share > WHOLE - 10, "{part:?}");
        assert_eq!((part.given, account.free), (500, 0));
    }
}

#[test]
fn who_waits_has_what_others_do_not_need_once_they_let_it_go() {
    let mut account = Account::default();
    account.allot(&[(1, Held::default())], HUNDRED);
    let all = account.parts[0].share;
    // Another one comes and waits: it gets what is free, which is nothing yet.
    account.allot(&[(1, using(all, 10)), (2, waiting(0))], HUNDRED);
    let [one, two] = &account.parts[..] else { panic!("two parts") };
    assert!(one.share < WHOLE / 5 && two.share < 10, "{account:?}");
    account.allot(&[(1, using(one.share, 10)), (2, waiting(0))], HUNDRED);
    let [one, two] = &account.parts[..] else { panic!("two parts") };
    assert!(two.share > WHOLE * 4 / 5 && one.share + two.share <= WHOLE, "{account:?}");
    // Both wait: halves.
    for _ in 0..3 {
        let held: Vec<_> =
            account.parts.iter().map(|part| (part.node, waiting(part.share))).collect();
        account.allot(&held, HUNDRED);
    }
    let shares: Vec<_> = account.parts.iter().map(|part| part.share).collect();
    assert_eq!(shares, [WHOLE / 2, WHOLE / 2]);
}

#[test]
fn nothing_moves_where_nobody_waits() {
    let mut account = Account::default();
    let mut held = vec![(1, Held::default()), (2, Held::default()), (3, Held::default())];
    account.allot(&held, HUNDRED);
    for (at, (_, held)) in held.iter_mut().enumerate() {
        *held = using(account.parts[at].share, 9 * at as u64);
    }
    let before = account.clone();
    account.allot(&held, HUNDRED);
    assert_eq!(account, before);
    assert!(before.parts.iter().all(|part| part.share >= WHOLE / 3), "{before:?}");
}

#[test]
fn what_was_of_a_node_that_is_gone_is_of_the_others() {
    let mut account = Account { free: 1_000, ..Account::default() };
    account.allot(&[(1, waiting(0)), (2, waiting(0))], HUNDRED);
    let [one, two] = account.parts[..] else { panic!("two parts") };
    assert_eq!((one.given, two.given), (500, 500));
    // It took 500, has 300 of it, and may have spent 100 since it said so.
    let held = Held { taken: 500, balance: 300, used: 200, ..waiting(one.share) };
    account.settle(1, held, 100);
    assert_eq!((account.free, account.used, account.parts.len()), (200, 200, 1));
    let two = Held { taken: 500, balance: 500, ..waiting(two.share) };
    account.allot(&[(2, two)], HUNDRED);
    let part = account.part(2).expect("a part");
    assert!(part.share > WHOLE - 10, "{part:?}");
    assert_eq!((part.given, account.balance(&[(2, two)])), (700, 700));
    // What it owes it does not owe less for being gone.
    account.settle(2, Held { taken: 700, balance: -50, ..two }, 1_000);
    assert_eq!(account.free, -50);
    account.begin(9);
    assert_eq!(account, Account { free: 9, ..Account::default() });
}

/// Nodes and the rows by which they keep to a limit together.
#[derive(Default)]
struct Rows {
    version: u64,
    account: Account,
    held: Vec<(u64, Held)>,
}

#[derive(Default)]
struct Node {
    member: Member,
    balance: i64,
    /// The account as it was read, and its version.
    read: Option<(u64, Part)>,
    waits: bool,
    per_s: u64,
}

impl Node {
    fn says(&self, (share, taken): (u32, i64), balance: i64) -> Held {
        Held { share, taken, balance, used: 0, per_s: self.per_s, waits: self.waits }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A node reads the account, does less if it is to, and goes on later.
    Read(usize),
    /// A node says what it wants to do, maybe in vain, and does it.
    Say(usize, bool),
    Spend(usize, i64),
    Needs(usize, bool, u64),
    /// Who shares out reads, and goes on later.
    Look,
    Allot,
    /// A node ends, after its last words or without.
    Gone(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let node = 0..NODES;
    prop_oneof![
        4 => node.clone().prop_map(Step::Read),
        4 => (node.clone(), prop::bool::weighted(0.8)).prop_map(|(n, ok)| Step::Say(n, ok)),
        2 => (node.clone(), 0_i64..300).prop_map(|(n, amount)| Step::Spend(n, amount)),
        2 => (node.clone(), any::<bool>(), 0_u64..150).prop_map(|(n, w, p)| Step::Needs(n, w, p)),
        3 => Just(Step::Look),
        3 => Just(Step::Allot),
        1 => node.prop_map(Step::Gone),
    ]
}

const NODES: usize = 4;

#[derive(Default)]
struct World {
    rows: Rows,
    nodes: Vec<Node>,
    looked: Option<Rows>,
    spent: i64,
}

impl World {
    fn act(&mut self, step: Step) {
        let Self { rows, nodes, looked, spent } = self;
        match step {
            Step::Read(n) => {
                let part = rows.account.part(n as u64);
                let part = part.unwrap_or(Part { node: n as u64, ..Part::default() });
                let node = &mut nodes[n];
                node.balance += node.member.lower(part);
                node.read = Some((rows.version, part));
            }
            Step::Say(n, answered) => {
                let node = &mut nodes[n];
                let Some((version, part)) = node.read.take() else { return };
                let next = node.member.wanted(part);
                let moved = next.taken - node.member.taken;
                let more = next.share > node.member.share || moved > 0;
                if more && version != rows.version {
                    return;
                }
                let said = node.says((next.share, next.taken), node.balance + moved);
                rows.held.retain(|(of, _)| *of != n as u64);
                rows.held.push((n as u64, said));
                // It is said, and the node may not know that it is.
                if answered {
                    (node.member, node.balance) = (next, node.balance + moved);
                }
            }
            Step::Spend(n, amount) => {
                nodes[n].balance -= amount;
                *spent += amount;
            }
            Step::Needs(n, waits, per_s) => {
                (nodes[n].waits, nodes[n].per_s) = (waits, per_s);
            }
            Step::Look => {
                let (account, held) = (rows.account.clone(), rows.held.clone());
                *looked = Some(Rows { version: rows.version, account, held });
            }
            Step::Allot => {
                let Some(mut seen) = looked.take().filter(|seen| seen.version == rows.version)
                else {
                    return;
                };
                seen.account.allot(&seen.held, HUNDRED);
                (rows.account, rows.version) = (seen.account, rows.version + 1);
            }
            Step::Gone(n) => {
                // With what it has and did not say.
                let node = std::mem::take(&mut nodes[n]);
                let said = node.says((0, node.member.taken), node.balance);
                rows.account.settle(n as u64, said, 0);
                rows.held.retain(|(of, _)| *of != n as u64);
                rows.version += 1;
            }
        }
    }

    fn balance(&self) -> i64 {
        let given = |n: usize| self.rows.account.part(n as u64).map_or(0, |part| part.given);
        let of = |(n, node): (usize, &Node)| node.balance + given(n) - node.member.taken;
        self.rows.account.free + self.nodes.iter().enumerate().map(of).sum::<i64>()
    }
}

proptest! {
    #[test]
    fn all_together_never_have_more_than_the_whole(steps in prop::collection::vec(step(), 1..400)) {
        let mut world = World::default();
        world.rows.account.free = 10_000;
        world.nodes = (0..NODES).map(|_| Node::default()).collect();
        for step in steps {
            world.act(step.clone());
            let shares: u32 = world.nodes.iter().map(|node| node.member.share).sum();
            prop_assert!(shares <= WHOLE, "{shares} after {step:?}");
            prop_assert_eq!(world.balance(), 10_000 - world.spent, "after {:?}", step);
        }
    }
}

/// Nodes that keep to a limit, each with an I/O now and then, and what they moved in each second.
struct Together {
    account: Account,
    nodes: Vec<(Member, Limiter, Held)>,
    moved: Vec<u64>,
}

const IO: u64 = 256 << 10;

impl Together {
    fn of(limiter: &Limiter, count: usize, credits: f64) -> Self {
        let mut own = limiter.clone().with_credits(0.0);
        own.set_share(0.0, 0);
        let nodes = (0..count).map(|_| (Member::default(), own.clone(), Held::default()));
        let account = Account { free: credits as i64, ..Account::default() };
        Self { account, nodes: nodes.collect(), moved: Vec::new() }
    }

    /// A second in which these nodes want to move so many bytes; those that are cut off keep what they
    /// have.
    fn second(&mut self, wants: &[u64], cut_off: &[bool], whole: &Limiter) {
        let second = self.moved.len() as u64;
        self.moved.push(0);
        let mut used = vec![0; self.nodes.len()];
        for step in 0..100 {
            let now = second * SECOND + step * 10 * MS;
            for (n, (_, limiter, held)) in self.nodes.iter_mut().enumerate() {
                while used[n] + IO <= wants[n] * (step + 1) / 100 {
                    if limiter.take(IO, now).is_err() {
                        held.waits = true;
                        break;
                    }
                    used[n] += IO;
                }
            }
        }
        self.moved[second as usize] = used.iter().sum();
        self.beat((second + 1) * SECOND, &used, cut_off, whole);
    }

    fn beat(&mut self, now: u64, used: &[u64], cut_off: &[bool], whole: &Limiter) {
        for (n, (member, limiter, held)) in self.nodes.iter_mut().enumerate() {
            let Some(part) = self.account.part(n as u64).filter(|_| !cut_off[n]) else { continue };
            let moved = member.lower(part);
            let next = member.wanted(part);
            let moved = moved + next.taken - member.taken;
            *member = next;
            limiter.set_share(f64::from(next.share) / f64::from(WHOLE), now);
            limiter.add_credits(moved as f64, now);
            (held.share, held.taken) = (next.share, next.taken);
            held.balance = limiter.balance_bytes(now) as i64;
            held.per_s = used[n];
        }
        let said: Vec<_> =
            self.nodes.iter().enumerate().map(|(n, node)| (n as u64, node.2)).collect();
        let with_credits = self.account.balance(&said) > 0;
        let per_s = whole.whole_bytes_per_s(with_credits);
        let balance_max = whole.credit_cap_bytes() as i64;
        self.account.allot(&said, Whole { per_s, balance_max });
        for (n, (_, _, held)) in self.nodes.iter_mut().enumerate() {
            held.waits = held.waits && cut_off[n];
        }
    }

    /// The most that went ahead of this steady rate over any number of seconds.
    fn ahead(&self, per_s: f64) -> f64 {
        let (mut ahead, mut most) = (0.0_f64, 0.0_f64);
        for moved in &self.moved {
            ahead = (ahead + *moved as f64 - per_s).max(0.0);
            most = most.max(ahead);
        }
        most
    }
}

fn mode(mib_per_s: Option<f64>, credits: f64) -> Limiter {
    let mode = mib_per_s.map_or(Mode::Bursting, |mib_per_s| Mode::Provisioned { mib_per_s });
    Limiter::new(Rules { provisioned_is_all: true, ..Rules::today() }, mode, 0, 0)
        .with_credits(credits)
}

#[test]
fn one_that_works_beside_idle_ones_gets_nearly_all_and_two_get_halves() {
    let whole = mode(Some(64.0), 0.0);
    let mut together = Together::of(&whole, 3, 1e12);
    let all = 1 << 30;
    for _ in 0..10 {
        together.second(&[all, 0, 0], &[false; 3], &whole);
    }
    let last = together.moved[9] as f64 / (64.0 * MIB);
    assert!(last > 0.95 && last <= 1.06, "{last}");
    let mut of_two = [0, 0];
    for second in 0..10 {
        let before: Vec<_> = together.nodes.iter().map(|node| node.2.per_s).collect();
        assert_eq!(before.len(), 3);
        together.second(&[all, all, 0], &[false; 3], &whole);
        if second > 5 {
            of_two[0] += together.nodes[0].2.per_s;
            of_two[1] += together.nodes[1].2.per_s;
        }
    }
    let ratio = of_two[0] as f64 / of_two[1] as f64;
    assert!((0.9..1.1).contains(&ratio), "{of_two:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_rate_holds_for_all_together_whoever_is_cut_off(
        wants in prop::collection::vec(prop::array::uniform4(0_u64..4), 5..25),
        away in prop::collection::vec(prop::array::uniform4(prop::bool::weighted(0.2)), 25),
    ) {
        let whole = mode(Some(32.0), 0.0);
        let mut together = Together::of(&whole, 4, 1e12);
        for (wants, away) in wants.iter().zip(&away) {
            let wants: Vec<_> = wants.iter().map(|want| want * (20 << 20)).collect();
            together.second(&wants, away, &whole);
        }
        // 50 ms of the rate and an I/O for each.
        let bound = 4.0 * (0.05 * 32.0 * MIB + IO as f64);
        let ahead = together.ahead(32.0 * MIB);
        prop_assert!(ahead <= bound, "{ahead} of {bound}");
    }

    #[test]
    fn credits_are_spent_once(
        wants in prop::collection::vec(prop::array::uniform4(0_u64..4), 10..30),
        away in prop::collection::vec(prop::array::uniform4(prop::bool::weighted(0.2)), 30),
    ) {
        let credits = 300.0 * MIB;
        let whole = mode(None, credits);
        let mut together = Together::of(&whole, 4, credits);
        for (wants, away) in wants.iter().zip(&away) {
            let wants: Vec<_> = wants.iter().map(|want| want * (60 << 20)).collect();
            together.second(&wants, away, &whole);
        }
        let moved: u64 = together.moved.iter().sum();
        let seconds = together.moved.len() as f64;
        // The baseline is 1 MiB/s; what a node spent before it heard that it is another's by then is
        // owed, and a part may be on its way twice: two beats at the burst rate.
        let bound = credits + seconds * MIB + 4.0 * (5.0 * MIB + IO as f64) + 200.0 * MIB;
        prop_assert!(moved as f64 <= bound, "{moved} of {bound}");
        let peak = together.ahead(100.0 * MIB);
        prop_assert!(peak <= 4.0 * (5.0 * MIB + IO as f64), "{peak}");
    }
}
