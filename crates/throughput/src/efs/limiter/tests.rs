use proptest::prelude::*;

use super::super::Date;
use super::*;
use crate::TIB;

const GIB: u64 = 1 << 30;
const HOUR_NS: u64 = 3600 * 1_000_000_000;
const SECOND: u64 = 1_000_000_000;

fn of_2018() -> Rules {
    Rules::on(Date { year: 2018, month: 9, day: 1 })
}

fn bursting(rules: Rules, stored_bytes: u64) -> Limiter {
    Limiter::new(rules, Mode::Bursting, stored_bytes, 0)
}

fn provisioned(mib_per_s: f64, stored_bytes: u64) -> Limiter {
    Limiter::new(Rules::today(), Mode::Provisioned { mib_per_s }, stored_bytes, 0)
}

/// Asks as fast as it is let, in I/Os of `io_bytes`, and tells when the last one went.
fn drive(limiter: &mut Limiter, io_bytes: u64, ios: u64, mut now_ns: u64) -> u64 {
    for _ in 0..ios {
        while let Err(wait_ns) = limiter.take(io_bytes, now_ns) {
            now_ns += wait_ns;
        }
    }
    now_ns
}

#[track_caller]
fn close(value: f64, expected: f64, share: f64) {
    assert!((value / expected - 1.0).abs() <= share, "{value} is not {expected} within {share}");
}

/// EFS user guide of 2018, "Throughput Scaling in Amazon EFS", the table of examples: size,
/// baseline and burst in MiB/s, minutes of burst in a day that is idle for the rest.
#[test]
fn the_table_of_the_user_guide() {
    for (gib, baseline, burst, minutes) in [
        (10, 0.5, 100.0, 7.2),
        (256, 12.5, 100.0, 180.0),
        (512, 25.0, 100.0, 360.0),
        (1024, 50.0, 100.0, 720.0),
        (1536, 75.0, 150.0, 720.0),
        (2048, 100.0, 200.0, 720.0),
        (3072, 150.0, 300.0, 720.0),
        (4096, 200.0, 400.0, 720.0),
    ] {
        let mut limiter = bursting(of_2018(), gib * GIB);
        close(limiter.baseline_bytes_per_s(), baseline * MIB, 0.025);
        close(limiter.permitted_bytes_per_s(0), burst * MIB, 1e-9);

        let mut limiter = limiter.with_credits(0.0);
        let idle_ns = ((24.0 * 60.0 - minutes) * 60e9) as u64;
        let earned = limiter.credit_bytes(idle_ns);
        // What these credits are good for, with those earned meanwhile.
        let bytes = earned / (1.0 - limiter.baseline_bytes_per_s() / (burst * MIB));
        let burst_ns = limiter.transfer(bytes, f64::INFINITY, idle_ns);
        close(burst_ns as f64, minutes * 60e9, 0.03);
        assert!(limiter.credit_bytes(idle_ns + burst_ns) < 1e-6 * earned);
    }
}

/// The guide of today, "Understanding Amazon EFS burst credits": 100 GiB earn 432,000 MiB in a day
/// without use, for 72 minutes at 100 MiB/s; reads go three times as fast. The guide takes
/// 50 KiB/s for 0.05 MiB/s, which is 2.4% off.
#[test]
fn a_day_of_credits_of_100_gib() {
    let mut limiter = bursting(Rules::today(), 100 * GIB).with_credits(0.0);
    close(limiter.permitted_bytes_per_s(0), 5.0 * MIB, 0.025);
    close(limiter.credit_bytes(24 * HOUR_NS), 432_000.0 * MIB, 0.025);
    let minutes = limiter.credit_bytes(24 * HOUR_NS) / (100.0 * MIB) / 60.0;
    close(minutes, 72.0, 0.025);
    assert_eq!(limiter.metered_bytes(Io::Read, 3 << 20), 1 << 20);
    assert_eq!(limiter.metered_bytes(Io::Write, 3 << 20), 3 << 20);
}

