//! What a commit asks of the server.

use bytes::Bytes;

use super::*;

fn key(text: &str) -> Key {
    text.as_bytes().to_vec()
}

#[test]
fn each_check_is_decided_where_it_can_be() {
    let commit = Commit {
        checks: vec![
            Check::Version(key("parent"), 8),
            Check::Absent(key("name")),
            Check::Absent(key("none")),
            Check::Version(key("count"), 9),
            Check::Version(key("gone"), 11),
        ],
        puts: vec![(key("name"), Bytes::from_static(b"v")), (key("times"), Bytes::new())],
        deletes: vec![key("gone"), key("old")],
        adds: vec![(key("count"), 1), (key("sum"), 2)],
        raises: vec![(key("highest"), Bytes::from_static(b"h"))],
    };
    let plan = Plan::of(&commit).unwrap();
    let keys = |keys: &[Key]| keys.iter().map(|k| k.escape_ascii().to_string()).collect::<Vec<_>>();
    assert_eq!(keys(&plan.locks.keys), ["gone", "name", "none", "old", "parent", "times"]);
    assert_eq!(plan.locks.wants, [-1, 0, 0, -1, 8, -1]);
    assert_eq!(plan.locks.changes, [true, false, false, true, false, true]);
    assert_eq!(keys(&plan.first.inserts), ["name", "none"]);
    assert_eq!(keys(&plan.first.upserts), ["times"]);
    assert_eq!(keys(&plan.first.adds), ["sum"]);
    assert_eq!(keys(&plan.first.raises), ["highest"]);
    assert_eq!(
        (keys(&plan.counted.keys), plan.counted.wants),
        (keys(&[key("count"), key("none")]), vec![9, 0])
    );
    assert_eq!(keys(&plan.uncounted.keys), ["gone"]);
    assert_eq!(keys(&plan.then.deletes), ["none"]);
    assert_eq!(keys(&plan.then.adds), ["count"]);
}

#[test]
fn checks_that_contradict_one_another_are_a_conflict() {
    let two = |one, two| Plan::of(&Commit { checks: vec![one, two], ..Commit::default() });
    assert!(two(Check::Absent(key("a")), Check::Version(key("a"), 2)).is_none());
    assert!(two(Check::Version(key("a"), 2), Check::Version(key("a"), 2)).is_some());
    assert!(two(Check::Absent(key("b")), Check::Version(key("a"), u64::MAX)).is_none());
}
