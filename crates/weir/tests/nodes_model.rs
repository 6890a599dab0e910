//! Nodes that all write one volume, held against what is promised of them.
//!
//! Processes of each node work in its directory, all at once; what each did is written down with its
//! start and its end on one clock, and held against these rules:
//!
//! - *names*: creating (`O_EXCL`), `mkdir`, `link`, `rename` (replacing, with `RENAME_NOREPLACE`,
//!   `RENAME_EXCHANGE`), `unlink` and `rmdir` are linearizable: one order of them explains what each was
//!   told, and in it each has its place between its start and its end. `tree.rs` says which moments an
//!   operation has. When all have ended all nodes have the same tree. *looks* is the same with `stat`
//!   and listings between them.
//! - *registers*: close-to-open. An `open` that began after the `close` (or `fsync`) of a write returned
//!   reads that write and has its size, and so does `stat`; of writes at the same time one is left, of
//!   those with `O_TRUNC` a part of each may be.
//! - *lent*: the same of larger files, read in several ways, also by who keeps them open and mapped.
//! - *ranges*: pages of one large file that nodes write at the same time, each its own, are all there
//!   when all have closed.
//! - *appends*: records (`O_APPEND`, one `write` each) are there once, whole, those of one process in
//!   order, and before an open that began after the close.
//! - *locks*: of `fcntl` and `flock`, of files and of 8 bytes of a page, shared and exclusive, waiting
//!   and not. Nobody has one while another has what excludes it, and who has one sees what was written
//!   under it before. Nobody is refused what nobody has.
//! - *unlinked*: a file that one node removes or replaces is read and written on by who has it open.
//! - *handover*: a file that is written, cut and grown on one node after the other is on each as the one
//!   before closed it, and zeros where nobody wrote.
//! - And always: what was closed stays; what is made or removed is there for all, or gone, at once; no
//!   operation fails that must not.
//!
//! `WEIR_NODES=/mnt/a:/mnt/b` are the nodes' directories, all of one volume. Without it only the checker
//! itself is tested: on a local directory that is two nodes, and with one that misbehaves. Then
//! `WEIR_SECONDS` (10) is how long it takes, `WEIR_SEED` repeats what was chosen (not how it met),
//! `WEIR_KINDS=names,locks` are some of the rules, `WEIR_PROCESSES` (2) work on each node.
//! `WEIR_SYNC=1` has each close be after an `fsync`, for runs in which nodes are shut out.
//! `WEIR_DISTURBANCES=FILE` says who is disturbed when, by lines `down NODE` before a node is killed,
//! stopped or cut off, and `up NODE` when it works again; `all` is all nodes. Operations of a node that
//! met that may have failed, and then nobody knows whether they were done, or will be.
#![allow(missing_docs, unreachable_pub, reason = "tests say what they hold by their names")]
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

#[path = "nodes_model/actor.rs"]
mod actor;
#[path = "nodes_model/appends.rs"]
mod appends;
#[path = "nodes_model/content.rs"]
mod content;
#[path = "nodes_model/handover.rs"]
mod handover;
#[path = "nodes_model/kept.rs"]
mod kept;
#[path = "nodes_model/lent.rs"]
mod lent;
#[path = "nodes_model/linear.rs"]
mod linear;
#[path = "nodes_model/locks.rs"]
mod locks;
#[path = "nodes_model/names.rs"]
mod names;
#[path = "nodes_model/nodes.rs"]
mod nodes;
#[path = "nodes_model/op.rs"]
mod op;
#[path = "nodes_model/perform.rs"]
mod perform;
#[path = "nodes_model/ranges.rs"]
mod ranges;
#[path = "nodes_model/registers.rs"]
mod registers;
#[path = "nodes_model/spoilt.rs"]
mod spoilt;
#[path = "nodes_model/sys.rs"]
mod sys;
#[path = "nodes_model/tree.rs"]
mod tree;
#[path = "nodes_model/unlinked.rs"]
mod unlinked;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kept::Kept;
use nodes::{Disturbances, Held, Nodes, Setting};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

type Round = fn(&mut Nodes, &mut StdRng, &str) -> Held;

