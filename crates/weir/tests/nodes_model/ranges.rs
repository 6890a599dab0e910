//! Large files of which each process writes pages of its own, all at the same time: when all have
//! closed all nodes read all of it.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::content::{ALIEN, PAGE, Run, Tag, WORD, ZERO, in_runs, tags_of};
use crate::nodes::{Call, Held, Nodes, Told, hold};
use crate::op::{Op, Value};

/// What was there before.
const OLD: Tag = 1;
/// The first process's.
const FIRST: Tag = 100;

pub(crate) fn round(nodes: &mut Nodes, rng: &mut StdRng, dir: &str) -> Held {
    nodes.make_dir(rng.random_range(0..nodes.actors()), dir)?;
    let path = format!("{dir}/large");
    let pages = rng.random_range(600..1600_u64);
    // A new one grows while they write.
    let old = if rng.random() { rng.random_range(1..=pages * PAGE) } else { 0 };
    let begin = Op::Put { path: path.clone(), tag: OLD, words: old, cut: true, held: None };
    let mut calls = vec![nodes.must(rng.random_range(0..nodes.actors()), begin)?];
    let owners = owners(rng, pages, nodes.actors());
    let plans = (0..nodes.actors()).map(|actor| {
        let parts = parts(rng, &owners, actor);
        let tag = FIRST + actor as Tag;
        // In one go, or closed and opened between.
        let each = if rng.random() { parts.len().max(1) } else { parts.len() / 3 + 1 };
        let write = |parts: &[_]| {
            let (path, parts, sync) = (path.clone(), parts.to_vec(), rng.random_bool(0.2));
            (Duration::from_millis(rng.random_range(0..3)), Op::Write { path, tag, parts, sync })
        };
        parts.chunks(each).map(write).collect()
    });
    let plans = plans.collect();
    calls.extend(nodes.run(plans)?);
    for node in 0..nodes.nodes {
        calls.push(nodes.must(node, Op::Get(path.clone()))?);
        calls.push(nodes.must(node, Op::Look(path.clone()))?);
    }
    check(&calls, &owners, old)?;
    nodes.remove_dir(rng.random_range(0..nodes.actors()), dir)
}

/// Whose each page is: by turns, or in pieces.
fn owners(rng: &mut StdRng, pages: u64, actors: usize) -> Vec<usize> {
    let mut owners = Vec::new();
    let most = [1, 7, 300][rng.random_range(0..3)];
    while (owners.len() as u64) < pages {
        let owner = rng.random_range(0..actors);
        owners.extend(std::iter::repeat_n(owner, rng.random_range(1..=most)));
    }
    owners.truncate(pages as usize);
    owners
}

/// Parts of one owner as (word, words), in their order or in none.
fn parts(rng: &mut StdRng, owners: &[usize], actor: usize) -> Vec<(u64, u64)> {
    let mut parts: Vec<(u64, u64)> = Vec::new();
    for page in (0..owners.len()).filter(|page| owners[*page] == actor) {
        let at = page as u64 * PAGE;
        match parts.last_mut() {
            Some(last) if last.0 + last.1 == at => last.1 += PAGE,
            _ => parts.push((at, PAGE)),
        }
    }
    if rng.random() {
        parts.shuffle(rng);
    }
    parts
}

fn check(calls: &[Call], owners: &[usize], old: u64) -> Held {
    // Words of operations of which nobody knows.
    let mut unsure = vec![false; owners.len()];
    for call in calls {
        if let (Op::Write { parts, .. }, Told::Maybe | Told::Never) = (&call.op, &call.told) {
            let pages = parts.iter().flat_map(|(at, words)| at / PAGE..(at + words) / PAGE);
            pages.for_each(|page| unsure[page as usize] = true);
        }
        call.value()?;
    }
    let all = owners.len() as u64 * PAGE;
    let sure_until =
        unsure.iter().rposition(|unsure| !unsure).map_or(0, |page| page as u64 + 1) * PAGE;
    let least = sure_until.max(old);
    let writes = |call: &&Call| !matches!(call.op, Op::Get(_) | Op::Look(_));
    for call in calls {
        let shown = || calls.iter().filter(writes).chain([call]);
        let size = match call.value()? {
            Some(Value::Content { size, runs }) => {
                if let Some((word, tag)) = first_wrong(runs, owners, &unsure, old) {
                    let (page, of) = (word / PAGE, FIRST + owners[(word / PAGE) as usize] as Tag);
                    let rule = format!(
                        "what each wrote is there when all have closed: page {page} is to be #{of}, \
                         and its word {} is {}",
                        word % PAGE,
                        crate::content::told(&[Run { tag, words: 1 }]),
                    );
                    return hold(false, rule, shown());
                }
                *size
            }
            Some(Value::Leaves(leaves)) => leaves[0].size,
            _ => continue,
        };
        let is_right = size >= least * WORD && size <= all * WORD;
        let rule = format!("the file is as long as what was written, {}", all * WORD);
        hold(is_right, rule, shown())?;
    }
    Ok(())
}

/// The first word that is not what it must be, and whose it is.
fn first_wrong(runs: &[Run], owners: &[usize], unsure: &[bool], old: u64) -> Option<(u64, Tag)> {
    for (at, tag) in tags_of(runs).enumerate() {
        let at = at as u64;
        let page = (at / PAGE) as usize;
        let before = if at < old { OLD } else { ZERO };
        let Some(owner) = owners.get(page) else { return Some((at, ALIEN)) };
        if tag != FIRST + *owner as Tag && !(unsure[page] && tag == before) {
            return Some((at, tag));
        }
    }
    None
}

#[test]
fn a_word_that_is_not_its_owners_is_found() {
    let owners = [0, 1, 0];
    let of = |tags: [Tag; 3]| {
        in_runs(tags.iter().flat_map(|tag| std::iter::repeat_n(*tag, PAGE as usize)))
    };
    let wrong = |tags, unsure: [bool; 3]| first_wrong(&of(tags), &owners, &unsure, PAGE);
    let sure = [false; 3];
    assert_eq!(wrong([FIRST, FIRST + 1, FIRST], sure), None);
    assert_eq!(wrong([FIRST, FIRST, FIRST], sure), Some((PAGE, FIRST)));
    assert_eq!(wrong([OLD, FIRST + 1, FIRST], sure), Some((0, OLD)));
    assert_eq!(wrong([OLD, FIRST + 1, ZERO], [true; 3]), None);
    assert_eq!(wrong([FIRST, OLD, FIRST], [true; 3]), Some((PAGE, OLD)));
}
