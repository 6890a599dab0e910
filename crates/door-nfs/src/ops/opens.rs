//! Opening and closing files.

use std::sync::Arc;

use weir_engine::{Bytes, DoorChange, SetAttr};
use weir_types::{ErrorKind, FileKind, Inode, UnixTime};

use super::delegations::Wish;
use crate::attributes::Wanted as Attributes;
use crate::caller::{EXECUTE, READ, WRITE};
use crate::compound::{Compound, Target, check_regular};
use crate::handle::Handle;
use crate::ops::attrs::from;
use crate::ops::names::name_of;
use crate::protocol::bitmap::Bitmap;
use crate::protocol::numbers::{OPAQUE_BYTES_MAX, open};
use crate::protocol::status::{Served, Status};
use crate::protocol::xdr::{Reader, Writer};
use crate::server_state::{Durable, change_of};
use crate::state::held::Which;
use crate::state::opens::{Refused, Wanted};
use crate::state::records::Opened;
use crate::state::stateid::Stateid;

/// How often a create and a lookup may cross each other.
const TRIES: usize = 8;

/// What `OPEN` is asked.
struct Asked {
    access: u32,
    deny: u32,
    /// What of a delegation is wanted.
    want: u32,
    owner: Bytes,
    how: How,
    claim: Claim,
}

/// Whether what is not there is made.
enum How {
    NoCreate,
    Unchecked(Attributes),
    Guarded(Attributes),
    Exclusive([u8; 8], Attributes),
}

enum Claim {
    /// A name below the current handle.
    Name(Bytes),
    /// The current handle.
    Handle,
    /// What was open before the restart, and whether it was delegated.
    Previous { delegated: bool },
    /// What the client has open by a delegation: below the current handle, or that itself.
    Delegated(Stateid, Option<Bytes>),
}

impl Asked {
    /// Whether nobody can have a delegation beside it.
    fn changes(&self, found: &Found) -> bool {
        self.access & open::WRITE != 0 || self.deny & open::READ != 0 || found.cut
    }

    /// What of a delegation is asked for, if any is to be given. What was changed here since the server `began` is
    /// not the client's any more by which it had one before.
    fn wish(&self, found: &Found, began: UnixTime) -> Wish {
        let reclaim = matches!(self.claim, Claim::Previous { delegated: true });
        // Before a restart it had none, or it has one.
        let has_none =
            matches!(self.claim, Claim::Previous { delegated: false } | Claim::Delegated(..));
        let is_another = reclaim && found.inode.ctime > began;
        let fits = !self.changes(found) && !found.made && !has_none && !is_another;
        let writes = self.access & open::WRITE != 0;
        Wish { want: self.want, reclaim, writes, fits }
    }
}

/// What was found, or made.
struct Found {
    inode: Inode,
    /// It is to be cut to nothing.
    cut: bool,
    made: bool,
    set: Bitmap,
}

impl Compound {
    fn read_open(&self, input: &mut Reader) -> Served<Asked> {
        let _seqid = input.u32()?;
        let (access, deny) = (input.u32()?, input.u32()?);
        let _client = input.u64()?;
        let owner = input.opaque(OPAQUE_BYTES_MAX)?;
        let how = match input.u32()? {
            open::CREATE => self.read_how(input)?,
            0 => How::NoCreate,
            _ => return Err(Status::BADXDR.into()),
        };
        let claim = match input.u32()? {
            open::CLAIM_NULL => Claim::Name(Self::name(input)?),
            open::CLAIM_FH => Claim::Handle,
            open::CLAIM_PREVIOUS => {
                Claim::Previous { delegated: input.u32()? == open::DELEGATE_READ }
            }
            open::CLAIM_DELEGATE_CUR => {
                let id = self.stateid(input)?;
                Claim::Delegated(id, Some(Self::name(input)?))
            }
            open::CLAIM_DELEG_CUR_FH => Claim::Delegated(self.stateid(input)?, None),
            // Of a client that restarted: what it had is gone.
            open::CLAIM_DELEGATE_PREV | open::CLAIM_DELEG_PREV_FH => {
                return Err(Status::NOTSUPP.into());
            }
            _ => return Err(Status::BADXDR.into()),
        };
        let (access, want) = (access & !open::WANT_MASK, access & open::WANT_MASK);
        if access == 0 || access & !open::BOTH != 0 || deny & !open::BOTH != 0 {
            return Err(Status::INVAL.into());
        }
        if !matches!((&how, &claim), (How::NoCreate, _) | (_, Claim::Name(_))) {
            return Err(Status::INVAL.into());
        }
        Ok(Asked { access, deny, want, owner, how, claim })
    }

    fn read_how(&self, input: &mut Reader) -> Served<How> {
        let mode = input.u32()?;
        let attributes =
            |input: &mut Reader| Attributes::read(input, self.minor, crate::names::id_of);
        Ok(match mode {
            open::UNCHECKED => How::Unchecked(attributes(input)?),
            open::GUARDED => How::Guarded(attributes(input)?),
            open::EXCLUSIVE => How::Exclusive(input.fixed()?, Attributes::default()),
            open::EXCLUSIVE4_1 => {
                let verifier = input.fixed()?;
                let attributes = attributes(input)?;
                if attributes.atime.is_some() || attributes.mtime.is_some() {
                    return Err(Status::INVAL.into());
                }
                How::Exclusive(verifier, attributes)
            }
            _ => return Err(Status::BADXDR.into()),
        })
    }

