//! What an entry holds, beside what the volume has now: which files can go back, and why others
//! cannot.

use std::collections::{BTreeMap, BTreeSet};

use weir_tier::{Kept, Remade, Why};
use weir_types::{ByteRange, CHUNK_BYTES, ErrorKind, FileKind, FsError, Ino, Inode, Result};

use super::assessed::{Assessed, Item, Operation, covers};
use super::entry::Entry;
use super::log::LostLog;
use super::parts::Quarantine;
use super::paths::Paths;
use super::views::Standing;
use crate::volume::context::blocking;

/// Why nothing can be said of a file.
const DAMAGED: &str = "its metadata is damaged: it can go back once that is mended";

/// Pieces of a log as sorted ranges that do not overlap.
fn ranges_of(pieces: impl Iterator<Item = ByteRange>) -> Vec<ByteRange> {
    let mut all: Vec<_> = pieces.filter(|range| !range.is_empty()).collect();
    all.sort_unstable();
    let mut joined: Vec<ByteRange> = Vec::new();
    for ByteRange { start, end } in all {
        match joined.last_mut() {
            Some(last) if last.end >= start => last.end = last.end.max(end),
            _ => joined.push(ByteRange { start, end }),
        }
    }
    joined
}

impl Quarantine {
    /// Reads an entry and holds it against the volume.
    pub(crate) async fn assess(&self, mut entry: Entry) -> Result<Assessed> {
        if let Some(problem) = &entry.problem {
            return Err(FsError::new(ErrorKind::Corrupt, problem.clone()));
        }
        let directory = entry.log_directory().map(ToOwned::to_owned);
        let mut log = match directory {
            Some(directory) => blocking(move || LostLog::read(&directory)).await?,
            None => LostLog::default(),
        };
        let reached = self.meta.reached(&log.commits).await.unwrap_or(0);
        let lost = log.lost(reached);
        log.commits.clear();
        self.settle_remade(&mut entry).await?;
        let mut assessed = Assessed { entry, log, lost, items: Vec::new(), operations: Vec::new() };
        let mut paths = Paths::default();
        let kept: Vec<_> = assessed.entry.manifest.files.clone();
        for kept in &kept {
            let item = self.kept_item(&assessed, kept).await?;
            assessed.items.push(item);
        }
        self.logged_items(&mut assessed).await?;
        let done: BTreeSet<_> = assessed.entry.manifest.remade.keys().copied().collect();
        assessed.items.retain(|item| !done.contains(&item.ino.0));
        paths.name_all(self, &mut assessed).await?;
        self.operations(&mut assessed, &mut paths).await?;
        Ok(assessed)
    }

    /// Files that were made again, but for the note of it: those that have a name get the others
    /// that they lack and are done; the others never were.
    async fn settle_remade(&self, entry: &mut Entry) -> Result<()> {
        let mut open = entry.manifest.remade.clone();
        open.retain(|_, remade| !remade.done);
        if open.is_empty() || self.context.read_only {
            return Ok(());
        }
        for (ino, Remade { ino: now, names, .. }) in open {
            if self.volume_inode(now).await?.is_none() {
                entry.manifest.remade.remove(&ino);
                continue;
            }
            for (dir, name) in names {
                match self.meta.link(now, dir, &name).await {
                    Ok(_) => self.links.registry.name_changed(dir, &name),
                    // It was there, or it is somebody else's by now.
                    Err(e) if matches!(e.kind(), ErrorKind::Exists | ErrorKind::NotFound) => {}
                    Err(error) => return Err(error),
                }
            }
            let done = Remade { ino: now, done: true, names: Vec::new() };
            entry.manifest.remade.insert(ino, done);
        }
        self.meta.sync().await?;
        entry.save()
    }

