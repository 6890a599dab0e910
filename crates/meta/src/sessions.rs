//! Sessions: the mounts that change a volume together, where the engine below lets several do that.
//!
//! Each has two rows, and a third where others can ask it for bytes ([`PeerRow`]). The one of its *presence* is put when it joins and never changes: each of its
//! commits needs that row to be as it was put, so whoever removes it has shut the session out, whatever
//! that believes. The one of its *beat* is put anew every few seconds; who sees it unchanged for long
//! enough, by a clock of its own, takes the session for dead and removes both. No two clocks are ever
//! compared.
//!
//! A mount that wants to be the only one ([`take_alone`]) and one that joins meet at one row, so that
//! neither misses the other.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use weir_types::{ErrorKind, FsError, Result, UnixTime};

pub use crate::session::SessionId;

use crate::codec::{decode, decode_seen, encode, last_key, version};
use crate::guard::Guard;
use crate::keys;
use crate::kv::{Check, Commit, Key, Kv, Outcome, Version};
use crate::op::Tries;

/// Rows read at once.
const PAGE: usize = 1_000;

/// Which mount a session is, for people and for whoever comes back with its tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRow {
    /// The machine.
    pub name: String,
    /// Process and machine.
    pub host: String,
    /// Its tier directory, as it was named to it.
    pub tier: String,
    /// The build that it runs.
    pub build: String,
    /// When it joined, by its own clock.
    pub since: UnixTime,
}

/// What a session says with each beat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// How often it came back.
    pub tick: u64,
    /// It names no segment of its own any more whose stamp is below this one.
    pub settled: u64,
}

/// How other sessions reach one, and what became of that so far. A row of its own: builds that do not
/// know it pass it over, and what they leave of it when they end a session is never read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerRow {
    /// Host and port.
    pub address: String,
    /// The SHA-256 of the key that it proves.
    pub fingerprint: [u8; 32],
    /// Bytes that it gave to others.
    pub given_bytes: u64,
    /// Bytes that others gave to it.
    pub taken_bytes: u64,
    /// How often it asked the bucket, too, because another was slow.
    pub hedges: u64,
    /// How often another did not give what it was asked for.
    pub failures: u64,
}

/// A session that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its name.
    pub id: SessionId,
    /// Which mount it is.
    pub node: NodeRow,
    /// What it said with its last beat.
    pub said: Beat,
    /// Changes with each beat.
    pub beat: Version,
}

/// All sessions that have not ended, by id: those of one moment, with beats of a little before. Two read
/// rounds, one more for each 1,000.
pub async fn sessions(kv: &dyn Kv) -> Result<Vec<Session>> {
    let mut tries = Tries::new("look at the volume's nodes");
    loop {
        tries.next().await?;
        let beats: HashMap<_, _> = all(kv, keys::BEAT).await?.into_iter().collect();
        let mut found = Vec::new();
        let present = all(kv, keys::PRESENCE).await?;
        for (key, present) in &present {
            let (id, node) = (id_of(key)?, decode(key, &present.value)?);
            let key = keys::beat(id.0);
            if let Some(beat) = beats.get(&key) {
                let said = decode(&key, &beat.value)?;
                found.push(Session { id, node, said, beat: beat.version });
            }
        }
        // Who is without a beat joined in between, maybe in the place of one that is not seen either.
        if found.len() == present.len() {
            return Ok(found);
        }
    }
}

/// Joins those who change the volume, in the place of sessions that are known to be dead, and of a mount
/// that was alone with it: that one is shut out. Answers the guard of the session's commits. One read and
/// one commit.
pub async fn join(kv: &dyn Kv, id: SessionId, node: &NodeRow, dead: &[SessionId]) -> Result<Guard> {
    let mut tries = Tries::new("join the volume's nodes");
    loop {
        tries.next().await?;
        let (mut commit, _) = turn(kv).await?;
        commit.checks.push(Check::Absent(keys::presence(id.0)));
        commit.puts.push((keys::presence(id.0), encode(node)?));
        commit.puts.push((keys::beat(id.0), encode(&Beat::default())?));
        commit.deletes.push(keys::GUARD.to_vec());
        commit.deletes.extend(dead.iter().flat_map(|dead| rows(*dead)));
        if let Outcome::Applied(version) = kv.commit(commit).await? {
            return Ok(Guard { key: keys::presence(id.0), version });
        }
    }
}

/// Makes `mount` the only one that may change the volume: all sessions end, which must be those of
/// `over`; `Conflict` if there are others. Two read rounds and one commit.
pub async fn take_alone(kv: &dyn Kv, mount: &str, over: &[SessionId]) -> Result<Guard> {
    let mut tries = Tries::new("take the volume");
    loop {
        tries.next().await?;
        let (mut commit, _) = turn(kv).await?;
        let present = all(kv, keys::PRESENCE).await?;
        for (key, _) in present {
            let id = id_of(&key)?;
            if !over.contains(&id) {
                let context = format!("session {id} joined meanwhile: try again");
                return Err(FsError::new(ErrorKind::Conflict, context));
            }
            commit.deletes.extend(rows(id));
        }
        commit.puts.push((keys::GUARD.to_vec(), encode(&mount)?));
        if let Outcome::Applied(version) = kv.commit(commit).await? {
            return Ok(Guard { key: keys::GUARD.to_vec(), version });
        }
    }
}

