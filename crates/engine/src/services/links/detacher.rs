//! Files that part from their objects: those that lost a conflict, and those of a link that ends.
//!
//! Such a file keeps what it can have: what is here becomes data of the volume, what is not is
//! fetched first, as long as the object is still the one it was.

use std::sync::Arc;

use weir_meta::{Meta, ObjectRow};
use weir_tier::{Mirror, Tier};
use weir_types::{
    CHUNK_BYTES, ErrorKind, FileKind, FsError, Ino, Inode, LinkId, Native, Result, chunk_range,
};

use super::registry::{Link, Registry};
use super::rule;
use crate::data::fetch::{Fetcher, Priority};
use crate::data::flush::Flusher;
use crate::data::mirrors::Mirrors;
use crate::data::nodes::Nodes;
use crate::data::space::{Space, amount_for};
use crate::names::promises::Promises;
use crate::volume::context::Context;

/// Bytes of a file that are brought here, and leave as segments, before the next ones.
const STEP_BYTES: u64 = 64 << 20;
/// Times that a file is gone through, because pages of it were released meanwhile.
const ROUNDS: usize = 5;
/// Rows read at once.
const PAGE: usize = 1_000;

/// Parts files from their objects.
pub(crate) struct Detacher {
    pub(crate) context: Arc<Context>,
    pub(crate) meta: Arc<Meta>,
    pub(crate) tier: Arc<Tier>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) mirrors: Arc<Mirrors>,
    pub(crate) space: Arc<Space>,
    pub(crate) fetcher: Arc<Fetcher>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) promises: Arc<Promises>,
}

impl Detacher {
    /// Whether a file of a link holds, or may soon hold, what its object does not.
    pub(crate) fn has_changes(&self, inode: &Inode) -> bool {
        let changed = inode.native.as_ref().is_none_or(|native| native.changed);
        let dirty = self.tier.find(inode.ino).is_some_and(|mirror| {
            mirror.dirty_bytes() > 0 || mirror.pending().1.size || mirror.may_be_stored()
        });
        changed || dirty || self.nodes.has_writers(inode.ino)
    }

