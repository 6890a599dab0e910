//! Names of what is open and locked: asked after, and given up.

use crate::compound::Compound;
use crate::protocol::status::{Served, Status};
use crate::protocol::xdr::{Reader, Writer};
use crate::state::held::Which;
use crate::state::stateid::{Meant, Stateid};

/// Stateids of one request.
const TESTED_MAX: usize = 1_024;

impl Compound {
    pub(crate) fn test_stateids(&self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let ids = input.list(TESTED_MAX, Stateid::read)?;
        let client = self.client()?;
        let held = &self.server.books.lock().held;
        out.u32(ids.len() as u32);
        for id in ids {
            let status = match id.meant() {
                Meant::Held { .. } => match held.find(client, id) {
                    Ok(Which::Delegation(number)) if held.delegations.is_revoked(number) => {
                        Status::DELEG_REVOKED
                    }
                    found => found.err().unwrap_or(Status::OK),
                },
                _ => Status::BAD_STATEID,
            };
            out.u32(status.0);
        }
        Ok(())
    }

    /// Gives up a lock state that has no locks any more.
    pub(crate) async fn free_stateid(&self, input: &mut Reader) -> Served<()> {
        let id = Stateid::read(input)?;
        let client = self.client()?;
        let (number, ino, owner) = {
            let held = &mut self.server.books.lock().held;
            let number = match held.find(client, id)? {
                Which::Locks(number) => number,
                // Its client has heard that it was revoked.
                Which::Delegation(number) if held.delegations.is_revoked(number) => {
                    held.delegations.end(number);
                    return Ok(());
                }
                _ => return Err(Status::LOCKS_HELD.into()),
            };
            let state = held.locks.get(&number).ok_or(Status::BAD_STATEID)?;
            let (ino, owner) = (state.ino, state.owner.clone());
            (number, ino, held.lock_owner(client, &owner))
        };
        if self.server.engine.held_locks().iter().any(|(at, _, l)| *at == ino && l.owner == owner) {
            return Err(Status::LOCKS_HELD.into());
        }
        self.server.books.lock().held.free_locks(number).ok_or(Status::BAD_STATEID)?;
        Ok(())
    }
}
