//! A mount that stands still, and one that another engine goes on with.
//!
//! Where FUSE cannot be used (a container without /dev/fuse) the tests say so and do nothing.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]
#![allow(clippy::disallowed_methods, reason = "what is waited for is the kernel and other threads")]

mod common;

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Mounted, Volume};
use weir_door_fuse::FuseHandover;
use weir_engine::TreeChange;
use weir_object::testing::Gate;
use weir_types::Ino;

const SOON: Duration = Duration::from_secs(30);
/// Enough for a request to begin to wait.
const A_WHILE: Duration = Duration::from_millis(300);

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 7 % 251) as u8).collect()
}

fn requests(mounted: &Mounted, kind: &str) -> u64 {
    let all = mounted.mount.as_ref().unwrap().view().requests();
    all.iter().find(|(name, _)| *name == kind).map_or(0, |(_, count)| *count)
}

/// Returns when one more request of this kind waits.
fn until_asked(mounted: &Mounted, kind: &str, before: u64) {
    let end = Instant::now() + SOON;
    while requests(mounted, kind) == before {
        assert!(Instant::now() < end, "no {kind} came");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(A_WHILE);
}

#[test]
fn who_waits_for_the_bucket_is_in_nobodys_way_and_is_served_later() {
    let gate = Gate::default();
    let behind = gate.clone();
    let volume = Volume::with(Some(Arc::new(move |store| Arc::new(behind.store(store)))));
    let Some(mut volume) = volume else { return };
    volume.settings.bucket_timeout_ms = 600_000;
    let mounted = volume.mount(|options| options);
    volume.settings.read_ahead_bytes = weir_types::Bytes(0);
    let wanted = bytes(4 << 20);
    let path = mounted.path.join("cold");
    // Not by an open file that reads: what the kernel reads by itself is not released, and the kernel
    // tells of the close when it likes.
    let made = File::create(&path).unwrap();
    made.write_all_at(&wanted, 0).unwrap();
    made.sync_all().unwrap();
    volume.runtime.block_on(mounted.engine.release_all()).unwrap();
    drop(made);
    let cold = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
    let view = mounted.mount.as_ref().unwrap().view();
    let resends = {
        let held = view.hold(SOON).unwrap();
        let state = serde_json::to_value(held.hand_over().unwrap()).unwrap();
        state["session"]["resends"] == true
    };
    gate.shut();
    let before = requests(&mounted, "read");
    let reader = std::thread::spawn(move || {
        let mut found = vec![0; 4096];
        cold.read_exact_at(&mut found, 8192).map(|()| found)
    });
    until_asked(&mounted, "read", before);
    if !resends {
        let error = view.hold(A_WHILE).map(drop).unwrap_err();
        assert!(error.to_string().contains("1 read"), "{error}");
        gate.open();
        reader.join().unwrap().unwrap();
        return volume.end(mounted);
    }
    let held = view.hold(SOON).unwrap();
    held.hand_over().unwrap();
    assert!(!reader.is_finished());
    let asked = requests(&mounted, "read");
    std::thread::sleep(A_WHILE);
    assert_eq!(requests(&mounted, "read"), asked, "nobody reads requests");
    drop(held);
    until_asked(&mounted, "read", asked);
    gate.open();
    let found = reader.join().unwrap().unwrap();
    assert!(found == wanted[8192..8192 + 4096]);

    gate.shut();
    let (before, synced) = (requests(&mounted, "fsync"), mounted.path.join("synced"));
    let writer = std::thread::spawn(move || {
        fs::write(&synced, "x").unwrap();
        File::open(&synced).unwrap().sync_all()
    });
    until_asked(&mounted, "fsync", before);
    drop(view.hold(SOON).unwrap());
    assert!(!writer.is_finished());
    gate.open();
    writer.join().unwrap().unwrap();
    volume.end(mounted);
}

#[test]
fn another_engine_goes_on_with_all_that_is_open() {
    let Some(mut volume) = Volume::new() else { return };
    let first = volume.mount(|options| options);
    let place = first.path.clone();
    let at = |name: &str| place.join(name);
    let wanted = bytes(400_000);
    fs::write(at("large"), &wanted).unwrap();
    let read_only = File::open(at("large")).unwrap();
    let open_both = |name: &str| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).open(at(name)).unwrap()
    };
    let kept = open_both("kept");
    kept.write_all_at(b"before", 0).unwrap();
    let unlinked = open_both("unlinked");
    unlinked.write_all_at(&wanted, 0).unwrap();
    fs::remove_file(at("unlinked")).unwrap();
    fs::create_dir(at("many")).unwrap();
    for number in 0..400 {
        File::create(at("many").join(number.to_string())).unwrap();
    }
    let mut listing = fs::read_dir(at("many")).unwrap();
    let begun = listing.by_ref().take(10).count();

    let view = first.mount.as_ref().unwrap().view();
    let held = view.hold(SOON).unwrap();
    let state = held.hand_over().unwrap();
    let device = held.as_fd().try_clone_to_owned().unwrap();
    let mut inherited = first.engine.to_inherit();
    inherited.open = state.open();
    assert!(inherited.open.len() >= 4, "three files and a directory");
    // The first one is as good as killed: its threads stand still and its tasks are gone.
    std::mem::forget(held);
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let next = { runtime }.worker_threads(2).enable_all().build().unwrap();
    std::mem::replace(&mut volume.runtime, next).shutdown_timeout(SOON);

    // It has its files open all the same.
    volume.locks = inherited.tier.locks.clone();
    let second = volume.resume(inherited, (device, state));
    let mut found = vec![0; wanted.len()];
    read_only.read_exact_at(&mut found, 0).unwrap();
    assert!(found == wanted);
    kept.write_all_at(b"after!", 6).unwrap();
    let mut found = [0; 12];
    kept.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(&found, b"beforeafter!");
    let mut found = vec![0; wanted.len()];
    unlinked.read_exact_at(&mut found, 0).unwrap();
    assert!(found == wanted, "it has no name, and is there");
    assert_eq!(unlinked.metadata().unwrap().nlink(), 0);
    unlinked.write_all_at(b"more", wanted.len() as u64).unwrap();
    assert_eq!(begun + listing.count(), 400, "a listing goes on");
    fs::write(at("new"), "new").unwrap();
    drop((read_only, kept, unlinked));
    let usage =
        |engine: &weir_engine::Engine| volume.runtime.block_on(engine.statfs(Ino::ROOT)).unwrap();
    let end = Instant::now() + SOON;
    // root, large, kept, many and what is in it, new
    while usage(&second.engine).files != 405 {
        assert!(Instant::now() < end, "what has no name goes with its last close");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::mem::forget(first);
    volume.end(second);
    let third = volume.mount(|options| options);
    assert_eq!(fs::read(third.path.join("kept")).unwrap(), b"beforeafter!");
    assert!(fs::read(third.path.join("large")).unwrap() == wanted);
    volume.end(third);
}

