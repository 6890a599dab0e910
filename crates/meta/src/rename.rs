//! Renaming: the one operation that touches up to four inodes.

use weir_types::{ErrorKind, FileKind, FsError, Ino, Inode, Result, UnixTime};

use crate::codec::{Dirent, Seen, decode_seen, time_after};
use crate::kv::{Key, Versioned};
use crate::op::{Tries, Tx, adjusted, at_name, check_name, live_dir, no_inode, seen_inode};
use crate::{Meta, keys};

/// Deepest tree through which a directory may be moved; deeper only where parents form a ring.
const DEPTH_MAX: u32 = 1 << 16;

/// What may become of something that has the new name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// It is replaced.
    Replace,
    /// The rename fails with `Exists`.
    NoReplace,
    /// The two swap their names; it must exist.
    Exchange,
}

/// What a rename did.
#[derive(Clone, Debug)]
pub struct Renamed {
    /// What has the new name now.
    pub moved: Inode,
    /// What had it before, as it is now: with one link less, maybe 0 (then it is an orphan), or,
    /// exchanged, under the old name. `None` if there was nothing, or both names lead to one inode.
    pub replaced: Option<Inode>,
}

/// What the first read round of a rename found.
struct Plan<'a> {
    from_name: &'a [u8],
    to_name: &'a [u8],
    from: Seen<Inode>,
    to: Seen<Inode>,
    from_key: Key,
    to_key: Key,
    moved: Seen<Dirent>,
    target: Option<Seen<Dirent>>,
    exchange: bool,
    /// When entries of the two directories changed.
    times: [Option<Versioned>; 2],
}

impl Plan<'_> {
    fn crosses(&self) -> bool {
        self.from.value.ino != self.to.value.ino
    }
}

fn is_dir(entry: &Dirent) -> bool {
    entry.kind == FileKind::Directory
}

impl Meta {
    /// Renames by POSIX's rules. Two read rounds, one more for each level of directories above the
    /// new place when a directory changes its parent, and one commit.
    pub async fn rename(
        &self,
        from_dir: Ino,
        from_name: &[u8],
        to_dir: Ino,
        to_name: &[u8],
        mode: RenameMode,
    ) -> Result<Renamed> {
        check_name(from_name)?;
        check_name(to_name)?;
        let mut tries = Tries::new("rename");
        loop {
            tries.next().await?;
            let (from_key, to_key) =
                (keys::dirent(from_dir, from_name), keys::dirent(to_dir, to_name));
            let wanted =
                vec![keys::inode(from_dir), keys::inode(to_dir), from_key.clone(), to_key.clone()];
            let (found, times) = self.get_with_times(wanted, [from_dir, to_dir]).await?;
            let from = live_dir(from_dir, found[0].as_ref())?;
            let to = live_dir(to_dir, found[1].as_ref())?;
            let moved: Seen<Dirent> = decode_seen(&from_key, found[2].as_ref())?
                .ok_or_else(|| no_source(from_dir, from_name))?;
            let target: Option<Seen<Dirent>> = decode_seen(&to_key, found[3].as_ref())?;
            match (mode, &target) {
                (RenameMode::NoReplace, Some(_)) => {
                    return Err(at_name(ErrorKind::Exists, to_dir, to_name, "the name is taken"));
                }
                (RenameMode::Exchange, None) => return Err(no_source(to_dir, to_name)),
                _ => {}
            }
            if target.as_ref().is_some_and(|target| target.value.ino == moved.value.ino) {
                // Two names of one inode: POSIX wants nothing done.
                let moved = self.inode(moved.value.ino).await?;
                return Ok(Renamed { moved, replaced: None });
            }
            let exchange = mode == RenameMode::Exchange;
            let plan = Plan {
                from_name,
                to_name,
                from,
                to,
                from_key,
                to_key,
                moved,
                target,
                exchange,
                times,
            };
            if let Some(renamed) = self.try_rename(plan).await? {
                return Ok(renamed);
            }
        }
    }

    /// The second half of a rename; `None`: redo it.
    async fn try_rename(&self, plan: Plan<'_>) -> Result<Option<Renamed>> {
        let mut tx = Tx::default();
        let now = self.now();
        if plan.crosses() && is_dir(&plan.moved.value) {
            self.check_not_below(plan.moved.value.ino, &plan.to, &mut tx).await?;
        }
        let mut replaced = None;
        if let Some(target) = &plan.target {
            let after = if plan.exchange {
                self.exchange_target(&plan, target.value, &mut tx, now).await?
            } else {
                self.replace_target(plan.moved.value, target.value, &mut tx).await?
            };
            let Some(after) = after else { return Ok(None) };
            replaced = Some(after);
        }
        let to = &plan.to.value;
        let Some(moved) = self.move_to(plan.moved.value.ino, to, &mut tx, now).await? else {
            return Ok(None);
        };
        tx.check(plan.from_key.clone(), Some(plan.moved.version));
        tx.check(plan.to_key.clone(), plan.target.as_ref().map(|seen| seen.version));
        tx.check_inode(&plan.to);
        if plan.exchange {
            tx.check_inode(&plan.from);
        }
        tx.put_dirent(plan.to_key.clone(), moved.ino, moved.kind)?;
        let (from, to) = ((&plan.from.value, plan.from_name), (&plan.to.value, plan.to_name));
        tx.export_moved(&moved, from, to)?;
        match &replaced {
            Some(other) if plan.exchange => {
                tx.export_moved(other, to, from)?;
                tx.put_dirent(plan.from_key.clone(), other.ino, other.kind)?;
            }
            other => {
                tx.delete(plan.from_key.clone());
                if let Some(other) = other {
                    tx.export_lost_name(to.0, to.1, other);
                }
            }
        }
        change_parents(&plan, &mut tx, now)?;
        tx.keep_receipt();
        Ok(self.apply(tx).await?.then_some(Renamed { moved, replaced }))
    }

