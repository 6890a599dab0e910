//! What the processes of nodes are told to do, and what they answer.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::content::{Record, Run, Tag, told};

/// How a name takes the place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum How {
    Replace,
    NoReplace,
    Exchange,
}

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Way {
    Read,
    /// By a shared mapping.
    Mapped,
    /// With `O_DIRECT`.
    Direct,
}

/// One operation. Paths are below the directory of the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Op {
    /// `O_CREAT | O_EXCL`
    Create(String),
    Mkdir(String),
    Link(String, String),
    Rename(String, String, How),
    Unlink(String),
    Rmdir(String),
    /// `stat`
    Look(String),
    List(String),
    /// All that is below.
    Walk(String),
    /// Removes it with all that is below.
    Clear(String),
    /// All of a file written: open, `pwrite` from 0, close; what it had before is cut off by
    /// `O_TRUNC` or stays beyond what is written. With `held` what counts is `fsync`, and the file is
    /// closed so much later.
    Put {
        path: String,
        tag: Tag,
        words: u64,
        cut: bool,
        held: Option<Duration>,
    },
    /// Parts of a file written, as (word, words): open, writes, close.
    Write {
        path: String,
        tag: Tag,
        parts: Vec<(u64, u64)>,
        sync: bool,
    },
    /// To so many words, by its path or as an open file.
    Truncate {
        path: String,
        words: u64,
        open: bool,
    },
    /// All of a file written over through a shared mapping: open, `mmap`, stores, `msync`, close.
    PutMapped {
        path: String,
        tag: Tag,
        words: u64,
    },
    /// All of a file read: open, `fstat`, read, close.
    Get(String),
    /// The same in one of three ways. With `kept` it stays open and mapped so long and is read once more, and
    /// that is the answer.
    GetBy {
        path: String,
        way: Way,
        kept: Duration,
    },
    /// `O_APPEND`: open, a write for each, close.
    Append {
        path: String,
        records: Vec<Record>,
        sync: bool,
    },
    Records(String),
    Count(Count),
    /// Opens for reading and writing, and keeps it.
    Hold(String),
    /// Reads all of what is kept, again and again for so long or until it is not what was written.
    ReadHeld {
        words: u64,
        tag: Tag,
        time: Duration,
    },
    /// Writes so many words in the middle of what is kept, reads all of it, and closes.
    WriteHeld {
        at: u64,
        words: u64,
        tag: Tag,
    },
}

impl Op {
    /// Whether it is about names alone.
    pub(crate) fn is_of_names(&self) -> bool {
        let one =
            matches!(self, Self::Create(_) | Self::Mkdir(_) | Self::Unlink(_) | Self::Rmdir(_));
        one || matches!(self, Self::Link(..) | Self::Rename(..) | Self::Look(_) | Self::List(_))
    }
}

/// Counting under locks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Count {
    pub(crate) path: String,
    /// `flock`, else `fcntl`.
    pub(crate) flock: bool,
    /// Waits in the kernel, else asks again and again.
    pub(crate) wait: bool,
    /// Opens it anew each time.
    pub(crate) reopen: bool,
    /// Calls `fsync` before the lock is given back.
    pub(crate) sync: bool,
    pub(crate) turns: Vec<Turn>,
}

/// One time that a lock is had.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// Which counter of the file.
    pub(crate) counter: u64,
    /// All of the file is locked, else the counter's 8 bytes.
    pub(crate) whole: bool,
    /// Reads only.
    pub(crate) shared: bool,
    pub(crate) pause: Duration,
}

/// What one turn was.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) turn: Turn,
    pub(crate) asked: u64,
    pub(crate) got: u64,
    /// Before it was given back, or when it failed.
    pub(crate) until: u64,
    /// After it was given back.
    pub(crate) back: u64,
    pub(crate) saw: Option<u64>,
    /// All of it went well.
    pub(crate) whole: bool,
    /// How often it was told that others have it, though it asked without waiting.
    pub(crate) refused: u32,
}

/// What a name is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Leaf {
    pub(crate) path: String,
    pub(crate) is_dir: bool,
    pub(crate) ino: u64,
    /// Of a file; a listing tells neither this nor the size.
    pub(crate) links: u64,
    pub(crate) size: u64,
}

