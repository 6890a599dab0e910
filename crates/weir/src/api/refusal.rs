//! Errors as answers.

use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_types::{ErrorCode, ErrorKind, FsError};

/// What a daemon answers where it cannot do what was asked, with an HTTP status of 4xx or 5xx.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Refusal {
    /// What failed, why, and what to do.
    pub(crate) error: String,
    /// Its name in docs/errors.md, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<String>,
}

/// Each status, and the kind that a client makes of it: the first of its row.
const STATUSES: [(StatusCode, &[ErrorKind]); 7] = [
    (
        StatusCode::CONFLICT,
        &[ErrorKind::Retry, ErrorKind::Conflict, ErrorKind::Exists, ErrorKind::WouldBlock],
    ),
    (StatusCode::NOT_FOUND, &[ErrorKind::NotFound]),
    (StatusCode::BAD_REQUEST, &[ErrorKind::Invalid, ErrorKind::IsDirectory]),
    (StatusCode::FORBIDDEN, &[ErrorKind::Permission, ErrorKind::ReadOnly]),
    (StatusCode::NOT_IMPLEMENTED, &[ErrorKind::Unsupported]),
    (StatusCode::INSUFFICIENT_STORAGE, &[ErrorKind::NoSpace, ErrorKind::Quota]),
    (StatusCode::INTERNAL_SERVER_ERROR, &[ErrorKind::Retry]),
];

impl Refusal {
    /// An error, and the status that it goes with.
    pub(crate) fn of(error: &FsError) -> (StatusCode, Self) {
        let row = STATUSES.iter().find(|(_, kinds)| kinds.contains(&error.kind()));
        let status = row.map_or(StatusCode::INTERNAL_SERVER_ERROR, |(status, _)| *status);
        (status, Self { error: error.to_string(), code: error.code().map(|code| code.to_string()) })
    }

    /// The error that a daemon meant.
    pub(crate) fn into_error(self, status: StatusCode) -> FsError {
        let row = STATUSES.iter().find(|(known, _)| *known == status);
        let kind = row.and_then(|(_, kinds)| kinds.first()).copied().unwrap_or(ErrorKind::Retry);
        let error = FsError::new(kind, self.error);
        match self.code.as_deref().and_then(ErrorCode::of) {
            Some(code) => error.coded(code),
            None => error,
        }
    }
}
