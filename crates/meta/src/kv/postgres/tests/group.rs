//! Which commits share a transaction.

use super::*;

fn put(name: &str, value: &str) -> Commit {
    let puts = vec![(name.as_bytes().to_vec(), Bytes::copy_from_slice(value.as_bytes()))];
    Commit { puts, ..Commit::default() }
}

fn create(name: &str) -> Commit {
    let mut commit = put(name, "file");
    commit.checks = vec![Check::Absent(name.into()), Check::Version(b"dir".into(), 4)];
    commit.raises = vec![(b"times".into(), Bytes::copy_from_slice(name.as_bytes()))];
    commit.adds = vec![(b"count".into(), 1)];
    commit
}

#[test]
fn creates_in_one_directory_are_one() {
    let mut group = Group::default();
    assert!(group.join(&create("b")) && group.join(&create("a")));
    let commit = group.into_commit();
    assert_eq!(commit.checks.len(), 3);
    assert_eq!(commit.adds, [(b"count".to_vec(), 2)]);
    assert_eq!(commit.raises, [(b"times".to_vec(), Bytes::from_static(b"b"))]);
}

#[test]
fn one_that_rests_on_another_does_not_join() {
    let checks = |check| Commit { checks: vec![check], ..put("other", "1") };
    let counted = Commit { adds: vec![(b"a".into(), 1)], ..Commit::default() };
    for no in [
        create("a"),
        checks(Check::Version(b"a".into(), 6)),
        checks(Check::Version(b"dir".into(), 6)),
        checks(Check::Version(b"count".into(), 7)),
        put("count", "1"),
        put("times", "1"),
        checks(Check::Version(b"times".into(), 7)),
        counted,
    ] {
        let mut group = Group::default();
        assert!(group.join(&create("a")));
        assert!(!group.join(&no), "{no:?}");
    }
    // What comes later may change what an earlier one checked.
    let mut group = Group::default();
    assert!(group.join(&create("a")) && group.join(&put("dir", "2")));
}

#[test]
fn a_group_ends_before_it_is_too_large() {
    let mut group = Group::default();
    let joined = (0..200).take_while(|n| group.join(&put(&n.to_string(), "1"))).count();
    assert_eq!(joined, COMMITS);
    let mut group = Group::default();
    let large = "x".repeat(BYTES / 2 + 1);
    assert!(group.join(&put("a", &large)) && !group.join(&put("b", &large)));
}
