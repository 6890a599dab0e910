//! Files in the kernel's hands: a door may let the kernel read a mirror file without the daemon.
//!
//! What must always hold: a file is lent only when all of it is here, it stays here as long as
//! anybody can read it that way, and what programs store into it through a mapping is found before
//! each flush of it.
//!
//! Where nodes share the volume, each open has compared the file with the metadata before, so that what is
//! lent is as it was when its last writer closed it, on whatever node. What changes elsewhere while it is
//! lent is brought into the mirror file, or the mirror is parted from who has that (`data/mirrors/lent.rs`).

use std::time::Duration;

use weir_tier::Lent;
use weir_types::{CHUNK_BYTES, Result, chunk_range};

use crate::data::admission::budget::Slowed;
use crate::data::fetch::Priority;
use crate::data::space::amount_for;
use crate::names::files::{OpenFile, OpenFiles};
use crate::volume::context::blocking;

/// How long an open may wait for a small file's bytes. They come also if nobody waits.
const FETCH_WAIT: Duration = Duration::from_secs(1);

impl OpenFile {
    /// Lends the mirror file for reading, if it is large enough, all here, and to spare. To be
    /// taken back as often as it was lent. `Unsupported` where the tier's disk cannot do it.
    pub fn passthrough(&self) -> Result<Option<Lent>> {
        // Who has it lent already must not see another file than the others.
        if self.is_metered() && !self.mirror.in_passthrough()? {
            return Ok(None);
        }
        let lent = self.mirror.passthrough(self.passthrough_bytes_min)?;
        if lent.is_some() {
            self.count_unmetered();
        }
        Ok(lent)
    }

    /// The kernel opens what was lent no more. Mappings may be left: it stays lent until they go.
    pub fn end_passthrough(&self, lending: u64) -> Result<()> {
        self.mirror.end_passthrough(lending)
    }

    /// Whether who was lent the mirror file by this lending has the bytes that an open finds now.
    pub fn lends(&self, lending: u64) -> bool {
        self.mirror.lends(lending)
    }

    /// Says that somebody is to open it who cannot have what is lent: it is not lent anew for 5 s.
    pub fn not_lent_for_now(&self) {
        self.mirror.not_lent_for_now();
    }

    /// Whether somebody may still read or map the mirror file.
    pub fn in_passthrough(&self) -> Result<bool> {
        self.mirror.in_passthrough()
    }

    /// Whether programs may store into the mirror file past the daemon, now that we looked again.
    pub fn may_be_stored(&self) -> Result<bool> {
        Ok(self.mirror.in_passthrough()? && self.mirror.may_be_stored())
    }

    /// Says that the file is opened to be changed in place; see `Mirror::changed_in_place` of the tier.
    pub fn changed_in_place(&self) {
        if self.mirror.size() > 0 {
            self.mirror.changed_in_place();
        }
    }
}

impl OpenFiles {
    /// Brings a small file's bytes here before it is opened for reading, and waits a second for
    /// them at most. What fails is told to whoever reads. As many GETs as reading it costs.
    pub(crate) async fn fetch_small(&self, file: &OpenFile) {
        let size = file.mirror.size();
        let fits = (file.passthrough_bytes_min..=self.context.settings.passthrough_fetch_bytes.0)
            .contains(&size);
        if !fits || file.is_metered() || self.admission.budget.slows(Slowed::Demand) {
            return;
        }
        let missing = file.mirror.missing(0, size);
        if missing.is_empty() {
            return;
        }
        let chunks: usize =
            missing.iter().map(|range| chunk_range(range.start, range.end).count()).sum();
        let wanted = amount_for(&file.mirror, chunks as u64 * CHUNK_BYTES);
        if !self.space.make_room(wanted).await.unwrap_or(false) {
            return;
        }
        let fetch = self.fetcher.fetch(&file.mirror, &missing, Priority::Demand);
        if !matches!(tokio::time::timeout(FETCH_WAIT, fetch).await, Ok(Ok(()))) {
            tracing::debug!(ino = %file.ino(), "a small file was not fetched when it was opened");
        }
    }

    /// Before a file is lent that other nodes may change: notes where its bytes are, so that a change of a part
    /// of it can be told. A read of the metadata for each generation of a file, where it is larger than what
    /// is brought whole.
    pub(crate) async fn note_before_lending(&self, file: &OpenFile) {
        let size = file.mirror.size();
        let here = size >= file.passthrough_bytes_min && file.mirror.missing(0, size).is_empty();
        if here && self.context.is_shared() && !file.is_metered() {
            self.mirrors.note_lent(&file.mirror).await;
        }
    }

    /// Whether a read or write of the file may have to wait for a limit or the budget.
    pub(crate) fn may_be_held_back(&self, file: &OpenFile) -> bool {
        file.is_metered() || self.admission.budget.is_set()
    }

    /// One more open file through which what is lent may be mapped for writing.
    pub(crate) async fn passthrough_writable(&self, file: &OpenFile) -> Result<()> {
        let mirror = file.mirror.clone();
        blocking(move || mirror.passthrough_writable()).await
    }

    /// Ends what [`OpenFiles::passthrough_writable`] began. What was stored is dirty now, or will be when the
    /// last mapping goes.
    pub(crate) async fn end_passthrough_writable(&self, file: &OpenFile) -> Result<()> {
        let mirror = file.mirror.clone();
        blocking(move || mirror.end_passthrough_writer()).await
    }
}
