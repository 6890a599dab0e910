//! One limit of throughput, and those who wait for it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use weir_throughput::efs::{Date, Io, Limiter, Mode, Rules};
use weir_throughput::fair::FairQueue;
use weir_types::Ino;

use crate::volume::context::Clock;

/// Longest wait between two looks at the limiter: how soon a change of mode is felt.
const LOOK: Duration = Duration::from_millis(50);
const NS_PER_MS: u64 = 1_000_000;

/// Who is to have a fair share: the area and the client.
pub(crate) type Flow = (Ino, u32);

/// Whom a limit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// A directory and all below it; the root's is the volume's.
    Directory(Ino),
    /// A user, wherever it works.
    Client(u32),
}

impl Subject {
    /// The rule of the volume.
    pub const VOLUME: Self = Self::Directory(Ino::ROOT);

    /// The rules as they hold for it. EFS lets a file system have more than was provisioned where
    /// its size gives more; a part of one gets what was asked for and no more.
    pub(crate) fn ruled(self, rules: Rules) -> Rules {
        Rules { provisioned_is_all: self != Self::VOLUME, ..rules }
    }
}

/// A limit.
pub(crate) struct Limit {
    pub(crate) subject: Subject,
    /// The directory's path, or the user, for people.
    pub(crate) name: String,
    state: Mutex<LimitState>,
}

struct LimitState {
    limiter: Limiter,
    exact: bool,
    queue: FairQueue<Flow, oneshot::Sender<()>>,
    /// A task serves the queue.
    served: bool,
    /// Somebody waited since that was asked last.
    waits: bool,
    metered_bytes: u64,
    waited_ms: u64,
}

/// How a limit stands.
pub(crate) struct Stand {
    pub(crate) mode: Mode,
    pub(crate) rules_until: Option<Date>,
    /// Here, and by all nodes together with credits and without.
    pub(crate) permitted_bytes_per_s: f64,
    pub(crate) whole_bytes_per_s: [f64; 2],
    pub(crate) baseline_bytes_per_s: f64,
    pub(crate) credit_bytes: f64,
    pub(crate) credit_cap_bytes: f64,
    pub(crate) metered_bytes: u64,
    pub(crate) waiting: usize,
    pub(crate) waited_ms: u64,
    pub(crate) exact: bool,
}

impl Limit {
    pub(crate) fn new(subject: Subject, name: String, limiter: Limiter, exact: bool) -> Self {
        let state = LimitState {
            limiter,
            exact,
            queue: FairQueue::new(),
            served: false,
            waits: false,
            metered_bytes: 0,
            waited_ms: 0,
        };
        Self { subject, name, state: Mutex::new(state) }
    }

    /// Whether the daemon must see every byte.
    pub(crate) fn sees_all(&self) -> bool {
        let state = self.state();
        state.exact || state.limiter.limits()
    }

    /// Works on the limiter at this time.
    pub(crate) fn with<T>(&self, clock: &Clock, work: impl FnOnce(&mut Limiter, u64) -> T) -> T {
        work(&mut self.state().limiter, now_ns(clock))
    }

    pub(crate) fn set_exact(&self, exact: bool) {
        self.state().exact = exact;
    }

    /// Goes on by another rule.
    pub(crate) fn replace(&self, limiter: Limiter, exact: bool) {
        let mut state = self.state();
        (state.limiter, state.exact) = (limiter, exact);
    }

    /// Whether it holds anything back.
    pub(crate) fn limits(&self) -> bool {
        self.state().limiter.limits()
    }

    /// Bytes metered since the mount.
    pub(crate) fn metered_bytes(&self) -> u64 {
        self.state().metered_bytes
    }

    /// Whether somebody waits, or did since this was asked last.
    pub(crate) fn take_waits(&self) -> bool {
        let mut state = self.state();
        std::mem::take(&mut state.waits) || !state.queue.is_empty()
    }

    pub(crate) fn stand(&self, clock: &Clock) -> Stand {
        let now_ns = now_ns(clock);
        let mut state = self.state();
        Stand {
            mode: state.limiter.mode(),
            rules_until: state.limiter.rules().until(),
            permitted_bytes_per_s: state.limiter.permitted_bytes_per_s(now_ns),
            whole_bytes_per_s: [true, false].map(|with| state.limiter.whole_bytes_per_s(with)),
            baseline_bytes_per_s: state.limiter.baseline_bytes_per_s(),
            credit_bytes: state.limiter.credit_bytes(now_ns),
            credit_cap_bytes: state.limiter.credit_cap_bytes(),
            metered_bytes: state.metered_bytes,
            waiting: state.queue.len(),
            waited_ms: state.waited_ms,
            exact: state.exact,
        }
    }

    /// Counts an I/O that was done.
    pub(crate) fn count(&self, io: Io, bytes: u64) {
        let mut state = self.state();
        state.metered_bytes += state.limiter.metered_bytes(io, bytes);
    }

    /// Waits until `bytes` may move. Those who wait are let through in fair turns of their flows.
    /// Answers how long it took, in milliseconds.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        clock: &Clock,
        flow: Flow,
        io: Io,
        bytes: u64,
    ) -> u64 {
        let turn = {
            let mut state = self.state();
            let metered = state.limiter.metered_bytes(io, bytes);
            let free = state.queue.is_empty() || !state.limiter.limits();
            if free && state.limiter.take(metered, now_ns(clock)).is_ok() {
                return 0;
            }
            let (sender, turn) = oneshot::channel();
            state.queue.push(flow, 1.0, metered, sender);
            state.waits = true;
            if !state.served {
                state.served = true;
                tokio::spawn(serve(self.clone(), clock.clone()));
            }
            turn
        };
        let began = (clock.now_ms)();
        // The server of the queue ends only when it is empty.
        let _ = turn.await;
        let waited_ms = (clock.now_ms)().saturating_sub(began);
        self.state().waited_ms += waited_ms;
        waited_ms
    }

    fn state(&self) -> MutexGuard<'_, LimitState> {
        self.state.lock()
    }

    /// Lets through who may go now. Answers how long the next one has to wait; `None` when nobody is
    /// left.
    fn let_through(&self, clock: &Clock) -> Option<Duration> {
        let now_ns = now_ns(clock);
        let mut state = self.state();
        let LimitState { limiter, queue, served, .. } = &mut *state;
        // Who gave up takes nothing.
        queue.retain(|waiting| !waiting.is_closed());
        while let Some(cost) = queue.peek_cost() {
            if let Err(wait_ns) = limiter.take(cost, now_ns) {
                return Some(Duration::from_nanos(wait_ns).min(LOOK));
            }
            if let Some((_, _, waiting)) = queue.pop() {
                let _ = waiting.send(());
            }
        }
        *served = false;
        None
    }
}

async fn serve(limit: Arc<Limit>, clock: Clock) {
    while let Some(wait) = limit.let_through(&clock) {
        tokio::time::sleep(wait).await;
    }
}

pub(crate) fn now_ns(clock: &Clock) -> u64 {
    (clock.now_ms)() * NS_PER_MS
}
