//! Disks: what each request costs, what copies hold, and what is refused.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{World, entries, noise, settings};
use weir_engine::{Bytes, Disk, DiskCache, DiskOptions, FormatOptions, format};
use weir_object::testing::{FaultPlan, FaultStore};
use weir_object::{Component, RequestKind};
use weir_types::{Codec, ErrorKind, Settings};

const MIB: u64 = 1 << 20;

fn options(name: &str, size_bytes: u64) -> DiskOptions {
    DiskOptions { name: name.to_owned(), size_bytes, record_bytes: None, cache: DiskCache::None }
}

fn disk(world: &World, size_bytes: u64) -> Disk {
    let engine = world.engine();
    world.run(engine.create_disk(options("d", size_bytes))).expect("creates");
    world.run(engine.open_disk("d")).expect("opens")
}

/// Objects of segments in the world's bucket.
fn objects(world: &World) -> usize {
    objects_in(&world.path("bucket"))
}

fn objects_in(bucket: &std::path::Path) -> usize {
    let directories = std::fs::read_dir(bucket.join("seg")).into_iter().flatten().flatten();
    directories.map(|directory| entries(&directory.path())).sum()
}

fn requests(world: &World, kind: RequestKind) -> u64 {
    let snapshot = world.engine().meter().snapshot();
    snapshot.row(Component::Data, kind).map_or(0, |row| row.requests)
}

#[test]
fn a_record_is_one_put_and_one_get_and_nothing_on_the_local_disk() {
    let world = World::new();
    let disk = disk(&world, 64 * MIB);
    let bytes = Bytes::from(noise(1, 5 * MIB as usize));
    world.run(disk.write(3 * MIB, bytes.clone(), false)).expect("writes");
    world.run(disk.flush()).expect("flushes");
    assert_eq!((objects(&world), requests(&world, RequestKind::Put)), (5, 5));
    let read = world.run(disk.read(3 * MIB, 5 * MIB)).expect("reads");
    assert!(read.concat() == bytes);
    assert_eq!(requests(&world, RequestKind::Get), 5);
    let status = world.run(world.engine().status()).expect("tells");
    assert_eq!(status.tier.used_bytes, 0);
}

#[test]
fn parts_of_records_merge_in_the_tier() {
    let world = World::new();
    let disk = disk(&world, 8 * MIB);
    let bytes = Bytes::from(noise(2, MIB as usize));
    for at in (0..MIB).step_by(64 << 10) {
        let part = bytes.slice(at as usize..at as usize + (64 << 10));
        world.run(disk.write(MIB + at, part, false)).expect("writes");
    }
    assert_eq!(requests(&world, RequestKind::Put), 0);
    world.run(disk.flush()).expect("flushes");
    assert_eq!((objects(&world), requests(&world, RequestKind::Put)), (1, 1));
    let read = world.run(disk.read(MIB, MIB)).expect("reads");
    assert!(read.concat() == bytes);
    assert_eq!(requests(&world, RequestKind::Get), 0, "it is in the tier");
}

#[test]
fn a_trim_deletes_objects_and_leaves_a_hole() {
    let quick = Settings { collect_grace_s: 0, collect_interval_s: 1, ..settings() };
    let world = World::with(quick, None);
    let disk = disk(&world, 16 * MIB);
    world.run(disk.write(0, noise(3, 4 * MIB as usize).into(), false)).expect("writes");
    world.run(disk.flush()).expect("flushes");
    assert_eq!(objects(&world), 4);
    world.run(disk.trim(MIB, 2 * MIB, false)).expect("trims");
    let told = world.run(disk.extents(0, 16 * MIB, 10)).expect("tells");
    let told: Vec<_> = told.iter().map(|e| (e.start / MIB, e.len / MIB, e.hole)).collect();
    assert_eq!(told, [(0, 1, false), (1, 2, true), (3, 1, false), (4, 12, true)]);
    let read = world.run(disk.read(MIB, 2 * MIB)).expect("reads");
    assert!(read.concat().iter().all(|byte| *byte == 0));
    for _ in 0..200 {
        if objects(&world) == 2 {
            return;
        }
        world.run(async { tokio::time::sleep(std::time::Duration::from_millis(100)).await });
    }
    panic!("{} objects are left", objects(&world));
}

