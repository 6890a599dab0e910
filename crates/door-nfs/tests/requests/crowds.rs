//! Connections that stay in the middle of something, many of them.

use std::time::Duration;

use crate::common::Served;
use crate::common::client::{Client, FIRST_LIFE, compound};
use crate::common::ops::{self, StateId, putfh, putrootfh};
use crate::common::ops_session::reclaim_complete;
use crate::common::rpc::{Connection, Cred, Head};
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
            let mut connection = Connection::open_from(served.address(), from);
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
    let connection = Connection::open_from(served.address(), [127, 0, 0, 2].into());
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
