//! What quotas let in: bytes and names that a tree, a user or a group may have no more are refused
//! before they are taken.
//!
//! The counters of the metadata say what counts, but not what is dirty here, nor what other nodes wrote
//! since somebody looked. So a look sums both up, and what is let in since, or was on its way, is added
//! to it. Where that comes near a limit it is looked again; and before anything is refused the dirty
//! bytes are sent off, so that what is overwritten counts once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use weir_meta::{Meta, QuotaOf, QuotaUsed, SeenQuota};
use weir_tier::{Mirror, Tier};
use weir_types::{Bytes, ErrorKind, FsError, Ino, Inode, Result};

use super::fetch::Fetcher;
use super::flush::Flusher;
use super::nodes::Nodes;
use crate::volume::context::Context;

mod known;

use known::Known;
pub(crate) use known::{Grant, Quota, Whose};

/// How old a look may be, in milliseconds: so long other nodes may write unseen.
const OLD_MS: u64 = 1_000;
/// How often, and after which time each, it is looked again where removed files still count.
const LOOKS: usize = 10;
const LOOK: Duration = Duration::from_millis(50);
/// How long a write waits for the metadata, and for dirty bytes to leave, before what is known decides.
const PATIENCE: Duration = Duration::from_secs(5);

/// What quotas let in.
pub(crate) struct Quotas {
    context: Arc<Context>,
    meta: Arc<Meta>,
    tier: Arc<Tier>,
    nodes: Arc<Nodes>,
    flusher: Arc<Flusher>,
    any: AtomicBool,
    known: Arc<Mutex<Known>>,
}

impl Quotas {
    pub(crate) fn new(parts: &Fetcher, flusher: Arc<Flusher>) -> Self {
        Self {
            context: parts.context.clone(),
            meta: parts.meta.clone(),
            tier: parts.tier.clone(),
            nodes: parts.nodes.clone(),
            flusher,
            any: AtomicBool::new(false),
            known: Arc::default(),
        }
    }

    /// Whether there are quotas. Costs nothing.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Looks how much is used, and which quotas there are. Two or three read rounds.
    pub(crate) async fn look(&self) -> Result<()> {
        let found = self.found();
        // In this order: what leaves meanwhile counts twice and not never.
        let unflushed = match self.any() {
            true => self.tier.unflushed(),
            false => Vec::new(),
        };
        let dirty: Vec<u64> = unflushed.iter().map(|mirror| mirror.dirty_bytes()).collect();
        let inos: Vec<Ino> = unflushed.iter().map(|mirror| mirror.ino()).collect();
        let looked_ms = self.context.now_ms();
        let rows = self.meta.quotas().await?;
        let all: Vec<QuotaOf> = rows.iter().map(|quota| quota.of).collect();
        let outer = self.outer(&rows).await?;
        let counted = self.meta.quotas_used(&all).await?;
        let inodes = self.meta.inodes(&inos).await?;
        let mut known = Known { looked_ms: Some(looked_ms), ..Known::default() };
        for ((SeenQuota { of, row, .. }, used), outer) in rows.into_iter().zip(&counted).zip(outer)
        {
            let found = found.get(&of).copied().unwrap_or_default();
            known.quotas.insert(of, Quota { row, outer, used: *used, found });
        }
        for (of, used) in all.iter().zip(counted) {
            let mut at = known.quotas.get(of).and_then(|quota| quota.outer);
            for _ in 0..all.len() {
                let Some(quota) = at.and_then(|of| known.quotas.get_mut(&of)) else { break };
                quota.used.bytes += used.bytes;
                quota.used.files += used.files;
                at = quota.outer;
            }
        }
        for ((ino, dirty_bytes), inode) in inos.into_iter().zip(dirty).zip(inodes) {
            let Some(whose) = inode.as_ref().map(Whose::of) else { continue };
            known.whose.insert(ino, whose);
            for of in known.chain(whose) {
                if let Some(quota) = known.quotas.get_mut(&of) {
                    quota.used.bytes += dirty_bytes;
                }
            }
        }
        self.any.store(!known.quotas.is_empty(), Ordering::Relaxed);
        let mut now = self.known.lock();
        known.let_in = std::mem::take(&mut now.let_in);
        *now = known;
        Ok(())
    }

