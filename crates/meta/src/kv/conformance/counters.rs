//! Counters, and values that only rise.

use std::sync::Arc;

use bytes::Bytes;
use weir_types::ErrorKind;

use super::engine::{Engine, count, dump, get, key, put, version};
use crate::kv::{Check, Commit, Kv, Outcome, Versioned};

pub(crate) async fn counters_add_up<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let add = |n| Commit { adds: vec![(key("n"), n)], ..Commit::default() };
    for (n, sum) in [(5, 5), (-7, -2), (0, -2), (i64::MAX, i64::MAX - 2)] {
        kv.commit(add(n)).await.unwrap();
        assert_eq!(count(&kv, "n").await, sum);
    }
    if E::COUNTS {
        let error = kv.commit(add(3)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert_eq!(count(&kv, "n").await, i64::MAX - 2);
}

pub(crate) async fn what_is_no_counter_is_refused<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    kv.commit(put("text", "hello")).await.unwrap();
    let before = dump(&kv).await;
    let commit = Commit { adds: vec![(key("text"), 1)], ..put("other", "1") };
    let error = kv.commit(commit).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(dump(&kv).await, before);
}

pub(crate) async fn a_changed_counter_has_another_version<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let add = |n| Commit { adds: vec![(key("n"), n)], ..Commit::default() };
    let checked = |check, commit| Commit { checks: vec![check], ..commit };
    let seen = async || get(&kv, "n").await.unwrap().version;
    let first = || Check::Absent(key("n"));
    version(kv.commit(checked(first(), put("a", "1"))).await.unwrap());
    version(kv.commit(checked(first(), add(1))).await.unwrap());
    assert_eq!(kv.commit(checked(first(), put("a", "2"))).await.unwrap(), Outcome::Conflict);
    let old = seen().await;
    let held = || Check::Version(key("n"), old);
    version(kv.commit(checked(held(), put("a", "3"))).await.unwrap());
    // As many as before, and yet changed.
    version(kv.commit(add(1)).await.unwrap());
    version(kv.commit(add(-1)).await.unwrap());
    assert_eq!(count(&kv, "n").await, 1);
    assert_eq!(kv.commit(checked(held(), put("a", "4"))).await.unwrap(), Outcome::Conflict);
    let delete = || Commit { deletes: vec![key("n")], ..Commit::default() };
    assert_eq!(kv.commit(checked(held(), delete())).await.unwrap(), Outcome::Conflict);
    let now = Check::Version(key("n"), seen().await);
    version(kv.commit(checked(now, delete())).await.unwrap());
    assert_eq!(get(&kv, "n").await, None);
    // What is put is counted on from, and what is put over a counter is all of it.
    let seven = Bytes::copy_from_slice(&7_i64.to_le_bytes());
    let put_seven = || Commit { puts: vec![(key("n"), seven.clone())], ..Commit::default() };
    let put_at = version(kv.commit(put_seven()).await.unwrap());
    version(kv.commit(add(-9)).await.unwrap());
    assert_eq!(count(&kv, "n").await, -2);
    let stale = Check::Version(key("n"), put_at);
    assert_eq!(kv.commit(checked(stale, put("a", "5"))).await.unwrap(), Outcome::Conflict);
    let now = Check::Version(key("n"), seen().await);
    version(kv.commit(checked(now, put_seven())).await.unwrap());
    assert_eq!(count(&kv, "n").await, 7);
}

pub(crate) fn raise(name: &str, value: &str) -> Commit {
    Commit { raises: vec![(key(name), value.to_owned().into())], ..Commit::default() }
}

pub(crate) async fn what_is_raised_never_falls<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let checked = |check, commit| Commit { checks: vec![check], ..commit };
    let mut versions = Vec::new();
    for (value, highest) in
        [("b", "b"), ("a", "b"), ("", "b"), ("ba", "ba"), ("c", "c"), ("c", "c")]
    {
        version(kv.commit(raise("r", value)).await.unwrap());
        let have = get(&kv, "r").await.unwrap();
        assert_eq!(have.value, highest, "after {value}");
        versions.push(have.version);
    }
    assert!(versions.windows(2).all(|pair| pair[0] != pair[1]), "{versions:?}");
    assert_eq!(dump(&kv).await.len(), 1);
    let at = |version| Check::Version(key("r"), version);
    let delete = || Commit { deletes: vec![key("r")], ..Commit::default() };
    assert_eq!(kv.commit(checked(at(versions[4]), delete())).await.unwrap(), Outcome::Conflict);
    assert_eq!(
        kv.commit(checked(at(versions[4]), raise("r", "d"))).await.unwrap(),
        Outcome::Conflict
    );
    version(kv.commit(checked(at(versions[5]), raise("r", "d"))).await.unwrap());
    assert_eq!(kv.commit(checked(at(versions[5]), delete())).await.unwrap(), Outcome::Conflict);
    let now = get(&kv, "r").await.unwrap().version;
    version(kv.commit(checked(at(now), delete())).await.unwrap());
    assert_eq!(get(&kv, "r").await, None);
    // What was removed is forgotten, and what is put is raised on from.
    version(kv.commit(checked(Check::Absent(key("r")), raise("r", "a"))).await.unwrap());
    assert_eq!(get(&kv, "r").await.unwrap().value, "a");
    assert_eq!(
        kv.commit(checked(Check::Absent(key("r")), delete())).await.unwrap(),
        Outcome::Conflict
    );
    let put_at = version(kv.commit(put("r", "5")).await.unwrap());
    assert_eq!(get(&kv, "r").await.unwrap(), Versioned { version: put_at, value: "5".into() });
    version(kv.commit(raise("r", "4")).await.unwrap());
    assert_eq!(get(&kv, "r").await.unwrap().value, "5");
    assert_eq!(kv.commit(checked(at(put_at), delete())).await.unwrap(), Outcome::Conflict);
    version(kv.commit(delete()).await.unwrap());
    assert_eq!(dump(&kv).await, []);
}

pub(crate) async fn raises_never_conflict<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let kv = Arc::new(kv);
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let kv = Arc::clone(&kv);
            tokio::spawn(async move {
                for n in 0..25 {
                    let value = format!("{:03}", (n * 16 + task) % 390);
                    version(kv.commit(raise("r", &value)).await.unwrap());
                    assert!(get(&*kv, "r").await.unwrap().value >= value);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(get(&*kv, "r").await.unwrap().value, "389");
}

pub(crate) async fn adds_never_conflict<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let kv = Arc::new(kv);
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let kv = Arc::clone(&kv);
            tokio::spawn(async move {
                for _ in 0..25 {
                    let adds = vec![(key("n"), task)];
                    version(kv.commit(Commit { adds, ..Commit::default() }).await.unwrap());
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(count(&*kv, "n").await, 25 * (0..16).sum::<i64>());
}
