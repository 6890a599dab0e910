//! Going through trees, a page of a directory at a time: memory does not grow with the tree.

use std::path::Path;
use std::sync::Arc;

use weir_types::{ErrorKind, FileKind, Ino, Result};

use super::found::Found;
use super::views::Root;
use crate::services::actions::parts::Actions;

/// Entries read at once.
const PAGE: usize = 512;

/// Where to go on.
#[derive(Clone, Debug)]
enum Step {
    Root(Root),
    Directory { ino: Ino, path: Arc<str>, cookie: u64 },
}

/// A walk through trees: files of a page of a directory, then what lies below it, then the next
/// page. Files without another name are met once.
#[derive(Clone)]
pub(crate) struct Walk {
    actions: Arc<Actions>,
    recursive: bool,
    /// The next one is the last. Holds a page for each level at most.
    steps: Vec<Step>,
}

impl Walk {
    pub(crate) fn new(actions: &Arc<Actions>, roots: &[Root], recursive: bool) -> Self {
        let steps = roots.iter().rev().cloned().map(Step::Root).collect();
        Self { actions: actions.clone(), recursive, steps }
    }

    /// Some of the files that come next, maybe none; `None` at the end. Two read rounds. After an
    /// error it goes on where it was.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Found>>> {
        let Some(step) = self.steps.last().cloned() else {
            return Ok(None);
        };
        let found = match step {
            Step::Root(root) => self.root(&root).await,
            Step::Directory { ino, path, cookie } => self.directory(ino, path, cookie).await,
        };
        match found {
            Ok(found) => Ok(Some(found)),
            // It was removed meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.steps.pop();
                Ok(Some(Vec::new()))
            }
            Err(error) => Err(error),
        }
    }

    /// Leaves out what [`Walk::next`] failed at; answers its path.
    pub(crate) fn skip(&mut self) -> String {
        match self.steps.pop() {
            Some(Step::Root(root)) => root.path,
            Some(Step::Directory { path, .. }) => path.to_string(),
            None => String::new(),
        }
    }

    async fn root(&mut self, root: &Root) -> Result<Vec<Found>> {
        let inode = self.actions.meta.inode(root.ino).await?;
        self.steps.pop();
        match inode.kind {
            FileKind::Regular => {
                let path = Path::new(&root.path);
                let directory = path.parent().map(|p| p.display().to_string()).unwrap_or_default();
                let dir = inode.parent;
                let name = path.file_name().unwrap_or_default().as_encoded_bytes();
                Ok(vec![Found::at(&self.actions.mirrors, inode, (dir, directory.into()), name)])
            }
            FileKind::Directory if self.recursive => {
                let path = root.path.as_str().into();
                self.steps.push(Step::Directory { ino: root.ino, path, cookie: 0 });
                Ok(Vec::new())
            }
            _ => Ok(Vec::new()),
        }
    }

    async fn directory(&mut self, ino: Ino, path: Arc<str>, cookie: u64) -> Result<Vec<Found>> {
        if cookie == 0 {
            self.actions.links.importer.look_into(ino).await?;
        }
        let page = self.actions.meta.readdir_plus(ino, cookie, PAGE).await?;
        self.steps.pop();
        let Some(last) = page.last() else {
            return Ok(Vec::new());
        };
        self.steps.push(Step::Directory { ino, path: path.clone(), cookie: last.entry.cookie });
        let mut found = Vec::with_capacity(page.len());
        let mut below = Vec::new();
        for entry in page {
            let name = &entry.entry.name;
            match entry.inode.kind {
                FileKind::Regular => {
                    let dir = (ino, path.clone());
                    found.push(Found::at(&self.actions.mirrors, entry.inode, dir, name));
                }
                FileKind::Directory => {
                    let name = String::from_utf8_lossy(name);
                    let path = Path::new(&*path).join(&*name).display().to_string();
                    let ino = entry.inode.ino;
                    below.push(Step::Directory { ino, path: path.into(), cookie: 0 });
                }
                _ => {}
            }
        }
        self.steps.extend(below.into_iter().rev());
        Ok(found)
    }
}
