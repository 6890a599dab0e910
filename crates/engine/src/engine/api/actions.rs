//! What is asked for whole trees.

use weir_types::{Ino, Result};

use crate::engine::Engine;
use crate::services::actions::{ActionId, ActionRequest, ActionView, FileState, Root};
use crate::volume::boxed::{Boxed, boxed};

impl Engine {
    /// Begins an action; one commit. `Invalid` for a directory without `recursive`, `NotFound` if
    /// a root is not there.
    pub fn start_action(&self, request: ActionRequest) -> Boxed<'_, Result<ActionView>> {
        boxed(self.actions.start_action(request))
    }

    /// Begins a hydration that is divided among the nodes that share the volume; with `everywhere` each of them does
    /// all of it. Answers the actions of the group. One commit. `Unsupported` on a mount that shares the volume with
    /// nobody, `Retry` before it has seen the others, else as [`Engine::start_action`].
    pub fn start_spread(
        &self,
        request: ActionRequest,
        everywhere: bool,
    ) -> Boxed<'_, Result<Vec<ActionView>>> {
        boxed(self.actions.start_spread(request, everywhere))
    }

    /// All actions that run, wait, or ended of late, oldest first.
    pub fn actions(&self) -> Boxed<'_, Result<Vec<ActionView>>> {
        boxed(self.actions.actions())
    }

    /// One action; `NotFound` if there is none of this name.
    pub fn action(&self, id: ActionId) -> Boxed<'_, Result<ActionView>> {
        boxed(self.actions.action(id))
    }

    /// Returns the action once it has ended, or as it stands after `wait_ms`.
    pub fn wait_for_action(&self, id: ActionId, wait_ms: u64) -> Boxed<'_, Result<ActionView>> {
        boxed(self.actions.wait_for_action(id, wait_ms))
    }

    /// Stops an action, and all others of its group; one commit for each. What it did stays done, and what is on its way still comes.
    pub fn cancel_action(&self, id: ActionId) -> Boxed<'_, Result<ActionView>> {
        boxed(self.actions.cancel_action(id))
    }

    /// Pins files, so that they are never released, or unpins them. Answers how many there were.
    /// With `recursive` those that are below a directory now. One commit for each 512 files.
    pub fn pin<'a>(
        &'a self,
        roots: &'a [Root],
        recursive: bool,
        pinned: bool,
    ) -> Boxed<'a, Result<u64>> {
        boxed(self.actions.pin(roots, recursive, pinned))
    }

    /// How a regular file stands. One read of the metadata; more for files with holes, and for
    /// those that an action may have to do with.
    pub fn file_state(&self, ino: Ino) -> Boxed<'_, Result<FileState>> {
        boxed(self.actions.file_state(ino))
    }
}
