//! Locks of byte ranges. They are those of the engine, and so of all doors and nodes.

use weir_engine::{Bytes, Lock, LockOwner, LockSpace, SessionId as Node};
use weir_types::ErrorKind;

use crate::compound::{Compound, Target, check_regular};
use crate::protocol::numbers::{OPAQUE_BYTES_MAX, open};
use crate::protocol::status::{Refusal, Served, Status};
use crate::protocol::xdr::{Reader, Writer};
use crate::state::held::Which;
use crate::state::stateid::Stateid;

const READ: u32 = 1;
const WRITE: u32 = 2;
/// The same, by who will ask again.
const READ_WAIT: u32 = 3;
const WRITE_WAIT: u32 = 4;
/// How often somebody silent in the way is looked for.
const TRIES: usize = 8;

/// Somebody else has it.
#[derive(Debug)]
pub(crate) struct Denied {
    offset: u64,
    len: u64,
    kind: u32,
    client: u64,
    owner: Bytes,
}

impl Denied {
    /// Writes a `LOCK4denied`.
    pub(crate) fn write(&self, out: &mut Writer) {
        out.u64(self.offset);
        out.u64(self.len);
        out.u32(self.kind);
        out.u64(self.client);
        out.opaque(&self.owner);
    }
}

/// How taking a lock ended, or looking for one.
pub(crate) type Locked = Result<Option<Denied>, Refusal>;

/// First and last byte of a range.
fn range(offset: u64, len: u64) -> Result<(u64, u64), Status> {
    match len {
        0 => Err(Status::INVAL),
        u64::MAX => Ok((offset, u64::MAX)),
        _ => offset.checked_add(len - 1).map(|last| (offset, last)).ok_or(Status::INVAL),
    }
}

fn is_exclusive(kind: u32) -> Result<bool, Status> {
    match kind {
        READ | READ_WAIT => Ok(false),
        WRITE | WRITE_WAIT => Ok(true),
        _ => Err(Status::BADXDR),
    }
}

/// Whose lock it is to be.
enum Locker {
    /// An owner that has none in this file yet, by the open file.
    New { open: Stateid, owner: Bytes },
    /// One that has.
    Known(Stateid),
}

impl Compound {
    fn read_owner(input: &mut Reader) -> Served<Bytes> {
        let _client = input.u64()?;
        Ok(input.opaque(OPAQUE_BYTES_MAX)?)
    }

    pub(crate) async fn lock(&mut self, input: &mut Reader, out: &mut Writer) -> Locked {
        let (kind, reclaim) = (input.u32()?, input.bool()?);
        let (offset, len) = (input.u64()?, input.u64()?);
        let locker = match input.bool()? {
            true => {
                let _seqid = input.u32()?;
                let open = self.stateid(input)?;
                let _seqid = input.u32()?;
                Locker::New { open, owner: Self::read_owner(input)? }
            }
            false => {
                let known = self.stateid(input)?;
                let _seqid = input.u32()?;
                Locker::Known(known)
            }
        };
        let (start, last) = range(offset, len)?;
        let exclusive = is_exclusive(kind)?;
        let target = self.target()?;
        let from = self.check_lock_grace(reclaim).await?;
        let (number, owner) = self.locker(&target, locker, exclusive)?;
        let lock = Lock { owner, start, last, exclusive, pid: 0 };
        let denied = match from.is_empty() {
            true => self.take(&target, lock).await?,
            false => self.claim(&target, lock, from).await?,
        };
        if reclaim && denied.is_some() {
            // Of the server before this one, which the other nodes still wait for.
            return Err(Status::DELAY.into());
        }
        if denied.is_none() {
            let id = self.server.books.lock().held.locks_changed(number)?;
            id.write(out);
            self.current_stateid = Some(id);
        }
        Ok(denied)
    }

    /// Nodes that the client claims the lock from, if it is one of those.
    async fn check_lock_grace(&self, reclaim: bool) -> Served<Vec<Node>> {
        let client = self.client()?;
        match reclaim {
            true => self.server.books.may_claim(client).await,
            false if self.server.books.lock().grace.is_on() => Err(Status::GRACE.into()),
            false => Ok(Vec::new()),
        }
    }

