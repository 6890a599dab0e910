//! What to do and what it saves, in a sentence.

use weir_cost::{Amount, Storage};
use weir_types::NanoUsd;

use crate::bill::{Elsewhere, MONTH_FROM, Report};
use crate::render::seconds;

/// What saves a smaller share of the cost is not worth a move.
const WORTH_A_MOVE: f64 = 0.05;

/// What a month costs without the machine, which is the same everywhere, beside what costs least of
/// the others that keep files as safe.
pub(super) fn headline(report: &Report) -> String {
    let Some(here) = without_machine(report) else {
        let watched_ms = report.to_unix_ms.saturating_sub(report.from_unix_ms);
        return format!(
            "What a month costs is told from {} on; this is {}.",
            seconds(MONTH_FROM.as_secs()),
            seconds(watched_ms / 1_000)
        );
    };
    let costs = format!("Without the machine a month at this rate costs {here} here");
    let Some((other, there)) = cheapest(report) else {
        return format!("{costs}; what it would cost elsewhere is not known.");
    };
    let other = format!(
        "{}, which costs least of the others ({there}, and takes {} for this I/O)",
        other.name,
        other.time()
    );
    let saved = NanoUsd(here.usd.0 - there.0);
    let worth_a_move = saved.0 as f64 > here.usd.0 as f64 * WORTH_A_MOVE;
    match (worth_a_move, here.complete, saved.0) {
        (true, true, _) => format!("Consider {other}: it saves {saved} a month. {costs}."),
        (true, false, _) => format!("Consider {other}: it saves {saved} a month or more. {costs}."),
        (false, false, _) => format!(
            "{costs}, beside {other}; tell --disk and what is unknown below to see what is saved."
        ),
        (false, true, ..0) => {
            format!("Stay: it saves {} a month beside {other}. {costs}.", NanoUsd(-saved.0))
        }
        (false, true, _) => format!("Stay: it costs as much as {other}. {costs}."),
    }
}

fn without_machine(report: &Report) -> Option<Amount> {
    let lines = &report.month.as_ref()?.lines;
    let kept = lines.iter().filter(|line| !line.what.starts_with("instance"));
    let known = kept.clone().filter_map(|line| line.amount).sum();
    Some(Amount { usd: known, complete: kept.into_iter().all(|line| line.amount.is_some()) })
}

/// An instance store is no other place: what is only there is gone when the machine stops.
fn cheapest(report: &Report) -> Option<(&Elsewhere, NanoUsd)> {
    let lasts = |of: &&Elsewhere| of.storage != Storage::InstanceStore && of.seconds.is_finite();
    let known = report.shadow.iter().filter(lasts).filter_map(|of| {
        let month = of.month.as_ref().filter(|month| month.complete)?;
        Some((of, month.total))
    });
    known.min_by_key(|(_, usd)| *usd)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_cost::{
        Activity, DiskKind, Host, PriceBook, Requests, Usage, machine, month, per_hour, per_month,
        predicted, shadow, so_far,
    };
    use weir_engine::{Period, SnapshotTotals};

    use super::super::describe;
    use super::*;
    use crate::bill::{HOUR_FROM, elsewhere};
    use crate::layout::Width;

    /// A terabyte, of which a little was read, on a tier of this kind, after this time.
    fn report(seconds: u64, disk: DiskKind, get: u64) -> Report {
        let book = PriceBook::built_in();
        let prices = book.at("us-east-1");
        let observed = Duration::from_secs(seconds);
        let host = Host { instance: None, disk_bytes: 100 << 30, disk };
        let requests = Requests { put: 10, get, delete: 0 };
        let usage = Usage {
            stored_bytes: 1 << 40,
            requests,
            observed,
            host: Some(host),
            ..Usage::default()
        };
        let activity = Activity {
            stored_bytes: 1 << 40,
            files: 1000,
            read_bytes: 1 << 30,
            reads: 1024,
            opens: 10,
            observed,
            ..Activity::default()
        };
        let machine = machine("i4i.8xlarge").expect("known");
        Report {
            volume: "v".to_owned(),
            mountpoint: None,
            region: "us-east-1".to_owned(),
            from_unix_ms: 0,
            to_unix_ms: seconds * 1000,
            so_far: so_far(prices, &usage),
            hour: (observed >= HOUR_FROM).then(|| per_hour(prices, &usage)),
            month: (observed >= MONTH_FROM).then(|| per_month(prices, &usage)),
            shadow: elsewhere(shadow(prices, &activity, &machine, &predicted), observed),
            machine,
            used: Period::default(),
            nfs: Vec::new(),
            held: SnapshotTotals { snapshots: 2, bytes: 100 << 30 },
            held_month: month(prices, 100 << 30),
        }
    }

    #[test]
    fn what_snapshots_hold_is_told_with_its_price() {
        let text = describe(&report(600, DiskKind::InstanceStore, 100), None, Width::default());
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.contains("100 GiB of it only snapshots hold (2 of them), for $2.30 a month"),
            "{text}"
        );
    }

    #[test]
    fn before_ten_minutes_no_month_is_told() {
        for seconds in [0, 1, 599] {
            let text =
                describe(&report(seconds, DiskKind::InstanceStore, 100), None, Width::default());
            let first = text.lines().next().unwrap_or_default();
            assert!(first.contains("is told from 10 min 0 s on; this is"), "{first}");
            assert!(!text.contains("a month,") && !text.contains("  a month  "), "{text}");
            assert_eq!(text.contains("an hour at this rate"), seconds >= 60, "{text}");
        }
        let text = describe(&report(600, DiskKind::InstanceStore, 100), None, Width::default());
        assert!(text.contains("a month, told from 10 min 0 s"), "{text}");
        let of_it = report(600, DiskKind::InstanceStore, 100);
        let narrow = describe(&of_it, None, Width::columns(80));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    }

    #[test]
    fn it_says_what_to_do_and_what_it_saves() {
        // A few cents of 23 dollars are no reason to move.
        let stay = headline(&report(3600, DiskKind::InstanceStore, 100));
        assert!(stay.starts_with("Stay: it costs as much as S3 Files, "), "{stay}");
        // A billion GETs an hour are $400.
        let leave = headline(&report(3600, DiskKind::InstanceStore, 1_000_000_000));
        assert!(leave.starts_with("Consider ") && leave.contains("it saves $"), "{leave}");
        let unknown = headline(&report(3600, DiskKind::Unknown, 100));
        assert!(unknown.contains("costs at least $") && unknown.contains("--disk"), "{unknown}");
        for text in [stay, leave, unknown] {
            assert!(!text.contains("instance store"), "{text}");
        }
    }
}
