//! Close-to-open: small files that are written as a whole, read and looked at by all nodes.
//!
//! A read may have what was written by any write that began before the read ended and that no other one
//! came after: none that began when this one was over, and was over when the read began. Where that
//! leaves one write, the read has exactly that, and the file has its size. Where several are left, each
//! page is of one of them; beside a write, each word.
//!
//! A page that somebody stores to through a mapping leaves as a whole: as long as that goes on, others may find in it
//! what its node had there when it began.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::content::{PAGE, Run, Tag, WORD, ZERO, in_runs, tags_of};
use crate::nodes::{Call, Held, Nodes, Told, hold};
use crate::op::{Op, Value};

/// How files of a round are written.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    /// `pwrite` of so many words, always.
    Whole(u64),
    /// `O_TRUNC`, and up to so many words.
    Anew(u64),
}

pub(crate) fn round(nodes: &mut Nodes, rng: &mut StdRng, dir: &str) -> Held {
    nodes.make_dir(rng.random_range(0..nodes.actors()), dir)?;
    let styles = [
        Style::Whole(40),
        Style::Whole(PAGE),
        Style::Whole(3 * PAGE),
        Style::Anew(PAGE),
        Style::Anew(2 * PAGE),
    ];
    // All at one file, without a pause, so that an open meets a close that is underway.
    let is_hot = rng.random_bool(0.4);
    let files: Vec<_> = (0..if is_hot { 1 } else { rng.random_range(1..4) })
        .map(|n| (format!("{dir}/f{n}"), styles[rng.random_range(0..styles.len())]))
        .collect();
    let mut tag = 0;
    let mut calls = Vec::new();
    for (path, style) in &files {
        let actor = rng.random_range(0..nodes.actors());
        calls.push(nodes.must(actor, put(rng, path, *style, &mut tag))?);
    }
    let plans = (0..nodes.actors())
        .map(|_| {
            let count = rng.random_range(2..8);
            (0..count)
                .map(|_| {
                    let (path, style) = &files[rng.random_range(0..files.len())];
                    let op = match rng.random_range(0..100) {
                        0..45 => put(rng, path, *style, &mut tag),
                        45..85 => Op::Get(path.clone()),
                        _ => Op::Look(path.clone()),
                    };
                    (if is_hot { Duration::ZERO } else { pause(rng) }, op)
                })
                .collect()
        })
        .collect();
    calls.extend(nodes.run(plans)?);
    // When all is over all read the same, by whatever process.
    for (path, _) in &files {
        let last = read_by_all(nodes, &calls, path)?;
        agree(&calls, &last, path)?;
        calls.extend(last);
    }
    for (path, style) in &files {
        check(&calls, path, *style)?;
    }
    nodes.remove_dir(rng.random_range(0..nodes.actors()), dir)
}

pub(crate) fn put(rng: &mut StdRng, path: &str, style: Style, tag: &mut Tag) -> Op {
    *tag += 1;
    let (cut, words) = match style {
        Style::Whole(words) => (false, words),
        Style::Anew(most) => (true, rng.random_range(1..=most)),
    };
    let held = rng.random_bool(0.3).then(|| Duration::from_millis(rng.random_range(0..40)));
    Op::Put { path: path.to_owned(), tag: *tag, words, cut, held }
}

pub(crate) fn pause(rng: &mut StdRng) -> Duration {
    match rng.random_range(0..3) {
        0 => Duration::ZERO,
        1 => Duration::from_millis(rng.random_range(0..6)),
        _ => Duration::from_millis(rng.random_range(0..60)),
    }
}

/// What each process reads of a file. What a disturbed node may have of it yet comes before that: it is there again
/// once its processes have read the file, too.
pub(crate) fn read_by_all(nodes: &mut Nodes, calls: &[Call], path: &str) -> Held<Vec<Call>> {
    let mut read = || -> Held<Vec<Call>> {
        (0..nodes.actors()).map(|actor| nodes.must(actor, Op::Get(path.to_owned()))).collect()
    };
    if calls.iter().any(|call| matches!(call.told, Told::Maybe) && of(call) == Some(path)) {
        read()?;
    }
    read()
}

