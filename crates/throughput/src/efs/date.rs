//! Days of the calendar, for rules that changed on one.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A day, written `2018-09-01`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Date {
    /// The year.
    pub year: u16,
    /// The month, 1 to 12.
    pub month: u8,
    /// The day of the month, from 1.
    pub day: u8,
}

/// The text is not a day of the calendar.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is no date; write one like 2018-09-01")]
pub struct NoDate(String);

impl FromStr for Date {
    type Err = NoDate;

    fn from_str(text: &str) -> Result<Self, NoDate> {
        let parts: Vec<&str> = text.split('-').collect();
        let [year, month, day] = parts[..] else { return Err(NoDate(text.to_owned())) };
        let date = || {
            let date = Self {
                year: year.parse().ok()?,
                month: month.parse().ok()?,
                day: day.parse().ok()?,
            };
            let sound =
                (1..=12).contains(&date.month) && (1..=date.month_days()).contains(&date.day);
            sound.then_some(date)
        };
        date().ok_or_else(|| NoDate(text.to_owned()))
    }
}

impl Date {
    fn month_days(self) -> u8 {
        let leap = self.year.is_multiple_of(4)
            && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400));
        match self.month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl TryFrom<String> for Date {
    type Error = NoDate;

    fn try_from(text: String) -> Result<Self, NoDate> {
        text.parse()
    }
}

impl From<Date> for String {
    fn from(date: Date) -> Self {
        date.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_days_of_the_calendar_and_no_others() {
        let date: Date = "2018-09-01".parse().expect("a date");
        assert_eq!(date, Date { year: 2018, month: 9, day: 1 });
        assert_eq!(date.to_string(), "2018-09-01");
        assert!(date < "2020-06-30".parse().expect("a date"));
        "2024-02-29".parse::<Date>().expect("a leap day");
        for text in
            ["", "2018", "2018-13-01", "2018-00-01", "2023-02-29", "1900-02-29", "2018-4-31"]
        {
            assert!(text.parse::<Date>().is_err(), "{text}");
        }
    }
}
