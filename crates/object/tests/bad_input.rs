//! What people get to read when a bucket cannot be used, and how soon.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use weir_object::testing::S3Server;
use weir_object::{Bucket, BucketUrl, Component, ConnectOptions, Meter, RequestKind, Scheme};
use weir_types::{ErrorKind, FsError};

const DATA: Component = Component::Data;

/// Probes and writes; both must fail alike. Returns the probe's error and the requests of both.
async fn refused(url: &BucketUrl, options: &ConnectOptions) -> (FsError, u64) {
    let meter = Meter::new();
    let bucket = match Bucket::connect(url, options, &meter) {
        Ok(bucket) => bucket,
        Err(error) => return (error, 0),
    };
    let probed = bucket.probe().await.expect_err("probe");
    let put = bucket.put(DATA, "k", "x").await.expect_err("put");
    // A bucket that is not there is nothing that is known of an object.
    let want = match probed.kind() {
        ErrorKind::NotFound if url.scheme() == Scheme::S3 => ErrorKind::Retry,
        other => other,
    };
    assert_eq!(put.kind(), want, "{put} / {probed}");
    let requests = meter.snapshot().rows.iter().map(|row| row.requests).sum();
    (probed, requests)
}

fn says(error: &FsError, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "`{word}` is not in: {error}");
    }
}

#[tokio::test]
async fn no_such_bucket() {
    let server = S3Server::start().await.expect("S3 server");
    let (error, requests) =
        refused(&"s3://nowhere/p".parse().expect("url"), &server.options()).await;
    says(&error, ErrorKind::NotFound, &["s3://nowhere/p", "no such bucket: make it or correct"]);
    says(&error, ErrorKind::NotFound, &["NoSuchBucket: The specified bucket does not exist;"]);
    assert!(!error.to_string().contains('<'), "{error}");
    assert_eq!(requests, 2, "nothing is tried again");
}

#[tokio::test]
async fn objects_of_no_bucket_are_not_gone() {
    let server = S3Server::start().await.expect("S3 server");
    let meter = Meter::new();
    let connect = |url: &str| {
        let url: BucketUrl = url.parse().expect("url");
        Bucket::connect(&url, &server.options(), &meter).expect("connect")
    };
    let mut none = |_| panic!("nothing is there");
    let bucket = connect("s3://nowhere/p");
    for error in [
        bucket.get(DATA, "k").await.map(drop).expect_err("get"),
        bucket.get_pieces(DATA, "k", 0..5, Some("\"x\""), &mut none).await.expect_err("pieces"),
        bucket.head(DATA, "k").await.map(drop).expect_err("head"),
        bucket.head_attributes(DATA, "k/").await.map(drop).expect_err("marker"),
        bucket.head_listed(DATA, b"k").await.map(drop).expect_err("listed"),
        bucket.head_listed(DATA, b"k//x").await.map(drop).expect_err("odd"),
        bucket.delete(DATA, "k").await.expect_err("delete"),
        bucket.put_new(DATA, "k", "x").await.map(drop).expect_err("put"),
    ] {
        says(&error, ErrorKind::Retry, &["s3://nowhere/p/k", "there is no such bucket"]);
    }
    let retries: u64 = meter.snapshot().rows.iter().map(|row| row.retries).sum();
    assert_eq!(retries, 0);
    server.bucket("somewhere", "").expect("bucket");
    let (before, began) = (meter.snapshot().requests(RequestKind::Head), Instant::now());
    let bucket = connect("s3://somewhere/p");
    for error in [
        bucket.get(DATA, "k").await.map(drop).expect_err("get"),
        bucket.get_pieces(DATA, "k", 0..5, Some("\"x\""), &mut none).await.expect_err("pieces"),
        bucket.head(DATA, "k").await.map(drop).expect_err("head"),
        bucket.head_attributes(DATA, "k/").await.map(drop).expect_err("marker"),
    ] {
        says(&error, ErrorKind::NotFound, &["s3://somewhere/p/k", "there is no such object"]);
    }
    assert_eq!(bucket.head_listed(DATA, b"k").await.expect("listed"), None);
    assert_eq!(bucket.head_listed(DATA, b"k//x").await.expect("odd"), None);
    // A HEAD of an object asks for the bucket too, because it does not say which is missing; unless
    // the bucket was there a moment ago.
    let asked = meter.snapshot().requests(RequestKind::Head) - before;
    match began.elapsed() < Duration::from_secs(1) {
        true => assert_eq!(asked, 4),
        false => assert!((4..=6).contains(&asked), "{asked}"),
    }
    // A moment later it is asked for again.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let before = meter.snapshot().requests(RequestKind::Head);
    bucket.head(DATA, "k").await.map(drop).expect_err("head");
    assert_eq!(meter.snapshot().requests(RequestKind::Head), before + 2);
}

