//! The suite over SlateDB, and what only a bucket can do to it.

mod behind;
mod checkpoints;
mod denied;
mod store;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;

use super::super::conformance::{Engine, TestLog, conformance, dump, get, key, put, version};
use super::*;
pub(super) use store::WatchedStore;

const PATH: &str = "volume/meta";

fn options() -> SlateOptions {
    SlateOptions { create: true, timeout_ms: 20_000, ..SlateOptions::default() }
}

async fn open(store: &Arc<impl ObjectStore>) -> SlateKv {
    SlateKv::open(store.clone(), PATH, options(), None).await.unwrap()
}

struct Slate(Arc<InMemory>);

#[async_trait]
impl Engine for Slate {
    type Kv = SlateKv;

    async fn fresh(log: Option<Arc<dyn CommitLog>>) -> (Self, SlateKv) {
        let store = Arc::new(InMemory::new());
        let kv = SlateKv::open(store.clone(), PATH, options(), log).await.unwrap();
        (Slate(store), kv)
    }

    async fn killed(&self) -> SlateKv {
        open(&Arc::new(self.0.fork())).await
    }

    async fn replay(kv: &SlateKv, version: Version, entry: &[u8]) -> Result<bool> {
        kv.replay(version, entry).await
    }
}

conformance!(Slate, with_checkpoints);

#[tokio::test]
async fn what_was_synced_or_closed_is_there_after_a_reopen() {
    let store = Arc::new(InMemory::new());
    let kv = open(&store).await;
    kv.commit(put("a", "1")).await.unwrap();
    kv.commit(put("b", "1")).await.unwrap();
    kv.sync().await.unwrap();
    assert_eq!(kv.durable(), 2);
    let synced = dump(&kv).await;
    let again = open(&Arc::new(store.fork())).await;
    assert_eq!(dump(&again).await, synced);
    assert_eq!((again.applied(), again.durable()), (2, 2));

    kv.commit(put("c", "1")).await.unwrap();
    kv.close().await.unwrap();
    let again = open(&store).await;
    assert_eq!(again.durable(), 3);
    assert_eq!(version(again.commit(put("d", "1")).await.unwrap()), 4);
    assert_eq!(get(&again, "c").await.unwrap().version, 3);
}

