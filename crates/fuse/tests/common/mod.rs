//! A file system that is as small as can be, mounted over either transport.
#![allow(
    unreachable_pub,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "helpers of tests are tests too; nothing here is async"
)]

use std::fs::{self, File};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::mount::UnmountFlags;
use weir_fuse::{
    Answer, Attr, DirBuffer, Entry, Errno, Handler, Interrupted, LockRange, MountOptions, Notifier,
    Opened, Operation, Reply, Request, Session, Space, init, open,
};

const ENABLE: &str = "/sys/module/fuse/parameters/enable_uring";
/// Bytes of the largest request.
pub const REQUEST_BYTES: usize = 1 << 20;
/// The byte that stands at an offset of `large`.
pub fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9) >> 13) as u8
}

/// A directory of files that are what their names say. What is written to `file` is kept.
pub struct Tiny {
    kept: Mutex<Vec<u8>>,
    handles: AtomicU64,
    /// Answers of all requests but those that wait come from another thread.
    later: Option<mpsc::Sender<Box<dyn FnOnce() + Send>>>,
    /// Requests that wait until they are interrupted or let go.
    pub waiting: Mutex<Vec<Reply>>,
    pub interrupted: Arc<AtomicU64>,
    /// How often a name was asked for.
    pub lookups: AtomicU64,
}

const NAMES: [&[u8]; 7] = [b"file", b"large", b"link", b"waits", b"stuck", b"panics", b"dropped"];

fn ino(name: &[u8]) -> Option<u64> {
    Some(NAMES.iter().position(|known| *known == name)? as u64 + 2)
}

fn is(ino: u64, name: &[u8]) -> bool {
    NAMES.get(ino.wrapping_sub(2) as usize).is_some_and(|known| *known == name)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Tiny {
    pub fn new(is_later: bool) -> Self {
        let later = is_later.then(|| {
            let (sender, receiver) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
            std::thread::spawn(move || receiver.iter().for_each(|answer| answer()));
            sender
        });
        Self {
            kept: Mutex::default(),
            handles: AtomicU64::new(1),
            later,
            waiting: Mutex::default(),
            interrupted: Arc::default(),
            lookups: AtomicU64::new(0),
        }
    }

    fn attr(&self, ino: u64) -> Attr {
        let (mode, size) = match ino {
            1 => (libc::S_IFDIR | 0o755, 0),
            ino if is(ino, b"link") => (libc::S_IFLNK | 0o777, 4),
            ino if is(ino, b"file") => (libc::S_IFREG | 0o644, self.kept.lock().unwrap().len()),
            _ => (libc::S_IFREG | 0o644, 64 << 20),
        };
        Attr { ino, size: size as u64, mode, nlink: 1, blksize: 4096, ..Attr::default() }
    }

    fn answer(&self, reply: Reply, answer: impl FnOnce(Reply) + Send + 'static) {
        match &self.later {
            Some(later) => later.send(Box::new(move || answer(reply))).unwrap(),
            None => answer(reply),
        }
    }

    fn read(&self, ino: u64, offset: u64, size: u32, reply: Reply, interrupted: Interrupted) {
        match ino {
            ino if is(ino, b"waits") => {
                let count = self.interrupted.clone();
                std::thread::spawn(move || {
                    block_on(interrupted);
                    count.fetch_add(1, Ordering::SeqCst);
                    reply.error(Errno(libc::EINTR));
                });
            }
            ino if is(ino, b"stuck") => self.waiting.lock().unwrap().push(reply),
            ino if is(ino, b"panics") => panic!("a handler of a test"),
            ino if is(ino, b"dropped") => {}
            ino if is(ino, b"file") => {
                let kept = self.kept.lock().unwrap();
                let from = kept.len().min(offset as usize);
                let bytes = kept[from..kept.len().min(from + size as usize)].to_vec();
                self.answer(reply, move |reply| reply.bytes(&bytes));
            }
            _ => {
                let bytes: Vec<u8> = (offset..offset + u64::from(size)).map(byte_at).collect();
                self.answer(reply, move |reply| reply.bytes(&bytes));
            }
        }
    }

    fn look_up(&self, name: &[u8], reply: Reply) {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        let Some(ino) = ino(name) else { return reply.error(Errno(libc::ENOENT)) };
        // That one is believed for long.
        let entry_ttl = if is(ino, b"large") { Duration::from_secs(3600) } else { Duration::ZERO };
        let entry = Entry { attr: self.attr(ino), entry_ttl, ..Entry::default() };
        self.answer(reply, move |reply| reply.entry(&entry));
    }

    fn list(&self, offset: u64, size: u32, plus: bool, reply: Reply) {
        let mut buffer = DirBuffer::new(size);
        for (number, name) in NAMES.iter().enumerate().skip(offset as usize) {
            let (attr, next) = (self.attr(number as u64 + 2), number as u64 + 1);
            let is_full = match plus {
                true => {
                    let entry = Entry { attr, ..Entry::default() };
                    buffer.add_with(&entry, attr.ino, next, name)
                }
                false => buffer.add(attr.ino, next, attr.mode, name),
            };
            if is_full {
                break;
            }
        }
        self.answer(reply, move |reply| reply.bytes(buffer.bytes()));
    }

    fn write(&self, offset: u64, data: &[u8], reply: Reply) {
        let size = data.len() as u32;
        let before = data.to_vec();
        {
            let mut kept = self.kept.lock().unwrap();
            let end = offset as usize + data.len();
            let length = kept.len().max(end);
            kept.resize(length, 0);
            kept[offset as usize..end].copy_from_slice(data);
        }
        reply.size(size);
        assert!(before == data, "a request changed when it was answered");
    }

    fn opened(&self) -> Opened<'static> {
        let handle = self.handles.fetch_add(1, Ordering::Relaxed);
        Opened { handle, flags: open::DIRECT_IO | open::NOFLUSH, backing: None }
    }

    fn xattr(size: u32, value: &[u8], reply: Reply) {
        match size as usize {
            0 => reply.size(value.len() as u32),
            room if room < value.len() => reply.error(Errno(libc::ERANGE)),
            _ => reply.bytes(value),
        }
    }
}

