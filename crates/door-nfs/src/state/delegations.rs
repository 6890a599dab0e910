//! Read delegations: files that a client may keep a copy of, without asking whether it still is one, until it is
//! asked to give that back (RFC 8881, 10.4).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weir_engine::Promise;
use weir_types::Ino;

use super::records::Opened;

/// Those of all clients.
const ALL_MAX: usize = 16_384;
/// A file that somebody wanted to change is given to nobody for so long.
const QUIET: Duration = Duration::from_secs(30);
/// The file of one that is not read for so long is closed here.
const IDLE: Duration = Duration::from_secs(5);

/// One client's, of one file.
pub(crate) struct Delegation {
    pub(crate) client: u64,
    pub(crate) export: u32,
    pub(crate) ino: Ino,
    /// The user who opened the file.
    pub(crate) uid: u32,
    /// That nobody changes the file, until it is revoked.
    promise: Option<Promise>,
    recalled: bool,
    /// The file, while the client reads it here. One that only reads its copy does not keep it open.
    file: Option<Arc<Opened>>,
    used: Instant,
}

/// All of them, by number. What is revoked counts until its client has heard of it, so that all of it is bounded.
pub(crate) struct Delegations {
    /// Those of one client.
    client_max: usize,
    all: HashMap<u64, Delegation>,
    files: HashMap<Ino, Vec<u64>>,
    clients: HashMap<u64, Tally>,
    /// When somebody wanted to change a file.
    recent: HashMap<Ino, Instant>,
}

/// How many a client has.
#[derive(Clone, Copy, Default)]
struct Tally {
    all: usize,
    revoked: usize,
}

impl Delegations {
    /// None yet, and so many of one client at most.
    pub(crate) fn new(client_max: usize) -> Self {
        let (all, files) = (HashMap::new(), HashMap::new());
        Self { client_max, all, files, clients: HashMap::new(), recent: HashMap::new() }
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Delegation> {
        self.all.get(&number)
    }

    pub(crate) fn is_revoked(&self, number: u64) -> bool {
        self.all.get(&number).is_some_and(|one| one.promise.is_none())
    }

    /// Whether there is room for one more of this client's.
    pub(crate) fn has_room(&self, client: u64) -> bool {
        self.all.len() < ALL_MAX && self.tally(client).all < self.client_max
    }

    /// Whether a file is one to give: the client has it not, and nobody wanted to change it of late.
    pub(crate) fn is_free(&self, ino: Ino, client: u64, now: Instant) -> bool {
        let quiet = self.recent.get(&ino).is_none_or(|at| now.duration_since(*at) > QUIET);
        quiet && self.of(ino).all(|(_, other)| other != client)
    }

    /// Those of a file that are not revoked, with their clients.
    pub(crate) fn of(&self, ino: Ino) -> impl Iterator<Item = (u64, u64)> {
        let here = self.files.get(&ino).into_iter().flatten();
        here.filter_map(|number| Some((*number, self.all.get(number)?.client)))
    }

    /// How many a client has that are not revoked.
    pub(crate) fn count(&self, client: u64) -> usize {
        let tally = self.tally(client);
        tally.all - tally.revoked
    }

    /// Whether any was revoked of which the client may not know.
    pub(crate) fn any_revoked(&self, client: u64) -> bool {
        self.tally(client).revoked > 0
    }

    fn tally(&self, client: u64) -> Tally {
        self.clients.get(&client).copied().unwrap_or_default()
    }

    /// Gives one.
    pub(crate) fn give(
        &mut self,
        number: u64,
        (client, uid): (u64, u32),
        (export, ino): (u32, Ino),
        (promise, file, now): (Promise, Arc<Opened>, Instant),
    ) {
        let (promise, recalled, file) = (Some(promise), false, Some(file));
        let new = Delegation { client, export, ino, uid, promise, recalled, file, used: now };
        self.all.insert(number, new);
        self.files.entry(ino).or_default().push(number);
        self.clients.entry(client).or_default().all += 1;
    }

    /// Its file is read: it, if it is open here.
    pub(crate) fn used(&mut self, number: u64, now: Instant) -> Option<Arc<Opened>> {
        let one = self.all.get_mut(&number)?;
        one.used = now;
        one.file.clone()
    }

    /// Its file was opened.
    pub(crate) fn opened(&mut self, number: u64, file: &Arc<Opened>) {
        if let Some(one) = self.all.get_mut(&number).filter(|one| one.promise.is_some()) {
            one.file = Some(file.clone());
        }
    }

    /// Somebody wants to change its file. Answers whether it is to be recalled: it is there, and is not yet.
    pub(crate) fn recall(&mut self, number: u64, now: Instant) -> bool {
        let Some(one) = self.all.get_mut(&number).filter(|one| one.promise.is_some()) else {
            return false;
        };
        self.recent.insert(one.ino, now);
        !std::mem::replace(&mut one.recalled, true)
    }

    /// Takes from the client what it did not give back.
    pub(crate) fn revoke(&mut self, number: u64) -> Option<(Promise, Option<Arc<Opened>>)> {
        let one = self.all.get_mut(&number)?;
        let (given, file) = (one.promise.take()?, one.file.take());
        let (ino, client) = (one.ino, one.client);
        self.clients.entry(client).or_default().revoked += 1;
        self.forget_file(ino, number);
        Some((given, file))
    }

    /// Ends one, also one that is revoked.
    pub(crate) fn end(&mut self, number: u64) -> Option<Delegation> {
        let one = self.all.remove(&number)?;
        self.forget_file(one.ino, number);
        if let Some(tally) = self.clients.get_mut(&one.client) {
            tally.all -= 1;
            tally.revoked -= usize::from(one.promise.is_none());
            if tally.all == 0 {
                self.clients.remove(&one.client);
            }
        }
        Some(one)
    }

    /// Ends all of a client.
    pub(crate) fn end_all(&mut self, client: u64) -> Vec<Delegation> {
        if self.tally(client).all == 0 {
            return Vec::new();
        }
        let of = |(number, one): (&u64, &Delegation)| (one.client == client).then_some(*number);
        let numbers: Vec<u64> = self.all.iter().filter_map(of).collect();
        numbers.into_iter().filter_map(|number| self.end(number)).collect()
    }

    /// Forgets which files somebody wanted to change long ago. Answers the files that are not read any more.
    pub(crate) fn tend(&mut self, now: Instant) -> Vec<Arc<Opened>> {
        self.recent.retain(|_, at| now.duration_since(*at) <= QUIET);
        let idle = |one: &&mut Delegation| now.duration_since(one.used) > IDLE;
        self.all.values_mut().filter(idle).filter_map(|one| one.file.take()).collect()
    }

    fn forget_file(&mut self, ino: Ino, number: u64) {
        if let Some(here) = self.files.get_mut(&ino) {
            here.retain(|other| *other != number);
            if here.is_empty() {
                self.files.remove(&ino);
            }
        }
    }
}
