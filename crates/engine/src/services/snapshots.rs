//! Snapshots of the whole volume: made, listed, held and deleted.

pub(crate) mod diff;
mod dumped;
pub(crate) mod dumping;
pub(crate) mod rules;
pub(crate) mod schedule;

use std::sync::Arc;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_meta::{Meta, SnapshotRow, SnapshotState, check_snapshot_name};
use weir_object::StripeSet;
use weir_types::{ErrorKind, FsError, Result, SegmentId, UnixTime};

use crate::data::durability::Durability;
use crate::data::holders::Holders;
use crate::volume::context::Context;

use dumping::Dumping;

/// Segments looked at in one read.
const PAGE: usize = 5_000;

/// No snapshot is called so: dumps have the names of theirs.
pub const NEWEST: &str = "newest";

/// What nodes of this build say that they are.
const BUILD: &str = env!("CARGO_PKG_VERSION");

/// A snapshot to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotOptions {
    /// A letter or digit, then letters, digits, `.`, `_`, `:` and `-`; at most 128.
    pub name: String,
    /// Whether what was written before is flushed first. Without that it holds what the bucket has,
    /// as the volume would after the loss of this machine.
    #[serde(default = "yes")]
    pub flush: bool,
    /// The rule of a schedule that may delete it.
    #[serde(default)]
    pub rule: Option<String>,
}

fn yes() -> bool {
    true
}

/// A snapshot as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotView {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created: UnixTime,
    /// Nobody may delete it.
    pub held: bool,
    /// The rule of the schedule that made it.
    pub rule: Option<String>,
    /// Files, directories and all else in it.
    pub files: u64,
    /// Bytes of its files, before compression.
    pub stored_bytes: u64,
    /// Bytes of objects that it holds and that the volume does not use any more; others may hold them
    /// too.
    pub past_bytes: u64,
    /// Those of them that no other snapshot holds: what deleting it gives back. What of a segment the
    /// volume does not use is not in it as long as it uses the rest.
    pub alone_bytes: u64,
    /// A dump of its metadata is in the bucket.
    #[serde(default)]
    pub dumped: bool,
}

/// All snapshots of a volume together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotTotals {
    /// How many there are.
    pub snapshots: u64,
    /// Bytes of objects that one or more of them hold and that the volume does not use any more: what deleting all
    /// gives back.
    pub bytes: u64,
}

/// The snapshots of a volume.
pub(crate) struct Snapshots {
    pub(crate) context: Arc<Context>,
    pub(crate) meta: Arc<Meta>,
    pub(crate) durability: Arc<Durability>,
    pub(crate) holders: Arc<Holders>,
    pub(crate) buckets: StripeSet,
    /// Why the last snapshot that was due could not be made.
    pub(crate) trouble: Mutex<Option<String>>,
    pub(crate) dumping: Dumping,
}

