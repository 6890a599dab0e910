//! One file that nodes change by turns, at any place, and cut and grow: what one has closed the next
//! one opens, byte for byte, and what was never written is zeros.

use rand::RngExt;
use rand::rngs::StdRng;

use crate::content::{PAGE, Tag, WORD, ZERO, in_runs, told};
use crate::nodes::{Call, Held, Nodes, hold};
use crate::op::{Op, Value};

/// Words that a file has at most.
const MOST: u64 = 40 * PAGE;
const STEPS: usize = 14;

pub(crate) fn round(nodes: &mut Nodes, rng: &mut StdRng, dir: &str) -> Held {
    nodes.make_dir(rng.random_range(0..nodes.actors()), dir)?;
    let path = format!("{dir}/handed");
    let (mut model, mut calls, mut tag) = (Vec::new(), Vec::<Call>::new(), 0);
    for step in 0..STEPS {
        tag += 1;
        let op = if step == 0 { anew(rng, &path, tag) } else { choose(rng, &path, tag, &model) };
        apply(&mut model, &op);
        // Twice where nobody knows whether it was done: that makes no difference.
        calls.push(nodes.must(rng.random_range(0..nodes.actors()), op)?);
        let all = rng.random_bool(0.3);
        let reader = rng.random_range(0..nodes.actors());
        let readers = if all { (0..nodes.actors()).collect() } else { vec![reader] };
        for reader in readers {
            let read = match rng.random_range(0..4) {
                0 => nodes.must(reader, Op::Look(path.clone()))?,
                _ => nodes.must(reader, Op::Get(path.clone()))?,
            };
            calls.push(read);
            check(&model, &calls)?;
        }
    }
    nodes.remove_dir(rng.random_range(0..nodes.actors()), dir)
}

fn anew(rng: &mut StdRng, path: &str, tag: Tag) -> Op {
    let words = rng.random_range(1..MOST);
    Op::Put { path: path.to_owned(), tag, words, cut: true, held: None }
}

fn choose(rng: &mut StdRng, path: &str, tag: Tag, model: &[Tag]) -> Op {
    let size = model.len() as u64;
    let words = match rng.random_range(0..3) {
        0 => rng.random_range(0..=size),
        // At the edge of a page, where pages are kept or not.
        1 => rng.random_range(0..=size / PAGE) * PAGE,
        _ => rng.random_range(size..=MOST),
    };
    match rng.random_range(0..100) {
        0..10 => anew(rng, path, tag),
        10..60 => Op::Truncate { path: path.to_owned(), words, open: rng.random() },
        _ => {
            let part = |rng: &mut StdRng| {
                let at = rng.random_range(0..MOST);
                (at, rng.random_range(1..=(MOST - at).min(3 * PAGE)))
            };
            let parts = (0..rng.random_range(1..4)).map(|_| part(rng)).collect();
            Op::Write { path: path.to_owned(), tag, parts, sync: rng.random_bool(0.2) }
        }
    }
}

fn apply(model: &mut Vec<Tag>, op: &Op) {
    match op {
        Op::Put { tag, words, .. } => *model = vec![*tag; *words as usize],
        Op::Truncate { words, .. } => model.resize(*words as usize, ZERO),
        Op::Write { tag, parts, .. } => {
            for (at, words) in parts {
                let (at, end) = (*at as usize, (at + words) as usize);
                model.resize(model.len().max(end), ZERO);
                model[at..end].fill(*tag);
            }
        }
        _ => {}
    }
}

fn check(model: &[Tag], calls: &[Call]) -> Held {
    let Some(last) = calls.last() else { return Ok(()) };
    let want = model.len() as u64 * WORD;
    let shown = || &calls[calls.len().saturating_sub(8)..];
    match last.value()? {
        Some(Value::Leaves(leaves)) => {
            let rule = format!("stat tells the size that was closed, {want}");
            hold(leaves[0].size == want, rule, shown())
        }
        Some(Value::Content { size, runs }) => {
            let rule = format!("an open file has the size that was closed, {want}");
            hold(*size == want, rule, shown())?;
            let model = in_runs(model.iter().copied());
            let rule = format!("what was closed is what is read: {}", told(&model));
            hold(*runs == model, rule, shown())
        }
        _ => Ok(()),
    }
}

#[test]
fn the_model_cuts_and_grows_as_files_do() {
    let path = String::new;
    let mut model = Vec::new();
    let mut after = |op: Op| {
        apply(&mut model, &op);
        told(&in_runs(model.iter().copied()))
    };
    let put = Op::Put { path: path(), tag: 1, words: 9, cut: true, held: None };
    assert_eq!(after(put), "[9×#1]");
    assert_eq!(after(Op::Truncate { path: path(), words: 4, open: true }), "[4×#1]");
    assert_eq!(after(Op::Truncate { path: path(), words: 6, open: true }), "[4×#1 2×zeros]");
    let write = Op::Write { path: path(), tag: 2, parts: vec![(7, 1), (0, 1)], sync: false };
    assert_eq!(after(write), "[1×#2 3×#1 3×zeros 1×#2]");
}
