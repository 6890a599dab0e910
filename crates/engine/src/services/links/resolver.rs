//! Where files and objects are: links by inodes, files by keys, keys by names.

use std::sync::Arc;

use weir_meta::{ExportName, Meta, NAME_BYTES_MAX};
use weir_object::{Component, ObjectInfo};
use weir_types::{ErrorKind, FileKind, Ino, Inode, Native, Result};

use super::registry::{Link, Registry};
use super::rule::{self, BESIDE_DIRECTORY, Place, place};

/// Entries read at once.
const PAGE: usize = 1_000;

/// Finds links, files and keys by what is known of them.
pub(crate) struct Resolver {
    pub(crate) meta: Arc<Meta>,
    pub(crate) registry: Arc<Registry>,
}

impl Resolver {
    /// The link that a file belongs to: that of its object, or of its directory. One read.
    pub(crate) async fn link_of(&self, inode: &Inode) -> Result<Option<Arc<Link>>> {
        if self.registry.is_empty() {
            return Ok(None);
        }
        if let Some(native) = inode.native.as_ref().filter(|native| !native.detached) {
            return Ok(self.registry.get(native.link).ok());
        }
        let above = match self.meta.inode(inode.parent).await {
            Ok(above) => above.native,
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(above.and_then(|native| self.registry.get(native.link).ok()))
    }

    /// The link that a file in `dir` lies in; of one with several names, or outside of links, the
    /// one that it belongs to. The directory that its inode names may be that of a name that went.
    /// One read for each directory above.
    pub(crate) async fn link_where_it_is(
        &self,
        inode: &Inode,
        dir: Ino,
    ) -> Result<Option<Arc<Link>>> {
        let mut at = dir;
        while inode.nlink == 1 && !self.registry.is_empty() {
            if let Ok(link) = self.registry.at(at) {
                return Ok(Some(link));
            }
            if at == Ino::ROOT {
                break;
            }
            at = self.meta.parent(at).await?;
        }
        self.link_of(inode).await
    }

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

    /// The file that has the name that an import would give this object.
    pub(crate) async fn named_as(&self, link: &Link, key: &[u8]) -> Result<Option<Ino>> {
        let Ok(Place::File { dirs, name }) = place(key) else { return Ok(None) };
        let Some(dir) = self.walk(link, &dirs).await? else { return Ok(None) };
        let found = self.entry(dir, name.as_bytes()).await?;
        Ok(found.filter(|inode| inode.kind != FileKind::Directory).map(|inode| inode.ino))
    }

    /// Whether a name that an object may have leads to a file that is an object of another link.
    pub(crate) async fn is_kept_by_name(&self, link: &Link, key: &[u8]) -> Result<bool> {
        let Ok(Place::File { dirs, name }) = place(key) else { return Ok(false) };
        let Some(dir) = self.walk(link, &dirs).await? else { return Ok(false) };
        for name in [name.as_bytes().to_vec(), [name, BESIDE_DIRECTORY].concat().into_bytes()] {
            let inode = self.entry(dir, &name).await?;
            let file = inode.filter(|inode| inode.kind != FileKind::Directory);
            let native = file.and_then(|inode| inode.native);
            if native.is_some_and(|native| native.link != link.id && !native.detached) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The directory of this path below a link, if there is one.
    pub(crate) async fn walk(&self, link: &Link, path: &[&str]) -> Result<Option<Ino>> {
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
        if name.len() > NAME_BYTES_MAX {
            // That of an object beside a directory may be longer than a name can be.
            return Ok(None);
        }
        match self.meta.lookup(dir, name).await {
            Ok(inode) => Ok(Some(inode)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The key that a file is to have, if it can have one. One that stands beside a directory of
    /// its name keeps its own.
    pub(crate) async fn key_of(
        &self,
        link: &Link,
        inode: &Inode,
        above: &Native,
        (dir, name): (Ino, &[u8]),
    ) -> Result<Option<String>> {
        if let Some(native) = &inode.native
            && name.ends_with(rule::BESIDE_DIRECTORY.as_bytes())
            && let Some((own_dir, own, _)) =
                self.name_of(link, native.key.as_bytes(), inode.ino).await?
            && (own_dir, own.as_slice()) == (dir, name)
        {
            return Ok(Some(native.key.clone()));
        }
        Ok(rule::child_key(above, name))
    }

    /// Where a file is: where its object says, as long as it has that name, else where it got a new
    /// one. `None`: it may have others.
    pub(crate) async fn place_of(
        &self,
        link: &Link,
        inode: &Inode,
        named: Option<&ExportName>,
    ) -> Result<Option<(Ino, Vec<u8>)>> {
        let native = inode.native.as_ref().filter(|_| inode.kind != FileKind::Directory);
        if let Some(native) = native.filter(|n| n.link == link.id && !n.detached)
            && let Some((dir, name, _)) =
                self.name_of(link, native.key.as_bytes(), inode.ino).await?
        {
            return Ok(Some((dir, name)));
        }
        if let Some(ExportName { dir, name }) = named
            && let Some(there) = self.entry(*dir, name).await?
            && there.ino == inode.ino
        {
            return Ok(Some((*dir, name.clone())));
        }
        Ok(None)
    }

    /// Whether a directory is the link's own or below it.
    pub(crate) async fn is_below(&self, link: &Link, mut dir: Ino) -> Result<bool> {
        while dir != link.ino() {
            if dir == Ino::ROOT {
                return Ok(false);
            }
            match self.meta.parent(dir).await {
                Ok(above) => dir = above,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Where a directory is in the link, if it is and its path can be a key. What its inode says may
    /// be where it was: only links that export keep that up to date.
    pub(crate) async fn placed_now(&self, link: &Link, dir: Ino) -> Result<Option<Native>> {
        let (mut at, mut names) = (dir, Vec::new());
        while at != link.ino() {
            if at == Ino::ROOT {
                return Ok(None);
            }
            let above = self.meta.parent(at).await?;
            let name = self.name_in(above, at).await?;
            let Some(name) = name.and_then(|name| String::from_utf8(name).ok()) else {
                return Ok(None);
            };
            names.push(name + "/");
            at = above;
        }
        let key = names.iter().rev().map(String::as_str).collect();
        Ok(Some(Native::directory(link.id, key, link.exports(), false)))
    }

    /// The name of a directory in the one above it. One read, mostly.
    pub(crate) async fn name_in(&self, above: Ino, dir: Ino) -> Result<Option<Vec<u8>>> {
        let key = self.meta.inode(dir).await?.native.map_or_else(String::new, |native| native.key);
        let last = key.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if !last.is_empty()
            && self.entry(above, last.as_bytes()).await?.is_some_and(|there| there.ino == dir)
        {
            return Ok(Some(last.into()));
        }
        let mut cookie = 0;
        loop {
            let page = self.meta.readdir(above, cookie, PAGE).await?;
            let Some(last) = page.last() else { return Ok(None) };
            cookie = last.cookie;
            if let Some(found) = page.into_iter().find(|entry| entry.ino == dir) {
                return Ok(Some(found.name));
            }
        }
    }

    pub(crate) async fn lazy_directory(&self, dir: Ino) -> Result<Option<(Arc<Link>, Native)>> {
        let inode = self.meta.inode(dir).await?;
        let native = inode.native.filter(|_| inode.kind == FileKind::Directory);
        let Some(native) = native else { return Ok(None) };
        // A directory may outlive its link.
        let link = self.registry.get(native.link).ok().filter(|link| link.is_lazy());
        Ok(link.map(|link| (link, native)))
    }

    pub(crate) async fn inode_if_there(&self, ino: Ino) -> Result<Option<Inode>> {
        match self.meta.inode(ino).await {
            Ok(inode) => Ok(Some(inode).filter(|inode| inode.nlink > 0)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The copy of a file's object at this key, if one is there.
    pub(crate) async fn find_copy(&self, native: &Native, to: &str) -> Result<Option<ObjectInfo>> {
        let bucket = self.registry.bucket(native.link)?;
        let (from, etag) = (native.key.as_str(), native.etag.as_deref());
        bucket.find_copy(Component::Link, from, etag, to).await
    }
}
