//! A file that is being written: under another name first, and, if it is large, so that another run
//! can go on with it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use rustix::fs::{
    AtFlags, FlockOperation, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use crate::entry::{Entry, Owner};
use crate::place::Root;
use crate::unfinished::{NOTE, unfinished};
use crate::xattrs;

/// What so far is on the disk is noted each time this much more is written.
const NOTE_BYTES: u64 = 256 << 20;

/// A file that is being written. It takes its place with [`Target::finish`]. Dropped before, it goes,
/// but for a large one, with which the next run goes on.
pub(crate) struct Target {
    parent: OwnedFd,
    written_as: Vec<u8>,
    name: Vec<u8>,
    file: File,
    /// What its bytes are those of, as far as that can be told from others.
    source: Option<String>,
    /// Bytes from the start that are on the disk for sure.
    noted: u64,
    /// With how many bytes the next note is due.
    next_note: u64,
    finished: bool,
}

impl Target {
    /// Begins a file at `path`, or goes on with one that an earlier run began to write from the same
    /// `source`: at [`Target::noted`]. Without a source that can be told from others each run begins
    /// anew. Another run that writes it is an error.
    pub(crate) fn begin(root: &Root, path: &[u8], source: Option<String>) -> io::Result<Target> {
        let (parent, name) = root.open_parent(path)?;
        let written_as = unfinished(name);
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&parent, &written_as, flags, Mode::from_raw_mode(0o600))?;
        let file = File::from(file);
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            match error {
                Errno::WOULDBLOCK => io::Error::other("another run of weir sync writes it"),
                other => other.into(),
            }
        })?;
        // Another run may have finished it between our open and our lock.
        let (opened, named) = (
            rustix::fs::fstat(&file)?,
            rustix::fs::statat(&parent, &written_as, AtFlags::SYMLINK_NOFOLLOW)?,
        );
        if (opened.st_dev, opened.st_ino) != (named.st_dev, named.st_ino) {
            return Err(io::Error::other("another run of weir sync wrote it just now"));
        }
        let length = opened.st_size.max(0) as u64;
        // One that is new has nothing to go on with.
        let begun = source.as_deref().filter(|_| length > 0);
        let noted = begun.map_or(0, |source| noted(&file, source)).min(length);
        if noted == 0 && length > 0 {
            // Of another source.
            let _ = rustix::fs::fremovexattr(&file, NOTE);
        }
        if noted != length {
            file.set_len(noted)?;
        }
        let (name, next_note) = (name.to_vec(), noted + NOTE_BYTES);
        Ok(Target { parent, written_as, name, file, source, noted, next_note, finished: false })
    }

    /// Bytes from the start that an earlier run wrote, or this one noted.
    pub(crate) fn noted(&self) -> u64 {
        self.noted
    }

    /// Writes bytes; all before `at` was written. A disk that takes no more keeps nothing of it.
    pub(crate) fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        let end = at + bytes.len() as u64;
        let written = self.file.write_all_at(bytes, at).and_then(|()| match end < self.next_note {
            true => Ok(()),
            false => self.note(end),
        });
        if written.is_err() {
            self.noted = 0;
        }
        written
    }

    fn note(&mut self, end: u64) -> io::Result<()> {
        self.next_note = u64::MAX;
        let Some(source) = &self.source else { return Ok(()) };
        self.file.sync_data()?;
        let text = format!("{end} {source}");
        // Where there are no such attributes a large file begins anew.
        if rustix::fs::fsetxattr(&self.file, NOTE, text.as_bytes(), XattrFlags::empty()).is_ok() {
            (self.noted, self.next_note) = (end, end + NOTE_BYTES);
        }
        Ok(())
    }

    /// Makes it as long as `size`, of which all up to `end` is written, or was there.
    pub(crate) fn set_size(&self, size: u64, end: u64) -> io::Result<()> {
        if end == size { Ok(()) } else { self.file.set_len(size) }
    }

    /// The file, for its length and attributes.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Gives it the attributes of `entry`, and others that `source` has, and its name.
    pub(crate) fn finish(mut self, entry: &Entry, source: Option<&File>) -> io::Result<()> {
        if self.noted > 0 {
            rustix::fs::fremovexattr(&self.file, NOTE)?;
        }
        if let Some(owner) = &entry.owner {
            own(&self.file, owner)?;
        } else {
            rustix::fs::fchmod(&self.file, plain_mode())?;
        }
        // A change of the owner takes capabilities away.
        if let Some(source) = source {
            xattrs::copy(source, &self.file)?;
        }
        rustix::fs::futimens(&self.file, &times(entry.mtime_ns))?;
        rustix::fs::renameat(&self.parent, &self.written_as, &self.parent, &self.name)?;
        self.finished = true;
        Ok(())
    }
}

/// How much of `source` an earlier run left here.
fn noted(file: &File, source: &str) -> u64 {
    let mut text = [0; 512];
    let Ok(length) = rustix::fs::fgetxattr(file, NOTE, &mut text[..]) else { return 0 };
    let text = str::from_utf8(&text[..length]).unwrap_or_default();
    let (end, of) = text.split_once(' ').unwrap_or_default();
    end.parse().ok().filter(|_| of == source).unwrap_or(0)
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.finished && self.noted == 0 {
            let _ = rustix::fs::unlinkat(&self.parent, &self.written_as, AtFlags::empty());
        }
    }
}

/// What a new file's mode is where nobody says: that of this process.
fn plain_mode() -> Mode {
    static MODE: OnceLock<Mode> = OnceLock::new();
    *MODE.get_or_init(|| {
        // umask(2) can only be asked by changing it.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        let mask = mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
        Mode::from_raw_mode(0o666 & !mask.unwrap_or(0o022))
    })
}

/// Mode and, for root, owner. The owner first: a change of it clears set-uid bits.
pub(crate) fn own(file: impl AsFd, owner: &Owner) -> io::Result<()> {
    let now = rustix::fs::fstat(&file)?;
    let is_owned = (now.st_uid, now.st_gid) == (owner.user, owner.group);
    if !is_owned && rustix::process::geteuid().is_root() {
        let (user, group) = (Uid::from_raw(owner.user), Gid::from_raw(owner.group));
        rustix::fs::fchown(&file, Some(user), Some(group))?;
    }
    if !is_owned || now.st_mode & 0o7777 != owner.mode & 0o7777 {
        rustix::fs::fchmod(&file, Mode::from_raw_mode(owner.mode))?;
    }
    Ok(())
}

pub(crate) fn times(mtime_ns: i128) -> Timestamps {
    let time = Timespec {
        tv_sec: mtime_ns.div_euclid(1_000_000_000) as i64,
        tv_nsec: mtime_ns.rem_euclid(1_000_000_000) as _,
    };
    Timestamps { last_access: time, last_modification: time }
}
