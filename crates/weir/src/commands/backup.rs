//! `weir backup`, `weir backups` and `weir restore-volume`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_engine::{
    BackupOptions, BackupProgress, BackupReport, BackupView, BucketUrl, ConnectOptions, Connector,
    RestoreMetadataOptions, RestoreVolumeOptions, RestoredMetadata, RestoredVolume,
    SnapshotOptions, Taking, moment_name,
};
use weir_types::{Bytes, ErrorKind, FsError, Result, UnixTime};

use super::snapshots::asked::Asked;
use crate::cli::{
    BackupArgs, BackupsArgs, ConnectArgs, RestoreVolumeArgs, SnapshotPlaceArgs, ToArgs,
};
use crate::client::Client;
use crate::progress::{Progress, Unit, Waited, left, or_ctrl_c};
use crate::{buckets, clock, failpoints, render};

pub(crate) async fn backup(args: BackupArgs) -> Result<ExitCode> {
    failpoints::arm()?;
    let (url, to) = (volume_of(&args.place).await?, args.to.parse::<BucketUrl>()?);
    if url == to {
        return Err(FsError::new(ErrorKind::Invalid, "a backup is kept elsewhere than its volume"));
    }
    buckets::make_directories(std::iter::once(&to))?;
    let connector = to_connector(&args.to_args, &args.connect)?;
    let taking = Taking::begin(&to, &connector, &failpoints::host()).await?;
    let done = taken(&args, url, &taking).await;
    let ended = taking.end().await;
    let Waited::Ended(report) = done? else {
        return Ok(left("broken off; the same command copies what is missing"));
    };
    ended?;
    match args.json {
        true => render::say_json(&report)?,
        false => render::say(&described(&report, &to))?,
    }
    Ok(told_damage(&report.backup.damaged))
}

/// Makes a snapshot if none is named, takes it, and deletes it again.
async fn taken(args: &BackupArgs, url: BucketUrl, taking: &Taking) -> Result<Waited<BackupReport>> {
    let place =
        SnapshotPlaceArgs { place: args.place.clone(), json: false, connect: args.connect.clone() };
    if let Some(left) = taking.left_snapshot() {
        delete_snapshot(&place, left).await?;
    }
    let snapshot = match &args.snapshot {
        Some(name) => name.clone(),
        None => {
            let options = SnapshotOptions { name: taking.snapshot_name(), flush: true, rule: None };
            Asked::at(&place, false).await?.create(options).await?.name
        }
    };
    let now = moment_name(clock::now().0 / 1_000_000);
    let name = args.name.clone().or_else(|| args.snapshot.clone()).unwrap_or(now);
    let options = BackupOptions {
        url,
        connector: buckets::volume_connector(
            &args.connect,
            buckets::connect_options(&args.connect),
        )?,
        snapshot: snapshot.clone(),
        name,
        jobs: usize::from(args.jobs),
        verify: args.verify,
    };
    let progress = BackupProgress::default();
    let taken = or_ctrl_c(shown(&progress, taking.take(&options, &progress))).await;
    if args.snapshot.is_none()
        && let Err(error) = delete_snapshot(&place, snapshot.clone()).await
    {
        render::tell(&format!(
            "weir: warning: snapshot {snapshot} is left and holds what it has: `weir snapshot delete` \
             it ({error})\n"
        ));
    }
    taken
}

/// One that is not there is fine.
async fn delete_snapshot(place: &SnapshotPlaceArgs, name: String) -> Result<()> {
    match Asked::at(place, false).await?.delete(&[name]).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        deleted => deleted,
    }
}

/// The URL of a volume, or of that in which a directory lies.
pub(super) async fn volume_of(place: &str) -> Result<BucketUrl> {
    if place.contains("://") {
        return place.parse();
    }
    let real = std::fs::canonicalize(place).map_err(|error| FsError::local_io(place, error))?;
    let (client, _) = Client::holding(&real)?;
    client.status().await?.engine.volume.parse()
}

