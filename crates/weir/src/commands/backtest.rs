//! `weir advise --backtest`: the models beside published measurements.

use std::process::ExitCode;

use weir_cost::backtest::{self, CostLine, Report, Row, Used};
use weir_types::Result;

use crate::render::{self, heading, table};

pub(super) fn run(json: bool) -> Result<ExitCode> {
    let report = backtest::run();
    match json {
        true => render::say_json(&report)?,
        false => render::say(&describe(&report))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(report: &Report) -> String {
    let head = ["experiment", "used for", "predicted", "measured", "", "error"];
    let rows = report.rows.iter().filter(|row| row.predicted.is_some() || row.error.is_some());
    let rows: Vec<_> = [row(head)].into_iter().chain(rows.map(measurement)).collect();
    let mut text = format!("{}\n{}", heading("published measurements"), table(&rows, 2));
    text.push_str(&format!(
        "  median error {:.1}% where nothing was fitted, {:.1}% of all rows not excluded\n",
        report.median_test_error * 100.0,
        report.median_error * 100.0
    ));
    text.push_str(&format!(
        "  median error {:.1}% of the rows of Weir, which are our own measurements (own): nobody else has \
         published any\n",
        report.median_own_error * 100.0
    ));
    let fitted = report.fitted.iter().map(|of| {
        let value = format!("{} {}", number(of.value), of.unit);
        vec![of.parameter.to_owned(), value, of.row.to_owned()]
    });
    let fitted: Vec<_> = fitted.collect();
    text.push_str(&format!("{}\n{}", heading("fitted, and on which row"), table(&fitted, 3)));
    let left_out: Vec<_> = report.rows.iter().filter_map(left_out).collect();
    text.push_str(&format!("{}\n{}", heading("left out, and why"), table(&left_out, 2)));
    let head = row(["published sum", "published", "recomputed", "at list prices", "verdict"]);
    let lines: Vec<_> = [head].into_iter().chain(report.cost_lines.iter().map(sum)).collect();
    text.push_str(&format!("{}\n{}", heading("published sums"), table(&lines, 5)));
    text
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

fn measurement(of: &Row) -> Vec<String> {
    let used = match of.used {
        Used::Fit => "fit",
        Used::Test => "test",
        Used::Own => "own",
        Used::Excluded { .. } => "excluded",
        Used::Rule => "rule",
        Used::NoResult { .. } => "no result",
    };
    let error = of.error.map_or_else(String::new, |error| format!("{:+.1}%", error * 100.0));
    row([&of.id, used, &maybe(of.predicted), &maybe(of.measured), of.unit, &error])
}

fn left_out(of: &Row) -> Option<Vec<String>> {
    match &of.used {
        Used::Excluded { why } | Used::NoResult { why } => Some(row([&of.id, why])),
        Used::Fit | Used::Test | Used::Own | Used::Rule => None,
    }
}

fn sum(of: &CostLine) -> Vec<String> {
    row([
        &of.line,
        &maybe(of.published),
        &maybe(of.recomputed),
        &maybe(of.at_list_prices),
        &of.verdict.to_string(),
    ])
}

fn maybe(value: Option<f64>) -> String {
    value.map_or_else(String::new, number)
}

/// Four digits that matter or so, more where the number has them before its point.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        ..0.001 => format!("{value:.3e}"),
        1000.0.. => format!("{value:.0}"),
        10.0..1000.0 => format!("{value:.1}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_its_error_or_its_reason() {
        let report = backtest::run();
        let text = describe(&report);
        for row in &report.rows {
            assert!(text.contains(&row.id), "{} is not in\n{text}", row.id);
        }
        for wanted in ["median error", "wrong: ", "published sums"] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
        for fitted in &report.fitted {
            let marked = |line: &str| line.split_whitespace().take(2).eq([fitted.row, "fit"]);
            assert!(text.lines().any(marked), "{} is not marked in\n{text}", fitted.row);
        }
    }
}
