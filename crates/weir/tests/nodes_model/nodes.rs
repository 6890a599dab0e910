//! The nodes: who tells their processes what to do, and what became of it.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::actor::Actor;
use crate::op::{Op, Outcome, Plan, Value, errno};
use crate::sys;

/// What is wrong, and the operations that show it.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) rule: String,
    pub(crate) calls: Vec<Call>,
}

pub(crate) type Held<T = ()> = Result<T, Violation>;

/// A violation of `rule` if it does not hold.
pub(crate) fn hold<'a>(
    holds: bool,
    rule: impl Into<String>,
    calls: impl IntoIterator<Item = &'a Call>,
) -> Held {
    match holds {
        true => Ok(()),
        false => Err(Violation { rule: rule.into(), calls: calls.into_iter().cloned().collect() }),
    }
}

/// How an operation ended, as far as anybody knows.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    Done(Value),
    Failed(i32),
    /// Its node was disturbed: it may have been done, or will be, or not.
    Maybe,
    /// It was not done at all.
    Never,
}

/// An operation of the history.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) node: usize,
    pub(crate) actor: usize,
    pub(crate) op: Op,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) told: Told,
}

impl Call {
    /// What it answered; `None` where its node was disturbed.
    pub(crate) fn value(&self) -> Held<Option<&Value>> {
        match &self.told {
            Told::Done(value) => Ok(Some(value)),
            Told::Maybe | Told::Never => Ok(None),
            Told::Failed(why) => {
                hold(
                    false,
                    format!("an operation that must go well fails: {}", errno(*why)),
                    [self],
                )?;
                Ok(None)
            }
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.told, Told::Done(_))
    }
}

impl Violation {
    /// Times are microseconds since the first of the operations began.
    pub(crate) fn text(&self) -> String {
        let began = self.calls.iter().map(|call| call.start).min().unwrap_or(0);
        let mut text = self.rule.clone();
        for call in &self.calls {
            let (start, end) = ((call.start - began) / 1000, (call.end - began) / 1000);
            let told = match &call.told {
                Told::Done(value) => value.to_string(),
                Told::Failed(why) => errno(*why),
                Told::Maybe => "nobody knows".to_owned(),
                Told::Never => "not done".to_owned(),
            };
            let who = format!("node {}, process {}", call.node, call.actor);
            let _ = write!(text, "\n  {start:>8}..{end:<8} {who}: {} -> {told}", call.op);
        }
        text
    }
}

/// When somebody killed, stopped or cut off nodes, and who: a file with lines `down NODE` and `up NODE`,
/// each written before the act and after what it did is over. `all` is every node.
#[derive(Default)]
pub(crate) struct Disturbances {
    /// Of all nodes where there is no number.
    known: Mutex<Vec<(Option<usize>, u64, u64)>>,
    over: AtomicBool,
}

impl Disturbances {
    /// Watches the file for as long as it is not told that the run is over.
    pub(crate) fn watch(self: &Arc<Self>, file: PathBuf) {
        const BETWEEN: Duration = Duration::from_millis(5);
        let all = self.clone();
        std::thread::spawn(move || {
            let mut read = 0;
            while !all.over.load(Ordering::Relaxed) {
                let text = std::fs::read_to_string(&file).unwrap_or_default();
                let whole = text.rfind('\n').map_or(0, |at| at + 1);
                for line in text.get(read..whole).unwrap_or_default().lines() {
                    all.note(line);
                }
                read = whole;
                sys::pause(BETWEEN);
            }
        });
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    fn note(&self, line: &str) {
        let (what, who) = line.split_once(' ').expect("down NODE, or up NODE");
        let who =
            if who == "all" { None } else { Some(who.parse().expect("the number of a node")) };
        let mut known = self.known.lock().expect("nobody failed");
        match what {
            "down" => known.push((who, sys::now(), u64::MAX)),
            _ => {
                let open = known.iter_mut().rev().find(|(node, ..)| *node == who);
                open.expect("what is up was down").2 = sys::now();
            }
        }
    }

    fn met(&self, node: usize, start: u64, end: u64) -> bool {
        let known = self.known.lock().expect("nobody failed");
        let is_it = |who: &Option<usize>| who.is_none_or(|who| who == node);
        known.iter().any(|(who, from, to)| is_it(who) && start <= *to && end >= *from)
    }

    pub(crate) fn count(&self) -> usize {
        self.known.lock().expect("nobody failed").len()
    }
}

/// What a run is made of.
#[derive(Clone)]
pub(crate) struct Setting {
    /// The test that processes of nodes run.
    pub(crate) entry: String,
    /// The directory of the run on each node.
    pub(crate) roots: Vec<PathBuf>,
    /// Processes of each node.
    pub(crate) each: usize,
    /// The last node misbehaves.
    pub(crate) spoilt: bool,
    pub(crate) disturbances: Arc<Disturbances>,
    pub(crate) counts: Arc<Counts>,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) done: AtomicU64,
    pub(crate) unknown: AtomicU64,
}

