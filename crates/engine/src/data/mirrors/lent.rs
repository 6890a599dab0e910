//! Files that the kernel reads by itself while other nodes change them.
//!
//! What must always hold: who opens a file finds what its last writer closed. The kernel cannot be told to
//! read another file for those who have it open, so:
//! - Where little changed, and it comes soon, it is brought into the mirror file, and all go on with that.
//! - Else the mirror is parted from who has its file: they keep that as it was, which is what may be seen of a
//!   file until it is opened again, and the mirror gets another one. The door sees it by the lending.
//!
//! No lease is needed for that: each open compares, under a lease from memory.

use std::sync::{Arc, Weak};
use std::time::Duration;

use weir_tier::Mirror;
use weir_types::{ByteRange, FileKind, FsError, Inode, Result};

use super::Mirrors;
use crate::data::upward::StoredBytes;
use crate::volume::context::blocking;

/// Most bytes that are brought into a lent file, and held in memory for it.
const BRING_BYTES_MAX: u64 = 16 << 20;
/// How long they may take: an open, a look at the size or a lock waits.
const BRING_WAIT: Duration = Duration::from_secs(2);

impl Mirrors {
    /// By whom bytes of the bucket are read.
    pub(crate) fn read_by(&self, stored: Weak<dyn StoredBytes>) {
        // Once for each mount.
        drop(self.lent.stored.set(stored));
    }

    /// Notes where the bytes of a file are that is about to be lent, if that will be asked. A read of the
    /// metadata where it is not known yet.
    pub(crate) async fn note_lent(&self, mirror: &Mirror) {
        let (ino, generation) = (mirror.ino(), mirror.generation());
        if mirror.size() <= BRING_BYTES_MAX || self.lent.known(ino, generation).is_some() {
            return;
        }
        match self.look(ino).await {
            Ok(known) if known.chunks.is_some() => self.lent.note(known),
            Ok(_) => {}
            Err(error) => tracing::debug!(%ino, %error, "where its bytes are is not known"),
        }
    }

    /// Brings what others changed into the mirror file of `inode`, where that is lent and little changed. Answers
    /// the inode to go on with. The caller holds its change lock. One GET for each object that holds some of
    /// it, and up to three reads of the metadata.
    pub(super) async fn bring_lent(&self, inode: Inode) -> Result<Inode> {
        let ino = inode.ino;
        if !self.shared || inode.kind != FileKind::Regular || !self.tier.in_passthrough(ino) {
            return Ok(inode);
        }
        let Some(mirror) = self.tier.find(ino).filter(|mirror| !mirror.is_in_step(&inode)) else {
            return Ok(inode);
        };
        if !mirror.in_passthrough()? || mirror.has_unflushed() {
            return Ok(inode);
        }
        match tokio::time::timeout(BRING_WAIT, self.try_bring(&mirror, &inode)).await {
            Ok(Ok(Some(brought))) => return Ok(brought),
            Ok(Ok(None)) => tracing::debug!(%ino, "a lent file changed elsewhere, and too much"),
            Ok(Err(error)) => tracing::debug!(%ino, %error, "a lent file changed elsewhere"),
            Err(_) => tracing::debug!(%ino, "a lent file changed elsewhere: it took too long"),
        }
        // It may have been brought after all.
        self.meta.inode(ino).await
    }

    async fn try_bring(&self, mirror: &Arc<Mirror>, inode: &Inode) -> Result<Option<Inode>> {
        let since = mirror.generation();
        let known = self.lent.known(inode.ino, since);
        if known.is_none() && inode.size > BRING_BYTES_MAX {
            return Ok(None);
        }
        let now = self.look(inode.ino).await?;
        let size = now.inode.size;
        let all = || vec![ByteRange::new(0, size)];
        let changed = known.and_then(|known| now.changed_since(&known)).unwrap_or_else(all);
        let changed = joined(changed.iter().map(|range| range.within(0, size)));
        if changed.iter().map(|range| range.len()).sum::<u64>() > BRING_BYTES_MAX {
            return Ok(None);
        }
        let stored = self.lent.stored.get().and_then(Weak::upgrade);
        let Some(stored) = stored else { return Ok(None) };
        let mut changes = Vec::new();
        for range in changed {
            changes.push((range.start, stored.read_stored(inode.ino, range).await?));
        }
        // They may be of a later change, and one without the other is nobody's file.
        if self.meta.inode(inode.ino).await?.data.generation != now.inode.data.generation {
            return Ok(None);
        }
        let (mirror, after) = (mirror.clone(), now.inode.clone());
        let brought = blocking(move || {
            let changes: Vec<_> = changes.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
            Ok::<_, FsError>(mirror.bring(&after, since, &changes)?.then_some(after))
        });
        let brought = brought.await?;
        if brought.is_some() && now.chunks.is_some() {
            self.lent.note(now);
        }
        Ok(brought)
    }
}

/// Ranges in order, those that touch as one, and no empty ones.
fn joined(ranges: impl Iterator<Item = ByteRange>) -> Vec<ByteRange> {
    let mut joined: Vec<ByteRange> = Vec::new();
    for range in ranges.filter(|range| range.start < range.end) {
        match joined.last_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => joined.push(range),
        }
    }
    joined
}
