//! What a tier directory still knows after its daemon ended, one way or the other.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_types::{ByteRange, ErrorKind, FsError, Ino, Result};

use crate::lease;
use crate::log::{Entry, MirrorState};
use crate::mirror_file::{copy_file, data_ranges, last_store, mirror_path};
use crate::pending::Pending;
use crate::ranges::{PageState, RangeMap};

/// How the last user of the tier ended, and what that cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Recovered {
    /// There was none.
    New,
    /// It synced and closed.
    Clean,
    /// It was killed; the machine went on, and so nothing is lost.
    Killed,
    /// The machine went down: only what is known to be on the disk is kept.
    PowerCut {
        /// Dirty bytes that were not kept.
        dirty_bytes_dropped: u64,
        /// Clean bytes that must be fetched again.
        clean_bytes_dropped: u64,
    },
    /// The tier's file system was unmounted, or died, and was mounted again: nobody can say which
    /// bytes reached its disk.
    Remounted {
        /// Dirty bytes in doubt.
        dirty_bytes_in_doubt: u64,
        /// Clean bytes that must be fetched again.
        clean_bytes_dropped: u64,
    },
}

/// Which run of the machine, and of the file system on it, one that used a tier saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Era {
    /// Names the boot; empty while a recovery is not complete.
    pub(crate) boot: String,
    /// Names the mounted file system, if that can be told.
    pub(crate) file_system: Option<String>,
}

impl Era {
    /// As the log has it: what needs no telling is left out.
    pub(crate) fn text(&self) -> String {
        debug_assert!(!self.boot.contains(' '), "a boot id has no spaces: {}", self.boot);
        match &self.file_system {
            Some(file_system) => format!("{} {file_system}", self.boot),
            None => self.boot.clone(),
        }
    }

    fn from_text(text: &str) -> Self {
        let (boot, file_system) = match text.split_once(' ') {
            Some((boot, file_system)) => (boot, Some(file_system.to_owned())),
            None => (text, None),
        };
        Self { boot: boot.to_owned(), file_system }
    }

    /// Whether pages that were only in memory may be gone though the machine was not booted.
    fn is_remounted(&self, now: &Era) -> bool {
        let told = self.file_system.is_some() && now.file_system.is_some();
        told && self.file_system != now.file_system
    }
}

/// Dirty data that was set aside: kept beside the tier, never flushed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetAside {
    /// Its name among all that was set aside.
    pub label: String,
    /// Where it is now.
    pub directory: PathBuf,
    /// How many files had dirty data.
    pub files: u64,
    /// How many bytes were dirty.
    pub dirty_bytes: u64,
    /// Bytes of the redo log that was set aside with it: operations that were acknowledged here.
    pub log_bytes: u64,
    /// Where that log is now.
    pub log: PathBuf,
}

/// The residency log's entries, added up.
#[derive(Default)]
pub(crate) struct Replay {
    mirrors: HashMap<Ino, Kept>,
    gone: HashSet<Ino>,
    /// Mirrors written anew since `Begin`.
    fresh: HashSet<Ino>,
    /// Whole states of which not all parts have come yet.
    parts: HashMap<Ino, MirrorState>,
    last: Option<Era>,
    closed: bool,
}

/// A mirror that the last user of the tier left.
pub(crate) struct Left {
    pub(crate) state: MirrorState,
    /// Nothing of it can be lost in a power cut.
    pub(crate) sealed: bool,
    /// What is dirty in it may not be what was written.
    pub(crate) doubt: bool,
}

struct Kept {
    state: MirrorState,
    /// The disk lost bytes of it.
    doubt: bool,
    /// The pages that were on the disk when the mirror was sealed, while it has not changed since.
    sealed: Option<RangeMap>,
    /// Programs may have changed any of it without a note.
    passthrough: bool,
}

impl Kept {
    /// Nobody knows which bytes were lost: clean ones come again from the bucket.
    fn doubt(&mut self) {
        // What is lent may be dirty without a note of it.
        if !self.passthrough {
            self.keep_dirty();
        }
        self.doubt = self.passthrough || self.state.dirty_bytes() > 0;
    }

    fn keep_dirty(&mut self) {
        let all = std::mem::take(&mut self.state.ranges);
        for (ByteRange { start, end }, state) in all.iter().filter(|r| r.1.is_dirty()) {
            self.state.ranges.set(start, end, state);
        }
    }
}

