//! Another descriptor of the mirror file stands for a mapping of it: to a lease they are the same.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_types::{ByteRange, DataChange, FileKind, Ino, Inode, UnixTime};

use crate::mirror_file::MARK_S;
use crate::*;

const PAGE: u64 = PAGE_BYTES;
const NOW: UnixTime = UnixTime(5);

fn tier(directory: &Path) -> Tier {
    heir(directory, Inherited::default())
}

/// A tier that goes on in the place of another.
fn heir(directory: &Path, inherited: Inherited) -> Tier {
    let ticks = AtomicU64::new(0);
    let options = TierOptions {
        directory: directory.to_owned(),
        tier_bytes: 100 * PAGE,
        high_water_percent: 90,
        low_water_percent: 50,
        free_floor_bytes: 0,
        memory_bytes: 1 << 30,
        ask_space: DiskSpace::kernel(),
        inherited,
        sealed: Vec::new(),
        boot_id: "boot".to_owned(),
        now_ms: Arc::new(move || ticks.fetch_add(1, Ordering::Relaxed)),
    };
    let (tier, _) = Tier::open(options).expect("opens");
    tier.confirm().expect("confirms");
    tier.set_alone();
    tier
}

fn inode(size: u64, generation: u64) -> Inode {
    Inode {
        ino: Ino(7),
        kind: FileKind::Regular,
        mode: 0o644,
        uid: 0,
        gid: 0,
        nlink: 1,
        size,
        rdev: 0,
        atime: UnixTime(0),
        mtime: UnixTime(0),
        ctime: UnixTime(0),
        btime: UnixTime(0),
        parent: Ino::ROOT,
        data: DataChange { generation, dropped: None },
        stored_bytes: 0,
        target: None,
        account: weir_types::Account::default(),
        native: None,
    }
}

/// A mirror with `pages` clean pages of ones.
fn clean(tier: &Tier, pages: u64) -> Arc<Mirror> {
    let mirror = tier.mirror(&inode(pages * PAGE, 1)).expect("mirror");
    let bytes = vec![1; (pages * PAGE) as usize];
    assert!(mirror.fill(0, pages * PAGE, Some(&bytes), mirror.stamp()).expect("fills"));
    mirror
}

fn flush(mirror: &Mirror) {
    let snapshot = mirror.snapshot(0, u64::MAX);
    mirror.flushed(&snapshot, 2, snapshot.size).expect("notes");
}

fn mapping(mirror: &Mirror, writable: bool) -> File {
    File::options().read(true).write(writable).open(mirror.path()).expect("open")
}

/// As the first store into a page through a mapping does.
fn store(mapping: &File, at: u64, bytes: &[u8]) {
    mapping.write_all_at(bytes, at).expect("store");
    assert_ne!(mapping.metadata().expect("stat").mtime(), MARK_S);
}

#[test]
fn what_is_lent_stays_until_the_last_mapping_goes() {
    let dir = tempfile::tempdir().expect("tempdir");
    let tier = tier(dir.path());
    let mirror = clean(&tier, 3);
    drop(mirror.passthrough(1).expect("lends").expect("all of it is here"));
    assert_eq!(
        tier.release(std::slice::from_ref(&mirror), |_| false).expect("releases"),
        0,
        "the kernel has it"
    );
    let mapped = mapping(&mirror, false);
    mirror.end_passthrough(0).expect("takes back");
    assert!(mirror.in_passthrough().expect("asks"));
    assert_eq!(
        tier.release_oldest(u64::MAX, |_| false).expect("releases"),
        0,
        "somebody has it mapped"
    );
    drop(mapped);
    assert_eq!(tier.release_oldest(u64::MAX, |_| false).expect("releases"), 3 * PAGE);
    assert!(!mirror.in_passthrough().expect("asks"));
    assert!(mirror.passthrough(1).expect("asks").is_none(), "nothing of it is here");
}

#[test]
fn a_file_of_holes_only_is_not_forgotten_while_it_is_mapped() {
    let dir = tempfile::tempdir().expect("tempdir");
    let tier = tier(dir.path());
    let mirror = tier.mirror(&inode(0, 1)).expect("mirror");
    mirror.dropped(ByteRange::new(3 * PAGE, u64::MAX), Some(3 * PAGE), 2, false).expect("grows");
    drop(mirror.passthrough(1).expect("lends").expect("lent"));
    let mapped = mapping(&mirror, false);
    mirror.end_passthrough(0).expect("takes back");
    drop(mirror);
    tier.release_oldest(u64::MAX, |_| false).expect("releases");
    tier.mirror(&inode(3 * PAGE, 2)).expect("mirror").write_at(PAGE, b"new", NOW).expect("writes");
    let mut found = [0; 3];
    mapped.read_exact_at(&mut found, PAGE).expect("reads");
    assert_eq!(&found, b"new");
}

