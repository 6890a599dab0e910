use std::fs;

use parking_lot::Mutex;

use super::*;
use crate::suite::Demand;
use crate::suites::{Files, Metadata, dd_large};
use crate::testing::Silent;

/// A suite that does what a test says, after it left a file.
struct Script<F>(&'static str, F);

impl<F> Suite for Script<F>
where
    F: Fn(&Run<'_>) -> Result<Vec<Measurement>, BenchError> + Send + Sync,
{
    fn name(&self) -> &'static str {
        self.0
    }

    fn about(&self) -> &'static str {
        "a test's"
    }

    fn demand(&self, _size: Size, _copies: &[u32]) -> Demand {
        Demand { space_bytes: 1, ..Demand::default() }
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Measurement>, BenchError> {
        fs::create_dir(run.dir.join("deep")).expect("makes");
        fs::write(run.dir.join("deep/file"), "left").expect("writes");
        (self.1)(run)
    }
}

fn measured(suite: &str, run: &Run<'_>, phase: &str, seconds: f64) -> Measurement {
    Measurement {
        suite: suite.to_owned(),
        phase: phase.to_owned(),
        copies: 1,
        target: run.target,
        repeat: run.repeat,
        seconds,
        bytes: 0,
        operations: 1,
        unit: "files".to_owned(),
        series: Vec::new(),
        latency: None,
        warnings: Vec::new(),
    }
}

fn two_targets() -> ([TempDir; 2], Options) {
    let dirs = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let paths = dirs.iter().map(|dir| dir.path().to_owned()).collect();
    (dirs, Options { paths, ..Options::default() })
}

fn assert_empty(dirs: &[TempDir]) {
    for dir in dirs {
        assert_eq!(fs::read_dir(dir.path()).expect("reads").count(), 0);
    }
}

#[test]
fn targets_take_turns_and_measurements_are_sorted() {
    let (dirs, options) = two_targets();
    let turns = Mutex::new(Vec::new());
    let note = |name: &'static str| {
        let turns = &turns;
        move |run: &Run<'_>| {
            turns.lock().push((name, run.target, run.repeat));
            Ok(["write", "read"].map(|phase| measured(name, run, phase, 2.0)).to_vec())
        }
    };
    let (b, a) = (Script("b", note("b")), Script("a", note("a")));
    let options = Options { repeats: 2, ..options };
    let report = run(&options, &[&b, &a], &Silent, &Stop::default()).expect("a report");
    let ran = [("b", 0, 0), ("b", 1, 0), ("a", 0, 0), ("a", 1, 0)];
    let again = [("b", 1, 1), ("b", 0, 1), ("a", 1, 1), ("a", 0, 1)];
    assert_eq!(*turns.lock(), [ran, again].concat());
    let order =
        report.measurements.iter().map(|m| (&m.suite[..], &m.phase[..], m.target, m.repeat));
    let wanted = ["b", "a"].into_iter().flat_map(|suite| {
        let of = move |phase| [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(t, r)| (suite, phase, t, r));
        [of("write"), of("read")].concat()
    });
    assert_eq!(order.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
    assert!(report.measurements.iter().all(|measured| measured.warnings.is_empty()));
    assert!(!report.stopped && report.skipped.is_empty());
    assert_empty(&dirs);
}

#[test]
fn what_fails_is_skipped_with_its_reason_and_cleaned_up() {
    let (dirs, options) = two_targets();
    let missing = Script("missing", |_: &Run<'_>| {
        let (program, package) = ("fio".to_owned(), "fio".to_owned());
        Err(BenchError::Missing { program, package })
    });
    let half = Script("half", |run: &Run<'_>| match run.target {
        0 => Ok(vec![measured("half", run, "write", 2.0)]),
        _ => Err(BenchError::io("write x", std::io::ErrorKind::StorageFull.into())),
    });
    let options = Options { repeats: 2, ..options };
    let report = run(&options, &[&missing, &half], &Silent, &Stop::default()).expect("a report");
    let skipped: Vec<_> = report.skipped.iter().map(|of| (&of.suite[..], of.target)).collect();
    assert_eq!(skipped, [("missing", None), ("half", Some(1))]);
    assert!(report.skipped[0].why.contains("apt-get install fio"), "{:?}", report.skipped);
    assert!(report.skipped[1].why.contains("no storage space"), "{:?}", report.skipped);
    assert_eq!(report.measurements.len(), 2);
    assert_empty(&dirs);
}

#[test]
fn a_stopped_run_reports_what_it_has_and_cleans_up() {
    let (dirs, options) = two_targets();
    let stop = Stop::default();
    let script = Script("s", |run: &Run<'_>| {
        if run.target == 1 {
            run.stop.now();
        }
        run.stop.check()?;
        Ok(vec![measured("s", run, "write", 2.0)])
    });
    let report = run(&options, &[&script], &Silent, &stop).expect("a report");
    assert!(report.stopped && report.skipped.is_empty());
    assert_eq!(report.measurements.len(), 1);
    assert_empty(&dirs);
}

#[test]
fn a_suite_without_room_is_skipped() {
    let (dirs, options) = two_targets();
    let mut large = dd_large();
    large.small.chunks = 1 << 30;
    let report = run(&options, &[&large], &Silent, &Stop::default()).expect("a report");
    assert_eq!(report.skipped.len(), 2);
    assert!(report.skipped[0].why.contains("are needed"), "{:?}", report.skipped);
    assert_empty(&dirs);
}

#[test]
fn real_suites_run_and_the_report_survives_json() {
    let (dirs, options) = two_targets();
    let mut files: Files = dd_large();
    (files.small.chunk_bytes, files.small.copies) = (10_000, &[1, 2]);
    let metadata = Metadata { files: (5, 0), threads: &[1] };
    let report = run(&options, &[&files, &metadata], &Silent, &Stop::default()).expect("a report");
    assert_eq!(report.measurements.len(), 2 * (4 * 2 + 5));
    let short = |m: &Measurement| m.warnings.iter().any(|w| matches!(w, Warning::TooShort { .. }));
    assert!(report.measurements.iter().all(|m| short(m) == (m.seconds < 1.0)));
    let text = serde_json::to_string(&report).expect("encodes");
    let again: Report = serde_json::from_str(&text).expect("decodes");
    assert_eq!((again.schema.as_str(), again.measurements.len()), (SCHEMA, 26));
    assert_empty(&dirs);
}

#[test]
fn repeats_that_differ_are_noisy() {
    let (_dirs, options) = two_targets();
    let script = Script("s", |run: &Run<'_>| {
        let seconds = if run.target == 0 { 10.0 + f64::from(run.repeat) * 0.1 } else { 10.0 };
        let noisy = seconds + f64::from(run.repeat) * 5.0;
        Ok(vec![measured("s", run, "calm", seconds), measured("s", run, "noisy", noisy)])
    });
    let options = Options { repeats: 3, ..options };
    let report = run(&options, &[&script], &Silent, &Stop::default()).expect("a report");
    for measured in &report.measurements {
        match (&measured.warnings[..], &measured.phase[..]) {
            ([], "calm") => {}
            // 10, 15 and 20: a standard deviation of 5 at a mean of 15.
            ([Warning::Noisy { deviation }], "noisy") => {
                assert!((deviation - 5.0 / 15.0).abs() < 0.01, "{deviation}");
            }
            (found, phase) => panic!("{phase}: {found:?}"),
        }
    }
    assert_eq!(relative_deviation(&[]), 0.0);
    assert_eq!(relative_deviation(&[3.0]), 0.0);
}
