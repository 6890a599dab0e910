//! What was measured where, and what was not.

use maud::{Markup, html};
use weir_cost::page::Table;
use weir_types::Bytes;

use crate::report::{Report, Size, Skipped, TargetFacts};

/// The machine and the targets.
pub(super) fn facts(report: &Report) -> Markup {
    let machine = &report.machine;
    let size = match report.size {
        Size::Small => "the small size",
        Size::Published => "the published size",
    };
    let sync = match report.synced {
        true => "fsync is within the time of writes",
        false => "writes were not synced: their times are not those of durable writes",
    };
    let repeats =
        if report.repeats == 1 { "once".to_owned() } else { format!("{} times", report.repeats) };
    let about = format!(
        "{} at {}. {}: {}, {} processors, {} of memory, kernel {}. Each experiment in {size}, \
         {repeats}; {sync}.",
        report.made_by,
        utc(report.began_unix_ms),
        machine.host,
        machine.cpu,
        machine.cpus,
        Bytes(machine.memory_bytes),
        machine.kernel,
    );
    let head =
        ["target", "directory", "file system", "of", "size", "free", "page cache", "options"];
    let head = head.map(str::to_owned).to_vec();
    let rows: Vec<_> = [head].into_iter().chain(report.targets.iter().map(cells)).collect();
    html! {
        p class="soft" { (about) }
        @if report.stopped {
            p class="warn" {
                strong { "Stopped" } " before its end: what follows is what was measured until then."
            }
        }
        h2 { "Targets" }
        (Table { rows: &rows, ..Table::default() }.markup())
    }
}

fn cells(target: &TargetFacts) -> Vec<String> {
    let cache = if target.drops_caches { "dropped between phases" } else { "not dropped" };
    vec![
        target.name.clone(),
        target.path.display().to_string(),
        target.file_system.clone(),
        target.source.clone(),
        Bytes(target.bytes.0).to_string(),
        Bytes(target.bytes.1).to_string(),
        cache.to_owned(),
        target.options.clone(),
    ]
}

/// What could not be run, and why.
pub(super) fn skipped(report: &Report) -> Markup {
    let target = |of: &Skipped| of.target.and_then(|at| report.targets.get(at));
    html! {
        @if !report.skipped.is_empty() {
            h2 { "Not run" }
            ul {
                @for of in &report.skipped {
                    li {
                        strong {
                            (of.suite) @if let Some(target) = target(of) { " on " (target.name) }
                        }
                        ": " (of.why)
                    }
                }
            }
        }
    }
}

/// Milliseconds since 1970 as a date and time: `2026-09-21 13:33 UTC`. The calendar is that of
/// H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn utc(unix_ms: u64) -> String {
    let minutes = unix_ms / 60_000;
    let days = minutes / 1440 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (minutes % 1440 / 60, minutes % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (unix_ms, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399_000, "2000-02-28 23:59 UTC"),
            (951_782_400_000, "2000-02-29 00:00 UTC"),
            (1_704_067_200_000, "2024-01-01 00:00 UTC"),
            (1_790_000_000_000, "2026-09-21 14:13 UTC"),
        ] {
            assert_eq!(utc(unix_ms), text);
        }
    }
}
