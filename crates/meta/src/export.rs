//! What is to go to the buckets of links: a durable list of files whose bytes or names changed, and
//! of objects whose files are gone. A change and its note are one commit, so no crash loses either.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weir_types::{ErrorKind, FileKind, FsError, Ino, Inode, LinkId, Native, Result, UnixTime};

use crate::codec::{Seen, decode, decode_seen, encode, last_key, version};
use crate::data::{BATCH_CHUNKS, Row, cut_to_commit};
use crate::kv::{Key, Version};
use crate::native::child_key;
use crate::op::{Tries, Tx, no_inode, seen_inode};
use crate::{LinkObject, Meta, keys};

/// Where a file got its present name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportName {
    /// The directory.
    pub dir: Ino,
    /// The name in it.
    pub name: Vec<u8>,
}

/// A file that is to be exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToExport {
    /// The link.
    link: LinkId,
    /// The file, or a directory that was moved.
    pub ino: Ino,
    /// Its name, if that is what changed; else it is where its object says.
    pub name: Option<ExportName>,
    /// The rows that say so, as they were read.
    rows: Vec<(Key, Version)>,
}

/// A file's bytes that are an object now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportCommit {
    /// The object as it is now.
    pub native: Native,
    /// When it was written, in milliseconds since 1970.
    pub modified_ms: i64,
    /// What of the file is in it.
    pub content: ExportContent,
    /// The version of the object's row when it was written; `None`: there was none.
    pub row: Option<Version>,
}

/// What of a file an object holds that was just written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportContent {
    /// The target of a symlink.
    Target,
    /// The bytes of this object, which was the file's; what was changed here since stays changed.
    Copied(Native),
    /// All of it, with the file's size and times.
    Whole {
        /// Bytes are among them that no extents have: these are old where both have some.
        fresh: bool,
        /// Size in bytes.
        size: u64,
        /// Last change of the data; `None` leaves it.
        mtime: Option<UnixTime>,
        /// Last change of the inode; `None` leaves it.
        ctime: Option<UnixTime>,
    },
    /// What it was some time ago: it was cut or got holes since. Only what no extents say otherwise
    /// is in it.
    Old,
}

fn exporting(inode: &Inode) -> Option<&Native> {
    inode.native.as_ref().filter(|native| native.exports && !native.detached)
}

/// The object that a file is, or was before bytes of the file went with it: what is written to such a
/// file may be all that it lost.
fn exporting_data(inode: &Inode) -> Option<&Native> {
    let native = inode.native.as_ref();
    native.filter(|native| native.exports && (!native.detached || native.lost))
}

impl Tx {
    /// Notes that the bytes of a file changed, if it is one of those that are exported.
    pub(crate) fn export_data(&mut self, inode: &Inode) {
        if let Some(native) = exporting_data(inode).filter(|native| native.changed) {
            let key = keys::export(native.link, inode.ino, false);
            self.put(key, Bytes::from_static(&[1]));
        }
    }

    /// Notes that `inode` has a new name, if it is in a directory that is exported.
    pub(crate) fn export_name(&mut self, dir: &Inode, name: &[u8], inode: &Inode) -> Result<()> {
        let Some(native) = exporting(dir) else { return Ok(()) };
        let exported =
            matches!(inode.kind, FileKind::Regular | FileKind::Symlink | FileKind::Directory);
        if exported {
            let named = ExportName { dir: dir.ino, name: name.to_vec() };
            self.put(keys::export(native.link, inode.ino, true), encode(&named)?);
        }
        Ok(())
    }

    /// Notes that a file lost a name and has others: its object may have had that one.
    pub(crate) fn export_other_name(&mut self, inode: &Inode) {
        let file = exporting(inode).filter(|_| inode.kind != FileKind::Directory);
        if let Some(native) = file {
            let key = keys::export(native.link, inode.ino, false);
            self.put(key, Bytes::from_static(&[1]));
        }
    }

