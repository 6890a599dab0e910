//! Attributes: getattr, setattr, statfs.

use std::sync::atomic::Ordering;

use fuser::TimeOrNow;
use weir_engine::{SetAttr, Statfs};
use weir_types::{Ino, Inode, UnixTime};

use crate::convert::time_from_kernel;
use crate::door::{DoorState, PRIVILEGES, Served};

/// What a setattr asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// Who asks.
    pub(crate) caller: u32,
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) atime: Option<TimeOrNow>,
    pub(crate) mtime: Option<TimeOrNow>,
    pub(crate) ctime: Option<UnixTime>,
}

impl Wanted {
    /// All but the size. A change of owner takes the privileges away, whoever makes it.
    fn set_attr(&self, now: impl Fn() -> UnixTime) -> SetAttr {
        let time = |time: TimeOrNow| match time {
            TimeOrNow::SpecificTime(time) => time_from_kernel(time),
            TimeOrNow::Now => now(),
        };
        SetAttr {
            mode: self.mode.map(|mode| mode & 0o7777),
            uid: self.uid,
            gid: self.gid,
            atime: self.atime.map(time),
            mtime: self.mtime.map(time),
            ctime: self.ctime,
            clear_privileges: self.uid.is_some() || self.gid.is_some(),
        }
    }
}

impl DoorState {
    pub(crate) async fn set_attributes(&self, ino: Ino, wanted: Wanted) -> Served<Inode> {
        let set = wanted.set_attr(|| (self.options.now)());
        if let Some(size) = wanted.size {
            let mut inode = self.engine.truncate(ino, size).await?;
            if wanted.caller != 0
                && let Some(after) = self.drop_privileges_of(&inode).await?
            {
                inode = after;
            }
            if set == SetAttr::default() {
                return Ok(inode);
            }
        }
        let inode = self.engine.setattr(ino, set).await?;
        if set.mode.is_some_and(|mode| mode & PRIVILEGES != 0) {
            self.privileges_given.fetch_add(1, Ordering::AcqRel);
        }
        Ok(inode)
    }
}

/// The numbers of a statfs, in blocks of [`Space::BLOCK`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) blocks: u64,
    pub(crate) free: u64,
    pub(crate) files: u64,
    pub(crate) files_free: u64,
}

impl Space {
    /// `f_bsize` and `f_frsize`.
    pub(crate) const BLOCK: u32 = 4096;
    /// Inode numbers never run out; this many are said to be free, as a bucket has no such limit.
    const FILES_FREE: u64 = 1 << 40;

    pub(crate) fn of(stat: &Statfs) -> Self {
        let block = u64::from(Self::BLOCK);
        let used = stat.used_bytes.div_ceil(block);
        let blocks = (stat.total_bytes / block).max(used);
        Self {
            blocks,
            free: blocks - used,
            files: stat.files.saturating_add(Self::FILES_FREE),
            files_free: Self::FILES_FREE,
        }
    }

    pub(crate) fn free_bytes(self) -> u64 {
        self.free.saturating_mul(u64::from(Self::BLOCK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_of_owner_takes_privileges() {
        let now = || UnixTime(77);
        let chmod = Wanted { mode: Some(0o104_755), ..Wanted::default() }.set_attr(now);
        assert_eq!((chmod.mode, chmod.clear_privileges), (Some(0o4755), false));
        let chown = Wanted { uid: Some(5), ..Wanted::default() }.set_attr(now);
        assert_eq!((chown.uid, chown.clear_privileges), (Some(5), true));
        let chgrp = Wanted { gid: Some(5), ..Wanted::default() }.set_attr(now);
        assert!(chgrp.clear_privileges);
        let truncate = Wanted { size: Some(5), ..Wanted::default() }.set_attr(now);
        assert_eq!(truncate, SetAttr::default());
    }

    #[test]
    fn now_is_the_clock_and_omitted_times_stay() {
        let wanted = Wanted { mtime: Some(TimeOrNow::Now), ..Wanted::default() };
        let set = wanted.set_attr(|| UnixTime(77));
        assert_eq!((set.atime, set.mtime), (None, Some(UnixTime(77))));
    }

    #[test]
    fn a_volume_is_never_fuller_than_full() {
        let space =
            |total_bytes, used_bytes| Space::of(&Statfs { total_bytes, used_bytes, files: 3 });
        assert_eq!((space(8192, 1).blocks, space(8192, 1).free), (2, 1));
        assert_eq!((space(4096, 8192).blocks, space(4096, 8192).free), (2, 0));
        assert!(space(0, 0).files - space(0, 0).files_free == 3);
    }
}
