//! Letting the kernel read mirror files without the daemon (FUSE passthrough).

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use weir_engine::{Lent, OpenFile};
use weir_fuse::{Answer, Backing, Offer, Registrar, init, open};
use weir_types::{ErrorKind, FsError, Ino, Result};

use crate::faces::{Faces, Known};
use crate::modes::{Mode, Modes};
use crate::options::FuseOptions;

/// How many file systems may lie below this one. The kernel stacks two in all: with one here, the
/// tier cannot lie on overlayfs, and overlayfs can lie on this mount.
const STACK_DEPTH: u32 = 1;

/// Registers files with the kernel: the channel of an open can.
pub(crate) trait Register: Send + Sync + 'static {
    /// Makes the file one that opens may name.
    fn register(&self, file: &File) -> io::Result<Backing>;
}

impl Register for Registrar {
    fn register(&self, file: &File) -> io::Result<Backing> {
        Self::register(self, file)
    }
}

/// What an open is for, as far as its mode depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Purpose {
    /// It only reads, and what is there.
    pub(crate) reads: bool,
    /// It may map the file for writing.
    pub(crate) maps_writable: bool,
    /// It changes what is there.
    pub(crate) in_place: bool,
}

impl Purpose {
    /// Of an open with these flags.
    pub(crate) fn of(flags: i32) -> Self {
        let access = flags & libc::O_ACCMODE;
        let cuts = flags & libc::O_TRUNC != 0;
        Self {
            reads: access == libc::O_RDONLY && !cuts,
            maps_writable: access == libc::O_RDWR,
            in_place: access == libc::O_RDWR && !cuts,
        }
    }
}

/// Whether resident files are read past the daemon, and how many opens were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassthroughState {
    /// Why not; `None` if they are.
    pub off: Option<String>,
    /// Opens that the kernel serves.
    pub opens: u64,
    /// Opens that the daemon serves.
    pub other_opens: u64,
}

/// A mirror file in the kernel's hands.
#[derive(Debug)]
pub(crate) struct LentFile {
    pub(crate) backing: Backing,
    /// Which lending of it this is.
    pub(crate) lending: u64,
}

/// Passthrough of one mount.
#[derive(Debug)]
pub(crate) struct Passthrough {
    modes: Modes<LentFile>,
    faces: Faces,
    /// Other nodes may change what is lent, and who writes here is served by the daemon.
    among_nodes: bool,
    off: Mutex<Option<String>>,
    was_on: AtomicBool,
    opens: AtomicU64,
    other_opens: AtomicU64,
}

impl Passthrough {
    pub(crate) fn new(options: &FuseOptions) -> Self {
        let off = match () {
            () if !options.passthrough => Some("turned off for this mount"),
            // They would not know of a file that the kernel reads here.
            () if !options.knows_all() && !options.among_nodes => {
                Some("others may change the volume")
            }
            () => None,
        };
        Self {
            modes: Modes::default(),
            faces: Faces::default(),
            among_nodes: options.among_nodes,
            off: Mutex::new(off.map(str::to_owned)),
            was_on: AtomicBool::new(false),
            opens: AtomicU64::new(0),
            other_opens: AtomicU64::new(0),
        }
    }

    /// Asks the kernel for it.
    pub(crate) fn configure(&self, offer: Offer, answer: &mut Answer) {
        if !self.is_on() {
            return;
        }
        if offer.flags & init::PASSTHROUGH == 0 {
            return self.turn_off("this kernel does not have it: it needs Linux 6.9");
        }
        answer.flags |= init::PASSTHROUGH;
        answer.stack_depth = STACK_DEPTH;
        self.was_on.store(true, Ordering::Relaxed);
    }

    /// Goes on with a mount of another daemon, whose kernel is not asked again.
    pub(crate) fn go_on(&self, was_on: bool, off: Option<String>) {
        self.was_on.store(was_on, Ordering::Relaxed);
        if let Some(why) = off {
            self.turn_off(why);
        }
        if !was_on {
            self.turn_off("it was off when the volume was mounted");
        }
    }

    pub(crate) fn modes(&self) -> &Modes<LentFile> {
        &self.modes
    }

    pub(crate) fn faces(&self) -> &Faces {
        &self.faces
    }

