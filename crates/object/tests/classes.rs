//! Storage classes, of a store that has them and of some that do not.
#![allow(missing_docs, reason = "tests say what they hold by their names")]

use std::sync::Arc;

use weir_object::testing::{Classes, S3Server};
use weir_object::{Bucket, BucketUrl, Component, ConnectOptions, Meter, RequestKind, open_store};
use weir_types::{ErrorKind, StorageClass};

const DATA: Component = Component::Data;

fn memory(classes: &Classes, meter: &Meter) -> Bucket {
    let url: BucketUrl = "memory://classes/below".parse().expect("parses");
    let options = ConnectOptions::default();
    let store = open_store(&url, &options).expect("opens");
    Bucket::from_store(&url, Arc::new(classes.store(store)), &options, meter)
}

#[tokio::test]
async fn an_object_moves_between_classes_and_keeps_its_bytes() {
    let (classes, meter) = (Classes::default(), Meter::new());
    let bucket = memory(&classes, &meter);
    bucket.put(DATA, "one", "bytes").await.expect("puts");
    assert_eq!(bucket.class_of(DATA, "one").await.expect("asks"), "STANDARD");
    for class in [StorageClass::GlacierIr, StorageClass::GlacierIr, StorageClass::StandardIa] {
        bucket.set_class(DATA, "one", 5, class).await.expect("moves");
        assert_eq!(bucket.class_of(DATA, "one").await.expect("asks"), class.name());
    }
    assert_eq!(&bucket.get(DATA, "one").await.expect("reads")[..], b"bytes");
    assert_eq!(meter.snapshot().requests(RequestKind::Copy), 3);
    let error = bucket.set_class(DATA, "two", 5, StorageClass::GlacierIr).await;
    assert_eq!(error.expect_err("it is not there").kind(), ErrorKind::NotFound);

    bucket.probe_class(DATA, StorageClass::OnezoneIa).await.expect("has it");
    classes.ignore();
    let why = bucket.probe_class(DATA, StorageClass::OnezoneIa).await.expect_err("ignores it");
    assert_eq!(why.kind(), ErrorKind::Unsupported, "{why}");
    assert!(why.to_string().contains("no storage class ONEZONE_IA"), "{why}");
    assert_eq!(classes.cold().len(), 1, "probes are removed");
}

#[tokio::test]
async fn stores_without_classes_say_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = S3Server::start().await.expect("an S3 server");
    let (meter, name) = (Meter::new(), directory.path().display());
    let s3 = server.bucket("classes", "below").expect("makes");
    for (url, options) in [
        (format!("file://{name}"), ConnectOptions::default()),
        ("memory://none".to_owned(), ConnectOptions::default()),
        (s3.to_string(), server.options()),
    ] {
        let url: BucketUrl = url.parse().expect("parses");
        let bucket = Bucket::connect(&url, &options, &meter).expect("connects");
        let why = bucket.probe_class(DATA, StorageClass::GlacierIr).await.expect_err("has none");
        assert_eq!(why.kind(), ErrorKind::Unsupported, "{why}");
        assert!(why.to_string().contains("no storage class GLACIER_IR"), "{why}");
    }
}
