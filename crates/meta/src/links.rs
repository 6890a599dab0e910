//! Links: which objects of a linked bucket are which files.
//!
//! Each object has a row under its key, so that a sorted listing of the bucket and these rows can
//! be compared side by side, and so that a file that was removed or renamed here is not made again.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weir_types::{ErrorKind, FileKind, FsError, Ino, Inode, LinkId, Native, Result, UnixTime};

use crate::codec::{Dirent, Seen, counter, decode, decode_seen, encode, version};
use crate::kv::{Commit, Key, Outcome, Version, Versioned};
use crate::names::NewInode;
use crate::op::{Tries, Tx, at_name, check_name, live_dir, no_inode, seen_inode};
use crate::{Meta, keys};

/// Rows read or removed at once.
const PAGE: usize = 1_000;

const FILES: &[u8] = b"files";
const BYTES: &[u8] = b"bytes";
const HIDDEN: &[u8] = b"hidden";

/// What is known of an object of a linked bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkObject {
    /// The file that it is; `None`: it has no file here, because it cannot show as one. Of a
    /// directory of a lazy link the directory, which may be gone.
    pub ino: Option<Ino>,
    /// Its file was removed here.
    pub removed: bool,
    /// Its ETag when it was last looked at.
    pub etag: Option<String>,
    /// Its length in bytes then.
    pub object_bytes: u64,
    /// When it was written, in milliseconds since 1970.
    pub modified_ms: i64,
}

/// A row of a [`LinkObject`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRow {
    /// Key of the object below the link's URL.
    pub key: Vec<u8>,
    /// What is known of it.
    pub object: LinkObject,
    /// The commit that said so.
    pub version: Version,
}

/// An object that becomes a file, or a directory of a lazy link.
#[derive(Clone, Debug)]
pub struct NewObject {
    /// Directory of the file.
    pub dir: Ino,
    /// Its name there.
    pub name: Vec<u8>,
    /// Kind, mode and owner.
    pub inode: NewInode,
    /// Last change of the data.
    pub mtime: UnixTime,
    /// Last access; `None`: as `mtime`.
    pub atime: Option<UnixTime>,
    /// The object.
    pub native: Native,
    /// When it was written, in milliseconds since 1970.
    pub modified_ms: i64,
}

/// What a link holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkUsage {
    /// Files that are objects.
    pub files: u64,
    /// Bytes of these objects.
    pub bytes: u64,
    /// Objects that cannot show as files.
    pub hidden: u64,
}

impl Meta {
    /// All links, with the settings that were given to [`Meta::add_link`]. One read round.
    pub async fn links(&self) -> Result<Vec<(LinkId, Bytes)>> {
        let mut links = Vec::new();
        let mut after: Option<Key> = None;
        loop {
            let page = self.kv.scan(&[keys::LINK], after.as_deref(), PAGE).await?;
            for (key, found) in &page {
                let id = keys::parse_link(key).ok_or_else(|| bad_key(key))?;
                links.push((id, decode::<Vec<u8>>(key, &found.value)?.into()));
            }
            if page.len() < PAGE {
                self.has_links.fetch_or(!links.is_empty(), Ordering::AcqRel);
                return Ok(links);
            }
            after = crate::codec::last_key(&page);
        }
    }

    /// Makes a link of these settings, which are the caller's own. One read and one commit.
    pub async fn add_link(&self, settings: &[u8]) -> Result<LinkId> {
        let mut tries = Tries::new("make a link");
        loop {
            tries.next().await?;
            let found = self.get(&[keys::NEXT_LINK.to_vec()]).await?;
            let next: Option<Seen<u32>> = decode_seen(keys::NEXT_LINK, found[0].as_ref())?;
            let id = LinkId(next.map_or(1, |seen| seen.value));
            let mut tx = Tx::default();
            tx.check(keys::NEXT_LINK.to_vec(), version(found[0].as_ref()));
            tx.put(keys::NEXT_LINK.to_vec(), encode(&(id.0 + 1))?);
            tx.put(keys::link(id), encode(&settings)?);
            self.has_links.store(true, Ordering::Release);
            if self.apply(tx).await? {
                return Ok(id);
            }
        }
    }

    /// Replaces a link's settings. One commit.
    pub async fn set_link(&self, id: LinkId, settings: &[u8]) -> Result<()> {
        let mut tx = Tx::default();
        tx.put(keys::link(id), encode(&settings)?);
        self.apply(tx).await.map(drop)
    }

