//! What both who writes a database and who follows it open it with.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use parking_lot::Mutex;
use slatedb::db_cache::DbCache;
use slatedb::db_cache::moka::{MokaCache, MokaCacheOptions};
use tokio::sync::oneshot;
use weir_types::{ErrorKind, FsError, Result};

/// The cache of the tables' blocks.
pub(super) fn block_cache(bytes: u64) -> Arc<dyn DbCache> {
    let options = MokaCacheOptions { max_capacity: bytes, ..MokaCacheOptions::default() };
    Arc::new(MokaCache::new_with_opts(options))
}

/// `NotFound` if no database lies at `path`. One LIST.
pub(super) async fn require(store: &Arc<dyn ObjectStore>, path: &Path) -> Result<()> {
    let manifests = path.clone().join("manifest");
    match store.list(Some(&manifests)).next().await {
        Some(Ok(_)) => Ok(()),
        Some(Err(error)) => {
            let context = format!("cannot open the metadata at {path}: {error}");
            Err(FsError::new(ErrorKind::Retry, context).with_source(error))
        }
        None => {
            let context = format!("no metadata at {path}: the volume was not made, or elsewhere");
            Err(FsError::new(ErrorKind::NotFound, context))
        }
    }
}

/// The first request that was not allowed.
pub(super) type Denied = oneshot::Receiver<Arc<Error>>;

/// A store that tells of the first request that it was not allowed.
pub(super) fn watched(inner: Arc<dyn ObjectStore>) -> (Arc<dyn ObjectStore>, Denied) {
    let (tell, told) = oneshot::channel();
    (Arc::new(Watched { inner, tell: Arc::new(Mutex::new(Some(tell))) }), told)
}

/// Opens a database by `work`. What the bucket does not allow ends that at once: SlateDB would try
/// it again without end, as is right later on, when somebody may be changing what is allowed.
pub(super) async fn unless_denied<T>(
    mut denied: Denied,
    what: &str,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let told = |error: Arc<Error>| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        let why = cause.unwrap_or_else(|| error.to_string());
        let advice = "check the access keys and what they allow on this bucket";
        let text = format!("cannot {what}: {why}; {advice}");
        FsError::new(ErrorKind::Permission, text).with_source(error)
    };
    tokio::select! {
        biased;
        Ok(error) = &mut denied => Err(told(error)),
        // It may have ended by that very request.
        done = work => match (done, denied.try_recv()) {
            (Err(_), Ok(error)) => Err(told(error)),
            (done, _) => done,
        },
    }
}

/// See [`watched`].
struct Watched {
    inner: Arc<dyn ObjectStore>,
    tell: Tell,
}

type Tell = Arc<Mutex<Option<oneshot::Sender<Arc<Error>>>>>;

/// The same error, once it was told of.
fn denied(tell: &Tell, error: Error) -> Error {
    if !matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. }) {
        return error;
    }
    let shared = Arc::new(error);
    if let Some(tell) = tell.lock().take() {
        // Nobody waits any more once the database is open.
        let _ = tell.send(Arc::clone(&shared));
    }
    Error::PermissionDenied { path: String::new(), source: Box::new(shared) }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Watched {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        let put = self.inner.put_opts(location, payload, options).await;
        put.map_err(|error| denied(&self.tell, error))
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(
        &self,
        location: &Path,
        options: GetOptions,
    ) -> object_store::Result<GetResult> {
        let got = self.inner.get_opts(location, options).await;
        got.map_err(|error| denied(&self.tell, error))
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        let tell = Arc::clone(&self.tell);
        let listed = self.inner.list(prefix);
        listed.map(move |one| one.map_err(|error| denied(&tell, error))).boxed()
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        let tell = Arc::clone(&self.tell);
        let listed = self.inner.list_with_offset(prefix, offset);
        listed.map(move |one| one.map_err(|error| denied(&tell, error))).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        let listed = self.inner.list_with_delimiter(prefix).await;
        listed.map_err(|error| denied(&self.tell, error))
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
