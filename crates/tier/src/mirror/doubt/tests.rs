//! What is lost on its way to the disk is neither read nor flushed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_types::{ByteRange, DataChange, ErrorKind, FileKind, Ino, Inode, UnixTime};

use crate::disk::Op;
use crate::disk::testing::{Fault, Plan};
use crate::{Cause, Mirror, PAGE_BYTES, ReadOutcome, Recovered, Tier, TierOptions};

const PAGE: u64 = PAGE_BYTES;

fn options(directory: &Path) -> TierOptions {
    let ticks = AtomicU64::new(0);
    TierOptions {
        directory: directory.to_owned(),
        tier_bytes: 100 * PAGE,
        high_water_percent: 90,
        low_water_percent: 50,
        free_floor_bytes: 0,
        memory_bytes: 1 << 30,
        ask_space: crate::DiskSpace::kernel(),
        inherited: crate::Inherited::default(),
        sealed: Vec::new(),
        boot_id: "boot".to_owned(),
        now_ms: Arc::new(move || ticks.fetch_add(1, Ordering::Relaxed)),
    }
}

fn open(directory: &Path) -> (Tier, Recovered) {
    let (tier, how) = Tier::open(options(directory)).expect("opens");
    tier.confirm().expect("confirms");
    (tier, how)
}

fn inode(ino: u64, size: u64) -> Inode {
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
        data: DataChange { generation: 1, dropped: None },
        stored_bytes: 0,
        target: None,
        account: weir_types::Account::default(),
        native: None,
    }
}

fn read(mirror: &Mirror, offset: u64) -> weir_types::Result<ReadOutcome> {
    mirror.read_at(offset, PAGE as usize, &mut Vec::new())
}

/// A mirror with a clean page, a dirty one, and a write of which the disk loses the second.
fn lossy(dir: &Path, tier: &Tier) -> Arc<Mirror> {
    let mirror = tier.mirror(&inode(7, 4 * PAGE)).expect("mirror");
    assert!(mirror.fill(0, PAGE, Some(&[1; PAGE as usize]), mirror.stamp()).expect("fills"));
    let laid = Plan::lay(&dir.join("mirror"), 1, Fault::Lost, Some(Op::Write));
    mirror.write_at(PAGE, &[2; PAGE as usize], UnixTime(1)).expect("taken");
    mirror.idle();
    assert!(laid.hit().is_some());
    let error = read(&mirror, PAGE).expect_err("lost");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    mirror
}

#[test]
fn lost_dirty_bytes_are_in_doubt_until_they_are_cut_off_and_clean_ones_come_again() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path());
    let mirror = lossy(dir.path(), &tier);
    assert!(mirror.check_sound().is_err());
    assert!(matches!(read(&mirror, 0).expect("clean"), ReadOutcome::Missing(_)));
    assert!(tier.unflushed().is_empty(), "never flushed");
    assert_eq!(tier.in_doubt().len(), 1);
    mirror.write_at(2 * PAGE, b"more", UnixTime(2)).expect_err("not beside what is in doubt");
    mirror.dropped(ByteRange::new(0, u64::MAX), Some(0), 2, false).expect("cuts");
    mirror.check_sound().expect("nothing is in doubt");
    assert!(tier.in_doubt().is_empty());
    mirror.write_at(0, b"anew", UnixTime(3)).expect("writes");
    assert_eq!(tier.unflushed().len(), 1);
}

#[test]
fn what_is_in_doubt_stays_so_over_a_kill_and_is_set_aside() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path());
    drop((lossy(dir.path(), &tier), tier));
    for _ in 0..2 {
        let (tier, how) = open(dir.path());
        assert_eq!(how, Recovered::Killed);
        assert_eq!((tier.unflushed().len(), tier.in_doubt().len()), (0, 1));
        tier.find(Ino(7)).expect("kept").check_sound().expect_err("in doubt");
    }
    let (tier, _) = open(dir.path());
    let aside = tier.set_doubtful_aside("1", &Cause::default()).expect("sets aside");
    assert_eq!((aside.files, aside.dirty_bytes), (1, PAGE));
    assert!(tier.find(Ino(7)).is_none());
    drop(tier);
    assert!(open(dir.path()).0.in_doubt().is_empty());
}

