//! `weir clone`: a volume that begins as another one was, and shares its bytes.

use std::process::ExitCode;

use weir_engine::{
    BackupProgress, BucketUrl, CloneOptions, ClonedVolume, SnapshotOptions, clone_volume,
    moment_name,
};
use weir_types::{Bytes, ErrorKind, FsError, Result};

use super::backup::{shown, volume_of};
use super::snapshots::asked::Asked;
use crate::cli::{CloneArgs, SnapshotPlaceArgs};
use crate::progress::{Waited, left, or_ctrl_c};
use crate::{buckets, clock, failpoints, render};

pub(crate) async fn run(args: CloneArgs) -> Result<ExitCode> {
    failpoints::arm()?;
    // A place may have an `@` in it, a snapshot's name has none and no slash.
    let (place, named) = match args.from.rsplit_once('@') {
        Some((place, name)) if !name.contains('/') && !name.is_empty() => (place, Some(name)),
        _ => (args.from.as_str(), None),
    };
    let (from, to) = (volume_of(place).await?, args.to.parse::<BucketUrl>()?);
    if from == to {
        return Err(FsError::new(ErrorKind::Invalid, "a clone is kept elsewhere than its volume"));
    }
    let stripe = args.stripe.iter().map(|text| text.parse()).collect::<Result<Vec<BucketUrl>>>()?;
    buckets::make_directories(std::iter::once(&to).chain(&stripe))?;
    let place =
        SnapshotPlaceArgs { place: place.to_owned(), json: false, connect: args.connect.clone() };
    let snapshot = held(&place, named).await?;
    let options = CloneOptions {
        from,
        snapshot: snapshot.clone(),
        to: to.clone(),
        stripe,
        metadata: Some(args.meta.clone()),
        keep_links: args.keep_links,
        connector: buckets::volume_connector(
            &args.connect,
            buckets::connect_options(&args.connect),
        )?,
        host: failpoints::host(),
        clock: clock::real(),
    };
    let progress = BackupProgress::default();
    let cloned = or_ctrl_c(shown(&progress, clone_volume(options, &progress))).await;
    if named.is_none() && !matches!(cloned, Ok(Waited::Ended(_))) {
        let_go(&place, snapshot).await;
    }
    let Waited::Ended(cloned) = cloned? else {
        return Ok(left("broken off; there is no clone, and the same command begins anew"));
    };
    match args.json {
        true => render::say_json(&cloned)?,
        false => render::say(&described(&cloned, &to))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The snapshot that the clone is to begin as, held so that nobody deletes it; a new one where none is named.
async fn held(place: &SnapshotPlaceArgs, named: Option<&str>) -> Result<String> {
    let name = match named {
        Some(name) => name.to_owned(),
        None => {
            let name = format!("clone-{}", moment_name(clock::now().0 / 1_000_000));
            let options = SnapshotOptions { name, flush: true, rule: None };
            Asked::at(place, false).await?.create(options).await?.name
        }
    };
    let held = Asked::at(place, false).await?.hold(std::slice::from_ref(&name), true).await;
    if named.is_none() && held.is_err() {
        let_go(place, name.clone()).await;
    }
    held.map(|_| name)
}

/// Deletes a snapshot that was made for a clone which never came to be.
async fn let_go(place: &SnapshotPlaceArgs, name: String) {
    let names = [name];
    let gone = async {
        Asked::at(place, false).await?.hold(&names, false).await?;
        Asked::at(place, false).await?.delete(&names).await
    };
    if let Err(error) = gone.await {
        render::tell(&format!(
            "weir: warning: snapshot {} is left and holds what it has: release and delete it ({error})\n",
            names[0]
        ));
    }
}

fn described(cloned: &ClonedVolume, to: &BucketUrl) -> String {
    let ClonedVolume { from, snapshot, rows, segments, object_bytes, paused_links, .. } = cloned;
    let mut text = format!(
        "{to} is a volume now, as {from} was in snapshot {snapshot}: {rows} rows of metadata were copied, {segments} segments ({}) \
         are shared\n",
        Bytes(*object_bytes)
    );
    if *paused_links > 0 {
        text.push_str(&format!(
            "{paused_links} linked buckets neither import nor export there, because {from} may: `weir link` its directory \
             again to have them go on\n"
        ));
    }
    text.push_str(&format!(
        "It needs {from} and that snapshot, which is held, for as long as it is there.\n\
         Mount it:  weir mount {to} DIR --tier LOCAL_DIR\n"
    ));
    text
}
