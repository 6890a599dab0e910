//! Going through trees, a page of a directory at a time: memory does not grow with the tree.

use std::path::Path;
use std::sync::Arc;

use weir_types::{ErrorKind, FileKind, Ino, Inode, Result};

use super::Root;
use super::state::remote_bytes;
use crate::engine::Core;

/// Entries read at once.
const PAGE: usize = 512;

/// A regular file that a walk came by.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) ino: Ino,
    pub(crate) size: u64,
    /// Bytes of it that the bucket has.
    pub(crate) remote_bytes: u64,
    /// Of its extents, when it was looked at.
    pub(crate) generation: u64,
    /// It is, or was made of, an object of its own.
    pub(crate) is_native: bool,
    directory: Arc<str>,
    name: Box<[u8]>,
}

impl Found {
    /// A file as `inode` has it, at `path`.
    pub(crate) fn at(core: &Core, inode: Inode, directory: Arc<str>, name: &[u8]) -> Self {
        let (remote_bytes, generation) = (remote_bytes(&inode), inode.data.generation);
        let is_native = inode.native.is_some();
        let inode = core.merged(inode);
        let (ino, size) = (inode.ino, inode.size);
        Self { ino, size, remote_bytes, generation, is_native, directory, name: name.into() }
    }

    /// Its name in its directory.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Its path below the mount, for people.
    pub(crate) fn path(&self) -> String {
        let name = String::from_utf8_lossy(&self.name);
        Path::new(&*self.directory).join(&*name).display().to_string()
    }
}

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
    core: Arc<Core>,
    recursive: bool,
    /// The next one is the last. Holds a page for each level at most.
    steps: Vec<Step>,
}

impl Walk {
    pub(crate) fn new(core: &Arc<Core>, roots: &[Root], recursive: bool) -> Self {
        let steps = roots.iter().rev().cloned().map(Step::Root).collect();
        Self { core: core.clone(), recursive, steps }
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
        let inode = self.core.stored(root.ino).await?;
        self.steps.pop();
        match inode.kind {
            FileKind::Regular => {
                let path = Path::new(&root.path);
                let directory = path.parent().map(|p| p.display().to_string()).unwrap_or_default();
                let name = path.file_name().unwrap_or_default().as_encoded_bytes();
                Ok(vec![Found::at(&self.core, inode, directory.into(), name)])
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
            self.core.look_into(ino).await?;
        }
        let page = self.core.seen(self.core.meta.readdir_plus(ino, cookie, PAGE).await)?;
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
                    found.push(Found::at(&self.core, entry.inode, path.clone(), name));
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