/// The same guide: 10 TiB burst to 1,000 MiB/s and have 500 MiB/s for ever; credits are at most
/// 2.1 TiB for each TiB, which is a burst of 12 hours.
#[test]
fn ten_tebibytes_burst_for_half_of_the_day() {
    let mut limiter = bursting(Rules::today(), 10 << 40).with_credits(f64::INFINITY);
    close(limiter.permitted_bytes_per_s(0), 1000.0 * MIB, 1e-9);
    close(limiter.baseline_bytes_per_s(), 500.0 * MIB, 1e-9);
    close(limiter.credit_bytes(0), 21.0 * TIB, 1e-9);
    let burst_ns = limiter.transfer(12.0 * 3600.0 * 1000.0 * MIB, f64::INFINITY, 0);
    close(burst_ns as f64 / HOUR_NS as f64, 12.0, 1e-6);
    close(limiter.credit_bytes(burst_ns), 21.0 * TIB - 6.0 * 3600.0 * 1000.0 * MIB, 0.02);
}

/// The guide of 2018: the initial 2.1 TiB last 6.12 hours at 100 MiB/s, with nothing earned.
#[test]
fn initial_credits_last_for_six_hours() {
    let mut limiter = bursting(of_2018(), 0);
    let ns = limiter.transfer(2.1 * TIB, f64::INFINITY, 0);
    close(ns as f64 / HOUR_NS as f64, 6.12, 0.001);
    let left = limiter.credit_bytes(ns);
    close(left, 50.0 * 1024.0 * ns as f64 / 1e9, 1e-6);
}

/// What's New, 2020-06-30 and 2021-01-28: the least baseline, and reads at a third.
#[test]
fn rules_change_on_their_days() {
    let on = |date: &str| Rules::on(date.parse().expect("a date"));
    assert_eq!(on("2020-06-29"), of_2018());
    close(on("2020-06-29").baseline_bytes_per_s(0), 50.0 * 1024.0, 1e-9);
    close(on("2020-06-30").baseline_bytes_per_s(10 * GIB), MIB, 1e-9);
    assert_eq!(on("2021-01-27").metered_bytes(Io::Read, 1 << 20), 1 << 20);
    assert_eq!(on("2021-01-28"), Rules::today());
    // An NFS operation counts for 4 KiB at least.
    assert_eq!(of_2018().metered_bytes(Io::Read, 1), 4096);
    assert_eq!(Rules::today().metered_bytes(Io::Metadata, 0), 4096);
    assert_eq!(Rules::today().metered_bytes(Io::Read, 1), 1365);
}

#[test]
fn credits_run_out_at_the_very_byte() {
    let mib = 1 << 20;
    // 64 MiB of credits at 100 MiB/s, then 50 MiB/s: earned while they last, they are 128 MiB.
    let limiter = || bursting(Rules::today(), 1 << 40).with_credits(64.0 * MIB);
    let mut burst = limiter();
    let end_ns = drive(&mut burst, mib, 128, 0);
    close(end_ns as f64, 1.28e9 - 0.05e9, 0.02);
    let later_ns = drive(&mut burst, mib, 500, end_ns);
    close((later_ns - end_ns) as f64, 10e9 - 0.05e9, 0.01);
    close(burst.permitted_bytes_per_s(later_ns), 50.0 * MIB, 1e-9);
    assert_eq!(limiter().transfer(628.0 * MIB, f64::INFINITY, 0), 11_280_000_000);
}

#[test]
fn a_large_io_goes_and_is_paid_back() {
    let mut limiter = bursting(Rules::today(), 0).with_credits(0.0);
    assert_eq!(limiter.take(16 << 20, 0), Ok(()));
    // 16 MiB at 1 MiB/s, less the bucket of 50 ms.
    assert_eq!(limiter.take(1, 0), Err(15_950_000_000));
    assert_eq!(limiter.take(1, 15_950_000_000), Ok(()));
    assert_eq!(limiter.credit_bytes(15_950_000_000), 0.0);
}

