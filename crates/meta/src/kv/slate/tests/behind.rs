//! Commits that SlateDB does not have yet: who sees them, who waits for them, who loses them.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

/// Up to which commit SlateDB has them.
fn fed(kv: &SlateKv) -> Version {
    kv.feeder.fed()
}

#[tokio::test(start_paused = true)]
async fn a_kill_before_slate_has_a_commit_loses_nothing() {
    let store = Arc::new(InMemory::new());
    let log = Arc::new(TestLog::default());
    let kv = SlateKv::open(store.clone(), PATH, options(), Some(log.clone())).await.unwrap();
    for n in 0..20 {
        kv.commit(put(&format!("k{n}"), "1")).await.unwrap();
    }
    let delete = Commit { deletes: vec![key("k3")], ..Commit::default() };
    kv.commit(delete).await.unwrap();
    assert_eq!((kv.applied(), fed(&kv)), (21, 0), "nobody waited, so nothing was fed");
    assert_eq!(get(&kv, "k7").await.unwrap().version, 8);
    assert_eq!(get(&kv, "k3").await, None);
    assert_eq!(dump(&kv).await.len(), 19);
    let again = open(&Arc::new(store.fork())).await;
    assert_eq!(dump(&again).await, []);
    let entries = log.entries.lock().clone();
    for (version, entry) in entries {
        assert!(again.replay(version, &entry).await.unwrap());
    }
    assert_eq!(dump(&again).await, dump(&kv).await);
    again.sync().await.unwrap();
    assert_eq!((again.durable(), fed(&again)), (21, 21));
}

#[tokio::test(start_paused = true)]
async fn a_sync_and_a_close_cover_what_slate_does_not_have_yet() {
    let store = Arc::new(WatchedStore::default());
    let kv = open(&store).await;
    kv.commit(put("a", "1")).await.unwrap();
    kv.commit(put("b", "1")).await.unwrap();
    assert_eq!(fed(&kv), 0);
    let begun = tokio::time::Instant::now();
    kv.sync().await.unwrap();
    assert_eq!((kv.durable(), fed(&kv)), (2, 2));
    assert!(begun.elapsed() < Duration::from_millis(2), "a sync does not wait for more commits");
    kv.commit(put("c", "1")).await.unwrap();
    kv.close().await.unwrap();
    assert_eq!(open(&store).await.durable(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_commit_waits_for_a_bucket_that_is_away_no_longer_than_its_limit() {
    let store = Arc::new(WatchedStore::default());
    let options = SlateOptions { unflushed_bytes: 64 << 20, ..options() };
    let kv = SlateKv::open(store.clone(), PATH, options, None).await.unwrap();
    store.set_away(true);
    let large = |n: usize| Commit {
        puts: vec![(key(&format!("k{n}")), Bytes::from(vec![7; 4 << 20]))],
        ..Commit::default()
    };
    let mut taken = 0;
    let (error, waited) = loop {
        let begun = tokio::time::Instant::now();
        match kv.commit(large(taken)).await {
            Ok(_) => taken += 1,
            Err(error) => break (error, begun.elapsed()),
        }
        assert!(taken < 100, "memory has no end");
    };
    assert_eq!(error.kind(), ErrorKind::Retry);
    assert!(error.to_string().contains("the bucket has not answered"), "{error}");
    assert!((20_000..21_000).contains(&waited.as_millis()), "{waited:?}");
    assert_eq!(kv.applied(), taken as Version, "it was not made");
    store.set_away(false);
    kv.commit(large(taken)).await.unwrap();
    kv.sync().await.unwrap();
    assert_eq!(dump(&kv).await.len(), taken + 1);
}

#[tokio::test(start_paused = true)]
async fn commits_reach_the_bucket_without_a_sync() {
    let store = Arc::new(WatchedStore::default());
    let kv = open(&store).await;
    kv.commit(put("a", "1")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(kv.durable(), 1);
}

#[tokio::test]
async fn what_a_fenced_writer_commits_is_lost_to_it_and_nobody_else_sees_it() {
    let store = Arc::new(InMemory::new());
    let log = Arc::new(TestLog::default());
    let first = SlateKv::open(store.clone(), PATH, options(), Some(log)).await.unwrap();
    first.commit(put("kept", "1")).await.unwrap();
    first.sync().await.unwrap();
    let second = open(&store).await;
    let mut acknowledged = 0;
    // Each sync may be the one that notices; from then on all calls fail, also those that memory
    // alone could answer.
    let error = loop {
        match first.commit(put("lost", &acknowledged.to_string())).await {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
        let _ = first.sync().await;
    };
    assert!(acknowledged <= 1, "{acknowledged} commits after a sync that failed");
    for error in [
        error,
        first.get_many(&[key("lost")]).await.unwrap_err(),
        first.scan(b"lost", None, 9).await.unwrap_err(),
        first.sync().await.unwrap_err(),
        first.close().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    }
    assert_eq!(dump(&second).await.len(), 1);
}

#[tokio::test]
async fn reads_and_scans_agree_with_a_sorted_map_wherever_the_rows_are() {
    let seed =
        std::env::var("WEIR_TEST_SEED").map_or_else(|_| rand::random(), |s| s.parse().unwrap());
    eprintln!("WEIR_TEST_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let store = Arc::new(InMemory::new());
    let mut kv = open(&store).await;
    let mut model = BTreeMap::new();
    let name = |n: u32| format!("{}/{n:02}", ["c", "d", "e"][n as usize % 3]);
    for _ in 0..600 {
        let mut commit = Commit::default();
        for n in 0..40 {
            match rng.random_range(0..60) {
                0 | 1 => commit.puts.push((key(&name(n)), Bytes::from(vec![n as u8; 9]))),
                2..5 => commit.deletes.push(key(&name(n))),
                _ => {}
            }
        }
        if !changes_nothing(&commit) {
            let version = version(kv.commit(commit.clone()).await.unwrap());
            for (key, value) in commit.puts {
                model.insert(key, Versioned { version, value });
            }
            commit.deletes.iter().for_each(|key| _ = model.remove(key));
        }
        match rng.random_range(0..60) {
            0 => {
                kv.close().await.unwrap();
                kv = open(&store).await;
            }
            1..4 => kv.sync().await.unwrap(),
            _ => {}
        }
        let some = key(&name(rng.random_range(0..40)));
        assert_eq!(
            kv.get_many(std::slice::from_ref(&some)).await.unwrap(),
            [model.get(&some).cloned()]
        );
        let prefix = ["", "c/", "d/", "e"][rng.random_range(0..4)].as_bytes();
        let after = rng.random_bool(0.5).then(|| name(rng.random_range(0..40)).into_bytes());
        let limit = rng.random_range(0..8);
        let wanted = model.iter().filter(|(key, _)| key.starts_with(prefix));
        let wanted = wanted.filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after));
        let wanted: Vec<_> = wanted.take(limit).map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(kv.scan(prefix, after.as_deref(), limit).await.unwrap(), wanted);
    }
}
