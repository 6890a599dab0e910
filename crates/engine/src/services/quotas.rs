//! Setting quotas, and having everything count for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use weir_meta::{Meta, QuotaOf, QuotaRow, QuotaUsed, SeenQuota, path_of};
use weir_types::{ErrorKind, FsError, Ino, Result};

use crate::data::quotas::{Quotas, Whose};
use crate::volume::context::Context;
use crate::volume::locks::{self, Place};

mod walk;

/// Rest after a walk that failed.
const REST: Duration = Duration::from_secs(1);
/// How often a node that shares the volume looks whether others set quotas.
const OTHERS: Duration = Duration::from_secs(5);

/// Looks in a row at which something is still to be counted before the node on duty counts it, too: whoever began may be
/// gone. Where it is not, both walk, and one commits nothing.
const LOOKS_UNTIL_LEFT: u32 = 3;

/// Whose quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuotaSubject {
    /// That of the directory with this inode number, and all below it.
    Directory(u64),
    /// That of all files of a user, by number.
    User(u32),
    /// That of all files of a group, by number.
    Group(u32),
}

/// What to change of a quota. What is `None` stays as it is; of a new quota it is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaChange {
    /// Bytes that there may be; 0 for no limit.
    #[serde(default)]
    pub bytes_max: Option<u64>,
    /// Files that there may be, directories among them; 0 for no limit.
    #[serde(default)]
    pub files_max: Option<u64>,
}

/// A quota as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaView {
    /// Whose it is.
    pub subject: QuotaSubject,
    /// The directory, below the volume's root; `None` of users and groups.
    pub path: Option<String>,
    /// Bytes that there may be; `None` without a limit.
    pub bytes_max: Option<u64>,
    /// Bytes that there are: in the bucket's segments, and dirty here.
    pub bytes_used: u64,
    /// Files that there may be; `None` without a limit.
    pub files_max: Option<u64>,
    /// Files that there are, directories among them.
    pub files_used: u64,
    /// Not all that is there counts yet: so many files were gone through. `None` once all does.
    pub counting: Option<u64>,
    /// It was removed, and goes when nothing counts for it any more.
    pub removed: bool,
}

/// Sets quotas.
pub(crate) struct QuotaKeeper {
    context: Arc<Context>,
    meta: Arc<Meta>,
    quotas: Arc<Quotas>,
    /// Files that walks went through.
    walked: Mutex<BTreeMap<QuotaOf, u64>>,
    wanted: Notify,
    /// Held while one is set or removed.
    setting: locks::Mutex,
}

impl QuotaKeeper {
    pub(crate) fn new(context: Arc<Context>, meta: Arc<Meta>, quotas: Arc<Quotas>) -> Self {
        let walked = Mutex::default();
        let (wanted, setting) = (Notify::new(), locks::Mutex::new(Place::QuotaSetting, 0, ()));
        Self { context, meta, quotas, walked, wanted, setting }
    }

    /// All quotas as they stand.
    pub(crate) async fn list(&self) -> Result<Vec<QuotaView>> {
        let mut all = Vec::new();
        let quotas = self.quotas.all().await?;
        let live = quotas.values().filter(|quota| !quota.row.removed);
        let tops: BTreeSet<Ino> = live.filter_map(|quota| quota.row.root).collect();
        for (of, quota) in &quotas {
            if quota.row.removed && quota.row.root.is_some_and(|root| tops.contains(&root)) {
                // One was set there again.
                continue;
            }
            let view = self.view(*of, &quota.row, quota.used).await?;
            if view.path.is_none() && quota.row.root.is_some() {
                // Its directory was removed.
                self.wanted.notify_one();
                continue;
            }
            all.push(view);
        }
        Ok(all)
    }

    /// Those that something counts for that lies in this directory, or is this file: of trees from the
    /// inside out.
    pub(crate) async fn over(&self, ino: Ino) -> Result<Vec<QuotaView>> {
        let whose = Whose::of(&self.meta.inode(ino).await?);
        let mut all = Vec::new();
        for (of, quota) in self.quotas.over(whose).await? {
            all.push(self.view(of, &quota.row, quota.used).await?);
        }
        Ok(all)
    }

