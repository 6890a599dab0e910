//! Read delegations: who gets one, what it is good for, and who has it given back (10.4, 18.6, 18.16, 20.2).

use crate::common::Served;
use crate::common::attrs::Set;
use crate::common::client::Client;
use crate::common::codes::{
    BAD_STATEID, CLIENTID_BUSY, DELAY, NOTSUPP, OK, OPENMODE, Stat, share, stable, status,
};
use crate::common::ops::{
    Claim, Handle, Open, StateId, close, delegreturn, link, remove, rename, setattr,
};
use crate::common::ops_session::{
    SetHow, backchannel_ctl, bind_conn_to_session, destroy_clientid, destroy_session, free_stateid,
    removexattr, setxattr, test_stateid,
};
use crate::common::xdr::Writer;

fn reached(served: &Served, name: &str) -> Client {
    Client::reached(served.address(), name)
}

/// Opens a file for reading; its delegation, if there is one.
fn read_open(client: &mut Client, name: &str) -> (Handle, StateId, Option<StateId>) {
    let root = client.root();
    let (file, opened) = client.open(&root, &Open::read(name)).expect("opens");
    (file, opened.id, opened.delegation)
}

/// A client with a delegation of a new file.
fn delegated(served: &Served, name: &str) -> (Client, Handle, StateId) {
    let mut client = reached(served, &format!("of {name}"));
    let root = client.root();
    client.file(&root, name, b"bytes");
    // The server calls back once before it gives one, and a busy machine may be late with that.
    for _ in 0..200 {
        let (file, id, delegation) = read_open(&mut client, name);
        assert_eq!(client.stat(&file, close(id)), OK);
        if let Some(delegation) = delegation {
            return (client, file, delegation);
        }
        served.wait(20);
    }
    panic!("no delegation is given");
}

/// Does it again while the server says that it has to wait, some seconds at most.
fn patiently<T>(served: &Served, mut one: impl FnMut() -> Result<T, Stat>) -> Result<T, Stat> {
    for _ in 0..100 {
        match one() {
            Err(DELAY) => served.wait(50),
            done => return done,
        }
    }
    Err(DELAY)
}

#[test]
fn a_reader_gets_one_if_it_can_be_asked_for_it_back() {
    let served = Served::new();
    let (mut client, file, id) = delegated(&served, "file");
    assert_eq!(client.read(&file, id, 0, 9).expect("reads by it").0, b"bytes");
    assert_eq!(client.write(&file, id, 0, stable::UNSTABLE, b"x").unwrap_err(), OPENMODE);
    assert_eq!(client.call(&[test_stateid(&[id])]).ok().last().tested(), [OK]);
    // Not twice; another client too; nobody who cannot be reached.
    assert_eq!(read_open(&mut client, "file").2, None);
    let mut other = reached(&served, "other");
    assert!(read_open(&mut other, "file").2.is_some());
    assert_eq!(read_open(&mut served.client("unreached"), "file").2, None);
    // Others read beside it.
    assert_eq!(other.content(&file), b"bytes");
    assert_eq!(client.stat(&file, delegreturn(id)), OK);
    assert_eq!(client.stat(&file, delegreturn(id)), BAD_STATEID);
    assert_eq!(client.read(&file, id, 0, 9).unwrap_err(), BAD_STATEID);
    let counts = served.server().counts();
    assert_eq!((counts.delegations_given, counts.delegations_recalled), (2, 0));
}

#[test]
fn wishes_are_heard() {
    let served = Served::new();
    let mut client = reached(&served, "a");
    let root = client.root();
    let wishes = [(share::WANT_NO_DELEG, false), (0x500, false), (0x200, false), (0x100, true)];
    for (at, (wish, given)) in wishes.into_iter().enumerate() {
        let name = format!("file {at}");
        client.file(&root, &name, b"");
        let open = Open::new(share::READ | wish, &name);
        let (_, opened) = client.open(&root, &open).expect("opens");
        assert_eq!(opened.delegation.is_some(), given, "{wish:#x}");
    }
    for access in [share::BOTH, share::WRITE] {
        client.file(&root, "written", b"");
        let (_, opened) = client.open(&root, &Open::new(access | 0x100, "written")).expect("opens");
        assert_eq!(opened.delegation, None, "there are none for writing");
    }
}

#[test]
fn nobody_gets_one_of_a_file_that_is_open_for_writing() {
    let served = Served::new();
    let mut writer = served.client("writer");
    let root = writer.root();
    let (file, open) = writer.make(&root, "file");
    let mut reader = reached(&served, "reader");
    assert_eq!(read_open(&mut reader, "file").2, None);
    assert_eq!(writer.stat(&file, close(open)), OK);
    served.wait(200);
    assert!(read_open(&mut reader, "file").2.is_some(), "it is closed");
}

