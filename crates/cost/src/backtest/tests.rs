use std::collections::BTreeSet;

use super::*;
use crate::simulate::FreeParameters;

fn row<'a>(report: &'a Report, id: &str) -> &'a Row {
    report.rows.iter().find(|row| row.id == id).expect(id)
}

/// How many rows are used in a way.
fn count(report: &Report, used: fn(&Used) -> bool) -> usize {
    report.rows.iter().filter(|row| used(&row.used)).count()
}

#[test]
fn every_entry_is_replayed_and_half_of_the_tested_are_within_fifteen_percent() {
    let report = run();
    for experiment in &File::embedded().experiments {
        row(&report, &experiment.id);
    }
    assert_eq!(count(&report, |used| *used == Used::Test), 30);
    assert_eq!(count(&report, |used| *used == Used::Fit), 14);
    assert_eq!(count(&report, |used| *used == Used::Own), 3);
    assert!(report.median_own_error < 0.2, "{}", report.median_own_error);
    assert!(report.median_test_error < 0.15, "{}", report.median_test_error);
    assert!(report.median_error < 0.15, "{}", report.median_error);
    for row in &report.rows {
        let has_both = row.predicted.is_some() && row.measured.is_some();
        assert_eq!(has_both, !matches!(row.used, Used::NoResult { .. }), "{row:?}");
        let error = row.error.unwrap_or(0.0).abs();
        match row.used {
            Used::Fit => assert!(error < 1e-6, "{row:?}"),
            // A TB for a TiB, and 50 KiB/s for 0.05 MiB/s.
            Used::Rule => assert!(error < 0.025, "{row:?}"),
            _ => assert!(row.error.is_none_or(f64::is_finite), "{row:?}"),
        }
    }
}

#[test]
fn only_what_contradicts_is_excluded_and_says_so() {
    let report = run();
    let excluded: Vec<(&str, &str)> = report
        .rows
        .iter()
        .filter_map(|row| match &row.used {
            Used::Excluded { why } => Some((row.id.as_str(), why.as_str())),
            _ => None,
        })
        .collect();
    let share = "'4-way share => 70 min' cannot explain 1,853 s and 3,324 s (faster)";
    for ((id, why), (expected, reason)) in excluded.iter().zip([
        ("blast-fsx-v13-500", share),
        ("blast-fsx-v13-5000", share),
        ("blast-fsx-v13-50000", share),
        ("blast-fsx-v13-500000", share),
        ("efs-credit-drain", "INCONSISTENT: needs 174.8 MiB/s"),
    ]) {
        assert!(*id == expected && why.starts_with(reason), "{id}: {why}");
    }
    assert_eq!(excluded.len(), 5);
    assert_eq!(count(&report, |used| matches!(used, Used::NoResult { .. })), 3);
    // AWS's own arithmetic: 6.12 hours, where 3.5 were told.
    let drain = row(&report, "efs-credit-drain").predicted.expect("predicted");
    assert!((drain - 6.12).abs() < 0.005, "{drain}");
}

#[test]
fn what_is_fitted_is_not_tested_and_is_the_default() {
    let report = run();
    let fitted_on: BTreeSet<&str> = report.fitted.iter().map(|fitted| fitted.row).collect();
    assert_eq!(fitted_on.len(), report.fitted.len(), "a row for each parameter");
    for row in &report.rows {
        assert_eq!(row.used == Used::Fit, fitted_on.contains(row.id.as_str()), "{row:?}");
    }
    let (fits, _) = fit::all(&File::embedded());
    let (fit, default) = (fits.free, FreeParameters::default());
    for (fitted, default) in [
        (fit.efs_client_share, default.efs_client_share),
        (fit.efs_read_file_s, default.efs_read_file_s),
        (fit.efs_write_file_s, default.efs_write_file_s),
        (fit.fsx_read_file_s, default.fsx_read_file_s),
        (fit.fsx_write_file_s, default.fsx_write_file_s),
        (fit.fsx_credit_bytes_per_tib, default.fsx_credit_bytes_per_tib),
        (fit.fsx_load_bytes_per_s_per_tib, default.fsx_load_bytes_per_s_per_tib),
        (fit.weir_read_file_s, default.weir_read_file_s),
        (fit.local_file_s, default.local_file_s),
    ] {
        assert!((fitted / default - 1.0).abs() < 0.01, "fitted {fitted}, default {default}");
    }
}

