//! What a commit changes of what counts for quotas.

use std::collections::BTreeMap;

use weir_types::{Account, Ino, Inode};

use crate::keys;
use crate::kv::Key;
use crate::quota_of::QuotaOf;

/// What a commit changes of whom quotas count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted(BTreeMap<Ino, (Option<One>, Option<One>)>);

/// What an inode counts.
#[derive(Clone, Copy, Debug)]
struct One {
    account: Account,
    owners: [QuotaOf; 2],
    bytes: u64,
}

impl One {
    fn of(inode: &Inode) -> Option<Self> {
        let owners = [QuotaOf::User(inode.uid), QuotaOf::Group(inode.gid)];
        let one = Self { account: inode.account, owners, bytes: inode.stored_bytes };
        (inode.account != Account::default()).then_some(one)
    }

    fn quotas(&self) -> impl Iterator<Item = QuotaOf> {
        let owners = self.owners.into_iter().filter(|_| self.account.owners);
        self.account.tree.map(QuotaOf::Tree).into_iter().chain(owners)
    }
}

impl Counted {
    /// What the inode is; called first for each that there is already.
    pub(crate) fn before(&mut self, inode: &Inode) {
        if let Some(one) = One::of(inode) {
            self.0.entry(inode.ino).or_insert((Some(one), Some(one)));
        }
    }

    /// What the inode becomes.
    pub(crate) fn after(&mut self, inode: &Inode) {
        match (One::of(inode), self.0.get_mut(&inode.ino)) {
            (after, Some(known)) => known.1 = after,
            (Some(after), None) => _ = self.0.insert(inode.ino, (None, Some(after))),
            (None, None) => {}
        }
    }

    /// The inode goes.
    pub(crate) fn gone(&mut self, ino: Ino) {
        if let Some(known) = self.0.get_mut(&ino) {
            known.1 = None;
        }
    }

    /// What is to be added to which counters.
    pub(crate) fn into_adds(self) -> impl Iterator<Item = (Key, i64)> {
        let signed = |(before, after): (Option<One>, Option<One>)| {
            [before.map(|one| (one, -1)), after.map(|one| (one, 1))].into_iter().flatten()
        };
        self.0.into_values().flat_map(signed).flat_map(|(one, sign)| {
            let bytes = sign * one.bytes.cast_signed();
            let adds = move |of| {
                [(keys::quota_count(of, false), sign), (keys::quota_count(of, true), bytes)]
            };
            one.quotas().flat_map(adds).collect::<Vec<_>>()
        })
    }
}
