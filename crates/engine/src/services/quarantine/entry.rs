//! Entries on the local disks: a part in the tier, a part beside the log, or both, under one label.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_tier::{ASIDE, Manifest, Why};
use weir_types::{ErrorKind, FsError, Result};

use crate::data::journal::LOG;

/// Where a mount looks for entries.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The tier's directory of this volume.
    pub(crate) tier: PathBuf,
    /// Directories of logs: the tier's own, and the journal's.
    pub(crate) logs: Vec<PathBuf>,
}

/// One entry.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) label: String,
    /// Its part in the tier: files.
    pub(crate) files: Option<PathBuf>,
    /// Its part beside the log.
    pub(crate) log: Option<PathBuf>,
    pub(crate) manifest: Manifest,
    /// It cannot be read.
    pub(crate) problem: Option<String>,
}

/// What is set aside, in short.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AsideSummary {
    /// Files with dirty bytes.
    pub files: u64,
    /// Those bytes.
    pub dirty_bytes: u64,
    /// Bytes of redo logs and journals.
    pub log_bytes: u64,
    /// Each entry, oldest first.
    pub entries: Vec<AsideEntry>,
}

/// One entry, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AsideEntry {
    /// Its name.
    pub label: String,
    /// Why it was set aside.
    pub why: Why,
    /// When, in milliseconds since 1970; 0 if that is not known.
    pub unix_ms: u64,
    /// Files with dirty bytes.
    pub files: u64,
    /// Those bytes.
    pub dirty_bytes: u64,
    /// Bytes of its log.
    pub log_bytes: u64,
    /// Where it is.
    pub directory: PathBuf,
}

impl Places {
    /// All entries, oldest first. Ends the removal of those that were given up.
    pub(crate) fn list(&self) -> Vec<Entry> {
        let mut all = BTreeMap::new();
        for directory in directories(&self.tier.join(ASIDE)) {
            let label = label_of(&directory);
            all.insert(label.clone(), Entry::read(label, Some(directory), None));
        }
        for log in &self.logs {
            for directory in directories(&log.join(ASIDE)) {
                let label = label_of(&directory);
                match all.get_mut(&label) {
                    Some(entry) => entry.log = Some(directory),
                    None => {
                        all.insert(label.clone(), Entry::read(label, None, Some(directory)));
                    }
                }
            }
        }
        let mut entries: Vec<_> = all.into_values().collect();
        for entry in &mut entries {
            entry.find_log();
        }
        entries.retain(|entry| match entry.is_void() {
            true => {
                if let Err(error) = entry.remove() {
                    tracing::warn!(label = entry.label, %error, "an entry given up is still here");
                }
                false
            }
            false => true,
        });
        entries.sort_by_key(|entry| (entry.manifest.cause.unix_ms, entry.label.clone()));
        entries
    }

    /// The entry of a label, or, without one, all.
    pub(crate) fn chosen(&self, label: Option<&str>) -> Result<Vec<Entry>> {
        let mut all = self.list();
        let Some(label) = label else { return Ok(all) };
        all.retain(|entry| entry.label == label);
        match all.is_empty() {
            true => {
                let text = format!("nothing is set aside as `{label}`: see `weir recover`");
                Err(FsError::new(ErrorKind::NotFound, text))
            }
            false => Ok(all),
        }
    }

    /// All of it in short.
    pub(crate) fn summary(&self) -> AsideSummary {
        let entries: Vec<_> = self.list().iter().map(Entry::short).collect();
        let sum = |of: fn(&AsideEntry) -> u64| entries.iter().map(of).sum();
        AsideSummary {
            files: sum(|e| e.files),
            dirty_bytes: sum(|e| e.dirty_bytes),
            log_bytes: sum(|e| e.log_bytes),
            entries,
        }
    }
}

