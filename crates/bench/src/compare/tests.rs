//! What a comparison calls slower, and what it does not compare.

use super::*;
use crate::sample;

/// The sample with its times of a phase so many times as long.
fn slower(phase: &str, times: f64) -> Report {
    let mut report = sample::report();
    let wanted = report.measurements.iter_mut().filter(|one| one.phase == phase);
    wanted.for_each(|one| one.seconds *= times);
    report
}

fn verdicts(a: &Report, b: &Report) -> Vec<Verdict> {
    let compared = compare(a, b, 0.05).expect("comparable").compared;
    compared.iter().map(|row| row.verdict).collect()
}

#[test]
fn a_report_is_the_same_as_itself() {
    let report = sample::report();
    let text = serde_json::to_string(&report).expect("writes");
    let again = read(&text).expect("reads");
    let comparison = compare(&report, &again, 0.001).expect("comparable");
    assert!(comparison.compared.iter().all(|row| row.verdict == Verdict::Same));
    assert_eq!((comparison.compared.len(), comparison.missing.len()), (24, 0));
    assert!(!comparison.regressed() && comparison.remarks.is_empty());
}

#[test]
fn what_got_slower_is_found_and_nothing_else() {
    let (a, b) = (sample::report(), slower("read-cold", 1.25));
    let comparison = compare(&a, &b, 0.05).expect("comparable");
    assert!(comparison.regressed());
    for row in &comparison.compared {
        let (ratio, verdict) = match row.phase.as_str() {
            "read-cold" => (0.8, Verdict::Slower),
            _ => (1.0, Verdict::Same),
        };
        assert!((row.ratio - ratio).abs() < 1e-9, "{row:?}");
        assert_eq!(row.verdict, verdict, "{row:?}");
    }
    let back = compare(&b, &a, 0.05).expect("comparable");
    assert!(!back.regressed());
    assert!(back.compared.iter().any(|row| row.verdict == Verdict::Faster));
    assert!(!compare(&a, &b, 0.3).expect("comparable").regressed(), "within the threshold");
    assert_eq!(comparison.table()[7][6..], ["0.80", "0.000", "slower"]);
    let json = serde_json::to_value(&comparison).expect("writes");
    let row = &json["compared"][6];
    assert_eq!((&row["verdict"], &row["significance"]), (&"slower".into(), &"significant".into()));
    assert!(row["p"].as_f64().is_some_and(|p| p < 0.05), "{row}");
}

#[test]
fn noise_and_few_repeats_are_no_regression() {
    let a = sample::report();
    let mut noisy = slower("create", 1.2);
    for one in &mut noisy.measurements {
        one.seconds *= [0.4, 1.0, 3.0][one.repeat as usize];
    }
    assert!(verdicts(&a, &noisy).iter().all(|of| *of != Verdict::Slower));
    assert!(verdicts(&a, &noisy).contains(&Verdict::Unclear));
    let mut few = slower("create", 5.0);
    few.measurements.retain(|one| one.repeat < 2);
    assert!(verdicts(&a, &few).iter().all(|of| *of == Verdict::Unclear));
}

#[test]
fn what_one_lacks_is_said() {
    let (a, mut b) = (sample::report(), sample::report());
    b.targets[1].name = "efs".to_owned();
    b.machine.host = "there".to_owned();
    b.repeats = 2;
    b.measurements.retain(|one| one.suite == "dummy-files" && one.copies == 1);
    let comparison = compare(&a, &b, 0.05).expect("comparable");
    assert_eq!(comparison.compared.len(), 1);
    let lacks = |what: &str, from_second| {
        comparison.missing.contains(&Missing { what: what.to_owned(), from_second })
    };
    assert!(lacks("dummy-files create x1 on weir", true));
    assert!(lacks("dummy-files create x1 on efs", false));
    assert_eq!(comparison.missing.len(), 24);
    assert_eq!(comparison.remarks[0], "the machine differs: <here> and there");
    assert!(comparison.remarks[1].contains("--repeats 3"), "{:?}", comparison.remarks);
}

#[test]
fn what_is_not_the_same_experiment_is_refused() {
    let a = sample::report();
    let refusal = |b: &Report| compare(&a, b, 0.05).expect_err("refused").to_string();
    let other = Report { size: Size::Published, ..a.clone() };
    assert!(refusal(&other).contains("small and published"), "{}", refusal(&other));
    assert!(refusal(&Report { synced: false, ..a.clone() }).contains("--no-sync"));
    assert!(refusal(&Report { schema: "x/2".to_owned(), ..a.clone() }).contains("`x/2`"));
    for (text, why) in
        [("{", "no report"), ("{}", "no report"), (r#"{"schema": "weir-bench/9"}"#, "weir-bench/9")]
    {
        let error = read(text).expect_err(text).to_string();
        assert!(error.contains(why), "{error}");
    }
}
