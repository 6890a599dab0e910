//! The redo log, and what a kill leaves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rand::RngExt;
use weir_types::ErrorKind;

use super::engine::{Engine, TestLog, dump, put};
use super::random::{apply_to_model, random_commit, seeded};
use crate::kv::{Kv, Outcome};

pub(crate) async fn a_log_that_fails_stops_the_commit_only<E: Engine>() {
    let log = Arc::new(TestLog::default());
    let (_engine, kv) = E::fresh(Some(log.clone())).await;
    kv.commit(put("a", "1")).await.unwrap();
    let before = dump(&kv).await;
    log.broken.store(true, Ordering::SeqCst);
    let error = kv.commit(put("b", "1")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    assert_eq!(dump(&kv).await, before);
    log.broken.store(false, Ordering::SeqCst);
    assert_eq!(kv.commit(put("c", "1")).await.unwrap(), Outcome::Applied(2));
    log.assert_ordered();
}

pub(crate) async fn a_cut_off_caller_leaves_log_and_map_equal<E: Engine>() {
    let mut rng = seeded("a_cut_off_caller_leaves_log_and_map_equal");
    let log = Arc::new(TestLog::default());
    let (engine, kv) = E::fresh(Some(log.clone())).await;
    let kv = Arc::new(kv);
    for n in 0..200 {
        let caller = {
            let kv = Arc::clone(&kv);
            tokio::spawn(async move { kv.commit(put(&format!("k{n}"), "1")).await })
        };
        for _ in 0..rng.random_range(0..6) {
            tokio::task::yield_now().await;
        }
        caller.abort();
        let _ = caller.await;
    }
    // One more, so that the last of those cut off has ended.
    kv.commit(put("end", "1")).await.unwrap();
    log.assert_ordered();
    let again = engine.killed().await;
    for (version, entry) in log.take() {
        E::replay(&again, version, &entry).await.unwrap();
    }
    assert_eq!(dump(&again).await, dump(&*kv).await);
}

pub(crate) async fn a_kill_loses_nothing_that_was_acknowledged<E: Engine>() {
    let mut rng = seeded("a_kill_loses_nothing_that_was_acknowledged");
    let log = Arc::new(TestLog::default());
    let (engine, kv) = E::fresh(Some(log.clone())).await;
    let (mut model, mut newest) = (BTreeMap::new(), 0);
    for round in 0..120 {
        let commit = random_commit(&mut rng, &model);
        apply_to_model(&mut model, &mut newest, commit.clone());
        kv.commit(commit).await.unwrap();
        if round == 50 {
            kv.sync().await.unwrap();
        }
    }
    let again = engine.killed().await;
    let held = again.durable();
    for (version, entry) in log.take() {
        assert_eq!(E::replay(&again, version, &entry).await.unwrap(), version > held);
    }
    assert_eq!(dump(&again).await, model.into_iter().collect::<Vec<_>>());
    assert_eq!(again.commit(put("next", "1")).await.unwrap(), Outcome::Applied(newest + 1));
}

pub(crate) async fn replay_refuses_gaps_and_garbage<E: Engine>() {
    let log = Arc::new(TestLog::default());
    let (_engine, kv) = E::fresh(Some(log.clone())).await;
    for name in ["a", "b", "c"] {
        kv.commit(put(name, "some value")).await.unwrap();
    }
    let entries = log.take();
    let (_other, empty) = E::fresh(None).await;
    let corrupt = async |version, entry: &[u8]| {
        let error = E::replay(&empty, version, entry).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    };
    corrupt(2, &entries[1].1).await;
    corrupt(1, &entries[1].1).await;
    for cut in 0..entries[0].1.len() {
        corrupt(1, &entries[0].1[..cut]).await;
    }
    corrupt(1, &[&entries[0].1[..], b"x"].concat()).await;
    assert_eq!(dump(&empty).await, []);
    assert!(E::replay(&empty, 1, &entries[0].1).await.unwrap());
    assert!(!E::replay(&empty, 1, &entries[0].1).await.unwrap());
}
