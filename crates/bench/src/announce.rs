//! What a run will do and cost, said before it begins.

use schemars::JsonSchema;
use serde::Serialize;
use weir_cost::{PriceBook, Requests, Usage, so_far};
use weir_types::{NanoUsd, Settings};

use crate::report::TargetFacts;
use crate::runner::Options;
use crate::suite::{BenchError, Demand, MetadataOps, Suite};
use crate::target::{Keeper, Target};

/// Bytes of Weir's objects: one PUT each. Source: `weir format --segment-size`, its default.
pub(crate) const SEGMENT_BYTES: u64 = 16 << 20;
/// PUTs of an fsync on Weir without a journal: the data, then the metadata. Source:
/// `docs/performance.md`.
pub(crate) const PUTS_OF_SYNC: u64 = 2;
/// Bytes of a ranged GET, as Weir and good copiers send them; also those of a part of an upload.
/// Source: AWS's advice for S3, "Performance design patterns": 8 or 16 MB.
pub(crate) const PART_BYTES: u64 = 8 << 20;
/// Names in an answer to LIST. Source: AWS's reference of S3, `ListObjectsV2`, `max-keys`.
const LISTED_NAMES: u64 = 1_000;

/// What a run will do.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OnTarget {
    /// The target.
    pub facts: TargetFacts,
    /// PUT requests to its bucket, about, and those that cost as much: COPY and LIST.
    pub puts: u64,
    /// GET and HEAD requests to its bucket, about.
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
        let keeper = Keeper::of(&target.facts);
        let mut of_target = Requests::default();
        for suite in suites {
            let demand = suite.demand(options.size, &options.copies);
            if let Err(error) = target.check_room(&demand) {
                all.problems.push(format!("{}: {error}", suite.name()));
                continue;
            }
            let times = u64::from(options.repeats);
            all.written_bytes += demand.written_bytes * times;
            all.read_bytes += demand.read_bytes * times;
            all.files += demand.files * times;
            all.seconds += demand.seconds * times;
            let Requests { put, get, delete } = requests(keeper, &demand, options.sync);
            of_target.put += put * times;
            of_target.get += get * times;
            of_target.delete += delete * times;
        }
        let usage = Usage { requests: of_target, ..Usage::default() };
        let bill = so_far(book.at(&options.region), &usage);
        all.cost = all.cost + bill.total;
        all.cost_complete &= bill.complete;
        let Requests { put: puts, get: gets, .. } = of_target;
        all.targets.push(OnTarget { facts: target.facts, puts, gets, cost: bill.total });
    }
    Ok(all)
}

/// Requests to the bucket of one run of a suite.
fn requests(keeper: Keeper, demand: &Demand, sync: bool) -> Requests {
    match keeper {
        Keeper::Weir => of_weir(demand, sync),
        Keeper::Objects => of_objects(demand),
        Keeper::Other => Requests::default(),
    }
}

/// Weir without a journal packs files into segments, but for those that are synced: they end in
/// the bucket one by one, and are read from there one by one. Metadata is flushed once in each
/// interval while it changes. Sources: `SEMANTICS.md`; [`Settings::meta_flush_ms`].
fn of_weir(demand: &Demand, sync: bool) -> Requests {
    let times_synced = |count: u64| if sync { count } else { 0 };
    let changes = demand.files > 0 || demand.written_bytes > 0;
    let flush_ms = Settings::default().meta_flush_ms.max(1);
    let flushes = if changes { demand.seconds * 1_000 / flush_ms } else { 0 };
    let segments = demand.written_bytes.div_ceil(SEGMENT_BYTES);
    let cold_bytes = demand.read_bytes.saturating_sub(demand.warm_bytes);
    let cold_reads = demand.reads.saturating_sub(demand.warm_reads);
    Requests {
        put: segments.max(times_synced(PUTS_OF_SYNC * demand.syncs)) + flushes,
        get: cold_bytes.div_ceil(PART_BYTES).max(times_synced(cold_reads)),
        delete: 0,
    }
}

