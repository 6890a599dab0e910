//! Actions, pins and states of files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_engine::{ActionId, ActionRequest, ActionView, FileState, Root};
use weir_types::Ino;

use super::call::call;

/// All actions, oldest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListActions {}
call!(Get "/v1/actions", ListActions => Vec<ActionView>);

/// Begins an action.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct StartAction(pub(crate) ActionRequest);
call!(Post "/v1/actions/start", StartAction => ActionView);

/// Begins a hydration that is divided among the nodes that share the volume. Answers its actions, one for each node.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartSpread {
    /// What is asked for: of kind `hydrate`. Its rate is that of all nodes together.
    pub(crate) request: ActionRequest,
    /// Each node does all of it.
    #[serde(default)]
    pub(crate) everywhere: bool,
}
call!(Post "/v1/actions/spread", StartSpread => Vec<ActionView>);

/// An action once it has ended, or as it stands after a while.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetAction {
    /// Which one.
    pub(crate) id: ActionId,
    /// How long to wait for its end: a minute at most.
    #[serde(default)]
    pub(crate) wait_ms: u64,
}
call!(Get "/v1/actions/show", GetAction => ActionView);

/// Stops an action.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancel {
    /// Which one.
    pub(crate) id: ActionId,
}
call!(Post "/v1/actions/cancel", Cancel => ActionView);

/// Keeps files in the tier, or no longer.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pin {
    /// The files and directories.
    pub(crate) roots: Vec<Root>,
    /// Directories with all files that are below them now.
    pub(crate) recursive: bool,
    /// Whether they are pinned from now on.
    pub(crate) pinned: bool,
}
call!(Post "/v1/pin", Pin => Pinned);

/// What came of a [`Pin`].
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Pinned {
    /// How many files were pinned or unpinned.
    pub(crate) files: u64,
}

/// How files stand, an answer for each in their order: `null` for a file that is gone.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetStates {
    /// Their inode numbers.
    pub(crate) inos: Vec<Ino>,
}
call!(Post "/v1/states", GetStates => Vec<Option<FileState>>);
