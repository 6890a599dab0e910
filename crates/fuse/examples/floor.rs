//! The least that a mounted file system can cost: it knows names and sizes, keeps no bytes, answers each
//! request at once, and is asked for as much as Weir is. `make bench` measures it beside Weir, so that
//! what the kernel takes for its requests can be told from what Weir takes.
//!
//! `floor DIRECTORY` mounts it there and serves it until `umount DIRECTORY`.

#![allow(clippy::disallowed_methods, reason = "it is a program of its own")]

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use weir_fuse::{
    Answer, Attr, Entry, Errno, Handler, Interrupted, MountOptions, Opened, Operation, Reply,
    Session, init, open,
};

/// How long the kernel may believe what it is told: nobody else changes anything.
const TTL: Duration = Duration::from_secs(3600);
/// Bytes of the largest request.
const REQUEST_BYTES: u32 = 1 << 20;
/// As many as Weir has.
const THREADS: usize = 4;

struct Floor {
    known: Mutex<Known>,
    bytes: Vec<u8>,
}

/// Inodes by number less one, and names by their directory's number.
struct Known {
    attrs: Vec<Attr>,
    names: HashMap<(u64, Vec<u8>), u64>,
}

fn attr(ino: u64, mode: u32) -> Attr {
    Attr { ino, mode, nlink: 1, ..Attr::default() }
}

impl Known {
    fn attr(&mut self, ino: u64) -> &mut Attr {
        &mut self.attrs[ino as usize - 1]
    }

    fn entry(&mut self, ino: u64) -> Entry {
        Entry { attr: *self.attr(ino), node: 0, entry_ttl: TTL, attr_ttl: TTL }
    }

    fn make(&mut self, directory: u64, name: &[u8], mode: u32) -> Entry {
        let ino = self.attrs.len() as u64 + 1;
        self.attrs.push(attr(ino, mode));
        self.names.insert((directory, name.to_vec()), ino);
        self.entry(ino)
    }
}

impl Handler for Floor {
    fn handle(
        &self,
        request: weir_fuse::Request,
        asked: Operation<'_>,
        _: Interrupted,
        reply: Reply,
    ) {
        let (mut known, ino) = (self.known.lock(), request.ino);
        let opened = Opened { handle: ino, flags: open::NOFLUSH | open::KEEP_CACHE, backing: None };
        match asked {
            Operation::Lookup { name } => match known.names.get(&(ino, name.to_vec())).copied() {
                Some(found) => reply.entry(&known.entry(found)),
                None => reply.error(Errno(libc::ENOENT)),
            },
            Operation::Mkdir { name, mode, .. } => {
                reply.entry(&known.make(ino, name, libc::S_IFDIR | mode & 0o7777));
            }
            Operation::Create { name, mode, .. } => {
                let entry = known.make(ino, name, libc::S_IFREG | mode & 0o7777);
                reply.created(&entry, opened);
            }
            Operation::Getattr | Operation::Setattr(_) => reply.attr(known.attr(ino), TTL),
            Operation::Write { offset, data, .. } => {
                let attr = known.attr(ino);
                attr.size = attr.size.max(offset + data.len() as u64);
                reply.size(data.len() as u32);
            }
            Operation::Read { offset, size, .. } => {
                let bytes = known.attr(ino).size.saturating_sub(offset).min(size.into());
                reply.bytes(&self.bytes[..bytes as usize]);
            }
            // Asked for `security.capability` by the first write of a file; others never ask again.
            Operation::Getxattr { .. } => reply.error(Errno(libc::ENODATA)),
            Operation::Open { .. } | Operation::Opendir => reply.opened(opened),
            Operation::Release { .. } | Operation::Releasedir { .. } => reply.ok(),
            _ => reply.error(Errno(libc::ENOSYS)),
        }
    }
}

fn main() -> io::Result<()> {
    let mountpoint = std::env::args_os().nth(1);
    let mountpoint =
        mountpoint.ok_or_else(|| io::Error::other("name the directory to mount on"))?;
    let options = MountOptions {
        source: "floor".to_owned(),
        subtype: "floor".to_owned(),
        flags: vec!["nosuid".to_owned(), "nodev".to_owned()],
        words: vec!["default_permissions".to_owned()],
    };
    let device = weir_fuse::mount(Path::new(&mountpoint), &options)?;
    let session = Session::begin(device, |_kernel_has| Answer {
        flags: init::ASYNC_READ
            | init::ATOMIC_O_TRUNC
            | init::PARALLEL_DIROPS
            | init::HANDLE_KILLPRIV_V2
            | init::EXPLICIT_INVAL_DATA,
        readahead_bytes: REQUEST_BYTES,
        write_bytes: REQUEST_BYTES,
        background: 64,
        stack_depth: 0,
    })?;
    let root = attr(1, libc::S_IFDIR | 0o755);
    let known = Known { attrs: vec![root], names: HashMap::new() };
    let bytes = vec![7; REQUEST_BYTES as usize];
    session.serve(Arc::new(Floor { known: Mutex::new(known), bytes }), THREADS)
}
