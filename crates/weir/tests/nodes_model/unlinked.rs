//! Files that one node removes or replaces while others have them open: those read all of it on, for
//! longer than anything is remembered, write it, and read what they wrote.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::content::{Run, Tag, WORD};
use crate::nodes::{Call, Held, Nodes, Told, Violation, hold};
use crate::op::{How, Op, Value};

const OLD: Tag = 1;
const NEW: Tag = 2;
const OTHER: Tag = 3;

/// How long they read on in a run of so long.
fn time(seconds: u64) -> Duration {
    if seconds < 40 { Duration::from_millis(1500) } else { Duration::from_secs(17) }
}

pub(crate) fn round(nodes: &mut Nodes, rng: &mut StdRng, dir: &str, seconds: u64) -> Held {
    nodes.make_dir(rng.random_range(0..nodes.actors()), dir)?;
    let (path, words) = (format!("{dir}/gone"), 2 * rng.random_range(100..200_000_u64));
    let writer = rng.random_range(0..nodes.actors());
    let put = |path: &str, tag, words| Op::Put {
        path: path.to_owned(),
        tag,
        words,
        cut: true,
        held: None,
    };
    let mut calls = vec![nodes.must(writer, put(&path, OLD, words))?];
    // All but one keep it open. Some have read it before.
    let remover = rng.random_range(0..nodes.actors());
    let holders: Vec<_> = (0..nodes.actors()).filter(|actor| *actor != remover).collect();
    for actor in &holders {
        if rng.random() {
            calls.push(nodes.must(*actor, Op::Get(path.clone()))?);
        }
        calls.push(nodes.must(*actor, Op::Hold(path.clone()))?);
    }
    let how = rng.random_range(0..3);
    let (other, gone) = (format!("{dir}/other"), format!("{dir}/never"));
    let remove = match how {
        0 => Op::Unlink(path.clone()),
        1 => {
            calls.push(nodes.must(remover, put(&other, OTHER, 1000))?);
            Op::Rename(other, path.clone(), How::Replace)
        }
        _ => Op::Rename(path.clone(), gone.clone(), How::Replace),
    };
    let mut first = vec![Vec::new(); nodes.actors()];
    first[remover] = vec![(Duration::ZERO, remove)];
    if how == 2 {
        first[remover].push((Duration::ZERO, Op::Unlink(gone)));
    }
    let removed = nodes.run(first)?;
    let is_removed = went_well(&removed)?;
    calls.extend(removed);
    if is_removed && how != 1 && rng.random() {
        // Another one by the same name.
        calls.push(nodes.must(remover, put(&path, OTHER, 1000))?);
    }
    // All read before one writes, because they may share it.
    let read = Op::ReadHeld { words, tag: OLD, time: time(seconds) };
    let write = Op::WriteHeld { at: words / 2, words, tag: NEW };
    for op in [read, write] {
        let mut plans = vec![Vec::new(); nodes.actors()];
        for actor in &holders {
            plans[*actor] = vec![(Duration::ZERO, op.clone())];
        }
        calls.extend(nodes.run(plans)?);
    }
    if is_removed {
        check(&calls, words)?;
    }
    nodes.remove_dir(rng.random_range(0..nodes.actors()), dir)
}

/// What removes must go well, one after the other; answers whether it surely did. A name that may not have been
/// given, because the node was disturbed, need not be there to be removed, and the file may have its old one.
fn went_well(removed: &[Call]) -> Result<bool, Violation> {
    let mut is_sure = true;
    for call in removed {
        let is_missing = matches!(call.told, Told::Failed(libc::ENOENT));
        let fails = matches!(call.told, Told::Failed(_)) && (is_sure || !is_missing);
        hold(!fails, "what removes a file must go well", removed)?;
        is_sure &= call.is_done();
    }
    Ok(is_sure)
}

fn check(calls: &[Call], words: u64) -> Held {
    let old = Run { tag: OLD, words };
    let half = Run { tag: OLD, words: words / 2 };
    let new = Run { tag: NEW, words };
    for call in calls {
        let (rule, want, long) = match call.op {
            Op::ReadHeld { .. } => ("reads as before", vec![old], words),
            Op::WriteHeld { .. } => ("reads as it was written", vec![half, new], words / 2 + words),
            _ => continue,
        };
        let Some(Value::Content { size, runs }) = call.value()? else { continue };
        let before = calls
            .iter()
            .filter(|call| !matches!(call.op, Op::ReadHeld { .. } | Op::WriteHeld { .. }));
        let rule = format!("a file that was removed elsewhere {rule} for who has it open");
        hold(*runs == want && *size == long * WORD, rule, before.chain([call]))?;
    }
    Ok(())
}