    /// Notes that a file lost a name in a directory and may have others. If it is an object of
    /// another link, the one that this link still has under that name is to go now.
    pub(crate) fn export_lost_name(&mut self, dir: &Inode, name: &[u8], inode: &Inode) {
        let Some(above) = exporting(dir).filter(|_| inode.kind != FileKind::Directory) else {
            return;
        };
        let elsewhere = inode.native.as_ref().filter(|native| !native.detached);
        if elsewhere.is_some_and(|native| native.link != above.link)
            && let Some(key) = child_key(above, name)
        {
            let key = keys::export_removed(above.link, key.as_bytes());
            self.put(key, Bytes::from_static(&[1]));
        }
    }

    /// Notes that `moved` went from one directory and name to another.
    pub(crate) fn export_moved(
        &mut self,
        moved: &Inode,
        (from, from_name): (&Inode, &[u8]),
        (to, name): (&Inode, &[u8]),
    ) -> Result<()> {
        self.export_name(to, name, moved)?;
        self.export_lost_name(from, from_name, moved);
        let link = |inode: &Inode| exporting(inode).map(|native| native.link);
        // It left a link, maybe with its directory and some time ago: there, too, something is to be
        // done.
        let left = [link(from), link(moved)].into_iter().flatten().filter(|l| Some(*l) != link(to));
        for left in left {
            let named = ExportName { dir: to.ino, name: name.to_vec() };
            self.put(keys::export(left, moved.ino, true), encode(&named)?);
        }
        Ok(())
    }
}

impl Meta {
    /// Up to `limit` files of a link that are to be exported, after `after`, by number: those made
    /// first come first. One read round.
    pub async fn to_export(
        &self,
        link: LinkId,
        after: Option<Ino>,
        limit: usize,
    ) -> Result<Vec<ToExport>> {
        let after = after.map(|ino| keys::export(link, ino, true));
        // Both rows of the last file, or it would come twice.
        let page = self.kv.scan(&keys::exports(link), after.as_deref(), limit + 1).await?;
        let full = page.len() > limit;
        let mut files: Vec<ToExport> = Vec::new();
        for (key, found) in &page {
            let Some((ino, of_name)) = keys::parse_export(key) else { continue };
            if files.last().is_none_or(|last| last.ino != ino) {
                files.push(ToExport { link, ino, name: None, rows: Vec::new() });
            }
            if let Some(file) = files.last_mut() {
                file.rows.push((key.clone(), found.version));
                if of_name {
                    file.name = Some(decode(key, &found.value)?);
                }
            }
        }
        if full && files.len() > 1 {
            files.pop();
        }
        Ok(files)
    }

    /// Whether a file is to be exported. One read round.
    pub async fn is_to_export(&self, link: LinkId, ino: Ino) -> Result<bool> {
        let rows = [false, true].map(|name| keys::export(link, ino, name));
        Ok(self.get(&rows).await?.iter().any(Option::is_some))
    }

    /// Whether what is noted of a file is still what was read. One read round.
    pub async fn is_noted_as(&self, file: &ToExport) -> Result<bool> {
        let rows = [false, true].map(|name| keys::export(file.link, file.ino, name));
        let found = self.get(&rows).await?;
        let now = rows.into_iter().zip(found).filter_map(|(key, row)| Some((key, row?.version)));
        Ok(now.eq(file.rows.iter().cloned()))
    }

    /// How many rows say that something of a link is to be exported, up to `most`.
    pub async fn exports_waiting(&self, link: LinkId, most: usize) -> Result<u64> {
        let mut count = 0;
        for prefix in [keys::exports(link), keys::export_removed(link, &[])] {
            let mut after: Option<Key> = None;
            while count < most {
                let page = self.kv.scan(&prefix, after.as_deref(), 1_000).await?;
                count += page.len();
                after = last_key(&page);
                if page.len() < 1_000 {
                    break;
                }
            }
        }
        Ok(count as u64)
    }