#[test]
fn only_what_is_wholly_here_and_no_more_than_half_of_the_tier_is_lent() {
    let dir = tempfile::tempdir().expect("tempdir");
    let tier = tier(dir.path());
    let mirror = tier.mirror(&inode(3 * PAGE, 1)).expect("mirror");
    assert!(mirror.fill(0, PAGE, Some(&[1; PAGE as usize]), mirror.stamp()).expect("fills"));
    assert!(mirror.passthrough(1).expect("asks").is_none(), "two pages are released");
    tier.remove(Ino(7)).expect("removes");
    assert!(clean(&tier, 51).passthrough(1).expect("asks").is_none(), "too large");
    tier.remove(Ino(7)).expect("removes");
    let mirror = clean(&tier, 50);
    assert!(mirror.passthrough(50 * PAGE + 1).expect("asks").is_none(), "too small");
    mirror.changed_in_place();
    assert!(mirror.passthrough(1).expect("asks").is_none(), "it is changed in place");
    mirror.dropped(ByteRange::new(0, u64::MAX), Some(0), 2, false).expect("drops");
    mirror.write_at(0, b"new", NOW).expect("writes");
    assert!(mirror.passthrough(1).expect("asks").is_some(), "its contents are new");
}

#[test]
fn a_lent_file_that_was_cut_to_nothing_is_lent_again() {
    let dir = tempfile::tempdir().expect("tempdir");
    let tier = tier(dir.path());
    let mirror = clean(&tier, 3);
    drop(mirror.passthrough(1).expect("lends").expect("lent"));
    mirror.dropped(ByteRange::new(0, u64::MAX), Some(0), 2, false).expect("cuts");
    assert!(
        mirror.passthrough(1).expect("asks").is_some(),
        "beside a mapping all use the mirror file"
    );
    mirror.end_passthrough(0).expect("takes back");
    mirror.end_passthrough(0).expect("takes back");
    assert!(!mirror.in_passthrough().expect("asks"));
    assert!(mirror.passthrough(1).expect("asks").is_none(), "there is nothing to read");
}

#[test]
fn room_that_lent_files_grew_by_keeps_no_writer_waiting() {
    let dir = tempfile::tempdir().expect("tempdir");
    let tier = tier(dir.path());
    let mirror = clean(&tier, 50);
    drop(mirror.passthrough(1).expect("lends").expect("lent"));
    assert_eq!(tier.room().expect("room").bytes, 50 * PAGE);
    mirror.write_at(50 * PAGE, &[2; 40 * PAGE as usize], NOW).expect("writes");
    assert_eq!(tier.room().expect("room").bytes, 50 * PAGE);
    mirror.end_passthrough(0).expect("takes back");
    assert_eq!(tier.room().expect("room").bytes, 10 * PAGE);
}

#[test]
fn the_lent_file_is_as_long_as_the_file_whatever_happens() {
    let dir = tempfile::tempdir().expect("tempdir");
    let tier = tier(dir.path());
    let mirror = clean(&tier, 3);
    mirror.grow(5 * PAGE + 9, NOW).expect("grows");
    let lent = mirror.passthrough(1).expect("lends").expect("lent").file;
    let length = || lent.metadata().expect("stat").len();
    assert_eq!(length(), 5 * PAGE + 9);
    mirror.grow(6 * PAGE, NOW).expect("grows");
    assert_eq!(length(), 6 * PAGE);
    // A hole at the very end.
    mirror.dropped(ByteRange::new(2 * PAGE, 6 * PAGE), None, 2, false).expect("drops");
    assert_eq!(length(), 6 * PAGE);
    let mut page = [9; PAGE as usize];
    lent.read_exact_at(&mut page, 2 * PAGE).expect("reads");
    assert_eq!(page, [0; PAGE as usize]);
    assert!(mirror.missing(0, 6 * PAGE).is_empty(), "a hole is not released");
    mirror.dropped(ByteRange::new(0, PAGE), None, 2, false).expect("drops");
    assert!(mirror.missing(0, 6 * PAGE).is_empty(), "a hole is not released");
    for size in [PAGE + 1, 9 * PAGE] {
        mirror.dropped(ByteRange::new(size, u64::MAX), Some(size), 3, false).expect("drops");
        assert_eq!(length(), size);
    }
    // The bucket knows the longer file now, and still no page counts as released.
    flush(&mirror);
    assert_eq!(mirror.census().released, 0);
    assert!(mirror.missing(0, 9 * PAGE).is_empty());
}

