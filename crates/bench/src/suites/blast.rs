//! `blast`: the real BLAST, on a database of the asked size.
//!
//! The published experiment searched core_nt, 254 GB in 78 files, with 500 to 500,000 sequences
//! of about 150 bases, alone and with four jobs at once (EFS against FSx for Lustre, 2026). Here
//! the database is made of drawn sequences, and a few genes of nature. Each sequence asked for is
//! cut from it and changed a little, so each has its hit, and all searches for the same must
//! find the same.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::thread;
use std::time::Instant;

use rand::RngExt;

use super::outside;
use crate::machine;
use crate::program::{self, Program};
use crate::report::{Measurement, Size, Warning};
use crate::suite::{BenchError, Demand, Run, Suite, io};
use crate::suites::genome::{Genome, mutated, random, real_genes};
use crate::suites::outside::{blank, cpu_bound, cpus, go_cold};

const PACKAGE: &str = "ncbi-blast+";

/// Bases of a sequence that is asked for, and one of how many differs from the database.
const QUERY_BASES: usize = 150;
const ONE_CHANGED_OF: u32 = 30;

/// Most threads of a job, as published.
const THREADS: u32 = 64;

/// `blast`.
pub(super) struct Blast;

/// How large it is.
#[derive(Clone, Debug)]
struct Plan {
    /// Of the finished database: four bases a byte.
    database_bytes: u64,
    queries: Vec<u64>,
    jobs: Vec<u32>,
}

impl Plan {
    fn of(size: Size, copies: &[u32]) -> Self {
        let jobs = if copies.is_empty() { vec![1, 4] } else { copies.to_vec() };
        match size {
            Size::Small => Self { database_bytes: 50_000_000, queries: vec![50, 500], jobs },
            Size::Published => Self {
                database_bytes: 254_000_000_000,
                queries: vec![500, 5_000, 50_000, 500_000],
                jobs,
            },
        }
    }

    fn genome(&self, seed: u64) -> Genome {
        const BASES_EACH: usize = 100_000;
        let chromosomes = (self.database_bytes * 4).div_ceil(BASES_EACH as u64);
        Genome { seed, chromosomes, bases_each: BASES_EACH }
    }
}