impl Handler for Tiny {
    fn handle(
        &self,
        request: Request,
        asked: Operation<'_>,
        interrupted: Interrupted,
        reply: Reply,
    ) {
        let attr = self.attr(request.ino);
        let no_time = Duration::ZERO;
        match asked {
            Operation::Lookup { name } => self.look_up(name, reply),
            Operation::Getattr => self.answer(reply, move |reply| reply.attr(&attr, no_time)),
            Operation::Setattr(set) => {
                if let Some(size) = set.size {
                    self.kept.lock().unwrap().resize(size as usize, 0);
                }
                reply.attr(&self.attr(request.ino), no_time);
            }
            Operation::Readlink => reply.bytes(b"file"),
            Operation::Create { name: b"refused", .. } => reply.error(Errno(libc::EACCES)),
            Operation::Create { .. } => {
                let entry = Entry { attr: self.attr(99), ..Entry::default() };
                reply.created(&entry, self.opened());
            }
            Operation::Open { .. } | Operation::Opendir => reply.opened(self.opened()),
            Operation::Read { offset, size, .. } => {
                self.read(request.ino, offset, size, reply, interrupted);
            }
            Operation::Write { offset, data, .. } => self.write(offset, data, reply),
            Operation::Readdir { offset, size, .. } => self.list(offset, size, false, reply),
            Operation::Readdirplus { offset, size, .. } => self.list(offset, size, true, reply),
            Operation::Statfs => reply.space(Space {
                blocks: 1000,
                free: 600,
                files: 70,
                files_free: 7,
                block_bytes: 4096,
                name_bytes_max: 255,
            }),
            Operation::Getxattr { name: b"user.a", size } => Self::xattr(size, b"value", reply),
            Operation::Getxattr { .. } => reply.error(Errno(libc::ENODATA)),
            Operation::Listxattr { size } => Self::xattr(size, b"user.a\0", reply),
            // Names and their bytes come beside the numbers; who sets them reads them here.
            Operation::Setxattr { name: b"user.b", value: b"bytes", .. }
            | Operation::Rename { name: b"from", new_name: b"to", to: 1, .. }
            | Operation::Symlink { name: b"symlink", target: b"target" } => {
                reply.error(Errno(libc::EDQUOT));
            }
            Operation::Lseek { offset, .. } => reply.offset(offset as u64 + 5),
            Operation::Getlk { .. } => {
                let kind = libc::F_WRLCK;
                reply.lock(LockRange { start: 3, end: 9, kind, pid: std::process::id() });
            }
            Operation::Release { .. } | Operation::Releasedir { .. } | Operation::Fsync { .. } => {
                reply.ok();
            }
            _ => reply.error(Errno(libc::ENOSYS)),
        }
    }
}

