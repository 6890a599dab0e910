//! Close-to-open of files that are large enough for the kernel to read them without the daemon: read with
//! `read`, through mappings and past the page cache, by some who keep them open meanwhile, and written by
//! `pwrite` and through mappings.
//!
//! Who keeps a file open has it as it was when it was opened, or as anybody made it since, or parts of each: no
//! word that was superseded before the open, and never one of nobody. The rest is that of `registers.rs`.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::nodes::{Held, Nodes};
use crate::op::{Op, Way};
use crate::registers::{Style, agree, check, pause, put, read_by_all};

/// The sizes of files, in words: such as are brought whole when they are opened, and a larger one.
const WORDS: [u64; 3] = [16_500, 40_000, 140_000];

pub(crate) fn round(nodes: &mut Nodes, rng: &mut StdRng, dir: &str) -> Held {
    nodes.make_dir(rng.random_range(0..nodes.actors()), dir)?;
    let words = WORDS[rng.random_range(0..WORDS.len())];
    let (path, style) = (format!("{dir}/f"), Style::Whole(words));
    let mut tag = 0;
    let maker = rng.random_range(0..nodes.actors());
    let mut calls = vec![nodes.must(maker, put(rng, &path, style, &mut tag))?];
    let is_hot = rng.random_bool(0.3);
    // Some rounds have few writers, so that files stay with readers for longer.
    let writes = rng.random_range(5..40);
    let plans = (0..nodes.actors())
        .map(|_| {
            let count = rng.random_range(3..9);
            (0..count)
                .map(|_| {
                    let op = match rng.random_range(0..100) {
                        turn if turn < writes / 2 => put(rng, &path, style, &mut tag),
                        turn if turn < writes => {
                            tag += 1;
                            Op::PutMapped { path: path.clone(), tag, words }
                        }
                        turn if turn < 92 => get_by(rng, &path),
                        _ => Op::Look(path.clone()),
                    };
                    (if is_hot { Duration::ZERO } else { pause(rng) }, op)
                })
                .collect()
        })
        .collect();
    calls.extend(nodes.run(plans)?);
    let last = read_by_all(nodes, &calls, &path)?;
    agree(&calls, &last, &path)?;
    calls.extend(last);
    check(&calls, &path, style)?;
    nodes.remove_dir(rng.random_range(0..nodes.actors()), dir)
}

fn get_by(rng: &mut StdRng, path: &str) -> Op {
    let way = [Way::Read, Way::Mapped, Way::Direct][rng.random_range(0..3)];
    let kept = match rng.random_bool(0.4) {
        true => Duration::from_millis(rng.random_range(1..300)),
        false => Duration::ZERO,
    };
    Op::GetBy { path: path.to_owned(), way, kept }
}
