//! Measures an NFS 4.1 server, any one, by the client of the NFS door's tests, which has no kernel and no cache:
//!
//! ```text
//! bench-nfs 127.0.0.1:2049 [/DIRECTORY [MIB [FILES [PART...]]]]
//! ```
//!
//! Says in JSON how many MiB and operations a second it did, and nothing of the server's processor: look there.
//! Parts are write, read, random, remove and names, and all of them in this order if none is said; read and random
//! are of what write left.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it measures real time, says what it found, and ends where a server does something else"
)]

#[path = "../../../door-nfs/tests/common/alone/mod.rs"]
mod common;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use common::client::{Client, FIRST_LIFE};
use common::codes::{OK, attr, stable};
use common::ops::{self, Handle, Op, Open};
use common::replies::Reply;

/// Requests under way at once.
const DEPTH: u32 = 8;
const MIB: u64 = 1 << 20;
/// Reads and attributes looked at.
const ROUNDS: u64 = 20_000;

/// What was measured, by name.
type Told = Vec<(&'static str, f64)>;
/// All that there is to measure.
const PARTS: [&str; 5] = ["write", "read", "random", "remove", "names"];

/// Sends so many requests, a number of them at once; requests a second.
fn run(client: &mut Client, depth: u32, count: u64, mut make: impl FnMut(u64) -> Vec<Op>) -> f64 {
    let began = Instant::now();
    let mut under_way: VecDeque<(u32, u32)> = VecDeque::new();
    let done = |client: &mut Client, xid| {
        let reply: Reply = client.finish(xid);
        assert_eq!(reply.stat, OK, "{reply:?}");
    };
    for number in 0..count {
        let slot = match under_way.len() as u32 == depth {
            false => under_way.len() as u32,
            true => {
                let (slot, xid) = under_way.pop_front().expect("one");
                done(client, xid);
                slot
            }
        };
        let ops = make(number);
        under_way.push_back((slot, client.start(slot, &ops)));
    }
    for (_, xid) in under_way {
        done(client, xid);
    }
    count as f64 / began.elapsed().as_secs_f64()
}

/// A number that looks random, of each number another.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 17
}

/// Bytes that do not compress.
fn noise(len: usize) -> Vec<u8> {
    let words = (0..len as u64 / 8).map(|number| scattered(number + 1) ^ (number << 47));
    words.flat_map(u64::to_le_bytes).collect()
}

/// Opens the file that reads and writes are of.
fn open(client: &mut Client, dir: &Handle) -> (Handle, ops::StateId) {
    let (file, opened) = client.open(dir, &Open::making("load")).expect("opens");
    (file, opened.id)
}

fn write(client: &mut Client, dir: &Handle, mib: u64) -> Told {
    let ((file, id), data) = (open(client, dir), noise(MIB as usize));
    let write = |number: u64| {
        vec![ops::putfh(&file), ops::write(id, number * MIB, stable::UNSTABLE, &data)]
    };
    let began = Instant::now();
    run(client, DEPTH, mib, write);
    run(client, 1, 1, |_| vec![ops::putfh(&file), ops::commit(0, 0)]);
    let written = mib as f64 / began.elapsed().as_secs_f64();
    close(client, &file, id);
    vec![("write_mib_s", written)]
}

fn close(client: &mut Client, file: &Handle, id: ops::StateId) {
    run(client, 1, 1, |_| vec![ops::putfh(file), ops::close(id)]);
}

/// Four times the whole file.
fn read(client: &mut Client, dir: &Handle, mib: u64) -> Told {
    let (file, id) = open(client, dir);
    let whole =
        |number: u64| vec![ops::putfh(&file), ops::read(id, number % mib * MIB, MIB as u32)];
    let read = run(client, DEPTH, 4 * mib, whole);
    close(client, &file, id);
    vec![("read_mib_s", read)]
}

/// 4 KiB anywhere in it, one at a time and several.
fn random(client: &mut Client, dir: &Handle, mib: u64) -> Told {
    let (file, id) = open(client, dir);
    let pages = mib * MIB / 4_096;
    let page = |number: u64| {
        vec![ops::putfh(&file), ops::read(id, scattered(number) % pages * 4_096, 4_096)]
    };
    let one = run(client, 1, ROUNDS, page);
    let many = run(client, DEPTH, ROUNDS, page);
    close(client, &file, id);
    vec![("read_4k_s", one), ("read_4k_8_s", many)]
}

fn remove(client: &mut Client, dir: &Handle) -> Told {
    run(client, 1, 1, |_| vec![ops::putfh(dir), ops::remove("load")]);
    Vec::new()
}

/// Names: made and closed, looked up, removed.
fn names(client: &mut Client, dir: &Handle, files: u64) -> Told {
    let mut told = Vec::new();
    for (depth, [create, stat, remove]) in
        [(1, ["create_s", "stat_s", "remove_s"]), (DEPTH, ["create_8_s", "stat_8_s", "remove_8_s"])]
    {
        let name = |number: u64| format!("f{depth}-{number}");
        let made = run(client, depth, files, |number| {
            let open = Open::making(&name(number)).owner(name(number).as_bytes());
            vec![ops::putfh(dir), open.op(), ops::getfh(), ops::close(ops::StateId::CURRENT)]
        });
        let looked = run(client, depth, ROUNDS, |number| {
            let name = name(scattered(number) % files);
            let attributes = [attr::TYPE, attr::SIZE, attr::MODE, attr::TIME_MODIFY];
            vec![ops::putfh(dir), ops::lookup(&name), ops::getattr(&attributes)]
        });
        let removed =
            run(client, depth, files, |number| vec![ops::putfh(dir), ops::remove(&name(number))]);
        told.extend([(create, made), (stat, looked), (remove, removed)]);
    }
    told
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().expect("an address").parse().expect("an address");
    let path = arguments.next().unwrap_or_default();
    let mut number = |default| arguments.next().map_or(default, |n| n.parse().expect("a number"));
    let (mib, files) = (number(256), number(2_000));
    // A server that was killed may know this client still.
    let name = format!("weir load {}", std::process::id());
    let mut client = Client::before_reclaim(address, &name, FIRST_LIFE);
    client.call(&[common::ops_session::reclaim_complete(false)]).ok();
    let mut dir = client.root();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        dir = client.lookup(&dir, part).expect("the directory");
    }
    let asked: Vec<String> = arguments.collect();
    let parts = if asked.is_empty() { PARTS.map(str::to_owned).to_vec() } else { asked };
    let mut told = Told::new();
    for part in parts {
        told.extend(match part.as_str() {
            "write" => write(&mut client, &dir, mib),
            "read" => read(&mut client, &dir, mib),
            "random" => random(&mut client, &dir, mib),
            "remove" => remove(&mut client, &dir),
            "names" => names(&mut client, &dir, files),
            other => panic!("there is no part {other}; there are {}", PARTS.join(", ")),
        });
    }
    let rows = told.iter().map(|(what, value)| format!("  \"{what}\": {value:.0}"));
    println!("{{\n{}\n}}", rows.collect::<Vec<_>>().join(",\n"));
}
