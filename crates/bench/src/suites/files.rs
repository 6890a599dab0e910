//! Files of one size, written and read from start to end: what the published runs do with `dd`
//! and `head`.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use super::phase::{Phase, begin, copies_of};
use crate::cache::Empty;
use crate::machine;
use crate::noise::Noise;
use crate::report::{Measurement, Size, Warning};
use crate::suite::{BenchError, Demand, MetadataOps, Run, Suite};
use crate::timing::{Timed, Watch, together};

const MIB: u64 = 1 << 20;

/// Bytes of a read of good readers.
const READ_BYTES: usize = MIB as usize;
/// Bytes of a read of `dd` when nobody says more. Source: coreutils manual, `dd`, `ibs=`.
const DD_READ_BYTES: usize = 512;

/// Phases that read, what is emptied before them, and the bytes of a read.
const READS: [(&str, Empty, usize); 3] = [
    ("read-cold", Empty::Tier, READ_BYTES),
    ("read-warm", Empty::PageCache, READ_BYTES),
    ("read-512", Empty::PageCache, DD_READ_BYTES),
];

/// What is in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Random bytes, each block different.
    Random,
    /// Zeros, which many a file system packs.
    Zeros,
}

/// How many files, and how they are written.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Files of each copy.
    pub files: u64,
    /// Writes of a file.
    pub chunks: u64,
    /// Bytes of a write.
    pub chunk_bytes: u64,
    /// Copies at once, a thread and a directory each.
    pub copies: &'static [u32],
}

/// A suite of files of one size.
#[derive(Clone, Debug)]
pub struct Files {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// Published experiments that did the same.
    pub published: &'static [&'static str],
    /// What is in the files.
    pub content: Content,
    /// Whether they are read again.
    pub reads: bool,
    /// For a laptop.
    pub small: Shape,
    /// As published.
    pub full: Shape,
}

/// Few large files. Source: the experiments `cp-*_large-*` of the cost crate: `dd bs=100M
/// count=1024` from random bytes, and `dd` to /dev/null with reads of 512 bytes.
pub fn dd_large() -> Files {
    Files {
        name: "dd-large",
        about: "a large file for each copy, written in large chunks and read: dd",
        published: &[
            "cp-efs-create_large-1t",
            "cp-efs-read_large-1t",
            "cp-efs-create_large-4t",
            "cp-efs-read_large-4t",
            "cp-efs-create_large-8t",
            "cp-efs-read_large-8t",
            "cp-lustre-create_large-1t",
            "cp-lustre-read_large-1t",
            "cp-lustre-create_large-4t",
            "cp-lustre-read_large-4t",
            "cp-lustre-create_large-8t",
            "cp-lustre-read_large-8t",
        ],
        content: Content::Random,
        reads: true,
        small: Shape { files: 1, chunks: 16, chunk_bytes: 10 * MIB, copies: &[1, 4, 8] },
        full: Shape { files: 1, chunks: 1024, chunk_bytes: 100 * MIB, copies: &[1, 4, 8] },
    }
}

/// Many small files. Source: the experiments `cp-*_small-*` of the cost crate: 100,000 times
/// `head -c 500kB` of random bytes, and `dd` of each.
pub fn small_files() -> Files {
    Files {
        name: "small-files",
        about: "many small files for each copy, made and read one after the other",
        published: &[
            "cp-efs-create_small-1t",
            "cp-efs-read_small-1t",
            "cp-efs-create_small-4t",
            "cp-efs-read_small-4t",
            "cp-efs-create_small-8t",
            "cp-efs-read_small-8t",
            "cp-lustre-create_small-1t",
            "cp-lustre-read_small-1t",
            "cp-lustre-create_small-4t",
            "cp-lustre-read_small-4t",
            "cp-lustre-create_small-8t",
            "cp-lustre-read_small-8t",
        ],
        content: Content::Random,
        reads: true,
        small: Shape { files: 2_000, chunks: 1, chunk_bytes: 50_000, copies: &[1, 4, 8] },
        full: Shape { files: 100_000, chunks: 1, chunk_bytes: 500_000, copies: &[1, 4, 8] },
    }
}

