//! Leases that come and go while rows are read and changed.

use bytes::Bytes;

use super::*;

const INO: Ino = Ino(7);

fn row(version: u64) -> Option<Versioned> {
    Some(Versioned { version, value: Bytes::from_static(b"row") })
}

fn key() -> Key {
    keys::inode(INO)
}

fn made(version: u64) -> Made {
    Made::from([(key(), row(version))])
}

/// A lease on the way, and when a read began that saw what was before.
fn wanting() -> Remembered {
    let mut all = Remembered::default();
    assert!(!all.looked_at(INO, 0) && !all.looked_at(INO, 10), "one look is no reason");
    assert!(all.looked_at(INO, 100));
    assert_eq!(all.wanted(5), [INO]);
    assert!(!all.looked_at(INO, 200), "it is being taken");
    all
}

fn leased() -> Remembered {
    let mut all = wanting();
    assert!(all.taken(INO, row(1)));
    assert_eq!(all.all(&[key()]), Some(vec![row(1)]));
    all
}

#[test]
fn a_lease_that_is_asked_back_while_it_is_taken_is_none() {
    let mut all = wanting();
    all.asked_back(&[INO], 100);
    assert!(!all.taken(INO, row(1)) && !all.has(INO));
    assert!(!all.looked_at(INO, 400) && !all.looked_at(INO, 500), "not for a while");
    assert!(!all.looked_at(INO, 700) && all.looked_at(INO, 800));
    assert!(!all.taken(INO, None), "nothing was put");
}

#[test]
fn what_was_asked_back_is_worth_a_lease_sooner_where_reads_find_it_unchanged() {
    let rows = [keys::inode(INO), keys::dir_times(INO)];
    let mut all = leased();
    all.asked_back(&[INO], 1_000);
    let read = |all: &mut Remembered, times| {
        all.learn(&rows, &[row(1), row(times)], all.stamp());
        all.looked_at(INO, 1_000)
    };
    // Somebody makes a name now and then.
    assert!((0..100).all(|at| !read(&mut all, at / 8)));
    assert!(!all.looks(INO).is_left_alone(1_500) && all.looks(INO).is_left_alone(1_499));
    assert!((0..17).all(|_| !read(&mut all, 100)), "the first of them tells of a change");
    assert!(!all.looks(INO).is_left_alone(1_001));
    read(&mut all, 101);
    assert!(all.looks(INO).is_left_alone(1_001), "and changed again");
    (0..16).for_each(|_| _ = read(&mut all, 101));
    assert!(!all.looked_at(INO, 1_010) && all.looked_at(INO, 1_050));
    assert!(all.taken(INO, row(1)));
    // Once more soon after that: twice as many.
    all.asked_back(&[INO], 1_100);
    (0..31).for_each(|_| _ = read(&mut all, 102));
    assert!(all.looks(INO).is_left_alone(1_101));
    (0..2).for_each(|_| _ = read(&mut all, 102));
    assert!(!all.looks(INO).is_left_alone(1_101));
}

#[test]
fn a_change_of_ones_own_while_it_is_taken_leaves_no_row() {
    let mut all = wanting();
    let change = all.begins_to_change(&[(key(), false)], 100);
    all.ends_to_change(change, &made(2));
    assert!(all.taken(INO, row(1)));
    assert_eq!(all.all(&[key()]), None, "the change may have come behind");
    let mut all = wanting();
    let change = all.begins_to_change(&[(key(), false)], 100);
    assert!(all.taken(INO, row(1)));
    let began = all.stamp();
    all.learn(&[key()], &[row(1)], began);
    assert_eq!(all.all(&[key()]), None, "it is under way");
    all.ends_to_change(change, &made(2));
    assert_eq!(all.all(&[key()]), None, "it began before the lease");
    all.learn(&[key()], &[row(2)], all.stamp());
    assert_eq!(all.all(&[key()]), Some(vec![row(2)]));
}

