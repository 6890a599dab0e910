//! A server that takes no notice of conditions, as some S3 work-alikes do.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// `inner`, which writes whatever the condition says and, if asked to, tells no ETags, or lists
/// nothing.
#[derive(Debug)]
pub struct CarelessStore {
    inner: Arc<dyn ObjectStore>,
    etags: bool,
    forgets: Arc<AtomicBool>,
}

impl CarelessStore {
    /// The decorator; with `etags` it tells them.
    pub fn new(inner: Arc<dyn ObjectStore>, etags: bool) -> Self {
        Self { inner, etags, forgets: Arc::default() }
    }

    /// While the switch is on, listings of it are empty (those that `file://` makes are not).
    #[must_use]
    pub fn forgetting(mut self, forgets: Arc<AtomicBool>) -> Self {
        self.forgets = forgets;
        self
    }

    fn listed(
        &self,
        listing: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        if self.forgets.load(Ordering::SeqCst) {
            return futures::stream::empty().boxed();
        }
        let etags = self.etags;
        let told =
            move |meta: ObjectMeta| ObjectMeta { e_tag: meta.e_tag.filter(|_| etags), ..meta };
        listing.map(move |found| found.map(told)).boxed()
    }

    fn etag(&self, etag: Option<String>) -> Option<String> {
        etag.filter(|_| self.etags)
    }
}

impl fmt::Display for CarelessStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "careless {}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for CarelessStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let options = PutOptions { mode: PutMode::Overwrite, ..options };
        let put = self.inner.put_opts(location, payload, options).await?;
        Ok(PutResult { e_tag: self.etag(put.e_tag.clone()), ..put })
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let mut got = self.inner.get_opts(location, options).await?;
        got.meta.e_tag = self.etag(got.meta.e_tag.take());
        Ok(got)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
