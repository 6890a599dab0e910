//! Published figures beside ours.

use maud::{Markup, html};
use weir_cost::backtest::Published;
use weir_cost::page::Table;

use crate::published::published;
use crate::report::{Report, Size};
use crate::summary::Row;
use crate::words;

/// A table of the phases that somebody published figures of; nothing where nobody did.
pub(super) fn beside(report: &Report, rows: &[&Row]) -> Markup {
    let head = ["phase", "at once", "whose", "storage", "rate", "time", "machine", "source"];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    let mut doubts: Vec<String> = Vec::new();
    for (figures, mine) in groups(rows) {
        table.extend(mine.iter().map(|row| ours(report, row)));
        let unit = mine.first().map_or("operations", |row| &row.unit);
        for figure in figures {
            table.push(theirs(unit, figure));
            doubts.extend(doubt(figure).filter(|doubt| !doubts.contains(doubt)));
        }
    }
    if table.len() == 1 {
        return Markup::default();
    }
    html! {
        h3 { "Published figures" }
        p class="soft" {
            "Rows marked " em { "other machine" } " were measured by others, elsewhere and at their "
            "time."
            @if report.size == Size::Small {
                " Ours is the small size: rates may be compared, times not."
            }
        }
        (Table { rows: &table, ..Table::default() }.markup())
        @if !doubts.is_empty() {
            ul class="warn" { @for doubt in &doubts { li { (doubt) } } }
        }
    }
}

/// Figures, and all rows that they stand beside: those of phases that differ only in what was warm
/// are together.
fn groups<'a>(rows: &[&'a Row]) -> Vec<(Vec<&'static Published>, Vec<&'a Row>)> {
    let mut groups: Vec<(Vec<&Published>, Vec<&Row>)> = Vec::new();
    for row in rows {
        let figures = published(&row.suite, &row.phase, row.copies);
        match groups.iter_mut().find(|(known, _)| *known == figures) {
            Some((_, mine)) => mine.push(row),
            None if figures.is_empty() => {}
            None => groups.push((figures, vec![row])),
        }
    }
    groups
}

fn ours(report: &Report, row: &Row) -> Vec<String> {
    vec![
        row.phase.clone(),
        row.copies.to_string(),
        "this machine".to_owned(),
        row.target_name(report).to_owned(),
        row.rate_text(),
        words::span(row.seconds.median),
        report.machine.host.clone(),
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
        rate.or(figure.operations_per_s.map(operations)).unwrap_or_else(|| "–".to_owned()),
        figure.seconds.map_or_else(|| "–".to_owned(), words::span),
        figure.machine.clone().unwrap_or_else(not_stated),
        format!("{} ({date})", figure.source),
    ]
}

fn doubt(figure: &Published) -> Option<String> {
    let doubts = figure.doubts.join("; ");
    (!doubts.is_empty()).then(|| format!("{}: {doubts}", figure.id))
}