    /// The inode if it is there and has a name.
    pub(crate) async fn volume_inode(&self, ino: Ino) -> Result<Option<Inode>> {
        match self.meta.inode(ino).await {
            Ok(inode) => Ok((inode.nlink > 0).then_some(inode)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The same, and whether its row is damaged.
    async fn inode_or_damage(&self, ino: Ino) -> Result<(Option<Inode>, bool)> {
        match self.volume_inode(ino).await {
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok((None, true)),
            known => Ok((known?, false)),
        }
    }

    async fn kept_item(&self, of: &Assessed, kept: &Kept) -> Result<Item> {
        let (now, damaged) = self.inode_or_damage(kept.ino).await?;
        let made = of.lost.made(kept.ino).cloned();
        let mut item = Item {
            ino: kept.ino,
            kept: Some(kept.file.clone()),
            standing: Standing::Unknown,
            why: DAMAGED,
            names: Vec::new(),
            path: None,
            size: kept.size,
            mtime: kept.mtime,
            ranges: kept.dirty.iter().map(|range| range.within(0, kept.size)).collect(),
            made,
            now,
        };
        item.ranges.retain(|range| !range.is_empty());
        if !damaged {
            (item.standing, item.why) = self.standing(of, &item, Some(kept)).await?;
        }
        item.forget_other();
        Ok(item)
    }

    /// Files of which only the log tells: fsynced data, and what has no bytes.
    async fn logged_items(&self, of: &mut Assessed) -> Result<()> {
        let listed: BTreeSet<Ino> = of.items.iter().map(|item| item.ino).collect();
        let data = of.log.files.iter().filter(|(_, data)| !data.is_empty()).map(|(ino, _)| *ino);
        let made = of.lost.inodes.keys().copied().filter(|ino| of.lost.made(*ino).is_some());
        let wanted: BTreeSet<Ino> = data.chain(made).filter(|ino| !listed.contains(ino)).collect();
        for ino in wanted {
            let data = of.log.files.get(&ino).cloned().unwrap_or_default();
            let made = of.lost.made(ino).cloned();
            let logged = made.as_ref().map(|inode| (inode.size, Some(inode.mtime)));
            let attributes = data.attributes.map(|(size, mtime, _)| (size, mtime));
            let (size, mtime) = attributes.or(logged).unwrap_or_default();
            let pieces = data
                .pieces
                .iter()
                .map(|p| ByteRange::new(p.offset, p.offset + p.len).within(0, size));
            let (now, damaged) = self.inode_or_damage(ino).await?;
            let mut item = Item {
                ino,
                kept: None,
                standing: Standing::Unknown,
                why: DAMAGED,
                names: Vec::new(),
                path: None,
                size,
                mtime: mtime.or(logged.and_then(|l| l.1)),
                ranges: ranges_of(pieces),
                made,
                now,
            };
            if !damaged {
                (item.standing, item.why) = self.standing(of, &item, None).await?;
            }
            item.forget_other();
            // Those that reached the volume after all are no loss.
            let born = |inode: &Option<Inode>| inode.as_ref().map(|inode| inode.btime);
            let there = item.now.is_some() && born(&item.now) == born(&item.made);
            if !(item.ranges.is_empty() && (there || item.made.is_none())) {
                of.items.push(item);
            }
        }
        Ok(())
    }

    /// Whether a file can go back, and if not, why.
    async fn standing(
        &self,
        of: &Assessed,
        item: &Item,
        kept: Option<&Kept>,
    ) -> Result<(Standing, &'static str)> {
        let ino = item.ino;
        let lost = of.lost.inodes.get(&ino);
        if let Some(made) = &item.made {
            let reached = item.now.as_ref().is_some_and(|now| now.btime == made.btime);
            if !reached {
                return self.standing_of_new(of, item, made).await;
            }
        }
        if lost.is_some_and(|lost| lost.last.is_none()) {
            return Ok((Standing::Removed, "its own mount removed it"));
        }
        let Some(now) = &item.now else {
            return Ok((Standing::Removed, "it was removed since"));
        };
        match of.lost.born.get(&ino) {
            Some(born) if *born != now.btime => {
                return Ok((Standing::Removed, "its number is another file's by now"));
            }
            Some(_) => {}
            None if of.log.damage.is_some() => {
                return Ok((Standing::Unknown, "its log is damaged: it may be another file"));
            }
            None if of.entry.log_directory().is_none() && !of.entry.manifest.cause.commits_hold => {
                return Ok((Standing::Unknown, "without its log it may be another file"));
            }
            None => {}
        }
        if matches!(of.entry.manifest.cause.why, Why::DiskFailed | Why::DiskRemounted) {
            return Ok((Standing::Unknown, "its disk may have lost some of its bytes"));
        }
        let Some(kept) = kept else {
            return Ok((
                Standing::Unknown,
                "the journal does not say what its bytes were based on",
            ));
        };
        let Some(generation) = kept.generation else {
            return Ok((Standing::Unknown, "an earlier build did not note what it was based on"));
        };
        let other = |lost: &super::log::LostInode| {
            lost.extents || lost.generations.iter().any(|g| *g != generation)
        };
        if lost.is_some_and(other) {
            return Ok((Standing::Unknown, "it was based on changes that are lost, too"));
        }
        if now.data.generation != self.expected(kept, generation, now).await? {
            return Ok((Standing::Changed, "its bytes were changed since"));
        }
        if !kept.resized && kept.merging.is_none() && now.size != kept.size {
            return Ok((Standing::Changed, "its size was changed since"));
        }
        match self.tier.find(ino).is_some_and(|mirror| mirror.has_unflushed()) {
            true => Ok((Standing::Changed, "it was written since")),
            false => Ok((Standing::Unchanged, "")),
        }
    }

    /// The generation that the file has if nobody but a merge that was cut off changed it.
    pub(crate) async fn expected(&self, kept: &Kept, base: u64, now: &Inode) -> Result<u64> {
        let Some(merging) = &kept.merging else { return Ok(base) };
        let Some(first) = merging.ranges.first() else { return Ok(base) };
        let last = merging.ranges.last().map_or(first.end, |range| range.end);
        let chunks = first.start / CHUNK_BYTES..last.div_ceil(CHUNK_BYTES);
        let stored = self.meta.chunks(now.ino, chunks).await?;
        let mut extents = stored.list.iter().flat_map(|(_, extents)| extents);
        let ours =
            |e: &weir_types::Extent| format!("{:032x}", e.record.segment.0) == merging.segment;
        Ok(if extents.any(ours) { base + 1 } else { base })
    }

    async fn standing_of_new(
        &self,
        of: &Assessed,
        item: &Item,
        made: &Inode,
    ) -> Result<(Standing, &'static str)> {
        let lost = of.lost.inodes.get(&item.ino);
        if lost.is_some_and(|lost| lost.extents) && !covers(&item.ranges, item.size) {
            return Ok((Standing::Blocked, "parts of it are in no volume and not here"));
        }
        let mut why = "it has no name";
        let mut found = false;
        for (dir, name) in of.lost.names_of(item.ino) {
            found = true;
            why = self.place_is_free(of, dir, name, made.kind).await?;
            if why.is_empty() {
                return Ok((Standing::New, "it never reached the volume"));
            }
        }
        let removed = if found { why } else { "it has no name" };
        Ok((Standing::Blocked, removed))
    }

    /// Why `name` cannot be made in `dir`; empty if it can.
    async fn place_is_free(
        &self,
        of: &Assessed,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
    ) -> Result<&'static str> {
        if of.lost.makes_directory(dir) {
            // Goes with its directory; one that has its name by now is looked into then.
            let Some(Remade { ino, .. }) = of.entry.manifest.remade.get(&dir.0) else {
                return Ok("");
            };
            return self.name_is_free(*ino, name, kind).await;
        }
        let Some(parent) = self.volume_inode(dir).await? else {
            return Ok("its directory is gone");
        };
        let other = of.lost.born.get(&dir).is_some_and(|born| *born != parent.btime);
        match parent.kind == FileKind::Directory && !other {
            true => self.name_is_free(dir, name, kind).await,
            false => Ok("its directory is gone"),
        }
    }

    pub(crate) async fn name_is_free(
        &self,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
    ) -> Result<&'static str> {
        match self.meta.lookup(dir, name).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(""),
            Err(error) => Err(error),
            // What it would hold may go there.
            Ok(there) if kind == FileKind::Directory && there.kind == kind => Ok(""),
            Ok(_) => Ok("its name is taken by now"),
        }
    }

