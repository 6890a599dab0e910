//! Files that stay while everything else happens: what was closed once is there until the end, whoever
//! is killed meanwhile.

use rand::RngExt;
use rand::rngs::StdRng;

use crate::content::{Run, Tag, WORD};
use crate::nodes::{Held, Nodes, hold};
use crate::op::{Op, Value};

const DIR: &str = "kept";

/// What each file of `DIR` has.
#[derive(Default)]
pub(crate) struct Kept(Vec<Run>);

impl Kept {
    /// Another file is written, and one that is there is read.
    pub(crate) fn round(&mut self, nodes: &mut Nodes, rng: &mut StdRng) -> Held {
        let actor = rng.random_range(0..nodes.actors());
        if self.0.is_empty() {
            nodes.make_dir(actor, DIR)?;
        }
        let file = self.0.len();
        let (tag, words) = (file as Tag + 1, rng.random_range(1..20_000));
        let held = rng.random_bool(0.3).then_some(std::time::Duration::ZERO);
        let path = format!("{DIR}/{file}");
        nodes.must(actor, Op::Put { path, tag, words, cut: true, held })?;
        self.0.push(Run { tag, words });
        let reader = rng.random_range(0..nodes.actors());
        self.read(nodes, reader, rng.random_range(0..self.0.len()))
    }

    /// All nodes read all.
    pub(crate) fn check(&self, nodes: &mut Nodes) -> Held {
        for node in 0..nodes.nodes {
            for file in 0..self.0.len() {
                self.read(nodes, node, file)?;
            }
        }
        Ok(())
    }

    fn read(&self, nodes: &mut Nodes, actor: usize, file: usize) -> Held {
        let call = nodes.must(actor, Op::Get(format!("{DIR}/{file}")))?;
        let want = self.0[file];
        if let Some(Value::Content { size, runs }) = call.value()? {
            let is_it = *runs == [want] && *size == want.words * WORD;
            let rule = format!("what was closed stays: {} words of #{}", want.words, want.tag);
            hold(is_it, rule, [&call])?;
        }
        Ok(())
    }
}