impl Suite for Blast {
    fn name(&self) -> &'static str {
        "blast"
    }

    fn about(&self) -> &'static str {
        "BLAST: build a database, search it cold and warm, jobs at once"
    }

    fn published(&self) -> &'static [&'static str] {
        &[
            "blast-efs-500",
            "blast-efs-5000",
            "blast-efs-50000",
            "blast-efs-500000",
            "blast-fsx-v11-500",
            "blast-fsx-v11-5000",
            "blast-fsx-v11-50000",
            "blast-fsx-v11-500000",
            "blast-fsx-v13-500",
            "blast-fsx-v13-5000",
            "blast-fsx-v13-50000",
            "blast-fsx-v13-500000",
        ]
    }

    fn demand(&self, size: Size, copies: &[u32]) -> Demand {
        let plan = Plan::of(size, copies);
        let searches: u64 = plan.jobs.iter().map(|jobs| u64::from(*jobs)).sum();
        let read_bytes = plan.database_bytes * searches * 2 * plan.queries.len() as u64;
        Demand {
            space_bytes: plan.database_bytes + plan.database_bytes / 10,
            written_bytes: plan.database_bytes,
            read_bytes,
            files: 10 + 3 * plan.database_bytes / VOLUME_BYTES,
            seconds: (plan.database_bytes * 2 + read_bytes) / 100_000_000,
            ..Demand::default()
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Measurement>, BenchError> {
        measure(run, &Plan::of(run.size, run.copies))
    }
}

/// The database, in the run's directory: BLAST takes a blank in a path for the end of a name.
const DATABASE: &str = "db";

/// Most bytes of a file of sequences, such that 254 GB lie in the published 78.
const VOLUME_BYTES: u64 = 3_260_000_000;

fn measure(run: &Run<'_>, plan: &Plan) -> Result<Vec<Measurement>, BenchError> {
    for name in ["makeblastdb", "blastn", "blastdbcmd"] {
        program::require(name, PACKAGE)?;
    }
    let genome = plan.genome(run.seed);
    let mut measurements = vec![make_database(run, &genome)?];
    let database_bytes = outside::bytes_in(run.dir)?;
    for queries in &plan.queries {
        let asked = run.scratch.join(format!("{queries}.fa"));
        write_queries(&asked, &genome, *queries, run)?;
        let mut answers = Answers { queries: *queries, first: None };
        for jobs in &plan.jobs {
            for state in ["cold", "warm"] {
                let warnings = if state == "cold" { go_cold(run)? } else { Vec::new() };
                let phase = format!("search-{state}-{queries}");
                let mut measured = search(run, &phase, &asked, *jobs, &mut answers)?;
                measured.bytes = database_bytes * u64::from(*jobs);
                measured.operations = queries * u64::from(*jobs);
                measured.warnings.extend(warnings);
                measurements.push(measured);
            }
        }
    }
    Ok(measurements)
}

/// Makes the database. Its bytes go from memory through a pipe, so only what is written counts.
fn make_database(run: &Run<'_>, genome: &Genome) -> Result<Measurement, BenchError> {
    let genes = real_genes(run.stop)?;
    run.progress.phase("makedb", genome.chromosomes);
    let finished = Program::new("makeblastdb", PACKAGE)
        .args(["-in", "-", "-dbtype", "nucl", "-title", "weir-bench", "-max_file_sz"])
        .args([format!("{VOLUME_BYTES}B").as_str(), "-out", DATABASE])
        .current_dir(run.dir)
        .feed(|to| {
            to.write_all(&genes)?;
            genome.write_fasta(to, &|| run.progress.step(1))
        })
        .run(run.stop)?;
    let mut warnings: Vec<_> =
        cpu_bound(finished.cpu_seconds, finished.seconds).into_iter().collect();
    let began = Instant::now();
    match run.sync {
        true => outside::sync_files(run.dir)?,
        false => warnings.push(Warning::NotDurable { dirty_bytes: machine::dirty_bytes() }),
    }
    let sync_seconds = began.elapsed().as_secs_f64();
    let bytes = outside::bytes_in(run.dir)?;
    Ok(Measurement {
        seconds: finished.seconds + sync_seconds,
        bytes,
        operations: genome.chromosomes,
        unit: "sequences".into(),
        warnings,
        ..blank(run, "blast", "makedb", 1)
    })
}

/// Writes the sequences to ask for.
fn write_queries(
    path: &Path,
    genome: &Genome,
    queries: u64,
    run: &Run<'_>,
) -> Result<(), BenchError> {
    let mut out = BufWriter::new(fs::File::create(path).map_err(io(path))?);
    let mut random = random(run.seed, u64::MAX);
    for query in 0..queries {
        run.stop.check()?;
        let bases = genome.chromosome(random.random_range(0..genome.chromosomes));
        let from = random.random_range(0..=bases.len() - QUERY_BASES);
        let bases = mutated(&bases[from..from + QUERY_BASES], ONE_CHANGED_OF, &mut random);
        let written = writeln!(out, ">q{query}\n{}", String::from_utf8_lossy(&bases));
        written.map_err(io(path))?;
    }
    out.flush().map_err(io(path))
}

/// Searches with as many jobs at once, and holds their answers together.
fn search(
    run: &Run<'_>,
    phase: &str,
    asked: &Path,
    jobs: u32,
    answers: &mut Answers,
) -> Result<Measurement, BenchError> {
    run.progress.phase(phase, u64::from(jobs));
    let answer = |job: u32| run.scratch.join(format!("answer-{job}.tsv"));
    let threads = cpus().min(THREADS).to_string();
    let job = |job: u32| {
        let finished = Program::new("blastn", PACKAGE)
            .args(["-outfmt", "6", "-num_threads", &threads, "-db", DATABASE, "-query"])
            .arg(asked)
            .arg("-out")
            .arg(answer(job))
            .current_dir(run.dir)
            .run(run.stop)?;
        run.progress.step(1);
        Ok::<_, BenchError>(finished.cpu_seconds)
    };
    let began = Instant::now();
    let used: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..jobs).map(|number| scope.spawn(move || job(number))).collect();
        let ended = running.into_iter().map(|job| job.join().unwrap_or(Err(BenchError::Stopped)));
        ended.collect()
    });
    let seconds = began.elapsed().as_secs_f64();
    let mut cpu_seconds = 0.0;
    for used in used {
        cpu_seconds += used?;
    }
    for job in 0..jobs {
        let path = answer(job);
        answers.check(fs::read_to_string(&path).map_err(io(&path))?)?;
    }
    Ok(Measurement {
        seconds,
        unit: "queries".into(),
        warnings: cpu_bound(cpu_seconds, seconds).into_iter().collect(),
        ..blank(run, "blast", phase, jobs)
    })
}

/// What was found for the same sequences, in every search the same.
struct Answers {
    queries: u64,
    /// The lines of the first answer, sorted, as threads give them in any order.
    first: Option<Vec<String>>,
}

impl Answers {
    fn check(&mut self, answer: String) -> Result<(), BenchError> {
        let wrong = |why| Err(BenchError::Program { program: "blastn".into(), why });
        let mut lines: Vec<_> = answer.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        match &self.first {
            Some(first) if *first == lines => Ok(()),
            Some(first) => wrong(format!(
                "a search found {} hits and an earlier one for the same {}, or other ones",
                lines.len(),
                first.len()
            )),
            None => {
                let mut found: Vec<_> = lines.iter().filter_map(|l| l.split('\t').next()).collect();
                found.dedup();
                // A sequence in a hundred may have its changes where they hurt most.
                if (found.len() as u64) * 100 < self.queries * 99 {
                    return wrong(format!("found {} of {} sequences", found.len(), self.queries));
                }
                self.first = Some(lines);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
