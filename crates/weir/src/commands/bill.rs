//! `weir bill`: what a mount costs, and what its work would have cost elsewhere.

mod headline;

use std::process::ExitCode;

use weir_cost::{Bill, Host, Line};
use weir_door_nfs::UseView;
use weir_types::{Bytes, ErrorKind, Result};

use super::prices;
use crate::api::{GetSnapshotTotals, GetUsed, ListNfsUses};
use crate::bill::{Counted, Report, Terms, report, sum};
use crate::cli::BillArgs;
use crate::client::Client;
use crate::layout::Width;
use crate::render::{self, heading, seconds};

const OF_ALL: &str = "of all nodes that share the volume, also of those that left, since this one was mounted; \
     what others did is told up to a minute late. Machine and disk are this node's";
const OF_NODE: &str = "requests and I/O are this node's; storage is the volume's";

const STORAGE_IS: &str = "storage is what is in the buckets: compressed, with what was deleted and is \
     not collected yet, without metadata";

const LINKED_IS: &str = "linked objects are those that show as files, in the classes that rules of `weir lifecycle` know of; \
     the others are taken for STANDARD";

pub(crate) async fn run(args: BillArgs) -> Result<ExitCode> {
    let client = Client::at(&args.dir)?;
    let status = client.status().await?;
    let now = client.call(&GetUsed { since_unix_ms: None, node: true }).await?.used.unix_ms;
    let since = args.since.map(|ms| now.saturating_sub(ms));
    let shared = status.engine.shared;
    let counted = Counted {
        volume: status.engine.volume,
        mountpoint: status.mountpoint,
        files: status.engine.files,
        period: client.call(&GetUsed { since_unix_ms: since, node: args.node }).await?,
        nfs: uses_by_nfs(&client).await?,
        held: client.call(&GetSnapshotTotals {}).await?,
    };
    let host = Host {
        instance: args.instance,
        disk_bytes: status.engine.tier.tier_bytes,
        disk: args.disk.into(),
    };
    let book = prices::book(args.prices.as_deref())?;
    let terms = Terms { host: Some(host), outside: args.outside };
    let report = report(counted, terms, prices::at(&book, &args.region)?)?;
    match args.json {
        true => render::say_json(&report)?,
        false => {
            let width = Width::of_output();
            render::say(&describe(&report, args.since, width))?;
            if shared {
                render::say(&width.prose(2, if args.node { OF_NODE } else { OF_ALL }))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What each NFS client used. Nothing for users who are not root on root's mount: who else is mounted
/// from where is not theirs to see.
async fn uses_by_nfs(client: &Client) -> Result<Vec<UseView>> {
    match client.call(&ListNfsUses {}).await {
        Err(error) if error.kind() == ErrorKind::Permission => Ok(Vec::new()),
        uses => uses,
    }
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
    if sum(report.used.average_linked_bytes) > 0 {
        text.push_str(&width.prose(2, LINKED_IS));
    }
    if report.held.snapshots > 0 {
        let sentence = format!(
            "{} of it only snapshots hold ({} of them), for {} a month; deleting them gives that back: \
             weir snapshot list",
            Bytes(report.held.bytes),
            report.held.snapshots,
            report.held_month
        );
        text.push_str(&width.prose(2, &sentence));
    }
    for unknown in report.so_far.unknown() {
        let sentence = format!("the price of {unknown} is not known: it is in no total");
        text.push_str(&width.prose(2, &sentence));
    }
    text.push('\n');
    if !report.nfs.is_empty() {
        let above = format!("{}: since the server began", heading("by NFS"));
        text.push_str(&width.prose(0, &above));
        text.push_str(&super::nfs::describe_uses(&report.nfs));
        text.push('\n');
    }
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
        row.extend([shadow.time(), shadow.bound_by.clone()]);
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
