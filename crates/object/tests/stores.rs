//! The conformance suite on every kind of store, sound and failing.

use weir_object::testing::{FakeS3, FaultPlan, S3Server};
use weir_object::testing::{conformance, connect_faulty, random_listings};
use weir_object::{Bucket, BucketUrl, Component, ConnectOptions, Meter};

fn connect(url: &str) -> Bucket {
    let url: BucketUrl = url.parse().expect("url");
    Bucket::connect(&url, &ConnectOptions::default(), &Meter::new()).expect("connect")
}

/// The suite with one request in twenty failing before, half-way or after.
async fn with_faults(url: &BucketUrl, options: &ConnectOptions) {
    let seed = rand::random();
    eprintln!("seed {seed}");
    let (meter, plan) = (Meter::new(), FaultPlan::everywhere(0.05, seed));
    let (bucket, control) = connect_faulty(url, options, &meter, &plan).expect("connect");
    conformance(&bucket).await;
    let fired = control.fired_in_all();
    let counted: u64 = meter.snapshot().rows.iter().map(|row| row.failed).sum();
    assert!(fired > 50, "only {fired} faults fired");
    // A body spoilt on an object that is not there passes for the answer that it is; and a server on a
    // busy machine fails once by itself.
    let near = counted * 10 >= fired * 9 && counted * 50 <= fired * 51;
    assert!(near, "{counted} counted, {fired} fired");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory() {
    conformance(&connect("memory://conformance/a/prefix")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_with_faults() {
    let url = "memory://conformance-faults".parse().expect("url");
    with_faults(&url, &ConnectOptions::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn directory() {
    let dir = tempfile::tempdir().expect("temp dir");
    conformance(&connect(&format!("file://{}", dir.path().display()))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn directory_with_faults() {
    let dir = tempfile::tempdir().expect("temp dir");
    let url = format!("file://{}", dir.path().display()).parse().expect("url");
    with_faults(&url, &ConnectOptions::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s3() {
    let server = S3Server::start().await.expect("S3 server");
    let url = server.bucket("conformance", "a/prefix").expect("bucket");
    let bucket = Bucket::connect(&url, &server.options(), &Meter::new()).expect("connect");
    conformance(&bucket).await;
    let who = bucket.whose_keys().await.expect("keys");
    assert!(who.starts_with("access key ") && who.ends_with(" of the options"), "{who}");
    assert_eq!(bucket.probe_checksums(Component::Check).await.expect("asked"), Some(true));
}

#[tokio::test]
async fn a_server_that_takes_what_was_damaged_is_known() {
    // It answers whatever is asked with 200.
    let server = FakeS3::start(Default::default(), 1, false).await.expect("start");
    let url = "s3://any/prefix".parse().expect("url");
    let bucket = Bucket::connect(&url, &server.options(), &Meter::new()).expect("connect");
    assert_eq!(bucket.probe_checksums(Component::Check).await.expect("asked"), Some(false));
    let open = ConnectOptions { anonymous: true, ..server.options() };
    let bucket = Bucket::connect(&url, &open, &Meter::new()).expect("connect");
    assert_eq!(bucket.whose_keys().await.as_deref(), Some("requests without a signature"));
    let directory = connect("memory://checksums");
    assert_eq!(directory.probe_checksums(Component::Check).await.expect("not asked"), None);
    assert_eq!(directory.whose_keys().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_with_faults() {
    let server = S3Server::start().await.expect("S3 server");
    let url = server.bucket("faults", "p").expect("bucket");
    with_faults(&url, &server.options()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_listings_of_memory() {
    let seed = rand::random();
    eprintln!("seed {seed}");
    random_listings(&connect("memory://listings/p"), 6_000, seed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_listings_of_a_directory() {
    let seed = rand::random();
    eprintln!("seed {seed}");
    let dir = tempfile::tempdir().expect("temp dir");
    random_listings(&connect(&format!("file://{}", dir.path().display())), 3_000, seed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_listings_of_s3() {
    let seed = rand::random();
    eprintln!("seed {seed}");
    let server = S3Server::start().await.expect("S3 server");
    let url = server.bucket("listings", "p").expect("bucket");
    let bucket = Bucket::connect(&url, &server.options(), &Meter::new()).expect("connect");
    // A neighbour whose prefix begins alike.
    let other = server.bucket("listings", "pq").expect("bucket");
    let other = Bucket::connect(&other, &server.options(), &Meter::new()).expect("connect");
    other.put(Component::Check, "x", "not ours").await.expect("put");
    random_listings(&bucket, 6_000, seed).await;
}
