//! `fio-seq` and `fio-rand`: fio as it is, driven by job files.
//!
//! The sequential job is that of a comparison of EFS and FSx for Lustre of 2026 (`fio rw=read
//! bs=1M size=50G numjobs=16 ioengine=libaio iodepth=32 runtime=300 time_based`), and so is the
//! random one of 4 KiB (`fio rw=randread bs=4K size=10G numjobs=16 runtime=300`); that of 16 KiB
//! is of a measurement of EFS of 2018 (`bs=16k direct=1 numjobs=16 size=1G runtime=60
//! norandommap`). Sizes are those of each job, as fio counts them.

mod output;

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::outside;
use crate::machine;
use crate::program::{self, Program};
use crate::report::{Measurement, Size, Warning};
use crate::suite::{BenchError, Demand, Run, Suite, io};
use crate::suites::outside::{blank, go_cold, takes_direct};

const JOBS: u32 = 16;

/// `fio-seq`.
pub(super) struct Sequential;

/// `fio-rand`.
pub(super) struct Random;

/// One job of fio: files are laid out, caches dropped, and it runs.
#[derive(Clone, Copy, Debug)]
struct Job {
    phase: &'static str,
    /// fio's `rw`.
    pattern: &'static str,
    block: &'static str,
    /// Of each of the jobs at once.
    size_bytes: u64,
    runtime_s: u64,
    /// Whether it goes round its file until the time is over.
    time_based: bool,
    direct: bool,
    /// Asynchronous I/Os at once; 1 is a plain `pread` or `pwrite`.
    depth: u32,
    /// Whether a block may be met twice before all were met once.
    repeats_blocks: bool,
}

impl Suite for Sequential {
    fn name(&self) -> &'static str {
        "fio-seq"
    }

    fn about(&self) -> &'static str {
        "fio, sequential: 1 MiB, 16 jobs, queue depth 32, read and write"
    }

    fn published(&self) -> &'static [&'static str] {
        &["planned-fio-seq-read"]
    }

    fn demand(&self, size: Size, copies: &[u32]) -> Demand {
        demand(&sequential(size), copies)
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Measurement>, BenchError> {
        measure(run, self.name(), &sequential(run.size))
    }
}

impl Suite for Random {
    fn name(&self) -> &'static str {
        "fio-rand"
    }

    fn about(&self) -> &'static str {
        "fio, random: 4 KiB read and write, 16 KiB direct read, 16 jobs"
    }

    fn published(&self) -> &'static [&'static str] {
        &["planned-fio-rand-read", "efs-burst-fio", "efs-exhausted-fio", "efs-provisioned-fio"]
    }

    fn demand(&self, size: Size, copies: &[u32]) -> Demand {
        demand(&random(size), copies)
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Measurement>, BenchError> {
        measure(run, self.name(), &random(run.size))
    }
}

fn sequential(size: Size) -> Vec<Job> {
    let (size_bytes, runtime_s) = match size {
        Size::Small => (16 << 20, 10),
        Size::Published => (50 << 30, 300),
    };
    let read = Job {
        phase: "read",
        pattern: "read",
        block: "1M",
        size_bytes,
        runtime_s,
        time_based: true,
        direct: true,
        depth: 32,
        repeats_blocks: false,
    };
    vec![read, Job { phase: "write", pattern: "write", ..read }]
}

fn random(size: Size) -> Vec<Job> {
    let (size_bytes, size_2018_bytes, runtime_s, runtime_2018_s) = match size {
        Size::Small => (16 << 20, 16 << 20, 10, 10),
        Size::Published => (10 << 30, 1 << 30, 300, 60),
    };
    let read = Job {
        phase: "randread-4k",
        pattern: "randread",
        block: "4k",
        size_bytes,
        runtime_s,
        time_based: false,
        direct: false,
        depth: 1,
        repeats_blocks: false,
    };
    let of_2018 = Job {
        phase: "randread-16k",
        block: "16k",
        size_bytes: size_2018_bytes,
        runtime_s: runtime_2018_s,
        direct: true,
        repeats_blocks: true,
        ..read
    };
    vec![read, Job { phase: "randwrite-4k", pattern: "randwrite", ..read }, of_2018]
}

fn jobs_at_once(copies: &[u32]) -> &[u32] {
    if copies.is_empty() { &[JOBS] } else { copies }
}

fn demand(jobs: &[Job], copies: &[u32]) -> Demand {
    let mut demand = Demand::default();
    for at_once in jobs_at_once(copies).iter().map(|n| u64::from(*n)) {
        let largest = jobs.iter().map(|job| job.size_bytes * at_once).max().unwrap_or(0);
        demand.space_bytes = demand.space_bytes.max(largest);
        // Laid out once; a time-based job moves what it can: reckoned at 100 MB/s.
        demand.written_bytes += largest;
        demand.files += at_once;
        demand.seconds += largest / 100_000_000;
        for job in jobs {
            let moved = match job.time_based {
                true => job.runtime_s * 100_000_000,
                false => (job.size_bytes * at_once).min(job.runtime_s * 100_000_000),
            };
            match job.pattern.ends_with("read") {
                true => demand.read_bytes += moved,
                false => demand.written_bytes += moved,
            }
            demand.seconds += job.runtime_s;
        }
    }
    demand
}

