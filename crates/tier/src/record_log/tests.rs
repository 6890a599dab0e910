//! What outlives crashes and disks that fail, and what a sync costs.

use crate::disk::Op;
use crate::disk::testing::{Fault, Laid, Plan};

use super::*;

mod random;

fn entries(directory: &Path) -> (RecordLog, Vec<Vec<u8>>) {
    let mut found = Vec::new();
    let log = RecordLog::open(directory, |p| {
        found.push(p.to_vec());
        Ok(())
    });
    (log.expect("opens"), found)
}

fn open_fails(directory: &Path) -> FsError {
    RecordLog::open(directory, |_| Ok(())).expect_err("refuses")
}

fn newest(directory: &Path) -> PathBuf {
    path_of(directory, file_numbers(directory).expect("lists").pop().expect("some"))
}

fn len(path: &Path) -> u64 {
    fs::metadata(path).expect("is there").len()
}

fn end(path: &Path) -> FrameEnd {
    read_frames(&fs::read(path).expect("reads"), |_| Ok(())).expect("reads")
}

/// Where the entries of a file end.
fn end_of(path: &Path) -> u64 {
    match end(path) {
        FrameEnd::Whole => len(path),
        FrameEnd::Zeros(good) | FrameEnd::Torn(good) => good,
    }
}

fn append_synced(log: &RecordLog, payload: &[u8]) {
    log.append(payload).expect("appends");
    log.sync().expect("syncs");
}

/// Operation `at` of a kind goes wrong below a directory.
fn fault(directory: &Path, at: u64, fault: Fault, only: Op) -> Laid {
    Plan::lay(directory, at, fault, Some(only))
}

#[test]
fn entries_come_back_in_order_over_files_and_torn_ends() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (log, none) = entries(dir.path());
    assert!(none.is_empty());
    log.append(b"a").expect("appends");
    log.rotate().expect("rotates");
    log.append(b"b").expect("appends");
    log.append(b"c").expect("appends");
    log.sync().expect("syncs");
    drop(log);
    let path = newest(dir.path());
    let bytes = fs::read(&path).expect("reads");
    fs::write(&path, &bytes[..end_of(&path) as usize - 1]).expect("writes");

    let (log, found) = entries(dir.path());
    assert_eq!(found, [b"a".to_vec(), b"b".to_vec()]);
    log.append(b"d").expect("appends");
    let (_, found) = entries(dir.path());
    assert_eq!(found, [b"a".to_vec(), b"b".to_vec(), b"d".to_vec()], "nothing hides behind");
}

#[test]
fn a_file_that_is_torn_before_another_is_refused_and_nothing_is_changed() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (log, _) = entries(dir.path());
    log.append(b"first").expect("appends");
    log.append(b"second").expect("appends");
    log.rotate().expect("rotates");
    log.append(b"third").expect("appends");
    log.sync().expect("syncs");
    drop(log);
    let (first, second) = (path_of(dir.path(), 1), path_of(dir.path(), 2));
    let good = fs::read(&first).expect("reads");
    fs::write(&first, &good[..good.len() - 1]).expect("writes");
    let state = || (fs::read(&first).expect("reads"), fs::read(&second).expect("reads"));
    let before = state();
    let error = RecordLog::open(dir.path(), |_| Ok(())).expect_err("refuses");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("0000000000000002.log away"), "{error}");
    assert_eq!(state(), before);
    fs::remove_file(&second).expect("as it says");
    assert_eq!(entries(dir.path()).1, [b"first".to_vec()]);
}

#[test]
fn an_older_file_is_on_the_disk_before_a_newer_one_takes_anything() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (log, _) = entries(dir.path());
    log.append(b"never synced").expect("appends");
    drop(log);
    // A killed log's file is synced by who opens it next; if it cannot be, nothing follows it.
    let laid = Plan::lay(dir.path(), 1, Fault::Fail(libc::EIO), Some(Op::Sync));
    let error = RecordLog::open(dir.path(), |_| Ok(())).expect_err("its disk failed");
    assert_eq!(laid.hit().expect("hit").1, path_of(dir.path(), 1), "{error}");
    assert_eq!(file_numbers(dir.path()).expect("lists"), [1]);
    drop(laid);
    let (log, found) = entries(dir.path());
    assert_eq!(found.len(), 1);
    log.append(b"newer").expect("appends");
    // The first is that of the directory, which has the name of the next file.
    let laid = Plan::lay(dir.path(), 2, Fault::Fail(libc::EIO), Some(Op::Sync));
    log.rotate().expect_err("cannot be synced");
    drop(laid);
    log.rotate().expect_err("and what became of it is not known");
    log.append(b"x").expect_err("so nothing follows it");
}

