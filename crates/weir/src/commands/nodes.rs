//! `weir nodes`: who shares a volume, and shutting one of them out.

use std::path::Path;
use std::process::ExitCode;

use weir_engine::{NodeView, NodesOptions};
use weir_types::{Bytes, ErrorKind, FsError, Result, UnixTime};

use crate::cli::{ConnectArgs, EvictArgs, NodesArgs, NodesCommand};
use crate::client::Client;
use crate::{buckets, clock, render};

pub(crate) async fn run(args: NodesArgs) -> Result<ExitCode> {
    match args.command {
        Some(NodesCommand::Evict(args)) => evict(args).await,
        None => list(args).await,
    }
}

async fn list(args: NodesArgs) -> Result<ExitCode> {
    let Some(place) = &args.place else {
        let text = "name the volume, or a directory of a mount: weir nodes URL|DIR";
        return Err(FsError::new(ErrorKind::Invalid, text));
    };
    let options = options(place, args.meta, &args.connect).await?;
    let nodes = weir_engine::nodes(&options, args.watch).await?;
    match args.json {
        true => render::say_json_rows(&nodes)?,
        false => render::say(&describe(&nodes, (clock::real().now)()))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn evict(args: EvictArgs) -> Result<ExitCode> {
    let options = options(&args.place, args.meta, &args.connect).await?;
    let node = weir_engine::evict_node(&options, &args.name, (clock::real().now)()).await?;
    match args.json {
        true => render::say_json(&node)?,
        false => render::say(&format!(
            "{} ({}) is shut out. What it had not flushed is in its tier {}.\n",
            node.id, node.host, node.tier
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The volume at a URL, or of the mount in which a directory lies.
async fn options(
    place: &str,
    metadata_url: Option<String>,
    connect: &ConnectArgs,
) -> Result<NodesOptions> {
    let url = match place.contains("://") {
        true => place.to_owned(),
        false => {
            let real = std::fs::canonicalize(Path::new(place));
            let real = real.map_err(|error| FsError::local_io(place, error))?;
            Client::holding(&real)?.0.status().await?.engine.volume
        }
    };
    let connector = buckets::volume_connector(connect, buckets::connect_options(connect))?;
    Ok(NodesOptions { url: url.parse()?, connector, metadata_url })
}

fn describe(nodes: &[NodeView], now: UnixTime) -> String {
    if nodes.is_empty() {
        return "Nobody has the volume mounted with --shared.\n".to_owned();
    }
    let head =
        ["node", "machine", "process", "tier", "version", "for", "address", "gave", "took", ""];
    let mut rows = vec![head.map(String::from)];
    for node in nodes {
        let mut notes = Vec::new();
        notes.extend(node.on_duty.then_some("on duty"));
        notes.extend(node.beating.map(|beating| if beating { "lives" } else { "is silent" }));
        rows.push([
            node.id.clone(),
            node.name.clone(),
            node.host.clone(),
            node.tier.clone(),
            node.build.clone(),
            render::seconds(
                ((now.0 / 1_000_000 - node.since_unix_ms) / 1_000).max(0).cast_unsigned(),
            ),
            node.address.clone().unwrap_or_else(|| "-".to_owned()),
            Bytes(node.given_bytes).to_string(),
            Bytes(node.taken_bytes).to_string(),
            notes.join(", "),
        ]);
    }
    let rows: Vec<_> = rows.into_iter().map(Vec::from).collect();
    render::table(&rows, 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_who_lives() {
        let node = |id: &str, beating| NodeView {
            id: id.to_owned(),
            name: "a".to_owned(),
            host: "process 7 on a".to_owned(),
            tier: "/nvme".to_owned(),
            build: "1.0".to_owned(),
            since_unix_ms: 0,
            beats: 3,
            beating,
            on_duty: beating == Some(true),
            address: beating.map(|_| "10.0.0.1:7070".to_owned()),
            given_bytes: 3 << 20,
            taken_bytes: 0,
            hedges: 0,
            failures: 0,
        };
        let now = UnixTime(65_000_000_000);
        let text = describe(&[node("0001", Some(true)), node("0002", Some(false))], now);
        assert!(text.contains("on duty, lives") && text.contains("is silent"), "{text}");
        assert!(text.contains("10.0.0.1:7070") && text.contains("3 MiB"), "{text}");
        assert!(!describe(&[node("0001", None)], now).contains("lives"));
        assert!(describe(&[], now).contains("Nobody"));
    }
}
