//! What an import does about each difference.

mod directories;
mod heads;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OnceCell;
use weir_meta::{ExportName, LinkObject, NewInode, NewObject, ObjectRow, RenameMode};
use weir_object::{Bucket, Component, ListedObject, is_same_etag};
use weir_types::{ErrorKind, FileKind, FsError, Ino, Inode, Native, Result, UnixTime};

use super::brake::Brake;
use crate::services::links::attributes::Attributes;
use crate::services::links::importer::Importer;
use crate::services::links::registry::Link;
use crate::services::links::rule::{self, BESIDE_DIRECTORY, Place, place};
use crate::services::links::views::Policy;
use crate::services::links::wrote::wrote;

/// Files made in one commit.
pub(super) const BATCH: usize = 500;
/// Tries to get a name that others change at the same time.
const TRIES: usize = 10;
/// A symlink's object holds its target.
const TARGET_BYTES_MAX: u64 = weir_meta::TARGET_BYTES_MAX as u64;

/// One import under way.
pub(crate) struct Import {
    pub(crate) importer: Arc<Importer>,
    pub(crate) link: Arc<Link>,
    pub(crate) bucket: Bucket,
    pub(crate) policy: Policy,
    /// Rows of later versions were written since the listing began.
    pub(crate) before: u64,
    dirs: Mutex<HashMap<String, Ino>>,
    /// The one directory that it is about, by its place in the bucket and its inode, which may be
    /// anywhere by now. It is being looked into, so the doors need not be told of its names.
    directory: Option<(String, Ino)>,
    owner: OnceCell<(u32, u32)>,
    /// What is missing in the bucket.
    pub(super) brake: Brake,
}

impl Import {
    pub(crate) fn new(
        importer: Arc<Importer>,
        link: Arc<Link>,
        policy: Policy,
        before: u64,
    ) -> Result<Self> {
        let bucket = importer.registry.bucket(link.id)?;
        let (dirs, owner) = (Mutex::default(), OnceCell::new());
        let brake = Brake::new(0, None);
        Ok(Self { importer, link, bucket, policy, before, dirs, directory: None, owner, brake })
    }

    /// An import of the names in this directory only, whose key ends with a slash or is empty.
    pub(super) fn of_directory(self, key: &str, ino: Ino) -> Self {
        let path = key.trim_end_matches('/').to_owned();
        Self { directory: Some((path, ino)), ..self }
    }

    /// The same, with what may go in one look.
    pub(super) fn with_brake(self, brake: Brake) -> Self {
        Self { brake, ..self }
    }

    pub(super) fn is_of_directory(&self) -> bool {
        self.directory.is_some()
    }

    fn names_added(&self, dir: Ino) {
        if !self.is_of_directory() {
            self.importer.registry.names_added(dir);
        }
    }

    pub(crate) async fn finish(&self) -> Result<()> {
        self.importer.registry.notify_doors().await;
        self.importer.meta.sync().await
    }

    /// Makes files of objects that are not known yet.
    pub(crate) async fn create(&self, objects: &[ListedObject]) -> Result<()> {
        let known = self.attributes_of(objects).await?;
        let mut files = Vec::with_capacity(objects.len());
        for object in objects {
            let attributes = known.get(&object.key).copied().unwrap_or_default();
            match object.cannot_show.map_or_else(|| place(&object.key), Err) {
                Err(why) => self.hide(object, why).await?,
                Ok(Place::Directory { dirs }) => {
                    self.make_marked(&dirs, object, &attributes).await?;
                }
                Ok(Place::File { dirs, name }) => {
                    let dir = self.directory(&dirs).await?;
                    files.push(self.new_object(dir, name, object, &attributes).await?);
                }
            }
        }
        if !self.create_all(&files).await? {
            for file in &files {
                self.create_one(file.clone()).await?;
            }
        }
        self.link.count(|view| view.imported += files.len() as u64);
        Ok(())
    }

