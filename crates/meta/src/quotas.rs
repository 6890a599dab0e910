//! Quotas: how much a tree of directories may hold, and the files of a user or a group.
//!
//! An inode says itself whose quotas it counts for ([`Account`]), and what is made in a directory counts
//! as the directory does. So no commit looks for a quota above it: it adds what it changes to counters,
//! as to those of the whole volume, and adds never wait for each other. Trees may lie in each other; an
//! inode counts for the innermost alone, and whoever looks at an outer one sums up.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};
use weir_types::{Account, ErrorKind, FileKind, FsError, Ino, Inode, Result, TreeId};

use crate::codec::{Dirent, Seen, counter, decode, decode_seen, encode, last_key};
use crate::kv::{Key, Version};
use crate::op::{Tries, Tx, live_dir, seen_inode};
use crate::quota_of::QuotaOf;
use crate::{Meta, keys};

/// Rows read at once.
const PAGE: usize = 1_000;

/// A quota as stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaRow {
    /// The directory at the top of the tree; of users and groups `None`.
    pub root: Option<Ino>,
    /// Bytes that records of segments may cover, if there is a limit.
    pub bytes_max: Option<u64>,
    /// Inodes that there may be, if there is a limit.
    pub files_max: Option<u64>,
    /// Not all that is to count does yet, or, of one that is to go, some still does.
    pub counting: bool,
    /// It was removed: when nothing counts for it any more the row goes.
    pub removed: bool,
}

/// A quota as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenQuota {
    /// Whose it is.
    pub of: QuotaOf,
    /// What its row said.
    pub row: QuotaRow,
    version: Version,
}

/// Where a walk has found an inode.
#[derive(Clone, Copy, Debug)]
pub struct FoundAt<'a> {
    /// The inode.
    pub ino: Ino,
    /// By which name in which directory; without, it is meant wherever it is.
    pub name: Option<(Ino, &'a [u8])>,
}

impl<'a> FoundAt<'a> {
    /// Wherever it is.
    pub fn anywhere(ino: Ino) -> Self {
        Self { ino, name: None }
    }

    /// Where it was found, if its row has another place.
    fn elsewhere(&self, inode: &Inode) -> Option<(Ino, &'a [u8])> {
        self.name.filter(|(dir, _)| inode.parent != *dir)
    }
}

/// What counts for a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaUsed {
    /// Bytes that records of segments cover.
    pub bytes: u64,
    /// Inodes, directories among them.
    pub files: u64,
}

impl Meta {
    /// All quotas. One read, and one for each 1,000; none where nobody else could have set the first one.
    pub async fn quotas(&self) -> Result<Vec<SeenQuota>> {
        let mut all = Vec::new();
        if !self.kv.is_far() && !self.has_quotas.load(Ordering::Relaxed) {
            return Ok(all);
        }
        let mut after: Option<Key> = None;
        loop {
            let page = self.kv.scan(&[keys::QUOTA], after.as_deref(), PAGE).await?;
            for (key, found) in &page {
                let of = keys::parse_quota(key).ok_or_else(|| {
                    let context = "the key of a quota is no such key; run a check";
                    FsError::new(ErrorKind::Corrupt, context)
                })?;
                let (row, version) = (decode(key, &found.value)?, found.version);
                all.push(SeenQuota { of, row, version });
            }
            if page.len() < PAGE {
                return Ok(all);
            }
            after = last_key(&page);
        }
    }

    /// What counts for each of these quotas. One read round.
    pub async fn quotas_used(&self, of: &[QuotaOf]) -> Result<Vec<QuotaUsed>> {
        let wanted: Vec<_> = of
            .iter()
            .flat_map(|of| [keys::quota_count(*of, false), keys::quota_count(*of, true)])
            .collect();
        let found = self.get(&wanted).await?;
        let count =
            |at: usize| Ok(counter(&wanted[at], found[at].as_ref())?.max(0).cast_unsigned());
        let used =
            |nth: usize| Ok(QuotaUsed { files: count(2 * nth)?, bytes: count(2 * nth + 1)? });
        (0..of.len()).map(used).collect()
    }