#[test]
fn what_was_read_before_a_change_is_not_learned_after_it() {
    let mut all = leased();
    let began = all.stamp();
    let change = all.begins_to_change(&[(key(), false)], 100);
    assert_eq!(all.all(&[key()]), None);
    all.learn(&[key()], &[row(1)], all.stamp());
    assert_eq!(all.all(&[key()]), None, "beside the change");
    all.ends_to_change(change, &Made::new());
    all.learn(&[key()], &[row(1)], began);
    assert_eq!(all.all(&[key()]), None, "from before it");
    all.learn(&[key()], &[row(2)], all.stamp());
    assert_eq!(all.all(&[key()]), Some(vec![row(2)]));
    // Two at once.
    let first = all.begins_to_change(&[(key(), false)], 100);
    let second = all.begins_to_change(&[(key(), false)], 100);
    all.ends_to_change(second, &made(4));
    all.learn(&[key()], &[row(2)], all.stamp());
    assert_eq!(all.all(&[key()]), None);
    all.ends_to_change(first, &made(3));
    assert_eq!(all.all(&[key()]), None, "which came last is not known");
    assert!(all.changing.is_empty());
}

#[test]
fn what_a_commit_of_ones_own_made_is_remembered() {
    let mut all = leased();
    let change = all.begins_to_change(&[(key(), false)], 100);
    all.ends_to_change(change, &made(2));
    assert_eq!(all.all(&[key()]), Some(vec![row(2)]));
    // Not where the lease went meanwhile, and came back.
    let change = all.begins_to_change(&[(key(), false)], 100);
    all.asked_back(&[INO], 100);
    all.forgive();
    assert!(!all.looked_at(INO, 200) && all.looked_at(INO, 300));
    assert!(all.taken(INO, row(7)));
    all.ends_to_change(change, &made(3));
    assert_eq!(all.all(&[key()]), None);
}

#[test]
fn of_a_row_that_is_only_raised_the_greatest_is_remembered_whichever_came_last() {
    let times = keys::dir_times(INO);
    let at =
        |version, time: &'static [u8]| Some(Versioned { version, value: Bytes::from_static(time) });
    let raised = |version, time| Made::from([(keys::dir_times(INO), at(version, time))]);
    let mut all = leased();
    let change = all.begins_to_change(&[(times.clone(), true)], 100);
    all.ends_to_change(change, &raised(2, b"5"));
    assert_eq!(all.all(std::slice::from_ref(&times)), None, "another may have raised it more");
    all.learn(std::slice::from_ref(&times), &[at(2, b"5")], all.stamp());
    let before = all.stamp();
    let first = all.begins_to_change(&[(times.clone(), true)], 100);
    let second = all.begins_to_change(&[(times.clone(), true)], 100);
    assert_eq!(all.all(std::slice::from_ref(&times)), Some(vec![at(2, b"5")]));
    all.ends_to_change(second, &raised(4, b"7"));
    all.ends_to_change(first, &raised(3, b"6"));
    let found = all.all(std::slice::from_ref(&times)).unwrap();
    assert_eq!(found[0].as_ref().unwrap().value, "7");
    all.learn(std::slice::from_ref(&times), &[at(2, b"5")], before);
    let found = all.all(std::slice::from_ref(&times)).unwrap();
    assert_eq!(found[0].as_ref().unwrap().value, "7", "that was read before");
    // Somebody sets it meanwhile: which came last is not known.
    let raise = all.begins_to_change(&[(times.clone(), true)], 100);
    let set = all.begins_to_change(&[(times.clone(), false)], 100);
    all.ends_to_change(set, &Made::from([(times.clone(), None)]));
    all.ends_to_change(raise, &raised(5, b"8"));
    assert_eq!(all.all(std::slice::from_ref(&times)), None);
    let set = all.begins_to_change(&[(times.clone(), false)], 100);
    let raise = all.begins_to_change(&[(times.clone(), true)], 100);
    all.ends_to_change(raise, &raised(6, b"9"));
    all.ends_to_change(set, &Made::from([(times.clone(), None)]));
    assert_eq!(all.all(std::slice::from_ref(&times)), None);
}

