//! The door itself: what all requests share, and how each is served.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::runtime::Handle;
use weir_engine::Engine;
use weir_fuse::{Control, Errno, Interrupted, Notifier, Reply};
use weir_types::{ErrorKind, FsError, Ino, Result};

use crate::atimes::Atimes;
use crate::cached::Cached;
use crate::counts::Counts;
use crate::errno::{ErrorLog, Refusal};
use crate::faces::Known;
use crate::fresh::Fresh;
use crate::handles::{Dir, File, Handles};
use crate::listings::Listings;
use crate::mountpoint::Mounted;
use crate::options::FuseOptions;
use crate::pages::{Old, Pages};
use crate::passthrough::Passthrough;
use crate::signals::until_ending;
use crate::underway::{Underway, is_repeatable};

/// What serving a request comes to: a value to answer with, or why not.
pub(crate) type Served<T> = Result<T, Refusal>;

/// The door. Requests share it; its clones are one door.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) shared: Arc<DoorState>,
}

/// What all requests share.
pub(crate) struct DoorState {
    pub(crate) engine: Arc<Engine>,
    pub(crate) options: FuseOptions,
    /// Whether access control lists are kept and obeyed.
    pub(crate) acl: bool,
    /// Whether the kernel labels files (SELinux): it answers for labels itself then.
    pub(crate) labels: bool,
    pub(crate) files: Handles<File>,
    pub(crate) dirs: Handles<Dir>,
    pub(crate) listings: Listings,
    pub(crate) pages: Pages,
    pub(crate) cached: Cached,
    pub(crate) fresh: Fresh,
    pub(crate) notifier: OnceLock<Notifier>,
    /// What holds the mount still; nothing where it cannot be.
    pub(crate) control: OnceLock<Option<Control>>,
    /// Requests that wait.
    pub(crate) underway: Arc<Underway>,
    /// Shared by those who tell the kernel of names and pages, which may wait for programs; held alone
    /// by who holds the mount still.
    pub(crate) gate: RwLock<()>,
    /// The mounted file system as the kernel tells of it, once it is known.
    pub(crate) mounted: OnceLock<Mounted>,
    /// How requests come.
    pub(crate) transport: OnceLock<weir_fuse::Transport>,
    /// Counts how often set-uid or set-gid was given to any file, from 1.
    pub(crate) privileges_given: AtomicU64,
    /// Counts how often capabilities were given to any file, from 1.
    pub(crate) capabilities_given: AtomicU64,
    pub(crate) errors: ErrorLog,
    pub(crate) counts: Counts,
    pub(crate) passthrough: Passthrough,
    pub(crate) atimes: Atimes,
    runtime: Handle,
}

/// A request that is to be answered.
pub(crate) struct Asked {
    /// Its name, for the log.
    pub(crate) op: &'static str,
    /// The inode it is for.
    pub(crate) ino: Ino,
    pub(crate) waits: Waits,
    pub(crate) reply: Reply,
}

/// How a request may be ended before it is served.
pub(crate) enum Waits {
    /// By a signal that is to end its thread: what was begun is given up. For what does nothing
    /// before it does all.
    GivenUp(Interrupted, u32),
    /// By any signal, likewise: the kernel begins it again if the program goes on.
    GivenUpByAny(Interrupted),
    /// By a signal that is to end its thread: what was begun goes on behind it.
    LeftAlone(Interrupted, u32),
    /// Not at all: nobody waits for it, or not for long.
    Ended,
}

impl Waits {
    /// Returns when whoever waits is to be let go.
    async fn over(&mut self) {
        match self {
            Self::GivenUp(interrupted, tid) | Self::LeftAlone(interrupted, tid) => {
                interrupted.await;
                until_ending(*tid).await;
            }
            Self::GivenUpByAny(interrupted) => interrupted.await,
            Self::Ended => std::future::pending().await,
        }
    }
}

