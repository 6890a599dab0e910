//! Which requests fail, where and how: a [`FaultPlan`], also read from one line of text so that a
//! daemon under test takes it from its environment.

use std::str::FromStr;

use weir_types::{ErrorKind, FsError, Result};

use crate::RequestKind;

/// When a rule fires, among the requests that it is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger {
    /// Each with this probability, 0 to 1.
    Chance(f64),
    /// Only this one, counted from 1.
    Nth(u64),
}

/// Where in the request the fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The store never hears of the request.
    Before,
    /// Half-way: a body or listing that is read ends early; what is written is not applied.
    Half,
    /// The store did as asked, but the answer is lost.
    After,
}

/// What the caller sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// 503 SlowDown.
    Unavailable,
    /// No answer in time.
    Timeout,
    /// The connection is reset.
    Reset,
    /// A body that is shorter than announced, without an error. Only on GET, else as `Reset`.
    Truncate,
    /// One bit of the body is wrong, without an error. Only on GET, else as `Reset`. Never drawn at
    /// random: this layer cannot notice it, checksums above must.
    BitFlip,
}

/// One rule. Parts left open fit every request; an open place or fault is drawn at random.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultRule {
    /// Kind of request.
    pub kind: Option<RequestKind>,
    /// Beginning of the full key (listings: of their prefix), the URL's prefix included.
    pub key: String,
    /// Which of these requests.
    pub trigger: Trigger,
    /// Where.
    pub place: Option<Place>,
    /// What.
    pub what: Option<What>,
}

impl Default for FaultRule {
    fn default() -> Self {
        let trigger = Trigger::Chance(1.0);
        Self { kind: None, key: String::new(), trigger, place: None, what: None }
    }
}

/// Rules, the first that fires wins, and the seed of all chance.
///
/// As text: rules separated by `;`, each a list of `name=value` separated by `,`. Names: `op` (put,
/// get, head, list, delete, copy), `key`, `p` or `nth`, `where` (before, half, after), `what`
/// (503, timeout, reset, truncate, bitflip); `seed` may stand in any rule or alone.
/// `p=0.05,seed=7` fails one request in twenty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// Seed of the random numbers.
    pub seed: u64,
    /// In order of precedence.
    pub rules: Vec<FaultRule>,
}

impl FaultPlan {
    /// Every request fails with probability `chance`, somewhere, somehow.
    pub fn everywhere(chance: f64, seed: u64) -> Self {
        let rule = FaultRule { trigger: Trigger::Chance(chance), ..FaultRule::default() };
        Self { seed, rules: vec![rule] }
    }

    /// A single rule.
    pub fn one(rule: FaultRule) -> Self {
        Self { seed: 0, rules: vec![rule] }
    }
}

impl FromStr for FaultPlan {
    type Err = FsError;

    fn from_str(text: &str) -> Result<Self> {
        let mut plan = FaultPlan::default();
        for part in text.split(';').filter(|part| !part.trim().is_empty()) {
            let mut rule = FaultRule::default();
            let mut rules_something = false;
            for pair in part.split(',') {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                let (name, value) = (name.trim(), value.trim());
                if name == "seed" {
                    plan.seed = value.parse().map_err(|_| bad(pair, "a whole number"))?;
                    continue;
                }
                rules_something = true;
                set(&mut rule, name, value).map_err(|hint| bad(pair, hint))?;
            }
            if rules_something {
                plan.rules.push(rule);
            }
        }
        Ok(plan)
    }
}

fn set(rule: &mut FaultRule, name: &str, value: &str) -> Result<(), &'static str> {
    match name {
        "key" => rule.key = value.to_owned(),
        "p" => {
            let chance = value.parse().ok().filter(|p| (0.0..=1.0).contains(p));
            rule.trigger = Trigger::Chance(chance.ok_or("a number from 0 to 1")?);
        }
        "nth" => {
            let nth = value.parse().ok().filter(|nth| *nth > 0);
            rule.trigger = Trigger::Nth(nth.ok_or("a whole number from 1")?);
        }
        "op" => {
            rule.kind = Some(match value {
                "put" => RequestKind::Put,
                "get" => RequestKind::Get,
                "head" => RequestKind::Head,
                "list" => RequestKind::List,
                "delete" => RequestKind::Delete,
                "copy" => RequestKind::Copy,
                _ => return Err("put, get, head, list, delete or copy"),
            });
        }
        "where" => {
            rule.place = Some(match value {
                "before" => Place::Before,
                "half" => Place::Half,
                "after" => Place::After,
                _ => return Err("before, half or after"),
            });
        }
        "what" => {
            rule.what = Some(match value {
                "503" => What::Unavailable,
                "timeout" => What::Timeout,
                "reset" => What::Reset,
                "truncate" => What::Truncate,
                "bitflip" => What::BitFlip,
                _ => return Err("503, timeout, reset, truncate or bitflip"),
            });
        }
        _ => return Err("op, key, p, nth, where, what or seed"),
    }
    Ok(())
}

fn bad(pair: &str, hint: &str) -> FsError {
    FsError::new(ErrorKind::Invalid, format!("fault plan: `{}`: expected {hint}", pair.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_from_text() {
        assert_eq!("p=0.05,seed=7".parse::<FaultPlan>().ok(), Some(FaultPlan::everywhere(0.05, 7)));
        let plan: FaultPlan = "seed=3; op=put, key=meta/, nth=2, where=after, what=503; op=get"
            .parse()
            .expect("plan");
        let put = FaultRule {
            kind: Some(RequestKind::Put),
            key: "meta/".to_owned(),
            trigger: Trigger::Nth(2),
            place: Some(Place::After),
            what: Some(What::Unavailable),
        };
        let get = FaultRule { kind: Some(RequestKind::Get), ..FaultRule::default() };
        assert_eq!(plan, FaultPlan { seed: 3, rules: vec![put, get] });
        assert_eq!("".parse::<FaultPlan>().ok(), Some(FaultPlan::default()));
        for text in ["p=2", "nth=0", "op=post", "where=", "often", "seed=x"] {
            assert!(text.parse::<FaultPlan>().is_err(), "{text}");
        }
    }
}
