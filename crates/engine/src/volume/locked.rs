//! The advisory locks of a volume, for people: who holds which, and who waits.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_meta::kv::Kv;
use weir_meta::locks::LockSpace;
use weir_meta::node_waits::{FileLock, all_locks};
use weir_meta::path_of;
use weir_meta::sessions::sessions;
use weir_object::Component;
use weir_types::{Ino, Result};

use super::members::{NodesOptions, metadata};

/// Files whose paths are looked for; who has more locked finds their inodes.
const PATHS_MAX: usize = 1_000;

/// How a lock is taken. The two kinds do not see each other.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum LockKind {
    /// By `fcntl`: bytes.
    Fcntl,
    /// By `flock`: the whole file.
    Flock,
}

/// A lock of a file that somebody holds or waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockView {
    /// The file.
    pub ino: Ino,
    /// Its path below the mount point, one of them if it has several; `null` if it was removed, or is one of
    /// more than 1,000 that are locked, or of more than 100,000 in a directory.
    pub path: Option<String>,
    /// How it is taken.
    pub kind: LockKind,
    /// Whether it is for writing: nobody else may have these bytes locked.
    pub exclusive: bool,
    /// First byte.
    pub start: u64,
    /// Last byte; `null` for all that follow.
    pub last: Option<u64>,
    /// It is waited for, since a second at least, and not held. Of another node as of its last beat.
    pub waits: bool,
    /// The process, on its node. It may have ended, where others have its files open.
    pub pid: u32,
    /// Tells owners on a node apart, in 16 hexadecimal digits: a process, or an open file for `flock`.
    pub owner: String,
    /// The node's session, as `weir nodes` names it.
    pub node: String,
    /// The node's machine.
    pub machine: String,
}

/// All locks of a volume that nodes share; none of a mount that has it alone: that one is to be asked. Some
/// five reads, and a few for each file that is locked.
pub async fn locks(options: &NodesOptions) -> Result<Vec<LockView>> {
    let kv = metadata(options).await?.follow(Component::Check).await?;
    let seen = async { views(&*kv, all_locks(&*kv).await?).await }.await;
    let _ = kv.close().await;
    seen
}

/// The same for people, without those of sessions that have ended, by path.
pub(crate) async fn views(kv: &dyn Kv, locks: Vec<FileLock>) -> Result<Vec<LockView>> {
    let live = sessions(kv).await?.into_iter();
    let machines: HashMap<_, _> = live.map(|one| (one.id, one.node.name)).collect();
    let mut paths: HashMap<Ino, Option<String>> = HashMap::new();
    let mut views = Vec::with_capacity(locks.len());
    for FileLock { session, ino, space, lock, waits } in locks {
        let Some(machine) = machines.get(&session) else { continue };
        if !paths.contains_key(&ino) && paths.len() < PATHS_MAX {
            let path = path_of(kv, ino).await?;
            paths.insert(ino, path.map(|path| String::from_utf8_lossy(&path).into_owned()));
        }
        views.push(LockView {
            ino,
            path: paths.get(&ino).cloned().flatten(),
            kind: match space {
                LockSpace::Posix => LockKind::Fcntl,
                LockSpace::Flock => LockKind::Flock,
            },
            exclusive: lock.exclusive,
            start: lock.start,
            last: (lock.last != u64::MAX).then_some(lock.last),
            waits,
            pid: lock.pid,
            owner: format!("{:016x}", lock.owner.0),
            node: session.to_string(),
            machine: machine.clone(),
        });
    }
    let order = |view: &LockView| {
        let LockView { ino, path, start, waits, .. } = view;
        (path.is_none(), path.clone(), *ino, *waits, *start)
    };
    views.sort_by_cached_key(order);
    Ok(views)
}

#[cfg(test)]
mod tests {
    use weir_meta::kv::MemoryKv;
    use weir_meta::locks::{Lock, LockOwner};
    use weir_meta::sessions::{NodeRow, SessionId, join};
    use weir_types::UnixTime;

    use super::*;

    fn held(session: u64, ino: u64, start: u64, waits: bool) -> FileLock {
        let lock = Lock { owner: LockOwner(10), start, last: u64::MAX, exclusive: true, pid: 7 };
        let session = SessionId(session);
        FileLock { session, ino: Ino(ino), space: LockSpace::Posix, lock, waits }
    }

    #[tokio::test]
    async fn nothing_is_told_of_who_is_there_no_more() {
        let kv = MemoryKv::new();
        let text = String::new;
        let (host, tier, build) = (text(), text(), text());
        let node = NodeRow { name: "a".to_owned(), host, tier, build, since: UnixTime(7) };
        join(&kv, SessionId(1), &node, &[]).await.expect("joins");
        let all = vec![held(1, 9, 5, true), held(2, 9, 0, false), held(1, 9, 7, false)];
        let told = views(&kv, all).await.expect("reads");
        let starts: Vec<_> = told.iter().map(|one| (one.start, one.waits)).collect();
        assert_eq!(starts, [(7, false), (5, true)], "who holds first");
        let LockView { path, last, owner, node, machine, .. } = told[0].clone();
        assert_eq!((path, last), (None, None));
        assert_eq!((&*node, &*machine, &*owner), ("0000000000000001", "a", "000000000000000a"));
    }
}
