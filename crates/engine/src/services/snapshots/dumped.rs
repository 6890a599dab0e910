//! Which snapshots have a dump of their metadata in the bucket, and having one made.
//!
//! The dump goes before the snapshot: what it names is there as long as it is.

use std::collections::HashSet;

use bytes::Bytes;
use weir_types::{ErrorKind, FsError, Result};

use super::{SnapshotView, Snapshots};
use crate::services::backups::dumps::{remove_dump, sweep_dumps, write_dump};

/// Rows that the metadata keeps of this: one for each snapshot that may have a dump, whose value says whether it is whole,
/// and one that says that the newest of those that are made by themselves gets one.
const DUMPED: &str = "snapshots/dumped/";
const BY_THEMSELVES: &str = "snapshots/dump";
/// Something of a dump may be there.
const BEGUN: &[u8] = b"0";
const WHOLE: &[u8] = b"1";

impl Snapshots {
    /// The numbers of snapshots that have a dump; with `begun` also those of which something may be there. One read.
    async fn dumps(&self, begun: bool) -> Result<HashSet<u32>> {
        let rows = self.meta.kept(DUMPED).await?.into_iter();
        let rows = rows.filter(|(_, value)| begun || value == WHOLE);
        Ok(rows.filter_map(|(name, _)| name.strip_prefix(DUMPED)?.parse().ok()).collect())
    }

    pub(super) async fn dumped(&self) -> Result<HashSet<u32>> {
        self.dumps(false).await
    }

    /// Notes durably what there is of a dump.
    async fn note_dump(&self, number: u32, what: Option<&'static [u8]>) -> Result<()> {
        let row = (format!("{DUMPED}{number}"), what.map(Bytes::from_static));
        self.meta.keep(&[row]).await?;
        self.meta.sync().await
    }

    /// Writes the dump of a snapshot, or writes it anew. Reads all rows of its metadata; a PUT for each 16 MiB of them,
    /// and two commits that are made durable.
    pub(crate) async fn dump(&self, name: &str) -> Result<SnapshotView> {
        self.context.check_writable()?;
        let row = self.meta.snapshot(name).await?;
        let view = self.meta.view_as(&row).await?;
        let of = (&self.context.url[..], &self.context.format);
        // Before anything of it: who deletes the snapshot has to find it.
        self.note_dump(row.number, Some(BEGUN)).await?;
        let progress = self.dumping.begin(name);
        write_dump(of, &self.buckets, (name, &row, &view), &progress).await?;
        drop(progress);
        self.note_dump(row.number, Some(WHOLE)).await?;
        // It may have been deleted meanwhile, and its dump must not outlive it.
        match self.meta.snapshot(name).await.is_ok_and(|now| now.number == row.number) {
            true => self.one(name).await,
            false => {
                self.remove_dump_numbered(row.number).await?;
                let text = format!("snapshot `{name}` was deleted while its metadata was dumped");
                Err(FsError::new(ErrorKind::NotFound, text))
            }
        }
    }

    /// Removes the dump of a snapshot that is about to be deleted, and may be.
    pub(super) async fn remove_dump_of(&self, name: &str) -> Result<()> {
        let Ok(row) = self.meta.snapshot(name).await else { return Ok(()) };
        match row.held || !self.dumps(true).await?.contains(&row.number) {
            true => Ok(()),
            false => self.remove_dump_numbered(row.number).await,
        }
    }

    async fn remove_dump_numbered(&self, number: u32) -> Result<()> {
        self.note_dump(number, Some(BEGUN)).await?;
        remove_dump(self.buckets.first(), &self.context.format.id, number).await?;
        fail::fail_point!("engine::dump-removed");
        self.note_dump(number, None).await
    }

    /// Whether those that are made by themselves get a dump. One read.
    pub(super) async fn dumps_by_itself(&self) -> Result<bool> {
        Ok(self.meta.kept(BY_THEMSELVES).await?.iter().any(|(name, _)| name == BY_THEMSELVES))
    }

    pub(super) async fn set_dumps_by_itself(&self, dumps: bool) -> Result<()> {
        let value = dumps.then(|| Bytes::from_static(b"1"));
        self.meta.keep(&[(BY_THEMSELVES.to_owned(), value)]).await
    }

    /// Dumps the newest snapshot that was made by itself, where that is wanted and it has no dump. Two reads.
    pub(super) async fn dump_newest(&self) -> Result<()> {
        if !self.dumps_by_itself().await? {
            return Ok(());
        }
        let all = self.meta.snapshots().await?;
        let made = all.iter().filter(|(_, row)| row.rule.is_some() && row.state.is_some());
        let Some((name, row)) = made.max_by_key(|(_, row)| row.number) else { return Ok(()) };
        if self.dumped().await?.contains(&row.number) {
            return Ok(());
        }
        let dumped = self.dump(name).await?;
        tracing::info!(name = dumped.name, "the metadata of a snapshot was dumped, as scheduled");
        Ok(())
    }

    /// Removes dumps of which there is no snapshot. A LIST for each 1,000 objects of dumps, and a read where there are some.
    pub(crate) async fn sweep_dumps(&self) -> Result<()> {
        let known =
            async || Ok(self.meta.snapshots().await?.iter().map(|(_, row)| row.number).collect());
        sweep_dumps(self.buckets.first(), &self.context.format.id, known).await
    }
}
