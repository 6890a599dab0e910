use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::suites::testing::Bench;

const FALL: Fall = Fall { first_s: 10, below_s: 5 };

fn points(rates: &[f64]) -> Vec<Point> {
    let point =
        |(second, rate): (usize, &f64)| Point { at_s: second as f64 + 1.0, bytes_per_s: *rate };
    rates.iter().enumerate().map(point).collect()
}

#[test]
fn a_drop_is_five_seconds_below_half_of_the_first_ten() {
    let of = |parts: &[(f64, usize)]| {
        let rates: Vec<_> = parts.iter().flat_map(|(rate, n)| vec![*rate; *n]).collect();
        FALL.at(&points(&rates))
    };
    assert_eq!(of(&[(100.0, 20), (49.0, 5)]), Some(20));
    assert_eq!(of(&[(100.0, 20), (49.0, 4)]), None);
    assert_eq!(of(&[(100.0, 20), (51.0, 50)]), None);
    assert_eq!(of(&[(100.0, 20), (1.0, 4), (100.0, 1), (1.0, 5)]), Some(25));
    // Credits that are gone within the first ten seconds are gone as well.
    assert_eq!(of(&[(100.0, 3), (1.0, 7)]), Some(3));
    assert_eq!(of(&[(100.0, 3), (1.0, 6)]), None);
    assert_eq!(of(&[]), None);
}

fn tiny() -> Plan {
    let fall = Fall { first_s: 2, below_s: 2 };
    Plan { longest_s: 3, provisioned_s: 1, fall, ..Plan::of(Size::Small, &[2]) }
}

#[test]
fn clients_move_what_they_say_and_no_more_than_their_files() {
    for direct in [true, false] {
        let bench = Bench::new();
        let mut plan = tiny();
        plan.load.direct = direct;
        let measured = drain(&bench.run(&[]), &plan).unwrap();
        let all: u64 = measured.iter().map(|m| m.bytes).sum();
        assert!(all > 0, "{measured:?}");
        assert_eq!((measured[0].phase.as_str(), measured[0].copies), ("burst", 2));
        assert!(measured.iter().all(|m| !m.warnings.is_empty()), "it says whether it dropped");
        let refused = format!("{measured:?}").contains("O_DIRECT");
        assert_eq!(refused, !direct, "{measured:?}");
        for client in ["client-0", "client-1"] {
            let length = fs::metadata(bench.dir().join(client)).unwrap().len();
            assert!(0 < length && length <= 64 * MIB, "{client}: {length} bytes");
        }
    }
}

/// A `weir` that answers with a mode and notes what is asked of it.
fn pretend(bench: &Bench) {
    let (path, told) = (bench.scratch().join("weir"), bench.scratch().join("told"));
    let answer = r#"{"rules":[{"name":"/","mode":{"mode":"elastic"},"credit_bytes":7.0}]}"#;
    let script = format!("#!/bin/sh\necho \"$@\" >>{}\necho '{answer}'\n", told.display());
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn told(bench: &Bench) -> Vec<String> {
    let told = fs::read_to_string(bench.scratch().join("told")).unwrap();
    // Without the command and the mount.
    let rest = |line: &str| line.splitn(3, ' ').nth(2).unwrap_or_default().to_owned();
    told.lines().map(rest).collect()
}

#[test]
fn a_mount_of_weir_is_drained_and_provisioned() {
    let bench = Bench::new();
    pretend(&bench);
    let measured = on_weir(&bench.run(&[]), &tiny()).unwrap();
    let last = measured.last().unwrap();
    assert_eq!((last.phase.as_str(), last.series.len()), ("provisioned", 1));
    let want = ["--mode bursting --credits 209715200B", "--mode provisioned --mibps 100"];
    assert_eq!(told(&bench), want);
}

#[test]
fn the_mode_is_restored_also_after_a_stop() {
    let mut bench = Bench::new();
    bench.is_weir = true;
    bench.stop_in = Some("drain");
    pretend(&bench);
    let ended = CreditDrain.run(&bench.run(&[]));
    assert!(matches!(ended, Err(BenchError::Stopped)), "{ended:?}");
    let want = ["--json", "--mode bursting --credits 209715200B", "--mode elastic --credits 7B"];
    assert_eq!(told(&bench), want);
}

#[test]
fn a_client_that_fails_ends_it() {
    let bench = Bench::new();
    fs::create_dir(bench.dir().join("client-1")).unwrap();
    let error = drain(&bench.run(&[]), &tiny()).unwrap_err().to_string();
    assert!(error.contains("client-1"), "{error}");
}

#[test]
fn published_credits_are_two_and_a_tenth_tebibytes() {
    let plan = Plan::of(Size::Published, &[]);
    let tib = plan.credit_bytes as f64 / (1_u64 << 40) as f64;
    assert!((tib - 2.1).abs() < 1e-5, "{tib}");
    assert_eq!(plan.load.clients, 4);
}
