//! Advisory locks of all nodes that share a volume: one row for each inode that has any.
//!
//! A node has its own locks in memory ([`crate::locks`]) and settles there what its programs want of one
//! another. Here it says to the others what it holds, all of one inode at once, so that saying it again
//! does no harm. What a session holds that is no more counts as nothing, unless it said that its locks outlive it
//! ([`crate::reclaims`]): no session comes back.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use weir_types::{ErrorKind, FsError, Ino, Result};

use crate::codec::{decode_seen, encode, version};
use crate::keys;
use crate::kv::{Kv, Version};
use crate::locks::{Lock, LockOwner, LockSpace};
use crate::op::{Tries, Tx, no_inode, seen_inode};
use crate::reclaims::{LockStanding, standing};
use crate::sessions::SessionId;

/// A lock of some node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct NodeLock {
    session: SessionId,
    whole_file: bool,
    owner: u64,
    start: u64,
    last: u64,
    exclusive: bool,
    pid: u32,
}

impl NodeLock {
    pub(crate) fn new(session: SessionId, (space, lock): (LockSpace, Lock)) -> Self {
        let Lock { owner, start, last, exclusive, pid } = lock;
        let whole_file = space == LockSpace::Flock;
        Self { session, whole_file, owner: owner.0, start, last, exclusive, pid }
    }

    /// Whose it is, and what.
    pub(crate) fn parts(&self) -> (SessionId, LockSpace, Lock) {
        let space = if self.whole_file { LockSpace::Flock } else { LockSpace::Posix };
        (self.session, space, Lock { pid: self.pid, ..self.elsewhere() })
    }

    fn stands_in_the_way(&self, (space, lock): (LockSpace, Lock)) -> bool {
        let lock = lock.within(space);
        self.whole_file == (space == LockSpace::Flock)
            && (self.exclusive || lock.exclusive)
            && self.start <= lock.last
            && lock.start <= self.last
    }

    /// To who is told of it elsewhere: its process means nothing there.
    fn elsewhere(&self) -> Lock {
        let Self { owner, start, last, exclusive, .. } = *self;
        Lock { owner: LockOwner(owner), start, last, exclusive, pid: 0 }
    }
}

/// What a node says of its locks of an inode.
#[derive(Clone, Copy, Debug)]
pub struct NodeLocks<'a> {
    /// The node.
    pub session: SessionId,
    /// The inode.
    pub ino: Ino,
    /// All that it holds from now on.
    pub own: &'a [(LockSpace, Lock)],
    /// The one of them that it does not hold yet: nobody else's may be in its way. All others must be as
    /// they were said before, or less than that.
    pub wanted: Option<(LockSpace, Lock)>,
    /// Its owner had the wanted one at this session, which has ended, and takes it over: `Conflict` if that session
    /// did not have it, or none of its locks stands any more.
    pub claimed: Option<SessionId>,
    /// The row is put anew even if it says that already: a commit whose outcome was not told can be applied
    /// no more then.
    pub anew: bool,
}

/// The locks of an inode.
struct Seen {
    version: Option<Version>,
    locks: Vec<NodeLock>,
    inode: Option<Version>,
}

impl Seen {
    async fn read(kv: &dyn Kv, ino: Ino) -> Result<Self> {
        let keys = [keys::node_locks(ino), keys::inode(ino)];
        let found = kv.get_many(&keys).await?;
        let row = decode_seen::<Vec<NodeLock>>(&keys[0], found[0].as_ref())?;
        Ok(Self {
            version: version(found[0].as_ref()),
            locks: row.map(|row| row.value).unwrap_or_default(),
            inode: seen_inode(ino, found[1].as_ref())?.map(|inode| inode.version),
        })
    }

    /// Those of other sessions that stand.
    async fn of_others(&self, kv: &dyn Kv, own: SessionId) -> Result<Vec<NodeLock>> {
        let others = self.locks.iter().filter(|lock| lock.session != own);
        let sessions: BTreeSet<_> = others.clone().map(|lock| lock.session).collect();
        if sessions.is_empty() {
            return Ok(Vec::new());
        }
        let sessions: Vec<_> = sessions.into_iter().collect();
        let standing = sessions.iter().zip(standing(kv, &sessions).await?);
        let ended = standing.filter(|(_, standing)| *standing == LockStanding::Ended);
        let ended: BTreeSet<_> = ended.map(|(session, _)| *session).collect();
        Ok(others.filter(|lock| !ended.contains(&lock.session)).copied().collect())
    }
}

