//! Names: looking them up, making and removing them.

use bytes::Bytes;
use weir_types::{ErrorKind, FileKind, FsError, Ino, Inode, Result};

use crate::acl::{self, ACL_DEFAULT};
use crate::codec::{Dirent, Seen, decode_seen, merge_times, time_after, version};
use crate::kv::{Followed, Key, Versioned};
use crate::native::in_link;
use crate::op::{Tries, Tx, at_name, check_name, live_dir, no_inode, seen_inode};
use crate::orphans::WHOLE;
use crate::{LINKS_MAX, Meta, TARGET_BYTES_MAX, keys};

const SET_GID: u32 = 0o2000;

/// What a new inode is to be.
#[derive(Clone, Debug)]
pub struct NewInode {
    /// What kind of thing.
    pub kind: FileKind,
    /// Permission bits with set-uid, set-gid and sticky; the umask is applied unless it is given.
    pub mode: u32,
    /// What the mode is not to have where the directory has no default access control list. With
    /// `None` that list is not looked at.
    pub umask: Option<u32>,
    /// Owner.
    pub uid: u32,
    /// Group, unless the parent directory is set-gid and hands down its own.
    pub gid: u32,
    /// Device number, for device nodes; else 0.
    pub rdev: u32,
    /// A symlink's target, for symlinks only.
    pub target: Option<Vec<u8>>,
}

impl Meta {
    /// The inode that `name` in `parent` leads to; `NotFound` also where `parent` is no directory.
    /// One read round where the metadata is far, else two.
    pub async fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Inode> {
        check_name(name)?;
        if parent == Ino::SNAPSHOTS {
            return self.snapshot_root(&String::from_utf8_lossy(name)).await;
        }
        match self.past(parent).await? {
            Some(past) => Ok(past.told(past.view.lookup_here(past.ino, name).await?)),
            None => self.lookup_here(parent, name).await,
        }
    }

    async fn lookup_here(&self, parent: Ino, name: &[u8]) -> Result<Inode> {
        let key = keys::dirent(parent, name);
        // Before something is made somebody looks if it is there.
        self.expect_new(parent, &key);
        let mut tries = Tries::new("lookup");
        loop {
            tries.next().await?;
            let found = match self.kv.is_far() {
                true => self.followed(parent, name, &key).await?,
                false => self.inode_of(self.entry(parent, name, &key).await?.value).await?,
            };
            // A missing inode means that the name went between the two reads: look again.
            if let Some(inode) = found {
                return Ok(inode);
            }
        }
    }

    /// The same in one round: times are asked for whatever it is.
    async fn followed(&self, dir: Ino, name: &[u8], key: &Key) -> Result<Option<Inode>> {
        let found = self.follow(key, &[keys::INODE, keys::DIR_TIMES]).await?;
        self.looked_at(&[dir]);
        let entry = entry_of(dir, name, key, found.from.as_ref())?.value;
        self.looked_at(&[entry.ino]);
        let Some(Seen { value: mut inode, .. }) = seen_inode(entry.ino, found.to[0].as_ref())?
        else {
            return Ok(None);
        };
        merge_times(&mut inode, found.to[1].as_ref())?;
        Ok(Some(inode))
    }

    /// The inode that an entry leads to, with a read of times only where it has some.
    async fn inode_of(&self, entry: Dirent) -> Result<Option<Inode>> {
        let mut wanted = vec![keys::inode(entry.ino)];
        if entry.kind == FileKind::Directory {
            wanted.push(keys::dir_times(entry.ino));
        }
        let found = self.get(&wanted).await?;
        let Some(seen) = seen_inode(entry.ino, found[0].as_ref())? else {
            return Ok(None);
        };
        let mut inode = seen.value;
        merge_times(&mut inode, found.get(1).and_then(Option::as_ref))?;
        Ok(Some(inode))
    }

    async fn entry(&self, dir: Ino, name: &[u8], key: &Key) -> Result<Seen<Dirent>> {
        let found = self.get(std::slice::from_ref(key)).await?;
        entry_of(dir, name, key, found[0].as_ref())
    }

