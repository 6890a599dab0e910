//! What a run of a suite costs: on the targets as far as that is known, and what the same bytes in
//! the same time would cost on the services that people choose from.

use std::time::Duration;

use weir_cost::{
    Activity, Amount, Machine, Prices, Requests, RunTime, Storage, Usage, Workload, shadow, so_far,
};
use weir_types::{Bytes, Settings};

use crate::announce::{PART_BYTES, PUTS_OF_SYNC, SEGMENT_BYTES};
use crate::report::{Report, TargetFacts};
use crate::summary::Row;
use crate::target::Keeper;

/// What a run costs somewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// A target or a service.
    pub name: String,
    /// How long a run took there, where it ran there.
    pub seconds: Option<f64>,
    /// What it costs; `None` is unknown.
    pub amount: Option<Amount>,
    /// What it is made of, or why it is unknown.
    pub basis: String,
}

/// What phases did, as far as their names and counts say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Work {
    seconds: f64,
    read_bytes: u64,
    /// Of these, what came from storage: not in phases that are warm or, as `read-512`, follow one.
    cold_bytes: u64,
    written_bytes: u64,
    stored_bytes: u64,
    read_files: u64,
    /// Of these, what came from storage.
    cold_files: u64,
    written_files: u64,
    metadata_ops: u64,
    /// Seconds in which names or bytes changed.
    changing_seconds: f64,
}

/// What one run of `suite` costs on each target that it ran on, at list prices.
pub fn on_targets(prices: Prices<'_>, report: &Report, rows: &[Row], suite: &str) -> Vec<Cost> {
    let of = |(at, target): (usize, &TargetFacts)| {
        Work::of(rows, suite, at).map(|work| on_target(prices, target, &work, report.synced))
    };
    report.targets.iter().enumerate().filter_map(of).collect()
}

/// What the bytes of one run of `suite` would cost elsewhere, in the time that the first target
/// needed: capacity for that time, and what is metered.
pub fn elsewhere(prices: Prices<'_>, report: &Report, rows: &[Row], suite: &str) -> Vec<Cost> {
    let first = (0..report.targets.len()).find_map(|at| Work::of(rows, suite, at));
    let Some(work) = first else { return Vec::new() };
    let activity = Activity {
        stored_bytes: work.stored_bytes,
        cold_bytes: 0,
        archive_bytes: 0,
        files: work.written_files,
        read_bytes: work.read_bytes,
        written_bytes: work.written_bytes,
        reads: work.read_files.max(work.read_bytes >> 20),
        writes: work.written_files.max(work.written_bytes >> 20),
        opens: work.written_files + work.read_files,
        metadata_ops: work.metadata_ops + work.written_files + work.read_files,
        observed: Duration::from_secs_f64(work.seconds),
    };
    let machine = Machine {
        instance: report.machine.host.clone(),
        vcpu: report.machine.cpus.into(),
        memory_gib: report.machine.memory_bytes as f64 / f64::from(1 << 30),
        network_gbps: (0.0, 0.0),
        nvme_bytes: work.stored_bytes,
        ebs_mb_per_s: 0.0,
    };
    let measured = |_: &Storage, _: &Workload, _: &Machine, _: u64| RunTime {
        seconds: work.seconds,
        first_seconds: work.seconds,
        bound_by: "as measured".to_owned(),
        read_bytes: work.read_bytes as f64,
        write_bytes: work.written_bytes as f64,
    };
    let shadows = shadow(prices, &activity, &machine, &measured);
    let cost = |of: weir_cost::Shadow| {
        let unknown = of.so_far.unknown();
        let basis = match unknown.is_empty() {
            true => "list prices".to_owned(),
            false => format!("no price known of {}", unknown.join(", ")),
        };
        let amount = Some(of.so_far.amount()).filter(|amount| amount.complete || amount.usd.0 > 0);
        Cost { name: of.name, seconds: None, amount, basis }
    };
    shadows.into_iter().map(cost).collect()
}