#[test]
fn what_the_disk_lost_is_not_lent() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path());
    let mirror = tier.mirror(&inode(7, 0)).expect("mirror");
    mirror.write_at(0, &[1; PAGE as usize], UnixTime(1)).expect("writes");
    drop(mirror.passthrough(1).expect("lends").expect("all of it is here"));
    mirror.end_passthrough(0).expect("takes back");
    let laid = Plan::lay(&dir.path().join("mirror"), 1, Fault::Lost, Some(Op::Write));
    mirror.write_at(0, &[2; PAGE as usize], UnixTime(2)).expect("taken");
    assert!(laid.hit().is_some());
    assert!(mirror.passthrough(1).expect("asks").is_none(), "the kernel would read zeros");
    assert_eq!(read(&mirror, 0).expect_err("lost").kind(), ErrorKind::Corrupt);
}

#[test]
fn a_flush_that_had_its_bytes_before_the_loss_counts() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path());
    let mirror = tier.mirror(&inode(7, 4 * PAGE)).expect("mirror");
    let laid = Plan::lay(&dir.path().join("mirror"), 2, Fault::Lost, Some(Op::Write));
    mirror.write_at(0, &[2; PAGE as usize], UnixTime(1)).expect("taken");
    let snapshot = mirror.snapshot(0, u64::MAX);
    assert_eq!(read(&mirror, 0).expect("reads"), ReadOutcome::Done(PAGE as usize));
    mirror.write_at(PAGE, &[3; PAGE as usize], UnixTime(1)).expect("taken");
    assert!(laid.hit().is_some());
    mirror.check_sound().expect_err("in doubt");
    mirror.flushed(&snapshot, 2, 4 * PAGE).expect("notes");
    assert!(matches!(read(&mirror, 0).expect("clean"), ReadOutcome::Missing(_)), "let go");
    read(&mirror, PAGE).expect_err("still in doubt");
}

#[test]
fn a_mirror_with_dirty_bytes_stays_open_and_a_clean_one_does_not() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path());
    let mirror = tier.mirror(&inode(7, 0)).expect("mirror");
    mirror.write_at(0, b"dirty", UnixTime(1)).expect("writes");
    mirror.idle();
    assert!(mirror.file.lock().is_some());
    let snapshot = mirror.snapshot(0, u64::MAX);
    mirror.flushed(&snapshot, 2, 5).expect("notes");
    mirror.idle();
    assert!(mirror.file.lock().is_none());
}

#[test]
fn once_the_disk_lost_bytes_nothing_is_sealed_and_clean_pages_come_again() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path());
    let fill = |ino: u64| {
        let mirror = tier.mirror(&inode(ino, PAGE)).expect("mirror");
        mirror.fill(0, PAGE, Some(&[9; PAGE as usize]), mirror.stamp()).expect("fills");
        mirror
    };
    let sealed = fill(1);
    tier.seal().expect("seals");
    let clean = fill(2);
    let laid = Plan::lay(dir.path(), 1, Fault::Fail(libc::EIO), Some(Op::SyncAll));
    tier.seal().expect_err("its disk failed");
    drop(laid);
    assert_eq!((sealed.local_bytes(), clean.local_bytes()), (PAGE, 0));
    tier.seal().expect_err("what was lost stays lost");
    tier.close(true).expect_err("not a clean end");
    drop((sealed, clean, tier));
    assert_eq!(open(dir.path()).1, Recovered::Killed);
}