#[test]
fn of_what_was_made_here_all_is_known_until_something_is_not() {
    let entry = |name: &[u8]| keys::dirent(INO, name);
    let known = |all: &Remembered, name: &[u8]| all.all(&[entry(name)]);
    let mut all = Remembered::default();
    all.begins_to_make(INO);
    assert!(all.ends_to_make(INO, Some(vec![(key(), row(1).unwrap())])));
    assert_eq!(
        all.all(&[key(), entry(b"a"), keys::dir_times(INO)]),
        Some(vec![row(1), None, None])
    );
    let change = all.begins_to_change(&[(entry(b"a"), false)], 100);
    assert_eq!(known(&all, b"a"), None, "it is on its way");
    assert_eq!(known(&all, b"b"), Some(vec![None]));
    all.ends_to_change(change, &Made::from([(entry(b"a"), row(2))]));
    assert_eq!(known(&all, b"a"), Some(vec![row(2)]));
    // What became of it is not known.
    let change = all.begins_to_change(&[(entry(b"b"), false)], 100);
    all.ends_to_change(change, &Made::new());
    assert_eq!((known(&all, b"b"), known(&all, b"c")), (None, Some(vec![None])));
    assert_eq!(known(&all, b"a"), Some(vec![row(2)]));
    all.learn(&[entry(b"b")], &[None], all.stamp());
    assert_eq!(known(&all, b"b"), Some(vec![None]), "it was looked for");
    // Of many it is not remembered which ones.
    for n in 0..300 {
        all.forget_rows(&[entry(format!("n{n}").as_bytes())]);
    }
    assert_eq!((known(&all, b"c"), known(&all, b"n299")), (None, None));
    // It was asked for while it was made.
    let mut all = Remembered::default();
    all.begins_to_make(INO);
    all.asked_back(&[INO], 100);
    assert!(!all.ends_to_make(INO, Some(vec![(key(), row(1).unwrap())])) && !all.has(INO));
    all.begins_to_make(INO);
    assert!(!all.ends_to_make(INO, None) && !all.has(INO));
}

#[test]
fn what_is_lost_is_forgotten() {
    let mut all = leased();
    let began = all.stamp();
    all.forget(&[INO]);
    assert!(!all.has(INO) && all.rows == 0);
    all.learn(&[key()], &[row(1)], began);
    assert_eq!(all.all(&[key()]), None);
    assert_eq!(all.all(&[keys::extents(INO, 0)]), None, "no lease is for bytes");
    assert_eq!(all.all(&[]), Some(Vec::new()));
}

#[test]
fn of_a_directory_whose_list_was_read_it_is_known_what_is_not_there() {
    let entry = |name: &[u8]| keys::dirent(INO, name);
    let known = |all: &Remembered, name: &[u8]| all.all(&[entry(name)]);
    let wanting_a_list = || {
        let mut all = leased();
        for n in 0..MISSES {
            assert_eq!(all.list_wanted(), None, "after {n}");
            let began = all.stamp();
            all.learn(&[entry(&[n as u8])], &[None], began);
        }
        assert_eq!(all.list_wanted(), Some(INO));
        all
    };
    let mut all = wanting_a_list();
    assert_eq!(known(&all, b"a"), None);
    all.learn_list(INO, vec![(entry(b"a"), row(3).unwrap())], all.stamp());
    assert_eq!((known(&all, b"a"), known(&all, b"b")), (Some(vec![row(3)]), Some(vec![None])));
    assert_eq!(all.all(&[keys::xattr(INO, b"user.x")]), None, "it is for entries");
    // A change of ones own since the read began, or under way.
    let mut all = wanting_a_list();
    let began = all.stamp();
    let change = all.begins_to_change(&[(entry(b"b"), false)], 100);
    all.learn_list(INO, Vec::new(), all.stamp());
    assert_eq!(known(&all, b"c"), None, "one is under way");
    all.ends_to_change(change, &Made::from([(entry(b"b"), row(4))]));
    all.learn_list(INO, Vec::new(), began);
    assert_eq!((known(&all, b"b"), known(&all, b"c")), (Some(vec![row(4)]), None));
    // The lease went.
    let mut all = wanting_a_list();
    all.forget(&[INO]);
    all.learn_list(INO, Vec::new(), all.stamp());
    assert_eq!(known(&all, b"c"), None);
}

#[test]
fn of_more_leases_than_there_may_be_those_in_use_stay() {
    let mut all = leased();
    for n in 0..2 * room::LEASES_MAX as u64 {
        let one = Ino(1_000 + n);
        all.begins_to_make(one);
        assert!(all.ends_to_make(one, Some(vec![(keys::inode(one), row(1).unwrap())])));
        assert_eq!(all.all(&[key()]), Some(vec![row(1)]), "{n}");
    }
    assert!(all.held() <= room::LEASES_MAX && all.held() > room::LEASES_MAX / 4);
    assert!(all.has(Ino(1_000 + 2 * room::LEASES_MAX as u64 - 1)) && !all.has(Ino(1_000)));
    assert_eq!(all.rows, all.held.values().map(|held| held.rows.len()).sum::<usize>());
}
