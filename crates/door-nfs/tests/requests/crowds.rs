//! Connections that stay in the middle of something, many of them.

use std::time::Duration;

use weir_door_nfs::Export;

use crate::common::client::{Client, FIRST_LIFE, compound};
use crate::common::codes::{DELAY, OK, lock};
use crate::common::ops::{self, Locker, Open, StateId, putfh, putrootfh};
use crate::common::ops_session::{free_stateid, reclaim_complete};
use crate::common::rpc::{Connection, Cred, Head};
use crate::common::{Served, connect_from, open_export};
use crate::witness::Witness;

#[test]
fn many_connections_that_stay_in_the_middle_cost_nobody_else() {
    let served = Served::new();
    let mut witness = Witness::new(&served);
    let mut client = served.client("a");
    let sequence = client.sequence(0);
    let arguments = compound(1, &[sequence.op(), putrootfh()]);
    let record = Head::compound(&Cred::root()).record(1, &arguments);
    let mut stay = Vec::new();
    for at in 0..100usize {
        let mut connection = Connection::open(served.address());
        let mut bytes = (record.len() as u32 | 1 << 31).to_be_bytes().to_vec();
        bytes.extend(&record[..at * record.len() / 100]);
        connection.send_raw(&bytes);
        stay.push(connection);
    }
    for _ in 0..20 {
        witness.check();
    }
    drop(stay);
    witness.check();
}

#[test]
fn bytes_that_are_announced_and_do_not_come_cost_nobody_else() {
    let served = Served::new();
    let mut witness = Witness::new(&served);
    let mut stay = Vec::new();
    // From several addresses each says many times that a mebibyte comes, and sends some of it.
    for host in 2..8 {
        for _ in 0..60 {
            let from = [127, 0, 0, host].into();
            let mut connection = connect_from(served.address(), from);
            connection.send_raw(&(1u32 << 20 | 1 << 31).to_be_bytes());
            connection.send_raw(&[0; 1_000]);
            stay.push(connection);
        }
    }
    for _ in 0..20 {
        witness.check();
    }
}

#[test]
fn replies_that_nobody_reads_hold_up_nobody_else() {
    let served = Served::new();
    let mut witness = Witness::new(&served);
    let mut client = elsewhere(&served);
    ask_for_much(&mut client);
    for _ in 0..20 {
        witness.check();
    }
    drop(client);
    witness.check();
}

/// A client at another address than the others.
fn elsewhere(served: &Served) -> Client {
    let connection = connect_from(served.address(), [127, 0, 0, 2].into());
    let mut client = Client::over(connection, served.address(), "elsewhere", FIRST_LIFE);
    client.call(&[reclaim_complete(false)]).ok();
    client
}

/// Asks for a mebibyte in each slot, and takes nothing.
fn ask_for_much(client: &mut Client) {
    let root = client.root();
    let file = client.file(&root, "large", &vec![1; 1 << 20]);
    for slot in 0..client.session.fore.requests {
        client.start(slot, &[putfh(&file), ops::read(StateId::ANONYMOUS, 0, 1 << 20)]);
    }
}

#[test]
fn a_server_stops_although_clients_stay() {
    let served = Served::new();
    let mut client = elsewhere(&served);
    ask_for_much(&mut client);
    let idle = Connection::open(served.address());
    let mut half = Connection::open(served.address());
    half.send_raw(&(1u32 << 20 | 1 << 31).to_be_bytes());
    half.send_raw(&[0; 1_000]);
    let stopped = served
        .world
        .run(async { tokio::time::timeout(Duration::from_secs(30), served.server().stop()).await });
    assert!(stopped.is_ok(), "it waits for clients that say and take nothing");
    drop((idle, half, client));
}

#[test]
fn a_client_has_so_many_files_open_and_waits_with_the_next() {
    let served = Served::with(|options| options.opens_max = 20);
    let mut client = served.client("a");
    let root = client.root();
    let mut open = Vec::new();
    for at in 0..20 {
        open.push(client.make(&root, &format!("file {at}")));
    }
    assert_eq!(client.open(&root, &Open::making("file 20")).unwrap_err(), DELAY);
    client.open(&root, &Open::read("file 3")).expect("what is open is opened again");
    let mut other = served.client("other");
    other.open(&root, &Open::read("file 3")).expect("another has room");
    let (file, id) = open.pop().expect("one");
    assert_eq!(client.stat(&file, ops::close(id)), OK);
    let (file, opened) = client.open(&root, &Open::making("file 20")).expect("opens");
    // Locks are as many.
    let mut last = None;
    for at in 0..20u8 {
        let locker = Locker::New(opened.id, &[at]);
        let taken = client.at(&file, ops::lock(lock::READ, false, (u64::from(at), 1), &locker));
        last = Some(taken.state());
    }
    let locker = Locker::New(opened.id, b"one more");
    assert_eq!(client.stat(&file, ops::lock(lock::READ, false, (30, 1), &locker)), DELAY);
    let last = last.expect("a lock");
    let unlocked = client.at(&file, ops::locku(last, (19, 1))).state();
    assert_eq!(client.call(&[free_stateid(unlocked)]).stat, OK);
    assert_eq!(client.stat(&file, ops::lock(lock::READ, false, (30, 1), &locker)), OK);
    assert_eq!(served.server().clients().len(), 2);
}

#[test]
fn what_was_done_is_known_by_address_and_export_after_clients_are_gone() {
    let home = Export { id: 1, name: "home".into(), ..open_export() };
    let served = Served::with(|options| options.exports.push(home));
    let elsewhere = [127, 0, 0, 9].into();
    let connection = connect_from(served.address(), elsewhere);
    let mut other = Client::over(connection, served.address(), "other", FIRST_LIFE);
    other.call(&[reclaim_complete(false)]).ok();
    let root = other.root();
    let home = other.lookup(&root, "home").expect("an export");
    other.file(&home, "file", &[7; 3_000]);
    let mut client = served.client("a");
    let root = client.root();
    let file = client.lookup(&root, "file").expect("is there");
    assert_eq!(client.content(&file).len(), 3_000);
    drop(other);
    served.wait(200);
    let uses = served.server().uses();
    let of = |address: &str, export: &str| {
        let mut rows = uses.iter().filter(|of| {
            of.export == export && of.address == Some(address.parse().expect("an address"))
        });
        let row = rows.next().unwrap_or_else(|| panic!("{address} {export}: {uses:?}"));
        (row.requests > 0, row.bytes_read, row.bytes_written)
    };
    assert_eq!(of("127.0.0.9", "home"), (true, 0, 3_000));
    assert_eq!(of("127.0.0.1", ""), (true, 3_000, 0));
    let requests: u64 = uses.iter().map(|of| of.requests).sum();
    assert!(requests <= served.server().counts().requests);
}
