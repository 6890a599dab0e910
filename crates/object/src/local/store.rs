//! A directory as the library's object store.

use std::fmt;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};
use rustix::fs::OFlags;

use super::root::{LocalStore, generic, refused};
use super::{change, parts, staged};
use crate::asks::{ChangeAsk, OpenWalk, UploadAsk};
use crate::etags::etag;

impl fmt::Display for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file://{}", self.root.display())
    }
}

#[async_trait]
impl ObjectStore for LocalStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        if let Some(ask) = options.extensions.get::<UploadAsk>().cloned() {
            return self.upload(location, payload, options, ask).await;
        }
        if let Some(ask) = options.extensions.get::<ChangeAsk>().cloned() {
            return self.change(location, options.mode, ask).await;
        }
        let mode = options.mode;
        if matches!(&mode, PutMode::Update(expected) if expected.e_tag.is_none()) {
            return Err(generic("an update needs an ETag"));
        }
        let (this, create) = (self.clone(), mode == PutMode::Create);
        let put = self.at(location, move |root, key| {
            staged::put(root, &this.prepared(root, key)?, &payload, &mode)
        });
        let e_tag = put.await?;
        if e_tag.is_none() {
            return Err(refused(location, create));
        }
        self.remember(location, e_tag.as_deref(), options.attributes);
        Ok(PutResult { e_tag, version: None, extensions: Default::default() })
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let upload = self.begin(location).await?;
        Ok(Box::new(parts::Upload::new(self.clone(), location.clone(), upload)))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if let Some(open) = options.extensions.get::<OpenWalk>() {
            return Ok(self.walk(open));
        }
        let opened =
            self.at(location, |root, key| root.directory.file(key.as_bytes(), OFlags::RDONLY));
        let (file, found) = opened.await?;
        let modified = found.modified().map_err(generic)?;
        let meta = ObjectMeta {
            location: location.clone(),
            last_modified: modified.into(),
            size: found.len(),
            e_tag: Some(etag(&found)),
            version: None,
        };
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            Some(range) => range
                .as_range(meta.size)
                .map_err(|why| generic(format!("{location}: the range was invalid: {why}")))?,
            None => 0..meta.size,
        };
        let remembered = self.remembered.lock();
        Ok(GetResult {
            payload: GetResultPayload::File(file, self.root.join(location.as_ref())),
            attributes: remembered.find(&meta),
            range,
            meta,
            extensions: Default::default(),
        })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        locations
            .map(move |location| {
                let this = this.clone();
                async move {
                    let location = location?;
                    this.at(&location, |root, key| change::remove(&root.place(key)?)).await?;
                    Ok(location)
                }
            })
            .buffered(10)
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.objects(prefix, None)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.objects(prefix, Some(offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.level(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let create = options.mode == CopyMode::Create;
        let mode = if create { PutMode::Create } else { PutMode::Overwrite };
        let copied = self.copied(from, None, to, mode).await?;
        copied.map(drop).ok_or_else(|| refused(to, create))
    }
}
