//! `weir advise`: where a workload should run, and what that costs.

use std::process::ExitCode;

use weir_cost::{Advice, Options, Stretch, Workload};
use weir_types::{ErrorKind, FsError, Result};

use super::{backtest, prices, record};
use crate::cli::AdviseArgs;
use crate::layout::Width;
use crate::render::{self, heading};

/// Choices whose break-even points are shown; `--json` and `--html` have more.
const BEST: usize = 6;
const NO_CHOICE: &str = "No choice keeps up and has all of its prices known: add the unknown ones to \
     a price book (`weir prices --book`), and give it with --prices.";

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
        false => render::say(&describe(&advice, Width::of_output()))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn workload(text: &str) -> Result<Workload> {
    let invalid = |what: String| FsError::new(ErrorKind::Invalid, what);
    let workload: Workload = toml::from_str(text).map_err(|error| invalid(error.to_string()))?;
    workload.check().map_err(invalid)?;
    Ok(workload)
}

fn describe(advice: &Advice, width: Width) -> String {
    let mut text = String::new();
    match &advice.recommendation {
        Some(best) => {
            text.push_str(&format!("{}\n", heading(width.prose(0, &best.summary).trim_end())));
            for reason in best.why.iter().chain(&best.reasons) {
                text.push_str(&width.prose(2, reason));
            }
        }
        None => {
            text.push_str(&format!("{}\n", heading("no recommendation")));
            text.push_str(&width.prose(2, NO_CHOICE));
        }
    }
    let runs = format!("choices, at {:.1} runs a month", advice.runs_per_month);
    let choices = width.table(&weir_cost::table(advice), 3, &[7, 6, 2, 1, 3]);
    text.push_str(&format!("{}\n{choices}", heading(&runs)));
    text.push_str(&stretches("cheapest", &advice.cheapest, width));
    text.push_str(&stretches("best, with waiting", &advice.cheapest_with_waiting, width));
    text.push_str(&break_even(advice, width));
    text.push_str(&format!("{}\n", heading("EFS beside FSx for Lustre, without waiting")));
    for sentence in weir_cost::efs_beside_fsx(advice) {
        text.push_str(&width.prose(2, &sentence));
    }
    for refusal in &advice.refused {
        text.push_str(&format!("{}\n{}", heading("refused"), width.prose(2, &refusal.why)));
    }
    if !advice.unknown_prices.is_empty() {
        let unknown = advice.unknown_prices.join(", ");
        text.push_str(&format!("{}\n{}", heading("unknown prices"), width.prose(2, &unknown)));
    }
    text
}

fn stretches(title: &str, stretches: &[Stretch], width: Width) -> String {
    let rows: Vec<_> = stretches
        .iter()
        .map(|of| {
            vec![of.name.clone(), format!("from {:.1} runs a month on", of.from_runs_per_month)]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("{}\n{}", heading(title), width.table(&rows, 1, &[]))
}

/// Where the best choices overtake one another.
fn break_even(advice: &Advice, width: Width) -> String {
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
    format!("{}\n{}", heading(&title), width.table(&rows, 3, &[]))
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
        let text = describe(&advice, Width::default());
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
        let narrow = describe(&advice, Width::columns(80));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
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
