//! Directories of a link: made for the objects below them, with the attributes of their markers.

use weir_meta::{LinkObject, NewInode, NewObject, RenameMode, SetAttr};
use weir_object::ListedObject;
use weir_types::{ErrorKind, FileKind, FsError, Ino, Inode, Native, Result};

use super::{Import, TRIES, nothing, without_file};
use crate::services::links::attributes::Attributes;
use crate::services::links::rule::{BESIDE_DIRECTORY, Place, place};

/// Directories remembered.
const DIRS_MAX: usize = 10_000;

impl Import {
    /// The directory of this path below the link, made where it is missing.
    pub(super) async fn directory(&self, parts: &[&str]) -> Result<Ino> {
        let path = parts.join("/");
        let known = self.dirs.lock().get(&path).copied();
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
        let mut dirs = self.dirs.lock();
        if dirs.len() >= DIRS_MAX {
            dirs.clear();
        }
        dirs.insert(path, dir);
        Ok(dir)
    }

    /// The directory of this path in `dir`.
    pub(super) async fn subdirectory(&self, dir: Ino, path: &[&str]) -> Result<Ino> {
        let importer = &self.importer;
        let name = path.last().copied().unwrap_or_default().as_bytes();
        for _ in 0..TRIES {
            match self.importer.resolver.entry(dir, name).await? {
                Some(there) if there.kind == FileKind::Directory => return Ok(there.ino),
                Some(there) => self.step_aside(dir, name, &there).await?,
                None if self.link.is_lazy() => {
                    // Its other names are for whoever looks into it.
                    let new = self.new_directory(dir, path, &Attributes::default()).await?;
                    importer.meta.create_objects(&[new]).await?;
                    self.names_added(dir);
                }
                None => {
                    let above = importer.meta.inode(dir).await?;
                    let (uid, gid) = (above.uid, above.gid);
                    let mode = above.mode & 0o777;
                    let new = NewInode {
                        kind: FileKind::Directory,
                        mode,
                        umask: None,
                        uid,
                        gid,
                        rdev: 0,
                        target: None,
                    };
                    match importer.meta.create(dir, name, new).await {
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
    pub(in crate::services::links) async fn create_directories(
        &self,
        keys: &[String],
    ) -> Result<Vec<String>> {
        let importer = &self.importer;
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
            let inode = importer.meta.inode(self.directory(path).await?).await?;
            let row = LinkObject { ino: Some(inode.ino), ..nothing() };
            let row =
                importer.meta.set_object(self.link.id, key.as_bytes(), Some(&row), None).await;
            row?;
            if !inode.native.is_some_and(|native| native.unlisted) {
                listed.push(key.clone());
            }
        }
        Ok(listed)
    }

    /// A directory into which nobody looked yet.
    pub(super) async fn new_directory(
        &self,
        dir: Ino,
        path: &[&str],
        attributes: &Attributes,
    ) -> Result<NewObject> {
        let above = self.importer.meta.inode(dir).await?;
        let (key, exports) = (path.join("/") + "/", self.link.exports());
        Ok(NewObject {
            dir,
            name: path.last().copied().unwrap_or_default().as_bytes().to_vec(),
            inode: NewInode {
                kind: FileKind::Directory,
                mode: attributes.mode.unwrap_or(above.mode & 0o777),
                umask: None,
                uid: attributes.uid.unwrap_or(above.uid),
                gid: attributes.gid.unwrap_or(above.gid),
                rdev: 0,
                target: None,
            },
            mtime: attributes.mtime.unwrap_or_else(|| self.importer.context.now()),
            atime: None,
            native: Native::directory(self.link.id, key, exports, true),
            modified_ms: 0,
        })
    }

    /// A directory is to have the name of a file: an object's stands beside it.
    pub(super) async fn step_aside(&self, dir: Ino, name: &[u8], there: &Inode) -> Result<()> {
        let importer = &self.importer;
        let beside = [name, BESIDE_DIRECTORY.as_bytes()].concat();
        let ours = there.native.as_ref().is_some_and(|n| n.link == self.link.id && !n.detached);
        if !ours || beside.len() > weir_meta::NAME_BYTES_MAX {
            return self.make_way(dir, name, there, None).await;
        }
        match importer.meta.rename(dir, name, dir, &beside, RenameMode::NoReplace).await {
            Ok(_) => {
                importer.registry.name_changed(dir, name);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Exists => {
                self.make_way(dir, name, there, None).await
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A key that ends with a slash: a directory with attributes, maybe empty.
    pub(super) async fn make_marked(
        &self,
        dirs: &[&str],
        object: &ListedObject,
        attributes: &Attributes,
    ) -> Result<()> {
        let importer = &self.importer;
        let ino = self.directory(dirs).await?;
        if !attributes.is_empty() {
            let Attributes { mode, uid, gid, mtime, .. } = *attributes;
            let set = SetAttr { mode, uid, gid, mtime, ..SetAttr::default() };
            importer.meta.setattr(ino, set).await?;
        }
        let why = (object.size > 0).then_some("it marks a directory, so its bytes cannot show");
        let row = LinkObject { ino: self.link.is_lazy().then_some(ino), ..without_file(object) };
        importer.meta.set_object(self.link.id, &object.key, Some(&row), why).await
    }

    /// The marker of a directory is gone: so is the directory, if it is empty.
    pub(super) async fn remove_marked(&self, key: &[u8]) -> Result<()> {
        let Ok(Place::Directory { dirs }) = place(key) else { return Ok(()) };
        let Some((name, above)) = dirs.split_last() else { return Ok(()) };
        let importer = &self.importer;
        let dir = match importer.resolver.walk(&self.link, above).await? {
            Some(dir) => dir,
            None => return Ok(()),
        };
        self.remove_directory(dir, name.as_bytes()).await
    }

    /// Removes a directory, if it is empty.
    pub(in crate::services::links) async fn remove_directory(
        &self,
        dir: Ino,
        name: &[u8],
    ) -> Result<()> {
        let importer = &self.importer;
        match importer.meta.rmdir(dir, name).await {
            Ok(gone) => {
                self.dirs.lock().clear();
                importer.nodes.name_gone(&gone);
                importer.registry.name_changed(dir, name);
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
    pub(in crate::services::links) async fn directory_of(
        &self,
        key: &[u8],
        ino: Ino,
    ) -> Result<Option<(Ino, Vec<u8>)>> {
        let Ok(Place::Directory { dirs }) = place(key) else { return Ok(None) };
        let Some((name, above)) = dirs.split_last() else { return Ok(None) };
        let Some(dir) = self.importer.resolver.walk(&self.link, above).await? else {
            return Ok(None);
        };
        let there = self.importer.resolver.entry(dir, name.as_bytes()).await?;
        Ok(there.filter(|there| there.ino == ino).map(|_| (dir, name.as_bytes().to_vec())))
    }

    /// None of the objects below this key can show.
    pub(in crate::services::links) async fn hide_directory(
        &self,
        key: &[u8],
        why: &str,
    ) -> Result<()> {
        let importer = &self.importer;
        importer.meta.set_object(self.link.id, key, Some(&nothing()), Some(why)).await
    }
}