    /// A file was exported, or is not to be: its rows go, if nothing changed since. One commit.
    pub async fn exported(&self, file: &ToExport) -> Result<bool> {
        let mut tx = Tx::default();
        for (key, version) in &file.rows {
            tx.check(key.clone(), Some(*version));
            tx.delete(key.clone());
        }
        self.apply(tx).await
    }

    /// Has a file exported whose bytes changed, if it is one of those that are. One read and, if so,
    /// one commit.
    pub async fn export_changed(&self, ino: Ino) -> Result<bool> {
        let found = self.get(&[keys::inode(ino)]).await?;
        let Some(seen) = seen_inode(ino, found[0].as_ref())? else { return Ok(false) };
        let Some(native) = exporting_data(&seen.value) else { return Ok(false) };
        let mut tx = Tx::default();
        tx.put(keys::export(native.link, ino, false), Bytes::from_static(&[1]));
        self.apply(tx).await?;
        Ok(true)
    }

    /// Has a file exported that has this name, or one that is to be looked for. One commit.
    pub async fn export_soon(
        &self,
        link: LinkId,
        ino: Ino,
        named: Option<&ExportName>,
    ) -> Result<()> {
        let mut tx = Tx::default();
        let value = named.map_or(Ok(Bytes::from_static(&[1])), encode)?;
        tx.put(keys::export(link, ino, named.is_some()), value);
        self.apply(tx).await.map(drop)
    }

