//! Locks by themselves, and waits for them.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_types::{ErrorKind, Ino};

use super::*;
use crate::tests::Dice;

const FILE: Ino = Ino(5);
const POSIX: LockSpace = LockSpace::Posix;

fn lock(owner: u64, start: u64, last: u64, exclusive: bool) -> Lock {
    Lock { owner: LockOwner(owner), start, last, exclusive, pid: owner as u32 }
}

fn held(table: &LockTable, owner: u64) -> Vec<(u64, u64, bool)> {
    let state = table.state();
    let locks = state.files.get(&(FILE, POSIX)).and_then(|file| file.owners.get(&LockOwner(owner)));
    locks
        .into_iter()
        .flat_map(|held| held.values())
        .map(|l| (l.start, l.last, l.exclusive))
        .collect()
}

#[test]
fn readers_share_and_writers_do_not() {
    let table = LockTable::new();
    table.try_lock(FILE, POSIX, lock(1, 0, 9, false)).unwrap();
    table.try_lock(FILE, POSIX, lock(2, 5, 14, false)).unwrap();
    assert_eq!(table.try_lock(FILE, POSIX, lock(2, 9, 9, true)), Err(lock(1, 0, 9, false)));
    table.try_lock(FILE, POSIX, lock(2, 10, 20, true)).unwrap();
    assert_eq!(table.test(FILE, POSIX, lock(1, 20, u64::MAX, false)), Some(lock(2, 10, 20, true)));
    assert_eq!(table.test(FILE, POSIX, lock(1, 21, u64::MAX, true)), None);
    assert_eq!(table.test(Ino(6), POSIX, lock(1, 0, u64::MAX, true)), None);
    assert_eq!(table.test(FILE, LockSpace::Flock, lock(1, 0, u64::MAX, true)), None);
    table.release_owner(FILE, LockOwner(2));
    assert_eq!(table.test(FILE, POSIX, lock(1, 0, u64::MAX, true)), None);
}

#[test]
fn own_locks_split_and_merge() {
    let table = LockTable::new();
    table.try_lock(FILE, POSIX, lock(1, 0, 99, true)).unwrap();
    table.try_lock(FILE, POSIX, lock(1, 20, 29, false)).unwrap();
    assert_eq!(held(&table, 1), [(0, 19, true), (20, 29, false), (30, 99, true)]);
    table.try_lock(FILE, POSIX, lock(1, 20, 29, true)).unwrap();
    assert_eq!(held(&table, 1), [(0, 99, true)]);
    table.unlock(FILE, POSIX, LockOwner(1), 90, u64::MAX);
    table.unlock(FILE, POSIX, LockOwner(1), 10, 19);
    assert_eq!(held(&table, 1), [(0, 9, true), (20, 89, true)]);
    table.unlock(FILE, POSIX, LockOwner(1), 0, u64::MAX);
    assert!(table.state().files.is_empty());
}

#[test]
fn a_flock_is_for_the_whole_file() {
    let table = LockTable::new();
    table.try_lock(FILE, LockSpace::Flock, lock(1, 3, 3, true)).unwrap();
    assert!(table.try_lock(FILE, LockSpace::Flock, lock(2, 9, 9, false)).is_err());
    table.try_lock(FILE, POSIX, lock(2, 9, 9, true)).unwrap();
    table.unlock(FILE, LockSpace::Flock, LockOwner(1), 7, 7);
    table.try_lock(FILE, LockSpace::Flock, lock(2, 9, 9, false)).unwrap();
}

/// Against a table with an entry for each byte.
#[test]
fn byte_ranges_against_a_model() {
    for seed in 0..50 {
        eprintln!("seed {seed}");
        let mut dice = Dice::new(seed);
        let table = LockTable::new();
        let mut model: BTreeMap<(u64, u64), bool> = BTreeMap::new();
        for _ in 0..300 {
            let (owner, a, b) = (dice.below(3), dice.below(30), dice.below(30));
            let wanted = lock(owner, a.min(b), a.max(b), dice.below(2) == 0);
            if dice.below(3) == 0 {
                table.unlock(FILE, POSIX, wanted.owner, wanted.start, wanted.last);
                model
                    .retain(|(o, at), _| *o != owner || !(wanted.start..=wanted.last).contains(at));
            } else {
                let blocked = model.iter().any(|((o, at), exclusive)| {
                    *o != owner
                        && (wanted.start..=wanted.last).contains(at)
                        && (*exclusive || wanted.exclusive)
                });
                assert_eq!(table.test(FILE, POSIX, wanted).is_some(), blocked);
                assert_eq!(table.try_lock(FILE, POSIX, wanted).is_err(), blocked);
                if !blocked {
                    let bytes = wanted.start..=wanted.last;
                    model.extend(bytes.map(|at| ((owner, at), wanted.exclusive)));
                }
            }
            for owner in 0..3 {
                let bytes: BTreeMap<_, _> = held(&table, owner)
                    .into_iter()
                    .flat_map(|(start, last, ex)| (start..=last).map(move |at| ((owner, at), ex)))
                    .collect();
                let want: BTreeMap<_, _> =
                    model.iter().filter(|((o, _), _)| *o == owner).map(|(k, v)| (*k, *v)).collect();
                assert_eq!(bytes, want);
            }
        }
    }
}

