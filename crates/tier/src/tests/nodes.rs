//! Mirrors of files that other nodes write, too.

use super::*;

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
