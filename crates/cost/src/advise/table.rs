//! Advice as rows of a table.

use super::advice::Advice;
use super::choice::Choice;

/// The column by which the choices are sorted: a month with the time of who waits.
pub(super) const SORTED: usize = 4;

/// Columns before these are words.
pub(super) const WORDS: usize = 3;

/// The choices as a table, the best first; its first row is the head. The first three columns are
/// words, the others numbers.
pub fn table(advice: &Advice) -> Vec<Vec<String>> {
    let head = [
        "storage",
        "machines",
        "bound by",
        "a run",
        "with waiting",
        "a month",
        "cost of a run",
        "on Spot",
    ];
    let head = head.map(str::to_owned).to_vec();
    [head].into_iter().chain(advice.choices.iter().map(row)).collect()
}

fn row(choice: &Choice) -> Vec<String> {
    let late = if choice.keeps_up { "" } else { " (a day is too short)" };
    let (least, most) = choice.spot_month;
    let spot = match least.complete {
        true => format!("{least} to {most}"),
        false => "unknown".to_owned(),
    };
    vec![
        choice.name.clone(),
        format!("{} x {}", choice.machines, choice.machine.instance),
        choice.bound_by.clone(),
        format!("{}{late}", span(choice.run_seconds)),
        choice.month_with_waiting.to_string(),
        choice.month.to_string(),
        choice.cost_per_run.to_string(),
        spot,
    ]
}

/// A span of time for people: `1.5 s`, `3 min 29 s`, `2 h 7 min`, `3 d 4 h`.
pub(super) fn span(seconds: f64) -> String {
    let whole = seconds.round();
    if !whole.is_finite() {
        return "for ever".to_owned();
    }
    let two = |large: f64, small: f64, (a, b): (&str, &str)| {
        format!("{:.0} {a} {:.0} {b}", (whole / large).floor(), (whole % large / small).floor())
    };
    match whole {
        ..10.0 => format!("{seconds:.1} s"),
        ..60.0 => format!("{whole:.0} s"),
        ..3600.0 => two(60.0, 1.0, ("min", "s")),
        ..86_400.0 => two(3600.0, 60.0, ("h", "min")),
        _ => two(86_400.0, 3600.0, ("d", "h")),
    }
}

/// A number of runs for people: a tenth matters where there are few.
pub(super) fn runs(count: f64) -> String {
    if count < 100.0 { format!("{count:.1}") } else { format!("{count:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_two_units_at_most() {
        for (seconds, text) in [
            (0.04, "0.0 s"),
            (9.4, "9.4 s"),
            (59.4, "59 s"),
            (59.6, "1 min 0 s"),
            (209.0, "3 min 29 s"),
            (37_935.0, "10 h 32 min"),
            (273_600.0, "3 d 4 h"),
            (f64::INFINITY, "for ever"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }
}