    /// Takes over a lock that the client had at one of these nodes.
    async fn claim(&self, target: &Target, lock: Lock, from: Vec<Node>) -> Locked {
        let file = (target.ino, LockSpace::Posix);
        for node in from {
            match self.server.engine.claim_lock(file, lock, node).await {
                Ok(Some(granted)) => {
                    granted.keep();
                    return Ok(None);
                }
                Ok(None) => return Err(Status::RECLAIM_CONFLICT.into()),
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Status::RECLAIM_BAD.into())
    }

    /// The lock state that a lock is for, and who the engine knows its owner as.
    fn locker(
        &self,
        target: &Target,
        locker: Locker,
        exclusive: bool,
    ) -> Result<(u64, LockOwner), Status> {
        let client = self.client()?;
        let held = &mut self.server.books.lock().held;
        let (number, owner) = match locker {
            Locker::New { open, owner } => {
                let Which::Open(number) = held.find(client, open)? else {
                    return Err(Status::BAD_STATEID);
                };
                self.check_open_for(held.open_of(Which::Open(number))?.1, target, exclusive)?;
                (held.lock_state(number, &owner)?, owner)
            }
            Locker::Known(id) => {
                let which = held.find(client, id)?;
                let Which::Locks(number) = which else { return Err(Status::BAD_STATEID) };
                self.check_open_for(held.open_of(which)?.1, target, exclusive)?;
                let owner = held.locks.get(&number).map(|state| state.owner.clone());
                (number, owner.ok_or(Status::BAD_STATEID)?)
            }
        };
        Ok((number, held.lock_owner(client, &owner)))
    }

    fn check_open_for(
        &self,
        open: &crate::state::records::Open,
        target: &Target,
        exclusive: bool,
    ) -> Result<(), Status> {
        let needed = if exclusive { open::WRITE } else { open::READ };
        match () {
            () if open.ino != target.ino => Err(Status::BAD_STATEID),
            () if open.access & needed == 0 => Err(Status::OPENMODE),
            () => Ok(()),
        }
    }

    /// Takes a lock. What a client that is silent holds gives way.
    async fn take(&self, target: &Target, lock: Lock) -> Locked {
        let engine = &self.server.engine;
        let file = (target.ino, LockSpace::Posix);
        for _ in 0..TRIES {
            if let Some(granted) = engine.lock(file, lock, false).await? {
                granted.keep();
                return Ok(None);
            }
            let Some(other) = engine.test_lock(file, lock).await? else { continue };
            match self.holder(other).await? {
                Some(denied) => return Ok(Some(denied)),
                None => continue,
            }
        }
        Err(Status::DELAY.into())
    }

    /// Who holds a lock that is in the way; `None` if that was a client whose time is over.
    async fn holder(&self, lock: Lock) -> Served<Option<Denied>> {
        let known = self.server.books.lock().held.owner_of(lock.owner).cloned();
        if let Some((client, _)) = &known
            && self.server.books.expire(*client).await?
        {
            return Ok(None);
        }
        let (client, owner) = known.unwrap_or((0, Bytes::new()));
        let len = match lock.last {
            u64::MAX => u64::MAX,
            last => last - lock.start + 1,
        };
        let kind = if lock.exclusive { WRITE } else { READ };
        Ok(Some(Denied { offset: lock.start, len, kind, client, owner }))
    }

    /// Whether somebody would be in the way.
    pub(crate) async fn lock_test(&self, input: &mut Reader) -> Locked {
        let (kind, offset, len) = (input.u32()?, input.u64()?, input.u64()?);
        let owner = Self::read_owner(input)?;
        let (start, last) = range(offset, len)?;
        let exclusive = is_exclusive(kind)?;
        let target = self.target()?;
        if self.server.books.lock().grace.is_on() {
            return Err(Status::GRACE.into());
        }
        check_regular(&self.inode(target.ino).await?)?;
        let client = self.client()?;
        let known = {
            let held = &mut self.server.books.lock().held;
            let known = held.lock_owners.get(&(client, owner)).copied();
            // Nobody's: all locks there are would be in its way.
            known.unwrap_or_else(|| LockOwner(held.random()))
        };
        let lock = Lock { owner: known, start, last, exclusive, pid: 0 };
        let file = (target.ino, LockSpace::Posix);
        for _ in 0..TRIES {
            let Some(other) = self.server.engine.test_lock(file, lock).await? else {
                return Ok(None);
            };
            if let Some(denied) = self.holder(other).await? {
                return Ok(Some(denied));
            }
        }
        Err(Status::DELAY.into())
    }

    pub(crate) async fn unlock(&mut self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let kind = input.u32()?;
        let _seqid = input.u32()?;
        let id = self.stateid(input)?;
        let (offset, len) = (input.u64()?, input.u64()?);
        is_exclusive(kind)?;
        let (start, last) = range(offset, len)?;
        let target = self.target()?;
        let client = self.client()?;
        let Which::Locks(number) = self.which(id)? else {
            return Err(Status::BAD_STATEID.into());
        };
        let owner = {
            let held = &mut self.server.books.lock().held;
            let state = held.locks.get(&number).filter(|state| state.ino == target.ino);
            let owner = state.ok_or(Status::BAD_STATEID)?.owner.clone();
            held.lock_owner(client, &owner)
        };
        let file = (target.ino, LockSpace::Posix);
        self.server.engine.unlock(file, owner, (start, last)).await?;
        let id = self.server.books.lock().held.locks_changed(number)?;
        id.write(out);
        self.current_stateid = Some(id);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_protocol() {
        assert_eq!(range(5, 0), Err(Status::INVAL));
        assert_eq!(range(5, 1), Ok((5, 5)));
        assert_eq!(range(5, u64::MAX), Ok((5, u64::MAX)));
        assert_eq!(range(u64::MAX, 1), Ok((u64::MAX, u64::MAX)));
        assert_eq!(range(u64::MAX, 2), Err(Status::INVAL));
    }
}