fn on_target(prices: Prices<'_>, target: &TargetFacts, work: &Work, synced: bool) -> Cost {
    let (requests, is_all) = match Keeper::of(target) {
        Keeper::Weir => (Some(work.requests_of_weir(synced)), true),
        // One request for each file is the least: large ones go in parts.
        Keeper::Objects => {
            let least = Requests { put: work.written_files, get: work.read_files, delete: 0 };
            (Some(least), false)
        }
        Keeper::Other => (None, false),
    };
    let cost = |amount, basis| Cost {
        name: target.name.clone(),
        seconds: Some(work.seconds),
        amount,
        basis,
    };
    let Some(requests) = requests else {
        let what = format!("nobody says what {} on {} costs", target.file_system, target.source);
        return cost(None, what);
    };
    let usage = Usage {
        stored_bytes: work.stored_bytes,
        requests,
        observed: Duration::from_secs_f64(work.seconds),
        ..Usage::default()
    };
    let bill = so_far(prices, &usage);
    let mut amount = bill.amount();
    amount.complete &= is_all;
    let least = if is_all { "about" } else { "at least" };
    let basis = format!(
        "{least} {} PUTs and {} GETs; {} kept for that time",
        requests.put,
        requests.get,
        Bytes(work.stored_bytes)
    );
    let known = bill.complete || bill.total.0 > 0;
    cost(known.then_some(amount), basis)
}

impl Work {
    /// That of one run of a suite on a target; `None` where it did not run.
    fn of(rows: &[Row], suite: &str, target: usize) -> Option<Self> {
        let mine = rows.iter().filter(|row| row.suite == suite && row.target == target);
        let mut work = None;
        for row in mine {
            work.get_or_insert_with(Self::default).add(row);
        }
        work
    }

    fn add(&mut self, row: &Row) {
        self.seconds += row.seconds.median;
        // Operations may be queries, bases or I/Os as well.
        let files = if row.unit == "files" { row.operations } else { 0 };
        let has = |words: &[&str]| row.phase.split('-').any(|word| words.contains(&word));
        if has(&["read", "randread", "search", "dd", "hydrate"]) {
            self.read_bytes += row.bytes;
            self.read_files += files;
            if !has(&["warm", "512"]) {
                self.cold_bytes += row.bytes;
                self.cold_files += files;
            }
        } else if row.bytes > 0 {
            self.written_bytes += row.bytes;
            self.written_files += files;
            self.stored_bytes = self.stored_bytes.max(row.bytes);
            self.changing_seconds += row.seconds.median;
        } else {
            self.metadata_ops += files;
            self.changing_seconds += row.seconds.median;
        }
    }

