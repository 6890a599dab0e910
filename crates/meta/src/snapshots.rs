//! Snapshots: the volume as it was, under a name, for as long as nobody deletes it.
//!
//! What a snapshot reads is a state of the whole map that the engine below keeps. What must always
//! hold:
//!
//! - A row is there before the state is kept, and until it is let go: no state is kept unknown.
//! - Each segment in which the extents of a snapshot have bytes has its row in the volume as it is
//!   now, so that no listing takes its object for one that nothing names ([`crate::held`]).
//! - As long as any snapshot is there, or a segment is held for one, the layout's number is one that
//!   builds refuse which know nothing of this: their collector would delete what snapshots need.

use serde::{Deserialize, Serialize};
use weir_types::{ErrorKind, FsError, Ino, Result, SegmentId};

use crate::codec::{Seen, decode, decode_seen, encode, last_key, version};
use crate::kv::{CheckpointId, Checkpoints, Key, Version};
use crate::op::{Tries, Tx};
use crate::volume::{LAYOUT, LAYOUT_SNAPSHOTS};
use crate::{Meta, keys};

/// Rows read at once.
const PAGE: usize = 1_000;
/// Longest name, in bytes.
const NAME_BYTES_MAX: usize = 128;
/// What the kept state of a snapshot is called, before its number.
const STATE_NAME: &str = "weir-snapshot-";

/// A snapshot as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotRow {
    /// A number that no other snapshot of the volume ever had.
    pub number: u32,
    /// When it was begun, in milliseconds since 1970.
    pub created_ms: u64,
    /// What it is; `None` while it is being made, or where that was given up.
    pub state: Option<SnapshotState>,
    /// Nobody may delete it.
    pub held: bool,
    /// The rule of the schedule that made it, and may delete it.
    pub rule: Option<String>,
}

/// A snapshot that is whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotState {
    /// Its metadata.
    pub checkpoint: CheckpointId,
    /// No segment with a later name has bytes of it.
    pub newest_segment: SegmentId,
    /// Inodes in it.
    pub inodes: u64,
    /// File bytes that its extents cover.
    pub stored_bytes: u64,
}

/// Which snapshots there were at a moment: none was begun since as long as this stays the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotsSeen(pub(crate) Option<Version>);

impl SnapshotRow {
    /// What the engine below calls its state.
    pub fn state_name(&self) -> String {
        format!("{STATE_NAME}{}", self.number)
    }
}

/// The number of the snapshot of which a kept state is, by what that is called.
pub fn snapshot_of_state(name: &str) -> Option<u32> {
    name.strip_prefix(STATE_NAME)?.parse().ok()
}

/// Refuses what no snapshot may be called: a name is one of a directory, and of an argument.
pub fn check_snapshot_name(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
    let fits = name.len() <= NAME_BYTES_MAX && name.chars().all(allowed);
    if fits && name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Ok(());
    }
    let text = format!(
        "`{}` is no name for a snapshot: a letter or digit, and then letters, digits, `.`, `_`, `:` \
         and `-`, at most {NAME_BYTES_MAX}",
        name.escape_debug()
    );
    Err(FsError::new(ErrorKind::Invalid, text))
}

pub(crate) fn no_snapshot(name: &str) -> FsError {
    let text = format!("there is no snapshot `{}` in this volume", name.escape_debug());
    FsError::new(ErrorKind::NotFound, text)
}

impl Meta {
    /// Whether states of this metadata can be kept.
    pub fn has_checkpoints(&self) -> bool {
        self.kv.checkpoints().is_some()
    }

    /// What keeps states of this metadata; `Unsupported` where nothing does.
    pub fn checkpoints(&self) -> Result<&dyn Checkpoints> {
        self.kv.checkpoints().ok_or_else(|| {
            let text =
                "the volume's metadata is where no states of it are kept: it has no snapshots";
            FsError::new(ErrorKind::Unsupported, text)
        })
    }

    /// Whether the volume ever had a snapshot. One read.
    pub async fn had_snapshots(&self) -> Result<bool> {
        Ok(self.snapshots_seen().await?.0.is_some())
    }

    /// To be asked for before the snapshots, by who relies on none being begun since. One read.
    pub async fn snapshots_seen(&self) -> Result<SnapshotsSeen> {
        let found = self.get(&[keys::NEXT_SNAPSHOT.to_vec()]).await?;
        Ok(SnapshotsSeen(version(found[0].as_ref())))
    }