    /// Makes a file, directory, symlink or node. One read round and one commit.
    ///
    /// The check on the parent's inode is what keeps an entry out of a directory that is being
    /// removed; making files does not change that inode, so many may be made at once.
    pub async fn create(&self, parent: Ino, name: &[u8], new: NewInode) -> Result<Inode> {
        check_name(name)?;
        check_target(&new)?;
        let key = keys::dirent(parent, name);
        self.expect_new(parent, &key);
        let mut reserved = None;
        let mut tries = Tries::new("create");
        loop {
            tries.next().await?;
            let mut wanted = vec![keys::inode(parent), key.clone()];
            if new.umask.is_some() && new.kind != FileKind::Symlink {
                wanted.push(keys::xattr(parent, ACL_DEFAULT));
            }
            let (found, [times]) = self.get_with_times(wanted, [parent]).await?;
            let mut dir = live_dir(parent, found[0].as_ref())?;
            if found[1].is_some() {
                return Err(taken(parent, name));
            }
            let ino = match reserved {
                Some(ino) => ino,
                None => *reserved.insert(self.next_ino().await?),
            };
            let mut inode = self.new_inode(ino, &dir.value, &new);
            inode.native = in_link(&dir.value, &inode, name);
            let mut tx = Tx::default();
            match found.get(2).and_then(Option::as_ref) {
                Some(default) => {
                    acl::inherit(&mut tx, &mut inode, &default.value)?;
                    self.fresh.attribute_comes(ino);
                }
                None => inode.mode &= !(new.umask.unwrap_or(0) & 0o777),
            }
            tx.export_name(&dir.value, name, &inode)?;
            tx.check_inode(&dir);
            tx.check(key.clone(), None);
            tx.put_born_inode(&inode)?;
            tx.put_dirent(key.clone(), ino, inode.kind)?;
            tx.touch_dir(parent, 1, time_after(parent, inode.btime, times.as_ref())?)?;
            tx.add(keys::INODES.to_vec(), 1);
            if inode.kind == FileKind::Directory {
                dir.value.nlink += 1;
                tx.put_inode(&dir.value)?;
            }
            tx.keep_receipt();
            if self.apply(tx).await? {
                return Ok(inode);
            }
        }
    }

    pub(crate) fn new_inode(&self, ino: Ino, dir: &Inode, new: &NewInode) -> Inode {
        let inherits = dir.mode & SET_GID != 0;
        let is_dir = new.kind == FileKind::Directory;
        let handed_down = if inherits && is_dir { SET_GID } else { 0 };
        Inode {
            mode: (new.mode & 0o7777) | handed_down,
            uid: new.uid,
            gid: if inherits { dir.gid } else { new.gid },
            nlink: if is_dir { 2 } else { 1 },
            size: new.target.as_ref().map_or(0, |target| target.len() as u64),
            rdev: new.rdev,
            target: new.target.clone(),
            account: dir.account,
            ..Inode::new(ino, new.kind, dir.ino, self.now())
        }
    }

    /// Gives `ino` one more name; `Permission` for directories, `NotFound` for an orphan. One read
    /// round and one commit.
    pub async fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Inode> {
        check_name(name)?;
        let key = keys::dirent(parent, name);
        let mut tries = Tries::new("link");
        loop {
            tries.next().await?;
            let wanted = vec![keys::inode(ino), keys::inode(parent), key.clone()];
            let (found, [times]) = self.get_with_times(wanted, [parent]).await?;
            let dir = live_dir(parent, found[1].as_ref())?;
            let seen = seen_inode(ino, found[0].as_ref())?.ok_or_else(|| no_inode(ino))?;
            check_linkable(&seen.value)?;
            if found[2].is_some() {
                return Err(taken(parent, name));
            }
            let mut tx = Tx::default();
            tx.check_inode(&dir);
            tx.check_inode(&seen);
            tx.check(key.clone(), None);
            let mut inode = seen.value;
            inode.account = self.account_in(&inode, false, &dir.value).await?;
            inode.nlink += 1;
            inode.ctime = self.now();
            tx.export_name(&dir.value, name, &inode)?;
            tx.put_inode(&inode)?;
            tx.put_dirent(key.clone(), ino, inode.kind)?;
            tx.touch_dir(parent, 1, time_after(parent, inode.ctime, times.as_ref())?)?;
            tx.keep_receipt();
            if self.apply(tx).await? {
                return Ok(inode);
            }
        }
    }