fn measure(run: &Run<'_>, suite: &str, jobs: &[Job]) -> Result<Vec<Measurement>, BenchError> {
    program::require("fio", "fio")?;
    measure_with(run, suite, jobs, takes_direct(run.dir)?)
}

/// Runs the jobs one after the other, past the page cache only where the files take `direct` I/O.
fn measure_with(
    run: &Run<'_>,
    suite: &str,
    jobs: &[Job],
    direct: bool,
) -> Result<Vec<Measurement>, BenchError> {
    let mut measurements = Vec::new();
    for at_once in jobs_at_once(run.copies) {
        for job in jobs {
            let mut measured =
                one(run, suite, &Job { direct: job.direct && direct, ..*job }, *at_once)?;
            if job.direct && !direct {
                let why = "the file system refuses O_DIRECT: fio went through the page cache";
                measured.warnings.push(Warning::Cached { why: why.into() });
            }
            measurements.push(measured);
        }
        remove_files(run.dir)?;
    }
    Ok(measurements)
}

/// Lays the files out, drops caches and runs a job.
fn one(run: &Run<'_>, suite: &str, job: &Job, at_once: u32) -> Result<Measurement, BenchError> {
    let own = tempfile::tempdir_in(run.scratch).map_err(io(run.scratch))?;
    let [file, said, log] = ["job.fio", "said.json", "log"].map(|name| own.path().join(name));
    let text = job_file(run, job, at_once, None);
    fs::write(&file, text).map_err(io(&file))?;
    run.progress.phase(&format!("{}, lay out", job.phase), 1);
    // Random writes need their files as well: a read of the same job makes them whole.
    fio(run, &said, &file).arg("--create_only=1").run(run.stop)?;
    run.progress.step(1);
    outside::sync_files(run.dir)?;
    let mut warnings = go_cold(run)?;

    let text = job_file(run, job, at_once, Some(&log));
    fs::write(&file, text).map_err(io(&file))?;
    run.progress.phase(job.phase, job.runtime_s);
    let mut ticks = 0;
    fio(run, &said, &file).run_ticking(run.stop, &mut || {
        ticks += 1;
        if ticks <= job.runtime_s {
            run.progress.step(1);
        }
    })?;
    run.progress.step(job.runtime_s.saturating_sub(ticks));
    if !run.sync && !job.pattern.ends_with("read") {
        warnings.push(Warning::NotDurable { dirty_bytes: machine::dirty_bytes() });
    }
    let text = fs::read_to_string(&said).map_err(io(&said))?;
    let told = output::parse(&text, job.pattern)?;
    Ok(Measurement {
        seconds: told.seconds,
        bytes: told.bytes,
        operations: told.operations,
        unit: "I/Os".into(),
        series: output::series(&log, at_once)?,
        latency: Some(told.latency),
        warnings,
        ..blank(run, suite, job.phase, at_once)
    })
}

/// fio in the run's directory: in a job it would cut a path at some characters.
fn fio(run: &Run<'_>, said: &Path, file: &Path) -> Program<'static> {
    let mut to = OsString::from("--output=");
    to.push(said);
    Program::new("fio", "fio").current_dir(run.dir).arg("--output-format=json").arg(to).arg(file)
}

/// A job as fio reads it. With a `log`, it is the one that is measured.
fn job_file(run: &Run<'_>, job: &Job, at_once: u32, log: Option<&Path>) -> String {
    let Job { pattern, block, size_bytes, runtime_s, depth, .. } = job;
    let engine = if *depth > 1 { "libaio" } else { "psync" };
    let (direct, seed) = (u8::from(job.direct), run.seed);
    // Threads, as processes of fio would leave its process group and outlive a stop.
    let mut text = format!(
        "[{}]\nfilename_format=fio.$jobnum\nthread=1\ngroup_reporting=1\n\
         rw={pattern}\nbs={block}\nsize={size_bytes}\nnumjobs={at_once}\nruntime={runtime_s}\n\
         ioengine={engine}\niodepth={depth}\ndirect={direct}\nrandseed={seed}\n\
         overwrite=1\n",
        job.phase
    );
    let mut option = |set: bool, line: &str| {
        if set {
            text.push_str(line)
        }
    };
    option(job.time_based, "time_based=1\n");
    option(job.repeats_blocks, "norandommap=1\n");
    option(run.sync && !pattern.ends_with("read"), "end_fsync=1\n");
    if let Some(log) = log {
        let log = log.display();
        let _ = write!(text, "write_bw_log={log}\nlog_avg_msec=1000\n");
    }
    text
}

fn remove_files(dir: &Path) -> Result<(), BenchError> {
    for entry in fs::read_dir(dir).map_err(io(dir))? {
        let path = entry.map_err(io(dir))?.path();
        fs::remove_file(&path).map_err(io(&path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
