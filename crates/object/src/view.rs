//! A bucket as a library store, for the metadata engine: below the volume's prefix, counted,
//! retried. Errors stay the library's own, so that the engine can tell them apart.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result, UploadPart,
};

use parking_lot::Mutex;

use crate::caller::{Ask, Caller, ConditionalPut, Failure, new_put_id};
use crate::{Component, RequestKind};

/// One component's view of a bucket.
pub(crate) struct View {
    caller: Arc<Caller>,
    component: Component,
    /// Creations that are under way, or were given up with no answer, by path and bytes. The engine tries those
    /// again, and they may have been done: what it finds in its way is no other writer's then.
    in_doubt: Mutex<HashMap<(Path, u64), Doubt>>,
}

/// What tells two contents apart that somebody seals, which the same content does each time to other bytes: comes with
/// the options of a put.
#[derive(Clone, Copy)]
pub(crate) struct PlainDigest(pub(crate) u64);

/// Tells contents apart, in this process.
pub(crate) fn digest_of<'a>(parts: impl Iterator<Item = &'a [u8]>) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.for_each(|part| hasher.write(part));
    hasher.finish()
}

/// A creation of which it is not known whether it was done.
struct Doubt {
    /// Its name, which the object has.
    id: String,
    /// Somebody waits for its end. Several writers share a view, and may create one object at once: each that
    /// loses has to know it.
    under_way: bool,
}

/// A creation that is under way; given up when it is dropped.
struct Creation<'a> {
    view: &'a View,
    key: Option<(Path, u64)>,
    id: String,
    /// It may have been done before.
    again: bool,
}

impl Creation<'_> {
    /// It is known what became of it.
    fn ended(mut self) {
        if let Some(key) = self.key.take() {
            self.view.in_doubt.lock().remove(&key);
        }
    }
}

impl Drop for Creation<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take()
            && let Some(doubt) = self.view.in_doubt.lock().get_mut(&key)
        {
            doubt.under_way = false;
        }
    }
}

/// More than the engine has under way; beyond that the older doubts are forgotten.
const IN_DOUBT_MAX: usize = 1_000;

impl View {
    pub(crate) fn new(caller: Arc<Caller>, component: Component) -> Self {
        Self { caller, component, in_doubt: Mutex::default() }
    }

    /// Creates an object, also one that an earlier call with the same bytes may have created.
    async fn create(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> std::result::Result<ConditionalPut, Failure> {
        let plain = options.extensions.get::<PlainDigest>().map(|digest| digest.0);
        let digest = plain.unwrap_or_else(|| digest_of(payload.iter().map(|part| &part[..])));
        let creation = self.begin(path, digest);
        let before = || std::future::ready(Ok(()));
        let (caller, component) = (&self.caller, self.component);
        let name = (creation.id.clone(), creation.again);
        let put = caller.put_if_named(name, before, component, path, payload, options).await;
        if put.is_ok() {
            creation.ended();
        }
        put
    }

    /// Begins a creation: it is in doubt from here on, also where nobody waits for its end.
    fn begin(&self, path: &Path, digest: u64) -> Creation<'_> {
        let key = (path.clone(), digest);
        let mut in_doubt = self.in_doubt.lock();
        if in_doubt.len() >= IN_DOUBT_MAX {
            in_doubt.retain(|_, doubt| doubt.under_way);
        }
        match in_doubt.get_mut(&key) {
            // Another writer makes the same at this moment: one of the two will know that it lost.
            Some(doubt) if doubt.under_way => {
                Creation { view: self, key: None, id: new_put_id(), again: false }
            }
            Some(doubt) => {
                doubt.under_way = true;
                Creation { view: self, id: doubt.id.clone(), key: Some(key), again: true }
            }
            None => {
                let id = new_put_id();
                in_doubt.insert(key.clone(), Doubt { id: id.clone(), under_way: true });
                Creation { view: self, key: Some(key), id, again: false }
            }
        }
    }

    fn listing(
        &self,
        prefix: Option<&Path>,
        offset: Option<&Path>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let below = self.caller.full(prefix.unwrap_or(&Path::ROOT));
        let below = (!below.is_root()).then_some(below);
        let after = offset.map(|offset| self.caller.full(offset));
        let caller = Arc::clone(&self.caller);
        let listing = self.caller.list(self.component, below, after);
        listing
            .map(move |found| match found {
                Ok(meta) => Ok(relative(&caller, meta)),
                Err(failure) => Err(failure.error),
            })
            .boxed()
    }
}

fn relative(caller: &Caller, meta: ObjectMeta) -> ObjectMeta {
    ObjectMeta { location: caller.relative(meta.location), ..meta }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.caller.url)
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({}, {:?})", self.caller.url, self.component)
    }
}