/// Files of zeros from one writer. Source: the experiments `dummy-100k-*` of the cost crate:
/// 100,000 times `dd if=/dev/zero bs=1M count=1`, there without an fsync.
pub fn dummy_files() -> Files {
    Files {
        name: "dummy-files",
        about: "files of 1 MiB of zeros, made by one writer",
        published: &["dummy-100k-ebs", "dummy-100k-instance-store"],
        content: Content::Zeros,
        reads: false,
        small: Shape { files: 500, chunks: 1, chunk_bytes: MIB, copies: &[1] },
        full: Shape { files: 100_000, chunks: 1, chunk_bytes: MIB, copies: &[1] },
    }
}

impl Shape {
    /// Chunks of a copy.
    fn operations(&self) -> u64 {
        self.files * self.chunks
    }

    fn unit(&self) -> &'static str {
        if self.chunks == 1 { "files" } else { "chunks" }
    }
}

/// One copy: a thread with its directory.
struct Copy {
    dir: PathBuf,
    noise: Option<Noise>,
    zeros: Vec<u8>,
}

impl Copy {
    fn file(&self, at: u64) -> PathBuf {
        self.dir.join(format!("file-{at:06}"))
    }

    fn next(&mut self) -> &[u8] {
        match &mut self.noise {
            Some(noise) => noise.refreshed(),
            None => &self.zeros,
        }
    }
}

impl Files {
    fn shape(&self, size: Size) -> &Shape {
        match size {
            Size::Small => &self.small,
            Size::Published => &self.full,
        }
    }

    /// All phases for so many copies at once; removes what they made.
    fn round(&self, run: &Run<'_>, count: u32) -> Result<Vec<Measurement>, BenchError> {
        let dirs: Vec<_> = (0..count).map(|copy| run.dir.join(format!("copy-{copy}"))).collect();
        for dir in &dirs {
            fs::create_dir(dir).map_err(|error| BenchError::io(dir.display(), error))?;
        }
        let mut done = vec![self.create(run, &dirs)?];
        if self.reads {
            for phase in READS {
                done.push(self.read(run, &dirs, phase)?);
            }
        }
        dirs.iter().try_for_each(|dir| remove(dir, run))?;
        Ok(done)
    }

    fn create(&self, run: &Run<'_>, dirs: &[PathBuf]) -> Result<Measurement, BenchError> {
        let shape = self.shape(run.size);
        let copies = dirs.len() as u32;
        let steps = shape.operations() * u64::from(copies);
        let mut warnings = begin(run, "create", copies, steps, None)?;
        let bytes = shape.chunk_bytes as usize;
        let copy = |(at, dir): (u64, &PathBuf)| {
            // Each copy and each repeat has bytes of its own.
            let seed = run.seed ^ (u64::from(run.repeat) << 32 | u64::from(copies) << 16 | at);
            let dir = dir.clone();
            match self.content {
                Content::Random => {
                    Copy { dir, noise: Some(Noise::new(seed, bytes)), zeros: vec![] }
                }
                Content::Zeros => Copy { dir, noise: None, zeros: vec![0; bytes] },
            }
        };
        let states: Vec<_> = (0..).zip(dirs).map(copy).collect();
        let dirty_bytes = machine::dirty_bytes();
        let timed = together(states, run.stop, run.progress, |copy, watch| {
            (0..shape.files).try_for_each(|at| write_file(copy, at, shape, run.sync, watch))
        })?;
        let dirty_bytes = machine::dirty_bytes().saturating_sub(dirty_bytes);
        if !run.sync && dirty_bytes > 0 {
            warnings.push(Warning::NotDurable { dirty_bytes });
        }
        Ok(self.phase("create", copies, shape, warnings).measured(run, &timed))
    }

    fn read(
        &self,
        run: &Run<'_>,
        dirs: &[PathBuf],
        (name, empty, read_bytes): (&str, Empty, usize),
    ) -> Result<Measurement, BenchError> {
        let shape = self.shape(run.size);
        let copies = dirs.len() as u32;
        let steps = shape.operations() * u64::from(copies);
        let warnings = begin(run, name, copies, steps, Some(empty))?;
        let copy = |dir: &PathBuf| {
            let copy = Copy { dir: dir.clone(), noise: None, zeros: vec![] };
            (copy, vec![0; read_bytes])
        };
        let states = dirs.iter().map(copy).collect();
        let timed: Timed = together(states, run.stop, run.progress, |(copy, buffer), watch| {
            (0..shape.files).try_for_each(|at| read_file(&copy.file(at), shape, buffer, watch))
        })?;
        Ok(self.phase(name, copies, shape, warnings).measured(run, &timed))
    }

