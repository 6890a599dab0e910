//! Rules by which what is not used goes into cheaper storage classes, as people write them.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_types::StorageClass;

/// Longest time that a rule waits, in days: ten years.
const DAYS_MAX: u32 = 3_650;

/// From when on what is not used is in which class: `cold after 30d: STANDARD_IA; after 180d: GLACIER_IR`. Without a
/// step it moves nothing: `never`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LifecycleRule {
    /// Its steps, from the earliest and warmest.
    pub steps: Vec<LifecycleStep>,
    /// What is used again moves back: `; back when read`.
    #[serde(default)]
    pub back: bool,
}

/// From when on it is in which class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LifecycleStep {
    /// Days since it was used.
    pub after_days: u32,
    /// The class.
    pub class: StorageClass,
}

impl LifecycleRule {
    /// The class for what was not used for so many days.
    pub fn class_at(&self, days: u32) -> StorageClass {
        let reached = self.steps.iter().rev().find(|step| step.after_days <= days);
        reached.map_or(StorageClass::Standard, |step| step.class)
    }

    /// Where an object moves that was not used for so many days and is in this class, if it does.
    pub fn moves(&self, days: u32, from: StorageClass) -> Option<StorageClass> {
        let to = self.class_at(days);
        (to > from || (to < from && self.back)).then_some(to)
    }

    fn check(&self) -> Result<(), String> {
        let pairs = self.steps.windows(2);
        for (one, next) in pairs.map(|pair| (pair[0], pair[1])) {
            if next.after_days <= one.after_days || next.class <= one.class {
                return Err(format!(
                    "`after {}d: {}` comes behind `after {}d: {}`: steps go from early to late and from warm to cold",
                    next.after_days, next.class, one.after_days, one.class
                ));
            }
        }
        Ok(())
    }
}

impl fmt::Display for LifecycleRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.steps.is_empty() {
            return f.write_str("never");
        }
        for (at, LifecycleStep { after_days, class }) in self.steps.iter().enumerate() {
            let before = if at == 0 { "cold " } else { "; " };
            write!(f, "{before}after {after_days}d: {class}")?;
        }
        f.write_str(if self.back { "; back when read" } else { "" })
    }
}

impl FromStr for LifecycleRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut rule = Self::default();
        if text.trim() == "never" {
            return Ok(rule);
        }
        for clause in text.split(';').map(str::trim) {
            if clause == "back when read" {
                rule.back = true;
                continue;
            }
            rule.steps.push(step(clause)?);
        }
        if rule.steps.is_empty() {
            return Err(format!("`{text}` says from when on: write {EXAMPLE}, or `never`"));
        }
        rule.check()?;
        Ok(rule)
    }
}

const EXAMPLE: &str = "'cold after 30d: STANDARD_IA; after 180d: GLACIER_IR'";

fn step(clause: &str) -> Result<LifecycleStep, String> {
    let bad = || format!("`{clause}` is no step of a rule: write {EXAMPLE}");
    let bare = clause.strip_prefix("cold").map_or(clause, str::trim_start);
    let (when, class) =
        bare.strip_prefix("after").and_then(|b| b.split_once(':')).ok_or_else(bad)?;
    let days = when.trim().strip_suffix('d').ok_or_else(bad)?;
    let after_days = days.parse().map_err(|_| bad())?;
    if !(1..=DAYS_MAX).contains(&after_days) {
        return Err(format!("`{clause}`: from 1 to {DAYS_MAX} days"));
    }
    let class: StorageClass = class.trim().parse()?;
    match class {
        StorageClass::Standard => {
            Err(format!("`{clause}`: all is in {class} before the first step"))
        }
        _ => Ok(LifecycleStep { after_days, class }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> LifecycleRule {
        text.parse().expect("it is a rule")
    }

    #[test]
    fn a_rule_is_read_as_it_is_written() {
        for text in [
            "cold after 30d: STANDARD_IA; after 180d: GLACIER_IR",
            "cold after 1d: GLACIER_IR",
            "cold after 30d: STANDARD_IA; back when read",
            "never",
        ] {
            assert_eq!(rule(text).to_string(), text);
        }
        let short = rule("after 7d:standard_ia;after 90d :glacier_ir");
        assert_eq!(short.to_string(), "cold after 7d: STANDARD_IA; after 90d: GLACIER_IR");
    }

    #[test]
    fn what_is_no_rule_says_why() {
        let why = |text: &str| text.parse::<LifecycleRule>().expect_err("it is none");
        for (text, says) in [
            ("", "no step of a rule"),
            ("back when read", "or `never`"),
            ("cold after 30: STANDARD_IA", "no step of a rule"),
            ("cold after 0d: STANDARD_IA", "from 1 to 3650 days"),
            ("cold after 30d: STANDARD", "before the first step"),
            ("cold after 30d: DEEP_ARCHIVE", "must be restored"),
            ("cold after 30d: GLACIER_IR; after 90d: STANDARD_IA", "from warm to cold"),
            ("cold after 90d: STANDARD_IA; after 30d: GLACIER_IR", "from early to late"),
            ("cold after 99999999999d: STANDARD_IA", "no step of a rule"),
        ] {
            assert!(why(text).contains(says), "{text}: {}", why(text));
        }
    }

    #[test]
    fn what_is_old_moves_to_colder_classes_and_back_only_where_it_is_said() {
        use StorageClass::{GlacierIr, Standard, StandardIa};
        let one_way = rule("cold after 30d: STANDARD_IA; after 180d: GLACIER_IR");
        let back = rule("cold after 30d: STANDARD_IA; after 180d: GLACIER_IR; back when read");
        for (days, from, to, returns) in [
            (29, Standard, None, None),
            (30, Standard, Some(StandardIa), Some(StandardIa)),
            (30, StandardIa, None, None),
            (400, Standard, Some(GlacierIr), Some(GlacierIr)),
            (400, StandardIa, Some(GlacierIr), Some(GlacierIr)),
            (0, StandardIa, None, Some(Standard)),
            (40, GlacierIr, None, Some(StandardIa)),
        ] {
            assert_eq!(one_way.moves(days, from), to, "{days} {from}");
            assert_eq!(back.moves(days, from), returns, "{days} {from}");
        }
        assert_eq!(rule("never").moves(4_000, Standard), None);
    }
}
