//! Requests to S3 of our own making: signed and sent as the library does it. One attempt each.

use std::fmt;
use std::sync::OnceLock;

use bytes::Bytes;
use chrono::DateTime;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer, AwsCredentialProvider};
use object_store::client::{HttpClient, HttpConnector, HttpError, HttpRequest, HttpRequestBody};
use object_store::client::{HttpResponse, ReqwestConnector};
use object_store::path::Path;
use object_store::{
    Attribute, AttributeValue, Attributes, ClientOptions, Error, ObjectMeta, PutMode, Result,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use weir_types::StorageClass;

use super::complete;
use crate::asks::{ArchiveSays, Kept, ListAsk, RestoreAsk};

const STORE: &str = "S3";
/// CRC-64/NVME of no bytes, which is 0.
const SUM_OF_NOTHING: &str = "AAAAAAAAAAA=";

/// Where a bucket is, and how to be let in.
pub(crate) struct Requests {
    /// URL of the bucket, without a slash at the end.
    bucket: String,
    /// Its name alone.
    name: String,
    region: String,
    /// None where requests are not signed.
    credentials: Option<AwsCredentialProvider>,
    request_payer: bool,
    /// Headers that say how what is stored is encrypted.
    encryption: Vec<(&'static str, String)>,
    /// A directory bucket: it has no order of keys and other ways to be let in.
    express: bool,
    options: ClientOptions,
    /// Made when it is first needed: certificates are read then.
    client: OnceLock<HttpClient>,
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Requests({})", self.bucket)
    }
}

/// What is written as `%XX` in a query: all but letters, digits and `-._~`, which is how it is signed.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// `text` for a query.
pub(super) fn encoded(text: impl AsRef<[u8]>) -> String {
    percent_encode(text.as_ref(), QUERY).to_string()
}

impl Requests {
    /// Requests to the bucket that `builder` is about, with its keys from `credentials`.
    pub(super) fn new(
        builder: &AmazonS3Builder,
        credentials: AwsCredentialProvider,
        options: ClientOptions,
    ) -> Self {
        use AmazonS3ConfigKey as Key;
        let have = |key: Key| builder.get_config_value(&key);
        let is = |key: Key| have(key).is_some_and(|value| matches!(&*value, "true" | "1"));
        let name = have(Key::Bucket).unwrap_or_default();
        let region = have(Key::Region).unwrap_or_else(|| "us-east-1".to_owned());
        let endpoint = have(Key::S3Endpoint).or_else(|| have(Key::Endpoint));
        // As the library does it.
        let bucket = match (endpoint, is(Key::VirtualHostedStyleRequest)) {
            (Some(endpoint), true) => endpoint,
            (Some(endpoint), false) => format!("{}/{name}", endpoint.trim_end_matches('/')),
            (None, true) => format!("https://{name}.s3.{region}.amazonaws.com"),
            (None, false) => format!("https://s3.{region}.amazonaws.com/{name}"),
        };
        // The library keeps the type of these keys to itself.
        let encryption = [
            ("aws_server_side_encryption", "x-amz-server-side-encryption"),
            ("aws_sse_kms_key_id", "x-amz-server-side-encryption-aws-kms-key-id"),
            ("aws_sse_bucket_key_enabled", "x-amz-server-side-encryption-bucket-key-enabled"),
        ];
        let encryption = encryption
            .into_iter()
            .filter_map(|(key, header)| Some((header, have(key.parse::<Key>().ok()?)?)));
        Self {
            bucket,
            name,
            encryption: encryption.collect(),
            region,
            credentials: (!is(Key::SkipSignature)).then_some(credentials),
            request_payer: is(Key::RequestPayer),
            express: is(Key::S3Express),
            options,
            client: OnceLock::new(),
        }
    }

    /// One page of a listing, as the server wrote it.
    pub(crate) async fn list(&self, ask: &ListAsk) -> Result<Bytes> {
        let url = format!("{}?{}", self.bucket, ask.query());
        self.send(request("GET", &url, &[])?).await
    }

    /// Makes an object of the parts of an upload, if the condition holds. Answers its ETag.
    pub(crate) async fn complete(
        &self,
        key: &str,
        upload: &str,
        parts: &[String],
        mode: &PutMode,
    ) -> Result<String> {
        let mut request = HttpRequest::new(complete::body(parts).into());
        let url = format!("{}?uploadId={}", self.url_of(key), encoded(upload));
        *request.uri_mut() = url.parse().map_err(generic)?;
        *request.method_mut() = "POST".parse().map_err(generic)?;
        if let Some((name, value)) = condition(mode) {
            request.headers_mut().insert(name, value.parse().map_err(generic)?);
        }
        let answer = self.send(request).await?;
        // Success may turn into an error while the server works.
        complete::etag(&answer).map_err(|status| refused(status, &answer, &url))
    }

    /// Asks for the object of a full key, of any key that a URL can carry; without one, for the
    /// bucket.
    pub(crate) async fn head(
        &self,
        key: &str,
    ) -> Result<(ObjectMeta, Attributes, ArchiveSays, Kept)> {
        let url = if key.is_empty() { self.bucket.clone() } else { self.url_of(key) };
        let response = self.exchange(request("HEAD", &url, &[])?).await?;
        let headers = response.headers();
        let have = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
        let modified = have("last-modified").and_then(|t| DateTime::parse_from_rfc2822(&t).ok());
        let meta = ObjectMeta {
            location: Path::default(),
            last_modified: modified.map(Into::into).unwrap_or_default(),
            size: have("content-length").and_then(|n| n.parse().ok()).unwrap_or_default(),
            e_tag: have("etag"),
            version: None,
        };
        let user = headers.iter().filter_map(|(name, value)| {
            let name = name.as_str().strip_prefix("x-amz-meta-")?.to_owned();
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            Some((Attribute::Metadata(name.into()), AttributeValue::from(value)))
        });
        let class =
            have("x-amz-storage-class").map(|class| (Attribute::StorageClass, class.into()));
        let archive =
            ArchiveSays { restore: have("x-amz-restore"), status: have("x-amz-archive-status") };
        Ok((meta, user.chain(class).collect(), archive, Kept::of(headers)))
    }

    /// Copies an object while it has this ETag, if the condition holds for what is at `to`. Answers
    /// its ETag and when that was written, in milliseconds since 1970.
    pub(crate) async fn copy(
        &self,
        from: &str,
        etag: Option<&str>,
        to: &str,
        mode: &PutMode,
    ) -> Result<(String, i64)> {
        let mut more: Vec<_> =
            etag.map(|etag| ("x-amz-copy-source-if-match", etag)).into_iter().collect();
        more.extend(condition(mode));
        self.copy_with(from, to, more).await
    }

    /// Puts an object into another storage class: a copy onto itself, while it has this ETag if one is given. Answers as
    /// [`Requests::copy`].
    pub(crate) async fn set_class(
        &self,
        key: &str,
        class: StorageClass,
        etag: Option<&str>,
    ) -> Result<(String, i64)> {
        let mut more = vec![("x-amz-storage-class", class.name())];
        more.extend(etag.map(|etag| ("x-amz-copy-source-if-match", etag)));
        self.copy_with(key, key, more).await
    }

    /// Has an object in an archive class be readable again after a while.
    pub(crate) async fn restore(&self, key: &str, ask: RestoreAsk) -> Result<()> {
        let days = ask.days.map(|days| format!("<Days>{days}</Days>")).unwrap_or_default();
        let tier = ask.tier.name();
        let body = match ask.days {
            Some(_) => format!("<GlacierJobParameters><Tier>{tier}</Tier></GlacierJobParameters>"),
            None => format!("<Tier>{tier}</Tier>"),
        };
        let body = format!(
            "<RestoreRequest xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{days}{body}</RestoreRequest>"
        );
        let mut request = HttpRequest::new(body.into_bytes().into());
        let url = format!("{}?restore=", self.url_of(key));
        *request.uri_mut() = url.parse().map_err(generic)?;
        *request.method_mut() = "POST".parse().map_err(generic)?;
        self.send(request).await.map(drop)
    }

    /// A copy, attributes included, with these headers.
    async fn copy_with(
        &self,
        from: &str,
        to: &str,
        more: Vec<(&'static str, &str)>,
    ) -> Result<(String, i64)> {
        let source = self.copy_source(from)?;
        let mut headers =
            vec![("x-amz-copy-source", source.as_str()), ("x-amz-metadata-directive", "COPY")];
        headers.extend(more);
        headers.extend(self.encryption.iter().map(|(name, value)| (*name, value.as_str())));
        let url = self.url_of(to);
        let answer = self.send(request("PUT", &url, &headers)?).await?;
        // Success may turn into an error while the server works.
        complete::copied(&answer).map_err(|status| refused(status, &answer, &url))
    }

    /// How a copy names the object that it is of.
    pub(super) fn copy_source(&self, key: &str) -> Result<String> {
        if self.encryption.iter().any(|(_, value)| value == "sse-c") {
            let source = "objects with keys of the customer's are not copied".into();
            return Err(Error::NotSupported { source });
        }
        let path: Vec<String> = key.split('/').map(encoded).collect();
        Ok(format!("{}/{}", self.name, path.join("/")))
    }

    /// Headers that say how what is stored is encrypted.
    pub(super) fn encryption(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.encryption.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// Stores an object as if it had been damaged on its way: with the checksum of other bytes.
    pub(crate) async fn put_damaged(&self, key: &str, bytes: Bytes) -> Result<()> {
        let mut headers = vec![("x-amz-checksum-crc64nvme", SUM_OF_NOTHING)];
        headers.extend(self.encryption.iter().map(|(name, value)| (*name, value.as_str())));
        let mut request = request("PUT", &self.url_of(key), &headers)?;
        *request.body_mut() = bytes.into();
        self.send(request).await.map(drop)
    }

    /// Stores an object of a full key, of any key that a URL can carry.
    #[cfg(feature = "testing")]
    pub(crate) async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        let mut request = request("PUT", &self.url_of(key), &[])?;
        *request.body_mut() = bytes.into();
        self.send(request).await.map(drop)
    }

    /// Deletes an object, if the condition holds.
    pub(crate) async fn delete(&self, key: &str, mode: &PutMode) -> Result<()> {
        let headers: Vec<_> = condition(mode).into_iter().collect();
        self.send(request("DELETE", &self.url_of(key), &headers)?).await.map(drop)
    }

    pub(super) async fn send(&self, request: HttpRequest) -> Result<Bytes> {
        let response = self.exchange(request).await?;
        response.into_body().bytes().await.map_err(generic)
    }

    pub(super) fn url_of(&self, key: &str) -> String {
        let path: Vec<String> = key.split('/').map(encoded).collect();
        format!("{}/{}", self.bucket, path.join("/"))
    }

    async fn exchange(&self, mut request: HttpRequest) -> Result<HttpResponse> {
        if self.express {
            let source = "directory buckets (S3 Express) cannot be linked".into();
            return Err(Error::NotSupported { source });
        }
        if let Some(credentials) = &self.credentials {
            let credential = credentials.get_credential().await?;
            AwsAuthorizer::new(&credential, "s3", &self.region)
                .with_request_payer(self.request_payer)
                .try_authorize(&mut request, None)?;
        }
        let answered = self.client()?.execute(request).await;
        let response =
            answered.map_err(|cause| generic(Unanswered { url: self.bucket.clone(), cause }))?;
        let status = response.status().as_u16();
        if (200..=299).contains(&status) {
            return Ok(response);
        }
        let body = response.into_body().bytes().await.map_err(generic)?;
        Err(refused(status, &body, &self.bucket))
    }

    fn client(&self) -> Result<&HttpClient> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let made = ReqwestConnector::default().connect(&self.options)?;
        Ok(self.client.get_or_init(|| made))
    }
}

/// No answer came: whose it would have been, which the library's own error leaves out.
#[derive(Debug)]
struct Unanswered {
    url: String,
    cause: HttpError,
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "asking {}", self.url)
    }
}