impl Replay {
    pub(crate) fn entry(&mut self, bytes: &[u8]) -> Result<()> {
        let entry = Entry::decode(bytes)?;
        self.closed = entry == Entry::Closed;
        match entry {
            Entry::Begin => self.fresh.clear(),
            Entry::Opened { boot_id } => {
                self.mirrors.retain(|ino, _| self.fresh.contains(ino));
                self.last = Some(Era::from_text(&boot_id));
            }
            Entry::Closed => {}
            Entry::Whole(state) => self.whole(state),
            Entry::WholePart { state, part, last } => self.part(state, part, last),
            Entry::Doubted { ino } => {
                if let Some(kept) = self.mirrors.get_mut(&ino) {
                    kept.doubt();
                }
            }
            Entry::Sealed { inos } => {
                for ino in inos {
                    if let Some(kept) = self.mirrors.get_mut(&ino) {
                        kept.sealed = Some(kept.state.ranges.clone());
                    }
                }
            }
            Entry::Gone { ino } => {
                self.mirrors.remove(&ino);
                self.gone.insert(ino);
            }
            Entry::Unsealed { ino }
            | Entry::Filled { ino, .. }
            | Entry::Dirtied { ino, .. }
            | Entry::Pending { ino, .. }
            | Entry::Flushed { ino, .. }
            | Entry::Dropped { ino, .. }
            | Entry::Released { ino, .. }
            | Entry::Lent { ino, .. } => self.change(ino, &entry),
        }
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn state(&self, ino: Ino) -> Option<&MirrorState> {
        self.mirrors.get(&ino).map(|kept| &kept.state)
    }

    fn whole(&mut self, state: MirrorState) {
        self.gone.remove(&state.ino);
        self.fresh.insert(state.ino);
        // What is written anew while it is lent is still lent.
        let before = self.mirrors.get(&state.ino);
        let (passthrough, doubt) =
            before.map_or((false, false), |kept| (kept.passthrough, kept.doubt));
        self.mirrors.insert(state.ino, Kept { state, doubt, sealed: None, passthrough });
    }

    fn part(&mut self, state: MirrorState, part: u32, last: bool) {
        let ino = state.ino;
        if part == 0 {
            self.parts.insert(ino, state);
        } else if let Some(so_far) = self.parts.get_mut(&ino) {
            state
                .ranges
                .iter()
                .for_each(|(range, is)| so_far.ranges.set(range.start, range.end, is));
        }
        if last && let Some(state) = self.parts.remove(&ino) {
            self.whole(state);
        }
    }

    fn change(&mut self, ino: Ino, entry: &Entry) {
        let Some(kept) = self.mirrors.get_mut(&ino) else {
            return;
        };
        kept.state.apply(entry);
        // What is lent may be dirty without a note of it.
        kept.doubt = kept.doubt && (kept.state.dirty_bytes() > 0 || kept.passthrough);
        if let Entry::Lent { writable, .. } = *entry {
            kept.passthrough = writable;
        }
        match *entry {
            Entry::Released { start, end, .. } => {
                if let Some(sealed) = &mut kept.sealed {
                    sealed.clear(start, end);
                }
            }
            _ => kept.sealed = None,
        }
    }

    /// The mirrors to go on with, given where we are. `disk_lost_bytes` asks whether the disk lost
    /// any since somebody was told, `stays` which files others go on to have of us after a kill.
    pub(crate) fn finish(
        mut self,
        now: &Era,
        mirrors: &Path,
        disk_lost_bytes: impl Fn() -> bool,
        stays: impl Fn(Ino) -> bool,
    ) -> Result<Replayed> {
        let how = match (&self.last, self.closed) {
            (None, _) => Recovered::New,
            // Nobody took up yet what was left, however the last user ended.
            (Some(last), _) if last.boot.is_empty() => self.power_cut(mirrors),
            (Some(_), true) => Recovered::Clean,
            (Some(last), false) if last.boot != now.boot => self.power_cut(mirrors),
            (Some(last), false) if last.is_remounted(now) || disk_lost_bytes() => {
                self.remounted(mirrors)
            }
            (Some(_), false) => Recovered::Killed,
        };
        // Until it is complete, the next one must find the same.
        let incomplete = match how {
            Recovered::Remounted { .. } => self.last.clone(),
            _ => None,
        };
        let mut kept = Vec::new();
        for mut mirror in self.mirrors.into_values() {
            let stays = how == Recovered::Killed && stays(mirror.state.ino);
            if mirror.passthrough && !stays {
                let killed = matches!(how, Recovered::Killed | Recovered::Remounted { .. });
                let path = mirror_path(mirrors, mirror.state.ino);
                recover_passthrough(&mut mirror.state, &path, killed)?;
            }
            let Kept { state, sealed, doubt, .. } = mirror;
            kept.push(Left { state, sealed: sealed.is_some(), doubt });
        }
        Ok(Replayed { how, incomplete, mirrors: kept, gone: self.gone })
    }

    /// Keeps sealed mirrors as they were then, and of others what is nowhere else: in doubt.
    fn remounted(&mut self, mirrors: &Path) -> Recovered {
        let (mut in_doubt, mut clean) = (0, 0);
        self.mirrors.retain(|_, kept| {
            if !kept.passthrough
                && kept.state.pending == Pending::default()
                && kept.state.dirty_bytes() == 0
            {
                let before = kept.state.local_bytes();
                let stays = keep_sealed(kept, mirrors);
                clean += before.saturating_sub(if stays { kept.state.local_bytes() } else { 0 });
                return stays;
            }
            let before = kept.state.local_bytes();
            kept.keep_dirty();
            (kept.doubt, kept.sealed) = (true, None);
            in_doubt += kept.state.dirty_bytes();
            clean += before - kept.state.dirty_bytes();
            true
        });
        Recovered::Remounted { dirty_bytes_in_doubt: in_doubt, clean_bytes_dropped: clean }
    }

    /// Keeps only sealed mirrors, as they were when sealed.
    fn power_cut(&mut self, mirrors: &Path) -> Recovered {
        let (mut dirty, mut clean) = (0, 0);
        self.mirrors.retain(|_, kept| {
            let (all, news) = (kept.state.local_bytes(), kept.state.dirty_bytes());
            dirty += news;
            let stays = keep_sealed(kept, mirrors);
            let left = if stays { kept.state.local_bytes() } else { 0 };
            clean += (all - news).saturating_sub(left);
            stays
        });
        Recovered::PowerCut { dirty_bytes_dropped: dirty, clean_bytes_dropped: clean }
    }
}

/// Takes a mirror back to what it was when it was sealed; `false` if that is not to be had.
fn keep_sealed(kept: &mut Kept, mirrors: &Path) -> bool {
    let Some(sealed) = kept.sealed.clone() else { return false };
    // The removal of a file may be on the disk before the note of it.
    if sealed.iter().any(|r| r.1.is_local()) && !mirror_path(mirrors, kept.state.ino).exists() {
        return false;
    }
    kept.state.ranges = sealed;
    true
}

/// Programs could change this mirror file when the last user of the tier ended, and may still have
/// it mapped. After a kill all of it counts as written; after a clean end what they wrote is of no
/// mount, and only what that end left dirty stays. Either way the mirror goes on in a file that
/// they do not have.
///
/// This may be done twice: the note that it was done can be lost with a second kill.
fn recover_passthrough(state: &mut MirrorState, path: &Path, killed: bool) -> Result<()> {
    let at = |e| FsError::local_io(format!("take back mirror file {}", path.display()), e);
    let size = state.size;
    let dirty: Vec<_> = match (killed, path.exists()) {
        (true, true) => {
            let file = fs::File::open(path).map_err(at)?;
            state.pending = Pending { size: true, ..state.pending };
            if let Some(stored) = last_store(&file).map_err(at)? {
                state.pending = Pending::written(stored);
            }
            data_ranges(&file, size).map_err(at)?
        }
        (_, false) => Vec::new(),
        (false, true) => {
            state.ranges.iter().filter(|r| r.1.is_dirty()).map(|(range, _)| range).collect()
        }
    };
    let known = std::mem::take(&mut state.ranges);
    // What counts as here must be in the file: an earlier turn may have left it out.
    for (ByteRange { start, end }, _) in known.iter().filter(|r| killed && r.1 == PageState::Hole) {
        state.ranges.set(start, end, PageState::Hole);
    }
    for &ByteRange { start, end } in &dirty {
        state.ranges.set(start, end, PageState::Dirty);
    }
    if !path.exists() || (killed && nobody_has(path)) {
        return Ok(());
    }
    copy_file(path, &dirty, size).map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            let bytes: u64 = dirty.iter().map(|range| range.len()).sum();
            let text = format!(
                "programs of a mount that was killed still have {} mapped, and the tier's disk \
                 has no room for a copy of its {bytes} bytes: end those programs, or make room on \
                 that disk, and mount again",
                path.display()
            );
            FsError::new(ErrorKind::NoSpace, text).with_source(error)
        }
        _ => at(error),
    })
}

