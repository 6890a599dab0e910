//! The model of names: a tree, and operations on it that take effect step by step.
//!
//! A step is one moment at which something is looked up or changed. Most operations have one that
//! decides; those with a directory in their path look that up before, and a rename looks at both of its
//! names before it asks for the change. Between the steps others may do what they like, as on any file
//! system with one kernel: what is looked up stays what it was, whatever its name is by then.
//!
//! One thing is the kernel's: a directory that it knows by one name, and that another node moved, it cannot
//! take up by the new one while a rename on its own node goes from one directory into another. Then it says
//! ESTALE, also to that rename itself, until somebody has looked at the directory; so it does on NFS.

use std::collections::BTreeMap;

use rustix::io::Errno;

use crate::op::{How, Leaf};

/// Names that a round uses, by their numbers.
pub(crate) const NAMES: [&str; 6] = ["a", "b", "c", "d0", "d1", "d2"];
pub(crate) type Name = u8;
/// A directory, by the call that made it.
pub(crate) type Dir = u8;
pub(crate) const TOP: Dir = Dir::MAX;

/// What a name is of; files and directories are numbered by the calls that made them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Entry {
    File(u8),
    Dir(Dir),
}

/// A name in the top directory or in one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) parent: Option<Name>,
    pub(crate) name: Name,
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(parent) = self.parent {
            write!(f, "{}/", NAMES[usize::from(parent)])?;
        }
        write!(f, "{}", NAMES[usize::from(self.name)])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameOp {
    Create(Path),
    Mkdir(Path),
    Link(Path, Path),
    Rename(Path, Path, How),
    Unlink(Path),
    Rmdir(Path),
    Look(Path),
    /// What a listing of the top tells of one name.
    Listed(Name),
}

/// The tree at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tree(BTreeMap<(Dir, Name), Entry>);

/// How far an operation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Progress {
    pub(crate) done: bool,
    step: u8,
    dirs: [Option<Dir>; 2],
    seen: [Option<Entry>; 2],
}

/// What an operation answers in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Is(Entry),
    /// A file, and how many names it has.
    File(u8, u64),
    Failed(Errno),
}

/// What one step leads to.
pub(crate) enum Step {
    Goes(Progress),
    Ends(End, Tree),
}

impl Tree {
    fn get(&self, dir: Dir, name: Name) -> Option<Entry> {
        self.0.get(&(dir, name)).copied()
    }

    fn parent(&self, dir: Dir) -> Option<Dir> {
        self.0.iter().find(|(_, entry)| **entry == Entry::Dir(dir)).map(|((parent, _), _)| *parent)
    }

    fn is_there(&self, dir: Dir) -> bool {
        dir == TOP || self.parent(dir).is_some()
    }

    fn is_within(&self, mut dir: Dir, entry: Entry) -> bool {
        loop {
            match self.parent(dir) {
                _ if Entry::Dir(dir) == entry => return true,
                Some(parent) if dir != TOP => dir = parent,
                _ => return false,
            }
        }
    }

    /// Whether the kernel may say ESTALE: where there is a directory on the way.
    pub(crate) fn may_be_stale(&self, op: NameOp) -> bool {
        let leads = |path: Path| {
            path.parent.is_some() || matches!(self.get(TOP, path.name), Some(Entry::Dir(_)))
        };
        match op {
            NameOp::Link(from, to) | NameOp::Rename(from, to, _) => leads(from) || leads(to),
            NameOp::Create(path)
            | NameOp::Mkdir(path)
            | NameOp::Unlink(path)
            | NameOp::Rmdir(path)
            | NameOp::Look(path) => leads(path),
            NameOp::Listed(_) => false,
        }
    }

    pub(crate) fn links(&self, file: u8) -> u64 {
        self.0.values().filter(|entry| **entry == Entry::File(file)).count() as u64
    }

    fn with(&self, dir: Dir, name: Name, entry: Option<Entry>) -> Self {
        let mut tree = self.clone();
        match entry {
            Some(entry) => tree.0.insert((dir, name), entry),
            None => tree.0.remove(&(dir, name)),
        };
        tree
    }

    /// As `Op::Walk` tells it; `ino` knows inodes of files, as far as they are known.
    pub(crate) fn leaves(&self, ino: &dyn Fn(u8) -> Option<u64>) -> Vec<(Leaf, bool)> {
        let mut leaves = Vec::new();
        self.below(TOP, "", ino, &mut leaves);
        leaves
    }