#[test]
fn a_store_through_a_mapping_is_found_before_a_flush_and_again_after_it() {
    let dir = tempfile::tempdir().expect("tempdir");
    let tier = tier(dir.path());
    let mirror = clean(&tier, 3);
    drop(mirror.passthrough(1).expect("lends").expect("lent"));
    mirror.passthrough_writable().expect("lends");
    let mapped = mapping(&mirror, true);
    mirror.end_passthrough_writer().expect("takes back");
    mirror.end_passthrough(0).expect("takes back");
    mirror.look_for_mapped_writes().expect("looks");
    assert!(!mirror.has_unflushed(), "nobody stored anything");
    for round in 0..3_u8 {
        store(&mapped, PAGE, &[round; 10]);
        mirror.look_for_mapped_writes().expect("looks");
        assert_eq!(mirror.dirty_bytes(), 3 * PAGE, "round {round}");
        assert!(mirror.pending().1.mtime.is_some_and(|time| time != NOW));
        mirror.scan_mapped_writes().expect("catches");
        flush(&mirror);
        mirror.scan_mapped_writes().expect("catches");
        assert!(!mirror.has_unflushed(), "nothing since the flush");
    }
    store(&mapped, 0, b"last");
    drop(mapped);
    assert!(!mirror.in_passthrough().expect("asks"));
    assert_eq!(mirror.dirty_bytes(), 3 * PAGE);
}

#[test]
fn own_writes_beside_a_mapping_hide_no_store() {
    let dir = tempfile::tempdir().expect("tempdir");
    let tier = tier(dir.path());
    let mirror = clean(&tier, 3);
    drop(mirror.passthrough(1).expect("lends").expect("lent"));
    mirror.passthrough_writable().expect("lends");
    mirror.write_at(0, b"ours", NOW).expect("writes");
    mirror.look_for_mapped_writes().expect("looks");
    assert_eq!(mirror.dirty_bytes(), PAGE, "our own write is no store");
    mirror.scan_mapped_writes().expect("catches");
    assert_eq!(mirror.dirty_bytes(), 3 * PAGE, "but may have hidden one");
    flush(&mirror);
    mirror.scan_mapped_writes().expect("catches");
    assert!(!mirror.has_unflushed(), "nothing since");
    let mapped = mapping(&mirror, true);
    store(&mapped, PAGE, b"theirs");
    mirror.write_at(0, b"ours", NOW).expect("writes");
    mirror.scan_mapped_writes().expect("catches");
    assert_eq!(mirror.dirty_bytes(), 3 * PAGE, "found though our write came after it");
    flush(&mirror);
    drop(mapped);
    mirror.end_passthrough_writer().expect("takes back");
    assert_eq!(mirror.dirty_bytes(), 3 * PAGE, "a store may have come during our write");
}

/// Ours made the page writable without a trace, so that a store into it leaves none either.
#[test]
fn a_store_that_an_own_write_hid_is_caught_before_the_next_flush() {
    let dir = tempfile::tempdir().expect("tempdir");
    let tier = tier(dir.path());
    let mirror = clean(&tier, 3);
    drop(mirror.passthrough(1).expect("lends").expect("lent"));
    mirror.passthrough_writable().expect("lends");
    let mapped = mapping(&mirror, true);
    for round in 2..5_u8 {
        mirror.write_at(0, b"ours", NOW).expect("writes");
        let before = mapped.metadata().expect("stat").modified().expect("mtime");
        mapped.write_all_at(&[round], PAGE).expect("stores");
        let times = fs::FileTimes::new().set_modified(before);
        mapped.set_times(times).expect("hides");
        mirror.scan_mapped_writes().expect("catches");
        assert_eq!(mirror.dirty_bytes(), 3 * PAGE);
        flush(&mirror);
        mirror.scan_mapped_writes().expect("catches");
        assert!(!mirror.has_unflushed());
    }
    drop(mapped);
    mirror.end_passthrough_writer().expect("takes back");
    assert_eq!(mirror.dirty_bytes(), 3 * PAGE, "one more time at the end, whatever was missed");
}

