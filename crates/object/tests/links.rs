//! What links need of objects that others write and delete at the same time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::{HttpConnector, HttpRequest, HttpRequestBody, ReqwestConnector};
use object_store::path::Path;
use object_store::{
    ClientOptions, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    PutMultipartOptions, PutOptions, PutResult, Result,
};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use weir_object::testing::S3Server;
use weir_object::{
    Bucket, Component, ConnectOptions, Copied, Meter, ObjectStore, PutCondition, PutPayload,
    RequestKind, open_store,
};
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

type Hook = Mutex<Option<BoxFuture<'static, ()>>>;

/// A store in which something happens right before its next write.
struct Between {
    inner: Arc<dyn ObjectStore>,
    hook: Arc<Hook>,
}

impl fmt::Display for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "between {}", self.inner)
    }
}

impl fmt::Debug for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[async_trait]
impl ObjectStore for Between {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let hook = self.hook.lock().take();
        if let Some(hook) = hook {
            hook.await;
        }
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// A bucket, and somebody else's view of it.
struct Two {
    ours: Bucket,
    theirs: Bucket,
    hook: Arc<Hook>,
}

impl Two {
    fn new(url: &str, options: &ConnectOptions) -> Self {
        let url = url.parse().expect("url");
        let theirs = Bucket::connect(&url, options, &Meter::new()).expect("connect");
        let (inner, hook) = (open_store(&url, options).expect("open"), Arc::<Hook>::default());
        let store = Between { inner, hook: Arc::clone(&hook) };
        Two {
            ours: Bucket::from_store(&url, Arc::new(store), options, &Meter::new()),
            theirs,
            hook,
        }
    }

    async fn put(&self, key: &str, text: &'static str) -> String {
        self.theirs.put(LINK, key, text).await.expect("put");
        self.theirs.head(LINK, key).await.expect("head").etag.expect("ETag")
    }

    /// Between the next look and the write behind it, they put this; without text, they delete.
    fn then(&self, key: &'static str, text: Option<&'static str>) {
        let theirs = self.theirs.clone();
        *self.hook.lock() = Some(Box::pin(async move {
            match text {
                Some(text) => theirs.put(LINK, key, text).await.expect("put"),
                None => theirs.delete(LINK, key).await.expect("delete"),
            }
        }));
    }

