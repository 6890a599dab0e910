//! What a mount says of itself.

use std::sync::atomic::Ordering;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_meta::LeaseCounts;
use weir_object::{MeterSnapshot, Trouble};
use weir_tier::{Census, Usage};
use weir_types::{FileKind, Ino, Result, Settings};

use crate::data::flush::pending::FlushFailed;
use crate::data::journal::size::JournalUsage;
use crate::engine::Engine;
use crate::services::limits::LimitStatus;
use crate::services::quarantine::AsideSummary;
use crate::volume::boxed::{Boxed, boxed};
use crate::volume::health::MetadataStatus;
use crate::volume::options::MountReport;
use crate::volume::pulse::NodesStatus;

/// The state of a mount, for `weir status` and the metrics.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The volume's URL.
    pub volume: String,
    /// The volume's id.
    pub volume_id: String,
    /// Whether the mount only reads.
    pub read_only: bool,
    /// Whether other nodes write the volume, too.
    #[serde(default)]
    pub shared: bool,
    /// Whether what it has in its bucket is encrypted.
    #[serde(default)]
    pub encrypted: bool,
    /// Whether what it has on this machine's disks is.
    #[serde(default)]
    pub encrypted_tier: bool,
    /// URLs of the volumes whose segments it shares, the oldest first.
    #[serde(default)]
    pub origins: Vec<String>,
    /// How this node is among those that share the volume; `null` where it is alone.
    #[serde(default)]
    pub nodes: Option<NodesStatus>,
    /// Whether another writer took the volume over.
    pub fenced: bool,
    /// Inodes in use.
    pub files: u64,
    /// Bytes that files take in the bucket, before compression.
    pub stored_bytes: u64,
    /// Bytes of the volume's segments in its buckets, compressed, and with what is dead in them: what
    /// storage is billed for. Up to ten minutes old; `None` while nobody could look.
    #[serde(default)]
    pub bucket_bytes: Option<u64>,
    /// The local tier.
    pub tier: Usage,
    /// Files of which the tier's disk lost bytes that are not in the bucket: they are not flushed.
    pub files_in_doubt: u64,
    /// The redo log or journal.
    pub journal: JournalUsage,
    /// What was found at mount.
    pub mount: MountReport,
    /// What is set aside and not settled, whoever left it.
    pub aside: AsideSummary,
    /// What went through the engine since the mount, in bytes and counts.
    pub since_mount: SinceMount,
    /// What it gives to the other nodes of its volume, and takes from them; `None` of a mount that shares
    /// none.
    #[serde(default)]
    pub peers: Option<PeersStatus>,
    /// Requests to the buckets since the mount.
    pub requests: MeterSnapshot,
    /// What the buckets refused last, of each kind of request, and whether that lasts.
    pub troubles: Vec<Trouble>,
    /// Where the metadata is, and whether it answers.
    #[serde(default)]
    pub metadata: MetadataStatus,
    /// What it remembers of a volume that nodes share; `None` where they do not.
    #[serde(default)]
    pub leases: Option<LeaseStatus>,
    /// The last flush in the background that failed: none has succeeded since.
    pub flush_failed: Option<FlushFailed>,
    /// Directories, and users, of which the daemon sees every byte: nothing is read past it there.
    pub metered: Vec<String>,
    /// Throughput limits that hold anything back.
    #[serde(default)]
    pub limits: Vec<LimitStatus>,
    /// The settings in force.
    pub settings: Settings,
}

impl Status {
    /// The bytes that storage is billed for: what lies in the buckets, else what files hold.
    pub fn billed_bytes(&self) -> u64 {
        self.bucket_bytes.unwrap_or(self.stored_bytes)
    }
}

/// Counters since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SinceMount {
    /// Bytes that programs read through the daemon.
    pub bytes_read: u64,
    /// Bytes that programs wrote.
    pub bytes_written: u64,
    /// Bytes of records fetched: from the bucket, or from other nodes.
    pub bytes_fetched: u64,
    /// Bytes of segments sent to the bucket.
    pub bytes_flushed: u64,
    /// Bytes of clean pages let go.
    pub bytes_released: u64,
    /// Segments sent.
    pub segments_written: u64,
    /// Segments deleted.
    pub segments_collected: u64,
    /// Small segments whose live records were written into larger ones.
    pub segments_merged: u64,
    /// `fsync` calls.
    pub fsyncs: u64,
}

/// What nodes that share a volume give each other, of one of them since its mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeersStatus {
    /// Where others reach it; `None` if they do not, and then it takes nothing either.
    pub address: Option<String>,
    /// Others that it can ask.
    pub others: u64,
    /// Bytes that it gave.
    pub given_bytes: u64,
    /// Bytes that it took, which the bucket was not asked for.
    pub taken_bytes: u64,
    /// How often it asked the bucket, too, because another was slow.
    pub hedges: u64,
    /// How often another did not give what it was asked for.
    pub failures: u64,
}

