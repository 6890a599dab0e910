//! Where the file of an object is.

use weir_meta::NAME_BYTES_MAX;
use weir_types::{ErrorKind, FileKind, Ino, Inode, Result};

use crate::services::links::parts::Links;
use crate::services::links::registry::Link;
use crate::services::links::rule::{BESIDE_DIRECTORY, Place, place};

impl Links {
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
    pub(super) async fn walk(&self, link: &Link, path: &[&str]) -> Result<Option<Ino>> {
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
}