    async fn text(&self, key: &str) -> Option<String> {
        let got = self.theirs.get(LINK, key).await.ok()?;
        Some(String::from_utf8_lossy(&got).into_owned())
    }
}

/// What stores that hold conditions themselves must do: of the target only if they know such.
async fn between_look_and_write(two: &Two, holds_targets: bool, holds_deletes: bool) {
    let (any, absent) = (PutCondition::Any, PutCondition::Absent);
    for text in [Some("THE BYTES"), None] {
        let etag = two.put("from", "the bytes").await;
        two.then("from", text);
        let copied = two.ours.copy_object_if(LINK, "from", Some(&etag), "to", &any).await;
        assert_eq!(copied.expect("copy"), Copied::SourceChanged, "{text:?}");
        assert_eq!(two.text("to").await, None);
    }
    let etag = two.put("from", "the bytes").await;
    if holds_targets {
        two.then("to", Some("theirs"));
        let copied = two.ours.copy_object_if(LINK, "from", Some(&etag), "to", &absent).await;
        assert_eq!(copied.expect("copy"), Copied::TargetChanged);
        assert_eq!(two.text("to").await.as_deref(), Some("theirs"));
        two.theirs.delete(LINK, "to").await.expect("delete");
    }
    if holds_targets && holds_deletes {
        for text in [Some("new"), None] {
            let known = PutCondition::Matches(two.put("to", "known").await);
            two.then("to", text);
            let copied = two.ours.copy_object_if(LINK, "from", Some(&etag), "to", &known).await;
            assert_eq!(copied.expect("copy"), Copied::TargetChanged);
            assert_eq!(two.text("to").await.as_deref(), text);
        }
    }
    if holds_deletes {
        two.then("from", Some("new"));
        assert!(!two.ours.delete_if(LINK, "from", &etag).await.expect("delete"));
        assert_eq!(two.text("from").await.as_deref(), Some("new"));
    }
    let etag = two.put("from", "the bytes").await;
    two.then("from", None);
    assert!(two.ours.delete_if(LINK, "from", &etag).await.expect("delete"));
}

#[tokio::test]
async fn what_changes_between_look_and_write_is_seen() {
    let plain = ConnectOptions::default();
    // Memory knows "absent" and no more.
    between_look_and_write(&Two::new("memory://links-between/p", &plain), true, false).await;
    let dir = tempfile::tempdir().expect("temp dir");
    let url = format!("file://{}", dir.path().display());
    between_look_and_write(&Two::new(&url, &plain), true, true).await;
    let names = std::fs::read_dir(dir.path()).expect("read").map(|entry| entry.expect("e"));
    let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
    assert!(names.iter().all(|name| name == ".update-lock#0" || name == "to"), "{names:?}");
    // This server takes no notice of a condition on a copy's target.
    let server = S3Server::start().await.expect("S3 server");
    let url = server.bucket("between", "p").expect("bucket").to_string();
    between_look_and_write(&Two::new(&url, &server.options()), false, true).await;
}

#[tokio::test]
async fn a_copied_file_is_no_second_name_of_the_first() {
    let dir = tempfile::tempdir().expect("temp dir");
    let two = Two::new(&format!("file://{}", dir.path().display()), &ConnectOptions::default());
    let etag = two.put("from", "the bytes").await;
    let copied = two.ours.copy_object_if(LINK, "from", Some(&etag), "d/to", &PutCondition::Absent);
    assert!(matches!(copied.await.expect("copy"), Copied::Done(_)));
    std::fs::write(dir.path().join("from"), "written into").expect("write");
    assert_eq!(two.text("d/to").await.as_deref(), Some("the bytes"));
}

/// Answers requests as `script` says, by method, and keeps their heads.
async fn scripted(
    script: impl Fn(&str, usize) -> (u16, &'static str) + Send + 'static,
) -> (ConnectOptions, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("listen");
    let address = listener.local_addr().expect("address");
    let heads = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heads);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = Vec::new();
            while !buffer.ends_with(b"\r\n\r\n") {
                if stream.read_buf(&mut buffer).await.is_ok_and(|n| n == 0) {
                    break;
                }
            }
            let head = String::from_utf8_lossy(&buffer).into_owned();
            let method = head.split(' ').next().unwrap_or_default().to_owned();
            let number = {
                let mut kept = kept.lock();
                kept.push(head);
                kept.iter().filter(|head| head.starts_with(&method)).count()
            };
            let (status, body) = script(&method, number);
            let answer = match method.as_str() {
                // Five bytes, in the words of a HEAD.
                "HEAD" => format!(
                    "HTTP/1.1 {status} x\r\ncontent-length: 5\r\netag: \"{body}\"\r\n\
                     last-modified: Thu, 29 Feb 2024 12:00:00 GMT\r\nconnection: close\r\n\r\n"
                ),
                _ => format!(
                    "HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                ),
            };
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    let options = ConnectOptions {
        endpoint: Some(format!("http://{address}")),
        access_key_id: Some("id".to_owned()),
        secret_access_key: Some("secret".to_owned()),
        ..ConnectOptions::default()
    };
    (options, heads)
}

const COPY_DONE: &str = "<CopyObjectResult><LastModified>2024-02-29T12:00:00.250Z</LastModified>\
                         <ETag>&quot;copy&quot;</ETag></CopyObjectResult>";
const REFUSED: &str = "<Error><Code>PreconditionFailed</Code></Error>";

async fn copy_at(
    script: impl Fn(&str, usize) -> (u16, &'static str) + Send + 'static,
    condition: &PutCondition,
) -> (weir_types::Result<Copied>, Vec<String>, Meter) {
    let (options, heads) = scripted(script).await;
    let meter = Meter::new();
    let url = "s3://b/p".parse().expect("url");
    let bucket = Bucket::connect(&url, &options, &meter).expect("connect");
    let copied = bucket.copy_object_if(LINK, "a b", Some("\"source\""), "c", condition).await;
    let heads = heads.lock().clone();
    (copied, heads, meter)
}

#[tokio::test]
async fn conditions_of_a_copy_go_with_the_request() {
    let known = PutCondition::Matches("\"known\"".to_owned());
    for (condition, header) in [
        (&PutCondition::Any, ""),
        (&PutCondition::Absent, "if-none-match: *\r\n"),
        (&known, "\nif-match: \"known\"\r\n"),
    ] {
        let absent = *condition == PutCondition::Absent;
        let script = move |method: &str, number| match (method, number) {
            ("HEAD", 1) => (200, "source"),
            ("HEAD", _) if absent => (404, ""),
            ("HEAD", _) => (200, "known"),
            _ => (200, COPY_DONE),
        };
        let (copied, heads, meter) = copy_at(script, condition).await;
        let Copied::Done(info) = copied.expect("copy") else { panic!("refused") };
        assert_eq!(
            (info.key.as_str(), info.size, info.etag.as_deref()),
            ("c", 5, Some("\"copy\""))
        );
        assert_eq!(info.last_modified_unix_ms, 1_709_208_000_250);
        let copy = heads.last().expect("requests").to_ascii_lowercase();
        assert!(copy.starts_with("put /b/p/c http"), "{copy}");
        for want in [
            "x-amz-copy-source: b/p/a%20b\r\n",
            "x-amz-copy-source-if-match: \"source\"\r\n",
            "x-amz-metadata-directive: copy\r\n",
            header,
        ] {
            assert!(copy.contains(want), "{want:?} is not in {copy}");
        }
        assert_eq!(copy.contains("\nif-"), !header.is_empty(), "{copy}");
        assert_eq!(meter.snapshot().requests(RequestKind::Copy), 1);
        let looks = 1 + u64::from(*condition != PutCondition::Any);
        assert_eq!(meter.snapshot().requests(RequestKind::Head), looks);
    }
}

#[tokio::test]
async fn a_refused_copy_tells_whose_change_it_was() {
    // Refused by the status, and by an error in the body of a success.
    for status in [412, 200] {
        for (source_after, want) in
            [("source", Copied::TargetChanged), ("other", Copied::SourceChanged)]
        {
            let script = move |method: &str, number| match (method, number) {
                ("HEAD", 1) => (200, "source"),
                ("HEAD", 2) => (404, ""),
                ("HEAD", _) => (200, source_after),
                _ => (status, REFUSED),
            };
            let (copied, _, meter) = copy_at(script, &PutCondition::Absent).await;
            assert_eq!(copied.expect("copy"), want);
            assert_eq!(meter.snapshot().requests(RequestKind::Copy), 1);
        }
    }
    // An error of the server's in the body of a success is tried again.
    let script = |method: &str, number| match (method, number) {
        ("HEAD", _) => (200, "source"),
        (_, 1) => (200, "<Error><Code>InternalError</Code></Error>"),
        _ => (200, COPY_DONE),
    };
    let (copied, _, meter) = copy_at(script, &PutCondition::Any).await;
    assert!(matches!(copied.expect("copy"), Copied::Done(_)));
    assert_eq!(meter.snapshot().requests(RequestKind::Copy), 2);
    // A lost answer: the target has the source's hash now.
    let script = |method: &str, number| match (method, number) {
        ("HEAD", 2) => (404, ""),
        ("HEAD", _) => (200, "source"),
        (_, 1) => (503, ""),
        _ => (412, REFUSED),
    };
    let (copied, ..) = copy_at(script, &PutCondition::Absent).await;
    let Copied::Done(info) = copied.expect("copy") else { panic!("it is ours") };
    assert_eq!(info.etag.as_deref(), Some("\"source\""));
}

#[tokio::test]
async fn servers_that_know_no_conditions_are_asked_without() {
    for status in [400, 501] {
        let script = move |method: &str, number| match (method, number) {
            ("HEAD", 1) => (200, "source"),
            ("HEAD", _) => (404, ""),
            (_, 1) => (status, "<Error><Code>NotImplemented</Code></Error>"),
            _ => (200, COPY_DONE),
        };
        let (copied, heads, meter) = copy_at(script, &PutCondition::Absent).await;
        assert!(matches!(copied.expect("copy"), Copied::Done(_)));
        let copies: Vec<_> = heads.iter().filter(|head| head.starts_with("PUT")).collect();
        let told: Vec<_> = copies.iter().map(|head| head.contains("if-none-match: *")).collect();
        assert_eq!(told, [true, false]);
        assert_eq!(meter.snapshot().requests(RequestKind::Head), 3, "looked at before each");

        let (options, heads) = scripted(move |method, number| match (method, number) {
            ("HEAD", _) => (200, "x"),
            (_, 1) => (status, ""),
            _ => (204, ""),
        })
        .await;
        let url = "s3://b/p".parse().expect("url");
        let bucket = Bucket::connect(&url, &options, &Meter::new()).expect("connect");
        assert!(bucket.delete_if(LINK, "k", "\"x\"").await.expect("delete"));
        let heads = heads.lock();
        let deletes: Vec<_> = heads.iter().filter(|head| head.starts_with("DELETE")).collect();
        let told: Vec<_> = deletes.iter().map(|head| head.contains("\nif-match: \"x\"")).collect();
        assert_eq!(told, [true, false]);
    }
    let script = |method: &str, _| if method == "HEAD" { (200, "source") } else { (501, "") };
    let (copied, ..) = copy_at(script, &PutCondition::Any).await;
    assert_eq!(copied.expect_err("it cannot copy").kind(), ErrorKind::Unsupported);
}
