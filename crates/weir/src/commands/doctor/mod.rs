//! `weir doctor`: what of a machine, a disk, a bucket or a mount is in the way, and what to do.

mod bucket;
mod disk;
mod finding;
mod machine;
mod mount;

use std::path::PathBuf;
use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use weir_engine::BucketUrl;
use weir_types::{ErrorKind, FsError, Result};

use self::finding::{Finding, Verdict};
use crate::cli::DoctorArgs;
use crate::{buckets, paths, render};

/// Somebody waits at the terminal.
const TIMEOUT_MS: u64 = 15_000;

/// All that was found.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DoctorReport")]
pub(super) struct Report {
    /// The worst of them.
    worst: Verdict,
    /// What was looked at, in the order of looking.
    findings: Vec<Finding>,
}

pub(crate) async fn run(args: DoctorArgs) -> Result<ExitCode> {
    let mut findings = Vec::new();
    // Each area is told as soon as it is known: a disk takes seconds.
    let mut tell = |found: Vec<Finding>| {
        if !args.json {
            render::say(&found.iter().map(Finding::describe).collect::<String>())?;
        }
        findings.extend(found);
        Ok::<(), FsError>(())
    };
    tell(machine::look())?;
    for (area, directory) in [("tier", &args.tier), ("journal", &args.journal)] {
        let Some(directory) = directory.clone() else { continue };
        let looked = tokio::task::spawn_blocking(move || disk::look(area, &directory)).await;
        tell(looked.map_err(|e| FsError::new(ErrorKind::Bug, "look at a disk").with_source(e))?)?;
    }
    match &args.place {
        Some(place) if place.contains("://") => {
            let url: BucketUrl = place.parse()?;
            let mut options = buckets::connect_options(&args.connect);
            options.timeout_ms = TIMEOUT_MS;
            tell(bucket::look(&url, &buckets::volume_connector(&args.connect, options)?).await)?;
        }
        Some(place) => tell(mount::look(&paths::place(&PathBuf::from(place))?).await)?,
        None => {}
    }
    let worst = findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Good);
    let report = Report { worst, findings };
    match args.json {
        true => render::say_json(&report)?,
        false => render::say(&report.sum())?,
    }
    Ok(match worst {
        Verdict::Bad => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    })
}

impl Report {
    fn sum(&self) -> String {
        let count = |wanted| self.findings.iter().filter(|f| f.verdict == wanted).count();
        match (count(Verdict::Bad), count(Verdict::Warning)) {
            (0, 0) => "Nothing is in the way.\n".to_owned(),
            (0, notes) => format!("It works; {notes} could be better: see the notes.\n"),
            (bad, _) => format!("{bad} must be mended first: see what is BAD.\n"),
        }
    }
}
