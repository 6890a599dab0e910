use weir_cost::PriceBook;

use super::*;
use crate::report::Warning;
use crate::sample;

fn html(report: &Report) -> String {
    page(report, PriceBook::built_in().at("us-east-1"))
}

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

#[test]
fn every_phase_has_its_plots_and_every_suite_its_costs() {
    let html = html(&sample::report());
    // Four phases with three plots each, and the costs of two suites.
    assert_eq!(count(&html, "role=\"img\""), 4 * 3 + 2);
    for title in
        ["create: more at once", "read-cold x8: latency", "create x8: throughput over time"]
    {
        assert!(html.contains(&format!("<title>{title}</title>")), "{title}");
    }
    assert_eq!(
        count(&html, "<svg"),
        count(&html, "role=\"img\"") + count(&html, "class=\"sample\"")
    );
    assert_eq!(count(&html, "<desc>"), count(&html, "role=\"img\""));
}

#[test]
fn it_asks_nobody_for_anything_and_runs_nothing() {
    let html = html(&sample::report());
    for word in ["<script", "href=", "src=", "url(", "http", "@import", " on="] {
        assert!(!html.contains(word), "{word}");
    }
    assert!(!html.contains("NaN") && !html.contains("inf\""), "a number that is none");
}

#[test]
fn nothing_that_people_named_is_markup() {
    let mut report = sample::report();
    report.targets[0].name = "<i>local".to_owned();
    report.measurements[0].phase = "<b>".to_owned();
    let html = html(&report);
    for bad in ["<here>", "<the>", "<i>", "<b>", "A & B"] {
        assert!(!html.contains(bad), "{bad}");
    }
    for safe in ["&lt;here&gt;", "&lt;i&gt;local", "A &amp; B"] {
        assert!(html.contains(safe), "{safe}");
    }
}

#[test]
fn published_figures_are_marked_and_have_source_and_date() {
    let html = html(&sample::report());
    // Small files: two storages, created and read, with 1, 4 and 8 at once. Dummy files: two
    // storages, with one writer.
    assert_eq!(count(&html, ">other machine</td>"), 2 * 2 * 3 + 2);
    assert!(html.contains("lustre-vs-efs-synthetic (date not stated)"));
    assert!(html.contains("ebs-vs-instance-store-2023 (2023-12-01)"));
    assert!(html.contains("not durable-write time"), "what speaks against it");
    assert!(html.contains("Ours is the small size"));
}

#[test]
fn doubts_stand_where_they_hold_and_each_kind_is_said_once() {
    let mut report = sample::report();
    for one in &mut report.measurements {
        one.warnings = match (one.phase.as_str(), one.suite.as_str(), one.target) {
            ("read-warm", _, 1) => {
                vec![Warning::TooShort { seconds: 0.1 * f64::from(one.repeat + one.copies) }]
            }
            ("create", "small-files", 0) => vec![Warning::Noisy { deviation: 0.25 }],
            _ => Vec::new(),
        };
    }
    let html = html(&report);
    let doubt = "<strong>too short</strong>: less than a second is too short to tell";
    assert_eq!(count(&html, doubt), 1);
    let rows = "(read-warm x1 on weir: 100 ms; read-warm x4 on weir: 400 ms; \
                read-warm x8 on weir: 800 ms)";
    assert!(html.contains(rows), "the rows by name, with the worst of three each");
    assert!(html.contains("(create x1 on local: 25.0 %; "));
    assert_eq!(count(&html, ">too short</td>"), 3);
}

#[test]
fn what_was_not_run_and_what_is_unknown_is_said() {
    let mut report = sample::report();
    report.stopped = true;
    let html = html(&report);
    assert!(html.contains("<strong>hydrate on local</strong>: this is no mount of weir"));
    assert!(html.contains("Stopped"));
    assert!(html.contains(">unknown</td>"), "the cost of a local disk");
    assert!(html.contains("nobody says what ext4 on /dev/vda1 costs"));
}

#[test]
fn a_report_without_measurements_is_a_page_too() {
    let mut report = sample::report();
    report.measurements.clear();
    let html = html(&report);
    assert!(html.contains("<h2>Targets</h2>") && html.ends_with("</html>"));
    assert_eq!(count(&html, "<svg"), 0);
}
