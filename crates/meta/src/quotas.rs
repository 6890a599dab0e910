//! Quotas: how much a tree of directories may hold, and the files of a user or a group.
//!
//! An inode says itself whose quotas it counts for ([`Account`]), and what is made in a directory counts
//! as the directory does. So no commit looks for a quota above it: it adds what it changes to counters,
//! as to those of the whole volume, and adds never wait for each other. Trees may lie in each other; an
//! inode counts for the innermost alone, and whoever looks at an outer one sums up.

use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};
use weir_types::{Account, ErrorKind, FileKind, FsError, Ino, Inode, Result, TreeId};

use crate::codec::{counter, decode, decode_seen, encode, last_key};
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
    /// Of the last number of a tree: all trees of then were read with it.
    last_tree: Option<Version>,
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
        let last_tree =
            self.get(&[keys::LAST_TREE.to_vec()]).await?.remove(0).map(|last| last.version);
        let mut after: Option<Key> = None;
        loop {
            let page = self.kv.scan(&[keys::QUOTA], after.as_deref(), PAGE).await?;
            for (key, found) in &page {
                let of = keys::parse_quota(key).ok_or_else(|| {
                    let context = "the key of a quota is no such key; run a check";
                    FsError::new(ErrorKind::Corrupt, context)
                })?;
                let (row, version) = (decode(key, &found.value)?, found.version);
                all.push(SeenQuota { of, row, version, last_tree });
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
    /// else has set one there meanwhile. From then on no build opens the volume that knows no quotas. Two read rounds and
    /// one commit. `NotDirectory` for what is none.
    pub async fn new_tree_quota(&self, root: Ino, row: &QuotaRow) -> Result<Option<TreeId>> {
        let mut tries = Tries::new("set a quota");
        loop {
            tries.next().await?;
            let last_key = keys::LAST_TREE.to_vec();
            let found = self.get(&[keys::inode(root), last_key.clone()]).await?;
            let dir = live_dir(root, found[0].as_ref())?;
            let last = decode_seen::<u32>(&last_key, found[1].as_ref())?;
            // Whoever sets one from here on changes the last number, which is checked.
            if self.quotas().await?.iter().any(|quota| quota.row.root == Some(root)) {
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

    /// Has inodes count as `change` says, if they are there, as long as nobody has set the quota for which they are to,
    /// or the first one of a directory, since it was read; `false` where somebody has. One read round and one commit.
    pub async fn set_accounts(
        &self,
        quota: &SeenQuota,
        inos: &[Ino],
        change: impl Fn(&Inode) -> Account + Send + Sync,
    ) -> Result<bool> {
        let seen = [
            (keys::quota(quota.of), Some(quota.version)),
            (keys::LAST_TREE.to_vec(), quota.last_tree),
        ];
        let mut wanted: Vec<_> = seen.iter().map(|(key, _)| key.clone()).collect();
        wanted.extend(inos.iter().map(|ino| keys::inode(*ino)));
        let mut tries = Tries::new("count for a quota");
        loop {
            tries.next().await?;
            let mut found = self.get(&wanted).await?;
            let now = found.drain(..seen.len()).map(|now| now.map(|now| now.version));
            if !now.eq(seen.iter().map(|(_, version)| *version)) {
                return Ok(false);
            }
            let mut tx = Tx::default();
            seen.iter().for_each(|(key, version)| tx.check(key.clone(), *version));
            let mut any = false;
            for (ino, row) in inos.iter().zip(&found) {
                let Some(seen) = seen_inode(*ino, row.as_ref())? else { continue };
                let account = change(&seen.value);
                if account != seen.value.account {
                    tx.check_inode(&seen);
                    tx.put_inode(&Inode { account, ..seen.value })?;
                    any = true;
                }
            }
            if !any || self.apply(tx).await? {
                return Ok(true);
            }
        }
    }

    /// Whose quotas something counts for that gets a name in `dir`, having had one in `from` or none.
    /// `CrossDevice` where it cannot move. One read where the trees are not the same.
    pub(crate) async fn account_in(
        &self,
        inode: &Inode,
        from: Option<&Inode>,
        dir: &Inode,
    ) -> Result<Account> {
        let known = from.is_some_and(|from| from.account == dir.account);
        if known || inode.account == dir.account {
            return Ok(inode.account);
        }
        match inode.kind {
            FileKind::Directory if inode.account.owners == dir.account.owners => {
                let is_top = match inode.account.tree {
                    Some(tree) => self.is_top_of(inode.ino, tree).await?,
                    None => false,
                };
                if is_top {
                    return Ok(inode.account);
                }
            }
            FileKind::Directory => {}
            _ if inode.nlink <= 1 && from.is_some() => return Ok(dir.account),
            _ => {}
        }
        let (what, why) = match inode.kind {
            FileKind::Directory => ("directory", "what is in it counts for another quota"),
            _ => ("file", "its other names count for another quota"),
        };
        let context = format!("{what} {} cannot move there: {why}; copy it", inode.ino);
        Err(FsError::new(ErrorKind::CrossDevice, context))
    }

    async fn is_top_of(&self, dir: Ino, tree: TreeId) -> Result<bool> {
        let key = keys::quota(QuotaOf::Tree(tree));
        let found = self.get(std::slice::from_ref(&key)).await?;
        let row = decode_seen::<QuotaRow>(&key, found[0].as_ref())?;
        Ok(row.is_some_and(|row| row.value.root == Some(dir)))
    }
}