impl Snapshots {
    /// Keeps the volume as it is now under a name; durable when it returns. It holds all that was
    /// written before the call, but for what `options` say, and of what is written meanwhile what a
    /// crash could have left.
    pub(crate) async fn create(&self, options: &SnapshotOptions) -> Result<SnapshotView> {
        let SnapshotOptions { name, flush, rule } = options;
        self.context.check_writable()?;
        check_snapshot_name(name)?;
        if name == NEWEST {
            let text = "`newest` is what the newest dump is asked for by: choose another name";
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
        self.meta.checkpoints()?;
        if self.meta.snapshot(name).await.is_ok() {
            let text = format!("there is a snapshot `{name}` already: choose another name");
            return Err(FsError::new(ErrorKind::Exists, text));
        }
        self.check_nodes().await?;
        if *flush {
            self.durability.flush_all().await?;
            self.have_all_brought().await?;
        }
        let still = self.holders.still().await;
        let row = self.meta.begin_snapshot(name, rule.as_deref()).await?;
        let number = row.number;
        fail::fail_point!("engine::snapshot-begun");
        let made = match self.keep(&row).await {
            Ok(state) => {
                fail::fail_point!("engine::snapshot-kept");
                let row = SnapshotRow { state: Some(state), ..row };
                self.meta.finish_snapshot(name, &row).await.map(|()| row).map_err(given_up)
            }
            Err(error) => Err(error),
        };
        match made {
            Ok(row) => {
                fail::fail_point!("engine::snapshot-finished");
                Ok(view(name.clone(), &row, (Sizes::default(), false)))
            }
            Err(error) => {
                // What is left of it goes with the next look of the collector, in any case. The name may be another
                // node's snapshot by now.
                let _ = self.meta.give_up_snapshot(name, number, false).await;
                drop(still);
                self.holders.ended.notify_one();
                Err(error)
            }
        }
    }

    /// Has all nodes bring what was closed there and only they have. What they close from then on, of files that were
    /// there, is in the volume in that order.
    async fn have_all_brought(&self) -> Result<()> {
        let Some(leases) = self.meta.leases() else { return Ok(()) };
        leases.hold_off();
        let kv = &**self.meta.kv();
        let there: Vec<_> =
            weir_meta::sessions::sessions(kv).await?.iter().map(|session| session.id).collect();
        leases.have_all_brought(kv, &there).await?;
        self.durability.bring_all().await
    }

    /// Refuses where a node runs another build: one that does not know what a kept state needs would change it.
    async fn check_nodes(&self) -> Result<()> {
        if !self.context.is_shared() {
            return Ok(());
        }
        let nodes = weir_meta::sessions::sessions(&**self.meta.kv()).await?;
        match nodes.into_iter().find(|node| node.node.build != BUILD) {
            None => Ok(()),
            Some(other) => {
                let text = format!(
                    "node `{}` runs weir {}, and this one {BUILD}: upgrade all nodes of the volume first",
                    other.node.name, other.node.build
                );
                Err(FsError::new(ErrorKind::Unsupported, text))
            }
        }
    }

    async fn keep(&self, row: &SnapshotRow) -> Result<SnapshotState> {
        let checkpoint = self.meta.checkpoints()?.keep(&row.state_name()).await?;
        // Read after it was kept, so that it has no later ones; nothing is forgotten meanwhile.
        let newest_segment = self.meta.newest_segment().await?;
        let state = SnapshotState { checkpoint, newest_segment, inodes: 0, stored_bytes: 0 };
        let row = SnapshotRow { state: Some(state.clone()), ..row.clone() };
        let usage = self.meta.view_as(&row).await?.usage().await?;
        Ok(SnapshotState { inodes: usage.inodes, stored_bytes: usage.stored_bytes, ..state })
    }

    /// All snapshots, oldest first. One read, and three for each 5,000 segments that only snapshots
    /// hold.
    pub(crate) async fn list(&self) -> Result<Vec<SnapshotView>> {
        self.meta.checkpoints()?;
        let mut rows = self.meta.snapshots().await?;
        rows.retain(|(_, row)| row.state.is_some());
        rows.sort_unstable_by_key(|(_, row)| row.number);
        let (sizes, dumped) = (self.sizes(&rows).await?, self.dumped().await?);
        let views = rows
            .into_iter()
            .zip(sizes)
            .map(|((name, row), sizes)| view(name, &row, (sizes, dumped.contains(&row.number))));
        Ok(views.collect())
    }

    /// What all of them hold; nothing where the metadata keeps none. One read, and three for each 5,000 segments that only
    /// snapshots hold.
    pub(crate) async fn totals(&self) -> Result<SnapshotTotals> {
        if !self.meta.has_checkpoints() {
            return Ok(SnapshotTotals::default());
        }
        let all = self.meta.snapshots().await?;
        let snapshots = all.iter().filter(|(_, row)| row.state.is_some()).count() as u64;
        let (mut totals, mut after) = (SnapshotTotals { snapshots, bytes: 0 }, None);
        loop {
            let page = self.meta.held_segments(after, PAGE).await?;
            let Some((last, _)) = page.last() else { return Ok(totals) };
            after = Some(*last);
            let ids: Vec<_> = page.iter().map(|(id, _)| *id).collect();
            let live = self.meta.live_bytes(&ids).await?;
            let bytes = self.meta.object_bytes(&ids).await?;
            let only_held = live.iter().zip(bytes).filter(|(live, _)| **live == 0);
            totals.bytes += only_held.map(|(_, bytes)| bytes).sum::<u64>();
        }
    }

    /// One snapshot; `NotFound` if there is none of this name.
    pub(crate) async fn one(&self, name: &str) -> Result<SnapshotView> {
        let all = self.list().await?;
        let found = all.into_iter().find(|view| view.name == name);
        found.ok_or_else(|| {
            let text = format!("there is no snapshot `{}` in this volume", name.escape_debug());
            FsError::new(ErrorKind::NotFound, text)
        })
    }

    /// What each of these holds, which are sorted by age.
    async fn sizes(&self, rows: &[(String, SnapshotRow)]) -> Result<Vec<Sizes>> {
        let mut sizes = vec![Sizes::default(); rows.len()];
        let known = |id: SegmentId| {
            rows.partition_point(|(_, row)| {
                row.state.as_ref().is_none_or(|state| state.newest_segment < id)
            })
        };
        let mut after = None;
        loop {
            let page = self.meta.held_segments(after, PAGE).await?;
            let Some((last, _)) = page.last() else { return Ok(sizes) };
            after = Some(*last);
            let ids: Vec<_> = page.iter().map(|(id, _)| *id).collect();
            let live = self.meta.live_bytes(&ids).await?;
            let bytes = self.meta.object_bytes(&ids).await?;
            for (((id, number), live), bytes) in page.iter().zip(live).zip(bytes) {
                // From the first that knew it to the last that has some of it. One that was copied from
                // is the volume's again.
                let to = rows.iter().position(|(_, row)| row.number == *number);
                let Some(holding) = to.and_then(|to| sizes.get_mut(known(*id)..=to)) else {
                    continue;
                };
                if live == 0 {
                    let alone = holding.len() == 1;
                    holding.iter_mut().for_each(|one| one.add(bytes, alone));
                }
            }
        }
    }

    /// Deletes a snapshot; what only it held is given back by the collector's next looks. `Permission`
    /// if it is held. One read, and one commit; of one that was dumped two more, a LIST, and DELETEs.
    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        self.context.check_writable()?;
        self.remove_dump_of(name).await?;
        {
            let _still = self.holders.still().await;
            self.meta.end_snapshot(name).await?;
        }
        fail::fail_point!("engine::snapshot-ended");
        self.holders.ended.notify_one();
        Ok(())
    }

