//! Mirrors of files that other nodes write, too.

use std::os::unix::fs::FileExt;

use super::*;
use crate::disk::Op;
use crate::disk::testing::{Fault, Plan};

const SHORT: usize = 300;

/// A file of two pages of which the first bytes were written here; `taken` has a flush begin with them.
fn written_in_part(tier: &Tier, taken: bool) -> (Arc<Mirror>, Option<Snapshot>) {
    tier.set_shared();
    let mirror = tier.mirror(&inode(1, PAGE + 900, 1)).expect("mirror");
    fill(&mirror, 0, &[5; 2 * PAGE as usize]);
    let missing = mirror.write_at(0, &[7; SHORT], UnixTime(1)).expect("writes");
    assert!(missing.is_empty());
    let snapshot = taken.then(|| mirror.snapshot(0, u64::MAX));
    (mirror, snapshot)
}

#[test]
fn what_others_cut_off_does_not_come_back_with_what_was_written_here() {
    for taken in [false, true] {
        let dir = tempfile::tempdir().expect("tempdir");
        let (tier, _) = open(dir.path(), "boot");
        let (mirror, before) = written_in_part(&tier, taken);
        tier.mirror(&inode(1, 200, 2)).expect("mirror");
        assert_eq!(mirror.size(), SHORT as u64, "taken: {taken}");
        let snapshot = before.unwrap_or_else(|| mirror.snapshot(0, u64::MAX));
        assert_eq!(snapshot.ranges, [ByteRange::new(0, SHORT as u64)]);
        // Only a size of this epoch may go to the metadata.
        assert_eq!(snapshot.epoch == mirror.epoch(), !taken);
        assert_eq!(snapshot.size == SHORT as u64, !taken);
    }
}

#[test]
fn what_others_wrote_during_a_flush_is_not_taken_for_what_was_here() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    let (mirror, snapshot) = written_in_part(&tier, true);
    // An open in the midst of it finds that they wrote the rest of the page.
    tier.mirror(&inode(1, PAGE, 2)).expect("mirror");
    mirror.flushed(&snapshot.expect("a flush"), 3, PAGE).expect("notes");
    assert_eq!((mirror.size(), mirror.dirty_bytes()), (PAGE, 0));
    assert_eq!(read(&mirror, SHORT as u64, 1), None, "it is of before");
    assert!(!mirror.has_unflushed() || mirror.pending().1.size);
}

#[test]
fn whole_pages_that_were_written_here_keep_their_end() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    tier.set_shared();
    let mirror = tier.mirror(&inode(1, 0, 1)).expect("mirror");
    mirror.write_at(0, &[7; PAGE as usize + 20], UnixTime(1)).expect("writes");
    tier.mirror(&inode(1, 0, 2)).expect("mirror");
    assert_eq!(mirror.size(), PAGE + 20);
    assert_eq!(read(&mirror, PAGE, 20), Some(vec![7; 20]));
}

#[test]
fn what_is_unflushed_stays_of_the_generation_that_it_was_written_to() {
    let dir = tempfile::tempdir().expect("tempdir");
    let after_a_crash = |end: fn(&Mirror), wanted: u64| {
        let (tier, _) = open(dir.path(), "boot");
        tier.remove(Ino(1)).expect("removes");
        let (mirror, _) = written_in_part(&tier, false);
        // Perhaps this node was shut out before others did that.
        let mirror_of = |generation| tier.mirror(&inode(1, PAGE + 900, generation));
        assert_eq!(mirror_of(2).expect("mirror").generation(), 2);
        assert_eq!(mirror_of(5).expect("mirror").generation(), 5);
        mirror.changed_from(&inode(1, PAGE + 900, 6), 0).expect("notes");
        assert!(mirror.is_in_step(&inode(1, PAGE + 900, 6)));
        end(&mirror);
        drop((mirror, tier));
        let (tier, _) = open(dir.path(), "boot");
        assert_eq!(tier.find(Ino(1)).expect("a mirror").generation(), wanted);
    };
    after_a_crash(|_| {}, 1);
    after_a_crash(|mirror| _ = mirror.write_at(PAGE, &[8; 10], UnixTime(2)), 1);
    // The volume took all of it, or something: this node was not shut out.
    after_a_crash(|mirror| flush(mirror, 7), 7);
    after_a_crash(
        |mirror| {
            flush(mirror, 7);
            mirror.write_at(0, &[8; 10], UnixTime(2)).expect("writes");
        },
        7,
    );
    // Nothing of before is left.
    after_a_crash(
        |mirror| {
            mirror.dropped(ByteRange::new(0, u64::MAX), Some(0), 7, false).expect("notes");
            mirror.write_at(0, &[8; 10], UnixTime(2)).expect("writes");
        },
        7,
    );
}