    /// A number for the quota of the tree below `root`, with its row, of which nothing counts yet; `None` where somebody
    /// else has set one there meanwhile. One that is removed may still be there beside it. From then on no build opens the
    /// volume that knows no quotas. Two read rounds and one commit. `NotDirectory` for what is none.
    pub async fn new_tree_quota(&self, root: Ino, row: &QuotaRow) -> Result<Option<TreeId>> {
        let mut tries = Tries::new("set a quota");
        loop {
            tries.next().await?;
            let last_key = keys::LAST_TREE.to_vec();
            let found = self.get(&[keys::inode(root), last_key.clone()]).await?;
            let dir = live_dir(root, found[0].as_ref())?;
            let last = decode_seen::<u32>(&last_key, found[1].as_ref())?;
            // Whoever sets one from here on changes the last number, which is checked.
            let is_there = |row: &QuotaRow| row.root == Some(root) && !row.removed;
            if self.quotas().await?.iter().any(|quota| is_there(&quota.row)) {
                return Ok(None);
            }
            let tree = TreeId(last.as_ref().map_or(0, |seen| seen.value) + 1);
            let mut tx = Tx::default();
            tx.check_inode(&dir);
            tx.check(last_key.clone(), last.map(|seen| seen.version));
            tx.put(last_key, encode(&tree.0)?);
            let row = QuotaRow { root: Some(root), ..row.clone() };
            tx.put(keys::quota(QuotaOf::Tree(tree)), encode(&row)?);
            tx.put(keys::FORMAT.to_vec(), encode(&crate::volume::LAYOUT_WITH_QUOTAS)?);
            if self.apply(tx).await? {
                self.has_quotas.store(true, Ordering::Relaxed);
                return Ok(Some(tree));
            }
        }
    }

    /// Sets the row of a quota, or removes it, where nobody has set it since it `was` read, or found absent; `false` where
    /// somebody has. One commit.
    pub async fn set_quota(
        &self,
        of: QuotaOf,
        was: Option<&SeenQuota>,
        row: Option<&QuotaRow>,
    ) -> Result<bool> {
        let key = keys::quota(of);
        let mut tx = Tx::default();
        tx.check(key.clone(), was.map(|was| was.version));
        match row {
            Some(row) => {
                tx.put(key, encode(row)?);
                tx.put(keys::FORMAT.to_vec(), encode(&crate::volume::LAYOUT_WITH_QUOTAS)?);
            }
            None => tx.delete(key),
        }
        let is_set = self.apply(tx).await?;
        self.has_quotas.store(true, Ordering::Relaxed);
        Ok(is_set)
    }

