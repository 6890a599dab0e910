//! Telling of what was set aside, and settling it.

use std::path::Path;
use std::sync::Arc;

use weir_types::{ErrorKind, FsError, Result};

use super::assessed::{Assessed, Item};
use super::entry::AsideSummary;
use super::parts::Quarantine;
use super::views::{AsideView, ExtractReport, MergeReport, RecoverProgress};

impl Quarantine {
    /// All of it in short.
    pub(crate) fn summary(&self) -> AsideSummary {
        self.places.summary()
    }

    pub(crate) fn note_progress(&self, change: impl FnOnce(&mut RecoverProgress)) {
        change(&mut self.progress.lock());
    }

    fn begin(&self, all: &[Assessed]) {
        let items = || all.iter().flat_map(|of| &of.items);
        let (files_total, bytes_total) = (items().count() as u64, items().map(Item::bytes).sum());
        self.note_progress(|p| {
            *p = RecoverProgress { files_total, bytes_total, ..Default::default() }
        });
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

impl Quarantine {
    async fn assess_all(&self, label: Option<&str>) -> Result<Vec<Assessed>> {
        let mut all = Vec::new();
        for entry in self.places.chosen(label)? {
            let name = entry.label.clone();
            let assessed = self.assess(entry).await;
            all.push(assessed.map_err(|error| error.within(format!("entry {name}")))?);
        }
        Ok(all)
    }
}

impl Quarantine {
    /// Everything that is set aside, beside what the volume has now.
    pub(crate) async fn recover_list(&self) -> Result<Vec<AsideView>> {
        let mut views = Vec::new();
        for entry in self.places.list() {
            let mut view = entry.view();
            match self.assess(entry).await {
                Ok(assessed) => view = assessed.view(),
                Err(error) => view.problem = Some(error.to_string()),
            }
            views.push(view);
        }
        Ok(views)
    }

    /// Puts back into the volume what nobody changed since, of one entry or of all. What is wholly
    /// settled is gone then; of the others the report tells what is left.
    pub(crate) async fn recover_merge(
        self: &Arc<Self>,
        label: Option<&str>,
    ) -> Result<MergeReport> {
        self.context.check_writable()?;
        let _changing = self.changing.lock().await;
        let all = self.assess_all(label).await?;
        self.begin(&all);
        let mut report = MergeReport::default();
        for mut assessed in all {
            let merged = self.merge_entry(&mut assessed).await;
            self.links.registry.notify_doors().await;
            let (files, bytes) = merged?;
            (report.files, report.bytes) = (report.files + files, report.bytes + bytes);
            let mut after = self.assess(assessed.entry).await?;
            let settled = after.items.is_empty()
                && after.operations.is_empty()
                && after.log.damage.is_none()
                && !after.entry.misses_log();
            match settled {
                true => {
                    self.meta.sync().await?;
                    after.entry.discard()?;
                    report.settled.push(after.entry.label);
                }
                false => report.left.push(after.view()),
            }
        }
        Ok(report)
    }

    /// Writes files out below `directory`, of one entry or of all.
    pub(crate) async fn recover_extract(
        self: &Arc<Self>,
        label: Option<&str>,
        directory: &Path,
    ) -> Result<ExtractReport> {
        let _changing = self.changing.lock().await;
        let all = self.assess_all(label).await?;
        self.begin(&all);
        let mut report = ExtractReport { directory: directory.to_owned(), files: Vec::new() };
        for assessed in &all {
            report.files.extend(self.extract_entry(assessed, directory).await?);
        }
        Ok(report)
    }

    /// Gives an entry up for good.
    pub(crate) async fn recover_discard(&self, label: &str) -> Result<()> {
        let _changing = self.changing.lock().await;
        for mut entry in self.places.chosen(Some(label))? {
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
    pub(crate) fn recover_progress(&self) -> RecoverProgress {
        *self.progress.lock()
    }
}
