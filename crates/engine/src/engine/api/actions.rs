//! What is asked for whole trees.

use weir_types::{Ino, Result};

use crate::engine::Engine;
use crate::services::actions::{ActionId, ActionRequest, ActionView, FileState, Root};

impl Engine {
    /// Begins an action; one commit. `Invalid` for a directory without `recursive`, `NotFound` if
    /// a root is not there.
    pub async fn start_action(&self, request: ActionRequest) -> Result<ActionView> {
        self.actions.start_action(request).await
    }

    /// All actions that run, wait, or ended of late, oldest first.
    pub async fn actions(&self) -> Result<Vec<ActionView>> {
        self.actions.actions().await
    }

    /// One action; `NotFound` if there is none of this name.
    pub async fn action(&self, id: ActionId) -> Result<ActionView> {
        self.actions.action(id).await
    }

    /// Returns the action once it has ended, or as it stands after `wait_ms`.
    pub async fn wait_for_action(&self, id: ActionId, wait_ms: u64) -> Result<ActionView> {
        self.actions.wait_for_action(id, wait_ms).await
    }

    /// Stops an action; one commit. What it did stays done, and what is on its way still comes.
    pub async fn cancel_action(&self, id: ActionId) -> Result<ActionView> {
        self.actions.cancel_action(id).await
    }

    /// Pins files, so that they are never released, or unpins them. Answers how many there were.
    /// With `recursive` those that are below a directory now. One commit for each 512 files.
    pub async fn pin(&self, roots: &[Root], recursive: bool, pinned: bool) -> Result<u64> {
        self.actions.pin(roots, recursive, pinned).await
    }

    /// How a regular file stands. One read of the metadata; more for files with holes, and for
    /// those that an action may have to do with.
    pub async fn file_state(&self, ino: Ino) -> Result<FileState> {
        self.actions.file_state(ino).await
    }
}
