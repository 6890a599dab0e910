//! The alerts of monitoring/rules.yml, and what docs/metrics.md says that there is.

use serde::Serialize;
use weir_types::Bytes;

use super::expression::{Unanswered, holding};
use super::scrape::{Sample, Scrape};

const RULES: &str = include_str!("../../../../../monitoring/rules.yml");
const METRICS: &str = include_str!("../../../../../docs/metrics.md");

/// One alert, as the file has it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rule {
    name: String,
    expression: String,
    severity: String,
    summary: String,
    description: String,
}

/// An alert whose condition holds, for people.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Alert {
    pub(super) name: String,
    /// `critical` or `warning`.
    pub(super) severity: String,
    pub(super) summary: String,
    pub(super) description: String,
    /// What the expression is now.
    pub(super) value: f64,
}

/// What the rules say of one look.
#[derive(Debug, Default)]
pub(super) struct Judged {
    pub(super) alerts: Vec<Alert>,
    /// Names of those that look back in time.
    pub(super) over_time: Vec<String>,
    /// Rules that are not understood here, which the tests see to.
    pub(super) wrong: Vec<String>,
}

/// Holds every rule against what `place` told.
pub(super) fn judge(scrape: &Scrape, place: &str) -> Judged {
    let mut judged = Judged::default();
    for rule in rules() {
        match holding(&rule.expression, scrape) {
            Ok(series) => judged.alerts.extend(series.iter().map(|of| rule.alert(of, place))),
            Err(Unanswered::TakesTime) => judged.over_time.push(rule.name),
            Err(Unanswered::NotUnderstood(at)) => {
                judged.wrong.push(format!("the rule of {} is not understood at: {at}", rule.name));
            }
        }
    }
    judged
}

/// What a daemon has that docs/metrics.md has not, or otherwise.
pub(super) fn strangers(scrape: &Scrape) -> Vec<String> {
    let known = |name: &str, kind: &str| METRICS.contains(&format!("\n| `{name}` | {kind} | "));
    let strange = scrape.kinds.iter().filter(|(name, kind)| !known(name, kind));
    let told = strange.map(|(name, kind)| {
        format!("no {kind} {name} is known to this weir: the daemon is of another version")
    });
    told.collect()
}

impl Rule {
    fn alert(&self, of: &Sample, place: &str) -> Alert {
        Alert {
            name: self.name.clone(),
            severity: self.severity.clone(),
            summary: filled(&self.summary, of, place),
            description: filled(&self.description, of, place),
            value: of.value,
        }
    }
}

/// A text with what stands between double braces.
fn filled(text: &str, of: &Sample, place: &str) -> String {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, (asked, after))) =
        rest.split_once("{{").and_then(|(before, rest)| Some((before, rest.split_once("}}")?)))
    {
        filled.push_str(before);
        // `B` stands behind what Prometheus writes as `1.5Gi`.
        let (size, unit) = (Bytes(of.value.max(0.0) as u64).to_string(), after.strip_prefix('B'));
        rest = after;
        match asked.trim() {
            "$labels.instance" => filled.push_str(place),
            "$value" => filled.push_str(&of.value.to_string()),
            "$value | humanize1024" => {
                filled.push_str(&size);
                rest = unit.unwrap_or(after);
            }
            asked => {
                let label = asked.strip_prefix("$labels.").and_then(|name| of.labels.get(name));
                filled.push_str(label.map_or("", String::as_str));
            }
        }
    }
    filled + rest
}

/// Reads what of YAML the file is made of: one field a line, and expressions over several.
fn rules() -> Vec<Rule> {
    let (mut rules, mut folding): (Vec<Rule>, bool) = (Vec::new(), false);
    for line in RULES.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("- alert: ") {
            rules.push(Rule { name: name.to_owned(), ..Rule::default() });
            continue;
        }
        let Some(rule) = rules.last_mut() else { continue };
        let quoted = |text: &str| text.trim_matches('"').to_owned();
        match line.split_once(": ") {
            Some(("expr", ">-")) => folding = true,
            Some(("expr", text)) => rule.expression = text.to_owned(),
            Some(("summary", text)) => rule.summary = quoted(text),
            Some(("description", text)) => rule.description = quoted(text),
            Some(("labels", text)) => {
                let severity = text.trim_matches(|c: char| "{ }".contains(c));
                rule.severity = severity.trim_start_matches("severity: ").to_owned();
                folding = false;
            }
            Some(_) => folding = false,
            None if folding => rule.expression.push_str(&format!("{line} ")),
            None => {}
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_read_and_understood() {
        let rules = rules();
        assert_eq!(rules.len(), RULES.matches("- alert: ").count());
        for rule in &rules {
            let whole = [&rule.name, &rule.expression, &rule.summary, &rule.description];
            assert!(whole.iter().all(|text| text.len() > 3), "{rule:?}");
            assert!(["critical", "warning"].contains(&rule.severity.as_str()), "{rule:?}");
        }
        let judged = judge(&Scrape::default(), "/mnt");
        assert_eq!((judged.alerts, judged.wrong), (Vec::new(), Vec::new()));
        assert!(judged.over_time.contains(&"WeirBucketErrors".to_owned()), "it is folded");
        assert!(judged.over_time.len() * 2 < rules.len(), "{:?}", judged.over_time);
    }

    #[test]
    fn an_alert_that_holds_says_of_what() {
        let scrape = Scrape::read(
            "# TYPE weir_requests_failing gauge\n\
             weir_requests_failing{component=\"data\",kind=\"put\"} 12\n\
             # TYPE weir_tier_limit_bytes gauge\nweir_tier_limit_bytes 1073741824\n\
             # TYPE weir_tier_size_bytes gauge\nweir_tier_size_bytes 4294967296\n# EOF\n",
        );
        let alerts = judge(&scrape, "/mnt/v").alerts;
        let told: Vec<_> =
            alerts.iter().map(|of| (&*of.name, &*of.severity, &*of.summary)).collect();
        let fails = "put of data at /mnt/v fails: 12 attempts in a row";
        let short = "The tier of /mnt/v has 1 GiB, less than --tier-size";
        let wanted =
            [("WeirBucketFails", "critical", fails), ("WeirTierDiskShort", "warning", short)];
        assert_eq!(told, wanted);
    }

    #[test]
    fn a_metric_that_no_page_has_is_a_stranger() {
        let scrape = Scrape::read(
            "# TYPE weir_tier_size_bytes gauge\n# TYPE weir_fenced counter\n# TYPE weir_x gauge\n",
        );
        let strangers = strangers(&scrape);
        assert_eq!(strangers.len(), 2, "{strangers:?}");
        assert!(strangers[0].starts_with("no counter weir_fenced is known"), "{strangers:?}");
    }
}
