//! Putting back into the volume what nobody changed since.
//!
//! Bytes go straight to the bucket as a segment, and one commit makes them part of their file. The
//! manifest names the segment before the commit and takes the ranges out after it, so that a merge
//! that was cut off anywhere is gone on with: extents that name the segment tell that its commit
//! happened. A file that is made again gets its bytes before its name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_meta::{ACL_ACCESS, FileFlush, FlushCommit, NewInode, Piece, SetAttr, XattrMode};
use weir_object::Component;
use weir_segment::{Owner, SealedSegment, SegmentBuilder};
use weir_tier::{Kept, Merging, Remade};
use weir_types::{ByteRange, ErrorKind, FileKind, FsError, Ino, Inode, Result, UnixTime};

use super::assessed::{Assessed, Item};
use super::parts::Quarantine;
use super::source::{Ranges, Source, first_part};
use super::views::Standing;
use crate::data::segments::segment_info;
use crate::volume::context::blocking;

/// Most pieces of one commit.
const PIECES_MAX: usize = 1_000;

/// Bytes on their way into a file: what a commit of them needs beside the pieces.
struct Part<'a> {
    ino: Ino,
    source: &'a Source,
    ranges: Vec<ByteRange>,
    /// Of the whole file, with its last part.
    end: Option<(u64, Option<UnixTime>, Option<UnixTime>)>,
}

impl Quarantine {
    /// Puts back what can go back. Answers files and bytes.
    pub(crate) async fn merge_entry(self: &Arc<Self>, of: &mut Assessed) -> Result<(u64, u64)> {
        let (mut files, mut bytes) = (0, 0);
        // Directories first: files go into them.
        let mut items = of.items.clone();
        items.sort_by_key(|item| !is_directory(item));
        for item in items {
            let done = match item.standing {
                Standing::Unchanged => self.merge_file(of, &item).await?,
                Standing::New if is_directory(&item) => self.make_directory(of, item.ino).await?,
                Standing::New => self.make_file(of, &item).await?,
                _ => continue,
            };
            if done {
                files += 1;
                bytes += item.bytes();
            }
            self.note_progress(|progress| {
                progress.files += 1;
                progress.bytes += item.bytes();
            });
        }
        Ok((files, bytes))
    }

    /// Writes the dirty ranges of a file that nobody changed. `false`: somebody did meanwhile.
    async fn merge_file(self: &Arc<Self>, of: &mut Assessed, item: &Item) -> Result<bool> {
        let Some(file) = &item.kept else { return Ok(false) };
        let source = Source::of(of, item)?;
        self.resume(of, file).await?;
        let _changing = self.files.promises.changing(item.ino).await;
        loop {
            let Some(at) = of.place_of(file) else { return Ok(true) };
            let kept = of.entry.manifest.files[at].clone();
            let (part, rest) = self.part_of(&kept.dirty, kept.size);
            let last = rest.is_empty();
            let end = last.then_some((kept.size, kept.mtime, kept.ctime));
            let part = Part { ino: kept.ino, source: &source, ranges: part, end };
            let (in_flight, builder) = self.segments.new_segment();
            let (sealed, pieces) = self.pack(builder, &part).await?;
            let merging = Merging {
                segment: format!("{:032x}", in_flight.id.0),
                ranges: part.ranges.clone(),
            };
            of.entry.manifest.files[at].merging = Some(merging);
            of.entry.save()?;
            let Some(generation) = self.commit_part(&part, sealed, pieces, Some(&kept)).await?
            else {
                return Ok(false);
            };
            fail::fail_point!("engine::aside-committed", |_| Err(FsError::new(
                ErrorKind::Retry,
                "cut off"
            )));
            self.took(of, at, rest, generation).await?;
            if last {
                of.forget_kept(file)?;
                self.links.registry.names_added(kept.ino);
                return Ok(true);
            }
        }
    }

