//! All that clients hold, by its numbers.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use weir_engine::LockOwner;
use weir_types::Ino;

use super::records::{LockState, Open, Opened};
use super::stateid::{Meant, Stateid};
use crate::protocol::status::Status;

/// Open files and locks.
pub(crate) struct Held {
    /// This life of the server.
    pub(crate) boot: u32,
    last_number: u64,
    random: Box<dyn FnMut() -> u64 + Send>,
    pub(crate) opens: HashMap<u64, Open>,
    pub(crate) locks: HashMap<u64, LockState>,
    /// Open files by what they are of.
    pub(crate) files: HashMap<Ino, Vec<u64>>,
    pub(crate) lock_owners: HashMap<(u64, Bytes), LockOwner>,
    pub(crate) owners: HashMap<u64, (u64, Bytes)>,
}

/// What a stateid leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Open(u64),
    Locks(u64),
}

/// What a client had when it went.
#[derive(Default)]
pub(crate) struct LetGo {
    pub(crate) files: Vec<Arc<Opened>>,
    pub(crate) locks: Vec<(Ino, LockOwner)>,
}

impl Held {
    pub(crate) fn new(boot: u32, random: Box<dyn FnMut() -> u64 + Send>) -> Self {
        Self {
            boot,
            last_number: 0,
            random,
            opens: HashMap::new(),
            locks: HashMap::new(),
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
        let found = self.opens.get(&number).map(of).or_else(|| {
            let state = self.locks.get(&number)?;
            Some((state.client, state.seq, Which::Locks(number)))
        });
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

    /// The open file that something is below.
    pub(crate) fn open_of(&self, which: Which) -> Result<(u64, &Open), Status> {
        let number = match which {
            Which::Open(number) => number,
            Which::Locks(number) => self.locks.get(&number).ok_or(Status::BAD_STATEID)?.open,
        };
        let open = self.opens.get(&number).ok_or(Status::BAD_STATEID)?;
        Ok((number, open))
    }

    /// Whether a client holds anything.
    pub(crate) fn has_any(&self, client: u64) -> bool {
        self.opens.values().any(|open| open.client == client)
    }

    /// How many files a client has open, and how many lock states.
    pub(crate) fn count(&self, client: u64) -> (usize, usize) {
        let opens = self.opens.values().filter(|open| open.client == client).count();
        (opens, self.locks.values().filter(|state| state.client == client).count())
    }

    /// Takes all that a client has.
    pub(crate) fn take_all(&mut self, client: u64) -> LetGo {
        let of = |(number, open): (&u64, &Open)| (open.client == client).then_some(*number);
        let numbers: Vec<u64> = self.opens.iter().filter_map(of).collect();
        let mut gone = LetGo::default();
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