    /// Removes a name of something that is no directory; returns the inode after. With no name
    /// left (`nlink` 0) it is an orphan: readable by number until [`Meta::purge`]. One read round
    /// where the metadata is far, else two (one more for what is an object of a link), and one commit.
    pub async fn unlink(&self, parent: Ino, name: &[u8]) -> Result<Inode> {
        check_name(name)?;
        let key = keys::dirent(parent, name);
        let mut tries = Tries::new("unlink");
        loop {
            tries.next().await?;
            let (found, [times, dir]) = self.followed_with_dir(parent, &key).await?;
            let entry = entry_of(parent, name, &key, found.from.as_ref())?;
            if entry.value.kind == FileKind::Directory {
                return Err(at_name(ErrorKind::IsDirectory, parent, name, "is a directory"));
            }
            let Some(seen) = seen_inode(entry.value.ino, found.to[0].as_ref())? else {
                continue;
            };
            let mut tx = Tx::default();
            tx.check(key.clone(), Some(entry.version));
            tx.check_inode(&seen);
            if dir.is_some() {
                tx.check_inode(&live_dir(parent, dir.as_ref())?);
            }
            let is_object = seen.value.native.is_some();
            let inode = self.without_a_name(seen.value, &mut tx)?;
            tx.delete(key.clone());
            tx.touch_dir(parent, -1, time_after(parent, inode.ctime, times.as_ref())?)?;
            if is_object {
                let found = self.get(&[keys::inode(parent)]).await?;
                let dir = seen_inode(parent, found[0].as_ref())?;
                dir.iter().for_each(|dir| tx.export_lost_name(&dir.value, name, &inode));
            }
            tx.keep_receipt();
            if self.apply(tx).await? {
                return Ok(inode);
            }
        }
    }

    /// What an entry leads to, and when those of its directory changed, as
    /// [`Meta::get_with_times`] tells it, and the directory, whose lease may have to be asked for: all at
    /// once.
    async fn followed_with_dir(
        &self,
        dir: Ino,
        key: &Key,
    ) -> Result<(Followed, [Option<Versioned>; 2])> {
        let followed = self.follow(key, &[keys::INODE]);
        if !self.kv.is_far() {
            return Ok((followed.await?, [None, None]));
        }
        let wanted = [keys::dir_times(dir), keys::inode(dir)];
        let (found, mut row) = futures::try_join!(followed, self.get(&wanted))?;
        let inode = row.pop().flatten();
        Ok((found, [row.pop().flatten(), inode]))
    }

    /// Takes one name from what is no directory, or the only one from a directory.
    pub(crate) fn without_a_name(&self, mut inode: Inode, tx: &mut Tx) -> Result<Inode> {
        inode.nlink = match inode.kind {
            FileKind::Directory => 0,
            _ => inode.nlink.saturating_sub(1),
        };
        inode.ctime = self.now();
        tx.put_inode(&inode)?;
        if inode.nlink == 0 {
            tx.put(keys::orphan(inode.ino), Bytes::from_static(WHOLE));
            tx.object_without_file(&inode)?;
        } else {
            tx.export_other_name(&inode);
        }
        Ok(inode)
    }

