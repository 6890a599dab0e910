//! `weir metrics`: what Prometheus is told, and whether something in it is a reason for an alert.

mod expression;
mod rules;
mod scrape;

use std::process::ExitCode;

use serde::Serialize;
use weir_types::Result;

use self::rules::{Alert, Judged};
use self::scrape::Scrape;
use crate::cli::MetricsArgs;
use crate::client::Client;
use crate::render;

/// What a check found.
#[derive(Serialize)]
struct Report {
    /// How many metrics there are.
    metrics: usize,
    /// What is not as the format, or docs/metrics.md, has it.
    wrong: Vec<String>,
    /// Conditions of alerts that hold now.
    alerts: Vec<Alert>,
    /// Alerts of which one look cannot tell.
    over_time: Vec<String>,
}

pub(crate) async fn run(args: MetricsArgs) -> Result<ExitCode> {
    let client = match &args.dir {
        Some(dir) => Client::at(dir)?,
        None => Client::only("weir metrics /mnt")?,
    };
    let text = client.scrape().await?;
    if !args.check {
        render::say(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let place = client.status().await?.place();
    let report = check(&text, &place.display().to_string());
    match args.json {
        true => render::say_json(&report)?,
        false => render::say(&report.describe())?,
    }
    Ok(match report.wrong.is_empty() && report.alerts.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn check(text: &str, place: &str) -> Report {
    let scrape = Scrape::read(text);
    let Judged { alerts, over_time, wrong: rules } = rules::judge(&scrape, place);
    let strangers = rules::strangers(&scrape);
    let metrics = scrape.kinds.len();
    let wrong = scrape.wrong.into_iter().chain(strangers).chain(rules).collect();
    Report { metrics, wrong, alerts, over_time }
}

impl Report {
    fn describe(&self) -> String {
        let mut text = match self.wrong.is_empty() {
            true => format!("{} metrics, as docs/metrics.md has them.\n", self.metrics),
            false => self.wrong.iter().map(|wrong| format!("WRONG     {wrong}\n")).collect(),
        };
        for Alert { name, severity, summary, description, .. } in &self.alerts {
            text.push_str(&format!("{severity:8}  {name}: {summary}\n{:10}{description}\n", ""));
        }
        if self.alerts.is_empty() {
            text.push_str("No alert's condition holds now.\n");
        }
        let over_time = self.over_time.join(", ");
        text.push_str(&format!("One look cannot tell, Prometheus can: {over_time}.\n"));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_says_what_is_wrong_and_what_holds() {
        let report = check("# TYPE weir_fenced gauge\nweir_fenced 1\n", "/mnt/v");
        let text = report.describe();
        let fenced = "critical  WeirFenced: Another writer took over the volume of /mnt/v, or its other nodes shut it out\n";
        assert!(
            text.contains("WRONG     the answer is cut off") && text.contains(fenced),
            "{text}"
        );
        let report = check("# TYPE weir_fenced gauge\nweir_fenced 0\n# EOF\n", "/mnt/v");
        let text = report.describe();
        assert!(text.starts_with("1 metrics, as docs/metrics.md has them.\nNo alert"), "{text}");
        assert!(text.contains("WeirThrottled"), "{text}");
    }
}
