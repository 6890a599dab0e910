//! What people and programs are shown of what was set aside.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_tier::Why;
use weir_types::{ByteRange, FileKind, Ino};

/// How a file that was set aside stands to the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Nobody changed it since: it can go back.
    Unchanged,
    /// It never reached the volume, and its place is free: it can be made again.
    New,
    /// It was changed since.
    Changed,
    /// It is not in the volume any more.
    Removed,
    /// It never reached the volume, and cannot be made again as it was.
    Blocked,
    /// It cannot be told what its bytes were based on.
    Unknown,
}

/// One file of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AsideFile {
    /// The number that it had.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
    /// Where it is, or was, below the mount, if that is known.
    pub path: Option<String>,
    /// How it stands to the volume.
    pub standing: Standing,
    /// More of that, for people.
    pub why: String,
    /// Its size in bytes as it was here.
    pub size: u64,
    /// When it was last written here, in nanoseconds since 1970.
    pub mtime_ns: Option<i64>,
    /// Ranges of bytes that are here, `[start, end)`.
    pub ranges: Vec<ByteRange>,
    /// Bytes of them.
    pub bytes: u64,
    /// Its size in the volume now, in bytes.
    pub size_now: Option<u64>,
    /// When it was last written in the volume, in nanoseconds since 1970.
    pub mtime_now_ns: Option<i64>,
}

/// A change of names or attributes that was acknowledged and is not in the volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostOperation {
    /// `named`, `removed`, `attributes`, or `cut or written`.
    pub what: String,
    /// Of what, below the mount.
    pub path: String,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AsideView {
    /// Its name.
    pub label: String,
    /// Why it was set aside.
    pub why: Why,
    /// More of that; may be empty.
    pub detail: String,
    /// When, in milliseconds since 1970; 0 if that is not known.
    pub unix_ms: u64,
    /// Ids of the mounts that left it.
    pub mounts: Vec<String>,
    /// Where it is.
    pub directory: PathBuf,
    /// Where its log is, if it has one.
    pub log: Option<PathBuf>,
    /// Bytes of that.
    pub log_bytes: u64,
    /// What of it cannot be read.
    pub problem: Option<String>,
    /// Its files.
    pub files: Vec<AsideFile>,
    /// Other changes that are lost with it.
    pub operations: Vec<LostOperation>,
}

/// What a merge did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MergeReport {
    /// Files that went back into the volume.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Entries of which nothing is left.
    pub settled: Vec<String>,
    /// What is left of the others.
    pub left: Vec<AsideView>,
}

/// What was written out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExtractReport {
    /// The directory below which it is.
    pub directory: PathBuf,
    /// Each file.
    pub files: Vec<Extracted>,
}

/// One file that was written out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Extracted {
    /// The entry.
    pub label: String,
    /// Where it is, below the directory.
    pub path: PathBuf,
    /// Bytes that were set aside.
    pub bytes: u64,
    /// All of its bytes are known; else all but those that were set aside are holes.
    pub whole: bool,
}

/// How far the merge or extraction under way is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecoverProgress {
    /// Files that are done.
    pub files: u64,
    /// Of so many.
    pub files_total: u64,
    /// Bytes that are done.
    pub bytes: u64,
    /// Of so many.
    pub bytes_total: u64,
}
