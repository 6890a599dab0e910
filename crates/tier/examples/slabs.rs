//! Measures what a mirror file for each small file costs, against a place in a *slab*: one large file
//! that has the bytes of many. By turns, on the file system of a directory.
//!
//! `slabs DIRECTORY [PRESENT [ROUNDS]]`: with so many mirror files there before (0), in so many rounds
//! (5). As root: page caches are dropped. What is printed is for each file of 16 KiB: microseconds of
//! the clock, and of this process's CPU.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "it is run by hand")]
#![allow(clippy::disallowed_methods, reason = "nothing here is async")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::{FallocateFlags, fallocate};
use weir_tier::{DiskSpace, Inherited, RecordLog, Tier, TierOptions};
use weir_types::{DataChange, FileKind, Ino, Inode, UnixTime};

const FILE_BYTES: u64 = 16 << 10;
/// Files of one measurement.
const FILES: u64 = 2_000;
/// What the tier notes of a file's first write, in its log.
const NOTE_BYTES: usize = 90;

/// Microseconds a file, of clock and CPU, by what was done, one for each round.
#[derive(Default)]
struct Table(BTreeMap<String, Vec<(f64, f64)>>);

impl Table {
    fn measure(&mut self, what: &str, files: u64, work: impl FnOnce()) {
        let (began, cpu) = (Instant::now(), cpu_us());
        work();
        let (wall, cpu) = (began.elapsed().as_secs_f64() * 1e6, cpu_us() - cpu);
        let all = self.0.entry(what.to_owned()).or_default();
        all.push((wall / files as f64, cpu / files as f64));
    }

    fn print(&self) {
        for (what, all) in &self.0 {
            let median = |of: fn(&(f64, f64)) -> f64| {
                let mut all: Vec<f64> = all.iter().map(of).collect();
                all.sort_by(f64::total_cmp);
                (all[0], all[all.len() / 2], all[all.len() - 1])
            };
            let (wall, cpu) = (median(|one| one.0), median(|one| one.1));
            println!(
                "{what:40} {:7.1} us ({:.1} to {:.1}), CPU {:7.1} us ({:.1} to {:.1})",
                wall.1, wall.0, wall.2, cpu.1, cpu.0, cpu.2
            );
        }
    }
}

/// CPU of this thread.
fn cpu_us() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e3
}

fn tier(directory: &Path) -> Tier {
    let options = TierOptions {
        directory: directory.to_owned(),
        tier_bytes: 1 << 40,
        high_water_percent: 90,
        low_water_percent: 80,
        free_floor_bytes: 0,
        boot_id: "measured".to_owned(),
        now_ms: Arc::new(|| 1),
        memory_bytes: 64 << 30,
        ask_space: DiskSpace::kernel(),
        inherited: Inherited::default(),
        sealed: Vec::new(),
    };
    let (tier, _) = Tier::open(options).unwrap();
    tier.confirm().unwrap();
    tier
}

fn inode(ino: u64) -> Inode {
    Inode {
        ino: Ino(ino),
        kind: FileKind::Regular,
        mode: 0o644,
        uid: 0,
        gid: 0,
        nlink: 1,
        size: 0,
        rdev: 0,
        atime: UnixTime(0),
        mtime: UnixTime(0),
        ctime: UnixTime(0),
        btime: UnixTime(0),
        parent: Ino::ROOT,
        data: DataChange { generation: 1, dropped: None },
        stored_bytes: 0,
        target: None,
        account: weir_types::Account::default(),
        native: None,
    }
}

/// Where a tier has the mirror file of an inode.
fn path(mirrors: &Path, ino: u64) -> PathBuf {
    mirrors.join(format!("{:02x}", ino as u8)).join(format!("{ino:016x}"))
}