/// How the other side is reached: as this one, but for what is said of it.
fn to_connector(to: &ToArgs, connect: &ConnectArgs) -> Result<Connector> {
    let here = buckets::connect_options(connect);
    let or = |of: &Option<String>, here: Option<String>| of.clone().or(here);
    let there = ConnectOptions {
        endpoint: or(&to.to_endpoint, here.endpoint.clone()),
        region: or(&to.to_region, here.region.clone()),
        profile: or(&to.to_profile, here.profile.clone()),
        ..here
    };
    buckets::connector(there)
}

pub(crate) async fn backups(args: BackupsArgs) -> Result<ExitCode> {
    failpoints::arm()?;
    let url: BucketUrl = args.url.parse()?;
    let connector = buckets::connector(buckets::connect_options(&args.connect))?;
    if args.delete.is_empty() {
        let all = match weir_engine::read_format(&url, &connector).await {
            Ok(_) => weir_engine::dumps(&url, &connector).await?,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                weir_engine::backups(&url, &connector).await?
            }
            Err(error) => return Err(error),
        };
        match args.json {
            true => render::say_json_rows(&all)?,
            false => render::say(&listed(&all, &url))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let host = failpoints::host();
    let deleted = weir_engine::delete_backups(&url, &connector, &host, &args.delete).await?;
    match args.json {
        true => render::say_json(&deleted)?,
        false => render::say(&format!(
            "deleted {}, and {} segments ({}) that no other backup needs\n",
            deleted.deleted.join(", "),
            deleted.segments,
            Bytes(deleted.bytes)
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn restore_volume(args: RestoreVolumeArgs) -> Result<ExitCode> {
    failpoints::arm()?;
    let to = match (&args.metadata_from, &args.to) {
        (Some(name), _) => return restore_metadata(&args, name).await,
        (None, to) => to.clone().unwrap_or_default().parse::<BucketUrl>()?,
    };
    let stripe = args.stripe.iter().map(|text| text.parse()).collect::<Result<Vec<BucketUrl>>>()?;
    buckets::make_directories(std::iter::once(&to).chain(&stripe))?;
    let options = RestoreVolumeOptions {
        from: args.from.parse()?,
        backup: args.backup.clone(),
        to: to.clone(),
        stripe,
        metadata: args.meta.clone(),
        keep_links: args.keep_links,
        connector: buckets::volume_connector(
            &args.connect,
            buckets::connect_options(&args.connect),
        )?,
        to_connector: to_connector(&args.to_args, &args.connect)?,
        jobs: usize::from(args.jobs),
        host: failpoints::host(),
        clock: clock::real(),
    };
    let progress = BackupProgress::default();
    let restoring = weir_engine::restore_volume(options, &progress);
    let Waited::Ended(restored) = or_ctrl_c(shown(&progress, restoring)).await? else {
        return Ok(left("broken off; the same command goes on with what is missing"));
    };
    match args.json {
        true => render::say_json(&restored)?,
        false => render::say(&restored_text(&restored, &to))?,
    }
    Ok(told_damage(&restored.damaged))
}

async fn restore_metadata(args: &RestoreVolumeArgs, dump: &str) -> Result<ExitCode> {
    let url: BucketUrl = args.from.parse()?;
    let options = RestoreMetadataOptions {
        url: url.clone(),
        dump: (dump != weir_engine::NEWEST).then(|| dump.to_owned()),
        metadata: args.meta.clone(),
        accept_loss: args.accept_loss,
        connector: buckets::volume_connector(
            &args.connect,
            buckets::connect_options(&args.connect),
        )?,
        host: failpoints::host(),
        clock: clock::real(),
    };
    let progress = BackupProgress::default();
    let restoring = weir_engine::restore_metadata(options, &progress);
    let Waited::Ended(restored) = or_ctrl_c(shown(&progress, restoring)).await? else {
        return Ok(left(
            "broken off; the same command begins anew, and until then nothing mounts the volume",
        ));
    };
    match args.json {
        true => render::say_json(&restored)?,
        false => render::say(&metadata_text(&restored, &url))?,
    }
    Ok(told_damage(&restored.missing))
}

fn metadata_text(restored: &RestoredMetadata, url: &BucketUrl) -> String {
    let RestoredMetadata { dump, volume, before, .. } = restored;
    format!(
        "{url} is as dump {} has it, of {}: {}, {}\n\
         what no mount had flushed by then is not in it: it stays in the tiers, under {}; it has {} now\n\
         Look at it:  weir mount {url} DIR --tier LOCAL_DIR --read-only\n\
         Once it is mounted for writing, other dumps go, and what only those need.\n",
        dump.name,
        moment_name(dump.created_ms.cast_signed()),
        render::files(dump.files),
        Bytes(dump.stored_bytes),
        before.0,
        volume.0
    )
}

/// Does some work, and shows how far it is.
pub(super) async fn shown<T>(progress: &BackupProgress, work: impl Future<Output = T>) -> T {
    let mut shown = Progress::new(Unit::Bytes);
    let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(shown.interval()) => {}
        }
        let (bytes, all) = (load(&progress.bytes), load(&progress.bytes_all));
        let beside = format!(
            "{} of {} segments, {} of {}, {} rows of metadata",
            load(&progress.segments),
            load(&progress.segments_all),
            Bytes(bytes),
            Bytes(all),
            load(&progress.rows)
        );
        shown.show(bytes, Some(all).filter(|all| *all > 0), &beside);
    }
}

fn told_damage(damaged: &[String]) -> ExitCode {
    if damaged.is_empty() {
        return ExitCode::SUCCESS;
    }
    let mut text = format!("weir: {} segments are damaged or missing:\n", damaged.len());
    damaged.iter().take(20).for_each(|one| text.push_str(&format!("  {one}\n")));
    render::tell(&text);
    ExitCode::FAILURE
}

fn described(report: &BackupReport, to: &BucketUrl) -> String {
    let BackupReport { backup, copied, copied_bytes } = report;
    format!(
        "backup {} is in {to}: {}, {}; {copied} of {} segments were copied, {}\n\
         to have a volume of it:  weir restore-volume {to} URL --backup {}\n",
        backup.name,
        render::files(backup.files),
        Bytes(backup.stored_bytes),
        backup.segments,
        Bytes(*copied_bytes),
        backup.name
    )
}

fn listed(all: &[BackupView], url: &BucketUrl) -> String {
    if all.is_empty() {
        return format!("{url} has no backups\n");
    }
    let now = (clock::real().now)();
    let head = ["name", "age", "files", "size", "segments", "damaged"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for of in all {
        let created = UnixTime((of.created_ms * 1_000_000).cast_signed());
        let age = (now.0 - created.0).max(0).cast_unsigned() / 1_000_000_000;
        rows.push(vec![
            of.name.clone(),
            render::seconds(age),
            of.files.to_string(),
            Bytes(of.stored_bytes).to_string(),
            Bytes(of.object_bytes).to_string(),
            if of.damaged.is_empty() { "-".to_owned() } else { of.damaged.len().to_string() },
        ]);
    }
    render::table(&rows, 1)
}

fn restored_text(restored: &RestoredVolume, to: &BucketUrl) -> String {
    let RestoredVolume { backup, copied, copied_bytes, paused_links, .. } = restored;
    let mut text = format!(
        "{to} is a volume now, as {} was at {}: {}, {}; {copied} segments were copied, {}\n",
        backup.url,
        moment_name((backup.created_ms).cast_signed()),
        render::files(backup.files),
        Bytes(backup.stored_bytes),
        Bytes(*copied_bytes)
    );
    if *paused_links > 0 {
        text.push_str(&format!(
            "{paused_links} linked buckets neither import nor export there, because {} may: `weir link` \
             its directory again to have them go on\n",
            backup.url
        ));
    }
    text.push_str(&format!("Mount it:  weir mount {to} DIR --tier LOCAL_DIR\n"));
    text
}
