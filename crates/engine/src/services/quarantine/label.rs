//! Names of entries.

use std::path::Path;

use weir_tier::Manifest;
use weir_types::{Result, UnixTime};

/// The name of an entry that begins now: the time, in UTC. What the same mounts left has one name,
/// also where a crash came between its parts.
pub(crate) fn label_for(all: &Path, mounts: &[String], now: UnixTime) -> Result<String> {
    for entry in std::fs::read_dir(all).into_iter().flatten().flatten() {
        let same = |manifest: &Manifest| {
            !mounts.is_empty() && !manifest.discarded && manifest.cause.mounts == mounts
        };
        // One that cannot be read is none that can be added to.
        if Manifest::read(&entry.path()).ok().flatten().is_some_and(|manifest| same(&manifest)) {
            return Ok(entry.file_name().to_string_lossy().into_owned());
        }
    }
    let time = utc(now);
    let taken = |label: &String| all.join(label).exists();
    let more = (2..).map(|n| format!("{time}-{n}"));
    Ok(std::iter::once(time.clone()).chain(more).find(|label| !taken(label)).unwrap_or(time))
}

/// `YYYYMMDD-HHMMSS`.
fn utc(time: UnixTime) -> String {
    let (seconds, _) = time.parts();
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

/// Year, month and day of a day since 1970, by the civil calendar: years begin in March here, so
/// that a leap day is the last of its year.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use weir_tier::Cause;

    use super::*;

    #[test]
    fn entries_are_named_by_time_and_by_who_left_them() {
        let at = |seconds| UnixTime::from_parts(seconds, 5);
        assert_eq!(utc(at(0)), "19700101-000000");
        assert_eq!(utc(at(951_782_399)), "20000228-235959");
        assert_eq!(utc(at(951_782_400)), "20000229-000000");
        assert_eq!(utc(at(1_795_355_218)), "20261122-134658");
        let dir = tempfile::tempdir().expect("a directory");
        let mounts = vec!["a".to_owned()];
        let label = label_for(dir.path(), &mounts, at(0)).expect("a label");
        assert_eq!(label, "19700101-000000");
        std::fs::create_dir(dir.path().join(&label)).expect("makes");
        let second = label_for(dir.path(), &mounts, at(0)).expect("a label");
        assert_eq!(second, "19700101-000000-2");
        let cause = Cause { mounts: mounts.clone(), ..Cause::default() };
        Manifest::new(cause).write(&dir.path().join(&label)).expect("writes");
        assert_eq!(label_for(dir.path(), &mounts, at(9)).expect("a label"), label);
        assert_eq!(
            label_for(dir.path(), &["b".into()], at(9)).expect("a label"),
            "19700101-000009"
        );
    }
}