#[test]
fn dropped_files_are_gone_and_counted() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (log, _) = entries(dir.path());
    log.append(&[7; 1000]).expect("appends");
    let number = log.rotate().expect("rotates");
    log.append(b"kept").expect("appends");
    assert!(log.bytes() > 1000);
    log.drop_before(number).expect("drops");
    assert!(log.bytes() < 100);
    let (_, found) = entries(dir.path());
    assert_eq!(found, [b"kept".to_vec()]);
}

#[test]
fn a_log_of_which_nobody_knows_if_it_was_emptied_takes_no_more() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (log, _) = entries(dir.path());
    log.append(b"a").expect("appends");
    // The first is that of the directory.
    let laid = Plan::lay(dir.path(), 2, Fault::Fail(libc::EIO), Some(Op::Sync));
    log.clear_if(log.appended()).expect_err("its disk failed");
    assert!(laid.hit().is_some());
    drop(laid);
    log.append(b"b").expect_err("what is before it is not known");
    log.sync().expect_err("nor is that");
}

#[test]
fn a_small_entry_that_is_synced_changes_no_size() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (log, _) = entries(dir.path());
    let path = newest(dir.path());
    let mut sizes = std::collections::BTreeSet::new();
    for number in 0..1000_u32 {
        append_synced(&log, &[number.to_le_bytes().as_slice(), &[7; 4096]].concat());
        sizes.insert(len(&path));
        assert!(len(&path) <= 2 * log.bytes() + *ZEROS_BYTES.start(), "a short log is short");
    }
    assert!(sizes.len() < 12, "written ahead in steps: {sizes:?}");
    assert_eq!((log.bytes(), end(&path)), (1000 * 4112, FrameEnd::Zeros(1000 * 4112)));
    // A kill, and no entry is lost or made up.
    let (again, found) = entries(dir.path());
    assert_eq!(found.len(), 1000);
    assert!(found.iter().zip(0_u32..).all(|(entry, n)| entry[..4] == n.to_le_bytes()));
    assert_eq!((len(&path), again.bytes()), (1000 * 4112, 1000 * 4112), "zeros are cut off");
}

#[test]
fn what_is_large_or_never_synced_is_not_written_twice() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (log, _) = entries(dir.path());
    let path = newest(dir.path());
    for _ in 0..100 {
        log.append(&[7; 4096]).expect("appends");
        assert_eq!(end(&path), FrameEnd::Whole);
    }
    append_synced(&log, &[7; 100]);
    assert_eq!(end(&path), FrameEnd::Whole, "a hundred entries in one sync");
    for _ in 0..4 {
        append_synced(&log, &vec![7; 1 << 20]);
        assert_eq!(end(&path), FrameEnd::Whole);
    }
}

/// Each with a torn entry behind two good ones, before zeros: as the disk has it, and what is good.
fn torn_before_zeros() -> Vec<(tempfile::TempDir, u64)> {
    let mut all = Vec::new();
    for sectors in 1..(1 << 4) - 1 {
        let dir = tempfile::tempdir().expect("tempdir");
        let (log, _) = entries(dir.path());
        append_synced(&log, b"a");
        append_synced(&log, &[1; 512 - 13 - 12]);
        let path = newest(dir.path());
        let good = log.bytes();
        assert_eq!(good, 512, "the next begins with a sector");
        let before = fs::read(&path).expect("reads");
        log.append(&[2; 4 * 512 - 12]).expect("appends");
        let mut bytes = fs::read(&path).expect("reads");
        for sector in (0..4).filter(|sector| sectors & (1 << sector) == 0) {
            let lost = 512 * (1 + sector)..512 * (2 + sector);
            bytes[lost.clone()].copy_from_slice(&before[lost]);
        }
        drop(log);
        fs::write(&path, bytes).expect("writes");
        all.push((dir, good));
    }
    all
}

#[test]
fn a_torn_entry_before_zeros_is_cut_off_whichever_of_its_sectors_are_there() {
    for (dir, good) in torn_before_zeros() {
        let path = newest(dir.path());
        assert_eq!(end(&path), FrameEnd::Torn(good), "not taken for a clean end");
        let (log, found) = entries(dir.path());
        assert_eq!((found.len(), log.bytes(), len(&path)), (2, good, good));
        append_synced(&log, b"next");
        assert_eq!(entries(dir.path()).1[2], b"next");
    }
}

#[test]
fn zeros_before_a_file_with_entries_are_entries_that_the_disk_lost() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (log, _) = entries(dir.path());
    append_synced(&log, b"first");
    let first = newest(dir.path());
    assert!(len(&first) > log.bytes());
    log.rotate().expect("rotates");
    assert_eq!(end(&first), FrameEnd::Whole, "zeros are cut off before another file follows");
    append_synced(&log, b"second");
    assert_eq!(entries(dir.path()).1, [b"first".to_vec(), b"second".to_vec()]);
    let good = len(&first);
    File::options().write(true).open(&first).expect("opens").set_len(good + 5000).expect("grows");
    assert_eq!(open_fails(dir.path()).kind(), ErrorKind::Corrupt);
    assert_eq!(len(&first), good + 5000, "nothing is changed");
}

