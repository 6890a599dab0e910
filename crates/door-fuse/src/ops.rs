//! The kernel's requests, one by one: arguments in, the door's own words out.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, Generation,
    INodeNo, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use weir_types::{Ino, Inode};

use crate::attrs::{Space, Wanted};
use crate::convert::{attr, ino, no_attr, time_from_kernel};
use crate::data::Write;
use crate::door::{Door, Refuse, Served};
use crate::errno::Refusal;
use crate::locks::KernelLock;
use crate::names::NewName;

/// Inode numbers are never used twice, so all are of the first generation.
const GENERATION: Generation = Generation(0);

/// Longest name in bytes, as `statfs` tells it.
const NAME_BYTES_MAX: u32 = 255;

impl Door {
    /// Answers with an inode that has just got or proved its name.
    fn entry(
        &self,
        op: &'static str,
        parent: Ino,
        reply: ReplyEntry,
        work: impl Future<Output = Served<Option<Inode>>> + Send + 'static,
    ) {
        let (shared, entry_ttl) = (self.shared.clone(), self.shared.options.entry_ttl);
        self.serve(op, parent, reply, work, move |reply, found| match found {
            Some(inode) => {
                let attr_ttl = shared.attr_ttl(inode.ino);
                reply.entry_with_ttls(&attr_ttl, &entry_ttl, &attr(&inode), GENERATION);
            }
            // An import may bring any name at any time.
            None if entry_ttl.is_zero() || shared.engine.has_links() => {
                reply.error(Errno::ENOENT);
            }
            // Number 0 lets the kernel remember that the name is not there.
            None => reply.entry(&entry_ttl, &no_attr(), GENERATION),
        });
    }

    fn attributes(
        &self,
        op: &'static str,
        ino: Ino,
        reply: ReplyAttr,
        work: impl Future<Output = Served<Inode>> + Send + 'static,
    ) {
        // First: when nobody can store any more, what was stored shows in the attributes.
        let ttl = self.shared.attr_ttl(ino);
        let work = async move { work.await.map_err(Refusal::of_known) };
        self.serve(op, ino, reply, work, move |reply, inode| reply.attr(&ttl, &attr(&inode)));
    }

    fn done(
        &self,
        op: &'static str,
        ino: Ino,
        reply: ReplyEmpty,
        work: impl Future<Output = Served<()>> + Send + 'static,
    ) {
        self.serve(op, ino, reply, work, |reply, ()| reply.ok());
    }
}

fn new_name(req: &Request, parent: INodeNo, name: &OsStr) -> NewName {
    NewName { parent: ino(parent), name: owned(name), uid: req.uid(), gid: req.gid() }
}

fn owned(name: &OsStr) -> Vec<u8> {
    name.as_bytes().to_vec()
}

