//! What we do to the tree.

use std::sync::Arc;

use rand::RngExt;
use weir_engine::{Engine, OpenFlags, Policy, RenameMode, SetAttr, XattrMode};
use weir_object::testing::Etags;
use weir_types::{FileKind, Ino, Inode, Result};

use super::common::{WRITE, new_dir, new_file, read_all};
use super::content::Content;
use super::server::Server;
use super::{DIRECTORIES, LONG, PLACES, Run, is_key, raw};

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Whole,
    Part,
    Append,
    Cut,
}

/// The directory of a path and the name in it, as bytes.
pub fn split(path: &str) -> (&str, Vec<u8>) {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    (dir, raw(name))
}

pub async fn find(engine: &Engine, path: &str) -> Option<Inode> {
    let mut at = engine.getattr(Ino::ROOT).await.ok()?;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        at = engine.lookup(at.ino, &raw(part)).await.ok()?;
    }
    Some(at)
}

/// The directory, made if it is not there.
async fn directory(engine: &Engine, path: &str) -> Option<Ino> {
    let mut at = Ino::ROOT;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let there = match engine.lookup(at, &raw(part)).await {
            Ok(there) => there,
            Err(_) => engine.create(at, &raw(part), new_dir()).await.ok()?,
        };
        at = Some(there).filter(|there| there.kind == FileKind::Directory)?.ino;
    }
    Some(at)
}

/// Writes `new` over `old`, as far as they differ. The answer says whether all of it was done.
async fn change(
    engine: &Arc<Engine>,
    ino: Ino,
    how: How,
    (old, new): (Option<&Content>, &Content),
    (at, blocks): (u64, u64),
) -> Result<()> {
    if how == How::Cut {
        return engine.truncate(ino, new.blocks() * 16).await.map(drop);
    }
    let flags = OpenFlags { truncate: how == How::Whole, ..WRITE };
    let file = engine.open(ino, flags).await?;
    let bytes = new.bytes();
    let (from, to) = (at as usize * 16, (at + blocks) as usize * 16);
    let done = match how {
        How::Append if old.is_some() => engine.append(&file, &bytes[from..to]).await,
        _ => engine.write(&file, from as u64, &bytes[from..to]).await,
    };
    engine.close(file).await?;
    done.map(drop)
}