    fn below(
        &self,
        dir: Dir,
        above: &str,
        ino: &dyn Fn(u8) -> Option<u64>,
        leaves: &mut Vec<(Leaf, bool)>,
    ) {
        // Names are in the order of their numbers.
        for ((_, name), entry) in self.0.range((dir, 0)..=(dir, Name::MAX)) {
            let path = format!("{above}{}", NAMES[usize::from(*name)]);
            let known = match entry {
                Entry::File(file) => ino(*file),
                Entry::Dir(_) => None,
            };
            let is_dir = matches!(entry, Entry::Dir(_));
            let links = if let Entry::File(file) = entry { self.links(*file) } else { 0 };
            let leaf = Leaf { path: path.clone(), is_dir, ino: known.unwrap_or(0), links, size: 0 };
            leaves.push((leaf, known.is_some()));
            if let Entry::Dir(within) = entry {
                self.below(*within, &format!("{path}/"), ino, leaves);
            }
        }
    }

    /// What can come of an operation's next step, taken now. `id` numbers what it makes.
    pub(crate) fn step(&self, op: NameOp, id: u8, at: Progress) -> Vec<Step> {
        let one = |step| vec![step];
        match (op, at.step) {
            (NameOp::Listed(name), _) => one(match self.get(TOP, name) {
                None => self.failed(Errno::NOENT),
                Some(entry) => Step::Ends(End::Is(entry), self.clone()),
            }),
            (NameOp::Link(old, _) | NameOp::Rename(old, ..), 0) => one(self.enter(old, 0, at)),
            (NameOp::Link(_, new), 2) => one(self.enter(new, 1, at)),
            (NameOp::Rename(_, new, _), 1) => one(self.enter(new, 1, at)),
            (NameOp::Link(old, _), 1) => one(self.look(old, 0, at)),
            (NameOp::Link(_, new), _) => one(self.link(new, at)),
            (NameOp::Rename(old, ..), 2) => one(self.look(old, 0, at)),
            (NameOp::Rename(_, new, how), 3) => self.look_at_target(new, how, at),
            (NameOp::Rename(old, new, how), _) => one(self.rename(old, new, how, at)),
            (
                NameOp::Create(path)
                | NameOp::Mkdir(path)
                | NameOp::Unlink(path)
                | NameOp::Rmdir(path)
                | NameOp::Look(path),
                0,
            ) => one(self.enter(path, 0, at)),
            (NameOp::Create(path), _) => one(self.make(path, Entry::File(id), at)),
            (NameOp::Mkdir(path), _) => one(self.make(path, Entry::Dir(id), at)),
            (NameOp::Unlink(path), _) => one(self.unlink(path, at)),
            (NameOp::Rmdir(path), _) => one(self.rmdir(path, at)),
            (NameOp::Look(path), 1) => one(self.look(path, 0, at)),
            (NameOp::Look(_), _) => self.attributes(at),
        }
    }

    /// The attributes of what was looked up a moment ago, and may have no name any more.
    fn attributes(&self, at: Progress) -> Vec<Step> {
        let ends = |end| Step::Ends(end, self.clone());
        match at.seen[0] {
            None => vec![self.failed(Errno::NOENT)],
            Some(entry @ Entry::Dir(_)) => vec![ends(End::Is(entry))],
            Some(Entry::File(file)) => match self.links(file) {
                0 => vec![self.failed(Errno::NOENT), ends(End::File(file, 0))],
                links => vec![ends(End::File(file, links))],
            },
        }
    }

    fn failed(&self, errno: Errno) -> Step {
        Step::Ends(End::Failed(errno), self.clone())
    }

    /// Looks the directory of a path up.
    fn enter(&self, path: Path, which: usize, mut at: Progress) -> Step {
        at.step += 1;
        at.dirs[which] = Some(match path.parent.map(|parent| self.get(TOP, parent)) {
            None => TOP,
            Some(Some(Entry::Dir(dir))) => dir,
            Some(Some(Entry::File(_))) => return self.failed(Errno::NOTDIR),
            Some(None) => return self.failed(Errno::NOENT),
        });
        Step::Goes(at)
    }

    fn look(&self, path: Path, which: usize, mut at: Progress) -> Step {
        at.step += 1;
        at.seen[which] = self.get(at.dir(which), path.name);
        match at.seen[which] {
            None => self.failed(Errno::NOENT),
            Some(_) => Step::Goes(at),
        }
    }

