//! Writing what was set aside out into a directory of this machine.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_types::{ByteRange, FileKind, FsError, Result};

use super::assessed::{Assessed, Item};
use super::outside::{Outside, Writing, safe};
use super::parts::Quarantine;
use super::source::Source;
use super::views::{Extracted, Standing};
use crate::names::files::OpenFlags;
use crate::volume::context::blocking;

/// Bytes that are copied at once.
const STEP_BYTES: u64 = 1 << 20;

impl Quarantine {
    /// Writes the files of an entry into `directory`, below its label: the last local state where
    /// all bytes are known, else what was set aside in a sparse file.
    pub(crate) async fn extract_entry(
        self: &Arc<Self>,
        of: &Assessed,
        directory: &Path,
    ) -> Result<Vec<Extracted>> {
        let at = |e| FsError::local_io(format!("open {}", directory.display()), e);
        let outside = Outside::open(directory).map_err(at)?;
        let (mut done, mut taken) = (Vec::new(), std::collections::BTreeSet::new());
        for item in &of.items {
            let known = item.made.as_ref().or(item.now.as_ref());
            let label = PathBuf::from(&of.entry.label);
            let inside = item.path.as_deref().map(safe).filter(|path| path != Path::new(""));
            let inside = inside.unwrap_or_else(|| format!("inode-{}", item.ino).into());
            let mut path = label.join(inside);
            // The same file may have been set aside twice.
            while !taken.insert(path.clone()) {
                path.as_mut_os_string().push("~");
            }
            match known.map_or(FileKind::Regular, |inode| inode.kind) {
                FileKind::Regular => {
                    let whole = self.extract_file(of, item, &outside, &path).await;
                    let whole = whole.map_err(|error| {
                        error.within(format!("write {}", directory.join(&path).display()))
                    })?;
                    let label = of.entry.label.clone();
                    done.push(Extracted { label, path, bytes: item.bytes(), whole });
                }
                FileKind::Directory => {
                    let names: Vec<_> =
                        path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
                    outside.directory(&names).map_err(at)?;
                }
                // Nothing is followed out there, so nothing is made that could be.
                _ => {}
            }
            self.note_progress(|progress| {
                progress.files += 1;
                progress.bytes += item.bytes();
            });
        }
        Ok(done)
    }

    /// Answers whether all of the file's bytes are known.
    async fn extract_file(
        self: &Arc<Self>,
        of: &Assessed,
        item: &Item,
        outside: &Outside,
        path: &Path,
    ) -> Result<bool> {
        let io = |e| FsError::local_io("extract", e);
        let writing = outside.create(path).map_err(io)?;
        let mut whole = item.is_whole(&of.lost);
        writing.file.set_len(item.size).map_err(io)?;
        if item.standing == Standing::Unchanged
            && let Err(error) = self.copy_volume(item, &writing).await
        {
            tracing::warn!(ino = %item.ino, %error, "bytes of the volume are not to be had");
            whole = false;
        }
        let (source, ranges) = (Source::of(of, item)?, item.ranges.clone());
        let known = item.made.as_ref().or(item.now.as_ref());
        let owner = known.map(|inode| (inode.uid, inode.gid));
        let mtime = item.mtime;
        blocking(move || {
            for ByteRange { start, end } in ranges {
                let mut at = start;
                while at < end {
                    let next = (at + STEP_BYTES).min(end);
                    let bytes = source.read(at, next)?;
                    writing.file.write_all_at(&bytes, at).map_err(io)?;
                    at = next;
                }
            }
            writing.finish(owner, mtime).map_err(io)
        })
        .await?;
        Ok(whole)
    }

    /// What the volume has of a file, where nobody changed it.
    async fn copy_volume(self: &Arc<Self>, item: &Item, to: &Writing) -> Result<()> {
        let file = self.files.open(item.ino, OpenFlags::default()).await?;
        let mut at = 0;
        let copied = loop {
            let bytes = match self.files.read(&file, at, STEP_BYTES as usize).await {
                Ok(bytes) if bytes.is_empty() => break Ok(()),
                Ok(bytes) => bytes,
                Err(error) => break Err(error),
            };
            // Holes stay holes.
            if bytes.iter().any(|byte| *byte != 0)
                && let Err(error) = to.file.write_all_at(&bytes, at)
            {
                break Err(FsError::local_io("extract", error));
            }
            at += bytes.len() as u64;
        };
        self.files.end(file);
        copied
    }
}