#[async_trait]
impl ObjectStore for View {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let path = self.caller.full(location);
        if options.mode == PutMode::Overwrite {
            let put = self.caller.put(self.component, &path, payload, options).await;
            return put.map_err(|failure| failure.error);
        }
        let put = match options.mode {
            PutMode::Create => self.create(&path, payload, options).await,
            _ => self.caller.put_if(self.component, &path, payload, options).await,
        };
        match put {
            Ok(ConditionalPut::Won(result)) => Ok(result),
            Ok(ConditionalPut::Lost(error)) => Err(error),
            Ok(ConditionalPut::Unknown(failure)) | Err(failure) => Err(failure.error),
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let path = self.caller.full(location);
        let (caller, component) = (Arc::clone(&self.caller), self.component);
        Ok(Box::new(Upload { caller, component, path, options, parts: Some(Vec::new()) }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let path = self.caller.full(location);
        let got = self.caller.get(self.component, &path, options).await;
        let got = got.map_err(|failure| failure.error)?;
        let body = stream::once(async move { Ok(got.bytes) });
        Ok(GetResult {
            payload: GetResultPayload::Stream(body.boxed()),
            meta: relative(&self.caller, got.meta),
            range: got.range,
            attributes: got.attributes,
            extensions: Default::default(),
        })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (caller, component) = (Arc::clone(&self.caller), self.component);
        locations
            .map(move |location| {
                let caller = Arc::clone(&caller);
                async move {
                    let location = location?;
                    let deleted = caller.delete(component, &caller.full(&location)).await;
                    deleted.map(|()| location).map_err(|failure| failure.error)
                }
            })
            .buffered(10)
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listing(prefix, None)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listing(prefix, Some(offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let below = &self.caller.full(prefix.unwrap_or(&Path::ROOT));
        let ask = Ask::new(self.component, RequestKind::List);
        let store = &self.caller.store;
        let listed = self
            .caller
            .run(ask, |_| async move { Ok((store.list_with_delimiter(Some(below)).await?, 0)) })
            .await
            .map_err(|failure| failure.error)?;
        let prefixes = listed.common_prefixes.into_iter();
        Ok(ListResult {
            common_prefixes: prefixes.map(|prefix| self.caller.relative(prefix)).collect(),
            objects: listed.objects.into_iter().map(|m| relative(&self.caller, m)).collect(),
            extensions: listed.extensions,
        })
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        if options.mode != CopyMode::Overwrite {
            // After a lost answer nobody could tell whose copy it is.
            return Err(Error::NotImplemented {
                operation: "a copy that must not overwrite".to_owned(),
                implementer: self.to_string(),
            });
        }
        let (from, to) = (&self.caller.full(from), &self.caller.full(to));
        let (store, options) = (&self.caller.store, &options);
        let ask = Ask::new(self.component, RequestKind::Copy);
        self.caller
            .run(ask, |_| async move { Ok((store.copy_opts(from, to, options.clone()).await?, 0)) })
            .await
            .map_err(|failure| failure.error)
    }
}

/// An upload in parts, which are kept until all are there and then leave as one object: one
/// request instead of parts + 2, and one that can be repeated as a whole. A library upload cannot:
/// neither a part nor the completion may be sent twice.
struct Upload {
    caller: Arc<Caller>,
    component: Component,
    path: Path,
    options: PutMultipartOptions,
    parts: Option<Vec<PutPayload>>,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upload({}, {})", self.caller.url, self.path)
    }
}

fn over() -> Error {
    let source = "the upload was completed or aborted before".into();
    Error::Generic { store: "weir", source }
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, part: PutPayload) -> UploadPart {
        let kept = match &mut self.parts {
            Some(parts) => {
                parts.push(part);
                Ok(())
            }
            None => Err(over()),
        };
        std::future::ready(kept).boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let parts = self.parts.as_ref().ok_or_else(over)?;
        let pieces: Vec<Bytes> = parts.iter().flat_map(|part| part.iter().cloned()).collect();
        let options = PutOptions {
            mode: PutMode::Overwrite,
            tags: self.options.tags.clone(),
            attributes: self.options.attributes.clone(),
            extensions: Default::default(),
        };
        let whole = PutPayload::from_iter(pieces);
        let put = self.caller.put(self.component, &self.path, whole, options).await;
        let result = put.map_err(|failure| failure.error)?;
        self.parts = None;
        Ok(result)
    }

    async fn abort(&mut self) -> Result<()> {
        self.parts = None;
        Ok(())
    }
}
