//! Clients and their sessions (RFC 8881, 18.34 to 18.37, 18.46, 18.50, 18.51).

use crate::compound::Compound;
use crate::handle::Handle;
use crate::protocol::numbers::{OPAQUE_BYTES_MAX, exchange};
use crate::protocol::rpc::read_securities;
use crate::protocol::status::{Served, Status};
use crate::protocol::xdr::{Reader, Writer};
use crate::state::back::Back;
use crate::state::clients::{Claim, Created, NewSession, Principal};
use crate::state::sessions::{Channel, SessionId};

const PROTECT_NONE: u32 = 0;
const PROTECT_BY_MACHINE: u32 = 1;
const PROTECT_BY_SECRET: u32 = 2;
/// Flags of a new session that there are: to outlive a restart, with callbacks, over RDMA.
const SESSION_FLAGS: u32 = 7;
/// For the client's own calls.
const FORE: u32 = 1;
/// For calls to the client.
const BACK: u32 = 2;
const BOTH: u32 = 3;
/// Both, or else what there is.
const FORE_OR_BOTH: u32 = 3;
const BACK_OR_BOTH: u32 = 7;
/// The flag of a new session whose connection is for calls to the client too.
const CALLS_BACK: u32 = 2;

impl Compound {
    pub(crate) fn exchange_id(&self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let verifier = input.fixed()?;
        let owner = input.opaque(OPAQUE_BYTES_MAX)?;
        let flags = input.u32()?;
        let protect = input.u32()?;
        if flags & !exchange::KNOWN != 0 || owner.is_empty() {
            return Err(Status::INVAL.into());
        }
        match protect {
            PROTECT_NONE => {}
            // Both need RPCSEC_GSS.
            PROTECT_BY_MACHINE | PROTECT_BY_SECRET => return Err(Status::INVAL.into()),
            _ => return Err(Status::BADXDR.into()),
        }
        let implementations = input.u32()?;
        if implementations > 1 {
            return Err(Status::BADXDR.into());
        }
        if implementations == 1 {
            input.opaque(OPAQUE_BYTES_MAX)?;
            input.opaque(OPAQUE_BYTES_MAX)?;
            input.i64()?;
            input.u32()?;
        }
        let claim = Claim {
            owner,
            verifier,
            principal: Principal::of(&self.sender.credential),
            update: flags & exchange::UPDATE != 0,
            address: self.sender.peer,
            tls: self.sender.tls,
            since: (self.server.now)(),
        };
        let exchanged = self.server.books.exchange(claim)?;
        out.u64(exchanged.id);
        out.u32(exchanged.sequence);
        out.u32(exchanged.flags & (exchange::PNFS_MASK | exchange::CONFIRMED));
        out.u32(PROTECT_NONE);
        // Which server it is: one of this scope, in this life.
        out.u64(0);
        out.opaque(self.server.scope.as_bytes());
        out.opaque(self.server.scope.as_bytes());
        out.u32(0);
        Ok(())
    }

    pub(crate) async fn create_session(&self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let (client, sequence, flags) = (input.u64()?, input.u32()?, input.u32()?);
        let (fore, back) = (Channel::read(input)?, Channel::read(input)?);
        let program = input.u32()?;
        let security = read_securities(input)?.filter(|_| back.is_way_back());
        if flags & !SESSION_FLAGS != 0 {
            return Err(Status::INVAL.into());
        }
        let asked = NewSession {
            fore: fore.granted()?,
            back_channel: Channel { slots: back.slots.min(1), ..back },
            calls_back: flags & CALLS_BACK != 0 && security.is_some(),
            back: security.map(|security| Back::new(self.minor, program, security)),
        };
        let principal = Principal::of(&self.sender.credential);
        let books = &self.server.books;
        let created = books.create_session((client, sequence), &principal, asked).await?;
        let Created { session, sequence, fore, back, calls_back } = created;
        if calls_back {
            self.bind_back(&session)?;
        }
        out.fixed(&session);
        out.u32(sequence);
        // It does not survive a restart.
        out.u32(if calls_back { CALLS_BACK } else { 0 });
        fore.write(out);
        back.write(out);
        Ok(())
    }

    pub(crate) fn bind_connection(&self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let session: SessionId = input.fixed()?;
        let (direction, _rdma) = (input.u32()?, input.bool()?);
        if !matches!(direction, FORE | BACK | FORE_OR_BOTH | BACK_OR_BOTH) {
            return Err(Status::BADXDR.into());
        }
        self.server.books.lock().clients.session(&session)?;
        let bound = match direction {
            FORE => FORE,
            _ if self.bind_back(&session)? => direction.min(BOTH),
            BACK => return Err(Status::NOTSUPP.into()),
            _ => FORE,
        };
        out.fixed(&session);
        out.u32(bound);
        out.bool(false);
        Ok(())
    }

    /// What the server asks of the client may go over this connection from now on; `false` where the client
    /// offers no way back.
    fn bind_back(&self, session: &SessionId) -> Served<bool> {
        let session = self.server.books.lock().clients.session(session)?;
        if let Some(back) = &session.back {
            back.bind(&self.sender.back);
        }
        Ok(session.back.is_some())
    }

    /// Who of the client is called from now on (`BACKCHANNEL_CTL`).
    pub(crate) fn set_callback(&self, input: &mut Reader) -> Served<()> {
        let program = input.u32()?;
        let security = read_securities(input)?;
        let session = self.session.as_ref().ok_or(Status::OP_NOT_IN_SESSION)?;
        match (&session.back, security) {
            (Some(back), Some(security)) => back.set_who(program, security),
            _ => return Err(Status::INVAL.into()),
        }
        Ok(())
    }

    /// Ends a session; by its own last request, or by one outside of it.
    pub(crate) fn destroy_session(&self, input: &mut Reader, is_last: bool) -> Served<()> {
        let id: SessionId = input.fixed()?;
        let own = self.session.as_ref().is_some_and(|session| session.id == id);
        if own && !is_last {
            return Err(Status::NOT_ONLY_OP.into());
        }
        let clients = &mut self.server.books.lock().clients;
        let session = clients.session(&id)?;
        if session.is_busy(usize::from(own)) {
            return Err(Status::DELAY.into());
        }
        clients.end_session(&id);
        self.server.books.session_ended();
        Ok(())
    }

    pub(crate) async fn destroy_client(&self, input: &mut Reader) -> Served<()> {
        let id = input.u64()?;
        {
            let all = self.server.books.lock();
            let client = all.clients.by_id.get(&id).ok_or(Status::STALE_CLIENTID)?;
            let own = self.session.as_ref().is_some_and(|session| session.client == id);
            if own || !client.sessions.is_empty() || all.held.has_any(id) {
                return Err(Status::CLIENTID_BUSY.into());
            }
        }
        self.server.books.destroy(id).await?;
        Ok(())
    }

    pub(crate) async fn reclaim_complete(&self, input: &mut Reader) -> Served<()> {
        let one_fs = input.bool()?;
        let client = self.client()?;
        if one_fs {
            // Of one file system that moved: none does.
            return match self.handle()? {
                Handle::Above | Handle::Inode { .. } => Ok(()),
            };
        }
        self.server.books.reclaimed(client).await
    }
}