    /// The numbers by which the kernel may know an inode: the one by which it is opened now, and those by which
    /// it is read without the daemon.
    pub(crate) fn known(&self, ino: Ino) -> Vec<Known> {
        let now = self.faces.of(ino);
        if now == Known::new(ino, 0) {
            return vec![now];
        }
        let others = (0..=u8::MAX).map(|face| Known::new(ino, face));
        others.filter(|known| *known == now || self.modes.is_open(*known)).collect()
    }

    /// Has a file opened by another number from now on: what the kernel reads under this one is not for all
    /// who open it.
    pub(crate) fn turn(&self, from: Known) {
        let to = self.faces.turn(from, |known| !self.modes.is_open(known));
        if to != from {
            self.modes.doubt_pages(to);
        }
    }

    /// Whether who opens this for writing is to open it by another number.
    pub(crate) fn is_for_readers(&self, known: Known) -> bool {
        self.among_nodes && self.modes.lent(known).is_some()
    }

    /// Whether any file of the mount may have been in passthrough.
    pub(crate) fn was_on(&self) -> bool {
        self.was_on.load(Ordering::Relaxed)
    }

    pub(crate) fn is_on(&self) -> bool {
        self.off().is_none()
    }

    /// Turns it off for good, and says so once.
    pub(crate) fn turn_off(&self, why: impl Into<String>) {
        let mut off = self.off();
        if off.is_none() {
            let why = why.into();
            tracing::info!("resident files are read through the daemon: {why}");
            *off = Some(why);
        }
    }

    pub(crate) fn state(&self) -> PassthroughState {
        PassthroughState {
            off: self.off().clone(),
            opens: self.opens.load(Ordering::Relaxed),
            other_opens: self.other_opens.load(Ordering::Relaxed),
        }
    }

    /// Whether an open of `known` would decide its mode.
    pub(crate) fn may_choose(&self, known: Known) -> bool {
        self.is_on() && !self.modes.is_open(known)
    }

    /// The mode of one more open file. `Retry` where the daemon would serve it beside a program
    /// that may store into the mirror file: neither would see what the other writes. `drop_pages`
    /// empties the kernel's page cache of the file.
    pub(crate) fn enter(
        &self,
        (file, known): (&OpenFile, Known),
        purpose: Purpose,
        register: &dyn Register,
        drop_pages: impl FnOnce() -> Result<()>,
    ) -> Result<Mode<LentFile>> {
        let suits =
            |lent: &LentFile| !self.among_nodes || (purpose.reads && file.lends(lent.lending));
        let lend = || match self.passthrough(file, purpose, register) {
            None if self.was_on() && file.may_be_stored()? => Err(stored_elsewhere(file.ino())),
            lent => Ok(lent),
        };
        let mode = self.modes.enter(known, suits, lend, drop_pages)?;
        match mode {
            Mode::Passthrough(_) => drop(self.opens.fetch_add(1, Ordering::Relaxed)),
            Mode::Daemon => {
                if purpose.in_place {
                    file.changed_in_place();
                }
                self.other_opens.fetch_add(1, Ordering::Relaxed);
            }
            // Nobody is to lend it again before this one opens it by its new number.
            Mode::Elsewhere => file.not_lent_for_now(),
        }
        Ok(mode)
    }

    /// Ends what [`Passthrough::enter`] began, after the kernel did.
    pub(crate) fn leave(&self, file: &OpenFile, known: Known) {
        if let Some(lent) = self.modes.leave(known) {
            self.end_passthrough(file, lent.lending);
        }
    }

    fn end_passthrough(&self, file: &OpenFile, lending: u64) {
        if let Err(error) = file.end_passthrough(lending) {
            tracing::warn!(ino = %file.ino(), %error, "a lent file is not taken back yet");
        }
    }

    /// Lends the file to the kernel, if that is wanted and can be done.
    fn passthrough(
        &self,
        file: &OpenFile,
        purpose: Purpose,
        register: &dyn Register,
    ) -> Option<LentFile> {
        if !self.is_on() {
            return None;
        }
        // Beside a mapping of the mirror file all must use the mirror file, writers too. But for stores past
        // the daemon nobody knows which bytes they changed, and other nodes may have changed others.
        let lent = || !self.among_nodes && file.in_passthrough().unwrap_or(false);
        if !purpose.reads && !lent() {
            return None;
        }
        let Lent { file: mirror_file, lending } = match file.passthrough() {
            Ok(lent) => lent?,
            Err(error) => {
                match error.kind() {
                    ErrorKind::Unsupported => self.turn_off(error.to_string()),
                    _ => tracing::warn!(ino = %file.ino(), %error, "a file cannot be lent"),
                }
                return None;
            }
        };
        let registered = register.register(&mirror_file);
        drop(mirror_file);
        if let Err(error) = &registered {
            self.end_passthrough(file, lending);
            self.refused(error);
        }
        Some(LentFile { backing: registered.ok()?, lending })
    }

