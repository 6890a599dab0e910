//! Asking leases back, and giving them back.
//!
//! Who wants to change something puts a row for each session that has a lease on it; the session deletes the
//! row once it has forgotten. It does so only if the row is the one that it saw: who asks anew asks for
//! what was taken meanwhile, too.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use weir_types::{ErrorKind, FsError, Ino, Result};

use super::{Leases, Patience};
use crate::codec::{encode, lend, lent_to, writer_of};
use crate::keys;
use crate::kv::{Check, Commit, Key, Kv, Outcome, Versioned};
use crate::session::SessionId;

/// Time between two looks whether somebody asks who cannot tell: soon after somebody did, and else.
const LOOK: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(250)];
/// The same for a session that never had any: others ask it for all of its files, which are none.
const LOOK_IDLY: Duration = Duration::from_secs(3);
/// How long after somebody asked it is looked often.
const OFTEN: Duration = Duration::from_secs(5);
/// Time between two looks whether leases were given back, first and at most.
const AWAIT: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(128)];
/// How long a session that lives may take. It looks four times a second.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks while the database does not answer.
const AWAY: Duration = Duration::from_secs(1);
/// Leases given back in one commit.
const AT_ONCE: usize = 512;

/// A lease of somebody else that is asked back.
struct Asked {
    session: SessionId,
    row: Key,
    presence: Key,
}

impl Leases {
    /// Returns when none of these sessions has its lease any more: it gave it back, or is gone.
    pub(super) async fn ask_back(
        &self,
        kv: &dyn Kv,
        from: &[(SessionId, Ino)],
        patience: Patience,
    ) -> Result<()> {
        let of = |&(session, ino): &(SessionId, Ino)| Asked {
            session,
            row: keys::recall(session.0, ino),
            presence: keys::presence(session.0),
        };
        let mut left = present(kv, from.iter().map(of).collect()).await?.0;
        if left.is_empty() {
            return Ok(());
        }
        self.counts.asked_back.fetch_add(left.len() as u64, Ordering::Relaxed);
        let us = encode(&self.session)?;
        let puts = left.iter().map(|asked| (asked.row.clone(), us.clone())).collect();
        kv.commit(Commit { puts, ..Commit::default() }).await?;
        let reach = self.reach.lock().clone();
        if let Some(reach) = reach {
            let sessions: BTreeSet<_> = left.iter().map(|asked| asked.session).collect();
            reach(&sessions.into_iter().collect::<Vec<_>>());
        }
        let began = Instant::now();
        let mut pause = AWAIT[0];
        loop {
            sleep(pause).await;
            pause = (pause * 2).min(AWAIT[1]);
            let rows: Vec<_> = left.iter().map(|asked| asked.row.clone()).collect();
            let mut there = kv.get_many(&rows).await?.into_iter();
            left.retain(|_| there.next().flatten().is_some());
            let (waiting, gone) = present(kv, left).await?;
            if !gone.is_empty() {
                // Nobody will delete these.
                let deletes = gone.into_iter().map(|asked| asked.row).collect();
                kv.commit(Commit { deletes, ..Commit::default() }).await?;
            }
            left = waiting;
            if left.is_empty() {
                return Ok(());
            }
            if began.elapsed() > PATIENCE && patience == Patience::AMinute {
                let context = "another node lives and does not give back what it remembers; see \
                               `weir nodes`, and evict it if it does not answer";
                return Err(FsError::new(ErrorKind::Retry, context));
            }
        }
    }

    /// Gives back what others ask for. One read for each look.
    pub async fn give_back_loop(&self, kv: &dyn Kv) {
        let mut asked_last: Option<Instant> = None;
        loop {
            let often = asked_last.is_some_and(|last| last.elapsed() < OFTEN);
            let look = match self.had_any.load(Ordering::Acquire) {
                true => LOOK[usize::from(!often)],
                false => LOOK_IDLY,
            };
            // Whoever cannot tell us waits until we look by ourselves.
            let _ = timeout(look, self.look.notified()).await;
            match self.give_back(kv).await {
                Ok(0) => {}
                Ok(_) => asked_last = Some(Instant::now()),
                // Beats fail, too, and say so.
                Err(_) => sleep(AWAY).await,
            }
        }
    }