/// Where it cannot be asked, somebody may.
fn nobody_has(path: &Path) -> bool {
    fs::File::open(path).and_then(|file| lease::nobody_else(&file)).unwrap_or(false)
}

pub(crate) struct Replayed {
    pub(crate) how: Recovered,
    /// What to call the time until the recovery is complete.
    pub(crate) incomplete: Option<Era>,
    pub(crate) mirrors: Vec<Left>,
    /// Those of which the log says that they went; their files may still be there.
    pub(crate) gone: HashSet<Ino>,
}

/// Removes the files of mirrors that are not `known`: what an entry let go, or, unless the last user
/// ended well, no entry speaks of, since a mirror's first bytes are in its file before the log does.
/// Only once the log says that they are not: whoever opens the tier after a kill believes it.
pub(crate) fn remove_unknown(
    mirrors: &Path,
    how: Recovered,
    gone: &HashSet<Ino>,
    known: impl Fn(Ino) -> bool,
) -> Result<()> {
    for ino in gone.iter().filter(|ino| !known(**ino)) {
        let _ = fs::remove_file(mirror_path(mirrors, *ino));
    }
    if how == Recovered::Clean {
        return Ok(());
    }
    let at = |e| FsError::local_io(format!("list mirror files in {}", mirrors.display()), e);
    for bucket in fs::read_dir(mirrors).map_err(at)? {
        for file in fs::read_dir(bucket.map_err(at)?.path()).map_err(at)? {
            let path = file.map_err(at)?.path();
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            let ino = u64::from_str_radix(name, 16).map(Ino);
            if !ino.is_ok_and(&known) {
                fs::remove_file(&path).map_err(at)?;
            }
        }
    }
    Ok(())
}
