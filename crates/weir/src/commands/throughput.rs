//! `weir throughput`: modes, limits and budget of a mount, and who did what.

use std::process::ExitCode;

use serde_json::to_value;
use weir_engine::{
    BudgetView, Slowed, Subject, ThroughputChange, ThroughputReport, ThroughputView,
};
use weir_throughput::efs::{Mode, Rules};
use weir_types::{Bytes, ErrorKind, FsError, Ino, Result};

use crate::api::{GetThroughput, SetThroughput};
use crate::cli::{ModeName, ThroughputArgs};
use crate::client::Client;
use crate::render::{self, heading, seconds, table};
use crate::targets::{self, Finder};

pub(crate) async fn run(args: ThroughputArgs) -> Result<ExitCode> {
    let client = Client::at(&args.dir)?;
    let report = match change(&args)? {
        None => client.call(&GetThroughput {}).await?,
        Some(change) => {
            let (subject, name) = subject(&args)?;
            client.call(&SetThroughput { subject, name, change }).await?
        }
    };
    match args.json {
        true => render::say_json(&to_value(&report).map_err(bug)?)?,
        false => render::say(&describe(&report))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn bug(error: serde_json::Error) -> FsError {
    FsError::new(ErrorKind::Bug, "encode the answer").with_source(error)
}

/// What is to be changed, if anything.
fn change(args: &ThroughputArgs) -> Result<Option<ThroughputChange>> {
    let mode = match (args.mode, args.mibps) {
        (Some(ModeName::Provisioned), Some(mib_per_s)) => Some(Mode::Provisioned { mib_per_s }),
        (Some(ModeName::Bursting), None) => Some(Mode::Bursting),
        (Some(ModeName::Elastic), None) => Some(Mode::Elastic),
        (None, None) => None,
        _ => {
            let text = "--mibps belongs to --mode provisioned";
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
    };
    let change = ThroughputChange {
        mode,
        rules: args.rules.map(|date| Rules {
            lock_ms: args.lock.then_some(Rules::EFS_LOCK_MS),
            ..Rules::on(date)
        }),
        credit_bytes: args.credits.map(|credits| credits.0),
        exact: args.exact_meter,
        remove: args.remove,
        budget: args.budget.map(|rate| (rate, args.region.clone())),
    };
    let nothing = change.mode.is_none()
        && change.rules.is_none()
        && change.credit_bytes.is_none()
        && change.exact.is_none()
        && change.budget.is_none()
        && !change.remove;
    Ok((!nothing).then_some(change))
}

/// Whom the rule is for, and its name: the path in the volume, or the user.
fn subject(args: &ThroughputArgs) -> Result<(Subject, String)> {
    if let Some(client) = args.user {
        return Ok((Subject::Client(client), format!("user {client}")));
    }
    let Some(path) = &args.path else { return Ok((Subject::VOLUME, "/".to_owned())) };
    let mut finder = Finder::default();
    let (mount, target) = finder.locate(path)?;
    let mountpoint = &finder.mounts[mount].mountpoint;
    if crate::paths::place(&args.dir)? != *mountpoint {
        let text = format!("{} is not in the volume on {}", path.display(), args.dir.display());
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    Ok((
        Subject::Directory(Ino(target.ino)),
        format!("/{}", targets::below(mountpoint, &target.real)),
    ))
}

fn describe(report: &ThroughputReport) -> String {
    let mut rows =
        vec![words(["for", "mode", "permitted", "baseline", "credits", "metered", "waited"])];
    rows.extend(report.rules.iter().map(rule));
    let mut text = table(&rows, 2);
    let sees_all = report.rules.iter().filter(|rule| rule.sees_all);
    let paths: Vec<_> = sees_all.map(|rule| rule.name.as_str()).collect();
    if !paths.is_empty() {
        let paths = paths.join(", ");
        text.push_str(&format!("passthrough is off for {paths}: the daemon sees every byte\n"));
    }
    text.extend(report.rules.iter().filter_map(share));
    if let Some(budget) = &report.budget {
        text.push_str(&format!("{}\n", budget_text(budget)));
    }
    if report.tenants.is_empty() {
        return text;
    }
    text.push_str(&format!("{}\n", heading("since the mount")));
    let head =
        ["directory", "user", "opens", "reads", "read", "writes", "wrote", "fetched", "waited"];
    let mut rows = vec![words(head)];
    let mut unmetered = 0;
    for tenant in &report.tenants {
        unmetered += tenant.opens_unmetered;
        let least = if tenant.opens_unmetered > 0 { ">= " } else { "" };
        rows.push(vec![
            tenant.path.clone(),
            tenant.client.to_string(),
            tenant.opens.to_string(),
            format!("{least}{}", tenant.reads),
            format!("{least}{}", Bytes(tenant.bytes_read)),
            tenant.writes.to_string(),
            Bytes(tenant.bytes_written).to_string(),
            Bytes(tenant.bytes_fetched).to_string(),
            seconds(tenant.waited_ms / 1_000),
        ]);
    }
    text.push_str(&table(&rows, 1));
    if unmetered > 0 {
        text.push_str(&format!(
            "{unmetered} opens were of files that the kernel reads itself: what they read is not \
             known, `--exact-meter on` makes it known\n"
        ));
    }
    text
}

fn words<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

fn rule(rule: &ThroughputView) -> Vec<String> {
    let rate = |bytes_per_s: f64| format!("{}/s", Bytes(bytes_per_s as u64));
    let mode = match rule.mode {
        Mode::Bursting => "bursting".to_owned(),
        Mode::Provisioned { mib_per_s } => format!("provisioned {mib_per_s} MiB/s"),
        Mode::Elastic => "elastic".to_owned(),
    };
    let mode = match &rule.rules_until {
        Some(day) => format!("{mode}, rules until {day}"),
        None => mode,
    };
    let limited = rule.permitted_bytes_per_s;
    let credits = match limited {
        None => "-".to_owned(),
        Some(_) => Bytes(rule.credit_bytes as u64).to_string(),
    };
    vec![
        rule.name.clone(),
        mode,
        limited.map_or("no limit".to_owned(), rate),
        rate(rule.baseline_bytes_per_s),
        credits,
        Bytes(rule.metered_bytes).to_string(),
        seconds(rule.waited_ms / 1_000),
    ]
}

/// What this node has of a limit of all nodes.
fn share(rule: &ThroughputView) -> Option<String> {
    let share = rule.share.as_ref()?;
    Some(format!(
        "{}: of all nodes' this one may do {}/s ({:.0} %), with {} of the credits; {} have a part\n",
        rule.name,
        Bytes(share.permitted_bytes_per_s as u64),
        share.share * 100.0,
        Bytes(share.credit_bytes as u64),
        match share.nodes {
            1 => "1 node".to_owned(),
            nodes => format!("{nodes} nodes"),
        }
    ))
}

fn budget_text(budget: &BudgetView) -> String {
    let slowed = match budget.slowed {
        Slowed::Nothing => "nothing is slowed",
        Slowed::Hydration => "hydration waits",
        Slowed::ReadAhead => "hydration waits, nothing is read ahead",
        Slowed::Demand => "all that needs the bucket waits",
    };
    let of_all = match budget.share {
        Some(share) => {
            format!(" by all nodes, of which this one may spend {:.0} % now", share * 100.0)
        }
        None => String::new(),
    };
    format!(
        "budget {} an hour for requests at list prices of {}: {} spent{of_all}, {slowed}",
        budget.nano_usd_per_hour, budget.region, budget.spent_nano_usd
    )
}