    /// All snapshots by name, those too that are being made. One read for each 1,000.
    pub async fn snapshots(&self) -> Result<Vec<(String, SnapshotRow)>> {
        let rows = self.snapshot_rows(keys::SNAPSHOT).await?.into_iter();
        Ok(rows.map(|(key, row)| (String::from_utf8_lossy(&key[1..]).into_owned(), row)).collect())
    }

    /// Those that have no name any more, and hold what they held until [`Meta::forget_snapshot`]. One
    /// read for each 1,000.
    pub async fn ending_snapshots(&self) -> Result<Vec<SnapshotRow>> {
        Ok(self.snapshot_rows(keys::SNAPSHOT_ENDS).await?.into_iter().map(|(_, row)| row).collect())
    }

    async fn snapshot_rows(&self, tag: u8) -> Result<Vec<(Key, SnapshotRow)>> {
        let mut all = Vec::new();
        let mut after: Option<Key> = None;
        loop {
            let page = self.kv.scan(&[tag], after.as_deref(), PAGE).await?;
            for (key, found) in &page {
                all.push((key.clone(), decode(key, &found.value)?));
            }
            if page.len() < PAGE {
                return Ok(all);
            }
            after = last_key(&page);
        }
    }

    /// The snapshot of this name; `NotFound` if there is none that is whole. One read.
    pub async fn snapshot(&self, name: &str) -> Result<SnapshotRow> {
        let row = self.seen_snapshot(name).await?.value;
        match row.state {
            Some(_) => Ok(row),
            None => Err(no_snapshot(name)),
        }
    }

    async fn seen_snapshot(&self, name: &str) -> Result<Seen<SnapshotRow>> {
        let key = keys::snapshot(name);
        let found = self.get(std::slice::from_ref(&key)).await?;
        decode_seen(&key, found[0].as_ref())?.ok_or_else(|| no_snapshot(name))
    }

    /// Gives a snapshot its name and number, before its state is kept. `Exists` if the name is taken.
    /// Durable when it returns. One read, one commit and a sync.
    pub async fn begin_snapshot(&self, name: &str, rule: Option<&str>) -> Result<SnapshotRow> {
        check_snapshot_name(name)?;
        self.checkpoints()?;
        let (key, next) = (keys::snapshot(name), keys::NEXT_SNAPSHOT.to_vec());
        let wanted = [key.clone(), next.clone(), keys::NEXT_INO.to_vec()];
        let mut tries = Tries::new("begin a snapshot");
        loop {
            tries.next().await?;
            let found = self.get(&wanted).await?;
            if found[0].is_some() {
                let text = format!("there is a snapshot `{name}` already: choose another name");
                return Err(FsError::new(ErrorKind::Exists, text));
            }
            let number = decode_seen::<u32>(&next, found[1].as_ref())?.map_or(1, |seen| seen.value);
            let inos = decode_seen::<u64>(keys::NEXT_INO, found[2].as_ref())?;
            if number > Ino::SNAPSHOTS_MAX || inos.is_none_or(|seen| seen.value > Ino::LIVE_MAX) {
                let text = "the volume has had as many snapshots, or files, as numbers of inodes tell \
                            apart: copy it to a new one";
                return Err(FsError::new(ErrorKind::NoSpace, text));
            }
            let created_ms = (self.now().0 / 1_000_000).max(0).cast_unsigned();
            let rule = rule.map(str::to_owned);
            let row = SnapshotRow { number, created_ms, state: None, held: false, rule };
            let mut tx = Tx::default();
            tx.check(key.clone(), None);
            tx.check(next.clone(), version(found[1].as_ref()));
            tx.put(next.clone(), encode(&(number + 1))?);
            tx.put(key.clone(), encode(&row)?);
            let layout = self.layout_at_least(LAYOUT_SNAPSHOTS, &mut tx).await?;
            tx.put(keys::FORMAT.to_vec(), encode(&layout)?);
            if self.apply(tx).await? {
                self.sync().await?;
                return Ok(row);
            }
        }
    }

    /// Makes a snapshot that was begun whole; durable when it returns. `NotFound` if it was given up
    /// meanwhile. One read, one commit and a sync.
    pub async fn finish_snapshot(&self, name: &str, row: &SnapshotRow) -> Result<()> {
        let number = row.number;
        self.change_snapshot(name, "finish a snapshot", |now| match now.number == number {
            true => Ok(row.clone()),
            false => Err(no_snapshot(name)),
        })
        .await?;
        self.sync().await
    }

    /// Says whether a snapshot may be deleted. Durable when it returns. One read, one commit and a
    /// sync.
    pub async fn hold_snapshot(&self, name: &str, held: bool) -> Result<SnapshotRow> {
        let change = |now| Ok(SnapshotRow { held, ..now });
        let row = self.change_snapshot(name, "hold a snapshot", change).await?;
        self.sync().await?;
        Ok(row)
    }

