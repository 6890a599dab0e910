//! Locks that outlive the session that had them, until those they are of have claimed them at another one.
//!
//! A session that serves clients over a network puts a row before the first of them can hold anything. As long as
//! that row is there its locks stand, also when the session has ended: whoever wants them otherwise waits, and
//! only who says that it had them before takes them over ([`crate::node_locks::NodeLocks::claimed`]). The node on
//! duty takes the row away when the clients have had their time.

use serde::{Deserialize, Serialize};
use weir_types::Result;

use crate::codec::{decode, encode};
use crate::keys;
use crate::kv::{Commit, Kv};
use crate::sessions::{SessionId, all, id_of};

/// What a session says of the clients that it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReclaimRow {
    /// How long they may take to come to another session, from when this one has ended.
    pub lease_ms: u64,
}

/// What becomes of the locks of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockStanding {
    /// It has not ended.
    Live,
    /// It has, and those they are of may claim them.
    Claimable,
    /// It has: they count as nothing.
    Ended,
}

/// From now on the locks of a session stand after its end. One commit.
pub async fn outlive(kv: &dyn Kv, id: SessionId, row: ReclaimRow) -> Result<()> {
    let puts = vec![(keys::reclaim(id.0), encode(&row)?)];
    kv.commit(Commit { puts, ..Commit::default() }).await.map(drop)
}

/// The locks of these sessions stand as long as they live, and no longer. One commit.
pub async fn outlive_no_more(kv: &dyn Kv, ids: &[SessionId]) -> Result<()> {
    let deletes = ids.iter().map(|id| keys::reclaim(id.0)).collect();
    kv.commit(Commit { deletes, ..Commit::default() }).await.map(drop)
}

/// What becomes of the locks of each of these sessions. One read.
pub async fn standing(kv: &dyn Kv, ids: &[SessionId]) -> Result<Vec<LockStanding>> {
    let present = ids.iter().map(|id| keys::presence(id.0));
    let keys: Vec<_> = present.chain(ids.iter().map(|id| keys::reclaim(id.0))).collect();
    let found = kv.get_many(&keys).await?;
    let (present, claimable) = found.split_at(ids.len());
    let of = |(present, claimable): (&Option<_>, &Option<_>)| match (present, claimable) {
        (Some(_), _) => LockStanding::Live,
        (None, Some(_)) => LockStanding::Claimable,
        (None, None) => LockStanding::Ended,
    };
    Ok(present.iter().zip(claimable).map(of).collect())
}

/// All sessions whose locks stand after their end. One read for each 1,000.
pub async fn outliving(kv: &dyn Kv) -> Result<Vec<(SessionId, ReclaimRow)>> {
    let rows = all(kv, keys::RECLAIM).await?;
    rows.iter().map(|(key, row)| Ok((id_of(key)?, decode(key, &row.value)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::MemoryKv;

    #[tokio::test]
    async fn locks_of_a_session_stand_as_it_said() {
        let kv = MemoryKv::new();
        let ids = [SessionId(1), SessionId(2), SessionId(3)];
        for id in &ids[..2] {
            crate::sessions::join(&kv, *id, &crate::sessions::tests::node("a"), &[])
                .await
                .expect("joins");
        }
        let row = ReclaimRow { lease_ms: 30_000 };
        outlive(&kv, ids[1], row).await.expect("says so");
        use LockStanding::{Claimable, Ended, Live};
        assert_eq!(standing(&kv, &ids).await.expect("reads"), [Live, Live, Ended]);
        for id in &ids[..2] {
            crate::sessions::end(&kv, *id).await.expect("ends");
        }
        assert_eq!(standing(&kv, &ids).await.expect("reads"), [Ended, Claimable, Ended]);
        assert_eq!(outliving(&kv).await.expect("reads"), [(ids[1], row)]);
        outlive_no_more(&kv, &ids).await.expect("says so");
        assert_eq!(standing(&kv, &ids).await.expect("reads"), [Ended; 3]);
        assert!(outliving(&kv).await.expect("reads").is_empty());
    }
}
