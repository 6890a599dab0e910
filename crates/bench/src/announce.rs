//! What a run will do and cost, said before it begins.

use serde::Serialize;
use weir_cost::{PriceBook, Requests, Usage, so_far};
use weir_types::NanoUsd;

use crate::report::TargetFacts;
use crate::runner::Options;
use crate::suite::{BenchError, Demand, Suite};
use crate::target::{Keeper, Target};

/// Bytes of Weir's objects: one PUT each. Source: `weir format --segment-size`, its default.
const SEGMENT_BYTES: u64 = 16 << 20;
/// Bytes of a ranged GET, as Weir and good copiers send them; also those of a part of an upload.
/// Source: AWS's advice for S3, "Performance design patterns": 8 or 16 MB.
const PART_BYTES: u64 = 8 << 20;

/// What a run will do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Announcement {
    /// On each target, in the order of the command line.
    pub targets: Vec<OnTarget>,
    /// All bytes that will be written.
    pub written_bytes: u64,
    /// All bytes that will be read.
    pub read_bytes: u64,
    /// All files that will be made.
    pub files: u64,
    /// About how long it takes.
    pub seconds: u64,
    /// What the requests to buckets cost, as far as their prices are known.
    pub cost: NanoUsd,
    /// Whether all prices are known.
    pub cost_complete: bool,
    /// Suites for which there is no room, with both numbers.
    pub problems: Vec<String>,
}

/// What a run will do on one target.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OnTarget {
    /// The target.
    pub facts: TargetFacts,
    /// PUT requests to its bucket, about.
    pub puts: u64,
    /// GET requests to its bucket, at most: what is read warm costs none.
    pub gets: u64,
    /// What they cost, as far as it is known.
    pub cost: NanoUsd,
}

/// Says what a run will do.
///
/// # Errors
/// When a target is no directory that can be written.
pub fn announce(
    options: &Options,
    suites: &[&dyn Suite],
    book: &PriceBook,
) -> Result<Announcement, BenchError> {
    let mut all = Announcement {
        targets: Vec::new(),
        written_bytes: 0,
        read_bytes: 0,
        files: 0,
        seconds: 0,
        cost: NanoUsd::default(),
        cost_complete: true,
        problems: Vec::new(),
    };
    for path in &options.paths {
        let target = Target::at(path)?;
        let mut of_target = Demand::default();
        for suite in suites {
            let demand = suite.demand(options.size, &options.copies);
            if let Err(error) = target.check_room(&demand) {
                all.problems.push(format!("{}: {error}", suite.name()));
                continue;
            }
            of_target = sum(&of_target, &demand, u64::from(options.repeats));
        }
        all.written_bytes += of_target.written_bytes;
        all.read_bytes += of_target.read_bytes;
        all.files += of_target.files;
        all.seconds += of_target.seconds;
        let requests = requests(target.keeper(), &of_target);
        let bill = so_far(book.at(&options.region), &Usage { requests, ..Usage::default() });
        all.cost = all.cost + bill.total;
        all.cost_complete &= bill.complete;
        let Requests { put: puts, get: gets, .. } = requests;
        all.targets.push(OnTarget { facts: target.facts, puts, gets, cost: bill.total });
    }
    Ok(all)
}

fn sum(so_far: &Demand, more: &Demand, times: u64) -> Demand {
    Demand {
        space_bytes: so_far.space_bytes.max(more.space_bytes),
        written_bytes: so_far.written_bytes + more.written_bytes * times,
        read_bytes: so_far.read_bytes + more.read_bytes * times,
        files: so_far.files + more.files * times,
        seconds: so_far.seconds + more.seconds * times,
    }
}