pub(crate) fn agree(calls: &[Call], last: &[Call], path: &str) -> Held {
    let content = |call: &Call| match &call.told {
        Told::Done(value) => Some(value.clone()),
        _ => None,
    };
    let same = last.iter().all(|call| content(call) == content(&last[0]));
    let history = calls.iter().filter(|call| of(call) == Some(path)).chain(last);
    hold(same, "when all writers have closed all nodes read the same", history)
}

fn of(call: &Call) -> Option<&str> {
    match &call.op {
        Op::Put { path, .. } | Op::PutMapped { path, .. } => Some(path),
        Op::Get(path) | Op::GetBy { path, .. } | Op::Look(path) => Some(path),
        _ => None,
    }
}

/// A write: when it was, whose it is, how long it is.
struct Put<'a> {
    start: u64,
    end: u64,
    tag: Tag,
    words: u64,
    call: &'a Call,
}

impl Put<'_> {
    /// It stores through a mapping, word by word.
    fn is_mapped(&self) -> bool {
        matches!(self.call.op, Op::PutMapped { .. })
    }
}

pub(crate) fn check(calls: &[Call], path: &str, style: Style) -> Held {
    let here = || calls.iter().filter(|call| of(call) == Some(path));
    let puts: Vec<_> = here()
        .filter_map(|call| match (&call.op, &call.told) {
            (_, Told::Never | Told::Failed(_)) => None,
            (Op::Put { tag, words, .. } | Op::PutMapped { tag, words, .. }, told) => {
                let end = if matches!(told, Told::Maybe) { u64::MAX } else { call.end };
                Some(Put { start: call.start, end, tag: *tag, words: *words, call })
            }
            _ => None,
        })
        .collect();
    for call in here() {
        let Some(value) = call.value()? else { continue };
        let may: Vec<_> = puts.iter().filter(|put| may_see(put, &puts, call)).collect();
        let shown = || {
            let more = puts.iter().filter(|put| put.start < call.end && !may_see(put, &puts, call));
            // Of those that are over, the last ones are enough.
            let over = more.map(|put| put.call).collect::<Vec<_>>();
            let first = over.len().saturating_sub(4);
            over.into_iter().skip(first).chain(may.iter().map(|put| put.call)).chain([call])
        };
        match value {
            Value::Content { size, runs } => {
                let is_beside = puts.iter().any(|put| put.start < call.end && put.end > call.start);
                let rule = read_rule(&may, *size, runs, style, is_beside);
                hold(rule.is_none(), rule.unwrap_or_default(), shown())?;
            }
            Value::Leaves(leaves) => {
                let sizes: Vec<_> = may.iter().map(|put| put.words * WORD).collect();
                let size = leaves[0].size;
                let is_short = matches!(style, Style::Anew(_)) && sizes.len() > 1;
                let is_one = sizes.iter().any(|may| *may == size || is_short && size < *may);
                hold(is_one, "stat after a close tells the size", shown())?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a look may show this write.
fn may_see(put: &Put<'_>, puts: &[Put<'_>], call: &Call) -> bool {
    let may_since = |start| !puts.iter().any(|other| other.start > put.end && other.end < start);
    let stores =
        |other: &&Put<'_>| other.is_mapped() && other.start < call.end && other.end > call.start;
    put.start < call.end
        && (may_since(call.start) || puts.iter().filter(stores).any(|store| may_since(store.start)))
}

/// The rule that what was read violates.
fn read_rule(
    may: &[&Put<'_>],
    size: u64,
    runs: &[Run],
    style: Style,
    is_beside: bool,
) -> Option<String> {
    let known = |tag: Tag| may.iter().any(|put| put.tag == tag);
    let words: u64 = runs.iter().map(|run| run.words).sum();
    let most = may.iter().map(|put| put.words).max().unwrap_or(0);
    if let [only] = may {
        let want = [Run { tag: only.tag, words: only.words }];
        let is_it = runs == want && size == only.words * WORD;
        return (!is_it).then(|| {
            format!("an open after the close of write #{} reads that, and has its size", only.tag)
        });
    }
    if words > most || size > most * WORD {
        return Some("a file is not longer than what was written".to_owned());
    }
    let may_be_zero = matches!(style, Style::Anew(_));
    if let Some(run) = runs.iter().find(|run| !(known(run.tag) || may_be_zero && run.tag == ZERO)) {
        return Some(format!(
            "a read has no word that was superseded when it began (#{})",
            run.tag
        ));
    }
    let Style::Whole(whole) = style else { return None };
    if words != whole || size != whole * WORD {
        return Some("a file that is written over keeps its size".to_owned());
    }
    let tags: Vec<_> = tags_of(runs).collect();
    let is_torn = tags.chunks(PAGE as usize).any(|page| in_runs(page.iter().copied()).len() > 1);
    // A store through a mapping is one of a word.
    (is_torn && !is_beside && !may.iter().any(|put| put.is_mapped()))
        .then(|| "a page is of one write, when all writers have closed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(start: u64, end: u64, tag: Tag) -> Call {
        let op = Op::Put { path: "f".to_owned(), tag, words: 40, cut: false, held: None };
        Call { node: 0, actor: 0, op, start, end, told: Told::Done(Value::Nothing) }
    }

    fn read(start: u64, end: u64, tags: &[(Tag, u64)]) -> Call {
        let runs: Vec<_> =
            tags.iter().map(|(tag, words)| Run { tag: *tag, words: *words }).collect();
        let size = WORD * runs.iter().map(|run| run.words).sum::<u64>();
        let told = Told::Done(Value::Content { size, runs });
        Call { node: 1, actor: 1, op: Op::Get("f".to_owned()), start, end, told }
    }

    fn holds(calls: &[Call]) -> bool {
        check(calls, "f", Style::Whole(40)).is_ok()
    }

    #[test]
    fn a_read_has_the_last_write_that_was_closed_before_it() {
        let writes = [write(0, 10, 1), write(20, 30, 2)];
        let with = |read| [writes[0].clone(), writes[1].clone(), read];
        assert!(holds(&with(read(31, 32, &[(2, 40)]))));
        assert!(!holds(&with(read(31, 32, &[(1, 40)]))));
        assert!(!holds(&with(read(31, 32, &[(2, 20)]))));
        assert!(!holds(&with(read(31, 32, &[(2, 20), (1, 20)]))));
        // Beside the second write both are right, in parts too.
        assert!(holds(&with(read(25, 32, &[(1, 40)]))));
        assert!(holds(&with(read(25, 32, &[(2, 20), (1, 20)]))));
        assert!(!holds(&with(read(15, 16, &[(2, 40)]))));
    }

    #[test]
    fn beside_a_store_through_a_mapping_there_may_be_what_was_there_when_that_began() {
        let op = Op::PutMapped { path: "f".to_owned(), tag: 2, words: 40 };
        let store = Call { op, ..write(20, 60, 2) };
        let with = |first: Call, read| [first, store.clone(), write(30, 40, 3), read];
        let mixed = |start, end| read(start, end, &[(1, 8), (2, 10), (3, 22)]);
        assert!(holds(&with(write(0, 10, 1), mixed(50, 55))));
        assert!(holds(&with(write(0, 25, 1), mixed(50, 55))), "that was under way");
        assert!(!holds(&with(write(0, 10, 1), mixed(61, 65))), "it is over");
        // Nor was that there any more.
        let later = [write(0, 5, 1), write(6, 10, 4), store.clone(), mixed(50, 55)];
        assert!(!holds(&later));
    }

    #[test]
    fn of_writes_at_the_same_time_one_is_left() {
        let with = |read| [write(0, 10, 1), write(20, 30, 2), write(25, 40, 3), read];
        assert!(holds(&with(read(41, 42, &[(2, 40)]))));
        assert!(holds(&with(read(41, 42, &[(3, 40)]))));
        assert!(!holds(&with(read(41, 42, &[(1, 40)]))));
        assert!(!holds(&with(read(41, 42, &[(2, 20), (3, 20)]))));
        assert!(!holds(&with(read(41, 42, &[(ZERO, 40)]))));
    }
}
