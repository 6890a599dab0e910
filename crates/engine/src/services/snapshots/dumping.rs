//! How far dumps are that this node writes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::services::backups::BackupProgress;

/// A dump that is being written by this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DumpingView {
    /// The snapshot.
    pub name: String,
    /// Rows of metadata that are read by now.
    pub rows: u64,
}

/// How far dumps are, as long as somebody writes them.
#[derive(Default)]
pub(crate) struct Dumping(Mutex<Vec<(String, Weak<BackupProgress>)>>);

impl Dumping {
    pub(crate) fn view(&self) -> Vec<DumpingView> {
        let mut all = self.0.lock();
        all.retain(|(_, progress)| progress.strong_count() > 0);
        let told = all.iter().filter_map(|(name, progress)| {
            let rows = progress.upgrade()?.rows.load(Ordering::Relaxed);
            Some(DumpingView { name: name.clone(), rows })
        });
        told.collect()
    }

    /// Who writes one holds what is answered.
    pub(super) fn begin(&self, name: &str) -> Arc<BackupProgress> {
        let progress = Arc::default();
        let mut all = self.0.lock();
        all.retain(|(_, progress)| progress.strong_count() > 0);
        all.push((name.to_owned(), Arc::downgrade(&progress)));
        progress
    }
}