#[test]
fn provisioned_holds_until_the_stored_size_gives_more() {
    let mut limiter = provisioned(100.0, GIB).with_credits(0.0);
    close(limiter.permitted_bytes_per_s(0), 100.0 * MIB, 1e-9);
    let end_ns = drive(&mut limiter, 1 << 20, 1000, 0);
    close(end_ns as f64, 10e9 - 0.05e9, 0.01);
    // With the credits of a new file system it is 20 MiB/s as well, whatever they would allow.
    let mut limiter = provisioned(20.0, GIB);
    close(limiter.permitted_bytes_per_s(0), 20.0 * MIB, 1e-9);
    // 4 TiB have 200 MiB/s, and 400 MiB/s with credits.
    limiter.set_stored_bytes(4 << 40, 0);
    close(limiter.permitted_bytes_per_s(0), 400.0 * MIB, 1e-9);
    close(limiter.with_credits(0.0).permitted_bytes_per_s(0), 200.0 * MIB, 1e-9);
}

#[test]
fn elastic_limits_nothing_and_leaves_credits_alone() {
    let mut limiter = Limiter::new(Rules::today(), Mode::Elastic, 1 << 40, 0).with_credits(5.0);
    assert!(!limiter.limits());
    assert_eq!(limiter.permitted_bytes_per_s(0), f64::INFINITY);
    assert_eq!(limiter.take(u64::MAX, 0), Ok(()));
    assert_eq!(limiter.transfer(1e9, 1e9, 0), SECOND);
    assert_eq!(limiter.credit_bytes(HOUR_NS), 5.0);
    limiter.set_mode(Mode::Bursting, HOUR_NS).expect("free to leave");
    assert!(limiter.credit_bytes(2 * HOUR_NS) > 5.0);
}

/// The measurement of 2018 at small scale: burst, drained, provisioned, and then the lock.
#[test]
fn burst_drained_provisioned() {
    let rules = Rules { lock_ms: Some(Rules::EFS_LOCK_MS), ..of_2018() };
    let mut limiter = bursting(rules, 16 * GIB).with_credits(100.0 * MIB);
    let mut now = drive(&mut limiter, 16 << 10, 6400, 0);
    close(now as f64, 1e9, 0.06);
    // What was earned meanwhile, and the little bucket.
    now = drive(&mut limiter, 16 << 10, 60, now);
    let start = now;
    now = drive(&mut limiter, 16 << 10, 500, now);
    close(500.0 * 16.0 * 1024.0 / ((now - start) as f64 / 1e9), 800.0 * 1024.0, 0.05);
    limiter.set_mode(Mode::Provisioned { mib_per_s: 100.0 }, now).expect("free to enter");
    let start = now;
    now = drive(&mut limiter, 16 << 10, 6400, now);
    close((now - start) as f64, 1e9, 0.06);

    limiter.set_mode(Mode::Provisioned { mib_per_s: 200.0 }, now).expect("free to raise");
    let locked = limiter.set_mode(Mode::Bursting, now + HOUR_NS).expect_err("locked");
    assert_eq!(locked.wait_ms, 23 * 3_600_000);
    let text = "cannot change to bursting throughput for another 1380 min: provisioned throughput \
                is kept for 24 h after it was set";
    assert_eq!(locked.to_string(), text);
    let lower = Mode::Provisioned { mib_per_s: 150.0 };
    limiter.set_mode(lower, now + HOUR_NS).expect_err("locked");

    // A restart neither opens the lock nor stops the earning.
    let kept = limiter.state(now + HOUR_NS, 1_000_000_000);
    let rules = limiter.rules().clone();
    let mut again = Limiter::restore(rules, &kept, 16 * GIB, 7, 1_000_000_000 + 3_600_000);
    assert_eq!(again.mode(), Mode::Provisioned { mib_per_s: 200.0 });
    close(again.credit_bytes(7) - kept.credit_bytes, 800.0 * 1024.0 * 3600.0, 1e-6);
    assert_eq!(again.set_mode(Mode::Elastic, 7).expect_err("locked").wait_ms, 22 * 3_600_000);
    again.set_mode(Mode::Elastic, 7 + 22 * HOUR_NS).expect("a day later");
}

