//! Small segments become full ones, at little cost, and no byte changes.

#![allow(clippy::disallowed_methods, reason = "the collector runs by the real clock here")]

mod common;

use common::still::{LOOKS, Still};
use common::{create, noise, read_all};
use weir_engine::{DiskCache, DiskOptions, Slowed, Subject, ThroughputChange};
use weir_types::NanoUsd;

#[test]
fn small_segments_are_merged_once_they_settled_and_then_nothing_is_asked_any_more() {
    let fsyncs: usize = std::env::var("WEIR_FSYNCS").map_or(200, |n| n.parse().expect("a number"));
    let mut still = Still::new();
    let files: Vec<_> = (0..4).map(|n| still.pages(&format!("f{n}"), fsyncs / 4)).collect();
    let before = still.objects().len();
    assert!(before >= fsyncs, "{before} objects");
    std::thread::sleep(LOOKS);
    assert_eq!((still.objects().len(), still.cost()), (before, (0, 0)), "they are young");
    let gets_before = still.cold_read(&files);
    still.later();
    still.wait_until("small segments stay", || still.objects().len() <= 2 + fsyncs / 900);
    let (merged, cost) = (still.merged(), still.cost());
    assert_eq!((merged, cost.0), (before as u64, before as u64), "one GET each");
    assert!(cost.1 <= 2 + fsyncs as u64 / 900, "{} PUTs", cost.1);
    let after = still.objects().len();
    still.later();
    std::thread::sleep(LOOKS);
    assert_eq!((still.merged(), still.cost()), (merged, cost), "a still volume costs nothing");
    let gets_after = still.cold_read(&files);
    eprintln!("{fsyncs} fsyncs: {before} objects, then {after}; merging: {cost:?} GETs and PUTs");
    eprintln!("a cold read: {gets_before} GETs before, {gets_after} after");
    let few = 8 + fsyncs as u64 / 100;
    assert!(gets_before >= fsyncs as u64 / 2 && gets_after <= few, "{gets_before}, {gets_after}");
    still.sound();
}

#[test]
fn seven_small_segments_stay_and_an_eighth_takes_them_along() {
    let still = Still::new();
    let (ino, mut content) = still.pages("f", 7);
    still.later();
    std::thread::sleep(LOOKS);
    assert_eq!((still.objects().len(), still.cost()), (7, (0, 0)));
    content.extend(noise(8, 4096));
    still.overwrite(ino, 7 * 4096, &content[7 * 4096..]);
    still.later();
    still.wait_until("eight stay", || still.objects().len() == 1);
    assert_eq!((still.merged(), still.cost()), (8, (8, 1)));
    still.world.run(still.engine().release_all()).expect("releases");
    assert!(still.world.run(read_all(&still.engine(), ino)).expect("reads") == content);
    still.sound();
}

#[test]
fn whole_records_of_disks_stay_objects_of_their_own() {
    let still = Still::new();
    let (engine, record) = (still.engine(), 64 << 10);
    let disk = DiskOptions {
        name: "d".to_owned(),
        size_bytes: 16 << 20,
        record_bytes: Some(record),
        cache: DiskCache::None,
    };
    still.world.run(engine.create_disk(disk)).expect("creates");
    let disk = still.world.run(engine.open_disk("d")).expect("opens");
    let bytes = noise(1, 20 * record as usize);
    for at in (0..20 * record).step_by(record as usize) {
        let part = bytes[at as usize..(at + record) as usize].to_vec();
        still.world.run(disk.write(at, part.into(), false)).expect("writes");
    }
    still.world.run(disk.flush()).expect("flushes");
    still.world.run(engine.snapshot_disk("d", "s")).expect("a snapshot");
    let files = [still.pages("f", 10)];
    assert_eq!(still.objects().len(), 30);
    still.later();
    still.wait_until("the file's stay", || still.objects().len() == 21);
    std::thread::sleep(LOOKS);
    assert_eq!((still.objects().len(), still.merged(), still.cost()), (21, 10, (10, 1)));
    let read = still.world.run(disk.read(0, 20 * record)).expect("reads");
    assert!(read.concat() == bytes);
    drop((disk, engine));
    let mut still = still;
    still.cold_read(&files);
    still.sound();
}

#[test]
fn what_is_shared_moves_once_and_a_damaged_segment_stops_no_other() {
    let mut still = Still::new();
    let (ino, content) = still.pages("f", 512);
    let copy = still.world.run(create(&still.engine(), "copy", b""));
    let engine = still.engine();
    let copied = engine.copy_range((ino, 0), (copy, 0), 2 << 20, 0);
    assert_eq!(still.world.run(copied).expect("copies"), 2 << 20);
    drop(engine);
    still.world.run(still.engine().flush_all()).expect("flushes");
    let (bad, bad_content) = still.pages("bad", 1);
    let changed =
        |path: &std::path::PathBuf| path.metadata().and_then(|m| m.modified()).expect("stat");
    let damaged = still.objects().into_iter().max_by_key(changed).expect("there are some");
    let mut bytes = std::fs::read(&damaged).expect("reads");
    bytes[1_000] ^= 1;
    std::fs::write(&damaged, &bytes).expect("writes");
    still.later();
    still.wait_until("small segments stay", || still.objects().len() <= 3);
    let cost = still.cost();
    assert_eq!(still.merged(), 512);
    still.later();
    std::thread::sleep(LOOKS);
    assert_eq!(still.cost(), cost, "it is not asked for again and again");
    bytes[1_000] ^= 1;
    std::fs::write(&damaged, &bytes).expect("writes");
    let files = [(ino, content.clone()), (copy, content), (bad, bad_content)];
    assert!(still.cold_read(&files) <= 12);
    still.sound();
}

#[test]
fn while_a_budget_slows_anything_nothing_is_merged() {
    let still = Still::new();
    let (ino, content) = still.pages("f", 20);
    let engine = still.engine();
    // So many GETs in five minutes.
    let budget = |gets: i64| {
        let change = ThroughputChange {
            budget: Some((NanoUsd(gets * 400 * 12), "us-east-1".to_owned())),
            ..ThroughputChange::default()
        };
        still.world.run(engine.set_throughput(Subject::VOLUME, "/", change)).expect("sets")
    };
    budget(120);
    let slowed =
        || still.world.run(engine.throughput()).expect("reports").budget.expect("set").slowed;
    still.wait_until("nothing is slowed", || {
        still.overwrite(ino, 0, &content[..4096]);
        slowed() >= Slowed::Hydration
    });
    still.later();
    std::thread::sleep(LOOKS);
    assert_eq!((still.merged(), still.cost()), (0, (0, 0)));
    budget(1_000_000);
    still.wait_until("small segments stay", || still.objects().len() == 1);
    drop(engine);
    still.sound();
}