/// Everything that changes a file, a name of it, or its attributes.
#[test]
fn whoever_changes_a_file_has_it_given_back_first() {
    let served = Served::new();
    let mut holder = reached(&served, "holder");
    let mut other = served.client("other").minor2();
    let root = holder.root();
    type Change = fn(&mut Client, &[u8], &[u8], &str) -> Stat;
    let changes: [(&str, Change); 10] = [
        ("open to write", |c, root, _, name| {
            c.open(root, &Open::both(name)).map_or_else(|stat| stat, |_| OK)
        }),
        ("open that denies reading", |c, root, _, name| {
            let open = Open::read(name).deny(share::READ);
            c.open(root, &open).map_or_else(|stat| stat, |_| OK)
        }),
        ("open that cuts", |c, root, _, name| {
            c.open(root, &Client::truncating(name)).map_or_else(|stat| stat, |_| OK)
        }),
        ("write without an open", |c, _, file, _| {
            let written = c.write(file, StateId::ANONYMOUS, 0, stable::UNSTABLE, b"x");
            written.map_or_else(|stat| stat, |_| OK)
        }),
        ("chmod", |c, _, file, _| c.set(file, &Set::new().mode(0o600))),
        ("truncate", |c, _, file, _| {
            c.stat(file, setattr(StateId::ANONYMOUS, &Set::new().size(1)))
        }),
        ("setxattr", |c, _, file, _| c.stat(file, setxattr(SetHow::Either, "k", b"v"))),
        ("link", |c, root, file, name| c.between(file, root, link(&format!("{name} 2"))).stat),
        ("rename", |c, root, _, name| {
            c.between(root, root, rename(name, &format!("{name} 3"))).stat
        }),
        ("remove", |c, root, _, name| c.stat(root, remove(name))),
    ];
    for (name, change) in changes {
        holder.file(&root, name, b"bytes");
        let (file, open, id) = read_open(&mut holder, name);
        let id = id.unwrap_or_else(|| panic!("{name}: no delegation"));
        assert_eq!(holder.stat(&file, close(open)), OK);
        assert_eq!(change(&mut other, &root, &file, name), DELAY, "{name}");
        let recall = holder.give_back();
        assert_eq!((recall.id, &recall.file), (id, &file), "{name}");
        assert_eq!((recall.session, recall.minor), (holder.session.id, 1), "{name}");
        let done = patiently(&served, || match change(&mut other, &root, &file, name) {
            OK => Ok(()),
            stat => Err(stat),
        });
        assert_eq!(done, Ok(()), "{name}");
    }
    assert!(!holder.connection.was_asked(), "each is recalled once");
    let counts = served.server().counts();
    assert_eq!((counts.delegations_recalled, counts.delegations_revoked), (10, 0));
}

#[test]
fn what_is_replaced_is_given_back_and_attributes_that_go() {
    let served = Served::new();
    let (mut holder, file, _) = delegated(&served, "old");
    let mut other = served.client("other").minor2();
    let root = holder.root();
    other.file(&root, "new", b"new");
    let put = |other: &mut Client| match other.between(&root, &root, rename("new", "old")).stat {
        OK => Ok(()),
        stat => Err(stat),
    };
    assert_eq!(put(&mut other), Err(DELAY));
    assert_eq!(holder.give_back().file, file);
    assert_eq!(patiently(&served, || put(&mut other)), Ok(()));
    let (mut holder, file, _) = delegated(&served, "third");
    assert_eq!(holder.minor, 1);
    assert_eq!(other.stat(&file, removexattr("k")), DELAY);
    holder.give_back();
}

#[test]
fn a_file_that_was_recalled_is_not_given_again_at_once() {
    let served = Served::new();
    let (mut holder, _, _) = delegated(&served, "file");
    let mut other = served.client("other");
    let root = holder.root();
    assert_eq!(other.open(&root, &Open::both("file")).unwrap_err(), DELAY);
    holder.give_back();
    let opened = patiently(&served, || other.open(&root, &Open::both("file")));
    let (file, opened) = opened.expect("opens");
    assert_eq!(other.stat(&file, close(opened.id)), OK);
    served.wait(200);
    assert_eq!(read_open(&mut holder, "file").2, None);
}

#[test]
fn its_own_client_gives_it_back_to_write_too() {
    let served = Served::new();
    let (mut holder, file, id) = delegated(&served, "file");
    let root = holder.root();
    assert_eq!(holder.open(&root, &Open::both("file")).unwrap_err(), DELAY);
    assert_eq!(holder.give_back().id, id);
    let opened = patiently(&served, || holder.open(&root, &Open::both("file")));
    let (_, opened) = opened.expect("opens");
    holder.write(&file, opened.id, 0, stable::UNSTABLE, b"x").expect("writes");
}