/// Takes a lock out of those of a session that has ended: all of it has to be one owner's there. Answers whether it
/// was.
fn take_over(locks: &mut Vec<NodeLock>, of: SessionId, (space, lock): (LockSpace, Lock)) -> bool {
    let lock = lock.within(space);
    let is_part = |held: &NodeLock| {
        held.session == of
            && held.whole_file == (space == LockSpace::Flock)
            && held.exclusive >= lock.exclusive
            && held.start <= lock.last
            && lock.start <= held.last
    };
    let owners: BTreeSet<_> = locks.iter().filter(|held| is_part(held)).map(|h| h.owner).collect();
    let covers = |owner: &u64| {
        let mut parts: Vec<_> =
            locks.iter().filter(|held| held.owner == *owner && is_part(held)).collect();
        parts.sort_unstable_by_key(|held| held.start);
        // The first byte that none of them has so far; `None` past the end of all files.
        let upto = parts.iter().try_fold(Some(lock.start), |next, held| match next {
            Some(next) if held.start > next => Err(()),
            Some(next) => Ok(held.last.max(next.saturating_sub(1)).checked_add(1)),
            None => Ok(None),
        });
        upto.is_ok_and(|next| next.is_none_or(|next| next > lock.last))
    };
    let Some(owner) = owners.into_iter().find(covers) else { return false };
    let parts: Vec<_> = locks.extract_if(.., |held| held.owner == owner && is_part(held)).collect();
    for held in parts {
        let before = (held.start < lock.start).then(|| (held.start, lock.start - 1));
        let after = (held.last > lock.last).then(|| (lock.last + 1, held.last));
        let left = before.into_iter().chain(after);
        locks.extend(left.map(|(start, last)| NodeLock { start, last, ..held }));
    }
    true
}

/// Says what a node holds, unless another node's lock is in the way of the one that it wants: answers that
/// one, and nothing is changed. One read and one commit; one more read where others hold something.
pub async fn say(kv: &dyn Kv, said: NodeLocks<'_>) -> Result<Option<Lock>> {
    let NodeLocks { session, ino, own, wanted, claimed, anew } = said;
    let key = keys::node_locks(ino);
    let mut tries = Tries::new("lock a file");
    loop {
        tries.next().await?;
        let seen = Seen::read(kv, ino).await?;
        let mut tx = Tx::default();
        let mut locks = seen.of_others(kv, session).await?;
        if let (Some(claimed), Some(wanted)) = (claimed, wanted) {
            tx.check(keys::reclaim(claimed.0), Some(claimable(kv, claimed).await?));
            if !take_over(&mut locks, claimed, wanted) {
                return Err(not_claimable(claimed));
            }
        }
        if let Some(wanted) = wanted
            && let Some(held) = locks.iter().find(|held| held.stands_in_the_way(wanted))
        {
            return Ok(Some(held.elsewhere()));
        }
        let Some(inode) = seen.inode else {
            // Its row went with it.
            return if wanted.is_some() { Err(no_inode(ino)) } else { Ok(None) };
        };
        locks.extend(own.iter().map(|lock| NodeLock::new(session, *lock)));
        locks.sort_unstable();
        if !anew && locks == seen.locks {
            return match wanted {
                None => still_there(kv, session).await.map(|()| None),
                Some(_) => Ok(None),
            };
        }
        tx.check(key.clone(), seen.version);
        if seen.version.is_none() {
            // Or the row could come after the inode is purged.
            tx.check(keys::inode(ino), Some(inode));
        }
        match locks.is_empty() && !anew {
            true => tx.delete(key.clone()),
            false => tx.put(key.clone(), encode(&locks)?),
        }
        if tx.apply_to(kv).await? {
            return Ok(None);
        }
    }
}

/// Nothing is to be said: so others may have taken away what the session had. `Fenced` if they did. One read.
async fn still_there(kv: &dyn Kv, session: SessionId) -> Result<()> {
    match kv.get_many(&[keys::presence(session.0)]).await?.pop().flatten() {
        Some(_) => Ok(()),
        None => Err(FsError::new(
            ErrorKind::Fenced,
            format!("session {session} was shut out: what it had locked others may have had since"),
        )),
    }
}

/// The row by which the locks of a session that has ended stand. One read.
async fn claimable(kv: &dyn Kv, session: SessionId) -> Result<Version> {
    let found = kv.get_many(&[keys::presence(session.0), keys::reclaim(session.0)]).await?;
    match (&found[0], version(found[1].as_ref())) {
        (None, Some(version)) => Ok(version),
        _ => Err(not_claimable(session)),
    }
}

fn not_claimable(session: SessionId) -> FsError {
    FsError::new(ErrorKind::Conflict, format!("session {session} has no such lock to claim"))
}

/// A lock of another node that would be in the way of this one. One read; one more where others hold
/// something.
pub async fn in_the_way(
    kv: &dyn Kv,
    session: SessionId,
    ino: Ino,
    wanted: (LockSpace, Lock),
) -> Result<Option<Lock>> {
    let others = Seen::read(kv, ino).await?.of_others(kv, session).await?;
    let held = others.iter().find(|held| held.stands_in_the_way(wanted));
    Ok(held.map(NodeLock::elsewhere))
}

#[cfg(test)]
mod tests;
