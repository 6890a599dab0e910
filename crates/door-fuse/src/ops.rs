//! The kernel's requests, one by one: arguments in, the door's own words out.

use std::time::Duration;

use weir_fuse::{Attr, Entry, Errno, Handler, Interrupted, Opened, Operation, Reply, Request};
use weir_types::{Ino, Inode};

use crate::atimes::opens_to_read;
use crate::attrs::Space;
use crate::convert::{attr, timestamp};
use crate::counts::counted;
use crate::data::{OpenedFile, Opening, Write};
use crate::door::{Asked, Door, Served, Waits};
use crate::errno::Refusal;
use crate::faces::Known;
use crate::late::Change;
use crate::locks::KernelLock;
use crate::names::NewName;
use crate::privileges::Who;

/// Longest name in bytes, as `statfs` tells it.
const NAME_BYTES_MAX: u32 = 255;

/// Who asks, and what becomes of it where that one has to go.
struct Caller {
    request: Request,
    interrupted: Interrupted,
    reply: Reply,
}

impl Caller {
    fn known(&self) -> Known {
        Known(self.request.ino)
    }

    fn ino(&self) -> Ino {
        self.known().ino()
    }

    fn who(&self) -> Who {
        let Request { uid, gid, pid, .. } = self.request;
        Who { uid, gid, tid: pid }
    }

    fn new_name(&self, name: &[u8], umask: u32) -> NewName {
        NewName { parent: self.ino(), name: name.to_vec(), who: self.who(), umask }
    }

    /// What was begun goes on behind a caller who has to go.
    fn asks(self, op: &'static str) -> Asked {
        let (ino, pid) = (self.ino(), self.request.pid);
        Asked { op, ino, waits: Waits::LeftAlone(self.interrupted, pid), reply: self.reply }
    }

    /// It is given up; for what does nothing before it does all.
    fn may_give_up(self, op: &'static str) -> Asked {
        let (ino, pid) = (self.ino(), self.request.pid);
        Asked { op, ino, waits: Waits::GivenUp(self.interrupted, pid), reply: self.reply }
    }

    fn may_give_up_by_any(self, op: &'static str) -> Asked {
        let ino = self.ino();
        Asked { op, ino, waits: Waits::GivenUpByAny(self.interrupted), reply: self.reply }
    }

    /// Nobody waits for it.
    fn tells(self, op: &'static str) -> Asked {
        Asked { op, ino: self.ino(), waits: Waits::Ended, reply: self.reply }
    }
}

impl Handler for Door {
    fn handle(
        &self,
        request: Request,
        operation: Operation<'_>,
        interrupted: Interrupted,
        reply: Reply,
    ) {
        use Operation as O;
        let op = counted(&operation);
        self.shared.counts.add(op);
        let caller = Caller { request, interrupted, reply };
        match operation {
            O::Lookup { .. }
            | O::Mknod { .. }
            | O::Mkdir { .. }
            | O::Symlink { .. }
            | O::Link { .. }
            | O::Unlink { .. }
            | O::Rmdir { .. }
            | O::Rename { .. } => self.name(op, caller, operation),
            O::Setxattr { .. } | O::Getxattr { .. } | O::Listxattr { .. } => {
                self.xattr(op, caller, operation);
            }
            O::Removexattr { .. } => self.xattr(op, caller, operation),
            O::Opendir | O::Readdir { .. } | O::Readdirplus { .. } | O::Releasedir { .. } => {
                self.directory(op, caller, operation);
            }
            O::Fsyncdir => self.directory(op, caller, operation),
            O::Open { .. } | O::Create { .. } | O::Flush { .. } | O::Release { .. } => {
                self.handle_of_file(op, caller, operation);
            }
            O::Getattr | O::Statx | O::Setattr(_) | O::Readlink | O::Statfs => {
                self.inode(op, caller, operation);
            }
            O::Getlk { .. } | O::Setlk { .. } => self.lock(op, caller, operation),
            O::Write { fh, offset, write_flags, flags, data } => {
                let who = caller.who();
                let write = Write { fh, offset, kernel: write_flags, flags, who };
                self.write(op, caller, write, data);
            }
            // The kernel checks permissions itself and does not ask.
            O::Access => caller.reply.ok(),
            O::Ioctl => caller.reply.error(Errno(libc::ENOTTY)),
            _ => self.bytes(op, caller, operation),
        }
    }
}

