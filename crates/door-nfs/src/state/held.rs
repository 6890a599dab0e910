//! All that clients hold, by its numbers.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;
use weir_engine::LockOwner;
use weir_types::Ino;

use super::delegations::{Delegation, Delegations};
use super::records::{LockState, Open, Opened};
use super::stateid::{Meant, Stateid};
use crate::protocol::numbers::open;
use crate::protocol::status::Status;

/// A delegation never changes.
pub(crate) const DELEGATION_SEQ: u32 = 1;

/// Open files and locks.
pub(crate) struct Held {
    /// This life of the server.
    pub(crate) boot: u32,
    last_number: u64,
    random: Box<dyn FnMut() -> u64 + Send>,
    pub(crate) opens: HashMap<u64, Open>,
    pub(crate) locks: HashMap<u64, LockState>,
    pub(crate) delegations: Delegations,
    /// How many of each a client has.
    pub(crate) tallies: HashMap<u64, Tally>,
    opens_max: usize,
    /// Open files by what they are of.
    pub(crate) files: HashMap<Ino, Vec<u64>>,
    pub(crate) lock_owners: HashMap<(u64, Bytes), LockOwner>,
    pub(crate) owners: HashMap<u64, (u64, Bytes)>,
}

/// How many open files and lock states a client has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) opens: usize,
    pub(crate) locks: usize,
}

/// What a stateid leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Open(u64),
    Locks(u64),
    Delegation(u64),
}

/// What a stateid lets a client do.
pub(crate) struct Usage {
    /// `None` where it is to be opened first, by its delegation.
    pub(crate) file: Option<Arc<Opened>>,
    pub(crate) access: u32,
    /// The user who opened it.
    pub(crate) uid: u32,
}

/// What a client had when it went.
#[derive(Default)]
pub(crate) struct LetGo {
    pub(crate) files: Vec<Arc<Opened>>,
    pub(crate) locks: Vec<(Ino, LockOwner)>,
    pub(crate) delegations: Vec<Delegation>,
}

impl Held {
    /// Of which a client may have so many open files, as many lock states, and so many delegations.
    pub(crate) fn new(
        boot: u32,
        (opens_max, delegations_max): (usize, usize),
        random: Box<dyn FnMut() -> u64 + Send>,
    ) -> Self {
        Self {
            boot,
            last_number: 0,
            random,
            opens: HashMap::new(),
            locks: HashMap::new(),
            delegations: Delegations::new(delegations_max),
            tallies: HashMap::new(),
            opens_max,
            files: HashMap::new(),
            lock_owners: HashMap::new(),
            owners: HashMap::new(),
        }
    }

    /// A number that nothing had.
    pub(crate) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(crate) fn random(&mut self) -> u64 {
        (self.random)()
    }

    /// What a client means by a stateid.
    pub(crate) fn find(&self, client: u64, id: Stateid) -> Result<Which, Status> {
        let Meant::Held { seq, boot, number } = id.meant() else {
            return Err(Status::BAD_STATEID);
        };
        let of = |open: &Open| (open.client, open.seq, Which::Open(number));
        let locks = || {
            let state = self.locks.get(&number)?;
            Some((state.client, state.seq, Which::Locks(number)))
        };
        let delegation = || {
            let client = self.delegations.get(number)?.client;
            Some((client, DELEGATION_SEQ, Which::Delegation(number)))
        };
        let found = self.opens.get(&number).map(of).or_else(locks).or_else(delegation);
        let Some((owner, now, which)) = found.filter(|_| boot == self.boot) else {
            return Err(Status::BAD_STATEID);
        };
        match () {
            () if owner != client => Err(Status::BAD_STATEID),
            () if seq == 0 || seq == now => Ok(which),
            () if seq < now => Err(Status::OLD_STATEID),
            () => Err(Status::BAD_STATEID),
        }
    }

    /// What a client may do with a file by a stateid, through an export.
    pub(crate) fn usage(
        &mut self,
        which: Which,
        (export, ino): (u32, Ino),
    ) -> Result<Usage, Status> {
        let (at, usage) = match which {
            Which::Delegation(number) => {
                let one = self.delegations.get(number).ok_or(Status::BAD_STATEID)?;
                if self.delegations.is_revoked(number) {
                    return Err(Status::DELEG_REVOKED);
                }
                let (at, uid) = ((one.export, one.ino), one.uid);
                let file = self.delegations.used(number, Instant::now());
                (at, Usage { file, access: open::READ, uid })
            }
            Which::Open(_) | Which::Locks(_) => {
                let (_, open) = self.open_of(which)?;
                let usage =
                    Usage { file: Some(open.file.clone()), access: open.access, uid: open.uid };
                ((open.export, open.ino), usage)
            }
        };
        if at == (export, ino) { Ok(usage) } else { Err(Status::BAD_STATEID) }
    }

    /// The open file that something is below.
    pub(crate) fn open_of(&self, which: Which) -> Result<(u64, &Open), Status> {
        let number = match which {
            Which::Open(number) => number,
            Which::Locks(number) => self.locks.get(&number).ok_or(Status::BAD_STATEID)?.open,
            Which::Delegation(_) => return Err(Status::BAD_STATEID),
        };
        let open = self.opens.get(&number).ok_or(Status::BAD_STATEID)?;
        Ok((number, open))
    }

    /// Whether a client holds anything.
    pub(crate) fn has_any(&self, client: u64) -> bool {
        self.tally(client).opens > 0 || self.delegations.count(client) > 0
    }

    /// How many files a client has open, and how many lock states.
    pub(crate) fn tally(&self, client: u64) -> Tally {
        self.tallies.get(&client).copied().unwrap_or_default()
    }

    /// Whether a client has room for one more open file, and one more lock state.
    pub(crate) fn has_room(&self, client: u64) -> (bool, bool) {
        let tally = self.tally(client);
        (tally.opens < self.opens_max, tally.locks < self.opens_max)
    }

    pub(crate) fn count(&mut self, client: u64, change: impl FnOnce(&mut Tally)) {
        let tally = self.tallies.entry(client).or_default();
        change(tally);
        if *tally == Tally::default() {
            self.tallies.remove(&client);
        }
    }

    /// Takes all that a client has.
    pub(crate) fn take_all(&mut self, client: u64) -> LetGo {
        let of = |(number, open): (&u64, &Open)| (open.client == client).then_some(*number);
        let numbers: Vec<u64> = self.opens.iter().filter_map(of).collect();
        let delegations = self.delegations.end_all(client);
        let mut gone = LetGo { delegations, ..LetGo::default() };
        for number in numbers {
            if let Some((open, locks)) = self.close(number) {
                for state in locks {
                    let owner = self.lock_owner(client, &state.owner);
                    gone.locks.push((state.ino, owner));
                }
                gone.files.push(open.file);
            }
        }
        self.lock_owners.retain(|(other, _), _| *other != client);
        self.owners.retain(|_, (other, _)| *other != client);
        gone
    }
}
