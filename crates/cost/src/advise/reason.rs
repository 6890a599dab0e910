//! The recommendation, in words.

use weir_types::{Bytes, NanoUsd};

use super::advice::Recommendation;
use super::break_even::Stretch;
use super::candidates::{forgets, half_gib};
use super::choice::Choice;
use super::table::{runs, span};
use crate::Workload;

/// The best of `choices`, which are sorted. Without one whose costs are known, there is nothing to
/// recommend. `stretches` are the cheapest choices by runs a month, waiting included.
pub(super) fn recommend(
    workload: &Workload,
    choices: &[Choice],
    stretches: &[Stretch],
) -> Option<Recommendation> {
    let best = choices.first().filter(|best| best.keeps_up && best.month.complete)?;
    let reasons = [
        Some(money(best)),
        Some(format!(
            "A run takes {}; what it waits for most: {}.",
            span(best.run_seconds),
            best.bound_by
        )),
        first_run(best),
        choices.get(1).filter(|next| next.month.complete).map(|next| second(best, next)),
        Some(machine(workload, best)),
        split(workload, best),
        Some(spot(best)),
        overtaken(best, stretches),
        unknown(choices),
    ];
    let others: Vec<&Choice> =
        choices[1..].iter().filter(|of| of.keeps_up && of.month.complete).collect();
    Some(Recommendation {
        summary: summary(best, &others),
        why: others.first().map(|next| why(best, next)),
        storage: best.name.clone(),
        machine: best.machine.instance.clone(),
        machines: best.machines,
        reasons: reasons.into_iter().flatten().collect(),
    })
}

/// What to do, and what it saves beside the next best and beside the dearest.
fn summary(best: &Choice, others: &[&Choice]) -> String {
    let machines = match best.machines {
        1 => format!("one {}", best.machine.instance),
        more => format!("{more} x {}", best.machine.instance),
    };
    let cost = format!(
        "Run it on {} with {machines}: {} a month, {} with the time of who waits",
        best.name, best.month, best.month_with_waiting
    );
    let saved = |of: &Choice| NanoUsd(of.month_with_waiting.usd.0 - best.month_with_waiting.usd.0);
    match others {
        [] => format!("{cost}; nothing else keeps up and has all of its prices known."),
        [next] => format!("{cost}, which saves {} beside {}.", saved(next), next.name),
        [next, .., last] => format!(
            "{cost}, which saves {} beside the next best, {}, and {} beside the dearest, {}.",
            saved(next),
            next.name,
            saved(last),
            last.name
        ),
    }
}

/// What the best is better by: money, time, or both.
fn why(best: &Choice, next: &Choice) -> String {
    let waiting = |of: &Choice| of.month_with_waiting.usd.0 - of.month.usd.0;
    let money = next.month.usd.0 - best.month.usd.0;
    let time = waiting(next) - waiting(best);
    let than = |nanos: i64| match nanos {
        0 => "as much".to_owned(),
        1.. => format!("{} less", NanoUsd(nanos)),
        _ => format!("{} more", NanoUsd(-nanos)),
    };
    let by = match (money > 0, time > 0) {
        (true, true) => "both money and time",
        (true, false) => "money",
        (false, true) => "time",
        (false, false) => return format!("It costs as much as {}.", next.name),
    };
    format!(
        "It wins by {by}: storage and machines cost {} a month than with {}, and waiting {}.",
        than(money),
        next.name,
        than(time)
    )
    .replace("as much a month than", "as much a month as")
}

fn money(best: &Choice) -> String {
    format!(
        "It costs least with the time of who waits: {} a month, of which {} are paid for storage \
         and machines ({} a run) and the rest is waiting.",
        best.month_with_waiting, best.month, best.cost_per_run
    )
}

fn first_run(best: &Choice) -> Option<String> {
    let first = span(best.first_run_seconds);
    if forgets(&best.storage, &best.machine) {
        return Some(format!(
            "Its disks forget when the machine stops: the runs of a day are taken to follow one \
             another, and the first of them takes {first}."
        ));
    }
    (best.first_run_seconds > best.run_seconds).then(|| format!("The first run takes {first}."))
}

fn second(best: &Choice, next: &Choice) -> String {
    format!(
        "The next best, {}, takes {} a run and costs {} a month, {} with waiting ({} here).",
        next.name,
        span(next.run_seconds),
        next.month,
        next.month_with_waiting,
        best.month_with_waiting
    )
}

fn machine(workload: &Workload, best: &Choice) -> String {
    let of = &best.machine;
    let half = half_gib(workload.data_set_bytes);
    let memory = match of.memory_gib >= half {
        true => format!("{} GiB of memory hold at least half of the data set", of.memory_gib),
        false => format!(
            "{} GiB of memory are the most there is; half of the data set would need {half:.0}",
            of.memory_gib
        ),
    };
    let nvme = match of.nvme_bytes {
        0 => "no NVMe of its own".to_owned(),
        bytes if bytes >= workload.data_set_bytes => {
            format!("{} of NVMe hold all of it", Bytes(bytes))
        }
        bytes => format!("{} of NVMe, less than the data set", Bytes(bytes)),
    };
    format!(
        "{}: {} vCPUs, {memory}; {nvme}; {} Gbit/s of network.",
        of.instance, of.vcpu, of.network_gbps.0
    )
}

fn split(workload: &Workload, best: &Choice) -> Option<String> {
    let jobs = workload.concurrency.max(1);
    let (ways, each) = (best.machines / jobs, jobs.div_ceil(best.machines));
    match (ways, each) {
        (2.., _) => Some(format!(
            "Split the queries of a job {ways} ways: the time saved is worth the machines."
        )),
        (_, 2..) => Some(format!(
            "Run up to {each} jobs on a machine: what is in its memory is read once for all."
        )),
        _ => None,
    }
}

fn spot(best: &Choice) -> String {
    let (least, most) = best.spot_month;
    format!("On Spot instances, usually 60% to 80% off, a month costs {least} to {most}.")
}

fn overtaken(best: &Choice, stretches: &[Stretch]) -> Option<String> {
    let at = stretches.iter().position(|stretch| stretch.name == best.name)?;
    let from = stretches[at].from_runs_per_month;
    let since = match at {
        0 => "at any fewer runs a month".to_owned(),
        _ => format!("from {} runs a month on", runs(from)),
    };
    Some(match stretches.get(at + 1) {
        None => format!("It is the best {since} and at any more."),
        Some(next) => format!(
            "It is the best {since}, until {} overtakes it at {} runs a month.",
            next.name,
            runs(next.from_runs_per_month)
        ),
    })
}

fn unknown(choices: &[Choice]) -> Option<String> {
    let unknown: Vec<&str> = choices
        .iter()
        .filter(|choice| !choice.month.complete)
        .map(|choice| choice.name.as_str())
        .collect();
    (!unknown.is_empty())
        .then(|| format!("Not compared, for want of a known price: {}.", unknown.join("; ")))
}
