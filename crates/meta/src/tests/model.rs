//! A simple model of a file system: a tree of nodes, and for each file which record byte stands at
//! which offset.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use weir_types::{ErrorKind, FileKind, Ino};

use crate::RenameMode;

/// One byte of a record: segment, position of the record, offset in it.
pub(super) type ByteId = (u128, u32, u32);
pub(super) type Bytes = BTreeMap<u64, ByteId>;

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) kind: FileKind,
    pub(super) nlink: u32,
    pub(super) parent: Ino,
    pub(super) size: u64,
    pub(super) entries: BTreeMap<Vec<u8>, Ino>,
    pub(super) bytes: Bytes,
    pub(super) xattrs: BTreeSet<Vec<u8>>,
}

impl Node {
    pub(super) fn new(kind: FileKind, parent: Ino) -> Self {
        let nlink = if kind == FileKind::Directory { 2 } else { 1 };
        let size = if kind == FileKind::Symlink { 6 } else { 0 };
        Self {
            kind,
            nlink,
            parent,
            size,
            entries: BTreeMap::new(),
            bytes: Bytes::new(),
            xattrs: BTreeSet::new(),
        }
    }
}

pub(super) struct Model {
    pub(super) nodes: BTreeMap<Ino, Node>,
}

type Answer<T = ()> = Result<T, ErrorKind>;

impl Model {
    pub(super) fn new() -> Self {
        let root = Node::new(FileKind::Directory, Ino::ROOT);
        Self { nodes: BTreeMap::from([(Ino::ROOT, root)]) }
    }

    pub(super) fn node(&mut self, ino: Ino) -> &mut Node {
        self.nodes.get_mut(&ino).expect("the model has it")
    }

    fn is_dir(&self, ino: Ino) -> bool {
        self.nodes[&ino].kind == FileKind::Directory
    }

    fn live_dir(&self, dir: Ino) -> Answer {
        match self.nodes.get(&dir) {
            None => Err(ErrorKind::NotFound),
            Some(node) if node.kind != FileKind::Directory => Err(ErrorKind::NotDirectory),
            Some(node) if node.nlink == 0 => Err(ErrorKind::NotFound),
            Some(_) => Ok(()),
        }
    }

    fn entry(&self, dir: Ino, name: &[u8]) -> Option<Ino> {
        self.nodes.get(&dir)?.entries.get(name).copied()
    }

    /// Whether something may be made there.
    pub(super) fn free(&self, dir: Ino, name: &[u8]) -> Answer {
        self.live_dir(dir)?;
        self.entry(dir, name).map_or(Ok(()), |_| Err(ErrorKind::Exists))
    }

    pub(super) fn create(&mut self, dir: Ino, name: &[u8], kind: FileKind, ino: Ino) {
        self.nodes.insert(ino, Node::new(kind, dir));
        self.attach(dir, name, ino);
    }

    fn attach(&mut self, dir: Ino, name: &[u8], ino: Ino) {
        self.node(dir).entries.insert(name.to_vec(), ino);
        if self.is_dir(ino) {
            self.node(dir).nlink += 1;
            self.node(ino).parent = dir;
        }
    }

    fn detach(&mut self, dir: Ino, name: &[u8]) -> Ino {
        let ino = self.node(dir).entries.remove(name).expect("the model has the entry");
        if self.is_dir(ino) {
            self.node(dir).nlink -= 1;
        }
        ino
    }

    fn drop_link(&mut self, ino: Ino) {
        let is_dir = self.is_dir(ino);
        let node = self.node(ino);
        node.nlink = if is_dir { 0 } else { node.nlink - 1 };
    }

    pub(super) fn link(&mut self, ino: Ino, dir: Ino, name: &[u8]) -> Answer {
        self.live_dir(dir)?;
        let node = self.nodes.get(&ino).ok_or(ErrorKind::NotFound)?;
        match node.kind {
            FileKind::Directory => return Err(ErrorKind::Permission),
            _ if node.nlink == 0 => return Err(ErrorKind::NotFound),
            _ => self.free(dir, name)?,
        }
        self.node(ino).nlink += 1;
        self.attach(dir, name, ino);
        Ok(())
    }