    /// Says whether a snapshot may be deleted. One commit.
    pub(crate) async fn hold(&self, name: &str, held: bool) -> Result<SnapshotView> {
        self.context.check_writable()?;
        self.meta.snapshot(name).await?;
        self.meta.hold_snapshot(name, held).await?;
        self.one(name).await
    }
}

/// What is told of a snapshot whose name was gone when it was whole.
fn given_up(error: FsError) -> FsError {
    match error.kind() {
        ErrorKind::NotFound => {
            let text = "making the snapshot took so long that another node gave it up: try again";
            FsError::new(ErrorKind::Retry, text).with_source(error)
        }
        _ => error,
    }
}

/// What a snapshot holds, in bytes of objects.
#[derive(Clone, Copy, Default)]
struct Sizes {
    past: u64,
    alone: u64,
}

impl Sizes {
    fn add(&mut self, bytes: u64, alone: bool) {
        self.past += bytes;
        self.alone += if alone { bytes } else { 0 };
    }
}

fn view(name: String, row: &SnapshotRow, (sizes, dumped): (Sizes, bool)) -> SnapshotView {
    let state = row.state.as_ref();
    SnapshotView {
        name,
        created: UnixTime((row.created_ms * 1_000_000).cast_signed()),
        held: row.held,
        rule: row.rule.clone(),
        files: state.map_or(0, |state| state.inodes),
        stored_bytes: state.map_or(0, |state| state.stored_bytes),
        past_bytes: sizes.past,
        alone_bytes: sizes.alone,
        dumped,
    }
}
