//! One request, made until it is answered: attempts, pauses between them, the deadline, the count.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attribute, Error, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    PutPayload, PutResult,
};
use parking_lot::Mutex;
use tokio::time::Instant;
use weir_types::{ErrorKind, FsError};

use crate::failure::{brief, broken, is_refused_connection, judge, tell};
use crate::hedge::Hedger;
use crate::meter::Counted;
use crate::{BucketUrl, Component, Meter, RequestKind};

/// The first pause between attempts is at most this long; each next at most twice the one before.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
/// No pause is longer.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// An attempt without an answer for so long is given up and repeated.
const ATTEMPT_MAX: Duration = Duration::from_secs(30);
/// Bodies may take longer: the slowest link that still works.
const SLOWEST_BYTES_PER_S: u64 = 1 << 20;
/// Keys in one page of a listing.
const PAGE_KEYS: usize = 1000;
/// Object metadata that tells whose write made an object. No hyphens: Azure refuses them.
pub(crate) const PUT_ID: &str = "weirputid";

/// A store with the volume's prefix, its deadline and its meter.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) url: BucketUrl,
    pub(crate) prefix: Path,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) timeout: Duration,
    pub(crate) meter: Meter,
    pub(crate) hedger: Arc<Hedger>,
    /// Where nothing listens at the address is not tried again.
    pub(crate) hasty: bool,
    /// When the last request was sent that the bucket did what it asked for.
    pub(crate) served: Arc<Mutex<Option<Instant>>>,
}

/// What is asked, for the meter, the deadline and the messages.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) component: Component,
    pub(crate) kind: RequestKind,
    /// Bytes of the body that is sent with each attempt.
    pub(crate) sends: u64,
    /// Bytes of the body that is expected back, 0 when not known.
    pub(crate) expects: u64,
    /// How long the store may think about it.
    pub(crate) patience: Patience,
}

/// How long the store may take, without the time for bodies.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    /// For one attempt.
    pub(crate) attempt: Duration,
    /// For all of them, if that is more than the connection's timeout.
    pub(crate) in_all: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { attempt: ATTEMPT_MAX, in_all: Duration::ZERO }
    }
}

impl Ask {
    pub(crate) fn new(component: Component, kind: RequestKind) -> Self {
        Self { component, kind, sends: 0, expects: 0, patience: Patience::default() }
    }
}

/// A name for one conditional write.
pub(crate) fn new_put_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// A request that was given up.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) attempts: u32,
    pub(crate) elapsed: Duration,
}

impl Failure {
    /// For people: the same error with the operation, the URL and the attempts.
    pub(crate) fn tell(self, operation: &str, url: &str) -> FsError {
        let seconds = self.elapsed.as_secs_f64();
        let tries = match self.attempts {
            0 | 1 => String::new(),
            n => format!(" ({n} attempts in {seconds:.1} s)"),
        };
        tell(&format!("{operation} {url} failed{tries}"), self.error)
    }
}

/// How a conditional write ended.
pub(crate) enum ConditionalPut {
    /// The object is there and it is ours.
    Won(PutResult),
    /// The condition did not hold.
    Lost(Error),
    /// Somebody else's object is there, and whether ours was before it nobody knows.
    Unknown(Failure),
}

/// Counts one attempt when it is over, also when its future was dropped half-way.
pub(crate) struct Count<'a> {
    meter: &'a Meter,
    ask: Ask,
    start: Instant,
    pub(crate) counted: Counted,
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.counted.latency = self.start.elapsed();
        self.meter.count(self.ask.component, self.ask.kind, &self.counted);
    }
}

