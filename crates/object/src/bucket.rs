//! A bucket with a volume's prefix: objects by key, whole or not at all.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    Attribute, GetOptions, GetRange, ObjectMeta, ObjectStore, PutMode, PutOptions, PutPayload,
};
use weir_types::{ErrorKind, FsError, Result};

use crate::caller::{Caller, ConditionalPut, Failure, PUT_ID};
use crate::connect::{check_directory, open_store};
use crate::etags::check_etag;
use crate::failure::is_no_bucket;
use crate::hedge::Hedger;
use crate::view::View;
use crate::{BucketUrl, Component, Conditions, ConnectOptions, Meter};

/// Above it a store copies in parts only. Source: Amazon S3 User Guide, "Copying, moving, and renaming objects".
pub(crate) const COPY_BYTES_MAX: u64 = 5 << 30;

/// What a store knows of an object without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Key below the bucket URL's prefix.
    pub key: String,
    /// Length in bytes.
    pub size: u64,
    /// Changes whenever the object does. Some stores have none.
    pub etag: Option<String>,
    /// When it was written, in milliseconds since 1970.
    pub last_modified_unix_ms: i64,
}

/// A bucket URL with a connection. Clones share it. Keys are relative to the URL's prefix; they
/// are `/`-separated, without empty, `.` or `..` parts, and used as they are, not escaped.
///
/// Every call retries what may pass (5xx, throttling, timeouts, broken bodies) until the
/// connection's `timeout_ms` is over; larger bodies get a second more for each MiB. Errors of all
/// calls: `NotFound`, `Permission`, `Conflict` (a condition did not hold), `Invalid` (a key or
/// region that cannot be), `NoSpace` and `ReadOnly` (directories), `Corrupt` (an object is shorter
/// than asked for), and `Retry` when time was up or, at once, when the bucket is not there:
/// `NotFound` says that it is, and that it has no such object.
#[derive(Clone)]
pub struct Bucket {
    caller: Arc<Caller>,
    /// Those that the store holds itself.
    pub(crate) conditions: Conditions,
    /// Above it objects are copied in parts.
    pub(crate) copy_bytes_max: u64,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bucket({})", self.caller.url)
    }
}

impl Bucket {
    /// Opens the store behind `url`. Makes no request: see [`Bucket::probe`].
    ///
    /// # Errors
    /// `Invalid` for options that make no sense; `Unsupported` when this build lacks the scheme;
    /// for `file://` `NotFound` or `Invalid` when the directory is missing or none.
    pub fn connect(url: &BucketUrl, options: &ConnectOptions, meter: &Meter) -> Result<Bucket> {
        Ok(Self::from_store(url, open_store(url, options)?, options, meter))
    }

