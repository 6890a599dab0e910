//! What fio says: its JSON, and its logs of bandwidth.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::report::{Latency, Point};
use crate::suite::{BenchError, io};

/// What a job did.
#[derive(Debug, PartialEq)]
pub(super) struct Told {
    pub(super) seconds: f64,
    pub(super) bytes: u64,
    pub(super) operations: u64,
    pub(super) latency: Latency,
}

#[derive(Deserialize)]
struct Output {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    error: i32,
    read: Side,
    write: Side,
}

#[derive(Deserialize)]
struct Side {
    io_bytes: u64,
    total_ios: u64,
    /// In milliseconds.
    runtime: u64,
    clat_ns: Clat,
}

#[derive(Deserialize)]
struct Clat {
    max: f64,
    mean: f64,
    #[serde(default)]
    percentile: Percentiles,
}

#[derive(Default, Deserialize)]
struct Percentiles {
    #[serde(rename = "50.000000")]
    p50: f64,
    #[serde(rename = "90.000000")]
    p90: f64,
    #[serde(rename = "99.000000")]
    p99: f64,
    #[serde(rename = "99.900000")]
    p999: f64,
}

fn failed(why: String) -> BenchError {
    BenchError::Program { program: "fio".into(), why }
}

/// What the one group of jobs in fio's JSON did. Notes of fio may stand before it.
pub(super) fn parse(text: &str, pattern: &str) -> Result<Told, BenchError> {
    let json = text.find('{').map_or("", |at| &text[at..]);
    let output: Output =
        serde_json::from_str(json).map_err(|error| failed(format!("its JSON: {error}")))?;
    let [job] = output.jobs.as_slice() else {
        return Err(failed(format!("it tells of {} groups, not of one", output.jobs.len())));
    };
    let side = if pattern.ends_with("read") { &job.read } else { &job.write };
    if job.error != 0 || side.total_ios == 0 {
        return Err(failed(format!("error {}, {} I/Os", job.error, side.total_ios)));
    }
    let Clat { max, mean, percentile } = &side.clat_ns;
    // fio rounds percentiles up, but the slowest not.
    let us = |ns: f64| ns.min(*max) / 1e3;
    Ok(Told {
        seconds: side.runtime as f64 / 1e3,
        bytes: side.io_bytes,
        operations: side.total_ios,
        latency: Latency {
            mean_us: us(*mean),
            p50_us: us(percentile.p50),
            p90_us: us(percentile.p90),
            p99_us: us(percentile.p99),
            p999_us: us(percentile.p999),
            max_us: us(*max),
        },
    })
}

/// Throughput of all jobs by the second, of the logs that fio wrote for each of them.
pub(super) fn series(log: &Path, jobs: u32) -> Result<Vec<Point>, BenchError> {
    let mut moved = Moved::default();
    for job in 1..=jobs {
        let path = PathBuf::from(format!("{}_bw.{job}.log", log.display()));
        moved.add(&fs::read_to_string(&path).map_err(io(&path))?);
    }
    Ok(moved.points())
}

/// Bytes by the second in which they moved.
#[derive(Default)]
struct Moved {
    bytes: Vec<f64>,
    end_ms: u64,
}

impl Moved {
    /// Adds those of a log. A line is the end of a time in milliseconds and the KiB a second in
    /// it, and more that does not matter here.
    fn add(&mut self, log: &str) {
        let mut from_ms = 0;
        for line in log.lines() {
            let mut cells = line.split(',').map(|cell| cell.trim().parse::<u64>());
            let (Some(Ok(to_ms)), Some(Ok(kib_per_s))) = (cells.next(), cells.next()) else {
                continue;
            };
            while from_ms < to_ms {
                let second = from_ms / 1000;
                let until_ms = to_ms.min((second + 1) * 1000);
                let at = usize::try_from(second).unwrap_or(usize::MAX);
                if self.bytes.len() <= at {
                    self.bytes.resize(at + 1, 0.0);
                }
                self.bytes[at] += (kib_per_s << 10) as f64 * (until_ms - from_ms) as f64 / 1e3;
                from_ms = until_ms;
            }
            self.end_ms = self.end_ms.max(to_ms);
        }
    }

    /// The rates. The last second may be a short one; a tenth of one is too short to tell.
    fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        let mut from_s = 0.0;
        for bytes in &self.bytes {
            let at_s = f64::min(from_s + 1.0, self.end_ms as f64 / 1e3);
            if at_s - from_s > 0.1 {
                points.push(Point { at_s, bytes_per_s: bytes / (at_s - from_s) });
            }
            from_s = at_s;
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of fio 3.33, `bs=1M numjobs=4 iodepth=32 rw=write`, shortened.
    const SAMPLE: &str = include_str!("sample.json");

    #[test]
    fn a_recorded_answer_is_read() {
        let told = parse(&format!("note: something\n{SAMPLE}"), "write").unwrap();
        assert_eq!(told.bytes, 7_962_886_144);
        assert_eq!(told.operations, 7_594);
        assert_eq!(told.seconds, 3.075);
        assert_eq!(told.latency.p50_us, 56_885.248);
        assert_eq!(told.latency.p999_us, 191_889.408);
        assert_eq!(told.latency.max_us, 203_424.195);
        let nothing = parse(SAMPLE, "randread").unwrap_err().to_string();
        assert_eq!(nothing, "fio failed: error 0, 0 I/Os");
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for text in ["", "fio: failed", "{\"jobs\": []}", "{"] {
            parse(text, "read").unwrap_err();
        }
    }

    #[test]
    fn the_bytes_of_logs_lie_in_their_seconds() {
        let mut moved = Moved::default();
        moved.add("500, 2, 1, 0, 0\n1500, 4, 1, 0, 0\n\n2000, 1, 1, 0\n");
        assert_eq!(moved.bytes, [1024.0 + 2048.0, 2048.0 + 512.0]);
        moved.add("1000, 1, 0, 0, 0\n2500, 2, 0, 0, 0\n");
        assert_eq!(moved.bytes, [4096.0, 2560.0 + 2048.0, 1024.0]);
        let point = |at_s, bytes_per_s| Point { at_s, bytes_per_s };
        let points = [point(1.0, 4096.0), point(2.0, 4608.0), point(2.5, 2048.0)];
        assert_eq!(moved.points(), points);
    }

    #[test]
    fn a_last_second_that_hardly_was_is_no_point() {
        let mut moved = Moved::default();
        moved.add("1000, 1, 0\n1005, 1, 0\n");
        assert_eq!(moved.points(), [Point { at_s: 1.0, bytes_per_s: 1024.0 }]);
    }
}
