//! Open files: bytes, sizes, durability.

use std::sync::Arc;

use bytes::Bytes;
use weir_types::{Ino, Inode, Result};

use crate::data::resize::Fallocate;
use crate::data::seek::Seek;
use crate::engine::Engine;
use crate::names::files::{OpenFile, OpenFlags};
use crate::names::past::check_present;
use crate::names::promises::{Promise, Recall};
use crate::volume::boxed::{Boxed, boxed};

impl Engine {
    /// Copies up to `len` bytes from one place to another as `client`; fewer at the end of the
    /// source, also where it is cut meanwhile, and where more than 2 GiB would have to be moved. Answers
    /// how many. Whole pages of 1 MiB and more cost no bytes, only metadata, and are not metered.
    pub fn copy_range(
        &self,
        source: (Ino, u64),
        target: (Ino, u64),
        len: u64,
        client: u32,
    ) -> Boxed<'_, Result<u64>> {
        boxed(async move {
            check_present(&[target.0])?;
            let _changing = self.promises.changing(target.0).await;
            self.data.copier.copy_range(source, target, len, client).await
        })
    }

    /// Opens a regular file. One read of the metadata.
    pub fn open(&self, ino: Ino, flags: OpenFlags) -> Boxed<'_, Result<Arc<OpenFile>>> {
        boxed(self.files.open(ino, flags))
    }

    /// Keeps an inode, a directory's say, from going when its last name does, until
    /// [`Engine::let_go`].
    pub fn hold(&self, ino: Ino) -> Result<()> {
        self.files.hold(ino)
    }

    /// Ends what [`Engine::hold`] began.
    pub fn let_go(&self, ino: Ino) -> Boxed<'_, ()> {
        boxed(async move {
            self.files.let_go(ino);
        })
    }

    /// Promises that a file stays as it is, its bytes, attributes and names, while the answer is there: whoever
    /// wants to change it waits, and `recall` is called, once, when somebody does. `None` where somebody changes
    /// it, or has it open for writing; and where others change the volume, of which this engine knows too late.
    /// A file of a link that changes in its bucket does not wait for it; `recall` is called then too. Costs
    /// nothing.
    pub fn promise_unchanged(&self, ino: Ino, recall: Recall) -> Option<Promise> {
        match self.is_shared() || self.read_only() {
            true => None,
            false => self.promises.make(ino, recall),
        }
    }

    /// Ends an open file. The last close of an unlinked file removes its bytes.
    pub fn close(&self, file: Arc<OpenFile>) -> Boxed<'_, Result<()>> {
        boxed(self.files.close(file))
    }

    /// Reads up to `len` bytes at `offset`; fewer only at the end of the file. Bytes that are not
    /// here cost ranged GETs, shared with everybody who wants them.
    pub fn read<'a>(
        &'a self,
        file: &'a Arc<OpenFile>,
        offset: u64,
        len: usize,
    ) -> Boxed<'a, Result<Bytes>> {
        boxed(self.files.read(file, offset, len))
    }

    /// Sets the size: what lies past it is gone, what is new are zeros. One metadata commit.
    pub fn truncate(&self, ino: Ino, size: u64) -> Boxed<'_, Result<Inode>> {
        boxed(self.names.truncate(ino, size))
    }

    /// Allocates, punches or zeroes a range of a regular file.
    pub fn fallocate(
        &self,
        ino: Ino,
        mode: Fallocate,
        offset: u64,
        len: u64,
    ) -> Boxed<'_, Result<Inode>> {
        boxed(async move {
            check_present(&[ino])?;
            let _changing = self.promises.changing(ino).await;
            self.data.writer.fallocate(ino, mode, offset, len).await?;
            // A size that is in the mirror only would go where another node changes the file first.
            self.flush_for_others(ino).await?;
            self.data.mirrors.known(ino).await
        })
    }

    /// The first offset at or after `offset` that is data or a hole. `NotFound` past the end, and
    /// where no data follows.
    pub fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Boxed<'_, Result<u64>> {
        boxed(self.data.mirrors.seek(ino, offset, what))
    }

    /// Returns when the file's data and attributes are durable: in the bucket (one segment PUT and
    /// one metadata flush, shared with all who ask at the same time), or in the journal if the
    /// mount has one (one `fdatasync`).
    pub fn fsync(&self, ino: Ino) -> Boxed<'_, Result<()>> {
        boxed(self.data.durability.fsync(ino))
    }

    /// Whether other nodes are to find what was written to a file here, and would not even if they asked this
    /// one. Costs nothing.
    pub fn others_wait_for(&self, ino: Ino) -> bool {
        let they_ask = || self.data.meta.leases().is_some_and(|leases| leases.spares_flush(ino));
        self.is_shared()
            && self.data.tier.find(ino).is_some_and(|mirror| mirror.has_unflushed())
            && !they_ask()
    }

    /// Returns when other nodes find what was written to a file here. Nothing, where they ask this one: a file
    /// with a write lease. Else one segment PUT and one commit, shared with all who ask at the same time.
    pub fn flush_for_others(&self, ino: Ino) -> Boxed<'_, Result<()>> {
        boxed(async move {
            if !self.others_wait_for(ino) {
                return Ok(());
            }
            self.data.flusher.flush_file(ino).await?;
            self.data.meta.leases().into_iter().for_each(|leases| leases.waited_for_bucket(ino));
            Ok(())
        })
    }

    /// Returns when the directory's entries are durable.
    pub fn fsync_dir(&self, _ino: Ino) -> Boxed<'_, Result<()>> {
        boxed(self.data.durability.fsync_dir())
    }

    /// Flushes all dirty data to the bucket and makes all metadata durable there.
    pub fn flush_all(&self) -> Boxed<'_, Result<()>> {
        boxed(async move {
            if self.data.context.read_only {
                return Ok(());
            }
            self.data.context.check_writable()?;
            self.data.durability.flush_all().await
        })
    }

    /// Writes all of `data` at `offset`. Returns when it is with the kernel of this machine: safe
    /// from `kill -9`, not yet from a power cut. Waits while the tier has no room.
    pub fn write<'a>(
        &'a self,
        file: &'a Arc<OpenFile>,
        offset: u64,
        data: &'a [u8],
    ) -> Boxed<'a, Result<usize>> {
        boxed(self.files.write(file, offset, data))
    }

    /// Writes as [`Engine::write`] does, if that waits for nothing; `None`, and nothing is written,
    /// if it may have to.
    pub fn try_write(
        &self,
        file: &Arc<OpenFile>,
        offset: u64,
        data: &[u8],
    ) -> Result<Option<usize>> {
        self.files.try_write(file, offset, data)
    }

    /// Writes all of `data` at the end of the file, wherever that is by then.
    pub fn append<'a>(
        &'a self,
        file: &'a Arc<OpenFile>,
        data: &'a [u8],
    ) -> Boxed<'a, Result<usize>> {
        boxed(self.files.append(file, data))
    }

    /// Lets every clean page of the tier go that is not pinned, as if it were cold. Answers bytes
    /// released.
    pub fn release_all(&self) -> Boxed<'_, Result<u64>> {
        boxed(self.data.space.release_all())
    }
}
