//! A store in memory that holds the conditions of writes, copies, deletions and uploads in parts as
//! Amazon does: in one step. Or, if it is told to, as some S3 work-alikes do.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};

use crate::asks::{ChangeAsk, UploadAsk};
use crate::etags::is_same;

/// Who has it is alone with a store; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Alone(Arc<tokio::sync::Mutex<()>>);

impl Alone {
    /// Waits for writes under way, and keeps others out.
    pub async fn enter(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.lock().await
    }
}

/// What a server does otherwise than Amazon.
#[derive(Clone, Copy, Debug, Default)]
pub struct Habits {
    /// It takes no notice of `If-None-Match`.
    pub ignores_absent: bool,
    /// It takes no notice of `If-Match`, on copies and deletions either.
    pub ignores_match: bool,
    /// Which ETags it tells.
    pub etags: Etags,
    /// Where it leaves their quotes out.
    pub unquoted: Unquoted,
}

/// Which ETags a server tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Etags {
    /// Another one for each write.
    #[default]
    Counted,
    /// The same for the same bytes, as Amazon's are.
    OfBytes,
    /// None.
    None,
}

/// Where a server leaves the quotes of its ETags out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unquoted {
    /// Everywhere.
    #[default]
    Everywhere,
    /// In listings only.
    Listings,
    /// In answers to reads and HEADs only.
    Reads,
    /// In answers to writes only.
    Writes,
}

/// What a store's listings show; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Listings(Arc<Mutex<Option<Vec<ObjectMeta>>>>);

impl Listings {
    /// From here on they show nothing.
    pub fn forget(&self) {
        *self.get() = Some(Vec::new());
    }

    /// From here on they show what they show now, as `store` has it.
    pub async fn stop(&self, store: &dyn ObjectStore) {
        let listed = store.list(None).try_collect().await.unwrap_or_default();
        *self.get() = Some(listed);
    }

    /// They show what is there.
    pub fn go_on(&self) {
        *self.get() = None;
    }

    fn get(&self) -> MutexGuard<'_, Option<Vec<ObjectMeta>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The decorator.
#[derive(Debug)]
pub struct AtomicStore {
    inner: Arc<dyn ObjectStore>,
    alone: Alone,
    habits: Habits,
    /// The store below is a server, and does as it does.
    server: bool,
    listings: Listings,
    /// ETags that are told, by those of the store below.
    told: Arc<Mutex<HashMap<String, String>>>,
    /// What somebody saw of objects and did not write since.
    seen: Mutex<HashMap<Path, Option<String>>>,
    overtaken: Arc<Mutex<Vec<Bytes>>>,
}

#[derive(Clone, Copy)]
enum Answer {
    Listing,
    Read,
    Write,
}

impl AtomicStore {
    /// `inner`, one write after the other, each with its condition.
    pub fn new(inner: Arc<dyn ObjectStore>, alone: Alone) -> Self {
        let (habits, server, listings, told, seen, overtaken) = Default::default();
        Self { inner, alone, habits, server, listings, told, seen, overtaken }
    }

    /// `inner`, a server that holds what conditions it holds, one write after the other. What goes
    /// because it held none is noted in `overtaken`, as of [`AtomicStore::with_habits`].
    pub fn over_server(
        inner: Arc<dyn ObjectStore>,
        alone: Alone,
        overtaken: Arc<Mutex<Vec<Bytes>>>,
    ) -> Self {
        Self { server: true, overtaken, ..Self::new(inner, alone) }
    }

    /// `inner`, which takes no notice of conditions and, without `etags`, tells none.
    pub fn careless(inner: Arc<dyn ObjectStore>, etags: bool) -> Self {
        let etags = if etags { Etags::Counted } else { Etags::None };
        let (ignores_absent, ignores_match, unquoted) = (true, true, Unquoted::default());
        let habits = Habits { ignores_absent, ignores_match, etags, unquoted };
        Self::new(inner, Alone::default()).with_habits(habits, Arc::default())
    }

