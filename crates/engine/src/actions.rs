//! Actions: what is asked for whole trees of files and goes on in the background.
//!
//! Hydrating, releasing and archiving are actions. One is a row of the metadata, so that it goes on
//! after a restart; how far it came is counted in memory, and counted anew by who goes on.

mod action;
mod archive;
mod feed;
mod hydrate;
mod manager;
mod pins;
mod rate;
mod release;
mod room;
mod small;
mod state;
mod walk;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_types::{ErrorKind, FileKind, FsError, Ino, Result};

use crate::engine::{Core, Engine};
pub(crate) use manager::{Actions, run_loop};

/// Names an action, from 1; never used twice in a volume.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct ActionId(pub u64);

/// What an action does to each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActionKind {
    /// Bring all bytes here.
    Hydrate,
    /// Let all bytes go that are in the bucket as well.
    Release,
    /// Write the file to the bucket of its link, or, outside of links, flush it.
    Archive,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionRequest {
    /// What to do.
    pub kind: ActionKind,
    /// Files and directories to do it to, with their paths below the mount for people.
    pub roots: Vec<Root>,
    /// Go down into directories. Without it a directory is refused.
    pub recursive: bool,
    /// Bytes a second at most; `None`: as fast as it goes.
    #[serde(default)]
    pub max_bytes_per_s: Option<u64>,
}

/// Where an action begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Root {
    /// The inode.
    pub ino: Ino,
    /// Its path below the mount, for people.
    pub path: String,
}

/// Where an action stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActionState {
    /// Others come first.
    Waiting,
    /// It goes on.
    Running,
    /// All is done; what was refused or failed is counted.
    Done,
    /// Somebody stopped it.
    Cancelled,
}

/// An action as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActionView {
    /// Its name.
    pub id: ActionId,
    /// What was asked for.
    pub request: ActionRequest,
    /// Where it stands.
    pub state: ActionState,
    /// When it was asked for, in milliseconds since 1970.
    pub asked_unix_ms: i64,
    /// When it ended.
    pub ended_unix_ms: Option<i64>,
    /// Files found up to now, and all of them once `counted`.
    pub files_total: u64,
    /// Files that are done, refused ones included.
    pub files_done: u64,
    /// Bytes to move, as far as is known; all of them once `counted`.
    pub bytes_total: u64,
    /// Bytes moved, or found where they should be.
    pub bytes_done: u64,
    /// Whether the totals are final.
    pub counted: bool,
    /// Files that were refused or failed.
    pub refused: u64,
    /// The first of them, with the reason.
    pub reasons: Vec<Refused>,
}

/// Why a file was left as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refused {
    /// Its path below the mount.
    pub path: String,
    /// Why, and what to do.
    pub reason: String,
}

/// One file as Lustre's HSM would see it, and more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileState {
    /// There is a copy in the bucket, maybe an old one.
    pub exists: bool,
    /// The file changed since that copy.
    pub dirty: bool,
    /// Some bytes are in the bucket only.
    pub released: bool,
    /// The copy in the bucket is the file.
    pub archived: bool,
    /// It is pinned: never released.
    pub pinned: bool,
    /// Its object went from the bucket behind our back: what is not here is lost.
    pub lost: bool,
    /// Bytes of the file.
    pub size: u64,
    /// Bytes of it that are here, in whole pages.
    pub resident_bytes: u64,
    /// URL of its object, for a file of a link.
    pub object: Option<String>,
    /// The action that works on it or will.
    pub action: Option<ActionId>,
}

impl Engine {
    /// Begins an action; one commit. `Invalid` for a directory without `recursive`, `NotFound` if
    /// a root is not there.
    pub async fn start_action(&self, request: ActionRequest) -> Result<ActionView> {
        let core = &self.core;
        if request.kind == ActionKind::Archive {
            core.check_writable()?;
        }
        core.check_roots(&request.roots, request.recursive).await?;
        core.add_action(request).await
    }

    /// All actions that run, wait, or ended of late, oldest first.
    pub async fn actions(&self) -> Result<Vec<ActionView>> {
        Ok(self.core.actions.all().iter().map(|action| action.view()).collect())
    }

    /// One action; `NotFound` if there is none of this name.
    pub async fn action(&self, id: ActionId) -> Result<ActionView> {
        Ok(self.core.actions.find(id)?.view())
    }

    /// Returns the action once it has ended, or as it stands after `wait_ms`.
    pub async fn wait_for_action(&self, id: ActionId, wait_ms: u64) -> Result<ActionView> {
        let action = self.core.actions.find(id)?;
        let _ = tokio::time::timeout(Duration::from_millis(wait_ms), action.end()).await;
        Ok(action.view())
    }

    /// Stops an action; one commit. What it did stays done, and what is on its way still comes.
    pub async fn cancel_action(&self, id: ActionId) -> Result<ActionView> {
        let action = self.core.actions.find(id)?;
        self.core.end_action(&action, true).await?;
        Ok(action.view())
    }

    /// Pins files, so that they are never released, or unpins them. Answers how many there were.
    /// With `recursive` those that are below a directory now. One commit for each 512 files.
    pub async fn pin(&self, roots: &[Root], recursive: bool, pinned: bool) -> Result<u64> {
        let core = &self.core;
        core.check_writable()?;
        core.check_roots(roots, recursive).await?;
        core.set_pins(roots, recursive, pinned).await
    }

    /// How a regular file stands. One read of the metadata; more for files with holes, and for
    /// those that an action may have to do with.
    pub async fn file_state(&self, ino: Ino) -> Result<FileState> {
        self.core.state_of(ino).await
    }
}

impl Core {
    async fn check_roots(&self, roots: &[Root], recursive: bool) -> Result<()> {
        if roots.is_empty() {
            return Err(FsError::new(ErrorKind::Invalid, "no file or directory is named"));
        }
        for root in roots {
            let inode = self.stored(root.ino).await?;
            if inode.kind == FileKind::Directory && !recursive {
                let text = format!("{} is a directory: say so with -r", root.path);
                return Err(FsError::new(ErrorKind::Invalid, text));
            }
        }
        Ok(())
    }
}
