//! The tier as a whole: what it keeps over kills, power cuts and releases.

mod nodes;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_types::{ByteRange, DataChange, FileKind, Ino, Inode, UnixTime};

use crate::*;

const PAGE: u64 = PAGE_BYTES;

fn options(directory: &Path, boot: &str) -> TierOptions {
    let ticks = AtomicU64::new(0);
    TierOptions {
        directory: directory.to_owned(),
        tier_bytes: 100 * PAGE,
        high_water_percent: 90,
        low_water_percent: 50,
        free_floor_bytes: 0,
        memory_bytes: 1 << 30,
        ask_space: DiskSpace::kernel(),
        inherited: crate::Inherited::default(),
        sealed: Vec::new(),
        boot_id: boot.to_owned(),
        now_ms: Arc::new(move || ticks.fetch_add(1, Ordering::Relaxed)),
    }
}

/// Opens, and says that recovery is complete.
fn open(directory: &Path, boot: &str) -> (Tier, Recovered) {
    let (tier, how) = Tier::open(options(directory, boot)).expect("opens");
    tier.confirm().expect("confirms");
    (tier, how)
}

#[test]
fn a_recovery_that_was_not_completed_is_begun_anew() {
    let dir = tempfile::tempdir().expect("tempdir");
    for clean in [false, true] {
        let (tier, how) = Tier::open(options(dir.path(), "boot")).expect("opens");
        assert!(matches!(how, Recovered::New | Recovered::PowerCut { .. }), "{how:?}");
        if clean {
            tier.close(true).expect("closes");
        }
    }
    assert!(matches!(open(dir.path(), "boot").1, Recovered::PowerCut { .. }));
    assert_eq!(open(dir.path(), "boot").1, Recovered::Killed);
}

fn census(released: u64, resident: u64, dirty: u64) -> Census {
    Census { hole: 0, released, resident, dirty }
}

fn inode(ino: u64, size: u64, generation: u64) -> Inode {
    Inode {
        ino: Ino(ino),
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

fn fill(mirror: &Mirror, start: u64, bytes: &[u8]) {
    let end = start + bytes.len() as u64;
    assert!(mirror.fill(start, end, Some(bytes), mirror.stamp()).expect("fills"));
}

fn read(mirror: &Mirror, offset: u64, len: usize) -> Option<Vec<u8>> {
    let mut buffer = Vec::new();
    match mirror.read_at(offset, len, &mut buffer).expect("reads") {
        ReadOutcome::Done(done) => {
            assert_eq!(buffer.len(), done);
            Some(buffer)
        }
        ReadOutcome::Missing(_) => None,
    }
}

fn flush(mirror: &Mirror, generation: u64) {
    let snapshot = mirror.snapshot(0, u64::MAX);
    assert!(snapshot.complete);
    mirror.flushed(&snapshot, generation, snapshot.size).expect("notes");
}

#[test]
fn a_kill_keeps_dirty_and_clean_pages() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, how) = open(dir.path(), "boot");
    assert_eq!(how, Recovered::New);
    let mirror = tier.mirror(&inode(7, 10 * PAGE, 3)).expect("mirror");
    fill(&mirror, 0, &[1; 2 * PAGE as usize]);
    assert!(mirror.write_at(PAGE + 10, b"dirty", UnixTime(5)).expect("writes").is_empty());
    drop((mirror, tier));
    let (tier, how) = open(dir.path(), "boot");
    assert_eq!(how, Recovered::Killed);
    let mirror = tier.find(Ino(7)).expect("kept");
    assert_eq!(mirror.census(), census(8 * PAGE, PAGE, PAGE));
    assert_eq!(read(&mirror, PAGE + 8, 8).expect("here"), b"\x01\x01dirty\x01");
    assert_eq!(read(&mirror, 2 * PAGE, 1), None);
    assert_eq!(mirror.pending().1.mtime, Some(UnixTime(5)));
}

