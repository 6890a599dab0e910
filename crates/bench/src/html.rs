//! A report as one page of HTML that needs nothing else: facts, and for each suite its table, its
//! plots, published figures and costs.

mod beside;
mod facts;
mod plots;

use maud::{Markup, html};
use weir_cost::Prices;
use weir_cost::page::chart::{Bar, bars};
use weir_cost::page::{Table, document};

use crate::costs::{Cost, elsewhere, on_targets};
use crate::report::Report;
use crate::summary::{Row, summary};
use crate::words;

/// Columns of a suite's table; those from [`RATE`] on are numbers.
const HEAD: [&str; 10] = [
    "phase",
    "at once",
    "target",
    "doubts",
    "rate",
    "to the first",
    "time",
    "operations",
    "p50",
    "p99",
];
const RATE: usize = 4;

/// The report as a page, with costs at `prices`.
pub fn page(report: &Report, prices: Prices<'_>) -> String {
    let rows = summary(report);
    let mut suites: Vec<&str> = Vec::new();
    for row in &rows {
        if !suites.contains(&row.suite.as_str()) {
            suites.push(&row.suite);
        }
    }
    let of = |name: &str| -> Vec<&Row> { rows.iter().filter(|row| row.suite == name).collect() };
    let body = html! {
        (facts::facts(report))
        @for name in suites {
            (suite(report, name, &of(name)))
            (costs(prices, report, &rows, name))
        }
        (facts::skipped(report))
    };
    let names: Vec<_> = report.targets.iter().map(|target| target.name.as_str()).collect();
    document(&format!("Storage measured: {}", names.join(", ")), &body)
}

fn suite(report: &Report, name: &str, rows: &[&Row]) -> Markup {
    let mut table = vec![HEAD.map(str::to_owned).to_vec()];
    table.extend(rows.iter().map(|row| cells(report, row)));
    html! {
        h2 { (name) }
        (Table { rows: &table, numbers: RATE..HEAD.len(), ..Table::default() }.markup())
        (warnings(report, rows))
        (plots::plots(report, rows))
        (beside::beside(report, rows))
    }
}

fn cells(report: &Report, row: &Row) -> Vec<String> {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let operations =
        row.operations_per_s.map(|rate| format!("{} {}/s", words::digits(rate.median), row.unit));
    let percentile = |value: Option<f64>| or_none(value.map(|us| words::span(us / 1e6)));
    let mut kinds: Vec<&str> = Vec::new();
    for (kind, _) in row.warnings.iter().map(words::warning) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    vec![
        row.phase.clone(),
        row.copies.to_string(),
        row.target_name(report).to_owned(),
        kinds.join(", "),
        row.rate_text(),
        or_none(row.ratio.map(|ratio| format!("{ratio:.2}x"))),
        interval(row),
        or_none(operations),
        percentile(row.latency.map(|of| of.p50_us)),
        percentile(row.latency.map(|of| of.p99_us)),
    ]
}

/// The median time, and where its mean is with 95% confidence.
fn interval(row: &Row) -> String {
    let median = words::span(row.seconds.median);
    match row.seconds.interval {
        Some((low, high)) => {
            format!("{median} ({} to {})", words::span(low.max(0.0)), words::span(high))
        }
        None => median,
    }
}

/// Each kind of doubt once, with where it holds, and how much there where that differs.
fn warnings(report: &Report, rows: &[&Row]) -> Markup {
    let mut all: Vec<((&'static str, String), Vec<String>)> = Vec::new();
    for row in rows {
        let place = format!("{} x{} on {}", row.phase, row.copies, row.target_name(report));
        for warning in words::worst_of_each_kind(&row.warnings) {
            let ((kind, text), here) = words::general(warning);
            let place = match here {
                Some(here) => format!("{place}: {here}"),
                None => place.clone(),
            };
            match all.iter_mut().find(|(known, _)| *known == (kind, text.clone())) {
                Some((_, places)) => places.push(place),
                None => all.push(((kind, text), vec![place])),
            }
        }
    }
    html! {
        @if !all.is_empty() {
            ul class="warn" {
                @for ((kind, text), places) in &all {
                    li {
                        strong { (kind) } ": " (text) " "
                        span class="soft" { "(" (places.join("; ")) ")" }
                    }
                }
            }
        }
    }
}

fn costs(prices: Prices<'_>, report: &Report, rows: &[Row], suite: &str) -> Markup {
    let (here, there) =
        (on_targets(prices, report, rows, suite), elsewhere(prices, report, rows, suite));
    let head = ["where", "what", "measured", "cost"].map(str::to_owned).to_vec();
    let all = || here.iter().chain(&there);
    let table: Vec<_> = [head].into_iter().chain(all().map(cost_cells)).collect();
    let known: Vec<_> = all()
        .filter_map(|cost| {
            let amount = cost.amount?;
            let time = cost.seconds.map(|seconds| format!(" in {}", words::span(seconds)));
            let text = format!("{amount}{}", time.unwrap_or_default());
            Some(Bar { name: cost.name.clone(), value: amount.dollars(), text })
        })
        .collect();
    let about = "Dollars of one run, for each target and service whose prices are known.";
    html! {
        h3 { "Cost of a run" }
        p class="soft" {
            "List prices of " (prices.region()) ". Services are charged for the same bytes and as "
            "much time as the first target needed; the machine is not included."
        }
        @if !known.is_empty() { (bars(&format!("Cost of a run of {suite}"), about, &known)) }
        details {
            summary { "All costs" }
            (Table { rows: &table, numbers: 2..4, ..Table::default() }.markup())
        }
    }
}

fn cost_cells(cost: &Cost) -> Vec<String> {
    vec![
        cost.name.clone(),
        cost.basis.clone(),
        cost.seconds.map_or_else(|| "–".to_owned(), words::span),
        cost.amount.map_or_else(|| "unknown".to_owned(), |amount| amount.to_string()),
    ]
}

#[cfg(test)]
mod tests;