#[tokio::test]
async fn wrong_keys() {
    let server = S3Server::start().await.expect("S3 server");
    let url = server.bucket("keys", "").expect("bucket");
    let wrong_secret = Some("wrong".to_owned());
    let options = ConnectOptions { secret_access_key: wrong_secret, ..server.options() };
    let (error, requests) = refused(&url, &options).await;
    says(&error, ErrorKind::Permission, &["s3://keys", "SignatureDoesNotMatch", "access keys"]);
    assert_eq!(requests, 2);
    let options = ConnectOptions { access_key_id: Some("nobody".to_owned()), ..server.options() };
    let (error, requests) = refused(&url, &options).await;
    says(&error, ErrorKind::Permission, &["s3://keys", "access key ID", "check the access keys"]);
    assert_eq!(requests, 2);
}

fn elsewhere(endpoint: &str) -> ConnectOptions {
    ConnectOptions {
        endpoint: Some(endpoint.to_owned()),
        access_key_id: Some("id".to_owned()),
        secret_access_key: Some("secret".to_owned()),
        timeout_ms: 300,
        ..ConnectOptions::default()
    }
}

#[tokio::test]
async fn unreachable_endpoint() {
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|l| l.local_addr()).expect("port");
    let url: BucketUrl = "s3://b".parse().expect("url");
    let (error, requests) = refused(&url, &elsewhere(&format!("http://{free}"))).await;
    let port = free.port().to_string();
    let place = format!("refused by 127.0.0.1:{port};");
    says(&error, ErrorKind::Retry, &["s3://b", &place, "nothing listens", "check the endpoint"]);
    assert!((2..100).contains(&requests), "{requests} requests");
}

#[tokio::test]
async fn only_who_reaches_for_it_first_gives_up_where_nothing_listens() {
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|l| l.local_addr()).expect("port");
    let url: BucketUrl = "s3://b".parse().expect("url");
    let meter = Meter::new();
    let options = elsewhere(&format!("http://{free}"));
    let bucket = Bucket::connect(&url, &options, &meter).expect("connect");
    bucket.probe().await.expect_err("probe");
    bucket.hasty().get(DATA, "k").await.expect_err("hasty");
    let error = bucket.probe_odd(DATA).await.expect_err("link");
    says(&error, ErrorKind::Retry, &["s3://b", &format!("refused by {free};")]);
    let requests = |kind| meter.snapshot().requests(kind);
    assert_eq!((requests(RequestKind::List), requests(RequestKind::Get)), (2, 1));
    bucket.get(DATA, "k").await.expect_err("the server may come back");
    assert!(requests(RequestKind::Get) > 2, "{}", requests(RequestKind::Get));
}

