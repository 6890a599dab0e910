//! The library's stores, and beside them the requests for which its trait has no method: listings
//! by raw keys and uploads in parts. They come through methods that the trait has, as extensions of
//! their options, so that decorators apply to them too.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    Attributes, CopyMode, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};

#[cfg(feature = "testing")]
use crate::asks::OddAsk;
use crate::asks::{
    ChangeAsk, ClassAsk, HeadAsk, ListAsk, PartsAsk, RestoreAsk, UploadAsk, Written, WrongSumAsk,
};
use crate::aws::requests::Requests;
use crate::etags::still;

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

/// A change as stores make it that know no conditions: what it rests on is looked at right before.
async fn change(
    store: &impl ObjectStore,
    location: &Path,
    mode: &PutMode,
    ask: ChangeAsk,
) -> Result<PutResult> {
    let mut result = PutResult { e_tag: None, version: None, extensions: Default::default() };
    let ChangeAsk::Copy { from, etag } = ask else {
        // The caller has looked.
        store.delete(location).await?;
        return Ok(result);
    };
    still(etag.as_deref(), store.head(&from).await?.e_tag.as_deref(), &from)?;
    let mode = if *mode == PutMode::Create { CopyMode::Create } else { CopyMode::Overwrite };
    store.copy_opts(&from, location, CopyOptions::new().with_mode(mode)).await?;
    let made = store.head(location).await?;
    result.e_tag = made.e_tag;
    result.extensions.insert(Written(made.last_modified.timestamp_millis()));
    Ok(result)
}

/// A change as S3 makes it.
async fn change_s3(
    s3: &Requests,
    location: &Path,
    mode: &PutMode,
    ask: ChangeAsk,
) -> Result<PutResult> {
    let mut result = PutResult { e_tag: None, version: None, extensions: Default::default() };
    match ask {
        ChangeAsk::Delete => s3.delete(location.as_ref(), mode).await?,
        ChangeAsk::Copy { from, etag } => {
            let copied = s3.copy(from.as_ref(), etag.as_deref(), location.as_ref(), mode).await?;
            result.e_tag = Some(copied.0);
            result.extensions.insert(Written(copied.1));
        }
    }
    Ok(result)
}

/// Memory has no error of its own for an upload that is over.
fn gone_is_not_found(location: &Path, error: Error) -> Error {
    match error.to_string().contains("MultipartUpload not found") {
        true => Error::NotFound { path: location.to_string(), source: error.into() },
        false => error,
    }
}

fn only_s3(s3: Option<&Requests>) -> Result<&Requests> {
    s3.ok_or_else(|| Error::NotSupported { source: "only S3 is asked by raw keys".into() })
}

pub(crate) fn no_meta(location: &Path) -> ObjectMeta {
    let (last_modified, location) = (Default::default(), location.clone());
    ObjectMeta { location, last_modified, size: 0, e_tag: None, version: None }
}

/// What a server answered, as the trait has it.
pub(crate) fn answer(body: Bytes, meta: ObjectMeta, attributes: Attributes) -> GetResult {
    GetResult {
        range: 0..body.len() as u64,
        payload: GetResultPayload::Stream(stream::iter([Ok(body)]).boxed()),
        meta,
        attributes,
        extensions: Default::default(),
    }
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
        if let Some(ask) = options.extensions.get::<ChangeAsk>().cloned() {
            return match &self.s3 {
                Some(s3) => change_s3(s3, location, &options.mode, ask).await,
                None => change(&self.inner, location, &options.mode, ask).await,
            };
        }
        if let Some(ClassAsk { class, etag }) = options.extensions.get::<ClassAsk>() {
            let s3 = only_s3(self.s3.as_ref())?;
            let (etag, written) = s3.set_class(location.as_ref(), *class, etag.as_deref()).await?;
            let mut result =
                PutResult { e_tag: Some(etag), version: None, extensions: Default::default() };
            result.extensions.insert(Written(written));
            return Ok(result);
        }
        if let Some(ask) = options.extensions.get::<PartsAsk>() {
            let (s3, to) = (only_s3(self.s3.as_ref())?, location.as_ref());
            let mut result =
                PutResult { e_tag: None, version: None, extensions: Default::default() };
            match ask {
                PartsAsk::Begin { from, class, kept } => {
                    let begun = s3.begin_copy((from.as_ref(), to), *class, kept).await?;
                    result.version = Some(begun);
                }
                PartsAsk::Part { from, upload, number, range, etag } => {
                    let (keys, part) = ((from.as_ref(), to), (upload.as_str(), *number));
                    result.e_tag = Some(s3.copy_part(keys, part, range, etag).await?);
                }
            }
            return Ok(result);
        }
        if let Some(ask) = options.extensions.get::<RestoreAsk>() {
            only_s3(self.s3.as_ref())?.restore(location.as_ref(), *ask).await?;
            return Ok(PutResult { e_tag: None, version: None, extensions: Default::default() });
        }
        if options.extensions.get::<WrongSumAsk>().is_some() {
            only_s3(self.s3.as_ref())?.put_damaged(location.as_ref(), payload.into()).await?;
            return Ok(PutResult { e_tag: None, version: None, extensions: Default::default() });
        }
        #[cfg(feature = "testing")]
        if let Some(OddAsk { key, deletes }) = options.extensions.get() {
            let s3 = only_s3(self.s3.as_ref())?;
            match deletes {
                true => s3.delete(key, &PutMode::Overwrite).await?,
                false => s3.put(key, payload.into()).await?,
            }
            return Ok(PutResult { e_tag: None, version: None, extensions: Default::default() });
        }
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
        if let Some(ask) = options.extensions.get::<ListAsk>() {
            let body = only_s3(self.s3.as_ref())?.list(ask).await?;
            let size = body.len() as u64;
            let meta = ObjectMeta { size, ..no_meta(location) };
            return Ok(answer(body, meta, Attributes::default()));
        }
        if let Some(HeadAsk(key)) = options.extensions.get::<HeadAsk>() {
            let (meta, attributes, archive, kept) = only_s3(self.s3.as_ref())?.head(key).await?;
            let mut found = answer(Bytes::new(), meta, attributes);
            found.extensions.insert(archive);
            found.extensions.insert(kept);
            return Ok(found);
        }
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
