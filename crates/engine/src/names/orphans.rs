//! Orphans of a volume that nodes share: files without a name, which any of them may have open.
//!
//! No clock tells when nobody has one open any more, beats do:
//!
//! - Before each beat a node looks at all orphans and puts a *hold* for each that it has open. Who opens
//!   one puts its hold first. So what an orphan was when a beat was begun, and is open after it, is held.
//! - One node notes orphans that nobody holds, and then how often each session had come back. When each
//!   that lives has come back twice since, the second beat was begun after the orphan was seen: what is
//!   not held now is open nowhere, and never will be.
//! - Holds of sessions that ended count for nothing: no commit of theirs is taken any more, and a read of
//!   theirs that finds no bytes fails.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_meta::Meta;
use weir_meta::sessions::{Session, SessionId};
use weir_types::{ErrorKind, FsError, Ino, Inode, Result};

use crate::data::nodes::Nodes;
use crate::volume::locks::{self, Place};

/// Orphans of one round at most: half a MiB of numbers.
const ROUND_MAX: usize = 1 << 16;
/// How often each session must have come back since they were seen.
const TICKS: u64 = 2;

/// Orphans on their way out of the metadata, for all nodes.
#[derive(Debug, Default, PartialEq, Eq)]
enum Round {
    /// None: the next may be gathered.
    #[default]
    None,
    /// They were seen, and nobody held them.
    Gathered(Vec<Ino>),
    /// The same, and how often each session had come back after that.
    Waits(Vec<Ino>, HashMap<SessionId, u64>),
    /// Nobody has them open but who holds them. Sessions that lived then.
    Over(Vec<Ino>, BTreeSet<SessionId>),
    /// They are being purged.
    Purged,
}

impl Round {
    /// What it is after a look at the sessions.
    fn after(self, live: &[Session]) -> Self {
        match self {
            Round::Gathered(inos) if inos.is_empty() => Round::None,
            Round::Gathered(inos) => {
                Round::Waits(inos, live.iter().map(|one| (one.id, one.said.tick)).collect())
            }
            // Who joined since began to count then.
            Round::Waits(inos, ticks)
                if live.iter().all(|one| {
                    one.said.tick >= ticks.get(&one.id).copied().unwrap_or(0) + TICKS
                }) =>
            {
                Round::Over(inos, live.iter().map(|one| one.id).collect())
            }
            round => round,
        }
    }
}

/// What this node has open of them, and which it purges for all.
pub(crate) struct Orphans {
    meta: Arc<Meta>,
    nodes: Arc<Nodes>,
    /// The session of a mount that shares the volume.
    session: Option<SessionId>,
    /// Those that this session holds.
    held: locks::Mutex<HashSet<Ino>>,
    round: Mutex<Round>,
    over: Notify,
}

impl Orphans {
    pub(crate) fn new(meta: Arc<Meta>, nodes: Arc<Nodes>, session: Option<SessionId>) -> Self {
        let held = locks::Mutex::new(Place::Holds, 0, HashSet::new());
        Self { meta, nodes, session, held, round: Mutex::default(), over: Notify::new() }
    }

    /// An inode is being opened, and counts as open already. Without a name it is held from now on, or is
    /// not there any more: whoever looked its name up just before that went finds it. One read and one
    /// commit then.
    pub(crate) async fn opened(&self, inode: &Inode) -> Result<()> {
        let Some(session) = self.session.filter(|_| inode.nlink == 0) else {
            return Ok(());
        };
        // Its last close takes it out of the tier.
        self.nodes.unlinked(inode.ino);
        let mut held = self.held.lock().await;
        if held.contains(&inode.ino) {
            return Ok(());
        }
        if self.meta.hold(session, &[inode.ino]).await?.is_empty() {
            let text = format!("inode {} was removed", inode.ino);
            return Err(FsError::new(ErrorKind::NotFound, text));
        }
        held.insert(inode.ino);
        Ok(())
    }

    /// Holds what is open of these orphans; answers those that are not.
    pub(crate) async fn hold_open(&self, orphans: &[Ino]) -> Result<Vec<Ino>> {
        let (open, closed): (Vec<_>, Vec<_>) =
            orphans.iter().partition(|ino| self.nodes.is_open(**ino));
        let Some(session) = self.session.filter(|_| !open.is_empty()) else {
            return Ok(closed);
        };
        let mut held = self.held.lock().await;
        let new: Vec<Ino> = open.iter().copied().filter(|ino| !held.contains(ino)).collect();
        held.extend(self.meta.hold(session, &new).await?);
        for ino in open.into_iter().filter(|ino| self.nodes.unlinked(*ino)) {
            // It was closed a moment ago.
            self.nodes.purge_soon(ino);
        }
        Ok(closed)
    }

    /// Ends the holds of what is closed by now.
    pub(crate) async fn let_closed_go(&self) -> Result<()> {
        self.let_go(|ino| !self.nodes.is_open(ino)).await
    }