/// Kinds that go one after the other. `unlinked` takes its time, and goes beside them.
const KINDS: [(&str, Round); 8] = [
    ("names", names::changes),
    ("looks", names::looks),
    ("registers", registers::round),
    ("lent", lent::round),
    ("ranges", ranges::round),
    ("appends", appends::round),
    ("locks", locks::round),
    ("handover", handover::round),
];
const UNLINKED: &str = "unlinked";

/// The test that processes of nodes run.
const ENTRY: &str = "process_of_a_node";

struct Run {
    seed: u64,
    time: Duration,
    kinds: Vec<String>,
    setting: Setting,
}

/// What a run found: rounds of each kind, and what is wrong.
#[derive(Default)]
struct Found {
    rounds: BTreeMap<String, u64>,
    wrong: BTreeMap<String, String>,
}

impl Run {
    /// In these directories, of which the first is where the run's directory is made.
    fn new(seed: u64, time: Duration, directories: &[PathBuf]) -> Self {
        let name = format!("model-{seed}");
        std::fs::create_dir(directories[0].join(&name)).expect("a directory for the run");
        let roots = directories.iter().map(|directory| directory.join(&name)).collect();
        let (disturbances, counts) = Default::default();
        let entry = ENTRY.to_owned();
        let setting = Setting { entry, roots, each: 2, spoilt: false, disturbances, counts };
        let kinds =
            KINDS.iter().map(|(kind, _)| *kind).chain([UNLINKED]).map(str::to_owned).collect();
        Self { seed, time, kinds, setting }
    }

    fn go(&self) -> Found {
        std::thread::scope(|scope| {
            let beside = scope.spawn(|| self.unlinked());
            let mut found = self.by_turns();
            let beside = beside.join().unwrap_or_else(|why| std::panic::resume_unwind(why));
            found.rounds.extend(beside.rounds);
            found.wrong.extend(beside.wrong);
            found
        })
    }

    /// Each kind once at least, however slow the machine is. One that was found wrong is not looked at again.
    fn by_turns(&self) -> Found {
        let began = Instant::now();
        let mut rng = StdRng::seed_from_u64(self.seed);
        let mut nodes = Nodes::start(&self.setting);
        let (mut found, mut kept, mut number) = (Found::default(), Kept::default(), 0);
        let mut kinds: Vec<_> = KINDS.iter().filter(|(kind, _)| self.has(kind)).collect();
        let first = kinds.len();
        while (began.elapsed() < self.time || number < first) && !kinds.is_empty() {
            let chosen =
                if number < kinds.len() { number } else { rng.random_range(0..kinds.len()) };
            let (kind, round) = *kinds[chosen];
            let held = round(&mut nodes, &mut rng, &format!("{kind}-{number}"));
            *found.rounds.entry(kind.to_owned()).or_default() += 1;
            if found.note(kind, number, held) {
                kinds.remove(chosen);
            }
            if !found.wrong.contains_key("kept") {
                let held = kept.round(&mut nodes, &mut rng);
                found.note("kept", number, held);
            }
            number += 1;
        }
        if !found.wrong.contains_key("kept") {
            let held = kept.check(&mut nodes);
            found.note("kept", number, held);
        }
        found
    }

    fn unlinked(&self) -> Found {
        let (began, mut found) = (Instant::now(), Found::default());
        if !self.has(UNLINKED) {
            return found;
        }
        let mut rng = StdRng::seed_from_u64(self.seed ^ 1);
        let mut nodes = Nodes::start(&Setting { each: 1, ..self.setting.clone() });
        let mut number = 0;
        while began.elapsed() < self.time && found.wrong.is_empty() {
            let dir = format!("{UNLINKED}-{number}");
            let held = unlinked::round(&mut nodes, &mut rng, &dir, self.time.as_secs());
            found.note(UNLINKED, number, held);
            number += 1;
            found.rounds.insert(UNLINKED.to_owned(), number as u64);
        }
        found
    }

    fn has(&self, kind: &str) -> bool {
        self.kinds.iter().any(|of| of == kind)
    }

    /// Takes away what was made.
    fn clean(&self) {
        std::fs::remove_dir_all(&self.setting.roots[0]).expect("what was made can be removed");
    }
}

