//! From segments in the bucket to metadata that names them.
//!
//! A commit that fails leaves its segment waiting: nothing of it is sent again. Every round of
//! flushing begins with the commits that wait, and while one of them fails it sends nothing. The
//! ranges stay in flight meanwhile, and whoever flushes the file anew voids what waits of it.

use std::sync::atomic::Ordering;

use weir_meta::{FileFlush, FlushCommit, Flushed, SegmentInfo};
use weir_types::{ByteRange, ErrorKind, Ino, Result, SegmentId};

use super::waiting::Sent;
use crate::data::flush::Flusher;
use crate::data::flush::load::Part;
use crate::data::nodes::Node;

impl Flusher {
    /// Commits what waits for it. One try serves all who ask meanwhile: its error is theirs.
    pub(super) async fn commit_waiting(&self) -> Result<()> {
        let waiting = &self.sent;
        let failed = waiting.failed.load(Ordering::Acquire);
        let mut last = waiting.turn.lock().await;
        if waiting.failed.load(Ordering::Acquire) != failed
            && let Some(error) = &*last
        {
            return Err(error.share());
        }
        while let Some(sent) = waiting.pop() {
            if let Err(error) = self.commit_sent(sent).await {
                *last = Some(error.share());
                waiting.failed.fetch_add(1, Ordering::AcqRel);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Nobody commits what waits any more: its bytes are dirty again.
    pub(crate) fn give_waiting_up(&self) {
        while self.sent.pop().is_some() {}
    }

    /// Commits the parts that nothing voided since they were taken; answers the files of the
    /// others. What fails in a way that may pass waits.
    pub(super) async fn commit_sent(&self, sent: Sent) -> Result<Vec<Ino>> {
        let Sent { segment, mut parts, in_flight } = sent;
        // Two parts of one file share its lock; one order for all keeps segments from deadlock.
        parts.sort_by_key(|p| p.node.ino);
        let mut held = Vec::new();
        for part in parts.chunk_by(|a, b| a.node.ino == b.node.ino) {
            held.push(part[0].node.change.lock_owned().await);
        }
        let (mut valid, void): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|p| p.mirror.still_valid(&p.snapshot));
        let void = void.iter().map(|p| p.node.ino).collect();
        let (done, result) = self.commit(segment, &mut valid).await;
        let Err(error) = result else {
            self.space.made.notify_waiters();
            self.background.went_on();
            return Ok(void);
        };
        if matches!(error.kind(), ErrorKind::Retry | ErrorKind::NoSpace) {
            let mut parts = valid.split_off(done);
            parts.iter_mut().for_each(Part::wait);
            self.sent.push(Sent { segment, parts, in_flight });
        }
        Err(error)
    }

    /// Commits the parts, and takes note of each as soon as its commit is made. Answers how many
    /// that was.
    async fn commit(
        &self,
        segment: Option<(SegmentId, SegmentInfo)>,
        parts: &mut [Part],
    ) -> (usize, Result<()>) {
        let mut done = 0;
        if let Some(first) = parts.first().filter(|part| part.named) {
            if let Err(error) = self.note_named(first).await {
                return (0, Err(error));
            }
            done = 1;
        }
        let segments = segment.into_iter().collect();
        let flush = FlushCommit {
            segments,
            files: parts[done..].iter().map(|part| self.file_flush(part)).collect(),
        };
        let committed = |_: &FileFlush, flushed: Option<Flushed>| {
            fail::fail_point!("engine::flush-committed");
            parts[done].named = true;
            match flushed {
                Some(flushed) => self.committed(&parts[done], &flushed)?,
                // The file is no more, but its mirror is: another node had it purged, or the purge
                // ended here between the metadata and the tier.
                None => self.tier.remove(parts[done].node.ino)?,
            }
            done += 1;
            Ok(())
        };
        let result = self.meta.commit_flush_each(&flush, committed).await;
        (done, result)
    }

    /// Takes note of a part that the metadata took before, when the tier's disk had no room for it.
    async fn note_named(&self, part: &Part) -> Result<()> {
        match self.meta.inode(part.node.ino).await {
            // Whether others changed it in between is not known any more.
            Ok(inode) => self.committed(part, &Flushed { before: inode.data.generation, inode }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn committed(&self, part: &Part, Flushed { inode, before }: &Flushed) -> Result<()> {
        let ino = inode.ino;
        let known = part.mirror.generation();
        let newest = part.mirror.flushed(&part.snapshot, inode.data.generation, inode.size)?;
        // Of two entries of one commit the second finds the generation after it.
        if self.context.is_shared() && known != *before && known != inode.data.generation {
            part.mirror.changed_from(inode, 0)?;
        }
        if let Some(journal) = self.journal.as_ref().filter(|_| newest) {
            for &ByteRange { start, end } in &part.snapshot.ranges {
                journal.forget(ino, start, end);
            }
        }
        if !self.nodes.is_open(ino) {
            part.mirror.idle();
        }
        Ok(())
    }

    /// What the metadata takes of a part. Only the part that leaves nothing dirty out says the size; the
    /// others let the file grow as far as they reach. Times that somebody set since the snapshot stay as
    /// they were set.
    fn file_flush(&self, part: &Part) -> FileFlush {
        let snapshot = &part.snapshot;
        let (_, now) = part.mirror.pending();
        let shared = self.context.is_shared();
        // Others may have cut the file since.
        let is_old = shared && part.mirror.epoch() != snapshot.epoch;
        FileFlush {
            ino: part.node.ino,
            pieces: part.pieces.clone(),
            size: (snapshot.complete && !is_old).then_some(snapshot.size),
            since: shared.then(|| part.mirror.generation()),
            mtime: snapshot.pending.mtime.filter(|_| now.mtime.is_some()),
            ctime: snapshot.pending.ctime.filter(|_| now.ctime.is_some()),
            replaced: None,
            // In this order: what was written before a close that waited for nothing shows by now.
            whole: !is_old && self.ends_when_whole(&part.node) && part.mirror.is_all(snapshot),
        }
    }

    /// Whether a write lease ends with the last of a file: nobody appends who saw that it does not end.
    fn ends_when_whole(&self, node: &Node) -> bool {
        let ends = self.meta.leases().is_some_and(|leases| leases.ends_when_whole(node.ino));
        ends && node.append.try_lock().is_ok()
    }
}
