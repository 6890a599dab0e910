//! `weir df`: how much a volume holds, and how much of it is here.

use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use weir_types::{Bytes, Result};

use crate::api::GetSnapshotTotals;
use crate::cli::DirJsonArgs;
use crate::client::Client;
use crate::render;

/// What a volume holds, and how much of it is here.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DfReport")]
pub(super) struct Report {
    /// Its URL.
    volume: String,
    /// Files in it.
    files: u64,
    /// Bytes of them in the bucket.
    stored_bytes: u64,
    /// How many snapshots there are.
    snapshots: u64,
    /// Bytes of objects that only they hold: what deleting all of them gives back.
    snapshot_bytes: u64,
    /// What the tier may take, by its setting.
    tier_bytes: u64,
    /// What it may take now, as its disk is.
    tier_limit_bytes: u64,
    /// What it takes.
    tier_used_bytes: u64,
    /// Bytes of that which are not in the bucket yet.
    tier_dirty_bytes: u64,
}

pub(crate) async fn run(args: DirJsonArgs) -> Result<ExitCode> {
    let client = Client::at(&args.dir)?;
    let status = client.status().await?;
    let held = client.call(&GetSnapshotTotals {}).await?;
    let tier = &status.engine.tier;
    if args.json {
        render::say_json(&Report {
            volume: status.engine.volume,
            files: status.engine.files,
            stored_bytes: status.engine.stored_bytes,
            snapshots: held.snapshots,
            snapshot_bytes: held.bytes,
            tier_bytes: tier.tier_bytes,
            tier_limit_bytes: tier.limit_bytes,
            tier_used_bytes: tier.used_bytes,
            tier_dirty_bytes: tier.dirty_bytes,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let percent = tier.used_bytes * 100 / tier.limit_bytes.max(1);
    let [stored, dirty, used, limit] =
        [status.engine.stored_bytes, tier.dirty_bytes, tier.used_bytes, tier.limit_bytes]
            .map(Bytes);
    let row = |name: &str, text: String| vec![name.to_owned(), text];
    let mut rows =
        vec![row("files in the bucket", format!("{stored} in {} files", status.engine.files))];
    if held.snapshots > 0 {
        let text = format!("{} in objects that only {} hold", Bytes(held.bytes), held.snapshots);
        rows.push(row("snapshots", text));
    }
    rows.push(row("not there yet", format!("{dirty}, dirty in the tier")));
    rows.push(row("tier", format!("{used}, {percent}% of {limit}")));
    render::say(&format!(
        "{}\n{}",
        render::heading(&status.engine.volume),
        render::table(&rows, 2)
    ))?;
    Ok(ExitCode::SUCCESS)
}