    fn phase<'a>(
        &'a self,
        name: &'a str,
        copies: u32,
        shape: &Shape,
        warnings: Vec<Warning>,
    ) -> Phase<'a> {
        Phase { suite: self.name, name, copies, unit: shape.unit(), warnings }
    }
}

impl Suite for Files {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn published(&self) -> &'static [&'static str] {
        self.published
    }

    fn demand(&self, size: Size, copies: &[u32]) -> Demand {
        let shape = self.shape(size);
        let copies = copies_of(copies, shape.copies).iter().map(|count| u64::from(*count));
        let (sum, most) = (copies.clone().sum::<u64>(), copies.max().unwrap_or(0));
        let bytes = shape.operations() * shape.chunk_bytes;
        let reads = if self.reads { READS.len() as u64 } else { 0 };
        let (written_bytes, read_bytes) = (sum * bytes, sum * bytes * reads);
        let files = sum * shape.files;
        // A tier has all of them again after the first phase that reads.
        let warm = reads.saturating_sub(1);
        Demand {
            space_bytes: most * bytes,
            written_bytes,
            read_bytes,
            warm_bytes: sum * bytes * warm,
            files,
            syncs: files,
            reads: files * reads,
            warm_reads: files * warm,
            metadata_ops: MetadataOps { removes: files, ..MetadataOps::default() },
            seconds: (written_bytes + read_bytes) / 100_000_000 + files * (1 + reads) / 1_000,
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Measurement>, BenchError> {
        let mut done = Vec::new();
        for count in copies_of(run.copies, self.shape(run.size).copies) {
            done.extend(self.round(run, *count)?);
        }
        Ok(done)
    }
}

/// Writes a file chunk by chunk. Opening it is part of the first chunk's time, closing and the
/// fsync are part of the last's.
fn write_file(
    copy: &mut Copy,
    at: u64,
    shape: &Shape,
    sync: bool,
    watch: &mut Watch<'_>,
) -> Result<(), BenchError> {
    let path = copy.file(at);
    let failed = |error| BenchError::io(format_args!("write {}", path.display()), error);
    let mut opened: Option<File> = None;
    for chunk in 0..shape.chunks {
        let bytes = copy.next();
        watch.time(shape.chunk_bytes, |_| {
            let mut file = match opened.take() {
                Some(file) => file,
                None => File::create(&path).map_err(failed)?,
            };
            file.write_all(bytes).map_err(failed)?;
            if chunk + 1 < shape.chunks {
                opened = Some(file);
            } else if sync {
                file.sync_all().map_err(failed)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Reads a file to its end, in the chunks that it was written in.
fn read_file(
    path: &Path,
    shape: &Shape,
    buffer: &mut [u8],
    watch: &mut Watch<'_>,
) -> Result<(), BenchError> {
    let failed = |error| BenchError::io(format_args!("read {}", path.display()), error);
    let mut opened: Option<File> = None;
    for chunk in 0..shape.chunks {
        watch.time(shape.chunk_bytes, |watch| {
            let mut file = match opened.take() {
                Some(file) => file,
                None => File::open(path).map_err(failed)?,
            };
            let mut left = shape.chunk_bytes as usize;
            while left > 0 {
                watch.check()?;
                let most = left.min(buffer.len());
                let read = file.read(&mut buffer[..most]).map_err(failed)?;
                if read == 0 {
                    return Err(failed(ErrorKind::UnexpectedEof.into()));
                }
                left -= read;
            }
            if chunk + 1 < shape.chunks {
                opened = Some(file);
            } else if file.read(buffer).map_err(failed)? > 0 {
                return Err(failed(ErrorKind::InvalidData.into()));
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Removes a directory of files.
pub(super) fn remove(dir: &Path, run: &Run<'_>) -> Result<(), BenchError> {
    let failed = |error| BenchError::io(format_args!("remove {}", dir.display()), error);
    let names: Result<Vec<_>, _> = fs::read_dir(dir).map_err(failed)?.collect();
    for entry in names.map_err(failed)? {
        run.stop.check()?;
        fs::remove_file(entry.path()).map_err(failed)?;
    }
    fs::remove_dir(dir).map_err(failed)
}

#[cfg(test)]
mod tests;