    /// This bucket, of which objects above so many bytes are copied in parts, at least 5 MiB.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_copies_up_to(&self, bytes: u64) -> Bucket {
        Bucket { copy_bytes_max: bytes, ..self.clone() }
    }

    /// A bucket over a store that was opened (and perhaps decorated) elsewhere. `store` answers
    /// for the whole bucket: the URL's prefix is added here.
    pub fn from_store(
        url: &BucketUrl,
        store: Arc<dyn ObjectStore>,
        options: &ConnectOptions,
        meter: &Meter,
    ) -> Bucket {
        let caller = Caller {
            url: url.clone(),
            // The URL's parser let nothing through that this could refuse.
            prefix: Path::parse(url.prefix()).unwrap_or_default(),
            store,
            timeout: Duration::from_millis(options.timeout_ms),
            meter: meter.clone(),
            hedger: Arc::new(Hedger::new(options.hedge_percent)),
            hasty: false,
            served: Arc::default(),
        };
        Bucket {
            caller: Arc::new(caller),
            conditions: Conditions::ALL,
            copy_bytes_max: COPY_BYTES_MAX,
        }
    }

    /// This bucket, for whoever reaches for it first and waits at a terminal: where nothing listens
    /// at its address a call fails at once.
    #[must_use]
    pub fn hasty(&self) -> Bucket {
        let caller = Caller { hasty: true, ..(*self.caller).clone() };
        Bucket { caller: Arc::new(caller), ..self.clone() }
    }

    pub(crate) fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// Where it is.
    pub fn url(&self) -> &BucketUrl {
        &self.caller.url
    }

    /// Stores an object that never changes: a key is only ever written with the same bytes, so
    /// repeating it after a lost answer does no harm. Durable on return. One PUT.
    pub async fn put(
        &self,
        component: Component,
        key: &str,
        bytes: impl Into<PutPayload>,
    ) -> Result<()> {
        let options = PutOptions::from(PutMode::Overwrite);
        let path = self.path(key)?;
        let outcome = self.caller.put(component, &path, bytes.into(), options).await;
        outcome.map(drop).map_err(|failure| self.tell("PUT", key, failure))
    }

    /// Stores an object unless the key is taken: `false` when somebody else's object is there.
    /// A lost answer is resolved by looking the object up, never assumed. One PUT, and after a
    /// lost answer one HEAD.
    pub async fn put_new(
        &self,
        component: Component,
        key: &str,
        bytes: impl Into<PutPayload>,
    ) -> Result<bool> {
        let options = PutOptions::from(PutMode::Create);
        let path = self.path(key)?;
        match self.caller.put_if(component, &path, bytes.into(), options).await {
            Ok(ConditionalPut::Won(_)) => Ok(true),
            Ok(ConditionalPut::Lost(_)) => Ok(false),
            Ok(ConditionalPut::Unknown(failure)) | Err(failure) => {
                Err(self.tell("PUT", key, failure))
            }
        }
    }

    /// Stores an object over whatever is there; for small control objects. One PUT.
    pub async fn replace(
        &self,
        component: Component,
        key: &str,
        bytes: impl Into<PutPayload>,
    ) -> Result<()> {
        self.put(component, key, bytes).await
    }

    /// Reads a whole object, of some tens of MiB at most: read longer ones by range, whose
    /// deadline grows with the length. One GET.
    pub async fn get(&self, component: Component, key: &str) -> Result<Bytes> {
        let path = self.path(key)?;
        let got = self.caller.get(component, &path, GetOptions::default()).await;
        let got = got.map_err(|failure| self.tell("GET", key, failure))?;
        self.caller.meter.reads.note(component, key, got.bytes.len() as u64);
        Ok(got.bytes)
    }

    /// Reads `range` of an object: exactly that many bytes. One GET, none for an empty range.
    ///
    /// # Errors
    /// `Corrupt` when the object ends before the range does.
    pub async fn get_range(
        &self,
        component: Component,
        key: &str,
        range: Range<u64>,
    ) -> Result<Bytes> {
        self.ranged(component, key, range, None).await
    }

    /// Like [`Bucket::get_range`], but only while the object still has `etag`.
    ///
    /// # Errors
    /// `Conflict` when the object has changed.
    pub async fn get_range_if_match(
        &self,
        component: Component,
        key: &str,
        range: Range<u64>,
        etag: &str,
    ) -> Result<Bytes> {
        self.ranged(component, key, range, Some(etag.to_owned())).await
    }

    async fn ranged(
        &self,
        component: Component,
        key: &str,
        range: Range<u64>,
        if_match: Option<String>,
    ) -> Result<Bytes> {
        let path = self.path(key)?;
        if range.start >= range.end {
            return Ok(Bytes::new());
        }
        if_match.as_deref().map_or(Ok(()), check_etag)?;
        let bounded = Some(GetRange::Bounded(range.clone()));
        let options = GetOptions { range: bounded, if_match, ..GetOptions::default() };
        let got = self.caller.get(component, &path, options).await;
        let got = got.map_err(|failure| self.tell("GET", key, failure))?;
        if got.range != range {
            return Err(self.cut_off(key, &range, got.meta.size));
        }
        self.caller.meter.reads.note(component, key, got.bytes.len() as u64);
        Ok(got.bytes)
    }

    /// Reads `range` of an object and hands it to `take` in pieces, in order, as they come: each
    /// byte once, whatever had to be repeated. After an error some may have been handed out. With
    /// `if_match` all bytes are of the object that has this ETag. One GET, none for an empty range.
    ///
    /// On `file://`, where others may write into a file while it is read, its ETag is looked at
    /// before and after: two writes within one tick of the file system's clock are one change.
    ///
    /// # Errors
    /// `Corrupt` when the object ends before the range does. `Conflict`, at once, when it has
    /// another ETag or gets one meanwhile.
    pub async fn get_pieces(
        &self,
        component: Component,
        key: &str,
        range: Range<u64>,
        if_match: Option<&str>,
        take: &mut (dyn FnMut(Bytes) + Send),
    ) -> Result<()> {
        let path = self.path(key)?;
        if range.start >= range.end {
            return Ok(());
        }
        if_match.map_or(Ok(()), check_etag)?;
        let got = self.caller.get_pieces(component, &path, range.clone(), if_match, take).await;
        match got.map_err(|failure| self.tell("GET", key, failure))? {
            None => {
                self.caller.meter.reads.note(component, key, range.end - range.start);
                Ok(())
            }
            Some(size) => Err(self.cut_off(key, &range, size)),
        }
    }

    fn cut_off(&self, key: &str, range: &Range<u64>, size: u64) -> FsError {
        let url = self.caller.url.key_url(key);
        let why = format!("{url} has {size} bytes and was asked for {range:?}: it is cut off");
        FsError::new(ErrorKind::Corrupt, why)
    }

    /// Asks for an object's size and times. One HEAD.
    pub async fn head(&self, component: Component, key: &str) -> Result<ObjectInfo> {
        let path = self.path(key)?;
        let got = self.caller.head(component, &path).await;
        got.map(|got| self.info(got.meta)).map_err(|failure| self.tell("HEAD", key, failure))
    }

    /// Like [`Bucket::head`], and what the object carries as user metadata (on S3 the
    /// `x-amz-meta-` headers), by lower-case name without that prefix. `file://` keeps none.
    /// One HEAD.
    ///
    /// On `s3://` also of objects that mark a directory, whose keys end with a slash or are empty
    /// (the URL's prefix and a slash); other schemes have none.
    pub async fn head_attributes(
        &self,
        component: Component,
        key: &str,
    ) -> Result<(ObjectInfo, BTreeMap<String, String>)> {
        let marker = key.is_empty() || key.ends_with('/');
        let got = match marker {
            true => self.caller.head_raw(component, &self.raw_key(key)?).await,
            false => self.caller.head(component, &self.path(key)?).await,
        };
        let got = got.map_err(|failure| self.tell("HEAD", key, failure))?;
        let user = got.attributes.iter().filter_map(|(name, value)| match name {
            Attribute::Metadata(name) if name != PUT_ID => {
                Some((name.to_string(), value.to_string()))
            }
            _ => None,
        });
        let user = user.collect();
        Ok((ObjectInfo { key: key.to_owned(), ..self.info(got.meta) }, user))
    }

    /// Every object whose key begins with the parts of `prefix` (`""` for all), in the order of
    /// their keys. One LIST for each 1,000 keys; after a failure it goes on where it was.
    pub fn list(
        &self,
        component: Component,
        prefix: &str,
    ) -> BoxStream<'static, Result<ObjectInfo>> {
        let prefix = prefix.trim_matches('/');
        let path = match prefix {
            "" => self.caller.prefix.clone(),
            _ => match self.path(prefix) {
                Ok(path) => path,
                Err(error) => return futures::stream::iter([Err(error)]).boxed(),
            },
        };
        let (this, prefix) = (self.clone(), prefix.to_owned());
        let below = (!path.is_root()).then_some(path);
        let listing = self.caller.list(component, below, None);
        listing
            .map(move |found| match found {
                Ok(meta) => Ok(this.info(meta)),
                Err(failure) => Err(this.tell("LIST", &prefix, failure)),
            })
            .boxed()
    }

    /// Deletes an object; one that is not there is fine. Durable on return. One DELETE.
    pub async fn delete(&self, component: Component, key: &str) -> Result<()> {
        let path = self.path(key)?;
        let outcome = self.caller.delete(component, &path).await;
        outcome.map_err(|failure| self.tell("DELETE", key, failure))
    }

    /// Whether the bucket can be used at all: it is there, the keys are right, the server answers,
    /// the directory can be written. One LIST, none for a directory. Where nothing listens at the
    /// address it fails at once.
    ///
    /// # Errors
    /// As all calls, but a missing bucket is `NotFound` here.
    pub async fn probe(&self) -> Result<()> {
        if let Some(directory) = self.caller.url.directory() {
            return check_directory(directory);
        }
        let below = Some(&self.caller.prefix).filter(|prefix| !prefix.is_root()).cloned();
        match self.hasty().caller.list(Component::Volume, below, None).next().await {
            Some(Err(failure)) => {
                let missing = is_no_bucket(&failure.error);
                let error = self.tell("LIST", "", failure);
                Err(if missing {
                    FsError::new(ErrorKind::NotFound, error.to_string())
                } else {
                    error
                })
            }
            _ => Ok(()),
        }
    }

    /// The bucket below its prefix as a library store, counted as `component`, with the same
    /// retries. Conditional updates work on every scheme. A multipart upload is kept in memory
    /// and leaves as one PUT when it is completed.
    pub fn store(&self, component: Component) -> Arc<dyn ObjectStore> {
        Arc::new(View::new(Arc::clone(&self.caller), component))
    }

    pub(crate) fn info(&self, meta: ObjectMeta) -> ObjectInfo {
        ObjectInfo {
            key: self.caller.relative(meta.location).into(),
            size: meta.size,
            etag: meta.e_tag,
            last_modified_unix_ms: meta.last_modified.timestamp_millis(),
        }
    }

    pub(crate) fn path(&self, key: &str) -> Result<Path> {
        let whole = !key.is_empty() && !key.starts_with('/') && !key.ends_with('/');
        let parsed = whole.then(|| Path::parse(key).ok()).flatten();
        let path = parsed.ok_or_else(|| {
            let hint = "a key has parts between single slashes, none of them `.` or `..`, \
                        and no control characters";
            let url = self.caller.url.key_url(key);
            FsError::new(ErrorKind::Invalid, format!("`{url}` cannot be an object: {hint}"))
        })?;
        Ok(self.caller.full(&path))
    }

    /// The full key, if a URL can carry it: no parts `.` and `..`, which are taken for a way.
    fn raw_key(&self, key: &str) -> Result<String> {
        if key.split('/').any(|part| matches!(part, "." | "..")) {
            return self.path(key).map(Into::into);
        }
        Ok(format!("{}{key}", self.caller.root()))
    }

    pub(crate) fn tell(&self, operation: &str, key: &str, failure: Failure) -> FsError {
        failure.tell(operation, &self.caller.url.key_url(key))
    }
}
