//! `weir advise`: where a workload should run, and what that costs.

use std::process::ExitCode;

use weir_cost::{Advice, Options, Stretch, Workload};
use weir_types::{ErrorKind, FsError, Result};

use super::{backtest, prices, record};
use crate::cli::AdviseArgs;
use crate::render::{self, heading, table};

/// Choices whose break-even points are shown; `--json` and `--html` have more.
const BEST: usize = 6;

pub(crate) async fn run(args: AdviseArgs) -> Result<ExitCode> {
    if let Some(dir) = &args.record {
        return record::run(dir).await;
    }
    // Without a workload, the command line asks for the backtest.
    let Some(path) = &args.workload else { return backtest::run(args.json) };
    let mut workload =
        workload(&prices::read(path)?).map_err(|error| error.within(path.display()))?;
    if let Some(region) = &args.region {
        workload.region.clone_from(region);
    }
    if !(0.0..=1e6).contains(&args.usd_per_hour) {
        let text = "--usd-per-hour: need 0 to 1,000,000";
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    let options = Options {
        usd_per_hour: args.usd_per_hour,
        spot: args.spot,
        most_machines: args.most_machines,
        asked: args.storage.clone(),
        ..Options::default()
    };
    let book = prices::book(args.prices.as_deref())?;
    prices::at(&book, &workload.region).map_err(|error| error.within(path.display()))?;
    let advice = weir_cost::advise(&workload, &book, &options, &weir_cost::predicted);
    if let Some(path) = &args.html {
        std::fs::write(path, weir_cost::html(&advice))
            .map_err(|error| FsError::local_io(format!("write {}", path.display()), error))?;
    }
    match args.json {
        true => render::say_json(&advice)?,
        false => render::say(&describe(&advice))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn workload(text: &str) -> Result<Workload> {
    let invalid = |what: String| FsError::new(ErrorKind::Invalid, what);
    let workload: Workload = toml::from_str(text).map_err(|error| invalid(error.to_string()))?;
    workload.check().map_err(invalid)?;
    Ok(workload)
}

fn describe(advice: &Advice) -> String {
    let mut text = String::new();
    match &advice.recommendation {
        Some(best) => {
            text.push_str(&format!("{}\n", heading(&best.summary)));
            for reason in best.why.iter().chain(&best.reasons) {
                text.push_str(&format!("  {reason}\n"));
            }
        }
        None => {
            text.push_str(&format!("{}\n", heading("no recommendation")));
            text.push_str(
                "  No choice keeps up and has all of its prices known: add the unknown ones to a \
                 price book (`weir prices --book`), and give it with --prices.\n",
            );
        }
    }
    let runs = format!("choices, at {:.1} runs a month", advice.runs_per_month);
    text.push_str(&format!("{}\n{}", heading(&runs), table(&weir_cost::table(advice), 3)));
    text.push_str(&stretches("cheapest", &advice.cheapest));
    text.push_str(&stretches("best, with waiting", &advice.cheapest_with_waiting));
    text.push_str(&break_even(advice));
    text.push_str(&format!("{}\n", heading("EFS beside FSx for Lustre, without waiting")));
    for sentence in weir_cost::efs_beside_fsx(advice) {
        text.push_str(&format!("  {sentence}\n"));
    }
    for refusal in &advice.refused {
        text.push_str(&format!("{}\n  {}\n", heading("refused"), refusal.why));
    }
    if !advice.unknown_prices.is_empty() {
        let unknown = advice.unknown_prices.join(", ");
        text.push_str(&format!("{}\n  {unknown}\n", heading("unknown prices")));
    }
    text
}

fn stretches(title: &str, stretches: &[Stretch]) -> String {
    let rows: Vec<_> = stretches
        .iter()
        .map(|of| {
            vec![of.name.clone(), format!("from {:.1} runs a month on", of.from_runs_per_month)]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("{}\n{}", heading(title), table(&rows, 1))
}

/// Where the best choices overtake one another.
fn break_even(advice: &Advice) -> String {
    let best: Vec<&str> = advice.choices.iter().take(BEST).map(|of| of.name.as_str()).collect();
    let of_best = |name: &str| best.contains(&name);
    let rows: Vec<_> = advice
        .break_even
        .iter()
        .filter(|point| of_best(&point.below) && of_best(&point.above))
        .map(|point| {
            let runs = format!("{:.1} runs a month", point.runs_per_month);
            vec![point.above.clone(), "overtakes".to_owned(), point.below.clone(), runs]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let title = format!("break-even points of the best {BEST}, without waiting");
    format!("{}\n{}", heading(&title), table(&rows, 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../../../docs/examples/blast.toml");

    #[test]
    fn the_example_gets_advice() {
        let example = workload(EXAMPLE).expect("reads");
        assert_eq!(example.data_set_bytes, 254_000_000_000);
        let asked = vec!["fsx:SCRATCH_2:3600".parse().expect("a storage")];
        let options = Options { asked, ..Options::default() };
        let book = prices::book(None).expect("built in");
        let advice = weir_cost::advise(&example, &book, &options, &weir_cost::predicted);
        let text = describe(&advice);
        assert!(text.starts_with("Run it on "), "what to do is first: {text}");
        for wanted in [
            "which saves $",
            "It wins by ",
            "It costs least",
            "EFS beside FSx for Lustre",
            "best, with waiting",
            "2400",
            "4800",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
    }

    #[test]
    fn a_workload_that_makes_no_sense_is_refused() {
        for (line, with, reason) in [
            ("runs_per_day = 10", "runs_per_day = -1", "runs_per_day"),
            ("io_bytes = 1_048_576", "io_bytes = 0", "io_bytes"),
            ("files = 78", "file = 78", "unknown field `file`"),
            ("concurrency = 1", "concurrency = 0", "concurrency"),
        ] {
            let error = workload(&EXAMPLE.replacen(line, with, 1)).expect_err(with).to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
