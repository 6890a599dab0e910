//! One request: a list of operations that work on a current file.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_engine::Receipt;
use weir_types::{ErrorKind, FileKind, FsError, Ino, Inode, Result};

use crate::caller::{Caller, EXECUTE, READ, WRITE};
use crate::exports::{self, From};
use crate::handle::Handle;
use crate::memory::{Memory, Room};
use crate::options::Export;
use crate::protocol::numbers::{RECORD_BYTES_MAX, open};
use crate::protocol::rpc::Credential;
use crate::protocol::status::{Refusal, Served, Status};
use crate::protocol::xdr::{Reader, Writer};
use crate::server_state::{Durable, ServerState, change_of, check_name};
use crate::state::back::BackLine;
use crate::state::held::{Usage, Which};
use crate::state::records::Opened;
use crate::state::sessions::Session;
use crate::state::stateid::{Meant, Stateid};
use crate::uses::Did;

/// Who sent it.
#[derive(Clone)]
pub(crate) struct Sender {
    pub(crate) peer: SocketAddr,
    pub(crate) tls: bool,
    pub(crate) credential: Credential,
    pub(crate) groups: Vec<u32>,
    /// The connection that it came by.
    pub(crate) back: BackLine,
}

/// A request that is done.
pub(crate) struct Compound {
    pub(crate) server: Arc<ServerState>,
    pub(crate) sender: Sender,
    pub(crate) minor: u32,
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) current: Option<Handle>,
    pub(crate) saved: Option<Handle>,
    pub(crate) current_stateid: Option<Stateid>,
    pub(crate) saved_stateid: Option<Stateid>,
    /// Bytes that the answer may still grow by.
    pub(crate) room: usize,
    /// Where room for what is read comes from.
    pub(crate) memory: Memory,
    /// What was taken of it.
    pub(crate) rooms: Vec<Room>,
    /// What was done of it so far.
    pub(crate) did: Did,
    /// What the next change keeps, so that it is not made twice.
    pub(crate) receipt: Option<Receipt>,
    /// The next change was made by a server before this one.
    pub(crate) is_done: bool,
}

/// A file that an operation works on, as the export has it.
pub(crate) struct Target {
    pub(crate) export: Arc<Export>,
    pub(crate) ino: Ino,
    pub(crate) caller: Caller,
}

impl Compound {
    pub(crate) fn from(&self) -> From {
        From { address: self.sender.peer.ip(), tls: self.sender.tls }
    }

    /// Counts what was done, for the client, its address and the export that it ended in.
    pub(crate) fn count(&self) {
        let Did { bytes_read, bytes_written } = self.did;
        if let Ok(client) = self.client()
            && bytes_read + bytes_written > 0
            && let Some(client) = self.server.books.lock().clients.by_id.get_mut(&client)
        {
            client.bytes_read += bytes_read;
            client.bytes_written += bytes_written;
        }
        if let Some(Handle::Inode { export, .. }) = self.current
            && let Ok(export) = self.server.exports.get(export, self.from())
        {
            self.server.uses.count(self.sender.peer.ip().to_canonical(), &export, self.did);
        }
    }

    /// The client of the session.
    pub(crate) fn client(&self) -> Result<u64, Status> {
        self.session.as_ref().map(|session| session.client).ok_or(Status::OP_NOT_IN_SESSION)
    }

    /// The current file handle.
    pub(crate) fn handle(&self) -> Result<Handle, Status> {
        self.current.ok_or(Status::NOFILEHANDLE)
    }

    /// The export and inode of a handle, and who asks there.
    pub(crate) fn target_of(&self, handle: Handle) -> Result<Target, Status> {
        let Handle::Inode { export, ino } = handle else { return Err(Status::ROFS) };
        let export = self.server.exports.get(export, self.from())?;
        let caller = exports::caller(Some(&export), &self.sender.credential, &self.sender.groups);
        Ok(Target { export, ino, caller })
    }

    /// Those of the current handle.
    pub(crate) fn target(&self) -> Result<Target, Status> {
        self.target_of(self.handle()?)
    }

    /// The same for what is to be changed.
    pub(crate) fn target_to_change(&self) -> Result<Target, Status> {
        let target = self.target()?;
        self.check_writable(&target)?;
        Ok(target)
    }

    pub(crate) fn check_writable(&self, target: &Target) -> Result<(), Status> {
        match self.server.read_only || target.export.read_only {
            true => Err(Status::ROFS),
            false => Ok(()),
        }
    }

    /// An inode that is known by its handle: one that is gone is stale.
    pub(crate) async fn inode(&self, ino: Ino) -> Served<Inode> {
        self.server.engine.getattr(ino).await.map_err(stale)
    }

    /// A directory that is known by its handle, in which the caller may do this.
    pub(crate) async fn directory(&self, target: &Target, bits: u32) -> Served<Inode> {
        let inode = self.inode(target.ino).await?;
        match inode.kind {
            FileKind::Directory => {}
            FileKind::Symlink => return Err(Status::SYMLINK.into()),
            _ => return Err(Status::NOTDIR.into()),
        }
        self.need(target, &inode, bits).await?;
        Ok(inode)
    }

    /// Refuses a caller that may not do all of this.
    pub(crate) async fn need(&self, target: &Target, inode: &Inode, bits: u32) -> Served<()> {
        let allowed = self.server.allowed(&target.caller, inode).await?;
        if allowed & bits == bits { Ok(()) } else { Err(Status::ACCESS.into()) }
    }