    /// Full segments, joined GETs of what is not in the tier, and the metadata's PUT in each of
    /// its flush intervals while something changes. Without a journal, files that were synced went
    /// to the bucket one by one. Sources: [`Settings::meta_flush_ms`]; `SEMANTICS.md`.
    fn requests_of_weir(&self, synced: bool) -> Requests {
        let times_synced = |count: u64| if synced { count } else { 0 };
        let flush_ms = Settings::default().meta_flush_ms.max(1);
        let flushes = (self.changing_seconds * 1000.0 / flush_ms as f64).ceil() as u64;
        let segments = self.written_bytes.div_ceil(SEGMENT_BYTES);
        Requests {
            put: segments.max(times_synced(PUTS_OF_SYNC * self.written_files)) + flushes,
            get: self.cold_bytes.div_ceil(PART_BYTES).max(times_synced(self.cold_files)),
            delete: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_cost::PriceBook;
    use weir_types::NanoUsd;

    use super::*;
    use crate::report::Measurement;
    use crate::sample;
    use crate::summary::summary;

    /// 1,600 MiB written in 100 s and read twice in 10 s each, on both targets.
    fn report() -> Report {
        let mut report = sample::report();
        report.measurements.clear();
        for (phase, seconds) in [("create", 100.0), ("read-cold", 10.0), ("read-512", 10.0)] {
            for target in 0..2 {
                let of = sample::measurement("dd-large", phase, 1, seconds);
                report.measurements.push(Measurement { bytes: 1600 << 20, target, ..of });
            }
        }
        report
    }

    #[test]
    fn weir_pays_for_segments_joined_reads_and_flushes() {
        let (report, book) = (Report { synced: false, ..report() }, PriceBook::built_in());
        let costs = on_targets(book.at("us-east-1"), &report, &summary(&report), "dd-large");
        assert_eq!((costs[0].name.as_str(), costs[0].amount), ("local", None));
        assert!(costs[0].basis.contains("ext4 on /dev/vda1"), "{}", costs[0].basis);
        let weir = costs[1].amount.expect("known");
        // 100 segments and 100 flushes of a second: 200 x $0.000005 = $0.001. The cold read is 200
        // GETs x $0.0000004 = $0.00008. 1.5625 GB for 120 s of a month of 2,628,000 s at $0.023 are
        // $0.000001641.
        assert_eq!(weir.usd, NanoUsd(1_000_000 + 80_000 + 1_641));
        assert!(weir.complete);
        assert_eq!(costs[1].seconds, Some(120.0));
        assert_eq!(costs[1].basis, "about 200 PUTs and 200 GETs; 1.6 GiB kept for that time");
    }

    #[test]
    fn synced_files_are_two_puts_each_and_a_get_where_they_are_read_cold() {
        let (report, book) = (report(), PriceBook::built_in());
        let costs = on_targets(book.at("us-east-1"), &report, &summary(&report), "dd-large");
        // 1,000 files twice, and 100 flushes; each is read cold once.
        assert!(costs[1].basis.starts_with("about 2100 PUTs and 1000 GETs"), "{:?}", costs[1]);
    }

    #[test]
    fn a_file_in_an_object_is_a_request_at_least() {
        let (mut report, book) = (report(), PriceBook::built_in());
        report.targets[0].file_system = "fuse.s3fs".to_owned();
        let costs = on_targets(book.at("us-east-1"), &report, &summary(&report), "dd-large");
        assert!(costs[0].basis.starts_with("at least 1000 PUTs and 2000 GETs"), "{:?}", costs[0]);
        assert!(!costs[0].amount.expect("known").complete);
        let nowhere = on_targets(book.at("moon-1"), &report, &summary(&report), "dd-large");
        assert_eq!(nowhere[1].amount, None, "no price is known there");
    }

    #[test]
    fn whoever_keeps_the_files_is_paid_as_announced() {
        let (mut report, book) = (report(), PriceBook::built_in());
        (report.targets[0].file_system, report.targets[0].source) =
            ("fuse".to_owned(), "mountpoint-s3".to_owned());
        report.targets[1].source = "file:///srv/weir".to_owned();
        let costs = on_targets(book.at("us-east-1"), &report, &summary(&report), "dd-large");
        assert!(costs[0].basis.starts_with("at least 1000 PUTs and 2000 GETs"), "{:?}", costs[0]);
        assert_eq!(costs[1].amount, None, "a directory takes no requests");
        assert!(costs[1].basis.contains("fuse.weir on file:///srv/weir"), "{}", costs[1].basis);
    }

    #[test]
    fn only_files_are_files() {
        for unit in ["queries", "bases", "I/Os", "chunks", "sequences", "reads"] {
            let mut report = report();
            for of in &mut report.measurements {
                of.unit = unit.to_owned();
            }
            let mut rows = summary(&report);
            let work = Work::of(&rows, "dd-large", 0).expect("ran");
            assert_eq!((work.written_files, work.read_files), (0, 0), "{unit}");
            assert_eq!((work.written_bytes, work.read_bytes), (1600 << 20, 3200 << 20), "{unit}");
            rows.iter_mut().for_each(|row| row.bytes = 0);
            let work = Work::of(&rows, "dd-large", 0).expect("ran");
            assert_eq!(work.metadata_ops, 0, "{unit}");
        }
    }

    #[test]
    fn the_same_bytes_elsewhere() {
        let (report, book) = (report(), PriceBook::built_in());
        let rows = summary(&report);
        let costs = elsewhere(book.at("us-east-1"), &report, &rows, "dd-large");
        let files = costs.iter().find(|cost| cost.name.starts_with("EFS elastic")).expect("listed");
        assert!(files.amount.is_some_and(|amount| amount.usd.0 > 0), "{files:?}");
        assert!(costs.iter().all(|cost| cost.seconds.is_none()));
        assert!(elsewhere(book.at("us-east-1"), &report, &rows, "blast").is_empty());
        let none = elsewhere(book.at("moon-1"), &report, &rows, "dd-large");
        let elastic = none.iter().find(|cost| cost.name.starts_with("EFS")).expect("listed");
        assert_eq!(elastic.amount, None);
        assert!(elastic.basis.contains("efs."), "{}", elastic.basis);
    }
}
