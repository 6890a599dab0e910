//! Locks of all nodes on one file, of all of it and of the 8 bytes of single counters that share a page:
//! nobody has one while another has what excludes it, and who counts under one sees what was counted
//! before it.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::nodes::{Call, Held as Holds, Nodes, hold};
use crate::op::{Count, Held, Op, Turn, Value};

const COUNTERS: u64 = 4;

pub(crate) fn round(nodes: &mut Nodes, rng: &mut StdRng, dir: &str) -> Holds {
    nodes.make_dir(rng.random_range(0..nodes.actors()), dir)?;
    let path = format!("{dir}/counters");
    // Zeros, written: a counter is never beyond the end.
    let zeros = Op::Put { path: path.clone(), tag: 0, words: 0, cut: true, held: None };
    nodes.must(rng.random_range(0..nodes.actors()), zeros)?;
    let grown = Op::Truncate { path: path.clone(), words: COUNTERS, open: true };
    nodes.must(rng.random_range(0..nodes.actors()), grown)?;
    let flock = rng.random_bool(0.35);
    // Of single counters only, so that locks that exclude each other are never asked for.
    let is_apart = rng.random_bool(0.3);
    let wholes = if flock { 1.0 } else { [0.0, 0.3, 1.0][rng.random_range(0..3)] };
    let plans = (0..nodes.actors())
        .map(|actor| {
            let turn = |rng: &mut StdRng| Turn {
                counter: match is_apart && !flock {
                    true => actor as u64 % COUNTERS,
                    false => rng.random_range(0..COUNTERS),
                },
                whole: flock || !is_apart && rng.random_bool(wholes),
                shared: rng.random_bool(0.3),
                pause: Duration::from_micros(rng.random_range(0..1500)),
            };
            let turns = (0..rng.random_range(5..20)).map(|_| turn(rng)).collect();
            let (wait, reopen) = (rng.random_bool(0.6), rng.random_bool(0.3));
            let (path, sync) = (path.clone(), rng.random_bool(0.3));
            let count = Count { path, flock, wait, reopen, sync, turns };
            vec![(Duration::from_millis(rng.random_range(0..3)), Op::Count(count))]
        })
        .collect();
    let calls = nodes.run(plans)?;
    check(&calls)?;
    nodes.remove_dir(rng.random_range(0..nodes.actors()), dir)
}

/// A turn, and whose it was.
type Whose<'a> = (&'a Call, &'a Held);

fn check(calls: &[Call]) -> Holds {
    let mut all: Vec<Whose<'_>> = Vec::new();
    for call in calls {
        if let Some(Value::Turns { held, .. }) = call.value()? {
            all.extend(held.iter().map(|held| (call, held)));
        }
    }
    all.sort_by_key(|(_, held)| held.got);
    for (n, one) in all.iter().enumerate() {
        for other in &all[n + 1..] {
            if excludes(one, other) && other.1.got < one.1.until {
                return shown(
                    "nobody has a lock while another has what excludes it",
                    &[*one, *other],
                );
            }
        }
        refused_for_a_reason(*one, &all, calls)?;
    }
    (0..COUNTERS).try_for_each(|counter| counted(&all, counter))
}

/// Both went well, so that both really had their locks, and these exclude each other.
fn excludes(one: &Whose<'_>, other: &Whose<'_>) -> bool {
    let (a, b) = (one.1, other.1);
    let meets = a.turn.whole || b.turn.whole || a.turn.counter == b.turn.counter;
    let is_both = a.whole && b.whole && one.0.actor != other.0.actor;
    is_both && meets && !(a.turn.shared && b.turn.shared)
}

/// Who was told that others have a lock was told so because others had it, or asked for it.
fn refused_for_a_reason(one: Whose<'_>, all: &[Whose<'_>], calls: &[Call]) -> Holds {
    let is_disturbed =
        calls.iter().any(|call| !call.is_done()) || all.iter().any(|(_, h)| !h.whole);
    let reason = |other: &Whose<'_>| {
        let is_beside = other.1.asked <= one.1.got && other.1.back >= one.1.asked;
        let is_other = other.0.actor != one.0.actor;
        is_other && is_beside && excludes(&one, other)
    };
    match one.1.refused > 0 && !is_disturbed && !all.iter().any(reason) {
        true => shown("a lock that nobody has is given", &[one]),
        false => Ok(()),
    }
}

