//! `weir bench --suite bucket`: what a bucket gives, without a file system above it.

use std::path::PathBuf;

use weir_bench::announce::{Announcement, OnTarget};
use weir_bench::report::{Report, SCHEMA, Size, TargetFacts};
use weir_bench::suite::Stop;
use weir_bench::{machine, runner, timing};
use weir_cost::{PriceBook, Requests, Usage, so_far};
use weir_engine::{BucketUrl, ConnectOptions};
use weir_types::{ErrorKind, FsError, NanoUsd, Result};

use super::requests::{NAME, OBJECT_BYTES, PAGE_BYTES, PHASES, Phase, Plan, RECORD_BYTES, Run};
use super::shown::Shown;
use crate::buckets;
use crate::cli::BenchRunArgs;

/// Requests at once, if nobody says: one, and as many as a mount has when it is busy.
const COPIES: [u32; 2] = [1, 16];
/// So that a phase that gets no answer ends in time.
const TIMEOUT_MS: u64 = 30_000;

/// What was asked for.
pub(super) struct Buckets {
    urls: Vec<BucketUrl>,
    endpoint: Option<String>,
    region: String,
    size: Size,
    plan: Plan,
    repeats: u32,
    copies: Vec<u32>,
    seed: u64,
}

/// The buckets, if it is they that are to be measured.
pub(super) fn asked(args: &BenchRunArgs, size: Size) -> Result<Option<Buckets>> {
    let invalid = |text: &str| Err(FsError::new(ErrorKind::Invalid, text));
    let urls = args.paths.iter().filter(|path| path.to_string_lossy().contains("://")).count();
    let named = args.suite.iter().any(|suite| suite == NAME);
    match (named, urls) {
        (false, 0) => return Ok(None),
        (false, _) => {
            return invalid("a URL is measured by `--suite bucket`; others take directories");
        }
        (true, _) if args.suite.len() > 1 => {
            return invalid(
                "the suite `bucket` takes URLs, and all others directories: run it alone",
            );
        }
        (true, _) if urls < args.paths.len() => {
            return invalid("the suite `bucket` takes URLs, such as s3://my-bucket/somewhere");
        }
        (true, _) => {}
    }
    let urls = args.paths.iter().map(|path| path.to_string_lossy().parse());
    let mut copies = if args.copies.is_empty() { COPIES.to_vec() } else { args.copies.clone() };
    copies.sort_unstable();
    copies.dedup();
    Ok(Some(Buckets {
        urls: urls.collect::<Result<_>>()?,
        endpoint: args.endpoint.clone(),
        region: args.region.clone(),
        size,
        plan: Plan::of(size),
        repeats: args.repeats,
        copies,
        seed: args.seed,
    }))
}

impl Buckets {
    /// The most that a run asks, and what that costs.
    pub(super) fn announce(&self, book: &PriceBook) -> Announcement {
        let plan = self.plan;
        let times = u64::from(self.repeats) * self.copies.len() as u64;
        let most =
            |phases: &[Phase]| phases.iter().map(|phase| plan.most(*phase)).sum::<u64>() * times;
        let put = most(&[Phase::Put, Phase::List]);
        let get = most(&[Phase::Get, Phase::GetRecord, Phase::GetPage, Phase::Head]);
        let requests = Requests { put, get, delete: most(&[Phase::Delete]) };
        let bill = so_far(book.at(&self.region), &Usage { requests, ..Usage::default() });
        let target = |url: &BucketUrl| OnTarget {
            facts: facts(url),
            puts: put,
            gets: get,
            cost: bill.total,
        };
        let all = self.urls.len() as u64;
        let read = most(&[Phase::Get]) * OBJECT_BYTES
            + most(&[Phase::GetRecord]) * RECORD_BYTES
            + most(&[Phase::GetPage]) * PAGE_BYTES;
        Announcement {
            targets: self.urls.iter().map(target).collect(),
            written_bytes: plan.objects * times * OBJECT_BYTES * all,
            read_bytes: read * all,
            files: plan.objects * times * all,
            seconds: plan.phase.as_secs() * PHASES.len() as u64 * times * all,
            cost: NanoUsd(bill.total.0 * i64::try_from(all).unwrap_or(i64::MAX)),
            cost_complete: bill.complete,
            problems: Vec::new(),
        }
    }

