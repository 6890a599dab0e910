//! What a bucket refuses, kept until somebody asks: by who asked and what was asked, the last
//! failure, and since when and how often in a row.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{Component, RequestKind};

/// A row of failures is told of in the log when it lasts this long, and then at each doubling.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// Requests that failed, the last of them at least.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trouble {
    /// Who asked.
    pub component: Component,
    /// What was asked.
    pub kind: RequestKind,
    /// What the last attempt that failed met.
    pub error: String,
    /// Milliseconds since then.
    pub last_ms_ago: u64,
    /// Milliseconds since the first attempt of the row began.
    pub since_ms_ago: u64,
    /// Attempts in a row that failed.
    pub failures: u64,
    /// Whether none has succeeded since.
    pub lasting: bool,
}

struct Row {
    error: String,
    began: Instant,
    last: Instant,
    failures: u64,
    lasting: bool,
    /// When to tell of it next.
    tell: Duration,
}

/// The rows of failures of a bucket's users.
#[derive(Default)]
pub(crate) struct Troubles {
    rows: Mutex<BTreeMap<(Component, RequestKind), Row>>,
}

impl Troubles {
    /// An attempt that began at `began` failed.
    pub(crate) fn failed(
        &self,
        component: Component,
        kind: RequestKind,
        began: Instant,
        error: &impl ToString,
    ) {
        let now = Instant::now();
        let mut rows = self.rows();
        let fresh = || Row {
            error: String::new(),
            began,
            last: now,
            failures: 0,
            lasting: false,
            tell: TELL_AFTER,
        };
        let row = rows.entry((component, kind)).or_insert_with(fresh);
        if !row.lasting {
            *row = Row { lasting: true, ..fresh() };
        }
        (row.error, row.last) = (error.to_string(), now);
        row.failures += 1;
        let lasted = now - row.began;
        if lasted >= row.tell {
            row.tell = lasted * 2;
            let (seconds, failures, error) = (lasted.as_secs(), row.failures, row.error.clone());
            drop(rows);
            tracing::warn!(
                ?component,
                ?kind,
                failures,
                seconds,
                error,
                "the bucket fails: tried again"
            );
        }
    }

    /// An attempt was answered.
    pub(crate) fn answered(&self, component: Component, kind: RequestKind) {
        let mut rows = self.rows();
        let Some(row) = rows.get_mut(&(component, kind)).filter(|row| row.lasting) else { return };
        row.lasting = false;
        if row.tell > TELL_AFTER {
            let (seconds, failures) = (row.began.elapsed().as_secs(), row.failures);
            drop(rows);
            tracing::info!(?component, ?kind, failures, seconds, "the bucket answers again");
        }
    }

    /// All rows, those that are over too.
    pub(crate) fn all(&self) -> Vec<Trouble> {
        let ms = |at: Instant| u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX);
        let rows = self.rows();
        let told = rows.iter().map(|((component, kind), row)| Trouble {
            component: *component,
            kind: *kind,
            error: row.error.clone(),
            last_ms_ago: ms(row.last),
            since_ms_ago: ms(row.began),
            failures: row.failures,
            lasting: row.lasting,
        });
        told.collect()
    }

    fn rows(&self) -> MutexGuard<'_, BTreeMap<(Component, RequestKind), Row>> {
        self.rows.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_last_failure_is_kept_with_its_row_and_stays_when_it_is_over() {
        let troubles = Troubles::default();
        let began = Instant::now();
        for n in 0..5 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            troubles.failed(Component::Data, RequestKind::Put, began, &format!("refused {n}"));
        }
        troubles.answered(Component::Data, RequestKind::Get);
        tokio::time::sleep(Duration::from_secs(2)).await;
        let told = troubles.all();
        assert_eq!(told.len(), 1);
        let Trouble { error, last_ms_ago, since_ms_ago, failures, lasting, .. } = told[0].clone();
        assert_eq!((error.as_str(), last_ms_ago, since_ms_ago), ("refused 4", 2_000, 7_000));
        assert_eq!((failures, lasting), (5, true));
        troubles.answered(Component::Data, RequestKind::Put);
        assert!(!troubles.all()[0].lasting);
        troubles.failed(Component::Data, RequestKind::Put, Instant::now(), &"again");
        assert_eq!(troubles.all()[0].failures, 1, "another row");
    }
}
