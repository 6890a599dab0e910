//! A whole file system: one directory of files that are kept in memory.
//!
//! `cargo run -p weir-fuse --example memory DIRECTORY` mounts it there and serves it until
//! `umount DIRECTORY`. It is as short as can be: no links, no directories in it, all in one lock, each
//! request answered at once. A test mounts it (`tests/memory.rs`).

#![allow(
    clippy::disallowed_methods,
    reason = "it is a program of its own, with the machine's clock"
)]

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use weir_fuse::{
    Answer, Attr, DirBuffer, Entry, Errno, Handler, Interrupted, MountOptions, Opened, Operation,
    Reply, Request, Session, SetAttr, Space, Time, Timestamp, init, open,
};

/// The kernel calls the directory that is mounted so.
const ROOT: u64 = 1;
/// How long the kernel may believe what it is told: nobody else changes anything.
const TTL: Duration = Duration::from_secs(3600);
/// Bytes of the largest request.
const REQUEST_BYTES: u32 = 1 << 20;
/// What a file may hold: it is memory.
const FILE_BYTES_MAX: usize = 1 << 30;

/// The file system.
#[derive(Default)]
pub(crate) struct Memory(Mutex<Files>);

/// Files by inode number. A file without a name lives until its last close.
#[derive(Default)]
struct Files {
    files: BTreeMap<u64, File>,
    last: u64,
}

struct File {
    name: Option<Vec<u8>>,
    bytes: Vec<u8>,
    attr: Attr,
    opens: usize,
}

fn now() -> Timestamp {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    Timestamp { secs: now.as_secs() as i64, nanos: now.subsec_nanos() }
}

impl File {
    fn attr(&self) -> Attr {
        let size = self.bytes.len() as u64;
        Attr { size, blocks: size.div_ceil(512), nlink: self.name.is_some().into(), ..self.attr }
    }

    fn entry(&self) -> Entry {
        Entry { attr: self.attr(), node: 0, entry_ttl: TTL, attr_ttl: TTL }
    }

    fn changed(&mut self) {
        self.attr.mtime = now();
        self.attr.ctime = self.attr.mtime;
    }

    fn resize(&mut self, bytes: u64) -> Result<(), Errno> {
        let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= FILE_BYTES_MAX);
        self.bytes.resize(bytes.ok_or(Errno(libc::EFBIG))?, 0);
        self.changed();
        Ok(())
    }

    fn read(&self, offset: u64, size: u32) -> &[u8] {
        let length = self.bytes.len();
        let start = usize::try_from(offset).unwrap_or(length).min(length);
        &self.bytes[start..length.min(start + size as usize)]
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<u32, Errno> {
        let end = offset.checked_add(data.len() as u64).ok_or(Errno(libc::EFBIG))?;
        self.resize(end.max(self.bytes.len() as u64))?;
        self.bytes[offset as usize..end as usize].copy_from_slice(data);
        Ok(data.len() as u32)
    }

    fn set(&mut self, set: SetAttr) -> Result<Attr, Errno> {
        if let Some(size) = set.size {
            self.resize(size)?;
        }
        let at = |time| match time {
            Time::Now => now(),
            Time::At(time) => time,
        };
        let mode = set.mode.map_or(self.attr.mode, |mode| libc::S_IFREG | mode & 0o7777);
        self.attr.mode = mode;
        self.attr.uid = set.uid.unwrap_or(self.attr.uid);
        self.attr.gid = set.gid.unwrap_or(self.attr.gid);
        self.attr.atime = set.atime.map_or(self.attr.atime, at);
        self.attr.mtime = set.mtime.map_or(self.attr.mtime, at);
        self.attr.ctime = now();
        Ok(self.attr())
    }
}

impl Files {
    fn file(&mut self, ino: u64) -> Result<&mut File, Errno> {
        self.files.get_mut(&ino).ok_or(Errno(libc::ENOENT))
    }

    fn named(&mut self, name: &[u8]) -> Result<&mut File, Errno> {
        let mut files = self.files.values_mut();
        files.find(|file| file.name.as_deref() == Some(name)).ok_or(Errno(libc::ENOENT))
    }

    fn attr(&mut self, ino: u64) -> Result<Attr, Errno> {
        match ino {
            ROOT => Ok(Attr { ino, mode: libc::S_IFDIR | 0o777, nlink: 2, ..Attr::default() }),
            _ => Ok(self.file(ino)?.attr()),
        }
    }

    fn create(&mut self, name: &[u8], mode: u32, who: Request) -> &mut File {
        self.last = self.last.max(ROOT) + 1;
        let (ino, time) = (self.last, now());
        let (mode, Request { uid, gid, .. }) = (libc::S_IFREG | mode & 0o7777, who);
        let (atime, mtime, ctime) = (time, time, time);
        let attr = Attr { ino, mode, uid, gid, atime, mtime, ctime, ..Attr::default() };
        let file = File { name: Some(name.to_vec()), bytes: Vec::new(), attr, opens: 1 };
        self.files.entry(ino).or_insert(file)
    }

    fn close(&mut self, ino: u64) -> Result<(), Errno> {
        self.file(ino)?.opens -= 1;
        self.sweep();
        Ok(())
    }

    fn unlink(&mut self, name: &[u8]) -> Result<(), Errno> {
        self.named(name)?.name = None;
        self.sweep();
        Ok(())
    }