    /// Parts a file from its object, which is another file's from now on: it becomes an ordinary
    /// file with all the bytes that can be had. Those that cannot read as errors.
    pub(crate) async fn detach(&self, ino: Ino) -> Result<()> {
        let detached = |inode: &Inode| {
            let native = attached(inode)?;
            Some(Some(Native { detached: true, ..native }))
        };
        match self.change_native(ino, detached).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Ok(inode) if inode.kind == FileKind::Directory => return Ok(()),
            changed => _ = changed?,
        }
        fail::fail_point!("engine::detached");
        self.absorb(ino, None).await.map(drop)
    }

    /// The same, as long as the file is this very object: an export may have given it another.
    pub(crate) async fn detach_from(&self, ino: Ino, row: &ObjectRow) -> Result<()> {
        let detached = |inode: &Inode| {
            let native = attached(inode)?;
            let same = native.key.as_bytes() == row.key && native.etag == row.object.etag;
            same.then_some(Some(Native { detached: true, ..native }))
        };
        let parted = match self.change_native(ino, detached).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            parted => parted?,
        };
        match parted.native.is_some_and(|native| native.detached) {
            true => {
                fail::fail_point!("engine::detached");
                self.absorb(ino, None).await.map(drop)
            }
            false => Ok(()),
        }
    }

    /// Makes an ordinary file of one that left its link. Only then is its object to be deleted. One
    /// that another link exported meanwhile is left alone.
    pub(crate) async fn leave_link(&self, link: &Link, ino: Ino) -> Result<()> {
        if self.absorb(ino, Some(link.id)).await? {
            return Ok(());
        }
        let text =
            "a file left its link, and its object changed meanwhile: what is not here is lost";
        tracing::warn!(%ino, "{text}");
        self.detach(ino).await
    }

    /// Changes what is known of a file's object, and no export or truncation at the same time.
    pub(crate) async fn change_native(
        &self,
        ino: Ino,
        change: impl Fn(&Inode) -> Option<Option<Native>> + Send + Sync,
    ) -> Result<Inode> {
        let node = self.nodes.get(ino);
        let _change = node.change.lock().await;
        self.meta.change_native(ino, change).await
    }

    /// Makes data of the volume of what a file has of its object, and parts the two when nothing
    /// is left. `false`: the object is another one by now, and what is not here is lost; the file
    /// says so if it is not to `leave` a link.
    async fn absorb(&self, ino: Ino, leave: Option<LinkId>) -> Result<bool> {
        let inode = self.meta.inode(ino).await?;
        let of_link = |native: &Native| leave.is_none_or(|link| native.link == link);
        let Some(native) = inode.native.filter(of_link) else { return Ok(true) };
        let mut lost = false;
        if inode.kind == FileKind::Regular {
            for _ in 0..ROUNDS {
                lost = self.bring_and_flush(ino).await?;
                // Pages may have been released between their fetch and the flush.
                if lost || !self.uses_object(ino).await? {
                    break;
                }
            }
        }
        if lost {
            if leave.is_none() {
                let ending = self.registry.get(native.link).is_ok_and(|link| link.is_ending());
                let mark = |inode: &Inode| {
                    let now = inode.native.as_ref().filter(|now| is_same(now, &native))?;
                    // No note is to outlive the link.
                    let exports = now.exports && !ending;
                    Some(Some(Native { lost: true, exports, ..now.clone() }))
                };
                self.change_native(ino, mark).await?;
            }
            self.registry.bytes_lost(ino);
            return Ok(false);
        }
        fail::fail_point!("engine::absorbed");
        let node = self.nodes.get(ino);
        let _change = node.change.lock().await;
        let Some(now) = self.meta.inode(ino).await?.native else {
            // An import and an export part the same file at once, and the other was done first.
            return Ok(true);
        };
        let now = Some(now).filter(|now| is_same(now, &native));
        let parted =
            !self.uses_object(ino).await? && self.meta.leave_link(ino, now.as_ref()).await?;
        match parted {
            true => Ok(true),
            false => {
                let text = format!("inode {ino} changes too fast to part it from its object");
                Err(FsError::new(ErrorKind::Retry, text))
            }
        }
    }

    /// Brings all of a file here and sends it off as data of the volume, a step at a time. Answers
    /// whether some of it cannot be had any more.
    async fn bring_and_flush(&self, ino: Ino) -> Result<bool> {
        let node = self.nodes.get(ino);
        let mirror = self.mirrors.open_mirror(&node).await?;
        let mut lost = false;
        let mut at = 0;
        while at < mirror.size() {
            let end = at + STEP_BYTES;
            let missing = mirror.missing(at, end.min(mirror.size()));
            if !missing.is_empty() && !lost {
                self.space.make_room(amount_for(&mirror, STEP_BYTES)).await?;
                match self.fetcher.fetch_whole(&mirror, &missing, Priority::Demand).await {
                    Err(error) if is_final(&error) => lost = true,
                    fetched => fetched?,
                }
            }
            mirror.adopt(at, end)?;
            self.flusher.flush_files(&[ino]).await?;
            at = end;
        }
        if !self.nodes.is_open(ino) {
            mirror.idle();
        }
        Ok(lost)
    }

    /// Whether some bytes of the file are still in its object only.
    async fn uses_object(&self, ino: Ino) -> Result<bool> {
        let inode = self.meta.inode(ino).await?;
        let end = inode.native.map_or(0, |native| native.end);
        let chunks = chunk_range(0, end);
        for from in chunks.clone().step_by(PAGE) {
            let page = from..(from + PAGE as u64).min(chunks.end);
            let found = self.meta.chunks(ino, page).await?;
            if found.list.iter().flat_map(|(_, extents)| extents).any(|e| e.is_native()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The file of an object lost its name to an import. Whoever opened it for writing just before,
    /// or wrote it, keeps it under the name of a conflict; answers whether that is so.
    pub(crate) async fn object_gone(
        &self,
        link: &Link,
        gone: &Inode,
        (dir, name): (Ino, &[u8]),
    ) -> Result<bool> {
        fail::fail_point!("engine::name-gone");
        self.registry.name_changed(dir, name);
        self.promises.end_soon(gone.ino);
        // From here on nobody comes by this name to the old file any more.
        self.registry.notify_doors().await;
        if gone.nlink > 0 {
            // Its other names keep what they can of the object, if they are not that any more.
            if gone.native.as_ref().is_some_and(|native| native.detached) {
                self.absorb(gone.ino, None).await?;
            }
            return Ok(false);
        }
        if !self.has_late_changes(gone).await? {
            self.nodes.name_gone(gone);
            return Ok(false);
        }
        for nth in 0..100 {
            let beside = rule::conflict_name(name, self.context.unix_ms(), nth);
            match self.meta.name_again(gone.ino, dir, &beside).await {
                Err(error) if error.kind() == ErrorKind::Exists => {}
                named => {
                    named?;
                    link.state().conflicts += 1;
                    self.registry.names_added(dir);
                    self.absorb(gone.ino, None).await?;
                    return Ok(true);
                }
            }
        }
        Err(FsError::new(ErrorKind::Retry, "too many conflicts at once"))
    }

    /// Whether somebody writes a file, or wrote it since it lost its name: what was written may be
    /// flushed by now.
    async fn has_late_changes(&self, gone: &Inode) -> Result<bool> {
        let written = |m: Arc<Mirror>| m.dirty_bytes() > 0 || m.pending().1.size;
        if self.nodes.has_writers(gone.ino) || self.tier.find(gone.ino).is_some_and(written) {
            return Ok(true);
        }
        match self.meta.inode(gone.ino).await {
            Ok(now) => Ok(now.native.is_none_or(|native| native.changed)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// What a file is that did not part from its object. Directories only say where they are.
fn attached(inode: &Inode) -> Option<Native> {
    let is_file = inode.kind != FileKind::Directory;
    inode.native.clone().filter(|native| is_file && !native.detached)
}

/// Whether both are the same version of the same object.
fn is_same(one: &Native, other: &Native) -> bool {
    (one.link, &one.key, &one.etag) == (other.link, &other.key, &other.etag)
}

/// Whether asking again would not help: the object is another one, or gone.
fn is_final(error: &FsError) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::Corrupt)
}

const _: () = assert!(STEP_BYTES.is_multiple_of(CHUNK_BYTES));