    /// Gives an inode a new place; `None` if it is gone.
    async fn move_to(
        &self,
        ino: Ino,
        to: &Inode,
        tx: &mut Tx,
        now: UnixTime,
    ) -> Result<Option<Inode>> {
        let found = self.get(&[keys::inode(ino), keys::dir_times(ino)]).await?;
        let Some(mut seen) = seen_inode(ino, found[0].as_ref())? else {
            return Ok(None);
        };
        tx.check_inode(&seen);
        // By where it was.
        seen.value.account = self.account_in(&seen.value, true, to).await?;
        seen.value.ctime = now;
        seen.value.parent = to.ino;
        tx.put_inode(&seen.value)?;
        crate::codec::merge_times(&mut seen.value, found[1].as_ref())?;
        Ok(Some(seen.value))
    }

    async fn exchange_target(
        &self,
        plan: &Plan<'_>,
        target: Dirent,
        tx: &mut Tx,
        now: UnixTime,
    ) -> Result<Option<Inode>> {
        if plan.crosses() && is_dir(&target) {
            self.check_not_below(target.ino, &plan.from, tx).await?;
        }
        self.move_to(target.ino, &plan.from.value, tx, now).await
    }

    async fn replace_target(
        &self,
        moved: Dirent,
        target: Dirent,
        tx: &mut Tx,
    ) -> Result<Option<Inode>> {
        let ino = target.ino;
        let seen = match (is_dir(&moved), is_dir(&target)) {
            (true, true) => self.empty_dir(ino, tx).await?,
            (true, false) => {
                let context = format!("a directory cannot replace inode {ino}, which is none");
                return Err(FsError::new(ErrorKind::NotDirectory, context));
            }
            (false, true) => {
                let context = format!("only a directory can replace directory {ino}");
                return Err(FsError::new(ErrorKind::IsDirectory, context));
            }
            (false, false) => {
                let found = self.get(&[keys::inode(ino)]).await?;
                let seen = seen_inode(ino, found[0].as_ref())?;
                seen.iter().for_each(|seen| tx.check_inode(seen));
                seen
            }
        };
        seen.map(|seen| self.without_a_name(seen.value, tx)).transpose()
    }

    /// Refuses to move the directory `moved` into `dir` if that is it or lies below it.
    ///
    /// Every directory on the way up goes into the checks. A directory's inode changes whenever
    /// its parent does, so of two renames that would together make a ring, the second to commit
    /// finds one of its ancestors changed and is redone.
    async fn check_not_below(&self, moved: Ino, dir: &Seen<Inode>, tx: &mut Tx) -> Result<()> {
        let mut above = dir.clone();
        for _ in 0..DEPTH_MAX {
            if above.value.ino == moved {
                let context = format!("directory {moved} cannot move below itself");
                return Err(FsError::new(ErrorKind::Invalid, context));
            }
            tx.check_inode(&above);
            if above.value.ino == Ino::ROOT {
                return Ok(());
            }
            let parent = above.value.parent;
            let found = self.get(&[keys::inode(parent)]).await?;
            above = seen_inode(parent, found[0].as_ref())?.ok_or_else(|| no_inode(parent))?;
        }
        let context = format!("directory {moved}: its parents form a ring; run a check");
        Err(FsError::new(ErrorKind::Corrupt, context))
    }
}

/// Brings the two directories' times, counters and link counts up to date.
fn change_parents(plan: &Plan<'_>, tx: &mut Tx, now: UnixTime) -> Result<()> {
    let moved = i64::from(is_dir(&plan.moved.value));
    let target = plan.target.as_ref().map(|target| i64::from(is_dir(&target.value)));
    let (from, to) = (plan.from.value.ino, plan.to.value.ino);
    // Entries and subdirectories that each of the two directories gains.
    let (from_gains, to_gains) = match target {
        Some(target) if plan.exchange => ((0, target - moved), (0, moved - target)),
        Some(target) => ((-1, -moved), (0, moved - target)),
        None => ((-1, -moved), (1, moved)),
    };
    let [from_time, to_time] = [(from, &plan.times[0]), (to, &plan.times[1])]
        .map(|(dir, times)| time_after(dir, now, times.as_ref()));
    if !plan.crosses() {
        let gains = (from_gains.0 + to_gains.0, from_gains.1 + to_gains.1);
        tx.touch_dir(to, gains.0, to_time?)?;
        return change_links(&plan.to, gains.1, tx);
    }
    tx.touch_dir(from, from_gains.0, from_time?)?;
    tx.touch_dir(to, to_gains.0, to_time?)?;
    tx.check_inode(&plan.from);
    change_links(&plan.from, from_gains.1, tx)?;
    change_links(&plan.to, to_gains.1, tx)
}

fn change_links(dir: &Seen<Inode>, by: i64, tx: &mut Tx) -> Result<()> {
    if by == 0 {
        return Ok(());
    }
    let mut inode = dir.value.clone();
    inode.nlink = adjusted(inode.nlink, by);
    tx.put_inode(&inode)
}

fn no_source(dir: Ino, name: &[u8]) -> FsError {
    at_name(ErrorKind::NotFound, dir, name, "no such name")
}
