//! Write leases: a file of which this node may have more than the volume.
//!
//! Its row says so, of one that is made here from the commit on that makes it. Whoever shares the volume and looks
//! at such a row asks the writer first, as for any lease, and the writer gives it back once the volume has all of
//! the file. So a close needs not wait for the bucket, nor a write behind the end, and many files share one object.
//! Of a file that was there one is taken where this node waits for the bucket with it again and again, and nobody else
//! has a lease on it. Each ends soon after the file is closed: what an object holds, it says for everybody.

use std::sync::atomic::Ordering;

use weir_types::{Ino, Result};

use super::writes::{ALL, EndOfWrites};
use super::{ASKED_AT_ONCE, Leases, Patience};
use crate::codec::{lend, writer_of};
use crate::keys;
use crate::kv::{Check, Commit, Key, Kv, Outcome, Versioned};
use crate::op::Tries;
use crate::session::SessionId;

/// Write leases that end in one commit.
const AT_ONCE: usize = 512;

impl Leases {
    /// From now on files are made with write leases. Whoever calls this ends them: [`Leases::ends_of_writes`].
    pub fn write_behind(&self) {
        self.writes_behind.store(true, Ordering::Release);
    }

    /// These were made, each with whether it is a directory. Before anything else of it is remembered: who asks
    /// from now on waits.
    pub(super) fn begin_writes(&self, inos: impl Iterator<Item = (Ino, bool)>) {
        let now_ms = self.now_ms();
        let mut writes = self.writes.lock();
        inos.for_each(|(ino, is_dir)| writes.begin(ino, now_ms, is_dir));
    }

    /// Whether a file may be closed before the volume has all of it: others will ask. Not while this node
    /// cannot tell whether it is among them still.
    pub fn spares_flush(&self, ino: Ino) -> bool {
        !self.trusted_for().is_zero() && self.writes.lock().of(ino) == Some(false)
    }

    /// Whether the write lease on a file ends with the commit that brings the last of it.
    pub fn ends_when_whole(&self, ino: Ino) -> bool {
        self.writes.lock().of(ino) == Some(true)
    }

    /// A close of a file waited for the bucket, or a write behind its end did. Of one with which that happens again and
    /// again a write lease is taken, soon.
    pub fn waited_for_bucket(&self, ino: Ino) {
        let now_ms = self.now_ms();
        if self.may_write().files && self.writes.lock().waited(ino, now_ms) {
            self.state.lock().wants_to_write(ino);
            self.wanted.notify_one();
        }
    }

    /// Takes no write leases on files that were there for a minute, as others do of which all files are asked for.
    pub fn hold_off(&self) {
        self.writes.lock().hold_off(self.now_ms());
    }

    /// Returns when somebody asks for write leases of this session, or soon after.
    pub async fn writes_asked_for(&self) {
        self.bring.notified().await;
    }

    /// The files whose write leases are to end, as far as they are ready: those that somebody asks for, those
    /// that were made `age_ms` ago or earlier, and some that may come along. A close of one of them waits for the
    /// bucket from now on.
    pub fn writes_due(&self, age_ms: u64, is_ready: impl Fn(Ino, EndOfWrites) -> bool) -> Vec<Ino> {
        let before_ms = self.now_ms().saturating_sub(age_ms);
        let mut found = self.writes.lock().candidates(before_ms);
        found.retain(|(ino, why)| *why == EndOfWrites::Asked || is_ready(*ino, *why));
        // What is changed of them from now on waits for the database.
        let _turn = self.deferring.lock();
        let ends = found.iter().map(|(ino, why)| (*ino, *why == EndOfWrites::Along));
        self.writes.lock().end(ends);
        found.into_iter().map(|(ino, _)| ino).collect()
    }

