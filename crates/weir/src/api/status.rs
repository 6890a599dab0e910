//! How a daemon is.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_door_block::BlockCounts;
use weir_door_block::attach::Attached;
use weir_engine::{HeldDeletions, Status};

use super::call::call;
use super::nfs::NfsStatus;

/// How the daemon and its mount are.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetStatus {}
call!(Get "/v1/status", GetStatus => StatusAnswer);

/// How a daemon and its mount are.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct StatusAnswer {
    /// `null` where the volume is served without a mount.
    pub(crate) mountpoint: Option<PathBuf>,
    /// The daemon's process.
    pub(crate) pid: u32,
    pub(crate) version: String,
    pub(crate) uptime_s: u64,
    /// It was told to end.
    pub(crate) ending: bool,
    /// What the end waits for, in words.
    #[serde(default)]
    pub(crate) waits_for: Option<String>,
    /// Whether the port of `--admin-listen` cancels actions, for who has the token.
    #[serde(default)]
    pub(crate) port_cancels: bool,
    pub(crate) passthrough: Option<Passthrough>,
    /// How requests come from the kernel; `null` where nothing is mounted.
    #[serde(default)]
    pub(crate) transport: Option<Transport>,
    /// Requests of the kernel since the mount, by operation.
    pub(crate) fuse_requests: BTreeMap<String, u64>,
    pub(crate) block: BlockStatus,
    /// `null` where the volume is not served by NFS.
    #[serde(default)]
    pub(crate) nfs: Option<NfsStatus>,
    #[serde(flatten)]
    pub(crate) engine: Status,
    /// Links of which the bucket's deletions wait for a confirmation.
    pub(crate) held_deletions: Vec<Held>,
}

impl StatusAnswer {
    /// Where people find the daemon: its mount point, or the URL that it serves.
    pub(crate) fn place(&self) -> PathBuf {
        self.mountpoint.clone().unwrap_or_else(|| self.engine.volume.clone().into())
    }
}

/// Whether resident files are read past the daemon, and how many opens were served which way.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Passthrough {
    pub(crate) active: bool,
    /// Why not.
    pub(crate) why: String,
    /// Opens that the kernel serves.
    pub(crate) opens: u64,
    /// Opens that the daemon serves.
    pub(crate) other_opens: u64,
}

/// How requests come from the kernel.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Transport {
    pub(crate) how: TransportKind,
    /// Why not over io_uring.
    pub(crate) why: String,
}

/// A way from the kernel to the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TransportKind {
    /// `/dev/fuse`.
    Dev,
    /// io_uring.
    Uring,
}

/// A link of which the bucket's deletions wait for a confirmation.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Held {
    /// The link's directory.
    pub(crate) path: String,
    #[serde(flatten)]
    pub(crate) deletions: HeldDeletions,
}

/// How the block door stands.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct BlockStatus {
    /// Disks and snapshots of the volume; `null` while nobody can look, as on a fenced daemon.
    pub(crate) disks: Option<u64>,
    /// Those that somebody has open.
    pub(crate) disks_open: Option<u64>,
    pub(crate) nbd: Option<NbdStatus>,
    pub(crate) devices: Vec<Attached>,
    /// Of NBD clients and devices.
    pub(crate) counts: BlockCounts,
}

/// Where NBD clients are answered.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct NbdStatus {
    #[schemars(with = "Option<String>")]
    pub(crate) address: Option<SocketAddr>,
    pub(crate) unix: Option<PathBuf>,
    pub(crate) tls: Option<Tls>,
}

/// What TLS asks of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tls {
    /// To use it.
    Required,
    /// To show a certificate as well.
    ClientCertificate,
}
