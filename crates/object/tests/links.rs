//! What links need of objects that others write and delete at the same time.

use std::collections::BTreeMap;

use object_store::ClientOptions;
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::{HttpConnector, HttpRequest, HttpRequestBody, ReqwestConnector};
use weir_object::testing::S3Server;
use weir_object::{Bucket, Component, Meter};
use weir_types::ErrorKind;

const LINK: Component = Component::Link;

/// Sends a request without a body as some other S3 client; answers the HTTP status.
async fn other_client(
    server: &S3Server,
    method: &str,
    path: &str,
    headers: &[(&'static str, &str)],
) -> u16 {
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    *request.uri_mut() = format!("{}/{path}", server.endpoint()).parse().expect("url");
    *request.method_mut() = method.parse().expect("method");
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().expect("header"));
    }
    let options = server.options();
    let credential = AwsCredential {
        key_id: options.access_key_id.expect("key"),
        secret_key: options.secret_access_key.expect("secret"),
        token: None,
    };
    let signer = AwsAuthorizer::new(&credential, "s3", "us-east-1");
    signer.try_authorize(&mut request, None).expect("signed");
    let client = ClientOptions::new().with_allow_http(true);
    let client = ReqwestConnector::default().connect(&client).expect("client");
    client.execute(request).await.expect("answer").status().as_u16()
}

#[tokio::test]
async fn directory_markers_carry_attributes() {
    let server = S3Server::start().await.expect("S3 server");
    let url = server.bucket("markers", "p ü").expect("bucket");
    let bucket = Bucket::connect(&url, &server.options(), &Meter::new()).expect("connect");
    let mode = ("x-amz-meta-file-permissions", "040755");
    for key in ["", "dir/", "dir/a+b c/"] {
        let path = format!("markers/p%20%C3%BC/{}", key.replace('+', "%2B").replace(' ', "%20"));
        assert_eq!(other_client(&server, "PUT", &path, &[mode]).await, 200);
        let (info, attributes) = bucket.head_attributes(LINK, key).await.expect("marker");
        assert_eq!((info.key.as_str(), info.size), (key, 0));
        assert!(info.etag.is_some() && info.last_modified_unix_ms > 1_600_000_000_000);
        let want = BTreeMap::from([("file-permissions".to_owned(), mode.1.to_owned())]);
        assert_eq!(attributes, want);
        let listed = bucket.head_listed(LINK, key.as_bytes()).await.expect("list").expect("there");
        assert_eq!((listed.key, listed.etag), (key.as_bytes().to_vec(), info.etag));
    }
    for key in ["none/", "dir/none/"] {
        let error = bucket.head_attributes(LINK, key).await.expect_err("none");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert_eq!(bucket.head_listed(LINK, key.as_bytes()).await.expect("list"), None);
    }
    let error = bucket.head_attributes(LINK, "dir/../").await.expect_err("a way, no name");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

#[tokio::test]
async fn only_s3_has_directory_markers() {
    let dir = tempfile::tempdir().expect("temp dir");
    std::fs::create_dir(dir.path().join("dir")).expect("mkdir");
    for url in [format!("file://{}", dir.path().display()), "memory://links-markers".to_owned()] {
        let url = url.parse().expect("url");
        let bucket = Bucket::connect(&url, &Default::default(), &Meter::new()).expect("connect");
        for key in ["", "dir/"] {
            let error = bucket.head_attributes(LINK, key).await.expect_err("none");
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            assert_eq!(bucket.head_listed(LINK, key.as_bytes()).await.expect("none"), None);
        }
    }
}