#[test]
fn no_file_follows_one_whose_zeros_could_not_be_cut_off() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (log, _) = entries(dir.path());
    append_synced(&log, b"first");
    let laid = fault(dir.path(), 1, Fault::Fail(libc::EIO), Op::Truncate);
    log.rotate().expect_err("not cut");
    assert!(laid.hit().is_some());
    append_synced(&log, b"second");
    log.rotate().expect("rotates");
    append_synced(&log, b"third");
    assert_eq!(entries(dir.path()).1, [&b"first"[..], b"second", b"third"]);
}

#[test]
fn a_disk_that_cannot_hold_zeros_is_done_without() {
    for how in [Fault::Fail(libc::ENOSPC), Fault::Fail(libc::EDQUOT), Fault::Short] {
        let dir = tempfile::tempdir().expect("tempdir");
        let (log, _) = entries(dir.path());
        // The first is that of the entry.
        let laid = fault(dir.path(), 2, how, Op::Write);
        append_synced(&log, b"0");
        assert!(laid.hit().is_some());
        for number in 1..10_u8 {
            append_synced(&log, &[b'0' + number]);
        }
        assert_eq!(laid.count(), 11, "not tried again for each sync");
        drop((log, laid));
        let (_, found) = entries(dir.path());
        assert_eq!(found.concat(), b"0123456789");
    }
}

#[test]
fn zeros_take_no_room_but_what_is_kept() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().expect("tempdir");
    let (log, _) = entries(dir.path());
    let path = newest(dir.path());
    let blocks = || fs::metadata(&path).expect("is there").blocks();
    log.append(b"a").expect("appends");
    let kept = blocks();
    log.sync().expect("syncs");
    assert!(len(&path) > log.bytes());
    assert!(blocks() <= kept + 16, "{} blocks after {kept}", blocks());
    // Where the disk has no room to keep, none is taken for zeros.
    log.append(&[1; 9000]).expect("appends");
    log.head().kept_bytes = 0;
    log.head().zeroed_bytes = 0;
    let size = len(&path);
    log.sync().expect("syncs");
    assert_eq!(len(&path), size);
}

#[test]
fn an_append_that_failed_among_zeros_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (log, _) = entries(dir.path());
    append_synced(&log, b"first");
    let path = newest(dir.path());
    let laid = fault(dir.path(), 1, Fault::Short, Op::Write);
    log.append(&[9; 3000]).expect_err("half a write");
    assert!(laid.hit().is_some());
    assert_eq!((end(&path), len(&path)), (FrameEnd::Whole, log.bytes()));
    drop(laid);
    append_synced(&log, b"second");
    assert!(matches!(end(&path), FrameEnd::Zeros(_)), "and zeros are written again");
    let laid = fault(dir.path(), 1, Fault::Short, Op::Write);
    let broken = fault(dir.path(), 1, Fault::Fail(libc::EIO), Op::Truncate);
    log.append(&[9; 3000]).expect_err("half a write");
    drop((laid, broken));
    assert_eq!(entries(dir.path()).1, [b"first".to_vec(), b"second".to_vec()]);
}

#[test]
fn an_emptied_log_takes_entries_from_its_start() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (log, _) = entries(dir.path());
    (0..100).for_each(|_| append_synced(&log, &[1; 4096]));
    assert!(log.clear_if(log.appended()).expect("empties"));
    assert_eq!((log.bytes(), len(&newest(dir.path()))), (0, 0));
    append_synced(&log, b"a");
    append_synced(&log, b"b");
    assert_eq!(entries(dir.path()).1, [b"a".to_vec(), b"b".to_vec()]);
}

#[test]
fn a_log_of_zeros_alone_is_empty() {
    let dir = tempfile::tempdir().expect("tempdir");
    fs::write(path_of(dir.path(), 7), [0; 9000]).expect("writes");
    let (log, found) = entries(dir.path());
    assert_eq!((found.len(), log.bytes(), len(&path_of(dir.path(), 7))), (0, 0, 0));
    append_synced(&log, b"a");
    assert_eq!(entries(dir.path()).1, [b"a".to_vec()]);
}

#[test]
fn a_log_that_is_not_opened_again_can_be_cut_to_its_entries() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (log, _) = entries(dir.path());
    append_synced(&log, b"a");
    let (path, bytes) = (newest(dir.path()), log.bytes());
    drop(log);
    fs::write(path_of(dir.path(), 2), b"").expect("a rotation that ended early");
    assert!(len(&path) > bytes);
    RecordLog::trim(dir.path()).expect("cuts");
    assert_eq!((len(&path), end(&path)), (bytes, FrameEnd::Whole));
    fs::write(&path, b"torn").expect("writes");
    RecordLog::trim(dir.path()).expect("has nothing to cut");
    assert_eq!(len(&path), 4);
}