/// Processes that work on all nodes, by turns: process 0 is one of node 0, process 1 of node 1.
pub(crate) struct Nodes {
    actors: Vec<Actor>,
    pub(crate) nodes: usize,
    setting: Setting,
    /// When each process opened what it keeps: that is of the mount of then.
    kept_since: Vec<u64>,
}

/// What a dead or cut off mount answers.
const SICK: [i32; 7] = [
    libc::ENOTCONN,
    libc::ECONNABORTED,
    libc::EIO,
    libc::ESTALE,
    libc::ENODEV,
    libc::ETIMEDOUT,
    libc::EHOSTDOWN,
];

impl Nodes {
    pub(crate) fn start(setting: &Setting) -> Self {
        let nodes = setting.roots.len();
        let start = |n: usize| {
            let node = n % nodes;
            let spoilt = setting.spoilt && node == nodes - 1;
            Actor::start(&setting.entry, &setting.roots[node], spoilt)
        };
        let actors: Vec<_> = (0..nodes * setting.each).map(start).collect();
        let kept_since = vec![0; actors.len()];
        Self { actors, nodes, setting: setting.clone(), kept_since }
    }

    pub(crate) fn actors(&self) -> usize {
        self.actors.len()
    }

    /// Has each process do its plan, all at once, and tells what came of it in the order of starts.
    pub(crate) fn run(&mut self, plans: Vec<Vec<(Duration, Op)>>) -> Held<Vec<Call>> {
        const TO_BEGIN: u64 = 2_000_000;
        let begin = sys::now() + TO_BEGIN;
        let busy = |plan: &Vec<(Duration, Op)>| !plan.is_empty();
        for (n, ops) in plans.iter().enumerate().filter(|(_, plan)| busy(plan)) {
            self.actors[n].tell(&Plan { begin, ops: ops.clone() });
        }
        let mut calls = Vec::new();
        // All answers are taken before any is judged: none is left for the next run.
        for (actor, ops) in plans.into_iter().enumerate().filter(|(_, plan)| busy(plan)) {
            let node = actor % self.nodes;
            let answers = match self.actors[actor].answers() {
                Ok(answers) => answers,
                Err(why) => {
                    let each: Vec<_> = ops.iter().map(|(_, op)| op.to_string()).collect();
                    let each = each.join("\n  ");
                    panic!("node {node}, process {actor}: {why}. It was to do\n  {each}");
                }
            };
            for ((_, op), answer) in ops.into_iter().zip(answers) {
                let (start, end) = (answer.start, answer.end);
                let since = match op {
                    Op::ReadHeld { .. } | Op::WriteHeld { .. } => self.kept_since[actor],
                    _ => start,
                };
                if matches!(op, Op::Hold(_)) {
                    self.kept_since[actor] = start;
                }
                let told = self.told(node, since, end, answer.outcome);
                calls.push(Call { node, actor, op, start, end, told });
            }
        }
        calls.sort_by_key(|call| call.start);
        let is_sick = |call: &&Call| match call.told {
            // The model of names knows when the kernel says so.
            Told::Failed(libc::ESTALE) => !call.op.is_of_names(),
            Told::Failed(why) => SICK.contains(&why),
            _ => false,
        };
        if let Some(sick) = calls.iter().find(is_sick) {
            let rule = format!("nothing disturbs node {}, and it fails: {}", sick.node, sick.op);
            return hold(false, rule, &calls).map(|()| Vec::new());
        }
        Ok(calls)
    }

