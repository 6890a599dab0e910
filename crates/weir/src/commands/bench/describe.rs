//! What `weir bench` says to people.

use schemars::JsonSchema;
use serde::Serialize;
use weir_bench::announce::Announcement;
use weir_bench::compare::Comparison;
use weir_bench::report::{Report, Warning};
use weir_bench::suite::Demand;
use weir_bench::summary::{Row, summary};
use weir_bench::words;
use weir_types::Bytes;

use crate::render::{heading, seconds, table};

/// A suite as it is listed.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Suite")]
pub(in crate::commands) struct Listed {
    /// Its name.
    pub(super) name: &'static str,
    /// What it does.
    pub(super) about: &'static str,
    /// Whose measurements it repeats.
    pub(super) published: &'static [&'static str],
    #[serde(skip)]
    pub(super) small: Demand,
    #[serde(skip)]
    pub(super) full: Demand,
}

/// The suites and their sizes.
pub(super) fn suites(listed: &[Listed]) -> String {
    let mut text = String::new();
    for Listed { name, about, small, full, .. } in listed {
        let rows = [("small", small), ("published", full)].map(|(size, demand)| {
            vec![size.to_owned(), amount(demand), format!("about {}", seconds(demand.seconds))]
        });
        text.push_str(&format!("{}: {about}\n{}", heading(name), table(&rows, 3)));
    }
    text
}

fn amount(demand: &Demand) -> String {
    let Demand { written_bytes, read_bytes, files, .. } = *demand;
    let (written, read) = (Bytes(written_bytes), Bytes(read_bytes));
    let files = if files == 0 { String::new() } else { format!(", {files} files") };
    format!("writes {written}, reads {read}{files}")
}

/// What a run will do.
pub(super) fn announcement(told: &Announcement, region: &str) -> String {
    let Announcement { written_bytes, read_bytes, files, .. } = *told;
    let demand = Demand { written_bytes, read_bytes, files, ..Demand::default() };
    let mut text = format!(
        "weir: {}; about {} at 100 MB/s and 1,000 files a second\n",
        amount(&demand),
        seconds(told.seconds)
    );
    for on in told.targets.iter().filter(|on| on.puts + on.gets > 0) {
        text.push_str(&format!(
            "weir: {}: about {} PUT and {} GET requests to its bucket, {} at list prices of \
             {region}\n",
            on.facts.name, on.puts, on.gets, on.cost
        ));
    }
    if !told.cost_complete {
        text.push_str(&format!("weir: prices of requests in {region} are not known\n"));
    }
    for problem in &told.problems {
        text.push_str(&format!("weir: no room for {problem}\n"));
    }
    text
}

/// The report: a row for each phase, a column for each target, and what is doubtful below.
pub(super) fn report(report: &Report) -> String {
    let mut notes = Notes::default();
    let mut text = String::new();
    let rows = summary(report);
    for of_suite in rows.chunk_by(|a, b| a.suite == b.suite) {
        let suite = of_suite.first().map_or("", |row| row.suite.as_str());
        let lines = suite_table(report, of_suite, &mut notes);
        text.push_str(&format!("{}\n{}", heading(suite), table(&lines, 2)));
    }
    text.push_str(&notes.text());
    for skipped in &report.skipped {
        let target = skipped.target.and_then(|at| report.targets.get(at));
        let place = target.map_or_else(String::new, |target| format!(" on {}", target.name));
        text.push_str(&format!("  not run: {}{place}: {}\n", skipped.suite, skipped.why));
    }
    text
}

fn suite_table(report: &Report, rows: &[Row], notes: &mut Notes) -> Vec<Vec<String>> {
    let names = report.targets.iter().map(|target| target.name.clone());
    let head: Vec<_> = ["phase", "copies"].map(str::to_owned).into_iter().chain(names).collect();
    let mut lines = vec![head];
    for group in rows.chunk_by(|a, b| (&a.phase, a.copies) == (&b.phase, b.copies)) {
        let Some(first) = group.first() else { continue };
        let cell = |target: usize| {
            let row = group.iter().find(|row| row.target == target);
            row.map_or_else(|| "-".to_owned(), |row| measured(row, notes))
        };
        let cells: Vec<_> = (0..report.targets.len()).map(cell).collect();
        let what = [first.phase.clone(), first.copies.to_string()];
        lines.push(what.into_iter().chain(cells).collect());
    }
    lines
}

/// The rate, its ratio to the first target's, and the numbers of its notes.
fn measured(row: &Row, notes: &mut Notes) -> String {
    let mut text = row.rate_text();
    if let Some(ratio) = row.ratio.filter(|_| row.target > 0) {
        text.push_str(&format!(" x{}", words::digits(ratio)));
    }
    if let Some(latency) = &row.latency {
        let ms = |us: f64| words::digits(us / 1e3);
        text.push_str(&format!(", p50 {} ms, p99 {} ms", ms(latency.p50_us), ms(latency.p99_us)));
    }
    let numbers: Vec<_> =
        words::worst_of_each_kind(&row.warnings).map(|of| notes.number(of)).collect();
    if !numbers.is_empty() {
        text.push_str(&format!(" [{}]", numbers.join(",")));
    }
    text
}

