//! Advice as one page of HTML that needs nothing else: no script, no font, no picture from outside.

use maud::{Markup, html};

use super::advice::Advice;
use super::break_even::Stretch;
use super::choice::Choice;
use super::plot::over_runs;
use super::services::efs_beside_fsx;
use super::table::{SORTED, WORDS, runs, span, table};
use crate::Bill;
use crate::page::chart::{Bar, bars};
use crate::page::{Table, document};

/// The advice as a page: recommendation, table, charts, break-even points, and what each cost is
/// made of, with the source of each price.
pub fn page(advice: &Advice) -> String {
    let name = match advice.workload.name.as_str() {
        "" => "a workload",
        name => name,
    };
    let body = html! {
        (summary(advice))
        (recommendation(advice))
        (choices(advice))
        (charts(advice))
        (break_even(advice))
        (refused(advice))
        (lines_of(advice))
    };
    document(&format!("Where to run {name}"), &body)
}

fn summary(advice: &Advice) -> Markup {
    let of = &advice.workload;
    html! {
        p class="soft" {
            (weir_types::Bytes(of.data_set_bytes)) " in " (of.files) " files in " (of.region) "; "
            @if of.concurrency == 1 { "1 job" } @else { (of.concurrency) " jobs" }
            " at once, each reading " (weir_types::Bytes(of.read_bytes_per_run)) " a run; "
            (runs(advice.runs_per_month)) " runs a month. An hour of who waits costs $"
            (advice.usd_per_hour) ". Machines are "
            @if advice.spot { "Spot instances" } @else { "on demand" } "."
        }
    }
}

fn recommendation(advice: &Advice) -> Markup {
    let Some(best) = &advice.recommendation else {
        return html! {
            h2 { "No recommendation" }
            p {
                "No choice keeps up and has all of its prices known. Unknown are: "
                (advice.unknown_prices.join(", ")) ". Add them to a price book."
            }
        };
    };
    html! {
        h2 { "Recommended: " (best.storage) " on " (best.machines) " x " (best.machine) }
        p { strong { (best.summary) } @if let Some(why) = &best.why { " " (why) } }
        ul { @for reason in &best.reasons { li { (reason) } } }
    }
}

fn choices(advice: &Advice) -> Markup {
    let rows = table(advice);
    let best = advice.recommendation.as_ref().map(|_| 0);
    let table = Table { rows: &rows, numbers: WORDS..rows[0].len(), best, sorted: Some(SORTED) };
    html! {
        h2 { "The choices" }
        p class="soft" {
            "By what a month costs with the time of who waits. Last are those whose prices are not "
            "all known, and those that do not get a day's runs done in a day."
        }
        (table.markup())
    }
}

fn charts(advice: &Advice) -> Markup {
    let known: Vec<&Choice> = advice.choices.iter().filter(|of| of.month.complete).collect();
    let cost = |of: &&Choice| Bar {
        name: of.name.clone(),
        value: of.cost_per_run.dollars(),
        text: of.cost_per_run.to_string(),
    };
    let costs: Vec<Bar> = known.iter().map(cost).collect();
    let about = "Dollars of a run for each choice whose prices are known, storage included.";
    let time = |of: &Choice| Bar {
        name: of.name.clone(),
        value: of.run_seconds,
        text: span(of.run_seconds),
    };
    let times: Vec<Bar> = advice.choices.iter().map(time).collect();
    html! {
        h2 { "Beside one another" }
        div class="charts" {
            @if !known.is_empty() {
                (over_runs(advice, &known))
                (bars("Cost of a run", about, &costs))
            }
            (bars("Time of a run", "How long a run takes on each choice.", &times))
        }
    }
}

fn break_even(advice: &Advice) -> Markup {
    let row = |stretch: &Stretch| vec![stretch.name.clone(), runs(stretch.from_runs_per_month)];
    let of = |head: &str, stretches: &[Stretch]| {
        let head = vec![head.to_owned(), "from runs a month".to_owned()];
        let rows: Vec<_> = [head].into_iter().chain(stretches.iter().map(row)).collect();
        Table { rows: &rows, numbers: 1..2, ..Table::default() }.markup()
    };
    html! {
        h2 { "Break-even points" }
        (of("cheapest", &advice.cheapest))
        (of("cheapest with waiting", &advice.cheapest_with_waiting))
        @if let Some(best) = &advice.recommendation { (touching(advice, &best.storage)) }
        h3 { "EFS beside FSx for Lustre" }
        ul { @for sentence in efs_beside_fsx(advice) { li { (sentence) } } }
    }
}

/// The points at which the storage costs as much as another one.
fn touching(advice: &Advice, storage: &str) -> Markup {
    let head = ["costs less below", "costs less above", "runs a month"].map(str::to_owned);
    let points = advice.break_even.iter();
    let touching = points
        .filter(|point| point.below == storage || point.above == storage)
        .map(|of| vec![of.below.clone(), of.above.clone(), runs(of.runs_per_month)]);
    let rows: Vec<_> = [head.to_vec()].into_iter().chain(touching).collect();
    Table { rows: &rows, numbers: 2..3, ..Table::default() }.markup()
}

fn refused(advice: &Advice) -> Markup {
    html! {
        @if !advice.refused.is_empty() {
            h2 { "Refused" }
            ul {
                @for refusal in &advice.refused {
                    li { strong { (refusal.name) } ": " (refusal.why) }
                }
            }
        }
    }
}

/// What each choice is made of.
fn lines_of(advice: &Advice) -> Markup {
    let head = ["line", "quantity", "unit", "price", "amount", "source", "date"].map(str::to_owned);
    let rows = |choice: &Choice| {
        let lines = [("a month", &choice.monthly), ("a run", &choice.per_run)];
        let rows = lines.into_iter().flat_map(|(each, bill)| bill_rows(each, bill));
        [head.to_vec()].into_iter().chain(rows).collect::<Vec<_>>()
    };
    html! {
        h2 { "What the costs are made of" }
        @for choice in &advice.choices {
            details {
                summary { (choice.name) }
                (Table { rows: &rows(choice), ..Table::default() }.markup())
            }
        }
    }
}

fn bill_rows(each: &str, bill: &Bill) -> Vec<Vec<String>> {
    let unknown = || "unknown".to_owned();
    let row = |line: &crate::Line| {
        let price = line.price.as_ref();
        vec![
            format!("{each}: {}", line.what),
            format!("{:.3}", line.quantity),
            line.unit.to_owned(),
            match price {
                Some(price) => price.usd.to_string(),
                None if line.amount.is_some() => "included".to_owned(),
                None => unknown(),
            },
            line.amount.map_or_else(unknown, |amount| amount.to_string()),
            price.map_or_else(String::new, |price| price.source.clone()),
            price.and_then(|price| price.date.clone()).unwrap_or_default(),
        ]
    };
    bill.lines.iter().filter(|line| line.quantity > 0.0).map(row).collect()
}