impl Filesystem for Door {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        crate::mount::configure(config, &self.shared.options);
        self.shared.passthrough.configure(config);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (shared, parent, name) = (self.shared.clone(), ino(parent), owned(name));
        let work = async move { shared.look_up(parent, &name).await };
        self.entry("lookup", parent, reply, work);
    }

    /// The engine keeps nothing for the kernel's sake but open files.
    fn forget(&self, _req: &Request, _ino: INodeNo, _nlookup: u64) {}

    fn getattr(&self, _req: &Request, node: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let (shared, ino) = (self.shared.clone(), ino(node));
        let work = async move { Ok(shared.engine.getattr(ino).await?) };
        self.attributes("getattr", ino, reply, work);
    }

    fn setattr(
        &self,
        req: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let (shared, ino) = (self.shared.clone(), ino(node));
        let ctime = ctime.map(time_from_kernel);
        let wanted = Wanted { caller: req.uid(), mode, uid, gid, size, atime, mtime, ctime };
        let work = async move { shared.set_attributes(ino, wanted).await };
        self.attributes("setattr", ino, reply, work);
    }

    fn readlink(&self, _req: &Request, node: INodeNo, reply: ReplyData) {
        let (shared, ino) = (self.shared.clone(), ino(node));
        let work = async move { shared.read_link(ino).await.map_err(Refusal::of_known) };
        self.serve("readlink", ino, reply, work, |reply, target| reply.data(&target));
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let (shared, new) = (self.shared.clone(), new_name(req, parent, name));
        let work = async move { shared.make_node(new, mode, rdev).await.map(Some) };
        self.entry("mknod", ino(parent), reply, work);
    }

    fn mkdir(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let (shared, new) = (self.shared.clone(), new_name(req, parent, name));
        let work = async move { shared.make_dir(new, mode).await.map(Some) };
        self.entry("mkdir", ino(parent), reply, work);
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (shared, parent, name) = (self.shared.clone(), ino(parent), owned(name));
        let work = async move { shared.remove_file(parent, &name).await };
        self.done("unlink", parent, reply, work);
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (shared, parent, name) = (self.shared.clone(), ino(parent), owned(name));
        let work = async move { shared.remove_dir(parent, &name).await };
        self.done("rmdir", parent, reply, work);
    }

    fn symlink(
        &self,
        req: &Request,
        parent: INodeNo,
        link_name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let (shared, new) = (self.shared.clone(), new_name(req, parent, link_name));
        let target = owned(target.as_os_str());
        let work = async move { shared.make_symlink(new, target).await.map(Some) };
        self.entry("symlink", ino(parent), reply, work);
    }

    fn rename(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (shared, from, to) = (self.shared.clone(), ino(parent), ino(newparent));
        let (name, newname) = (owned(name), owned(newname));
        let work =
            async move { shared.move_name((from, &name), (to, &newname), flags.bits()).await };
        self.done("rename", from, reply, work);
    }

    fn link(
        &self,
        _req: &Request,
        node: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let (shared, ino, parent) = (self.shared.clone(), ino(node), ino(newparent));
        let name = owned(newname);
        let work = async move { shared.make_link(ino, parent, &name).await.map(Some) };
        self.entry("link", ino, reply, work);
    }

    fn open(&self, req: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let (shared, ino, uid) = (self.shared.clone(), ino(node), req.uid());
        shared.counts.add("open");
        self.shared.run(async move {
            match shared.open_file(ino, flags.0, uid, &reply).await {
                Ok((fh, flags, Some(backing))) => reply.opened_passthrough(fh, flags, &backing),
                Ok((fh, flags, None)) => reply.opened(fh, flags),
                Err(refusal) => {
                    reply.refuse(shared.errors.errno("open", ino, &refusal.of_known()));
                }
            }
        });
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (shared, new, parent) = (self.shared.clone(), new_name(req, parent, name), ino(parent));
        // fuser takes one lifetime for the name and the attributes.
        let ttl = shared.options.attr_ttl.min(shared.options.entry_ttl);
        shared.counts.add("create");
        self.shared.run(async move {
            match shared.create_file(new, mode, flags, &reply).await {
                Ok((inode, (fh, flags, Some(backing)))) => {
                    let attr = attr(&inode);
                    reply.created_passthrough(&ttl, &attr, GENERATION, fh, flags, &backing);
                }
                Ok((inode, (fh, flags, None))) => {
                    reply.created(&ttl, &attr(&inode), GENERATION, fh, flags);
                }
                Err(refusal) => reply.refuse(shared.errors.errno("create", parent, &refusal)),
            }
        });
    }

    fn read(
        &self,
        req: &Request,
        node: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let (shared, tid) = (self.shared.clone(), req.pid());
        let work = async move { shared.read_file(fh, (offset, size), tid).await };
        self.serve("read", ino(node), reply, work, |reply, bytes| reply.data(&bytes));
    }

    /// The bytes lie in the event loop's buffer, which is used again for the next request. They
    /// are copied only where a write has to wait for something.
    fn write(
        &self,
        req: &Request,
        node: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.shared.counts.add("write");
        let write = Write { fh, offset, kernel: write_flags, flags: flags.0 };
        let answer = |reply: ReplyWrite, written| reply.written(written);
        match self.shared.here(|| self.shared.try_write_file(write, data)) {
            Some(Ok(Some(written))) => return answer(reply, written),
            Some(Ok(None)) => {}
            Some(Err(refusal)) => {
                return reply.refuse(self.shared.errors.errno("write", ino(node), &refusal));
            }
            None => return reply.refuse(Errno::EIO),
        }
        let (shared, data, tid) = (self.shared.clone(), data.to_vec(), req.pid());
        let work = async move { shared.write_file_of(write, &data, tid).await };
        self.serve_counted("write", ino(node), reply, work, answer);
    }

    fn flush(
        &self,
        _req: &Request,
        node: INodeNo,
        _fh: FileHandle,
        lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        self.shared.counts.add("flush");
        self.shared.flush_file(ino(node), lock_owner);
        reply.ok();
    }

    fn release(
        &self,
        _req: &Request,
        node: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let shared = self.shared.clone();
        self.done("release", ino(node), reply, async move { shared.close_file(fh).await });
    }

    fn fsync(
        &self,
        _req: &Request,
        node: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let (shared, ino) = (self.shared.clone(), ino(node));
        let work = async move { Ok(shared.engine.fsync(ino).await?) };
        self.done("fsync", ino, reply, work);
    }

    fn opendir(&self, _req: &Request, node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.shared.counts.add("opendir");
        match self.shared.open_dir(ino(node)) {
            Ok((fh, flags)) => reply.opened(fh, flags),
            Err(no) => {
                reply.error(self.shared.errors.errno("opendir", ino(node), &no.of_known()));
            }
        }
    }

    fn readdir(
        &self,
        _req: &Request,
        node: INodeNo,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let shared = self.shared.clone();
        shared.counts.add("readdir");
        let work = async move { shared.list_names(ino(node), fh, offset, reply).await };
        self.shared.run(work);
    }

    fn readdirplus(
        &self,
        _req: &Request,
        node: INodeNo,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let shared = self.shared.clone();
        shared.counts.add("readdirplus");
        let work = async move { shared.list_inodes(ino(node), fh, offset, reply).await };
        self.shared.run(work);
    }

    fn releasedir(
        &self,
        _req: &Request,
        node: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        let (shared, ino) = (self.shared.clone(), ino(node));
        self.done("releasedir", ino, reply, async move { shared.close_dir(ino, fh).await });
    }

    fn fsyncdir(
        &self,
        _req: &Request,
        node: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let (shared, ino) = (self.shared.clone(), ino(node));
        let work = async move { Ok(shared.engine.fsync_dir(ino).await?) };
        self.done("fsyncdir", ino, reply, work);
    }

    fn statfs(&self, _req: &Request, node: INodeNo, reply: ReplyStatfs) {
        let shared = self.shared.clone();
        let work = async move { Ok(Space::of(&shared.engine.statfs().await?)) };
        let answer = |reply: ReplyStatfs, space: Space| {
            let Space { blocks, free, files, files_free } = space;
            let block = Space::BLOCK;
            reply.statfs(blocks, free, free, files, files_free, block, NAME_BYTES_MAX, block);
        };
        self.serve("statfs", ino(node), reply, work, answer);
    }

    fn setxattr(
        &self,
        _req: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let (shared, ino, name) = (self.shared.clone(), ino(node), owned(name));
        let value = value.to_vec();
        let work = async move {
            shared.set_xattr(ino, &name, &value, flags).await.map_err(Refusal::of_known)
        };
        self.done("setxattr", ino, reply, work);
    }

    fn getxattr(&self, _req: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let (shared, ino, name) = (self.shared.clone(), ino(node), owned(name));
        let work =
            async move { shared.get_xattr(ino, &name, size).await.map_err(Refusal::of_known) };
        self.serve("getxattr", ino, reply, work, |reply, value| value.answer(reply));
    }

    fn listxattr(&self, req: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        let (shared, ino, uid) = (self.shared.clone(), ino(node), req.uid());
        let work =
            async move { shared.list_xattrs(ino, uid, size).await.map_err(Refusal::of_known) };
        self.serve("listxattr", ino, reply, work, |reply, value| value.answer(reply));
    }

    fn removexattr(&self, _req: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (shared, ino, name) = (self.shared.clone(), ino(node), owned(name));
        let work = async move { shared.remove_xattr(ino, &name).await.map_err(Refusal::of_known) };
        self.done("removexattr", ino, reply, work);
    }

    /// The kernel checks permissions itself and does not ask.
    fn access(&self, _req: &Request, _node: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        reply.ok();
    }

    fn getlk(
        &self,
        _req: &Request,
        node: INodeNo,
        _fh: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        typ: i32,
        pid: u32,
        reply: ReplyLock,
    ) {
        let wanted = KernelLock { owner: owner.0, start, end, typ, pid };
        let found = self.shared.test_lock(ino(node), wanted);
        reply.locked(found.start, found.end, found.typ, found.pid);
    }

    fn setlk(
        &self,
        req: &Request,
        node: INodeNo,
        _fh: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        typ: i32,
        pid: u32,
        sleep: bool,
        reply: ReplyEmpty,
    ) {
        let (shared, ino, tid) = (self.shared.clone(), ino(node), req.pid());
        let wanted = KernelLock { owner: owner.0, start, end, typ, pid };
        let work = async move { shared.set_lock(ino, wanted, sleep, tid).await };
        self.done("setlk", ino, reply, work);
    }

    fn ioctl(
        &self,
        _req: &Request,
        _node: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        _cmd: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn fallocate(
        &self,
        req: &Request,
        node: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let (shared, ino, uid) = (self.shared.clone(), ino(node), req.uid());
        let work = async move { shared.allocate(ino, uid, mode, (offset, length)).await };
        self.done("fallocate", ino, reply, work);
    }

    fn lseek(
        &self,
        _req: &Request,
        node: INodeNo,
        _fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let (shared, ino) = (self.shared.clone(), ino(node));
        let work = async move { shared.seek(ino, offset, whence).await };
        self.serve("lseek", ino, reply, work, |reply, found| reply.offset(found));
    }

    fn copy_file_range(
        &self,
        req: &Request,
        ino_in: INodeNo,
        _fh_in: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        _fh_out: FileHandle,
        offset_out: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let (shared, uid, target) = (self.shared.clone(), req.uid(), ino(ino_out));
        let (from, to) = ((ino(ino_in), offset_in), (target, offset_out));
        let work = async move { shared.copy(from, to, len, uid).await };
        self.serve("copy_file_range", target, reply, work, |reply, copied| reply.written(copied));
    }
}
