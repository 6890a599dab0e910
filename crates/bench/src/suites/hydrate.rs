//! `hydrate`: `dd` of every file, one after the other, against `weir hydrate`.
//!
//! It was published that `dd` of 78 files of a BLAST database, 254 GB, had them come from S3 in
//! 1,075 s. The restore that stood beside it had nothing to do any more and is no figure: so here
//! it is made sure that every file is released before, and none after.

use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Instant;

use rand::Rng;
use serde::Deserialize;

use crate::report::{Measurement, Size, Warning};
use crate::suite::{BenchError, Demand, Run, Suite, io};
use crate::suites::genome::random;
use crate::suites::outside::{blank, go_cold, weir};

const BLOCK_BYTES: usize = 1 << 20;

/// `hydrate`.
pub(super) struct Hydrate;

/// How large it is.
#[derive(Clone, Copy, Debug)]
struct Plan {
    files: u64,
    /// Of each.
    bytes: u64,
}

impl Plan {
    fn of(size: Size) -> Self {
        match size {
            Size::Small => Self { files: 8, bytes: 32 << 20 },
            Size::Published => Self { files: 78, bytes: 254_000_000_000 / 78 },
        }
    }
}

impl Suite for Hydrate {
    fn name(&self) -> &'static str {
        "hydrate"
    }

    fn about(&self) -> &'static str {
        "bring files of the bucket here: dd one after the other, and weir hydrate"
    }

    fn published(&self) -> &'static [&'static str] {
        &["hydrate-dd"]
    }

    fn demand(&self, size: Size, _: &[u32]) -> Demand {
        let Plan { files, bytes } = Plan::of(size);
        let all = files * bytes;
        Demand {
            space_bytes: all,
            written_bytes: all,
            read_bytes: 2 * all,
            files,
            seconds: 3 * all / 100_000_000,
            ..Demand::default()
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Measurement>, BenchError> {
        measure(run, Plan::of(run.size))
    }
}

fn measure(run: &Run<'_>, plan: Plan) -> Result<Vec<Measurement>, BenchError> {
    if !run.is_weir {
        let why = "only files of weir can be released and hydrated".into();
        return Err(BenchError::Unsuitable(why));
    }
    run.progress.phase("write", plan.files);
    for number in 0..plan.files {
        write(run, plan, number)?;
        run.progress.step(1);
    }
    let dd = phase(run, plan, "dd", &|| {
        (0..plan.files).try_for_each(|number| {
            read(run, number)?;
            run.progress.step(1);
            Ok(())
        })
    })?;
    let hydrate = phase(run, plan, "hydrate", &|| {
        weir(run).args(["hydrate", "-r", "--wait"]).arg(run.dir).run(run.stop)?;
        run.progress.step(plan.files);
        Ok(())
    })?;
    match released(run)? {
        0 => Ok(vec![dd, hydrate]),
        left => Err(BenchError::Program {
            program: "weir hydrate".into(),
            why: format!("{left} files were not brought here"),
        }),
    }
}

/// Times what brings all files here, from nothing.
fn phase(
    run: &Run<'_>,
    plan: Plan,
    name: &str,
    bring: &dyn Fn() -> Result<(), BenchError>,
) -> Result<Measurement, BenchError> {
    let mut warnings = go_cold(run)?;
    let released = released(run)?;
    if released < plan.files {
        let why = format!("only {released} of {} files were released", plan.files);
        warnings.push(Warning::Cached { why });
    }
    run.progress.phase(name, plan.files);
    let began = Instant::now();
    bring()?;
    Ok(Measurement {
        seconds: began.elapsed().as_secs_f64(),
        bytes: plan.files * plan.bytes,
        operations: plan.files,
        unit: "files".into(),
        warnings,
        ..blank(run, "hydrate", name, 1)
    })
}

fn file(run: &Run<'_>, number: u64) -> PathBuf {
    run.dir.join(format!("part.{number:02}"))
}

/// Writes a file that does not compress.
fn write(run: &Run<'_>, plan: Plan, number: u64) -> Result<(), BenchError> {
    let path = file(run, number);
    let mut to = File::create(&path).map_err(io(&path))?;
    let mut random = random(run.seed, number);
    let mut block = vec![0; BLOCK_BYTES];
    let mut left = plan.bytes;
    while left > 0 {
        run.stop.check()?;
        random.fill_bytes(&mut block);
        let length = usize::try_from(left).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
        to.write_all(&block[..length]).map_err(io(&path))?;
        left -= length as u64;
    }
    Ok(())
}

/// Reads a file as `dd bs=1M` does.
fn read(run: &Run<'_>, number: u64) -> Result<(), BenchError> {
    let path = file(run, number);
    let mut from = File::open(&path).map_err(io(&path))?;
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        run.stop.check()?;
        if from.read(&mut block).map_err(io(&path))? == 0 {
            return Ok(());
        }
    }
}