    async fn view(&self, of: QuotaOf, row: &QuotaRow, used: QuotaUsed) -> Result<QuotaView> {
        let path = match row.root {
            Some(root) => path_of(&**self.meta.kv(), root).await?,
            None => None,
        };
        let shown = |path: Vec<u8>| match &path[..] {
            b"." => "/".to_owned(),
            path => format!("/{}", String::from_utf8_lossy(path)),
        };
        let walked = self.walked.lock().get(&of).copied();
        Ok(QuotaView {
            subject: match of {
                QuotaOf::Tree(_) => QuotaSubject::Directory(row.root.unwrap_or(Ino::ROOT).0),
                QuotaOf::User(uid) => QuotaSubject::User(uid),
                QuotaOf::Group(gid) => QuotaSubject::Group(gid),
            },
            path: path.map(shown),
            bytes_max: row.bytes_max,
            bytes_used: used.bytes,
            files_max: row.files_max,
            files_used: used.files,
            counting: row.counting.then(|| walked.unwrap_or(0)),
            removed: row.removed,
        })
    }

    /// Sets a quota, or changes it. Holds at once for what counts; all that is there already is counted
    /// in the background. `NotDirectory` for a file.
    pub(crate) async fn set(
        &self,
        subject: QuotaSubject,
        change: QuotaChange,
    ) -> Result<QuotaView> {
        self.context.check_writable()?;
        let _setting = self.setting.lock().await;
        let of = loop {
            if let Some(of) = self.try_to_set(subject, change).await? {
                break of;
            }
        };
        self.changed().await?;
        self.view_of(of).await
    }

    /// `None` where another node has set or removed it meanwhile.
    async fn try_to_set(
        &self,
        subject: QuotaSubject,
        change: QuotaChange,
    ) -> Result<Option<QuotaOf>> {
        let rows = self.meta.quotas().await?;
        // A tree that is removed goes, whatever is set now.
        let goes = |quota: &SeenQuota| quota.row.root.is_some() && quota.row.removed;
        let found = rows.iter().find(|quota| is_of(subject, quota) && !goes(quota));
        let max = |new: Option<u64>, old: Option<u64>| match new {
            None => old,
            Some(0) => None,
            Some(max) => Some(max),
        };
        let old = found.map(|quota| &quota.row);
        // Where owners count for one quota already they do for each.
        let is_owner = |of: &QuotaOf| !matches!(of, QuotaOf::Tree(_));
        let all_count = !matches!(subject, QuotaSubject::Directory(_))
            && rows.iter().any(|quota| is_owner(&quota.of) && !quota.row.counting);
        let row = QuotaRow {
            root: old.and_then(|old| old.root),
            bytes_max: max(change.bytes_max, old.and_then(|old| old.bytes_max)),
            files_max: max(change.files_max, old.and_then(|old| old.files_max)),
            counting: old.map_or(!all_count, |old| old.counting || old.removed),
            removed: false,
        };
        let of = match (found, subject) {
            (Some(found), _) => found.of,
            (None, QuotaSubject::Directory(root)) => {
                let tree = self.meta.new_tree_quota(Ino(root), &row).await?;
                return Ok(tree.map(QuotaOf::Tree));
            }
            (None, QuotaSubject::User(uid)) => QuotaOf::User(uid),
            (None, QuotaSubject::Group(gid)) => QuotaOf::Group(gid),
        };
        Ok(self.meta.set_quota(of, found, Some(&row)).await?.then_some(of))
    }

    /// Removes a quota: from now on nothing is refused for it. `NotFound` if there is none.
    pub(crate) async fn remove(&self, subject: QuotaSubject) -> Result<QuotaView> {
        self.context.check_writable()?;
        let _setting = self.setting.lock().await;
        let (of, removed) = loop {
            let rows = self.meta.quotas().await?;
            let found = rows.iter().find(|quota| is_of(subject, quota) && !quota.row.removed);
            let Some(quota) = found else {
                let text = "there is no such quota: `weir quota list` shows those that there are";
                return Err(FsError::new(ErrorKind::NotFound, text));
            };
            let removed = QuotaRow {
                bytes_max: None,
                files_max: None,
                counting: true,
                removed: true,
                root: quota.row.root,
            };
            if self.meta.set_quota(quota.of, Some(quota), Some(&removed)).await? {
                break (quota.of, removed);
            }
        };
        self.changed().await?;
        match self.quotas.all().await?.get(&of) {
            Some(quota) => self.view(of, &quota.row, quota.used).await,
            // Little counted for it: it is gone already.
            None => {
                let row = QuotaRow { counting: false, ..removed };
                self.view(of, &row, QuotaUsed::default()).await
            }
        }
    }

