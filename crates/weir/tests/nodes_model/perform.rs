//! Operations as a process of a node does them.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise, flock, fstat, fsync, ftruncate, linkat, mkdirat, openat};
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat};
use rustix::fs::{renameat_with, statat, unlinkat};
use rustix::io::{Errno, pread, pwrite, write};

use crate::content::{Record, Tag, WORD, bytes_of, records_in, runs_of};
use crate::op::{Count, Held, How, Leaf, Op, Outcome, Turn, Value, Way};
use crate::sys::{self, Lock, Mapping};

type Done<T> = Result<T, Errno>;

/// What a process of a node keeps.
pub(crate) struct Performer {
    /// The directory of the run on the node.
    root: PathBuf,
    held: Option<OwnedFd>,
}

impl Performer {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root, held: None }
    }

    /// Does it below the directory of the run as it is mounted now, and nowhere else.
    pub(crate) fn outcome(&mut self, op: &Op) -> Outcome {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(&self.root, flags, Mode::empty()) {
            Err(why) => Outcome::Away(why.raw_os_error()),
            Ok(root) => match self.perform(root.as_fd(), op) {
                Ok(value) => Outcome::Done(value),
                Err(why) => Outcome::Failed(why.raw_os_error()),
            },
        }
    }

    pub(crate) fn perform(&mut self, root: BorrowedFd<'_>, op: &Op) -> Done<Value> {
        let nothing = |()| Value::Nothing;
        match op {
            Op::Create(path) => create(root, path),
            Op::Mkdir(path) => {
                mkdirat(root, path, Mode::from(0o755))?;
                sys::settle(root).map(nothing)
            }
            Op::Link(from, to) => {
                linkat(root, from, root, to, AtFlags::empty())?;
                sys::settle(root).map(nothing)
            }
            Op::Rename(from, to, how) => {
                let flags = match how {
                    How::Replace => RenameFlags::empty(),
                    How::NoReplace => RenameFlags::NOREPLACE,
                    How::Exchange => RenameFlags::EXCHANGE,
                };
                renameat_with(root, from, root, to, flags).map(nothing)
            }
            Op::Unlink(path) => unlinkat(root, path, AtFlags::empty()).map(nothing),
            Op::Rmdir(path) => unlinkat(root, path, AtFlags::REMOVEDIR).map(nothing),
            Op::Look(path) => {
                let leaf = leaf(path, &statat(root, path, AtFlags::SYMLINK_NOFOLLOW)?);
                Ok(Value::Leaves(vec![leaf]))
            }
            Op::List(path) => list(root, path).map(Value::Leaves),
            Op::Walk(path) => {
                let mut all = Vec::new();
                walk(root, path, "", &mut all)?;
                Ok(Value::Leaves(all))
            }
            Op::Clear(path) => clear(root, path).map(nothing),
            Op::Put { path, tag, words, cut, held } => {
                let flags = if *cut { OFlags::TRUNC } else { OFlags::empty() };
                let file = open(root, path, OFlags::WRONLY | OFlags::CREATE | flags)?;
                write_at(&file, &bytes_of(*tag, 0, *words), 0)?;
                self.end_put(file, held.is_some()).map(nothing)
            }
            Op::Write { path, tag, parts, sync } => {
                write_parts(root, path, *tag, (parts, *sync)).map(nothing)
            }
            Op::Truncate { path, words, open } => {
                truncate(root, path, (words * WORD, *open)).map(nothing)
            }
            Op::PutMapped { path, tag, words } => {
                put_mapped(root, path, &bytes_of(*tag, 0, *words))
            }
            Op::Get(path) => get(root, path),
            Op::GetBy { path, way, kept } => get_by(root, path, *way, *kept),
            Op::Append { path, records, sync } => append(root, path, records, *sync).map(nothing),
            Op::Records(path) => records(root, path),
            Op::Count(count) => Ok(count_up(root, count)),
            Op::Hold(path) => {
                self.held = Some(open(root, path, OFlags::RDWR)?);
                Ok(Value::Nothing)
            }
            Op::ReadHeld { words, tag, time } => {
                read_held(self.held.as_ref().ok_or(Errno::BADF)?, &bytes_of(*tag, 0, *words), *time)
            }
            Op::WriteHeld { at, words, tag } => {
                let file = self.held.take().ok_or(Errno::BADF)?;
                write_at(&file, &bytes_of(*tag, *at, *words), at * WORD)?;
                let content = content_now(&file)?;
                sys::close(file)?;
                Ok(content)
            }
        }
    }

    fn end_put(&mut self, file: OwnedFd, keep: bool) -> Done<()> {
        if !keep {
            return sys::close(file);
        }
        fsync(&file)?;
        self.held = Some(file);
        Ok(())
    }

    /// What is done once the answer's time was taken.
    pub(crate) fn after(&mut self, op: &Op) {
        if let Op::Put { held: Some(time), .. } = op
            && let Some(file) = self.held.take()
        {
            sys::pause(*time);
            drop(file);
        }
    }
}

pub(crate) fn open(root: impl AsFd, path: &str, flags: OFlags) -> Done<OwnedFd> {
    openat(root, path, flags | OFlags::CLOEXEC, Mode::from(0o644))
}