#[test]
fn what_was_opened_by_a_delegation_is_claimed_while_it_is_recalled() {
    let served = Served::new();
    let (mut holder, file, id) = delegated(&served, "file");
    let root = holder.root();
    let mut other = served.client("other");
    assert_eq!(other.open(&root, &Open::both("file")).unwrap_err(), DELAY);
    let recall = holder.recalled();
    holder.answer(&recall, OK);
    let by_handle = Open::read("").claim(Claim::Raw(5, Writer::new().stateid(id)));
    let (_, one) = holder.open(&file, &by_handle).expect("CLAIM_DELEG_CUR_FH");
    let by_name = Claim::Raw(2, Writer::new().stateid(id).opaque(b"file"));
    let by_name = Open::read("").claim(by_name).owner(b"two");
    let (_, two) = holder.open(&root, &by_name).expect("CLAIM_DELEGATE_CUR");
    assert_eq!((one.delegation, two.delegation), (None, None));
    let another = holder.file(&root, "another", b"");
    let wrong = holder.open(&another, &by_handle).unwrap_err();
    assert_eq!(wrong, BAD_STATEID, "it is of another file");
    for (kind, name) in [(3, Writer::new().opaque(b"file")), (6, Writer::new())] {
        let claim = Open::read("").claim(Claim::Raw(kind, name));
        assert_eq!(holder.open(&root, &claim).unwrap_err(), NOTSUPP);
    }
    assert_eq!(holder.stat(&file, delegreturn(id)), OK);
    assert_eq!(holder.read(&file, one.id, 0, 9).expect("it is open").0, b"bytes");
    patiently(&served, || other.open(&root, &Open::both("file"))).expect("opens");
}

#[test]
fn a_client_that_is_reached_by_another_connection_is_asked_there() {
    let served = Served::new();
    let (mut holder, _, _) = delegated(&served, "file");
    let mut other = served.client("other");
    let root = holder.root();
    // The connection goes, as networks do; the client hears that nobody can ask it.
    holder.connection = holder.connect();
    served.wait(200);
    let flags = holder.call_with_flags().expect("goes on");
    let down = status::CB_PATH_DOWN | status::CB_PATH_DOWN_SESSION;
    assert_eq!(flags & down, down, "{flags:#x}");
    assert_eq!(other.open(&root, &Open::both("file")).unwrap_err(), DELAY);
    let session = holder.session.id;
    let bound = holder.bare(&[bind_conn_to_session(&session, 3)]).ok();
    assert_eq!(bound.last().body, crate::common::replies::Body::Bound(session, 3));
    assert_eq!(holder.call_with_flags().expect("goes on") & down, 0);
    assert_eq!(holder.give_back().session, session);
    patiently(&served, || other.open(&root, &Open::both("file"))).expect("opens");
}

#[test]
fn a_recall_that_is_refused_is_made_again() {
    let served = Served::new();
    let (mut holder, _, id) = delegated(&served, "file");
    let mut other = served.client("other");
    let root = holder.root();
    holder.call(&[backchannel_ctl(0x4000_0001)]).ok();
    assert_eq!(other.open(&root, &Open::both("file")).unwrap_err(), DELAY);
    let first = holder.recalled();
    assert_eq!((first.program, first.id), (0x4000_0001, id));
    // The answer to its OPEN may be on its way still.
    holder.answer(&first, BAD_STATEID);
    let second = holder.give_back();
    assert_eq!((second.id, second.sequence), (id, first.sequence + 1));
    patiently(&served, || other.open(&root, &Open::both("file"))).expect("opens");
}

#[test]
fn a_client_does_not_go_while_it_has_one() {
    let served = Served::new();
    let (mut holder, file, id) = delegated(&served, "file");
    assert_eq!(served.server().clients()[0].delegations, 1);
    let (client, session) = (holder.id, holder.session.id);
    assert_eq!(holder.call(&[free_stateid(id)]).stat, crate::common::codes::LOCKS_HELD);
    assert_eq!(holder.stat(&file, delegreturn(id)), OK);
    holder.call(&[destroy_session(&session)]).ok();
    holder.bare(&[destroy_clientid(client)]).ok();
    let (mut holder, _, _) = delegated(&served, "file 2");
    let (client, session) = (holder.id, holder.session.id);
    holder.call(&[destroy_session(&session)]).ok();
    assert_eq!(holder.bare(&[destroy_clientid(client)]).stat, CLIENTID_BUSY);
}
