//! Open files: opening, reading, writing, and what else changes their bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_engine::{Bytes, Fallocate, LockOwner, OpenFile, OpenFlags, Seek};
use weir_fuse::{Errno, open, write};
use weir_types::{ErrorKind, FsError, Ino};

use crate::attrs::Space;
use crate::door::{DoorState, Served};
use crate::faces::Known;
use crate::handles::File;
use crate::modes::Mode;
use crate::pages::DROP_WAIT;
use crate::passthrough::{LentFile, Purpose, Register, passthrough_reply};
use crate::privileges::Who;

/// What the open of a file comes to: also what the kernel reads from without the daemon, if it does.
pub(crate) type OpenedFile = (u64, u32, Option<Arc<LentFile>>);

/// How a file is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) flags: i32,
    /// It cuts the file, and the caller may not keep its privileges.
    pub(crate) kills_privileges: bool,
}

/// One write request, without its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) fh: u64,
    pub(crate) offset: u64,
    pub(crate) kernel: u32,
    /// Those of the open file at this moment.
    pub(crate) flags: i32,
    pub(crate) who: Who,
}

impl Write {
    /// Whether the daemon has to find the end. Where this kernel alone changes the file, its
    /// offset is the end and its page cache holds the bytes there already. Else the kernel's idea
    /// of the end may be old, and a write there would destroy what somebody else appended; then
    /// rather a page of the cache is wrong until it is asked for again. Pages of a shared mapping
    /// come with whatever handle the kernel finds, and never go to the end.
    pub(crate) fn appends(&self, exclusive: bool) -> bool {
        let mapped = self.kernel & write::CACHE != 0;
        !exclusive && !mapped && self.flags & libc::O_APPEND != 0
    }
}

/// How the kernel is to treat an open file that the daemon serves.
///
/// Without `FOPEN_KEEP_CACHE` an open empties the inode's page cache. The kernel does not keep that
/// apart from a `write`, which puts its bytes into the cache, unlocks the page and only then sends
/// them: a read between fetches the old bytes from the daemon, and they stay in the cache for good.
/// A mapping would even write them back. So where the cache can be right no open empties it, direct
/// ones neither: the kernel drops what a direct write changes.
fn open_reply(flags: i32, exclusive: bool) -> u32 {
    let mut reply = 0;
    if flags & libc::O_DIRECT != 0 {
        // The engine orders writes of one file itself.
        reply |= open::DIRECT_IO | open::PARALLEL_DIRECT_WRITES;
    }
    if exclusive {
        // A close has nothing to say: writes are here already, and locks are the kernel's.
        reply |= open::KEEP_CACHE | open::NOFLUSH;
    }
    reply
}

/// The engine's word for a fallocate mode.
fn fallocate_kind(mode: i32) -> Result<Fallocate, Errno> {
    const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
    const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE;
    const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE;
    Ok(match mode {
        0 => Fallocate::Allocate { keep_size: false },
        KEEP => Fallocate::Allocate { keep_size: true },
        m if m == PUNCH | KEEP => Fallocate::PunchHole,
        ZERO => Fallocate::ZeroRange { keep_size: false },
        m if m == ZERO | KEEP => Fallocate::ZeroRange { keep_size: true },
        _ => return Err(Errno(libc::EOPNOTSUPP)),
    })
}

/// The engine's word for an lseek that the kernel cannot answer itself.
fn seek_kind(whence: i32) -> Result<Seek, Errno> {
    match whence {
        libc::SEEK_DATA => Ok(Seek::Data),
        libc::SEEK_HOLE => Ok(Seek::Hole),
        _ => Err(Errno(libc::EINVAL)),
    }
}

impl DoorState {
    pub(crate) async fn open_file(
        &self,
        known: Known,
        opening: Opening,
        who: Who,
        register: &dyn Register,
    ) -> Served<OpenedFile> {
        let ino = known.ino();
        let opened = self.open_made(known, opening.flags, who.uid, register).await?;
        // Kernels before Linux 5.12 do not tell.
        let may_have_to = who.uid != 0 && opening.flags & libc::O_TRUNC != 0;
        let dropped = match opening.kills_privileges {
            true => self.kill_privileges(ino, who).await,
            false if may_have_to => self.drop_privileges(ino, who).await,
            false => Ok(()),
        };
        if let Err(refusal) = dropped {
            self.close_file(opened.0).await?;
            return Err(refusal);
        }
        Ok(opened)
    }