    /// Goes on after a merge that was cut off.
    async fn resume(&self, of: &mut Assessed, file: &str) -> Result<()> {
        let Some(at) = of.place_of(file) else { return Ok(()) };
        let kept = of.entry.manifest.files[at].clone();
        let (Some(merging), Some(base)) = (&kept.merging, kept.generation) else { return Ok(()) };
        let Some(now) = self.volume_inode(kept.ino).await? else { return Ok(()) };
        if self.expected(&kept, base, &now).await? == base {
            of.entry.manifest.files[at].merging = None;
            return Ok(());
        }
        let end = merging.ranges.last().map_or(0, |range| range.end);
        let left = kept.dirty.iter().filter(|range| range.end > end);
        let rest: Vec<_> = left.map(|range| range.within(end, u64::MAX)).collect();
        let all = rest.is_empty();
        self.took(of, at, rest, base + 1).await?;
        match all {
            true => of.forget_kept(file),
            false => Ok(()),
        }
    }

    /// A part is in the volume: durably so, and then noted.
    async fn took(
        &self,
        of: &mut Assessed,
        at: usize,
        rest: Vec<ByteRange>,
        generation: u64,
    ) -> Result<()> {
        self.meta.sync().await?;
        let kept = &mut of.entry.manifest.files[at];
        kept.merging = None;
        kept.dirty = rest;
        kept.generation = Some(generation);
        of.entry.save()
    }

    fn part_of(&self, ranges: &[ByteRange], size: u64) -> (Ranges, Ranges) {
        let mut within: Vec<_> = ranges.iter().map(|range| range.within(0, size)).collect();
        within.retain(|range| !range.is_empty());
        let most = self.context.format.segment_bytes;
        first_part(&within, most, PIECES_MAX, self.context.format.record_bytes)
    }

    async fn pack(
        &self,
        mut builder: SegmentBuilder,
        part: &Part<'_>,
    ) -> Result<(Option<SealedSegment>, Vec<Piece>)> {
        let (ino, source, ranges) = (part.ino, part.source.clone(), part.ranges.clone());
        blocking(move || {
            let mut pieces = Vec::new();
            for ByteRange { start: offset, end } in ranges {
                let bytes = source.read(offset, end)?;
                let record = builder.push(Owner { ino, offset }, &bytes)?;
                pieces.push(Piece { offset, record, len: bytes.len() as u32 });
            }
            Ok(((!builder.is_empty()).then(|| builder.finish()), pieces))
        })
        .await
    }

    /// Sends a part and makes it the file's. Answers the generation after it; `None` where the file
    /// is not what it was when `kept` was set aside.
    async fn commit_part(
        self: &Arc<Self>,
        part: &Part<'_>,
        sealed: Option<SealedSegment>,
        pieces: Vec<Piece>,
        kept: Option<&Kept>,
    ) -> Result<Option<u64>> {
        if let Some(sealed) = &sealed {
            self.segments.put_segment(sealed, Component::Data).await?;
        }
        let ino = part.ino;
        let node = self.nodes.get(ino);
        let _change = node.change.lock().await;
        let now = self.meta.inode(ino).await?;
        // In step with the inode, or its pages would pass for those after this commit.
        let mirror = self.tier.find(ino).map(|_| self.tier.mirror(&now)).transpose()?;
        let written = mirror.as_ref().is_some_and(|mirror| mirror.has_unflushed());
        if kept.is_some_and(|kept| kept.generation != Some(now.data.generation)) || written {
            return Ok(None);
        }
        let first = part.ranges.first();
        let hull = first.zip(part.ranges.last());
        let hull = hull.map(|(first, last)| ByteRange::new(first.start, last.end));
        let (size, mtime, ctime) = match part.end {
            Some((size, mtime, ctime)) => (Some(size.max(now.size)), mtime, ctime),
            None => (None, None, None),
        };
        let since = self.context.is_shared().then_some(now.data.generation);
        let replaced = hull;
        let file = FileFlush { ino, pieces, size, since, mtime, ctime, replaced, whole: false };
        let segments = sealed.iter().map(|s| (s.id, segment_info(s))).collect();
        let commit = FlushCommit { segments, files: vec![file] };
        let done = match self.meta.commit_flush(commit).await {
            Ok(done) => done,
            Err(error) => return Err(self.mirrors.extents_unsure(ino, error).await),
        };
        let gone = || FsError::new(ErrorKind::NotFound, format!("inode {ino} went meanwhile"));
        let inode = done.into_iter().find_map(|(_, inode)| inode).ok_or_else(gone)?;
        let (before, generation) = (now.data.generation, inode.data.generation);
        if let (Some(mirror), Some(hull)) = (mirror, hull)
            && let Err(error) = mirror
                .dropped(hull, None, generation, true)
                .and_then(|()| self.mirrors.changed_by_us(&mirror, before, &inode))
        {
            return Err(self.mirrors.extents_unsure(ino, error).await);
        }
        Ok(Some(generation))
    }

