//! Inodes by number, and their attributes.

use weir_types::{ErrorKind, FileKind, Ino, Inode, Result, UnixTime};

use crate::acl::{self, ACL_ACCESS};
use crate::codec::{merge_times, version};
use crate::kv::Versioned;
use crate::op::{Tries, Tx, no_inode, seen_inode};
use crate::{Meta, keys};

/// Attributes to set; `None` leaves one as it is. `ctime` becomes now unless it is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits with set-uid, set-gid and sticky.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Last access.
    pub atime: Option<UnixTime>,
    /// Last change of the data.
    pub mtime: Option<UnixTime>,
    /// Last change of the inode.
    pub ctime: Option<UnixTime>,
    /// Clears set-uid, and set-gid if the group may execute, as a change of owner or a write by
    /// somebody unprivileged must. Not for directories. Applied after `mode`.
    pub clear_privileges: bool,
    /// Clears set-gid whether or not the group may execute, as the same must for somebody who is not
    /// in the group of what it is. Applied after `mode`.
    pub clear_set_gid: bool,
}

/// When an inode was read last, over the time that it had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtimeChange {
    /// The inode.
    pub ino: Ino,
    /// The time that the metadata has: where it is another one, that stays.
    pub before: UnixTime,
    /// The time that it is to have.
    pub after: UnixTime,
}

impl Meta {
    /// One inode; `NotFound` once it is purged. One read round; two for a directory where the metadata is
    /// near, which spares a search for the times that a file has not.
    pub async fn inode(&self, ino: Ino) -> Result<Inode> {
        if ino == Ino::SNAPSHOTS {
            return self.snapshots_dir().await;
        }
        match self.past(ino).await? {
            Some(past) => Ok(past.told(past.view.inode_here(past.ino).await?)),
            None => self.inode_here(ino).await,
        }
    }

    pub(crate) async fn inode_here(&self, ino: Ino) -> Result<Inode> {
        self.looked_at(&[ino]);
        if self.kv.is_far() {
            return self.inodes_here(&[ino]).await?.pop().flatten().ok_or_else(|| no_inode(ino));
        }
        let mut inode = self.stored_inode(ino).await?.value;
        if inode.kind == FileKind::Directory {
            let times = self.get(&[keys::dir_times(ino)]).await?;
            merge_times(&mut inode, times[0].as_ref())?;
        }
        Ok(inode)
    }

    /// Several inodes in one read round, in their order; `None` for those that are not there. Those of
    /// snapshots are read one by one.
    pub async fn inodes(&self, inos: &[Ino]) -> Result<Vec<Option<Inode>>> {
        let mut found = self.inodes_here(inos).await?;
        for (ino, found) in inos.iter().zip(&mut found).filter(|(ino, _)| ino.is_past()) {
            *found = match self.inode(*ino).await {
                Ok(inode) => Some(inode),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
        }
        Ok(found)
    }

    async fn inodes_here(&self, inos: &[Ino]) -> Result<Vec<Option<Inode>>> {
        let wanted: Vec<_> =
            inos.iter().flat_map(|ino| [keys::inode(*ino), keys::dir_times(*ino)]).collect();
        let found = self.get(&wanted).await?;
        let merged = |(ino, pair): (&Ino, &[Option<Versioned>])| {
            let Some(seen) = seen_inode(*ino, pair[0].as_ref())? else {
                return Ok(None);
            };
            let mut inode = seen.value;
            merge_times(&mut inode, pair[1].as_ref())?;
            Ok(Some(inode))
        };
        inos.iter().zip(found.chunks(2)).map(merged).collect()
    }

    /// The directory that holds this directory; the root holds itself. One read round.
    pub async fn parent(&self, dir: Ino) -> Result<Ino> {
        if dir.is_past() {
            return Ok(self.inode(dir).await?.parent);
        }
        let found = self.get(&[keys::inode(dir)]).await?;
        let seen = seen_inode(dir, found[0].as_ref())?.ok_or_else(|| no_inode(dir))?;
        Ok(seen.value.parent)
    }

    /// Sets the times of reads, and nothing else: no ctime, and no export. Inodes that are gone are
    /// passed over. One read round and one commit.
    pub async fn set_atimes(&self, changes: &[AtimeChange]) -> Result<()> {
        let keys: Vec<_> = changes.iter().map(|change| keys::inode(change.ino)).collect();
        let mut tries = Tries::new("set times of reads");
        loop {
            tries.next().await?;
            let found = self.get(&keys).await?;
            let mut tx = Tx::default();
            for (change, row) in changes.iter().zip(&found) {
                let seen = seen_inode(change.ino, row.as_ref())?;
                let Some(seen) = seen.filter(|seen| seen.value.atime == change.before) else {
                    continue;
                };
                tx.check_inode(&seen);
                tx.put_inode(&Inode { atime: change.after, ..seen.value })?;
            }
            if self.apply(tx).await? {
                return Ok(());
            }
        }
    }

    /// Sets attributes and returns the inode after. One read round and one commit.
    pub async fn setattr(&self, ino: Ino, set: SetAttr) -> Result<Inode> {
        let times_key = keys::dir_times(ino);
        let mut tries = Tries::new("setattr");
        loop {
            tries.next().await?;
            let mut wanted = vec![keys::inode(ino), times_key.clone()];
            if set.mode.is_some() {
                wanted.push(keys::xattr(ino, ACL_ACCESS));
            }
            let found = self.get(&wanted).await?;
            let seen = seen_inode(ino, found[0].as_ref())?.ok_or_else(|| no_inode(ino))?;
            let mut tx = Tx::default();
            tx.check_inode(&seen);
            let mut inode = seen.value;
            let sets_times = set.mtime.is_some() || set.ctime.is_some();
            if sets_times && inode.kind == FileKind::Directory {
                // What the entries' times said goes into the inode, so that what is set now stands
                // above it; later changes of entries put the row anew.
                merge_times(&mut inode, found[1].as_ref())?;
                tx.check(times_key.clone(), version(found[1].as_ref()));
                tx.delete(times_key.clone());
            }
            set.apply(&mut inode, self.now());
            if let Some(list) = found.get(2).and_then(Option::as_ref) {
                acl::change_mode(&mut tx, ino, &list.value, inode.mode)?;
            }
            tx.put_inode(&inode)?;
            if self.apply(tx).await? {
                if !sets_times {
                    merge_times(&mut inode, found[1].as_ref())?;
                }
                return Ok(inode);
            }
        }
    }
}

impl SetAttr {
    fn apply(&self, inode: &mut Inode, now: UnixTime) {
        inode.mode = self.mode.map_or(inode.mode, |mode| mode & 0o7777);
        inode.uid = self.uid.unwrap_or(inode.uid);
        inode.gid = self.gid.unwrap_or(inode.gid);
        inode.atime = self.atime.unwrap_or(inode.atime);
        inode.mtime = self.mtime.unwrap_or(inode.mtime);
        inode.ctime = self.ctime.unwrap_or(now);
        if self.clear_privileges && inode.kind != FileKind::Directory {
            let group_runs = inode.mode & 0o010 != 0;
            inode.mode &= if group_runs { !0o6000 } else { !0o4000 };
        }
        if self.clear_set_gid {
            inode.mode &= !0o2000;
        }
    }
}
