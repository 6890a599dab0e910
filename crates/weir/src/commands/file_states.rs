//! The states of all files below some paths, asked for some thousands at a time, so that memory
//! does not grow with the tree.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::mpsc::{Sender, channel};
use weir_engine::FileState;
use weir_types::{Ino, Result};

use crate::client::STATES_AT_ONCE;
use crate::targets::{self, Mounted};

/// Files and their inodes.
type Batch = Vec<(PathBuf, u64)>;

/// What many files together are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "FilesSum")]
pub(super) struct Sum {
    /// How many they are.
    pub(super) files: u64,
    /// Bytes that they hold.
    pub(super) bytes: u64,
    /// Of these, bytes that are here.
    pub(super) resident_bytes: u64,
    /// Files with bytes that are in the bucket only.
    pub(super) released: u64,
    /// Files that changed since their copy in the bucket.
    pub(super) dirty: u64,
    /// Files whose object went from the bucket.
    pub(super) lost: u64,
}

impl Sum {
    pub(super) fn add(&mut self, state: &FileState) {
        self.files += 1;
        self.bytes += state.size;
        self.resident_bytes += state.resident_bytes.min(state.size);
        self.released += u64::from(state.released);
        self.dirty += u64::from(state.dirty);
        self.lost += u64::from(state.lost);
    }
}

/// Tells of all files at and below what was named in a mount, some at a time, in the order of their
/// names. What is removed meanwhile is left out. The files are found on a thread of its own.
pub(super) async fn of(
    mount: Mounted,
    mut tell: impl FnMut(Vec<(PathBuf, FileState)>) -> Result<()>,
) -> Result<()> {
    let (found, mut files) = channel(4);
    let paths: Vec<PathBuf> = mount.targets.into_iter().map(|target| target.real).collect();
    let walk = tokio::task::spawn_blocking(move || walk(&paths, &found));
    while let Some(some) = files.recv().await {
        let some: Batch = some;
        let inos = some.iter().map(|(_, ino)| Ino(*ino)).collect();
        let states = mount.client.states(inos).await?;
        let there = some.into_iter().zip(states);
        tell(there.filter_map(|((path, _), state)| Some((path, state?))).collect())?;
    }
    walk.await.map_err(crate::daemon::panicked)?
}

fn walk(paths: &[impl AsRef<Path>], found: &Sender<Batch>) -> Result<()> {
    let mut some = Vec::new();
    for path in paths {
        targets::files_below(path.as_ref(), &mut |path, ino| {
            some.push((path, ino));
            if some.len() == STATES_AT_ONCE {
                // Nobody listens once an answer failed.
                let _ = found.blocking_send(std::mem::take(&mut some));
            }
            Ok(())
        })?;
    }
    let _ = found.blocking_send(some);
    Ok(())
}
