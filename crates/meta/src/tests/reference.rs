//! Generated operations, run against the metadata and against the model.

use std::collections::{BTreeMap, BTreeSet};

use weir_types::{CHUNK_BYTES, ErrorKind, FileKind, Ino, Result, SegmentId, UnixTime};

use super::model::{Bytes, Model};
use super::{Dice, assert_sound, info, meta, new, record};
use crate::{FileFlush, FlushCommit, Meta, Piece, RenameMode, ShareRange, XattrMode};

const NOW: UnixTime = UnixTime(77);
const NAMES: [&[u8]; 5] = [b"a", b"b", b"c", b"d", b"e"];

struct Run {
    meta: Meta,
    model: Model,
    dice: Dice,
    segment: u128,
    purged: Vec<Ino>,
}

/// What an operation came to, told alike for both sides.
fn told<T>(result: Result<T>) -> Result<(), ErrorKind> {
    result.map(|_| ()).map_err(|error| error.kind())
}

impl Run {
    /// Any inode, the purged ones rarely.
    fn ino(&mut self) -> Ino {
        if !self.purged.is_empty() && self.dice.below(20) == 0 {
            return *self.dice.pick(&self.purged);
        }
        let inos: Vec<_> = self.model.nodes.keys().copied().collect();
        *self.dice.pick(&inos)
    }

    /// An inode, of this kind if there is one, but something else now and then.
    fn of_kind(&mut self, kind: FileKind) -> Ino {
        let inos: Vec<_> =
            self.model.nodes.iter().filter(|(_, n)| n.kind == kind).map(|(ino, _)| *ino).collect();
        if inos.is_empty() || self.dice.below(16) == 0 {
            return self.ino();
        }
        *self.dice.pick(&inos)
    }

    fn dir(&mut self) -> Ino {
        self.of_kind(FileKind::Directory)
    }