    /// Makes all of these in one commit. `false`: none, because of something in the way.
    async fn create_all(&self, new: &[NewObject]) -> Result<bool> {
        let created = match self.importer.meta.create_objects(new).await {
            Ok(created) => created.is_some(),
            // A directory that was remembered is gone.
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        if !created {
            self.dirs.lock().clear();
        }
        new.iter().for_each(|made| self.names_added(made.dir));
        Ok(created)
    }

    /// Makes one file, whatever has its name.
    async fn create_one(&self, mut file: NewObject) -> Result<()> {
        let meta = &self.importer.meta;
        for _ in 0..TRIES {
            let Place::File { dirs, .. } = place(file.native.key.as_bytes()).map_err(bug)? else {
                return Ok(());
            };
            file.dir = self.directory(&dirs).await?;
            let Some(there) = self.importer.resolver.entry(file.dir, &file.name).await? else {
                if meta.create_objects(std::slice::from_ref(&file)).await?.is_some() {
                    return Ok(());
                }
                continue;
            };
            if there.kind == FileKind::Directory {
                if file.name.ends_with(BESIDE_DIRECTORY.as_bytes()) {
                    return self.hide_file(&file, "directories have its name").await;
                }
                file.name.extend_from_slice(BESIDE_DIRECTORY.as_bytes());
                if file.name.len() > weir_meta::NAME_BYTES_MAX {
                    return self.hide_file(&file, "a directory has its name").await;
                }
            } else if self.is_exported(&there, &file).await? {
                return Ok(());
            } else if is_of(&there, &file.native) {
                if self.put_in_place_of(&there, &file).await? {
                    return Ok(());
                }
            } else if file.name.ends_with(BESIDE_DIRECTORY.as_bytes()) {
                return self.hide_file(&file, "a directory has its name").await;
            } else {
                self.make_way(file.dir, &file.name, &there, Some(&file.native.key)).await?;
            }
        }
        let text = format!("{}: its name changes too often", file.native.key);
        Err(FsError::new(ErrorKind::Retry, text))
    }

    /// An object that is known is another now.
    pub(crate) async fn changed(&self, object: &ListedObject, row: &ObjectRow) -> Result<()> {
        if let Some(why) = object.cannot_show {
            if row.object.ino.is_some() {
                self.removed(row).await?;
            }
            return self.hide(object, why).await;
        }
        let Ok(Place::File { dirs, name }) = place(&object.key) else {
            return self.create(std::slice::from_ref(object)).await;
        };
        let known = self.attributes_of(std::slice::from_ref(object)).await?;
        let attributes = known.get(&object.key).copied().unwrap_or_default();
        let dir = self.directory(&dirs).await?;
        let mut file = self.new_object(dir, name, object, &attributes).await?;
        self.link.count(|view| view.imported += 1);
        let Some(ino) = row.object.ino else {
            if !row.object.removed {
                // Maybe it can show now.
                let known = Some(&row.object);
                let importer = &self.importer;
                importer.meta.set_object(self.link.id, &row.key, known, None).await?;
            }
            return self.create_one(file).await;
        };
        match self.importer.resolver.name_of(&self.link, &object.key, ino).await? {
            Some((dir, name, there)) if is_of(&there, &file.native) => {
                (file.dir, file.name) = (dir, name);
                if attributes.is_empty() {
                    let NewInode { mode, uid, gid, .. } = &mut file.inode;
                    (*mode, *uid, *gid) = (there.mode, there.uid, there.gid);
                }
                match self.put_in_place_of(&there, &file).await? {
                    true => Ok(()),
                    false => self.create_one(file).await,
                }
            }
            _ => {
                // It was renamed here: that file keeps what it has of the old object.
                self.importer.detacher.detach_from(ino, row).await?;
                self.create_one(file).await
            }
        }
    }

    /// Puts the new version of an object under the name of the old one, which stays beside it if
    /// it was changed here. `false`: the name is free now, or was changed by somebody.
    async fn put_in_place_of(&self, there: &Inode, file: &NewObject) -> Result<bool> {
        let importer = &self.importer;
        if importer.detacher.has_changes(there) {
            if self.is_exported(there, file).await? {
                return Ok(true);
            }
            self.make_way(file.dir, &file.name, there, Some(&file.native.key)).await?;
            return Ok(false);
        }
        fail::fail_point!("engine::object-judged");
        let replaced = importer.meta.replace_object(there, file).await?;
        if let Some((new, gone)) = &replaced {
            let pinned = importer.pin_as(gone.ino, new.ino).await;
            // The doors must know of the new one whatever fails.
            importer.detacher.object_gone(&self.link, gone, (file.dir, &file.name)).await?;
            pinned?;
        }
        Ok(replaced.is_some())
    }

    /// Whether the object is what an export wrote, is writing, or wrote before a crash: it is for
    /// the export to say so.
    async fn is_exported(&self, there: &Inode, file: &NewObject) -> Result<bool> {
        fail::fail_point!("engine::object-met");
        let importer = &self.importer;
        let key = file.native.key.as_bytes();
        let node = importer.nodes.get(there.ino);
        // An export holds it from its PUT to its commit: none comes between these looks.
        let _object = node.object.lock().await;
        let row = importer.meta.object(self.link.id, key).await?;
        let is_row = |etag: Option<&str>, modified_ms| {
            row.as_ref().filter(|row| row.object.ino == Some(there.ino)).is_some_and(|row| {
                // A store without ETags tells by the time.
                match etag.is_some() {
                    true => is_same_etag(row.object.etag.as_deref(), etag),
                    false => row.object.modified_ms == modified_ms,
                }
            })
        };
        if is_row(file.native.etag.as_deref(), file.modified_ms) {
            return Ok(true);
        }
        if !self.link.exports() {
            return Ok(false);
        }
        if self.is_moved(there, &file.native.key).await? {
            return Ok(true);
        }
        let (info, metadata) =
            match self.bucket.head_attributes(Component::Link, &file.native.key).await {
                Ok(found) => found,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            };
        // Exported since it was listed, or written before a crash.
        Ok(is_row(info.etag.as_deref(), info.last_modified_unix_ms)
            || wrote(&importer.mirrors, there.ino, info.size, &metadata).await?)
    }

    /// Whether a rename of this file copied its object to this key, and a crash came before that
    /// was noted.
    async fn is_moved(&self, there: &Inode, to: &str) -> Result<bool> {
        let importer = &self.importer;
        let moved = |n: &&Native| n.link == self.link.id && !n.detached && n.key != to;
        let Some(native) = there.native.as_ref().filter(moved) else { return Ok(false) };
        if !importer.meta.is_to_export(self.link.id, there.ino).await? {
            return Ok(false);
        }
        Ok(importer.resolver.find_copy(native, to).await?.is_some())
    }

    /// An object that is known is gone from the bucket.
    pub(crate) async fn removed(&self, row: &ObjectRow) -> Result<()> {
        let importer = &self.importer;
        let named = match row.object.ino {
            Some(ino) => self.importer.resolver.name_of(&self.link, &row.key, ino).await?,
            None => None,
        };
        if let Some((dir, name, there)) = &named
            && row.object.etag == there.native.as_ref().and_then(|native| native.etag.clone())
            && !importer.detacher.has_changes(there)
        {
            fail::fail_point!("engine::object-judged");
            let (dir, object) = (*dir, (self.link.id, row.key.as_slice()));
            let gone = importer.meta.remove_object(dir, name, there, object, false).await;
            if let Some(gone) = gone? {
                importer.detacher.object_gone(&self.link, &gone, (dir, name)).await?;
                self.link.count(|view| view.removed += 1);
                return Ok(());
            }
        }
        if let Some(ino) = row.object.ino {
            importer.detacher.detach_from(ino, row).await?;
        }
        if !importer.meta.forget_object(self.link.id, &row.key, row.version).await? {
            // An export made it anew, or another import knows better.
            return Ok(());
        }
        fail::fail_point!("engine::object-forgotten");
        if let Some((dir, name, there)) = named.filter(|_| self.link.exports()) {
            // Changed here and deleted there: it becomes an object again.
            let named = ExportName { dir, name };
            importer.meta.export_soon(self.link.id, there.ino, Some(&named)).await?;
        }
        self.remove_marked(&row.key).await
    }

    /// Moves what has a name that an object is to have out of its way.
    /// `key`: of the object that is to have the name, if it is none of a directory.
    async fn make_way(
        &self,
        dir: Ino,
        name: &[u8],
        there: &Inode,
        key: Option<&str>,
    ) -> Result<()> {
        let importer = &self.importer;
        for nth in 0..100 {
            let beside = rule::conflict_name(name, importer.context.unix_ms(), nth);
            let mode = RenameMode::NoReplace;
            match importer.meta.rename(dir, name, dir, &beside, mode).await {
                Ok(renamed) if renamed.moved.ino == there.ino => {
                    fail::fail_point!("engine::way-made");
                    let at = String::from_utf8_lossy(&beside).into_owned();
                    tracing::warn!(link = %self.link.id, file = %at,
                        "changed here and in the bucket: the local version stays under this name");
                    self.link.state().conflicts += 1;
                    importer.detacher.promises.end_soon(there.ino);
                    importer.registry.name_changed(dir, name);
                    importer.registry.name_changed(dir, &beside);
                    // The object of the name that it had before, or of another link, is for the
                    // export of that to see to.
                    let other = |n: &Native| {
                        let has_another = key.is_some_and(|key| n.key != key);
                        let moved_here = self.link.exports() && has_another;
                        !n.detached && (n.link != self.link.id || moved_here)
                    };
                    if renamed.moved.native.as_ref().is_some_and(other) {
                        return Ok(());
                    }
                    return importer.detacher.detach(there.ino).await;
                }
                // Somebody was faster: look again.
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Exists => {}
                Err(error) => return Err(error),
            }
        }
        let text = format!("`{}`: too many conflicts at once", name.escape_ascii());
        Err(FsError::new(ErrorKind::Retry, text))
    }

    async fn hide(&self, object: &ListedObject, why: &str) -> Result<()> {
        let (importer, row) = (&self.importer, without_file(object));
        importer.meta.set_object(self.link.id, &object.key, Some(&row), Some(why)).await
    }

    async fn hide_file(&self, file: &NewObject, why: &str) -> Result<()> {
        let row = LinkObject {
            ino: None,
            removed: false,
            etag: file.native.etag.clone(),
            object_bytes: file.native.object_bytes,
            modified_ms: file.modified_ms,
        };
        let key = file.native.key.as_bytes();
        let importer = &self.importer;
        importer.meta.set_object(self.link.id, key, Some(&row), Some(why)).await
    }

    /// Subject objects are that do not say it: those of the link's directory.
    async fn owner_of_link(&self) -> Result<(u32, u32)> {
        let root = self.importer.meta.inode(self.link.ino()).await?;
        Ok((root.uid, root.gid))
    }

    async fn new_object(
        &self,
        dir: Ino,
        name: &str,
        object: &ListedObject,
        attributes: &Attributes,
    ) -> Result<NewObject> {
        let key = String::from_utf8(object.key.clone()).map_err(|_| bug("the key is no UTF-8"))?;
        let target = match attributes.kind {
            Some(FileKind::Symlink) if (1..=TARGET_BYTES_MAX).contains(&object.size) => {
                Some(self.bucket.get(Component::Link, &key).await?.to_vec())
            }
            _ => None,
        };
        let (uid, gid) = self.owner.get_or_try_init(|| self.owner_of_link()).await?;
        let kind = if target.is_some() { FileKind::Symlink } else { FileKind::Regular };
        let written = UnixTime(object.last_modified_unix_ms.saturating_mul(1_000_000));
        Ok(NewObject {
            dir,
            name: name.as_bytes().to_vec(),
            inode: NewInode {
                kind,
                mode: attributes.mode.unwrap_or(0o644),
                umask: None,
                uid: attributes.uid.unwrap_or(*uid),
                gid: attributes.gid.unwrap_or(*gid),
                rdev: 0,
                target,
            },
            mtime: attributes.mtime.unwrap_or(written),
            atime: attributes.atime,
            native: Native {
                link: self.link.id,
                key,
                etag: object.etag.clone(),
                object_bytes: object.size,
                end: if kind == FileKind::Symlink { 0 } else { object.size },
                changed: false,
                lost: false,
                detached: false,
                exports: self.link.exports(),
                unlisted: false,
            },
            modified_ms: object.last_modified_unix_ms,
        })
    }
}

fn without_file(object: &ListedObject) -> LinkObject {
    LinkObject {
        etag: object.etag.clone(),
        object_bytes: object.size,
        modified_ms: object.last_modified_unix_ms,
        ..nothing()
    }
}

/// The row of a directory that is no object.
fn nothing() -> LinkObject {
    LinkObject { ino: None, removed: false, etag: None, object_bytes: 0, modified_ms: 0 }
}

/// Whether an inode is the file of this object.
fn is_of(inode: &Inode, native: &Native) -> bool {
    let of = |have: &Native| have.link == native.link && have.key == native.key && !have.detached;
    inode.native.as_ref().is_some_and(of)
}

fn bug(why: &str) -> FsError {
    FsError::new(ErrorKind::Bug, format!("an object was to be a file: {why}"))
}

impl Importer {
    /// A file came in the place of another one: it is pinned if that was.
    pub(crate) async fn pin_as(&self, old: Ino, new: Ino) -> Result<()> {
        if self.space.pins.has(old) {
            let done = self.meta.set_pins(&[new], true).await?;
            self.space.pins.set(&done, true);
        }
        Ok(())
    }
}
