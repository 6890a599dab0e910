//! Rounds of operations on names, by all nodes at once.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::linear::{self, Seen, Verdict};
use crate::nodes::{self, Held, Nodes, Told, hold};
use crate::op::{How, Leaf, Op, Value};
use crate::tree::{NAMES, Name, NameOp, Path};

/// Operations that change names, and what all nodes list then.
pub(crate) fn changes(nodes: &mut Nodes, rng: &mut StdRng, dir: &str) -> Held {
    round(nodes, rng, dir, false)
}

/// The same, while nodes also look.
pub(crate) fn looks(nodes: &mut Nodes, rng: &mut StdRng, dir: &str) -> Held {
    round(nodes, rng, dir, true)
}

fn round(nodes: &mut Nodes, rng: &mut StdRng, dir: &str, look: bool) -> Held {
    nodes.make_dir(rng.random_range(0..nodes.actors()), dir)?;
    // What is there when they begin.
    let mut calls = Vec::new();
    for _ in 0..rng.random_range(1..6) {
        let op = match rng.random_range(0..3) {
            0 => NameOp::Mkdir(top(rng.random_range(3..6))),
            1 => NameOp::Create(path(rng)),
            _ => NameOp::Create(top(rng.random_range(0..6))),
        };
        let mut plans = vec![Vec::new(); nodes.actors()];
        plans[rng.random_range(0..nodes.actors())] = vec![(Duration::ZERO, system(op, dir))];
        calls.extend(nodes.run(plans)?.into_iter().map(|call| (call, op)));
    }
    let mut ops = Vec::new();
    let most = 16 / nodes.actors() + 1;
    let plans: Vec<Vec<_>> = (0..nodes.actors())
        .map(|_| {
            let count = rng.random_range(1..=most);
            let chosen: Vec<_> = (0..count).map(|_| choose(rng, look)).collect();
            let plan = chosen.iter().map(|op| (pause(rng), system(*op, dir))).collect();
            ops.push(chosen.into_iter());
            plan
        })
        .collect();
    // In their order, so that each finds its own.
    calls.extend(nodes.run(plans)?.into_iter().map(|call| {
        let op = ops[call.actor].next().expect("as many calls as operations");
        (call, op)
    }));
    let walks: Vec<_> = (0..nodes.nodes)
        .map(|actor| nodes.must(actor, Op::Walk(dir.to_owned())))
        .collect::<Held<_>>()?;
    check(&calls, &walks)?;
    nodes.remove_dir(rng.random_range(0..nodes.actors()), dir)
}

fn check(calls: &[(nodes::Call, NameOp)], walks: &[nodes::Call]) -> Held {
    let model: Vec<_> = calls.iter().flat_map(|(call, op)| modelled(call, *op)).collect();
    let leaves = |walk: &nodes::Call| match &walk.told {
        Told::Done(Value::Leaves(leaves)) => leaves.clone(),
        _ => Vec::new(),
    };
    let history = || calls.iter().map(|(call, _)| call).chain(walks);
    let first = leaves(&walks[0]);
    let same = walks.iter().all(|walk| leaves(walk) == first);
    hold(same, "after all have ended all nodes have the same tree", history())?;
    match linear::explain(&model, &first) {
        Verdict::Explained => Ok(()),
        Verdict::Unexplained => {
            hold(false, "names are linearizable: no order explains what all were told", history())
        }
        Verdict::Undecided => {
            eprintln!("too many orders of {} operations on names: not decided", model.len());
            Ok(())
        }
    }
}

fn top(name: Name) -> Path {
    Path { parent: None, name }
}

fn path(rng: &mut StdRng) -> Path {
    let parent = rng.random_bool(0.4).then(|| rng.random_range(3..6));
    Path { parent, name: rng.random_range(0..if parent.is_some() { 3 } else { 6 }) }
}

/// Often none, so that they meet.
fn pause(rng: &mut StdRng) -> Duration {
    match rng.random_range(0..3) {
        0 => Duration::from_micros(rng.random_range(0..8000)),
        _ => Duration::ZERO,
    }
}

fn choose(rng: &mut StdRng, look: bool) -> NameOp {
    let (one, other) = (path(rng), path(rng));
    let last = if look { 150 } else { 100 };
    match rng.random_range(0..last) {
        0..22 => NameOp::Create(one),
        22..34 => NameOp::Mkdir(if rng.random() { top(rng.random_range(3..6)) } else { one }),
        34..44 => NameOp::Link(one, other),
        44..58 => NameOp::Rename(one, other, How::Replace),
        58..64 => NameOp::Rename(one, other, How::NoReplace),
        64..68 => NameOp::Rename(one, other, How::Exchange),
        // Directories go into each other.
        68..74 => {
            let (from, to) = (rng.random_range(3..6), rng.random_range(3..6));
            NameOp::Rename(top(from), Path { parent: Some(to), name: 0 }, How::Replace)
        }
        74..90 => NameOp::Unlink(one),
        90..100 => NameOp::Rmdir(if rng.random() { top(rng.random_range(3..6)) } else { one }),
        100..140 => NameOp::Look(one),
        _ => NameOp::Listed(0),
    }
}

fn system(op: NameOp, dir: &str) -> Op {
    let at = |path: Path| format!("{dir}/{path}");
    match op {
        NameOp::Create(path) => Op::Create(at(path)),
        NameOp::Mkdir(path) => Op::Mkdir(at(path)),
        NameOp::Link(from, to) => Op::Link(at(from), at(to)),
        NameOp::Rename(from, to, how) => Op::Rename(at(from), at(to), how),
        NameOp::Unlink(path) => Op::Unlink(at(path)),
        NameOp::Rmdir(path) => Op::Rmdir(at(path)),
        NameOp::Look(path) => Op::Look(at(path)),
        NameOp::Listed(_) => Op::List(dir.to_owned()),
    }
}

/// The call as the model has it: a listing tells of each name, whose moments are their own.
fn modelled(call: &nodes::Call, op: NameOp) -> Vec<linear::Call> {
    let as_call = |op, seen| linear::Call { start: call.start, end: call.end, op, seen };
    let seen = match &call.told {
        Told::Never => return Vec::new(),
        Told::Maybe => Seen::Maybe,
        Told::Failed(why) => Seen::Failed(*why),
        Told::Done(Value::Ino(ino)) => Seen::Ino(*ino),
        Told::Done(Value::Leaves(leaves)) => match op {
            NameOp::Listed(_) => return listed(leaves, as_call),
            _ => Seen::Leaf(leaves[0].clone()),
        },
        Told::Done(_) => Seen::Done,
    };
    match (op, seen) {
        (NameOp::Listed(_) | NameOp::Look(_), Seen::Maybe) => Vec::new(),
        (op, seen) => vec![as_call(op, seen)],
    }
}

fn listed(leaves: &[Leaf], as_call: impl Fn(NameOp, Seen) -> linear::Call) -> Vec<linear::Call> {
    let mut calls = Vec::new();
    for (n, name) in NAMES.iter().enumerate() {
        let op = NameOp::Listed(n as Name);
        let mut of_name = leaves.iter().filter(|leaf| leaf.path == *name).peekable();
        if of_name.peek().is_none() {
            calls.push(as_call(op, Seen::Failed(libc::ENOENT)));
        }
        calls.extend(of_name.map(|leaf| as_call(op, Seen::Leaf(leaf.clone()))));
    }
    calls
}
