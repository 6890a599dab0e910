//! A report for tests.

use crate::report::{
    Latency, MachineFacts, Measurement, Point, Report, SCHEMA, Size, Skipped, TargetFacts, Warning,
};

/// 100 MB in 1,000 files, in so many seconds.
pub(crate) fn measurement(suite: &str, phase: &str, copies: u32, seconds: f64) -> Measurement {
    let at =
        |part: f64| Point { at_s: seconds * part, bytes_per_s: 1e8 / seconds * (0.7 + part / 2.0) };
    Measurement {
        suite: suite.to_owned(),
        phase: phase.to_owned(),
        copies,
        target: 0,
        repeat: 0,
        seconds,
        bytes: 100_000_000,
        operations: 1000,
        unit: "files".to_owned(),
        series: [0.2, 0.4, 0.6, 0.8, 1.0].map(at).to_vec(),
        latency: Some(Latency {
            mean_us: seconds * 1100.0,
            p50_us: seconds * 1000.0,
            p90_us: seconds * 2000.0,
            p99_us: seconds * 5000.0,
            p999_us: seconds * 20_000.0,
            max_us: seconds * 90_000.0,
        }),
        warnings: vec![Warning::Cached { why: "no right to drop <the> page cache".to_owned() }],
    }
}

/// Two targets, two suites, three repeats.
pub(crate) fn report() -> Report {
    let target = |name: &str, file_system: &str, source: &str| TargetFacts {
        name: name.to_owned(),
        path: format!("/mnt/{name}").into(),
        file_system: file_system.to_owned(),
        source: source.to_owned(),
        options: "rw,relatime".to_owned(),
        bytes: (1 << 40, 1 << 39),
        is_weir: file_system == "fuse.weir",
        drops_caches: true,
    };
    let mut measurements = Vec::new();
    for (suite, phase, seconds) in [
        ("small-files", "create", 2.0),
        ("small-files", "read-cold", 1.5),
        ("small-files", "read-warm", 0.5),
        ("dummy-files", "create", 3.0),
    ] {
        for copies in [1, 4, 8] {
            for target in 0..2 {
                for repeat in 0..3 {
                    let noise = 1.0 + 0.02 * f64::from(repeat);
                    let seconds =
                        seconds * noise * f64::from(copies).sqrt() * (1.0 + target as f64);
                    let of = measurement(suite, phase, copies, seconds);
                    measurements.push(Measurement { target, repeat, ..of });
                }
            }
        }
    }
    Report {
        schema: SCHEMA.to_owned(),
        made_by: "weir test".to_owned(),
        began_unix_ms: 1_790_000_000_000,
        machine: MachineFacts {
            host: "<here>".to_owned(),
            kernel: "6.18".to_owned(),
            cpu: "A & B".to_owned(),
            cpus: 2,
            memory_bytes: 8 << 30,
        },
        size: Size::Small,
        repeats: 3,
        synced: true,
        targets: vec![
            target("local", "ext4", "/dev/vda1"),
            target("weir", "fuse.weir", "s3://bucket/volume"),
        ],
        measurements,
        skipped: vec![Skipped {
            suite: "hydrate".to_owned(),
            target: Some(0),
            why: "this is no mount of weir".to_owned(),
        }],
        stopped: false,
    }
}