#[test]
fn after_a_new_mount_of_the_file_system_only_sealed_pages_are_believed() {
    use crate::disk::testing::pretend_instance;
    let dir = tempfile::tempdir().expect("tempdir");
    pretend_instance(dir.path(), "first");
    let (tier, _) = open(dir.path());
    let fill = |ino: u64| {
        let mirror = tier.mirror(&inode(ino, PAGE)).expect("mirror");
        mirror.fill(0, PAGE, Some(&[9; PAGE as usize]), mirror.stamp()).expect("fills");
    };
    fill(1);
    tier.seal().expect("seals");
    fill(2);
    tier.mirror(&inode(3, PAGE))
        .expect("mirror")
        .write_at(0, b"x", UnixTime(1))
        .map_or_else(|e| panic!("{e}"), |missing| assert_eq!(missing, [(0, PAGE)]));
    let dirty = tier.mirror(&inode(4, 0)).expect("mirror");
    dirty.write_at(0, b"dirty", UnixTime(1)).expect("writes");
    drop((dirty, tier));
    assert_eq!(open(dir.path()).1, Recovered::Killed, "the same file system");

    pretend_instance(dir.path(), "second");
    let ticks = || Arc::new(|| 1);
    let begin = || {
        Tier::open(TierOptions {
            directory: dir.path().to_owned(),
            tier_bytes: 100 * PAGE,
            high_water_percent: 90,
            low_water_percent: 50,
            free_floor_bytes: 0,
            memory_bytes: 1 << 30,
            ask_space: crate::DiskSpace::kernel(),
            inherited: crate::Inherited::default(),
            sealed: Vec::new(),
            boot_id: "boot".to_owned(),
            now_ms: ticks(),
        })
        .expect("opens")
    };
    let how = Recovered::Remounted { dirty_bytes_in_doubt: PAGE, clean_bytes_dropped: PAGE };
    assert_eq!(begin().1, how);
    let (tier, how) = begin();
    let Recovered::Remounted { dirty_bytes_in_doubt: PAGE, .. } = how else {
        panic!("what was not completed begins anew: {how:?}");
    };
    assert_eq!(tier.find(Ino(1)).expect("sealed").local_bytes(), PAGE);
    assert!(tier.find(Ino(2)).is_none());
    tier.find(Ino(4)).expect("kept").check_sound().expect_err("in doubt");
    assert_eq!(tier.set_doubtful_aside("1", &Cause::default()).expect("sets aside").files, 1);
    drop(tier);
    let (tier, _) = begin();
    assert_eq!(tier.lost().into_iter().collect::<Vec<_>>(), [Ino(4)], "known until it is complete");
    tier.confirm().expect("confirms");
    drop(tier);
    let (tier, how) = open(dir.path());
    assert_eq!((how, tier.lost().len()), (Recovered::Killed, 0));
}

#[test]
fn where_the_file_system_was_not_named_only_the_boot_counts() {
    use crate::log::Entry;
    use crate::recover::{Era, Replay};
    let dir = tempfile::tempdir().expect("tempdir");
    for (before, now, killed) in [
        ("boot", Some("b"), true),
        ("boot a", None, true),
        ("boot a", Some("a"), true),
        ("boot a", Some("b"), false),
    ] {
        let mut replay = Replay::default();
        let opened = Entry::Opened { boot_id: before.to_owned() };
        replay.entry(&opened.encode().expect("encodes")).expect("takes");
        let now = Era { boot: "boot".to_owned(), file_system: now.map(str::to_owned) };
        let how = replay.finish(&now, dir.path(), || false, |_| false).expect("finishes").how;
        assert_eq!(how == Recovered::Killed, killed, "{before} {now:?}: {how:?}");
    }
}

/// A file of two dirty pages, and the plan for its next operation of a kind.
fn two_pages(dir: &Path, tier: &Tier, only: Op, fault: Fault) -> (Arc<Mirror>, impl Drop) {
    let mirror = tier.mirror(&inode(7, 0)).expect("mirror");
    mirror.write_at(0, &[7; 2 * PAGE as usize], UnixTime(1)).expect("writes");
    (mirror, Plan::lay(&dir.join("mirror"), 1, fault, Some(only)))
}

fn bytes(mirror: &Mirror, len: usize) -> Vec<u8> {
    let mut buffer = Vec::new();
    mirror.read_at(0, len, &mut buffer).expect("reads");
    buffer
}

#[test]
fn what_a_cut_that_failed_left_behind_is_never_read() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path());
    let fail = Fault::Fail(libc::EIO);
    let (mirror, laid) = two_pages(dir.path(), &tier, Op::Truncate, fail);
    mirror.dropped(ByteRange::new(10, u64::MAX), Some(10), 1, false).expect_err("its disk failed");
    drop(laid);
    mirror.grow(2 * PAGE, UnixTime(2)).expect("grows");
    let mut wanted = vec![7; 10];
    wanted.resize(2 * PAGE as usize, 0);
    assert_eq!(bytes(&mirror, 2 * PAGE as usize), wanted);
}

