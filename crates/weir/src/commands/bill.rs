//! `weir bill`: what a mount costs, and what its work would have cost elsewhere.

mod headline;
mod report;

use std::process::ExitCode;
use std::time::Duration;

use weir_cost::{
    Activity, Bill, Host, Item, Line, Requests, Shadow, Usage, machine, machines, per_hour,
    per_month, predicted, shadow, so_far,
};
use weir_engine::Period;
use weir_types::{Bytes, ErrorKind, FsError, Result};

use self::report::{Elsewhere, HOUR_FROM, MONTH_FROM, Report, time_of};
use super::prices;
use crate::api::{GetUsed, ListLinks, StatusAnswer};
use crate::cli::BillArgs;
use crate::client::Client;
use crate::layout::Width;
use crate::render::{self, heading, seconds};

/// The machine whose network bounds the services if nobody names one.
const USUAL_MACHINE: &str = "i4i.8xlarge";
const STORAGE_IS: &str = "storage is what is in the buckets: compressed, with what was deleted and is \
     not collected yet, without metadata and without objects of linked buckets";

pub(crate) async fn run(args: BillArgs) -> Result<ExitCode> {
    let client = Client::at(&args.dir)?;
    let status = client.status().await?;
    let now = client.call(&GetUsed { since_unix_ms: None }).await?.used.unix_ms;
    let since = args.since.map(|ms| now.saturating_sub(ms));
    let spell = client.call(&GetUsed { since_unix_ms: since }).await?;
    let linked_bytes = client.call(&ListLinks {}).await?.iter().map(|link| link.bytes).sum();
    let report = report(&args, &status, (spell, linked_bytes))?;
    match args.json {
        true => render::say_json(&report)?,
        false => render::say(&describe(&report, args.since, Width::of_output()))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn report(
    args: &BillArgs,
    status: &StatusAnswer,
    (spell, linked_bytes): (Period, u64),
) -> Result<Report> {
    let book = prices::book(args.prices.as_deref())?;
    let prices = prices::at(&book, &args.region)?;
    let name = args.instance.as_deref().unwrap_or(USUAL_MACHINE);
    let priced = args
        .instance
        .as_ref()
        .is_some_and(|name| prices.of(&Item::Instance(name.clone())).is_some());
    // One that only the price book knows has its price from there, and the usual one's network.
    let known = machine(name).or_else(|| machine(USUAL_MACHINE).filter(|_| priced));
    let machine = known.ok_or_else(|| {
        let known: Vec<_> = machines().into_iter().map(|machine| machine.instance).collect();
        let text = format!("--instance {name} is not known; known are {}", known.join(", "));
        FsError::new(ErrorKind::Invalid, text)
    })?;
    let used = spell.used;
    let observed = Duration::from_millis(used.unix_ms.saturating_sub(spell.from_unix_ms));
    let host = Host {
        instance: args.instance.clone(),
        disk_bytes: status.engine.tier.tier_bytes,
        disk: args.disk.into(),
    };
    let usage = Usage {
        stored_bytes: spell.average_bucket_bytes,
        requests: Requests {
            put: used.put_requests,
            get: used.get_requests,
            delete: used.delete_requests,
        },
        out_bytes: if args.outside { used.received_bytes } else { 0 },
        observed,
        host: Some(host),
    };
    let activity = Activity {
        stored_bytes: spell.average_stored_bytes + linked_bytes,
        files: status.engine.files,
        read_bytes: used.read_bytes,
        written_bytes: used.written_bytes,
        reads: used.reads,
        writes: used.writes,
        opens: used.opens,
        metadata_ops: used.metadata_ops,
        observed,
    };
    Ok(Report {
        volume: status.engine.volume.clone(),
        mountpoint: status.mountpoint.clone(),
        region: args.region.clone(),
        from_unix_ms: spell.from_unix_ms,
        to_unix_ms: used.unix_ms,
        so_far: so_far(prices, &usage),
        hour: (observed >= HOUR_FROM).then(|| per_hour(prices, &usage)),
        month: (observed >= MONTH_FROM).then(|| per_month(prices, &usage)),
        shadow: elsewhere(shadow(prices, &activity, &machine, &predicted), observed),
        machine,
        used: spell,
    })
}

fn elsewhere(shadows: Vec<Shadow>, observed: Duration) -> Vec<Elsewhere> {
    let of = |shadow: Shadow| {
        let Shadow { name, storage, so_far, month, seconds, bound_by } = shadow;
        let month = (observed >= MONTH_FROM).then_some(month);
        Elsewhere { name, storage, so_far, month, seconds, bound_by }
    };
    shadows.into_iter().map(of).collect()
}

fn describe(report: &Report, since: Option<u64>, width: Width) -> String {
    let observed_ms = report.to_unix_ms.saturating_sub(report.from_unix_ms);
    let span = seconds(observed_ms / 1_000);
    let title = match &report.mountpoint {
        Some(mountpoint) => format!("{} on {}", report.volume, mountpoint.display()),
        None => report.volume.clone(),
    };
    let mut text = width.prose(0, &headline::headline(report));
    let above = format!("{}: {span} at list prices of {}", heading(&title), report.region);
    text.push_str(&width.prose(0, &above));
    if since.is_some_and(|asked_ms| asked_ms > observed_ms + 120_000) {
        let sentence = "what was before the mount, or more than a week ago, is not known";
        text.push_str(&width.prose(0, sentence));
    }
    text.push_str(&width.table(&lines(report, &span), 1, &[4, 1, 2]));
    text.push_str(&width.prose(2, STORAGE_IS));
    for unknown in report.so_far.unknown() {
        let sentence = format!("the price of {unknown} is not known: it is in no total");
        text.push_str(&width.prose(2, &sentence));
    }
    text.push('\n');
    text.push_str(&describe_elsewhere(report, width));
    text
}

/// What was used and what it costs: so far, and at this rate as far as that can be told.
fn lines(report: &Report, span: &str) -> Vec<Vec<String>> {
    let month = format!("a month, told from {span}");
    let rates = [("an hour at this rate", &report.hour), (month.as_str(), &report.month)];
    let told: Vec<(&str, &Bill)> =
        rates.into_iter().filter_map(|(head, bill)| Some((head, bill.as_ref()?))).collect();
    let money = |line: &Line| line.amount.map_or("unknown".to_owned(), |usd| usd.to_string());
    let row = |of: [String; 4], more: &dyn Fn(&(&str, &Bill)) -> String| -> Vec<String> {
        of.into_iter().chain(told.iter().map(more)).collect()
    };
    let text = str::to_owned;
    let mut rows = vec![row(["", "used", "", "so far"].map(text), &|(head, _)| text(head))];
    for (at, now) in report.so_far.lines.iter().enumerate() {
        let used = format!("{:.3}", now.quantity);
        let cells = [now.what.clone(), used, now.unit.to_owned(), money(now)];
        rows.push(row(cells, &|(_, bill)| bill.lines.get(at).map_or_else(String::new, money)));
    }
    let total = [text("total"), String::new(), String::new(), report.so_far.to_string()];
    rows.push(row(total, &|(_, bill)| bill.to_string()));
    rows
}

fn describe_elsewhere(report: &Report, width: Width) -> String {
    let used = &report.used.used;
    let above = format!(
        "{}: {} read, {} written, {} metadata operations; storage alone, without the machine \
         ({}'s network)",
        heading("the same work elsewhere"),
        Bytes(used.read_bytes),
        Bytes(used.written_bytes),
        used.metadata_ops,
        report.machine.instance
    );
    let mut text = width.prose(0, &above);
    let head = match report.month {
        Some(_) => vec!["", "so far", "a month", "time for the I/O", "bound by"],
        None => vec!["", "so far", "time for the I/O", "bound by"],
    };
    let mut rows = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for shadow in &report.shadow {
        let mut row = vec![shadow.name.clone(), shadow.so_far.to_string()];
        row.extend(shadow.month.as_ref().map(Bill::to_string));
        row.extend([time_of(shadow), shadow.bound_by.clone()]);
        rows.push(row);
    }
    let bound_by = rows[0].len() - 1;
    text.push_str(&width.table(&rows, 1, &[bound_by, bound_by - 1]));
    if used.unmetered_opens > 0 {
        let sentence = format!(
            "{} opens were of files that the kernel reads itself: what they read is not known and \
             in none of these; `weir throughput DIR --exact-meter on` counts it",
            used.unmetered_opens
        );
        text.push_str(&width.prose(2, &sentence));
    }
    text
}
