//! What was set aside: dirty data and logs of mounts that are not part of the volume, until
//! somebody settles what becomes of them.
//!
//! `weir-tier` and the journal put entries there; here they are found, told of, held against the
//! volume, and merged, written out or given up. What must always hold:
//! - Whatever is set aside is told of by every mount that can see it.
//! - A merge changes no byte that somebody changed since, and takes nothing out of an entry before
//!   the volume has it durably.

mod assess;
mod entry;
mod extract;
mod label;
mod log;
mod merge;
mod outside;
mod paths;
mod source;
mod view;

use std::path::Path;

use parking_lot::Mutex;
use weir_types::{ErrorKind, FsError, Result};

pub use entry::{AsideEntry, AsideSummary};
pub use view::{
    AsideFile, AsideView, ExtractReport, Extracted, LostOperation, MergeReport, RecoverProgress,
    Standing,
};

pub(crate) use entry::Places;
pub(crate) use label::label_for;

use crate::engine::{Core, Engine};
use assess::Assessed;

/// What a mount has to do with what was set aside.
pub(crate) struct Asides {
    places: Places,
    /// Held by whoever changes entries.
    changing: tokio::sync::Mutex<()>,
    progress: Mutex<RecoverProgress>,
}

impl Asides {
    pub(crate) fn new(places: Places) -> Self {
        Self { places, changing: tokio::sync::Mutex::default(), progress: Mutex::default() }
    }

    /// All of it in short.
    pub(crate) fn summary(&self) -> AsideSummary {
        self.places.summary()
    }

    pub(crate) fn progress(&self, change: impl FnOnce(&mut RecoverProgress)) {
        change(&mut self.progress.lock());
    }

    fn begin(&self, all: &[Assessed]) {
        let items = || all.iter().flat_map(|of| &of.items);
        let (files_total, bytes_total) =
            (items().count() as u64, items().map(assess::Item::bytes).sum());
        self.progress(|p| *p = RecoverProgress { files_total, bytes_total, ..Default::default() });
    }

    /// Says in the log what is still set aside.
    pub(crate) fn warn(&self) {
        let summary = self.summary();
        for entry in &summary.entries {
            tracing::warn!(
                label = entry.label,
                files = entry.files,
                dirty_bytes = entry.dirty_bytes,
                log_bytes = entry.log_bytes,
                directory = %entry.directory.display(),
                "data is set aside that is not part of the volume: `weir recover` tells what it is, \
                 brings it back or gives it up"
            );
        }
    }
}

impl Core {
    async fn assess_all(&self, label: Option<&str>) -> Result<Vec<Assessed>> {
        let mut all = Vec::new();
        for entry in self.aside.places.chosen(label)? {
            let name = entry.label.clone();
            let assessed = self.assess(entry).await;
            all.push(assessed.map_err(|error| error.within(format!("entry {name}")))?);
        }
        Ok(all)
    }
}

impl Engine {
    /// Everything that is set aside, beside what the volume has now.
    pub async fn recover_list(&self) -> Result<Vec<AsideView>> {
        let core = &self.core;
        let mut views = Vec::new();
        for entry in core.aside.places.list() {
            let mut view = entry.view();
            match core.assess(entry).await {
                Ok(assessed) => view = assessed.view(),
                Err(error) => view.problem = Some(error.to_string()),
            }
            views.push(view);
        }
        Ok(views)
    }

    /// Puts back into the volume what nobody changed since, of one entry or of all. What is wholly
    /// settled is gone then; of the others the report tells what is left.
    pub async fn recover_merge(&self, label: Option<&str>) -> Result<MergeReport> {
        let core = &self.core;
        core.check_writable()?;
        let _changing = core.aside.changing.lock().await;
        let all = core.assess_all(label).await?;
        core.aside.begin(&all);
        let mut report = MergeReport::default();
        for mut assessed in all {
            let merged = core.merge_entry(&mut assessed).await;
            core.tell_doors().await;
            let (files, bytes) = merged?;
            (report.files, report.bytes) = (report.files + files, report.bytes + bytes);
            let mut after = core.assess(assessed.entry).await?;
            let settled = after.items.is_empty()
                && after.operations.is_empty()
                && after.log.damage.is_none()
                && !after.entry.misses_log();
            match settled {
                true => {
                    core.seen(core.meta.sync().await)?;
                    after.entry.discard()?;
                    report.settled.push(after.entry.label);
                }
                false => report.left.push(after.view()),
            }
        }
        Ok(report)
    }

    /// Writes files out below `directory`, of one entry or of all.
    pub async fn recover_extract(
        &self,
        label: Option<&str>,
        directory: &Path,
    ) -> Result<ExtractReport> {
        let core = &self.core;
        let _changing = core.aside.changing.lock().await;
        let all = core.assess_all(label).await?;
        core.aside.begin(&all);
        let mut report = ExtractReport { directory: directory.to_owned(), files: Vec::new() };
        for assessed in &all {
            report.files.extend(core.extract_entry(assessed, directory).await?);
        }
        Ok(report)
    }

    /// Gives an entry up for good.
    pub async fn recover_discard(&self, label: &str) -> Result<()> {
        let core = &self.core;
        let _changing = core.aside.changing.lock().await;
        for mut entry in core.aside.places.chosen(Some(label))? {
            if let Some(problem) = &entry.problem {
                let text = format!("{problem}, or remove that directory by hand");
                return Err(FsError::new(ErrorKind::Corrupt, text));
            }
            entry.discard()?;
            tracing::warn!(label, "what was set aside was given up");
        }
        Ok(())
    }

    /// How far the merge or extraction under way is.
    pub fn recover_progress(&self) -> RecoverProgress {
        *self.core.aside.progress.lock()
    }
}
