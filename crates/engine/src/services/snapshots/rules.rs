//! Rules of a schedule: how often a snapshot is made, and how many are kept.

use std::str::FromStr;

use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveTime, TimeDelta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_types::{ErrorKind, FsError, Result};

/// A name for what is made at a moment, which sorts as moments do: `2026-11-26T13:00:00.000Z`.
pub fn moment_name(unix_ms: i64) -> String {
    let at = DateTime::from_timestamp_millis(unix_ms).unwrap_or_default();
    at.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Most snapshots of one rule that are kept.
const KEEP_MAX: u32 = 10_000;

/// How often. Periods begin as those of UTC do, weeks on Monday.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotPeriod {
    /// Each quarter of an hour.
    Frequent,
    /// Each hour.
    Hourly,
    /// Each day.
    Daily,
    /// Each week.
    Weekly,
    /// Each month.
    Monthly,
}

impl SnapshotPeriod {
    const ALL: [Self; 5] = [Self::Frequent, Self::Hourly, Self::Daily, Self::Weekly, Self::Monthly];

    /// What rules and snapshots call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Frequent => "frequent",
            Self::Hourly => "hourly",
            Self::Daily => "daily",
            Self::Weekly => "weekly",
            Self::Monthly => "monthly",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|period| period.name() == name)
    }

    /// When the period began in which a moment is, and when the next one begins, in seconds since 1970. A moment that no
    /// calendar has is in a period of its own.
    pub(super) fn around(self, unix_s: i64) -> (i64, i64) {
        self.days_around(unix_s).unwrap_or((unix_s, unix_s.saturating_add(1)))
    }

    fn days_around(self, unix_s: i64) -> Option<(i64, i64)> {
        let of = |seconds: i64| {
            let start = unix_s.div_euclid(seconds) * seconds;
            Some((start, start.checked_add(seconds)?))
        };
        let day = DateTime::from_timestamp(unix_s, 0)?.date_naive();
        let midnight = |day: NaiveDate| day.and_time(NaiveTime::MIN).and_utc().timestamp();
        match self {
            Self::Frequent => of(900),
            Self::Hourly => of(3_600),
            Self::Daily => of(86_400),
            Self::Weekly => {
                let after = Days::new(day.weekday().num_days_from_monday().into());
                let monday = day.checked_sub_days(after)?;
                Some((midnight(monday), midnight(monday.checked_add_days(Days::new(7))?)))
            }
            Self::Monthly => {
                let first = day.with_day(1)?;
                Some((midnight(first), midnight(first.checked_add_months(Months::new(1))?)))
            }
        }
    }

    /// What the snapshot of the period is called that began then.
    pub(super) fn snapshot_name(self, start_s: i64) -> String {
        let start = DateTime::from_timestamp(start_s, 0).unwrap_or(DateTime::UNIX_EPOCH);
        let day = start.format("%Y-%m-%d");
        match self {
            Self::Frequent | Self::Hourly => {
                format!("{}-{day}T{}Z", self.name(), start.format("%H:%M"))
            }
            Self::Daily | Self::Weekly | Self::Monthly => format!("{}-{day}", self.name()),
        }
    }

    /// Whether a snapshot is due at a moment, when the newest one is of the period that began at `made_s`: in each
    /// period the first time that it is looked, and only one for all that went by. A clock that goes back makes none for periods
    /// that had theirs, unless it was ahead by more than one: then it was wrong.
    pub(super) fn is_due(self, made_s: Option<i64>, now_s: i64) -> bool {
        let (start, next) = self.around(now_s);
        let ahead = TimeDelta::try_seconds(next - start).map_or(0, |period| period.num_seconds());
        made_s.is_none_or(|made| made < start || made > start.saturating_add(ahead))
    }
}

/// A rule of a schedule, as in `hourly:24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotRule {
    /// How often one is made.
    pub every: SnapshotPeriod,
    /// How many of the newest ones are kept, at least one.
    pub keep: u32,
}

