//! The advisor: where a workload should run, what that costs, and when something else would be
//! better.
//!
//! Each storage is tried in several sizes, on each machine that fits, with the queries of a job
//! split over one or more machines; of each family the best is kept. Best is what costs least with
//! the time of those who wait for it.

mod advice;
mod break_even;
mod candidates;
mod choice;
mod html;
mod plot;
mod reason;
mod services;
mod table;

use weir_types::NanoUsd;

use crate::bill::{Amount, MONTH_HOURS, times};
use crate::charges::{Load, charges};
use crate::{Bill, Item, Line, Machine, Model, PriceBook, Prices, Storage, Workload};
pub use advice::{Advice, Recommendation, Refusal};
pub use break_even::{BreakEven, Stretch};
use break_even::{break_evens, cheapest};
pub use choice::Choice;
pub use html::page as html;
pub use services::efs_beside_fsx;
pub use table::table;

/// The usual discount of Spot instances: 60% to 80% off the price on demand.
const SPOT: (f64, f64) = (0.6, 0.8);

/// What the advice shall take into account.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// What an hour of somebody who waits for a run costs, in dollars.
    pub usd_per_hour: f64,
    /// Whether the machines are Spot instances, at the lower end of their usual discount.
    pub spot: bool,
    /// The most machines at once.
    pub most_machines: u64,
    /// The machines to choose from.
    pub machines: Vec<Machine>,
    /// Storages that somebody asks about, beside those that are tried anyway.
    pub asked: Vec<Storage>,
}

impl Default for Options {
    /// $50 an hour, on demand, up to 8 machines of any known type.
    fn default() -> Self {
        Self {
            usd_per_hour: 50.0,
            spot: false,
            most_machines: 8,
            machines: crate::machines(),
            asked: vec![],
        }
    }
}

/// Where `workload` should run, at the prices of `book`, if runs take as long as `model` says.
pub fn advise(
    workload: &Workload,
    book: &PriceBook,
    options: &Options,
    model: &Model<'_>,
) -> Advice {
    let advisor = Advisor { workload, prices: book.at(&workload.region), options, model };
    let (asked, refused) = checked(&options.asked, workload.data_set_bytes);
    let mut choices = advisor.best_of_families(candidates::storages(workload));
    for storage in asked {
        let best = advisor.best(&storage);
        choices.extend(best.filter(|best| choices.iter().all(|other| other.name != best.name)));
    }
    choices.sort_by(|a, b| a.rank(b));
    let known = || choices.iter().filter(|choice| choice.keeps_up && choice.month.complete);
    let costs: Vec<_> = known().map(|of| (of.name.clone(), of.linear())).collect();
    let waiting: Vec<_> = known().map(|of| (of.name.clone(), of.linear_with_waiting())).collect();
    let mut unknown_prices: Vec<String> = choices
        .iter()
        .flat_map(|choice| [choice.monthly.unknown(), choice.per_run.unknown()].concat())
        .collect();
    unknown_prices.sort();
    unknown_prices.dedup();
    Advice {
        workload: workload.clone(),
        runs_per_month: advisor.runs_per_month(),
        usd_per_hour: options.usd_per_hour,
        spot: options.spot,
        refused,
        cheapest: cheapest(&costs),
        cheapest_with_waiting: cheapest(&waiting),
        break_even: break_evens(&costs),
        recommendation: reason::recommend(workload, &choices, &cheapest(&waiting)),
        unknown_prices,
        choices,
    }
}

/// Those that AWS sells, and why it refuses the others.
fn checked(asked: &[Storage], data_set_bytes: u64) -> (Vec<Storage>, Vec<Refusal>) {
    let (mut sold, mut refused) = (vec![], vec![]);
    for storage in asked {
        match storage.check().and_then(|()| storage.holds(data_set_bytes)) {
            Ok(()) => sold.push(storage.clone()),
            Err(why) => refused.push(Refusal { name: storage.to_string(), why }),
        }
    }
    (sold, refused)
}

