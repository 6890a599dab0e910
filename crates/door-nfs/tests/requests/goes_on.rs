//! A client that goes on whatever becomes of its server: for cases that end servers.
//!
//! It holds a lock of all of a file, and writes and commits one number after the other, and makes a name now and
//! then. `WEIR_NFS=IP:PORT,…` is where servers are, and `WEIR_SECONDS` (30) how long it takes. It
//! fails where a lock cannot be claimed, where anything is missing that was answered as durable, or where nothing
//! was done for longer than `WEIR_GAP` (30) seconds.
#![allow(clippy::disallowed_methods, reason = "it waits for real servers")]

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::common::client::{Client, FIRST_LIFE};
use crate::common::codes::{DELAY, DENIED, GRACE, NO_GRACE, OK, lock, share, stable};
use crate::common::ops::{self, Claim, Handle, Locker, Open, Range, StateId, commit, lockt};
use crate::common::ops_session::reclaim_complete;
use crate::common::rpc::Connection;

const ALL: Range = (0, u64::MAX);
/// For a connection, and for each answer.
const PATIENCE: Duration = Duration::from_secs(6);
const PAUSE: Duration = Duration::from_millis(100);
/// Between two numbers: a client as fast as it can be keeps the machine from all else, and shows nothing more.
const EACH: Duration = Duration::from_millis(40);
/// A name is made after so many numbers.
const NAME_EVERY: u64 = 10;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// What was answered as durable.
#[derive(Debug)]
struct Done {
    /// All numbers before this one are committed.
    committed: u64,
    /// Names below this one are made.
    names: u64,
    file: Handle,
    /// As it is open in the server's life of now.
    id: Option<StateId>,
    lives: u32,
    last: Instant,
    longest: Duration,
    problems: Vec<String>,
}

impl Done {
    fn step(&mut self) {
        self.longest = self.longest.max(self.last.elapsed());
        self.last = Instant::now();
    }

    fn wrong(&mut self, what: String) {
        eprintln!("WRONG: {what}");
        self.problems.push(what);
    }
}

fn at(number: u64) -> [u8; 8] {
    (number ^ 0x5757_5757_5757_5757).to_be_bytes()
}

pub(crate) fn servers() -> Vec<SocketAddr> {
    let servers = std::env::var("WEIR_NFS").expect("WEIR_NFS=IP:PORT,...");
    servers.split(',').map(|server| server.parse().expect("an address")).collect()
}

/// A client in the server's life of now, or `None` where there is none.
fn connect(address: SocketAddr, name: &str) -> Option<Client> {
    let connection = Connection::open_within(address, PATIENCE)?;
    Some(Client::over(connection, address, name, FIRST_LIFE))
}

/// Tries again what the server asks to try again.
fn patiently<T>(mut work: impl FnMut() -> Result<T, crate::common::codes::Stat>) -> Option<T> {
    loop {
        match work() {
            Ok(done) => return Some(done),
            Err(DELAY | GRACE) => std::thread::sleep(PAUSE),
            Err(other) => {
                eprintln!("refused: {other:?}");
                return None;
            }
        }
    }
}

/// Opens and locks the file for the first time, or claims both.
fn hold(client: &mut Client, done: &mut Done) -> Option<StateId> {
    let first = done.file.is_empty();
    let mut file = done.file.clone();
    let opened = if first {
        client.call(&[reclaim_complete(false)]).ok();
        let root = client.root();
        let (made, opened) = patiently(|| client.open(&root, &Open::making("goes-on")))?;
        file = made;
        opened
    } else {
        let previous = Open::new(share::BOTH, "").claim(Claim::Previous);
        let claimed = patiently(|| match client.open(&file, &previous) {
            Err(NO_GRACE) => Ok(None),
            claimed => claimed.map(Some),
        });
        let id = done.id.filter(|id| client.read(&file, *id, 0, 8).is_ok());
        match (claimed, id) {
            (Some(Some((_, opened))), _) => opened,
            // Only the connection was lost.
            (Some(None), Some(id)) => return Some(id),
            _ => {
                done.wrong(format!("life {}: the open is not to be claimed", done.lives));
                return None;
            }
        }
    };
    // As it is of late: one that this client gave up waiting for may still be done at the server and count it up.
    let id = opened.id.with(0);
    let locker = Locker::New(id, b"owner");
    let taking = ops::lock(lock::WRITE, !first, ALL, &locker);
    let taken = patiently(|| match client.stat(&file, taking.clone()) {
        OK => Ok(()),
        other => Err(other),
    });
    if taken.is_none() {
        done.wrong(format!("life {}: the lock is not to be had", done.lives));
        return None;
    }
    if !first {
        client.call(&[reclaim_complete(false)]).ok();
    }
    (done.file, done.id) = (file, Some(id));
    Some(id)
}

/// All bytes of the file, by the open file: others have to wait until clients have claimed what they had.
fn content(client: &mut Client, done: &Done) -> Option<Vec<u8>> {
    let (mut content, id) = (Vec::new(), done.id?);
    loop {
        let at = content.len() as u64;
        let (bytes, eof) = patiently(|| client.read(&done.file, id, at, 1 << 18))?;
        content.extend_from_slice(&bytes);
        if eof {
            return Some(content);
        }
    }
}

