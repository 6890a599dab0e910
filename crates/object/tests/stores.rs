//! The conformance suite on every kind of store, sound and failing.

use weir_object::testing::{FaultPlan, S3Server, conformance, connect_faulty, random_listings};
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
    conformance(&Bucket::connect(&url, &server.options(), &Meter::new()).expect("connect")).await;
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