    /// As a server with these habits. What somebody else put between the look of whom no condition
    /// helps and his write is lost, and noted in `overtaken`.
    #[must_use]
    pub fn with_habits(self, habits: Habits, overtaken: Arc<Mutex<Vec<Bytes>>>) -> Self {
        Self { habits, overtaken, ..self }
    }

    /// Subject listings may be stopped.
    #[must_use]
    pub fn listing(self, listings: Listings) -> Self {
        Self { listings, ..self }
    }

    async fn there(&self, location: &Path) -> Result<Option<ObjectMeta>> {
        match self.inner.head(location).await {
            Ok(there) => Ok(Some(there)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What is told of an object.
    async fn shown(&self, meta: ObjectMeta, answer: Answer) -> Result<ObjectMeta> {
        if self.server {
            return Ok(meta);
        }
        let e_tag = match (&meta.e_tag, self.habits.etags) {
            (_, Etags::None) | (None, _) => None,
            (Some(inner), etags) => {
                let bare = match etags {
                    Etags::OfBytes => self.of_bytes(&meta.location, inner).await?,
                    _ => inner.clone(),
                };
                let quoted = match self.habits.unquoted {
                    Unquoted::Everywhere => false,
                    Unquoted::Listings => !matches!(answer, Answer::Listing),
                    Unquoted::Reads => !matches!(answer, Answer::Read),
                    Unquoted::Writes => !matches!(answer, Answer::Write),
                };
                Some(if quoted { format!("\"{bare}\"") } else { bare })
            }
        };
        Ok(ObjectMeta { e_tag, ..meta })
    }

    async fn of_bytes(&self, location: &Path, inner: &str) -> Result<String> {
        let known = |told: &Mutex<HashMap<String, String>>| {
            told.lock().unwrap_or_else(PoisonError::into_inner).get(inner).cloned()
        };
        if let Some(known) = known(&self.told) {
            return Ok(known);
        }
        let mut hasher = DefaultHasher::new();
        let got = self.inner.get(location).await?;
        if got.meta.e_tag.as_deref() != Some(inner) {
            // Of an older version that nobody heard of, nobody can.
            let (path, source) = (location.to_string(), "it was replaced".into());
            return Err(Error::NotFound { path, source });
        }
        got.bytes().await?.hash(&mut hasher);
        let told = format!("{:016x}", hasher.finish());
        let mut all = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(all.entry(inner.to_owned()).or_insert(told).clone())
    }

    async fn holds(&self, mode: &PutMode, there: Option<&ObjectMeta>) -> Result<bool> {
        Ok(match (mode, there) {
            (PutMode::Overwrite, _) | (PutMode::Create, None) => true,
            (PutMode::Create, Some(_)) => self.habits.ignores_absent,
            (PutMode::Update(_), _) if self.habits.ignores_match => true,
            (PutMode::Update(version), Some(there)) => {
                let told = self.shown(there.clone(), Answer::Write).await?.e_tag;
                is_same(version.e_tag.as_deref(), told.as_deref())
            }
            (PutMode::Update(_), None) => false,
        })
    }

    /// The bytes that go if the object is written now, though nobody here saw them.
    async fn unseen(&self, location: &Path, there: Option<&ObjectMeta>) -> Result<Option<Bytes>> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(location);
        match (seen, there) {
            (Some(seen), Some(there)) if seen != there.e_tag => {
                Ok(Some(self.inner.get(location).await?.bytes().await?))
            }
            _ => Ok(None),
        }
    }

    /// Has the store below write, on the condition that it was given or that was held above.
    async fn write(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
        there: Option<&ObjectMeta>,
    ) -> Result<PutResult> {
        let unseen = self.unseen(location, there).await?;
        let put = self.inner.put_opts(location, payload, options).await?;
        self.overtaken.lock().unwrap_or_else(PoisonError::into_inner).extend(unseen);
        Ok(put)
    }

    fn listed(
        &self,
        prefix: Option<&Path>,
        offset: Option<&Path>,
        now: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let stopped = self.listings.get().clone();
        let then = match stopped {
            None => now,
            Some(then) => {
                let (prefix, offset) = (prefix.cloned().unwrap_or_default(), offset.cloned());
                let is_below = move |meta: &ObjectMeta| {
                    meta.location.prefix_matches(&prefix)
                        && meta.location != prefix
                        && offset.as_ref().is_none_or(|offset| meta.location > *offset)
                };
                stream::iter(then.into_iter().filter(is_below).map(Ok)).boxed()
            }
        };
        let this = Self {
            habits: self.habits,
            server: self.server,
            told: self.told.clone(),
            ..Self::new(self.inner.clone(), self.alone.clone())
        };
        let this = Arc::new(this);
        let told = move |meta: ObjectMeta| {
            let this = this.clone();
            async move {
                match this.shown(meta, Answer::Listing).await {
                    Ok(meta) => Ok(Some(meta)),
                    // It went since.
                    Err(Error::NotFound { .. }) => Ok(None),
                    Err(error) => Err(error),
                }
            }
        };
        then.and_then(told).try_filter_map(|meta| async move { Ok(meta) }).boxed()
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
        mut options: PutOptions,
    ) -> Result<PutResult> {
        let steps = options.extensions.get::<UploadAsk>();
        if steps.is_some_and(|step| !matches!(step, UploadAsk::Complete { .. })) {
            return self.inner.put_opts(location, payload, options).await;
        }
        let _alone = self.alone.enter().await;
        let there = self.there(location).await?;
        if self.server {
            return self.write(location, payload, options, there.as_ref()).await;
        }
        if !self.holds(&options.mode, there.as_ref()).await? {
            let (path, source) = (location.to_string(), "the condition does not hold".into());
            return Err(Error::Precondition { path, source });
        }
        if let Some(ChangeAsk::Copy { from, etag: Some(etag) }) = options.extensions.get().cloned()
            && let Some(source) = self.there(&from).await?
            && is_same(
                Some(&etag),
                self.shown(source.clone(), Answer::Read).await?.e_tag.as_deref(),
            )
        {
            options.extensions.insert(ChangeAsk::Copy { from, etag: source.e_tag });
        }
        // It was held above.
        options.mode = PutMode::Overwrite;
        let put = self.write(location, payload, options, there.as_ref()).await?;
        let Some(meta) = self.there(location).await?.filter(|_| put.e_tag.is_some()) else {
            return Ok(put);
        };
        Ok(PutResult { e_tag: self.shown(meta, Answer::Write).await?.e_tag, ..put })
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, mut options: GetOptions) -> Result<GetResult> {
        if let Some(etag) = options.if_match.take_if(|_| !self.server) {
            let meta = self.inner.head(location).await?;
            let told = self.shown(meta.clone(), Answer::Read).await?.e_tag;
            if !is_same(Some(&etag), told.as_deref()) {
                let (path, source) = (location.to_string(), "it is another one".into());
                return Err(Error::Precondition { path, source });
            }
            options.if_match = meta.e_tag;
        }
        let is_look = options.head;
        let got = self.inner.get_opts(location, options).await;
        if is_look && (got.is_ok() || matches!(got, Err(Error::NotFound { .. }))) {
            let etag = got.as_ref().ok().and_then(|got| got.meta.e_tag.clone());
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.insert(location.clone(), etag);
        }
        let mut got = got?;
        got.meta = self.shown(got.meta, Answer::Read).await?;
        Ok(got)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(prefix, None, self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(prefix, Some(offset), self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let all: Vec<_> = self.list(prefix).try_collect().await?;
        let above = prefix.map_or(0, |prefix| prefix.parts().count());
        let is_here = |meta: &ObjectMeta| meta.location.parts().count() == above + 1;
        let (objects, below): (Vec<_>, Vec<_>) = all.into_iter().partition(is_here);
        let below = below.iter().map(|meta| meta.location.parts().take(above + 1).collect());
        let common_prefixes = BTreeSet::from_iter(below).into_iter().collect();
        Ok(ListResult { common_prefixes, objects, extensions: Default::default() })
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