#[tokio::test]
async fn what_is_denied_to_whom_is_told_without_the_answers_xml() {
    let url: BucketUrl = "s3://b/p".parse().expect("url");
    let body = "<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code><Message>User: x is not \
                authorized.</Message><RequestId>1</RequestId></Error>";
    let endpoint = answers(vec![answer("403 Forbidden", body.len(), body)]);
    let bucket = Bucket::connect(&url, &elsewhere(&endpoint), &Meter::new()).expect("connect");
    let anonymous = ConnectOptions { anonymous: true, ..elsewhere(&endpoint) };
    let unsigned = Bucket::connect(&url, &anonymous, &Meter::new()).expect("connect");
    let (who, why) = ("access key id of the options", "(AccessDenied: User: x is not authorized)");
    for (error, action, who) in [
        (bucket.get(DATA, "k").await.map(drop), "s3:GetObject on s3://b/p/k", who),
        (bucket.put(DATA, "k", "x").await, "s3:PutObject on s3://b/p/k", who),
        (bucket.put_new(DATA, "k", "x").await.map(drop), "s3:PutObject on s3://b/p/k", who),
        (bucket.delete(DATA, "k").await, "s3:DeleteObject on s3://b", who),
        (bucket.probe().await, "s3:ListBucket on s3://b", who),
        (bucket.probe_odd(DATA).await, "s3:ListBucket on s3://b", who),
        (unsigned.get(DATA, "k").await.map(drop), "s3:GetObject", "requests without a signature"),
    ] {
        let error = error.expect_err(action);
        says(&error, ErrorKind::Permission, &[action, who, why]);
        assert!(!error.to_string().contains('<'), "{error}");
        let mut cause = std::error::Error::source(&error);
        let mut causes = String::new();
        while let Some(error) = cause {
            causes.push_str(&error.to_string());
            cause = error.source();
        }
        assert!(causes.contains("<Code>AccessDenied</Code>"), "for -v: {causes}");
    }
}

#[tokio::test]
async fn bad_endpoints() {
    let url: BucketUrl = "s3://b".parse().expect("url");
    for endpoint in ["localhost", "host:9000", "", "http://"] {
        let (error, _) = refused(&url, &elsewhere(endpoint)).await;
        says(&error, ErrorKind::Invalid, &["is not an endpoint", "https://HOST"]);
    }
}

#[tokio::test]
async fn half_a_pair_of_keys() {
    let options = ConnectOptions { secret_access_key: None, ..elsewhere("http://127.0.0.1:1") };
    let (error, _) = refused(&"s3://b".parse().expect("url"), &options).await;
    says(&error, ErrorKind::Invalid, &["s3://b", "without its secret"]);
}

#[tokio::test]
async fn directories_that_are_none() {
    let dir = tempfile::tempdir().expect("temp dir");
    let file = dir.path().join("file");
    std::fs::write(&file, "x").expect("file");
    let options = ConnectOptions::default();
    let shown = file.display();
    for url in [format!("file://{shown}"), format!("file://{shown}/below")] {
        let (error, _) = refused(&url.parse().expect("url"), &options).await;
        says(&error, ErrorKind::Invalid, &[&url, "not a directory"]);
    }
    let url = format!("file://{}/missing", dir.path().display());
    let (error, _) = refused(&url.parse().expect("url"), &options).await;
    says(&error, ErrorKind::NotFound, &[&url, "mkdir -p"]);
}

#[tokio::test]
async fn a_directory_that_goes_away() {
    let dir = tempfile::tempdir().expect("temp dir");
    let url = format!("file://{}", dir.path().display()).parse().expect("url");
    let bucket = Bucket::connect(&url, &ConnectOptions::default(), &Meter::new()).expect("connect");
    bucket.probe().await.expect("there");
    drop(dir);
    says(&bucket.probe().await.expect_err("gone"), ErrorKind::NotFound, &["mkdir -p"]);
}

#[tokio::test]
async fn a_directory_that_nobody_can_write() {
    // Not even root writes here.
    let url = "file:///sys".parse().expect("url");
    let bucket = Bucket::connect(&url, &ConnectOptions::default(), &Meter::new()).expect("connect");
    let error = bucket.probe().await.expect_err("read-only");
    assert!(matches!(error.kind(), ErrorKind::Permission | ErrorKind::ReadOnly), "{error}");
    assert!(error.to_string().contains("file:///sys"), "{error}");
}

