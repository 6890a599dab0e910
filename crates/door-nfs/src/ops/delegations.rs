//! Read delegations: given with an OPEN, asked back when somebody wants to change the file, returned
//! (RFC 8881, 10.4 and 18.6).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weir_types::Ino;

use crate::compound::{Compound, Target};
use crate::protocol::numbers::open;
use crate::protocol::status::{Served, Status};
use crate::protocol::xdr::{Reader, Writer};
use crate::recalls;
use crate::server_state::add;
use crate::state::held::{DELEGATION_SEQ, Which};
use crate::state::records::Opened;
use crate::state::stateid::Stateid;

/// Who wants to change a file waits so long for it, before it is told to ask again: most clients are faster.
const RETURN_WAIT: Duration = Duration::from_millis(50);

/// What an OPEN says of a delegation.
pub(crate) enum Delegated {
    /// None; why, for who wanted to know.
    No(Option<u32>),
    Read(Stateid),
}

impl Delegated {
    /// Writes an `open_delegation4`.
    pub(crate) fn write(self, out: &mut Writer) {
        match self {
            Self::No(None) => out.u32(open::DELEGATE_NONE),
            Self::No(Some(why)) => {
                out.u32(open::DELEGATE_NONE_EXT);
                out.u32(why);
                if matches!(why, open::CONTENTION | open::RESOURCE) {
                    // Nobody tells when it could be had.
                    out.bool(false);
                }
            }
            Self::Read(id) => {
                out.u32(open::DELEGATE_READ);
                id.write(out);
                // It is not being recalled; nobody opens the file by it without asking who may (ACCESS).
                out.bool(false);
                for word in [0, 0, 0] {
                    out.u32(word);
                }
                out.opaque(b"");
            }
        }
    }
}

/// What of a delegation an OPEN asks for.
#[derive(Clone, Copy)]
pub(crate) struct Wish {
    /// The bits of its access that are about it.
    pub(crate) want: u32,
    /// It is one that the client had before a restart.
    pub(crate) reclaim: bool,
    /// The open is for writing.
    pub(crate) writes: bool,
    /// It is of what is not made or cut by it, denies nobody to read, and is by no delegation.
    pub(crate) fits: bool,
}

impl Compound {
    /// Gives a delegation with an open file, if that is wanted and can be.
    pub(crate) fn delegate(
        &self,
        file: &Target,
        opened: &Arc<Opened>,
        wish: Wish,
    ) -> Served<Delegated> {
        let kind = wish.want & open::WANT_KIND;
        let why = |why| Delegated::No((kind != open::WANT_ANYTHING).then_some(why));
        match kind {
            open::WANT_NONE => return Ok(why(open::NOT_WANTED)),
            open::WANT_CANCEL => return Ok(why(open::CANCELLED)),
            _ if wish.writes => return Ok(why(open::NO_WRITE_DELEGATIONS)),
            open::WANT_ANYTHING | open::WANT_READ | open::WANT_ANY if wish.fits => {}
            open::WANT_ANYTHING | open::WANT_READ | open::WANT_ANY => {
                return Ok(why(open::CONTENTION));
            }
            _ => return Ok(why(open::NO_WRITE_DELEGATIONS)),
        }
        let (client, now) = (self.client()?, Instant::now());
        let all = &mut *self.server.books.lock();
        let (held, clients) = (&mut all.held, &all.clients);
        // Who claims what it had is reached a moment later: what it is to bind comes first for it.
        if !held.delegations.has_room(client) || !(wish.reclaim || clients.is_reached(client)) {
            return Ok(why(open::RESOURCE));
        }
        if !held.delegations.is_free(file.ino, client, now) {
            return Ok(why(open::CONTENTION));
        }
        let number = held.number();
        let recall = recalls::on_change(&self.server, number);
        let Some(promise) = self.server.engine.promise_unchanged(file.ino, recall) else {
            return Ok(why(open::CONTENTION));
        };
        let at = (file.export.id, file.ino);
        let given = (promise, opened.clone(), now);
        held.delegations.give(number, (client, file.caller.uid), at, given);
        add(&self.server.counts.delegations_given, 1);
        Ok(Delegated::Read(Stateid::new(held.boot, number, DELEGATION_SEQ)))
    }

    /// Before a file, its attributes or its names change: has its delegations given back. `DELAY` where that takes
    /// longer than a moment.
    pub(crate) async fn recall(&self, ino: Ino) -> Served<()> {
        let books = &self.server.books;
        let until = Instant::now() + RETURN_WAIT;
        loop {
            let returned = books.returned.notified();
            let out: Vec<_> = books.lock().held.delegations.of(ino).collect();
            if out.is_empty() {
                return Ok(());
            }
            let mut expired = false;
            for (number, client) in out {
                expired |= books.expire(client).await?;
                recalls::begin(&self.server, number);
            }
            if !expired && tokio::time::timeout_at(until, returned).await.is_err() {
                return Err(Status::DELAY.into());
            }
        }
    }

    /// The delegation by which a client opens what it has, for the current handle.
    pub(crate) fn check_delegation(&self, id: Stateid, target: &Target) -> Served<()> {
        let held = &mut self.server.books.lock().held;
        let which = held.find(self.client()?, id)?;
        if !matches!(which, Which::Delegation(_)) {
            return Err(Status::BAD_STATEID.into());
        }
        held.usage(which, (target.export.id, target.ino))?;
        Ok(())
    }

    pub(crate) fn return_delegation(&self, input: &mut Reader) -> Served<()> {
        let id = self.stateid(input)?;
        let target = self.target()?;
        self.check_delegation(id, &target)?;
        let Which::Delegation(number) = self.which(id)? else {
            return Err(Status::BAD_STATEID.into());
        };
        self.server.books.end_delegation(number);
        Ok(())
    }
}