#[test]
fn what_a_punch_that_failed_left_behind_is_never_read() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path());
    let fail = Fault::Fail(libc::EIO);
    let (mirror, laid) = two_pages(dir.path(), &tier, Op::Punch, fail);
    mirror.dropped(ByteRange::new(0, PAGE), None, 1, false).expect_err("its disk failed");
    drop(laid);
    let mut wanted = vec![0; PAGE as usize];
    wanted.resize(2 * PAGE as usize, 7);
    assert_eq!(bytes(&mirror, 2 * PAGE as usize), wanted);
}

#[test]
fn what_a_write_that_failed_left_behind_is_never_read_and_what_it_changed_leaves() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path());
    let (mirror, laid) = two_pages(dir.path(), &tier, Op::Write, Fault::Short);
    let snapshot = mirror.snapshot(0, u64::MAX);
    mirror.flushed(&snapshot, 1, 2 * PAGE).expect("notes");
    mirror.take_unjournaled(u64::MAX).expect("takes");
    assert_eq!(mirror.dirty_since_ms(), None);
    let write = [8; 4 * PAGE as usize];
    mirror.write_at(PAGE, &write, UnixTime(2)).expect_err("its disk is full");
    drop(laid);
    assert_eq!(mirror.size(), 2 * PAGE);
    assert!(mirror.dirty_since_ms().is_some(), "the page that it changed is to leave");
    assert_eq!(mirror.take_unjournaled(u64::MAX).expect("takes").ranges, [(PAGE, 2 * PAGE)]);
    mirror.grow(6 * PAGE, UnixTime(3)).expect("grows");
    assert!(bytes(&mirror, 6 * PAGE as usize)[2 * PAGE as usize..].iter().all(|b| *b == 0));
}

#[test]
fn a_note_that_failed_changes_nothing() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path());
    let mirror = tier.mirror(&inode(7, 0)).expect("mirror");
    mirror.write_at(0, &[7; PAGE as usize], UnixTime(1)).expect("writes");
    for fault in [Fault::Fail(libc::ENOSPC), Fault::Short] {
        let before = (mirror.size(), mirror.census(), mirror.dirty_bytes());
        let laid = Plan::lay(&dir.path().join("residency"), 1, fault, Some(Op::Write));
        mirror.write_at(PAGE, &[8; PAGE as usize], UnixTime(2)).expect_err("no note");
        drop(laid);
        assert_eq!((mirror.size(), mirror.census(), mirror.dirty_bytes()), before);
    }
    mirror.grow(2 * PAGE, UnixTime(3)).expect("grows");
    assert!(bytes(&mirror, 2 * PAGE as usize)[PAGE as usize..].iter().all(|b| *b == 0));
    drop((mirror, tier));
    let (tier, _) = open(dir.path());
    assert_eq!(tier.find(Ino(7)).expect("kept").dirty_bytes(), PAGE);
}

/// Whoever is told is not always one who reads: a release looks whether others have the file.
#[test]
fn a_loss_that_was_only_heard_of_is_known_after_a_kill() {
    [false, true].into_iter().for_each(heard_and_killed);
}

/// With the log written anew before the kill, or as it was.
fn heard_and_killed(anew: bool) {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path());
    let mirror = tier.mirror(&inode(7, 4 * PAGE)).expect("mirror");
    assert!(mirror.fill(0, PAGE, Some(&[1; PAGE as usize]), mirror.stamp()).expect("fills"));
    mirror.write_at(3 * PAGE, &[2; PAGE as usize], UnixTime(1)).expect("taken");
    drop((mirror, tier));
    // What was there before this mount may be lent.
    let (tier, _) = open(dir.path());
    let mirror = tier.find(Ino(7)).expect("kept");
    let laid = Plan::lay(&dir.path().join("mirror"), 1, Fault::Lost, Some(Op::Write));
    mirror.write_at(PAGE, &[2; PAGE as usize], UnixTime(1)).expect("taken");
    assert!(laid.hit().is_some());
    tier.release(std::slice::from_ref(&mirror), |_| false).expect("releases what is clean");
    if anew {
        tier.compact().expect("compacts");
    }
    drop((mirror, tier));
    let (tier, how) = open(dir.path());
    assert_eq!((how, tier.in_doubt().len()), (Recovered::Killed, 1));
}