/// Where a file is an object, each is a PUT or more when it is made and a GET or more when it is
/// read. A look at a name is a HEAD, and a LIST as it may be a directory; a rename is a HEAD, a
/// COPY and a DELETE. Sources: `doc/CONFIGURATION.md` of mountpoint-s3; AWS's user guide of S3,
/// "Copying, moving, and renaming objects".
fn of_objects(demand: &Demand) -> Requests {
    let MetadataOps { stats, listed, renames, removes } = demand.metadata_ops;
    let puts = demand.written_bytes.div_ceil(PART_BYTES).max(demand.files);
    Requests {
        put: puts + stats + listed.div_ceil(LISTED_NAMES) + renames,
        get: demand.read_bytes.div_ceil(PART_BYTES).max(demand.reads) + stats + renames,
        delete: renames + removes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites;

    fn counts(keeper: Keeper, demand: &Demand, sync: bool) -> (u64, u64, u64) {
        let Requests { put, get, delete } = requests(keeper, demand, sync);
        (put, get, delete)
    }

    #[test]
    fn requests_are_those_of_whoever_keeps_the_files() {
        let demand = Demand {
            written_bytes: (16 << 20) * 100 + 1,
            read_bytes: (8 << 20) * 300,
            warm_bytes: (8 << 20) * 200,
            files: 50,
            syncs: 50,
            reads: 150,
            warm_reads: 100,
            seconds: 7,
            ..Demand::default()
        };
        // 101 segments, more than 2 x 50 PUTs of fsyncs, and 7 flushes; 100 parts are read cold.
        assert_eq!(counts(Keeper::Weir, &demand, true), (101 + 7, 100, 0));
        assert_eq!(counts(Keeper::Weir, &demand, false), (101 + 7, 100, 0));
        // Parts of 8 MiB: 201 written, 300 read.
        assert_eq!(counts(Keeper::Objects, &demand, true), (201, 300, 0));
        assert_eq!(counts(Keeper::Other, &demand, true), (0, 0, 0));
        let many = Demand { files: 9_000, syncs: 9_000, reads: 900, warm_reads: 600, ..demand };
        assert_eq!(counts(Keeper::Weir, &many, true), (18_000 + 7, 300, 0));
        assert_eq!(counts(Keeper::Weir, &many, false), (101 + 7, 100, 0));
        assert_eq!(counts(Keeper::Objects, &many, true), (9_000, 900, 0));
        // Who only reads changes nothing that would have to be flushed.
        let reader = Demand { read_bytes: 8 << 20, reads: 1, seconds: 60, ..Demand::default() };
        assert_eq!(counts(Keeper::Weir, &reader, true), (0, 1, 0));
    }

    #[test]
    fn published_small_files_cost_what_each_of_them_costs() {
        let book = PriceBook::built_in();
        let demand = suites::small_files().demand(crate::report::Size::Published, &[1]);
        let usd = |keeper, sync| {
            let usage = Usage { requests: requests(keeper, &demand, sync), ..Usage::default() };
            so_far(book.at("us-east-1"), &usage).total
        };
        // 200 GB at 100 MB/s and 100,000 files four times at 1,000 a second are 2,400 s: as many
        // flushes. PUTs are $0.005 a thousand, GETs $0.0004.
        assert_eq!(demand.seconds, 2_400);
        // Synced: two PUTs for each file, and a GET for each in the one phase that is cold.
        assert_eq!(usd(Keeper::Weir, true), NanoUsd((200_000 + 2_400) * 5_000 + 100_000 * 400));
        // Packed: 50 GB are 2,981 segments of 16 MiB, read in 5,961 parts of 8 MiB.
        assert_eq!(usd(Keeper::Weir, false), NanoUsd((2_981 + 2_400) * 5_000 + 5_961 * 400));
        // A PUT for each, and a GET in each of three phases.
        assert_eq!(usd(Keeper::Objects, true), NanoUsd(100_000 * 5_000 + 300_000 * 400));
    }

    #[test]
    fn names_are_requests_as_well() {
        let demand = suites::Metadata { files: (2_000, 0), threads: &[1, 2] }
            .demand(crate::report::Size::Small, &[]);
        // Five steps with 6,000 files at 1,000 a second: 30 flushes. Three directories are synced
        // three times, by two PUTs each.
        assert_eq!(counts(Keeper::Weir, &demand, true), (18 + 30, 0, 0));
        assert_eq!(counts(Keeper::Weir, &demand, false), (30, 0, 0));
        // PUTs to make them, LISTs to look at them, 6 to list them, COPYs to rename them; HEADs to
        // look at and to rename them; DELETEs to rename and to remove them.
        assert_eq!(counts(Keeper::Objects, &demand, true), (18_006, 12_000, 12_000));
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