    /// Opens without a look at privileges: a file just made is its maker's.
    pub(crate) async fn open_made(
        &self,
        known: Known,
        flags: i32,
        uid: u32,
        register: &dyn Register,
    ) -> Served<OpenedFile> {
        let ino = known.ino();
        let wanted = OpenFlags {
            write: flags & libc::O_ACCMODE != libc::O_RDONLY,
            truncate: flags & libc::O_TRUNC != 0,
            client: uid,
        };
        let purpose = Purpose::of(flags);
        if !purpose.reads && self.passthrough.is_for_readers(known) {
            self.engine.not_lent_for_now(ino);
            self.passthrough.turn(known);
        }
        if known != self.passthrough.faces().of(ino) {
            return Err(Errno(libc::ESTALE).into());
        }
        let file = self.engine.open(ino, wanted).await?;
        if purpose.reads && self.passthrough.may_choose(known) {
            self.engine.before_lending(&file).await;
        }
        let drop_pages = || self.drop_pages(known);
        let entered = self.passthrough.enter((&file, known), purpose, register, drop_pages);
        let (reply, backing) = match entered {
            Ok(Mode::Passthrough(lent)) => {
                (passthrough_reply(flags, self.options.exclusive), Some(lent))
            }
            Ok(Mode::Daemon) => (self.plain_reply(&file, flags), None),
            Ok(Mode::Elsewhere) => {
                self.passthrough.turn(known);
                self.engine.close(file).await?;
                return Err(Errno(libc::ESTALE).into());
            }
            Err(error) => {
                self.engine.close(file).await?;
                return Err(error.into());
            }
        };
        let maps_writable = backing.is_some() && purpose.maps_writable;
        if maps_writable && let Err(error) = self.engine.passthrough_writable(&file).await {
            self.passthrough.leave(&file, known);
            self.engine.close(file).await?;
            return Err(error.into());
        }
        if maps_writable {
            // What it remembers was to hold for a day: [`DoorState::attr_ttl`].
            self.forget_attributes(ino);
        }
        let direct = reply & open::DIRECT_IO != 0;
        let through_cache = !direct && backing.is_none();
        let pages = self.pages.opened(ino, through_cache, wanted.write).await;
        let file = File {
            open: file,
            known,
            direct,
            pages,
            maps_writable,
            plain_since: AtomicU64::new(0),
            bare_since: AtomicU64::new(0),
        };
        Ok((self.files.add(file), reply, backing))
    }

    /// The reply to an open that passes the daemon.
    fn plain_reply(&self, file: &OpenFile, flags: i32) -> u32 {
        let mut reply = open_reply(flags, self.options.exclusive);
        if self.others_write() {
            if flags & libc::O_APPEND != 0 {
                // Where it lands is known here only: the kernel is to keep none of it.
                reply |= open::DIRECT_IO;
            }
            if self.cached.is_as_cached(file.ino(), file.epoch()) {
                reply |= open::KEEP_CACHE;
            }
        }
        reply
    }

    /// Whether others change bytes that the kernel may have in its page cache.
    fn others_write(&self) -> bool {
        self.engine.is_shared() || self.options.beside
    }

    /// Reads. Who drops it stops nobody else who wants the same bytes.
    pub(crate) async fn read_file(&self, fh: u64, (offset, len): (u64, u32)) -> Served<Bytes> {
        let file = self.files.get(fh)?;
        Ok(self.engine.read(&file.open, offset, len as usize).await?)
    }

    /// Writes if that waits for nothing; `None`, and nothing is written, if it may have to.
    pub(crate) fn try_write_file(&self, write: Write, data: &[u8]) -> Served<Option<u32>> {
        let file = self.files.get(write.fh)?;
        let kills = write.kernel & write::KILL_SUIDGID != 0;
        let given = (&self.privileges_given, &self.capabilities_given);
        let plain = file.plain_since.load(Ordering::Relaxed) == given.0.load(Ordering::Acquire);
        let bare = file.bare_since.load(Ordering::Relaxed) == given.1.load(Ordering::Acquire);
        let syncs = file.direct && write.flags & libc::O_DSYNC != 0;
        let waits = (kills && !plain) || (file.direct && !bare) || syncs;
        if waits || write.appends(self.options.exclusive) {
            return Ok(None);
        }
        // Kept until it is written.
        let nobody_reads = file.direct.then(|| file.pages.nobody_reads());
        if matches!(nobody_reads, Some(None)) {
            return Ok(None);
        }
        let written = self.engine.try_write(&file.open, write.offset, data)?;
        if written.is_some() {
            self.wrote(&file);
        }
        Ok(written.map(|written| written as u32))
    }

