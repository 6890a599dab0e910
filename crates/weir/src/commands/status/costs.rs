//! What a mount has cost, as `weir bill` has it, in two lines.

use weir_cost::PriceBook;
use weir_engine::Period;
use weir_types::{Bytes, Result};

use super::row;
use crate::api::{GetUsed, StatusAnswer};
use crate::bill::{cost_of, month_of_storage};
use crate::client::Client;

/// What a daemon says.
pub(super) struct Asked {
    pub(super) status: StatusAnswer,
    /// What was used since the mount.
    pub(super) used: Period,
}

impl Asked {
    pub(super) async fn of(client: &Client) -> Result<Self> {
        let status = client.status().await?;
        let used = client.call(&GetUsed { since_unix_ms: None, node: true }).await?;
        Ok(Self { status, used })
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
    vec![
        row(["since the mount", &cost_of(used, prices).to_string()]),
        row([
            &format!("storage of {size} a month ({what})"),
            &month_of_storage(stored_bytes, used, prices).to_string(),
        ]),
    ]
}