    /// Makes a file, symlink or node again that never reached the volume.
    async fn make_file(self: &Arc<Self>, of: &mut Assessed, item: &Item) -> Result<bool> {
        let Some(made) = &item.made else { return Ok(false) };
        let mut places = Vec::new();
        for (dir, name) in &item.names {
            if let Some(dir) = self.directory_of(of, *dir)
                && self.name_is_free(dir, name, made.kind).await?.is_empty()
            {
                places.push((dir, name.clone()));
            }
        }
        let Some((dir, name)) = places.first() else { return Ok(false) };
        let size = if made.kind == FileKind::Regular { 0 } else { made.size };
        let orphan = self.meta.new_orphan(&Inode { size, ..made.clone() }).await?;
        if made.kind == FileKind::Regular {
            self.fill_orphan(of, item, made, orphan.ino).await?;
        }
        if let Some(attributes) = of.lost.attributes.get(&item.ino) {
            self.put_attributes(orphan.ino, attributes).await?;
        }
        self.meta.sync().await?;
        of.entry
            .manifest
            .remade
            .insert(item.ino.0, Remade { ino: orphan.ino, done: false, names: places.clone() });
        of.entry.save()?;
        match self.meta.name_orphan(orphan.ino, *dir, name).await {
            Err(error) if error.kind() == ErrorKind::Exists => return Ok(false),
            named => named.map(drop)?,
        }
        fail::fail_point!("engine::aside-named", |_| Err(FsError::new(
            ErrorKind::Retry,
            "cut off"
        )));
        for (dir, name) in &places[1..] {
            self.meta.link(orphan.ino, *dir, name).await?;
        }
        for (dir, name) in &places {
            self.links.registry.name_changed(*dir, name);
        }
        self.meta.sync().await?;
        of.entry
            .manifest
            .remade
            .insert(item.ino.0, Remade { ino: orphan.ino, done: true, names: Vec::new() });
        match &item.kept {
            Some(file) => of.forget_kept(file)?,
            None => of.entry.save()?,
        }
        Ok(true)
    }

    /// Brings the bytes of a file that is made again.
    async fn fill_orphan(
        self: &Arc<Self>,
        of: &Assessed,
        item: &Item,
        made: &Inode,
        ino: Ino,
    ) -> Result<()> {
        let source = Source::of(of, item)?;
        let mtime = item.mtime.or(Some(made.mtime));
        let mut left = item.ranges.clone();
        loop {
            let (ranges, rest) = self.part_of(&left, item.size);
            let end = rest.is_empty().then_some((item.size, mtime, Some(made.ctime)));
            let part = Part { ino, source: &source, ranges, end };
            let (_in_flight, builder) = self.segments.new_segment();
            let (sealed, pieces) = self.pack(builder, &part).await?;
            self.commit_part(&part, sealed, pieces, None).await?;
            if rest.is_empty() {
                return Ok(());
            }
            left = rest;
        }
    }