#[test]
fn a_power_cut_keeps_sealed_mirrors_only() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "one");
    for ino in 1..=4 {
        fill(&tier.mirror(&inode(ino, 4 * PAGE, 1)).expect("mirror"), 0, &[9; PAGE as usize]);
    }
    tier.seal().expect("seals");
    let mirror = |ino| tier.find(Ino(ino)).expect("there");
    assert!(mirror(2).write_at(0, b"x", UnixTime(1)).expect("writes").is_empty());
    fill(&mirror(3), PAGE, &[9; PAGE as usize]);
    tier.release(&[mirror(4)], |_| false).expect("releases");
    drop(tier);
    let (tier, how) = open(dir.path(), "two");
    let Recovered::PowerCut { dirty_bytes_dropped, clean_bytes_dropped } = how else {
        panic!("{how:?}");
    };
    assert_eq!((dirty_bytes_dropped, clean_bytes_dropped), (PAGE, 2 * PAGE));
    let kept = tier.mirror(&inode(1, 4 * PAGE, 1)).expect("mirror");
    assert_eq!(read(&kept, 0, 2).expect("sealed"), [9, 9]);
    for ino in 2..=4 {
        let lost = tier.mirror(&inode(ino, 4 * PAGE, 1)).expect("mirror");
        assert_eq!(read(&lost, 0, 1), None, "inode {ino}");
    }
}

#[test]
fn a_clean_end_keeps_everything_over_a_reboot() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "one");
    let mirror = tier.mirror(&inode(1, PAGE, 1)).expect("mirror");
    fill(&mirror, 0, &[5; PAGE as usize]);
    tier.close(true).expect("closes");
    drop((mirror, tier));
    let (tier, how) = open(dir.path(), "two");
    assert_eq!(how, Recovered::Clean);
    let mirror = tier.mirror(&inode(1, PAGE, 1)).expect("mirror");
    assert_eq!(read(&mirror, 0, 1).expect("here"), [5]);
}

#[test]
fn another_generation_is_believed_only_when_we_made_it() {
    for alone in [false, true] {
        let dir = tempfile::tempdir().expect("tempdir");
        let (tier, _) = open(dir.path(), "boot");
        fill(&tier.mirror(&inode(1, 4 * PAGE, 1)).expect("mirror"), 0, &[5; PAGE as usize]);
        drop(tier);
        let (tier, _) = open(dir.path(), "boot");
        if alone {
            tier.set_alone();
        }
        let mirror = tier.mirror(&inode(1, 4 * PAGE, 2)).expect("mirror");
        assert_eq!(read(&mirror, 0, 1).is_some(), alone);
        let further = tier.mirror(&inode(1, 4 * PAGE, 4)).expect("mirror");
        assert_eq!(read(&further, 0, 1), None, "two changes at once are never ours");
    }
}

#[test]
fn a_missed_truncation_cuts_local_bytes() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    tier.set_alone();
    let mirror = tier.mirror(&inode(1, 0, 0)).expect("mirror");
    mirror.write_at(0, &[7; 3 * PAGE as usize], UnixTime(1)).expect("writes");
    let mut after = inode(1, 100, 1);
    after.data.dropped = Some(ByteRange::new(100, u64::MAX));
    let mirror = tier.mirror(&after).expect("mirror");
    assert_eq!((mirror.size(), mirror.dirty_bytes()), (100, PAGE));
    mirror.grow(PAGE, UnixTime(2)).expect("grows");
    let bytes = read(&mirror, 99, 3).expect("here");
    assert_eq!(bytes, [7, 0, 0], "what was cut off does not come back");
}

#[test]
fn writes_ask_for_the_pages_they_cover_in_part() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    let mirror = tier.mirror(&inode(1, 4 * PAGE, 1)).expect("mirror");
    let now = UnixTime(1);
    let missing = mirror.write_at(10, &[1; PAGE as usize], now).expect("asks");
    assert_eq!(missing, [(0, PAGE), (PAGE, 2 * PAGE)]);
    assert!(mirror.write_at(PAGE, &[1; PAGE as usize], now).expect("whole page").is_empty());
    assert!(mirror.write_at(3 * PAGE, &[1; 5000], now).expect("past the end").is_empty());
    assert_eq!(mirror.write_at(2 * PAGE, b"x", now).expect("asks"), [(2 * PAGE, 3 * PAGE)]);
    assert_eq!(mirror.size(), 3 * PAGE + 5000);
}

