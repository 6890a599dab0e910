//! A bucket in memory that counts requests and misbehaves when told to.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;

#[derive(Debug, Default)]
pub(in crate::kv::slate) struct WatchedStore {
    inner: InMemory,
    away: AtomicBool,
    denies: Mutex<Option<&'static str>>,
    answers_to_lose: AtomicU64,
    latency_ms: AtomicU64,
    counts: Mutex<BTreeMap<&'static str, u64>>,
}

impl WatchedStore {
    /// While away, every request fails after 5 ms.
    pub(in crate::kv::slate) fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    /// Requests of this kind are not allowed.
    pub(in crate::kv::slate) fn deny(&self, kind: Option<&'static str>) {
        *self.denies.lock() = kind;
    }

    /// The next `n` PUTs are applied and then fail.
    pub(in crate::kv::slate) fn lose_answers(&self, n: u64) {
        self.answers_to_lose.store(n, Ordering::SeqCst);
    }

    pub(in crate::kv::slate) fn set_latency(&self, latency: Duration) {
        self.latency_ms.store(latency.as_millis() as u64, Ordering::SeqCst);
    }

    pub(in crate::kv::slate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.lock().clone()
    }

    pub(in crate::kv::slate) fn count(&self, kind: &str) -> u64 {
        self.counts.lock().get(kind).copied().unwrap_or(0)
    }

    fn note(&self, kind: &'static str) {
        *self.counts.lock().entry(kind).or_default() += 1;
    }

    async fn request(&self, kind: &'static str) -> Result<()> {
        let away = self.away.load(Ordering::SeqCst);
        let wait = if away { 5 } else { self.latency_ms.load(Ordering::SeqCst) };
        if wait > 0 {
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
        if away {
            self.note("refused");
            return Err(unavailable());
        }
        self.note(kind);
        self.allowed(kind)
    }

    fn allowed(&self, kind: &'static str) -> Result<()> {
        if *self.denies.lock() != Some(kind) {
            return Ok(());
        }
        let source = format!("{kind} is denied to nobody in particular").into();
        Err(Error::PermissionDenied { path: String::new(), source })
    }
}

fn unavailable() -> Error {
    Error::Generic { store: "watched", source: "503 the bucket is away".into() }
}

impl Deref for WatchedStore {
    type Target = InMemory;

    fn deref(&self) -> &InMemory {
        &self.inner
    }
}

impl fmt::Display for WatchedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("watched")
    }
}

#[async_trait]
impl ObjectStore for WatchedStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        self.request("put").await?;
        let done = self.inner.put_opts(location, payload, opts).await?;
        let less = |n: u64| n.checked_sub(1);
        if self.answers_to_lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok() {
            self.note("answer lost");
            return Err(unavailable());
        }
        Ok(done)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.request("put").await?;
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.request("get").await?;
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.note("delete");
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        if self.away.load(Ordering::SeqCst) {
            self.note("refused");
            return stream::once(async { Err(unavailable()) }).boxed();
        }
        self.note("list");
        if let Err(error) = self.allowed("list") {
            return stream::once(async { Err(error) }).boxed();
        }
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.request("list").await?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.request("put").await?;
        self.inner.copy_opts(from, to, options).await
    }
}