fn block_on(future: impl Future) {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    while future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        std::thread::park();
    }
}

/// Where a [`Tiny`] is mounted; unmounted also when a test fails.
pub struct Mounted {
    pub path: PathBuf,
    pub tiny: Arc<Tiny>,
    pub notifier: Notifier,
    serving: Option<JoinHandle<io::Result<()>>>,
}

/// Mounts; `None` where that cannot be done here, or not over io_uring if that is wanted.
pub fn mount(over_rings: bool, is_later: bool) -> Option<Mounted> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("weir-tiny-{}-{number}", std::process::id()));
    fs::create_dir(&path).unwrap();
    let session = match begin(&path, over_rings) {
        Ok(session) => session,
        Err(error) => {
            eprintln!("SKIPPED: mounting on {}: {error}", path.display());
            fs::remove_dir(&path).unwrap();
            return None;
        }
    };
    let without = session.transport().without_rings().map(str::to_owned);
    let tiny = Arc::new(Tiny::new(is_later));
    let (handler, notifier) = (tiny.clone(), session.notifier());
    let serving = std::thread::spawn(move || session.serve(handler, 2));
    let mounted = Mounted { path, tiny, notifier, serving: Some(serving) };
    match without {
        Some(why) if over_rings => {
            eprintln!("SKIPPED: requests do not come over io_uring here: {why}");
            mounted.end();
            None
        }
        _ => Some(mounted),
    }
}

/// Mounts on a directory. What the kernel offers is decided while hands are shaken, so only then
/// it is made to offer io_uring; others wait for that.
fn begin(path: &Path, over_rings: bool) -> io::Result<Session> {
    let words = vec!["default_permissions".to_owned()];
    let (source, subtype) = ("tiny".to_owned(), "tiny".to_owned());
    let options = MountOptions { source, subtype, flags: Vec::new(), words };
    let mut flags = init::ASYNC_READ | init::ASYNC_DIO | init::DO_READDIRPLUS | init::POSIX_LOCKS;
    flags |= if over_rings { init::OVER_IO_URING } else { 0 };
    let size = REQUEST_BYTES as u32;
    let answer =
        Answer { flags, readahead_bytes: size, write_bytes: size, background: 64, stack_depth: 0 };
    let lock = File::create(std::env::temp_dir().join("weir-enable-uring.lock"))?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    let before = fs::read_to_string(ENABLE).ok().filter(|_| over_rings);
    if before.is_some() {
        fs::write(ENABLE, "Y")?;
    }
    let begun =
        weir_fuse::mount(path, &options).and_then(|device| Session::begin(device, |_| answer));
    if let Some(before) = before {
        fs::write(ENABLE, before)?;
    }
    begun
}

impl Mounted {
    /// Unmounts, and says how serving ended.
    pub fn end(mut self) {
        self.unmount(UnmountFlags::empty());
        self.ended();
    }

    pub fn unmount(&self, how: UnmountFlags) {
        // The process of another test, just forked off, has all files of this one until it execs.
        let busy = Err(rustix::io::Errno::BUSY);
        let mut unmounted = busy;
        eventually("it is not busy", || {
            unmounted = rustix::mount::unmount(&self.path, how);
            unmounted != busy
        });
        unmounted.unwrap();
    }

    /// Waits until serving ended, which must be soon.
    pub fn ended(&mut self) {
        let serving = self.serving.take().unwrap();
        eventually("serving ends", || serving.is_finished());
        serving.join().unwrap().unwrap();
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.path, UnmountFlags::DETACH);
        let _ = fs::remove_dir(&self.path);
    }
}

pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "it is not so that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