#[test]
fn records_are_spread_over_all_buckets() {
    let mut world = World::new();
    world.unmount().expect("unmounts");
    let url = |name: &str| format!("file://{}", world.path(name).display()).parse().expect("a URL");
    let names = ["b0", "b1", "b2", "b3", "b4", "b5"];
    names.iter().for_each(|name| std::fs::create_dir(world.path(name)).expect("a bucket"));
    let made = format(FormatOptions {
        url: url("b0"),
        stripe: names[1..].iter().map(|name| url(name)).collect(),
        connector: world.options.connector.clone(),
        record_bytes: MIB,
        segment_bytes: MIB,
        codec: Codec::None,
        root: (0o755, 0, 0),
        now: (world.options.clock.now)(),
        metadata: None,
        encrypt: None,
    });
    tokio::runtime::Runtime::new().expect("a runtime").block_on(made).expect("formats");
    world.options.url = url("b0");
    world.mount().expect("mounts");
    let disk = disk(&world, 128 * MIB);
    for at in 0..96 {
        world.run(disk.write(at * MIB, noise(at, MIB as usize).into(), false)).expect("writes");
    }
    world.run(disk.flush()).expect("flushes");
    let spread = names.map(|name| objects_in(&world.path(name)));
    assert_eq!(spread.iter().sum::<usize>(), 96);
    // 16 each on average; fewer than 3 would be the work of a broken hash.
    assert!(spread.iter().all(|count| *count >= 3), "{spread:?}");
}

#[test]
fn a_snapshot_taken_between_writes_never_has_a_later_one_without_an_earlier() {
    let world = World::new();
    let disk = disk(&world, 16 * MIB);
    let (engine, stop, count) = (world.engine(), AtomicBool::new(false), AtomicU64::new(0));
    world.run(async {
        let writing = async {
            // A record past the tier, then a part of another that stays in it.
            for stamp in 1_u64.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let record = stamp.to_le_bytes().repeat(MIB as usize / 8);
                disk.write(0, record.into(), false).await.expect("writes");
                let part = stamp.to_le_bytes().repeat(512);
                disk.write(9 * MIB, part.into(), false).await.expect("writes");
                count.store(stamp, Ordering::Relaxed);
            }
        };
        let freezing = async {
            for round in 0..8 {
                let before = count.load(Ordering::Relaxed);
                while count.load(Ordering::Relaxed) < before + 2 {
                    tokio::task::yield_now().await;
                }
                let least = count.load(Ordering::Relaxed);
                engine.snapshot_disk("d", &format!("s{round}")).await.expect("freezes");
                let frozen = engine.open_disk(&format!("d@s{round}")).await.expect("opens");
                let stamp = |bytes: Vec<Bytes>| {
                    u64::from_le_bytes(bytes.concat()[..8].try_into().expect("eight bytes"))
                };
                let first = stamp(frozen.read(0, MIB).await.expect("reads"));
                let second = stamp(frozen.read(9 * MIB, 4096).await.expect("reads"));
                assert!(first >= least && second >= least, "{least}: {first} {second}");
                assert!(first == second || first == second + 1, "{first} {second}");
            }
            stop.store(true, Ordering::Relaxed);
        };
        tokio::join!(writing, freezing);
    });
}

