//! Snapshots of the volume.

use weir_types::Result;

use crate::engine::Engine;
use crate::services::snapshots::diff::{DiffOptions, DiffPage};
use crate::services::snapshots::dumping::DumpingView;
use crate::services::snapshots::rules::SnapshotRule;
use crate::services::snapshots::schedule::ScheduleView;
use crate::services::snapshots::{SnapshotOptions, SnapshotTotals, SnapshotView};
use crate::volume::boxed::{Boxed, boxed};

impl Engine {
    /// Keeps the volume as it is now under a name, read-only, whatever its size: a flush of what is not
    /// in the bucket, three commits that are made durable, and two or three PUTs. It holds all that was
    /// written before the call, and of what is written meanwhile what a crash could have left. Durable
    /// when it returns; `Exists` if the name is taken.
    pub fn create_snapshot<'a>(
        &'a self,
        options: &'a SnapshotOptions,
    ) -> Boxed<'a, Result<SnapshotView>> {
        boxed(self.snapshots.create(options))
    }

    /// All snapshots, oldest first. One read, and three for each 5,000 segments that only snapshots
    /// hold.
    pub fn snapshots(&self) -> Boxed<'_, Result<Vec<SnapshotView>>> {
        boxed(self.snapshots.list())
    }

    /// What all snapshots hold together. One read, and three for each 5,000 segments that only snapshots hold.
    pub fn snapshot_totals(&self) -> Boxed<'_, Result<SnapshotTotals>> {
        boxed(self.snapshots.totals())
    }

    /// Deletes a snapshot; what only it held is given back by the collector's next looks. `Permission`
    /// if it is held. One commit.
    pub fn delete_snapshot<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<()>> {
        boxed(self.snapshots.delete(name))
    }

    /// Says whether a snapshot may be deleted. One commit.
    pub fn hold_snapshot<'a>(
        &'a self,
        name: &'a str,
        held: bool,
    ) -> Boxed<'a, Result<SnapshotView>> {
        boxed(self.snapshots.hold(name, held))
    }

    /// A page of what is different between two snapshots, or a snapshot and the volume as it is now: some thousands of
    /// names that were looked at, in no order. The first page of the volume as it is now is of after a flush. `NotFound`
    /// if there is no such snapshot. Four reads, and two for each directory above a name that differs.
    pub fn diff_snapshots<'a>(&'a self, options: &'a DiffOptions) -> Boxed<'a, Result<DiffPage>> {
        boxed(self.snapshots.diff(options))
    }

    /// The rules by which snapshots are made by themselves, and what there is of them. Two reads, one more for each
    /// 1,000 snapshots. `Unsupported` where the metadata keeps none.
    pub fn snapshot_schedule(&self) -> Boxed<'_, Result<ScheduleView>> {
        boxed(self.snapshots.schedule())
    }

    /// Replaces these rules, and says whether the newest of what they make gets a dump; none of them: no snapshot is made
    /// by itself any more. What rules made that go stays. Two reads, two commits, and a deletion for each snapshot that is too many then.
    pub fn set_snapshot_schedule(
        &self,
        rules: Vec<SnapshotRule>,
        dump: bool,
    ) -> Boxed<'_, Result<ScheduleView>> {
        boxed(async move { self.snapshots.set_schedule(&rules, dump).await })
    }

    /// Keeps the rows of a snapshot's metadata in the volume's bucket, from which [`crate::restore_metadata`] makes metadata
    /// again that was lost; goes with the snapshot. Reads all of them; a PUT for each 16 MiB, and one commit.
    pub fn dump_snapshot<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<SnapshotView>> {
        boxed(self.snapshots.dump(name))
    }

    /// Dumps that are being written by this node, and how far they are. Costs nothing.
    pub fn dumping(&self) -> Vec<DumpingView> {
        self.snapshots.dumping.view()
    }

    /// Makes the snapshots that are due, without waiting for the next look, which is every 15 s. Costs two reads
    /// where there are none.
    pub fn make_due_snapshots(&self) -> Boxed<'_, Result<()>> {
        boxed(self.snapshots.make_due())
    }
}