    /// The volume has all of these files. One read and one commit for each 512 of those of which it was not
    /// told with the last of them.
    pub async fn ends_of_writes(&self, kv: &dyn Kv, inos: &[Ino]) -> Result<()> {
        let left: Vec<Ino> = {
            let writes = self.writes.lock();
            inos.iter().copied().filter(|ino| writes.of(*ino).is_some()).collect()
        };
        for some in left.chunks(AT_ONCE) {
            let mut tries = Tries::new("give write leases back");
            loop {
                tries.next().await?;
                let given_up = self.writes.lock().given_up(some.iter().copied());
                let due: Vec<_> = some.iter().map(|ino| (*ino, given_up.contains(ino))).collect();
                if self.try_end(kv, &due).await? {
                    break;
                }
            }
        }
        self.look.notify_one();
        Ok(())
    }

    /// Ends write leases of which the database has all; `false`: something changed meanwhile. Those that are given up
    /// are none for reading either. One read and one commit.
    pub(super) async fn try_end(&self, kv: &dyn Kv, due: &[(Ino, bool)]) -> Result<bool> {
        let keys: Vec<_> = due.iter().map(|(ino, _)| keys::inode(*ino)).collect();
        let mut commit = Commit::default();
        for ((key, found), (_, given_up)) in keys.iter().zip(kv.get_many(&keys).await?).zip(due) {
            let ours = found.filter(|found| writer_of(&found.value) == Some(self.session));
            if let Some(found) = ours {
                let reads: &[_] = if *given_up { &[] } else { &[self.session] };
                commit.checks.push(Check::Version(key.clone(), found.version));
                commit.puts.push((key.clone(), lend(&found.value, reads)));
            }
        }
        let given_up: Vec<_> = due.iter().filter(|(_, up)| *up).map(|(ino, _)| *ino).collect();
        self.state.lock().forget(&given_up);
        let made = matches!(kv.commit(commit).await?, Outcome::Applied(_));
        let mut state = self.state.lock();
        state.forget(&given_up);
        state.forget_rows(&keys);
        drop(state);
        if made {
            self.writes.lock().ended(due.iter().map(|(ino, _)| *ino));
        }
        Ok(made)
    }

    /// Has others bring what they have more of the files in these rows than the volume. Answers whether
    /// there were such: then they are to be read again. Waits as long as a writer lives and does not.
    pub(super) async fn have_brought<'a>(
        &self,
        kv: &dyn Kv,
        rows: impl Iterator<Item = (&'a Key, &'a Option<Versioned>)>,
    ) -> Result<bool> {
        let mut waiting = Vec::new();
        for (key, found) in rows.filter(|(key, _)| key.first() == Some(&keys::INODE)) {
            let Some(found) = found else { continue };
            let writer = writer_of(&found.value).filter(|writer| !self.is_ours(*writer));
            if let (Some(writer), Some(ino)) = (writer, keys::leased_with(key)) {
                waiting.push((ino, found.version, writer));
            }
        }
        if waiting.is_empty() {
            return Ok(false);
        }
        // A file of two names is listed twice.
        waiting.sort_unstable();
        waiting.dedup();
        {
            let writes = self.writes.lock();
            waiting.retain(|(ino, version, _)| !writes.was_brought(*ino, *version));
        }
        let asked: Vec<_> = waiting.iter().map(|(ino, _, writer)| (*writer, *ino)).collect();
        for some in asked.chunks(ASKED_AT_ONCE) {
            self.ask_back(kv, some, Patience::AsLongAsTheyLive).await?;
        }
        // A row that is the same then says that there was nothing.
        self.writes.lock().nothing_to_come(&waiting);
        Ok(!waiting.is_empty())
    }

    /// Has these sessions bring all that they have more than the volume of files that were made and closed
    /// there. `Retry` where one lives and does not within a minute.
    pub async fn have_all_brought(&self, kv: &dyn Kv, sessions: &[SessionId]) -> Result<()> {
        let others = sessions.iter().filter(|one| **one != self.session);
        let asked: Vec<_> = others.map(|one| (*one, ALL)).collect();
        self.ask_back(kv, &asked, Patience::AMinute).await
    }
}
