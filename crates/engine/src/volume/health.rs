//! Whether the database of the metadata answers, kept until somebody asks.

use std::time::Instant;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_types::{ErrorKind, Result};

/// Where the metadata is, and how it does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MetadataStatus {
    /// `slate`: in the volume's first bucket, whose troubles are its own; else the URL of the
    /// database, without a password.
    pub place: String,
    /// What its database did not answer: none has been answered since.
    pub trouble: Option<MetadataTrouble>,
}

/// Calls to a database that were not answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MetadataTrouble {
    /// What the last of them met.
    pub error: String,
    /// Milliseconds since the first of them began.
    pub since_ms_ago: u64,
    /// How many there were.
    pub failures: u64,
}

struct Row {
    error: String,
    began: Instant,
    failures: u64,
}

/// The calls to a database that failed since one was answered.
#[derive(Default)]
pub(crate) struct Health {
    row: Mutex<Option<Row>>,
}

impl Health {
    /// Notes what became of a call that began at `began`.
    pub(crate) fn note<T>(&self, began: Instant, result: &Result<T>) {
        let mut row = self.row.lock();
        let failed = result.as_ref().err().filter(|error| error.kind() == ErrorKind::Retry);
        match (failed, &mut *row) {
            (None, None) => {}
            (None, Some(Row { began, failures, .. })) => {
                let (seconds, failures) = (began.elapsed().as_secs(), *failures);
                *row = None;
                drop(row);
                tracing::info!(failures, seconds, "the metadata's database answers again");
            }
            (Some(error), Some(row)) => {
                row.error = error.to_string();
                row.failures += 1;
            }
            (Some(error), None) => {
                *row = Some(Row { error: error.to_string(), began, failures: 1 });
                drop(row);
                tracing::warn!(%error, "the metadata's database does not answer");
            }
        }
    }

    /// What is wrong now.
    pub(crate) fn trouble(&self) -> Option<MetadataTrouble> {
        let row = self.row.lock();
        row.as_ref().map(|Row { error, began, failures }| MetadataTrouble {
            error: error.clone(),
            since_ms_ago: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            failures: *failures,
        })
    }
}

#[cfg(test)]
mod tests {
    use weir_types::FsError;

    use super::*;

    #[test]
    fn trouble_lasts_until_a_call_is_answered() {
        let health = Health::default();
        let failed = |kind| Err::<(), _>(FsError::new(kind, format!("{kind:?}")));
        health.note(Instant::now(), &failed(ErrorKind::NotFound));
        assert_eq!(health.trouble(), None, "an answer");
        health.note(Instant::now(), &failed(ErrorKind::Retry));
        health.note(Instant::now(), &failed(ErrorKind::Retry));
        let trouble = health.trouble().expect("told");
        assert_eq!((trouble.error.as_str(), trouble.failures), ("Retry", 2));
        health.note(Instant::now(), &Ok(()));
        assert_eq!(health.trouble(), None);
    }
}
