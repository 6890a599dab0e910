//! `weir sync`: a tree copied to another place.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::Instant;
use weir_engine::{BucketUrl, Connector};
use weir_sync::{Comparison, Options, Place, Progress, Report, Scope};
use weir_types::{Bytes, FsError, Result};

use crate::cli::SyncArgs;
use crate::progress::{Progress as Shown, Unit};
use crate::{buckets, render};

/// As a shell reports a command that Ctrl-C ended.
pub(super) const INTERRUPTED: u8 = 130;

/// What was done, and how long it took.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SyncReport")]
pub(super) struct Told<'a> {
    /// How long it took.
    seconds: f64,
    /// Nothing was written.
    dry_run: bool,
    #[serde(flatten)]
    report: &'a Report,
}

pub(crate) async fn run(args: SyncArgs) -> Result<ExitCode> {
    let connector = buckets::connector(buckets::connect_options(&args.connect))?;
    let from = place(&args.from, &connector, false).await?;
    // What is not there yet is as good as an empty directory, in which nothing will be written.
    let nothing = tempfile::tempdir().map_err(|e| FsError::local_io("make a directory", e))?;
    let to = match args.dry_run && !args.to.contains("://") && !Path::new(&args.to).exists() {
        true => Place::directory(nothing.path(), false)?,
        false => place(&args.to, &connector, true).await?,
    };
    let options = Options {
        comparison: match (args.all, args.size_only) {
            (true, _) => Comparison::Nothing,
            (_, true) => Comparison::Size,
            _ => Comparison::SizeAndTime,
        },
        delete: args.delete,
        empty: args.empty,
        dry_run: args.dry_run,
        verify: args.verify,
        jobs: usize::from(args.jobs),
        snapshot: false,
        scope: Scope::default(),
    };
    let (progress, began) = (Arc::new(Progress::default()), Instant::now());
    let copying = weir_sync::sync(&from, &to, &options, &progress);
    let done = tokio::select! {
        done = copying => done,
        never = show(&progress) => never,
    };
    if progress.cancelled.load(Ordering::Relaxed) {
        render::tell("weir: broken off; the same command goes on with what is missing\n");
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let report = done?;
    let took = began.elapsed();
    match args.json {
        true => render::say_json(&Told {
            seconds: took.as_secs_f64(),
            dry_run: args.dry_run,
            report: &report,
        })?,
        false => render::say(&describe(&report, took, args.dry_run))?,
    }
    tell_failures(&report);
    Ok(if report.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn place(named: &str, connector: &Connector, make: bool) -> Result<Place> {
    if !named.contains("://") {
        return Place::directory(Path::new(named), make);
    }
    let url: BucketUrl = named.parse()?;
    let bucket = connector.connect(&url)?;
    bucket.probe().await?;
    Ok(Place::Bucket(bucket))
}

/// Shows how far it is, and breaks it off at Ctrl-C; never ends.
pub(super) async fn show<T>(progress: &Progress) -> T {
    let mut shown = Shown::new(Unit::Bytes);
    let load = |value: &std::sync::atomic::AtomicU64| value.load(Ordering::Relaxed);
    loop {
        tokio::select! {
            () = tokio::time::sleep(shown.interval()) => {}
            _ = tokio::signal::ctrl_c() => progress.cancelled.store(true, Ordering::Relaxed),
        }
        let listed = progress.listed.load(Ordering::Relaxed);
        let (found, done) = (load(&progress.bytes_found), load(&progress.bytes_done));
        let beside = format!(
            "{} copied of {}{} seen, {} of {}{}",
            load(&progress.files_done),
            render::files(load(&progress.seen)),
            if listed { "" } else { " or more" },
            Bytes(done),
            Bytes(found),
            if listed { "" } else { " or more" },
        );
        shown.show(done.min(found), Some(found), &beside);
    }
}

fn describe(report: &Report, took: Duration, dry_run: bool) -> String {
    let Report { copied, bytes, same, deleted, extra, skipped, .. } = report;
    let (did, deletes) = match dry_run {
        true => ("would copy", "would delete"),
        false => ("copied", "deleted"),
    };
    let mut text = format!("{did} {copied} of {} entries, {}", copied + same, Bytes(*bytes));
    let seconds = took.as_secs_f64();
    if !dry_run && seconds >= 1.0 {
        let rate = Bytes((*bytes as f64 / seconds) as u64);
        text.push_str(&format!(" in {}, {rate}/s", render::seconds(seconds as u64)));
    }
    for (count, what) in [
        (deleted, format!("{deletes} {deleted}")),
        (extra, format!("{extra} are in the destination only (--delete)")),
        (
            skipped,
            format!(
                "{skipped} are no files, links or directories, or devices that only root makes: left out"
            ),
        ),
    ] {
        if *count > 0 {
            text.push_str(&format!("; {what}"));
        }
    }
    text.push('\n');
    text
}

pub(super) fn tell_failures(report: &Report) {
    if report.failed == 0 {
        return;
    }
    let mut text = format!("weir: {} failed:\n", report.failed);
    for of in &report.failures {
        text.push_str(&format!("  {}: {}\n", of.path, of.error));
    }
    let told = report.failures.len() as u64;
    if report.failed > told {
        text.push_str(&format!("  and {} more\n", report.failed - told));
    }
    render::tell(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_says_what_was_done_and_what_was_not() {
        let report = Report { copied: 3, bytes: 4096, same: 7, extra: 2, ..Report::default() };
        let text = describe(&report, Duration::from_millis(2_000), false);
        let wanted = "copied 3 of 10 entries, 4 KiB in 2 s, 2 KiB/s; 2 are in the destination only \
                      (--delete)\n";
        assert_eq!(text, wanted);
        let text = describe(&Report { deleted: 2, ..report }, Duration::ZERO, true);
        assert!(text.starts_with("would copy 3 of 10 entries, 4 KiB; would delete 2;"), "{text}");
    }
}