impl FromStr for SnapshotRule {
    type Err = FsError;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            let text = format!(
                "`{}` is no rule: {why}; like hourly:24 or daily:7, of frequent, hourly, daily, weekly and monthly",
                text.escape_debug()
            );
            FsError::new(ErrorKind::Invalid, text)
        };
        let (name, keep) =
            text.split_once(':').ok_or_else(|| wrong("how many are kept is missing"))?;
        let every =
            SnapshotPeriod::named(name).ok_or_else(|| wrong("it is not known how often"))?;
        let keep = keep.parse().ok().filter(|keep| (1..=KEEP_MAX).contains(keep));
        let keep = keep.ok_or_else(|| wrong(&format!("1 to {KEEP_MAX} can be kept")))?;
        Ok(Self { every, keep })
    }
}

/// Refuses rules that are not of another period each, and ones that keep nothing or too many.
pub(super) fn check(rules: &[SnapshotRule]) -> Result<()> {
    for (at, rule) in rules.iter().enumerate() {
        format!("{}:{}", rule.every.name(), rule.keep).parse::<SnapshotRule>()?;
        if rules[..at].iter().any(|other| other.every == rule.every) {
            let text = format!("there are two rules for {}: say one", rule.every.name());
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::SnapshotPeriod::{Daily, Frequent, Hourly, Monthly, Weekly};
    use super::*;

    fn at(text: &str) -> i64 {
        DateTime::parse_from_rfc3339(text).expect("a time").timestamp()
    }

    #[test]
    fn periods_begin_as_those_of_utc() {
        let now = at("2028-02-29T13:47:11Z"); // a Tuesday
        let starts = [
            (
                Frequent,
                "2028-02-29T13:45:00Z",
                "2028-02-29T14:00:00Z",
                "frequent-2028-02-29T13:45Z",
            ),
            (Hourly, "2028-02-29T13:00:00Z", "2028-02-29T14:00:00Z", "hourly-2028-02-29T13:00Z"),
            (Daily, "2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z", "daily-2028-02-29"),
            (Weekly, "2028-02-28T00:00:00Z", "2028-03-06T00:00:00Z", "weekly-2028-02-28"),
            (Monthly, "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z", "monthly-2028-02-01"),
        ];
        for (period, start, next, name) in starts {
            assert_eq!(period.around(now), (at(start), at(next)), "{period:?}");
            assert_eq!(period.snapshot_name(at(start)), name);
            assert_eq!(SnapshotPeriod::named(period.name()), Some(period));
            weir_meta::check_snapshot_name(name).expect("a name for a snapshot");
            assert_eq!(period.around(at(next)).0, at(next), "the next one begins then");
        }
        assert_eq!(Weekly.around(at("2027-01-03T23:59:59Z")).0, at("2026-12-28T00:00:00Z"));
        assert_eq!(Daily.around(-1), (-86_400, 0), "before 1970");
        for far in [i64::MIN, i64::MAX] {
            Monthly.around(far);
            Monthly.snapshot_name(far);
            Hourly.is_due(Some(0), far);
        }
    }

    #[test]
    fn one_is_due_in_each_period_whatever_the_clock_does() {
        let now = at("2026-11-26T13:00:00Z");
        let hour = 3_600;
        assert!(Hourly.is_due(None, now), "the first one");
        assert!(!Hourly.is_due(Some(now), now + hour - 1) && Hourly.is_due(Some(now), now + hour));
        assert!(Hourly.is_due(Some(now), now + 300 * hour), "one for all that went by");
        assert!(!Hourly.is_due(Some(now), now - 1), "the clock went back a little");
        assert!(!Hourly.is_due(Some(now), now - hour));
        assert!(Hourly.is_due(Some(now), now - hour - 1), "it was ahead");
        assert!(Monthly.is_due(Some(at("2040-01-01T00:00:00Z")), now));
    }

    #[test]
    fn rules_say_how_often_and_how_many() {
        let rule = |text: &str| text.parse::<SnapshotRule>();
        assert_eq!(rule("daily:7").expect("a rule"), SnapshotRule { every: Daily, keep: 7 });
        for wrong in ["", "daily", "daily:", "daily:0", "daily:-1", "daily:99999", "yearly:2", ":3"]
        {
            let error = rule(wrong).expect_err(wrong);
            assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("hourly:24"));
        }
        let of = |every, keep| SnapshotRule { every, keep };
        check(&[of(Daily, 7), of(Hourly, 24)]).expect("fine");
        check(&[]).expect("none");
        check(&[of(Daily, 7), of(Daily, 8)]).expect_err("two of one kind");
        check(&[of(Daily, 0)]).expect_err("nothing is kept");
    }
}
