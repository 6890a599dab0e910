//! Who is asked for what is to be done with snapshots: a daemon, or the volume itself.

use std::path::{Path, PathBuf};

use weir_engine::{
    BucketUrl, DiffOptions, DiffPage, DifferenceView, DumpingView, ScheduleView, SnapshotOptions,
    SnapshotRule, SnapshotView,
};
use weir_types::{FsError, Result};

use crate::api::{
    CreateSnapshot, DeleteSnapshot, DiffSnapshots, DumpSnapshot, GetSnapshotSchedule, HoldSnapshot,
    ListDumping, ListSnapshots, SetSnapshotSchedule,
};
use crate::cli::SnapshotPlaceArgs;
use crate::client::Client;
use crate::commands::temporary_mount::TemporaryMount;
use crate::progress::{Progress, Unit};

/// Who has the volume.
pub(crate) enum Asked {
    /// A daemon, and where that has it mounted.
    Daemon(Client, Option<PathBuf>),
    /// Nobody: it is opened for the moment.
    Opened(Box<TemporaryMount>),
}

impl Asked {
    /// Who has the volume at a URL, or the one in which a directory lies.
    pub(crate) async fn at(args: &SnapshotPlaceArgs, read_only: bool) -> Result<Self> {
        let place = &args.place;
        if !place.contains("://") {
            let real = std::fs::canonicalize(Path::new(place));
            let real = real.map_err(|error| FsError::local_io(place, error))?;
            let (client, dir) = Client::holding(&real)?;
            return Ok(Asked::Daemon(client, Some(dir.to_owned())));
        }
        let url: BucketUrl = place.parse()?;
        let found = Client::having(&url).await;
        match found.filter(|(_, status)| read_only || !status.engine.read_only) {
            Some((client, _)) => Ok(Asked::Daemon(client, None)),
            None => {
                let mount = TemporaryMount::open(&url, &args.connect, read_only).await?;
                Ok(Asked::Opened(Box::new(mount)))
            }
        }
    }

    /// Where it is mounted.
    pub(super) fn dir(&self) -> Option<PathBuf> {
        match self {
            Asked::Daemon(_, dir) => dir.clone(),
            Asked::Opened(_) => None,
        }
    }

    pub(crate) async fn create(self, options: SnapshotOptions) -> Result<SnapshotView> {
        match self {
            Asked::Daemon(client, _) => client.call(&CreateSnapshot(options)).await,
            Asked::Opened(mount) => {
                mount.run(async |engine| engine.create_snapshot(&options).await).await
            }
        }
    }

    pub(super) async fn list(self) -> Result<Vec<SnapshotView>> {
        match self {
            Asked::Daemon(client, _) => client.call(&ListSnapshots {}).await,
            Asked::Opened(mount) => mount.run(async |engine| engine.snapshots().await).await,
        }
    }

    /// All that is different; `seen` is told how many names were looked at, and of how many files.
    pub(super) async fn diff(
        self,
        mut options: DiffOptions,
        mut seen: impl FnMut(u64, u64),
    ) -> Result<Vec<DifferenceView>> {
        let (mut all, mut names) = (Vec::new(), 0);
        let mut add = |page: DiffPage, options: &mut DiffOptions| {
            names += page.names;
            seen(names, page.files);
            all.extend(page.differences);
            options.from = page.next;
            options.from.is_some()
        };
        match self {
            Asked::Daemon(client, _) => {
                while add(client.call(&DiffSnapshots(options.clone())).await?, &mut options) {}
            }
            Asked::Opened(mount) => {
                let work = async |engine: &weir_engine::Engine| {
                    while add(engine.diff_snapshots(&options).await?, &mut options) {}
                    Ok(())
                };
                mount.run(work).await?;
            }
        }
        Ok(all)
    }

    /// Shows the schedule, or replaces it, and with it whether what it makes is dumped.
    pub(super) async fn schedule(
        self,
        rules: Option<(Vec<SnapshotRule>, bool)>,
    ) -> Result<ScheduleView> {
        match (self, rules) {
            (Asked::Daemon(client, _), None) => client.call(&GetSnapshotSchedule {}).await,
            (Asked::Daemon(client, _), Some((rules, dump))) => {
                client.call(&SetSnapshotSchedule { rules, dump }).await
            }
            (Asked::Opened(mount), None) => {
                mount.run(async |engine| engine.snapshot_schedule().await).await
            }
            (Asked::Opened(mount), Some((rules, dump))) => {
                mount.run(async |engine| engine.set_snapshot_schedule(rules, dump).await).await
            }
        }
    }

    /// Dumps one after the other, and shows how far each is.
    pub(super) async fn dump(self, names: &[String]) -> Result<Vec<SnapshotView>> {
        let mut done = Vec::with_capacity(names.len());
        match self {
            Asked::Daemon(client, _) => {
                for name in names {
                    let call = DumpSnapshot { name: name.clone() };
                    let work = client.call(&call);
                    let rows = async || {
                        let all = client.call(&ListDumping {}).await.unwrap_or_default();
                        rows_of(&all, name)
                    };
                    done.push(dumped(name, work, rows).await?);
                }
                Ok(done)
            }
            Asked::Opened(mount) => {
                let work = async |engine: &weir_engine::Engine| {
                    for name in names {
                        let rows = async || rows_of(&engine.dumping(), name);
                        done.push(dumped(name, engine.dump_snapshot(name), rows).await?);
                    }
                    Ok(done)
                };
                mount.run(work).await
            }
        }
    }

    /// Deletes one after the other, up to the first that cannot be.
    pub(crate) async fn delete(self, names: &[String]) -> Result<()> {
        match self {
            Asked::Daemon(client, _) => {
                for name in names {
                    client.call(&DeleteSnapshot { name: name.clone() }).await?;
                }
                Ok(())
            }
            Asked::Opened(mount) => {
                let work = async |engine: &weir_engine::Engine| {
                    for name in names {
                        engine.delete_snapshot(name).await?;
                    }
                    Ok(())
                };
                mount.run(work).await
            }
        }
    }

    pub(crate) async fn hold(self, names: &[String], held: bool) -> Result<Vec<SnapshotView>> {
        let mut done = Vec::with_capacity(names.len());
        match self {
            Asked::Daemon(client, _) => {
                for name in names {
                    done.push(client.call(&HoldSnapshot { name: name.clone(), held }).await?);
                }
                Ok(done)
            }
            Asked::Opened(mount) => {
                let work = async |engine: &weir_engine::Engine| {
                    for name in names {
                        done.push(engine.hold_snapshot(name, held).await?);
                    }
                    Ok(done)
                };
                mount.run(work).await
            }
        }
    }
}

fn rows_of(all: &[DumpingView], name: &str) -> u64 {
    all.iter().find(|one| one.name == name).map_or(0, |one| one.rows)
}

/// Waits for a dump, and shows how many rows of it there are.
async fn dumped(
    name: &str,
    work: impl Future<Output = Result<SnapshotView>>,
    rows: impl AsyncFn() -> u64,
) -> Result<SnapshotView> {
    let mut progress = Progress::new(Unit::Objects);
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(progress.interval()) => {}
        }
        let rows = rows().await;
        progress.show(rows, None, &format!("{rows} rows of the metadata of {name} dumped"));
    }
}
