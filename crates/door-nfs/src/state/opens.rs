//! What clients have open, and what they keep others from.

use std::sync::Arc;

use bytes::Bytes;
use weir_types::Ino;

use super::held::{Held, Which};
use super::records::{LockState, Open, Opened, next};
use super::stateid::Stateid;
use crate::protocol::numbers::open;
use crate::protocol::status::Status;

/// Why something is not opened.
pub(crate) enum Refused {
    /// This client is in the way.
    By(u64),
    /// The client has as much as it may have.
    Full,
}

/// What is to be opened.
pub(crate) struct Wanted {
    pub(crate) client: u64,
    pub(crate) owner: Bytes,
    pub(crate) uid: u32,
    pub(crate) ino: Ino,
    pub(crate) export: u32,
    pub(crate) access: u32,
    pub(crate) deny: u32,
    pub(crate) file: Arc<Opened>,
}

impl Held {
    /// Refuses an open file that is another than this one, by export and inode.
    pub(crate) fn check_file(&self, number: u64, file: (u32, Ino)) -> Result<(), Status> {
        let (_, open) = self.open_of(Which::Open(number))?;
        match (open.export, open.ino) == file {
            true => Ok(()),
            false => Err(Status::BAD_STATEID),
        }
    }

    /// Opens a file, or widens what the same owner has of it.
    pub(crate) fn share(&mut self, wanted: Wanted) -> Result<Stateid, Refused> {
        let Wanted { client, owner, uid, ino, export, access, deny, file } = wanted;
        let here = self.files.get(&ino).cloned().unwrap_or_default();
        let mut own = None;
        for number in here {
            let Some(open) = self.opens.get(&number) else { continue };
            if open.client == client && open.owner == owner && open.export == export {
                own = Some(number);
            } else if open.access & deny != 0 || open.deny & access != 0 {
                return Err(Refused::By(open.client));
            }
        }
        if let Some(number) = own
            && let Some(open) = self.opens.get_mut(&number)
        {
            let writes = access & open::WRITE != 0 && open.access & open::WRITE == 0;
            if writes {
                open.file = file;
            }
            (open.access, open.deny) = (open.access | access, open.deny | deny);
            if !open.pairs.contains(&(access, deny)) {
                open.pairs.push((access, deny));
            }
            open.seq = next(open.seq);
            return Ok(Stateid::new(self.boot, number, open.seq));
        }
        if !self.has_room(client).0 {
            return Err(Refused::Full);
        }
        self.count(client, |tally| tally.opens += 1);
        let number = self.number();
        let pairs = vec![(access, deny)];
        let (seq, locks) = (1, Vec::new());
        let open = Open { client, owner, ino, uid, export, access, deny, pairs, seq, file, locks };
        self.opens.insert(number, open);
        self.files.entry(ino).or_default().push(number);
        Ok(Stateid::new(self.boot, number, seq))
    }

    /// Whether some open file keeps everybody else from this access.
    pub(crate) fn denies(&self, ino: Ino, access: u32) -> bool {
        let here = self.files.get(&ino).into_iter().flatten();
        here.filter_map(|number| self.opens.get(number)).any(|open| open.deny & access != 0)
    }

    /// Narrows what is open to one that it was opened with.
    pub(crate) fn downgrade(
        &mut self,
        number: u64,
        access: u32,
        deny: u32,
    ) -> Result<Stateid, Status> {
        let boot = self.boot;
        let open = self.opens.get_mut(&number).ok_or(Status::BAD_STATEID)?;
        let is_union = |wanted: u32, of: fn(&(u32, u32)) -> u32| {
            let parts = open.pairs.iter().map(of).filter(|part| part & !wanted == 0);
            parts.fold(0, |all, part| all | part) == wanted
        };
        if !is_union(access, |pair| pair.0) || !is_union(deny, |pair| pair.1) {
            return Err(Status::INVAL);
        }
        open.pairs.retain(|(a, d)| a & !access == 0 && d & !deny == 0);
        (open.access, open.deny) = (access, deny);
        open.seq = next(open.seq);
        Ok(Stateid::new(boot, number, open.seq))
    }

    /// Ends an open file. Answers it, with the lock states that go along.
    pub(crate) fn close(&mut self, number: u64) -> Option<(Open, Vec<LockState>)> {
        let open = self.opens.remove(&number)?;
        if let Some(here) = self.files.get_mut(&open.ino) {
            here.retain(|other| *other != number);
            if here.is_empty() {
                self.files.remove(&open.ino);
            }
        }
        let locks: Vec<_> = open.locks.iter().filter_map(|lock| self.locks.remove(lock)).collect();
        self.count(open.client, |tally| {
            tally.opens -= 1;
            tally.locks -= locks.len();
        });
        Some((open, locks))
    }
}