#[test]
fn a_stale_fetch_fills_nothing() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    let mirror = tier.mirror(&inode(1, 2 * PAGE, 1)).expect("mirror");
    let stamp = mirror.stamp();
    mirror.dropped(ByteRange::new(0, u64::MAX), Some(0), 2, false).expect("truncates");
    assert!(!mirror.fill(0, PAGE, Some(&[1; PAGE as usize]), stamp).expect("refuses"));
    assert_eq!(read(&mirror, 0, 10).expect("empty"), Vec::<u8>::new());
}

#[test]
fn a_write_during_a_flush_stays_dirty_and_a_drop_voids_it() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    let mirror = tier.mirror(&inode(1, 0, 0)).expect("mirror");
    mirror.write_at(0, &[1; 3 * PAGE as usize], UnixTime(1)).expect("writes");
    let snapshot = mirror.snapshot(0, 2 * PAGE);
    assert_eq!(
        (snapshot.ranges.as_slice(), snapshot.complete),
        ([ByteRange::new(0, 2 * PAGE)].as_slice(), false)
    );
    mirror.write_at(PAGE, b"again", UnixTime(2)).expect("writes");
    mirror.flushed(&snapshot, 1, 2 * PAGE).expect("notes");
    assert_eq!(mirror.census(), census(0, PAGE, 2 * PAGE));
    assert_eq!(mirror.pending().1.mtime, Some(UnixTime(2)), "the later write's time");
    let snapshot = mirror.snapshot(0, u64::MAX);
    mirror.dropped(ByteRange::new(PAGE, u64::MAX), Some(PAGE), 2, false).expect("truncates");
    assert!(!mirror.still_valid(&snapshot));
}

#[test]
fn a_snapshot_is_all_of_a_file_until_something_is_written() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    let page = [1; PAGE as usize];
    let write = |mirror: &Mirror, at| mirror.write_at(at, &page, UnixTime(1)).expect("writes");
    let of_two_pages = |ino| {
        let mirror = tier.mirror(&inode(ino, 0, 0)).expect("mirror");
        write(&mirror, 0);
        write(&mirror, PAGE);
        mirror
    };
    let mirror = of_two_pages(1);
    assert!(!mirror.is_all(&mirror.snapshot(0, PAGE)), "half of it");
    for (ino, at, why) in [
        (2, 0, "the same page was written again"),
        (3, 2 * PAGE, "it is longer now, as a file is that is still being written"),
    ] {
        let mirror = of_two_pages(ino);
        let snapshot = mirror.snapshot(0, u64::MAX);
        assert!(mirror.is_all(&snapshot));
        write(&mirror, at);
        assert!(!mirror.is_all(&snapshot), "{why}");
    }
    let mirror = of_two_pages(4);
    let snapshot = mirror.snapshot(0, u64::MAX);
    mirror.flushed(&snapshot, 1, 2 * PAGE).expect("notes");
    write(&mirror, PAGE);
    let last = mirror.snapshot(0, u64::MAX);
    assert!(!mirror.is_all(&last), "what is in the bucket already is not in this one");
}

#[test]
fn release_takes_the_oldest_clean_pages_and_never_a_dirty_one() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    for ino in 0..10 {
        let mirror = tier.mirror(&inode(ino, 10 * PAGE, 1)).expect("mirror");
        fill(&mirror, 0, &[1; 10 * PAGE as usize]);
        read(&mirror, 0, 1);
    }
    tier.find(Ino(0)).expect("there").write_at(0, b"x", UnixTime(1)).expect("writes");
    read(&tier.find(Ino(1)).expect("there"), 0, 1);
    assert!(tier.above_high_water().expect("looks"));
    let released =
        tier.release_to_low_water(Amount::default(), |m| m.ino() == Ino(2)).expect("releases");
    assert!(released >= 50 * PAGE, "{released}");
    let usage = tier.usage().expect("usage");
    assert!(usage.used_bytes <= 50 * PAGE && usage.dirty_bytes == PAGE, "{usage:?}");
    assert!(read(&tier.find(Ino(1)).expect("used lately"), 0, 1).is_some());
    assert!(read(&tier.find(Ino(2)).expect("kept"), 0, 1).is_some());
    assert!(tier.find(Ino(3)).is_none(), "empty mirrors are forgotten");
    assert_eq!(read(&tier.find(Ino(0)).expect("dirty"), 0, 1).expect("here"), b"x");
}