/// Says that a session lives, and how it is reached, where that changed. One commit.
pub async fn beat(kv: &dyn Kv, id: SessionId, say: Beat, peer: Option<&PeerRow>) -> Result<()> {
    let mut puts = vec![(keys::beat(id.0), encode(&say)?)];
    if let Some(peer) = peer {
        puts.push((keys::peer(id.0), encode(peer)?));
    }
    kv.commit(Commit { puts, ..Commit::default() }).await.map(drop)
}

/// How these sessions are reached; `None` for those that have not said so. One read.
pub async fn peers(kv: &dyn Kv, ids: &[SessionId]) -> Result<Vec<Option<PeerRow>>> {
    let keys: Vec<_> = ids.iter().map(|id| keys::peer(id.0)).collect();
    let found = kv.get_many(&keys).await?;
    let rows = keys.iter().zip(&found);
    rows.map(|(key, row)| row.as_ref().map(|row| decode(key, &row.value)).transpose()).collect()
}

/// Ends a session, if it has not beaten since it was seen so. Answers whether it is ended. One commit.
pub async fn evict(kv: &dyn Kv, seen: &Session) -> Result<bool> {
    let commit = Commit {
        checks: vec![Check::Version(keys::beat(seen.id.0), seen.beat)],
        deletes: rows(seen.id).to_vec(),
        ..Commit::default()
    };
    Ok(matches!(kv.commit(commit).await?, Outcome::Applied(_)))
}

/// Ends a session, whatever it does; what it had acknowledged before is there, or void. One commit.
pub async fn end(kv: &dyn Kv, id: SessionId) -> Result<()> {
    let mut deletes = rows(id).to_vec();
    deletes.push(keys::behind(id.0));
    kv.commit(Commit { deletes, ..Commit::default() }).await.map(drop)
}

/// The session that does what one has to do for all; it may have ended. One read.
pub async fn duty(kv: &dyn Kv) -> Result<Option<SessionId>> {
    let found = kv.get_many(&[keys::DUTY.to_vec()]).await?;
    Ok(decode_seen(keys::DUTY, found[0].as_ref())?.map(|seen| seen.value))
}

/// Whether session `id` is the one that does what one has to do for all: it is, if it was before, or if the
/// one that was has ended. Two reads, and one commit where that changes.
pub async fn on_duty(kv: &dyn Kv, id: SessionId) -> Result<bool> {
    let found = kv.get_many(&[keys::DUTY.to_vec()]).await?;
    let mut commit = Commit::default();
    let holder = match decode_seen::<SessionId>(keys::DUTY, found[0].as_ref())? {
        None => {
            commit.checks.push(Check::Absent(keys::DUTY.to_vec()));
            None
        }
        Some(seen) => {
            commit.checks.push(Check::Version(keys::DUTY.to_vec(), seen.version));
            Some(seen.value)
        }
    };
    if holder == Some(id) {
        return Ok(true);
    }
    if let Some(holder) = holder {
        let row = keys::presence(holder.0);
        if kv.get_many(std::slice::from_ref(&row)).await?[0].is_some() {
            return Ok(false);
        }
        // No session comes back: its name is chance.
        commit.checks.push(Check::Absent(row));
    }
    commit.puts.push((keys::DUTY.to_vec(), encode(&id)?));
    Ok(matches!(kv.commit(commit).await?, Outcome::Applied(_)))
}

/// A commit that comes before or after all others that were begun so.
async fn turn(kv: &dyn Kv) -> Result<(Commit, u64)> {
    let found = kv.get_many(&[keys::JOINS.to_vec()]).await?;
    let count: u64 = decode_seen(keys::JOINS, found[0].as_ref())?.map_or(0, |seen| seen.value);
    let check = match version(found[0].as_ref()) {
        Some(version) => Check::Version(keys::JOINS.to_vec(), version),
        None => Check::Absent(keys::JOINS.to_vec()),
    };
    let puts = vec![(keys::JOINS.to_vec(), encode(&(count + 1))?)];
    Ok((Commit { checks: vec![check], puts, ..Commit::default() }, count + 1))
}