/// A clean file of two pages and a bit, and its mirror file as it is lent.
fn lent(tier: &Tier) -> (Arc<Mirror>, Lent) {
    tier.set_shared();
    let mirror = tier.mirror(&inode(1, 2 * PAGE + 100, 1)).expect("mirror");
    fill(&mirror, 0, &[5; 2 * PAGE as usize + 100]);
    let lent = mirror.passthrough(1).expect("lends").expect("all of it is here");
    (mirror, lent)
}

/// All that who was lent a mirror file finds there.
fn found(lent: &Lent) -> Vec<u8> {
    let mut bytes = vec![0; lent.file.metadata().expect("stat").len() as usize];
    lent.file.read_exact_at(&mut bytes, 0).expect("reads");
    bytes
}

#[test]
fn who_was_lent_a_file_keeps_it_as_it_was_where_others_changed_it() {
    for size in [2 * PAGE + 100, 50, 7 * PAGE] {
        let dir = tempfile::tempdir().expect("tempdir");
        let (tier, _) = open(dir.path(), "boot");
        let (mirror, before) = lent(&tier);
        tier.mirror(&inode(1, size, 2)).expect("mirror");
        assert_eq!(found(&before), [5; 2 * PAGE as usize + 100], "no zeros, and not cut");
        assert!(!mirror.lends(before.lending));
        assert_eq!((mirror.size(), mirror.local_bytes()), (size, 0));
        fill(&mirror, 0, &vec![6; size as usize]);
        assert_eq!(read(&mirror, 0, size as usize), Some(vec![6; size as usize]));
        assert_eq!(found(&before), [5; 2 * PAGE as usize + 100]);
        assert!(mirror.passthrough(1).expect("asks").is_none(), "others change it");
        // Each look at the clock of these tests is a millisecond.
        let lend = || mirror.passthrough(1).expect("asks");
        let after = std::iter::repeat_with(lend).take(6_000).flatten().next().expect("lends");
        assert!(mirror.lends(after.lending) && after.lending != before.lending);
        mirror.end_passthrough(before.lending).expect("takes back");
        assert!(mirror.in_passthrough().expect("asks"), "the other one is still lent");
        assert_eq!(found(&after), vec![6; size as usize]);
        drop((before, after.file));
        mirror.end_passthrough(after.lending).expect("takes back");
        assert!(!mirror.in_passthrough().expect("asks"));
    }
}

#[test]
fn a_file_that_somebody_wants_to_write_is_not_lent_once_more_beside_its_readers() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    let (mirror, first) = lent(&tier);
    let again = mirror.passthrough(1).expect("asks").expect("readers are more than one");
    assert_eq!(again.lending, first.lending);
    mirror.not_lent_for_now();
    assert!(mirror.passthrough(1).expect("asks").is_none(), "though it is lent");
    assert!(mirror.lends(first.lending), "who has it has its bytes still");
    assert!(mirror.write_at(0, &[7; 10], UnixTime(1)).expect("writes").is_empty());
    assert_eq!(found(&first)[..11], [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 5]);
    let lend = || mirror.passthrough(1).expect("asks");
    let lends = |times| std::iter::repeat_with(lend).take(times).flatten().next().is_some();
    assert!(!lends(6_000), "it is not in the bucket yet");
    flush(&mirror, 2);
    assert!(lends(6_000));
}

