//! Published figures beside ours.

use weir_cost::backtest::Published;
use weir_cost::page::{escape, grid};

use crate::published::published;
use crate::report::{Report, Size};
use crate::summary::Row;
use crate::words;

/// A table of the phases that somebody published figures of; nothing where nobody did.
pub(super) fn beside(report: &Report, rows: &[&Row]) -> String {
    let head = ["phase", "at once", "whose", "storage", "machine", "time", "rate", "source"];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    let mut doubts: Vec<String> = Vec::new();
    let mut shown: Vec<(&str, u32)> = Vec::new();
    for (phase, copies) in kinds(rows) {
        let mine = rows.iter().filter(|row| (row.phase.as_str(), row.copies) == (phase, copies));
        let Some(first) = mine.clone().next() else { continue };
        let figures = published(&first.suite, phase, copies);
        if figures.is_empty() {
            continue;
        }
        table.extend(mine.map(|row| ours(report, row)));
        // Phases that differ in what was warm have the same figures: once is enough.
        for figure in figures {
            if !shown.contains(&(figure.id.as_str(), copies)) {
                shown.push((&figure.id, copies));
                table.push(theirs(&first.unit, figure));
                doubts.extend(doubt(figure).filter(|doubt| !doubts.contains(doubt)));
            }
        }
    }
    if table.len() == 1 {
        return String::new();
    }
    let size = match report.size {
        Size::Small => " Ours is the small size: rates may be compared, times not.",
        Size::Published => "",
    };
    format!(
        "<h3>Published figures</h3>\n<p class=\"soft\">Rows marked <em>other machine</em> were \
         measured by others, elsewhere and at their time.{size}</p>\n{}{}",
        grid(&table, usize::MAX, None),
        list(&doubts)
    )
}

/// Phases and copies, in their order.
fn kinds<'a>(rows: &[&'a Row]) -> Vec<(&'a str, u32)> {
    let mut kinds: Vec<(&str, u32)> = Vec::new();
    for row in rows {
        let kind = (row.phase.as_str(), row.copies);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

fn ours(report: &Report, row: &Row) -> Vec<String> {
    vec![
        row.phase.clone(),
        row.copies.to_string(),
        "this machine".to_owned(),
        super::target(report, row).to_owned(),
        report.machine.host.clone(),
        words::span(row.seconds.median),
        row.rate_text(),
        String::new(),
    ]
}

fn theirs(unit: &str, figure: &Published) -> Vec<String> {
    let not_stated = || "not stated".to_owned();
    let operations = |rate: f64| format!("{} {unit}/s", words::digits(rate));
    let rate = figure.bytes_per_s.map(words::bytes_per_s);
    let date = figure.date.as_deref().unwrap_or("date not stated");
    vec![
        figure.workload.clone(),
        figure.copies.map_or_else(not_stated, |copies| copies.to_string()),
        "other machine".to_owned(),
        figure.storage.clone(),
        figure.machine.clone().unwrap_or_else(not_stated),
        figure.seconds.map_or_else(|| "–".to_owned(), words::span),
        rate.or(figure.operations_per_s.map(operations)).unwrap_or_else(|| "–".to_owned()),
        format!("{} ({date})", figure.source),
    ]
}

fn doubt(figure: &Published) -> Option<String> {
    let doubts = figure.doubts.join("; ");
    (!doubts.is_empty()).then(|| format!("{}: {doubts}", figure.id))
}

fn list(doubts: &[String]) -> String {
    if doubts.is_empty() {
        return String::new();
    }
    let items: String = doubts.iter().map(|of| format!("<li>{}</li>\n", escape(of))).collect();
    format!("<ul class=\"warn\">\n{items}</ul>\n")
}
