//! `weir flush`: everything to the bucket, with what it waits for.

use std::process::ExitCode;

use weir_object::Trouble;
use weir_types::{Bytes, Result};

use crate::api::{Flush, StatusAnswer};
use crate::cli::DirArgs;
use crate::client::Client;
use crate::progress::{Progress, Unit};
use crate::render::seconds;

pub(crate) async fn run(args: DirArgs) -> Result<ExitCode> {
    let client = Client::at(&args.dir)?;
    let flushing = client.call(&Flush {});
    tokio::select! {
        done = flushing => done.map(drop)?,
        never = show_what_is_left(&client) => never,
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows how much is not in the bucket yet, and why that lasts; never ends.
pub(super) async fn show_what_is_left(client: &Client) {
    let mut progress = Progress::new(Unit::Bytes);
    let mut most = 0;
    loop {
        tokio::time::sleep(progress.interval()).await;
        if let Ok(status) = client.status().await {
            let left = status.engine.tier.dirty_bytes;
            most = most.max(left);
            progress.show(most - left, Some(most), &what_is_left(&status));
        }
    }
}

fn what_is_left(status: &StatusAnswer) -> String {
    let left = Bytes(status.engine.tier.dirty_bytes);
    let left = match &status.waits_for {
        Some(what) => format!("waiting for {what}; {left} left to flush"),
        None => format!("flushing, {left} left"),
    };
    match status.engine.troubles.iter().find(|trouble| trouble.lasting) {
        None => left,
        Some(trouble) => format!("{left}; the bucket fails: {}", describe(trouble)),
    }
}

/// A row of requests that failed, in words.
pub(super) fn describe(trouble: &Trouble) -> String {
    let Trouble { component, kind, error, last_ms_ago, since_ms_ago, failures, lasting } = trouble;
    let name = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
    let over = if *lasting { "" } else { ", answered since" };
    format!(
        "{} {}: {failures} attempts failed since {} ago, the last {} ago{over}: {error}",
        name(component),
        name(kind).to_uppercase(),
        seconds(since_ms_ago / 1_000),
        seconds(last_ms_ago / 1_000)
    )
}

#[cfg(test)]
mod tests {
    use weir_object::{Component, RequestKind};

    use super::*;

    #[test]
    fn a_trouble_says_what_when_and_how_often() {
        let trouble = Trouble {
            component: Component::Data,
            kind: RequestKind::Put,
            error: "503 Slow Down".to_owned(),
            last_ms_ago: 2_000,
            since_ms_ago: 75_000,
            failures: 12,
            lasting: true,
        };
        let text = describe(&trouble);
        for part in ["data PUT", "12 attempts", "503 Slow Down", "2 s ago"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(describe(&Trouble { lasting: false, ..trouble }).contains("answered since"));
    }
}
