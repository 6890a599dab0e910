//! Attributes: getattr, setattr, times of reads, statfs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_engine::{SetAttr, Statfs};
use weir_fuse::Time;
use weir_types::{Ino, Inode, UnixTime};

use crate::convert::unix_time;
use crate::door::{DoorState, Served};
use crate::privileges::{PRIVILEGES, Who};

/// What a setattr sets, but the size. A change of owner takes the privileges away, whoever makes
/// it.
fn set_attr(wanted: &weir_fuse::SetAttr, now: impl Fn() -> UnixTime) -> SetAttr {
    let time = |time| match time {
        Time::At(time) => unix_time(time),
        Time::Now => now(),
    };
    SetAttr {
        mode: wanted.mode.map(|mode| mode & 0o7777),
        uid: wanted.uid,
        gid: wanted.gid,
        atime: wanted.atime.map(time),
        mtime: wanted.mtime.map(time),
        ctime: wanted.ctime.map(unix_time),
        clear_privileges: wanted.uid.is_some() || wanted.gid.is_some(),
        clear_set_gid: false,
    }
}

impl DoorState {
    pub(crate) async fn set_attributes(
        &self,
        ino: Ino,
        who: Who,
        wanted: weir_fuse::SetAttr,
    ) -> Served<Inode> {
        let mut set = set_attr(&wanted, || (self.options.now)());
        if let Some(size) = wanted.size {
            let mut inode = self.engine.truncate(ino, size).await?;
            if wanted.kills_privileges
                && let Some(after) = self.drop_privileges_of(&inode, who).await?
            {
                inode = after;
            }
            if set == SetAttr::default() {
                return Ok(inode);
            }
        }
        if set.clear_privileges {
            set.clear_set_gid = who.is_outside_group_of(&self.engine.getattr(ino).await?);
        }
        let inode = self.engine.setattr(ino, set).await?;
        if set.mode.is_some_and(|mode| mode & PRIVILEGES != 0) {
            self.privileges_given.fetch_add(1, Ordering::AcqRel);
        }
        Ok(inode)
    }

    /// Notes that somebody reads `ino`, where that is kept. Nobody waits for it.
    pub(crate) fn was_read(self: &Arc<Self>, ino: Ino) {
        let may = self.options.relatime && !self.options.read_only;
        if !may || !self.atimes.are_kept(&self.options.mountpoint) {
            return;
        }
        let door = self.clone();
        self.beside(async move {
            match door.engine.note_read(ino).await {
                // The kernel remembers the one of before.
                Ok(true) => door.forget_attributes(ino),
                Ok(false) => {}
                Err(error) => tracing::debug!(%ino, %error, "that it was read is not noted"),
            }
        });
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
        let files_free =
            stat.files_max.map_or(Self::FILES_FREE, |max| max.saturating_sub(stat.files));
        Self {
            blocks,
            free: blocks - used,
            files: stat.files.saturating_add(files_free),
            files_free,
        }
    }

    pub(crate) fn free_bytes(self) -> u64 {
        self.free.saturating_mul(u64::from(Self::BLOCK))
    }
}

#[cfg(test)]
mod tests {
    use weir_fuse::SetAttr as Wanted;

    use super::*;

    #[test]
    fn only_a_change_of_owner_takes_privileges() {
        let now = || UnixTime(77);
        let chmod = set_attr(&Wanted { mode: Some(0o104_755), ..Wanted::default() }, now);
        assert_eq!((chmod.mode, chmod.clear_privileges), (Some(0o4755), false));
        let chown = set_attr(&Wanted { uid: Some(5), ..Wanted::default() }, now);
        assert_eq!((chown.uid, chown.clear_privileges), (Some(5), true));
        let chgrp = set_attr(&Wanted { gid: Some(5), ..Wanted::default() }, now);
        assert!(chgrp.clear_privileges);
        let truncate = set_attr(&Wanted { size: Some(5), ..Wanted::default() }, now);
        assert_eq!(truncate, SetAttr::default());
    }

    #[test]
    fn now_is_the_clock_and_omitted_times_stay() {
        let wanted = Wanted { mtime: Some(Time::Now), ..Wanted::default() };
        let set = set_attr(&wanted, || UnixTime(77));
        assert_eq!((set.atime, set.mtime), (None, Some(UnixTime(77))));
    }

    #[test]
    fn a_volume_is_never_fuller_than_full() {
        let space = |total_bytes, used_bytes| {
            Space::of(&Statfs { total_bytes, used_bytes, files: 3, files_max: None })
        };
        assert_eq!((space(8192, 1).blocks, space(8192, 1).free), (2, 1));
        assert_eq!((space(4096, 8192).blocks, space(4096, 8192).free), (2, 0));
        assert!(space(0, 0).files - space(0, 0).files_free == 3);
    }
}
