//! The library's stores, and beside them the requests for which its trait has no method: listings
//! by raw keys and uploads in parts. They come through methods that the trait has, as extensions of
//! their options, so that decorators apply to them too.

use std::fmt;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::aws::{ListAsk, Requests};

/// A step of an upload in parts, asked for by way of `put_opts`.
#[derive(Clone, Debug)]
pub(crate) enum UploadAsk {
    /// Begins it with the attributes of the options. Answers its name as `version`.
    Begin,
    /// Stores the payload as a part. Answers the part's name as `e_tag`.
    Part {
        upload: String,
        /// Counted from 0.
        index: usize,
        /// Where in the object the part begins.
        offset: u64,
    },
    /// Makes the object, if the options' condition holds (where the store can tell).
    Complete { upload: String, parts: Vec<String> },
    /// Throws the parts away.
    Abort { upload: String },
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Extended<S> {
    inner: S,
    /// For S3, which can do more than the library lets one ask for.
    s3: Option<Requests>,
}

impl<S: ObjectStore + MultipartStore> Extended<S> {
    pub(crate) fn new(inner: S, s3: Option<Requests>) -> Self {
        Self { inner, s3 }
    }

    async fn upload(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
        ask: UploadAsk,
    ) -> Result<PutResult> {
        let mut result = PutResult { e_tag: None, version: None, extensions: Default::default() };
        match (ask, &self.s3) {
            (UploadAsk::Begin, _) => {
                let attributes = options.attributes;
                let options = PutMultipartOptions { attributes, ..Default::default() };
                result.version = Some(self.inner.create_multipart_opts(location, options).await?);
            }
            (UploadAsk::Part { upload, index, .. }, _) => {
                let part = self.inner.put_part(location, &upload, index, payload).await?;
                result.e_tag = Some(part.content_id);
            }
            (UploadAsk::Complete { upload, parts }, Some(s3)) => {
                let path = location.as_ref();
                result.e_tag = Some(s3.complete(path, &upload, &parts, &options.mode).await?);
            }
            (UploadAsk::Complete { upload, parts }, None) => {
                let parts = parts.into_iter().map(|content_id| PartId { content_id }).collect();
                let made = self.inner.complete_multipart(location, &upload, parts).await;
                result = made.map_err(|error| gone_is_not_found(location, error))?;
            }
            (UploadAsk::Abort { upload }, _) => {
                let gone = self.inner.abort_multipart(location, &upload).await;
                gone.map_err(|error| gone_is_not_found(location, error))?;
            }
        }
        Ok(result)
    }
}

/// Memory has no error of its own for an upload that is over.
fn gone_is_not_found(location: &Path, error: Error) -> Error {
    match error.to_string().contains("MultipartUpload not found") {
        true => Error::NotFound { path: location.to_string(), source: error.into() },
        false => error,
    }
}

/// A page of a listing, as the server wrote it.
async fn list_page(s3: Option<&Requests>, location: &Path, ask: &ListAsk) -> Result<GetResult> {
    let s3 =
        s3.ok_or_else(|| Error::NotSupported { source: "only S3 lists by raw keys".into() })?;
    let body = s3.list(ask).await?;
    let size = body.len() as u64;
    let meta = ObjectMeta {
        location: location.clone(),
        last_modified: Default::default(),
        size,
        e_tag: None,
        version: None,
    };
    Ok(GetResult {
        payload: GetResultPayload::Stream(stream::iter([Ok(body)]).boxed()),
        meta,
        range: 0..size,
        attributes: Default::default(),
        extensions: Default::default(),
    })
}

impl<S: fmt::Display> fmt::Display for Extended<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl<S: ObjectStore + MultipartStore> ObjectStore for Extended<S> {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        match options.extensions.get::<UploadAsk>().cloned() {
            Some(ask) => self.upload(location, payload, options, ask).await,
            None => self.inner.put_opts(location, payload, options).await,
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match options.extensions.get::<ListAsk>() {
            Some(ask) => list_page(self.s3.as_ref(), location, ask).await,
            None => self.inner.get_opts(location, options).await,
        }
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
