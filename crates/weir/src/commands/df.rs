//! `weir df`: how much a volume holds, and how much of it is here.

use std::process::ExitCode;

use serde_json::json;
use weir_types::{Bytes, Result};

use crate::cli::DirJsonArgs;
use crate::client::Client;
use crate::render;

pub(crate) async fn run(args: DirJsonArgs) -> Result<ExitCode> {
    let status = Client::at(&args.dir)?.status().await?;
    let tier = &status.tier;
    if args.json {
        render::say_json(&json!({
            "volume": status.volume,
            "files": status.files,
            "stored_bytes": status.stored_bytes,
            "tier_bytes": tier.tier_bytes,
            "tier_used_bytes": tier.used_bytes,
            "tier_dirty_bytes": tier.dirty_bytes,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let row = |what: &str, size: u64, note: String| {
        vec![what.to_owned(), Bytes(size).to_string(), note]
    };
    let percent = tier.used_bytes * 100 / tier.tier_bytes.max(1);
    let rows = [
        row("files in the bucket", status.stored_bytes, format!("{} files", status.files)),
        row("not there yet", tier.dirty_bytes, "dirty, in the tier only".to_owned()),
        row("tier", tier.used_bytes, format!("{percent}% of {}", Bytes(tier.tier_bytes))),
    ];
    render::say(&format!("{}\n{}", render::heading(&status.volume), render::table(&rows, 1)))?;
    Ok(ExitCode::SUCCESS)
}
