//! The advisory locks of files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_engine::LockView;

use super::call::call;

/// Why nothing is told where nobody shares the volume.
pub(crate) const ALONE: &str = "nobody has the volume mounted with --shared: a mount that has it alone leaves \
                                locks to the kernel, and `lslocks` on its machine lists them";

/// Who holds which advisory lock of a file, and who waits for one, by path, over all nodes that share the
/// volume. Refused by a mount that has it alone: there the kernel keeps them.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetLocks {}
call!(Get "/v1/locks", GetLocks => Vec<LockView>);
