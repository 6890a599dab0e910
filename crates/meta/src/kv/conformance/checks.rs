//! What commits rest on.

use std::sync::Arc;

use bytes::Bytes;
use weir_types::ErrorKind;

use super::counters::raise;
use super::engine::{Engine, TestLog, count, dump, get, key, put, version};
use crate::kv::{Check, Commit, Kv, Outcome, Versioned};

pub(crate) async fn absent_and_version_checks<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let guarded = |check: Check, value: &str| Commit { checks: vec![check], ..put("a", value) };
    let absent = || Check::Absent(key("a"));
    let first = version(kv.commit(guarded(absent(), "1")).await.unwrap());
    assert!(first > 0);
    assert_eq!(kv.commit(guarded(absent(), "2")).await.unwrap(), Outcome::Conflict);
    let at = |version| Check::Version(key("a"), version);
    assert_eq!(kv.commit(guarded(at(first + 1), "2")).await.unwrap(), Outcome::Conflict);
    let second = version(kv.commit(guarded(at(first), "2")).await.unwrap());
    assert!(second > first);
    let elsewhere = Check::Version(key("none"), first);
    assert_eq!(kv.commit(guarded(elsewhere, "3")).await.unwrap(), Outcome::Conflict);
    let have = kv.get_many(&[key("none"), key("a")]).await.unwrap();
    assert_eq!(have, [None, Some(Versioned { version: second, value: "2".into() })]);
}

pub(crate) async fn a_conflict_changes_nothing<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let old = version(kv.commit(put("old", "1")).await.unwrap());
    let before = dump(&kv).await;
    let mixed = |last: Check| Commit {
        checks: vec![Check::Absent(key("new")), last],
        puts: vec![(key("new"), "1".into())],
        deletes: vec![key("old")],
        adds: vec![(key("n"), 5)],
        raises: vec![(key("r"), "5".into())],
    };
    let outcome = kv.commit(mixed(Check::Absent(key("old")))).await.unwrap();
    assert_eq!(outcome, Outcome::Conflict);
    assert_eq!(dump(&kv).await, before);
    let done = version(kv.commit(mixed(Check::Version(key("old"), old))).await.unwrap());
    let versions: Vec<_> = dump(&kv).await.into_iter().map(|(k, v)| (k, v.version)).collect();
    let counted = if E::COUNTS { done } else { versions[0].1 };
    let raised = if E::COUNTS { done } else { versions[2].1 };
    assert_eq!(versions, [(key("n"), counted), (key("new"), done), (key("r"), raised)]);
}

pub(crate) async fn deletes_leave_nothing<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    kv.commit(put("a", "1")).await.unwrap();
    let delete = Commit { deletes: vec![key("a"), key("never")], ..Commit::default() };
    kv.commit(delete).await.unwrap();
    assert_eq!(get(&kv, "a").await, None);
    assert_eq!(dump(&kv).await, []);
    let again = Commit { checks: vec![Check::Absent(key("a"))], ..put("a", "2") };
    version(kv.commit(again).await.unwrap());
}

pub(crate) async fn nonsense_is_refused<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let twice = Commit { deletes: vec![key("a")], ..put("a", "1") };
    let added = Commit { adds: vec![(key("a"), 1)], ..put("a", "1") };
    let raised = Commit { raises: vec![(key("a"), "1".into())], ..put("a", "1") };
    let long = "x".repeat(E::KEY_BYTES_MAX + 1);
    for commit in [put("", "1"), put(&long, "1"), raise(&long, "1"), twice, added, raised] {
        let error = kv.commit(commit).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    kv.commit(put(&"x".repeat(E::KEY_BYTES_MAX), "1")).await.unwrap();
    assert_eq!(dump(&kv).await.len(), 1);
}

pub(crate) async fn a_check_alone_writes_nothing<E: Engine>() {
    let log = Arc::new(TestLog::default());
    let (_engine, kv) = E::fresh(Some(log.clone())).await;
    let newest = version(kv.commit(put("a", "1")).await.unwrap());
    let check = |name| Commit { checks: vec![Check::Absent(key(name))], ..Commit::default() };
    assert_eq!(kv.commit(check("b")).await.unwrap(), Outcome::Applied(newest));
    assert_eq!(kv.commit(check("a")).await.unwrap(), Outcome::Conflict);
    assert_eq!(log.take().len(), usize::from(E::LOGGED));
}

pub(crate) async fn checked_increments_lose_nothing<E: Engine>() {
    const TASKS: usize = 16;
    const EACH: usize = 25;
    let log = Arc::new(TestLog::default());
    let (_engine, kv) = E::fresh(Some(log.clone())).await;
    let kv = Arc::new(kv);
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let kv = Arc::clone(&kv);
            tokio::spawn(async move {
                for _ in 0..EACH {
                    increment(&*kv).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(count(&*kv, "n").await, (TASKS * EACH) as i64);
    assert_eq!(log.take().len(), if E::LOGGED { TASKS * EACH } else { 0 });
    log.assert_ordered();
}

/// Adds one by reading and checking, as often as it takes.
async fn increment(kv: &impl Kv) {
    loop {
        let have = get(kv, "n").await;
        let check = match &have {
            None => Check::Absent(key("n")),
            Some(have) => Check::Version(key("n"), have.version),
        };
        let now = have.map_or(0, |v| i64::from_le_bytes(v.value.as_ref().try_into().unwrap()));
        let next = Bytes::copy_from_slice(&(now + 1).to_le_bytes());
        let puts = vec![(key("n"), next)];
        let commit = Commit { checks: vec![check], puts, ..Commit::default() };
        if kv.commit(commit).await.unwrap() != Outcome::Conflict {
            return;
        }
        tokio::task::yield_now().await;
    }
}