impl Entry {
    fn read(label: String, files: Option<PathBuf>, log: Option<PathBuf>) -> Self {
        let directory = files.as_ref().or(log.as_ref());
        let read = |directory: &PathBuf| match Manifest::read(directory)? {
            Some(manifest) => Ok(manifest),
            None => Manifest::guess(directory),
        };
        let read = directory.map_or_else(|| Ok(Manifest::default()), read);
        let (manifest, problem) = match read {
            Ok(manifest) => (manifest, None),
            Err(error) => (Manifest::default(), Some(error.to_string())),
        };
        Self { label, files, log, manifest, problem }
    }

    /// The log's part may be at a place that this mount does not use.
    fn find_log(&mut self) {
        let noted = self.manifest.cause.log.as_ref();
        let ours = |path: &&PathBuf| {
            let above = path.parent().and_then(Path::file_name);
            above.is_some_and(|name| name == ASIDE)
                && path.file_name().is_some_and(|name| name == self.label.as_str())
        };
        if self.log.is_none()
            && let Some(path) = noted.filter(ours).filter(|path| path.join(LOG).is_dir())
        {
            self.log = Some(path.clone());
        }
    }

    /// Its log was set aside, but is not where it should be.
    pub(crate) fn misses_log(&self) -> bool {
        self.manifest.cause.log.is_some() && self.log_directory().is_none()
    }

    /// Given up, or the beginning of one: nothing came to it yet.
    fn is_void(&self) -> bool {
        let empty = self.manifest.files.is_empty() && self.log_directory().is_none();
        let begun = empty && self.manifest.complete && self.problem.is_none() && !self.misses_log();
        self.manifest.discarded || begun
    }

    /// The directory with its log, if it has one.
    pub(crate) fn log_directory(&self) -> Option<&Path> {
        self.log.as_deref().filter(|directory| directory.join(LOG).is_dir())
    }

    /// Where the manifest is.
    pub(crate) fn directory(&self) -> PathBuf {
        self.files.clone().or_else(|| self.log.clone()).unwrap_or_default()
    }

    /// Bytes of its log.
    pub(crate) fn log_bytes(&self) -> u64 {
        let files = self.log.as_ref().map(|directory| fs::read_dir(directory.join(LOG)));
        let files = files.into_iter().flatten().flatten();
        files.filter_map(|f| f.ok()?.metadata().ok()).map(|m| m.len()).sum()
    }

    pub(crate) fn short(&self) -> AsideEntry {
        AsideEntry {
            label: self.label.clone(),
            why: self.manifest.cause.why,
            unix_ms: self.manifest.cause.unix_ms,
            files: self.manifest.files.len() as u64,
            dirty_bytes: self.manifest.bytes(),
            log_bytes: self.log_bytes(),
            directory: self.directory(),
        }
    }

    /// Durably notes what became of parts of it.
    pub(crate) fn save(&self) -> Result<()> {
        self.manifest.write(&self.directory())
    }

    /// Removes it. Once this has begun it is gone, whatever ends it.
    pub(crate) fn discard(&mut self) -> Result<()> {
        self.manifest.discarded = true;
        self.save()?;
        fail::fail_point!("engine::aside-discarded");
        self.remove()
    }

    /// The manifest goes last: what is left without it would look like another entry.
    fn remove(&self) -> Result<()> {
        [&self.log, &self.files].into_iter().flatten().try_for_each(|directory| clear(directory))
    }
}

fn clear(directory: &Path) -> Result<()> {
    let at = |e| FsError::local_io(format!("remove {}", directory.display()), e);
    let gone = |result: std::io::Result<()>| match result {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(at(e)),
        _ => Ok(()),
    };
    gone(fs::remove_dir_all(directory.join(LOG)))?;
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name() != "manifest.json" {
            gone(fs::remove_file(entry.path()))?;
        }
    }
    gone(fs::remove_dir_all(directory))
}

fn directories(all: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(all).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.map(|entry| entry.path()).collect()
}

fn label_of(directory: &Path) -> String {
    directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
