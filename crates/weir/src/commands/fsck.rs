//! `weir fsck`: checks a volume without changing it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use weir_engine::{FsckOptions, FsckReport};
use weir_types::{Bytes, Result};

use crate::cli::FsckArgs;
use crate::{buckets, render};

/// A check that takes longer than this shows how far it is.
const QUIET: Duration = Duration::from_secs(2);
const PROBLEMS: u8 = 1;
const NOT_CHECKED: u8 = 2;

pub(crate) async fn run(args: FsckArgs, verbose: bool) -> Result<ExitCode> {
    let report = match check(&args).await {
        Ok(report) => report,
        Err(error) => {
            render::report(&error, verbose);
            return Ok(ExitCode::from(NOT_CHECKED));
        }
    };
    match args.json {
        true => render::say_json(&report)?,
        false => render::say(&describe(&report))?,
    }
    Ok(match report.problems.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(PROBLEMS),
    })
}

async fn check(args: &FsckArgs) -> Result<FsckReport> {
    let options = FsckOptions {
        url: args.url.parse()?,
        connector: buckets::volume_connector(
            &args.connect,
            buckets::connect_options(&args.connect),
        )?,
        data: args.data,
        metadata_url: args.meta.clone(),
    };
    // Draws on a terminal only.
    let bar = ProgressBar::new(0);
    let template = "{bar:40} {pos}/{len} segments [{elapsed}, {eta} left]";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    let start = Instant::now();
    let progress = |done, all| {
        if start.elapsed() > QUIET {
            bar.set_length(all);
            bar.set_position(done);
        }
    };
    let report = weir_engine::fsck(options, progress).await;
    bar.finish_and_clear();
    report
}

fn describe(report: &FsckReport) -> String {
    let mut text: String = report.problems.iter().map(|p| format!("problem: {p}\n")).collect();
    let verdict = match report.problems.len() {
        0 => "nothing wrong".to_owned(),
        1 => "1 problem".to_owned(),
        more => format!("{more} problems"),
    };
    text.push_str(&format!(
        "{verdict}: {} inodes with {} in segments: {} of {}; {} unnamed objects; {} records checked\n",
        report.inodes,
        Bytes(report.stored_bytes),
        report.segments,
        Bytes(report.object_bytes),
        report.unnamed_objects,
        report.records_checked
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_come_first() {
        let mut report = FsckReport::default();
        assert!(describe(&report).starts_with("nothing wrong: 0 inodes"));
        report.problems.push("segment x is missing".to_owned());
        assert!(describe(&report).starts_with("problem: segment x is missing\n1 problem: "));
    }
}