impl Door {
    /// Answers with an inode that has just got or proved its name.
    fn entry(
        &self,
        asked: Asked,
        work: impl Future<Output = Served<Option<Inode>>> + Send + 'static,
    ) {
        let (shared, looked) = (self.shared.clone(), self.shared.fresh.look());
        let answer = move |reply: Reply, found: Option<Inode>, still: bool| match found {
            Some(inode) => reply.entry(&shared.entry(&inode, still)),
            // An import may bring any name at any time.
            None if !still || shared.options.entry_ttl.is_zero() || shared.engine.has_links() => {
                reply.error(Errno(libc::ENOENT));
            }
            // Number 0 lets the kernel remember that the name is not there.
            None => {
                let entry_ttl = shared.options.entry_ttl;
                reply.entry(&Entry { attr: Attr::default(), entry_ttl, ..Entry::default() });
            }
        };
        let shared = self.shared.clone();
        self.serve(asked, work, move |reply, found| {
            shared.fresh.answer(looked, |still| answer(reply, found, still));
        });
    }

    fn done(&self, asked: Asked, work: impl Future<Output = Served<()>> + Send + 'static) {
        self.serve(asked, work, |reply, ()| reply.ok());
    }

    /// Answers with an inode that gets a name.
    fn makes(
        &self,
        asked: Asked,
        change: Change,
        work: impl Future<Output = Served<Inode>> + Send + 'static,
    ) {
        let (shared, door) = (self.shared.clone(), self.shared.clone());
        let looked = shared.fresh.look();
        let answer = move |reply: Reply, inode: Inode| {
            shared.fresh.answer(looked, |still| reply.entry(&shared.entry(&inode, still)));
        };
        let late = move |inode: Inode| door.changed_late(change.and([inode.ino]));
        self.serve_or_undo(asked, work, answer, late);
    }

    /// Changes something, and answers what else changed by it.
    fn changes(
        &self,
        asked: Asked,
        change: Change,
        work: impl Future<Output = Served<Option<Ino>>> + Send + 'static,
    ) {
        let door = self.shared.clone();
        let late = move |more: Option<Ino>| door.changed_late(change.and(more));
        self.serve_or_undo(asked, work, |reply, _| reply.ok(), late);
    }

    /// The names of a directory.
    fn name(&self, op: &'static str, caller: Caller, operation: Operation<'_>) {
        use Operation as O;
        let (shared, dir) = (self.shared.clone(), caller.ino());
        match operation {
            O::Lookup { name } => {
                let name = name.to_vec();
                self.entry(caller.asks(op), async move { shared.look_up(dir, &name).await });
            }
            O::Mknod { name, mode, umask, rdev } => {
                let (new, change) = (caller.new_name(name, umask), Change::of_name(dir, name));
                let work = async move { shared.make_node(new, mode, rdev).await };
                self.makes(caller.asks(op), change, work);
            }
            O::Mkdir { name, mode, umask } => {
                let (new, change) = (caller.new_name(name, umask), Change::of_name(dir, name));
                let work = async move { shared.make_dir(new, mode).await };
                self.makes(caller.asks(op), change, work);
            }
            O::Symlink { name, target } => {
                let (new, target) = (caller.new_name(name, 0), target.to_vec());
                let work = async move { shared.make_symlink(new, target).await };
                self.makes(caller.asks(op), Change::of_name(dir, name), work);
            }
            O::Link { target, name } => {
                let (name, change) = (name.to_vec(), Change::of_name(dir, name));
                let work = async move { shared.make_link(Known(target).ino(), dir, &name).await };
                self.makes(caller.asks(op), change, work);
            }
            O::Unlink { name } => {
                let (name, change) = (name.to_vec(), Change::of_name(dir, name));
                let work = async move { shared.remove_file(dir, &name).await.map(Some) };
                self.changes(caller.asks(op), change, work);
            }
            O::Rmdir { name } => {
                let (name, change) = (name.to_vec(), Change::of_name(dir, name));
                let work = async move { shared.remove_dir(dir, &name).await.map(|()| None) };
                self.changes(caller.asks(op), change, work);
            }
            O::Rename { name, to, new_name, flags } => {
                let change = Change::of_name(dir, name).and_name(Ino(to), new_name);
                let (name, new_name) = (name.to_vec(), new_name.to_vec());
                let work = async move {
                    let moved = shared.move_name((dir, &name), (Ino(to), &new_name), flags).await;
                    moved.map(|()| None)
                };
                self.changes(caller.asks(op), change, work);
            }
            _ => {}
        }
    }

