//! Numbers and warnings as people read them.

use weir_types::Bytes;

use crate::report::Warning;

/// A span of time: `1.52 s`, `3 min 29 s`, `2 h 7 min`.
pub fn span(seconds: f64) -> String {
    let whole = seconds.round();
    let two = |large: f64, small: f64, (a, b): (&str, &str)| {
        format!("{:.0} {a} {:.0} {b}", (whole / large).floor(), (whole % large / small).floor())
    };
    match seconds {
        _ if !seconds.is_finite() => "unknown".to_owned(),
        ..0.001 => format!("{} µs", digits(seconds * 1e6)),
        ..1.0 => format!("{} ms", digits(seconds * 1e3)),
        ..60.0 => format!("{} s", digits(seconds)),
        ..3600.0 => two(60.0, 1.0, ("min", "s")),
        _ => two(3600.0, 60.0, ("h", "min")),
    }
}

/// Bytes a second: `97.9 MB/s`.
pub fn bytes_per_s(rate: f64) -> String {
    let (unit, size) = [("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)]
        .into_iter()
        .find(|(_, size)| rate >= *size)
        .unwrap_or(("B/s", 1.0));
    format!("{} {unit}", digits(rate / size))
}

/// Three digits, and all of those before the point: `0.26`, `97.9`, `5756`.
pub fn digits(value: f64) -> String {
    let magnitude = value.abs();
    let places = match magnitude {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ if magnitude == 0.0 => 0,
        _ => (2.0 - magnitude.log10().floor()).min(9.0) as usize,
    };
    format!("{value:.places$}")
}

/// The kind of a warning in a word, and all of it in a sentence.
pub fn warning(warning: &Warning) -> (&'static str, String) {
    match warning {
        Warning::Noisy { deviation } => {
            ("noisy", format!("repeats differ by {} % of their mean", digits(deviation * 100.0)))
        }
        Warning::Cached { why } => ("cached", why.clone()),
        Warning::NotDurable { dirty_bytes } => {
            ("not durable", format!("{} were still in memory only", Bytes(*dirty_bytes)))
        }
        Warning::Throttled { why } => ("throttled", why.clone()),
        Warning::TooShort { seconds } => {
            ("too short", format!("{} is too short to tell", span(*seconds)))
        }
        Warning::Other { what } => ("note", what.clone()),
    }
}

/// A warning in words that are the same wherever its kind holds, and how much of it is here where
/// that differs.
pub fn general(of: &Warning) -> ((&'static str, String), Option<String>) {
    let (kind, text) = warning(of);
    let (text, here) = match of {
        Warning::Noisy { deviation } => (
            "repeats differ by over 10 % of their mean".to_owned(),
            Some(format!("{} %", digits(deviation * 100.0))),
        ),
        Warning::NotDurable { dirty_bytes } => {
            ("bytes were still in memory only".to_owned(), Some(Bytes(*dirty_bytes).to_string()))
        }
        Warning::TooShort { seconds } => {
            ("less than a second is too short to tell".to_owned(), Some(span(*seconds)))
        }
        Warning::Cached { .. } | Warning::Throttled { .. } | Warning::Other { .. } => (text, None),
    };
    ((kind, text), here)
}

/// Of warnings with a number, which differs in each repeat, the worst stands for all of its kind;
/// all others.
pub fn worst_of_each_kind(warnings: &[Warning]) -> impl Iterator<Item = &Warning> {
    let worth = |of: &Warning| match of {
        Warning::Noisy { deviation } => Some((0, *deviation)),
        Warning::NotDurable { dirty_bytes } => Some((1, *dirty_bytes as f64)),
        Warning::TooShort { seconds } => Some((2, -seconds)),
        Warning::Cached { .. } | Warning::Throttled { .. } | Warning::Other { .. } => None,
    };
    warnings.iter().filter(move |of| match worth(of) {
        Some((kind, worth_of)) => !warnings
            .iter()
            .filter_map(worth)
            .any(|(other, worth_other)| other == kind && worth_other > worth_of),
        None => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in
            [(0.0, "0"), (0.2568, "0.257"), (1.0, "1.00"), (97.94, "97.9"), (5756.2, "5756")]
        {
            assert_eq!(digits(value), text);
        }
        assert_eq!(bytes_per_s(97_940_000.0), "97.9 MB/s");
        assert_eq!(bytes_per_s(12.0), "12.0 B/s");
    }

    #[test]
    fn spans_are_read_at_a_glance() {
        for (seconds, text) in [
            (0.000_25, "250 µs"),
            (0.25, "250 ms"),
            (1.517, "1.52 s"),
            (209.2, "3 min 29 s"),
            (3599.9, "60 min 0 s"),
            (37_935.0, "10 h 32 min"),
            (f64::NAN, "unknown"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }
}