#[test]
fn wrong_sums_are_found_and_right_ones_left_alone() {
    let report = run();
    let wrong: Vec<(&str, &str)> = report
        .cost_lines
        .iter()
        .filter_map(|line| match &line.verdict {
            Verdict::Wrong { why } => Some((line.line.as_str(), why.as_str())),
            _ => None,
        })
        .collect();
    let expected = [
        ("EFS storage 254 GB", "its terms give 91.44; at the list price it is 83.82"),
        ("EFS elastic read per job (sec 3)", "its own numbers give 10.92, not 17"),
        ("EFS throughput 8 runs/month (sec 5)", "its own numbers give 87.44, not 280"),
        ("EFS total 8 runs", "its own numbers give 179.00, not 371"),
        (
            "break-even EFS vs FSx runs",
            "4 runs a day are 120 a month; its own numbers break even at 6.99 runs a month",
        ),
        ("TCO EFS 500k", "its own numbers give 34.12, not 34.43"),
        ("TCO FSx 500k", "its own numbers give 590.60, not 588.72"),
        ("read speedup range, most", "its own numbers give 3.10, not 3.2"),
    ];
    assert_eq!(wrong, expected);
    let unchecked = |line: &&CostLine| matches!(line.verdict, Verdict::Unchecked { .. });
    assert_eq!(report.cost_lines.iter().filter(unchecked).count(), 2);
}

/// The comparison was made at prices that are not Seoul's.
#[test]
fn published_sums_are_priced_anew_at_the_list_prices_of_their_region() {
    let report = run();
    let line = |name: &str| {
        let line = report.cost_lines.iter().find(|line| line.line == name).expect(name);
        (line.published, line.at_list_prices)
    };
    for (name, published, listed) in [
        ("EFS storage 254 GB", 91.56, 254.0 * 0.33),
        ("FSx storage", 168.0, 1200.0 * 0.165),
        ("EFS job 500000", 13.43, 1490.0 / 3600.0 * 7.296 + 254.0 * 0.03),
        ("FSx job 500000", 63.72, 37_935.0 / 3600.0 * 7.296),
        // In Virginia.
        ("FSx 1.2 TiB", 171.5, 1200.0 * 0.14),
    ] {
        let (of, at_list) = line(name);
        assert_eq!(of, Some(published), "{name}");
        assert!((at_list.expect(name) - listed).abs() < 1e-9, "{name}: {at_list:?}");
    }
    // 15 runs a month and not 7; and it was told as 4 a day.
    let (_, runs) = line("break-even EFS vs FSx runs");
    assert!((runs.expect("known") - 14.984).abs() < 0.001, "{runs:?}");
    assert_eq!(line("period bill").1, None, "what it is made of is not said");
    let priced = report.cost_lines.iter().filter(|line| line.at_list_prices.is_some());
    assert_eq!(priced.count(), 23);
}

/// The file has sums of its own: they were made by others, and are what is found here.
#[test]
fn sums_agree_with_those_of_the_file() {
    let (report, file) = (run(), File::embedded());
    let mut compared = 0;
    for (source, lines) in &file.cost_checks {
        for fields in lines {
            let name = fields["line"].as_str().expect("a name");
            let theirs = ["recomputed", "recomputed_runs_per_MONTH", "recomputed_at_10.93"]
                .iter()
                .find_map(|field| fields.get(*field)?.as_f64());
            let same = |line: &&CostLine| line.source == *source && line.line == name;
            let Some(theirs) = theirs else { continue };
            let ours = report.cost_lines.iter().find(same).and_then(|line| line.recomputed);
            // One of theirs is a ratio where a percentage was published.
            let ours =
                ours.map(|ours| if name == "cellranger" { 1.0 + ours / 100.0 } else { ours });
            let ours = ours.expect(name);
            assert!((ours / theirs - 1.0).abs() < 0.003, "{name}: {ours} and {theirs}");
            compared += 1;
        }
    }
    assert!(compared >= 19, "{compared}");
}

#[test]
fn the_median_is_the_middle() {
    assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), 2.5);
}