    /// Has inodes count as `change` says, those that are still where they were found, as long as nobody has set any of these
    /// quotas since they were read. Answers the inodes that are there and count so, `None` where somebody has. One or two
    /// read rounds and one commit.
    pub async fn set_accounts(
        &self,
        quotas: &[&SeenQuota],
        found: &[FoundAt<'_>],
        change: impl Fn(&Inode) -> Account + Send + Sync,
    ) -> Result<Option<Vec<Ino>>> {
        let mut wanted: Vec<_> = quotas.iter().map(|quota| keys::quota(quota.of)).collect();
        wanted.extend(found.iter().map(|at| keys::inode(at.ino)));
        let mut tries = Tries::new("count for a quota");
        loop {
            tries.next().await?;
            let rows = self.get(&wanted).await?;
            let (rows, inodes) = rows.split_at(quotas.len());
            let mut tx = Tx::default();
            for (quota, row) in quotas.iter().zip(rows) {
                if row.as_ref().map(|row| row.version) != Some(quota.version) {
                    return Ok(None);
                }
                tx.check(keys::quota(quota.of), Some(quota.version));
            }
            let mut seen = Vec::with_capacity(found.len());
            for (at, row) in found.iter().zip(inodes) {
                seen.extend(seen_inode(at.ino, row.as_ref())?.map(|inode| (*at, inode)));
            }
            let seen = self.still_there(seen, &mut tx).await?;
            let inos = seen.iter().map(|inode| inode.value.ino).collect();
            let mut any = false;
            for inode in seen {
                let account = change(&inode.value);
                if account != inode.value.account {
                    tx.check_inode(&inode);
                    tx.put_inode(&Inode { account, ..inode.value })?;
                    any = true;
                }
            }
            if !any || self.apply(tx).await? {
                return Ok(Some(inos));
            }
        }
    }

    /// Those that are where they were found. Whatever moves changes its row, which is checked; but of a file with several
    /// names, or that had some, its row does not tell all places.
    async fn still_there(
        &self,
        found: Vec<(FoundAt<'_>, Seen<Inode>)>,
        tx: &mut Tx,
    ) -> Result<Vec<Seen<Inode>>> {
        let names: Vec<_> = found
            .iter()
            .filter(|(_, inode)| inode.value.kind != FileKind::Directory)
            .filter_map(|(at, inode)| at.elsewhere(&inode.value))
            .map(|(dir, name)| keys::dirent(dir, name))
            .collect();
        let rows = if names.is_empty() { Vec::new() } else { self.get(&names).await? };
        let rows: HashMap<Key, _> = names.into_iter().zip(rows).collect();
        let mut there = Vec::with_capacity(found.len());
        for (at, inode) in found {
            if let Some((dir, name)) = at.elsewhere(&inode.value) {
                // Of a directory none was looked for: it has one place.
                let key = keys::dirent(dir, name);
                let row = rows.get(&key).and_then(Option::as_ref);
                let entry = decode_seen::<Dirent>(&key, row)?;
                let Some(entry) = entry.filter(|entry| entry.value.ino == at.ino) else { continue };
                tx.check(key, Some(entry.version));
            }
            there.push(inode);
        }
        Ok(there)
    }

    /// Whose quotas something counts for that gets a name in `dir`, having had one elsewhere if `is_moved`.
    /// `CrossDevice` where it cannot be there. One read where it does not count as the directory does.
    pub(crate) async fn account_in(
        &self,
        inode: &Inode,
        is_moved: bool,
        dir: &Inode,
    ) -> Result<Account> {
        if inode.account == dir.account {
            return Ok(inode.account);
        }
        let (what, why) = match inode.kind {
            FileKind::Directory => {
                let is_top = match inode.account.tree {
                    Some(tree) if inode.account.owners == dir.account.owners => {
                        self.is_top_of(inode.ino, tree).await?
                    }
                    _ => false,
                };
                if is_top {
                    return Ok(inode.account);
                }
                // Also where it stays in its tree, and is not counted yet: who counts might miss it.
                ("directory", "what is in it counts for another quota, or is still to be counted")
            }
            _ if is_moved && inode.nlink <= 1 => return Ok(dir.account),
            _ => {
                // Not counted yet, where its directory is.
                let parent = self.get(&[keys::inode(inode.parent)]).await?;
                let parent = seen_inode(inode.parent, parent[0].as_ref())?;
                if parent.is_some_and(|parent| parent.value.account == dir.account) {
                    return Ok(dir.account);
                }
                ("file", "its other names count for another quota")
            }
        };
        let context = format!("{what} {} cannot move there: {why}; copy it", inode.ino);
        Err(FsError::new(ErrorKind::CrossDevice, context))
    }

    async fn is_top_of(&self, dir: Ino, tree: TreeId) -> Result<bool> {
        let key = keys::quota(QuotaOf::Tree(tree));
        let found = self.get(std::slice::from_ref(&key)).await?;
        let row = decode_seen::<QuotaRow>(&key, found[0].as_ref())?;
        Ok(row.is_some_and(|row| row.value.root == Some(dir) && !row.value.removed))
    }
}