impl Found {
    /// Whether it is wrong.
    fn note(&mut self, kind: &str, round: usize, held: Held) -> bool {
        let Err(violation) = held else { return false };
        let text = format!("{kind}, round {round}: {}", violation.text());
        eprintln!("{text}");
        self.wrong.insert(kind.to_owned(), text);
        true
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
#[ignore = "WEIR_NODES must name directories of a volume: the case nodes-model runs it"]
fn nodes() {
    let directories =
        std::env::var("WEIR_NODES").expect("WEIR_NODES=/mnt/a:/mnt/b: nothing is tested");
    let directories: Vec<_> = directories.split(':').map(PathBuf::from).collect();
    assert!(directories.len() > 1, "WEIR_NODES names two directories or more");
    let seed = number("WEIR_SEED").unwrap_or_else(|| rand::random_range(1..1 << 40));
    eprintln!("WEIR_SEED={seed}");
    let seconds = number("WEIR_SECONDS").unwrap_or(10);
    let mut run = Run::new(seed, Duration::from_secs(seconds), &directories);
    run.setting.each = number("WEIR_PROCESSES").unwrap_or(2) as usize;
    if let Ok(kinds) = std::env::var("WEIR_KINDS") {
        let known =
            std::mem::replace(&mut run.kinds, kinds.split(',').map(str::to_owned).collect());
        let strange: Vec<_> = run.kinds.iter().filter(|kind| !known.contains(kind)).collect();
        assert!(strange.is_empty(), "WEIR_KINDS has {strange:?}, which is none of {known:?}");
    }
    let disturbances = Arc::<Disturbances>::default();
    if let Some(file) = std::env::var_os("WEIR_DISTURBANCES") {
        disturbances.watch(file.into());
    }
    run.setting.disturbances = disturbances.clone();
    let found = run.go();
    disturbances.end();
    let counts = &run.setting.counts;
    let (done, unknown) =
        (counts.done.load(Ordering::Relaxed), counts.unknown.load(Ordering::Relaxed));
    eprintln!("rounds: {:?}", found.rounds);
    let disturbed = disturbances.count();
    eprintln!("{done} operations or turns of plans, {unknown} cut off by {disturbed} disturbances");
    let wrong: Vec<_> = found.wrong.values().map(String::as_str).collect();
    assert!(wrong.is_empty(), "WEIR_SEED={seed}: {} kinds fail\n{}", wrong.len(), wrong.join("\n"));
    let missed: Vec<_> =
        run.kinds.iter().filter(|kind| !found.rounds.contains_key(*kind)).collect();
    assert!(missed.is_empty(), "there was no time for {missed:?}");
    // One node of three is away for half of a short run, and what it fails at, it fails at quickly.
    assert!(unknown * 4 <= done * 3, "too much was cut off for this to say anything");
    run.clean();
}

#[test]
#[ignore = "the others run it"]
fn process_of_a_node() {
    actor::serve();
}

#[test]
fn a_local_directory_that_is_two_nodes_holds_all_rules() {
    let directory = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let other = other.path().join("link");
    std::os::unix::fs::symlink(directory.path(), &other).unwrap();
    let seed = number("WEIR_SEED").unwrap_or_else(|| rand::random_range(1..1 << 40));
    eprintln!("WEIR_SEED={seed}");
    let directories = [directory.path().to_owned(), other];
    let run = Run::new(seed, Duration::from_secs(4), &directories);
    let found = run.go();
    assert!(found.wrong.is_empty(), "WEIR_SEED={seed}: {:?}", found.wrong.keys());
    assert_eq!(found.rounds.len(), run.kinds.len());
}

#[test]
fn a_node_that_misbehaves_is_found_by_each_kind() {
    let directory = tempfile::tempdir().unwrap();
    let directories = [directory.path().to_owned(), directory.path().to_owned()];
    let mut run = Run::new(1, Duration::from_secs(20), &directories);
    run.setting.spoilt = true;
    let found = run.go();
    let not_found: Vec<_> =
        run.kinds.iter().filter(|kind| !found.wrong.contains_key(*kind)).collect();
    assert!(not_found.is_empty(), "nothing is wrong with {not_found:?}");
}