    /// Attributes of an inode, and of the volume.
    fn inode(&self, op: &'static str, caller: Caller, operation: Operation<'_>) {
        let (shared, ino, who) = (self.shared.clone(), caller.ino(), caller.who());
        // First: when nobody can store any more, what was stored shows in the attributes.
        let ttl = shared.attr_ttl(ino);
        let (door, looked) = (shared.clone(), shared.fresh.look());
        let answer = move |reply: Reply, inode: Inode| {
            let answer = |still: bool| reply.attr(&attr(&inode), if_still(still, ttl));
            door.fresh.answer(looked, answer);
        };
        match operation {
            Operation::Getattr | Operation::Statx => {
                let work = async move {
                    let found = shared.engine.getattr(ino).await;
                    found.map_err(|error| Refusal::from(error).of_known())
                };
                let door = self.shared.clone();
                let with_birth = move |reply: Reply, inode: Inode| {
                    let (attr, birth) = (attr(&inode), timestamp(inode.btime));
                    let answer = |still: bool| reply.statx(&attr, birth, if_still(still, ttl));
                    door.fresh.answer(looked, answer);
                };
                match operation {
                    Operation::Statx => self.serve(caller.asks(op), work, with_birth),
                    _ => self.serve(caller.asks(op), work, answer),
                }
            }
            Operation::Setattr(wanted) => {
                let door = shared.clone();
                let work = async move { known(shared.set_attributes(ino, who, wanted).await) };
                let late = move |_| door.changed_late(Change::of(ino));
                self.serve_or_undo(caller.asks(op), work, answer, late);
            }
            Operation::Readlink => {
                let work = async move {
                    let target = known(shared.read_link(ino).await)?;
                    shared.was_read(ino);
                    Ok(target)
                };
                self.serve(caller.asks(op), work, |reply, target| reply.bytes(&target));
            }
            _ => {
                let work = async move { Ok(Space::of(&shared.engine.statfs(ino).await?)) };
                self.serve(caller.asks(op), work, |reply, space: Space| {
                    let Space { blocks, free, files, files_free } = space;
                    let block_bytes = Space::BLOCK;
                    let name_bytes_max = NAME_BYTES_MAX;
                    reply.space(weir_fuse::Space {
                        blocks,
                        free,
                        files,
                        files_free,
                        block_bytes,
                        name_bytes_max,
                    });
                });
            }
        }
    }

    fn xattr(&self, op: &'static str, caller: Caller, operation: Operation<'_>) {
        use Operation as O;
        let (shared, ino, uid) = (self.shared.clone(), caller.ino(), caller.request.uid);
        match operation {
            O::Setxattr { name, value, flags, kills_set_gid } => {
                let (name, value) = (name.to_vec(), value.to_vec());
                let work = async move {
                    if kills_set_gid && name == weir_engine::ACL_ACCESS {
                        known(shared.drop_set_gid(ino).await)?;
                    }
                    known(shared.set_xattr(ino, &name, &value, flags).await)?;
                    Ok(None)
                };
                self.changes(caller.asks(op), Change::of(ino), work);
            }
            O::Getxattr { name, size } => {
                let name = name.to_vec();
                let work = async move { known(shared.get_xattr(ino, &name, size).await) };
                self.serve(caller.asks(op), work, |reply, value| value.answer(reply));
            }
            O::Listxattr { size } => {
                let work = async move { known(shared.list_xattrs(ino, uid, size).await) };
                self.serve(caller.asks(op), work, |reply, value| value.answer(reply));
            }
            O::Removexattr { name } => {
                let name = name.to_vec();
                let work = async move {
                    known(shared.remove_xattr(ino, &name).await)?;
                    Ok(None)
                };
                self.changes(caller.asks(op), Change::of(ino), work);
            }
            _ => {}
        }
    }