impl Caller {
    /// Runs `attempt` (given its number from 0) until it succeeds, fails for good, or the deadline
    /// passes. `attempt` returns its value and the number of body bytes received.
    pub(crate) async fn run<T, F>(
        &self,
        ask: Ask,
        attempt: impl FnMut(u32) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = object_store::Result<(T, u64)>>,
    {
        self.run_after(|| std::future::ready(Ok(())), ask, attempt).await
    }

    /// Like [`Caller::run`], with `before` before each attempt, which is not made (nor counted) if
    /// that fails. `before` counts its own requests.
    pub(crate) async fn run_after<T, F, B>(
        &self,
        mut before: impl FnMut() -> B,
        ask: Ask,
        mut attempt: impl FnMut(u32) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = object_store::Result<(T, u64)>>,
        B: Future<Output = object_store::Result<()>>,
    {
        let transfer = Duration::from_secs((ask.sends + ask.expects) / SLOWEST_BYTES_PER_S);
        let start = Instant::now();
        let deadline = start + self.timeout.max(ask.patience.in_all) + transfer;
        let mut number = 0;
        let mut told = None;
        loop {
            let began = Instant::now();
            let limit = deadline.min(Instant::now() + ask.patience.attempt + transfer);
            let mut count = None;
            let tried = async {
                before().await?;
                count.insert(self.begin(ask)).counted.retry = number > 0;
                attempt(number).await
            };
            let outcome = match tokio::time::timeout_at(limit, tried).await {
                Ok(outcome) => outcome,
                // What was answered before says more than that time is up.
                Err(_) => Err(told.take().unwrap_or_else(|| {
                    broken(io::ErrorKind::TimedOut, "no answer in time".to_owned())
                })),
            };
            number += 1;
            let error = match outcome {
                Ok((value, received)) => {
                    if let Some(count) = &mut count {
                        count.counted.failed = false;
                        count.counted.bytes_received = received;
                    }
                    self.meter.troubles.answered(ask.component, ask.kind);
                    *self.served.lock() = Some(began);
                    return Ok(value);
                }
                Err(error) => error,
            };
            let verdict = judge(&error);
            // "No such key", "exists" and "ends before that" are answers like others.
            let is_answer = matches!(
                verdict.kind,
                ErrorKind::NotFound | ErrorKind::Conflict | ErrorKind::Corrupt
            );
            let failed = verdict.transient || !is_answer;
            if let Some(mut count) = count {
                count.counted.failed = failed;
            }
            match failed {
                true => self.meter.troubles.failed(ask.component, ask.kind, began, &brief(&error)),
                false => self.meter.troubles.answered(ask.component, ask.kind),
            }
            let pause = pause(number);
            let in_vain = self.hasty && is_refused_connection(&error);
            if !verdict.transient || in_vain || Instant::now() + pause >= deadline {
                return Err(Failure { error, attempts: number, elapsed: start.elapsed() });
            }
            tracing::debug!(kind = ?ask.kind, number, ?pause, %error, "bucket request repeats");
            tokio::time::sleep(pause).await;
            told = Some(error);
        }
    }

    pub(crate) fn begin(&self, ask: Ask) -> Count<'_> {
        let counted = Counted {
            requests: 1,
            failed: true,
            retry: false,
            hedge: false,
            bytes_sent: ask.sends,
            bytes_received: 0,
            latency: Duration::ZERO,
        };
        Count { meter: &self.meter, ask, start: Instant::now(), counted }
    }

    /// Writes whatever was there before.
    pub(crate) async fn put(
        &self,
        component: Component,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult, Failure> {
        self.put_after(|| std::future::ready(Ok(())), component, path, payload, options).await
    }

    async fn put_after<B>(
        &self,
        before: impl FnMut() -> B,
        component: Component,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult, Failure>
    where
        B: Future<Output = object_store::Result<()>>,
    {
        let sends = payload.content_length() as u64;
        let ask = Ask { sends, ..Ask::new(component, RequestKind::Put) };
        self.run_after(before, ask, |_| {
            let (payload, options) = (payload.clone(), options.clone());
            async move { Ok((self.store.put_opts(path, payload, options).await?, 0)) }
        })
        .await
    }

    /// Writes if the condition in `options.mode` holds. The object carries a name of this very
    /// write: when an answer was lost, the object is looked up and the name compared.
    pub(crate) async fn put_if(
        &self,
        component: Component,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<ConditionalPut, Failure> {
        let before = || std::future::ready(Ok(()));
        self.put_if_after(before, component, path, payload, options).await
    }

    /// The same, with `before` before each attempt, which may say that the condition does not hold.
    pub(crate) async fn put_if_after<B>(
        &self,
        before: impl FnMut() -> B,
        component: Component,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<ConditionalPut, Failure>
    where
        B: Future<Output = object_store::Result<()>>,
    {
        let name = (new_put_id(), false);
        self.put_if_named(name, before, component, path, payload, options).await
    }

    /// `again`: the same write may have been done already.
    pub(crate) async fn put_if_named<B>(
        &self,
        (id, again): (String, bool),
        before: impl FnMut() -> B,
        component: Component,
        path: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> Result<ConditionalPut, Failure>
    where
        B: Future<Output = object_store::Result<()>>,
    {
        let updates = matches!(options.mode, PutMode::Update(_));
        options.attributes.insert(Attribute::Metadata(PUT_ID.into()), id.clone().into());
        let failure = match self.put_after(before, component, path, payload.clone(), options).await
        {
            Ok(result) => return Ok(ConditionalPut::Won(result)),
            Err(failure) => failure,
        };
        if !matches!(failure.error, Error::AlreadyExists { .. } | Error::Precondition { .. }) {
            return Err(failure);
        }
        if failure.attempts == 1 && !again {
            return Ok(ConditionalPut::Lost(failure.error));
        }
        if let Some(result) = self.is_ours(component, path, &payload, &id).await? {
            return Ok(ConditionalPut::Won(result));
        }
        if updates {
            // Ours may have come first and theirs upon it.
            let message = "an answer was lost and the object has changed since: whether this \
                           update was applied is unknown";
            let error = broken(io::ErrorKind::Other, message.to_owned());
            return Ok(ConditionalPut::Unknown(Failure { error, ..failure }));
        }
        Ok(ConditionalPut::Lost(failure.error))
    }

    /// Whether the object at `path` was made by the write named `id`. A store that keeps no
    /// metadata is asked for the bytes.
    async fn is_ours(
        &self,
        component: Component,
        path: &Path,
        payload: &PutPayload,
        id: &str,
    ) -> Result<Option<PutResult>, Failure> {
        let found = match self.head(component, path).await {
            Ok(found) => found,
            Err(failure) if matches!(failure.error, Error::NotFound { .. }) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let ours = match found.attributes.get(&Attribute::Metadata(PUT_ID.into())) {
            Some(have) => have.as_ref() == id,
            None if found.meta.size != payload.content_length() as u64 => false,
            None => {
                let have = self.get(component, path, GetOptions::default()).await?.bytes;
                let want: Vec<u8> = payload.iter().flatten().copied().collect();
                have == want
            }
        };
        let (e_tag, version) = (found.meta.e_tag, found.meta.version);
        Ok(ours.then(|| PutResult { e_tag, version, extensions: Default::default() }))
    }

    /// Deletes; an object that is not there is fine.
    pub(crate) async fn delete(&self, component: Component, path: &Path) -> Result<(), Failure> {
        let ask = Ask::new(component, RequestKind::Delete);
        let outcome =
            self.run(ask, |_| async move { Ok((self.store.delete(path).await?, 0)) }).await;
        match outcome {
            // A missing bucket is not an object that was deleted before.
            Err(failure)
                if matches!(failure.error, Error::NotFound { .. })
                    && judge(&failure.error).kind == ErrorKind::NotFound =>
            {
                Ok(())
            }
            other => other,
        }
    }

    /// All objects below `prefix` after `offset`, in the order of their full keys. One request for
    /// each page of 1,000.
    pub(crate) fn list(
        self: &Arc<Self>,
        component: Component,
        prefix: Option<Path>,
        offset: Option<Path>,
    ) -> BoxStream<'static, Result<ObjectMeta, Failure>> {
        let listing = Listing { caller: Arc::clone(self), component, prefix, after: offset };
        stream::try_unfold((listing, None, false), |(mut listing, open, over)| async move {
            if over {
                return Ok(None);
            }
            let (page, open) = listing.page(open).await?;
            let over = open.is_none();
            Ok(Some((stream::iter(page.into_iter().map(Ok)), (listing, open, over))))
        })
        .try_flatten()
        .boxed()
    }

    /// `location` below the volume's prefix.
    pub(crate) fn full(&self, location: &Path) -> Path {
        self.prefix.parts().chain(location.parts()).collect()
    }

    /// What the full keys of all objects here begin with.
    pub(crate) fn root(&self) -> String {
        match self.url.prefix() {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        }
    }

    /// `full` without the volume's prefix.
    pub(crate) fn relative(&self, full: Path) -> Path {
        let below = full.prefix_match(&self.prefix).map(|parts| parts.collect());
        below.unwrap_or(full)
    }
}

type Open = BoxStream<'static, object_store::Result<ObjectMeta>>;

/// A listing under way: after a failure it goes on behind the last key that it saw.
struct Listing {
    caller: Arc<Caller>,
    component: Component,
    prefix: Option<Path>,
    after: Option<Path>,
}

impl Listing {
    /// The next page, and the stream behind it unless it ended.
    async fn page(
        &mut self,
        open: Option<Open>,
    ) -> Result<(Vec<ObjectMeta>, Option<Open>), Failure> {
        let (caller, prefix, after) = (&self.caller, &self.prefix, &self.after);
        let open = Mutex::new(open);
        let ask = Ask::new(self.component, RequestKind::List);
        let (page, open) = caller
            .run(ask, |_| {
                let kept = open.lock().take();
                async move {
                    let mut open = kept.unwrap_or_else(|| match after {
                        Some(after) => caller.store.list_with_offset(prefix.as_ref(), after),
                        None => caller.store.list(prefix.as_ref()),
                    });
                    let mut page = Vec::new();
                    while page.len() < PAGE_KEYS {
                        match open.try_next().await? {
                            Some(meta) => page.push(meta),
                            None => return Ok(((page, None), 0)),
                        }
                    }
                    Ok(((page, Some(open)), 0))
                }
            })
            .await?;
        self.after = page.last().map(|meta| meta.location.clone()).or(self.after.take());
        Ok((page, open))
    }
}

/// A random pause before attempt `number`: spread evenly, so that those who failed together do
/// not come back together.
fn pause(number: u32) -> Duration {
    let longest = PAUSE_FIRST.saturating_mul(1 << number.min(16).saturating_sub(1));
    longest.min(PAUSE_MAX).mul_f64(rand::random::<f64>())
}
