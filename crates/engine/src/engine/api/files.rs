//! Open files: bytes, sizes, durability.

use std::sync::Arc;

use bytes::Bytes;
use weir_types::{Ino, Inode, Result};

use crate::data::resize::Fallocate;
use crate::data::seek::Seek;
use crate::engine::Engine;
use crate::names::files::{OpenFile, OpenFlags};

impl Engine {
    /// Copies up to `len` bytes from one place to another as `client`; fewer at the end of the
    /// source, also where it is cut meanwhile. Answers how many. Whole pages of 1 MiB and more cost no bytes, only metadata, and are not metered.
    pub async fn copy_range(
        &self,
        source: (Ino, u64),
        target: (Ino, u64),
        len: u64,
        client: u32,
    ) -> Result<u64> {
        self.data.copier.copy_range(source, target, len, client).await
    }

    /// Opens a regular file. One read of the metadata.
    pub async fn open(&self, ino: Ino, flags: OpenFlags) -> Result<Arc<OpenFile>> {
        self.files.open(ino, flags).await
    }

    /// Keeps an inode, a directory's say, from going when its last name does, until
    /// [`Engine::let_go`].
    pub fn hold(&self, ino: Ino) -> Result<()> {
        self.files.hold(ino)
    }

    /// Ends what [`Engine::hold`] began.
    pub async fn let_go(&self, ino: Ino) {
        self.files.let_go(ino);
    }

    /// Ends an open file. The last close of an unlinked file removes its bytes.
    pub async fn close(&self, file: Arc<OpenFile>) -> Result<()> {
        self.files.close(file).await
    }

    /// Reads up to `len` bytes at `offset`; fewer only at the end of the file. Bytes that are not
    /// here cost ranged GETs, shared with everybody who wants them.
    pub async fn read(&self, file: &Arc<OpenFile>, offset: u64, len: usize) -> Result<Bytes> {
        self.files.read(file, offset, len).await
    }

    /// Sets the size: what lies past it is gone, what is new are zeros. One metadata commit.
    pub async fn truncate(&self, ino: Ino, size: u64) -> Result<Inode> {
        self.data.writer.truncate(ino, size).await
    }

    /// Allocates, punches or zeroes a range of a regular file.
    pub async fn fallocate(
        &self,
        ino: Ino,
        mode: Fallocate,
        offset: u64,
        len: u64,
    ) -> Result<Inode> {
        self.data.writer.fallocate(ino, mode, offset, len).await?;
        self.data.mirrors.known(ino).await
    }

    /// The first offset at or after `offset` that is data or a hole. `NotFound` past the end, and
    /// where no data follows.
    pub async fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        self.data.mirrors.seek(ino, offset, what).await
    }

    /// Returns when the file's data and attributes are durable: in the bucket (one segment PUT and
    /// one metadata flush, shared with all who ask at the same time), or in the journal if the
    /// mount has one (one `fdatasync`).
    pub async fn fsync(&self, ino: Ino) -> Result<()> {
        self.data.durability.fsync(ino).await
    }

    /// Returns when the directory's entries are durable.
    pub async fn fsync_dir(&self, _ino: Ino) -> Result<()> {
        self.data.durability.fsync_dir().await
    }

    /// Flushes all dirty data to the bucket and makes all metadata durable there.
    pub async fn flush_all(&self) -> Result<()> {
        if self.data.context.read_only {
            return Ok(());
        }
        self.data.context.check_writable()?;
        self.data.durability.flush_all().await
    }

    /// Writes all of `data` at `offset`. Returns when it is with the kernel of this machine: safe
    /// from `kill -9`, not yet from a power cut. Waits while the tier has no room.
    pub async fn write(&self, file: &Arc<OpenFile>, offset: u64, data: &[u8]) -> Result<usize> {
        self.files.write(file, offset, data).await
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
    pub async fn append(&self, file: &Arc<OpenFile>, data: &[u8]) -> Result<usize> {
        self.files.append(file, data).await
    }

    /// Lets every clean page of the tier go that is not pinned, as if it were cold. Answers bytes
    /// released.
    pub async fn release_all(&self) -> Result<u64> {
        self.data.space.release_all().await
    }
}
