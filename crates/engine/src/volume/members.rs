//! The nodes that share a volume, for people: who is there, and shutting one of them out. It is asked of
//! the metadata, so it works whoever of them answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_meta::Meta;
use weir_meta::kv::{Kv, Version};
use weir_meta::sessions::{self, PeerRow, Session, SessionId};
use weir_object::{BucketUrl, Component};
use weir_types::{ErrorCode, ErrorKind, FsError, Result, UnixTime};

use super::connector::Connector;
use super::format::{read_format_in, stripe_set};
use super::metadata::Metadata;
use super::together::BEAT_MS;

/// Which volume's nodes.
#[derive(Clone)]
pub struct NodesOptions {
    /// The volume.
    pub url: BucketUrl,
    /// How to reach it.
    pub connector: Connector,
    /// Where its database is reached, if not where `volume.json` says.
    pub metadata_url: Option<String>,
}

/// A node: a mount of a volume that others write, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeView {
    /// Names its session, in 16 hexadecimal digits.
    pub id: String,
    /// The machine.
    pub name: String,
    /// Process and machine.
    pub host: String,
    /// Its tier, as it was named to it.
    pub tier: String,
    /// The version of Weir that it runs.
    pub build: String,
    /// When it joined, by its own clock, in milliseconds since 1970.
    pub since_unix_ms: i64,
    /// How often it said that it lives: every 3 s.
    pub beats: u64,
    /// Whether it did so while it was looked; `null` where nobody waited for that.
    pub beating: Option<bool>,
    /// Whether it collects, imports and exports for all.
    pub on_duty: bool,
    /// Where others reach it for bytes; `null` where they do not.
    #[serde(default)]
    pub address: Option<String>,
    /// Bytes that it gave to others, a few seconds ago.
    #[serde(default)]
    pub given_bytes: u64,
    /// Bytes that others gave to it.
    #[serde(default)]
    pub taken_bytes: u64,
    /// How often it asked the bucket, too, because another was slow.
    #[serde(default)]
    pub hedges: u64,
    /// How often another did not give it what it was asked for.
    #[serde(default)]
    pub failures: u64,
}

/// All nodes of a volume, by id; none of one that a mount has alone, or nobody. With `watch` it looks
/// twice, 3 s apart and a little more, and tells who lives. Six reads at most.
pub async fn nodes(options: &NodesOptions, watch: bool) -> Result<Vec<NodeView>> {
    let kv = metadata(options).await?.follow(Component::Check).await?;
    let seen = look(&*kv, watch).await;
    let _ = kv.close().await;
    seen
}

/// Refuses where nodes share the volume, with `Conflict`, and where that cannot be seen. One read.
pub(crate) async fn check_no_nodes(url: &BucketUrl, kv: &dyn Kv) -> Result<()> {
    let nodes = sessions::sessions(kv).await?;
    let Some(node) = nodes.into_iter().next() else { return Ok(()) };
    let text = format!(
        "{url} is mounted by node `{}`: unmount it there; if that is gone, `weir nodes evict` shuts it out",
        node.node.name
    );
    Err(FsError::new(ErrorKind::Conflict, text).coded(ErrorCode::VolumeInUse))
}

async fn look(kv: &dyn Kv, watch: bool) -> Result<Vec<NodeView>> {
    let mut before: Option<HashMap<SessionId, Version>> = None;
    if watch {
        let seen = sessions::sessions(kv).await?;
        before = Some(seen.iter().map(|session| (session.id, session.beat)).collect());
        if !seen.is_empty() {
            tokio::time::sleep(Duration::from_millis(BEAT_MS * 5 / 4)).await;
        }
    }
    let duty = sessions::duty(kv).await?;
    let found = sessions::sessions(kv).await?;
    let ids: Vec<_> = found.iter().map(|session| session.id).collect();
    let peers = sessions::peers(kv, &ids).await?;
    let view = |(Session { id, node, said, beat }, peer): (Session, Option<PeerRow>)| NodeView {
        beating: before.as_ref().map(|before| before.get(&id) != Some(&beat)),
        on_duty: duty == Some(id),
        id: id.to_string(),
        name: node.name,
        host: node.host,
        tier: node.tier,
        build: node.build,
        since_unix_ms: node.since.0 / 1_000_000,
        beats: said.tick,
        given_bytes: peer.as_ref().map_or(0, |peer| peer.given_bytes),
        taken_bytes: peer.as_ref().map_or(0, |peer| peer.taken_bytes),
        hedges: peer.as_ref().map_or(0, |peer| peer.hedges),
        failures: peer.as_ref().map_or(0, |peer| peer.failures),
        address: peer.map(|peer| peer.address),
    };
    Ok(found.into_iter().zip(peers).map(view).collect())
}

/// Shuts a node out at once: the one of this machine name, or whose id begins so. What it commits from
/// then on is refused, and what it was bringing into its tier, or letting go, ends. `NotFound` if there is
/// none, `Invalid` if several are called so.
pub async fn evict_node(options: &NodesOptions, name: &str, now: UnixTime) -> Result<NodeView> {
    let metadata = metadata(options).await?;
    let joining = metadata.open_shared().await?;
    let kv = joining.kv();
    let evicted = evict(kv.clone(), name, now).await;
    let _ = kv.close().await;
    evicted
}

async fn evict(kv: Arc<dyn Kv>, name: &str, now: UnixTime) -> Result<NodeView> {
    let all = look(&*kv, false).await?;
    let begins = |node: &NodeView| name.len() >= 4 && node.id.starts_with(name);
    let mut meant = all.into_iter().filter(|node| node.name == name || begins(node));
    let (first, second) = (meant.next(), meant.next());
    let node = match (first, second) {
        (None, _) => {
            let text = format!("no node is called {name}: `weir nodes` lists them");
            return Err(FsError::new(ErrorKind::NotFound, text));
        }
        (Some(first), Some(second)) => {
            let text = format!(
                "several nodes are called {name}: name one by its id ({}, {}, …)",
                first.id, second.id
            );
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
        (Some(node), None) => node,
    };
    let id = u64::from_str_radix(&node.id, 16)
        .map_err(|e| FsError::new(ErrorKind::Bug, "read a session's id").with_source(e))?;
    sessions::end(&*kv, SessionId(id)).await?;
    let meta = Meta::open(kv, Arc::new(move || now)).await?;
    meta.lose_actions(SessionId(id), now.0 / 1_000_000, "its node was shut out").await?;
    Ok(node)
}

pub(super) async fn metadata(options: &NodesOptions) -> Result<Metadata> {
    let first = options.connector.connect(&options.url)?;
    let format = read_format_in(&first).await?;
    let buckets = stripe_set(&format, first, &options.connector).await?;
    let (instead, timeout_ms) =
        (options.metadata_url.as_deref(), options.connector.options.timeout_ms);
    Ok(Metadata::of(&format, &buckets, instead, timeout_ms)?.hasty())
}
