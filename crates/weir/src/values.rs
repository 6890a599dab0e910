//! Values as people write them on a command line.

use weir_engine::{Attributes, Policy};
use weir_types::{Bytes, Codec, NanoUsd};

/// A span of time in milliseconds: `500ms`, `30s`, `5m`, `2h`, `3d`.
pub(crate) fn duration_ms(text: &str) -> Result<u64, String> {
    let bad =
        || format!("`{text}` is not a time: write a number and ms, s, m, h or d, such as 30s");
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
    let number: u64 = text[..digits].parse().map_err(|_| bad())?;
    let factor = match text[digits..].trim() {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(bad()),
    };
    number.checked_mul(factor).ok_or_else(bad)
}

/// `on` or `off`.
pub(crate) fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("`{text}`: write on or off")),
    }
}

/// Dollars an hour: `5USD/h`, `0.50USD/h`; `none` is 0.
pub(crate) fn budget(text: &str) -> Result<NanoUsd, String> {
    let bad = || format!("`{text}` is no budget: write one such as 5USD/h, or none");
    if text == "none" {
        return Ok(NanoUsd(0));
    }
    let usd = text.strip_suffix("USD/h").ok_or_else(bad)?;
    let usd: f64 = usd.trim().parse().map_err(|_| bad())?;
    match (1e-6..=1e6).contains(&usd) {
        true => Ok(NanoUsd((usd * 1e9).round() as i64)),
        false => Err(bad()),
    }
}

/// A size, or `none`, which is 0.
pub(crate) fn bytes_or_none(text: &str) -> Result<Bytes, String> {
    match text {
        "none" => Ok(Bytes(0)),
        _ => match text.parse::<Bytes>().map_err(|error| error.to_string())? {
            Bytes(0) => Err("a limit of nothing: write none for no limit".to_owned()),
            bytes => Ok(bytes),
        },
    }
}

/// A count: `500`, `20k`, `10M`, `1G`; or `none`, which is 0.
pub(crate) fn count_or_none(text: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is no count: write a number such as 500, 20k or 10M, or none");
    if text == "none" {
        return Ok(0);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| bad())?;
    let factor = match &text[digits..] {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return Err(bad()),
    };
    number.checked_mul(factor).filter(|count| *count > 0).ok_or_else(bad)
}

/// A share of something: `5%`, `2.5%`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let bad = || format!("`{text}` is no share: write a number and %, such as 5%");
    let percent: f64 = text.strip_suffix('%').ok_or_else(bad)?.trim().parse().map_err(|_| bad())?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0).ok_or_else(bad)
}

/// How records are compressed.
pub(crate) fn codec(text: &str) -> Result<Codec, String> {
    match text {
        "lz4" => Ok(Codec::Lz4),
        "zstd" => Ok(Codec::Zstd),
        "none" => Ok(Codec::None),
        _ => Err(format!("`{text}` is no codec: choose lz4, zstd or none")),
    }
}

/// Which changes go over by themselves: `new,changed,deleted`, `all` or `none`.
pub(crate) fn policy(text: &str) -> Result<Policy, String> {
    let mut policy = Policy::default();
    for word in text.split(',').map(str::trim) {
        match word {
            "new" => policy.new = true,
            "changed" => policy.changed = true,
            "deleted" => policy.deleted = true,
            "all" => policy = Policy { new: true, changed: true, deleted: true },
            "none" | "" => {}
            _ => return Err(format!("`{word}`: write new, changed, deleted, all or none")),
        }
    }
    Ok(policy)
}

/// The reverse of [`policy`].
pub(crate) fn policy_text(policy: Policy) -> String {
    let words = [(policy.new, "new"), (policy.changed, "changed"), (policy.deleted, "deleted")];
    let words: Vec<_> = words.into_iter().filter(|(on, _)| *on).map(|(_, word)| word).collect();
    match words.is_empty() {
        true => "none".to_owned(),
        false => words.join(","),
    }
}

/// Whether POSIX attributes are asked for.
pub(crate) fn attributes(text: &str) -> Result<Attributes, String> {
    match text {
        "auto" => Ok(Attributes::Auto),
        "always" => Ok(Attributes::Always),
        "never" => Ok(Attributes::Never),
        _ => Err(format!("`{text}`: write auto, always or never")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_their_unit() {
        for (text, ms) in [("500ms", 500), ("30s", 30_000), ("5 m", 300_000), ("2h", 7_200_000)] {
            assert_eq!(duration_ms(text), Ok(ms), "{text}");
        }
        for text in ["", "30", "s", "1.5s", "-1s", "3 days", "99999999999999999999s"] {
            assert!(duration_ms(text).is_err(), "{text}");
        }
    }

    #[test]
    fn limits_are_more_than_nothing() {
        for (text, count) in [("500", 500), ("20k", 20_000), ("10M", 10_000_000), ("none", 0)] {
            assert_eq!(count_or_none(text), Ok(count), "{text}");
        }
        for text in ["", "0", "M", "-1", "1.5M", "10 M", "99999999999999G"] {
            assert!(count_or_none(text).is_err(), "{text}");
        }
        assert_eq!(bytes_or_none("2TiB"), Ok(Bytes(2 << 40)));
        assert_eq!(bytes_or_none("none"), Ok(Bytes(0)));
        assert!(bytes_or_none("0").is_err() && bytes_or_none("much").is_err());
    }

    #[test]
    fn budgets_are_dollars_an_hour() {
        assert_eq!(budget("5USD/h"), Ok(NanoUsd(5_000_000_000)));
        assert_eq!(budget("0.25 USD/h"), Ok(NanoUsd(250_000_000)));
        assert_eq!(budget("none"), Ok(NanoUsd(0)));
        for text in ["", "5", "5USD", "-1USD/h", "0USD/h", "muchUSD/h", "5USD/d", "NaNUSD/h"] {
            assert!(budget(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_are_written_in_percent() {
        assert_eq!(share("5%"), Ok(0.05));
        assert_eq!(share("12.5 %"), Ok(0.125));
        for text in ["", "5", "%", "-1%", "101%", "NaN%"] {
            assert!(share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn policies_are_lists_of_words() {
        for (text, again) in [
            ("none", "none"),
            ("new", "new"),
            ("deleted, new", "new,deleted"),
            ("all", "new,changed,deleted"),
        ] {
            let policy = policy(text).expect(text);
            assert_eq!(policy_text(policy), again);
        }
        assert!(policy("newer").unwrap_err().contains("changed"));
    }

    #[test]
    fn codecs_have_names() {
        assert_eq!(codec("zstd"), Ok(Codec::Zstd));
        assert!(codec("gzip").unwrap_err().contains("lz4"));
    }
}