#[test]
fn clean_pages_beside_a_loss_are_not_believed_after_a_kill() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path());
    let mirror = tier.mirror(&inode(7, 4 * PAGE)).expect("mirror");
    assert!(mirror.fill(0, PAGE, Some(&[1; PAGE as usize]), mirror.stamp()).expect("fills"));
    mirror.write_at(PAGE, &[2; PAGE as usize], UnixTime(1)).expect("taken");
    // As if the kill came before the loss was taken up.
    mirror.shared.log.append(&mirror.doubt_note()).expect("notes");
    drop((mirror, tier));
    let (tier, _) = open(dir.path());
    let mirror = tier.find(Ino(7)).expect("kept");
    assert!(matches!(read(&mirror, 0).expect("clean"), ReadOutcome::Missing(_)));
    mirror.check_sound().expect_err("in doubt");
}

#[test]
fn what_programs_may_have_stored_into_stays_in_doubt_over_a_kill() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path());
    let mirror = tier.mirror(&inode(7, PAGE)).expect("mirror");
    assert!(mirror.fill(0, PAGE, Some(&[1; PAGE as usize]), mirror.stamp()).expect("fills"));
    drop(mirror.passthrough(1).expect("lends").expect("all of it is here"));
    mirror.passthrough_writable().expect("lends");
    let laid = Plan::lay(&dir.path().join("mirror"), 1, Fault::Lost, Some(Op::Write));
    mirror.write_at(0, b"ours", UnixTime(1)).expect("taken");
    assert!(laid.hit().is_some());
    mirror.check_sound().expect_err("lost");
    // A flush that had its bytes before the loss may end; what programs stored is not known.
    let snapshot = mirror.snapshot(0, u64::MAX);
    mirror.flushed(&snapshot, 2, PAGE).expect("notes");
    drop((mirror, tier));
    let (tier, _) = open(dir.path());
    assert_eq!(tier.in_doubt().len(), 1);
}

/// Who syncs the whole file system is told instead of who does so after a kill.
#[test]
fn a_loss_that_a_seal_heard_of_is_known_after_a_kill() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path());
    let mirror = tier.mirror(&inode(7, 4 * PAGE)).expect("mirror");
    let laid = Plan::lay(dir.path(), 1, Fault::Lost, Some(Op::Write));
    mirror.write_at(PAGE, &[2; PAGE as usize], UnixTime(1)).expect("taken");
    assert!(laid.hit().expect("hit").1.ends_with("0000000000000007"));
    tier.seal().expect_err("the disk lost bytes");
    drop((mirror, tier));
    let (tier, how) = open(dir.path());
    assert_eq!((how, tier.in_doubt().len()), (Recovered::Killed, 1));
}

/// Whatever a recovery found out, it removes nothing before the log says so.
#[test]
fn a_recovery_that_ends_anywhere_leaves_the_next_one_what_it_found() {
    for at in 1.. {
        let dir = tempfile::tempdir().expect("tempdir");
        let (tier, _) = open(dir.path());
        let mirror = tier.mirror(&inode(7, 4 * PAGE)).expect("mirror");
        assert!(mirror.fill(0, PAGE, Some(&[1; PAGE as usize]), mirror.stamp()).expect("fills"));
        let clean = tier.mirror(&inode(8, PAGE)).expect("mirror");
        assert!(clean.fill(0, PAGE, Some(&[1; PAGE as usize]), clean.stamp()).expect("fills"));
        mirror.write_at(PAGE, &[2; PAGE as usize], UnixTime(1)).expect("writes");
        drop((mirror, clean, tier));
        let laid = Plan::lay(dir.path(), at, Fault::Crash, None);
        let opened = Tier::open(options(dir.path())).is_ok();
        drop(laid);
        let (tier, _) = open(dir.path());
        for (ino, offset, byte) in [(7, 0, 1), (7, PAGE, 2), (8, 0, 1)] {
            let Some(mirror) = tier.find(Ino(ino)) else { continue };
            let mut bytes = Vec::new();
            if let Ok(ReadOutcome::Done(_)) = mirror.read_at(offset, PAGE as usize, &mut bytes) {
                assert!(bytes == [byte; PAGE as usize], "{ino} at {offset} after operation {at}");
            }
        }
        assert!(tier.find(Ino(7)).is_some(), "dirty");
        if opened {
            assert!(at > 10, "{at}");
            return;
        }
    }
}
