//! The throughput mode of a mount of weir.

use serde::Deserialize;

use crate::mounts;
use crate::suite::{BenchError, Run, Stop};
use crate::suites::outside::weir;

/// The mode of a volume, to go back to.
#[derive(Debug, PartialEq)]
pub(super) struct Found(Vec<String>);

#[derive(Deserialize)]
struct Report {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    name: String,
    mode: Mode,
    credit_bytes: f64,
}

#[derive(Deserialize)]
struct Mode {
    mode: String,
    mib_per_s: Option<f64>,
}

impl Found {
    pub(super) fn of(run: &Run<'_>) -> Result<Self, BenchError> {
        let asked =
            weir(run).arg("throughput").arg(mounts::holding(run.dir)?.mountpoint).arg("--json");
        Self::read(&asked.run(run.stop)?.stdout)
    }

    fn read(json: &[u8]) -> Result<Self, BenchError> {
        let failed = |why| BenchError::Program { program: "weir throughput".into(), why };
        let report: Report =
            serde_json::from_slice(json).map_err(|error| failed(format!("its JSON: {error}")))?;
        let volume = report.rules.into_iter().find(|rule| rule.name == "/");
        let Rule { mode, credit_bytes, .. } =
            volume.ok_or_else(|| failed("it tells of no rule of the volume".into()))?;
        let mut args = vec!["--mode".into(), mode.mode];
        args.extend(["--credits".into(), format!("{}B", credit_bytes.max(0.0) as u64)]);
        if let Some(mib_per_s) = mode.mib_per_s {
            args.extend(["--mibps".into(), mib_per_s.to_string()]);
        }
        Ok(Self(args))
    }
}

/// Goes back to a mode, at the latest when it goes itself.
pub(super) struct Restore<'a, 'r> {
    found: Option<Found>,
    run: &'a Run<'r>,
}

impl<'a, 'r> Restore<'a, 'r> {
    pub(super) fn to(found: Found, run: &'a Run<'r>) -> Self {
        Self { found: Some(found), run }
    }

    /// Goes back now, also when the run is stopped.
    pub(super) fn now(&mut self) -> Result<(), BenchError> {
        match self.found.take() {
            Some(found) => change(self.run, &found.0, &Stop::default()),
            None => Ok(()),
        }
    }
}

impl Drop for Restore<'_, '_> {
    fn drop(&mut self) {
        // Nobody is left to tell of it.
        let _ = self.now();
    }
}

/// Changes the mode of the volume.
pub(super) fn set(run: &Run<'_>, args: &[&str]) -> Result<(), BenchError> {
    change(run, args, run.stop)
}

fn change<S: AsRef<str>>(run: &Run<'_>, args: &[S], stop: &Stop) -> Result<(), BenchError> {
    let args = args.iter().map(AsRef::as_ref);
    weir(run)
        .arg("throughput")
        .arg(mounts::holding(run.dir)?.mountpoint)
        .args(args)
        .run(stop)
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_what_brings_its_mode_back() {
        let rule = |mode: &str| {
            format!(
                r#"{{"rules": [
                    {{"name": "/slow", "mode": {{"mode": "elastic"}}, "credit_bytes": 1}},
                    {{"name": "/", "mode": {{{mode}}}, "credit_bytes": 1048576.5, "more": 1}}]}}"#
            )
        };
        let read = |mode| Found::read(rule(mode).as_bytes()).unwrap().0.join(" ");
        assert_eq!(read(r#""mode": "bursting""#), "--mode bursting --credits 1048576B");
        assert_eq!(
            read(r#""mode": "provisioned", "mib_per_s": 12.5"#),
            "--mode provisioned --credits 1048576B --mibps 12.5"
        );
        for none in ["", "{}", r#"{"rules": []}"#] {
            Found::read(none.as_bytes()).unwrap_err();
        }
    }
}
