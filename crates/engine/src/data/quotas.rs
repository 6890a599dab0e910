//! What quotas let in: bytes and names that a tree, a user or a group may have no more are refused
//! before they are taken.
//!
//! The counters of the metadata say what counts, but not what is dirty here, nor what other nodes wrote
//! since somebody looked. So a look sums both up, and what is let in since is added to it. Where that
//! comes near a limit it is looked again; and before anything is refused the dirty bytes are sent off,
//! so that what is overwritten counts once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use weir_meta::{Meta, QuotaOf, QuotaRow, QuotaUsed};
use weir_tier::{Mirror, Tier};
use weir_types::{Account, Bytes, ErrorKind, FsError, Ino, Inode, Result};

use super::fetch::Fetcher;
use super::flush::Flusher;
use super::nodes::Nodes;
use crate::volume::context::Context;

/// How old a look may be, in milliseconds: so long other nodes may write unseen.
const OLD_MS: u64 = 1_000;
/// How often, and after which time each, it is looked again where removed files still count.
const LOOKS: usize = 10;
const LOOK: Duration = Duration::from_millis(50);
/// How long a write waits for the metadata, and for dirty bytes to leave, before what is known decides.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is made in a directory with it is its group's.
const SET_GID: u32 = 0o2000;

/// A quota, and what counts for it.
#[derive(Clone, Debug)]
pub(crate) struct Quota {
    pub(crate) row: QuotaRow,
    /// The quota of the tree that this tree is in.
    pub(crate) outer: Option<QuotaOf>,
    /// At the last look: in the metadata and dirty here, and of trees within it as well.
    pub(crate) used: QuotaUsed,
    /// Let in here, ever, and when that look began: what is let in while it is taken counts twice and not
    /// never.
    let_in: QuotaUsed,
    let_in_before: QuotaUsed,
}

impl Quota {
    #[cfg(test)]
    pub(crate) fn of(bytes_max: Option<u64>, files_max: Option<u64>, used: QuotaUsed) -> Self {
        let row = QuotaRow { bytes_max, files_max, ..QuotaRow::default() };
        let (let_in, let_in_before) = Default::default();
        Self { row, outer: None, used, let_in, let_in_before }
    }

    fn holds(&self, more: QuotaUsed) -> bool {
        let fits = |max: Option<u64>, used: u64, since: u64, more: u64| {
            more == 0
                || max.is_none_or(|max| used.saturating_add(since).saturating_add(more) <= max)
        };
        let since = |all: u64, before: u64| all.saturating_sub(before);
        let bytes = since(self.let_in.bytes, self.let_in_before.bytes);
        let files = since(self.let_in.files, self.let_in_before.files);
        fits(self.row.bytes_max, self.used.bytes, bytes, more.bytes)
            && fits(self.row.files_max, self.used.files, files, more.files)
    }
}

/// What is known of the quotas.
#[derive(Default)]
struct Known {
    quotas: BTreeMap<QuotaOf, Quota>,
    /// Whose quotas files count for, as of this look.
    whose: HashMap<Ino, Whose>,
    looked_ms: Option<u64>,
}

/// Whose quotas an inode counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whose {
    account: Account,
    uid: u32,
    gid: u32,
}

impl Whose {
    pub(crate) fn of(inode: &Inode) -> Self {
        Self { account: inode.account, uid: inode.uid, gid: inode.gid }
    }

    /// What moves to `dir`.
    pub(crate) fn moved_to(dir: &Inode, moved: &Inode) -> Self {
        Self { account: dir.account, uid: moved.uid, gid: moved.gid }
    }

    /// What gets another owner or group.
    pub(crate) fn given_to(file: &Inode, uid: u32, gid: u32) -> Self {
        Self { account: file.account, uid, gid }
    }

    /// What somebody makes in `dir`.
    pub(crate) fn made_in(dir: &Inode, uid: u32, gid: u32) -> Self {
        let gid = if dir.mode & SET_GID != 0 { dir.gid } else { gid };
        Self { account: dir.account, uid, gid }
    }
}

impl Known {
    /// The quotas that must hold what counts so, of trees from the inside out.
    fn chain(&self, whose: Whose) -> Vec<QuotaOf> {
        let mut chain = Vec::new();
        let mut tree = whose.account.tree.map(QuotaOf::Tree);
        while let Some(of) = tree.filter(|of| !chain.contains(of)) {
            chain.push(of);
            tree = self.quotas.get(&of).and_then(|quota| quota.outer);
        }
        if whose.account.owners {
            chain.extend([QuotaOf::User(whose.uid), QuotaOf::Group(whose.gid)]);
        }
        chain.retain(|of| self.quotas.contains_key(of));
        chain
    }

    /// Lets it in where each of them has room. Else the one that has none.
    fn take(&mut self, chain: &[QuotaOf], more: QuotaUsed) -> Result<(), QuotaOf> {
        if let Some(full) = chain.iter().find(|of| !self.quotas[of].holds(more)) {
            return Err(*full);
        }
        for of in chain {
            if let Some(quota) = self.quotas.get_mut(of) {
                quota.let_in.bytes = quota.let_in.bytes.saturating_add(more.bytes);
                quota.let_in.files = quota.let_in.files.saturating_add(more.files);
            }
        }
        Ok(())
    }
}

