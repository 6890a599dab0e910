//! A node that misbehaves, as file systems do that are not what they say: it shows that each kind of
//! test can fail.

use std::collections::HashMap;

use crate::op::{Op, Outcome, Value};
use crate::perform::Performer;

/// What a node remembers that should not.
#[derive(Default)]
pub(crate) struct Spoilt {
    /// What it was told first of each file's content and size.
    stale: HashMap<String, Outcome>,
}

impl Spoilt {
    pub(crate) fn outcome(&mut self, performer: &mut Performer, op: &Op) -> Outcome {
        match op {
            // It makes what is there already.
            Op::Create(path) => match performer.outcome(op) {
                Outcome::Failed(libc::EEXIST) => match performer.outcome(&Op::Look(path.clone())) {
                    Outcome::Done(Value::Leaves(leaves)) => {
                        Outcome::Done(Value::Ino(leaves[0].ino))
                    }
                    other => other,
                },
                other => other,
            },
            // It says that it removed what it did not.
            Op::Unlink(_) | Op::Rmdir(_) => Outcome::Done(Value::Nothing),
            // It never looks again.
            Op::Get(path) | Op::GetBy { path, .. } | Op::Look(path)
                if path.contains('/') && !path.starts_with("kept") =>
            {
                let key = format!("{}{path}", !matches!(op, Op::Look(_)));
                match self.stale.get(&key) {
                    Some(stale) => stale.clone(),
                    None => {
                        let outcome = performer.outcome(op);
                        if matches!(outcome, Outcome::Done(_)) {
                            self.stale.insert(key, outcome.clone());
                        }
                        outcome
                    }
                }
            }
            // It writes whole blocks of what it knows.
            Op::Write { path, tag, parts, sync } => {
                let wider = |(at, words): &(u64, u64)| (at.saturating_sub(3), words + 5);
                let (path, parts) = (path.clone(), parts.iter().map(wider).collect());
                performer.outcome(&Op::Write { path, tag: *tag, parts, sync: *sync })
            }
            // The first record is lost.
            Op::Append { path, records, sync } => {
                let (path, records) = (path.clone(), records[1..].to_vec());
                performer.outcome(&Op::Append { path, records, sync: *sync })
            }
            // Each process locks a file of its own.
            Op::Count(count) => {
                let mut apart = count.clone();
                apart.path = format!("{}.{}", count.path, std::process::id());
                performer.outcome(&Op::Create(apart.path.clone()));
                performer.outcome(&Op::Truncate { path: apart.path.clone(), words: 8, open: true });
                performer.outcome(&Op::Count(apart))
            }
            // What has no name has no bytes.
            Op::ReadHeld { .. } | Op::WriteHeld { .. } => {
                Outcome::Done(Value::Content { size: 0, runs: Vec::new() })
            }
            op => performer.outcome(op),
        }
    }
}
