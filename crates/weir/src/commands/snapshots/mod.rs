//! `weir snapshot`: makes, lists, holds and deletes snapshots of a volume.
//!
//! Where a daemon of this machine has the volume it does the work. Else the volume is opened for the
//! moment, as for [`super::disks`].

pub(super) mod asked;
mod describe;
mod difference;
pub(super) mod restore;

use std::process::ExitCode;

use serde_json::json;
use weir_engine::{DiffOptions, SnapshotOptions, SnapshotView};
use weir_types::Result;

use crate::cli::{
    CreateSnapshotArgs, DiffArgs, NamedSnapshotsArgs, Rules, ScheduleArgs, SnapshotCommand,
    SnapshotPlaceArgs,
};
use crate::progress::{Progress, Unit};
use crate::{clock, render};
use asked::Asked;

pub(crate) async fn run(command: SnapshotCommand) -> Result<ExitCode> {
    match command {
        SnapshotCommand::Create(args) => create(args).await,
        SnapshotCommand::List(args) => list(&args).await,
        SnapshotCommand::Diff(args) => diff(args).await,
        SnapshotCommand::Delete(args) => delete(&args).await,
        SnapshotCommand::Hold(args) => hold(&args, true).await,
        SnapshotCommand::Release(args) => hold(&args, false).await,
        SnapshotCommand::Dump(args) => dump(&args).await,
        SnapshotCommand::Schedule(args) => schedule(args).await,
    }
}

async fn create(args: CreateSnapshotArgs) -> Result<ExitCode> {
    let CreateSnapshotArgs { place, name, no_flush } = args;
    let options = SnapshotOptions { name, flush: !no_flush, rule: None };
    let asked = Asked::at(&place, false).await?;
    let dir = asked.dir();
    let made = asked.create(options).await?;
    match place.json {
        true => render::say_json(&made)?,
        false => render::say(&describe::created(&made, dir.as_deref()))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(place: &SnapshotPlaceArgs) -> Result<ExitCode> {
    let all = Asked::at(place, true).await?.list().await?;
    match place.json {
        true => render::say_json_rows(&all)?,
        false => render::say(&describe::list(&all, &place.place, (clock::real().now)()))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn delete(args: &NamedSnapshotsArgs) -> Result<ExitCode> {
    let NamedSnapshotsArgs { place, names } = args;
    Asked::at(place, false).await?.delete(names).await?;
    match place.json {
        true => render::say_json(&json!({ "deleted": names }))?,
        false => {
            let lines = names.iter().map(|name| format!("{name} is deleted\n"));
            render::say(&lines.collect::<String>())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn hold(args: &NamedSnapshotsArgs, held: bool) -> Result<ExitCode> {
    let NamedSnapshotsArgs { place, names } = args;
    let done: Vec<SnapshotView> = Asked::at(place, false).await?.hold(names, held).await?;
    match place.json {
        true => render::say_json_rows(&done)?,
        false => {
            let says = if held { "is held: nobody can delete it" } else { "can be deleted" };
            let lines = done.iter().map(|one| format!("{} {says}\n", one.name));
            render::say(&lines.collect::<String>())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn dump(args: &NamedSnapshotsArgs) -> Result<ExitCode> {
    let NamedSnapshotsArgs { place, names } = args;
    let done: Vec<SnapshotView> = Asked::at(place, false).await?.dump(names).await?;
    match place.json {
        true => render::say_json_rows(&done)?,
        false => {
            let lines = done.iter().map(|one| format!("the metadata of {} is dumped\n", one.name));
            render::say(&lines.collect::<String>())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn schedule(args: ScheduleArgs) -> Result<ExitCode> {
    let ScheduleArgs { place, rules, dump } = args;
    let asked = Asked::at(&place, rules.is_none()).await?;
    let view = asked.schedule(rules.map(|Rules(rules)| (rules, dump))).await?;
    match place.json {
        true => render::say_json(&view)?,
        false => {
            render::say(&describe::schedule(&view, &place.place, (clock::real().now)()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn diff(args: DiffArgs) -> Result<ExitCode> {
    let DiffArgs { place, before, after } = args;
    let options = DiffOptions { before, after, from: None };
    let mut progress = Progress::new(Unit::Objects);
    let seen = |names: u64, files: u64| {
        let beside = format!("{names} of about {files} names compared");
        progress.show(names, Some(files.max(names)), &beside);
    };
    let found = Asked::at(&place, true).await?.diff(options, seen).await?;
    drop(progress);
    let all = difference::with_renames(found);
    match place.json {
        true => render::say_json_rows(&all)?,
        false => render::say(&difference::lines(&all))?,
    }
    Ok(ExitCode::SUCCESS)
}