    async fn changed(&self) -> Result<()> {
        self.meta.sync().await?;
        self.quotas.changed();
        self.wanted.notify_one();
        Ok(())
    }

    async fn view_of(&self, of: QuotaOf) -> Result<QuotaView> {
        let all = self.quotas.all().await?;
        match all.get(&of) {
            Some(quota) => self.view(of, &quota.row, quota.used).await,
            None => Err(FsError::new(ErrorKind::Conflict, "the quota was removed meanwhile")),
        }
    }

    fn is_on_duty(&self) -> bool {
        self.context.together.as_ref().is_some_and(|together| together.is_on_duty())
    }

    /// Quotas of directories that are no more go.
    async fn forget_removed(&self) -> Result<()> {
        let rows = self.meta.quotas().await?;
        let trees: Vec<_> = rows.iter().filter(|quota| quota.row.root.is_some()).collect();
        let inos: Vec<Ino> = trees.iter().filter_map(|quota| quota.row.root).collect();
        for (quota, top) in trees.into_iter().zip(self.meta.inodes(&inos).await?) {
            if top.is_none() {
                self.meta.set_quota(quota.of, Some(quota), None).await?;
            }
        }
        Ok(())
    }

    /// Has all count that does not yet.
    async fn count_all(&self) -> Result<()> {
        self.forget_removed().await?;
        loop {
            let rows = self.meta.quotas().await?;
            let Some(quota) = rows.iter().find(|quota| quota.row.counting) else { return Ok(()) };
            self.walked.lock().insert(quota.of, 0);
            let is_done = match (quota.of, quota.row.root) {
                (QuotaOf::Tree(tree), Some(root)) if quota.row.removed => {
                    self.leave_tree(quota, &rows, tree, root).await?
                }
                (QuotaOf::Tree(tree), Some(root)) => {
                    self.count_tree(quota, &rows, tree, root).await?
                }
                _ if quota.row.removed => true,
                _ => self.count_owners(quota).await?,
            };
            if is_done {
                self.counted(quota).await?;
            }
        }
    }

    /// All that the walk was for counts, or no longer does if the quota was removed. Where somebody has set it
    /// meanwhile, another walk is due.
    async fn counted(&self, quota: &SeenQuota) -> Result<()> {
        let row = &quota.row;
        let now = (!row.removed).then(|| QuotaRow { counting: false, ..row.clone() });
        if self.meta.set_quota(quota.of, Some(quota), now.as_ref()).await? {
            self.walked.lock().remove(&quota.of);
            self.quotas.changed();
        }
        Ok(())
    }
}

fn is_of(subject: QuotaSubject, quota: &SeenQuota) -> bool {
    match (subject, quota.of) {
        (QuotaSubject::Directory(ino), QuotaOf::Tree(_)) => quota.row.root == Some(Ino(ino)),
        (QuotaSubject::User(one), QuotaOf::User(other)) => one == other,
        (QuotaSubject::Group(one), QuotaOf::Group(other)) => one == other,
        _ => false,
    }
}

/// Has all count that is to, at the mount and whenever a quota is set; and where nodes share the volume
/// looks what others set.
pub(crate) async fn quotas_loop(keeper: Arc<QuotaKeeper>) {
    let writable = !keeper.context.read_only;
    keeper.wanted.notify_one();
    let mut looks = 0;
    loop {
        let shared = keeper.context.is_shared();
        let woken = match shared {
            true => tokio::time::timeout(OTHERS, keeper.wanted.notified()).await.is_ok(),
            false => {
                keeper.wanted.notified().await;
                true
            }
        };
        let mut done = keeper.quotas.look().await;
        looks = if keeper.quotas.are_counted() { 0 } else { looks + 1 };
        let is_left = looks >= LOOKS_UNTIL_LEFT && keeper.is_on_duty();
        if (woken || is_left) && writable && done.is_ok() {
            done = keeper.count_all().await;
            looks = 0;
        }
        if let Err(error) = done {
            tracing::warn!(%error, "quotas could not be counted: tried again");
            tokio::time::sleep(REST).await;
            keeper.wanted.notify_one();
        }
    }
}