/// Each saw what the one before left.
fn counted(all: &[Whose<'_>], counter: u64) -> Holds {
    let of: Vec<_> = all.iter().filter(|(_, held)| held.turn.counter == counter).copied().collect();
    let (mut least, mut most, mut last) = (0, 0, None);
    for one in of {
        let held = one.1;
        // Where the node is disturbed before it is read: nothing is written then. One that is not there is told otherwise.
        let Some(saw) = held.saw else { continue };
        if held.whole && (saw < least || saw > most) {
            let rule = format!(
                "who has the lock of counter {counter} sees what was counted before: {least}, not {saw}"
            );
            return shown(&rule, &last.into_iter().chain([one]).collect::<Vec<_>>());
        }
        // One that failed half-way may have been counted.
        match (held.turn.shared, held.whole) {
            (true, _) => {}
            (false, true) => (least, most) = (saw + 1, saw + 1),
            (false, false) => most = most.max(saw + 1),
        }
        if !held.turn.shared {
            last = Some(one);
        }
    }
    Ok(())
}

fn shown(rule: &str, turns: &[Whose<'_>]) -> Holds {
    use std::fmt::Write;
    let began = turns.iter().map(|(_, held)| held.asked).min().unwrap_or(0);
    let mut rule = rule.to_owned();
    for (call, held) in turns {
        let at = |time: u64| time.saturating_sub(began) / 1000;
        let Turn { counter, whole, shared, .. } = held.turn;
        let _ = write!(
            rule,
            "\n  node {}, process {}: asked {} got {} until {} back {}, counter {counter}, whole file \
             {whole}, shared {shared}, saw {:?}",
            call.node,
            call.actor,
            at(held.asked),
            at(held.got),
            at(held.until),
            at(held.back),
            held.saw,
        );
    }
    hold(false, rule, turns.iter().map(|(call, _)| *call))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::Told;

    fn turn(got: u64, until: u64, shared: bool, saw: u64) -> Held {
        let turn = Turn { counter: 0, whole: false, shared, pause: Duration::ZERO };
        let saw = Some(saw);
        Held { turn, asked: got - 1, got, until, back: until + 1, saw, whole: true, refused: 0 }
    }

    fn holds(turns: &[(usize, Held)]) -> bool {
        let call = |actor| {
            let (path, turns_of) = (String::new(), Vec::new());
            let (flock, wait, reopen, sync) = (false, true, false, false);
            let op = Op::Count(Count { path, flock, wait, reopen, sync, turns: turns_of });
            let held = turns.iter().filter(|(n, _)| *n == actor).map(|(_, held)| *held).collect();
            let told = Told::Done(Value::Turns { held, failed: None });
            Call { node: actor, actor, op, start: 0, end: 1000, told }
        };
        check(&[call(0), call(1)]).is_ok()
    }

    #[test]
    fn locks_exclude_and_counters_count() {
        assert!(holds(&[(0, turn(10, 20, false, 0)), (1, turn(25, 30, false, 1))]));
        assert!(!holds(&[(0, turn(10, 20, false, 0)), (1, turn(19, 30, false, 1))]));
        assert!(!holds(&[(0, turn(10, 20, false, 0)), (1, turn(25, 30, false, 0))]));
        assert!(!holds(&[(0, turn(10, 20, true, 0)), (1, turn(15, 30, false, 0))]));
        assert!(holds(&[(0, turn(10, 20, true, 0)), (1, turn(15, 30, true, 0))]));
        assert!(!holds(&[(0, turn(10, 20, false, 0)), (1, turn(25, 30, true, 0))]));
    }

    #[test]
    fn who_is_refused_is_refused_for_another_one() {
        let refused = Held { refused: 2, ..turn(50, 60, false, 1) };
        assert!(!holds(&[(0, turn(10, 20, false, 0)), (1, refused)]));
        let refused = Held { asked: 15, ..refused };
        assert!(holds(&[(0, turn(10, 20, false, 0)), (1, refused)]));
    }
}
