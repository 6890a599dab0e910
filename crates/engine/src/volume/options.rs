//! What a mount is told, and what it tells when it is made.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_object::BucketUrl;
use weir_tier::{AskSpace, Recovered, SetAside};
use weir_types::{Ino, Settings};

use super::connector::Connector;
use super::context::Clock;
use super::host::Host;
use super::turn::Turn;

/// What a mount needs.
#[derive(Clone)]
pub struct MountOptions {
    /// The volume.
    pub url: BucketUrl,
    /// How to reach it.
    pub connector: Connector,
    /// Directory for mirror files; each volume has its own in it.
    pub tier: PathBuf,
    /// Directory on a persistent disk for the journal, if `fsync` is to end there.
    pub journal: Option<PathBuf>,
    /// Change nothing, beside whoever writes.
    pub read_only: bool,
    /// Change it together with others that do: needs metadata in a database.
    pub shared: bool,
    /// Take the volume from a writer that may still run; it is fenced.
    pub take_over: bool,
    /// Others wait for it to be gone: say that it lives as long as it is mounted. What
    /// [`crate::await_turn`] answered.
    pub turn: Option<Turn>,
    /// What of a last writer that did not end cleanly may be missing.
    pub accept_loss: AcceptLoss,
    /// Go on only if the last writer ended cleanly. What a dead one had not flushed is in its tier,
    /// and is set aside for good once another tier had the volume. A mount for the moment, which leaves
    /// nothing in its own: where it is killed, the volume is as if it had ended. Who says that something was
    /// done says it after [`crate::Engine::shutdown`].
    pub only_clean: bool,
    /// How to run.
    pub settings: Settings,
    /// Tells the space on the disks of the tier and the journal.
    pub ask_space: AskSpace,
    /// Time and chance.
    pub clock: Clock,
    /// This process.
    pub host: Host,
    /// What the daemon left in whose place this one goes on, if there was one.
    pub inherited: Inherited,
}

/// What a daemon leaves to one that goes on in its place, beside what a killed one leaves on disk.
#[derive(Clone, Debug, Default)]
pub struct Inherited {
    /// What its tier has.
    pub tier: weir_tier::Inherited,
    /// Inodes that are open: none of them goes before it was let go, as often as it is here.
    pub open: Vec<Ino>,
}

/// What was found at mount, and done about it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MountReport {
    /// How the last mount with this tier ended.
    pub recovered: Recovered,
    /// Metadata commits replayed from the redo log.
    pub replayed_commits: u64,
    /// Files whose fsynced data was replayed from the journal.
    pub replayed_files: u64,
    /// What was set aside, because another writer had the volume since.
    pub set_aside: Option<SetAside>,
    /// The writer that this mount took the volume from.
    pub taken_from: Option<String>,
    /// What the last writer wrote and is not here.
    pub left_behind: Option<LeftBehind>,
}

/// What may be missing of an unclean end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum AcceptLoss {
    /// Nothing: the mount is refused.
    #[default]
    Nothing,
    /// The tier, with what was not fsynced.
    Tier,
    /// The journal too, with what was fsynced into it and did not reach the bucket.
    All,
}

/// What a mount went on without.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftBehind {
    /// The process and machine that wrote last.
    pub host: String,
    /// Its tier, if that is not here or could not be used without the journal.
    pub tier: Option<String>,
    /// Its journal, if that is not here.
    pub journal: Option<String>,
}
