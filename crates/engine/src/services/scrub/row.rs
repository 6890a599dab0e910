//! How far a scrub is, as it is kept with the volume and as it is told.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_meta::Meta;
use weir_types::{ErrorKind, FsError, Result, UnixTime};

/// The name of its row.
const NAME: &str = "scrub";
/// Losses that are named.
const NAMED_MAX: usize = 1_000;

/// Bytes that are nowhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lost {
    /// The file, from the volume's root; empty where only snapshots, or nothing that has a name, need the bytes.
    pub path: String,
    /// Where in the file.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
    /// What is wrong in the bucket.
    pub why: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ScrubRow {
    pub(super) running: bool,
    /// The mount that reads; empty: none.
    pub(super) owner: String,
    pub(super) cancelled: bool,
    pub(super) started_ms: u64,
    pub(super) ended_ms: u64,
    pub(super) max_bytes_per_s: Option<u64>,
    /// The last segment that was read.
    pub(super) after: Option<u128>,
    pub(super) segments: u64,
    pub(super) bytes: u64,
    pub(super) segments_done: u64,
    pub(super) bytes_done: u64,
    pub(super) damaged: u64,
    pub(super) repaired: u64,
    pub(super) lost_files: u64,
    pub(super) lost: Vec<Lost>,
}

/// How far a scrub is, or how the last one ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScrubView {
    /// One goes on.
    pub running: bool,
    /// The last one was ended before its end.
    pub cancelled: bool,
    /// When it was begun; none: there never was one.
    pub started: Option<UnixTime>,
    /// When it ended.
    pub ended: Option<UnixTime>,
    /// Bytes a second at most.
    pub max_bytes_per_s: Option<u64>,
    /// Segments that were read.
    pub segments_done: u64,
    /// Segments that there were when it was begun.
    pub segments: u64,
    /// Bytes of their objects that were read.
    pub bytes_done: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Until it ends, at the speed that it had up to now.
    pub seconds_left: Option<u64>,
    /// Segments of which something was damaged or missing in the bucket.
    pub damaged: u64,
    /// Of those, the ones of which all that the volume needs is in the bucket again, from the tier.
    pub repaired: u64,
    /// Pieces of files that are nowhere.
    pub lost_pieces: u64,
    /// The first of them.
    pub lost: Vec<Lost>,
    /// Why it stands still; it goes on by itself.
    pub trouble: Option<String>,
}

impl ScrubRow {
    /// One read.
    pub(super) async fn read(meta: &Meta) -> Result<Self> {
        let rows = meta.kept(NAME).await?;
        let Some((_, bytes)) = rows.into_iter().find(|(name, _)| name == NAME) else {
            return Ok(Self::default());
        };
        serde_json::from_slice(&bytes).map_err(|error| {
            let text = "how far the scrub is cannot be read: was it begun by a newer weir?";
            FsError::new(ErrorKind::Corrupt, text).with_source(error)
        })
    }

    /// One commit.
    pub(super) async fn write(&self, meta: &Meta) -> Result<()> {
        let bytes = serde_json::to_vec(self)
            .map_err(|e| FsError::new(ErrorKind::Bug, "encode a scrub").with_source(e))?;
        meta.keep(&[(NAME.to_owned(), Some(bytes.into()))]).await
    }

    pub(super) fn begun(owner: &str, started_ms: u64, segments: u64, bytes: u64) -> Self {
        let (running, owner) = (true, owner.to_owned());
        Self { running, owner, started_ms, segments, bytes, ..Self::default() }
    }

    pub(super) fn add(&mut self, damaged: u64, repaired: u64, lost: Vec<Lost>) {
        self.damaged += damaged;
        self.repaired += repaired;
        self.lost_files += lost.len() as u64;
        self.lost.extend(lost);
        self.lost.truncate(NAMED_MAX);
    }

    pub(super) fn view(self, now_ms: u64, trouble: Option<String>) -> ScrubView {
        let at = |ms: u64| (ms > 0).then_some(UnixTime((ms * 1_000_000).cast_signed()));
        let took_ms = now_ms.saturating_sub(self.started_ms);
        let left = self.bytes.saturating_sub(self.bytes_done);
        let seconds_left = match (self.running, self.max_bytes_per_s, self.bytes_done) {
            (false, ..) | (true, None, 0) => None,
            (true, Some(rate), _) => Some(left / rate.max(1)),
            (true, None, done) => {
                let ms = u128::from(left) * u128::from(took_ms) / u128::from(done);
                Some(u64::try_from(ms / 1_000).unwrap_or(u64::MAX))
            }
        };
        ScrubView {
            running: self.running,
            cancelled: self.cancelled,
            started: at(self.started_ms),
            ended: at(self.ended_ms),
            max_bytes_per_s: self.max_bytes_per_s,
            segments_done: self.segments_done,
            segments: self.segments.max(self.segments_done),
            bytes_done: self.bytes_done,
            bytes: self.bytes.max(self.bytes_done),
            seconds_left,
            damaged: self.damaged,
            repaired: self.repaired,
            lost_pieces: self.lost_files,
            lost: self.lost,
            trouble: trouble.filter(|_| self.running),
        }
    }
}
