//! Where files and directories are by now, whatever was noted of them.
//!
//! A file that lost the name of its object may have others. It does not know them, so they are
//! looked for: where such files lie mostly first, then in all of the link, once for all files of a
//! pass. An object is under a name that the tree has, as long as the link has one that can be a key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_meta::{DirEntry, ExportName, ToExport};
use weir_types::{FileKind, Ino, Native, Result};

use crate::services::links::exporter::Exporter;
use crate::services::links::registry::Link;
use crate::services::links::rule;

/// Entries read at once.
const PAGE: usize = 1_000;
/// Files looked for at once; the rest are for the next pass.
const FILES_MAX: usize = 10_000;

/// Files being looked for: those that were seen, with a name that can be a key if one was.
struct Search {
    left: BTreeSet<Ino>,
    seen: BTreeMap<Ino, Option<ExportName>>,
}

impl Exporter {
    /// Notes these files under other names that they have in the link. What has none there left it.
    /// Answers how many are noted or need nothing more.
    pub(super) async fn place_by_other_names(
        self: &Arc<Self>,
        link: &Arc<Link>,
        mut files: Vec<ToExport>,
    ) -> Result<usize> {
        files.truncate(FILES_MAX);
        if files.is_empty() {
            return Ok(0);
        }
        let left = files.iter().map(|file| file.ino).collect();
        let mut search = Search { left, seen: BTreeMap::new() };
        self.search_names(link, &files, &mut search).await?;
        for file in &files {
            match search.seen.get(&file.ino) {
                Some(Some(named)) => {
                    self.meta.export_soon(link.id, file.ino, Some(named)).await?;
                    continue;
                }
                // Its only names here are such as cannot be keys.
                Some(None) => {}
                None => {
                    // Who made a name that was missed has noted that.
                    if self.meta.is_noted_as(file).await?
                        && let Some(inode) = self.resolver.inode_if_there(file.ino).await?
                    {
                        self.moved_out(link, inode).await?;
                    }
                }
            }
            self.meta.exported(file).await?;
        }
        Ok(files.len())
    }

    async fn search_names(
        &self,
        link: &Link,
        files: &[ToExport],
        search: &mut Search,
    ) -> Result<()> {
        let (mut near, mut with_one_name) = (BTreeSet::new(), BTreeSet::new());
        for file in files {
            let Some(inode) = self.resolver.inode_if_there(file.ino).await? else { continue };
            near.insert(inode.parent);
            if inode.nlink == 1 {
                with_one_name.insert(inode.ino);
            }
        }
        for dir in near {
            if self.resolver.is_below(link, dir).await? {
                self.search_directory(link, dir, search).await?;
            }
        }
        let seen = &search.seen;
        search.left.retain(|ino| !(with_one_name.contains(ino) && seen.contains_key(ino)));
        let mut to_do = vec![link.ino()];
        while let Some(dir) = to_do.pop().filter(|_| !search.left.is_empty()) {
            to_do.extend(self.search_directory(link, dir, search).await?);
        }
        Ok(())
    }

    /// Looks for files in one directory. Answers the directories in it.
    async fn search_directory(
        &self,
        link: &Link,
        dir: Ino,
        search: &mut Search,
    ) -> Result<Vec<Ino>> {
        let mut below = Vec::new();
        let Some(inode) = self.resolver.inode_if_there(dir).await? else { return Ok(below) };
        let native = inode.native.filter(|native| native.link == link.id);
        if native.as_ref().is_some_and(|native| native.unlisted) {
            // Nobody looked into it, so nobody made a name in it.
            return Ok(below);
        }
        let mut cookie = 0;
        loop {
            let page = self.meta.readdir(dir, cookie, PAGE).await?;
            let Some(last) = page.last() else { return Ok(below) };
            cookie = last.cookie;
            for entry in page {
                if entry.kind == FileKind::Directory {
                    below.push(entry.ino);
                } else if search.left.contains(&entry.ino) {
                    search.found(native.as_ref(), dir, entry);
                }
            }
        }
    }
}

impl Search {
    fn found(&mut self, above: Option<&Native>, dir: Ino, entry: DirEntry) {
        let key = above.and_then(|above| rule::child_key(above, &entry.name));
        if key.is_some() && !rule::is_conflict(&entry.name) {
            self.left.remove(&entry.ino);
            self.seen.insert(entry.ino, Some(ExportName { dir, name: entry.name }));
        } else {
            self.seen.entry(entry.ino).or_default();
        }
    }
}