/// Warnings, each text once, with its number.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn number(&mut self, warning: &Warning) -> String {
        let ((kind, text), _) = words::general(warning);
        let text = format!("{kind}: {text}");
        let at = self.0.iter().position(|known| *known == text).unwrap_or_else(|| {
            self.0.push(text);
            self.0.len() - 1
        });
        (at + 1).to_string()
    }

    fn text(&self) -> String {
        let line = |(at, text): (usize, &String)| format!("  [{}] {text}\n", at + 1);
        self.0.iter().enumerate().map(line).collect()
    }
}

/// Two reports compared.
pub(super) fn comparison(of: &Comparison) -> String {
    let mut text = table(&of.table(), 4);
    for missing in &of.missing {
        let which = if missing.from_second { "second" } else { "first" };
        text.push_str(&format!("  not in the {which} report: {}\n", missing.what));
    }
    for remark in &of.remarks {
        text.push_str(&format!("  {remark}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use weir_bench::report::{MachineFacts, Measurement, SCHEMA, Size, Skipped, TargetFacts};
    use weir_types::NanoUsd;

    use super::*;

    fn one(target: usize, seconds: f64, warnings: Vec<Warning>) -> Measurement {
        Measurement {
            suite: "small-files".to_owned(),
            phase: "create".to_owned(),
            copies: 4,
            target,
            repeat: 0,
            seconds,
            bytes: 100_000_000,
            operations: 2_000,
            unit: "files".to_owned(),
            series: Vec::new(),
            latency: None,
            warnings,
        }
    }

    fn two_targets() -> Vec<TargetFacts> {
        let named = |name: &str| TargetFacts { name: name.to_owned(), ..TargetFacts::default() };
        vec![named("/mnt/a"), named("/mnt/b")]
    }

    #[test]
    fn targets_stand_side_by_side_with_their_notes() {
        let short = |seconds| Warning::TooShort { seconds };
        let cached = Warning::Cached { why: "permission denied".to_owned() };
        let told = report(&Report {
            schema: SCHEMA.to_owned(),
            made_by: String::new(),
            began_unix_ms: 0,
            machine: MachineFacts::default(),
            size: Size::Small,
            repeats: 1,
            synced: true,
            targets: two_targets(),
            measurements: vec![
                one(0, 0.5, vec![short(0.5)]),
                one(1, 0.25, vec![cached, short(0.25)]),
            ],
            skipped: vec![Skipped {
                suite: "blast".to_owned(),
                target: Some(1),
                why: "no room".to_owned(),
            }],
            stopped: false,
        });
        for wanted in [
            "/mnt/a",
            "200 MB/s [1]",
            "400 MB/s x2.00 [2,1]",
            "[1] too short: less than a second is too short to tell\n",
            "[2] cached: permission denied\n",
            "not run: blast on /mnt/b: no room\n",
        ] {
            assert!(told.contains(wanted), "{wanted} is not in\n{told}");
        }
    }

    #[test]
    fn the_cost_of_requests_is_said_before() {
        let [a, b] = <[_; 2]>::try_from(two_targets()).expect("two");
        let on = |facts, puts, gets, cost| weir_bench::announce::OnTarget {
            facts,
            puts,
            gets,
            cost: NanoUsd(cost),
        };
        let told = Announcement {
            targets: vec![on(a, 0, 0, 0), on(b, 2_981, 17_882, 22_057_800)],
            written_bytes: 1 << 30,
            read_bytes: 2 << 30,
            files: 12,
            seconds: 303,
            cost: NanoUsd(22_057_800),
            cost_complete: true,
            problems: vec!["dd-large: 1 GiB are free".to_owned()],
        };
        let text = announcement(&told, "us-east-1");
        for wanted in [
            "writes 1 GiB, reads 2 GiB, 12 files; about 5 min 3 s",
            "/mnt/b: about 2981 PUT and 17882 GET requests to its bucket, $0.0221 at",
            "no room for dd-large",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
        assert!(!text.contains("/mnt/a"), "{text}");
        let unknown = announcement(&Announcement { cost_complete: false, ..told }, "mars-1");
        assert!(unknown.contains("in mars-1 are not known"), "{unknown}");
    }

    #[test]
    fn every_suite_is_listed_with_both_sizes() {
        let all = weir_bench::suites::all();
        let listed = all.iter().map(|suite| Listed {
            name: suite.name(),
            about: suite.about(),
            published: suite.published(),
            small: suite.demand(Size::Small, &[]),
            full: suite.demand(Size::Published, &[]),
        });
        let text = suites(&listed.collect::<Vec<_>>());
        assert!(all.iter().all(|suite| text.contains(suite.name())), "{text}");
        assert_eq!(text.matches("published  writes").count(), all.len(), "{text}");
    }
}