    /// Writes. The engine's write does nothing before it does all, so who drops this while it waits
    /// has written nothing; what cannot be dropped half-way is in tasks of its own.
    pub(crate) async fn write_file(self: &Arc<Self>, write: Write, data: &[u8]) -> Served<u32> {
        let file = self.files.get(write.fh)?;
        let ino = file.open.ino();
        if write.kernel & write::KILL_SUIDGID != 0 {
            self.drop_privileges_once(&file, write.who).await?;
        }
        // Before it writes to its page cache the kernel does this itself.
        if file.direct {
            self.drop_capabilities_once(&file).await?;
        }
        let appends = write.appends(self.options.exclusive);
        let written = if appends {
            self.append(&file, data).await?
        } else {
            self.engine.write(&file.open, write.offset, data).await?
        };
        self.wrote(&file);
        if file.direct {
            // Where an append landed, it was behind the kernel's offset.
            let len = if appends { 0 } else { data.len() as u64 };
            self.drop_old_pages(&file, write.offset, len).await;
        }
        // For cached files the kernel sends the fsync of O_SYNC and O_DSYNC itself.
        if file.direct && write.flags & libc::O_DSYNC != 0 {
            let engine = self.engine.clone();
            self.whole(async move { Ok(engine.fsync(ino).await?) }).await?;
        }
        // A request is 16 MiB at most.
        Ok(written as u32)
    }

    /// A write is here.
    fn wrote(&self, file: &File) {
        if !file.direct && self.others_write() {
            self.cached.wrote(file.open.ino());
        }
    }

    async fn append(self: &Arc<Self>, file: &File, data: &[u8]) -> Served<usize> {
        if !self.engine.is_shared() {
            let written = self.engine.append(&file.open, data).await?;
            self.forget_attributes(file.open.ino());
            return Ok(written);
        }
        let (engine, open) = (self.engine.clone(), file.open.clone());
        let data = Bytes::copy_from_slice(data);
        // It is done when it is told to the other nodes, and cannot be taken back.
        let written = self.whole(async move { Ok(engine.append(&open, &data).await?) }).await?;
        // It may end elsewhere than the kernel thinks.
        self.forget_attributes(file.open.ino());
        Ok(written)
    }

    /// Has pages dropped that may have the bytes of before a direct write which is done; `len` 0: to
    /// the end of the file.
    async fn drop_old_pages(self: &Arc<Self>, file: &File, offset: u64, len: u64) {
        if file.pages.nobody_reads().is_some() {
            return;
        }
        let (ino, door) = (file.open.ino(), self.clone());
        let dropping =
            self.pages.drop_old(&file.pages, move |old| door.drop_old_of(ino, offset, len, old));
        // It goes on behind the answer, where that comes first, and when nobody waits for it.
        let dropped = self.whole(async move {
            dropping.await;
            Ok(())
        });
        if tokio::time::timeout(DROP_WAIT, dropped).await.is_err() {
            tracing::debug!(%ino, "old pages are dropped later");
        }
    }

    /// Has old pages of open files dropped that a daemon before this one could not have dropped any more.
    pub(crate) async fn drop_pages_from_before(self: Arc<Self>) {
        for (ino, used) in self.pages.all() {
            let door = self.clone();
            self.pages.drop_old(&used, move |old| door.drop_old_of(ino, 0, 0, old)).await;
        }
    }

    /// What the kernel was told is interrupted is done: a range of a file has other bytes.
    pub(crate) async fn bytes_changed_late(self: &Arc<Self>, ino: Ino, offset: u64, len: u64) {
        if len == 0 {
            return;
        }
        let door = self.clone();
        let drop_them = move || door.drop_pages_of(ino, offset, len);
        drop(tokio::task::spawn_blocking(drop_them).await);
    }

    /// One descriptor of the file was closed; others may be left. `false`, and nothing is done, where that has
    /// to wait.
    pub(crate) fn flush_file(&self, ino: Ino, owner: u64) -> bool {
        !self.engine.others_wait_for(ino)
            && (self.options.exclusive || self.engine.try_release_locks(ino, LockOwner(owner)))
    }

    /// The same where other nodes are to find what was written, and may have the locks: they do when this
    /// returns.
    pub(crate) async fn close_for_others(self: &Arc<Self>, ino: Ino, owner: u64) -> Served<()> {
        let engine = self.engine.clone();
        // Whoever closes cannot do so again: it goes on without them.
        let done = self.whole(async move {
            let flushed = engine.flush_for_others(ino).await;
            let released = engine.release_locks(ino, LockOwner(owner)).await;
            Ok(flushed.and(released)?)
        });
        done.await
    }

    /// The last descriptor of an open file was closed that may have locks of the whole file.
    pub(crate) async fn unlock_file(&self, ino: Ino, owner: u64) {
        if !self.engine.try_release_locks(ino, LockOwner(owner))
            && let Err(error) = self.engine.release_locks(ino, LockOwner(owner)).await
        {
            tracing::warn!(%ino, %error, "a lock of a closed file is let go when it can be flushed");
        }
    }

