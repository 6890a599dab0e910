//! What callers see, and what is counted, when requests fail. All time is tokio's, held still.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutMode, UpdateVersion};
use tokio::time::Instant;
use weir_object::testing::{Completion, FaultControl, FaultPlan, Slow, SlowStore, connect_faulty};
use weir_object::{
    Bucket, BucketUrl, Component, ConnectOptions, Copied, KeyPage, KeyRange, Meter, MeterRow,
    ObjectStore, PutCondition, RequestKind, open_store,
};
use weir_types::ErrorKind;

const DATA: Component = Component::Data;

struct Faulty {
    bucket: Bucket,
    sound: Bucket,
    control: FaultControl,
    meter: Meter,
}

/// A bucket in memory, `name` its own, failing as `plan` says; and the same without faults.
fn faulty(name: &str, plan: &str) -> Faulty {
    let url: BucketUrl = format!("memory://faults-{name}/p").parse().expect("url");
    let options = ConnectOptions::default();
    let (meter, plan) = (Meter::new(), plan.parse::<FaultPlan>().expect("plan"));
    let (bucket, control) = connect_faulty(&url, &options, &meter, &plan).expect("connect");
    let sound = Bucket::connect(&url, &options, &Meter::new()).expect("connect");
    Faulty { bucket, sound, control, meter }
}