    fn name(&mut self) -> &'static [u8] {
        self.dice.pick::<&[u8]>(&NAMES)
    }

    /// An offset near the start or one of the first edges of chunks.
    fn offset(&mut self) -> u64 {
        (self.dice.below(4) * CHUNK_BYTES + self.dice.below(80)).saturating_sub(40)
    }

    async fn step(&mut self) {
        match self.dice.below(20) {
            0..=4 => self.create().await,
            5 => self.link().await,
            6..=7 => self.remove().await,
            8..=9 => self.rename().await,
            10..=13 => self.flush().await,
            14 => self.truncate().await,
            15 => self.punch().await,
            16..=17 => self.share().await,
            18 => self.collect().await,
            _ => self.xattrs_and_purge().await,
        }
    }

    async fn create(&mut self) {
        let (dir, name) = (self.dir(), self.name());
        let kinds = [FileKind::Regular, FileKind::Regular, FileKind::Directory, FileKind::Symlink];
        let kind = *self.dice.pick(&kinds);
        let made = self.meta.create(dir, name, new(kind)).await;
        let may = self.model.free(dir, name);
        if let Ok(inode) = &made {
            self.model.create(dir, name, kind, inode.ino);
        }
        assert_eq!(told(made), may, "create");
    }

    async fn link(&mut self) {
        let (ino, dir, name) = (self.of_kind(FileKind::Regular), self.dir(), self.name());
        let linked = self.meta.link(ino, dir, name).await;
        // The metadata looks at the directory first and at the inode next, as the model does.
        assert_eq!(told(linked), self.model.link(ino, dir, name), "link");
    }

    async fn remove(&mut self) {
        let (dir, name) = (self.dir(), self.name());
        if self.dice.below(2) == 0 {
            let removed = self.meta.unlink(dir, name).await;
            assert_eq!(told(removed), self.model.unlink(dir, name), "unlink");
        } else {
            let removed = self.meta.rmdir(dir, name).await;
            assert_eq!(told(removed), self.model.rmdir(dir, name), "rmdir");
        }
    }

    async fn rename(&mut self) {
        let (from, old, to, new) = (self.dir(), self.name(), self.dir(), self.name());
        let modes = [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange];
        let mode = *self.dice.pick(&modes);
        let renamed = self.meta.rename(from, old, to, new, mode).await;
        let wanted = self.model.rename((from, old), (to, new), mode);
        assert_eq!(told(renamed), wanted, "rename {mode:?}");
    }

    /// A few pieces to a few files, all in one new segment.
    async fn flush(&mut self) {
        self.segment += 1;
        let mut files = Vec::new();
        let mut position = 80;
        for _ in 0..=self.dice.below(3) {
            let ino = self.of_kind(FileKind::Regular);
            if !matches!(self.model.regular(ino), Ok(()) | Err(ErrorKind::NotFound)) {
                continue;
            }
            let mut pieces = Vec::new();
            for _ in 0..self.dice.below(4) {
                let offset = self.offset();
                let room = CHUNK_BYTES - offset % CHUNK_BYTES;
                let len = (1 + self.dice.below(40)).min(room) as u32;
                let raw = len + self.dice.below(3) as u32;
                pieces.push(Piece { offset, record: record(self.segment, position, raw), len });
                position += raw;
            }
            let size = (self.dice.below(3) > 0).then(|| self.offset());
            files.push(FileFlush { ino, pieces, size, ..FileFlush::default() });
        }
        for file in &files {
            self.model_flush(file);
        }
        let segments = vec![(SegmentId(self.segment), info(1 << 20))];
        let flush = FlushCommit { segments, files: files.clone() };
        let done = self.meta.commit_flush(flush).await.unwrap();
        for ((ino, inode), file) in done.iter().zip(&files) {
            assert_eq!(*ino, file.ino);
            assert_eq!(inode.is_some(), self.model.nodes.contains_key(ino));
        }
    }

    fn model_flush(&mut self, file: &FileFlush) {
        let Some(node) = self.model.nodes.get(&file.ino) else {
            return;
        };
        let end = file.pieces.iter().map(|piece| piece.offset + u64::from(piece.len)).max();
        let size = file.size.unwrap_or(node.size.max(end.unwrap_or(0)));
        self.model.truncate(file.ino, size);
        let node = self.model.node(file.ino);
        for piece in &file.pieces {
            let id = |i| (piece.record.segment.0, piece.record.position, i);
            let bytes = (0..piece.len).map(|i| (piece.offset + u64::from(i), id(i)));
            node.bytes.extend(bytes.filter(|(at, _)| *at < size));
        }
    }

    async fn truncate(&mut self) {
        let (ino, size) = (self.of_kind(FileKind::Regular), self.offset());
        let may = self.model.regular(ino);
        assert_eq!(told(self.meta.truncate(ino, size, NOW).await), may, "truncate");
        if may.is_ok() {
            self.model.truncate(ino, size);
        }
    }

    async fn punch(&mut self) {
        let (ino, a, b) = (self.of_kind(FileKind::Regular), self.offset(), self.offset());
        let range = a.min(b)..a.max(b);
        let may = self.model.regular(ino);
        assert_eq!(told(self.meta.punch(ino, range.clone(), NOW).await), may, "punch");
        if may.is_ok() {
            self.model.punch(ino, range);
        }
    }

    async fn share(&mut self) {
        let (src, dst) = (self.of_kind(FileKind::Regular), self.of_kind(FileKind::Regular));
        let (src_offset, dst_offset) = (self.offset(), self.offset());
        let far = self.dice.below(2) * CHUNK_BYTES;
        let len = far + self.dice.below(100);
        let range = ShareRange { src, src_offset, dst, dst_offset, len, dst_size: 0 };
        let overlaps = src == dst && src_offset.abs_diff(dst_offset) < len;
        let may = match overlaps {
            true => Err(ErrorKind::Invalid),
            false => self.model.regular(src).and_then(|()| self.model.regular(dst)),
        };
        assert_eq!(told(self.meta.share(range, NOW).await), may, "share");
        if may.is_ok() {
            self.model.share(src, src_offset, dst, dst_offset, len);
        }
    }

    /// Moves the bytes of one segment away, or forgets one that may be unused.
    async fn collect(&mut self) {
        let old = 1 + u128::from(self.dice.below(self.segment as u64 + 1));
        let used = self.model.used().contains(&old);
        let known = self.meta.segment_known(&[SegmentId(old)]).await.unwrap()[0];
        if !known || self.dice.below(2) == 0 {
            let forgot = self
                .meta
                .forget_segment(SegmentId(old), self.meta.snapshots_seen().await.unwrap())
                .await
                .unwrap();
            assert_eq!(forgot, !used, "forget {old}");
            return;
        }
        self.segment += 1;
        let new = self.segment;
        // The segment's index would name all chunks it was written for; any more do no harm.
        let owners: Vec<_> =
            self.model.nodes.keys().flat_map(|ino| (0..5).map(|chunk| (*ino, chunk))).collect();
        let references = self.meta.references(SegmentId(old), &owners).await.unwrap();
        assert_eq!(!references.is_empty(), used, "references to {old}");
        let mut moves = BTreeMap::new();
        for extent in references.iter().flat_map(|reference| &reference.extents) {
            let mut to = extent.record;
            to.segment = SegmentId(new);
            moves.insert(extent.record.position, (extent.record, to));
        }
        let moves: Vec<_> = moves.into_values().collect();
        let segments = [(SegmentId(new), info(1 << 20))];
        for reference in references {
            let (ino, chunk) = (reference.ino, reference.chunk);
            assert!(self.meta.relocate(ino, chunk, &moves, &segments).await.unwrap());
        }
        for node in self.model.nodes.values_mut() {
            node.bytes.values_mut().filter(|id| id.0 == old).for_each(|id| id.0 = new);
        }
    }

    async fn xattrs_and_purge(&mut self) {
        let (ino, name) = (self.ino(), self.name());
        let there = self.model.nodes.contains_key(&ino);
        if self.dice.below(2) == 0 {
            let set = self.meta.xattr_set(ino, name, b"value", XattrMode::Any).await;
            assert_eq!(set.is_ok(), there);
            if there {
                self.model.node(ino).xattrs.insert(name.to_vec());
            }
            return;
        }
        let may = match self.model.nodes.get(&ino) {
            Some(node) if node.nlink > 0 => Err(ErrorKind::Invalid),
            _ => Ok(()),
        };
        assert_eq!(told(self.meta.purge(ino).await), may, "purge");
        if may.is_ok() && self.model.nodes.remove(&ino).is_some() {
            self.purged.push(ino);
        }
    }

    /// Holds all that can be read against the model.
    async fn compare(&self) {
        for (ino, node) in &self.model.nodes {
            let inode = self.meta.inode(*ino).await.unwrap();
            let have = (inode.kind, inode.nlink, inode.size, inode.stored_bytes);
            let want = (node.kind, node.nlink, node.size, node.bytes.len() as u64);
            assert_eq!(have, want, "inode {ino}");
            let xattrs: BTreeSet<_> =
                self.meta.xattr_list(*ino).await.unwrap().into_iter().collect();
            assert_eq!(xattrs, node.xattrs);
            match node.kind {
                FileKind::Directory if node.nlink > 0 => {
                    assert_eq!(self.entries(*ino).await, node.entries, "directory {ino}");
                    assert_eq!(self.meta.parent(*ino).await.unwrap(), node.parent);
                }
                _ => assert_eq!(self.bytes(*ino).await, node.bytes, "file {ino}"),
            }
        }
        for ino in &self.purged {
            assert!(self.meta.inode(*ino).await.is_err());
        }
        assert_sound(&self.meta).await;
    }

    async fn entries(&self, dir: Ino) -> BTreeMap<Vec<u8>, Ino> {
        let mut all = BTreeMap::new();
        let mut after = 0;
        loop {
            let page = self.meta.readdir(dir, after, 2).await.unwrap();
            let Some(last) = page.last() else { return all };
            after = last.cookie;
            all.extend(page.into_iter().map(|entry| (entry.name, entry.ino)));
        }
    }

    async fn bytes(&self, ino: Ino) -> Bytes {
        let mut bytes = Bytes::new();
        for (chunk, extents) in self.meta.chunks(ino, 0..100).await.unwrap().list {
            for extent in extents {
                let start = chunk * CHUNK_BYTES + u64::from(extent.start);
                let record = extent.record;
                for i in 0..extent.len {
                    let id = (record.segment.0, record.position, extent.skip + i);
                    bytes.insert(start + u64::from(i), id);
                }
            }
        }
        bytes
    }
}

async fn run(seed: u64, steps: u32) {
    eprintln!("seed {seed}");
    let meta = meta().await;
    if seed % 2 == 1 {
        // All of it counts for quotas, of which the check knows what they must say.
        super::quotas::count_from(&meta, Ino::ROOT).await;
    }
    let mut run =
        Run { meta, model: Model::new(), dice: Dice::new(seed), segment: 0, purged: Vec::new() };
    for step in 0..steps {
        run.step().await;
        if step % 40 == 0 {
            run.compare().await;
        }
    }
    run.compare().await;
}

#[tokio::test]
async fn generated_operations_do_what_the_model_does() {
    for seed in 0..40 {
        run(seed, 500).await;
    }
}

/// The same with the seed and length of your choice: `WEIR_SEED=7 WEIR_STEPS=100000`.
#[tokio::test]
#[ignore = "for looking further than the seeds above"]
async fn generated_operations_with_a_chosen_seed() {
    let number = |name, default| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    run(number("WEIR_SEED", 0), number("WEIR_STEPS", 10_000) as u32).await;
}
