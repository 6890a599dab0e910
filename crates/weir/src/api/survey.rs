//! How much is where.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_engine::Survey;

use super::call::call;

/// How much is below the directories, and how much of it is here. It is looked at when somebody asks,
/// and not twice in a minute.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetSurvey {}
call!(Get "/v1/survey", GetSurvey => Survey);
