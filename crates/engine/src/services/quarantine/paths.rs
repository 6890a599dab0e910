//! Where files are in the tree, found by their numbers.

use std::collections::HashMap;

use weir_types::{FileKind, Ino, Inode, Result};

use super::assessed::Assessed;
use super::parts::Quarantine;

/// Entries read at once.
const PAGE: usize = 1_000;
/// Deepest tree that is walked up.
const DEPTH: usize = 1_000;

/// Paths that were found, so that no directory is read twice.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    directories: HashMap<Ino, Option<String>>,
    /// Names by directory and inode, of directories that were read.
    names: HashMap<Ino, HashMap<Ino, Vec<u8>>>,
}

fn joined(above: &str, name: &[u8]) -> String {
    format!("{above}/{}", String::from_utf8_lossy(name))
}

impl Paths {
    /// Finds names and paths of all files of an entry.
    pub(crate) async fn name_all(
        &mut self,
        quarantine: &Quarantine,
        of: &mut Assessed,
    ) -> Result<()> {
        let mut items = std::mem::take(&mut of.items);
        for item in &mut items {
            if item.made.is_some() && item.standing != super::views::Standing::Unchanged {
                item.names = of.lost.names_of(item.ino).map(|(d, n)| (d, n.to_vec())).collect();
                if let Some((dir, name)) = item.names.first() {
                    item.path = Some(self.lost(quarantine, of, *dir, name).await?);
                }
            } else if let Some(now) = &item.now {
                item.path = self.file(quarantine, now).await?;
            } else {
                // The log may know where it was.
                let name = of.lost.names_of(item.ino).next().map(|(d, n)| (d, n.to_vec()));
                if let Some((dir, name)) = name {
                    item.path = Some(self.lost(quarantine, of, dir, &name).await?);
                }
            }
        }
        of.items = items;
        Ok(())
    }

    /// The path of a name in a directory that may itself be lost.
    async fn lost(
        &mut self,
        quarantine: &Quarantine,
        of: &Assessed,
        dir: Ino,
        name: &[u8],
    ) -> Result<String> {
        let mut below = vec![name.to_vec()];
        let mut at = dir;
        while of.lost.makes_directory(at) && below.len() < DEPTH {
            let Some((above, name)) = of.lost.names_of(at).next() else { break };
            below.push(name.to_vec());
            at = above;
        }
        let mut path =
            self.directory(quarantine, at).await?.unwrap_or_else(|| format!("(directory {at})"));
        for name in below.iter().rev() {
            path = joined(&path, name);
        }
        Ok(path)
    }

    /// The path of a name in a directory of the volume.
    pub(crate) async fn of(
        &mut self,
        quarantine: &Quarantine,
        dir: Ino,
        name: &[u8],
    ) -> Result<String> {
        let above =
            self.directory(quarantine, dir).await?.unwrap_or_else(|| format!("(directory {dir})"));
        Ok(joined(&above, name))
    }

    /// The path of something in the volume, below the mount; `None` where it is not found.
    pub(crate) async fn file(
        &mut self,
        quarantine: &Quarantine,
        inode: &Inode,
    ) -> Result<Option<String>> {
        if inode.kind == FileKind::Directory {
            return self.directory(quarantine, inode.ino).await;
        }
        let Some(name) = self.name_in(quarantine, inode.parent, inode.ino).await? else {
            return Ok(None);
        };
        let above = self.directory(quarantine, inode.parent).await?;
        Ok(above.map(|above| joined(&above, &name)))
    }

    /// The path of a directory; empty for the root.
    async fn directory(&mut self, quarantine: &Quarantine, ino: Ino) -> Result<Option<String>> {
        let (mut at, mut below) = (ino, Vec::new());
        let top = loop {
            if let Some(known) = self.directories.get(&at) {
                break known.clone();
            }
            if at == Ino::ROOT {
                break Some(String::new());
            }
            let Some(inode) = quarantine.volume_inode(at).await? else { break None };
            let above = inode.parent;
            match self.name_in(quarantine, above, at).await? {
                Some(name) if below.len() < DEPTH => below.push((at, name)),
                _ => break None,
            }
            at = above;
        };
        let mut path = top;
        self.directories.insert(at, path.clone());
        for (ino, name) in below.iter().rev() {
            path = path.map(|above| joined(&above, name));
            self.directories.insert(*ino, path.clone());
        }
        Ok(path)
    }

    async fn name_in(
        &mut self,
        quarantine: &Quarantine,
        dir: Ino,
        ino: Ino,
    ) -> Result<Option<Vec<u8>>> {
        if let Some(names) = self.names.get(&dir) {
            return Ok(names.get(&ino).cloned());
        }
        let (mut names, mut cookie) = (HashMap::new(), 0);
        loop {
            let page = quarantine.meta.readdir(dir, cookie, PAGE).await?;
            let Some(last) = page.last() else { break };
            cookie = last.cookie;
            names.extend(page.into_iter().map(|entry| (entry.ino, entry.name)));
        }
        let found = names.get(&ino).cloned();
        self.names.insert(dir, names);
        Ok(found)
    }
}
