//! Bringing what this node alone has of files that it made, so that their write leases end
//! (`meta/src/leases/bring.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use weir_meta::{EndOfWrites, Leases};
use weir_types::{ErrorKind, Ino, Result};

use super::Flusher;

/// How long a file that was made here stays, closed, with nobody but this node, in milliseconds: so many are
/// made at once that share an object.
const AGE_MS: u64 = 1_000;
/// Files of up to so many bytes come along where another node waits for one.
const ALONG_BYTES_MAX: u64 = 64 << 10;
/// How often it is looked which files are so old.
const LOOK: Duration = Duration::from_millis(500);

impl Flusher {
    /// Ends the write leases of these files, whose closes wait for the bucket from now on: so what was closed
    /// before is what is flushed here. One whose bytes the tier's disk lost has no more to bring.
    async fn bring(self: &Arc<Self>, leases: &Leases, inos: &[Ino]) -> Result<()> {
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

    /// Ends all write leases that there are.
    pub(crate) async fn bring_all(self: &Arc<Self>) -> Result<()> {
        let Some(leases) = self.meta.leases() else { return Ok(()) };
        let inos = leases.writes_due(0, |_, _| true);
        self.bring(leases, &inos).await
    }
}

/// Brings files a while after they were made, and at once what another node asks for.
pub(crate) async fn bring_loop(flusher: Arc<Flusher>, leases: Arc<Leases>) {
    let mut failures = 0_u32;
    loop {
        let _ = tokio::time::timeout(LOOK, leases.writes_asked_for()).await;
        let due = leases.writes_due(AGE_MS, |ino, why| flusher.is_ready(ino, why));
        if due.is_empty() {
            continue;
        }
        match flusher.bring(&leases, &due).await {
            Ok(()) => failures = 0,
            Err(error) if error.kind() == ErrorKind::Fenced => return,
            Err(error) => {
                failures += 1;
                if failures.is_power_of_two() {
                    let files = due.len();
                    tracing::warn!(%error, files, failures, "other nodes wait for files that were made here");
                }
                flusher.background.rest(failures, (flusher.context.clock.random)()).await;
            }
        }
    }
}
