//! What an import does about each difference.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::OnceCell;
use weir_meta::{ExportName, LinkObject, NewInode, NewObject, ObjectRow, RenameMode, SetAttr};
use weir_object::{Bucket, Component, ListedObject, is_addressable};
use weir_types::{ErrorKind, FileKind, FsError, Ino, Inode, Native, Result, UnixTime};

use super::attributes::Attributes;
use super::registry::Link;
use super::rule::{self, BESIDE_DIRECTORY, Place, place};
use super::{Attributes as Ask, Policy};
use crate::engine::Core;

/// HEADs in flight at once.
const HEADS: usize = 32;
/// Objects looked at to learn whether any have attributes.
const SAMPLE: usize = 32;
/// Directories remembered.
const DIRS_MAX: usize = 10_000;
/// Tries to get a name that others change at the same time.
const TRIES: usize = 10;
/// A symlink's object holds its target.
const TARGET_BYTES_MAX: u64 = weir_meta::TARGET_BYTES_MAX as u64;

/// One import under way.
pub(crate) struct Import {
    pub(crate) core: Arc<Core>,
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
}

impl Import {
    pub(crate) fn new(
        core: Arc<Core>,
        link: Arc<Link>,
        policy: Policy,
        before: u64,
    ) -> Result<Self> {
        let bucket = core.links.bucket(link.id)?;
        let (dirs, owner) = (Mutex::default(), OnceCell::new());
        Ok(Self { core, link, bucket, policy, before, dirs, directory: None, owner })
    }

    /// An import of the names in this directory only, whose key ends with a slash or is empty.
    pub(super) fn of_directory(self, key: &str, ino: Ino) -> Self {
        let path = key.trim_end_matches('/').to_owned();
        Self { directory: Some((path, ino)), ..self }
    }

    pub(super) fn is_of_directory(&self) -> bool {
        self.directory.is_some()
    }

    fn names_added(&self, dir: Ino) {
        if !self.is_of_directory() {
            self.core.links.names_added(dir);
        }
    }

    pub(crate) async fn finish(&self) -> Result<()> {
        self.core.tell_doors().await;
        self.core.seen(self.core.meta.sync().await)
    }