    fn told(&self, node: usize, start: u64, end: u64, outcome: Outcome) -> Told {
        self.setting.counts.done.fetch_add(1, Ordering::Relaxed);
        let met = || {
            // What is written down just now is read soon.
            (0..20).any(|n| {
                sys::pause(Duration::from_millis(if n == 0 { 0 } else { 5 }));
                self.setting.disturbances.met(node, start, end)
            })
        };
        let (told, why) = match outcome {
            Outcome::Done(Value::Turns { held, failed: Some(why) }) => {
                // What was counted before counts.
                if SICK.contains(&why) && met() {
                    self.setting.counts.unknown.fetch_add(1, Ordering::Relaxed);
                    return Told::Done(Value::Turns { held, failed: None });
                }
                return Told::Failed(why);
            }
            Outcome::Done(value) => return Told::Done(value),
            Outcome::Failed(why) => (Told::Maybe, why),
            Outcome::Away(why) => (Told::Never, why),
        };
        let away = matches!(told, Told::Never);
        if (away || SICK.contains(&why)) && met() {
            self.setting.counts.unknown.fetch_add(1, Ordering::Relaxed);
            return told;
        }
        Told::Failed(why)
    }

    /// One process does one thing. Again and again where its node is disturbed, so `op` must be one
    /// that may be done twice.
    pub(crate) fn one(&mut self, actor: usize, op: Op) -> Held<Call> {
        const PATIENCE: Duration = Duration::from_secs(120);
        let began = Instant::now();
        loop {
            let mut plans = vec![Vec::new(); self.actors()];
            plans[actor] = vec![(Duration::ZERO, op.clone())];
            let call = self.run(plans)?.remove(0);
            match call.told {
                Told::Maybe | Told::Never if began.elapsed() < PATIENCE => {
                    sys::pause(Duration::from_millis(100));
                }
                Told::Maybe | Told::Never => {
                    let rule = format!("a node is not back after {} s", PATIENCE.as_secs());
                    return Err(Violation { rule, calls: vec![call] });
                }
                _ => return Ok(call),
            }
        }
    }

    /// The same, and it must go well.
    pub(crate) fn must(&mut self, actor: usize, op: Op) -> Held<Call> {
        let call = self.one(actor, op)?;
        call.value()?;
        Ok(call)
    }

    /// Makes a directory, which all nodes then see, and waits until all nodes are there.
    pub(crate) fn make_dir(&mut self, actor: usize, dir: &str) -> Held {
        let made = self.one(actor, Op::Mkdir(dir.to_owned()))?;
        let again = matches!(made.told, Told::Failed(libc::EEXIST));
        hold(again || made.is_done(), "a directory cannot be made", [&made])?;
        for actor in 0..self.actors() {
            let seen = self.one(actor, Op::Look(dir.to_owned()))?;
            hold(
                seen.is_done(),
                "a directory is there for all when mkdir returned",
                [&made, &seen],
            )?;
        }
        Ok(())
    }

    /// Removes it with all that is in it, and no node sees it any more.
    pub(crate) fn remove_dir(&mut self, actor: usize, dir: &str) -> Held {
        let removed = self.one(actor, Op::Clear(dir.to_owned()))?;
        let again = matches!(removed.told, Told::Failed(libc::ENOENT));
        hold(again || removed.is_done(), "a directory can be emptied and removed", [&removed])?;
        for actor in 0..self.nodes {
            let seen = self.one(actor, Op::Look(dir.to_owned()))?;
            let gone = matches!(seen.told, Told::Failed(libc::ENOENT));
            hold(gone, "what was removed is there for none", [&removed, &seen])?;
        }
        Ok(())
    }
}
