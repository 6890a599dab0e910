//! What an earlier mount had acknowledged, and the database has not.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use weir_types::{Ino, Result};

use super::batch::{Batch, is_provisional, key_of, provisional};
use super::noted::Noted;
use crate::codec::{decode_seen, encode};
use crate::keys;
use crate::kv::{Check, Commit, Key, Kv, Outcome, Version, Versioned};
use crate::op::live_dir;
use crate::session::SessionId;

/// What became of a replay.
#[derive(Debug, Default)]
pub struct Replayed {
    /// Commits that were applied now.
    pub applied: u64,
    /// Inodes that were to be made, and cannot be any more: others changed what that rests on. By the names that they were to have.
    pub lost: Vec<(Ino, String)>,
    /// Commits that changed what there was, and cannot be applied any more.
    pub lost_changes: u64,
    /// Commits of sessions that have ended: all of them were there then.
    pub past: u64,
    /// The sessions that they were of.
    pub sessions: Vec<SessionId>,
}

impl Replayed {
    fn is_whole(&self) -> bool {
        self.lost.is_empty() && self.lost_changes == 0
    }

    /// Once the log is emptied: nothing is to be known of these sessions any more. One commit.
    pub async fn forget(&self, kv: &dyn Kv) -> Result<()> {
        let deletes = self.sessions.iter().map(|session| keys::behind(session.0)).collect();
        kv.commit(Commit { deletes, ..Commit::default() }).await.map(drop)
    }
}

/// Values that entries put, under the versions that these had until they were in the database.
type Made = HashMap<Key, (Version, Bytes)>;

/// Applies what a log says that the database has not. Two reads and a commit for some hundreds; where one of them cannot
/// be applied, a read and a commit for each. None is applied twice, whoever has another copy of the log. The log is to be
/// emptied then, and after that [forgotten](Replayed::forget).
pub async fn replay(kv: &dyn Kv, entries: &[Vec<u8>]) -> Result<Replayed> {
    let noted = entries.iter().map(|entry| Noted::decode(entry)).collect::<Result<Vec<_>>>()?;
    let sessions: BTreeSet<SessionId> = noted.iter().map(|noted| noted.session).collect();
    let mut replayed = Replayed::default();
    for session in sessions {
        let own: Vec<_> = noted.iter().filter(|noted| noted.session == session).collect();
        match Replay::begin(kv, session, &own).await? {
            Some(replay) => replay.run(&own, &mut replayed).await?,
            None => replayed.past += own.len() as u64,
        }
        replayed.sessions.push(session);
    }
    Ok(replayed)
}

struct Replay<'a> {
    kv: &'a dyn Kv,
    row: Key,
    /// The version of that row.
    at: Version,
    /// The number of the last one that was there.
    done: u64,
    made: Made,
}

impl<'a> Replay<'a> {
    /// `None`: the session has ended.
    async fn begin(kv: &'a dyn Kv, session: SessionId, own: &[&Noted]) -> Result<Option<Self>> {
        let row = keys::behind(session.0);
        let found = kv.get_many(std::slice::from_ref(&row)).await?;
        let Some(seen) = decode_seen::<u64>(&row, found[0].as_ref())? else { return Ok(None) };
        let (at, done) = (seen.version, seen.value);
        let mut replay = Self { kv, row, at, done, made: Made::new() };
        own.iter().filter(|noted| noted.number <= done).for_each(|noted| replay.note(noted));
        Ok(Some(replay))
    }

    fn note(&mut self, noted: &Noted) {
        for (key, value) in &noted.commit.puts {
            self.made.insert(key.clone(), (provisional(noted.number), value.clone()));
        }
    }

    async fn run(mut self, own: &[&Noted], replayed: &mut Replayed) -> Result<()> {
        let done = self.done;
        let left: Vec<&Noted> = own.iter().copied().filter(|n| n.number > done).collect();
        let mut left = left.into_iter().peekable();
        while let Some(first) = left.peek() {
            let mut batch = Batch::of(first.number);
            let (mut some, mut holds) = (Vec::new(), replayed.is_whole());
            while !batch.is_full()
                && let Some(noted) = left.next()
            {
                some.push(noted);
                match self.on_settled(&noted.commit).await? {
                    Some(commit) => batch.join(noted.number, &commit),
                    None => holds = false,
                }
            }
            if holds && self.make(batch.commit(), batch.last).await?
                || self.is_there(batch.last).await?
            {
                replayed.applied += some.len() as u64;
                some.iter().for_each(|noted| self.note(noted));
                continue;
            }
            for noted in &some {
                self.one(noted, replayed).await?;
            }
            // Those that are lost are not tried again.
            if !self.is_there(batch.last).await? {
                self.make(Commit::default(), batch.last).await?;
            }
        }
        Ok(())
    }

