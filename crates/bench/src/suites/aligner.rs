//! `aligner`: a short-read pipeline of Debian's programs.
//!
//! It stands for `cellranger count` on 15 GB of reference and 50 GB of reads (EFS against FSx for
//! Lustre on a c5.2xlarge), which may not be given away: the same steps of indexing, aligning and
//! sorting with many temporary files. The published size has a genome as large as man's and as
//! many bytes of reads.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::Instant;

use rand::RngExt;

use super::outside;
use crate::machine;
use crate::program::{self, Program};
use crate::report::{Measurement, Size, Warning};
use crate::suite::{self, BenchError, Demand, Run, Suite};
use crate::suites::genome::{Genome, mutated, random, real_virus, reverse_complement};
use crate::suites::outside::{blank, cpu_bound, cpus, go_cold};

/// Bases of a read, of the piece whose two ends a pair of reads are, and how few are misread.
const READ_BASES: usize = 100;
const PIECE_BASES: usize = 350;
const ONE_MISREAD_OF: u32 = 100;

/// About how many bytes a read takes in a FASTQ file.
const READ_BYTES: u64 = 2 * READ_BASES as u64 + 17;

/// `aligner`.
pub(super) struct Aligner;

/// How large it is.
#[derive(Clone, Debug)]
struct Plan {
    chromosomes: u64,
    bases_each: usize,
    pairs: u64,
    /// Memory of each sorting thread: the less, the more temporary files.
    sort_memory: &'static str,
}

impl Plan {
    fn of(size: Size) -> Self {
        match size {
            Size::Small => {
                Self { chromosomes: 4, bases_each: 500_000, pairs: 50_000, sort_memory: "1M" }
            }
            Size::Published => Self {
                chromosomes: 24,
                bases_each: 129_000_000,
                pairs: 50_000_000_000 / (2 * READ_BYTES),
                sort_memory: "64M",
            },
        }
    }

    fn genome(&self, seed: u64) -> Genome {
        Genome { seed, chromosomes: self.chromosomes, bases_each: self.bases_each }
    }

    fn reads_bytes(&self) -> u64 {
        self.pairs * 2 * READ_BYTES
    }
}