/// A line of `weir state`.
#[derive(Deserialize)]
struct HydrateState {
    released: bool,
}

/// How many files are in the bucket only.
fn released(run: &Run<'_>) -> Result<u64, BenchError> {
    let said = weir(run).args(["state", "-r", "--json"]).arg(run.dir).run(run.stop)?.stdout;
    let mut released = 0;
    for state in serde_json::Deserializer::from_slice(&said).into_iter::<HydrateState>() {
        let state = state.map_err(|error| BenchError::Program {
            program: "weir state".into(),
            why: format!("its JSON: {error}"),
        })?;
        released += u64::from(state.released);
    }
    Ok(released)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::suites::testing::Bench;

    const TINY: Plan = Plan { files: 3, bytes: 3 << 19 };

    #[test]
    fn what_is_no_mount_of_weir_is_unsuitable() {
        let bench = Bench::new();
        let error = Hydrate.run(&bench.run(&[])).unwrap_err();
        assert!(matches!(error, BenchError::Unsuitable(_)), "{error}");
        assert_eq!(fs::read_dir(bench.dir()).unwrap().count(), 0);
    }

    /// A `weir` that has released files until it has hydrated, if it does that.
    fn pretend(bench: &Bench, hydrates: bool) {
        let (weir, here) = (bench.scratch().join("weir"), bench.scratch().join("here"));
        let (here, noted) = (here.display(), bench.scratch().join("noted"));
        let hydrate = if hydrates { format!("touch {here}") } else { "true".to_owned() };
        let script = format!(
            "#!/bin/sh\necho $1 >>{}\ncase $1 in\n release) rm -f {here} ;;\n\
             hydrate) {hydrate} ;;\n state) for i in 1 2 3; do\n [ -e {here} ] && r=false || r=true\n\
             echo \"{{\\\"path\\\": \\\"p\\\", \\\"released\\\": $r}}\"\n done ;;\nesac\n",
            noted.display()
        );
        fs::write(&weir, script).unwrap();
        fs::set_permissions(&weir, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn files_are_released_before_both_and_here_after_hydration() {
        let mut bench = Bench::new();
        bench.is_weir = true;
        pretend(&bench, true);
        let measured = measure(&bench.run(&[]), TINY).unwrap();
        let told: Vec<_> = measured.iter().map(|m| (m.phase.as_str(), m.bytes)).collect();
        assert_eq!(told, [("dd", 9 << 19), ("hydrate", 9 << 19)]);
        for measured in &measured {
            let released = |warning: &Warning| format!("{warning:?}").contains("were released");
            assert!(!measured.warnings.iter().any(released), "{measured:?}");
        }
        let noted = fs::read_to_string(bench.scratch().join("noted")).unwrap();
        let noted: Vec<_> = noted.lines().collect();
        let cold = ["flush", "release", "state"];
        assert_eq!(noted, [&cold[..], &cold, &["hydrate", "state"]].concat());
    }

    #[test]
    fn a_hydration_that_brings_nothing_is_no_figure() {
        let mut bench = Bench::new();
        bench.is_weir = true;
        pretend(&bench, false);
        let error = measure(&bench.run(&[]), TINY).unwrap_err().to_string();
        assert_eq!(error, "weir hydrate failed: 3 files were not brought here");
    }
}