#[test]
fn what_others_changed_is_brought_to_who_was_lent_the_file() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    let (mirror, lent) = lent(&tier);
    let (page, epoch) = (PAGE as usize, mirror.epoch());
    // A page in the midst, and the file is longer by a hole and some bytes.
    let size = 9 * PAGE + 7;
    let changes = [(PAGE, &[6; PAGE as usize][..]), (9 * PAGE, &[8; 7])];
    let after = inode(1, size, 2);
    assert!(mirror.bring(&after, 1, &changes).expect("brings"));
    assert!(mirror.is_in_step(&after) && mirror.lends(lent.lending) && mirror.epoch() != epoch);
    let mut wanted = vec![5; page];
    wanted.extend([vec![6; page], vec![5; 100], vec![0; 7 * page - 100], vec![8; 7]].concat());
    assert_eq!(found(&lent), wanted);
    assert_eq!(read(&mirror, 0, size as usize), Some(wanted));
    // Appended within a page, then cut.
    let after = inode(1, size + 3, 3);
    assert!(mirror.bring(&after, 2, &[(size, &[9; 3])]).expect("brings"));
    assert_eq!(found(&lent)[size as usize - 1..], [8, 9, 9, 9]);
    assert!(mirror.bring(&inode(1, 10, 4), 3, &[]).expect("brings"));
    assert_eq!((found(&lent), read(&mirror, 0, 10)), (vec![5; 10], Some(vec![5; 10])));
    drop((mirror, tier));
    let (tier, how) = open(dir.path(), "boot");
    assert_eq!(how, Recovered::Killed);
    let mirror = tier.mirror(&inode(1, 10, 4)).expect("mirror");
    assert_eq!(read(&mirror, 0, 10), Some(vec![5; 10]), "it is kept");
}

#[test]
fn nothing_is_brought_to_a_file_of_another_generation_or_with_bytes_of_its_own() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    let (mirror, lent) = lent(&tier);
    let after = inode(1, PAGE, 3);
    assert!(!mirror.bring(&after, 2, &[]).expect("asks"), "what changed since then is not all");
    assert!(mirror.write_at(PAGE, &[7; 10], UnixTime(1)).expect("writes").is_empty());
    assert_eq!(found(&lent)[PAGE as usize..][..10], [7; 10], "writes are seen");
    assert!(!mirror.bring(&after, 1, &[]).expect("asks"));
    tier.mirror(&after).expect("mirror");
    assert_eq!(found(&lent)[PAGE as usize..][..11], [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 5]);
    assert_eq!((mirror.size(), mirror.dirty_bytes()), (PAGE + 10, PAGE), "it is to leave yet");
    assert_eq!(read(&mirror, PAGE, 10), Some(vec![7; 10]));
    assert_eq!(read(&mirror, 0, 1), None);
}

#[test]
fn what_others_put_behind_bytes_that_wait_here_is_no_zeros_to_who_reads() {
    let dir = tempfile::tempdir().expect("tempdir");
    let (tier, _) = open(dir.path(), "boot");
    let (mirror, lent) = lent(&tier);
    let all = [7; 2 * PAGE as usize + 100];
    assert!(mirror.write_at(0, &all, UnixTime(1)).expect("writes").is_empty());
    tier.mirror(&inode(1, 9 * PAGE, 2)).expect("mirror");
    assert_eq!(found(&lent), all);
    assert_eq!((mirror.size(), mirror.lends(lent.lending)), (9 * PAGE, false));
    assert_eq!(read(&mirror, 0, all.len()), Some(all.to_vec()));
    assert_eq!(read(&mirror, 5 * PAGE, 1), None);
}

#[test]
fn a_disk_that_fails_leaves_nothing_half_changed_that_is_believed() {
    let turns = (1..=5).flat_map(|at| [(at, Op::Write), (at, Op::Truncate)]);
    for (at, op) in turns {
        let dir = tempfile::tempdir().expect("tempdir");
        let (tier, _) = open(dir.path(), "boot");
        let (mirror, lent) = lent(&tier);
        let after = inode(1, 9 * PAGE, 2);
        let plan = Plan::lay(dir.path(), at, Fault::Fail(libc::ENOSPC), Some(op));
        let brought = mirror.bring(&after, 1, &[(PAGE, &[6; PAGE as usize])]);
        drop(plan);
        tier.mirror(&after).expect("mirror");
        if brought.is_err() {
            assert!(!mirror.lends(lent.lending), "{op:?} {at}");
            assert_eq!(read(&mirror, PAGE, 1), None, "{op:?} {at}");
        }
        let now = found(&lent);
        let bytes = now[..2 * PAGE as usize].iter();
        assert!(bytes.copied().all(|byte| byte == 5 || byte == 6), "{op:?} {at}");
    }
}
