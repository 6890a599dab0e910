//! A store that fails as a [`FaultPlan`] says.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;

use super::plan::{FaultPlan, FaultRule, Place, Trigger, What};
use crate::RequestKind;
use crate::asks::ChangeAsk;
use crate::asks::is_listing;
use crate::failure::broken;

/// Switches a [`FaultStore`] while it runs, and tells what it did. Clones share it.
#[derive(Clone)]
pub struct FaultControl {
    shared: Arc<FaultState>,
}

struct FaultState {
    on: AtomicBool,
    vanished: AtomicBool,
    /// GETs wait while it says so.
    silent: watch::Sender<bool>,
    fired: [AtomicU64; RequestKind::ALL.len()],
    dice: Mutex<Dice>,
}

struct Dice {
    rng: StdRng,
    rules: Vec<(FaultRule, u64)>,
}

impl FaultControl {
    /// Faults on or off; a new store has them on.
    pub fn set_on(&self, on: bool) {
        self.shared.on.store(on, Ordering::SeqCst);
    }

    /// While vanished, every request is refused: the store is away.
    pub fn set_vanished(&self, vanished: bool) {
        self.shared.vanished.store(vanished, Ordering::SeqCst);
    }

    /// While silent, no GET is answered; those that wait go on after.
    pub fn set_silent(&self, silent: bool) {
        self.shared.silent.send_replace(silent);
    }

    async fn answered(&self) {
        // The sender lives as long as this.
        let _ = self.shared.silent.subscribe().wait_for(|silent| !silent).await;
    }

    /// Faults so far on requests of `kind`, those while vanished included.
    pub fn fired(&self, kind: RequestKind) -> u64 {
        self.shared.fired[kind as usize].load(Ordering::SeqCst)
    }

    /// Faults so far.
    pub fn fired_in_all(&self) -> u64 {
        RequestKind::ALL.into_iter().map(|kind| self.fired(kind)).sum()
    }

    /// The fault of this request, if it has one.
    fn draw(&self, kind: RequestKind, key: &str) -> Option<(Place, What)> {
        let vanished = self.shared.vanished.load(Ordering::SeqCst);
        let fault = match vanished {
            true => Some((Place::Before, What::Reset)),
            false if !self.shared.on.load(Ordering::SeqCst) => None,
            false => self.shared.dice.lock().draw(kind, key),
        };
        if fault.is_some() {
            self.shared.fired[kind as usize].fetch_add(1, Ordering::SeqCst);
        }
        fault
    }

    fn random(&self, below: usize) -> usize {
        let mut dice = self.shared.dice.lock();
        dice.rng.random_range(0..below)
    }
}

impl Dice {
    fn draw(&mut self, kind: RequestKind, key: &str) -> Option<(Place, What)> {
        let Self { rng, rules } = self;
        for (rule, seen) in rules {
            if rule.kind.is_some_and(|only| only != kind) || !key.starts_with(&rule.key) {
                continue;
            }
            *seen += 1;
            let fires = match rule.trigger {
                Trigger::Chance(chance) => rng.random_bool(chance),
                Trigger::Nth(nth) => *seen == nth,
            };
            if fires {
                let places = [Place::Before, Place::Half, Place::After];
                let all = [What::Unavailable, What::Timeout, What::Reset, What::Truncate];
                let place = rule.place.unwrap_or_else(|| places[rng.random_range(0..3)]);
                let what = rule.what.unwrap_or_else(|| all[rng.random_range(0..4)]);
                return Some((place, what));
            }
        }
        None
    }
}

/// The decorator.
pub struct FaultStore {
    inner: Arc<dyn ObjectStore>,
    control: FaultControl,
}

impl FaultStore {
    /// `inner`, failing as `plan` says.
    pub fn new(inner: Arc<dyn ObjectStore>, plan: &FaultPlan) -> Self {
        let rules = plan.rules.iter().map(|rule| (rule.clone(), 0)).collect();
        let shared = FaultState {
            on: AtomicBool::new(true),
            vanished: AtomicBool::new(false),
            silent: watch::Sender::new(false),
            fired: Default::default(),
            dice: Mutex::new(Dice { rng: StdRng::seed_from_u64(plan.seed), rules }),
        };
        Self { inner, control: FaultControl { shared: Arc::new(shared) } }
    }

    /// The switch; keep a clone.
    pub fn control(&self) -> FaultControl {
        self.control.clone()
    }