impl std::error::Error for Unanswered {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// A request without a body.
pub(super) fn request(
    method: &str,
    url: &str,
    headers: &[(&'static str, &str)],
) -> Result<HttpRequest> {
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    *request.uri_mut() = url.parse().map_err(generic)?;
    *request.method_mut() = method.parse().map_err(generic)?;
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().map_err(generic)?);
    }
    Ok(request)
}

/// The header that says what must be true of the object that is written or deleted.
fn condition(mode: &PutMode) -> Option<(&'static str, &str)> {
    match mode {
        PutMode::Overwrite => None,
        PutMode::Create => Some(("if-none-match", "*")),
        PutMode::Update(version) => version.e_tag.as_deref().map(|etag| ("if-match", etag)),
    }
}

pub(super) fn generic(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic { store: STORE, source: source.into() }
}

/// The library's error for an answer that is no success.
pub(super) fn refused(status: u16, body: &[u8], url: &str) -> Error {
    let text = String::from_utf8_lossy(body);
    let source = format!("Server returned non-2xx status code: {status}: {text}").into();
    let path = url.to_owned();
    match status {
        401 => Error::Unauthenticated { path, source },
        403 => Error::PermissionDenied { path, source },
        404 => Error::NotFound { path, source },
        409 => Error::AlreadyExists { path, source },
        412 => Error::Precondition { path, source },
        _ => Error::Generic { store: STORE, source },
    }
}