/// Lets every other task run until it waits.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_what_is_let_go() {
    let table = Arc::new(LockTable::new());
    table.try_lock(FILE, POSIX, lock(1, 0, 9, true)).unwrap();
    let waiter = tokio::spawn({
        let table = Arc::clone(&table);
        async move { table.lock_wait(FILE, POSIX, lock(2, 5, 5, true)).await }
    });
    settle().await;
    assert!(!waiter.is_finished());
    table.unlock(FILE, POSIX, LockOwner(1), 0, 4);
    settle().await;
    assert!(!waiter.is_finished());
    // From exclusive to shared is not enough for a writer either.
    table.try_lock(FILE, POSIX, lock(1, 5, 9, false)).unwrap();
    settle().await;
    assert!(!waiter.is_finished());
    table.unlock(FILE, POSIX, LockOwner(1), 5, 5);
    waiter.await.unwrap().unwrap();
    assert_eq!(held(&table, 2), [(5, 5, true)]);
}

#[tokio::test(start_paused = true)]
async fn a_ring_of_waiters_is_refused_and_a_given_up_wait_is_none() {
    let table = Arc::new(LockTable::new());
    for owner in 1..=3 {
        table.try_lock(FILE, POSIX, lock(owner, owner, owner, true)).unwrap();
    }
    let wait = |owner, at| {
        let table = Arc::clone(&table);
        tokio::spawn(async move { table.lock_wait(FILE, POSIX, lock(owner, at, at, true)).await })
    };
    let (first, second) = (wait(1, 2), wait(2, 3));
    settle().await;
    let refused = table.lock_wait(FILE, POSIX, lock(3, 1, 1, true)).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Deadlock);

    second.abort();
    assert!(second.await.unwrap_err().is_cancelled());
    assert_eq!(table.state().waiting.len(), 1);
    // Without the second's wait there is no ring: the third may wait for the first.
    let third = wait(3, 1);
    settle().await;
    assert!(!third.is_finished() && !first.is_finished());
    table.release_owner(FILE, LockOwner(2));
    first.await.unwrap().unwrap();
    table.release_owner(FILE, LockOwner(1));
    third.await.unwrap().unwrap();
    table.release_owner(FILE, LockOwner(3));
    assert!(table.state().files.is_empty() && table.state().waiting.is_empty());
}

#[test]
fn another_table_goes_on_with_all_that_is_held() {
    let (before, after) = (LockTable::new(), LockTable::new());
    before.try_lock(FILE, LockSpace::Posix, lock(1, 0, 9, true)).expect("free");
    before.try_lock(FILE, LockSpace::Posix, lock(1, 20, u64::MAX, false)).expect("free");
    before.try_lock(FILE, LockSpace::Posix, lock(2, 30, 39, false)).expect("shared");
    before.try_lock(FILE, LockSpace::Flock, lock(3, 0, u64::MAX, true)).expect("apart");
    let all = before.all();
    assert_eq!(all.len(), 4);
    for (ino, space, lock) in all {
        after.try_lock(ino, space, lock).expect("none is in the way of another");
    }
    assert!(after.try_lock(FILE, LockSpace::Posix, lock(4, 5, 5, false)).is_err());
    assert!(after.try_lock(FILE, LockSpace::Posix, lock(4, 30, 30, true)).is_err());
    assert!(after.try_lock(FILE, LockSpace::Posix, lock(4, 10, 19, true)).is_ok());
    assert!(after.try_lock(FILE, LockSpace::Flock, lock(4, 0, 0, false)).is_err());
    after.release_owner(FILE, LockOwner(3));
    assert!(after.try_lock(FILE, LockSpace::Flock, lock(4, 0, 0, false)).is_ok());
}

#[test]
fn what_would_be_held_is_told_and_nothing_taken() {
    let table = LockTable::new();
    table.try_lock(FILE, POSIX, lock(1, 0, 9, true)).unwrap();
    table.try_lock(FILE, LockSpace::Flock, lock(2, 0, 0, false)).unwrap();
    let with = table.held_with(FILE, POSIX, lock(1, 5, 14, false));
    let flock = (LockSpace::Flock, lock(2, 0, u64::MAX, false));
    assert_eq!(with, [(POSIX, lock(1, 0, 4, true)), (POSIX, lock(1, 5, 14, false)), flock]);
    assert_eq!(table.held(FILE), [(POSIX, lock(1, 0, 9, true)), flock]);
    assert!(table.is_covered(FILE, POSIX, lock(3, 2, 9, true)));
    assert!(!table.is_covered(FILE, POSIX, lock(3, 2, 10, false)));
    assert!(table.holds(FILE, POSIX, LockOwner(1), (9, 20)));
    assert!(!table.holds(FILE, POSIX, LockOwner(1), (10, 20)));
    assert!(table.holds(FILE, LockSpace::Flock, LockOwner(2), (3, 4)));
}

#[test]
fn a_lock_that_was_maybe_taken_leaves_what_is_held_either_way() {
    let table = LockTable::new();
    table.try_lock(FILE, POSIX, lock(1, 0, 9, true)).unwrap();
    table.weaken(FILE, POSIX, lock(1, 0, 99, true));
    assert_eq!(held(&table, 1), [(0, 9, true)]);
    table.weaken(FILE, POSIX, lock(1, 5, 99, false));
    assert_eq!(held(&table, 1), [(0, 4, true), (5, 9, false)]);
    table.weaken(FILE, POSIX, lock(2, 0, 99, false));
    assert_eq!(held(&table, 2), []);
}

#[tokio::test]
async fn a_wait_for_a_free_lock_takes_nothing() {
    let table = Arc::new(LockTable::new());
    table.try_lock(FILE, POSIX, lock(1, 0, 9, true)).unwrap();
    let waits = table.clone();
    let waiter =
        tokio::spawn(async move { waits.wait_until_free(FILE, POSIX, lock(2, 0, 9, true)).await });
    tokio::task::yield_now().await;
    table.unlock(FILE, POSIX, LockOwner(1), 0, 9);
    waiter.await.unwrap().unwrap();
    table.try_lock(FILE, POSIX, lock(3, 0, 9, true)).unwrap();
}
