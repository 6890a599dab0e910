//! Records that all nodes append to one file: each is there once, whole, and those of one process are
//! in its order. Who opens the file after a close finds what was appended before that.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::content::{HEAD, Record};
use crate::nodes::{Call, Held, Nodes, Told, hold};
use crate::op::{Op, Value};

pub(crate) fn round(nodes: &mut Nodes, rng: &mut StdRng, dir: &str) -> Held {
    nodes.make_dir(rng.random_range(0..nodes.actors()), dir)?;
    let path = format!("{dir}/log");
    let made = nodes.one(rng.random_range(0..nodes.actors()), Op::Create(path.clone()))?;
    hold(made.is_done() || matches!(made.told, Told::Failed(libc::EEXIST)), "create", [&made])?;
    // Of a round with long ones the whole is some MiB, and records lie across the edges of MiBs.
    let is_long = rng.random_bool(0.5);
    let busy = rng.random_range(0..nodes.actors());
    let pause = if rng.random_bool(0.5) { 1 } else { 20 };
    let plans = (0..nodes.actors())
        .map(|actor| {
            let mut number = 0;
            // One who is alone with it for a while gets a write lease.
            let count = if actor == busy { 12 } else { rng.random_range(2..7) };
            let pause = if actor == busy { 1 } else { pause };
            (0..count)
                .map(|_| {
                    let each = rng.random_range(1..6);
                    let records =
                        (0..each).map(|_| record(rng, actor, &mut number, is_long)).collect();
                    let (path, sync) = (path.clone(), rng.random_bool(0.2));
                    let op = match rng.random_range(0..4) {
                        0 => Op::Records(path),
                        _ => Op::Append { path, records, sync },
                    };
                    (Duration::from_millis(rng.random_range(0..4) * pause), op)
                })
                .collect()
        })
        .collect();
    let mut calls = nodes.run(plans)?;
    for node in 0..nodes.nodes {
        calls.push(nodes.must(node, Op::Records(path.clone()))?);
    }
    check(&calls)?;
    nodes.remove_dir(rng.random_range(0..nodes.actors()), dir)
}

fn record(rng: &mut StdRng, actor: usize, number: &mut u32, is_long: bool) -> Record {
    *number += 1;
    let bytes = match rng.random_range(0..4) {
        0 => rng.random_range(HEAD..200),
        1 => rng.random_range(HEAD..4000),
        2 => rng.random_range(4000..20_000),
        _ if is_long => rng.random_range(20_000..400_000),
        _ => HEAD,
    };
    Record { writer: actor as u32, number: *number, bytes }
}

fn check(calls: &[Call]) -> Held {
    for call in calls {
        let Some(Value::Records { size, found, stray }) = call.value()? else { continue };
        let appends = || calls.iter().filter(|call| matches!(call.op, Op::Append { .. }));
        let shown = || appends().filter(|append| append.start < call.end).chain([call]);
        let mut times: BTreeMap<Record, u32> = BTreeMap::new();
        for (_, record) in found {
            *times.entry(*record).or_default() += 1;
        }
        for (record, times) in &times {
            let rule = format!("a record is there once: {record:?} is {times} times");
            hold(*times == 1, rule, shown())?;
        }
        for append in appends().filter(|append| append.is_done() && append.end < call.start) {
            let Op::Append { records, .. } = &append.op else { continue };
            for record in records {
                let rule = format!("what was appended before the open is there, whole: {record:?}");
                hold(times.contains_key(record), rule, shown())?;
            }
        }
        let is_ordered = |pair: &[(u64, Record)]| pair[0].1.number < pair[1].1.number;
        for writer in 0..64 {
            let own: Vec<_> = found.iter().filter(|(_, r)| r.writer == writer).copied().collect();
            let rule = format!("records of one process are in its order: {own:?}");
            hold(own.windows(2).all(is_ordered), rule, shown())?;
        }
        // Beside appends there may be part of one.
        let is_quiet = appends().all(|a| a.end < call.start && a.is_done() || a.start > call.end);
        let rule =
            format!("nothing but records is there, which are {} of {size} bytes", size - stray);
        hold(*stray == 0 || !is_quiet, rule, shown())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Record = Record { writer: 0, number: 1, bytes: 100 };
    const TWO: Record = Record { writer: 0, number: 2, bytes: 30 };
    const OTHER: Record = Record { writer: 1, number: 1, bytes: 40 };

    fn call(actor: usize, start: u64, op: Op, value: Value) -> Call {
        Call { node: actor, actor, op, start, end: start + 10, told: Told::Done(value) }
    }

    /// Whether these bytes may be what a log is at time `at`.
    fn holds(at: u64, bytes: &[u8]) -> bool {
        let append = |actor, start, record| {
            let op = Op::Append { path: String::new(), records: vec![record], sync: false };
            call(actor, start, op, Value::Nothing)
        };
        let (found, stray) = crate::content::records_in(bytes);
        let value = Value::Records { size: bytes.len() as u64, found, stray };
        let read = call(1, at, Op::Records(String::new()), value);
        check(&[append(0, 0, ONE), append(0, 20, TWO), append(1, 22, OTHER), read]).is_ok()
    }

    #[test]
    fn a_log_has_each_record_once_and_whole_and_in_order() {
        let all =
            |records: &[Record]| -> Vec<u8> { records.iter().flat_map(|r| r.to_bytes()).collect() };
        assert!(holds(50, &all(&[ONE, OTHER, TWO])));
        assert!(!holds(50, &all(&[ONE, TWO])));
        assert!(!holds(50, &all(&[TWO, ONE, OTHER])));
        assert!(!holds(50, &all(&[ONE, TWO, OTHER, TWO])));
        assert!(!holds(50, &[all(&[ONE, OTHER, TWO]), vec![0]].concat()));
        let torn = all(&[ONE, OTHER, TWO]);
        assert!(!holds(50, &torn[..torn.len() - 1]));
        // Beside the second there may be part of it, but never less than the first.
        assert!(holds(25, &all(&[ONE, TWO])[..110]));
        assert!(!holds(25, &all(&[TWO])));
    }
}