    pub(crate) async fn open(&mut self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let asked = self.read_open(input)?;
        let target = match matches!(asked.how, How::NoCreate) && asked.access == open::READ {
            true => self.target()?,
            false => self.target_to_change()?,
        };
        self.check_grace(&asked.claim)?;
        let (before, found) = match &asked.claim {
            Claim::Name(name) | Claim::Delegated(_, Some(name)) => {
                let dir = self.directory(&target, EXECUTE).await?;
                let from = self.from();
                if self.server.exports.is_root(self.handle()?, from)
                    && self.server.exports.named(name, from).is_some()
                {
                    return Err(Status::ISDIR.into());
                }
                (change_of(&dir), self.find(&target, &dir, name, &asked.how).await?)
            }
            Claim::Handle | Claim::Previous { .. } | Claim::Delegated(_, None) => {
                let inode = self.inode(target.ino).await?;
                (0, Found { inode, cut: false, made: false, set: Bitmap::default() })
            }
        };
        let file = Target {
            ino: found.inode.ino,
            caller: target.caller.clone(),
            export: target.export.clone(),
        };
        check_regular(&found.inode)?;
        if !found.made {
            self.check_open(&file, &found, asked.access).await?;
            if let Claim::Delegated(id, _) = &asked.claim {
                self.check_delegation(*id, &file)?;
            }
        }
        if asked.changes(&found) {
            self.recall(file.ino).await?;
        }
        let wish = asked.wish(&found, self.server.began);
        let (id, opened) = self.share(&file, &asked).await?;
        if found.cut {
            let cut = self.server.engine.truncate(file.ino, 0).await;
            self.server.tell([DoorChange::Bytes(file.ino, from(0))]).await;
            cut?;
        }
        if found.made || found.cut {
            self.settle(&target).await?;
        }
        let after = match asked.claim {
            Claim::Name(_) | Claim::Delegated(_, Some(_)) => self.change(target.ino).await?,
            _ => 0,
        };
        id.write(out);
        Self::write_change(out, before, after);
        out.u32(open::RESULT_LOCKTYPE_POSIX);
        found.set.write(out);
        self.delegate(&file, &opened, wish)?.write(out);
        self.current = Some(Handle::Inode { export: target.export.id, ino: file.ino });
        self.current_stateid = Some(id);
        Ok(())
    }

    /// While clients claim what they had, nobody gets anything new; and nobody claims later.
    fn check_grace(&self, claim: &Claim) -> Served<()> {
        let client = self.client()?;
        let all = self.server.books.lock();
        let known = all.clients.by_id.get(&client).ok_or(Status::STALE_CLIENTID)?;
        match claim {
            Claim::Previous { .. } if known.complete => Err(Status::NO_GRACE.into()),
            // Of another node. What is open there is in nobody's way.
            Claim::Previous { .. } if !known.from.is_empty() => Ok(()),
            Claim::Previous { .. } if !all.grace.is_on() => Err(Status::NO_GRACE.into()),
            Claim::Previous { .. } if !all.grace.may_claim(&known.owner) => {
                Err(Status::RECLAIM_BAD.into())
            }
            Claim::Previous { .. } => Ok(()),
            _ if all.grace.is_on() || !known.complete => Err(Status::GRACE.into()),
            _ => Ok(()),
        }
    }

