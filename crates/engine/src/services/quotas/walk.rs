//! Having everything count.
//!
//! A quota on a directory that has something in it is told of by nothing there, so a walk has it all
//! count. It goes from the top down, and a directory counts before it is listed: what is made in it
//! later counts as it does, and what was made before is in the listing. Nothing stands still meanwhile.
//!
//! Other nodes may set quotas and walk, too. A tree that was set later has a higher number, and is left
//! alone; what a walk changes below its top before the other comes by, the other changes again. A tree
//! that is removed goes to the one it lies in, and both rows are checked by each commit.

use std::collections::{BTreeMap, BTreeSet};

use weir_meta::{FoundAt, QuotaOf, SeenQuota};
use weir_types::{Account, ErrorKind, FileKind, Ino, Inode, Result, TreeId};

use super::QuotaKeeper;

/// Entries read at once.
const PAGE: usize = 1_000;
/// Inodes that one commit has count.
const BATCH: usize = 250;

/// The trees that there were when a walk began.
struct Trees<'a> {
    /// But for those that are removed, with their tops.
    live: BTreeMap<Ino, &'a SeenQuota>,
    newest: Option<TreeId>,
}

impl<'a> Trees<'a> {
    fn of(rows: &'a [SeenQuota]) -> Self {
        let mut live = BTreeMap::new();
        let mut newest = None;
        for quota in rows {
            newest = newest.max(tree_of(quota));
            if let Some(root) = quota.row.root.filter(|_| !quota.row.removed) {
                live.insert(root, quota);
            }
        }
        Self { live, newest }
    }

    /// It counts for one that was set since: who counts that one comes by.
    fn is_newer(&self, inode: &Inode) -> bool {
        inode.account.tree > self.newest
    }
}

fn tree_of(quota: &SeenQuota) -> Option<TreeId> {
    match quota.of {
        QuotaOf::Tree(tree) => Some(tree),
        QuotaOf::User(_) | QuotaOf::Group(_) => None,
    }
}

impl QuotaKeeper {
    /// As [`Self::walk`].
    pub(super) async fn count_owners(&self, quota: &SeenQuota) -> Result<bool> {
        let owners = |inode: &Inode| Account { owners: true, ..inode.account };
        self.walk(&[quota], Ino::ROOT, owners, &BTreeSet::new()).await
    }

    /// As [`Self::walk`].
    pub(super) async fn count_tree(
        &self,
        quota: &SeenQuota,
        rows: &[SeenQuota],
        tree: TreeId,
        root: Ino,
    ) -> Result<bool> {
        let trees = Trees::of(rows);
        let others = trees.live.iter().filter(|(top, _)| **top != root);
        let others: BTreeMap<Ino, QuotaOf> = others.map(|(top, other)| (*top, other.of)).collect();
        let tops = others.keys().copied().collect();
        let count = |inode: &Inode| match others.contains_key(&inode.ino) || trees.is_newer(inode) {
            true => inode.account,
            false => Account { tree: Some(tree), ..inode.account },
        };
        if !self.walk(&[quota], root, count, &tops).await? {
            return Ok(false);
        }
        // What lay in one that was removed meanwhile may have gone to one above this one.
        let now = self.meta.quotas().await?;
        let now = Trees::of(&now);
        let now_of = |top: &Ino| now.live.get(top).map(|other| other.of);
        Ok(others.iter().all(|(top, of)| now_of(top) == Some(*of)))
    }

    /// As [`Self::walk`], of one that is removed.
    pub(super) async fn leave_tree(
        &self,
        quota: &SeenQuota,
        rows: &[SeenQuota],
        tree: TreeId,
        root: Ino,
    ) -> Result<bool> {
        let trees = Trees::of(rows);
        let outer = self.tree_around(&trees, root).await?;
        let to = outer.and_then(tree_of);
        let seen: Vec<_> = [quota].into_iter().chain(outer).collect();
        let leave = |inode: &Inode| {
            let leaves = inode.account.tree == Some(tree) || inode.ino == root;
            match leaves && !trees.is_newer(inode) {
                true => Account { tree: to, ..inode.account },
                false => inode.account,
            }
        };
        if self.meta.set_accounts(&seen, &[FoundAt::anywhere(root)], leave).await?.is_none() {
            return Ok(false);
        }
        // Until then it could be moved to another tree; no longer.
        let now = self.meta.quotas().await?;
        let around = self.tree_around(&Trees::of(&now), root).await?;
        if around.and_then(tree_of) != to {
            return Ok(false);
        }
        self.walk(&seen, root, leave, &BTreeSet::new()).await
    }

    /// The innermost tree that a directory lies in, or whose top it is. One read for each directory above it.
    async fn tree_around<'a>(&self, trees: &Trees<'a>, dir: Ino) -> Result<Option<&'a SeenQuota>> {
        let mut at = dir;
        loop {
            if let Some(quota) = trees.live.get(&at) {
                return Ok(Some(quota));
            }
            match self.meta.inodes(&[at]).await?.pop().flatten() {
                Some(inode) if at != Ino::ROOT => at = inode.parent,
                _ => return Ok(None),
            }
        }
    }

    /// Has `change` done to all below `top`, and it first, but not below what is in `without`. `false` where another node
    /// has set one of the quotas since they were read: it begins anew then. A commit and two or three read rounds for
    /// each 250 names.
    async fn walk(
        &self,
        quotas: &[&SeenQuota],
        top: Ino,
        change: impl Fn(&Inode) -> Account + Send + Sync,
        without: &BTreeSet<Ino>,
    ) -> Result<bool> {
        if self.meta.set_accounts(quotas, &[FoundAt::anywhere(top)], &change).await?.is_none() {
            return Ok(false);
        }
        let mut left = vec![(top, 0)];
        while let Some((dir, cookie)) = left.pop() {
            let page = match self.meta.readdir(dir, cookie, PAGE).await {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                page => page?,
            };
            let Some(last) = page.last() else { continue };
            left.push((dir, last.cookie));
            let dirs = page.iter().filter(|name| name.kind == FileKind::Directory);
            let mut dirs: BTreeSet<Ino> = dirs.map(|name| name.ino).collect();
            dirs.retain(|dir| !without.contains(dir));
            for names in page.chunks(BATCH) {
                let found: Vec<_> = names
                    .iter()
                    .map(|name| FoundAt { ino: name.ino, name: Some((dir, &name.name[..])) })
                    .collect();
                let Some(there) = self.meta.set_accounts(quotas, &found, &change).await? else {
                    return Ok(false);
                };
                // What has left since it was listed is not in here.
                left.extend(there.into_iter().filter(|ino| dirs.contains(ino)).map(|dir| (dir, 0)));
                let mut walked = self.walked.lock();
                *walked.entry(quotas[0].of).or_default() += names.len() as u64;
            }
        }
        Ok(true)
    }
}
