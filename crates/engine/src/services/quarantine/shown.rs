//! What was set aside, as it is shown.

use weir_types::FileKind;

use super::assessed::{Assessed, Item, Operation};
use super::entry::Entry;
use super::views::{AsideFile, AsideView, LostOperation};

impl Item {
    fn view(&self) -> AsideFile {
        let known = self.made.as_ref().or(self.now.as_ref());
        AsideFile {
            ino: self.ino,
            kind: known.map_or(FileKind::Regular, |inode| inode.kind),
            path: self.path.clone(),
            standing: self.standing,
            why: self.why.to_owned(),
            size: self.size,
            mtime_ns: self.mtime.map(|time| time.0),
            ranges: self.ranges.clone(),
            bytes: self.bytes(),
            size_now: self.now.as_ref().map(|inode| inode.size),
            mtime_now_ns: self.now.as_ref().map(|inode| inode.mtime.0),
        }
    }
}

impl Assessed {
    /// It as it is shown.
    pub(crate) fn view(&self) -> AsideView {
        let operation =
            |o: &Operation| LostOperation { what: o.what.to_owned(), path: o.path.clone() };
        let mut view = self.entry.view();
        view.problem = self.log.damage.as_ref().map(|damage| format!("its log: {damage}"));
        if self.entry.misses_log() {
            view.problem = Some("its log is not there".to_owned());
        }
        view.files = self.items.iter().map(Item::view).collect();
        view.operations = self.operations.iter().map(operation).collect();
        view
    }
}

impl Entry {
    /// It as far as it tells of itself.
    pub(crate) fn view(&self) -> AsideView {
        let cause = &self.manifest.cause;
        AsideView {
            label: self.label.clone(),
            why: cause.why,
            detail: cause.detail.clone(),
            unix_ms: cause.unix_ms,
            mounts: cause.mounts.clone(),
            directory: self.directory(),
            log: self.log_directory().map(ToOwned::to_owned),
            log_bytes: self.log_bytes(),
            problem: self.problem.clone(),
            files: Vec::new(),
            operations: Vec::new(),
        }
    }
}