pub(crate) async fn all(kv: &dyn Kv, tag: u8) -> Result<Vec<(Key, crate::kv::Versioned)>> {
    let mut rows = Vec::new();
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

/// All that goes with a session.
fn rows(id: SessionId) -> [Key; 4] {
    [keys::presence, keys::beat, keys::peer, keys::node_waits].map(|key| key(id.0))
}

pub(crate) fn id_of(key: &[u8]) -> Result<SessionId> {
    let id = keys::parse_session(key).ok_or_else(|| {
        let context = format!("metadata key {} is too short; run a check", key.escape_ascii());
        FsError::new(ErrorKind::Corrupt, context)
    })?;
    Ok(SessionId(id))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::kv::MemoryKv;

    pub(crate) fn node(name: &str) -> NodeRow {
        let text = |text: &str| text.to_owned();
        let (host, tier, build) = (text("process 1 on a"), text("/tier"), text("1"));
        NodeRow { name: text(name), host, tier, build, since: UnixTime(7) }
    }

    async fn ids(kv: &MemoryKv) -> Vec<u64> {
        sessions(kv).await.expect("reads").iter().map(|session| session.id.0).collect()
    }

    #[tokio::test]
    async fn who_joins_is_there_until_it_ends() {
        let kv = MemoryKv::new();
        let one = join(&kv, SessionId(1), &node("a"), &[]).await.expect("joins");
        let two = join(&kv, SessionId(2), &node("b"), &[]).await.expect("joins");
        assert_eq!(ids(&kv).await, [1, 2]);
        beat(&kv, SessionId(2), Beat { tick: 5, settled: 9 }, None).await.expect("beats");
        let seen = sessions(&kv).await.expect("reads");
        assert_eq!((seen[1].said.tick, seen[1].said.settled), (5, 9));
        assert_eq!(seen[1].node.name, "b");
        beat(&kv, SessionId(2), Beat { tick: 6, settled: 9 }, None).await.expect("beats");
        assert!(!evict(&kv, &seen[1]).await.expect("reads"), "it lives");
        assert!(evict(&kv, &seen[0]).await.expect("evicts"), "it did not beat since");
        assert!(!one.holds(&kv).await.expect("reads") && two.holds(&kv).await.expect("reads"));
        end(&kv, SessionId(2)).await.expect("ends");
        assert_eq!(ids(&kv).await, [0_u64; 0]);
    }

    #[tokio::test]
    async fn one_that_is_dead_goes_as_its_successor_comes() {
        let kv = MemoryKv::new();
        let before = join(&kv, SessionId(1), &node("a"), &[]).await.expect("joins");
        let after = join(&kv, SessionId(2), &node("a"), &[SessionId(1)]).await.expect("joins");
        assert_eq!(ids(&kv).await, [2]);
        assert!(!before.holds(&kv).await.expect("reads") && after.holds(&kv).await.expect("reads"));
    }

    #[tokio::test]
    async fn how_a_session_is_reached_goes_with_it() {
        let kv = MemoryKv::new();
        let ids = [SessionId(1), SessionId(2)];
        for id in ids {
            join(&kv, id, &node("a"), &[]).await.expect("joins");
        }
        let row = PeerRow {
            address: "10.0.0.1:7".to_owned(),
            fingerprint: [7; 32],
            given_bytes: 1,
            taken_bytes: 2,
            hedges: 3,
            failures: 4,
        };
        beat(&kv, ids[0], Beat::default(), Some(&row)).await.expect("beats");
        beat(&kv, ids[0], Beat::default(), None).await.expect("beats");
        assert_eq!(peers(&kv, &ids).await.expect("reads"), [Some(row.clone()), None]);
        let seen = sessions(&kv).await.expect("reads");
        assert!(evict(&kv, &seen[0]).await.expect("evicts"));
        assert_eq!(peers(&kv, &ids).await.expect("reads"), [None, None]);
        beat(&kv, ids[1], Beat::default(), Some(&row)).await.expect("beats");
        join(&kv, SessionId(3), &node("a"), &[ids[1]]).await.expect("joins");
        assert_eq!(peers(&kv, &ids).await.expect("reads"), [None, None]);
    }

    #[tokio::test]
    async fn one_is_on_duty_until_it_ends() {
        let kv = MemoryKv::new();
        for id in [1, 2] {
            join(&kv, SessionId(id), &node("a"), &[]).await.expect("joins");
        }
        for (id, wanted) in [(2, true), (1, false), (2, true)] {
            assert_eq!(on_duty(&kv, SessionId(id)).await.expect("reads"), wanted, "{id}");
        }
        end(&kv, SessionId(2)).await.expect("ends");
        assert!(on_duty(&kv, SessionId(1)).await.expect("takes it"));
    }

    #[tokio::test]
    async fn one_that_is_alone_and_those_that_are_not_shut_each_other_out() {
        let kv = MemoryKv::new();
        let alone = take_alone(&kv, "one", &[]).await.expect("takes");
        let shared = join(&kv, SessionId(1), &node("a"), &[]).await.expect("joins");
        assert!(!alone.holds(&kv).await.expect("reads"));
        let error = take_alone(&kv, "two", &[]).await.expect_err("somebody is there");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(shared.holds(&kv).await.expect("reads"));
        let alone = take_alone(&kv, "two", &[SessionId(1)]).await.expect("takes");
        assert!(alone.holds(&kv).await.expect("reads"));
        assert!(!shared.holds(&kv).await.expect("reads"));
        let again = take_alone(&kv, "two", &[]).await.expect("takes");
        assert!(!alone.holds(&kv).await.expect("reads"), "also by the same name");
        assert!(again.holds(&kv).await.expect("reads"));
    }
}
