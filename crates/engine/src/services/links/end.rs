//! The end of a link.

use std::sync::Arc;

use weir_meta::DirEntryPlus;
use weir_types::{ErrorKind, FileKind, FsError, Ino, Inode, Result};

use super::parts::Links;
use super::registry::Link;

/// Times that a name is judged again, because it changed meanwhile.
const ROUNDS: usize = 5;
/// Entries and rows read at once.
const PAGE: usize = 1_000;

impl Links {
    /// Ends what a link has in the tree: files that are nothing but objects go, others stay.
    pub(crate) async fn take_apart(&self, link: &Arc<Link>) -> Result<()> {
        let mut to_do = vec![link.ino()];
        let mut dirs = Vec::new();
        while let Some(dir) = to_do.pop() {
            let mut cookie = 0;
            loop {
                let page = self.meta.readdir_plus(dir, cookie, PAGE).await?;
                let Some(last) = page.last() else { break };
                cookie = last.entry.cookie;
                for DirEntryPlus { entry, inode } in page {
                    if inode.kind == FileKind::Directory {
                        to_do.push(inode.ino);
                        // One that came from another link may have names that are not here yet.
                        if inode.native.is_none_or(|native| native.link == link.id) {
                            dirs.push((dir, entry.name));
                        }
                    } else {
                        self.part(link, dir, &entry.name).await?;
                    }
                }
                self.registry.notify_doors().await;
            }
            let placed = |inode: &Inode| {
                inode.native.as_ref().filter(|native| native.link == link.id).map(|_| None)
            };
            self.detacher.change_native(dir, placed).await?;
        }
        for (dir, name) in dirs.into_iter().rev() {
            match self.meta.rmdir(dir, &name).await {
                Ok(gone) => {
                    self.nodes.name_gone(&gone);
                    self.registry.name_changed(dir, &name);
                }
                Err(error) if matches!(error.kind(), ErrorKind::NotEmpty | ErrorKind::NotFound) => {
                }
                Err(error) => return Err(error),
            }
        }
        self.detach_the_rest(link).await
    }

    /// Takes a file that is nothing but an object from the tree, and parts any other from its.
    /// What it is is judged now: a page of a directory may have been read long before.
    async fn part(&self, link: &Link, dir: Ino, name: &[u8]) -> Result<()> {
        for _ in 0..ROUNDS {
            let Some(inode) = self.resolver.entry(dir, name).await? else { return Ok(()) };
            let native = inode.native.as_ref().filter(|n| n.link == link.id);
            let Some(native) = native else { return Ok(()) };
            if native.detached || self.detacher.has_changes(&inode) {
                return self.detacher.detach(inode.ino).await;
            }
            fail::fail_point!("engine::object-judged");
            let object = (link.id, native.key.as_bytes());
            let removed = self.meta.remove_object(dir, name, &inode, object, true).await;
            if let Some(gone) = removed? {
                return self.detacher.object_gone(link, &gone, (dir, name)).await.map(drop);
            }
        }
        let text = format!("`{}` changes too often: try again", name.escape_ascii());
        Err(FsError::new(ErrorKind::Retry, text))
    }

    /// Files that were moved out of the link's directory stay as files of the volume.
    async fn detach_the_rest(&self, link: &Arc<Link>) -> Result<()> {
        let mut after: Option<Vec<u8>> = None;
        'page: loop {
            let rows = self.meta.objects(link.id, after.as_deref(), None, PAGE).await;
            let rows = rows?;
            for row in &rows {
                let Some(ino) = row.object.ino else { continue };
                after = Some(row.key.clone());
                if row.key.ends_with(b"/") {
                    if self.directory_stays(link, ino, &row.key).await? {
                        // Its rows are next.
                        continue 'page;
                    }
                } else {
                    self.detacher.detach(ino).await?;
                }
            }
            match rows.last() {
                Some(last) if rows.len() == PAGE => after = Some(last.key.clone()),
                _ => return Ok(()),
            }
        }
    }

    /// A directory that was moved out of the link's stays, with all its names. Answers whether
    /// some are new.
    async fn directory_stays(&self, link: &Arc<Link>, ino: Ino, key: &[u8]) -> Result<bool> {
        let native = match self.meta.inode(ino).await {
            Ok(inode) if inode.nlink > 0 => inode.native.filter(|native| native.link == link.id),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => None,
        };
        let Some(native) = native else { return Ok(false) };
        if native.unlisted {
            self.importer.list_names(link, ino, &String::from_utf8_lossy(key)).await?;
        }
        self.detacher.change_native(ino, |_| Some(None)).await?;
        Ok(native.unlisted)
    }
}