    /// Makes files of objects that are not known yet.
    pub(crate) async fn create(&self, objects: &[ListedObject]) -> Result<()> {
        let known = self.attributes_of(objects).await?;
        let mut files = Vec::with_capacity(objects.len());
        for object in objects {
            let attributes = known.get(&object.key).copied().unwrap_or_default();
            match place(&object.key) {
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
        let created = match self.core.seen(self.core.meta.create_objects(new).await) {
            Ok(created) => created.is_some(),
            // A directory that was remembered is gone.
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        if !created {
            self.dirs.lock().unwrap_or_else(|e| e.into_inner()).clear();
        }
        new.iter().for_each(|made| self.names_added(made.dir));
        Ok(created)
    }

    /// Makes one file, whatever has its name.
    async fn create_one(&self, mut file: NewObject) -> Result<()> {
        let meta = &self.core.meta;
        for _ in 0..TRIES {
            let Place::File { dirs, .. } = place(file.native.key.as_bytes()).map_err(bug)? else {
                return Ok(());
            };
            file.dir = self.directory(&dirs).await?;
            let Some(there) = self.core.entry(file.dir, &file.name).await? else {
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
                self.make_way(file.dir, &file.name, &there).await?;
            }
        }
        let text = format!("{}: its name changes too often", file.native.key);
        Err(FsError::new(ErrorKind::Retry, text))
    }

    /// An object that is known is another now.
    pub(crate) async fn changed(&self, object: &ListedObject, row: &ObjectRow) -> Result<()> {
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
                let core = &self.core;
                core.seen(core.meta.set_object(self.link.id, &row.key, known, None).await)?;
            }
            return self.create_one(file).await;
        };
        match self.core.name_of(&self.link, &object.key, ino).await? {
            Some((dir, name, there)) => {
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
            None => {
                // It was renamed here: that file keeps what it has of the old object.
                self.core.detach(ino).await?;
                self.create_one(file).await
            }
        }
    }

    /// Puts the new version of an object under the name of the old one, which stays beside it if
    /// it was changed here. `false`: the name is free now, or was changed by somebody.
    async fn put_in_place_of(&self, there: &Inode, file: &NewObject) -> Result<bool> {
        let core = &self.core;
        if core.has_changes(there) {
            if self.is_exported(there, file).await? {
                return Ok(true);
            }
            self.make_way(file.dir, &file.name, there).await?;
            return Ok(false);
        }
        let replaced = core.seen(core.meta.replace_object(there.ino, file).await)?;
        if let Some((new, gone)) = &replaced {
            core.pin_as(gone.ino, new.ino).await?;
            core.object_gone(&self.link, gone, (file.dir, &file.name)).await?;
        }
        Ok(replaced.is_some())
    }

    /// Whether the object is what an export wrote, is writing, or wrote before a crash: it is for
    /// the export to say so.
    async fn is_exported(&self, there: &Inode, file: &NewObject) -> Result<bool> {
        let core = &self.core;
        let key = file.native.key.as_bytes();
        {
            // An export holds it from its PUT to its commit.
            let node = core.nodes.get(there.ino);
            let _change = node.change.lock().await;
        }
        let row = core.seen(core.meta.object(self.link.id, key).await)?;
        if row.is_some_and(|row| {
            row.object.ino == Some(there.ino) && row.object.etag == file.native.etag
        }) {
            return Ok(true);
        }
        if !self.link.exports() {
            return Ok(false);
        }
        match self.bucket.head_attributes(Component::Link, &file.native.key).await {
            Ok((info, metadata)) => Ok(core.wrote(there, info.size, &metadata)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// An object that is known is gone from the bucket.
    pub(crate) async fn removed(&self, row: &ObjectRow) -> Result<()> {
        let core = &self.core;
        let named = match row.object.ino {
            Some(ino) => self.core.name_of(&self.link, &row.key, ino).await?,
            None => None,
        };
        if let Some((dir, name, there)) = &named
            && !core.has_changes(there)
        {
            let (dir, object) = (*dir, (self.link.id, row.key.as_slice()));
            let gone = core.meta.remove_object(dir, name, there.ino, object).await;
            if let Some(gone) = core.seen(gone)? {
                core.object_gone(&self.link, &gone, (dir, name)).await?;
                self.link.count(|view| view.removed += 1);
                return Ok(());
            }
        }
        if let Some(ino) = row.object.ino {
            core.detach(ino).await?;
        }
        core.seen(core.meta.set_object(self.link.id, &row.key, None, None).await)?;
        if let Some((dir, name, there)) = named.filter(|_| self.link.exports()) {
            // Changed here and deleted there: it becomes an object again.
            let named = ExportName { dir, name };
            core.seen(core.meta.export_soon(self.link.id, there.ino, &named).await)?;
        }
        self.remove_marked(&row.key).await
    }

    /// Moves what has a name that an object is to have out of its way.
    async fn make_way(&self, dir: Ino, name: &[u8], there: &Inode) -> Result<()> {
        let core = &self.core;
        for nth in 0..100 {
            let beside = rule::conflict_name(name, core.unix_ms(), nth);
            let mode = RenameMode::NoReplace;
            match core.seen(core.meta.rename(dir, name, dir, &beside, mode).await) {
                Ok(renamed) if renamed.moved.ino == there.ino => {
                    let at = String::from_utf8_lossy(&beside).into_owned();
                    tracing::warn!(link = %self.link.id, file = %at,
                        "changed here and in the bucket: the local version stays under this name");
                    self.link.state().conflicts += 1;
                    core.links.name_changed(dir, name);
                    core.links.name_changed(dir, &beside);
                    return core.detach(there.ino).await;
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

    /// The directory of this path below the link, made where it is missing.
    async fn directory(&self, parts: &[&str]) -> Result<Ino> {
        let path = parts.join("/");
        let known = self.dirs.lock().unwrap_or_else(|e| e.into_inner()).get(&path).copied();
        if let Some(ino) = known {
            return Ok(ino);
        }
        let (mut dir, mut from) = (self.link.ino(), 0);
        if let Some((place, ino)) = &self.directory
            && let Some(below) = path.strip_prefix(place.as_str())
            && (below.is_empty() || below.starts_with('/') || place.is_empty())
        {
            (dir, from) = (*ino, place.split('/').filter(|part| !part.is_empty()).count());
        }
        for upto in from..parts.len() {
            dir = self.subdirectory(dir, &parts[..=upto]).await?;
        }
        let mut dirs = self.dirs.lock().unwrap_or_else(|e| e.into_inner());
        if dirs.len() >= DIRS_MAX {
            dirs.clear();
        }
        dirs.insert(path, dir);
        Ok(dir)
    }

    /// The directory of this path in `dir`.
    async fn subdirectory(&self, dir: Ino, path: &[&str]) -> Result<Ino> {
        let core = &self.core;
        let name = path.last().copied().unwrap_or_default().as_bytes();
        for _ in 0..TRIES {
            match self.core.entry(dir, name).await? {
                Some(there) if there.kind == FileKind::Directory => return Ok(there.ino),
                Some(there) => self.step_aside(dir, name, &there).await?,
                None if self.link.is_lazy() => {
                    // Its other names are for whoever looks into it.
                    let new = self.new_directory(dir, path, &Attributes::default()).await?;
                    core.seen(core.meta.create_objects(&[new]).await)?;
                    self.names_added(dir);
                }
                None => {
                    let above = core.stored(dir).await?;
                    let (uid, gid) = (above.uid, above.gid);
                    let mode = above.mode & 0o777;
                    let new = NewInode {
                        kind: FileKind::Directory,
                        mode,
                        uid,
                        gid,
                        rdev: 0,
                        target: None,
                    };
                    match core.seen(core.meta.create(dir, name, new).await) {
                        Ok(made) => {
                            self.names_added(dir);
                            return Ok(made.ino);
                        }
                        Err(error) if error.kind() == ErrorKind::Exists => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        let text = format!("directory `{}`: its name changes too often", name.escape_ascii());
        Err(FsError::new(ErrorKind::Retry, text))
    }

    /// Makes directories of a lazy link. Answers those that were there and are listed: what the
    /// bucket has in them is to be compared.
    pub(super) async fn create_directories(&self, keys: &[String]) -> Result<Vec<String>> {
        let core = &self.core;
        let paths = keys.iter().map(|key| key.trim_end_matches('/').split('/').collect());
        let paths: Vec<Vec<&str>> = paths.collect();
        let mut new = Vec::with_capacity(keys.len());
        let marked = self.attributes_of_directories(keys).await?;
        for (path, key) in paths.iter().zip(keys) {
            let dir = self.directory(&path[..path.len() - 1]).await?;
            let attributes = marked.get(key.as_bytes()).copied().unwrap_or_default();
            new.push(self.new_directory(dir, path, &attributes).await?);
        }
        if self.create_all(&new).await? {
            return Ok(Vec::new());
        }
        let mut listed = Vec::new();
        for (path, key) in paths.iter().zip(keys) {
            let inode = core.stored(self.directory(path).await?).await?;
            let row = LinkObject { ino: Some(inode.ino), ..nothing() };
            let row = core.meta.set_object(self.link.id, key.as_bytes(), Some(&row), None).await;
            core.seen(row)?;
            if !inode.native.is_some_and(|native| native.unlisted) {
                listed.push(key.clone());
            }
        }
        Ok(listed)
    }

    /// A directory into which nobody looked yet.
    async fn new_directory(
        &self,
        dir: Ino,
        path: &[&str],
        attributes: &Attributes,
    ) -> Result<NewObject> {
        let above = self.core.stored(dir).await?;
        let (key, exports) = (path.join("/") + "/", self.link.exports());
        Ok(NewObject {
            dir,
            name: path.last().copied().unwrap_or_default().as_bytes().to_vec(),
            inode: NewInode {
                kind: FileKind::Directory,
                mode: attributes.mode.unwrap_or(above.mode & 0o777),
                uid: attributes.uid.unwrap_or(above.uid),
                gid: attributes.gid.unwrap_or(above.gid),
                rdev: 0,
                target: None,
            },
            mtime: attributes.mtime.unwrap_or_else(|| self.core.now()),
            atime: None,
            native: Native::directory(self.link.id, key, exports, true),
            modified_ms: 0,
        })
    }

    /// A directory is to have the name of a file: an object's stands beside it.
    async fn step_aside(&self, dir: Ino, name: &[u8], there: &Inode) -> Result<()> {
        let core = &self.core;
        let beside = [name, BESIDE_DIRECTORY.as_bytes()].concat();
        let ours = there.native.as_ref().is_some_and(|n| n.link == self.link.id && !n.detached);
        if !ours || beside.len() > weir_meta::NAME_BYTES_MAX {
            return self.make_way(dir, name, there).await;
        }
        match core.seen(core.meta.rename(dir, name, dir, &beside, RenameMode::NoReplace).await) {
            Ok(_) => {
                core.links.name_changed(dir, name);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Exists => {
                self.make_way(dir, name, there).await
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A key that ends with a slash: a directory with attributes, maybe empty.
    async fn make_marked(
        &self,
        dirs: &[&str],
        object: &ListedObject,
        attributes: &Attributes,
    ) -> Result<()> {
        let core = &self.core;
        let ino = self.directory(dirs).await?;
        if !attributes.is_empty() {
            let Attributes { mode, uid, gid, mtime, .. } = *attributes;
            let set = SetAttr { mode, uid, gid, mtime, ..SetAttr::default() };
            core.seen(core.meta.setattr(ino, set).await)?;
        }
        let why = (object.size > 0).then_some("it marks a directory, so its bytes cannot show");
        let row = LinkObject { ino: self.link.is_lazy().then_some(ino), ..without_file(object) };
        core.seen(core.meta.set_object(self.link.id, &object.key, Some(&row), why).await)
    }

    /// The marker of a directory is gone: so is the directory, if it is empty.
    async fn remove_marked(&self, key: &[u8]) -> Result<()> {
        let Ok(Place::Directory { dirs }) = place(key) else { return Ok(()) };
        let Some((name, above)) = dirs.split_last() else { return Ok(()) };
        let core = &self.core;
        let dir = match core.walk(&self.link, above).await? {
            Some(dir) => dir,
            None => return Ok(()),
        };
        self.remove_directory(dir, name.as_bytes()).await
    }

    /// Removes a directory, if it is empty.
    pub(super) async fn remove_directory(&self, dir: Ino, name: &[u8]) -> Result<()> {
        let core = &self.core;
        match core.seen(core.meta.rmdir(dir, name).await) {
            Ok(gone) => {
                self.dirs.lock().unwrap_or_else(|e| e.into_inner()).clear();
                core.name_gone(&gone);
                core.links.name_changed(dir, name);
                Ok(())
            }
            // It has other entries, or somebody removed it.
            Err(error) if matches!(error.kind(), ErrorKind::NotEmpty | ErrorKind::NotFound) => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Where the directory of this key is, if it is where an import puts it.
    pub(super) async fn directory_of(
        &self,
        key: &[u8],
        ino: Ino,
    ) -> Result<Option<(Ino, Vec<u8>)>> {
        let Ok(Place::Directory { dirs }) = place(key) else { return Ok(None) };
        let Some((name, above)) = dirs.split_last() else { return Ok(None) };
        let Some(dir) = self.core.walk(&self.link, above).await? else { return Ok(None) };
        let there = self.core.entry(dir, name.as_bytes()).await?;
        Ok(there.filter(|there| there.ino == ino).map(|_| (dir, name.as_bytes().to_vec())))
    }

    /// None of the objects below this key can show.
    pub(super) async fn hide_directory(&self, key: &[u8], why: &str) -> Result<()> {
        let core = &self.core;
        core.seen(core.meta.set_object(self.link.id, key, Some(&nothing()), Some(why)).await)
    }

    async fn hide(&self, object: &ListedObject, why: &str) -> Result<()> {
        let (core, row) = (&self.core, without_file(object));
        core.seen(core.meta.set_object(self.link.id, &object.key, Some(&row), Some(why)).await)
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
        let core = &self.core;
        core.seen(core.meta.set_object(self.link.id, key, Some(&row), Some(why)).await)
    }

    /// Whose objects are that do not say it: those of the link's directory.
    async fn owner_of_link(&self) -> Result<(u32, u32)> {
        let root = self.core.stored(self.link.ino()).await?;
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

    /// The attributes of those of these objects that have any, if they are asked for.
    async fn attributes_of(
        &self,
        objects: &[ListedObject],
    ) -> Result<BTreeMap<Vec<u8>, Attributes>> {
        let keys: Vec<_> = objects.iter().map(|object| object.key.as_slice()).collect();
        let known = self.link.sampled().asks;
        let asks = match (self.link.attributes(), known) {
            (Ask::Always, _) => true,
            (Ask::Never, _) => false,
            (Ask::Auto, Some(asks)) => asks,
            (Ask::Auto, None) => {
                let step = objects.len().div_ceil(SAMPLE).max(1);
                let some: Vec<_> = keys.iter().copied().step_by(step).collect();
                let asks = !self.heads(&some).await?.is_empty();
                let mut sampled = self.link.sampled();
                sampled.objects += some.len();
                // Too few say nothing of the rest.
                if sampled.objects >= SAMPLE || asks {
                    sampled.asks = Some(asks);
                }
                asks
            }
        };
        match asks {
            true => self.heads(&keys).await,
            false => Ok(BTreeMap::new()),
        }
    }

    /// Those that directories of a lazy link have by their markers: whoever sees a directory is to
    /// see whom it is for, before anybody looked into it.
    async fn attributes_of_directories(
        &self,
        keys: &[String],
    ) -> Result<BTreeMap<Vec<u8>, Attributes>> {
        let asks = match self.link.attributes() {
            Ask::Always => true,
            Ask::Never => false,
            Ask::Auto => self.link.sampled().asks == Some(true),
        };
        let keys = keys.iter().map(String::as_bytes).filter(|_| asks);
        self.heads(&keys.collect::<Vec<_>>()).await
    }

    async fn heads(&self, keys: &[&[u8]]) -> Result<BTreeMap<Vec<u8>, Attributes>> {
        let can = |key: &[u8]| {
            is_addressable(key.strip_suffix(b"/").unwrap_or(key)) && place(key).is_ok()
        };
        let shown = keys.iter().filter(|key| can(key));
        let keys: Vec<_> = shown.filter_map(|key| String::from_utf8(key.to_vec()).ok()).collect();
        let heads = stream::iter(keys).map(|key| {
            let bucket = self.bucket.clone();
            async move {
                match bucket.head_attributes(Component::Link, &key).await {
                    Ok((_, metadata)) => Ok(Some((key.into_bytes(), Attributes::read(&metadata)))),
                    // It went since it was listed.
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(error),
                }
            }
            .boxed()
        });
        let found: Vec<_> = heads.buffer_unordered(HEADS).try_collect().await?;
        Ok(found.into_iter().flatten().filter(|(_, found)| !found.is_empty()).collect())
    }
}

impl Core {
    /// Where the file of an object is, if it is still where an import puts it.
    pub(crate) async fn name_of(
        &self,
        link: &Link,
        key: &[u8],
        ino: Ino,
    ) -> Result<Option<(Ino, Vec<u8>, Inode)>> {
        let Ok(Place::File { dirs, name }) = place(key) else { return Ok(None) };
        let Some(dir) = self.walk(link, &dirs).await? else { return Ok(None) };
        for name in [name.as_bytes().to_vec(), [name, BESIDE_DIRECTORY].concat().into_bytes()] {
            if let Some(inode) = self.entry(dir, &name).await?.filter(|inode| inode.ino == ino) {
                return Ok(Some((dir, name, inode)));
            }
        }
        Ok(None)
    }

    /// Whether a file has the name that an import would give this object.
    pub(crate) async fn has_name(&self, link: &Link, key: &[u8]) -> Result<bool> {
        let Ok(Place::File { dirs, name }) = place(key) else { return Ok(false) };
        let Some(dir) = self.walk(link, &dirs).await? else { return Ok(false) };
        let found = self.entry(dir, name.as_bytes()).await?;
        Ok(found.is_some_and(|inode| inode.kind != FileKind::Directory))
    }

    /// The directory of this path below a link, if there is one.
    async fn walk(&self, link: &Link, path: &[&str]) -> Result<Option<Ino>> {
        let mut dir = link.ino();
        for part in path {
            match self.entry(dir, part.as_bytes()).await? {
                Some(inode) if inode.kind == FileKind::Directory => dir = inode.ino,
                _ => return Ok(None),
            }
        }
        Ok(Some(dir))
    }

    /// What a name leads to, if anything.
    pub(crate) async fn entry(&self, dir: Ino, name: &[u8]) -> Result<Option<Inode>> {
        match self.seen(self.meta.lookup(dir, name).await) {
            Ok(inode) => Ok(Some(inode)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
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
