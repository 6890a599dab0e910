//! Several nodes on one database at once.

use std::sync::atomic::{AtomicI64, Ordering};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::super::Check;
use super::super::super::conformance::{key, put};
use super::super::plan::Plan;
use super::*;

/// What a node does with what it reads: creates, moves of an amount, and adds.
async fn work(kv: &PostgresKv, mut rng: StdRng, added: &AtomicI64, created: &AtomicI64) {
    for _ in 0..60 {
        match rng.random_range(0..3) {
            0 => {
                let name = format!("f{}", rng.random_range(0..40));
                let checks = vec![Check::Absent(key(&name))];
                let adds = vec![(key("files"), 1)];
                let commit = Commit { checks, adds, ..put(&name, "x") };
                let made = kv.commit(commit).await.unwrap() != Outcome::Conflict;
                created.fetch_add(i64::from(made), Ordering::Relaxed);
            }
            1 => {
                let n = rng.random_range(-5..9);
                kv.commit(add("sum", n)).await.unwrap();
                added.fetch_add(n, Ordering::Relaxed);
            }
            _ => transfer(kv, &mut rng).await,
        }
    }
}

/// Moves 1 from one account to another, both checked: the sum stays.
async fn transfer(kv: &PostgresKv, rng: &mut StdRng) {
    let (from, to) = (rng.random_range(0..4_u8), rng.random_range(0..4_u8));
    let keys = [vec![b'a', from], vec![b'a', to]];
    loop {
        let have = kv.get_many(&keys).await.unwrap();
        let have: Vec<_> = have.into_iter().flatten().collect();
        if from == to {
            return;
        }
        let checks = keys.iter().zip(&have).map(|(k, v)| Check::Version(k.clone(), v.version));
        let moved = [have[0].value[0].wrapping_sub(1), have[1].value[0].wrapping_add(1)];
        let puts = keys.iter().zip(moved).map(|(k, v)| (k.clone(), vec![v].into()));
        let commit = Commit { checks: checks.collect(), puts: puts.collect(), ..Commit::default() };
        if kv.commit(commit).await.unwrap() != Outcome::Conflict {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_lose_nothing() {
    let seed =
        std::env::var("WEIR_TEST_SEED").map_or_else(|_| rand::random(), |s| s.parse().unwrap());
    eprintln!("three_nodes_lose_nothing: WEIR_TEST_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let options = shared().volume();
    let kvs = futures::future::join_all((0..3).map(|_| open(&options))).await;
    let puts = (0..4_u8).map(|n| (vec![b'a', n], vec![50].into())).collect();
    kvs[0].commit(Commit { puts, ..Commit::default() }).await.unwrap();
    let (added, created) = (AtomicI64::new(0), AtomicI64::new(0));
    let works = kvs.iter().flat_map(|kv| [kv, kv]);
    let works = works.map(|kv| work(kv, StdRng::seed_from_u64(rng.random()), &added, &created));
    futures::future::join_all(works.collect::<Vec<_>>()).await;
    for kv in &kvs {
        let files = kv.scan(b"f", None, 100).await.unwrap();
        let names = files.iter().filter(|(key, _)| key[..] != *b"files").count() as i64;
        let created = created.load(Ordering::Relaxed);
        assert_eq!((names, count(kv, "files").await), (created, created));
        assert_eq!(count(kv, "sum").await, added.load(Ordering::Relaxed));
        let accounts = kv.scan(b"a", None, 9).await.unwrap();
        assert_eq!(accounts.iter().map(|(_, v)| u32::from(v.value[0])).sum::<u32>(), 200);
        let mut versions: Vec<_> = files.iter().map(|(_, v)| v.version).collect();
        versions.sort_unstable();
        versions.dedup();
        assert!(versions.iter().all(|v| *v > 0) && versions.len() > 10, "{versions:?}");
    }
}

#[tokio::test]
async fn what_two_check_stops_neither_and_what_one_changes_is_waited_for() {
    let options = shared().volume();
    let kv = open(&PostgresOptions { timeout_ms: 2_000, ..options.clone() }).await;
    let parent = match kv.commit(put("parent", "dir")).await.unwrap() {
        Outcome::Applied(version) => version,
        Outcome::Conflict => panic!("conflict"),
    };
    let create = |name: &str| Commit {
        checks: vec![Check::Version(key("parent"), parent), Check::Absent(key(name))],
        adds: vec![(key("children"), 1)],
        ..put(name, "file")
    };
    kv.commit(add("children", 0)).await.unwrap();
    let (other, schema) = (raw(shared()).await, super::super::sql::schema_of(&options.volume));
    let held = |how| format!("BEGIN; SELECT 1 FROM {schema}.kv WHERE key = 'parent' FOR {how}");
    other.batch_execute(&held("SHARE")).await.unwrap();
    kv.commit(create("a")).await.unwrap();
    other.batch_execute("ROLLBACK").await.unwrap();
    other.batch_execute(&held("UPDATE")).await.unwrap();
    let begun = Instant::now();
    let error = kv.commit(create("b")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    assert!(!error.to_string().contains("not known"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(4));
    // Reads wait for nobody.
    assert_eq!(count(&kv, "children").await, 1);
    other.batch_execute("ROLLBACK").await.unwrap();
    kv.commit(create("b")).await.unwrap();
    assert_eq!(count(&kv, "children").await, 2);
}

#[tokio::test]
async fn counters_of_two_nodes_do_not_wait_for_each_other() {
    let options = shared().volume();
    let (one, two) = (open(&options).await, open(&options).await);
    one.commit(add("n", 1)).await.unwrap();
    let (other, schema) = (raw(shared()).await, super::super::sql::schema_of(&options.volume));
    let held = format!("BEGIN; UPDATE {schema}.kv SET n = n + 10 WHERE key = 'n'");
    other.batch_execute(&held).await.unwrap();
    two.commit(add("n", 2)).await.unwrap();
    assert_eq!(count(&one, "n").await, 3);
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(count(&one, "n").await, 13);
}

#[tokio::test]
async fn raises_of_two_nodes_do_not_wait_for_each_other() {
    let options = PostgresOptions { timeout_ms: 5_000, ..shared().volume() };
    let (one, two) = (open(&options).await, open(&options).await);
    let raise = |value: &str| Commit {
        raises: vec![(key("r"), value.to_owned().into())],
        ..Commit::default()
    };
    one.commit(raise("b")).await.unwrap();
    let (other, schema) = (raw(shared()).await, super::super::sql::schema_of(&options.volume));
    let held = format!("BEGIN; UPDATE {schema}.kv SET value = 'd' WHERE key = 'r'");
    other.batch_execute(&held).await.unwrap();
    two.commit(raise("c")).await.unwrap();
    assert_eq!(get(&one, "r").await.unwrap().value, "c");
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(get(&one, "r").await.unwrap().value, "d");
}

#[tokio::test]
async fn a_lane_that_is_given_back_is_taken_again() {
    let options = shared().volume();
    for n in 1..4 {
        let kv = open(&options).await;
        kv.commit(add("n", 1)).await.unwrap();
        kv.close().await.unwrap();
        assert_eq!(kv.commit(add("n", 1)).await.unwrap_err().kind(), ErrorKind::Invalid);
        let (other, schema) = (raw(shared()).await, super::super::sql::schema_of(&options.volume));
        let rows = other.query(&format!("SELECT n FROM {schema}.kv"), &[]).await.unwrap();
        assert_eq!((rows.len(), rows[0].get::<_, i64>(0)), (1, n));
    }
}

#[tokio::test]
async fn a_lane_that_another_took_is_no_longer_committed_in() {
    let options = shared().volume();
    let kv = open(&options).await;
    kv.commit(add("n", 1)).await.unwrap();
    let (other, schema) = (raw(shared()).await, super::super::sql::schema_of(&options.volume));
    let taken = format!("UPDATE {schema}.lane SET owner = 7");
    other.batch_execute(&taken).await.unwrap();
    kv.commit(add("n", 1)).await.unwrap();
    assert_eq!(count(&kv, "n").await, 2);
    let text = format!("SELECT lane, owner <> 7 FROM {schema}.lane ORDER BY lane");
    let rows = other.query(&text, &[]).await.unwrap();
    let lanes: Vec<(i32, bool)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(lanes, [(1, false), (2, true)]);
}

#[tokio::test]
async fn long_scans_and_large_values_come_whole() {
    let kv = open(&shared().volume()).await;
    let large: Vec<u8> = (0..3 << 20).map(|n| (n % 251) as u8).collect();
    let puts = (0..4_500_u32).map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; 9].into()));
    let puts: Vec<_> = puts.chain([(key("large"), large.clone().into())]).collect();
    let commit = Commit { puts, ..Commit::default() };
    assert!(Plan::of(&commit).unwrap().rows() > 3_000, "the server takes more than DSQL does");
    kv.commit(commit).await.unwrap();
    let found = kv.scan(b"", None, usize::MAX).await.unwrap();
    assert_eq!(found.len(), 4_501);
    assert!(found.is_sorted_by_key(|(key, _)| key.clone()));
    assert_eq!(found[4_500].1.value, large);
    for limit in [1, 1_999, 2_000, 2_001, 4_000] {
        assert_eq!(kv.scan(b"", None, limit).await.unwrap(), found[..limit]);
    }
}
