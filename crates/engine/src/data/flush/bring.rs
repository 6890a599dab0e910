//! Bringing what this node alone has of files, so that their write leases end
//! (`meta/src/leases/bring.rs`).

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use weir_meta::{EndOfWrites, Leases};
use weir_tier::Mirror;
use weir_types::{ErrorKind, Ino, Result};

use super::Flusher;

/// How long a file that was made here stays, closed, with nobody but this node, in milliseconds: so many are
/// made at once that share an object.
const AGE_MS: u64 = 1_000;
/// Files of up to so many bytes come along where another node waits for one.
const ALONG_BYTES_MAX: u64 = 64 << 10;
/// A file with more to bring than this is brought by itself.
const SMALL_BYTES_MAX: u64 = 16 << 20;
/// Large files are not begun beside so many that are under way.
const TASKS_MAX: usize = 8;
/// As long as after the third failure in a row ([`Background`](super::pending::Background)).
const REST: u32 = 3;
/// How often it is looked which files are so old.
const LOOK: Duration = Duration::from_millis(500);

impl Flusher {
    /// Ends the write leases of these files, whose closes wait for the bucket from now on: so what was closed
    /// before is what is flushed here. One whose bytes the tier's disk lost has no more to bring.
    async fn bring(self: &Arc<Self>, leases: &Leases, inos: &[Ino]) -> Result<()> {
        for ino in inos {
            // Who saw the lease appends here.
            drop(self.nodes.get(*ino).append.lock().await);
        }
        let flushed = self.flush_files(inos).await;
        let lost: BTreeSet<_> = self.tier.in_doubt().iter().map(|mirror| mirror.ino()).collect();
        let has_no_more = |ino: &Ino| lost.contains(ino) || !self.mirrors.is_unflushed(*ino);
        let done = |ino: &Ino| flushed.is_ok() || has_no_more(ino);
        let done: Vec<_> = inos.iter().copied().filter(done).collect();
        leases.ends_of_writes(&**self.meta.kv(), &done).await?;
        flushed
    }

    /// Whether nobody writes a file whose turn it is; and it is small, where it is not its turn yet.
    fn is_ready(&self, ino: Ino, why: EndOfWrites) -> bool {
        let is_small = || {
            let bytes = self.tier.find(ino).map_or(0, |mirror| mirror.dirty_bytes());
            bytes <= ALONG_BYTES_MAX
        };
        !self.nodes.has_writers(ino) && (why == EndOfWrites::Age || is_small())
    }

    /// What is not under way already: small files together, and by itself each that is large or appended to now.
    fn batches(&self, due: Vec<Ino>, under_way: &Mutex<HashSet<Ino>>) -> Vec<Vec<Ino>> {
        let busy = under_way.lock().clone();
        let may_take_long = |ino: &Ino| {
            let dirty = |mirror: Arc<Mirror>| mirror.dirty_bytes() > SMALL_BYTES_MAX;
            self.tier.find(*ino).is_some_and(dirty)
                || self.nodes.get(*ino).append.try_lock().is_err()
        };
        let fresh = due.into_iter().filter(|ino| !busy.contains(ino));
        let (alone, together): (Vec<_>, Vec<_>) = fresh.partition(may_take_long);
        let together = Some(together).filter(|together| !together.is_empty());
        together.into_iter().chain(alone.into_iter().map(|ino| vec![ino])).collect()
    }

    async fn bring_and_rest(self: &Arc<Self>, leases: &Leases, inos: &[Ino]) {
        let Err(error) = self.bring(leases, inos).await else { return };
        if error.kind() == ErrorKind::Fenced {
            return;
        }
        tracing::warn!(%error, files = inos.len(), "other nodes wait for files that were made here");
        self.background.rest(REST, (self.context.clock.random)()).await;
    }

    /// Ends all write leases that there are.
    pub(crate) async fn bring_all(self: &Arc<Self>) -> Result<()> {
        let Some(leases) = self.meta.leases() else { return Ok(()) };
        let inos = leases.writes_due(0, |_, _| true);
        self.bring(leases, &inos).await
    }
}

/// Brings files a while after they were made, and at once what another node asks for. Who asks for a small
/// file does not wait for a large one.
pub(crate) async fn bring_loop(flusher: Arc<Flusher>, leases: Arc<Leases>) {
    let mut tasks: JoinSet<()> = JoinSet::new();
    let under_way = Arc::new(Mutex::new(HashSet::new()));
    loop {
        let _ = tokio::time::timeout(LOOK, leases.writes_asked_for()).await;
        while tasks.try_join_next().is_some() {}
        if flusher.context.is_fenced() {
            return;
        }
        let due = leases.writes_due(AGE_MS, |ino, why| flusher.is_ready(ino, why));
        for inos in flusher.batches(due, &under_way) {
            if tasks.len() >= TASKS_MAX && inos.len() == 1 {
                continue;
            }
            under_way.lock().extend(inos.iter().copied());
            let (flusher, leases, of) = (flusher.clone(), leases.clone(), under_way.clone());
            tasks.spawn(async move {
                flusher.bring_and_rest(&leases, &inos).await;
                inos.iter().for_each(|ino| _ = of.lock().remove(ino));
            });
        }
    }
}
