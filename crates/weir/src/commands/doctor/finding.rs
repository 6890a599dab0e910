//! What was looked at, what it is, and what to do.

use schemars::JsonSchema;
use serde::Serialize;

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "DoctorVerdict")]
pub(super) enum Verdict {
    /// As it should be.
    Good,
    /// Weir works, but slower or with less than it could.
    Warning,
    /// Weir does not work so.
    Bad,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct Finding {
    /// Where: `machine`, `tier`, `journal`, `bucket`, `mount`.
    pub(super) area: &'static str,
    /// What was looked at.
    pub(super) name: &'static str,
    /// How it is.
    pub(super) verdict: Verdict,
    /// What it is, for people.
    pub(super) found: String,
    /// The same as a number, with its unit in `unit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<f64>,
    /// The unit of `value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unit: Option<&'static str>,
    /// What to do, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

impl Finding {
    pub(super) fn good(area: &'static str, name: &'static str, found: impl Into<String>) -> Self {
        let (found, verdict) = (found.into(), Verdict::Good);
        Self { area, name, verdict, found, value: None, unit: None, advice: None }
    }

    /// As it is, it is worth a change.
    pub(super) fn warn(self, advice: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warning, advice: Some(advice.into()), ..self }
    }

    /// As it is, it will not do.
    pub(super) fn bad(self, advice: impl Into<String>) -> Self {
        Self { verdict: Verdict::Bad, advice: Some(advice.into()), ..self }
    }

    pub(super) fn measured(self, value: f64, unit: &'static str) -> Self {
        Self { value: Some(value), unit: Some(unit), ..self }
    }

    /// A line, and one more if there is something to do.
    pub(super) fn describe(&self) -> String {
        let mark = match self.verdict {
            Verdict::Good => "ok  ",
            Verdict::Warning => "note",
            Verdict::Bad => "BAD ",
        };
        let line = format!("{mark}  {:8} {:20} {}\n", self.area, self.name, self.found);
        match &self.advice {
            Some(advice) => format!("{line}{:36}{advice}\n", ""),
            None => line,
        }
    }
}
