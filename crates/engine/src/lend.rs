//! Files in the kernel's hands: a door may let the kernel read a mirror file without the daemon.
//!
//! What must always hold: a file is lent only when all of it is here, it stays here as long as
//! anybody can read it that way, and what programs store into it through a mapping is found before
//! each flush of it.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use weir_tier::Mirror;
use weir_types::{CHUNK_BYTES, Ino, Result, chunk_range};

use crate::background::blocking;
use crate::engine::{Core, Engine};
use crate::fetch::Priority;
use crate::files::OpenFile;
use crate::room::amount_for;
use crate::throughput::Slowed;

/// How long an open may wait for a small file's bytes. They come also if nobody waits.
const FETCH_WAIT: Duration = Duration::from_secs(1);

impl OpenFile {
    /// Lends the mirror file for reading, if it is large enough, all here, and to spare. To be
    /// taken back as often as it was lent. `Unsupported` where the tier's disk cannot do it.
    pub fn lend(&self) -> Result<Option<File>> {
        // Who has it lent already must not see another file than the others.
        if self.is_metered() && !self.mirror.is_lent()? {
            return Ok(None);
        }
        let lent = self.mirror.lend(self.lend_least_bytes)?;
        if lent.is_some() {
            self.count_unmetered();
        }
        Ok(lent)
    }

    /// The kernel opens what was lent no more. Mappings may be left: it stays lent until they go.
    pub fn take_back(&self) -> Result<()> {
        self.mirror.take_back()
    }

    /// Whether somebody may still read or map the mirror file.
    pub fn is_lent(&self) -> Result<bool> {
        self.mirror.is_lent()
    }

    /// Whether programs may store into the mirror file past the daemon, now that we looked again.
    pub fn may_be_stored(&self) -> Result<bool> {
        Ok(self.mirror.is_lent()? && self.mirror.may_be_stored())
    }

    /// Says that the file is opened to be changed in place; see [`Mirror::changed_in_place`].
    pub fn changed_in_place(&self) {
        if self.mirror.size() > 0 {
            self.mirror.changed_in_place();
        }
    }
}

impl Engine {
    /// Whether programs may store into the file past the daemon, and so change its times. Cheap.
    pub fn may_be_stored(&self, ino: Ino) -> bool {
        let tier = &self.core.tier;
        tier.is_lent(ino) && tier.find(ino).is_some_and(|mirror| mirror.may_be_stored())
    }

    /// Brings a small file's bytes here before it is opened for reading, and waits a second for
    /// them at most. What fails is told to whoever reads. As many GETs as reading it costs.
    pub async fn fetch_small(&self, file: &OpenFile) {
        let core = &self.core;
        let size = file.mirror.size();
        let fits =
            (file.lend_least_bytes..=core.settings.passthrough_fetch_bytes.0).contains(&size);
        if !fits || file.is_metered() || core.throughput.purse.slows(Slowed::Demand) {
            return;
        }
        let missing = file.mirror.missing(0, size);
        if missing.is_empty() {
            return;
        }
        let chunks: usize = missing.iter().map(|(s, e)| chunk_range(*s, *e).count()).sum();
        let wanted = amount_for(&file.mirror, chunks as u64 * CHUNK_BYTES);
        if !core.make_room(wanted).await.unwrap_or(false) {
            return;
        }
        let fetch = core.fetch(&file.mirror, &missing, Priority::Demand);
        if !matches!(tokio::time::timeout(FETCH_WAIT, fetch).await, Ok(Ok(()))) {
            tracing::debug!(ino = %file.ino(), "a small file was not fetched when it was opened");
        }
    }

    /// Whether a read or write of the file may have to wait for a limit or the budget.
    pub fn may_be_held_back(&self, file: &OpenFile) -> bool {
        file.is_metered() || self.core.throughput.purse.is_set()
    }

    /// One more open file through which what is lent may be mapped for writing.
    pub async fn lend_writable(&self, file: &OpenFile) -> Result<()> {
        let mirror = file.mirror.clone();
        blocking(move || mirror.lend_writable()).await
    }

    /// Ends what [`Engine::lend_writable`] began. What was stored is dirty now, or will be when the
    /// last mapping goes.
    pub async fn take_back_writable(&self, file: &OpenFile) -> Result<()> {
        let mirror = file.mirror.clone();
        blocking(move || mirror.take_back_writer()).await
    }
}

impl Core {
    /// Looks what became of lent files: dirty by stores through mappings, or lent no more. Looks at
    /// all of them, whatever fails, and answers the first error.
    pub(crate) async fn look_for_stores(self: &Arc<Self>) -> Result<()> {
        self.of_lent(|_| true, Mirror::look_for_stores).await
    }

    /// Before a flush of these files: all that was stored into them up to now is dirty. What cannot
    /// be looked at must not keep the others from the bucket: flush, and tell the error then.
    pub(crate) async fn catch_stores(self: &Arc<Self>, inos: &[Ino]) -> Result<()> {
        let wanted = |mirror: &Mirror| mirror.may_be_stored() && inos.contains(&mirror.ino());
        self.of_lent(wanted, Mirror::catch_stores).await
    }

    async fn of_lent(
        self: &Arc<Self>,
        which: impl Fn(&Mirror) -> bool,
        look: fn(&Mirror) -> Result<()>,
    ) -> Result<()> {
        let mut lent = self.tier.lent();
        lent.retain(|mirror| which(mirror));
        if lent.is_empty() {
            return Ok(());
        }
        blocking(move || lent.iter().map(|mirror| look(mirror)).fold(Ok(()), Result::and)).await
    }
}
