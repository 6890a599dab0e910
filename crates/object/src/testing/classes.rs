//! A store that has the storage classes of S3, over one that has none.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    Attribute, CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use weir_types::StorageClass;

use crate::asks::{ClassAsk, HeadAsk, Written};

/// What objects of [`ClassStore`]s are in, as a bill would say.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    /// By full key; the others are in the first class.
    by_key: Arc<Mutex<BTreeMap<String, StorageClass>>>,
    /// The store takes no notice of classes from now on.
    ignored: Arc<Mutex<bool>>,
    /// What is moved has another ETag, as what was uploaded in parts has.
    other_etags: Arc<Mutex<bool>>,
}

impl Classes {
    /// `inner` with these classes.
    pub fn store(&self, inner: Arc<dyn ObjectStore>) -> ClassStore {
        ClassStore { inner, classes: self.clone() }
    }

    /// The class that the object of this full key is in.
    pub fn of(&self, key: &str) -> StorageClass {
        self.by_key.lock().get(key).copied().unwrap_or_default()
    }

    /// Keys of what is in any class but the first.
    pub fn cold(&self) -> BTreeMap<String, StorageClass> {
        let mut all = self.by_key.lock().clone();
        all.retain(|_, class| *class != StorageClass::Standard);
        all
    }

    /// Somebody put the object of this full key into a class.
    pub fn put(&self, key: &str, class: StorageClass) {
        self.by_key.lock().insert(key.to_owned(), class);
    }

    /// From now on what is moved has another ETag then, as what was uploaded in parts has.
    pub fn change_etags(&self) {
        *self.other_etags.lock() = true;
    }

    /// From now on requests to move objects are answered, and move none.
    pub fn ignore(&self) {
        *self.ignored.lock() = true;
    }
}

/// The decorator; [`Classes::store`] makes it.
#[derive(Debug)]
pub struct ClassStore {
    inner: Arc<dyn ObjectStore>,
    classes: Classes,
}

impl fmt::Display for ClassStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with classes", self.inner)
    }
}

#[async_trait]
impl ObjectStore for ClassStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let by_key = &self.classes.by_key;
        let Some(ClassAsk { class, etag }) = options.extensions.get::<ClassAsk>().cloned() else {
            let put = self.inner.put_opts(location, payload, options).await?;
            by_key.lock().remove(location.as_ref());
            return Ok(put);
        };
        let mut found: ObjectMeta = self.inner.head(location).await?;
        if etag.is_some() && etag != found.e_tag {
            let (path, source) = (location.to_string(), "it is another one".into());
            return Err(Error::Precondition { path, source });
        }
        if *self.classes.other_etags.lock() {
            let bytes = self.inner.get(location).await?.bytes().await?;
            self.inner.put(location, bytes.into()).await?;
            found = self.inner.head(location).await?;
        }
        if !*self.classes.ignored.lock() {
            by_key.lock().insert(location.to_string(), class);
        }
        let mut put =
            PutResult { e_tag: found.e_tag, version: None, extensions: Default::default() };
        put.extensions.insert(Written(found.last_modified.timestamp_millis()));
        Ok(put)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, mut options: GetOptions) -> Result<GetResult> {
        let asked = options.extensions.remove::<HeadAsk>().is_some();
        let mut got = self.inner.get_opts(location, options).await?;
        if asked {
            let class = self.classes.of(location.as_ref()).name();
            got.attributes.insert(Attribute::StorageClass, class.into());
        }
        Ok(got)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let by_key = self.classes.by_key.clone();
        let deleted = self.inner.delete_stream(locations);
        let forget = move |location: Result<Path>| {
            location.inspect(|location| {
                by_key.lock().remove(location.as_ref());
            })
        };
        deleted.map(forget).boxed()
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