/// What quotas let in.
pub(crate) struct Quotas {
    context: Arc<Context>,
    meta: Arc<Meta>,
    tier: Arc<Tier>,
    nodes: Arc<Nodes>,
    flusher: Arc<Flusher>,
    any: AtomicBool,
    known: Mutex<Known>,
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
            known: Mutex::default(),
        }
    }

    /// Whether there are quotas. Costs nothing.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Looks how much is used, and which quotas there are. Two or three read rounds.
    pub(crate) async fn look(&self) -> Result<()> {
        let let_in = self.let_in();
        // In this order: what leaves meanwhile counts twice and not never.
        let unflushed = match self.any() {
            true => self.tier.unflushed(),
            false => Vec::new(),
        };
        let dirty: Vec<u64> = unflushed.iter().map(|mirror| mirror.dirty_bytes()).collect();
        let inos: Vec<Ino> = unflushed.iter().map(|mirror| mirror.ino()).collect();
        let looked_ms = self.context.now_ms();
        let rows = self.meta.quotas().await?;
        let all: Vec<QuotaOf> = rows.iter().map(|(of, _)| *of).collect();
        let outer = self.outer(&rows).await?;
        let counted = self.meta.quotas_used(&all).await?;
        let inodes = self.meta.inodes(&inos).await?;
        let mut known = Known { looked_ms: Some(looked_ms), ..Known::default() };
        for (((of, row), used), outer) in rows.into_iter().zip(&counted).zip(outer) {
            let let_in_before = let_in.get(&of).copied().unwrap_or_default();
            let (let_in, used) = (let_in_before, *used);
            known.quotas.insert(of, Quota { row, outer, used, let_in, let_in_before });
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
        for (of, quota) in &mut known.quotas {
            quota.let_in = now.quotas.get(of).map_or(quota.let_in, |old| old.let_in);
        }
        *now = known;
        Ok(())
    }

    fn let_in(&self) -> BTreeMap<QuotaOf, QuotaUsed> {
        let known = self.known.lock();
        known.quotas.iter().map(|(of, quota)| (*of, quota.let_in)).collect()
    }

    /// For each quota of a tree the one of the tree that it lies in.
    async fn outer(&self, rows: &[(QuotaOf, QuotaRow)]) -> Result<Vec<Option<QuotaOf>>> {
        let roots: Vec<Ino> = rows.iter().filter_map(|(_, row)| row.root).collect();
        let tops = self.meta.inodes(&roots).await?;
        let parent = |top: &Option<Inode>| top.as_ref().map_or(Ino::ROOT, |top| top.parent);
        let parents = self.meta.inodes(&tops.iter().map(parent).collect::<Vec<_>>()).await?;
        let mut above = parents.into_iter();
        Ok(rows
            .iter()
            .map(|(of, row)| {
                let tree = row.root.and_then(|_| above.next().flatten()?.account.tree);
                tree.map(QuotaOf::Tree).filter(|outer| outer != of)
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

    /// Whether so many more bytes of a file fit, by what is known; they are let in then. `false` where
    /// somebody must look.
    pub(crate) fn surely_hold(&self, ino: Ino, bytes: u64) -> bool {
        if !self.any() {
            return true;
        }
        if self.is_old() {
            return false;
        }
        let mut known = self.known.lock();
        let Some(whose) = known.whose.get(&ino).copied() else { return false };
        let chain = known.chain(whose);
        known.take(&chain, QuotaUsed { bytes, files: 0 }).is_ok()
    }

    /// `Quota` where `offset..offset + len` of a file needs more than is left. What is there already needs
    /// nothing.
    pub(crate) async fn check_bytes(&self, mirror: &Mirror, offset: u64, len: u64) -> Result<()> {
        if !self.any() {
            return Ok(());
        }
        let bytes = mirror.hole_bytes(offset, offset.saturating_add(len));
        if bytes == 0 {
            return Ok(());
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
    pub(crate) async fn check(&self, whose: Whose, more: QuotaUsed) -> Result<()> {
        self.check_moved(None, whose, more).await
    }

    /// The same for what counted so `before`: where it does already it needs no more room.
    pub(crate) async fn check_moved(
        &self,
        before: Option<Whose>,
        after: Whose,
        more: QuotaUsed,
    ) -> Result<()> {
        if !self.any() || before == Some(after) {
            return Ok(());
        }
        self.look_if_old_or_late().await;
        if self.take(before, after, more).is_ok() {
            return Ok(());
        }
        self.send_off(after).await;
        for _ in 0..LOOKS {
            if !self.look_in_time().await {
                break;
            }
            if self.take(before, after, more).is_ok() {
                return Ok(());
            }
            if !self.nodes.any_to_purge() {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        let taken = self.take(before, after, more);
        taken.map_err(|full| self.refusal(full))
    }

    fn take(&self, before: Option<Whose>, after: Whose, more: QuotaUsed) -> Result<(), QuotaOf> {
        let mut known = self.known.lock();
        let had = before.map(|before| known.chain(before)).unwrap_or_default();
        let mut chain = known.chain(after);
        chain.retain(|of| !had.contains(of));
        known.take(&chain, more)
    }

    /// Sends the dirty bytes off that count for one of these quotas, or may: of a file that was only overwritten since the
    /// last look that is not known.
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
