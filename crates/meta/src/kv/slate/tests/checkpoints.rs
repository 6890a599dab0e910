//! States that are kept: over reopens, compactions and SlateDB's own collector.

use slatedb::admin::AdminBuilder;
use slatedb::config::{GarbageCollectorDirectoryOptions, GarbageCollectorOptions};

use super::*;
use crate::kv::{CheckpointId, Checkpoints};

/// Deletes at once all that no manifest names which is in use.
async fn collect(store: &Arc<InMemory>) {
    let at_once = GarbageCollectorDirectoryOptions {
        min_age: Duration::ZERO,
        ..GarbageCollectorDirectoryOptions::default()
    };
    let options = GarbageCollectorOptions {
        manifest_options: Some(at_once),
        wal_options: Some(at_once),
        compacted_options: Some(at_once),
        compactions_options: Some(at_once),
        ..GarbageCollectorOptions::default()
    };
    let admin = AdminBuilder::new(PATH, store.clone() as Arc<dyn ObjectStore>).build();
    admin.run_gc_once(options).await.unwrap();
}

async fn fill(kv: &SlateKv, value: &str) {
    for n in 0..200 {
        let puts = (0..20).map(|m| (key(&format!("k{n:03}/{m:02}")), value.to_owned().into()));
        kv.commit(Commit { puts: puts.collect(), ..Commit::default() }).await.unwrap();
    }
}

#[tokio::test]
async fn a_kept_state_outlives_its_writer_and_what_is_collected() {
    let store = Arc::new(InMemory::new());
    let mut kv = open(&store).await;
    fill(&kv, "old").await;
    let (kept, old) = (kv.keep("old").await.unwrap(), dump(&kv).await);
    for round in 0..6 {
        fill(&kv, &format!("new {round}")).await;
        // Each close makes a table, and so there is something to compact.
        kv.close().await.unwrap();
        kv = open(&store).await;
        collect(&store).await;
        assert_eq!(dump(&*kv.at(kept).await.unwrap()).await, old, "after {round}");
    }
    let follower = SlateReader::open(store.clone(), PATH, SlateReaderOptions::default()).await;
    let follower = follower.unwrap();
    assert_eq!(dump(&*follower.at(kept).await.unwrap()).await, old);
    let refused = [follower.keep("no").await.map(drop), follower.release(kept).await];
    for result in refused {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::ReadOnly);
    }
    kv.release(kept).await.unwrap();
    assert_eq!(kv.kept().await.unwrap(), []);
    assert_eq!(kv.at(kept).await.err().unwrap().kind(), ErrorKind::NotFound);
    assert_eq!(kv.at(CheckpointId(7)).await.err().unwrap().kind(), ErrorKind::NotFound);
    collect(&store).await;
    assert_eq!(get(&kv, "k000/00").await.unwrap().value, "new 5");
}

#[tokio::test]
async fn what_was_committed_before_is_in_it_also_where_only_memory_has_it() {
    let store = Arc::new(InMemory::new());
    let slow = SlateOptions { meta_flush_ms: 60_000, ..options() };
    let kv = SlateKv::open(store.clone(), PATH, slow, None).await.unwrap();
    for n in 0..50 {
        kv.commit(put(&format!("k{n}"), "1")).await.unwrap();
        let kept = kv.keep("now").await.unwrap();
        assert!(get(&*kv.at(kept).await.unwrap(), &format!("k{n}")).await.is_some(), "{n}");
        kv.release(kept).await.unwrap();
    }
}

#[tokio::test]
async fn nobody_keeps_anything_once_another_one_writes() {
    let store = Arc::new(InMemory::new());
    let first = open(&store).await;
    first.commit(put("a", "1")).await.unwrap();
    let kept = first.keep("a").await.unwrap();
    let second = open(&store).await;
    assert_eq!(first.keep("b").await.unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(first.release(kept).await.unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(second.kept().await.unwrap(), [(kept, "a".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_is_away_is_told_of() {
    let store = Arc::new(WatchedStore::default());
    let hasty = SlateOptions { timeout_ms: 5_000, ..options() };
    let kv = SlateKv::open(store.clone(), PATH, hasty, None).await.unwrap();
    kv.commit(put("a", "1")).await.unwrap();
    store.set_away(true);
    assert_eq!(kv.keep("a").await.unwrap_err().kind(), ErrorKind::Retry);
    store.set_away(false);
    // It may be made for all that: who asks finds it by its name.
    kv.keep("b").await.unwrap();
    assert!(kv.kept().await.unwrap().iter().any(|(_, name)| name == "b"));
}