    fn make(&self, path: Path, entry: Entry, at: Progress) -> Step {
        match self.get(at.dir(0), path.name) {
            Some(_) => self.failed(Errno::EXIST),
            None if !self.is_there(at.dir(0)) => self.failed(Errno::NOENT),
            None => Step::Ends(End::Done, self.with(at.dir(0), path.name, Some(entry))),
        }
    }

    fn unlink(&self, path: Path, at: Progress) -> Step {
        match self.get(at.dir(0), path.name) {
            None => self.failed(Errno::NOENT),
            Some(Entry::Dir(_)) => self.failed(Errno::ISDIR),
            Some(Entry::File(_)) => Step::Ends(End::Done, self.with(at.dir(0), path.name, None)),
        }
    }

    fn rmdir(&self, path: Path, at: Progress) -> Step {
        match self.get(at.dir(0), path.name) {
            None => self.failed(Errno::NOENT),
            Some(Entry::File(_)) => self.failed(Errno::NOTDIR),
            Some(Entry::Dir(dir)) if self.has_entries(dir) => self.failed(Errno::NOTEMPTY),
            Some(_) => Step::Ends(End::Done, self.with(at.dir(0), path.name, None)),
        }
    }

    fn has_entries(&self, dir: Dir) -> bool {
        self.0.range((dir, 0)..=(dir, Name::MAX)).next().is_some()
    }

    fn link(&self, new: Path, at: Progress) -> Step {
        let (dir, source) = (at.dir(1), at.seen[0]);
        match (self.get(dir, new.name), source) {
            (Some(_), _) => self.failed(Errno::EXIST),
            (None, Some(Entry::Dir(_))) => self.failed(Errno::PERM),
            (None, Some(Entry::File(file))) if self.links(file) > 0 && self.is_there(dir) => {
                Step::Ends(End::Done, self.with(dir, new.name, source))
            }
            _ => self.failed(Errno::NOENT),
        }
    }

    /// Where the kernel looks at the second name, and may have its answer.
    fn look_at_target(&self, new: Path, how: How, mut at: Progress) -> Vec<Step> {
        at.step += 1;
        at.seen[1] = self.get(at.dir(1), new.name);
        let answer = match at.seen[0] {
            Some(source) => self.is_refused(source, at.seen[1], how, at),
            None => Some(End::Failed(Errno::NOENT)),
        };
        match answer {
            Some(answer) => vec![Step::Ends(answer, self.clone())],
            None => vec![Step::Goes(at)],
        }
    }

    /// What a rename answers that changes nothing.
    fn is_refused(
        &self,
        source: Entry,
        target: Option<Entry>,
        how: How,
        at: Progress,
    ) -> Option<End> {
        let no = |errno| Some(End::Failed(errno));
        match (target, how) {
            (Some(_), How::NoReplace) => return no(Errno::EXIST),
            (None, How::Exchange) => return no(Errno::NOENT),
            _ => {}
        }
        if self.is_within(at.dir(1), source) {
            return no(Errno::INVAL);
        }
        let target = target?;
        if self.is_within(at.dir(0), target) {
            return no(if how == How::Exchange { Errno::INVAL } else { Errno::NOTEMPTY });
        }
        match (source, target) {
            (one, other) if one == other => Some(End::Done),
            _ if how == How::Exchange => None,
            (Entry::Dir(_), Entry::File(_)) => no(Errno::NOTDIR),
            (Entry::File(_), Entry::Dir(_)) => no(Errno::ISDIR),
            _ => None,
        }
    }

    fn rename(&self, old: Path, new: Path, how: How, at: Progress) -> Step {
        let (from, to) = (at.dir(0), at.dir(1));
        let (Some(source), target) = (self.get(from, old.name), self.get(to, new.name)) else {
            return self.failed(Errno::NOENT);
        };
        if !self.is_there(to) {
            return self.failed(Errno::NOENT);
        }
        if let Some(answer) = self.is_refused(source, target, how, at) {
            return Step::Ends(answer, self.clone());
        }
        match target {
            Some(Entry::Dir(dir)) if how == How::Replace && self.has_entries(dir) => {
                return self.failed(Errno::NOTEMPTY);
            }
            _ => {}
        }
        let back = target.filter(|_| how == How::Exchange);
        Step::Ends(End::Done, self.with(from, old.name, back).with(to, new.name, Some(source)))
    }
}

impl Progress {
    fn dir(&self, which: usize) -> Dir {
        self.dirs[which].expect("it was looked up")
    }

    pub(crate) fn ended() -> Self {
        Self { done: true, ..Self::default() }
    }
}
