//! States that are kept, with several nodes that commit.

use super::*;
use crate::kv::Checkpoints;
use crate::kv::conformance::{dump, key, put};

async fn rows(server: &TestServer, options: &PostgresOptions, table: &str) -> i64 {
    let text = format!("SELECT count(*) FROM \"weir_{}\".{table}", options.volume);
    raw(server).await.query_one(&text, &[]).await.unwrap().get(0)
}

/// Moves one from a counter to another one, over and over.
async fn transfer(kv: &PostgresKv, until: &std::sync::atomic::AtomicBool) -> i64 {
    let mut done = 0;
    while !until.load(std::sync::atomic::Ordering::Relaxed) {
        let (from, to) = (format!("n{}", done % 7), format!("n{}", done % 5));
        let mut commit = add("all", 0);
        match from == to {
            true => commit.adds.push((key("same"), 1)),
            false => commit.adds.extend([(from.into(), -1), (to.into(), 1)]),
        }
        kv.commit(commit).await.unwrap();
        done += 1;
    }
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_has_commits_of_others_whole_or_not_at_all() {
    let options = shared().volume();
    let kvs = [open(&options).await, open(&options).await, open(&options).await];
    let ended = std::sync::atomic::AtomicBool::new(false);
    let keep = async {
        let mut kept = Vec::new();
        for n in 0..40 {
            let id = kvs[0].keep(&n.to_string()).await.unwrap();
            let state = kvs[2].at(id).await.unwrap();
            kept.push((id, dump(&*state).await));
            if n % 3 == 2 {
                let (id, _) = kept.swap_remove(n % kept.len());
                kvs[1].release(id).await.unwrap();
            }
        }
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        kept
    };
    let work = futures::future::join_all(
        kvs[1..].iter().flat_map(|kv| [kv, kv]).map(|kv| transfer(kv, &ended)),
    );
    let (kept, done) = futures::join!(keep, work);
    assert!(done.iter().sum::<i64>() > 40, "{done:?}");
    for (id, then) in kept {
        let numbers = then.iter().filter(|(key, _)| key.len() == 2);
        let sum: i64 =
            numbers.map(|(_, v)| i64::from_le_bytes(v.value[..].try_into().unwrap())).sum();
        assert_eq!(sum, 0, "{then:?}");
        assert_eq!(dump(&*kvs[1].at(id).await.unwrap()).await, then);
        kvs[0].release(id).await.unwrap();
    }
    assert_eq!(
        (rows(shared(), &options, "past").await, rows(shared(), &options, "kept").await),
        (0, 0)
    );
}

#[tokio::test]
async fn what_nobody_keeps_costs_nothing_and_cannot_be_read() {
    let options = shared().volume();
    let (one, other) = (open(&options).await, open(&options).await);
    for kv in [&one, &other] {
        kv.commit(put("a", "1")).await.unwrap();
        kv.commit(add("n", 1)).await.unwrap();
    }
    assert_eq!(rows(shared(), &options, "past").await, 0);
    let first = one.keep("first").await.unwrap();
    let read = other.at(first).await.unwrap();
    for n in 0..5 {
        other.commit(put("a", &n.to_string())).await.unwrap();
        other.commit(add("n", 1)).await.unwrap();
        one.commit(put(&n.to_string(), "")).await.unwrap();
    }
    // Of each row one, however often it was changed, and none of those that came later.
    assert_eq!(rows(shared(), &options, "past").await, 2);
    assert_eq!(get(&*read, "a").await.unwrap().value, "1");
    one.release(first).await.unwrap();
    assert_eq!(rows(shared(), &options, "past").await, 0);
    let gone = read.get_many(&[key("a"), key("none")]).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound, "{gone}");
    assert_eq!(read.scan(b"none", None, 9).await.unwrap_err().kind(), ErrorKind::NotFound);
    other.commit(put("a", "2")).await.unwrap();
    other.commit(add("n", -9)).await.unwrap();
    assert_eq!(rows(shared(), &options, "past").await, 0);
    assert_eq!((count(&one, "n").await, count(&other, "n").await), (-2, -2));
}

#[tokio::test]
async fn who_only_reads_keeps_nothing_and_reads_what_is_kept() {
    let options = shared().volume();
    let writer = open(&options).await;
    writer.commit(put("a", "1")).await.unwrap();
    let kept = writer.keep("a").await.unwrap();
    writer.commit(put("a", "2")).await.unwrap();
    let reader = open(&PostgresOptions { read_only: true, create: false, ..options }).await;
    assert_eq!(get(&*reader.at(kept).await.unwrap(), "a").await.unwrap().value, "1");
    for refused in [reader.keep("b").await.map(drop), reader.release(kept).await] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ReadOnly);
    }
    let state = writer.at(kept).await.unwrap();
    assert_eq!(state.commit(put("a", "3")).await.unwrap_err().kind(), ErrorKind::ReadOnly);
}

#[tokio::test]
async fn tables_of_an_older_version_keep_states_too() {
    let options = shared().volume();
    let place = connect::Place::new(&options);
    let until = Instant::now() + Duration::from_secs(20);
    let client = place.plain(until).await.map_err(Failed::into_error).unwrap().client;
    let made = schema::prepare_by(&client, &place, true, &schema::STEPS[..2]).await;
    made.map_err(Failed::into_error).unwrap();
    let text = format!(
        "INSERT INTO {0}.kv (key, shard, version, value) VALUES ('a', 0, 2, 'old');
         INSERT INTO {0}.lane (lane, owner, last, seen) VALUES (1, 0, 2, now())",
        place.schema
    );
    client.batch_execute(&text).await.unwrap();
    let kv = open(&options).await;
    let kept = kv.keep("old").await.unwrap();
    kv.commit(put("a", "new")).await.unwrap();
    assert_eq!(get(&*kv.at(kept).await.unwrap(), "a").await.unwrap().value, "old");
    assert_eq!(get(&kv, "a").await.unwrap().value, "new");
    let begun: i64 = client
        .query_one(&format!("SELECT count(*) FROM {}.lane", place.schema), &[])
        .await
        .unwrap()
        .get(0);
    assert_eq!(begun, 1, "the lane that there was is used on");
}