/// Whether all is there that was answered as durable, and nobody else has the lock.
fn check(client: &mut Client, address: SocketAddr, done: &mut Done) -> Option<()> {
    let content = content(client, done)?;
    let wanted: Vec<u8> = (0..done.committed).flat_map(at).collect();
    if !content.starts_with(&wanted) {
        done.wrong(format!("life {}: committed bytes are missing", done.lives));
    }
    let root = client.root();
    for name in 0..done.names {
        if client.lookup(&root, &format!("name-{name}")).is_err() {
            done.wrong(format!("life {}: name {name} of {} is missing", done.lives, done.names));
        }
    }
    let mut other = connect(address, "somebody else")?;
    other.call(&[reclaim_complete(false)]).ok();
    let asked = other.stat(&done.file, lockt(lock::WRITE, ALL, b"somebody else"));
    if ![DENIED, GRACE].contains(&asked) {
        done.wrong(format!("life {}: somebody else could lock: {asked:?}", done.lives));
    }
    Some(())
}

/// Works until the server is gone or the time is over.
fn live(address: SocketAddr, done: &mut Done, until: Instant) -> Option<()> {
    let mut client = connect(address, "goes on")?;
    let before = done.id;
    let id = hold(&mut client, done)?;
    if before != Some(id) {
        done.lives += 1;
        eprintln!("life {}: {} committed before", done.lives, done.committed);
        check(&mut client, address, done)?;
    }
    let root = client.root();
    while Instant::now() < until {
        let n = done.committed;
        patiently(|| client.write(&done.file, id, n * 8, stable::UNSTABLE, &at(n)))?;
        let file = done.file.clone();
        patiently(|| match client.stat(&file, commit(0, 0)) {
            OK => Ok(()),
            other => Err(other),
        })?;
        done.committed += 1;
        done.step();
        if n.is_multiple_of(NAME_EVERY) {
            let name = format!("name-{}", done.names);
            patiently(|| client.open(&root, &Open::making(&name)))?;
            done.names += 1;
            done.step();
        }
        std::thread::sleep(EACH);
    }
    Some(())
}

#[test]
#[ignore = "a case runs it beside a server that it ends"]
fn goes_on() {
    let mut servers = servers().into_iter().cycle();
    let until = Instant::now() + Duration::from_secs(number("WEIR_SECONDS", 30));
    let mut done = Done {
        committed: 0,
        names: 0,
        file: Handle::default(),
        id: None,
        lives: 0,
        last: Instant::now(),
        longest: Duration::ZERO,
        problems: Vec::new(),
    };
    while Instant::now() < until {
        let address = servers.next().expect("a server");
        // A server that ends in the middle of an answer is one that is away.
        drop(catch_unwind(AssertUnwindSafe(|| live(address, &mut done, until))));
        std::thread::sleep(PAUSE);
    }
    done.step();
    let Done { committed, names, lives, longest, problems, .. } = done;
    eprintln!("{committed} numbers, {names} names, {lives} lives, at most {longest:?} without one");
    assert_eq!(problems, Vec::<String>::new());
    assert!(committed > 0 && longest < Duration::from_secs(number("WEIR_GAP", 30)), "{longest:?}");
}

#[test]
#[ignore = "a case runs it beside two servers of one volume"]
fn two_servers_serve_one_volume() {
    let servers = servers();
    // Others in each run: servers know those of before.
    let name = |name: &str| format!("{name} {}", std::process::id());
    let mut one = Client::new(servers[0], &name("one"));
    let mut two = Client::new(servers[1], &name("two"));
    let root = one.root();
    assert_eq!(root, two.root(), "handles are good at both");
    for round in 0..20u64 {
        let (writer, reader) =
            if round % 2 == 0 { (&mut one, &mut two) } else { (&mut two, &mut one) };
        let bytes = crate::common::noise(round, 50_000 - round as usize * 2_000);
        let (file, opened) = writer
            .open(&root, &Client::truncating("shared"))
            .or_else(|_| writer.open(&root, &Open::making("shared")))
            .expect("opens");
        writer.write(&file, opened.id, 0, stable::UNSTABLE, &bytes).expect("writes");
        assert_eq!(writer.stat(&file, ops::close(opened.id)), OK);
        let (seen, theirs) = reader.open(&root, &Open::read("shared")).expect("opens");
        assert_eq!(seen, file);
        assert!(
            reader.content(&seen) == bytes,
            "round {round}: closed, then opened at the other server"
        );
        assert_eq!(reader.stat(&seen, ops::close(theirs.id)), OK);
        let name = format!("name-of-{round}");
        writer.file(&root, &name, b"x");
        let renamed = format!("renamed-{round}");
        reader.lookup(&root, &name).expect("is there at once");
        assert_eq!(reader.between(&root, &root, ops::rename(&name, &renamed)).stat, OK);
        assert!(writer.lookup(&root, &name).is_err() && writer.lookup(&root, &renamed).is_ok());
    }
    let (file, mine) = one.open(&root, &Open::both("shared")).expect("opens");
    let (_, theirs) = two.open(&root, &Open::both("shared")).expect("opens");
    let (by_one, by_two) = (Locker::New(mine.id, b"one"), Locker::New(theirs.id, b"two"));
    let taken = one.at(&file, ops::lock(lock::WRITE, false, (0, 10), &by_one));
    assert_eq!(taken.stat, OK);
    assert_eq!(two.stat(&file, ops::lock(lock::WRITE, false, (5, 10), &by_two)), DENIED);
    assert_eq!(two.stat(&file, ops::lock(lock::WRITE, false, (10, 10), &by_two)), OK);
    assert_eq!(one.stat(&file, ops::locku(taken.state(), ALL)), OK);
    assert_eq!(two.stat(&file, lockt(lock::WRITE, (0, 10), b"two")), OK);
}
