//! `weir migrate`: moves the metadata of a volume between its bucket and a database.

use std::process::ExitCode;

use parking_lot::Mutex;
use weir_engine::{MigrateOptions, MigrateReport, MigrateStep};
use weir_types::{Bytes, Result};

use crate::cli::MigrateArgs;
use crate::progress::{Progress, Unit};
use crate::{buckets, clock, failpoints, render};

pub(crate) async fn run(args: MigrateArgs) -> Result<ExitCode> {
    failpoints::arm()?;
    let options = MigrateOptions {
        url: args.url.parse()?,
        connector: buckets::volume_connector(
            &args.connect,
            buckets::connect_options(&args.connect),
        )?,
        to: args.to.clone(),
        metadata_url: args.meta.clone(),
        remove_old: args.remove_old,
        host: failpoints::host(),
        clock: clock::real(),
    };
    let shown = Mutex::new((MigrateStep::Counting, Progress::new(Unit::Steps)));
    let progress = |step, done, all| {
        let (before, bar) = &mut *shown.lock();
        if *before != step {
            *before = step;
            bar.next();
        }
        bar.show(done, all, &format!("{} rows {}", done, doing(step)));
    };
    let moved = weir_engine::migrate(options, &progress).await;
    drop(shown);
    let report = moved?;
    match args.json {
        true => render::say_json(&report)?,
        false => render::say(&describe(&args, &report))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn doing(step: MigrateStep) -> &'static str {
    match step {
        MigrateStep::Counting => "counted",
        MigrateStep::Copying => "copied",
        MigrateStep::Comparing => "compared",
    }
}

fn describe(args: &MigrateArgs, report: &MigrateReport) -> String {
    let MigrateReport { from, to, rows, bytes, .. } = report;
    let url = &args.url;
    let mut text = match report.moved {
        true => format!(
            "The metadata of {url} is in {to} now: {rows} rows, {}, the same on both sides.\n",
            Bytes(*bytes)
        ),
        false => format!("The metadata of {url} is in {to}.\n"),
    };
    match (report.removed_old, report.moved, from.as_str()) {
        (true, ..) => text.push_str(&format!("What was in {from} is removed.\n")),
        (false, false, _) => {}
        (false, true, "slate") => text.push_str(&format!(
            "What was in the bucket is left there, of the past from now on. To remove it:\n  \
             weir migrate {url} --to '{to}' --remove-old\n"
        )),
        (false, true, _) if to != "slate" => text.push_str(&format!("{from} is as it was.\n")),
        (false, true, _) => text.push_str(&format!(
            "What was in {from} is left there, of the past from now on. To remove it:\n  \
             weir migrate {url} --to slate --meta '{from}' --remove-old\n"
        )),
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn it_says_how_to_remove_what_is_left() {
        let line = "weir migrate file:///b --to postgres://u@db/w";
        let Ok(Command::Migrate(args)) = Cli::try_parse_from(line.split(' ')).map(|c| c.command)
        else {
            panic!("migrate expected");
        };
        let mut report = MigrateReport {
            from: "slate".to_owned(),
            to: "postgres://u@db/w".to_owned(),
            moved: true,
            rows: 5,
            bytes: 2048,
            xxh3: String::new(),
            removed_old: false,
        };
        let told = describe(&args, &report);
        assert!(told.contains("5 rows, 2 KiB, the same on both sides"), "{told}");
        assert!(told.contains("--to 'postgres://u@db/w' --remove-old"), "{told}");
        (report.from, report.to) = (report.to, report.from);
        let told = describe(&args, &report);
        assert!(told.contains("--to slate --meta 'postgres://u@db/w' --remove-old"), "{told}");
        report.removed_old = true;
        let told = describe(&args, &report);
        assert!(told.contains("is removed") && !told.contains("To remove it"), "{told}");
    }
}
