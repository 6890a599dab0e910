//! All requests to one bucket, timed.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use futures::stream::FuturesUnordered;
use rand::RngExt;
use weir_bench::report::{Measurement, Size, Skipped};
use weir_bench::suite::{Progress, Stop};
use weir_bench::{noise, timing};
use weir_object::{Bucket, Component, PROBE_PREFIX};
use weir_types::{FsError, Result};

use super::shown::Shown;

/// Its name on the command line.
pub(super) const NAME: &str = "bucket";
/// Whole objects: Weir's segments are 16 MiB, and what it reads of them most often less.
pub(super) const OBJECT_BYTES: u64 = 8 << 20;
pub(super) const RECORD_BYTES: u64 = 1 << 20;
pub(super) const PAGE_BYTES: u64 = 4096;

/// What is asked of a bucket, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Put,
    Get,
    GetRecord,
    GetPage,
    Head,
    List,
    Delete,
}

pub(super) const PHASES: [Phase; 7] = [
    Phase::Put,
    Phase::Get,
    Phase::GetRecord,
    Phase::GetPage,
    Phase::Head,
    Phase::List,
    Phase::Delete,
];

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Put => "put-8MiB",
            Phase::Get => "get-8MiB",
            Phase::GetRecord => "get-1MiB-range",
            Phase::GetPage => "get-4KiB-range",
            Phase::Head => "head",
            Phase::List => "list",
            Phase::Delete => "delete",
        })
    }
}

/// How much is asked: each phase ends after so long or so many requests, whichever comes first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) phase: Duration,
    pub(super) objects: u64,
    pub(super) requests: u64,
}

impl Plan {
    pub(super) fn of(size: Size) -> Self {
        match size {
            Size::Small => Self { phase: Duration::from_secs(3), objects: 64, requests: 3_000 },
            Size::Published => {
                Self { phase: Duration::from_secs(30), objects: 1_024, requests: 50_000 }
            }
        }
    }

    /// The most requests of a phase.
    pub(super) fn most(self, phase: Phase) -> u64 {
        match phase {
            Phase::Put | Phase::Get | Phase::Delete => self.objects,
            // Each lists all objects.
            Phase::List => self.requests / 100,
            Phase::GetRecord | Phase::GetPage | Phase::Head => self.requests,
        }
    }
}

