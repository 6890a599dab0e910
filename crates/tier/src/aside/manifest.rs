//! What an entry of what was set aside says of itself: `manifest.json`.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind as Io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_types::{ByteRange, ErrorKind, FsError, Ino, Result, UnixTime};

use crate::disk;
use crate::mirror::Mirror;
use crate::mirror_file::data_ranges;
use crate::ranges::page_ceil;

const NAME: &str = "manifest.json";
pub(super) const NEW: &str = "manifest.json.new";
/// The version of this layout.
const VERSION: u32 = 1;

/// Why something was set aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Another writer had the volume since.
    AnotherWriter,
    /// Somebody mounted without what was missing, and said that it may be lost.
    LossAccepted,
    /// The disk failed to write some of it.
    DiskFailed,
    /// The file system that it is on was mounted anew, without the daemon's end before.
    DiskRemounted,
    /// What the metadata has of the file is damaged.
    Damaged,
    /// An earlier build did not note it, or a later one has more reasons.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Of which life of the volume the data is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// Why it was set aside.
    pub why: Why,
    /// More of that for people; may be empty.
    #[serde(default)]
    pub detail: String,
    /// Ids of the mounts that may have written it.
    #[serde(default)]
    pub mounts: Vec<String>,
    /// When it was set aside, in milliseconds since 1970.
    pub unix_ms: u64,
    /// All metadata commits before it are, or will be, in the volume: no log is missing that says
    /// which of its inode numbers and generations never were.
    #[serde(default)]
    pub commits_hold: bool,
    /// Directory of the redo log that belongs to it, if one was set aside with it.
    #[serde(default)]
    pub log: Option<PathBuf>,
}

/// One file of which dirty data was set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The inode.
    pub ino: Ino,
    /// Name of the former mirror file in the entry's directory; it is not there if the file had
    /// no byte of its own.
    pub file: String,
    /// Size in bytes as local writers had made it.
    pub size: u64,
    /// The size was newer than the metadata's.
    pub resized: bool,
    /// When the data was last written, if the metadata did not have that.
    pub mtime: Option<UnixTime>,
    /// When the inode last changed by a write.
    pub ctime: Option<UnixTime>,
    /// Generation of the extents that the dirty data was based on; not known of earlier builds'.
    pub generation: Option<u64>,
    /// Dirty ranges, page-aligned `[start, end)`.
    pub dirty: Vec<ByteRange>,
    /// The file was moved here.
    #[serde(default)]
    pub moved: bool,
    /// A part of it is on its way into the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merging: Option<Merging>,
}

impl Kept {
    /// Dirty bytes within the file.
    pub fn bytes(&self) -> u64 {
        self.dirty.iter().map(|range| range.within(0, self.size).len()).sum()
    }
}

/// A part of a file that goes into the volume in one commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merging {
    /// Number of the segment that holds it, in 32 hex digits: extents that name it are this commit.
    pub segment: String,
    /// The ranges of the part.
    pub ranges: Vec<ByteRange>,
}

/// A file of a lost log that was made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remade {
    /// Its number now.
    pub ino: Ino,
    /// It has its names.
    pub done: bool,
    /// Directories of the volume and names in them that it is to have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<(Ino, Vec<u8>)>,
}

/// What one entry holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this layout.
    pub version: u32,
    /// Where it came from.
    #[serde(flatten)]
    pub cause: Cause,
    /// All is here that is listed.
    pub complete: bool,
    /// Somebody gave it up; what is left goes at the next mount.
    #[serde(default)]
    pub discarded: bool,
    /// Files with dirty data.
    #[serde(default)]
    pub files: Vec<Kept>,
    /// Files of the log that were made again, by the number that they had.
    #[serde(default)]
    pub remade: BTreeMap<u64, Remade>,
}

impl Manifest {
    /// An entry without files yet.
    pub fn new(cause: Cause) -> Self {
        Self { version: VERSION, cause, ..Self::default() }
    }

    /// What a mirror adds to it.
    pub(super) fn kept(&self, mirror: &Mirror) -> Kept {
        let residency = mirror.read_state();
        let state = &residency.state;
        let dirty =
            state.ranges.iter().filter(|(_, state)| state.is_dirty()).map(|(range, _)| range);
        let base = format!("{:016x}", state.ino.0);
        let taken = |name: &String| self.files.iter().any(|kept| kept.file == *name);
        let numbered = (1_u32..).map(|n| format!("{base}-{n}"));
        let file = std::iter::once(base.clone()).chain(numbered).find(|name| !taken(name));
        Kept {
            ino: state.ino,
            file: file.unwrap_or(base),
            size: state.size,
            resized: state.pending.size,
            mtime: state.pending.mtime,
            ctime: state.pending.ctime,
            generation: Some(state.generation),
            dirty: dirty.collect(),
            moved: false,
            merging: None,
        }
    }

    /// The manifest of an entry; `None` if it has none.
    pub fn read(directory: &Path) -> Result<Option<Self>> {
        let path = directory.join(NAME);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == Io::NotFound => return Ok(None),
            Err(e) => return Err(FsError::local_io(format!("read {}", path.display()), e)),
        };
        let damaged = |why: String| {
            let text = format!(
                "{}: {why}; move {} away to go on without what was set aside there",
                path.display(),
                directory.display()
            );
            FsError::new(ErrorKind::Corrupt, text)
        };
        let value: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version > u64::from(VERSION) => {
                Err(damaged(format!("version {version} is of a newer weir")))
            }
            _ => serde_json::from_value(value).map(Some).map_err(|e| damaged(e.to_string())),
        }
    }

    /// What can be told of an entry that an earlier build made, which has no manifest: the bytes
    /// of its files, by their number.
    pub fn guess(directory: &Path) -> Result<Self> {
        let at = |e| FsError::local_io(format!("list {}", directory.display()), e);
        let label = directory.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let unix_ms = label.parse::<u64>().map_or(0, |ns| ns / 1_000_000);
        let mut files = Vec::new();
        for entry in fs::read_dir(directory).map_err(at)? {
            let entry = entry.map_err(at)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(ino) = u64::from_str_radix(&name, 16) else { continue };
            let file = fs::File::open(entry.path()).map_err(at)?;
            let metadata = file.metadata().map_err(at)?;
            let size = metadata.len();
            let dirty = data_ranges(&file, page_ceil(size)).map_err(at)?;
            files.push(Kept {
                ino: Ino(ino),
                file: name,
                size,
                resized: true,
                mtime: None,
                ctime: None,
                generation: None,
                dirty,
                moved: true,
                merging: None,
            });
        }
        files.sort_by_key(|kept| kept.ino);
        let cause = Cause { unix_ms, ..Cause::default() };
        Ok(Self { complete: true, files, ..Self::new(cause) })
    }

    /// Writes it, durably and at once.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let path = directory.join(NAME);
        let at = |e| FsError::local_io(format!("write {}", path.display()), e);
        let text = serde_json::to_vec_pretty(self).map_err(|e| at(e.into()))?;
        let new = directory.join(NEW);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = disk::open(&new, &options).map_err(at)?;
        let written = disk::write_all_at(&file, &text, 0).and_then(|()| disk::sync_all(&file));
        written.and_then(|()| disk::rename(&new, &path)).map_err(at)?;
        sync_directory(directory)
    }

    /// Dirty bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(Kept::bytes).sum()
    }
}

/// Makes names in a directory durable.
pub fn sync_directory(directory: &Path) -> Result<()> {
    disk::sync_directory(directory)
        .map_err(|e| FsError::local_io(format!("sync {}", directory.display()), e))
}