    /// Ends all holds of this session.
    pub(crate) async fn let_all_go(&self) -> Result<()> {
        self.let_go(|_| true).await
    }

    async fn let_go(&self, which: impl Fn(Ino) -> bool) -> Result<()> {
        let Some(session) = self.session else { return Ok(()) };
        // Whoever opens one of them meanwhile waits, and holds it anew.
        let mut held = self.held.lock().await;
        let gone: Vec<_> = held.iter().copied().filter(|ino| which(*ino)).collect();
        if !gone.is_empty() {
            self.meta.let_go(session, &gone).await?;
            gone.iter().for_each(|ino| _ = held.remove(ino));
        }
        Ok(())
    }
}

impl Orphans {
    /// Whether a new round may be gathered.
    pub(crate) fn may_gather(&self) -> bool {
        matches!(*self.round.lock(), Round::None | Round::Gathered(_))
    }

    /// Those of a page of orphans that may go into a round which has `gathered` already: none of `live`
    /// holds them. One read.
    pub(crate) async fn unheld(
        &self,
        page: &[Ino],
        gathered: usize,
        live: &[Session],
    ) -> Result<Vec<Ino>> {
        let (Some(first), Some(last)) = (page.first(), page.last()) else { return Ok(Vec::new()) };
        let room = ROUND_MAX.saturating_sub(gathered);
        if room == 0 {
            return Ok(Vec::new());
        }
        let lives = |id| live.iter().any(|session| session.id == id);
        let holds = self.meta.holds(*first, *last).await?.into_iter();
        let held: HashSet<Ino> = holds.filter(|(_, id)| lives(*id)).map(|(ino, _)| ino).collect();
        Ok(page.iter().copied().filter(|ino| !held.contains(ino)).take(room).collect())
    }

    /// A round was gathered before a beat.
    pub(crate) fn gathered(&self, inos: Vec<Ino>) {
        *self.round.lock() = Round::Gathered(inos);
    }

    /// Sessions were looked at after that beat. `purges` is whether this is the one that purges.
    pub(crate) fn looked(&self, live: &[Session], purges: bool) {
        let mut round = self.round.lock();
        let before = std::mem::take(&mut *round);
        *round = match before {
            Round::Purged | Round::Over(..) => before,
            // Another one begins anew.
            _ if !purges => Round::None,
            _ => before.after(live),
        };
        if matches!(*round, Round::Over(..)) {
            self.over.notify_one();
        }
    }

    /// Waits for a round that is over, after which [`Orphans::purged`] is to be called. Answers as well the
    /// sessions whose holds count.
    pub(crate) async fn over(&self) -> (Vec<Ino>, BTreeSet<SessionId>) {
        loop {
            self.over.notified().await;
            let mut round = self.round.lock();
            match std::mem::take(&mut *round) {
                Round::Over(inos, live) => {
                    *round = Round::Purged;
                    return (inos, live);
                }
                other => *round = other,
            }
        }
    }

    /// The round is done with: what is left of it is gathered anew.
    pub(crate) fn purged(&self) {
        *self.round.lock() = Round::None;
    }
}

#[cfg(test)]
mod tests {
    use weir_meta::sessions::{Beat, NodeRow};
    use weir_types::UnixTime;

    use super::*;

    fn live(ticks: &[(u64, u64)]) -> Vec<Session> {
        let text = String::new;
        let (name, host, tier, build) = (text(), text(), text(), text());
        let node = NodeRow { name, host, tier, build, since: UnixTime(0) };
        let session = |&(id, tick)| {
            let (id, said) = (SessionId(id), Beat { tick, settled: 0 });
            Session { id, node: node.clone(), said, beat: 1 }
        };
        ticks.iter().map(session).collect()
    }

    #[test]
    fn a_round_is_over_when_all_who_live_came_back_twice() {
        let gathered = || Round::Gathered(vec![Ino(7)]);
        assert_eq!(Round::Gathered(Vec::new()).after(&live(&[(1, 5)])), Round::None);
        let waits = || gathered().after(&live(&[(1, 5), (2, 9)]));
        let over = |looks: &[&[(u64, u64)]]| {
            let round = looks.iter().fold(waits(), |round, look| round.after(&live(look)));
            matches!(round, Round::Over(..))
        };
        assert!(over(&[&[(1, 7), (2, 11)]]));
        assert!(!over(&[&[(1, 90), (2, 10)]]), "one came back once only");
        assert!(over(&[&[(1, 90), (2, 10)], &[(1, 91), (2, 11)]]));
        assert!(over(&[&[(1, 7)]]), "the other one is dead");
        assert!(!over(&[&[(1, 7), (2, 11), (3, 1)]]), "one that joined since may have it open");
        assert!(over(&[&[(1, 7), (3, 2)]]), "in the place of one, and it came back twice");
    }
}