fn truncate(root: BorrowedFd<'_>, path: &str, (bytes, by_open): (u64, bool)) -> Done<()> {
    if by_open {
        let file = open(root, path, OFlags::WRONLY)?;
        ftruncate(&file, bytes)?;
        return sys::close(file);
    }
    sys::truncate(&format!("/proc/self/fd/{}/{path}", root.as_raw_fd()), bytes)?;
    sys::settle(root)
}

fn create(root: BorrowedFd<'_>, path: &str) -> Done<Value> {
    let file = open(root, path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
    let ino = fstat(&file)?.st_ino;
    sys::close(file)?;
    Ok(Value::Ino(ino))
}

#[allow(clippy::unnecessary_cast, reason = "other machines count links in 32 bits")]
pub(crate) fn leaf(path: &str, stat: &Stat) -> Leaf {
    let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    let (links, size) = if is_dir { (0, 0) } else { (stat.st_nlink as u64, stat.st_size as u64) };
    Leaf { path: path.to_owned(), is_dir, ino: stat.st_ino, links, size }
}

fn list(root: BorrowedFd<'_>, path: &str) -> Done<Vec<Leaf>> {
    let directory = open(root, path, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut leaves = Vec::new();
    for entry in Dir::new(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            let is_dir = entry.file_type() == FileType::Directory;
            leaves.push(Leaf { path: name, is_dir, ino: entry.ino(), links: 0, size: 0 });
        }
    }
    Ok(leaves)
}

/// All below a directory, with paths from there, in their order.
fn walk(root: BorrowedFd<'_>, top: &str, below: &str, all: &mut Vec<Leaf>) -> Done<()> {
    let mut entries = list(root, &format!("{top}{below}"))?;
    entries.sort();
    for entry in entries {
        let path = format!("{below}/{}", entry.path);
        let stat = statat(root, format!("{top}{path}"), AtFlags::SYMLINK_NOFOLLOW)?;
        let leaf = leaf(&path[1..], &stat);
        let is_dir = leaf.is_dir;
        all.push(leaf);
        if is_dir {
            walk(root, top, &path, all)?;
        }
    }
    Ok(())
}

fn clear(root: BorrowedFd<'_>, path: &str) -> Done<()> {
    for entry in list(root, path)? {
        let path = format!("{path}/{}", entry.path);
        match entry.is_dir {
            true => clear(root, &path)?,
            false => unlinkat(root, path, AtFlags::empty())?,
        }
    }
    unlinkat(root, path, AtFlags::REMOVEDIR)
}

fn write_parts(
    root: BorrowedFd<'_>,
    path: &str,
    tag: Tag,
    (parts, sync): (&[(u64, u64)], bool),
) -> Done<()> {
    let file = open(root, path, OFlags::WRONLY | OFlags::CREATE)?;
    for (at, words) in parts {
        write_at(&file, &bytes_of(tag, *at, *words), at * WORD)?;
    }
    if sync {
        fsync(&file)?;
    }
    sys::close(file)
}

pub(crate) fn write_at(file: &OwnedFd, mut bytes: &[u8], mut at: u64) -> Done<()> {
    while !bytes.is_empty() {
        let written = pwrite(file, bytes, at)?;
        bytes = &bytes[written..];
        at += written as u64;
    }
    Ok(())
}

pub(crate) fn read_all(file: &OwnedFd) -> Done<Vec<u8>> {
    const PART: usize = 1 << 20;
    let (mut all, mut have) = (Vec::new(), 0);
    loop {
        all.resize(have + PART, 0);
        match pread(file, &mut all[have..], have as u64)? {
            0 => break,
            read => have += read,
        }
    }
    all.truncate(have);
    Ok(all)
}

fn get(root: BorrowedFd<'_>, path: &str) -> Done<Value> {
    let file = open(root, path, OFlags::RDONLY)?;
    let size = fstat(&file)?.st_size as u64;
    let bytes = read_all(&file)?;
    sys::close(file)?;
    Ok(Value::Content { size, runs: runs_of(&bytes) })
}

fn get_by(root: BorrowedFd<'_>, path: &str, way: Way, kept: Duration) -> Done<Value> {
    let flags = if way == Way::Direct { OFlags::DIRECT } else { OFlags::empty() };
    let file = open(root, path, OFlags::RDONLY | flags)?;
    let size = || Ok::<_, Errno>(fstat(&file)?.st_size as u64);
    let mapping = match way {
        Way::Mapped => Some(Mapping::new(&file, size()? as usize, false)?),
        _ => None,
    };
    let read = || match (&mapping, way) {
        (Some(mapping), _) => Ok(mapping.bytes()),
        (None, Way::Direct) => sys::read_direct(&file),
        (None, _) => read_all(&file),
    };
    let mut bytes = read()?;
    if !kept.is_zero() {
        sys::pause(kept);
        bytes = read()?;
    }
    let size = size()?;
    drop(mapping);
    sys::close(file)?;
    Ok(Value::Content { size, runs: runs_of(&bytes) })
}

fn put_mapped(root: BorrowedFd<'_>, path: &str, bytes: &[u8]) -> Done<Value> {
    let file = open(root, path, OFlags::RDWR)?;
    let mut mapping = Mapping::new(&file, bytes.len(), true)?;
    mapping.store(bytes);
    mapping.sync()?;
    drop(mapping);
    sys::close(file)?;
    Ok(Value::Nothing)
}

fn records(root: BorrowedFd<'_>, path: &str) -> Done<Value> {
    let file = open(root, path, OFlags::RDONLY)?;
    let bytes = read_all(&file)?;
    sys::close(file)?;
    let (found, stray) = records_in(&bytes);
    Ok(Value::Records { size: bytes.len() as u64, found, stray })
}

/// A record is one `write`, and one that is torn is an error.
fn append(root: BorrowedFd<'_>, path: &str, records: &[Record], sync: bool) -> Done<()> {
    let file = open(root, path, OFlags::WRONLY | OFlags::APPEND)?;
    for record in records {
        let bytes = record.to_bytes();
        if write(&file, &bytes)? != bytes.len() {
            return Err(Errno::MSGSIZE);
        }
    }
    if sync {
        fsync(&file)?;
    }
    sys::close(file)
}

fn count_up(root: BorrowedFd<'_>, count: &Count) -> Value {
    let (mut held, mut kept) = (Vec::new(), None);
    for turn in &count.turns {
        let mut one = Held {
            turn: *turn,
            asked: sys::now(),
            got: 0,
            until: 0,
            back: 0,
            saw: None,
            whole: false,
            refused: 0,
        };
        let took = take_turn(root, count, &mut kept, &mut one);
        one.back = sys::now();
        if one.got != 0 {
            if one.until == 0 {
                one.until = one.back;
            }
            held.push(one);
        }
        if let Err(why) = took {
            return Value::Turns { held, failed: Some(why.raw_os_error()) };
        }
    }
    Value::Turns { held, failed: None }
}

fn take_turn(
    root: BorrowedFd<'_>,
    count: &Count,
    kept: &mut Option<OwnedFd>,
    one: &mut Held,
) -> Done<()> {
    let file = match kept.take() {
        Some(file) => file,
        None => open(root, &count.path, OFlags::RDWR)?,
    };
    one.asked = sys::now();
    lock(&file, count, &one.turn, &mut one.refused)?;
    one.got = sys::now();
    let mut bytes = [0; WORD as usize];
    let at = one.turn.counter * WORD;
    let counted = pread(&file, &mut bytes, at)?;
    if counted != bytes.len() {
        return Err(Errno::NODATA);
    }
    let saw = u64::from_le_bytes(bytes);
    one.saw = Some(saw);
    sys::pause(one.turn.pause);
    if !one.turn.shared {
        write_at(&file, &(saw + 1).to_le_bytes(), at)?;
        if count.sync {
            fsync(&file)?;
        }
    }
    one.until = sys::now();
    match count.flock {
        true => flock(&file, FlockOperation::Unlock)?,
        false => sys::lock_range(&file, Lock::None, range(&one.turn), false)?,
    }
    match count.reopen {
        true => sys::close(file)?,
        false => *kept = Some(file),
    }
    one.whole = true;
    Ok(())
}

fn range(turn: &Turn) -> (u64, u64) {
    if turn.whole { (0, 0) } else { (turn.counter * WORD, WORD) }
}

fn lock(file: &OwnedFd, count: &Count, turn: &Turn, refused: &mut u32) -> Done<()> {
    const BETWEEN: Duration = Duration::from_millis(1);
    loop {
        let took = match (count.flock, turn.shared, count.wait) {
            (true, true, true) => flock(file, FlockOperation::LockShared),
            (true, false, true) => flock(file, FlockOperation::LockExclusive),
            (true, true, false) => flock(file, FlockOperation::NonBlockingLockShared),
            (true, false, false) => flock(file, FlockOperation::NonBlockingLockExclusive),
            (false, shared, wait) => {
                let how = if shared { Lock::Shared } else { Lock::Exclusive };
                sys::lock_range(file, how, range(turn), wait)
            }
        };
        match took {
            Err(Errno::AGAIN | Errno::ACCESS) if !count.wait => *refused += 1,
            took => return took,
        }
        sys::pause(BETWEEN);
    }
}

/// What it reads in the end, or as soon as it is not what it must be.
fn read_held(file: &OwnedFd, want: &[u8], time: Duration) -> Done<Value> {
    const BETWEEN: Duration = Duration::from_millis(500);
    let (began, want) = (Instant::now(), runs_of(want));
    loop {
        let content = content_now(file)?;
        let is_it = matches!(&content, Value::Content { runs, .. } if *runs == want);
        if !is_it || began.elapsed() >= time {
            return Ok(content);
        }
        sys::pause(BETWEEN);
    }
}

/// Past the kernel's cache of it, as far as that is clean.
fn content_now(file: &OwnedFd) -> Done<Value> {
    fadvise(file, 0, None, Advice::DontNeed)?;
    let runs = runs_of(&read_all(file)?);
    Ok(Value::Content { size: fstat(file)?.st_size as u64, runs })
}