#[test]
fn modes_read_as_people_write_them() {
    for (text, mode) in [
        (r#"{"mode":"bursting"}"#, Mode::Bursting),
        (r#"{"mode":"provisioned","mib_per_s":100.0}"#, Mode::Provisioned { mib_per_s: 100.0 }),
        (r#"{"mode":"elastic"}"#, Mode::Elastic),
    ] {
        assert_eq!(serde_json::from_str::<Mode>(text).expect("reads"), mode);
        assert_eq!(serde_json::to_string(&mode).expect("writes"), text);
    }
}

fn any_mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        Just(Mode::Bursting),
        (1.0..500.0).prop_map(|mib_per_s| Mode::Provisioned { mib_per_s }),
    ]
}

/// A step of somebody who uses a limiter: an I/O, and how late the next one is asked for.
fn any_steps() -> impl Strategy<Value = Vec<(u64, u64)>> {
    proptest::collection::vec((1_u64..8 << 20, 0_u64..40_000_000), 1..300)
}

proptest! {
    #[test]
    fn credits_stay_in_bounds_and_the_rate_below_what_is_permitted(
        mode in any_mode(),
        stored in 0_u64..8 << 40,
        credits in 0.0..1e9,
        steps in any_steps(),
    ) {
        let mut limiter = Limiter::new(Rules::today(), mode, stored, 0).with_credits(credits);
        let (mut now, mut begun): (u64, Vec<(u64, u64)>) = (0, Vec::new());
        let peak = limiter.rates().peak;
        for (bytes, idle_ns) in steps {
            while let Err(wait_ns) = limiter.take(bytes, now) {
                prop_assert!(wait_ns > 0);
                now += wait_ns;
            }
            begun.push((now, bytes));
            let credit = limiter.credit_bytes(now);
            prop_assert!((0.0..=limiter.credit_cap_bytes()).contains(&credit));
            now += idle_ns;
        }
        // Over every window that ends with the last I/O: what went before that one is within the
        // peak rate, but for the bucket and the I/O that may go ahead of it.
        let (end, last) = begun[begun.len() - 1];
        let largest = begun.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0) as f64;
        let mut passed = 0.0;
        for (at, bytes) in begun.iter().rev() {
            passed += *bytes as f64;
            let window_s = (end - at) as f64 / 1e9;
            let allowed = peak * (window_s + BUCKET_S) + largest + last as f64;
            prop_assert!(passed <= allowed, "{passed} in {window_s} s, {allowed} allowed");
        }
    }

    #[test]
    fn work_is_conserved_and_both_ways_agree(
        mode in any_mode(),
        stored in 0_u64..8 << 40,
        credits in 0.0..4e9,
        io_bytes in 4096_u64..1 << 20,
    ) {
        let limiter = Limiter::new(Rules::today(), mode, stored, 0).with_credits(credits);
        // Long enough for the little buckets, 50 ms on either side, to be a percent of it at most.
        let (mut fluid, mut stepped) = (limiter.clone(), limiter);
        let Rates { peak, sustained } = stepped.rates();
        let ios = ((credits * 2.0 + 12.0 * (peak + sustained)) / io_bytes as f64) as u64;
        let expected_ns = fluid.transfer(ios as f64 * io_bytes as f64, f64::INFINITY, 0);
        let ns = drive(&mut stepped, io_bytes, ios, 0);
        let error = ns as f64 / expected_ns as f64 - 1.0;
        prop_assert!(error.abs() < 0.01, "{ns} ns by I/O, {expected_ns} ns as a fluid");
    }

    #[test]
    fn waiting_as_told_is_enough(
        mode in any_mode(),
        stored in 0_u64..8 << 40,
        ios in proptest::collection::vec(1_u64..64 << 20, 1..50),
    ) {
        let mut limiter = Limiter::new(Rules::today(), mode, stored, 0).with_credits(0.0);
        let mut now = 0;
        for bytes in ios {
            if let Err(wait_ns) = limiter.take(bytes, now) {
                // Nor would half of it do, but for less than a byte of rounding.
                let early = limiter.clone().take(bytes, now + wait_ns / 2);
                prop_assert!(wait_ns < 100_000 || early.is_err());
                now += wait_ns;
                prop_assert_eq!(limiter.take(bytes, now), Ok(()));
            }
        }
    }
}