    pub(crate) async fn close_file(&self, fh: u64) -> Served<()> {
        let file = self.files.remove(fh)?;
        if file.maps_writable {
            if let Err(error) = self.engine.end_passthrough_writable(&file.open).await {
                tracing::warn!(ino = %file.open.ino(), %error, "looking for stores: tried again");
            }
            // What was stored without the kernel's FUSE changed its mtime.
            self.forget_attributes(file.open.ino());
        }
        self.passthrough.leave(&file.open, file.known);
        self.pages.closed(file.open.ino(), &file.pages).await;
        Ok(self.engine.close(file.open.clone()).await?)
    }

    pub(crate) async fn allocate(
        &self,
        ino: Ino,
        who: Who,
        mode: i32,
        (offset, len): (u64, u64),
    ) -> Served<()> {
        let kind = fallocate_kind(mode)?;
        self.drop_privileges(ino, who).await?;
        let done = self.engine.fallocate(ino, kind, offset, len).await;
        let too_large = done.as_ref().is_err_and(|error| error.kind() == ErrorKind::TooLarge);
        if too_large && matches!(kind, Fallocate::Allocate { .. }) {
            // No file is that large; where there is less room than that, this is why.
            let space = Space::of(&self.engine.statfs(ino).await?);
            if len > space.free_bytes() {
                return Err(Errno(libc::ENOSPC).into());
            }
        }
        done?;
        Ok(())
    }

    pub(crate) async fn seek(&self, ino: Ino, offset: i64, whence: i32) -> Served<i64> {
        let kind = seek_kind(whence)?;
        let offset = u64::try_from(offset).map_err(|_| Errno(libc::ENXIO))?;
        match self.engine.seek(ino, offset, kind).await {
            Ok(found) => Ok(i64::try_from(found).map_err(|_| Errno(libc::EOVERFLOW))?),
            Err(error) => Err(no_such_offset(error)),
        }
    }

    pub(crate) async fn copy(
        &self,
        from: (Ino, u64),
        to: (Ino, u64),
        len: u64,
        who: Who,
    ) -> Served<u64> {
        self.drop_privileges(to.0, who).await?;
        Ok(self.engine.copy_range(from, to, len, who.uid).await?)
    }
}

/// To `lseek`, "not found" is an offset past the end or past the last data.
fn no_such_offset(error: FsError) -> crate::errno::Refusal {
    match error.kind() {
        ErrorKind::NotFound => Errno(libc::ENXIO).into(),
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_of(kernel: u32, flags: i32) -> Write {
        Write { fh: 1, offset: 0, kernel, flags, who: Who::default() }
    }

    #[test]
    fn the_daemon_finds_the_end_only_where_the_kernel_cannot() {
        let append = libc::O_WRONLY | libc::O_APPEND;
        assert!(write_of(0, append).appends(false));
        assert!(!write_of(0, append).appends(true));
        assert!(!write_of(0, libc::O_WRONLY).appends(false));
        assert!(!write_of(write::CACHE, append).appends(false));
    }

    #[test]
    fn only_a_sole_kernel_keeps_its_cache_and_closes_silently() {
        let kept = open::KEEP_CACHE | open::NOFLUSH;
        let direct = open::DIRECT_IO | open::PARALLEL_DIRECT_WRITES;
        assert_eq!(open_reply(libc::O_RDWR, true), kept);
        assert_eq!(open_reply(libc::O_DIRECT, true), direct | kept);
        assert_eq!(open_reply(libc::O_RDWR, false), 0);
        assert_eq!(open_reply(libc::O_DIRECT, false), direct);
    }

    #[test]
    fn fallocate_modes_are_those_of_local_file_systems() {
        use Fallocate as F;
        for (mode, wanted) in [
            (0, F::Allocate { keep_size: false }),
            (libc::FALLOC_FL_KEEP_SIZE, F::Allocate { keep_size: true }),
            (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, F::PunchHole),
            (libc::FALLOC_FL_ZERO_RANGE, F::ZeroRange { keep_size: false }),
            (
                libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE,
                F::ZeroRange { keep_size: true },
            ),
        ] {
            assert_eq!(fallocate_kind(mode), Ok(wanted), "{mode}");
        }
        for mode in [
            libc::FALLOC_FL_PUNCH_HOLE,
            libc::FALLOC_FL_COLLAPSE_RANGE,
            libc::FALLOC_FL_INSERT_RANGE,
        ] {
            assert_eq!(fallocate_kind(mode), Err(Errno(libc::EOPNOTSUPP)), "{mode}");
        }
    }

    #[test]
    fn seeks_are_for_data_and_holes() {
        assert_eq!(seek_kind(libc::SEEK_DATA), Ok(Seek::Data));
        assert_eq!(seek_kind(libc::SEEK_HOLE), Ok(Seek::Hole));
        assert_eq!(seek_kind(libc::SEEK_SET), Err(Errno(libc::EINVAL)));
    }
}