    fn faulty_listing(
        &self,
        prefix: Option<&Path>,
        listing: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let prefix = prefix.cloned().unwrap_or_default();
        let Some((place, what)) = self.control.draw(RequestKind::List, prefix.as_ref()) else {
            return listing;
        };
        let control = self.control.clone();
        let broken_off = async move {
            let all: Vec<_> = listing.try_collect().await?;
            let kept = match place {
                Place::Before => 0,
                Place::Half => control.random(all.len() + 1),
                Place::After => all.len(),
            };
            let kept: Vec<_> = all.into_iter().take(kept).map(Ok).collect();
            Ok::<_, Error>(stream::iter(kept).chain(stream::iter([Err(error(what))])))
        };
        stream::once(broken_off).try_flatten().boxed()
    }
}

impl fmt::Display for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faulty {}", self.inner)
    }
}

impl fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultStore({:?})", self.inner)
    }
}

fn error(what: What) -> Error {
    match what {
        What::Unavailable => {
            let source = "status code: 503 Service Unavailable: SlowDown (injected)".into();
            Error::Generic { store: "faults", source }
        }
        What::Timeout => broken(io::ErrorKind::TimedOut, "injected timeout".to_owned()),
        What::Reset | What::Truncate | What::BitFlip => {
            broken(io::ErrorKind::ConnectionReset, "injected reset".to_owned())
        }
    }
}

/// Runs a request that has no body to spoil.
async fn strike<T>(
    fault: Option<(Place, What)>,
    request: impl Future<Output = Result<T>>,
) -> Result<T> {
    match fault {
        None => request.await,
        Some((Place::After, what)) => {
            // Lost, whatever it was.
            let _ = request.await;
            Err(error(what))
        }
        Some((Place::Before | Place::Half, what)) => Err(error(what)),
    }
}

#[async_trait]
impl ObjectStore for FaultStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let kind = match options.extensions.get::<ChangeAsk>() {
            None => RequestKind::Put,
            Some(ChangeAsk::Copy { .. }) => RequestKind::Copy,
            Some(ChangeAsk::Delete) => RequestKind::Delete,
        };
        let fault = self.control.draw(kind, location.as_ref());
        strike(fault, self.inner.put_opts(location, payload, options)).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let fault = self.control.draw(RequestKind::Put, location.as_ref());
        strike(fault, self.inner.put_multipart_opts(location, options)).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let kind = match options.head {
            _ if is_listing(&options) => RequestKind::List,
            true => RequestKind::Head,
            false => RequestKind::Get,
        };
        if kind == RequestKind::Get {
            self.control.answered().await;
        }
        let fault = self.control.draw(kind, location.as_ref());
        let request = self.inner.get_opts(location, options);
        let Some((Place::Half, what)) = fault.filter(|_| kind == RequestKind::Get) else {
            return strike(fault, request).await;
        };
        let got = request.await?;
        let (meta, range) = (got.meta.clone(), got.range.clone());
        let attributes = got.attributes.clone();
        let whole = got.bytes().await?;
        let body = match (what, whole.len()) {
            (_, 0) => vec![Err(error(what))],
            (What::BitFlip, len) => {
                let mut spoilt = whole.to_vec();
                spoilt[self.control.random(len)] ^= 1 << self.control.random(8);
                vec![Ok(Bytes::from(spoilt))]
            }
            (What::Truncate, len) => vec![Ok(whole.slice(..self.control.random(len)))],
            (_, len) => vec![Ok(whole.slice(..self.control.random(len))), Err(error(what))],
        };
        let payload = GetResultPayload::Stream(stream::iter(body).boxed());
        Ok(GetResult { payload, meta, range, attributes, extensions: Default::default() })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (inner, control) = (Arc::clone(&self.inner), self.control.clone());
        locations
            .then(move |location| {
                let (inner, control) = (Arc::clone(&inner), control.clone());
                async move {
                    let location = location?;
                    let fault = control.draw(RequestKind::Delete, location.as_ref());
                    strike(fault, inner.delete(&location)).await?;
                    Ok(location)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.faulty_listing(prefix, self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.faulty_listing(prefix, self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let key = prefix.map_or("", |prefix| prefix.as_ref());
        let fault = self.control.draw(RequestKind::List, key);
        strike(fault, self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let fault = self.control.draw(RequestKind::Copy, to.as_ref());
        strike(fault, self.inner.copy_opts(from, to, options)).await
    }
}