    /// Measures all of them by turns. What was made is removed again.
    ///
    /// # Errors
    /// When a bucket cannot be reached at all; what fails later is in the report.
    pub(super) async fn run(self, made_by: String, shown: Shown, stop: Stop) -> Result<Report> {
        let mut reached = Vec::new();
        for url in &self.urls {
            let options = ConnectOptions {
                endpoint: self.endpoint.clone(),
                timeout_ms: TIMEOUT_MS,
                ..ConnectOptions::default()
            };
            let bucket = buckets::connector(options)?.connect(url)?;
            bucket.probe().await?;
            reached.push(bucket);
        }
        let mut report = Report {
            schema: SCHEMA.to_owned(),
            made_by,
            began_unix_ms: timing::unix_ms(),
            machine: machine::facts(),
            size: self.size,
            repeats: self.repeats,
            synced: true,
            targets: self.urls.iter().map(facts).collect(),
            measurements: Vec::new(),
            skipped: Vec::new(),
            stopped: false,
        };
        for repeat in 0..self.repeats {
            for copies in &self.copies {
                for turn in 0..reached.len() {
                    let target = (turn + repeat as usize) % reached.len();
                    let run = Run::new(
                        &reached[target],
                        (self.plan, self.seed),
                        (target, repeat, *copies),
                        &shown,
                        &stop,
                    );
                    let (measured, failed) = run.all().await;
                    report.measurements.extend(measured);
                    report.skipped.extend(failed);
                    if stop.check().is_err() {
                        report.stopped = true;
                        runner::settle(&mut report);
                        return Ok(report);
                    }
                }
            }
        }
        runner::settle(&mut report);
        Ok(report)
    }
}

fn facts(url: &BucketUrl) -> TargetFacts {
    TargetFacts {
        name: url.to_string(),
        path: PathBuf::from(url.to_string()),
        file_system: NAME.to_owned(),
        source: url.to_string(),
        ..TargetFacts::default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use clap::Parser;
    use weir_bench::summary::summary;

    use super::*;
    use crate::cli::{BenchArgs, Cli, Command};

    fn args(line: &str) -> BenchRunArgs {
        let words = ["weir", "bench"].into_iter().chain(line.split(' '));
        match Cli::try_parse_from(words).expect("a command line").command {
            Command::Bench(BenchArgs { run, .. }) => run,
            other => panic!("{other:?}"),
        }
    }

    fn asked_for(line: &str) -> Result<Option<Buckets>> {
        asked(&args(line), Size::Small)
    }

    #[test]
    fn urls_are_for_this_suite_and_directories_for_the_others() {
        assert!(asked_for("/mnt/a --suite metadata").expect("directories").is_none());
        let of = asked_for("s3://b/x --suite bucket").expect("a URL").expect("a bucket");
        assert_eq!((of.copies.as_slice(), of.plan.objects), (&COPIES[..], 64));
        for line in [
            "s3://b/x",
            "s3://b/x --suite bucket,metadata",
            "s3://b/x /mnt/a --suite bucket",
            "/mnt/a --suite bucket",
            "s4://b --suite bucket",
        ] {
            assert_eq!(asked_for(line).err().map(|e| e.kind()), Some(ErrorKind::Invalid), "{line}");
        }
    }

    fn files_below(dir: &Path) -> usize {
        let entries = std::fs::read_dir(dir).expect("read").map(|entry| entry.expect("entry"));
        entries.map(|of| if of.path().is_dir() { files_below(&of.path()) } else { 1 }).sum()
    }

    fn buckets(dir: &Path) -> Buckets {
        let line = format!("file://{} --suite bucket --copies 1,3 --repeats 2", dir.display());
        let plan = Plan { phase: Duration::from_secs(60), objects: 3, requests: 200 };
        Buckets { plan, ..asked_for(&line).expect("a URL").expect("a bucket") }
    }

    #[tokio::test]
    async fn each_phase_is_measured_and_nothing_is_left() {
        let dir = tempfile::tempdir().expect("a directory");
        let of = buckets(dir.path());
        let told = of.announce(&PriceBook::built_in());
        assert_eq!((told.targets[0].puts, told.written_bytes), (4 * 5, 12 * OBJECT_BYTES));
        let report = of.run(String::new(), Shown::default(), Stop::default()).await.expect("runs");
        assert!(report.skipped.is_empty() && !report.stopped, "{report:?}");
        assert_eq!(report.measurements.len(), PHASES.len() * 2 * 2);
        for row in summary(&report) {
            assert!(row.latency.is_some(), "{row:?}");
        }
        let count = |phase: Phase| {
            let of = report.measurements.iter().find(|of| of.phase == phase.to_string());
            of.map(|of| (of.operations, of.bytes))
        };
        assert_eq!(count(Phase::Put), Some((3, 3 * OBJECT_BYTES)));
        assert_eq!(count(Phase::GetPage), Some((200, 200 * PAGE_BYTES)));
        assert_eq!(count(Phase::Delete), Some((3, 0)));
        assert_eq!(files_below(dir.path()), 0, "what was made is gone");
    }

    #[tokio::test]
    async fn a_run_that_is_stopped_leaves_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let (stop, shown) = (Stop::default(), Shown::default());
        let run = tokio::spawn(buckets(dir.path()).run(String::new(), shown, stop.clone()));
        while files_below(dir.path()) == 0 && !run.is_finished() {
            tokio::task::yield_now().await;
        }
        stop.now();
        let report = run.await.expect("ends").expect("answers");
        assert!(report.stopped);
        assert_eq!(files_below(dir.path()), 0);
    }

    #[tokio::test]
    async fn a_bucket_that_is_not_there_is_told_at_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let of = buckets(&dir.path().join("missing"));
        let error = of.run(String::new(), Shown::default(), Stop::default()).await;
        assert_eq!(error.err().map(|e| e.kind()), Some(ErrorKind::NotFound));
    }
}