    fn found(&self) -> BTreeMap<QuotaOf, QuotaUsed> {
        self.known.lock().let_in.iter().map(|(of, let_in)| (*of, let_in.found)).collect()
    }

    /// For each quota of a tree the one of the tree that it lies in.
    async fn outer(&self, rows: &[SeenQuota]) -> Result<Vec<Option<QuotaOf>>> {
        let roots: Vec<Ino> = rows.iter().filter_map(|quota| quota.row.root).collect();
        let tops = self.meta.inodes(&roots).await?;
        let parent = |top: &Option<Inode>| top.as_ref().map_or(Ino::ROOT, |top| top.parent);
        let parents = self.meta.inodes(&tops.iter().map(parent).collect::<Vec<_>>()).await?;
        let mut above = parents.into_iter();
        Ok(rows
            .iter()
            .map(|quota| {
                let tree = quota.row.root.and_then(|_| above.next().flatten()?.account.tree);
                tree.map(QuotaOf::Tree).filter(|outer| *outer != quota.of)
            })
            .collect())
    }

    /// All that is known of the quotas, after a look.
    pub(crate) async fn all(&self) -> Result<BTreeMap<QuotaOf, Quota>> {
        self.look().await?;
        Ok(self.known.lock().quotas.clone())
    }

    /// The quotas that something counts for that counts so, innermost tree first, after a look.
    pub(crate) async fn over(&self, whose: Whose) -> Result<Vec<(QuotaOf, Quota)>> {
        self.look().await?;
        let known = self.known.lock();
        let quota = |of: QuotaOf| Some((of, known.quotas.get(&of)?.clone()));
        Ok(known.chain(whose).into_iter().filter_map(quota).collect())
    }

    fn is_old(&self) -> bool {
        let looked_ms = self.known.lock().looked_ms;
        looked_ms.is_none_or(|at| self.context.now_ms().saturating_sub(at) >= OLD_MS)
    }

    /// Lets so many more bytes of a file in where they fit by what is known. `None` where somebody must
    /// look.
    pub(crate) fn surely_hold(&self, ino: Ino, bytes: u64) -> Option<Grant> {
        if !self.any() {
            return Some(Grant::default());
        }
        if self.is_old() {
            return None;
        }
        let whose = self.known.lock().whose.get(&ino).copied()?;
        let chain = |known: &Known| known.chain(whose);
        Grant::take(&self.known, chain, QuotaUsed { bytes, files: 0 }).ok()
    }

    /// `Quota` where `offset..offset + len` of a file needs more than is left. What is there already needs
    /// nothing.
    pub(crate) async fn check_bytes(
        &self,
        mirror: &Mirror,
        offset: u64,
        len: u64,
    ) -> Result<Grant> {
        if !self.any() {
            return Ok(Grant::default());
        }
        let bytes = mirror.hole_bytes(offset, offset.saturating_add(len));
        if bytes == 0 {
            return Ok(Grant::default());
        }
        self.look_if_old_or_late().await;
        let ino = mirror.ino();
        let whose = self.known.lock().whose.get(&ino).copied();
        let whose = match whose {
            Some(whose) => whose,
            None => {
                let whose = Whose::of(&self.meta.inode(ino).await?);
                self.known.lock().whose.insert(ino, whose);
                whose
            }
        };
        self.check(whose, QuotaUsed { bytes, files: 0 }).await
    }

    /// The same; while the metadata does not answer what was known before stands.
    async fn look_if_old_or_late(&self) {
        if self.is_old() {
            self.look_in_time().await;
        }
    }

    /// Whether all that is to count does, or the last look found it so.
    pub(crate) fn are_counted(&self) -> bool {
        self.known.lock().quotas.values().all(|quota| !quota.row.counting)
    }