fn make(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

fn sync(directory: &Path) {
    rustix::fs::syncfs(File::open(directory).unwrap()).unwrap();
}

fn forget(directory: &Path) {
    sync(directory);
    fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
}

/// Numbers of a round in an order without pattern.
fn shuffled(from: u64) -> Vec<u64> {
    let mut all: Vec<u64> = (from..from + FILES).collect();
    let mut seed = from | 1;
    for at in (1..all.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        all.swap(at, (seed >> 33) as usize % (at + 1));
    }
    all
}

struct Sides {
    directory: PathBuf,
    /// Bare files, laid out as those of a tier.
    files: PathBuf,
    tier: Tier,
    slab: File,
    log: RecordLog,
    table: Table,
    bytes: Vec<u8>,
}

impl Sides {
    fn makes(&mut self, round: u64, from: u64) {
        let sides = ["file", "slab", "tier"];
        for side in (0..3).map(|at| sides[((round + at) % 3) as usize]) {
            let Self { files, tier, slab, log, table, bytes, .. } = self;
            table.measure(&format!("make: {side}"), FILES, || match side {
                "file" => (from..from + FILES)
                    .for_each(|ino| make(&path(files, ino)).write_all_at(bytes, 0).unwrap()),
                "slab" => (from..from + FILES)
                    .for_each(|at| slab.write_all_at(bytes, at * FILE_BYTES).unwrap()),
                _ => (from..from + FILES).for_each(|ino| {
                    let mirror = tier.mirror(&inode(ino)).unwrap();
                    mirror.write_at(0, bytes, UnixTime(1)).unwrap();
                    mirror.idle();
                }),
            });
            table.measure(&format!("write back: {side}"), FILES, || sync(&self.directory));
            table.measure("note", FILES, || {
                (0..FILES).for_each(|_| log.append(&[7; NOTE_BYTES]).unwrap());
            });
        }
    }

    fn reads(&mut self, round: u64, from: u64) {
        let orders = [("in order", (from..from + FILES).collect()), ("at random", shuffled(from))];
        let mut buffer = vec![0; FILE_BYTES as usize];
        for (order, inos) in orders {
            for side in (0..2).map(|at| ["file", "slab"][((round + at) % 2) as usize]) {
                for cache in ["cold", "warm"] {
                    if cache == "cold" {
                        forget(&self.directory);
                    }
                    self.table.measure(&format!("read {order}, {cache}: {side}"), FILES, || {
                        inos.iter().for_each(|&ino| match side {
                            "file" => File::open(path(&self.files, ino))
                                .unwrap()
                                .read_exact_at(&mut buffer, 0)
                                .unwrap(),
                            _ => self.slab.read_exact_at(&mut buffer, ino * FILE_BYTES).unwrap(),
                        });
                    });
                }
            }
        }
    }

    fn releases(&mut self, from: u64) {
        let half = from..from + FILES / 2;
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let Self { files, slab, table, .. } = self;
        table.measure("release: file", FILES / 2, || {
            half.clone().for_each(|ino| fs::remove_file(path(files, ino)).unwrap());
        });
        table.measure("release: slab", FILES / 2, || {
            half.for_each(|at| fallocate(&*slab, hole, at * FILE_BYTES, FILE_BYTES).unwrap());
        });
    }
}

fn main() {
    let mut words = std::env::args().skip(1);
    let directory = PathBuf::from(words.next().expect("a directory"));
    let mut number = |or: u64| words.next().map_or(or, |word| word.parse().expect("a number"));
    let (present, rounds) = (number(0), number(5));
    let (files, in_tier) = (directory.join("files"), directory.join("tier"));
    fs::create_dir_all(&directory).unwrap();
    let slab = make(&directory.join("slab"));
    let log = RecordLog::open(&directory.join("log"), |_| Ok(())).unwrap();
    let started = tier(&in_tier);
    for low in 0..=255 {
        fs::create_dir_all(files.join(format!("{low:02x}"))).unwrap();
    }
    let mut table = Table::default();
    let (bytes, mirrors) = (vec![0x5a; FILE_BYTES as usize], in_tier.join("mirror"));
    table.measure("(make empty ones that are present)", present.max(1), || {
        for ino in 1..=present {
            drop(make(&path(&files, ino)));
            drop(make(&path(&mirrors, ino)));
        }
    });
    sync(&directory);
    let mut sides = Sides { directory, files, tier: started, slab, log, table, bytes };
    for round in 0..rounds {
        let from = present + 1 + round * FILES;
        sides.makes(round, from);
        sides.reads(round, from);
        sides.releases(from);
    }
    // What the next mount does with those that the tier knows.
    let Sides { tier: started, mut table, directory, .. } = sides;
    drop(started);
    let known = rounds * FILES;
    forget(&directory);
    table.measure("mount, cold: tier", known, || drop(tier(&in_tier)));
    table.measure("mount, warm: tier", known, || drop(tier(&in_tier)));
    forget(&directory);
    let mut notes = 0;
    table.measure("mount, cold: read notes of slabs", known, || {
        drop(RecordLog::open(&directory.join("log"), |_| {
            notes += 1;
            Ok(())
        }));
    });
    table.print();
    println!("{known} files known to the tier, {notes} notes of slabs");
}
