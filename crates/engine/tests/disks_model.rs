//! Generated operations on a disk against a model of what a disk with a write cache may hold: what
//! was flushed is there whatever happens, what was not may be after the loss of the machine, and
//! after `kill -9` as ever a read sees the last write.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{World, settings};
use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weir_engine::{Bytes as Buf, Disk, DiskCache, DiskOptions, Engine, Wrap};
use weir_object::testing::{FaultPlan, FaultStore};
use weir_types::{Bytes, Settings};

/// What is compared, in bytes: the least that a disk's clients write.
const UNIT: usize = 512;
const DISK_BYTES: usize = 12 << 20;
const UNITS: usize = DISK_BYTES / UNIT;
const PAGE_UNITS: usize = 4096 / UNIT;
const RECORD_UNITS: usize = (1 << 20) / UNIT;

/// What a disk holds: of each unit the number of the write that made it; 0 for zeros.
#[derive(Clone)]
struct Model {
    now: Vec<u32>,
    /// What else may be there after a crash: the last flushed state and all that came since.
    maybe: BTreeMap<usize, Vec<u32>>,
}

/// The bytes of a unit as write `stamp` made it.
fn unit(stamp: u32, at: usize) -> [u8; UNIT] {
    let mut bytes = [0; UNIT];
    if stamp != 0 {
        let word = (u64::from(stamp) << 32 | at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bytes.chunks_mut(8).for_each(|part| part.copy_from_slice(&word.to_le_bytes()));
        bytes[..4].copy_from_slice(&stamp.to_le_bytes());
    }
    bytes
}

fn stamp_of(bytes: &[u8], at: usize) -> u32 {
    let stamp = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
    assert!(bytes == unit(stamp, at), "unit {at} was never written like this");
    stamp
}

fn units(stamp: u32, from: usize, count: usize) -> Buf {
    (from..from + count).flat_map(|at| unit(stamp, at)).collect::<Vec<_>>().into()
}

impl Model {
    fn new() -> Self {
        Self { now: vec![0; UNITS], maybe: BTreeMap::new() }
    }

    fn set(&mut self, from: usize, count: usize, stamp: u32) {
        for at in from..from + count {
            let before = self.now[at];
            self.maybe.entry(at).or_insert_with(|| vec![before]).push(stamp);
            self.now[at] = stamp;
        }
    }

    fn flushed(&mut self) {
        self.maybe.clear();
    }
}

struct Run {
    world: World,
    model: Model,
    snapshots: BTreeMap<String, Vec<u32>>,
    rng: StdRng,
    stamp: u32,
    step: usize,
    seed: u64,
}

async fn read(disk: &Disk, from: usize, count: usize) -> Vec<u8> {
    let pieces = disk.read((from * UNIT) as u64, (count * UNIT) as u64).await.expect("reads");
    pieces.concat()
}

impl Run {
    fn new(seed: u64, cache: DiskCache, world: World) -> Self {
        eprintln!("seed {seed}: repeat with WEIR_SEED={seed}");
        // Odd seeds have small records: several of them make an object.
        let record_bytes = (seed % 2 == 1).then_some(128 << 10);
        let options = DiskOptions {
            name: "d".to_owned(),
            size_bytes: DISK_BYTES as u64,
            record_bytes,
            cache,
        };
        world.run(world.engine().create_disk(options)).expect("creates");
        let rng = StdRng::seed_from_u64(seed);
        let snapshots = BTreeMap::new();
        Self { world, model: Model::new(), snapshots, rng, stamp: 0, step: 0, seed }
    }

    fn disk(&self, name: &str) -> Disk {
        let engine: Arc<Engine> = self.world.engine();
        self.world.run(engine.open_disk(name)).expect("opens")
    }

    fn steps(&mut self, count: usize) {
        for _ in 0..count {
            self.step += 1;
            match self.rng.random_range(0..100) {
                0..30 => self.write_some(),
                30..45 => self.write_record(),
                45..55 => self.clear(),
                55..60 => self.check_extents(),
                60..75 => self.check_some(),
                75..85 => self.flush(),
                85..88 => {
                    self.world.run(self.world.engine().release_all()).expect("releases");
                }
                88..91 => self.snapshot(),
                91..95 => self.crash(World::kill, true),
                95..97 => self.crash(World::lose_machine, false),
                _ => self.remount(),
            }
        }
        self.check_all();
    }

    /// One to six writes at once that do not meet, as deep queues have it.
    fn write_some(&mut self) {
        let disk = self.disk("d");
        let mut writes = Vec::new();
        let mut at = self.rng.random_range(0..UNITS / 2);
        for _ in 0..self.rng.random_range(1..=6) {
            let count = self.rng.random_range(1..=3 * RECORD_UNITS).min(UNITS - at);
            if count == 0 {
                break;
            }
            self.stamp += 1;
            writes.push((at, self.stamp, count, self.rng.random_range(0..10) == 0));
            at += count + self.rng.random_range(0..RECORD_UNITS / 2);
            at = at.min(UNITS);
        }
        let all = writes.iter().map(|&(at, stamp, count, fua)| {
            disk.write((at * UNIT) as u64, units(stamp, at, count), fua)
        });
        let done = self.world.run(join_all(all));
        done.into_iter().for_each(|result| result.expect("writes"));
        for &(at, stamp, count, fua) in &writes {
            self.model.set(at, count, stamp);
            if fua {
                (at..at + count).for_each(|at| _ = self.model.maybe.remove(&at));
            }
        }
    }

    fn write_record(&mut self) {
        let at = self.rng.random_range(0..UNITS / RECORD_UNITS) * RECORD_UNITS;
        self.stamp += 1;
        let (stamp, disk) = (self.stamp, self.disk("d"));
        let bytes = units(stamp, at, RECORD_UNITS);
        self.world.run(disk.write((at * UNIT) as u64, bytes, false)).expect("writes");
        self.model.set(at, RECORD_UNITS, stamp);
    }

    fn range(&mut self) -> (usize, usize) {
        let at = self.rng.random_range(0..UNITS);
        (at, self.rng.random_range(1..=2 * RECORD_UNITS).min(UNITS - at))
    }

    fn clear(&mut self) {
        let (at, count) = self.range();
        let disk = self.disk("d");
        let (offset, len) = ((at * UNIT) as u64, (count * UNIT) as u64);
        if self.rng.random_range(0..2) == 0 {
            self.world.run(disk.write_zeroes(offset, len, false)).expect("zeroes");
            self.model.set(at, count, 0);
        } else {
            self.world.run(disk.trim(offset, len, false)).expect("trims");
            let first = at.next_multiple_of(PAGE_UNITS);
            let end = (at + count) / PAGE_UNITS * PAGE_UNITS;
            if first < end {
                self.model.set(first, end - first, 0);
            }
        }
    }

    fn flush(&mut self) {
        self.world.run(self.disk("d").flush()).expect("flushes");
        self.model.flushed();
    }

    fn check_some(&mut self) {
        let (at, count) = self.range();
        self.check(&self.disk("d"), at, count, &self.model.now);
    }

    fn check(&self, disk: &Disk, from: usize, count: usize, want: &[u32]) {
        let place = format!("seed {} step {} disk {}", self.seed, self.step, disk.name());
        let bytes = self.world.run(read(disk, from, count));
        for (at, bytes) in (from..).zip(bytes.chunks(UNIT)) {
            let stamp = stamp_of(bytes, at);
            assert_eq!(stamp, want[at], "{place}: unit {at} is of write {stamp}");
        }
    }

    fn check_all(&self) {
        self.check(&self.disk("d"), 0, UNITS, &self.model.now);
        for (name, want) in &self.snapshots {
            self.check(&self.disk(name), 0, UNITS, want);
        }
        self.check_extents();
    }

    /// What is told to be a hole reads as zeros, and the ranges cover the disk.
    fn check_extents(&self) {
        let disk = self.disk("d");
        let found = self.world.run(disk.extents(0, DISK_BYTES as u64, usize::MAX)).expect("tells");
        let mut at = 0;
        for extent in found {
            assert_eq!(extent.start, at, "seed {} step {}", self.seed, self.step);
            at += extent.len;
            let units = extent.start as usize / UNIT..at as usize / UNIT;
            if extent.hole {
                assert!(self.model.now[units].iter().all(|stamp| *stamp == 0));
            }
        }
        assert_eq!(at, DISK_BYTES as u64);
    }

    fn snapshot(&mut self) {
        let engine = self.world.engine();
        if self.snapshots.len() == 3
            && let Some((name, _)) = self.snapshots.pop_first()
        {
            self.world.run(engine.delete_disk(&name)).expect("deletes");
        }
        let name = format!("s{}", self.step);
        self.world.run(engine.snapshot_disk("d", &name)).expect("freezes");
        let name = format!("d@{name}");
        self.check(&self.disk(&name), 0, UNITS, &self.model.now);
        self.snapshots.insert(name, self.model.now.clone());
        // It holds all that was written, so all of that is in the bucket.
        self.model.flushed();
    }

    fn crash(&mut self, how: fn(&mut World), keeps_all: bool) {
        how(&mut self.world);
        if keeps_all {
            self.model.flushed();
        }
        self.world.mount().expect("mounts");
        let disk = self.disk("d");
        let bytes = self.world.run(read(&disk, 0, UNITS));
        for (at, bytes) in bytes.chunks(UNIT).enumerate() {
            let stamp = stamp_of(bytes, at);
            let maybe =
                self.model.maybe.get(&at).cloned().unwrap_or_else(|| vec![self.model.now[at]]);
            let place = format!("seed {} step {}", self.seed, self.step);
            assert!(
                maybe.contains(&stamp),
                "{place}: unit {at} is of write {stamp}, not {maybe:?}"
            );
            self.model.now[at] = stamp;
        }
        // What was found is there to stay, as long as nothing else is written.
        self.world.run(disk.flush()).expect("flushes");
        self.model.flushed();
    }

    fn remount(&mut self) {
        self.world.unmount().expect("unmounts");
        self.world.mount().expect("mounts");
        self.model.flushed();
    }

    fn finish(mut self) {
        self.check_all();
        self.world.unmount().expect("unmounts");
        self.world.fsck();
        self.world.mount().expect("mounts");
        self.check_all();
        self.world.unmount().expect("unmounts");
    }
}

fn seeds(default: &[u64]) -> Vec<u64> {
    match std::env::var("WEIR_SEED") {
        Ok(seed) => vec![seed.parse().expect("WEIR_SEED is a number")],
        Err(_) => default.to_vec(),
    }
}

/// Flushes by age all the time, segments collected as soon as they die, and a small tier.
fn busy() -> Settings {
    Settings {
        flush_age_ms: 100,
        meta_flush_ms: 50,
        tier_bytes: Bytes::mib(64),
        flush_start_bytes: Bytes::mib(4),
        collect_grace_s: 0,
        collect_interval_s: 1,
        ..settings()
    }
}

#[test]
fn records_past_the_tier_hold_what_a_disk_promises() {
    for seed in seeds(&[1, 2, 3]) {
        let mut run = Run::new(seed, DiskCache::None, World::new());
        run.steps(150);
        run.finish();
    }
}

#[test]
fn records_through_the_tier_hold_what_a_disk_promises() {
    for seed in seeds(&[11, 12]) {
        let mut run = Run::new(seed, DiskCache::Tier, World::new());
        run.steps(150);
        run.finish();
    }
}

#[test]
fn a_disk_keeps_its_promise_while_everything_happens_at_once() {
    for seed in seeds(&[21, 22]) {
        let mut run = Run::new(seed, DiskCache::None, World::with(busy(), None));
        run.steps(150);
        run.finish();
    }
}

/// With a journal a flush ends there, and what it covers outlives the tier.
#[test]
fn a_disk_keeps_its_promise_by_its_journal() {
    for seed in seeds(&[41, 42]) {
        let mut world = World::with(busy(), None);
        world.unmount().expect("unmounts");
        std::fs::create_dir(world.path("journal")).expect("a directory");
        world.options.journal = Some(world.path("journal"));
        world.mount().expect("mounts");
        let mut run = Run::new(seed, DiskCache::None, world);
        run.steps(120);
        run.finish();
    }
}

#[test]
fn a_disk_keeps_its_promise_under_bucket_faults() {
    for seed in seeds(&[31, 32]) {
        let plan = FaultPlan::everywhere(0.05, seed);
        let wrap: Wrap = Arc::new(move |store| Arc::new(FaultStore::new(store, &plan)));
        let mut run = Run::new(seed, DiskCache::None, World::with(busy(), Some(wrap)));
        run.steps(80);
        run.finish();
    }
}