    fn refused(&self, error: &io::Error) {
        let why = match error.raw_os_error() {
            Some(libc::EPERM) => "the daemon lacks CAP_SYS_ADMIN in the first user namespace",
            Some(libc::ELOOP) => "the tier is on a stacked file system (overlayfs)",
            Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOTTY) => {
                "the kernel does not take the tier's files"
            }
            _ => {
                tracing::warn!(%error, "the kernel did not take a mirror file");
                return;
            }
        };
        self.turn_off(format!("{why}: {error}"));
    }

    fn off(&self) -> MutexGuard<'_, Option<String>> {
        self.off.lock()
    }
}

fn stored_elsewhere(ino: Ino) -> FsError {
    let text = format!(
        "inode {ino} cannot be opened as long as a program has it mapped for writing past the \
         daemon, because the kernel does not take it once more (the log says why)"
    );
    FsError::new(ErrorKind::Retry, text)
}

/// How the kernel is to treat an open file in passthrough. Writes go to the daemon, which must
/// know of each, and mappings to the mirror file. A close has nothing to say where locks are the kernel's.
pub(crate) fn passthrough_reply(flags: i32, exclusive: bool) -> u32 {
    let mut reply = open::PASSTHROUGH | if exclusive { open::NOFLUSH } else { 0 };
    if flags & libc::O_ACCMODE != libc::O_RDONLY {
        reply |= open::DIRECT_IO | open::PARALLEL_DIRECT_WRITES;
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_reads_asks_for_passthrough_and_only_both_ways_maps_for_writing() {
        let of = |flags| {
            let Purpose { reads, maps_writable, in_place } = Purpose::of(flags);
            (reads, maps_writable, in_place)
        };
        assert_eq!(of(libc::O_RDONLY), (true, false, false));
        assert_eq!(of(libc::O_RDONLY | libc::O_DIRECT), (true, false, false));
        assert_eq!(of(libc::O_RDONLY | libc::O_TRUNC), (false, false, false));
        assert_eq!(of(libc::O_WRONLY | libc::O_APPEND), (false, false, false));
        assert_eq!(of(libc::O_RDWR), (false, true, true));
        assert_eq!(of(libc::O_RDWR | libc::O_TRUNC), (false, true, false));
    }

    #[test]
    fn writes_beside_passthrough_come_to_the_daemon() {
        let reads = passthrough_reply(libc::O_RDONLY, true);
        assert!(reads & open::DIRECT_IO == 0 && reads & open::NOFLUSH != 0);
        let among_nodes = passthrough_reply(libc::O_RDONLY, false);
        assert_eq!(among_nodes, open::PASSTHROUGH, "a close lets go of locks");
        for flags in [libc::O_WRONLY, libc::O_RDWR | libc::O_APPEND] {
            let writes = passthrough_reply(flags, true);
            let wanted = open::PASSTHROUGH | open::DIRECT_IO;
            assert_eq!(writes & wanted, wanted);
            assert!(writes & open::KEEP_CACHE == 0, "the kernel refuses it");
        }
    }

    #[test]
    fn it_is_off_with_a_reason_where_others_write_or_nobody_wants_it() {
        let now: crate::Now = std::sync::Arc::new(|| weir_types::UnixTime(0));
        let options = FuseOptions::new("/mnt", "s3://b/v", now);
        assert!(Passthrough::new(&options).is_on());
        let shared = Passthrough::new(&options.clone().shared());
        assert!(shared.state().off.is_some_and(|why| why.contains("others")));
        assert!(Passthrough::new(&options.clone().among_nodes()).is_on());
        let unwanted = Passthrough::new(&FuseOptions { passthrough: false, ..options });
        unwanted.turn_off("later");
        assert_eq!(unwanted.state().off.as_deref(), Some("turned off for this mount"));
    }
}