impl Door {
    pub(crate) fn new(
        engine: Arc<Engine>,
        runtime: Handle,
        options: FuseOptions,
        acl: bool,
    ) -> Self {
        let passthrough = Passthrough::new(&options);
        let shared = DoorState {
            engine,
            options,
            acl,
            labels: Path::new("/sys/fs/selinux/enforce").exists(),
            files: Handles::default(),
            dirs: Handles::default(),
            listings: Listings::default(),
            pages: Pages::default(),
            cached: Cached::default(),
            fresh: Fresh::default(),
            notifier: OnceLock::new(),
            control: OnceLock::new(),
            underway: Arc::default(),
            gate: RwLock::default(),
            mounted: OnceLock::new(),
            transport: OnceLock::new(),
            privileges_given: AtomicU64::new(1),
            capabilities_given: AtomicU64::new(1),
            errors: ErrorLog::default(),
            counts: Counts::default(),
            passthrough,
            atimes: Atimes::default(),
            runtime,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Serves one request: `work` comes to a value, which `answer` puts into the reply.
    pub(crate) fn serve<T: Send + 'static>(
        &self,
        asked: Asked,
        work: impl Future<Output = Served<T>> + Send + 'static,
        answer: impl FnOnce(Reply, T) + Send + 'static,
    ) {
        self.serve_or_undo(asked, work, answer, |_| async {});
    }

    /// The same; what is left alone and comes to something for which nobody waits any more is
    /// undone.
    pub(crate) fn serve_or_undo<T: Send + 'static, U: Future<Output = ()> + Send>(
        &self,
        asked: Asked,
        work: impl Future<Output = Served<T>> + Send + 'static,
        answer: impl FnOnce(Reply, T) + Send + 'static,
        undo: impl FnOnce(T) -> U + Send + 'static,
    ) {
        let shared = self.shared.clone();
        let Asked { op, ino, mut waits, reply } = asked;
        self.shared.run(op, async move {
            let mut work = pin!(work);
            let served = tokio::select! {
                biased;
                served = &mut work => served,
                () = shared.underway.left(op) => {
                    reply.leave();
                    shared.underway.done(op);
                    if let Waits::LeftAlone(..) = waits {
                        drop(work.await);
                    }
                    return Fate::Left;
                }
                () = waits.over() => {
                    reply.error(Errno(libc::EINTR));
                    let goes_on = matches!(waits, Waits::LeftAlone(..));
                    if goes_on && is_repeatable(op) {
                        // Nothing of it is anybody's.
                        shared.underway.done(op);
                        drop(work.await);
                        return Fate::Left;
                    }
                    if goes_on && let Ok(value) = work.await {
                        undo(value).await;
                    }
                    return Fate::Ended;
                }
            };
            match served {
                Ok(value) => answer(reply, value),
                Err(refusal) => reply.error(shared.errors.errno(op, ino, &refusal)),
            }
            Fate::Ended
        });
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nothing of it goes on.
    Ended,
    /// Nobody need wait for it any more, and said so to [`Underway::done`].
    Left,
}

impl DoorState {
    /// Runs one request. What can be answered from memory is answered here, on the event loop,
    /// without a hop to another thread; what must wait goes on in the runtime, whose own first
    /// poll puts its waker in the place of the one used here, which wakes nobody.
    pub(crate) fn run(
        &self,
        op: &'static str,
        request: impl Future<Output = Fate> + Send + 'static,
    ) {
        let mut request = Box::pin(request);
        if let Some(Poll::Pending) = self.poll_here(request.as_mut()) {
            let waiting = self.underway.enter(op);
            drop(self.runtime.spawn(async move {
                match request.await {
                    Fate::Ended => drop(waiting),
                    Fate::Left => waiting.was_left(),
                }
            }));
        }
    }

    /// Does what nobody waits for: here, if it waits for nothing, else in the runtime.
    pub(crate) fn beside(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut work = Box::pin(work);
        if let Some(Poll::Pending) = self.poll_here(work.as_mut()) {
            drop(self.runtime.spawn(work));
        }
    }