    /// Removes an empty directory; it becomes an orphan, to be purged. Three read rounds and one
    /// commit.
    pub async fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<Inode> {
        check_name(name)?;
        let key = keys::dirent(parent, name);
        let mut tries = Tries::new("rmdir");
        loop {
            tries.next().await?;
            let wanted = vec![keys::inode(parent), key.clone()];
            let (found, [times]) = self.get_with_times(wanted, [parent]).await?;
            let entry: Seen<Dirent> =
                decode_seen(&key, found[1].as_ref())?.ok_or_else(|| no_name(parent, name))?;
            if entry.value.kind != FileKind::Directory {
                return Err(at_name(ErrorKind::NotDirectory, parent, name, "is no directory"));
            }
            let mut dir = live_dir(parent, found[0].as_ref())?;
            let mut tx = Tx::default();
            let Some(child) = self.empty_dir(entry.value.ino, &mut tx).await? else {
                continue;
            };
            tx.check(key.clone(), Some(entry.version));
            tx.check_inode(&dir);
            let inode = self.without_a_name(child.value, &mut tx)?;
            tx.delete(key.clone());
            dir.value.nlink = dir.value.nlink.saturating_sub(1);
            tx.put_inode(&dir.value)?;
            tx.touch_dir(parent, -1, time_after(parent, inode.ctime, times.as_ref())?)?;
            tx.keep_receipt();
            if self.apply(tx).await? {
                return Ok(inode);
            }
        }
    }

    /// The directory `ino`, if it is empty, with checks that it stays so; `NotEmpty` if it is not,
    /// `None` if it is gone.
    ///
    /// Why no child can slip in: whoever adds an entry adds to the directory's counter, which
    /// changes the counter's version, and checks the directory's inode. The counter is read before
    /// the entries are looked for. An entry added before the reading of the counter is seen; one
    /// added later, but before our commit, changes the version that our commit checks; one that
    /// comes after our commit finds that the inode has changed, is redone, and sees the directory
    /// removed.
    pub(crate) async fn empty_dir(&self, ino: Ino, tx: &mut Tx) -> Result<Option<Seen<Inode>>> {
        let count_key = keys::dir_count(ino);
        let found = self.get(&[keys::inode(ino), count_key.clone()]).await?;
        let Some(seen) = seen_inode(ino, found[0].as_ref())? else {
            return Ok(None);
        };
        let counted = crate::codec::counter(&count_key, found[1].as_ref())?;
        if counted > 0 || !self.kv.scan(&keys::dirents(ino), None, 1).await?.is_empty() {
            let context = format!("directory {ino} has entries; remove them first");
            return Err(FsError::new(ErrorKind::NotEmpty, context));
        }
        tx.check(count_key, version(found[1].as_ref()));
        tx.check_inode(&seen);
        Ok(Some(seen))
    }
}

fn check_target(new: &NewInode) -> Result<()> {
    let (kind, why) = match (&new.target, new.kind) {
        (None, FileKind::Symlink) => (ErrorKind::Invalid, "a symlink needs a target"),
        (Some(target), FileKind::Symlink) => match target.len() {
            0 => (ErrorKind::NotFound, "a symlink's target must not be empty"),
            len if len > TARGET_BYTES_MAX => {
                (ErrorKind::NameTooLong, "a symlink's target has at most 4,095 bytes")
            }
            _ => return Ok(()),
        },
        (Some(_), _) => (ErrorKind::Invalid, "only a symlink has a target"),
        (None, _) => return Ok(()),
    };
    Err(FsError::new(kind, why))
}

fn check_linkable(inode: &Inode) -> Result<()> {
    let ino = inode.ino;
    let (kind, why) = match inode {
        _ if inode.kind == FileKind::Directory => {
            (ErrorKind::Permission, "is a directory, which has one name only")
        }
        _ if inode.nlink == 0 => (ErrorKind::NotFound, "was removed"),
        _ if inode.nlink >= LINKS_MAX => (ErrorKind::TooManyLinks, "has 1,048,576 links already"),
        _ => return Ok(()),
    };
    Err(FsError::new(kind, format!("inode {ino} {why}")))
}

fn entry_of(dir: Ino, name: &[u8], key: &Key, found: Option<&Versioned>) -> Result<Seen<Dirent>> {
    decode_seen(key, found)?.ok_or_else(|| no_name(dir, name))
}

fn no_name(dir: Ino, name: &[u8]) -> FsError {
    at_name(ErrorKind::NotFound, dir, name, "no such name")
}

fn taken(dir: Ino, name: &[u8]) -> FsError {
    at_name(ErrorKind::Exists, dir, name, "the name is taken")
}
