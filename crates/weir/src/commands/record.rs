//! `weir advise --record`: what a live mount did since it was mounted, or all nodes since then that share its
//! volume, as a workload.

use std::path::Path;
use std::process::ExitCode;

use weir_cost::Workload;
use weir_engine::Period;
use weir_types::{ErrorKind, FsError, Result};

use crate::api::GetUsed;
use crate::bill::{by_age, sum};
use crate::client::Client;
use crate::render::{self, seconds};

pub(crate) async fn run(dir: &Path) -> Result<ExitCode> {
    let client = Client::at(dir)?;
    let status = client.status().await?;
    let period = client.call(&GetUsed { since_unix_ms: None, node: false }).await?;
    let linked_bytes = sum(period.used.linked_bytes);
    let stored_bytes = status.engine.stored_bytes + status.engine.tier.dirty_bytes;
    let workload = workload(&period, stored_bytes + linked_bytes, status.engine.files);
    render::say(&toml(&workload, &period)?)?;
    Ok(ExitCode::SUCCESS)
}

/// All that was done, as one run.
fn workload(period: &Period, data_set_bytes: u64, files: u64) -> Workload {
    let used = &period.used;
    let moved_bytes = used.read_bytes + used.written_bytes;
    // These are of all the time, and what was removed since is no part of the data set.
    let (cold_bytes, archive_bytes) = by_age(period);
    let cold_bytes = cold_bytes.min(data_set_bytes);
    let archive_bytes = archive_bytes.min(data_set_bytes - cold_bytes);
    Workload {
        name: "recorded".to_owned(),
        data_set_bytes,
        cold_bytes,
        archive_bytes,
        files,
        read_bytes_per_run: used.read_bytes,
        write_bytes_per_run: used.written_bytes,
        io_bytes: moved_bytes.checked_div(used.reads + used.writes).unwrap_or(1 << 20).max(1),
        random: false,
        files_per_run: used.opens,
        runs_per_day: 1.0,
        concurrency: 1,
        threads: 1,
        cpu_seconds: 0.0,
        region: "us-east-1".to_owned(),
    }
}

fn toml(workload: &Workload, period: &Period) -> Result<String> {
    let body = toml::to_string(workload)
        .map_err(|e| FsError::new(ErrorKind::Bug, "write a workload").with_source(e))?;
    let span = seconds(period.used.unix_ms.saturating_sub(period.from_unix_ms) / 1_000);
    let mut text = format!(
        "# What the mount did in {span}, taken for one run of one job. Not known to it, and to be\n\
         # set by hand: runs_per_day, concurrency, threads, cpu_seconds, random, region.\n"
    );
    if period.used.unmetered_opens > 0 {
        text.push_str(&format!(
            "# {} files were read by the kernel past the daemon: read_bytes_per_run is the least it\n\
             # can be. `weir throughput DIR --exact-meter on` before a run counts all.\n",
            period.used.unmetered_opens
        ));
    }
    Ok(text + &body)
}

#[cfg(test)]
mod tests {
    use weir_engine::Totals;

    use super::*;

    #[test]
    fn what_is_recorded_can_be_read_again() {
        let used = Totals {
            unix_ms: 65_000,
            opens: 9,
            reads: 3,
            writes: 1,
            read_bytes: 3 << 20,
            written_bytes: 1 << 20,
            unmetered_opens: 2,
            ..Totals::default()
        };
        let period = Period {
            from_unix_ms: 5_000,
            average_stored_bytes: 8 << 20,
            average_bucket_bytes: 4 << 20,
            average_cold_bytes: [1 << 20, 0, 1 << 20],
            average_linked_bytes: [5 << 20, 0, 0, 1 << 20],
            used,
        };
        let recorded = workload(&period, 10 << 20, 12);
        let text = toml(&recorded, &period).expect("writes");
        assert_eq!(toml::from_str::<Workload>(&text).expect("reads"), recorded);
        assert_eq!((recorded.io_bytes, recorded.cold_bytes), (1 << 20, 2 << 20));
        assert_eq!(recorded.archive_bytes, 3 << 20);
        for wanted in ["in 1 min 0 s", "2 files were read by the kernel", "threads"] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
        let idle = workload(&Period::default(), 0, 0);
        assert_eq!(idle.check(), Ok(()));
        let removed = workload(&period, 3 << 20, 12);
        assert_eq!((removed.cold_bytes, removed.archive_bytes), (2 << 20, 1 << 20));
    }
}