#[test]
fn copies_go_their_own_ways_and_outlive_what_they_were_made_of() {
    let mut world = World::new();
    let engine = world.engine();
    let first = disk(&world, 8 * MIB);
    let (old, new) = (noise(5, 2 * MIB as usize), noise(6, 2 * MIB as usize));
    world.run(first.write(0, old.clone().into(), false)).expect("writes");
    let snapshot = world.run(engine.snapshot_disk("d", "s")).expect("freezes");
    assert_eq!((snapshot.name.as_str(), snapshot.read_only), ("d@s", true));
    assert_eq!(snapshot.origin.as_deref(), Some("d"));
    let clone = world.run(engine.clone_disk("d@s", "copy")).expect("clones");
    assert!(!clone.read_only && clone.stored_bytes == 2 * MIB);
    let before = objects(&world);
    let copy = world.run(engine.open_disk("copy")).expect("opens");
    world.run(copy.write(MIB, new.clone().into(), false)).expect("writes");
    world.run(copy.flush()).expect("flushes");
    assert_eq!(objects(&world), before + 2, "what is shared is stored once");
    let frozen = world.run(engine.open_disk("d@s")).expect("opens");
    let refused = world.run(frozen.write(0, new.clone().into(), false)).expect_err("a snapshot");
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    drop((first, frozen, copy));
    world.run(engine.delete_disk("d")).expect("deletes");
    world.run(engine.delete_disk("d@s")).expect("deletes");
    drop(engine);
    world.unmount().expect("unmounts");
    world.fsck();
    world.mount().expect("mounts");
    let copy = world.run(world.engine().open_disk("copy")).expect("opens");
    let bytes = world.run(copy.read(0, 8 * MIB)).expect("reads").concat();
    assert!(bytes[..MIB as usize] == old[..MIB as usize]);
    assert!(bytes[MIB as usize..3 * MIB as usize] == new[..]);
    assert!(bytes[3 * MIB as usize..].iter().all(|byte| *byte == 0));
    let names: Vec<_> = world.run(world.engine().disks()).expect("lists");
    assert_eq!(names.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["copy"]);
}

#[test]
fn a_disk_grows_at_once_and_shrinks_only_if_told_so() {
    let world = World::new();
    let engine = world.engine();
    let disk = disk(&world, 4 * MIB);
    world.run(disk.write(0, noise(7, 4 * MIB as usize).into(), false)).expect("writes");
    let past = world.run(disk.write(4 * MIB, vec![1; 4096].into(), false)).expect_err("past it");
    assert_eq!(past.kind(), ErrorKind::Range);
    world.run(engine.resize_disk("d", 6 * MIB, false)).expect("grows");
    assert_eq!(disk.size_bytes(), 6 * MIB);
    world.run(disk.write(5 * MIB, noise(8, MIB as usize).into(), false)).expect("writes");
    let refused = world.run(engine.resize_disk("d", 2 * MIB, false)).expect_err("loses bytes");
    assert!(refused.to_string().contains("--shrink"), "{refused}");
    world.run(engine.resize_disk("d", 2 * MIB, true)).expect("shrinks");
    world.run(engine.resize_disk("d", 6 * MIB, false)).expect("grows");
    let read = world.run(disk.read(0, 6 * MIB)).expect("reads").concat();
    assert!(read[..2 * MIB as usize] == noise(7, 4 * MIB as usize)[..2 * MIB as usize]);
    assert!(read[2 * MIB as usize..].iter().all(|byte| *byte == 0), "what was cut off is gone");
}

