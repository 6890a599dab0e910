//! Write leases: a file that was made here, and of which this node may have more than the volume.
//!
//! Its row says so from the commit on that makes it. Whoever shares the volume and looks at such a row asks
//! the writer first, as for any lease, and the writer gives it back once the volume has all of the file. So
//! a close needs not wait for the bucket, and many files share one object. There are none but on new
//! files, and each ends soon after the file is closed: what an object holds, it says for everybody.

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

    /// These were made. Before anything else of it is remembered: who asks from now on waits.
    pub(super) fn begin_writes(&self, inos: impl Iterator<Item = Ino>) {
        let now_ms = self.now_ms();
        let mut writes = self.writes.lock();
        inos.for_each(|ino| writes.begin(ino, now_ms));
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
        let due: Vec<Ino> = found.into_iter().map(|(ino, _)| ino).collect();
        self.writes.lock().end(due.iter().copied());
        due
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
                if self.try_end(kv, some).await? {
                    break;
                }
            }
        }
        self.look.notify_one();
        Ok(())
    }

    async fn try_end(&self, kv: &dyn Kv, inos: &[Ino]) -> Result<bool> {
        let keys: Vec<_> = inos.iter().map(|ino| keys::inode(*ino)).collect();
        let mut commit = Commit::default();
        for (key, found) in keys.iter().zip(kv.get_many(&keys).await?) {
            let ours = found.filter(|found| writer_of(&found.value) == Some(self.session));
            if let Some(found) = ours {
                commit.checks.push(Check::Version(key.clone(), found.version));
                commit.puts.push((key.clone(), lend(&found.value, &[])));
            }
        }
        self.state.lock().forget(inos);
        if let Outcome::Conflict = kv.commit(commit).await? {
            return Ok(false);
        }
        self.state.lock().forget(inos);
        self.writes.lock().ended(inos.iter().copied());
        Ok(true)
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
