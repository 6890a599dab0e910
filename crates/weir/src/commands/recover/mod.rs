//! `weir recover`: what was set aside, and what becomes of it.

mod describe;

use std::future::Future;
use std::process::ExitCode;

use weir_engine::AsideView;
use weir_types::{Bytes, ErrorKind, FsError, Result};

use crate::api::{DiscardAside, ExtractAside, GetRecoverProgress, ListAside, MergeAside};
use crate::cli::RecoverArgs;
use crate::client::Client;
use crate::progress::{Progress, Unit};
use crate::{ask, paths, render};

pub(crate) async fn run(args: RecoverArgs) -> Result<ExitCode> {
    let client = Client::at(&args.dir)?;
    let label = args.label.as_deref();
    if args.merge {
        return merge(&client, &args).await;
    }
    if let Some(directory) = &args.extract {
        let directory = paths::real(directory)?;
        let report = {
            let label = args.label.clone();
            let call = ExtractAside { label, directory };
            shown(&client, client.call(&call)).await?
        };
        match args.json {
            true => render::say_json(&report)?,
            false => render::say(&describe::extracted(&report))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut entries = client.call(&ListAside {}).await?;
    if let Some(label) = label {
        entries.retain(|entry| entry.label == label);
        if entries.is_empty() {
            let text = format!("nothing is set aside as `{label}`: see `weir recover`");
            return Err(FsError::new(ErrorKind::NotFound, text));
        }
    }
    if args.discard {
        return discard(&client, &args, &entries).await;
    }
    match args.json {
        true => render::say_json_rows(&entries)?,
        false => render::say(&describe::list(&entries, &args.dir))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn merge(client: &Client, args: &RecoverArgs) -> Result<ExitCode> {
    let call = MergeAside { label: args.label.clone() };
    let report = shown(client, client.call(&call)).await?;
    match args.json {
        true => render::say_json(&report)?,
        false => render::say(&describe::merged(&report, &args.dir))?,
    }
    Ok(if report.left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn discard(client: &Client, args: &RecoverArgs, entries: &[AsideView]) -> Result<ExitCode> {
    if !args.json {
        render::say(&describe::list(entries, &args.dir))?;
    }
    if !args.yes && !ask::yes("Remove this for good?", "this removes data for good")? {
        return Ok(ExitCode::FAILURE);
    }
    for entry in entries {
        client.call(&DiscardAside { label: entry.label.clone() }).await?;
    }
    match args.json {
        true => render::say_json_rows(entries)?,
        false => render::say("gone\n")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits for the daemon's answer, and shows how far it is.
async fn shown<T>(client: &Client, work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut progress = Progress::new(Unit::Bytes);
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(progress.interval()) => {}
        }
        // Beside the answer this is nothing to fail over.
        if let Ok(now) = client.call(&GetRecoverProgress {}).await {
            let beside = format!(
                "{} of {} files, {} of {}",
                now.files,
                now.files_total,
                Bytes(now.bytes),
                Bytes(now.bytes_total)
            );
            progress.show(now.bytes, Some(now.bytes_total), &beside);
        }
    }
}