#[test]
fn only_the_newest_flush_of_a_file_makes_its_pages_clean() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    let mirror = tier.mirror(&inode(1, 0, 1)).expect("mirror");
    mirror.write_at(0, &[1; PAGE as usize], UnixTime(1)).expect("writes");
    let older = mirror.snapshot(0, u64::MAX);
    mirror.write_at(0, &[2; PAGE as usize], UnixTime(2)).expect("writes");
    let newer = mirror.snapshot(0, u64::MAX);
    assert!(!mirror.still_valid(&older) && mirror.still_valid(&newer));
    // Its commit was under way when the other began.
    assert!(!mirror.flushed(&older, 2, PAGE).expect("notes"), "not the newest");
    assert_eq!(mirror.dirty_bytes(), PAGE, "what the other took is not in the bucket");
    assert!(mirror.flushed(&newer, 3, PAGE).expect("notes"));
    assert_eq!(mirror.dirty_bytes(), 0);
}

#[test]
fn a_release_that_cannot_be_noted_takes_no_byte() {
    use crate::disk::{Op, testing::Fault, testing::Plan};
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    let mirror = tier.mirror(&inode(1, 10 * PAGE, 1)).expect("mirror");
    fill(&mirror, 0, &[1; PAGE as usize]);
    fill(&mirror, 4 * PAGE, &[1; PAGE as usize]);
    // The first of its ranges is noted, the other is not.
    let log = dir.path().join("residency");
    let laid = Plan::lay(&log, 2, Fault::Fail(libc::ENOSPC), Some(Op::Write));
    tier.release(std::slice::from_ref(&mirror), |_| false).expect_err("the log is full");
    assert!(laid.hit().is_some());
    assert!(read(&mirror, 0, 1).is_none(), "noted and gone");
    assert_eq!(read(&mirror, 4 * PAGE, 1).expect("here"), [1]);
    assert_eq!(tier.usage().expect("usage").used_bytes, PAGE);
}

#[test]
fn the_account_adds_up_over_a_long_life() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    let mirror = tier.mirror(&inode(1, 0, 0)).expect("mirror");
    for round in 1..=5 {
        mirror.write_at(0, &[1; 20 * PAGE as usize], UnixTime(1)).expect("writes");
        flush(&mirror, round);
        tier.release(std::slice::from_ref(&mirror), |_| false).expect("releases");
        assert_eq!(tier.usage().expect("usage").used_bytes, 0);
        fill(&mirror, 0, &[1; 20 * PAGE as usize]);
        assert_eq!(tier.usage().expect("usage").used_bytes, 20 * PAGE);
    }
    tier.remove(Ino(1)).expect("removes");
    let usage = tier.usage().expect("usage");
    assert_eq!((usage.used_bytes, usage.dirty_bytes, usage.mirrors), (0, 0, 0));
    assert!(mirror.write_at(0, b"x", UnixTime(1)).is_err(), "the file is gone");
}

#[test]
fn unfit_places_are_refused_with_a_reason() {
    let error = check_directory("--tier", Path::new("/dev/shm/weir-test")).expect_err("tmpfs");
    let _ = std::fs::remove_dir("/dev/shm/weir-test");
    assert!(error.to_string().contains("tmpfs"), "{error}");
    let error = check_directory("--tier", Path::new("/proc/weir-test")).expect_err("no place");
    assert!(error.to_string().contains("/proc/weir-test"), "{error}");
    let dir = tempfile::tempdir().expect("tempdir");
    let (_tier, _) = open(dir.path(), "boot");
    let error = Tier::open(options(dir.path(), "boot")).err().expect("in use");
    assert!(error.to_string().contains("in use"), "{error}");
}