    async fn change_snapshot(
        &self,
        name: &str,
        what: &'static str,
        change: impl Fn(SnapshotRow) -> Result<SnapshotRow>,
    ) -> Result<SnapshotRow> {
        let mut tries = Tries::new(what);
        loop {
            tries.next().await?;
            let seen = self.seen_snapshot(name).await?;
            let row = change(seen.value)?;
            let mut tx = Tx::default();
            tx.check(keys::snapshot(name), Some(seen.version));
            tx.put(keys::snapshot(name), encode(&row)?);
            if self.apply(tx).await? {
                return Ok(row);
            }
        }
    }

    /// Takes a snapshot's name away; what only it holds goes later. `Permission` if it is held.
    /// Durable when it returns. One read, one commit and a sync.
    pub async fn end_snapshot(&self, name: &str) -> Result<SnapshotRow> {
        self.end_snapshot_if(name, |_| true).await
    }

    /// The same of one that was begun under this number and that nobody is making any more; with `unfinished` only where it
    /// is not whole. Nothing happens where the name is another one's by now, or nobody's.
    pub async fn give_up_snapshot(&self, name: &str, number: u32, unfinished: bool) -> Result<()> {
        let may = |row: &SnapshotRow| row.number == number && !(unfinished && row.state.is_some());
        match self.end_snapshot_if(name, may).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            ended => ended.map(drop),
        }
    }

    /// Ends the snapshot that has the name now, if that `may` be ended; else there is none.
    async fn end_snapshot_if(
        &self,
        name: &str,
        may: impl Fn(&SnapshotRow) -> bool,
    ) -> Result<SnapshotRow> {
        let mut tries = Tries::new("delete a snapshot");
        loop {
            tries.next().await?;
            let Seen { version, value: row, .. } = self.seen_snapshot(name).await?;
            if !may(&row) {
                return Err(no_snapshot(name));
            }
            if row.held {
                let text = format!(
                    "snapshot `{name}` is held: `weir snapshot release` lets it be deleted"
                );
                return Err(FsError::new(ErrorKind::Permission, text));
            }
            let mut tx = Tx::default();
            tx.check(keys::snapshot(name), Some(version));
            tx.delete(keys::snapshot(name));
            tx.put(keys::snapshot_ends(row.number), encode(&row)?);
            if self.apply(tx).await? {
                self.forget_view(row.number);
                self.sync().await?;
                return Ok(row);
            }
        }
    }

    /// Forgets a snapshot that was ended, once its state is let go and no segment is held by it. With
    /// the last one the layout is what it was before the first. Two reads and one commit.
    pub async fn forget_snapshot(&self, number: u32) -> Result<()> {
        let mut tx = Tx::default();
        tx.delete(keys::snapshot_ends(number));
        let (next, layout) = (keys::NEXT_SNAPSHOT.to_vec(), keys::FORMAT.to_vec());
        let found = self.get(&[next.clone(), layout.clone()]).await?;
        let ends = self.kv.scan(&[keys::SNAPSHOT_ENDS], None, 2).await?;
        let others = ends.iter().any(|(key, _)| *key != keys::snapshot_ends(number));
        let named = !self.kv.scan(&[keys::SNAPSHOT], None, 1).await?.is_empty();
        let holds = !self.kv.scan(&[keys::HELD], None, 1).await?.is_empty();
        let now = decode_seen::<u32>(&layout, found[1].as_ref())?.map(|seen| seen.value);
        if !others && !named && !holds && now == Some(LAYOUT_SNAPSHOTS) {
            // Whoever begins one meanwhile changes both.
            tx.check(next, version(found[0].as_ref()));
            tx.check(layout.clone(), version(found[1].as_ref()));
            tx.put(layout, encode(&LAYOUT)?);
        }
        // If somebody did, the row goes the next time.
        self.apply(tx).await.map(drop)
    }

    /// A name that no segment is later than which the metadata knows by now. One read, and another one
    /// for each 1,000 segments that are of a time to come.
    pub async fn newest_segment(&self) -> Result<SegmentId> {
        let unix_ms = (self.now().0 / 1_000_000).max(0).cast_unsigned();
        let mut newest = SegmentId::new(unix_ms, u128::MAX);
        loop {
            let after = keys::segment(newest);
            let page = self.kv.scan(&[keys::SEGMENT], Some(&after), PAGE).await?;
            match page.last().and_then(|(key, _)| keys::parse_segment(key)) {
                Some(later) => newest = later,
                None => return Ok(newest),
            }
        }
    }
}