    fn rename(&mut self, name: &[u8], new_name: &[u8], flags: u32) -> Result<(), Errno> {
        if flags != 0 {
            return Err(Errno(libc::EINVAL));
        }
        let ino = self.named(name)?.attr.ino;
        if name != new_name && self.named(new_name).is_ok() {
            self.unlink(new_name)?;
        }
        self.file(ino)?.name = Some(new_name.to_vec());
        Ok(())
    }

    /// A file that has no name and that nobody has open is gone.
    fn sweep(&mut self) {
        self.files.retain(|_, file| file.name.is_some() || file.opens > 0);
    }

    fn space(&self) -> Space {
        let used = self.files.values().map(|file| file.bytes.len().div_ceil(4096) as u64).sum();
        let (files, blocks) = (self.files.len() as u64, (1 << 20_u64).max(used));
        let (free, files_free) = (blocks - used, 1 << 20);
        let (block_bytes, name_bytes_max) = (4096, 255);
        Space { blocks, free, files: files + files_free, files_free, block_bytes, name_bytes_max }
    }

    /// As much of a listing as there is room for; readers go on at the offset of the last entry.
    fn list(&self, offset: u64, size: u32) -> DirBuffer {
        let mut buffer = DirBuffer::new(size);
        let dots = [(ROOT, libc::S_IFDIR, &b"."[..]), (ROOT, libc::S_IFDIR, b"..")];
        let named = self.files.values().filter_map(|file| {
            file.name.as_deref().map(|name| (file.attr.ino, file.attr.mode, name))
        });
        // Numbers that stay with their entries: names may come and go between two requests.
        let numbered = |(at, entry): (usize, (u64, u32, _))| match at {
            0 | 1 => (at as u64 + 1, entry),
            _ => (entry.0 + 1, entry),
        };
        for (next, (ino, kind, name)) in dots.into_iter().chain(named).enumerate().map(numbered) {
            if next > offset && buffer.add(ino, next, kind, name) {
                break;
            }
        }
        buffer
    }
}

impl Handler for Memory {
    fn handle(&self, request: Request, asked: Operation<'_>, _: Interrupted, reply: Reply) {
        let (mut files, ino) = (self.0.lock(), request.ino);
        match asked {
            Operation::Lookup { name } => {
                let found = files.named(name).map(|file| file.entry());
                give(reply, found, |reply, entry| reply.entry(&entry));
            }
            Operation::Getattr => {
                give(reply, files.attr(ino), |reply, attr| reply.attr(&attr, TTL))
            }
            Operation::Setattr(set) => {
                let changed = files.file(ino).and_then(|file| file.set(set));
                give(reply, changed, |reply, attr| reply.attr(&attr, TTL));
            }
            Operation::Create { name, mode, .. } => {
                let entry = files.create(name, mode, request).entry();
                reply.created(&entry, opened(entry.attr.ino));
            }
            Operation::Open { .. } => {
                let open = files.file(ino).map(|file| file.opens += 1);
                give(reply, open, |reply, ()| reply.opened(opened(ino)));
            }
            Operation::Release { .. } => {
                give(reply, files.close(ino), |reply, ()| reply.ok());
            }
            Operation::Read { offset, size, .. } => {
                let bytes = files.file(ino).map(|file| file.read(offset, size));
                give(reply, bytes, Reply::bytes);
            }
            Operation::Write { offset, data, .. } => {
                let written = files.file(ino).and_then(|file| file.write(offset, data));
                give(reply, written, Reply::size);
            }
            Operation::Unlink { name } => {
                give(reply, files.unlink(name), |reply, ()| reply.ok());
            }
            Operation::Rename { name, new_name, flags, .. } => {
                give(reply, files.rename(name, new_name, flags), |reply, ()| reply.ok());
            }
            Operation::Opendir => reply.opened(opened(ino)),
            Operation::Readdir { offset, size, .. } => {
                reply.bytes(files.list(offset, size).bytes())
            }
            Operation::Releasedir { .. } | Operation::Fsync { .. } => reply.ok(),
            Operation::Statfs => reply.space(files.space()),
            // The kernel asks for most of these once.
            _ => reply.error(Errno(libc::ENOSYS)),
        }
    }
}

fn give<T>(reply: Reply, served: Result<T, Errno>, answer: impl FnOnce(Reply, T)) {
    match served {
        Ok(value) => answer(reply, value),
        Err(errno) => reply.error(errno),
    }
}

/// Nobody else changes a file: what the kernel has of it in its cache stays right.
fn opened(ino: u64) -> Opened<'static> {
    Opened { handle: ino, flags: open::KEEP_CACHE, backing: None }
}

/// Mounts, and shakes hands with the kernel.
pub(crate) fn mount(mountpoint: &Path) -> io::Result<Session> {
    let options = MountOptions {
        source: "memory".to_owned(),
        subtype: "memory".to_owned(),
        flags: vec!["nosuid".to_owned(), "nodev".to_owned()],
        // The kernel checks modes and owners.
        words: vec!["default_permissions".to_owned()],
    };
    let device = weir_fuse::mount(mountpoint, &options)?;
    Session::begin(device, |_kernel_has| Answer {
        flags: init::ASYNC_READ | init::PARALLEL_DIROPS,
        readahead_bytes: REQUEST_BYTES,
        write_bytes: REQUEST_BYTES,
        background: 64,
        stack_depth: 0,
    })
}

#[allow(dead_code, reason = "a test mounts it without")]
fn main() -> io::Result<()> {
    let mountpoint = std::env::args_os().nth(1);
    let mountpoint =
        mountpoint.ok_or_else(|| io::Error::other("name the directory to mount on"))?;
    mount(Path::new(&mountpoint))?.serve(Arc::new(Memory::default()), 2)
}
