//! What callers see, and what is counted, when requests fail. All time is tokio's, held still.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutMode, UpdateVersion};
use tokio::time::Instant;
use weir_object::testing::{FaultControl, FaultPlan, Slow, SlowStore, connect_faulty};
use weir_object::{
    Bucket, BucketUrl, Component, ConnectOptions, Meter, MeterRow, ObjectStore, RequestKind,
    open_store,
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