#[tokio::test]
async fn a_volume_that_was_not_made_is_not_found() {
    let store = Arc::new(InMemory::new());
    let plain = SlateOptions::default();
    let error = SlateKv::open(store.clone(), PATH, plain.clone(), None).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let following = SlateReader::open(store.clone(), PATH, SlateReaderOptions::default()).await;
    assert_eq!(following.err().unwrap().kind(), ErrorKind::NotFound);
    open(&store).await.close().await.unwrap();
    SlateKv::open(store.clone(), PATH, plain, None).await.unwrap();
    let bad = SlateOptions { meta_flush_ms: 1, poll_ms: 0, ..options() };
    let error = SlateKv::open(store, PATH, bad, None).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

#[tokio::test]
async fn a_second_writer_fences_the_first_for_good() {
    let store = Arc::new(InMemory::new());
    let first = open(&store).await;
    first.commit(put("a", "1")).await.unwrap();
    first.sync().await.unwrap();
    let second = open(&store).await;
    // The first may not know yet; what it takes now it can never flush.
    let _ = first.commit(put("a", "lost")).await;
    for _ in 0..2 {
        let error = first.sync().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
        let error = first.commit(put("a", "lost")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
        let error = first.get_many(&[key("a")]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
        assert_eq!(first.close().await.unwrap_err().kind(), ErrorKind::Fenced);
    }
    assert_eq!(get(&second, "a").await.unwrap().value, "1");
    second.commit(put("a", "2")).await.unwrap();
    second.sync().await.unwrap();
}

#[tokio::test]
async fn a_fenced_writer_that_only_reads_notices_too() {
    let store = Arc::new(InMemory::new());
    let quick = SlateOptions { poll_ms: 100, ..options() };
    let first = SlateKv::open(store.clone(), PATH, quick, None).await.unwrap();
    let _second = open(&store).await;
    let mut status = first.status.clone();
    status.wait_for(|status| status.close_reason.is_some()).await.unwrap();
    assert_eq!(first.sync().await.unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(first.get_many(&[key("a")]).await.unwrap_err().kind(), ErrorKind::Fenced);
}

#[tokio::test(start_paused = true)]
async fn what_a_full_log_does_not_take_is_in_the_bucket_before_the_commit_returns() {
    let store = Arc::new(WatchedStore::default());
    let log = Arc::new(TestLog::default());
    let hasty = SlateOptions { timeout_ms: 5_000, ..options() };
    let kv = SlateKv::open(store.clone(), PATH, hasty, Some(log.clone())).await.unwrap();
    kv.commit(put("a", "1")).await.unwrap();
    log.full.store(true, std::sync::atomic::Ordering::SeqCst);
    for n in 2..5 {
        assert_eq!(version(kv.commit(put("b", "1")).await.unwrap()), n);
        assert!(kv.durable() >= n, "{} of {n}", kv.durable());
    }
    // Nobody has it but this process: it is not acknowledged, and neither is what comes behind it.
    store.set_away(true);
    assert_eq!(kv.commit(put("c", "1")).await.unwrap_err().kind(), ErrorKind::Retry);
    log.full.store(false, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(kv.commit(put("d", "1")).await.unwrap_err().kind(), ErrorKind::Retry);
    assert_eq!(log.entries.lock().len(), 1, "a log without a gap");
    store.set_away(false);
    while kv.sync().await.is_err() {}
    kv.commit(put("e", "1")).await.unwrap();
    assert!(kv.durable() < 7, "the log has it");
    let entries = log.entries.lock().clone();
    assert_eq!(entries.iter().map(|(version, _)| *version).collect::<Vec<_>>(), [1, 7]);
    let again = open(&Arc::new(store.fork())).await;
    for (version, entry) in entries {
        assert_eq!(again.replay(version, &entry).await.unwrap(), version == 7);
    }
    assert_eq!(dump(&again).await, dump(&kv).await);
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_is_away_delays_and_loses_nothing() {
    let store = Arc::new(WatchedStore::default());
    let log = Arc::new(TestLog::default());
    let hasty = SlateOptions { timeout_ms: 5_000, meta_flush_ms: 20, ..options() };
    let kv = SlateKv::open(store.clone(), PATH, hasty, Some(log)).await.unwrap();
    store.set_away(true);
    for n in 0..50 {
        kv.commit(put(&format!("k{n}"), "1")).await.unwrap();
    }
    let (one, two) = tokio::join!(kv.sync(), kv.sync());
    for error in [one.unwrap_err(), two.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    }
    assert_eq!(kv.close().await.unwrap_err().kind(), ErrorKind::Retry);
    assert_eq!(kv.durable(), 0);
    assert!(store.count("refused") > 1);
    assert_eq!(dump(&kv).await.len(), 50);
    store.set_away(false);
    while kv.sync().await.is_err() {}
    assert_eq!(kv.durable(), 50);
    let again = open(&Arc::new(store.fork())).await;
    assert_eq!(dump(&again).await, dump(&kv).await);
    kv.close().await.unwrap();
}

/// A commit of 1 MiB.
fn large(n: u64) -> Commit {
    let value = Bytes::from(vec![n as u8; 1 << 20]);
    Commit { puts: vec![(format!("large{n:03}").into_bytes(), value)], ..Commit::default() }
}

#[tokio::test(start_paused = true)]
async fn a_day_without_the_bucket_does_not_end_the_engine() {
    let store = Arc::new(WatchedStore::default());
    let kv = open(&store).await;
    kv.commit(put("a", "1")).await.unwrap();
    kv.sync().await.unwrap();
    store.set_away(true);
    // Enough for tables and the manifest to be written, not only the log.
    for n in 0..80 {
        kv.commit(large(n)).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    assert_eq!(kv.sync().await.unwrap_err().kind(), ErrorKind::Retry);
    assert_eq!(kv.durable(), 1);
    store.set_away(false);
    kv.sync().await.unwrap();
    kv.close().await.unwrap();
    let again = open(&store).await;
    assert_eq!(again.durable(), 81);
    assert_eq!(dump(&again).await.len(), 81);
}

#[tokio::test]
async fn many_short_lives_end_without_waiting_for_a_compactor_that_never_came_to_it() {
    let store = Arc::new(InMemory::new());
    let hasty = SlateOptions { timeout_ms: 1_000, ..options() };
    let lives = 2 * super::options::L0_TABLES_MAX;
    for n in 0..lives {
        let kv = SlateKv::open(store.clone(), PATH, hasty.clone(), None).await.unwrap();
        kv.commit(put(&format!("k{n}"), "v")).await.unwrap();
        kv.close().await.unwrap();
    }
    assert_eq!(dump(&open(&store).await).await.len(), lives);
}

#[tokio::test(start_paused = true)]
async fn short_lives_end_soon_however_many_there_were() {
    let store = Arc::new(InMemory::new());
    let patient = SlateOptions { create: true, ..SlateOptions::default() };
    for n in 0..3 * super::options::L0_TABLES_MAX {
        let kv = SlateKv::open(store.clone(), PATH, patient.clone(), None).await.unwrap();
        kv.commit(put(&format!("k{n}"), "v")).await.unwrap();
        let began = tokio::time::Instant::now();
        kv.close().await.unwrap();
        let took = began.elapsed();
        assert!(took < Duration::from_secs(6), "the {n}th took {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn commits_wait_when_memory_is_full_and_go_on_when_the_bucket_is_back() {
    const COMMITS: u64 = 150;
    let store = Arc::new(WatchedStore::default());
    let log = Arc::new(TestLog::default());
    let small = SlateOptions { unflushed_bytes: 64 << 20, ..options() };
    let kv = SlateKv::open(store.clone(), PATH, small, Some(log.clone())).await.unwrap();
    let kv = Arc::new(kv);
    store.set_away(true);
    let writer = {
        let kv = Arc::clone(&kv);
        tokio::spawn(async move {
            for n in 0..COMMITS {
                // One that found no room in time was not made.
                while let Err(error) = kv.commit(large(n)).await {
                    assert_eq!(error.kind(), ErrorKind::Retry);
                }
            }
        })
    };
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!writer.is_finished());
    assert!((16..80).contains(&kv.applied()), "{} MiB in memory", kv.applied());
    store.set_away(false);
    writer.await.unwrap();
    kv.sync().await.unwrap();
    assert_eq!(kv.durable(), COMMITS);
    assert_eq!(log.entries.lock().len() as u64, COMMITS);
}

#[tokio::test(start_paused = true)]
async fn an_open_or_a_cold_read_without_the_bucket_is_to_be_retried() {
    let store = Arc::new(WatchedStore::default());
    let kv = open(&store).await;
    kv.commit(put("a", "1")).await.unwrap();
    kv.close().await.unwrap();
    let kv = open(&store).await;
    store.set_away(true);
    let error = kv.get_many(&[key("a")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    let error = SlateKv::open(store.clone(), PATH, options(), None).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    store.set_away(false);
    assert_eq!(get(&kv, "a").await.unwrap().value, "1");
}

#[tokio::test]
async fn a_write_whose_answer_was_lost_does_not_fence_its_writer() {
    let store = Arc::new(WatchedStore::default());
    let kv = open(&store).await;
    for round in 0..3 {
        store.lose_answers(1);
        kv.commit(put("a", &round.to_string())).await.unwrap();
        kv.sync().await.unwrap();
    }
    assert_eq!(store.count("answer lost"), 3);
    assert_eq!(get(&open(&Arc::new(store.fork())).await, "a").await.unwrap().value, "2");
}

#[tokio::test(start_paused = true)]
async fn many_syncs_share_few_flushes() {
    let store = Arc::new(WatchedStore::default());
    let kv = Arc::new(open(&store).await);
    store.set_latency(Duration::from_millis(30));
    let before = store.count("put");
    let tasks: Vec<_> = (0..100)
        .map(|n| {
            let kv = Arc::clone(&kv);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(n % 20)).await;
                let version = version(kv.commit(put(&format!("k{n}"), "1")).await.unwrap());
                let begun = tokio::time::Instant::now();
                kv.sync().await.unwrap();
                assert!(kv.durable() >= version);
                begun.elapsed()
            })
        })
        .collect();
    for task in tasks {
        // Virtual time: two flushes, whatever the machine does. Each is one PUT of 30 ms, or two
        // when commits slip in between SlateDB's freezing of its buffer and its start to write.
        let waited = task.await.unwrap();
        assert!(waited <= Duration::from_millis(4 * 30 + 1), "{waited:?}");
    }
    let puts = store.count("put") - before;
    assert!(puts <= 4, "{puts} PUTs for 100 syncs");
    kv.sync().await.unwrap();
    assert_eq!(store.count("put") - before, puts, "a sync with nothing to do costs nothing");
}

#[tokio::test]
async fn cold_lookups_hit_the_bucket_once_per_block() {
    let store = Arc::new(WatchedStore::default());
    let kv = open(&store).await;
    for n in 0..2_000 {
        kv.commit(put(&format!("k{n:05}"), "some value of forty bytes or thereabouts"))
            .await
            .unwrap();
    }
    kv.close().await.unwrap();
    let kv = open(&store).await;
    let keys: Vec<_> = (0..50).map(|n| key(&format!("k{n:05}"))).collect();
    let before = store.count("get");
    kv.get_many(&keys).await.unwrap();
    let cold = store.count("get") - before;
    kv.get_many(&keys).await.unwrap();
    assert_eq!(store.count("get") - before, cold, "the second look comes from the cache");
    // An index, a filter and the block or two that hold all 50.
    assert!(cold <= 5, "{cold} GETs");
}

#[tokio::test(start_paused = true)]
async fn a_follower_sees_what_is_durable_and_writes_nothing() {
    let store = Arc::new(WatchedStore::default());
    let kv = open(&store).await;
    kv.commit(put("a", "1")).await.unwrap();
    kv.sync().await.unwrap();
    let (writes, deletes) = (store.count("put"), store.count("delete"));
    let reader =
        SlateReader::open(store.clone(), PATH, SlateReaderOptions::default()).await.unwrap();
    assert_eq!(dump(&reader).await, dump(&kv).await);
    assert_eq!(reader.durable(), 1);
    let error = reader.commit(put("b", "1")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((store.count("put"), store.count("delete")), (writes, deletes));

    kv.commit(put("b", "1")).await.unwrap();
    kv.sync().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(dump(&reader).await, dump(&kv).await);
    assert_eq!(reader.durable(), 2);
    reader.close().await.unwrap();
}

/// Requests by kind that an hour of idleness costs, on a clock that skips ahead.
async fn idle(store: &WatchedStore, hours: u64) -> BTreeMap<&'static str, u64> {
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = store.counts();
    tokio::time::sleep(Duration::from_secs(hours * 3600)).await;
    let kinds = ["get", "put", "list", "delete"].into_iter();
    let spent = |kind| store.count(kind) - before.get(kind).copied().unwrap_or(0);
    kinds.map(|kind| (kind, spent(kind) / hours)).collect()
}

#[tokio::test(start_paused = true)]
async fn an_idle_mount_costs_what_its_documentation_says() {
    let store = Arc::new(WatchedStore::default());
    let kv = open(&store).await;
    kv.commit(put("a", "1")).await.unwrap();
    kv.sync().await.unwrap();
    let writer = idle(&store, 10).await;
    assert!(writer["get"] <= 70 && writer["list"] <= 4, "{writer:?}");
    assert_eq!((writer["put"], writer["delete"]), (0, 0), "{writer:?}");
    kv.close().await.unwrap();
    let reader =
        SlateReader::open(store.clone(), PATH, SlateReaderOptions::default()).await.unwrap();
    let follower = idle(&store, 10).await;
    assert!(follower["get"] <= 18_000, "{follower:?}");
    assert_eq!((follower["list"], follower["put"]), (0, 0), "{follower:?}");
    reader.close().await.unwrap();
}

#[tokio::test]
async fn it_runs_on_a_local_directory() {
    let directory = tempfile::tempdir().unwrap();
    let local = LocalFileSystem::new_with_prefix(directory.path()).unwrap().with_fsync(true);
    let store = Arc::new(local);
    let kv = open(&store).await;
    for n in 0..20 {
        kv.commit(put(&format!("k{n}"), "1")).await.unwrap();
        kv.sync().await.unwrap();
    }
    let before = dump(&kv).await;
    kv.close().await.unwrap();
    assert_eq!(dump(&open(&store).await).await, before);
}

#[tokio::test]
async fn what_is_said_to_be_new_is_not_searched_for_and_hides_no_value() {
    let kv = open(&Arc::new(InMemory::new())).await;
    kv.commit(put("a", "1")).await.unwrap();
    let look = |name: &str| kv.shared.recent().look(&[key(name)]).found.remove(0);
    kv.expect_absent(&key("b"), &|| false);
    assert_eq!(look("b"), None);
    kv.expect_absent(&key("b"), &|| true);
    assert_eq!(look("b"), Some(None));
    kv.commit(put("b", "1")).await.unwrap();
    kv.expect_absent(&key("b"), &|| true);
    assert_eq!(get(&kv, "b").await.unwrap().value, "1");
    // Others let go of much while somebody still asks.
    kv.expect_absent(&key("c"), &|| {
        let mut recent = kv.shared.recent_mut();
        for version in 3..200 {
            let puts = vec![(format!("x{version}").into(), "1".into())];
            recent.apply(super::recent::Change { version, puts, deletes: Vec::new() });
            recent.fed();
        }
        true
    });
    assert_eq!(look("c"), None, "a commit since may have put it");
}