/// A server that gives each connection the next answer, the last one for ever.
fn answers(raw: Vec<String>) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("bind");
    let address = listener.local_addr().expect("address");
    std::thread::spawn(move || {
        for number in 0.. {
            let Ok((mut client, _)) = listener.accept() else {
                return;
            };
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && client.read(&mut byte).is_ok_and(|n| n > 0) {
                request.push(byte[0]);
            }
            let answer = &raw[raw.len().min(number + 1) - 1];
            // A client that gave up is no concern of ours.
            let _ = client.write_all(answer.as_bytes());
        }
    });
    format!("http://{address}")
}

fn answer(status: &str, promised: usize, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Length: {promised}\r\nETag: \"e\"\r\nConnection: close\r\n\
         Last-Modified: Sat, 21 Nov 2026 12:00:00 GMT\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn answers_of_the_service() {
    let url: BucketUrl = "s3://b".parse().expect("url");
    for (status, body, kind, word) in [
        ("503 Slow Down", "<Code>SlowDown</Code>", ErrorKind::Retry, "SlowDown"),
        ("500 Internal", "", ErrorKind::Retry, "500"),
        ("429 Too Many Requests", "", ErrorKind::Retry, "429"),
        ("403 Forbidden", "<Code>AccessDenied</Code>", ErrorKind::Permission, "AccessDenied"),
        ("401 Unauthorized", "", ErrorKind::Permission, "access keys"),
        ("400 Bad", "<Code>ExpiredToken</Code>", ErrorKind::Permission, "ExpiredToken"),
        ("301 Moved", "", ErrorKind::Invalid, "region"),
        ("501 Not Implemented", "", ErrorKind::Unsupported, "another"),
        ("405 Not Allowed", "", ErrorKind::Invalid, "refuses"),
    ] {
        let endpoint = answers(vec![answer(status, body.len(), body)]);
        let meter = Meter::new();
        let bucket = Bucket::connect(&url, &elsewhere(&endpoint), &meter).expect("connect");
        let error = bucket.get(DATA, "k").await.expect_err(status);
        says(&error, kind, &["s3://b/k", word]);
        let requests = meter.snapshot().requests(RequestKind::Get);
        match kind {
            ErrorKind::Retry => assert!((2..100).contains(&requests), "{status}: {requests}"),
            _ => assert_eq!(requests, 1, "{status}"),
        }
    }
}

#[tokio::test]
async fn broken_connections_are_mended() {
    let url: BucketUrl = "s3://b".parse().expect("url");
    let endpoint = answers(vec![
        String::new(),
        answer("503 Slow Down", 0, ""),
        answer("200 OK", 10, "01234"),
        answer("200 OK", 10, "0123456789"),
    ]);
    let options = ConnectOptions { timeout_ms: 20_000, ..elsewhere(&endpoint) };
    let meter = Meter::new();
    let bucket = Bucket::connect(&url, &options, &meter).expect("connect");
    assert_eq!(bucket.get(DATA, "k").await.expect("get"), "0123456789");
    let row = meter.snapshot().row(DATA, RequestKind::Get).cloned().expect("row");
    assert_eq!((row.requests, row.failed, row.bytes_received), (4, 3, 10));
}

#[test]
fn schemes_that_were_not_built() {
    for (url, feature) in [("gs://b", "gcp"), ("az://b", "azure")] {
        let built = match feature {
            "gcp" => cfg!(feature = "gcp"),
            _ => cfg!(feature = "azure"),
        };
        let url: BucketUrl = url.parse().expect("url");
        match Bucket::connect(&url, &ConnectOptions::default(), &Meter::new()) {
            Err(error) if !built => says(&error, ErrorKind::Unsupported, &[feature]),
            result => assert!(built, "{result:?}"),
        }
    }
}