    /// Whether that is there: what the mount before had sent may have come meanwhile.
    async fn is_there(&mut self, number: u64) -> Result<bool> {
        let found = self.now(&self.row).await?;
        let seen = decode_seen::<u64>(&self.row, found.as_ref())?;
        self.at = seen.as_ref().map_or(self.at, |seen| seen.version);
        Ok(seen.is_some_and(|seen| seen.value >= number))
    }

    /// Makes a commit, behind which all up to this number are there, unless somebody else did.
    async fn make(&mut self, mut commit: Commit, number: u64) -> Result<bool> {
        commit.checks.push(Check::Version(self.row.clone(), self.at));
        commit.puts.push((self.row.clone(), encode(&number)?));
        let outcome = self.kv.commit(commit).await?;
        if let Outcome::Applied(version) = outcome {
            self.at = version;
        }
        Ok(outcome != Outcome::Conflict)
    }

    /// The commit, with checks of what it rests on that is in the database under another version; `None` where that is
    /// not what it was.
    async fn on_settled(&self, commit: &Commit) -> Result<Option<Commit>> {
        let mut commit = commit.clone();
        for check in &mut commit.checks {
            let Check::Version(key, version) = check else { continue };
            if !is_provisional(*version) || *version > provisional(self.done) {
                continue;
            }
            let found = self.now(key).await?;
            let made = self.made.get(key).filter(|(made, _)| made == version);
            match found.zip(made).filter(|(found, (_, value))| found.value == *value) {
                Some((found, _)) => *version = found.version,
                None => return Ok(None),
            }
        }
        Ok(Some(commit))
    }

    async fn now(&self, key: &Key) -> Result<Option<Versioned>> {
        Ok(self.kv.get_many(std::slice::from_ref(key)).await?.pop().flatten())
    }

    /// One by itself: on what there is now, if that comes to the same.
    async fn one(&mut self, noted: &Noted, replayed: &mut Replayed) -> Result<()> {
        let mut commit = noted.commit.clone();
        for check in &mut commit.checks {
            let Check::Version(key, version) = &*check else { continue };
            let found = self.now(key).await?;
            if let Some(now) = self.same(&noted.commit, (key, *version), found)? {
                *check = Check::Version(key.clone(), now);
            }
        }
        let is_void = commit
            .checks
            .iter()
            .any(|check| matches!(check, Check::Version(_, version) if is_provisional(*version)));
        if !is_void && self.make(commit, noted.number).await? || self.is_there(noted.number).await?
        {
            self.note(noted);
            replayed.applied += 1;
            return Ok(());
        }
        let is_new = |key: &&Key| {
            key.first() == Some(&keys::DIRENT)
                && noted.commit.checks.iter().any(|check| key_of(check) == *key)
        };
        let name = noted.commit.puts.iter().map(|(key, _)| key).find(is_new);
        let ino =
            noted.commit.puts.iter().map(|(key, _)| key).filter_map(|key| {
                keys::leased_with(key).filter(|_| key.first() == Some(&keys::INODE))
            });
        match (name, ino.max()) {
            (Some(name), Some(ino)) => {
                let name = keys::parse_dirent(name).map_or(&[][..], |(_, name)| name);
                replayed.lost.push((ino, String::from_utf8_lossy(name).into_owned()));
            }
            _ => replayed.lost_changes += 1,
        }
        Ok(())
    }

    /// The version of now of what a commit rests on, if that is what it was, or a directory that is there and that the
    /// commit does not change.
    fn same(
        &self,
        commit: &Commit,
        (key, version): (&Key, Version),
        found: Option<Versioned>,
    ) -> Result<Option<Version>> {
        let Some(found) = found else { return Ok(None) };
        let made = self.made.get(key);
        let is_ours = made.is_some_and(|(made, value)| *made == version && *value == found.value);
        let changed = || commit.puts.iter().any(|(put, _)| put == key);
        let is_dir = || match keys::leased_with(key) {
            Some(dir) if key.first() == Some(&keys::INODE) => live_dir(dir, Some(&found)).is_ok(),
            _ => false,
        };
        let now = found.version;
        Ok((now == version || is_ours || (!changed() && is_dir())).then_some(now))
    }
}