    /// Polls once, on the event loop. `None` after a panic: it ends the request, whose reply
    /// answers EIO when it is dropped, and not the event loop.
    fn poll_here<F: Future>(&self, request: Pin<&mut F>) -> Option<Poll<F::Output>> {
        let mut nobody = Context::from_waker(Waker::noop());
        self.here(|| request.poll(&mut nobody))
    }

    /// Does something on the event loop. `None` after a panic.
    pub(crate) fn here<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let _context = self.runtime.enter();
        let done = catch_unwind(AssertUnwindSafe(work));
        if done.is_err() {
            tracing::error!("a request panicked and is answered with EIO: report this");
        }
        done.ok()
    }

    /// Work that goes on when whoever waits for it is dropped.
    pub(crate) async fn whole<T: Send + 'static>(
        &self,
        work: impl Future<Output = Served<T>> + Send + 'static,
    ) -> Served<T> {
        self.runtime.spawn(work).await.map_err(|error| {
            FsError::new(ErrorKind::Bug, format!("a part of a request failed: {error}"))
        })?
    }

    /// How long the kernel may remember the attributes of `ino`. Stores into the mirror file change
    /// its times, and nobody tells the kernel.
    pub(crate) fn attr_ttl(&self, ino: Ino) -> Duration {
        match ino == Ino::SNAPSHOTS || self.passthrough.was_on() && self.engine.may_be_stored(ino) {
            true => Duration::ZERO,
            false => self.options.attr_ttl,
        }
    }

    /// Makes the kernel ask again for the attributes of an inode that the door itself changed.
    pub(crate) fn forget_attributes(&self, ino: Ino) {
        // A negative offset: the attributes only, no page of the data.
        if let Err(error) = self.forget(ino, -1, 0) {
            tracing::debug!(%error);
        }
    }

    /// Makes the kernel drop its copy of a listing. It waits for no request: the pages of a
    /// directory are locked only while they are copied.
    pub(crate) fn forget_listing(&self, ino: Ino) {
        if let Err(error) = self.forget(ino, 0, 0) {
            tracing::debug!(%error);
        }
    }

    /// Makes the kernel drop its pages of a file that nobody has open by this number. It waits for no
    /// request: nobody reads or writes it.
    pub(crate) fn drop_pages(&self, known: Known) -> Result<()> {
        self.forget_known(known, 0, 0)
    }

    /// Makes the kernel drop its pages of a range, `len` bytes or, with 0, to the end. It waits for
    /// those who read one.
    pub(crate) fn drop_pages_of(&self, ino: Ino, offset: u64, len: u64) {
        let _open = self.gate.read();
        self.drop_here(ino, offset, len);
    }

    /// The same of pages that may be old, if they still may be then.
    pub(crate) fn drop_old_of(&self, ino: Ino, offset: u64, len: u64, old: &Old) {
        let _open = self.gate.read();
        if let Some(_kept) = old.still() {
            self.drop_here(ino, offset, len);
        }
    }

    pub(crate) fn drop_here(&self, ino: Ino, offset: u64, len: u64) {
        if let Err(error) = self.forget(ino, offset as i64, len as i64) {
            tracing::warn!(%error, "readers may see bytes of before a change that is done");
        }
    }

    /// By whatever number it may remember something.
    fn forget(&self, ino: Ino, offset: i64, len: i64) -> Result<()> {
        let known = self.passthrough.known(ino).into_iter();
        known.map(|known| self.forget_known(known, offset, len)).fold(Ok(()), Result::and)
    }

    fn forget_known(&self, known: Known, offset: i64, len: i64) -> Result<()> {
        match self.notifier.get().map(|notifier| notifier.inval_inode(known.0, offset, len)) {
            // It remembers nothing of it.
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
                let text =
                    format!("have the kernel drop what it remembers of inode {}", known.ino());
                Err(FsError::local_io(text, error))
            }
            _ => Ok(()),
        }
    }
}