    /// `false` where the metadata does not answer in time.
    async fn look_in_time(&self) -> bool {
        match tokio::time::timeout(PATIENCE, self.look()).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::debug!(%error, "quotas stand as they were known");
                false
            }
            Err(_) => false,
        }
    }

    /// `Quota` where what counts so has no room for so much more. Nothing, or three read rounds where the
    /// last look is old or a limit is near.
    pub(crate) async fn check(&self, whose: Whose, more: QuotaUsed) -> Result<Grant> {
        self.check_moved(None, whose, more).await
    }

    /// The same for what counted so `before`: where it does already it needs no more room.
    pub(crate) async fn check_moved(
        &self,
        before: Option<Whose>,
        after: Whose,
        more: QuotaUsed,
    ) -> Result<Grant> {
        if !self.any() || before == Some(after) {
            return Ok(Grant::default());
        }
        self.look_if_old_or_late().await;
        if let Ok(grant) = self.take(before, after, more) {
            return Ok(grant);
        }
        self.send_off(after).await;
        for _ in 0..LOOKS {
            if !self.look_in_time().await {
                break;
            }
            if let Ok(grant) = self.take(before, after, more) {
                return Ok(grant);
            }
            if !self.nodes.any_to_purge() {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        let taken = self.take(before, after, more);
        taken.map_err(|full| self.refusal(full))
    }

    fn take(&self, before: Option<Whose>, after: Whose, more: QuotaUsed) -> Result<Grant, QuotaOf> {
        let chain = |known: &Known| {
            let had = before.map(|before| known.chain(before)).unwrap_or_default();
            let mut chain = known.chain(after);
            chain.retain(|of| !had.contains(of));
            chain
        };
        Grant::take(&self.known, chain, more)
    }

    /// Sends the dirty bytes off that count for one of these quotas, or may: of a file that was only
    /// overwritten since the last look that is not known.
    async fn send_off(&self, whose: Whose) {
        let inos: Vec<Ino> = {
            let known = self.known.lock();
            let chain = known.chain(whose);
            let counts = |ino: &Ino| {
                let of = known.whose.get(ino).map(|one| known.chain(*one));
                of.is_none_or(|of| of.iter().any(|of| chain.contains(of)))
            };
            self.tier.unflushed().iter().map(|mirror| mirror.ino()).filter(counts).collect()
        };
        let sent = tokio::time::timeout(PATIENCE, self.flusher.flush_files(&inos)).await;
        if let Ok(Err(error)) = sent {
            tracing::debug!(%error, "what is dirty counts as it is: it could not leave");
        }
    }

    fn refusal(&self, full: QuotaOf) -> FsError {
        let known = self.known.lock();
        let (row, used) = match known.quotas.get(&full) {
            Some(quota) => (quota.row.clone(), quota.used),
            None => Default::default(),
        };
        let whose = match (full, row.root) {
            (QuotaOf::User(uid), _) => format!("user {uid}"),
            (QuotaOf::Group(gid), _) => format!("group {gid}"),
            (QuotaOf::Tree(_), root) => {
                format!("the tree below inode {}", root.unwrap_or(Ino::ROOT))
            }
        };
        let bytes = |n| Bytes(n).to_string();
        let of = |used: String, max: Option<String>| match max {
            Some(max) => format!("{used} of {max}"),
            None => used,
        };
        let text = format!(
            "the quota of {whose} is used up: it has {} and {} files: remove some, or have it raised \
             by `weir quota set`",
            of(bytes(used.bytes), row.bytes_max.map(bytes)),
            of(used.files.to_string(), row.files_max.map(|n| n.to_string())),
        );
        FsError::new(ErrorKind::Quota, text)
    }

    /// Somebody changed what counts for whom: the next one looks.
    pub(crate) fn changed(&self) {
        self.any.store(true, Ordering::Relaxed);
        self.known.lock().looked_ms = None;
    }
}
