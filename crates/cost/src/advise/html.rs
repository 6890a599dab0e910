//! Advice as one page of HTML that needs nothing else: no script, no font, no picture from outside.

use super::advice::Advice;
use super::break_even::Stretch;
use super::choice::Choice;
use super::plot::over_runs;
use super::table::{runs, span, table};
use crate::Bill;
use crate::page::chart::{Bar, bars};
use crate::page::{document, escape, grid};

/// The advice as a page: recommendation, table, plots, break-even points, and what each cost is
/// made of, with the source of each price.
pub fn html(advice: &Advice) -> String {
    let name = match advice.workload.name.as_str() {
        "" => "a workload",
        name => name,
    };
    let body = [
        summary(advice),
        recommendation(advice),
        format!("<h2>The choices</h2>\n{}", choices(advice)),
        plots(advice),
        break_even(advice),
        refused(advice),
        lines_of(advice),
    ]
    .concat();
    document(&format!("Where to run {name}"), "", &body)
}

fn summary(advice: &Advice) -> String {
    let of = &advice.workload;
    format!(
        "<p class=\"soft\">{} in {} files in {}; {} at once, each reading {} a run; {} runs a month. An \
         hour of who waits costs ${}. Machines are {}.</p>\n",
        weir_types::Bytes(of.data_set_bytes),
        of.files,
        escape(&of.region),
        if of.concurrency == 1 { "1 job".to_owned() } else { format!("{} jobs", of.concurrency) },
        weir_types::Bytes(of.read_bytes_per_run),
        runs(advice.runs_per_month),
        advice.usd_per_hour,
        if advice.spot { "Spot instances" } else { "on demand" }
    )
}

fn recommendation(advice: &Advice) -> String {
    let Some(best) = &advice.recommendation else {
        return format!(
            "<h2>No recommendation</h2>\n<p>No choice keeps up and has all of its prices known. \
             Unknown are: {}. Add them to a price book.</p>\n",
            escape(&advice.unknown_prices.join(", "))
        );
    };
    let reasons = best.reasons.iter().map(|reason| format!("<li>{}</li>\n", escape(reason)));
    format!(
        "<h2>Recommended: {} on {} x {}</h2>\n<ul>\n{}</ul>\n",
        escape(&best.storage),
        best.machines,
        escape(&best.machine),
        reasons.collect::<String>()
    )
}

fn choices(advice: &Advice) -> String {
    grid(&table(advice), 4, advice.recommendation.as_ref().map(|_| 1))
}

fn plots(advice: &Advice) -> String {
    let known: Vec<&Choice> = advice.choices.iter().filter(|of| of.month.complete).collect();
    let mut text = "<h2>Beside one another</h2>\n".to_owned();
    if !known.is_empty() {
        text.push_str(&over_runs(advice, &known).into_string());
        let cost = |of: &&Choice| Bar {
            name: of.name.clone(),
            value: of.cost_per_run.dollars(),
            text: of.cost_per_run.to_string(),
        };
        let about = "Dollars of a run for each choice whose prices are known, storage included.";
        let costs: Vec<Bar> = known.iter().map(cost).collect();
        text.push_str(&bars("Cost of a run", about, &costs).into_string());
    }
    let time = |of: &Choice| Bar {
        name: of.name.clone(),
        value: of.run_seconds,
        text: span(of.run_seconds),
    };
    let times: Vec<Bar> = advice.choices.iter().map(time).collect();
    text.push_str(
        &bars("Time of a run", "How long a run takes on each choice.", &times).into_string(),
    );
    text
}

fn break_even(advice: &Advice) -> String {
    let row = |stretch: &Stretch| vec![stretch.name.clone(), runs(stretch.from_runs_per_month)];
    let of = |head: &str, stretches: &[Stretch]| {
        let head = vec![head.to_owned(), "from runs a month".to_owned()];
        let rows: Vec<_> = [head].into_iter().chain(stretches.iter().map(row)).collect();
        grid(&rows, 1, None)
    };
    let mut text = format!(
        "<h2>Break-even points</h2>\n{}{}",
        of("cheapest", &advice.cheapest),
        of("cheapest with waiting", &advice.cheapest_with_waiting)
    );
    let Some(best) = &advice.recommendation else { return text };
    let head = ["costs less below", "costs less above", "runs a month"].map(str::to_owned);
    let touching = advice
        .break_even
        .iter()
        .filter(|point| point.below == best.storage || point.above == best.storage)
        .map(|of| vec![of.below.clone(), of.above.clone(), runs(of.runs_per_month)]);
    let rows: Vec<_> = [head.to_vec()].into_iter().chain(touching).collect();
    text.push_str(&grid(&rows, 2, None));
    text
}

fn refused(advice: &Advice) -> String {
    if advice.refused.is_empty() {
        return String::new();
    }
    let of = |name: &str, why: &str| {
        format!("<li><strong>{}</strong>: {}</li>\n", escape(name), escape(why))
    };
    let all = advice.refused.iter().map(|refusal| of(&refusal.name, &refusal.why));
    format!("<h2>Refused</h2>\n<ul>\n{}</ul>\n", all.collect::<String>())
}

/// What each choice is made of.
fn lines_of(advice: &Advice) -> String {
    let mut text = "<h2>What the costs are made of</h2>\n".to_owned();
    for choice in &advice.choices {
        let head = ["line", "quantity", "unit", "price", "amount", "source", "date"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(bill_rows("a month", &choice.monthly));
        rows.extend(bill_rows("a run", &choice.per_run));
        text.push_str(&format!(
            "<details><summary>{}</summary>\n{}</details>\n",
            escape(&choice.name),
            grid(&rows, usize::MAX, None)
        ));
    }
    text
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