    /// Changes that nobody makes again by himself: of names and attributes of what is in the volume.
    async fn operations(&self, of: &mut Assessed, paths: &mut Paths) -> Result<()> {
        let mut found = Vec::new();
        for ((dir, name), to) in &of.lost.names {
            if of.lost.makes_directory(*dir) || to.is_some_and(|to| of.lost.made(to).is_some()) {
                continue;
            }
            let has = match self.meta.lookup(*dir, name).await {
                Ok(inode) => Some(inode.ino),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
            let what = match (to, has) {
                (Some(to), has) if has != Some(*to) => "named",
                (None, Some(_)) => "removed",
                _ => continue,
            };
            let path = paths.of(self, *dir, name).await?;
            found.push(Operation { what, path });
        }
        let changed: BTreeMap<_, _> = of.lost.inodes.iter().filter(|(_, l)| !l.made).collect();
        for (ino, lost) in changed {
            let (Some(last), Some(now)) = (&lost.last, self.volume_inode(*ino).await?) else {
                continue;
            };
            let attributes = |i: &Inode| (i.mode, i.uid, i.gid);
            let what = match () {
                () if now.btime != last.btime => continue,
                () if attributes(last) != attributes(&now) => "attributes",
                () if lost.extents && last.kind == FileKind::Regular => "cut or written",
                () => continue,
            };
            let path = paths.file(self, &now).await?.unwrap_or_else(|| format!("inode {ino}"));
            found.push(Operation { what, path });
        }
        of.operations = found;
        Ok(())
    }
}