    /// What has the name; made if there is none and that is wanted.
    async fn find(&self, target: &Target, dir: &Inode, name: &[u8], how: &How) -> Served<Found> {
        let engine = &self.server.engine;
        for _ in 0..TRIES {
            match engine.lookup(target.ino, name).await {
                Ok(inode) => return self.found(inode, how),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
            let wanted = match how {
                How::NoCreate => return Err(Status::NOENT.into()),
                How::Unchecked(wanted) | How::Guarded(wanted) | How::Exclusive(_, wanted) => wanted,
            };
            self.need(target, dir, WRITE | EXECUTE).await?;
            let new = Self::new_inode(target, FileKind::Regular, wanted, 0);
            let made = engine.create(target.ino, name, new).await;
            self.server.tell([name_of(target, name)]).await;
            match made {
                Ok(inode) => {
                    if let How::Exclusive(verifier, _) = how {
                        let (atime, mtime) = times_of(*verifier);
                        let (atime, mtime) = (Some(atime), Some(mtime));
                        let set = SetAttr { atime, mtime, ..SetAttr::default() };
                        engine.setattr(inode.ino, set).await?;
                    }
                    self.finish_new(target, &inode, wanted).await?;
                    return Ok(Found { inode, cut: false, made: true, set: wanted.set });
                }
                // Somebody else made it meanwhile.
                Err(error) if error.kind() == ErrorKind::Exists => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Status::DELAY.into())
    }

    fn found(&self, inode: Inode, how: &How) -> Served<Found> {
        let (mut cut, mut made, mut set) = (false, false, Bitmap::default());
        match how {
            How::NoCreate => {}
            How::Unchecked(wanted) => {
                cut = wanted.size == Some(0) && inode.kind == FileKind::Regular;
                if cut {
                    set.insert(crate::protocol::numbers::attr::SIZE);
                }
            }
            How::Guarded(_) => return Err(Status::EXIST.into()),
            How::Exclusive(verifier, wanted) => {
                // It is the one that this client made, whose answer was lost.
                let is_same = inode.kind == FileKind::Regular
                    && (inode.atime, inode.mtime) == times_of(*verifier);
                if !is_same {
                    return Err(Status::EXIST.into());
                }
                (made, set) = (true, wanted.set);
            }
        }
        Ok(Found { inode, cut, made, set })
    }

    /// Whether the caller may open what was there. Who may run a file may read it to run it.
    async fn check_open(&self, file: &Target, found: &Found, access: u32) -> Served<()> {
        let allowed = self.server.allowed(&file.caller, &found.inode).await?;
        let reads = access & open::READ != 0;
        let writes = access & open::WRITE != 0 || found.cut;
        if writes {
            self.check_writable(file)?;
        }
        match (reads && allowed & (READ | EXECUTE) == 0) || (writes && allowed & WRITE == 0) {
            true => Err(Status::ACCESS.into()),
            false => Ok(()),
        }
    }

    /// Opens the file in the engine and among the clients. What a client that is silent holds gives way.
    async fn share(&self, file: &Target, asked: &Asked) -> Served<(Stateid, Arc<Opened>)> {
        let client = self.client()?;
        let writes = asked.access & open::WRITE != 0;
        let opened: Arc<Opened> = self.open_file(file, writes).await?;
        for _ in 0..TRIES {
            let wanted = Wanted {
                client,
                owner: asked.owner.clone(),
                uid: file.caller.uid,
                ino: file.ino,
                export: file.export.id,
                access: asked.access,
                deny: asked.deny,
                file: opened.clone(),
            };
            let shared = self.server.books.lock().held.share(wanted);
            match shared {
                Ok(id) => return Ok((id, opened)),
                Err(Refused::Full) => {
                    tracing::info!(peer = %self.sender.peer, "an NFS client has too many files open: it waits");
                    return Err(Status::DELAY.into());
                }
                Err(Refused::By(other)) if self.server.books.expire(other).await? => {}
                Err(Refused::By(_)) => return Err(Status::SHARE_DENIED.into()),
            }
        }
        Err(Status::DELAY.into())
    }

    pub(crate) fn open_downgrade(&mut self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let id = self.stateid(input)?;
        let _seqid = input.u32()?;
        let (access, deny) = (input.u32()? & !open::WANT_MASK, input.u32()?);
        let target = self.target()?;
        if access == 0 || access & !open::BOTH != 0 || deny & !open::BOTH != 0 {
            return Err(Status::INVAL.into());
        }
        let Which::Open(number) = self.which(id)? else {
            return Err(Status::BAD_STATEID.into());
        };
        let held = &mut self.server.books.lock().held;
        held.check_file(number, (target.export.id, target.ino))?;
        let id = held.downgrade(number, access, deny)?;
        id.write(out);
        self.current_stateid = Some(id);
        Ok(())
    }

    pub(crate) async fn close(&mut self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let _seqid = input.u32()?;
        let id = self.stateid(input)?;
        let target = self.target()?;
        let Which::Open(number) = self.which(id)? else {
            return Err(Status::BAD_STATEID.into());
        };
        let file = (target.export.id, target.ino);
        self.server.books.lock().held.check_file(number, file)?;
        let ino = target.ino;
        // Other nodes find what was written once it is closed.
        let engine = &self.server.engine;
        self.server.insist(Durable::Closed(ino)).await?;
        let client = self.client()?;
        let (closed, locks) = {
            let mut all = self.server.books.lock();
            let closed = all.held.close(number).ok_or(Status::BAD_STATEID)?;
            let (open, states) = closed;
            let locks: Vec<_> = states
                .into_iter()
                .map(|state| (state.ino, all.held.lock_owner(client, &state.owner)))
                .collect();
            (open, locks)
        };
        for (ino, owner) in locks {
            if let Err(error) = engine.release_locks(ino, owner).await {
                // They are let go when the reason has passed. It is closed all the same.
                tracing::debug!(%ino, "locks of a file that is closed: {error}");
            }
        }
        drop(closed);
        Stateid::INVALID.write(out);
        self.current_stateid = None;
        Ok(())
    }
}

/// Where an exclusive create keeps its verifier until the client sets the times.
fn times_of(verifier: [u8; 8]) -> (UnixTime, UnixTime) {
    let [a, b, c, d, e, f, g, h] = verifier;
    let time = |bytes| UnixTime::from_parts(i64::from(u32::from_be_bytes(bytes)), 0);
    (time([a, b, c, d]), time([e, f, g, h]))
}