impl Suite for Aligner {
    fn name(&self) -> &'static str {
        "aligner"
    }

    fn about(&self) -> &'static str {
        "short reads: bwa index, bwa mem, samtools sort; stands for cellranger count"
    }

    fn published(&self) -> &'static [&'static str] {
        &["cp-cellranger-efs", "cp-cellranger-lustre"]
    }

    fn demand(&self, size: Size, _: &[u32]) -> Demand {
        let plan = Plan::of(size);
        let (genome, reads) = (plan.genome(0).bases(), plan.reads_bytes());
        // bwa's index is 1.75 bytes a base, and as much again while it is made; SAM is about
        // twice its FASTQ; what is sorted lies there compressed twice.
        let index = genome * 7 / 4;
        let written = genome + reads + index + 2 * reads + 2 * (reads / 2);
        Demand {
            space_bytes: written + index,
            written_bytes: written,
            read_bytes: genome + index + reads + 2 * reads + reads / 2,
            files: 100,
            seconds: written * 2 / 100_000_000 + (genome + reads) / 1_000_000,
            ..Demand::default()
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Measurement>, BenchError> {
        measure(run, &Plan::of(run.size))
    }
}

fn measure(run: &Run<'_>, plan: &Plan) -> Result<Vec<Measurement>, BenchError> {
    program::require("bwa", "bwa")?;
    program::require("samtools", "samtools")?;
    let virus = real_virus(run.stop)?;
    run.progress.phase("make reads", plan.pairs);
    write_reference(run, plan, virus.as_deref())?;
    write_reads(run, plan)?;
    let reads = 2 * plan.pairs;
    let mut index = phase(run, "index", index, plan)?;
    (index.operations, index.unit) = (plan.genome(run.seed).bases(), "bases".into());
    if virus.is_none() {
        let what = "without a real genome: bowtie2-examples has one".into();
        index.warnings.push(Warning::Other { what });
    }
    let mut measurements = vec![index, phase(run, "align", align, plan)?];
    measurements.push(phase(run, "sort", sort, plan)?);
    for measured in &mut measurements[1..] {
        (measured.operations, measured.unit) = (reads, "reads".into());
    }
    check(run, reads)?;
    Ok(measurements)
}

fn file(run: &Run<'_>, name: &str) -> PathBuf {
    run.dir.join(name)
}

/// Runs a step on cold files. Its bytes are those of the files that it leaves.
fn phase(
    run: &Run<'_>,
    name: &str,
    step: fn(&Run<'_>, &Plan) -> Result<f64, BenchError>,
    plan: &Plan,
) -> Result<Measurement, BenchError> {
    let mut warnings = go_cold(run)?;
    let before = outside::bytes_in(run.dir)?;
    run.progress.phase(name, 1);
    let began = Instant::now();
    let cpu_seconds = step(run, plan)?;
    let ran_seconds = began.elapsed().as_secs_f64();
    if run.sync {
        outside::sync_files(run.dir)?;
    } else {
        warnings.push(Warning::NotDurable { dirty_bytes: machine::dirty_bytes() });
    }
    let seconds = began.elapsed().as_secs_f64();
    run.progress.step(1);
    warnings.extend(cpu_bound(cpu_seconds, ran_seconds));
    let bytes = outside::bytes_in(run.dir)?.saturating_sub(before);
    Ok(Measurement { seconds, bytes, warnings, ..blank(run, "aligner", name, 1) })
}

fn index(run: &Run<'_>, _: &Plan) -> Result<f64, BenchError> {
    let bwa = Program::new("bwa", "bwa").arg("index").arg(file(run, "ref.fa"));
    Ok(bwa.run(run.stop)?.cpu_seconds)
}

fn align(run: &Run<'_>, _: &Plan) -> Result<f64, BenchError> {
    let bwa = Program::new("bwa", "bwa").args(["mem", "-t", &cpus().to_string(), "-o"]);
    let files = ["aligned.sam", "ref.fa", "1.fq", "2.fq"].map(|name| file(run, name));
    Ok(bwa.args(files).run(run.stop)?.cpu_seconds)
}

fn sort(run: &Run<'_>, plan: &Plan) -> Result<f64, BenchError> {
    let sorted = file(run, "sorted.bam");
    let sort = Program::new("samtools", "samtools")
        .args(["sort", "-m", plan.sort_memory, "-@", &cpus().to_string(), "-T"])
        .arg(file(run, "part"))
        .arg("-o")
        .arg(&sorted)
        .arg(file(run, "aligned.sam"))
        .run(run.stop)?;
    let index = Program::new("samtools", "samtools").arg("index").arg(sorted).run(run.stop)?;
    Ok(sort.cpu_seconds + index.cpu_seconds)
}

/// Holds the sorted file against the reads: nearly all have to be aligned, as they are of there.
fn check(run: &Run<'_>, reads: u64) -> Result<(), BenchError> {
    // Neither unmapped (4) nor a second or further place of the same read (256, 2048).
    let count = Program::new("samtools", "samtools").args(["view", "-c", "-F", "2308"]);
    let counted = count.arg(file(run, "sorted.bam")).run(run.stop)?.stdout;
    let aligned = String::from_utf8_lossy(&counted).trim().parse::<u64>().unwrap_or(0);
    match (aligned <= reads && aligned * 100 >= reads * 99).then_some(()) {
        Some(()) => Ok(()),
        None => Err(BenchError::Program {
            program: "bwa".into(),
            why: format!("{aligned} of {reads} reads are aligned"),
        }),
    }
}

/// The drawn genome, and nature's where there is one.
fn write_reference(run: &Run<'_>, plan: &Plan, virus: Option<&[u8]>) -> Result<(), BenchError> {
    write_file(file(run, "ref.fa"), |to| {
        to.write_all(virus.unwrap_or_default())?;
        plan.genome(run.seed).write_fasta(to, &|| ())
    })
}

/// Both ends of pieces from all over the genome, each from either strand. The files are made one
/// beside the other, as a chromosome is made once.
fn write_reads(run: &Run<'_>, plan: &Plan) -> Result<(), BenchError> {
    let genome = plan.genome(run.seed);
    let mut random = random(run.seed, u64::MAX);
    let second = file(run, "2.fq");
    let mut second = BufWriter::new(fs::File::create(&second).map_err(suite::io(&second))?);
    let mut stopped = Ok(());
    write_file(file(run, "1.fq"), |first| {
        for number in 0..genome.chromosomes {
            let bases = genome.chromosome(number);
            let share = |n: u64| plan.pairs * n / genome.chromosomes;
            for pair in share(number)..share(number + 1) {
                if pair % 1000 == 0 {
                    run.progress.step(1000.min(plan.pairs - pair));
                    stopped = run.stop.check();
                    if stopped.is_err() {
                        return Ok(());
                    }
                }
                let from = random.random_range(0..=bases.len() - PIECE_BASES);
                let piece = &bases[from..from + PIECE_BASES];
                let other = reverse_complement(piece);
                let swap = random.random_bool(0.5);
                let (one, two) = if swap { (&other[..], piece) } else { (piece, &other[..]) };
                for (to, strand) in [(&mut *first, one), (&mut second, two)] {
                    let read = mutated(&strand[..READ_BASES], ONE_MISREAD_OF, &mut random);
                    let (read, quality) = (String::from_utf8_lossy(&read), "I".repeat(READ_BASES));
                    writeln!(to, "@r{pair}\n{read}\n+\n{quality}")?;
                }
            }
        }
        second.flush()
    })?;
    stopped
}

/// Writes a file of the pipeline's input. It is durable, so that what comes is not slowed by it.
fn write_file(
    path: PathBuf,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), BenchError> {
    let written = fs::File::create(&path).and_then(|file| {
        let mut to = BufWriter::with_capacity(1 << 20, file);
        write(&mut to)?;
        to.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    });
    written.map_err(suite::io(&path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::testing::Bench;

    const TINY: Plan = Plan { chromosomes: 2, bases_each: 20_000, pairs: 1_500, sort_memory: "1M" };

    #[test]
    fn the_real_pipeline_aligns_what_was_drawn() {
        let bench = Bench::new();
        let measured = measure(&bench.run(&[]), &TINY).unwrap();
        let told: Vec<_> =
            measured.iter().map(|m| (m.phase.as_str(), m.operations, m.unit.as_str())).collect();
        let want =
            [("index", 40_000, "bases"), ("align", 3_000, "reads"), ("sort", 3_000, "reads")];
        assert_eq!(told, want);
        assert!(measured.iter().all(|m| m.bytes > 0 && m.seconds > 0.0), "{measured:?}");
    }

    #[test]
    fn reads_that_are_not_aligned_are_an_error() {
        let bench = Bench::new();
        let run = bench.run(&[]);
        measure(&run, &TINY).unwrap();
        let error = check(&run, 6_000).unwrap_err().to_string();
        assert!(error.ends_with("of 6000 reads are aligned"), "{error}");
    }

    #[test]
    fn a_seed_gives_one_set_of_reads() {
        let benches = [Bench::new(), Bench::new()];
        let [one, two] = benches.each_ref().map(|bench| {
            write_reads(&bench.run(&[]), &TINY).unwrap();
            ["1.fq", "2.fq"].map(|name| fs::read(bench.dir().join(name)).unwrap())
        });
        assert!(one == two, "the reads differ");
        assert_ne!(one[0], one[1]);
        assert_eq!(one[0].iter().filter(|byte| **byte == b'@').count(), 1_500);
    }

    #[test]
    fn a_stop_while_reads_are_made_or_a_step_runs_ends_it() {
        for phase in ["make reads", "align"] {
            let mut bench = Bench::new();
            bench.stop_in = Some(phase);
            let ended = measure(&bench.run(&[]), &TINY);
            assert!(matches!(ended, Err(BenchError::Stopped)), "{phase}: {ended:?}");
            assert!(!bench.dir().join("sorted.bam").exists(), "{phase}");
        }
    }
}