    /// Sets extended attributes. Where the door does not obey access control lists, what their masks
    /// would give to the whole group is taken from it: until somebody looks at them, they let
    /// nobody in.
    async fn put_attributes(&self, ino: Ino, all: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<()> {
        let obeyed = self.context.obeys_acls.load(Ordering::Relaxed);
        for (name, value) in all {
            let inode = self.meta.xattr_set(ino, name, value, XattrMode::Any).await?;
            if name == ACL_ACCESS && !obeyed {
                let mode = Some(inode.mode & !0o070);
                self.meta.setattr(ino, SetAttr { mode, ..SetAttr::default() }).await?;
            }
        }
        Ok(())
    }

    /// The directory of the volume that a directory of an entry is.
    fn directory_of(&self, of: &Assessed, dir: Ino) -> Option<Ino> {
        match of.lost.makes_directory(dir) {
            true => of.entry.manifest.remade.get(&dir.0).map(|remade| remade.ino),
            false => Some(dir),
        }
    }

    /// Makes a directory again, and those above it. One that is there by that name will do.
    async fn make_directory(self: &Arc<Self>, of: &mut Assessed, ino: Ino) -> Result<bool> {
        let mut chain = vec![ino];
        let top = loop {
            let at = chain.last().copied().unwrap_or(ino);
            let Some((dir, _)) = of.lost.names_of(at).next() else { return Ok(false) };
            match self.directory_of(of, dir) {
                Some(there) => break there,
                // A ring is none that a commit made.
                None if chain.contains(&dir) => return Ok(false),
                None => chain.push(dir),
            }
        };
        let mut parent = top;
        for ino in chain.into_iter().rev() {
            let Some(made) = of.lost.made(ino).cloned() else { return Ok(false) };
            let Some((_, name)) = of.lost.names_of(ino).next() else { return Ok(false) };
            let name = name.to_vec();
            let attributes = of.lost.attributes.get(&ino).cloned().unwrap_or_default();
            let making = self.make_one_directory(parent, &name, &made, &attributes);
            let Some(there) = making.await? else {
                return Ok(false);
            };
            of.entry
                .manifest
                .remade
                .insert(ino.0, Remade { ino: there, done: true, names: Vec::new() });
            of.entry.save()?;
            parent = there;
        }
        Ok(true)
    }

    async fn make_one_directory(
        &self,
        parent: Ino,
        name: &[u8],
        made: &Inode,
        attributes: &BTreeMap<Vec<u8>, Vec<u8>>,
    ) -> Result<Option<Ino>> {
        let (kind, uid, gid) = (FileKind::Directory, made.uid, made.gid);
        // Nobody else's until its list is there: the bits alone may say too much.
        let has_list = attributes.contains_key(ACL_ACCESS);
        let mode = if has_list { made.mode & 0o7700 } else { made.mode };
        let new = NewInode { kind, mode, umask: None, uid, gid, rdev: 0, target: None };
        let inode = match self.meta.create(parent, name, new).await {
            Ok(inode) => inode,
            Err(error) if error.kind() == ErrorKind::Exists => {
                let there = self.meta.lookup(parent, name).await?;
                return Ok((there.kind == kind).then_some(there.ino));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let set = SetAttr { mode: Some(mode), gid: Some(gid), ..SetAttr::default() };
        self.meta.setattr(inode.ino, set).await?;
        self.put_attributes(inode.ino, attributes).await?;
        self.meta.sync().await?;
        self.links.registry.name_changed(parent, name);
        Ok(Some(inode.ino))
    }
}

impl Assessed {
    /// Where the manifest has the file that was a mirror of this name.
    fn place_of(&self, file: &str) -> Option<usize> {
        self.entry.manifest.files.iter().position(|kept| kept.file == file)
    }

    /// Nothing of a file is left to be done.
    fn forget_kept(&mut self, file: &str) -> Result<()> {
        self.entry.manifest.files.retain(|kept| kept.file != file);
        self.entry.save()?;
        let Some(directory) = &self.entry.files else { return Ok(()) };
        let path = directory.join(file);
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(FsError::local_io(format!("remove {}", path.display()), e))
            }
            _ => Ok(()),
        }
    }
}

fn is_directory(item: &Item) -> bool {
    item.made.as_ref().is_some_and(|made| made.kind == FileKind::Directory)
}