    fn directory(&self, op: &'static str, caller: Caller, operation: Operation<'_>) {
        use Operation as O;
        let (shared, ino) = (self.shared.clone(), caller.ino());
        match operation {
            O::Opendir => match shared.open_dir(ino) {
                Ok((handle, flags)) => {
                    shared.was_read(ino);
                    caller.reply.opened(Opened { handle, flags, backing: None });
                }
                Err(no) => caller.reply.error(shared.errors.errno(op, ino, &no.of_known())),
            },
            O::Readdir { fh, offset, size } => {
                let work = async move { shared.list_names((ino, fh), offset, size).await };
                self.serve(caller.asks(op), work, |reply, names| reply.bytes(names.bytes()));
            }
            O::Readdirplus { fh, offset, size } => {
                let (door, looked) = (shared.clone(), shared.fresh.look());
                let work = async move { shared.list_inodes((ino, fh), offset, size).await };
                self.serve(caller.asks(op), work, move |reply, mut names| {
                    door.fresh.answer(looked, |still| {
                        if !still {
                            names.for_now();
                        }
                        reply.bytes(names.bytes());
                    });
                });
            }
            O::Releasedir { fh } => {
                self.done(caller.tells(op), async move { shared.close_dir(ino, fh).await });
            }
            _ => {
                let work = async move { Ok(shared.engine.fsync_dir(ino).await?) };
                self.done(caller.asks(op), work);
            }
        }
    }

    /// What opens and closes files.
    fn handle_of_file(&self, op: &'static str, caller: Caller, operation: Operation<'_>) {
        use Operation as O;
        let (shared, ino, who) = (self.shared.clone(), caller.ino(), caller.who());
        let door = shared.clone();
        match operation {
            O::Open { flags, kills_privileges } => {
                let register = caller.reply.registrar();
                let (opening, by) = (Opening { flags, kills_privileges }, caller.known());
                let work = async move {
                    let opened = known(shared.open_file(by, opening, who, &register).await)?;
                    if opens_to_read(flags) {
                        shared.was_read(ino);
                    }
                    Ok(opened)
                };
                let undo = move |opened: OpenedFile| async move {
                    drop(door.close_file(opened.0).await);
                    // It may have cut it.
                    door.changed_late(Change::of(ino)).await;
                };
                self.serve_or_undo(
                    caller.asks(op),
                    work,
                    |reply, opened| {
                        reply.opened(to_opened(&opened));
                    },
                    undo,
                );
            }
            O::Create { name, mode, umask, flags, kills_privileges } => {
                let opening = Opening { flags, kills_privileges };
                let (new, register) = (caller.new_name(name, umask), caller.reply.registrar());
                let change = Change::of_name(ino, name);
                let work = async move { shared.create_file(new, mode, opening, &register).await };
                let (answering, looked) = (door.clone(), door.fresh.look());
                let answer = move |reply: Reply, (inode, opened): (Inode, OpenedFile)| {
                    answering.fresh.answer(looked, |still| {
                        reply.created(&answering.entry(&inode, still), to_opened(&opened));
                    });
                };
                let undo = move |(inode, opened): (Inode, OpenedFile)| async move {
                    drop(door.close_file(opened.0).await);
                    door.changed_late(change.and([inode.ino])).await;
                };
                self.serve_or_undo(caller.asks(op), work, answer, undo);
            }
            O::Flush { lock_owner } => {
                if shared.flush_file(ino, lock_owner) {
                    return caller.reply.ok();
                }
                let work = async move { shared.close_for_others(ino, lock_owner).await };
                self.done(caller.asks(op), work);
            }
            O::Release { fh, release_flags, lock_owner } => {
                let unlocks = release_flags & weir_fuse::release::FLOCK_UNLOCK != 0;
                let work = async move {
                    if unlocks {
                        shared.unlock_file(ino, lock_owner).await;
                    }
                    shared.close_file(fh).await
                };
                self.done(caller.tells(op), work);
            }
            _ => {}
        }
    }