#[test]
fn names_that_changed_past_the_door_are_asked_for_again_by_who_goes_on() {
    let Some(mut volume) = Volume::new() else { return };
    let first = volume.mount(|options| options);
    let place = first.path.clone();
    let names = ["handed-over", "in-the-last-moment"];
    for name in names {
        fs::write(place.join(name), "x").unwrap();
        // As an import does.
        volume.runtime.block_on(first.engine.unlink(Ino::ROOT, name.as_bytes())).unwrap();
        assert!(place.join(name).exists(), "the kernel believes what it knows");
    }
    let view = first.mount.as_ref().unwrap().view();
    let held = view.hold(SOON).unwrap();
    let mut state = serde_json::to_value(held.hand_over().unwrap()).unwrap();
    let changed = TreeChange::Name(Ino::ROOT, names[0].into());
    state["untold"] = serde_json::to_value([changed]).unwrap();
    let state: FuseHandover = serde_json::from_value(state).unwrap();
    let device = held.as_fd().try_clone_to_owned().unwrap();
    let inherited = first.engine.to_inherit();
    std::mem::forget(held);
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let next = { runtime }.worker_threads(2).enable_all().build().unwrap();
    std::mem::replace(&mut volume.runtime, next).shutdown_timeout(SOON);
    volume.locks = inherited.tier.locks.clone();
    let second = volume.resume(inherited, (device, state));
    let has_epochs = {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
        (numbers.next(), numbers.next()) >= (Some(6), Some(16))
    };
    for name in &names[..if has_epochs { 2 } else { 1 }] {
        let end = Instant::now() + SOON;
        while place.join(name).exists() {
            assert!(Instant::now() < end, "{name} is believed for a day");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    std::mem::forget(first);
    volume.end(second);
}
