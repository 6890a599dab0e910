//! A store that is as far away as a real one: latency of each request, bandwidth of each
//! connection. Waits in tokio's time, so that tests can hold it still.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::asks::UploadAsk;

/// What one read of a connection brings.
const STEP_BYTES: usize = 256 << 10;

/// How slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slow {
    /// Time from a request to its first byte.
    pub latency: Duration,
    /// Bytes a second of one request's body; 0 for no limit.
    pub bytes_per_s: u64,
}

impl Slow {
    async fn wait(self, bytes: u64) {
        let transfer = match self.bytes_per_s {
            0 => Duration::ZERO,
            rate => Duration::from_secs_f64(bytes as f64 / rate as f64),
        };
        tokio::time::sleep(self.latency + transfer).await;
    }
}

/// The decorator.
pub struct SlowStore {
    inner: Arc<dyn ObjectStore>,
    slow: Slow,
    /// Of so many reads one is slow, and nothing else.
    one_read_of: Option<u64>,
    reads: AtomicU64,
    /// How long uploads in parts take to become objects, and nothing else.
    completion: Option<Completion>,
}

/// How the end of an upload in parts is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The object is there after this time, if somebody waits for it.
    After(Duration),
    /// The object is there at once; the answer never comes.
    Unanswered,
}

impl SlowStore {
    /// `inner`, but `slow`.
    pub fn new(inner: Arc<dyn ObjectStore>, slow: Slow) -> Self {
        Self { inner, slow, one_read_of: None, reads: AtomicU64::new(0), completion: None }
    }

    /// `inner`, but every `n`th read is `slow`.
    pub fn one_read_of(inner: Arc<dyn ObjectStore>, n: u64, slow: Slow) -> Self {
        Self { one_read_of: Some(n), ..Self::new(inner, slow) }
    }

    /// `inner`, whose uploads in parts end slowly.
    pub fn completing(inner: Arc<dyn ObjectStore>, completion: Completion) -> Self {
        Self { completion: Some(completion), ..Self::new(inner, Slow::default()) }
    }

    /// How slow a request is that is no read.
    fn usual(&self) -> Slow {
        if self.one_read_of.is_some() { Slow::default() } else { self.slow }
    }

    /// How slow the next read is.
    fn next_read(&self) -> Slow {
        let number = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
        let slow = self.one_read_of.is_none_or(|n| number.is_multiple_of(n));
        if slow { self.slow } else { Slow::default() }
    }

    fn later<T: Send + 'static>(
        &self,
        answers: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        let slow = self.usual();
        let begin = async move {
            slow.wait(0).await;
            Ok::<_, object_store::Error>(answers)
        };
        stream::once(begin).try_flatten().boxed()
    }
}

impl fmt::Display for SlowStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slow {}", self.inner)
    }
}

impl fmt::Debug for SlowStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlowStore({:?}, {:?})", self.inner, self.slow)
    }
}

/// `piece` in steps of a connection's usual reads.
fn steps(mut piece: Bytes) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || {
        let step = piece.split_to(piece.len().min(STEP_BYTES));
        (!step.is_empty()).then_some(step)
    })
}

#[async_trait]
impl ObjectStore for SlowStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.usual().wait(payload.content_length() as u64).await;
        let completes = matches!(options.extensions.get(), Some(UploadAsk::Complete { .. }));
        match self.completion.filter(|_| completes) {
            Some(Completion::After(time)) => tokio::time::sleep(time).await,
            Some(Completion::Unanswered) => {
                // Whatever it says, nobody hears it.
                let _ = self.inner.put_opts(location, payload, options).await;
                return std::future::pending().await;
            }
            None => {}
        }
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.usual().wait(0).await;
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (head, slow) = (options.head, self.next_read());
        let got = self.inner.get_opts(location, options).await?;
        slow.wait(0).await;
        if head || slow.bytes_per_s == 0 {
            return Ok(got);
        }
        let body = Slow { latency: Duration::ZERO, ..slow };
        let (meta, range) = (got.meta.clone(), got.range.clone());
        let (attributes, extensions) = (got.attributes.clone(), got.extensions.clone());
        // In steps, as from a wire: who reads gets what came, not all at the end.
        let steps = got.into_stream().map_ok(|piece| stream::iter(steps(piece).map(Ok)));
        let paced = steps.try_flatten().and_then(move |step: Bytes| async move {
            body.wait(step.len() as u64).await;
            Ok(step)
        });
        let payload = GetResultPayload::Stream(paced.boxed());
        Ok(GetResult { payload, meta, range, attributes, extensions })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.later(self.inner.delete_stream(locations))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.later(self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.later(self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.usual().wait(0).await;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.usual().wait(0).await;
        self.inner.copy_opts(from, to, options).await
    }
}
