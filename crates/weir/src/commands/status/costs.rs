//! What a mount has cost, as `weir bill` has it, in two lines.

use std::time::Duration;

use weir_cost::PriceBook;
use weir_engine::Period;
use weir_types::{Bytes, Result};

use crate::api::{GetUsed, StatusAnswer};
use crate::bill::{cost_of, month_of_storage, sum};
use crate::client::Client;

const NOT_TOLD: &str = "not known: the metadata does not answer";
/// How long what was used may take to be told.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a daemon says.
pub(super) struct Asked {
    pub(super) status: StatusAnswer,
    /// What was used since the mount; nothing where it is not told in time, or not asked for.
    pub(super) used: Option<Period>,
}

impl Asked {
    /// A status is told whatever is away; what costs are made of is in the metadata.
    pub(super) async fn of(client: &Client, with_costs: bool) -> Result<Self> {
        let status = client.status().await?;
        if !with_costs {
            return Ok(Self { status, used: None });
        }
        let call = GetUsed { since_unix_ms: None, node: true };
        let used = tokio::time::timeout(PATIENCE, client.call(&call)).await;
        Ok(Self { status, used: used.ok().and_then(Result::ok) })
    }
}

pub(super) fn costs(asked: &Asked, region: &str) -> Vec<Vec<String>> {
    let Asked { status, used } = asked;
    let book = PriceBook::built_in();
    let prices = book.at(region);
    let stored_bytes = status.engine.billed_bytes();
    let size = Bytes(stored_bytes);
    let what = match status.engine.bucket_bytes {
        Some(_) => "in the bucket, compressed, with what is not collected yet",
        None => "before compression: what is in the bucket is not known",
    };
    let (since, month) = match used {
        Some(used) => (
            cost_of(used, prices).to_string(),
            month_of_storage(stored_bytes, used, prices).to_string(),
        ),
        None => (NOT_TOLD.to_owned(), NOT_TOLD.to_owned()),
    };
    let linked = match used.as_ref().map_or(0, |used| sum(used.used.linked_bytes)) {
        0 => String::new(),
        bytes => format!(", and of {} in linked buckets", Bytes(bytes)),
    };
    vec![
        vec!["since the mount".to_owned(), since],
        vec![format!("storage of {size} a month ({what}){linked}"), month],
    ]
}
