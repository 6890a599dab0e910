//! The advisory locks of files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_engine::LockView;

use super::call::call;

/// Who holds which advisory lock of a file, and who waits for one, by path: over all nodes where some share
/// the volume.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetLocks {}
call!(Get "/v1/locks", GetLocks => Vec<LockView>);