#[test]
fn a_read_beside_a_cut_is_whole_or_an_error() {
    for cache in [DiskCache::None, DiskCache::Tier] {
        let world = World::new();
        let engine = world.engine();
        let made = DiskOptions { cache, ..options("d", 8 * MIB) };
        world.run(engine.create_disk(made)).expect("creates");
        let disk = world.run(engine.open_disk("d")).expect("opens");
        let stop = Arc::new(AtomicBool::new(false));
        world.run(async {
            let readers: Vec<_> = (0..8)
                .map(|_| {
                    let (disk, stop) = (disk.clone(), stop.clone());
                    tokio::spawn(async move {
                        while !stop.load(Ordering::Relaxed) {
                            // A refusal waits for nothing, and others need the thread too.
                            tokio::task::yield_now().await;
                            match disk.read(3 * MIB + 512, 2 * MIB).await {
                                Ok(bytes) => assert_eq!(bytes.concat().len(), 2 << 20),
                                Err(error) => assert_eq!(error.kind(), ErrorKind::Range),
                            }
                        }
                    })
                })
                .collect();
            for _ in 0..30 {
                engine.resize_disk("d", 4 * MIB, true).await.expect("cuts");
                engine.resize_disk("d", 8 * MIB, false).await.expect("grows");
                disk.write(4 * MIB, vec![7; MIB as usize].into(), false).await.expect("writes");
            }
            stop.store(true, Ordering::Relaxed);
            for reader in readers {
                reader.await.expect("whole reads");
            }
        });
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let world = World::new();
    let engine = world.engine();
    let kind = |options| world.run(engine.create_disk(options)).map_err(|e| e.kind());
    for name in ["", "a b", "a/b", "a@b", "é", &"x".repeat(129)] {
        assert_eq!(kind(options(name, MIB)), Err(ErrorKind::Invalid), "{name}");
    }
    for size in [0, 4095, 5000, 16 << 40] {
        assert_eq!(kind(options("d", size)), Err(ErrorKind::Invalid), "{size}");
    }
    for record in [0, 512, 5000, 2 << 20] {
        let options = DiskOptions { record_bytes: Some(record), ..options("d", MIB) };
        assert_eq!(kind(options), Err(ErrorKind::Invalid), "{record}");
    }
    kind(options("d", MIB)).expect("creates");
    assert_eq!(kind(options("d", MIB)), Err(ErrorKind::Exists));
    let open = world.run(engine.open_disk("d")).expect("opens");
    let refused = world.run(engine.delete_disk("d")).expect_err("in use");
    assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    drop(open);
    world.run(engine.delete_disk("d")).expect("deletes");
    assert_eq!(world.run(engine.disk("d")).expect_err("gone").kind(), ErrorKind::NotFound);
}

#[test]
fn records_that_the_bucket_does_not_take_wait_in_the_tier_and_a_flush_says_so() {
    let short = Settings { bucket_timeout_ms: 300, ..settings() };
    let plan = FaultPlan::default();
    let control = Arc::new(parking_lot::Mutex::new(None));
    let kept = control.clone();
    let wrap: weir_engine::Wrap = Arc::new(move |store| {
        let store = FaultStore::new(store, &plan);
        *kept.lock() = Some(store.control());
        Arc::new(store)
    });
    let mut world = World::with(short, Some(wrap));
    world.unmount().expect("unmounts");
    world.options.connector.options.timeout_ms = 300;
    world.mount().expect("mounts");
    let disk = disk(&world, 8 * MIB);
    let control = control.lock().clone().expect("connected");
    let bytes = noise(9, 2 * MIB as usize);
    control.set_vanished(true);
    world.run(disk.write(0, bytes.clone().into(), false)).expect("writes");
    world.run(disk.flush()).expect_err("the bucket is away");
    let read = world.run(disk.read(0, 2 * MIB)).expect("reads").concat();
    assert!(read == bytes);
    // They survive the process, because they are in the tier by now.
    drop(disk);
    world.kill();
    control.set_vanished(false);
    world.mount().expect("mounts");
    let disk = world.run(world.engine().open_disk("d")).expect("opens");
    world.run(disk.flush()).expect("flushes");
    drop(disk);
    world.lose_machine();
    world.mount().expect("mounts");
    let disk = world.run(world.engine().open_disk("d")).expect("opens");
    assert!(world.run(disk.read(0, 2 * MIB)).expect("reads").concat() == bytes);
}

/// With a journal on a disk of its own a flush ends there: what it covers survives a power cut.
#[test]
fn a_flush_into_the_journal_survives_a_power_cut() {
    let mut world = World::new();
    world.unmount().expect("unmounts");
    std::fs::create_dir(world.path("journal")).expect("a directory");
    world.options.journal = Some(world.path("journal"));
    world.mount().expect("mounts");
    let disk = disk(&world, 8 * MIB);
    let (record, part) = (noise(10, MIB as usize), noise(11, 8192));
    world.run(disk.write(0, record.clone().into(), false)).expect("writes");
    world.run(disk.write(4 * MIB + 512, part.clone().into(), false)).expect("writes");
    world.run(disk.flush()).expect("flushes");
    drop(disk);
    world.reboot();
    world.lose_tier();
    world.mount().expect("mounts");
    let disk = world.run(world.engine().open_disk("d")).expect("opens");
    assert!(world.run(disk.read(0, MIB)).expect("reads").concat() == record);
    assert!(world.run(disk.read(4 * MIB + 512, 8192)).expect("reads").concat() == part);
}
