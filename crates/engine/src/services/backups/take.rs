//! Taking a backup.

use schemars::JsonSchema;
use serde::Serialize;
use weir_meta::check_snapshot_name;
use weir_object::{BucketUrl, Component};
use weir_types::{ErrorKind, FsError, Result, SegmentId};

use super::held::Held;
use super::manifest::{BackupView, at, list_key, names, opened};
use super::progress::BackupProgress;
use super::rows::{Written, write_rows};
use super::segments::{Copied, Copying, Wanted, wanted};
use super::source::Source;
use crate::volume::connector::Connector;
use crate::volume::host::Host;

/// What snapshots are called that are made for one backup, before the name of who makes it.
const UNDER_WAY: &str = "backup-";
/// Segments of one object that lists them.
const LISTED: usize = 500_000;

/// What is to be taken.
#[derive(Clone)]
pub struct BackupOptions {
    /// The volume.
    pub url: BucketUrl,
    /// How it is reached.
    pub connector: Connector,
    /// The snapshot of it that is taken.
    pub snapshot: String,
    /// What the backup is called: as a snapshot may be.
    pub name: String,
    /// Segments that are copied at once.
    pub jobs: usize,
    /// Read also segments that are there from an earlier backup.
    pub verify: bool,
}

/// What was taken.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BackupReport {
    /// The backup.
    #[serde(flatten)]
    pub backup: BackupView,
    /// Segments that earlier backups did not have.
    pub copied: u64,
    /// Bytes of their objects.
    pub copied_bytes: u64,
}

/// A place of backups that is in our hands.
pub struct Taking {
    held: Held,
}

impl Taking {
    /// Takes a place of backups into our hands. Three requests. `Conflict` while somebody else has it.
    pub async fn begin(to: &BucketUrl, connector: &Connector, host: &Host) -> Result<Self> {
        let bucket = opened(connector.connect(to)?).await?;
        let held = Held::begin(&bucket, host).await?;
        Ok(Self { held })
    }

    /// What the snapshot is to be called that is made for this backup alone.
    pub fn snapshot_name(&self) -> String {
        format!("{UNDER_WAY}{}", self.held.id)
    }

    /// The snapshot of a backup that was killed here, if there was one: nobody needs it any more.
    pub fn left_snapshot(&self) -> Option<String> {
        self.held.before.as_ref().map(|id| format!("{UNDER_WAY}{id}"))
    }

    /// Takes a snapshot. A GET and a PUT for each segment that is not there, a LIST for each 1,000 that are, a PUT for
    /// each 16 MiB of rows. Ended anywhere it leaves no backup, and the next one copies none of its segments again.
    ///
    /// # Errors
    /// `Exists` if there is a backup of this name, `Invalid` if those there are of another volume.
    pub async fn take(
        &self,
        options: &BackupOptions,
        progress: &BackupProgress,
    ) -> Result<BackupReport> {
        check_snapshot_name(&options.name)?;
        let source = Source::open(&options.url, &options.connector, &options.snapshot).await?;
        self.check_free(&options.name, &source).await?;
        let wanted = wanted(&source.view).await?;
        let (segments, object_bytes) =
            (wanted.len() as u64, wanted.iter().map(|(_, bytes)| bytes).sum());
        let lists = self.list(&options.name, &wanted).await?;
        let copying = Copying {
            from: &source.buckets,
            to: self.held.buckets(),
            jobs: options.jobs,
            alone: false,
            verify: options.verify,
            progress,
        };
        let Copied { segments: copied, bytes: copied_bytes, damaged } = copying.all(wanted).await?;
        fail::fail_point!("engine::backup-copied");
        let rows_id = SegmentId::new(source.row.created_ms, uuid::Uuid::new_v4().as_u128());
        let (at, of) = (at(&options.name), (source.buckets.keys(), &*source.view));
        let Written { objects, sum } =
            write_rows(self.held.bucket(), (&at, rows_id), of, progress).await?;
        fail::fail_point!("engine::backup-rows");
        self.held.check().await?;
        let url = options.url.to_string();
        let of = (&options.name[..], &url[..], &source.format, &source.row);
        let rows = BackupView::of_rows(of, rows_id, (objects, sum));
        let backup = BackupView { segments, object_bytes, lists, damaged, ..rows };
        backup.write(self.held.bucket(), &at).await?;
        Ok(BackupReport { backup, copied, copied_bytes })
    }

    /// Gives the place back. Two requests.
    pub async fn end(self) -> Result<()> {
        self.held.end().await
    }

    /// Whether the place is one for a backup of this volume and name.
    async fn check_free(&self, name: &str, source: &Source) -> Result<()> {
        let url = self.held.bucket().url();
        let (whole, _) = names(self.held.bucket()).await?;
        if whole.iter().any(|other| other == name) {
            let text = format!("there is a backup `{name}` in {url} already: choose another name");
            return Err(FsError::new(ErrorKind::Exists, text));
        }
        let Some(other) = whole.last() else { return Ok(()) };
        let other = BackupView::read(self.held.bucket(), other).await?;
        if other.volume == source.format.id {
            return Ok(());
        }
        let text = format!(
            "{url} has backups of another volume, {} ({}): name another place",
            other.volume, other.url
        );
        Err(FsError::new(ErrorKind::Invalid, text))
    }

    /// Lists the segments of a backup, before any is copied. Answers in how many objects.
    async fn list(&self, name: &str, wanted: &[Wanted]) -> Result<u32> {
        let mut lists = 0;
        for some in wanted.chunks(LISTED) {
            let ids: Vec<u8> = some.iter().flat_map(|(id, _)| id.0.to_le_bytes()).collect();
            self.held.bucket().put(Component::Meta, &list_key(&at(name), lists), ids).await?;
            lists += 1;
        }
        Ok(lists)
    }
}