#[test]
fn own_growth_holes_and_cuts_are_no_stores() {
    let dir = tempfile::tempdir().expect("tempdir");
    let tier = tier(dir.path());
    let mirror = clean(&tier, 5);
    drop(mirror.passthrough(1).expect("lends").expect("lent"));
    mirror.passthrough_writable().expect("lends");
    let unseen = |what| {
        mirror.look_for_mapped_writes().expect("looks");
        assert_eq!(mirror.dirty_bytes(), 0, "{what} is no store");
    };
    mirror.grow(6 * PAGE, NOW).expect("grows");
    unseen("growth");
    mirror.dropped(ByteRange::new(PAGE, 2 * PAGE), None, 2, false).expect("drops");
    unseen("a hole");
    mirror.dropped(ByteRange::new(4 * PAGE, u64::MAX), Some(4 * PAGE), 3, false).expect("drops");
    unseen("a cut");
    mirror.forget_pending_times(true, true).expect("forgets");
    flush(&mirror);
    let cut = DataChange { generation: 3, dropped: Some(ByteRange::new(3 * PAGE, u64::MAX)) };
    tier.mirror(&Inode { data: cut, ..inode(3 * PAGE, 3) }).expect("in step");
    assert_eq!(mirror.size(), 3 * PAGE);
    unseen("a cut that was found later");
}

#[test]
fn a_store_is_found_once_though_its_mapping_stays() {
    let dir = tempfile::tempdir().expect("tempdir");
    let tier = tier(dir.path());
    let mirror = clean(&tier, 3);
    drop(mirror.passthrough(1).expect("lends").expect("lent"));
    mirror.passthrough_writable().expect("lends");
    let mapped = mapping(&mirror, true);
    store(&mapped, PAGE, b"once");
    mirror.look_for_mapped_writes().expect("looks");
    mirror.scan_mapped_writes().expect("catches");
    flush(&mirror);
    for _ in 0..2 {
        mirror.look_for_mapped_writes().expect("looks");
        assert!(!mirror.has_unflushed());
        mirror.scan_mapped_writes().expect("catches");
        assert!(!mirror.has_unflushed());
    }
    drop(mapped);
}

#[test]
fn a_lent_mirror_that_holds_nothing_is_forgotten_only_when_it_is_taken_back() {
    let dir = tempfile::tempdir().expect("tempdir");
    let tier = tier(dir.path());
    let mirror = clean(&tier, 3);
    drop(mirror.passthrough(1).expect("lends").expect("lent"));
    let mapped = mapping(&mirror, false);
    mirror.end_passthrough(0).expect("takes back");
    mirror.dropped(ByteRange::new(0, u64::MAX), Some(0), 2, false).expect("cuts");
    mirror.forget_pending_times(true, true).expect("forgets");
    flush(&mirror);
    let path = mirror.path();
    mirror.idle();
    drop(mirror);
    tier.tidy().expect("tidies");
    assert!(tier.find(Ino(7)).is_some() && path.exists(), "somebody has it mapped");
    assert_eq!(tier.in_passthrough_now().len(), 1);
    drop(mapped);
    let mirror = tier.find(Ino(7)).expect("kept");
    mirror.look_for_mapped_writes().expect("looks");
    drop(mirror);
    tier.tidy().expect("tidies");
    assert!(tier.find(Ino(7)).is_none() && !path.exists());
    assert!(tier.shared.passthrough.lock().is_empty(), "no dead numbers");
}

#[test]
fn after_a_kill_what_could_be_mapped_for_writing_is_dirty_and_in_a_file_of_its_own() {
    let dir = tempfile::tempdir().expect("tempdir");
    let first = tier(dir.path());
    let mirror = clean(&first, 3);
    drop(mirror.passthrough(1).expect("lends").expect("lent"));
    mirror.passthrough_writable().expect("lends");
    let mapped = mapping(&mirror, true);
    store(&mapped, PAGE, b"before");
    drop((mirror, first));
    let second = tier(dir.path());
    store(&mapped, PAGE, b"strays");
    let mirror = second.find(Ino(7)).expect("kept");
    assert_eq!(mirror.dirty_bytes(), 3 * PAGE);
    let mut found = Vec::new();
    assert_eq!(mirror.read_at(PAGE, 6, &mut found).expect("reads"), ReadOutcome::Done(6));
    assert_eq!(&found, b"before");
    drop((mirror, second));
    // And the note of it is gone.
    let third = tier(dir.path());
    let mirror = third.find(Ino(7)).expect("kept");
    let inode = fs::metadata(mirror.path()).expect("stat").ino();
    drop((mirror, third));
    let fourth = tier(dir.path());
    let mirror = fourth.find(Ino(7)).expect("kept");
    assert_eq!(fs::metadata(mirror.path()).expect("stat").ino(), inode);
}

