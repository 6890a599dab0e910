//! A store that can be made not to answer: requests wait as long as its gate is shut.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::sync::watch;

/// Opens and shuts the gate of all stores that were made with it.
#[derive(Clone, Debug)]
pub struct Gate(watch::Sender<bool>);

impl Default for Gate {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Gate {
    /// From now on no request has an answer.
    pub fn shut(&self) {
        self.0.send_replace(true);
    }

    /// Those that wait go on.
    pub fn open(&self) {
        self.0.send_replace(false);
    }

    /// `inner` behind this gate.
    pub fn store(&self, inner: Arc<dyn ObjectStore>) -> GateStore {
        GateStore { inner, shut: self.0.subscribe() }
    }
}

/// The decorator; [`Gate::store`] makes it.
#[derive(Debug)]
pub struct GateStore {
    inner: Arc<dyn ObjectStore>,
    shut: watch::Receiver<bool>,
}

impl GateStore {
    async fn pass(&self) {
        // Where the gate itself is gone it stays as it was left.
        if self.shut.clone().wait_for(|shut| !shut).await.is_err() {
            std::future::pending().await
        }
    }

    fn passed<T: Send + 'static>(
        &self,
        answers: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        let mut shut = self.shut.clone();
        let begin = async move {
            if shut.wait_for(|shut| !shut).await.is_err() {
                return std::future::pending().await;
            }
            Ok::<_, object_store::Error>(answers)
        };
        stream::once(begin).try_flatten().boxed()
    }
}

impl fmt::Display for GateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gated {}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for GateStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.pass().await;
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.pass().await;
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.pass().await;
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.passed(self.inner.delete_stream(locations))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.passed(self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.passed(self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.pass().await;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.pass().await;
        self.inner.copy_opts(from, to, options).await
    }
}