    /// Up to `limit` objects of a link whose files are gone, after `after`. One read round.
    pub async fn removed_objects(
        &self,
        link: LinkId,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Vec<u8>>> {
        let after = after.map(|key| keys::export_removed(link, key));
        let page = self.kv.scan(&keys::export_removed(link, &[]), after.as_deref(), limit).await?;
        let keys = page.iter().filter_map(|(key, _)| keys::parse_object_key(key));
        Ok(keys.map(<[u8]>::to_vec).collect())
    }

    /// An object whose file is gone was deleted (`gone`), or stays. Its row stays until an import
    /// finds that it is listed no more: one that is under way may have seen it before. One read and
    /// one commit.
    pub async fn object_deleted(&self, link: LinkId, key: &[u8], gone: bool) -> Result<()> {
        let (row, note) = (keys::link_object(link, key), keys::export_removed(link, key));
        let mut tries = Tries::new("note a deleted object");
        loop {
            tries.next().await?;
            let found = self.get(std::slice::from_ref(&row)).await?;
            let mut tx = Tx::default();
            tx.delete(note.clone());
            if let Some(there) = found[0].as_ref().filter(|_| gone) {
                let object: LinkObject = decode(&row, &there.value)?;
                if object.removed {
                    tx.check(row.clone(), Some(there.version));
                    // Of a time before 1970: a listing that began earlier may still show it.
                    tx.put(row.clone(), encode(&LinkObject { modified_ms: -1, ..object })?);
                }
            }
            if self.apply(tx).await? {
                return Ok(());
            }
        }
    }

    /// The object of a file was deleted by somebody else: its next export makes a new one. One
    /// commit.
    pub async fn object_deleted_elsewhere(&self, link: LinkId, key: &[u8]) -> Result<()> {
        let mut tx = Tx::default();
        tx.delete(keys::link_object(link, key));
        self.apply(tx).await.map(drop)
    }

    /// A file left its link, and no byte of it is in the object any more: that is to be deleted, if
    /// it still is `judged`. `false`: the file has another object by now, and nothing was done. A
    /// directory forgets where in the link it was. One read round and one commit.
    pub async fn leave_link(&self, ino: Ino, judged: Option<&Native>) -> Result<bool> {
        let mut tries = Tries::new("leave a link");
        loop {
            tries.next().await?;
            let found = self.get(&[keys::inode(ino)]).await?;
            let seen = seen_inode(ino, found[0].as_ref())?.ok_or_else(|| no_inode(ino))?;
            let mut tx = Tx::default();
            tx.check_inode(&seen);
            let mut inode = seen.value;
            let native = inode.native.take();
            if inode.kind != FileKind::Directory {
                let Some(native) = native.filter(|native| Some(native) == judged) else {
                    return Ok(false);
                };
                if !native.detached {
                    tx.count_object(&native, -1);
                    tx.left(&native)?;
                }
            }
            tx.put_inode(&inode)?;
            if self.apply(tx).await? {
                return Ok(true);
            }
        }
    }

    /// Makes an object a file's own: it is what the file is, or most of it. The row of the object
    /// it was before says that it is to be deleted. `None`: the file has no name any more, so that
    /// the object is to go, and the file's bytes are where they were. One read round and one commit, and if the
    /// object is all of the file one of both for each 2,000 chunks that had extents. `Retry` if
    /// these do not fit in one commit and the object has newer bytes than they have.
    pub async fn commit_export(&self, ino: Ino, export: &ExportCommit) -> Result<Option<Inode>> {
        let mut tries = Tries::new("commit an export");
        loop {
            tries.next().await?;
            let found = self.get(&[keys::inode(ino)]).await?;
            let seen = seen_inode(ino, found[0].as_ref())?.ok_or_else(|| no_inode(ino))?;
            let mut tx = Tx::default();
            tx.check_inode(&seen);
            let mut inode = seen.value;
            if inode.nlink == 0 {
                self.exported_removed(ino, &export.native).await?;
                return Ok(None);
            }
            let before = inode.native.take().filter(|native| !native.detached);
            if let Some(native) = &before {
                tx.count_object(native, -1);
                if native.key != export.native.key || native.link != export.native.link {
                    tx.left(native)?;
                }
            }
            let mut native = export.native.clone();
            if let &ExportContent::Whole { fresh, size, mtime, ctime } = &export.content {
                self.drop_first_rows(&mut inode, fresh, &mut tx).await?;
                inode.size = size;
                inode.mtime = mtime.unwrap_or(inode.mtime);
                inode.ctime = ctime.map_or(inode.ctime, |ctime| ctime.max(inode.ctime));
                inode.data.generation += 1;
                inode.data.dropped = None;
            } else {
                keep_own_bytes(&mut native, before, &export.content)?;
            }
            tx.count_object(&native, 1);
            let row = LinkObject {
                ino: Some(ino),
                removed: false,
                etag: native.etag.clone(),
                object_bytes: native.object_bytes,
                modified_ms: export.modified_ms,
            };
            let object_key = native.key.as_bytes();
            let row_key = keys::link_object(native.link, object_key);
            if version(self.get(std::slice::from_ref(&row_key)).await?[0].as_ref()) != export.row {
                let text = format!("object {}: an import came between", native.key);
                return Err(FsError::new(ErrorKind::Conflict, text));
            }
            tx.check(row_key.clone(), export.row);
            tx.put(row_key, encode(&row)?);
            tx.delete(keys::export_removed(native.link, object_key));
            inode.native = Some(native);
            tx.put_inode(&inode)?;
            if !self.apply(tx).await? {
                continue;
            }
            return match export.content {
                ExportContent::Whole { .. } => self.drop_rows(inode).await.map(Some),
                _ => Ok(Some(inode)),
            };
        }
    }

    /// The file lost its last name while its object was written: that is to be deleted, unless
    /// another file has it by now.
    async fn exported_removed(&self, ino: Ino, native: &Native) -> Result<()> {
        let mut tries = Tries::new("note a removed object");
        loop {
            tries.next().await?;
            let key = keys::link_object(native.link, native.key.as_bytes());
            let found = self.get(std::slice::from_ref(&key)).await?;
            let row: Option<Seen<LinkObject>> = decode_seen(&key, found[0].as_ref())?;
            if row.is_some_and(|row| row.value.ino.is_some_and(|other| other != ino)) {
                return Ok(());
            }
            let mut tx = Tx::default();
            tx.check(key, version(found[0].as_ref()));
            tx.left(native)?;
            if self.apply(tx).await? {
                return Ok(());
            }
        }
    }

    /// Whether all extents of a file can go in one commit. One read round.
    pub async fn extents_fit(&self, ino: Ino) -> Result<bool> {
        let mut rows = self.rows(ino, 0, BATCH_CHUNKS).await?;
        Ok(!cut_to_commit(&mut rows, BATCH_CHUNKS))
    }

    /// Removes the extents of a file in the commit that makes it its object: beside that object they
    /// are never read. More than fit stay for later commits, and so must be no older: `Retry` if
    /// there are `fresh` bytes.
    async fn drop_first_rows(&self, inode: &mut Inode, fresh: bool, tx: &mut Tx) -> Result<()> {
        let mut rows = self.rows(inode.ino, 0, BATCH_CHUNKS).await?;
        if cut_to_commit(&mut rows, BATCH_CHUNKS) {
            let text = format!("inode {}: too many extents to go at once", inode.ino);
            let refused = FsError::new(ErrorKind::Retry, text);
            return if fresh { Err(refused) } else { Ok(()) };
        }
        drop_page(inode, &rows, tx)
    }

    /// Removes the extents of a file that is its object, as long as it stays that.
    async fn drop_rows(&self, mut inode: Inode) -> Result<Inode> {
        loop {
            let ino = inode.ino;
            let found = self.get(&[keys::inode(ino)]).await?;
            let Some(seen) = seen_inode(ino, found[0].as_ref())? else { return Ok(inode) };
            let same = seen.value.native == inode.native;
            inode = seen.value.clone();
            if !same {
                let text = format!("inode {ino}: its object changed while it was exported");
                return Err(FsError::new(ErrorKind::Conflict, text));
            }
            let mut rows = self.rows(ino, 0, BATCH_CHUNKS).await?;
            cut_to_commit(&mut rows, BATCH_CHUNKS);
            if rows.is_empty() {
                return Ok(inode);
            }
            let mut tx = Tx::default();
            tx.check_inode(&seen);
            drop_page(&mut inode, &rows, &mut tx)?;
            tx.put_inode(&inode)?;
            self.apply(tx).await?;
        }
    }
}

fn drop_page(inode: &mut Inode, rows: &[Row], tx: &mut Tx) -> Result<()> {
    for row in rows {
        let key = keys::extents(inode.ino, row.chunk);
        let grown = tx.set_extents(key.clone(), row.version, &row.extents, &[], false)?;
        inode.stored_bytes = inode.stored_bytes.saturating_add_signed(grown);
        // An empty list is no change of extents, but a row all the same.
        if row.extents.is_empty() {
            tx.check(key.clone(), row.version);
            tx.delete(key);
        }
    }
    Ok(())
}

impl Tx {
    /// The file has another object now: the one it had is nobody's.
    fn left(&mut self, native: &Native) -> Result<()> {
        let key = native.key.as_bytes();
        let row = LinkObject {
            ino: None,
            removed: true,
            etag: native.etag.clone(),
            object_bytes: native.object_bytes,
            modified_ms: 0,
        };
        self.put(keys::link_object(native.link, key), encode(&row)?);
        self.put(keys::export_removed(native.link, key), Bytes::from_static(&[1]));
        Ok(())
    }
}

/// How much of the file its new object is, if that does not have all of it: as much as the one it
/// takes the place of. `Conflict` if that is not the one that was copied.
fn keep_own_bytes(
    native: &mut Native,
    before: Option<Native>,
    content: &ExportContent,
) -> Result<()> {
    match content {
        ExportContent::Target | ExportContent::Whole { .. } => {}
        ExportContent::Copied(source) => {
            let now = before.filter(|now| (&now.key, &now.etag) == (&source.key, &source.etag));
            let Some(now) = now else {
                let text = format!("object {}: the file has another one by now", source.key);
                return Err(FsError::new(ErrorKind::Conflict, text));
            };
            (native.end, native.changed, native.lost) = (now.end, now.changed, now.lost);
        }
        ExportContent::Old => {
            native.changed = true;
            native.end = before.map_or(0, |before| before.end).min(native.end);
        }
    }
    Ok(())
}
