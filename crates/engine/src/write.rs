//! Writing: into the mirror file, marked dirty; the bucket sees it later.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_throughput::efs::Io;
use weir_tier::Mirror;
use weir_types::{ErrorKind, FsError, Result};

use crate::background::blocking;
use crate::engine::{Core, Counts, Engine};
use crate::fetch::Priority;
use crate::files::OpenFile;

/// Largest file in bytes.
pub(crate) const FILE_BYTES_MAX: u64 = weir_meta::FILE_BYTES_MAX;

impl Engine {
    /// Writes all of `data` at `offset`. Returns when it is with the kernel of this machine: safe
    /// from `kill -9`, not yet from a power cut. Waits while the tier has no room.
    pub async fn write(&self, file: &Arc<OpenFile>, offset: u64, data: &[u8]) -> Result<usize> {
        self.core.write(file, offset, data).await
    }

    /// Writes all of `data` at the end of the file, wherever that is by then.
    pub async fn append(&self, file: &Arc<OpenFile>, data: &[u8]) -> Result<usize> {
        let _append = file.node.append.lock().await;
        let end = file.mirror.size();
        self.write(file, end, data).await
    }
}

impl Engine {
    /// Lets every clean page of the tier go that is not pinned, as if it were cold. Answers bytes
    /// released.
    pub async fn release_all(&self) -> Result<u64> {
        let core = self.core.clone();
        blocking(move || {
            let pinned = |mirror: &Mirror| core.is_pinned(mirror);
            core.tier.release_oldest(u64::MAX, pinned).inspect(|bytes| core.released(*bytes))
        })
        .await
    }
}

impl Core {
    /// [`Engine::write`].
    pub(crate) async fn write(
        self: &Arc<Self>,
        file: &OpenFile,
        offset: u64,
        data: &[u8],
    ) -> Result<usize> {
        self.check_writable()?;
        file.check_write()?;
        let tenant = file.tenant(self).await;
        self.admit(&tenant, Io::Write, data.len() as u64).await;
        self.write_mirror(&file.mirror, offset, data).await?;
        self.meter(&tenant, Io::Write, data.len() as u64);
        Counts::add(&self.counts.bytes_written, data.len() as u64);
        Ok(data.len())
    }

    pub(crate) async fn write_mirror(
        self: &Arc<Self>,
        mirror: &Arc<Mirror>,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        if offset.checked_add(data.len() as u64).is_none_or(|end| end > FILE_BYTES_MAX) {
            let text = format!("offset {offset}: the largest file is {FILE_BYTES_MAX} bytes");
            return Err(FsError::new(ErrorKind::TooLarge, text));
        }
        if data.is_empty() {
            return Ok(());
        }
        self.wait_for_room(data.len() as u64).await?;
        self.keep_pace(data.len() as u64).await;
        loop {
            let missing = mirror.write_at(offset, data, self.now())?;
            if missing.is_empty() {
                break;
            }
            self.fetch(mirror, &missing, Priority::Demand).await?;
        }
        if self.tier.dirty_bytes() > self.settings.flush_start_bytes.0 {
            self.flush_wanted.notify_one();
        }
        Ok(())
    }

    /// Holds a writer back while the bucket does not keep up.
    async fn keep_pace(&self, len: u64) {
        let room = self.settings.tier_bytes.0;
        let dirty = self.tier.dirty_bytes();
        if dirty <= room / 2 {
            return;
        }
        let flushed = self.counts.bytes_flushed.load(Ordering::Relaxed);
        let wait_ms = self.pace.wait_ms((dirty, room), len, flushed, self.now_ms());
        if wait_ms > 0 {
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        }
    }

    /// Releases clean pages if there is no room for `bytes` more. Answers whether there is now.
    pub(crate) async fn make_room(self: &Arc<Self>, bytes: u64) -> Result<bool> {
        if self.room()? >= bytes {
            return Ok(true);
        }
        let core = self.clone();
        blocking(move || core.release()).await?;
        Ok(self.room()? >= bytes)
    }

    /// Bytes that may still come in, beside those that are on their way.
    pub(crate) fn room(&self) -> Result<u64> {
        Ok(self.tier.room()?.saturating_sub(self.fetcher.coming_bytes()))
    }

    /// Lets go of what was used longest ago, down to the low-water mark.
    pub(crate) fn release(&self) -> Result<u64> {
        let released = self.tier.release_to_low_water(|mirror| self.is_pinned(mirror))?;
        self.released(released);
        Ok(released)
    }

    /// Tells of room that was made.
    pub(crate) fn released(&self, bytes: u64) {
        Counts::add(&self.counts.bytes_released, bytes);
        if bytes > 0 {
            self.fetcher.came.forget();
        }
        self.room_made.notify_waiters();
    }

    /// Waits until `bytes` fit. Dirty data makes room only by leaving for the bucket, so this
    /// takes as long as the bucket does, up to the bucket's time limit without any progress.
    async fn wait_for_room(self: &Arc<Self>, bytes: u64) -> Result<()> {
        let mut waited_since = self.now_ms();
        let mut dirty_before = u64::MAX;
        while !self.make_room(bytes).await? {
            self.check_writable()?;
            self.check_pins(bytes)?;
            let dirty = self.tier.dirty_bytes();
            if dirty < dirty_before {
                (dirty_before, waited_since) = (dirty, self.now_ms());
            }
            if self.now_ms() - waited_since > self.settings.bucket_timeout_ms {
                let text = "the tier is full of data that the bucket does not take: see `weir \
                            status`; nothing is lost, and writing works again when the bucket does";
                return Err(FsError::new(ErrorKind::Retry, text));
            }
            self.flush_wanted.notify_one();
            let _ =
                tokio::time::timeout(Duration::from_millis(50), self.room_made.notified()).await;
        }
        Ok(())
    }
}
