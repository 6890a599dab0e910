//! Storage classes, of a store that has them and of some that do not.
#![allow(missing_docs, reason = "tests say what they hold by their names")]

use std::sync::Arc;

use weir_object::testing::{Classes, S3Server};
use weir_object::{
    Bucket, BucketUrl, ClassChange, Component, Conditions, ConnectOptions, Copied, Meter,
    PutCondition, RequestKind, open_store,
};
use weir_types::{ErrorKind, StorageClass};

const DATA: Component = Component::Data;
const LINK: Component = Component::Link;

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

/// An object that is too large to be copied at once, with what goes with it.
async fn large(bucket: &Bucket, key: &str) -> (Vec<u8>, String) {
    let bytes: Vec<u8> = (0..11_u32 << 18).flat_map(u32::to_le_bytes).collect();
    let attributes = [("file-mode".to_owned(), "644".to_owned())].into();
    let put = bucket.put_object(LINK, key, bytes.clone(), &attributes, &PutCondition::Any);
    let info = put.await.expect("puts").expect("is written");
    (bytes, info.etag.expect("has one"))
}

#[tokio::test]
async fn what_is_too_large_to_be_copied_is_copied_in_parts() {
    let server = S3Server::start().await.expect("an S3 server");
    let (meter, url) = (Meter::new(), server.bucket("parts", "below").expect("makes"));
    let bucket = Bucket::connect(&url, &server.options(), &meter).expect("connects");
    let bucket = bucket.with_copies_up_to(5 << 20);
    let (bytes, etag) = large(&bucket, "one").await;
    let none = bucket.with_conditions(Conditions { absent: false, matches: false });
    let refused = none
        .change_class(LINK, ("one", &etag), StorageClass::Standard, StorageClass::GlacierIr)
        .await;
    assert_eq!(refused.expect_err("others could be undone").kind(), ErrorKind::Unsupported);
    let copies = || meter.snapshot().requests(RequestKind::Copy);

    let classes = (StorageClass::Standard, StorageClass::GlacierIr);
    let moved = bucket.change_class(LINK, ("one", &etag), classes.0, classes.1).await;
    let ClassChange::Moved(info) = moved.expect("moves") else { panic!("it stays") };
    assert_eq!((copies(), info.size), (3, 11 << 20));
    let now = bucket.head_attributes(LINK, "one").await.expect("is there");
    assert_eq!(now.0, info, "what is told is what is there");
    assert_eq!((now.0.etag.as_deref() != Some(&etag), now.1["file-mode"].as_str()), (true, "644"));
    assert!(bucket.get(LINK, "one").await.expect("reads") == bytes);
    let old = bucket.change_class(LINK, ("one", &etag), classes.0, classes.1).await;
    assert_eq!(old.expect("asks"), ClassChange::Another, "it has another ETag");

    let etag = info.etag.expect("has one");
    let (absent, any) = (PutCondition::Absent, PutCondition::Any);
    for (from_etag, to, condition, done) in [
        (Some(etag.as_str()), "two", &absent, true),
        (Some("\"other\""), "three", &absent, false),
        (None, "two", &any, true),
    ] {
        let copied = bucket.copy_object_if(LINK, "one", from_etag, to, condition).await;
        let copied = copied.expect("copies");
        assert_eq!(matches!(copied, Copied::Done(_)), done, "{to}: {copied:?}");
        assert_eq!(bucket.get(LINK, to).await.is_ok_and(|read| read == bytes), done, "{to}");
    }
    let copied = bucket.copy_object_if(LINK, "one", Some(&etag), "two", &absent).await;
    assert_eq!(copied.expect("asks"), Copied::TargetChanged, "somebody's object is there");
    assert_eq!(bucket.head_attributes(LINK, "two").await.expect("is there").1["file-mode"], "644");
    assert!(server.uploads("parts").is_empty(), "no parts are left");
}
