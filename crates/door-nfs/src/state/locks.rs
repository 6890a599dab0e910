//! What clients have locked: who of them is which owner of the engine's locks.

use std::collections::HashSet;

use bytes::Bytes;
use weir_engine::LockOwner;

use super::held::Held;
use super::records::{LockState, next};
use super::stateid::Stateid;
use crate::protocol::status::Status;

impl Held {
    /// What the engine knows an owner of a client by; the same in all files.
    pub(crate) fn lock_owner(&mut self, client: u64, owner: &Bytes) -> LockOwner {
        if let Some(known) = self.lock_owners.get(&(client, owner.clone())) {
            return *known;
        }
        let new = LockOwner(self.random());
        self.lock_owners.insert((client, owner.clone()), new);
        self.owners.insert(new.0, (client, owner.clone()));
        new
    }

    /// Forgets owners that have no lock state any more.
    pub(crate) fn forget_owners(&mut self) {
        if self.lock_owners.len() <= self.locks.len() {
            return;
        }
        let of = |state: &LockState| (state.client, state.owner.clone());
        let used: HashSet<_> = self.locks.values().map(of).collect();
        self.lock_owners.retain(|who, _| used.contains(who));
        self.owners.retain(|_, who| used.contains(who));
    }

    /// Whom the engine knows by that, if it is a client of this server.
    pub(crate) fn owner_of(&self, owner: LockOwner) -> Option<&(u64, Bytes)> {
        self.owners.get(&owner.0)
    }

    /// The lock state of an owner below an open file, made if there is none.
    pub(crate) fn lock_state(&mut self, open: u64, owner: &Bytes) -> Result<u64, Status> {
        let opened = self.opens.get(&open).ok_or(Status::BAD_STATEID)?;
        let known = opened
            .locks
            .iter()
            .find(|number| self.locks.get(number).is_some_and(|state| state.owner == *owner));
        if let Some(known) = known {
            return Ok(*known);
        }
        let (client, ino, owner) = (opened.client, opened.ino, owner.clone());
        if !self.has_room(client).1 {
            return Err(Status::DELAY);
        }
        self.count(client, |tally| tally.locks += 1);
        let number = self.number();
        self.locks.insert(number, LockState { client, open, owner, ino, seq: 0 });
        if let Some(opened) = self.opens.get_mut(&open) {
            opened.locks.push(number);
        }
        Ok(number)
    }

    /// A lock state changed; its new name.
    pub(crate) fn locks_changed(&mut self, number: u64) -> Result<Stateid, Status> {
        let boot = self.boot;
        let state = self.locks.get_mut(&number).ok_or(Status::BAD_STATEID)?;
        state.seq = next(state.seq);
        Ok(Stateid::new(boot, number, state.seq))
    }

    /// Ends a lock state.
    pub(crate) fn free_locks(&mut self, number: u64) -> Option<LockState> {
        let state = self.locks.remove(&number)?;
        self.count(state.client, |tally| tally.locks -= 1);
        if let Some(open) = self.opens.get_mut(&state.open) {
            open.locks.retain(|other| *other != number);
        }
        Some(state)
    }
}