impl Faulty {
    fn row(&self, kind: RequestKind) -> MeterRow {
        self.meter.snapshot().row(DATA, kind).cloned().expect("some request")
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_is_counted() {
    let at = faulty("count", "op=put,nth=1,what=503,where=before;op=put,nth=1,what=timeout");
    at.bucket.put(DATA, "k", "four").await.expect("put");
    let row = at.row(RequestKind::Put);
    assert_eq!((row.requests, row.failed, row.retries, row.bytes_sent), (3, 2, 2, 12));
    assert_eq!(row.buckets.iter().sum::<u64>(), 3);
    at.bucket.get(DATA, "k").await.expect("get");
    at.bucket.get(DATA, "absent").await.expect_err("absent");
    let row = at.row(RequestKind::Get);
    assert_eq!(
        (row.requests, row.failed, row.bytes_received),
        (2, 0, 4),
        "an answer is no failure"
    );
}

#[tokio::test(start_paused = true)]
async fn dropped_requests_are_counted() {
    let url = "memory://faults-dropped".parse().expect("url");
    let options = ConnectOptions::default();
    let slow = Slow { latency: Duration::from_secs(9), bytes_per_s: 0 };
    let store = SlowStore::new(open_store(&url, &options).expect("open"), slow);
    let meter = Meter::new();
    let bucket = Bucket::from_store(&url, Arc::new(store), &options, &meter);
    let put = bucket.put(DATA, "k", "four");
    tokio::time::timeout(Duration::from_secs(1), put).await.expect_err("dropped");
    let row = meter.snapshot().row(DATA, RequestKind::Put).cloned().expect("counted");
    assert_eq!((row.requests, row.failed, row.latency_us_sum), (1, 1, 1_000_000));
}

#[tokio::test(start_paused = true)]
async fn a_creation_whose_answer_was_lost_is_ours() {
    let at = faulty("lost", "op=put,nth=1,where=after,what=reset");
    assert!(at.bucket.put_new(DATA, "k", "same").await.expect("put_new"));
    assert_eq!(at.row(RequestKind::Put).requests, 2);
    assert_eq!(at.row(RequestKind::Head).requests, 1);
    assert!(!at.bucket.put_new(DATA, "k", "same").await.expect("put_new"));
    assert_eq!(at.row(RequestKind::Head).requests, 1, "without doubt there is nothing to look up");
}

#[tokio::test(start_paused = true)]
async fn a_creation_that_never_arrived_is_not() {
    let at = faulty("never", "op=put,nth=1,where=before,what=timeout");
    assert!(at.sound.put_new(DATA, "k", "same").await.expect("the other writer"));
    let created = at.bucket.put_new(DATA, "k", "same").await.expect("put_new");
    assert!(!created, "the same bytes, but not our object");
    assert_eq!(at.row(RequestKind::Head).requests, 1);
}

#[tokio::test(start_paused = true)]
async fn a_creation_that_is_tried_again_after_it_was_given_up_is_ours() {
    // The bucket is silent for longer than anybody waits, and has taken it.
    let at =
        faulty("given-up", "op=put,nth=1,where=after,what=timeout;op=put,where=before,what=503");
    let (store, path) = (at.bucket.store(DATA), Path::from("k"));
    let put = |store: Arc<dyn ObjectStore>, bytes: &'static str| {
        let path = path.clone();
        async move { store.put_opts(&path, bytes.into(), PutMode::Create.into()).await }
    };
    put(store.clone(), "log").await.expect_err("no answer");
    at.control.set_on(false);
    put(store.clone(), "log").await.expect("it is there, and it is ours");
    put(store, "log").await.expect_err("once more is another creation");

    let at = faulty("given-up-and-taken", "op=put,where=before,what=timeout");
    let (store, other) = (at.bucket.store(DATA), at.sound.store(DATA));
    put(store.clone(), "log").await.expect_err("no answer");
    put(other, "log").await.expect("another writer's");
    at.control.set_on(false);
    put(store, "log").await.expect_err("the same bytes, but not our object");
}

#[tokio::test(start_paused = true)]
async fn so_it_is_where_each_try_seals_it_anew() {
    let golden = std::path::PathBuf::from("../segment/tests/golden/sealed");
    let encryption = std::fs::read(golden.join("encryption.json")).expect("it is there");
    let encryption: weir_types::Encryption = serde_json::from_slice(&encryption).expect("reads");
    let key = std::fs::read(golden.join("key")).expect("it is there");
    let secret = weir_keys::Secret::parse(&key).expect("a key");
    let keys = weir_keys::unlock(&encryption, &secret).expect("opens");
    let at = faulty("sealed", "op=put,nth=1,where=after,what=timeout;op=put,where=before,what=503");
    let store = weir_object::sealed(at.bucket.store(DATA), &keys);
    let path = Path::from("meta/wal/1.sst");
    let put = || store.put_opts(&path, "log".into(), PutMode::Create.into());
    put().await.expect_err("no answer");
    at.control.set_on(false);
    put().await.expect("it is there, and it is ours");
    put().await.expect_err("once more is another creation");
}

#[tokio::test(start_paused = true)]
async fn of_creations_at_once_one_is_made_and_the_others_know_it() {
    let url = "memory://faults-at-once".parse().expect("url");
    let options = ConnectOptions::default();
    let slow = Slow { latency: Duration::from_secs(1), bytes_per_s: 0 };
    let below = SlowStore::new(open_store(&url, &options).expect("open"), slow);
    let bucket = Bucket::from_store(&url, Arc::new(below), &options, &Meter::new());
    // The metadata's engine has several writers over one store: of its manifest each makes the next one.
    let store = bucket.store(DATA);
    for (key, texts) in [("other", ["one", "two", "six"]), ("same", ["one", "one", "one"])] {
        let path = Path::from(key);
        let puts = texts.map(|text| store.put_opts(&path, text.into(), PutMode::Create.into()));
        let made: Vec<_> =
            futures::future::join_all(puts).await.iter().map(Result::is_ok).collect();
        assert_eq!(made.iter().filter(|made| **made).count(), 1, "{key}: {made:?}");
        let have = store.get(&path).await.expect("get").bytes().await.expect("body");
        let winner = texts.iter().zip(&made).find(|(_, made)| **made).map(|(text, _)| *text);
        assert_eq!(Some(&have[..]), winner.map(str::as_bytes));
    }
    // What was given up is known for ours again, and other bytes are another creation.
    let path = Path::from("given-up");
    let put = |text: &'static str| store.put_opts(&path, text.into(), PutMode::Create.into());
    tokio::time::timeout(Duration::from_millis(1_500), put("one"))
        .await
        .expect("made")
        .expect("made");
    put("two").await.expect_err("it is there");
    let dropped = tokio::time::timeout(Duration::from_millis(10), put("three")).await;
    dropped.expect_err("dropped");
    put("two").await.expect_err("it is still there, and is no creation of three");
}

#[tokio::test(start_paused = true)]
async fn lost_answers_of_updates() {
    let at = faulty("update", "op=put,nth=2,where=after,what=503;op=put,nth=3,where=after");
    let store = at.bucket.store(DATA);
    let (path, text) = (Path::from("k"), |text: &'static str| Bytes::from_static(text.as_bytes()));
    let first = store.put_opts(&path, text("1").into(), PutMode::Create.into()).await.expect("1");
    let version = |e_tag| PutMode::Update(UpdateVersion { e_tag, version: None }).into();
    let second = store.put_opts(&path, text("2").into(), version(first.e_tag)).await.expect("2");
    assert_eq!(store.head(&path).await.expect("head").e_tag, second.e_tag);

    // The answer is lost, and before we ask again somebody builds upon what we wrote.
    let other = at.sound.store(DATA);
    let builds = async {
        loop {
            let have = other.get(&path).await.expect("get");
            let etag = have.meta.e_tag.clone();
            if have.bytes().await.expect("body") == "3" {
                break other.put_opts(&path, text("4").into(), version(etag)).await.expect("4");
            }
            tokio::time::sleep(Duration::from_micros(1)).await;
        }
    };
    let updates = store.put_opts(&path, text("3").into(), version(second.e_tag));
    let (third, _) = tokio::join!(updates, builds);
    let error = third.expect_err("nobody can know");
    assert!(matches!(error, object_store::Error::Generic { .. }), "{error}");
    assert!(error.to_string().contains("unknown"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn bodies_cut_short_are_read_again() {
    let plan = "op=get,nth=1,where=half,what=truncate;op=get,nth=1,where=half,what=reset";
    let at = faulty("short", plan);
    at.sound.put(DATA, "k", "0123456789").await.expect("put");
    assert_eq!(at.bucket.get_range(DATA, "k", 2..8).await.expect("get"), "234567");
    let row = at.row(RequestKind::Get);
    assert_eq!((row.requests, row.failed, row.bytes_received), (3, 2, 6));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_off_goes_on_where_it_was() {
    let plan = "op=get,nth=1,where=half,what=truncate;op=get,nth=1,where=half,what=reset;\
                op=get,nth=1,where=before,what=503";
    let at = faulty("pieces", plan);
    at.sound.put(DATA, "k", "0123456789").await.expect("put");
    let mut got = Vec::new();
    let mut take = |piece: Bytes| got.extend_from_slice(&piece);
    at.bucket.get_pieces(DATA, "k", 1..9, None, &mut take).await.expect("get");
    assert_eq!(got, b"12345678");
    let row = at.row(RequestKind::Get);
    assert_eq!((row.requests, row.failed), (4, 3));
    assert_eq!(row.bytes_received, 8, "no byte came twice");
    let mut none = |_: Bytes| panic!("nothing is there");
    let error = at.bucket.get_pieces(DATA, "k", 5..11, None, &mut none).await.expect_err("too far");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[tokio::test(start_paused = true)]
async fn a_slow_read_is_asked_for_twice_within_the_budget() {
    let url = "memory://faults-hedge".parse().expect("url");
    let options = ConnectOptions::default();
    let slow = Slow { latency: Duration::from_secs(5), bytes_per_s: 0 };
    let inner = open_store(&url, &options).expect("open");
    let store = SlowStore::one_read_of(inner, 50, slow);
    let meter = Meter::new();
    let bucket = Bucket::from_store(&url, Arc::new(store), &options, &meter);
    bucket.put(DATA, "k", "0123456789").await.expect("put");
    let start = Instant::now();
    for _ in 0..300 {
        assert_eq!(bucket.get_range(DATA, "k", 0..3).await.expect("get"), "012");
    }
    // Five or six met the slow one; a second request answered each.
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    let row = meter.snapshot().row(DATA, RequestKind::Get).cloned().expect("gets");
    assert!((5..=7).contains(&row.hedges), "{} hedges", row.hedges);
    assert_eq!((row.requests, row.failed), (300 + row.hedges, 0));

    let off = ConnectOptions { hedge_percent: 0, ..options };
    let inner = open_store(&url, &off).expect("open");
    let store = SlowStore::one_read_of(inner, 50, slow);
    let bucket = Bucket::from_store(&url, Arc::new(store), &off, &Meter::new());
    let start = Instant::now();
    for _ in 0..100 {
        bucket.get_range(DATA, "k", 0..3).await.expect("get");
    }
    assert_eq!(start.elapsed(), 2 * slow.latency);
}

#[tokio::test(start_paused = true)]
async fn a_flipped_bit_is_for_checksums_to_find() {
    let at = faulty("flip", "op=get,where=half,what=bitflip");
    at.sound.put(DATA, "k", vec![0; 100]).await.expect("put");
    let got = at.bucket.get(DATA, "k").await.expect("get");
    assert_eq!(got.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    at.control.set_on(false);
    assert_eq!(at.bucket.get(DATA, "k").await.expect("get"), vec![0; 100]);
    assert_eq!((at.control.fired(RequestKind::Get), at.control.fired_in_all()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn listings_go_on_where_they_broke() {
    let at = faulty("list", "op=list,nth=1,where=half;op=list,nth=1,where=after;seed=5");
    for n in 0..2_500 {
        at.sound.put(DATA, &format!("k/{n}"), "").await.expect("put");
    }
    let keys: Vec<_> =
        at.bucket.list(DATA, "k").map_ok(|info| info.key).try_collect().await.expect("list");
    assert_eq!((keys.len(), keys.iter().collect::<BTreeSet<_>>().len()), (2_500, 2_500));
    assert_eq!(at.control.fired(RequestKind::List), 2);
    let row = at.row(RequestKind::List);
    assert_eq!((row.requests, row.failed), (5, 2), "three pages, two repeated");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_costs_bounded_time_and_requests() {
    let at = faulty("away", "");
    at.control.set_vanished(true);
    let start = Instant::now();
    let error = at.bucket.put(DATA, "k", "x").await.expect_err("away");
    assert_eq!(error.kind(), ErrorKind::Retry);
    let text = error.to_string();
    assert!(text.contains("PUT memory://faults-away/p/k failed"), "{text}");
    assert!(text.contains("attempts in") && text.contains("check the endpoint"), "{text}");
    assert!(start.elapsed() <= Duration::from_secs(60), "{:?}", start.elapsed());
    // Full jitter halves the longest pauses on average; chance alone makes 100 all but impossible.
    let requests = at.row(RequestKind::Put).requests;
    assert!((10..100).contains(&requests), "{requests} attempts in a minute");
    at.control.set_vanished(false);
    at.bucket.put(DATA, "k", "x").await.expect("back");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_asked_again_and_given_up() {
    let url = "memory://faults-hang".parse().expect("url");
    let options = ConnectOptions::default();
    let slow = Slow { latency: Duration::from_secs(3600), bytes_per_s: 0 };
    let store = SlowStore::new(open_store(&url, &options).expect("open"), slow);
    let meter = Meter::new();
    let bucket = Bucket::from_store(&url, Arc::new(store), &options, &meter);
    let start = Instant::now();
    let error = bucket.put(DATA, "k", "x").await.expect_err("hangs");
    assert_eq!(error.kind(), ErrorKind::Retry);
    assert!(error.to_string().contains("no answer in time"), "{error}");
    assert!(start.elapsed() <= Duration::from_secs(61), "{:?}", start.elapsed());
    assert_eq!(meter.snapshot().requests(RequestKind::Put), 2);
}

#[tokio::test(start_paused = true)]
async fn slow_stores_take_their_time() {
    let url = "memory://faults-slow".parse().expect("url");
    let options = ConnectOptions::default();
    let slow = Slow { latency: Duration::from_millis(100), bytes_per_s: 1 << 20 };
    let store = SlowStore::new(open_store(&url, &options).expect("open"), slow);
    let bucket = Bucket::from_store(&url, Arc::new(store), &options, &Meter::new());
    let start = Instant::now();
    bucket.put(DATA, "k", vec![7; 1 << 20]).await.expect("put");
    assert_eq!(start.elapsed().as_millis(), 1100);
    let start = Instant::now();
    bucket.get_range(DATA, "k", 0..1 << 19).await.expect("get");
    assert_eq!(start.elapsed().as_millis(), 600);
}

/// Reads all of `k` while it has `etag`; after the first piece, `other` stores something else.
async fn read_while_it_changes(
    bucket: &Bucket,
    etag: &str,
    len: u64,
    other: impl Future<Output = ()>,
) -> weir_types::Result<Vec<u8>> {
    let begun = AtomicBool::new(false);
    let mut got = Vec::new();
    let mut take = |piece: Bytes| {
        begun.store(true, Ordering::SeqCst);
        got.extend_from_slice(&piece);
    };
    let read = bucket.get_pieces(DATA, "k", 0..len, Some(etag), &mut take);
    let change = async {
        while !begun.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_micros(1)).await;
        }
        other.await;
    };
    let (read, ()) = tokio::join!(read, change);
    read.map(|()| got)
}

#[tokio::test(start_paused = true)]
async fn a_body_is_not_resumed_in_another_version() {
    // Where the first body breaks off is chance: not at its very beginning.
    let at = faulty("version", "op=get,nth=1,where=half,what=truncate,seed=3");
    at.sound.put(DATA, "k", vec![1; 100_000]).await.expect("put");
    let etag = at.sound.head(DATA, "k").await.expect("head").etag.expect("ETag");
    let change = async { at.sound.put(DATA, "k", vec![2; 100_000]).await.expect("put") };
    let read = read_while_it_changes(&at.bucket, &etag, 100_000, change).await;
    assert_eq!(read.expect_err("it changed").kind(), ErrorKind::Conflict);
    assert_eq!(at.row(RequestKind::Get).requests, 2, "told at once");
    // The same, but what it changes to is gone again.
    let at = faulty("gone", "op=get,nth=1,where=half,what=reset,seed=3");
    at.sound.put(DATA, "k", vec![1; 100_000]).await.expect("put");
    let etag = at.sound.head(DATA, "k").await.expect("head").etag.expect("ETag");
    let change = async { at.sound.delete(DATA, "k").await.expect("delete") };
    let read = read_while_it_changes(&at.bucket, &etag, 100_000, change).await;
    assert_eq!(read.expect_err("it is gone").kind(), ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_second_request_reads_no_other_version() {
    let url = "memory://faults-hedged-version".parse().expect("url");
    let options = ConnectOptions::default();
    let slow = Slow { latency: Duration::from_secs(5), bytes_per_s: 0 };
    let inner = open_store(&url, &options).expect("open");
    let store = SlowStore::one_read_of(inner, 50, slow);
    let meter = Meter::new();
    let bucket = Bucket::from_store(&url, Arc::new(store), &options, &meter);
    bucket.put(DATA, "k", "old").await.expect("put");
    let etag = bucket.head(DATA, "k").await.expect("head").etag.expect("ETag");
    let read = async || {
        let mut got = Vec::new();
        let mut take = |piece: Bytes| got.extend_from_slice(&piece);
        bucket.get_pieces(DATA, "k", 0..3, Some(&etag), &mut take).await.map(|()| got)
    };
    for _ in 0..48 {
        assert_eq!(read().await.expect("get"), b"old");
    }
    let change = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        bucket.put(DATA, "k", "new").await.expect("put");
    };
    let (got, ()) = tokio::join!(read(), change);
    assert_eq!(meter.snapshot().row(DATA, RequestKind::Get).expect("gets").hedges, 1);
    assert_eq!(got.expect("the first request saw it"), b"old");
    assert_eq!(read().await.expect_err("changed").kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn a_file_that_is_written_into_while_it_is_read_is_told() {
    let dir = tempfile::tempdir().expect("temp dir");
    let url = format!("file://{}", dir.path().display()).parse().expect("url");
    let bucket = Bucket::connect(&url, &ConnectOptions::default(), &Meter::new()).expect("connect");
    let len = 5 << 20;
    bucket.put(DATA, "k", vec![1; len]).await.expect("put");
    let etag = bucket.head(DATA, "k").await.expect("head").etag.expect("ETag");
    let mut got = 0;
    let mut take = |piece: Bytes| {
        got += piece.len();
        let file = std::fs::File::options().write(true).open(dir.path().join("k")).expect("open");
        file.write_all_at(&[2; 10], len as u64 - 10).expect("write");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(10_000_000_000)).expect("touch");
    };
    let read = bucket.get_pieces(DATA, "k", 0..len as u64, Some(&etag), &mut take).await;
    assert_eq!(read.expect_err("changed").kind(), ErrorKind::Conflict);
    assert!(got > 0);
    // A file that another takes the place of is read to its end: it is as it was.
    let etag = bucket.head(DATA, "k").await.expect("head").etag.expect("ETag");
    let mut got = Vec::new();
    let mut take = |piece: Bytes| {
        std::fs::write(dir.path().join("new"), "new").expect("write");
        std::fs::rename(dir.path().join("new"), dir.path().join("k")).expect("rename");
        got.extend_from_slice(&piece);
    };
    bucket.get_pieces(DATA, "k", 0..len as u64, Some(&etag), &mut take).await.expect("whole");
    assert!(got.len() == len && got[..len - 10].iter().all(|byte| *byte == 1));
}

#[tokio::test(start_paused = true)]
async fn conditional_writes_whose_answer_was_lost_are_looked_up() {
    let (none, absent) = (BTreeMap::new(), PutCondition::Absent);
    let at = faulty("object", "op=put,nth=1,where=after,what=reset");
    let put = at.bucket.put_object(DATA, "k", "x", &none, &absent).await.expect("put");
    assert_eq!(put.expect("ours").etag, at.sound.head(DATA, "k").await.expect("head").etag);
    assert_eq!((at.row(RequestKind::Put).requests, at.row(RequestKind::Head).requests), (2, 1));

    // Somebody else was first, and we cannot know it from the answer.
    let at = faulty("object-theirs", "op=put,nth=1,where=before,what=timeout");
    at.sound.put(DATA, "k", "y").await.expect("the other writer");
    let put = at.bucket.put_object(DATA, "k", "x", &none, &absent).await.expect("put");
    assert_eq!(put, None);
    let stale = PutCondition::Matches("\"stale\"".to_owned());
    let at = faulty("object-stale", "op=put,nth=1,where=before,what=timeout");
    at.sound.put(DATA, "k", "y").await.expect("the other writer");
    let put = at.bucket.put_object(DATA, "k", "x", &none, &stale).await.expect("put");
    assert_eq!(put, None);
}

#[tokio::test(start_paused = true)]
async fn each_step_of_an_upload_is_repeated_and_counted() {
    let plan = "op=put,nth=1,where=after;op=put,nth=2,where=before;op=put,nth=3,where=after;\
                op=put,nth=3,where=after,what=timeout";
    let at = faulty("upload", plan);
    let upload = at.bucket.begin_upload(DATA, "k", 5, &BTreeMap::new()).await.expect("begin");
    upload.part(1, Bytes::from_static(b"01234")).await.expect("part");
    let done = upload.complete(&PutCondition::Absent).await.expect("complete").expect("ours");
    assert_eq!(at.sound.get(DATA, "k").await.expect("get"), "01234");
    assert_eq!(at.sound.head(DATA, "k").await.expect("head").etag, done.etag);
    let row = at.row(RequestKind::Put);
    assert_eq!((row.requests, row.failed), (7, 4), "three steps, four repeated");
    // Before, for the condition; after, for the answer that was lost.
    assert_eq!(at.row(RequestKind::Head).requests, 2);
}

/// An upload in parts to a store in memory that takes its time for the last step, with so many
/// milliseconds for a call.
async fn completed(name: &str, completion: Completion, timeout_ms: u64) -> (Duration, bool) {
    let url: BucketUrl = format!("memory://faults-{name}/p").parse().expect("url");
    let options = ConnectOptions { timeout_ms, ..ConnectOptions::default() };
    let store = open_store(&url, &options).expect("opens");
    let store = Arc::new(SlowStore::completing(store, completion));
    let bucket = Bucket::from_store(&url, store, &options, &Meter::new());
    let upload = bucket.begin_upload(DATA, "k", 5, &BTreeMap::new()).await.expect("begin");
    upload.part(1, Bytes::from_static(b"01234")).await.expect("part");
    let since = Instant::now();
    let done = upload.complete(&PutCondition::Absent).await;
    let there = bucket.get(DATA, "k").await.is_ok_and(|bytes| bytes == "01234");
    (since.elapsed(), done.is_ok_and(|made| made.is_some()) && there)
}

#[tokio::test(start_paused = true)]
async fn a_store_may_take_minutes_to_put_parts_together() {
    let four = Duration::from_secs(240);
    let (took, ours) = completed("completes", Completion::After(four), 60_000).await;
    assert!(ours && took >= four && took < four * 2, "{took:?} {ours}");
}

#[tokio::test(start_paused = true)]
async fn parts_that_were_put_together_unheard_are_not_sent_again() {
    // One attempt takes all the time that there is.
    let (took, ours) = completed("unheard", Completion::Unanswered, 20_000).await;
    assert!(ours && took < Duration::from_secs(3_600), "{took:?} {ours}");
}

#[tokio::test]
async fn an_upload_that_is_dropped_leaves_nothing() {
    let dir = tempfile::tempdir().expect("temp dir");
    let url = format!("file://{}", dir.path().display()).parse().expect("url");
    let bucket = Bucket::connect(&url, &ConnectOptions::default(), &Meter::new()).expect("connect");
    let left = || std::fs::read_dir(dir.path()).expect("read").count();
    let upload = bucket.begin_upload(DATA, "k", 5, &BTreeMap::new()).await.expect("begin");
    upload.part(1, Bytes::from_static(b"01234")).await.expect("part");
    assert_eq!(left(), 1);
    let listed: Vec<_> =
        bucket.scan_keys(DATA, KeyRange::default(), 1).try_collect().await.expect("scan");
    assert_eq!(listed, [KeyPage::default()], "parts do not show");
    drop(upload);
    while left() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Copies `from` to `to` in memory; `other` does something after the first attempt.
async fn copy_while(
    at: &Faulty,
    condition: &PutCondition,
    other: impl Future<Output = ()>,
) -> weir_types::Result<Copied> {
    let etag = at.sound.head(DATA, "from").await.expect("head").etag;
    let copy = at.bucket.copy_object_if(DATA, "from", etag.as_deref(), "to", condition);
    let change = async {
        while at.control.fired(RequestKind::Copy) == 0 {
            tokio::time::sleep(Duration::from_micros(1)).await;
        }
        other.await;
    };
    tokio::join!(copy, change).0
}

const LOST: &str = "op=copy,nth=1,where=after,what=reset";
const NEVER: &str = "op=copy,nth=1,where=before,what=timeout";

#[tokio::test(start_paused = true)]
async fn a_copy_whose_answer_was_lost_is_known_again() {
    let put = async |bucket: &Bucket, key: &str, text: &'static str, condition: &PutCondition| {
        let put = bucket.put_object(DATA, key, text, &BTreeMap::new(), condition).await;
        put.expect("put").expect("stored").etag.expect("ETag")
    };
    let (any, absent) = (PutCondition::Any, PutCondition::Absent);
    // With and without the mark of a conditional write.
    for (name, mark) in [("plain", &any), ("marked", &absent)] {
        for lost in [LOST, NEVER] {
            let at = faulty(&format!("copy-{name}-{}", lost == LOST), lost);
            put(&at.sound, "from", "the bytes", mark).await;
            let copied = copy_while(&at, &absent, async {}).await.expect("copy");
            let Copied::Done(info) = copied else { panic!("{copied:?}") };
            assert_eq!(info, at.sound.head(DATA, "to").await.expect("head"));
            assert_eq!(at.sound.get(DATA, "to").await.expect("get"), "the bytes");
            // What is seen to be there is not copied again.
            assert_eq!(at.row(RequestKind::Copy).requests, if lost == LOST { 1 } else { 2 });
        }
        // Over an object that is known.
        let at = faulty(&format!("copy-over-{name}"), LOST);
        put(&at.sound, "from", "the bytes", mark).await;
        let known = PutCondition::Matches(put(&at.sound, "to", "known", &any).await);
        let copied = copy_while(&at, &known, async {}).await.expect("copy");
        assert!(matches!(copied, Copied::Done(_)), "{copied:?}");
        assert_eq!(at.sound.get(DATA, "to").await.expect("get"), "the bytes");
        // The source is replaced behind it: only the mark tells now.
        let at = faulty(&format!("copy-source-{name}"), LOST);
        put(&at.sound, "from", "the bytes", mark).await;
        let change = async { drop(put(&at.sound, "from", "other", &any).await) };
        let copied = copy_while(&at, &absent, change).await.expect("copy");
        match mark {
            PutCondition::Absent => assert!(matches!(copied, Copied::Done(_)), "{copied:?}"),
            _ => assert_eq!(copied, Copied::SourceChanged),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_somebody_puts_between_two_attempts_of_a_copy_stays() {
    let (any, absent) = (PutCondition::Any, PutCondition::Absent);
    for (round, plan) in [LOST, NEVER].into_iter().enumerate() {
        let at = faulty(&format!("copy-target-{round}"), plan);
        at.sound.put(DATA, "from", "the bytes").await.expect("put");
        // As long as the copy is.
        let other = async { at.sound.put(DATA, "to", "THE BYTES").await.expect("put") };
        let copied = copy_while(&at, &absent, other).await.expect("copy");
        assert_eq!(copied, Copied::TargetChanged);
        assert_eq!(at.sound.get(DATA, "to").await.expect("get"), "THE BYTES");

        let at = faulty(&format!("copy-known-{round}"), plan);
        at.sound.put(DATA, "from", "the bytes").await.expect("put");
        at.sound.put(DATA, "to", "known").await.expect("put");
        let known = at.sound.head(DATA, "to").await.expect("head").etag.expect("ETag");
        let other = async { at.sound.delete(DATA, "to").await.expect("delete") };
        let copied = copy_while(&at, &PutCondition::Matches(known), other).await.expect("copy");
        assert_eq!(copied, Copied::TargetChanged);
        let error = at.sound.head(DATA, "to").await.expect_err("deleted");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
    let at = faulty("copy-source", NEVER);
    at.sound.put(DATA, "from", "the bytes").await.expect("put");
    let other = async { at.sound.put(DATA, "from", "THE BYTES").await.expect("put") };
    assert_eq!(copy_while(&at, &any, other).await.expect("copy"), Copied::SourceChanged);
    let error = at.sound.head(DATA, "to").await.expect_err("never copied");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_delete_whose_answer_was_lost_spares_what_came_after() {
    for (name, plan, other) in [
        ("lost", "op=delete,nth=1,where=after,what=reset", false),
        ("never", "op=delete,nth=1,where=before,what=503", false),
        ("lost-other", "op=delete,nth=1,where=after,what=reset", true),
        ("never-other", "op=delete,nth=1,where=before,what=503", true),
    ] {
        let at = faulty(&format!("delete-{name}"), plan);
        at.sound.put(DATA, "k", "old").await.expect("put");
        let etag = at.sound.head(DATA, "k").await.expect("head").etag.expect("ETag");
        let change = async {
            while at.control.fired(RequestKind::Delete) == 0 {
                tokio::time::sleep(Duration::from_micros(1)).await;
            }
            if other {
                at.sound.put(DATA, "k", "new").await.expect("put");
            }
        };
        let (deleted, ()) = tokio::join!(at.bucket.delete_if(DATA, "k", &etag), change);
        assert_eq!(deleted.expect("delete"), !other, "{name}");
        assert_eq!(at.sound.get(DATA, "k").await.is_ok(), other, "{name}");
    }
}