#[test]
fn what_an_heir_is_told_of_stays_lent_and_the_same_file() {
    let dir = tempfile::tempdir().expect("tempdir");
    let first = tier(dir.path());
    let mirror = clean(&first, 3);
    drop(mirror.passthrough(1).expect("lends").expect("lent"));
    mirror.passthrough_writable().expect("lends");
    let mapped = mapping(&mirror, true);
    store(&mapped, PAGE, b"before");
    let path = mirror.path();
    let number = || fs::metadata(&path).expect("stat").ino();
    let before = number();
    let inherited = first.to_inherit();
    let left = InPassthrough { ino: Ino(7), opens: 1, writers: 1, writable: true, lending: 0 };
    assert_eq!(inherited.in_passthrough, [left]);
    // The lock is not let go in between.
    drop((mirror, first));
    assert!(lock_directory(dir.path(), &[]).is_err(), "nobody else comes in");
    let second = heir(dir.path(), inherited);
    assert_eq!(number(), before, "what programs have mapped");
    let mirror = second.mirror(&inode(3 * PAGE, 1)).expect("kept");
    assert!(mirror.in_passthrough().expect("asks") && mirror.may_be_stored());
    assert_eq!(second.release_oldest(u64::MAX, |_| false).expect("releases"), 0);
    mirror.scan_mapped_writes().expect("looks");
    assert_eq!(mirror.dirty_bytes(), 3 * PAGE, "what was stored before counts");
    flush(&mirror);
    store(&mapped, PAGE, b"behind");
    mirror.scan_mapped_writes().expect("looks");
    assert_eq!(mirror.dirty_bytes(), 3 * PAGE, "and after");
    flush(&mirror);
    drop(mapped);
    mirror.end_passthrough_writer().expect("ends");
    mirror.end_passthrough(0).expect("takes back");
    assert!(!mirror.in_passthrough().expect("asks"), "as often as it was lent");
}

#[test]
fn after_a_kill_a_file_that_nobody_has_is_not_copied() {
    let dir = tempfile::tempdir().expect("tempdir");
    let first = tier(dir.path());
    let mirror = clean(&first, 3);
    drop(mirror.passthrough(1).expect("lends").expect("lent"));
    mirror.passthrough_writable().expect("lends");
    store(&mapping(&mirror, true), PAGE, b"before");
    let number = fs::metadata(mirror.path()).expect("stat").ino();
    drop((mirror, first));
    let second = tier(dir.path());
    let mirror = second.find(Ino(7)).expect("kept");
    assert_eq!(fs::metadata(mirror.path()).expect("stat").ino(), number);
    assert_eq!(mirror.dirty_bytes(), 3 * PAGE);
}

/// A kill between the new file of a lent mirror and the note of it: the log still says what the
/// file before it held.
#[test]
fn a_lent_mirror_may_be_taken_back_twice() {
    let dir = tempfile::tempdir().expect("tempdir");
    let first = tier(dir.path());
    let mirror = clean(&first, 3);
    drop(mirror.passthrough(1).expect("lends").expect("lent"));
    mirror.passthrough_writable().expect("lends");
    mirror.write_at(PAGE, b"ours", NOW).expect("writes");
    let path = mirror.path();
    drop((mirror, first));
    crate::mirror_file::copy_file(&path, &[ByteRange::new(PAGE, 2 * PAGE)], 3 * PAGE)
        .expect("copies");
    let second = tier(dir.path());
    let mirror = second.find(Ino(7)).expect("kept");
    assert_eq!(mirror.dirty_bytes(), PAGE);
    assert_eq!(mirror.missing(0, 3 * PAGE), [(0, PAGE), (2 * PAGE, 3 * PAGE)]);
}

#[test]
fn pages_that_a_program_of_a_dead_mount_has_mapped_stay_as_they_are() {
    let dir = tempfile::tempdir().expect("tempdir");
    let first = tier(dir.path());
    let mirror = clean(&first, 3);
    drop(mirror.passthrough(1).expect("lends").expect("lent"));
    let mapped = mapping(&mirror, false);
    drop((mirror, first));
    let second = tier(dir.path());
    let mirror = second.find(Ino(7)).expect("kept");
    assert_eq!(second.release_oldest(u64::MAX, |_| false).expect("releases"), 0);
    // Another machine wrote the volume meanwhile, so that these pages are stale here.
    second.mirror(&inode(3 * PAGE, 9)).expect("mirror");
    assert_eq!(mirror.census().released, 3 * PAGE);
    let mut page = [0; PAGE as usize];
    mapped.read_exact_at(&mut page, PAGE).expect("reads");
    assert_eq!(page, [1; PAGE as usize]);
}