    /// Gives back what is asked for now, but for files of which the volume must get more first; answers
    /// how many are asked for.
    pub(super) async fn give_back(&self, kv: &dyn Kv) -> Result<usize> {
        let mut rows = kv.scan(&keys::recalls_of(self.session.0), None, AT_ONCE).await?;
        let asked = rows.len();
        let (inos, along) = {
            // In one turn: a write lease that is begun between the two would be one of which who asks was told that there is
            // none.
            let _turn = self.deferring.lock();
            let (mut state, mut writes) = (self.state.lock(), self.writes.lock());
            let now_ms = self.now_ms();
            let mut first = |key: &Key, row: &Versioned| {
                keys::parse_recall(key)
                    .is_some_and(|ino| writes.asked_for(ino, row.version, now_ms))
            };
            rows.retain(|(key, row)| !first(key, row));
            let inos: Vec<Ino> =
                rows.iter().filter_map(|(key, _)| keys::parse_recall(key)).collect();
            state.asked_back(&inos, now_ms);
            let along = match inos.is_empty() {
                true => Vec::new(),
                false => state.along(&inos, now_ms, |ino| writes.of(ino).is_none()),
            };
            (inos, along)
        };
        if rows.len() < asked {
            self.bring.notify_one();
            self.end_dirs.notify_one();
        }
        if inos.is_empty() {
            return Ok(asked);
        }
        self.drain().await?;
        let mut commit = Commit::default();
        for (key, found) in rows {
            commit.checks.push(Check::Version(key.clone(), found.version));
            commit.deletes.push(key);
        }
        if !along.is_empty() && self.gives_along(kv, commit.clone(), &along).await? {
            self.counts.given_back.fetch_add((inos.len() + along.len()) as u64, Ordering::Relaxed);
            return Ok(asked);
        }
        // If somebody asked anew meanwhile, all of them are looked at again.
        if let Outcome::Applied(_) = kv.commit(commit).await? {
            self.counts.given_back.fetch_add(inos.len() as u64, Ordering::Relaxed);
        }
        Ok(asked)
    }

    /// Makes a commit that gives leases back, and has it say, too, that this session has none on these; `false`: something
    /// changed meanwhile. They are asked for one by one then. One read, beside the commit.
    async fn gives_along(&self, kv: &dyn Kv, mut commit: Commit, along: &[Ino]) -> Result<bool> {
        let keys: Vec<_> = along.iter().map(|ino| keys::inode(*ino)).collect();
        let rows = kv.get_many(&keys).await?;
        // Behind the read: one that is taken anew from now on has another version.
        {
            let _turn = self.deferring.lock();
            self.state.lock().forget(along);
        }
        for (key, found) in keys.iter().zip(rows) {
            let Some(found) = found else { continue };
            let mut holders = lent_to(&found.value);
            // What somebody writes he has alone.
            if writer_of(&found.value).is_some() || !holders.contains(&self.session) {
                continue;
            }
            holders.retain(|one| *one != self.session);
            commit.checks.push(Check::Version(key.clone(), found.version));
            commit.puts.push((key.clone(), lend(&found.value, &holders)));
        }
        Ok(matches!(kv.commit(commit).await?, Outcome::Applied(_)))
    }
}

/// Those whose session is there, and the others. One read.
async fn present(kv: &dyn Kv, asked: Vec<Asked>) -> Result<(Vec<Asked>, Vec<Asked>)> {
    if asked.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let sessions: BTreeSet<&Key> = asked.iter().map(|asked| &asked.presence).collect();
    let keys: Vec<Key> = sessions.into_iter().cloned().collect();
    let found = kv.get_many(&keys).await?;
    let there: BTreeSet<Key> =
        keys.into_iter().zip(found).filter_map(|(key, found)| found.map(|_| key)).collect();
    Ok(asked.into_iter().partition(|asked| there.contains(&asked.presence)))
}