struct Advisor<'a> {
    workload: &'a Workload,
    prices: Prices<'a>,
    options: &'a Options,
    model: &'a Model<'a>,
}

impl Advisor<'_> {
    fn runs_per_month(&self) -> f64 {
        self.workload.runs_per_day * MONTH_HOURS / 24.0
    }

    fn best_of_families(&self, storages: Vec<Storage>) -> Vec<Choice> {
        let mut best: Vec<Choice> = Vec::new();
        for choice in storages.iter().filter_map(|storage| self.best(storage)) {
            let family = choice.storage.family();
            match best.iter_mut().find(|other| other.storage.family() == family) {
                Some(other) if choice.rank(other).is_lt() => *other = choice,
                Some(_) => {}
                None => best.push(choice),
            }
        }
        best
    }

    /// The best machine and number of machines for `storage`, if any machine fits.
    fn best(&self, storage: &Storage) -> Option<Choice> {
        let data_set_bytes = self.workload.data_set_bytes;
        let machines = candidates::machines(&self.options.machines, data_set_bytes);
        let counts = candidates::counts(self.workload.concurrency, self.options.most_machines);
        let choices = machines
            .iter()
            .filter(|machine| candidates::fits(storage, machine, data_set_bytes))
            .flat_map(|machine| {
                counts.iter().map(move |count| self.choice(storage, machine, *count))
            });
        choices.min_by(|a, b| a.rank(b))
    }

    fn choice(&self, storage: &Storage, machine: &Machine, machines: u64) -> Choice {
        let workload = candidates::share(self.workload, machines);
        // The runs of a day follow one another in one life of the machines.
        let cold = match candidates::forgets(storage, machine) {
            true => 1.0 / workload.runs_per_day.max(1.0),
            false => 0.0,
        };
        let time = (self.model)(storage, &workload, machine, machines);
        let run_seconds = time.first_seconds * cold + time.seconds * (1.0 - cold);
        let load = Load::of(&workload, machines, cold, &time);
        let charges = charges(self.prices, storage, &load, machine);
        let hours = run_seconds / 3600.0 * machines as f64;
        let of_runs = |discount: f64| {
            let item = Item::Instance(machine.instance.clone());
            let what = match discount > 0.0 {
                true => format!("Spot instances, {:.0}% off", discount * 100.0),
                false => "instances".to_owned(),
            };
            let line = Line::of(self.prices, &what, item, hours).discounted(discount);
            let lines = charges.per_run.iter().cloned().chain([line]).collect();
            Bill::of(self.prices, lines)
        };
        let runs = self.runs_per_month();
        let monthly = Bill::of(self.prices, charges.monthly.clone());
        let month_at = |discount| monthly.amount() + of_runs(discount).amount() * runs;
        let per_run = of_runs(if self.options.spot { SPOT.0 } else { 0.0 });
        let month = monthly.amount() + per_run.amount() * runs;
        let hour = NanoUsd((self.options.usd_per_hour * 1e9) as i64);
        let waiting_per_run = times(hour, run_seconds / 3600.0);
        let waiting = Amount { usd: waiting_per_run, complete: true } * runs;
        Choice {
            name: storage.to_string(),
            storage: storage.clone(),
            machine: machine.clone(),
            machines,
            run_seconds,
            first_run_seconds: time.first_seconds,
            bound_by: time.bound_by,
            keeps_up: run_seconds * self.workload.runs_per_day <= 86_400.0,
            cost_per_run: if runs > 0.0 { month * (1.0 / runs) } else { per_run.amount() },
            spot_month: (month_at(SPOT.1), month_at(SPOT.0)),
            month_with_waiting: month + waiting,
            monthly,
            per_run,
            month,
            waiting_per_run,
        }
    }
}

#[cfg(test)]
mod tests;