    /// Forgets a link with all its rows; files stay as they are. One commit for each 1,000 rows.
    pub async fn remove_link(&self, id: LinkId) -> Result<()> {
        let prefixes = [
            keys::link_object(id, &[]),
            keys::link_hidden(id, &[]),
            keys::link_count(id, &[]),
            keys::exports(id),
            keys::export_removed(id, &[]),
            keys::link(id),
        ];
        for prefix in prefixes {
            loop {
                let page = self.kv.scan(&prefix, None, PAGE).await?;
                let last = page.len() < PAGE;
                let mut tx = Tx::default();
                page.into_iter().for_each(|(key, _)| tx.delete(key));
                self.apply(tx).await?;
                if last {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The version of the newest commit: rows of later versions were written after this call.
    pub async fn newest(&self) -> Result<Version> {
        match self.kv.commit(Commit::default()).await? {
            Outcome::Applied(version) => Ok(version),
            Outcome::Conflict => Ok(0),
        }
    }

    /// Counts of a link. One read round.
    pub async fn link_usage(&self, link: LinkId) -> Result<LinkUsage> {
        let wanted = [FILES, BYTES, HIDDEN].map(|what| keys::link_count(link, what));
        let found = self.get(&wanted).await?;
        let count =
            |at: usize| Ok(counter(&wanted[at], found[at].as_ref())?.max(0).cast_unsigned());
        Ok(LinkUsage { files: count(0)?, bytes: count(1)?, hidden: count(2)? })
    }

    /// Up to `limit` rows of objects with keys after `after` and up to `until` (`None`: all), in
    /// the order of keys. One read round.
    pub async fn objects(
        &self,
        link: LinkId,
        after: Option<&[u8]>,
        until: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<ObjectRow>> {
        let after = after.map(|key| keys::link_object(link, key));
        let prefix = keys::link_object(link, &[]);
        let page = self.kv.scan(&prefix, after.as_deref(), limit).await?;
        let mut rows = Vec::with_capacity(page.len());
        for (key, found) in &page {
            let object_key = keys::parse_object_key(key).ok_or_else(|| bad_key(key))?;
            if until.is_some_and(|until| object_key > until) {
                break;
            }
            let object = decode(key, &found.value)?;
            rows.push(ObjectRow { key: object_key.to_vec(), object, version: found.version });
        }
        Ok(rows)
    }

    /// The row of one object. One read.
    pub async fn object(&self, link: LinkId, key: &[u8]) -> Result<Option<ObjectRow>> {
        let row = keys::link_object(link, key);
        let found = self.get(std::slice::from_ref(&row)).await?;
        let seen: Option<Seen<LinkObject>> = decode_seen(&row, found[0].as_ref())?;
        let of =
            |Seen { version, value, .. }| ObjectRow { key: key.to_vec(), object: value, version };
        Ok(seen.map(of))
    }

    /// The rows of these objects of links. One read round for each 1,000.
    pub async fn objects_of(
        &self,
        objects: &[(LinkId, String)],
    ) -> Result<Vec<Option<LinkObject>>> {
        let mut rows = Vec::with_capacity(objects.len());
        for objects in objects.chunks(1_000) {
            let wanted = objects.iter().map(|(link, key)| keys::link_object(*link, key.as_bytes()));
            let wanted: Vec<_> = wanted.collect();
            for (key, found) in wanted.iter().zip(&self.get(&wanted).await?) {
                rows.push(found.as_ref().map(|found| decode(key, &found.value)).transpose()?);
            }
        }
        Ok(rows)
    }

    /// Makes many files of objects, or directories, in one commit. `None`: a name is taken or a
    /// directory is going; nothing was done, and it is for the caller to see which. One read round
    /// and one commit.
    pub async fn create_objects(&self, new: &[NewObject]) -> Result<Option<Vec<Inode>>> {
        let mut above: Vec<Ino> = new.iter().map(|object| object.dir).collect();
        above.sort_unstable();
        above.dedup();
        let mut wanted: Vec<Key> = above.iter().map(|dir| keys::inode(*dir)).collect();
        for object in new {
            check_name(&object.name)?;
            wanted.push(keys::dirent(object.dir, &object.name));
        }
        let found = self.get(&wanted).await?;
        let (dirs, entries) = found.split_at(above.len());
        if entries.iter().any(Option::is_some) {
            return Ok(None);
        }
        let mut tx = Tx::default();
        let live = |(dir, found): (&Ino, &Option<Versioned>)| live_dir(*dir, found.as_ref());
        let mut dirs = above.iter().zip(dirs).map(live).collect::<Result<Vec<_>>>()?;
        dirs.iter().for_each(|dir| tx.check_inode(dir));
        let mut inodes = Vec::with_capacity(new.len());
        for (object, key) in new.iter().zip(wanted.drain(above.len()..)) {
            let Ok(at) = above.binary_search(&object.dir) else { return Ok(None) };
            let dir = &mut dirs[at].value;
            let inode = self.object_inode(dir, object).await?;
            if inode.kind == FileKind::Directory {
                dir.nlink += 1;
                tx.put_inode(dir)?;
            }
            tx.check(key.clone(), None);
            tx.put_new_inode(&inode)?;
            tx.put_dirent(key, inode.ino, inode.kind)?;
            tx.touch_dir(object.dir, 1, inode.btime)?;
            tx.add(keys::INODES.to_vec(), 1);
            tx.put_object(object, inode.ino)?;
            inodes.push(inode);
        }
        Ok(self.apply(tx).await?.then_some(inodes))
    }

    /// Puts a new file of an object in the place of `judged`, which loses this name; under other
    /// names it parts from its object, which is the new file's. `None`: the name leads elsewhere by
    /// now, or the file's bytes are not in the object that it was judged by, and nothing was done.
    /// Answers the new inode and the old one. One read round, one commit.
    pub async fn replace_object(
        &self,
        judged: &Inode,
        new: &NewObject,
    ) -> Result<Option<(Inode, Inode)>> {
        let Some((dir, mut tx, before)) = self.entry_of(new.dir, &new.name, judged).await? else {
            return Ok(None);
        };
        let gone = self.without_a_name(before, &mut tx)?;
        let gone = tx.part_other_names(gone)?;
        let inode = self.object_inode(&dir, new).await?;
        tx.put_new_inode(&inode)?;
        tx.put_dirent(keys::dirent(new.dir, &new.name), inode.ino, inode.kind)?;
        tx.touch_dir(new.dir, 0, inode.btime)?;
        tx.add(keys::INODES.to_vec(), 1);
        tx.put_object(new, inode.ino)?;
        Ok(self.apply(tx).await?.then_some((inode, gone)))
    }

    /// Removes this name of the file of an object, and the object's row. If the object `stays`, it
    /// is still that of the file's other names, and the row goes with the last; else it is gone, and
    /// they part from it. `None`: the name leads elsewhere by now, or the file's bytes are not in the object that it was `judged`
    /// by, and nothing was done. One read round, one commit.
    pub async fn remove_object(
        &self,
        dir: Ino,
        name: &[u8],
        judged: &Inode,
        (link, key): (LinkId, &[u8]),
        stays: bool,
    ) -> Result<Option<Inode>> {
        let Some((_, mut tx, before)) = self.entry_of(dir, name, judged).await? else {
            return Ok(None);
        };
        let mut gone = self.without_a_name(before, &mut tx)?;
        if !stays {
            gone = tx.part_other_names(gone)?;
        }
        tx.delete(keys::dirent(dir, name));
        tx.touch_dir(dir, -1, gone.ctime)?;
        if gone.nlink == 0 || !stays {
            tx.delete(keys::link_object(link, key));
        }
        Ok(self.apply(tx).await?.then_some(gone))
    }

    /// Gives a file that lost its last name another one, before anybody purged it. One read round
    /// and one commit. `Exists` if the name is taken.
    pub async fn name_again(&self, ino: Ino, dir: Ino, name: &[u8]) -> Result<Inode> {
        check_name(name)?;
        let key = keys::dirent(dir, name);
        let mut tries = Tries::new("name a file again");
        loop {
            tries.next().await?;
            let found = self.get(&[keys::inode(ino), keys::inode(dir), key.clone()]).await?;
            let seen = seen_inode(ino, found[0].as_ref())?.ok_or_else(|| no_inode(ino))?;
            let above = live_dir(dir, found[1].as_ref())?;
            if found[2].is_some() {
                return Err(at_name(ErrorKind::Exists, dir, name, "the name is taken"));
            }
            let mut tx = Tx::default();
            tx.check_inode(&seen);
            tx.check_inode(&above);
            tx.check(key.clone(), None);
            let mut inode = seen.value;
            inode.nlink = 1;
            inode.parent = dir;
            inode.account = above.value.account;
            inode.native = inode.native.map(|native| Native { detached: true, ..native });
            tx.put_inode(&inode)?;
            tx.delete(keys::orphan(ino));
            tx.put_dirent(key.clone(), ino, inode.kind)?;
            tx.touch_dir(dir, 1, self.now())?;
            if self.apply(tx).await? {
                return Ok(inode);
            }
        }
    }

    /// The directory, the inode that `name` leads to, if it is the `judged` one with the very object
    /// that it had then, and a commit that holds on to both. Each change of a file's bytes that the
    /// metadata learns of changes what it says of the object.
    async fn entry_of(
        &self,
        dir: Ino,
        name: &[u8],
        judged: &Inode,
    ) -> Result<Option<(Inode, Tx, Inode)>> {
        let ino = judged.ino;
        let key = keys::dirent(dir, name);
        let found = self.get(&[keys::inode(dir), key.clone(), keys::inode(ino)]).await?;
        let parent = live_dir(dir, found[0].as_ref())?;
        let entry: Option<Seen<Dirent>> = decode_seen(&key, found[1].as_ref())?;
        let Some(entry) = entry.filter(|entry| entry.value.ino == ino) else { return Ok(None) };
        let Some(seen) = seen_inode(ino, found[2].as_ref())? else { return Ok(None) };
        if seen.value.kind == FileKind::Directory || seen.value.native != judged.native {
            return Ok(None);
        }
        let mut tx = Tx::default();
        tx.check_inode(&parent);
        tx.check(key, Some(entry.version));
        tx.check_inode(&seen);
        Ok(Some((parent.value, tx, seen.value)))
    }

    async fn object_inode(&self, dir: &Inode, object: &NewObject) -> Result<Inode> {
        let ino = self.next_ino().await?;
        let mut inode = self.new_inode(ino, dir, &object.inode);
        if inode.kind == FileKind::Regular {
            inode.size = object.native.end;
        }
        inode.mtime = object.mtime;
        inode.atime = object.atime.unwrap_or(object.mtime);
        inode.native = Some(object.native.clone());
        Ok(inode)
    }

    /// Forgets an object that is gone from the bucket, if its row still is as it was `seen`: an export
    /// may have made it anew. One commit.
    pub async fn forget_object(&self, link: LinkId, key: &[u8], seen: Version) -> Result<bool> {
        let row = keys::link_object(link, key);
        let reason = keys::link_hidden(link, key);
        let mut tries = Tries::new("forget an object");
        loop {
            tries.next().await?;
            let found = self.get(&[row.clone(), reason.clone()]).await?;
            if version(found[0].as_ref()) != Some(seen) {
                return Ok(false);
            }
            let mut tx = Tx::default();
            tx.check(row.clone(), Some(seen));
            tx.check(reason.clone(), version(found[1].as_ref()));
            tx.delete(row.clone());
            tx.delete(reason.clone());
            tx.add(keys::link_count(link, HIDDEN), -i64::from(found[1].is_some()));
            if self.apply(tx).await? {
                return Ok(true);
            }
        }
    }

    /// Says what is known of an object that has no file, with the reason why it cannot show, if
    /// that is so; without an object, that there is none. One read and one commit.
    pub async fn set_object(
        &self,
        link: LinkId,
        key: &[u8],
        object: Option<&LinkObject>,
        hidden: Option<&str>,
    ) -> Result<()> {
        let (row, reason) = (keys::link_object(link, key), keys::link_hidden(link, key));
        let mut tries = Tries::new("note an object");
        loop {
            tries.next().await?;
            let found = self.get(std::slice::from_ref(&reason)).await?;
            let mut tx = Tx::default();
            tx.check(reason.clone(), version(found[0].as_ref()));
            match object {
                Some(object) => tx.put(row.clone(), encode(object)?),
                None => tx.delete(row.clone()),
            }
            match hidden {
                Some(why) => tx.put(reason.clone(), encode(&why)?),
                None => tx.delete(reason.clone()),
            }
            let more = i64::from(hidden.is_some()) - i64::from(found[0].is_some());
            tx.add(keys::link_count(link, HIDDEN), more);
            if self.apply(tx).await? {
                return Ok(());
            }
        }
    }

    /// Up to `limit` objects that cannot show, after `after`, with the reason. One read round.
    pub async fn hidden_objects(
        &self,
        link: LinkId,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, String)>> {
        let after = after.map(|key| keys::link_hidden(link, key));
        let page = self.kv.scan(&keys::link_hidden(link, &[]), after.as_deref(), limit).await?;
        let of = |(key, found): &(Key, Versioned)| {
            let object_key = keys::parse_object_key(key).ok_or_else(|| bad_key(key))?;
            Ok((object_key.to_vec(), decode(key, &found.value)?))
        };
        page.iter().map(of).collect()
    }

    /// Changes what an inode's native object is; `None` from `change` leaves it. Rows of objects stay
    /// as they are. Answers the inode after. One read round, one commit.
    pub async fn change_native(
        &self,
        ino: Ino,
        change: impl Fn(&Inode) -> Option<Option<Native>> + Send + Sync,
    ) -> Result<Inode> {
        let mut tries = Tries::new("change a native object");
        loop {
            tries.next().await?;
            let found = self.get(&[keys::inode(ino)]).await?;
            let seen = seen_inode(ino, found[0].as_ref())?.ok_or_else(|| no_inode(ino))?;
            let Some(native) = change(&seen.value) else { return Ok(seen.value) };
            let mut tx = Tx::default();
            tx.check_inode(&seen);
            let mut inode = seen.value;
            let is_file = inode.kind != FileKind::Directory;
            let attached = |native: &Option<Native>| {
                native.clone().filter(|native| is_file && !native.detached)
            };
            let (before, after) = (attached(&inode.native), attached(&native));
            before.iter().for_each(|native| tx.count_object(native, -1));
            after.iter().for_each(|native| tx.count_object(native, 1));
            inode.native = native;
            tx.put_inode(&inode)?;
            if self.apply(tx).await? {
                return Ok(inode);
            }
        }
    }
}

impl Tx {
    /// The row of an object that is a file, and the link's counters.
    pub(crate) fn put_object(&mut self, new: &NewObject, ino: Ino) -> Result<()> {
        let native = &new.native;
        let object = LinkObject {
            ino: Some(ino),
            removed: false,
            etag: native.etag.clone(),
            object_bytes: native.object_bytes,
            modified_ms: new.modified_ms,
        };
        self.put(keys::link_object(native.link, native.key.as_bytes()), encode(&object)?);
        if new.inode.kind != FileKind::Directory {
            self.count_object(native, 1);
        }
        Ok(())
    }

    /// The last name of a file that is an object is gone: its row says so, or the next listing
    /// would bring it back.
    pub(crate) fn object_without_file(&mut self, inode: &Inode) -> Result<()> {
        let attached = inode.native.as_ref().filter(|native| !native.detached);
        let Some(native) = attached.filter(|_| inode.kind != FileKind::Directory) else {
            return Ok(());
        };
        if native.exports {
            let key = keys::export_removed(native.link, native.key.as_bytes());
            self.put(key, Bytes::from_static(&[1]));
        }
        let object = LinkObject {
            ino: None,
            removed: true,
            etag: native.etag.clone(),
            object_bytes: native.object_bytes,
            modified_ms: 0,
        };
        self.put(keys::link_object(native.link, native.key.as_bytes()), encode(&object)?);
        self.count_object(native, -1);
        Ok(())
    }

    /// A file lost a name together with its object: what has other names keeps what it can of it,
    /// and is that object no more.
    fn part_other_names(&mut self, gone: Inode) -> Result<Inode> {
        let attached = gone.native.clone().filter(|native| gone.nlink > 0 && !native.detached);
        let Some(native) = attached else { return Ok(gone) };
        self.count_object(&native, -1);
        let parted = Inode { native: Some(Native { detached: true, ..native }), ..gone };
        self.put_inode(&parted)?;
        Ok(parted)
    }

    pub(crate) fn count_object(&mut self, native: &Native, sign: i64) {
        self.add(keys::link_count(native.link, FILES), sign);
        self.add(keys::link_count(native.link, BYTES), sign * native.object_bytes.cast_signed());
    }
}

fn bad_key(key: &[u8]) -> FsError {
    let context = format!("metadata key {} is too short; run a check", key.escape_ascii());
    FsError::new(ErrorKind::Corrupt, context)
}
