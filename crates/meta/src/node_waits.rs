//! Who waits for advisory locks on the nodes that share a volume, and all locks there are, for people to look
//! at: nothing is decided by it.
//!
//! A session has one row of those that wait at it, and puts it anew when it beats, if that has changed. The
//! row goes with the session.

use weir_types::{ErrorKind, FsError, Ino, Result};

use crate::codec::{decode, encode, last_key};
use crate::keys;
use crate::kv::{Commit, Key, Kv, Versioned};
use crate::locks::{Lock, LockSpace};
use crate::node_locks::NodeLock;
use crate::sessions::SessionId;

/// Rows read at once.
const PAGE: usize = 1_000;
/// Those that wait at one session, of whom it tells: a row of some 40 KiB.
pub const WAITS_MAX: usize = 1_000;

/// A lock of a file that somebody holds or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLock {
    /// The node.
    pub session: SessionId,
    /// The file.
    pub ino: Ino,
    /// The kind.
    pub space: LockSpace,
    /// What it is of, and whose.
    pub lock: Lock,
    /// It is wanted, and not held.
    pub waits: bool,
}

/// Says who waits at a session: the first [`WAITS_MAX`] of them. One commit.
pub async fn say_waits(
    kv: &dyn Kv,
    session: SessionId,
    waits: &[(Ino, LockSpace, Lock)],
) -> Result<()> {
    let key = keys::node_waits(session.0);
    let mut commit = Commit::default();
    if waits.is_empty() {
        commit.deletes.push(key);
    } else {
        let row = waits.iter().take(WAITS_MAX);
        let row = row.map(|(ino, space, lock)| (*ino, NodeLock::new(session, (*space, *lock))));
        commit.puts.push((key, encode(&row.collect::<Vec<_>>())?));
    }
    kv.commit(commit).await.map(drop)
}

/// All locks that sessions hold or wait for, of those that have ended, too. Two read rounds, one more for
/// each 1,000 files.
pub async fn all_locks(kv: &dyn Kv) -> Result<Vec<FileLock>> {
    let mut found = Vec::new();
    for (key, row) in rows(kv, keys::NODE_LOCKS).await? {
        let ino = keys::parse_ino(&key).ok_or_else(|| {
            let context = format!("metadata key {} is too short; run a check", key.escape_ascii());
            FsError::new(ErrorKind::Corrupt, context)
        })?;
        let locks: Vec<NodeLock> = decode(&key, &row.value)?;
        found.extend(locks.iter().map(|lock| told(ino, lock, false)));
    }
    for (key, row) in rows(kv, keys::NODE_WAITS).await? {
        let waits: Vec<(Ino, NodeLock)> = decode(&key, &row.value)?;
        found.extend(waits.iter().map(|(ino, lock)| told(*ino, lock, true)));
    }
    Ok(found)
}

fn told(ino: Ino, lock: &NodeLock, waits: bool) -> FileLock {
    let (session, space, lock) = lock.parts();
    FileLock { session, ino, space, lock, waits }
}

async fn rows(kv: &dyn Kv, tag: u8) -> Result<Vec<(Key, Versioned)>> {
    let mut rows: Vec<(Key, Versioned)> = Vec::new();
    loop {
        let after = last_key(&rows);
        let page = kv.scan(&[tag], after.as_deref(), PAGE).await?;
        let last = page.len() < PAGE;
        rows.extend(page);
        if last {
            return Ok(rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_types::UnixTime;

    use super::*;
    use crate::kv::MemoryKv;
    use crate::locks::LockOwner;
    use crate::sessions::{NodeRow, end, join};

    async fn joined(kv: &MemoryKv, id: u64) -> SessionId {
        let text = String::new;
        let (name, host, tier, build) = (text(), text(), text(), text());
        let node = NodeRow { name, host, tier, build, since: UnixTime(7) };
        join(kv, SessionId(id), &node, &[]).await.expect("joins");
        SessionId(id)
    }

    fn lock(owner: u64) -> Lock {
        Lock { owner: LockOwner(owner), start: 5, last: u64::MAX, exclusive: true, pid: 77 }
    }

    #[tokio::test]
    async fn who_waits_is_told_as_it_was_said_last_and_goes_with_the_session() {
        let kv = MemoryKv::new();
        let (a, b) = (joined(&kv, 1).await, joined(&kv, 2).await);
        assert_eq!(all_locks(&kv).await.expect("reads"), []);
        let waits = [(Ino(9), LockSpace::Posix, lock(3)), (Ino(8), LockSpace::Flock, lock(4))];
        say_waits(&kv, a, &waits).await.expect("says");
        say_waits(&kv, b, &waits[..1]).await.expect("says");
        let wanted =
            |session, (ino, space, lock)| FileLock { session, ino, space, lock, waits: true };
        let all = [wanted(a, waits[0]), wanted(a, waits[1]), wanted(b, waits[0])];
        assert_eq!(all_locks(&kv).await.expect("reads"), all);
        say_waits(&kv, a, &[]).await.expect("says");
        assert_eq!(all_locks(&kv).await.expect("reads"), [wanted(b, waits[0])]);
        end(&kv, b).await.expect("ends");
        assert_eq!(all_locks(&kv).await.expect("reads"), []);
    }

    #[tokio::test]
    async fn a_crowd_is_told_of_in_part() {
        let kv = MemoryKv::new();
        let a = joined(&kv, 1).await;
        let crowd: Vec<_> = (0..WAITS_MAX as u64 + 5)
            .map(|owner| (Ino(9), LockSpace::Flock, lock(owner)))
            .collect();
        say_waits(&kv, a, &crowd).await.expect("says");
        assert_eq!(all_locks(&kv).await.expect("reads").len(), WAITS_MAX);
    }
}
