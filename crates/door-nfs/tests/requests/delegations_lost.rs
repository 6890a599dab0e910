//! Read delegations that are not given back, that outlive the server, and that others of the machine want back.

use std::time::{Duration, Instant};

use weir_engine::{OpenFlags, SetAttr};
use weir_types::{Ino, Result};

use crate::common::client::Client;
use crate::common::codes::{BAD_STATEID, DELAY, DELEG_REVOKED, OK, Stat, op, share, status};
use crate::common::ops::{self, Claim, Handle, Open, StateId, close, delegreturn};
use crate::common::ops_session::{free_stateid, reclaim_complete, test_stateid};
use crate::common::xdr::Writer;
use crate::common::{Served, assert_any};

const LEASE_MS: u64 = 1_500;

fn short() -> Served {
    Served::with(|options| options.lease_ms = LEASE_MS)
}

fn delegated(served: &Served) -> (Client, Handle, StateId) {
    let mut client = Client::reached(served.address(), "holder");
    let root = client.root();
    client.file(&root, "file", b"bytes");
    // The server calls back once before it gives one, and a busy machine may be late with that.
    for _ in 0..200 {
        let (file, opened) = client.open(&root, &Open::read("file")).expect("opens");
        assert_eq!(client.stat(&file, close(opened.id)), OK);
        if let Some(delegation) = opened.delegation {
            return (client, file, delegation);
        }
        served.wait(20);
    }
    panic!("no delegation is given");
}

/// Opens the file to write, as soon as it can be, while the holder says only that it is there.
fn open_to_write(served: &Served, other: &mut Client, holder: Option<&mut Client>) -> Duration {
    let (root, began) = (other.root(), Instant::now());
    let mut holder = holder;
    while began.elapsed() < Duration::from_secs(20) {
        match other.open(&root, &Open::both("file")) {
            Err(DELAY) => served.wait(100),
            done => {
                done.expect("opens");
                return began.elapsed();
            }
        }
        if let Some(holder) = &mut holder {
            holder.call_with_flags().expect("it is there");
        }
    }
    panic!("nobody took it away");
}

#[test]
fn a_client_that_does_not_give_it_back_loses_it_after_a_lease() {
    let served = short();
    let (mut holder, file, id) = delegated(&served);
    let mut other = served.client("other");
    let took = open_to_write(&served, &mut other, Some(&mut holder));
    assert!(took >= Duration::from_millis(LEASE_MS), "not before: {took:?}");
    let flags = holder.call_with_flags().expect("goes on");
    assert_ne!(flags & status::RECALLABLE_REVOKED, 0, "{flags:#x}");
    assert_eq!(holder.read(&file, id, 0, 9).unwrap_err(), DELEG_REVOKED);
    assert_eq!(holder.call(&[test_stateid(&[id])]).ok().last().tested(), [DELEG_REVOKED]);
    let claim = Claim::Raw(5, Writer::new().stateid(id));
    let claimed = holder.open(&file, &Open::read("").claim(claim)).unwrap_err();
    assert_any(claimed, &[DELEG_REVOKED, BAD_STATEID]);
    assert_any(holder.stat(&file, delegreturn(id)), &[DELEG_REVOKED]);
    assert_eq!(holder.call(&[free_stateid(id)]).stat, OK);
    assert_eq!(holder.call(&[free_stateid(id)]).stat, BAD_STATEID);
    let flags = holder.call_with_flags().expect("goes on");
    assert_eq!(flags & status::RECALLABLE_REVOKED, 0, "it knows: {flags:#x}");
    assert_eq!(served.server().counts().delegations_revoked, 1);
}

#[test]
fn a_client_that_is_gone_is_not_waited_for_longer_than_its_lease() {
    let served = short();
    let (holder, _, _) = delegated(&served);
    drop(holder);
    served.wait(LEASE_MS + 500);
    let mut other = served.client("other");
    let took = open_to_write(&served, &mut other, None);
    assert!(took < Duration::from_millis(LEASE_MS), "its lease was over: {took:?}");
    assert!(served.server().clients().iter().all(|client| client.delegations == 0));
}

#[test]
fn it_is_claimed_after_a_restart() {
    let mut served = short();
    let (holder, file, old) = delegated(&served);
    served.restart();
    drop(holder);
    let mut holder = Client::reached_before_reclaim(served.address(), "holder");
    let previous = |kind: u32| Open::read("").claim(Claim::Raw(1, Writer::new().u32(kind)));
    let (_, opened) = holder.open(&file, &previous(1)).expect("claims");
    let id = opened.delegation.expect("its delegation");
    assert_ne!(id.other, old.other);
    assert_eq!(holder.read(&file, old, 0, 9).unwrap_err(), BAD_STATEID, "of before");
    holder.call(&[reclaim_complete(false)]).ok();
    assert_eq!(holder.stat(&file, close(opened.id)), OK);
    assert_eq!(holder.read(&file, id, 0, 9).expect("reads").0, b"bytes");
    // It is one as any other.
    let mut other = served.client("other");
    let root = other.root();
    let refused = loop {
        match other.open(&root, &Open::both("file")) {
            Err(crate::common::codes::GRACE) => served.wait(100),
            done => break done.unwrap_err(),
        }
    };
    assert_eq!(refused, DELAY);
    assert_eq!(holder.give_back().id, id);
    open_to_write(&served, &mut other, None);
}