    /// Makes a change of a name or an attribute that must not be made twice: it keeps that it was made.
    pub(crate) async fn once<T>(&self, change: impl Future<Output = Result<T>>) -> Result<T> {
        match self.receipt.clone() {
            Some(receipt) => weir_engine::with_receipt(receipt, change).await,
            None => change.await,
        }
    }

    /// What was changed is durable when it returns, where the export wants that. It is done by now: a bucket
    /// that is away makes the client wait.
    pub(crate) async fn settle(&self, target: &Target) -> Served<()> {
        match target.export.asynchronous {
            true => Ok(()),
            false => self.server.insist(Durable::Names(target.ino)).await,
        }
    }

    /// The change attribute of a directory, for `change_info4`.
    pub(crate) async fn change(&self, dir: Ino) -> Served<u64> {
        Ok(change_of(&self.inode(dir).await?))
    }

    /// Writes a `change_info4`. Others may have changed the directory between the two.
    pub(crate) fn write_change(out: &mut Writer, before: u64, after: u64) {
        out.bool(false);
        out.u64(before);
        out.u64(after);
    }

    /// A name among the arguments.
    pub(crate) fn name(input: &mut Reader) -> Result<weir_engine::Bytes, Status> {
        let name = input.opaque(RECORD_BYTES_MAX).map_err(|_| Status::BADXDR)?;
        check_name(name)
    }

    /// A stateid among the arguments, with the current one in its place where that is meant.
    pub(crate) fn stateid(&self, input: &mut Reader) -> Result<Stateid, Status> {
        let id = Stateid::read(input).map_err(|_| Status::BADXDR)?;
        match id.meant() {
            Meant::Current => self.current_stateid.ok_or(Status::BAD_STATEID),
            Meant::Invalid => Err(Status::BAD_STATEID),
            _ => Ok(id),
        }
    }

    /// The file to read from or write to by a stateid, which must be open for that; opened for this one
    /// request where the stateid is of nothing that is open.
    pub(crate) async fn opened(
        &self,
        target: &Target,
        id: Stateid,
        access: u32,
    ) -> Served<Arc<Opened>> {
        if let Meant::Anonymous | Meant::Bypass = id.meant() {
            return self.open_once(target, id, access).await;
        }
        let client = self.client()?;
        let (which, usage) = {
            let held = &mut self.server.books.lock().held;
            let which = held.find(client, id)?;
            (which, held.usage(which, (target.export.id, target.ino))?)
        };
        if usage.access & access != access {
            return Err(Status::OPENMODE.into());
        }
        self.check_user(target, &usage, access).await?;
        match (usage.file, which) {
            (Some(file), _) => Ok(file),
            (None, Which::Delegation(number)) => {
                let file = self.open_file(target, false).await?;
                self.server.books.lock().held.delegations.opened(number, &file);
                Ok(file)
            }
            (None, _) => Err(Status::BAD_STATEID.into()),
        }
    }

    /// What one user of a client opened, another one uses only if it may open that itself.
    async fn check_user(&self, target: &Target, usage: &Usage, access: u32) -> Served<()> {
        if usage.uid == target.caller.uid {
            return Ok(());
        }
        let inode = self.inode(target.ino).await?;
        if target.caller.uid == inode.uid {
            return Ok(());
        }
        let allowed = self.server.allowed(&target.caller, &inode).await?;
        let needed = if access & open::WRITE != 0 { WRITE } else { READ | EXECUTE };
        if allowed & needed != 0 { Ok(()) } else { Err(Status::ACCESS.into()) }
    }

    async fn open_once(&self, target: &Target, id: Stateid, access: u32) -> Served<Arc<Opened>> {
        {
            let all = self.server.books.lock();
            if all.grace.is_on() {
                return Err(Status::GRACE.into());
            }
            let may_pass = id.meant() == Meant::Bypass && access == open::READ;
            if !may_pass && all.held.denies(target.ino, access) {
                return Err(Status::LOCKED.into());
            }
        }
        let inode = self.inode(target.ino).await?;
        check_regular(&inode)?;
        let writes = access & open::WRITE != 0;
        if writes {
            self.recall(target.ino).await?;
        }
        // Who owns a file reads and writes it, as who has it open does.
        if target.caller.uid != inode.uid {
            self.need(target, &inode, if writes { WRITE } else { READ }).await?;
        }
        self.open_file(target, writes).await
    }

    /// Opens a file in the engine.
    pub(crate) async fn open_file(&self, target: &Target, writes: bool) -> Served<Arc<Opened>> {
        let flags =
            weir_engine::OpenFlags { write: writes, truncate: false, client: target.caller.uid };
        let engine = &self.server.engine;
        let file = engine.open(target.ino, flags).await.map_err(stale)?;
        Ok(Opened::new(engine.clone(), file))
    }

    /// The open file that a stateid is, or is below, for an operation that changes it.
    pub(crate) fn which(&self, id: Stateid) -> Result<Which, Status> {
        self.server.books.lock().held.find(self.client()?, id)
    }
}

/// An error about what a handle leads to: where that is not there any more the handle is stale.
pub(crate) fn stale(error: FsError) -> Refusal {
    match error.kind() {
        ErrorKind::NotFound => Status::STALE.into(),
        _ => error.into(),
    }
}

/// Refuses what has no bytes to read or write.
pub(crate) fn check_regular(inode: &Inode) -> Result<(), Status> {
    match inode.kind {
        FileKind::Regular => Ok(()),
        FileKind::Directory => Err(Status::ISDIR),
        FileKind::Symlink => Err(Status::SYMLINK),
        _ => Err(Status::WRONG_TYPE),
    }
}