/// What an operation answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Value {
    Nothing,
    Ino(u64),
    Leaves(Vec<Leaf>),
    Content { size: u64, runs: Vec<Run> },
    Records { size: u64, found: Vec<(u64, Record)>, stray: u64 },
    Turns { held: Vec<Held>, failed: Option<i32> },
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Done(Value),
    Failed(i32),
    /// The directory of the run was not to be had: nothing was done.
    Away(i32),
}

/// An operation's end, and when it was.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) outcome: Outcome,
}

/// What one process does, each after a pause.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Nanoseconds of the clock.
    pub(crate) begin: u64,
    pub(crate) ops: Vec<(Duration, Op)>,
}

pub(crate) fn errno(number: i32) -> String {
    std::io::Error::from_raw_os_error(number).to_string()
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Create(path) => write!(f, "create {path}"),
            Self::Mkdir(path) => write!(f, "mkdir {path}"),
            Self::Link(from, to) => write!(f, "link {from} {to}"),
            Self::Rename(from, to, how) => write!(f, "rename {from} {to} {how:?}"),
            Self::Unlink(path) => write!(f, "unlink {path}"),
            Self::Rmdir(path) => write!(f, "rmdir {path}"),
            Self::Look(path) => write!(f, "stat {path}"),
            Self::List(path) => write!(f, "list {path}"),
            Self::Walk(path) => write!(f, "walk {path}"),
            Self::Clear(path) => write!(f, "rm -r {path}"),
            Self::Put { path, tag, words, cut, held } => {
                let how = if *cut { "O_TRUNC, write" } else { "pwrite" };
                write!(f, "{how} {path} #{tag} {words} words")?;
                held.map_or(Ok(()), |time| write!(f, ", fsync, close {time:?} later"))
            }
            Self::Write { path, tag, parts, sync } => {
                let shown: Vec<_> =
                    parts.iter().take(6).map(|(at, n)| format!("{at}+{n}")).collect();
                let (count, sync) = (parts.len(), if *sync { ", fsync" } else { "" });
                write!(f, "write {path} #{tag} {count} parts {}{sync}", shown.join(" "))
            }
            Self::Truncate { path, words, open } => {
                let how = if *open { "ftruncate" } else { "truncate" };
                write!(f, "{how} {path} to {words} words")
            }
            Self::PutMapped { path, tag, words } => {
                write!(f, "store into a mapping of {path} #{tag} {words} words")
            }
            Self::Get(path) => write!(f, "read {path}"),
            Self::GetBy { path, way, kept } => write!(f, "read {path}, {way:?}, kept {kept:?}"),
            Self::Append { path, records, sync } => {
                let each: Vec<_> = records
                    .iter()
                    .map(|r| format!("{}.{}({})", r.writer, r.number, r.bytes))
                    .collect();
                write!(f, "append {path} {}{}", each.join(" "), if *sync { ", fsync" } else { "" })
            }
            Self::Records(path) => write!(f, "read records of {path}"),
            Self::Count(count) => {
                let Count { path, flock, wait, reopen, sync, turns } = count;
                let turns = turns.len();
                write!(f, "count in {path}, {turns} turns, flock {flock}, wait {wait}, ")?;
                write!(f, "reopen {reopen}, fsync {sync}")
            }
            Self::Hold(path) => write!(f, "open {path} and keep it"),
            Self::ReadHeld { words, tag, time } => {
                write!(f, "read what is kept for {time:?}: {words} words #{tag}")
            }
            Self::WriteHeld { at, words, tag } => {
                write!(f, "write what is kept, #{tag} {at}+{words}, read it and close")
            }
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => write!(f, "ok"),
            Self::Ino(ino) => write!(f, "ok, inode {ino}"),
            Self::Leaves(leaves) => {
                let one = |leaf: &Leaf| {
                    let Leaf { path, is_dir, ino, links, size } = leaf;
                    let of = match is_dir {
                        true => "/".to_owned(),
                        false => format!(":{ino}×{links},{size}B"),
                    };
                    format!("{path}{of}")
                };
                write!(f, "[{}]", leaves.iter().map(one).collect::<Vec<_>>().join(" "))
            }
            Self::Content { size, runs } => write!(f, "{size} bytes {}", told(runs)),
            Self::Records { size, found, stray } => {
                write!(f, "{size} bytes, {} records, {stray} bytes of none", found.len())
            }
            Self::Turns { held, failed } => {
                let failed = failed.map_or("well".to_owned(), errno);
                write!(f, "{} turns, ended {failed}", held.len())
            }
        }
    }
}