#[test]
fn a_mirror_without_pages_leaves_no_note_and_no_file() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    let before = tier.shared.log.bytes();
    let mirror = tier.mirror(&inode(7, 0, 1)).expect("mirror");
    tier.mirror(&inode(8, PAGE, 1)).expect("mirror");
    tier.remove(Ino(8)).expect("removes");
    // A hole is read from the file, which this makes.
    mirror.grow(PAGE, UnixTime(1)).expect("grows");
    let unlogged = tier.mirror(&inode(9, 0, 1)).expect("mirror");
    unlogged.file().expect("opens");
    assert!(unlogged.path().exists());
    assert!(tier.shared.log.bytes() > before, "growth is noted");
    let path = unlogged.path();
    let after = tier.shared.log.bytes();
    tier.seal().expect("seals");
    assert_eq!(tier.shared.log.bytes(), after, "nothing to seal");
    tier.close(true).expect("closes");
    assert!(!path.exists(), "nobody would know of it");
    drop((mirror, unlogged, tier));
    let (tier, how) = open(dir.path(), "boot");
    assert_eq!(how, Recovered::Clean);
    assert_eq!(tier.find(Ino(7)).expect("kept").size(), PAGE);
    assert!(tier.find(Ino(9)).is_none());
}

#[test]
fn a_kill_before_the_first_note_leaves_no_bytes_behind() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    let path = tier.shared.mirror_path(Ino(7));
    let kept = tier.mirror(&inode(8, 0, 1)).expect("mirror");
    assert!(kept.write_at(0, b"noted", UnixTime(1)).expect("writes").is_empty());
    drop((kept, tier));
    // What a kill between a first write and the note of it leaves.
    std::fs::write(&path, b"stray").expect("writes");
    let (tier, how) = open(dir.path(), "boot");
    assert_eq!(how, Recovered::Killed);
    assert!(!path.exists());
    let mirror = tier.mirror(&inode(7, 0, 1)).expect("mirror");
    mirror.grow(PAGE, UnixTime(1)).expect("grows");
    assert_eq!(read(&mirror, 0, 5).expect("here"), [0; 5]);
    assert_eq!(read(&tier.find(Ino(8)).expect("kept"), 0, 5).expect("here"), b"noted");
}

#[test]
fn the_first_pages_come_with_the_state_they_change() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    fill(&tier.mirror(&inode(7, 3 * PAGE, 5)).expect("mirror"), PAGE, &[1; PAGE as usize]);
    drop(tier);
    let (tier, _) = open(dir.path(), "boot");
    let mirror = tier.mirror(&inode(7, 3 * PAGE, 5)).expect("mirror");
    assert_eq!(mirror.census(), census(2 * PAGE, PAGE, 0));
}

#[test]
fn what_holds_nothing_is_forgotten_when_nobody_uses_it() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    let mirrors = || tier.usage().expect("usage").mirrors;
    for ino in 1..=9 {
        tier.mirror(&inode(ino, 0, 1)).expect("mirror").idle();
    }
    let held = tier.mirror(&inode(10, 0, 1)).expect("mirror");
    held.idle();
    let full = tier.mirror(&inode(11, PAGE, 1)).expect("mirror");
    fill(&full, 0, &[1; PAGE as usize]);
    full.idle();
    drop(full);
    assert_eq!(mirrors(), 11);
    tier.tidy().expect("tidies");
    assert_eq!(mirrors(), 2);
    assert_eq!(read(&tier.find(Ino(11)).expect("kept"), 0, 1).expect("here"), [1]);
    // Whoever came for it before it was forgotten keeps it.
    assert!(held.write_at(0, b"x", UnixTime(1)).expect("writes").is_empty());
    tier.tidy().expect("tidies");
    assert!(tier.find(Ino(10)).expect("kept").has_unflushed());
}