/// All phases on one bucket, with so many requests at once, once.
pub(super) struct Run<'a> {
    bucket: &'a Bucket,
    plan: Plan,
    /// Under which the objects lie.
    prefix: String,
    body: bytes::Bytes,
    target: usize,
    repeat: u32,
    copies: u32,
    shown: &'a Shown,
    stop: &'a Stop,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        bucket: &'a Bucket,
        (plan, seed): (Plan, u64),
        (target, repeat, copies): (usize, u32, u32),
        shown: &'a Shown,
        stop: &'a Stop,
    ) -> Self {
        let body = noise::Noise::new(seed, OBJECT_BYTES as usize).refreshed().to_vec().into();
        let prefix = format!("{PROBE_PREFIX}bench-{:016x}", rand::random::<u64>());
        Self { bucket, plan, prefix, body, target, repeat, copies, shown, stop }
    }

    /// The measurements, and why there are not all of them.
    pub(super) async fn all(&self) -> (Vec<Measurement>, Option<Skipped>) {
        let mut measured = Vec::new();
        let mut failed = None;
        let mut objects = 0;
        for phase in PHASES {
            // Objects that are there are removed whatever happens.
            let stopped = self.stop.check().is_err() || failed.is_some();
            if stopped && phase != Phase::Delete {
                continue;
            }
            let began = Instant::now();
            let outcome = self.phase(phase, objects).await;
            let took = began.elapsed();
            match outcome {
                Ok((times_us, bytes)) => {
                    if phase == Phase::Put {
                        objects = times_us.len() as u64;
                    }
                    if !stopped && !times_us.is_empty() {
                        measured.push(self.measurement(phase, took, times_us, bytes));
                    }
                }
                Err(error) => {
                    // Of those that were being sent, some may have come.
                    objects = if phase == Phase::Put { self.plan.objects } else { objects };
                    failed.get_or_insert(Skipped {
                        suite: NAME.to_owned(),
                        target: Some(self.target),
                        why: format!("{phase}: {error}"),
                    });
                }
            }
        }
        (measured, failed)
    }

    /// So many workers ask until the time or the requests are used up. Answers how long each
    /// request took, in microseconds, and the bytes moved.
    async fn phase(&self, phase: Phase, objects: u64) -> Result<(Vec<f64>, u64)> {
        let most = match phase {
            Phase::Put => self.plan.most(phase),
            _ if objects == 0 => 0,
            Phase::Delete => objects,
            _ => self.plan.most(phase),
        };
        self.shown.phase(&format!("{phase}, {} at once", self.copies), most);
        let (next, moved) = (AtomicU64::new(0), AtomicU64::new(0));
        // All that was made is removed, however long that takes.
        let ends = (phase != Phase::Delete).then(|| Instant::now() + self.plan.phase);
        let worker = || async {
            let mut times_us = Vec::new();
            while ends.is_none_or(|ends| Instant::now() < ends && self.stop.check().is_ok()) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= most {
                    break;
                }
                let began = Instant::now();
                let bytes = self.request(phase, number, objects).await?;
                times_us.push(began.elapsed().as_secs_f64() * 1e6);
                moved.fetch_add(bytes, Ordering::Relaxed);
                self.shown.step(1);
            }
            Ok::<_, FsError>(times_us)
        };
        let workers: FuturesUnordered<_> = (0..self.copies).map(|_| worker()).collect();
        let times: Vec<Vec<f64>> = workers.try_collect().await?;
        Ok((times.concat(), moved.into_inner()))
    }

    /// One request; answers the bytes of the body.
    async fn request(&self, phase: Phase, number: u64, objects: u64) -> Result<u64> {
        let component = Component::Check;
        let key = |number: u64| format!("{}/{number:06}", self.prefix);
        let range = |bytes: u64| {
            let start =
                rand::rng().random_range(0..=(OBJECT_BYTES - bytes) / PAGE_BYTES) * PAGE_BYTES;
            start..start + bytes
        };
        // None of these asks for what was asked for just before.
        let known = key(number % objects.max(1));
        match phase {
            Phase::Put => {
                self.bucket.put(component, &key(number), self.body.clone()).await?;
                Ok(OBJECT_BYTES)
            }
            Phase::Get => Ok(self.bucket.get(component, &known).await?.len() as u64),
            Phase::GetRecord | Phase::GetPage => {
                let bytes = if phase == Phase::GetRecord { RECORD_BYTES } else { PAGE_BYTES };
                let got = self.bucket.get_range(component, &known, range(bytes)).await?;
                Ok(got.len() as u64)
            }
            Phase::Head => self.bucket.head(component, &known).await.map(|_| 0),
            Phase::List => {
                let listing = self.bucket.list(component, &self.prefix);
                listing.try_fold((), |(), _| async { Ok(()) }).await.map(|()| 0)
            }
            Phase::Delete => self.bucket.delete(component, &key(number)).await.map(|()| 0),
        }
    }

    fn measurement(
        &self,
        phase: Phase,
        took: Duration,
        times_us: Vec<f64>,
        bytes: u64,
    ) -> Measurement {
        Measurement {
            suite: NAME.to_owned(),
            phase: phase.to_string(),
            copies: self.copies,
            target: self.target,
            repeat: self.repeat,
            seconds: took.as_secs_f64(),
            bytes,
            operations: times_us.len() as u64,
            unit: "requests".to_owned(),
            series: Vec::new(),
            latency: timing::latency(times_us),
            warnings: Vec::new(),
        }
    }
}