/// Where the bytes of a file are, in bytes of whole pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Residency {
    /// Nowhere: they are zeros.
    pub hole: u64,
    /// In the bucket only.
    pub released: u64,
    /// In the tier, and in the bucket.
    pub resident: u64,
    /// In the tier, and not in the bucket yet.
    pub dirty: u64,
}

/// What a node remembers of a volume that others change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeaseStatus {
    /// Leases that it has: on directories, files and the like.
    pub held: u64,
    /// Files of which this node may have more than the volume, made or written again and again here: other nodes ask for them.
    #[serde(default)]
    pub writes: u64,
    /// Changes of names and attributes that were acknowledged here, and that the database does not have yet.
    #[serde(default)]
    pub deferred: u64,
    /// Reads of the metadata that were answered from memory, since the mount.
    pub hits: u64,
    /// Leases that it took.
    pub taken: u64,
    /// Leases that others asked for and got.
    pub given_back: u64,
    /// Leases of others that it asked for, to change something.
    pub asked_back: u64,
}

impl LeaseStatus {
    fn of(counts: LeaseCounts) -> Self {
        let LeaseCounts { held, writes, deferred, hits, taken, given_back, asked_back } = counts;
        Self { held, writes, deferred, hits, taken, given_back, asked_back }
    }
}

/// How long a status waits for the volume's totals.
const USAGE_MAX: Duration = Duration::from_secs(2);

impl Engine {
    /// The volume's id.
    pub fn volume_id(&self) -> String {
        self.data.context.format.id.to_string()
    }

    /// Whether another writer took the volume over: nothing that is read here need be so any more. Costs nothing.
    pub fn is_fenced(&self) -> bool {
        self.data.context.is_fenced()
    }

    /// The state of the mount.
    pub fn status(&self) -> Boxed<'_, Result<Status>> {
        boxed(async move {
            let data = &self.data;
            // A bucket that is away must not keep anybody from seeing that it is.
            let usage = tokio::time::timeout(USAGE_MAX, data.meta.usage());
            let (usage, bucket_bytes) = tokio::join!(usage, self.limits.bucket_bytes(USAGE_MAX));
            let usage = usage.ok().and_then(Result::ok).unwrap_or_default();
            let get = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
            let counts = &data.context.counts;
            Ok(Status {
                volume: data.context.url.clone(),
                volume_id: data.context.format.id.to_string(),
                read_only: data.context.read_only,
                shared: data.context.is_shared(),
                encrypted: data.context.format.encryption.is_some(),
                encrypted_tier: !data.tier.sealed().is_empty(),
                origins: data
                    .context
                    .format
                    .origins
                    .iter()
                    .map(|of| of.stripe_set[0].clone())
                    .collect(),
                nodes: self.nodes_status(),
                fenced: data.context.is_fenced(),
                files: usage.inodes,
                stored_bytes: usage.stored_bytes,
                bucket_bytes: bucket_bytes.map(|found| found.bytes),
                tier: data.tier.usage()?,
                files_in_doubt: data.tier.in_doubt().len() as u64,
                journal: data.journal.as_ref().map(|j| j.usage()).unwrap_or_default(),
                mount: self.report.clone(),
                aside: self.quarantine.summary(),
                since_mount: SinceMount {
                    bytes_read: get(&counts.bytes_read),
                    bytes_written: get(&counts.bytes_written),
                    bytes_fetched: get(&counts.bytes_fetched),
                    bytes_flushed: get(&counts.bytes_flushed),
                    bytes_released: get(&counts.bytes_released),
                    segments_written: get(&counts.segments_written),
                    segments_collected: get(&counts.segments_collected),
                    segments_merged: get(&counts.segments_merged),
                    fsyncs: get(&counts.fsyncs),
                },
                peers: data.peers.as_ref().map(|peers| PeersStatus {
                    address: peers.address(),
                    others: peers.others(),
                    given_bytes: get(&peers.figures.given_bytes),
                    taken_bytes: get(&peers.figures.taken_bytes),
                    hedges: get(&peers.figures.hedges),
                    failures: get(&peers.figures.failures),
                }),
                requests: data.context.meter.snapshot(),
                troubles: data.context.meter.troubles(),
                metadata: MetadataStatus {
                    place: self.metadata_place.clone(),
                    trouble: self.metadata_health.as_ref().and_then(|health| health.trouble()),
                },
                leases: data.meta.leases().map(|leases| LeaseStatus::of(leases.counts())),
                flush_failed: data.flusher.background.failed(data.context.now_ms()),
                metered: self.limits.metered(),
                limits: self.limits.limiting(),
                settings: data.context.settings.clone(),
            })
        })
    }

    /// Where a file's bytes are.
    pub fn residency(&self, ino: Ino) -> Boxed<'_, Result<Residency>> {
        boxed(async move {
            let inode = self.getattr(ino).await?;
            let end = weir_tier::page_ceil(inode.size);
            let Census { hole, released, resident, dirty } = match self.data.tier.find(ino) {
                _ if inode.kind != FileKind::Regular => Census::default(),
                Some(mirror) => mirror.census(),
                None => Census { released: end, ..Census::default() },
            };
            Ok(Residency { hole, released, resident, dirty })
        })
    }
}
