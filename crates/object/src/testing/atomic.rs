//! A store in memory that holds the conditions of copies, deletions and uploads in parts as Amazon
//! does: in one step.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};
use tokio::sync::{Mutex, MutexGuard};

/// Who has it is alone with a store; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Alone(Arc<Mutex<()>>);

impl Alone {
    /// Waits for writes under way, and keeps others out.
    pub async fn enter(&self) -> MutexGuard<'_, ()> {
        self.0.lock().await
    }
}

/// The decorator.
#[derive(Debug)]
pub struct AtomicStore {
    inner: Arc<dyn ObjectStore>,
    alone: Alone,
}

impl AtomicStore {
    /// `inner`, one write after the other, each with its condition.
    pub fn new(inner: Arc<dyn ObjectStore>, alone: Alone) -> Self {
        Self { inner, alone }
    }
}

impl fmt::Display for AtomicStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "atomic {}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for AtomicStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let _alone = self.alone.enter().await;
        let there = match self.inner.head(location).await {
            Ok(there) => Some(there),
            Err(Error::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let holds = match (&options.mode, there) {
            (PutMode::Overwrite, _) | (PutMode::Create, None) => true,
            (PutMode::Update(version), Some(there)) => version.e_tag == there.e_tag,
            _ => false,
        };
        if !holds {
            let (path, source) = (location.to_string(), "the condition does not hold".into());
            return Err(Error::Precondition { path, source });
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

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