    fn lock(&self, op: &'static str, caller: Caller, operation: Operation<'_>) {
        let (shared, ino) = (self.shared.clone(), caller.ino());
        match operation {
            Operation::Getlk { owner, lock, lk_flags } => {
                let wanted = KernelLock::new(owner, lock, lk_flags);
                let work = async move { shared.test_lock(ino, wanted).await };
                self.serve(caller.may_give_up_by_any(op), work, |reply, held| reply.lock(held));
            }
            Operation::Setlk { owner, lock, lk_flags, wait } => {
                let (wanted, by) = (KernelLock::new(owner, lock, lk_flags), caller.known());
                let work = async move { shared.set_lock(by, wanted, wait).await };
                self.done(caller.may_give_up_by_any(op), work);
            }
            _ => {}
        }
    }

    /// The bytes lie in the event loop's buffer, which is used again for the next request. They
    /// are copied only where a write has to wait for something.
    fn write(&self, op: &'static str, caller: Caller, write: Write, data: &[u8]) {
        let ino = caller.ino();
        match self.shared.here(|| self.shared.try_write_file(write, data)) {
            Some(Ok(Some(written))) => return caller.reply.size(written),
            Some(Ok(None)) => {}
            Some(Err(refusal)) => {
                return caller.reply.error(self.shared.errors.errno(op, ino, &refusal));
            }
            None => return caller.reply.error(Errno(libc::EIO)),
        }
        let (shared, data) = (self.shared.clone(), data.to_vec());
        let work = async move { shared.write_file(write, &data).await };
        self.serve(caller.may_give_up(op), work, |reply, written| reply.size(written));
    }

    /// What else is done with the bytes of files.
    fn bytes(&self, op: &'static str, caller: Caller, operation: Operation<'_>) {
        use Operation as O;
        let (shared, ino, who) = (self.shared.clone(), caller.ino(), caller.who());
        match operation {
            O::Read { fh, offset, size } => {
                let work = async move { shared.read_file(fh, (offset, size)).await };
                self.serve(caller.may_give_up(op), work, |reply, bytes| reply.bytes(&bytes));
            }
            O::Fsync { .. } => {
                let work = async move { Ok(shared.engine.fsync(ino).await?) };
                self.done(caller.asks(op), work);
            }
            O::Fallocate { offset, len, mode } => {
                let door = shared.clone();
                let work = async move { shared.allocate(ino, who, mode, (offset, len)).await };
                let late = move |()| async move { door.bytes_changed_late(ino, offset, len).await };
                self.serve_or_undo(caller.asks(op), work, |reply, ()| reply.ok(), late);
            }
            O::Lseek { offset, whence } => {
                let work = async move { shared.seek(ino, offset, whence).await };
                self.serve(caller.asks(op), work, |reply, found| reply.offset(found as u64));
            }
            O::CopyFileRange { offset, to, to_offset, len, wide } => {
                let (from, to) = ((ino, offset), (Known(to).ino(), to_offset));
                // A narrow answer has 32 bits; the caller goes on from where a copy ended.
                let len = if wide { len } else { len.min(1 << 31) };
                let door = shared.clone();
                let work = async move { shared.copy(from, to, len, who).await };
                let answer = move |reply: Reply, copied: u64| match wide {
                    true => reply.copied(copied),
                    false => reply.size(copied as u32),
                };
                let late = move |copied| async move {
                    door.bytes_changed_late(to.0, to.1, copied).await;
                };
                self.serve_or_undo(caller.asks(op), work, answer, late);
            }
            _ => caller.reply.error(Errno(libc::ENOSYS)),
        }
    }
}

/// How long something may be remembered: not at all where it is not so any more.
fn if_still(still: bool, ttl: Duration) -> Duration {
    if still { ttl } else { Duration::ZERO }
}

/// For an inode that the kernel knows by a name.
fn known<T>(served: Served<T>) -> Served<T> {
    served.map_err(Refusal::of_known)
}

fn to_opened((handle, flags, backing): &OpenedFile) -> Opened<'_> {
    Opened { handle: *handle, flags: *flags, backing: backing.as_deref().map(|lent| &lent.backing) }
}