#[test]
fn what_is_unflushed_is_listed_until_it_has_none_or_goes() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    let unflushed = |tier: &Tier| {
        let mut inos: Vec<_> = tier.unflushed().iter().map(|mirror| mirror.ino().0).collect();
        inos.sort_unstable();
        inos
    };
    for ino in 1..=5 {
        let mirror = tier.mirror(&inode(ino, 0, 1)).expect("mirror");
        assert!(mirror.write_at(0, b"news", UnixTime(1)).expect("writes").is_empty());
    }
    tier.mirror(&inode(6, 0, 1)).expect("mirror").grow(9, UnixTime(1)).expect("grows");
    assert_eq!(unflushed(&tier), [1, 2, 3, 4, 5, 6]);
    flush(&tier.find(Ino(2)).expect("there"), 2);
    tier.remove(Ino(3)).expect("removes");
    assert_eq!(unflushed(&tier), [1, 4, 5, 6]);
    assert_eq!(tier.shared.listed().len(), 4, "looked through no more");
    let again = tier.find(Ino(2)).expect("there");
    assert!(again.write_at(1, b"x", UnixTime(2)).expect("writes").is_empty());
    drop((again, tier));
    assert_eq!(unflushed(&open(dir.path(), "boot").0), [1, 2, 4, 5, 6]);
}

#[test]
fn memory_for_what_is_known_of_files_is_room() {
    let dir = tempfile::tempdir().expect("tempdir");
    let few = TierOptions {
        tier_bytes: 1 << 40,
        memory_bytes: 20 * crate::space::MIRROR_BYTES,
        ..options(dir.path(), "boot")
    };
    let (tier, _) = Tier::open(few).expect("opens");
    for ino in 0..19 {
        fill(&tier.mirror(&inode(ino, PAGE, 1)).expect("mirror"), 0, &[1; PAGE as usize]);
    }
    assert!(tier.above_high_water().expect("looks"));
    assert_eq!(tier.room().expect("room").files, 1);
    tier.release_to_low_water(Amount::default(), |_| false).expect("releases");
    let usage = tier.usage().expect("usage");
    assert_eq!((usage.mirrors, usage.limit_files), (10, 20), "{usage:?}");
    assert_eq!(usage.memory_bytes, 10 * crate::space::MIRROR_BYTES);
    // A file in many pieces takes more.
    let pieces = tier.mirror(&inode(99, 1000 * PAGE, 1)).expect("mirror");
    for piece in 0..100 {
        fill(&pieces, piece * 2 * PAGE, &[1; PAGE as usize]);
    }
    assert!(tier.usage().expect("usage").memory_bytes > 14 * crate::space::MIRROR_BYTES);
}

#[test]
fn long_writes_and_fetches_are_read_back_in_parts_that_take_no_more_than_was_asked() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    let noise = |from: usize, len: usize| (from..from + len).map(|n| ((n * n) >> 7) as u8);
    let len = (1 << 20) + 5000;
    for start in [0, 3 * PAGE as usize] {
        let ino = 7 + start as u64;
        let mirror = tier.mirror(&inode(ino, (start + len) as u64, 3)).expect("mirror");
        let whole: Vec<u8> = noise(start, len).collect();
        fill(&mirror, start as u64, &whole);
        let written: Vec<u8> = noise(1, len).collect();
        let at = (start + len) as u64 - 77;
        assert!(mirror.write_at(at, &written, UnixTime(5)).expect("writes").is_empty());
        // Into a buffer with more room than is asked for, behind what it holds.
        let mut buffer = Vec::with_capacity(4 << 20);
        buffer.push(b'!');
        let read = mirror.read_at(start as u64, len, &mut buffer).expect("reads");
        assert_eq!((read, buffer.len()), (ReadOutcome::Done(len), 1 + len));
        assert!(buffer[1..len - 76] == whole[..len - 77], "from {start}");
        assert!(buffer[len - 76..] == written[..77], "from {start}");
        assert!(read_all(&mirror, at, len) == written, "from {start}");
    }
}

fn read_all(mirror: &Mirror, offset: u64, len: usize) -> Vec<u8> {
    read(mirror, offset, len).expect("is here")
}
