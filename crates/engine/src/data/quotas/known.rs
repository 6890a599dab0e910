//! What is known of quotas here, and what they let in since.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use weir_meta::{QuotaOf, QuotaRow, QuotaUsed};
use weir_types::{Account, Ino, Inode};

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
    /// What was let in here, and was where that look finds it, when it began.
    pub(super) found: QuotaUsed,
}

impl Quota {
    #[cfg(test)]
    pub(crate) fn of(bytes_max: Option<u64>, files_max: Option<u64>, used: QuotaUsed) -> Self {
        let row = QuotaRow { bytes_max, files_max, ..QuotaRow::default() };
        Self { row, outer: None, used, found: QuotaUsed::default() }
    }

    fn holds(&self, let_in: QuotaUsed, more: QuotaUsed) -> bool {
        let fits = |max: Option<u64>, used: u64, since: u64, more: u64| {
            more == 0
                || max.is_none_or(|max| used.saturating_add(since).saturating_add(more) <= max)
        };
        let bytes = let_in.bytes.saturating_sub(self.found.bytes);
        let files = let_in.files.saturating_sub(self.found.files);
        fits(self.row.bytes_max, self.used.bytes, bytes, more.bytes)
            && fits(self.row.files_max, self.used.files, files, more.files)
    }
}

/// What was let in here, ever.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LetIn {
    all: QuotaUsed,
    /// What of it a look finds: its bytes are dirty, or its names in the metadata. The rest is on its way.
    pub(super) found: QuotaUsed,
}

/// What is known of the quotas.
#[derive(Default)]
pub(super) struct Known {
    pub(super) quotas: BTreeMap<QuotaOf, Quota>,
    /// Outlives looks, and quotas.
    pub(super) let_in: BTreeMap<QuotaOf, LetIn>,
    /// Whose quotas files count for, as of this look.
    pub(super) whose: HashMap<Ino, Whose>,
    pub(super) looked_ms: Option<u64>,
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
    pub(super) fn chain(&self, whose: Whose) -> Vec<QuotaOf> {
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
        let let_in = |of: &QuotaOf| self.let_in.get(of).copied().unwrap_or_default().all;
        if let Some(full) = chain.iter().find(|of| !self.quotas[of].holds(let_in(of), more)) {
            return Err(*full);
        }
        for of in chain {
            add(&mut self.let_in.entry(*of).or_default().all, more);
        }
        Ok(())
    }
}

fn add(to: &mut QuotaUsed, more: QuotaUsed) {
    to.bytes = to.bytes.saturating_add(more.bytes);
    to.files = to.files.saturating_add(more.files);
}

/// What quotas let in. Is held until it is where a look finds it, or comes to nothing: looks that begin
/// before count it on top of what they find.
#[derive(Default)]
#[must_use = "what is let in counts twice or not at all where this goes before it is written"]
pub(crate) struct Grant {
    /// `None` where no quota has a say.
    known: Option<Arc<Mutex<Known>>>,
    chain: Vec<QuotaOf>,
    more: QuotaUsed,
}

impl Grant {
    /// Lets so much in where each of these quotas has room. Else the one that has none.
    pub(super) fn take(
        known: &Arc<Mutex<Known>>,
        chain: impl FnOnce(&Known) -> Vec<QuotaOf>,
        more: QuotaUsed,
    ) -> Result<Self, QuotaOf> {
        let mut now = known.lock();
        let chain = chain(&now);
        now.take(&chain, more)?;
        Ok(Self { known: Some(known.clone()), chain, more })
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let Some(known) = &self.known else { return };
        let mut known = known.lock();
        for of in &self.chain {
            add(&mut known.let_in.entry(*of).or_default().found, self.more);
        }
    }
}