impl Run {
    pub fn place(&mut self) -> &'static str {
        // Often where something has just happened.
        if !self.rng.random_bool(0.35) {
            let is_held = |path: &str| path.len() < LONG || Server::this().long;
            self.last = loop {
                let place = PLACES[self.rng.random_range(0..PLACES.len())];
                if is_held(place) {
                    break place;
                }
            };
        }
        self.last
    }

    /// What is exported of the link that a path or key is of.
    fn export_of(&self, path: &str) -> Policy {
        let of = |link: &&super::setting::Linked| path.split('/').next() == Some(link.name);
        self.setting.links.iter().find(of).map_or(Policy::default(), |link| link.export)
    }

    /// What the file at a place holds, and how many names it has. One whose object changed cannot be
    /// read before an import that this asks for.
    fn there(&self, path: &str) -> Option<(Option<Content>, u32)> {
        let engine = self.world.engine();
        self.world.run(async {
            let mut nlink = None;
            for _ in 0..40 {
                let Some(inode) = find(&engine, path).await else { break };
                if inode.kind == FileKind::Directory {
                    return None;
                }
                nlink = Some(inode.nlink);
                if let Some(content) = self.read(inode.ino, path).await {
                    return Some((Some(content), inode.nlink));
                }
                if engine.file_state(inode.ino).await.is_ok_and(|state| state.lost) {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            nlink.map(|nlink| (None, nlink))
        })
    }

    /// What a file holds, if all of it can be read. Where nothing but time and size tells versions
    /// apart, a reader may see another one than its file is.
    pub async fn read(&self, ino: Ino, path: &str) -> Option<Content> {
        let content = Content::parse(&read_all(&self.world.engine(), ino).await.ok()?);
        let known = self.ledger.knows(&content);
        let may_mix = self.setting.habits.etags == Etags::None;
        assert!(known || may_mix, "{path}: nobody wrote {content:?} as a whole");
        known.then_some(content)
    }

    pub fn write(&mut self, path: &'static str, how: How) {
        self.there(path);
        let (write, more) = (self.ledger.next_write(), self.new_blocks());
        let (start, engine) = (self.rng.random::<u64>(), self.world.engine());
        let done = self.world.run(async {
            let (dir, name) = split(path);
            let ino = match find(&engine, path).await {
                Some(inode) if inode.kind == FileKind::Directory => return None,
                Some(inode) => inode.ino,
                None if how != How::Whole => return None,
                None => {
                    let dir = directory(&engine, dir).await?;
                    // An import may make it meanwhile.
                    engine.create(dir, &name, new_file()).await.ok()?.ino
                }
            };
            let old = self.read(ino, path).await;
            if how != How::Whole && old.is_none() {
                return None;
            }
            let had = old.as_ref().map_or(0, Content::blocks);
            let (at, blocks) = match how {
                How::Whole => (0, more),
                How::Part => (start % (had + 1), more),
                How::Append => (had, more),
                How::Cut => (0, start % (had + 3)),
            };
            let new = match (how, &old) {
                (How::Cut, Some(old)) => old.cut(blocks),
                (How::Part | How::Append, Some(old)) => old.with(at, write, blocks),
                _ => Content::of(write, blocks),
            };
            let result = change(&engine, ino, how, (old.as_ref(), &new), (at, blocks)).await;
            Some((old, new, result))
        });
        let Some((old, new, result)) = done else { return };
        self.trace.push(format!("{how:?} {path} {new:?} over {old:?}: {result:?}"));
        if old.as_ref() == Some(&new) {
            return;
        }
        let base = old.as_ref().filter(|_| how != How::Whole);
        self.ledger.write(&new, base, result.is_ok());
        self.made(path);
        let theirs = old.as_ref().and_then(|old| self.ledger.fates.get(old)?.theirs.clone());
        let export = theirs.map(|key| self.export_of(&key));
        if let Some(fate) = self.ledger.of(old.as_ref()) {
            fate.gone = true;
            fate.may_go |= export.is_some_and(|export| export.changed);
        }
    }

    /// A file has this name: the object that one of this name was may be replaced.
    fn made(&mut self, path: &str) {
        let export = self.export_of(path);
        for fate in self.ledger.theirs_at(path).filter(|fate| fate.removed) {
            fate.may_go |= export.new || export.changed;
        }
    }

    /// A file lost a name; if that was its last one, and nobody gave it another, it is `gone`.
    fn left(&mut self, path: &str, content: Option<&Content>, gone: bool, replaced: bool) {
        let Some(fate) = content.and_then(|content| self.ledger.fates.get(content)) else {
            // It could not be read, so an import was about to look at it.
            return self.excuse(path);
        };
        let export = fate.theirs.clone().map(|key| self.export_of(&key)).unwrap_or_default();
        if let Some(fate) = self.ledger.of(content) {
            fate.removed = true;
            fate.gone |= gone;
            fate.may_go |= export.deleted || (replaced && export != Policy::default());
        }
    }

    /// Does something to names; if an import came between the look and that, what it brought is
    /// excused.
    fn named<T>(&mut self, paths: &[&str], what: impl Future<Output = Result<T>>) -> bool {
        let before = self.import_marks();
        let done = self.world.run(what);
        if let Err(error) = &done {
            self.trace.push(format!("    not done: {error}"));
        }
        let (conflicts, importing) = self.import_marks();
        if before.1 || importing || conflicts != before.0 {
            paths.iter().for_each(|path| self.excuse(path));
        }
        done.is_ok()
    }

    /// It may have been what others put there that we did something to.
    fn excuse(&mut self, path: &str) {
        for fate in self.ledger.theirs_at(path) {
            (fate.gone, fate.may_go, fate.removed) = (true, true, true);
        }
    }

    pub fn rename(&mut self, from: &'static str, to: &'static str) {
        let (moved, replaced) = (self.there(from), self.there(to));
        let Some((moved, _)) = moved.filter(|_| from != to) else { return };
        self.trace.push(format!("rename {from} {moved:?} to {to} {replaced:?}"));
        let exchange = replaced.is_some() && self.rng.random_bool(0.3);
        let mode = if exchange { RenameMode::Exchange } else { RenameMode::Replace };
        let ((from_dir, from_name), (to_dir, to_name)) = (split(from), split(to));
        let engine = self.world.engine();
        let ends = self.world.run(async {
            let one = find(&engine, from).await?.ino;
            let other = find(&engine, to).await.map(|inode| inode.ino);
            let dirs = (find(&engine, from_dir).await?.ino, directory(&engine, to_dir).await?);
            (other != Some(one)).then_some(dirs)
        });
        let Some((from_dir, to_dir)) = ends else { return };
        let (one, other) = ((from_dir, &*from_name), (to_dir, &*to_name));
        if self.named(&[from, to], engine.rename(one, other, mode)) {
            self.left(from, moved.as_ref(), false, false);
            if let Some(fate) = self.ledger.of(moved.as_ref()) {
                fate.parked |= !is_key(to);
            }
            if let Some((content, nlink)) = replaced {
                self.left(to, content.as_ref(), nlink == 1 && !exchange, true);
            }
            self.made(to);
            if exchange {
                self.made(from);
            }
        }
    }

    pub fn rename_directory(&mut self) {
        let from = DIRECTORIES[self.rng.random_range(0..DIRECTORIES.len())];
        let to = DIRECTORIES[self.rng.random_range(0..DIRECTORIES.len())];
        let inside: Vec<_> =
            PLACES.iter().filter_map(|path| path.strip_prefix(from)?.strip_prefix('/')).collect();
        let before: Vec<_> =
            inside.iter().map(|name| (*name, self.there(&format!("{from}/{name}")))).collect();
        self.trace.push(format!("rename directory {from} to {to}: {before:?}"));
        let ((from_dir, from_name), (to_dir, to_name)) = (split(from), split(to));
        let engine = self.world.engine();
        let ends = self.world.run(async {
            // An object may have the name itself.
            find(&engine, from).await.filter(|inode| inode.kind == FileKind::Directory)?;
            let (one, other) = (find(&engine, from_dir).await, directory(&engine, to_dir).await);
            Some((one?.ino, other?))
        });
        let Some((from_dir, to_dir)) = ends.filter(|_| from != to) else { return };
        let mut paths: Vec<_> = before.iter().map(|(name, _)| format!("{from}/{name}")).collect();
        paths.extend(before.iter().map(|(name, _)| format!("{to}/{name}")));
        let paths: Vec<_> = paths.iter().map(String::as_str).collect();
        let (one, other) = ((from_dir, &*from_name), (to_dir, &*to_name));
        if self.named(&paths, engine.rename(one, other, RenameMode::NoReplace)) {
            for (name, there) in before {
                if let Some((content, _)) = there {
                    self.left(&format!("{from}/{name}"), content.as_ref(), false, false);
                }
                self.made(&format!("{to}/{name}"));
            }
        }
    }

    pub fn unlink(&mut self, path: &'static str) {
        let Some((content, nlink)) = self.there(path) else { return };
        self.trace.push(format!("unlink {path} {content:?} of {nlink}"));
        let (engine, (dir, name)) = (self.world.engine(), split(path));
        let dir = self.world.run(find(&engine, dir));
        let Some(dir) = dir.map(|dir| dir.ino) else { return };
        if self.named(&[path], engine.unlink(dir, &name)) {
            self.left(path, content.as_ref(), nlink == 1, false);
        }
    }

    pub fn hard_link(&mut self, from: &'static str, to: &'static str) {
        let engine = self.world.engine();
        let (dir, name) = split(to);
        let ends = self.world.run(async {
            let inode = find(&engine, from).await?;
            let is_file = inode.kind != FileKind::Directory && find(&engine, to).await.is_none();
            let dir = directory(&engine, dir).await?;
            is_file.then_some((inode.ino, dir))
        });
        let Some((ino, dir)) = ends else { return };
        self.trace.push(format!("link {from} as {to}"));
        if self.named(&[to], engine.link(ino, dir, &name)) {
            self.made(to);
        }
    }

    /// What changes no bytes.
    pub fn attributes(&mut self, path: &'static str) {
        let (engine, what) = (self.world.engine(), self.rng.random_range(0..4));
        self.trace.push(format!("attributes {what} of {path}"));
        let done = self.world.run(async {
            let ino = find(&engine, path).await?.ino;
            match what {
                0 => engine.xattr_set(ino, b"user.x", b"value", XattrMode::Any).await.ok(),
                1 => engine.fsync(ino).await.ok(),
                mode => {
                    let set = SetAttr { mode: Some(0o600 + mode), ..SetAttr::default() };
                    engine.setattr(ino, set).await.ok().map(drop)
                }
            }
        });
        let _ = done;
    }
}
