//! What a change by somebody unprivileged takes from a file: set-user-id, set-group-id, capabilities.
//!
//! The kernel leaves this to the door (`FUSE_HANDLE_KILLPRIV_V2`), and in turn does not ask for
//! `security.capability` before every single write. The rule is that of local file systems: where the
//! caller lacks CAP_FSETID, set-user-id goes; set-group-id goes where the group may execute the file,
//! and else where the caller is not in that group. Of writes, cuts and opens that cut the kernel says
//! whether the caller lacks it; of all else it says nothing, and the caller is looked at.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_engine::SetAttr;
use weir_types::{FileKind, Ino, Inode};

use crate::door::{DoorState, Served};
use crate::handles::File;

/// Set-user-id and set-group-id: what a write by an unprivileged user takes away.
pub(crate) const PRIVILEGES: u32 = 0o6000;
const SET_GID: u32 = 0o2000;
const GROUP_RUNS: u32 = 0o010;
/// CAP_FSETID in the masks of /proc/…/status.
const CAP_FSETID: u64 = 1 << 4;

/// Who asks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Who {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The thread; 0 where it cannot be named here.
    pub(crate) tid: u32,
}

impl Who {
    /// Whether set-group-id of a file is to go although its group may not execute it. A request
    /// tells one group of its caller; the others are asked for where it matters, which is rare. Who
    /// cannot be looked at is taken to be in no other.
    pub(crate) fn is_outside_group_of(self, inode: &Inode) -> bool {
        let matters =
            inode.mode & (SET_GID | GROUP_RUNS) == SET_GID && inode.kind != FileKind::Directory;
        matters && self.gid != inode.gid && {
            let status = self.status();
            let is_inside = |status: &String| has_group(status, inode.gid) || may_keep(status);
            !status.as_ref().map_or(self.uid == 0, is_inside)
        }
    }

    /// Whether a file keeps its privileges when this one changes it. Who cannot be looked at is taken
    /// for privileged if it is root.
    fn may_keep_privileges(self) -> bool {
        self.status().map_or(self.uid == 0, |status| may_keep(&status))
    }

    fn status(self) -> Option<String> {
        std::fs::read_to_string(format!("/proc/{}/status", self.tid)).ok()
    }
}

/// Whether /proc/…/status tells of a thread that it has CAP_FSETID.
fn may_keep(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    mask.is_some_and(|mask| mask & CAP_FSETID != 0)
}

/// Whether /proc/…/status tells of a thread that it is in this group beside its own.
fn has_group(status: &str, gid: u32) -> bool {
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or("");
    groups.split_ascii_whitespace().any(|group| group.parse() == Ok(gid))
}

impl DoorState {
    /// Takes set-uid and set-gid from a file because `who` changes its contents, unless that one may
    /// keep them.
    pub(crate) async fn drop_privileges(&self, ino: Ino, who: Who) -> Served<()> {
        let inode = self.engine.getattr(ino).await?;
        if inode.mode & PRIVILEGES != 0 && !who.may_keep_privileges() {
            self.drop_privileges_of(&inode, who).await?;
        }
        Ok(())
    }

    /// The same where it is known that `who` may not keep them.
    pub(crate) async fn kill_privileges(&self, ino: Ino, who: Who) -> Served<()> {
        let inode = self.engine.getattr(ino).await?;
        self.drop_privileges_of(&inode, who).await?;
        Ok(())
    }

    /// The same for an inode at hand; answers with the new one if it changed.
    pub(crate) async fn drop_privileges_of(
        &self,
        inode: &Inode,
        who: Who,
    ) -> Served<Option<Inode>> {
        if inode.mode & PRIVILEGES == 0 || inode.kind == FileKind::Directory {
            return Ok(None);
        }
        let clear_set_gid = who.is_outside_group_of(inode);
        let set = SetAttr { clear_privileges: true, clear_set_gid, ..SetAttr::default() };
        let after = self.engine.setattr(inode.ino, set).await?;
        self.forget_attributes(inode.ino);
        Ok(Some(after))
    }

    /// Every write of an unprivileged user wants the privileges gone: they are looked for once per
    /// open file, and again when some were given to any file since, or were left to it.
    pub(crate) async fn drop_privileges_once(
        self: &Arc<Self>,
        file: &Arc<File>,
        who: Who,
    ) -> Served<()> {
        let given = self.privileges_given.load(Ordering::Acquire);
        if file.plain_since.load(Ordering::Relaxed) == given {
            return Ok(());
        }
        let (door, file) = (self.clone(), file.clone());
        let work = async move {
            let inode = door.engine.getattr(file.open.ino()).await?;
            let after = door.drop_privileges_of(&inode, who).await?;
            if after.unwrap_or(inode).mode & PRIVILEGES == 0 {
                file.plain_since.store(given, Ordering::Relaxed);
            }
            Ok(())
        };
        self.whole(work).await
    }

    /// Every write, root's too, takes the capabilities from a program.
    pub(crate) async fn drop_capabilities_once(self: &Arc<Self>, file: &Arc<File>) -> Served<()> {
        let given = self.capabilities_given.load(Ordering::Acquire);
        if file.bare_since.load(Ordering::Relaxed) == given {
            return Ok(());
        }
        let (door, file) = (self.clone(), file.clone());
        let work = async move {
            door.drop_capabilities(file.open.ino()).await?;
            file.bare_since.store(given, Ordering::Relaxed);
            Ok(())
        };
        self.whole(work).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_of_a_thread_are_those_of_its_status() {
        let status = "Name:\tcat\nGid:\t7\t7\t7\t7\nGroups:\t4 24 1000 \nNStgid:\t5\n";
        for (gid, wanted) in [(4, true), (1000, true), (7, false), (100, false)] {
            assert_eq!(has_group(status, gid), wanted, "{gid}");
        }
        assert!(!has_group("Groups:\t\n", 0) && !has_group("", 0));
    }

    #[test]
    fn the_capability_counts_and_not_the_number_of_the_user() {
        let of = |mask: &str| may_keep(&format!("Uid:\t0\nCapPrm:\t0\nCapEff:\t{mask}\n"));
        assert!(of("000001ffffffffff") && of("0000000000000010"));
        assert!(!of("000001ffffffffef") && !of("0000000000000000") && !may_keep(""));
    }
}