    pub(super) fn unlink(&mut self, dir: Ino, name: &[u8]) -> Answer {
        let ino = self.entry(dir, name).ok_or(ErrorKind::NotFound)?;
        if self.is_dir(ino) {
            return Err(ErrorKind::IsDirectory);
        }
        self.detach(dir, name);
        self.drop_link(ino);
        Ok(())
    }

    pub(super) fn rmdir(&mut self, dir: Ino, name: &[u8]) -> Answer {
        let ino = self.entry(dir, name).ok_or(ErrorKind::NotFound)?;
        if !self.is_dir(ino) {
            return Err(ErrorKind::NotDirectory);
        }
        if !self.nodes[&ino].entries.is_empty() {
            return Err(ErrorKind::NotEmpty);
        }
        self.detach(dir, name);
        self.drop_link(ino);
        Ok(())
    }

    /// Whether `dir` is `top` or lies below it.
    fn below(&self, top: Ino, dir: Ino) -> bool {
        let mut at = dir;
        while at != top && at != Ino::ROOT {
            at = self.nodes[&at].parent;
        }
        at == top
    }

    pub(super) fn rename(
        &mut self,
        (from, old): (Ino, &[u8]),
        (to, new): (Ino, &[u8]),
        mode: RenameMode,
    ) -> Answer {
        self.live_dir(from)?;
        self.live_dir(to)?;
        let moved = self.entry(from, old).ok_or(ErrorKind::NotFound)?;
        let target = self.entry(to, new);
        match (mode, target) {
            (RenameMode::NoReplace, Some(_)) => return Err(ErrorKind::Exists),
            (RenameMode::Exchange, None) => return Err(ErrorKind::NotFound),
            (_, Some(target)) if target == moved => return Ok(()),
            _ => {}
        }
        if self.is_dir(moved) && self.below(moved, to) {
            return Err(ErrorKind::Invalid);
        }
        match target {
            Some(target) if mode == RenameMode::Exchange => {
                if self.is_dir(target) && self.below(target, from) {
                    return Err(ErrorKind::Invalid);
                }
                self.detach(to, new);
                self.attach(from, b"\0", target);
            }
            Some(target) => {
                match (self.is_dir(moved), self.is_dir(target)) {
                    (true, false) => return Err(ErrorKind::NotDirectory),
                    (false, true) => return Err(ErrorKind::IsDirectory),
                    (true, true) if !self.nodes[&target].entries.is_empty() => {
                        return Err(ErrorKind::NotEmpty);
                    }
                    _ => {}
                }
                self.detach(to, new);
                self.drop_link(target);
            }
            None => {}
        }
        self.detach(from, old);
        self.attach(to, new, moved);
        if mode == RenameMode::Exchange {
            let other = self.detach(from, b"\0");
            self.attach(from, old, other);
        }
        Ok(())
    }

    /// A file that holds data, or why the inode is none.
    pub(super) fn regular(&self, ino: Ino) -> Answer {
        match self.nodes.get(&ino).map(|node| node.kind) {
            None => Err(ErrorKind::NotFound),
            Some(FileKind::Regular) => Ok(()),
            Some(FileKind::Directory) => Err(ErrorKind::IsDirectory),
            Some(_) => Err(ErrorKind::Invalid),
        }
    }

    pub(super) fn punch(&mut self, ino: Ino, range: Range<u64>) {
        self.node(ino).bytes.retain(|at, _| !range.contains(at));
    }

    pub(super) fn truncate(&mut self, ino: Ino, size: u64) {
        self.punch(ino, size..u64::MAX);
        self.node(ino).size = size;
    }

    pub(super) fn share(&mut self, src: Ino, from: u64, dst: Ino, to: u64, len: u64) {
        let copied: Vec<_> = self
            .node(src)
            .bytes
            .range(from..from + len)
            .map(|(at, id)| (at - from + to, *id))
            .collect();
        self.punch(dst, to..to + len);
        let node = self.node(dst);
        node.bytes.extend(copied);
        node.size = node.size.max(to + len);
    }

    /// The segments that any byte lies in.
    pub(super) fn used(&self) -> BTreeSet<u128> {
        self.nodes.values().flat_map(|node| node.bytes.values()).map(|id| id.0).collect()
    }
}