#[test]
fn who_had_none_claims_none() {
    let mut served = short();
    let (holder, file, _) = delegated(&served);
    served.restart();
    drop(holder);
    let mut holder = Client::reached_before_reclaim(served.address(), "holder");
    let open = Open::read("").claim(Claim::Previous);
    let (_, opened) = holder.open(&file, &open).expect("claims");
    assert_eq!(opened.delegation, None);
    let write = Open::new(share::BOTH, "").claim(Claim::Previous).owner(b"writer");
    holder.open(&file, &write).expect("claims what it wrote");
}

/// A change by the engine, as another door makes it.
fn change_here(
    served: &Served,
    change: impl AsyncFnOnce(&weir_engine::Engine, Ino) -> Result<()> + Send + 'static,
) -> std::thread::JoinHandle<()>
where
{
    let engine = served.world.engine();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let file = engine.lookup(Ino::ROOT, b"file").await.expect("is there");
            change(&engine, file.ino).await.expect("changes");
        });
    })
}

#[test]
fn local_programs_wait_until_it_is_back() {
    let served = Served::new();
    let (mut holder, _, id) = delegated(&served);
    let changing = change_here(&served, async |engine, ino| {
        let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
        engine.setattr(ino, set).await.map(drop)
    });
    let recall = holder.recalled();
    assert_eq!(recall.id, id);
    holder.answer(&recall, OK);
    served.wait(300);
    assert!(!changing.is_finished(), "it is not back");
    assert_eq!(holder.attrs(&recall.file, &[crate::common::codes::attr::MODE]).mode(), 0o644);
    assert_eq!(holder.stat(&recall.file, delegreturn(id)), OK);
    changing.join().expect("goes on");
}

#[test]
fn local_programs_wait_a_lease_at_most() {
    let served = short();
    let (mut holder, file, id) = delegated(&served);
    let began = Instant::now();
    let changing = change_here(&served, async |engine, ino| {
        let flags = OpenFlags { write: true, ..OpenFlags::default() };
        let open = engine.open(ino, flags).await?;
        engine.write(&open, 0, b"B").await?;
        engine.close(open).await
    });
    while !changing.is_finished() && began.elapsed() < Duration::from_secs(20) {
        holder.call_with_flags().expect("it is there");
        served.wait(100);
    }
    changing.join().expect("goes on");
    assert!(began.elapsed() >= Duration::from_millis(LEASE_MS));
    assert_eq!(holder.read(&file, id, 0, 9).unwrap_err(), DELEG_REVOKED);
    assert_eq!(holder.content(&file), b"Bytes");
}

#[test]
fn a_client_has_so_many_and_no_more() {
    const MANY: usize = 20;
    let served = Served::with(|options| options.delegations_max = MANY);
    let mut client = Client::reached(served.address(), "greedy");
    let root = client.root();
    let names: Vec<_> = (0..MANY + 2).map(|at| format!("file {at}")).collect();
    for name in &names {
        client.file(&root, name, b"");
    }
    let mut given = 0;
    for name in &names {
        let (file, opened) = client.open(&root, &Open::read(name)).expect("opens");
        given += usize::from(opened.delegation.is_some());
        assert_eq!(client.stat(&file, close(opened.id)), OK);
    }
    assert_eq!(given, MANY);
    let mut other = Client::reached(served.address(), "modest");
    let (_, opened) = other.open(&root, &Open::read("file 0")).expect("opens");
    assert!(opened.delegation.is_some(), "another has room");
}

#[test]
fn bytes_that_are_no_answer_do_no_harm() {
    let served = short();
    let (mut holder, _, _) = delegated(&served);
    let mut other = served.client("other");
    let root = other.root();
    assert_eq!(other.open(&root, &Open::both("file")).unwrap_err(), DELAY);
    // Answers that nobody waits for, and one that is none.
    for xid in [0u32, 77, u32::MAX] {
        assert!(holder.connection.send_record(&Writer::new().u32(xid).u32(1).u32(0).0));
    }
    let recall = holder.recalled();
    assert_eq!(recall.sequence, 1);
    holder.call(&[ops::raw(op::PUTROOTFH, Writer::new())]).ok();
    holder.give_back_late(&recall);
    open_to_write(&served, &mut other, None);
}

impl Client {
    fn give_back_late(&mut self, recall: &crate::common::callbacks::Recall) {
        let done: Stat = self.stat(&recall.file, delegreturn(recall.id));
        assert_eq!(done, OK, "also where the recall was not answered");
    }
}