/// Requests to the bucket: Weir packs files into segments, others send one PUT or more for each
/// file, and read each with one GET or more.
fn requests(keeper: Keeper, demand: &Demand) -> Requests {
    let (written_bytes, read_bytes) = (demand.written_bytes, demand.read_bytes);
    let (put, get) = match keeper {
        Keeper::Weir => (written_bytes.div_ceil(SEGMENT_BYTES), read_bytes.div_ceil(PART_BYTES)),
        Keeper::Objects => {
            let reads = if read_bytes == 0 { 0 } else { demand.files };
            (
                written_bytes.div_ceil(PART_BYTES).max(demand.files),
                read_bytes.div_ceil(PART_BYTES).max(reads),
            )
        }
        Keeper::Other => (0, 0),
    };
    Requests { put, get, ..Requests::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites;

    #[test]
    fn requests_are_those_of_whoever_keeps_the_files() {
        let demand = Demand {
            written_bytes: (16 << 20) * 100 + 1,
            read_bytes: (8 << 20) * 300,
            files: 50,
            ..Demand::default()
        };
        let counts = |keeper, demand: &Demand| {
            let Requests { put, get, delete } = requests(keeper, demand);
            (put, get, delete)
        };
        assert_eq!(counts(Keeper::Weir, &demand), (101, 300, 0));
        assert_eq!(counts(Keeper::Objects, &demand), (201, 300, 0));
        assert_eq!(counts(Keeper::Other, &demand), (0, 0, 0));
        let many = Demand { files: 1_000_000, ..demand };
        assert_eq!(counts(Keeper::Weir, &many), (101, 300, 0));
        assert_eq!(counts(Keeper::Objects, &many), (1_000_000, 1_000_000, 0));
    }

    #[test]
    fn published_small_files_cost_more_where_each_is_an_object() {
        let book = PriceBook::built_in();
        let demand = suites::small_files().demand(crate::report::Size::Published, &[1]);
        let usd = |keeper| {
            let usage = Usage { requests: requests(keeper, &demand), ..Usage::default() };
            so_far(book.at("us-east-1"), &usage).total
        };
        // 50 GB: 2,981 PUTs at $0.005 a thousand, and 17,882 GETs (150 GB) at $0.0004 a thousand.
        assert_eq!(usd(Keeper::Weir), NanoUsd(2_981 * 5_000 + 17_882 * 400));
        // 100,000 of each.
        assert_eq!(usd(Keeper::Objects), NanoUsd(100_000 * 5_000 + 100_000 * 400));
    }

    #[test]
    fn all_targets_and_repeats_are_summed() {
        let dirs = [tempfile::tempdir().expect("one"), tempfile::tempdir().expect("other")];
        let (small, dummy) = (suites::small_files(), suites::dummy_files());
        let options = Options {
            paths: dirs.iter().map(|dir| dir.path().to_owned()).collect(),
            repeats: 3,
            copies: vec![2],
            ..Options::default()
        };
        let told = announce(&options, &[&small, &dummy], &PriceBook::built_in()).expect("told");
        // Of each target: two copies of 2,000 files and two of 500.
        assert_eq!(told.files, 2 * 3 * 2 * (2_000 + 500));
        let (small_bytes, dummy_bytes) = (2_000 * 50_000, 500 << 20);
        assert_eq!(told.written_bytes, 2 * 3 * 2 * (small_bytes + dummy_bytes));
        assert_eq!(told.read_bytes, 2 * 3 * 2 * small_bytes * 3);
        assert_eq!((told.cost, told.cost_complete), (NanoUsd(0), true));
        assert_eq!((told.targets.len(), told.problems.len()), (2, 0));
    }

    #[test]
    fn what_finds_no_room_is_said_and_not_counted() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut large = suites::dd_large();
        large.small.chunks = 1 << 30;
        let options = Options { paths: vec![dir.path().to_owned()], ..Options::default() };
        let told = announce(&options, &[&large], &PriceBook::built_in()).expect("told");
        assert_eq!(told.written_bytes, 0);
        assert!(told.problems[0].contains("dd-large") && told.problems[0].contains("are free"));
    }
}
