//! File handles: they last, lead to one file, and cannot be made up.

use crate::common::client::Client;
use crate::common::codes::{BADHANDLE, BADXDR, OK, STALE, Stat, access, attr};
use crate::common::ops::{self, Open, StateId, close, getattr, getfh, link, putfh, remove};
use crate::common::{Served, assert_any};

/// What PUTFH with GETATTR says of a handle.
fn stat(client: &mut Client, handle: &[u8]) -> Stat {
    client.stat(handle, getattr(&[attr::FILEID]))
}

/// Waits until a handle is stale: what was open in the server is closed a little later.
fn until_stale(served: &Served, client: &mut Client, handle: &[u8]) {
    for _ in 0..50 {
        if stat(client, handle) == STALE {
            return;
        }
        served.wait(100);
    }
    panic!("it is not stale");
}

const WRONG: &[Stat] = &[BADHANDLE, STALE];

#[test]
fn a_handle_lasts_and_is_the_same_by_all_names() {
    let mut served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let dir = client.mkdir(&root, "dir", 0o755);
    let file = client.file(&dir, "file", b"bytes");
    assert_eq!(client.between(&file, &root, link("other")).stat, OK);
    assert_eq!(client.lookup(&root, "other").expect("looks up"), file);
    assert_eq!(client.lookup(&dir, "file").expect("looks up"), file);
    assert_eq!(client.between(&dir, &root, ops::rename("file", "third")).stat, OK);
    assert_eq!(client.content(&file), b"bytes");
    let before = client.attrs(&file, &[attr::FILEID, attr::FSID]);
    served.restart();
    let mut client = served.client("a");
    assert_eq!(client.attrs(&file, &[attr::FILEID, attr::FSID]), before);
    served.stop();
    served.world.unmount().expect("unmounts");
    served.world.mount().expect("mounts");
    served.start();
    let mut client = served.client("a");
    assert_eq!(client.root(), root);
    assert_eq!(client.attrs(&file, &[attr::FILEID, attr::FSID]), before);
    assert_eq!(client.content(&file), b"bytes");
}

#[test]
fn junk_is_no_handle() {
    let served = Served::new();
    let mut client = served.client("a");
    for len in [0, 1, 3, 4, 8, 16, 20, 24, 28, 32, 40, 64, 127, 128] {
        for byte in [0, 1, 0xff] {
            let junk = vec![byte; len];
            assert_any(client.call(&[putfh(&junk), getfh()]).stat, WRONG);
        }
    }
    assert_any(client.call(&[putfh(&[0; 129]), getfh()]).stat, &[BADXDR, BADHANDLE]);
}

#[test]
fn no_bit_of_a_handle_may_differ() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    client.mkdir(&root, "other", 0o755);
    let file = client.file(&root, "file", b"secret");
    for handle in [root, file] {
        for bit in 0..handle.len() * 8 {
            let mut forged = handle.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            let stat = client.call(&[putfh(&forged), getattr(&[attr::FILEID])]).stat;
            assert!(WRONG.contains(&stat), "bit {bit}: {stat:?}");
        }
        for len in 0..handle.len() {
            assert_any(stat(&mut client, &handle[..len]), WRONG);
        }
        let longer = [&handle[..], &[0; 4]].concat();
        assert_any(stat(&mut client, &longer), WRONG);
    }
}

#[test]
fn parts_of_two_handles_are_none() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let one = client.file(&root, "one", b"1");
    let two = client.file(&root, "two", b"2");
    let dir = client.mkdir(&root, "dir", 0o755);
    for (left, right) in [(&one, &two), (&two, &one), (&one, &dir), (&root, &one)] {
        assert_eq!(left.len(), right.len());
        for at in 1..left.len() {
            let forged = [&left[..at], &right[at..]].concat();
            if forged != *left && forged != *right {
                assert_any(stat(&mut client, &forged), WRONG);
            }
        }
    }
}

#[test]
fn a_handle_of_another_volume_is_none() {
    let (served, other) = (Served::new(), Served::new());
    let mut client = served.client("a");
    let mut foreign = other.client("a");
    let root = foreign.root();
    let file = foreign.file(&root, "file", b"theirs");
    let own = client.root();
    client.file(&own, "file", b"ours");
    assert_any(stat(&mut client, &file), WRONG);
    assert_any(stat(&mut client, &root), WRONG);
}

#[test]
fn the_handle_of_a_file_that_is_gone_is_stale_for_ever() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let file = client.file(&root, "file", b"1");
    let dir = client.mkdir(&root, "dir", 0o755);
    for name in ["file", "dir"] {
        assert_eq!(client.stat(&root, remove(name)), OK);
    }
    for handle in [&file, &dir] {
        until_stale(&served, &mut client, handle);
        assert_eq!(client.stat(handle, ops::access(access::READ)), STALE);
    }
    let again = client.file(&root, "file", b"2");
    assert_ne!(again, file);
    assert_eq!(stat(&mut client, &file), STALE, "the name is another file's now");
}

#[test]
fn a_file_that_is_open_stays_after_its_name() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    client.file(&root, "file", b"bytes");
    let (file, opened) = client.open(&root, &Open::both("file")).expect("opens");
    assert_eq!(client.stat(&root, remove("file")), OK);
    let preserved = opened.flags & 8 != 0;
    let read = client.read(&file, opened.id, 0, 100);
    if preserved {
        assert_eq!(read.expect("reads"), (b"bytes".to_vec(), true));
        assert_eq!(client.attrs(&file, &[attr::NUMLINKS]).number(attr::NUMLINKS), 0);
        client.write(&file, opened.id, 5, 0, b" more").expect("writes");
        assert_eq!(client.content(&file), b"bytes more");
    } else {
        assert_any(read.err().unwrap_or(OK), &[OK, STALE]);
    }
    assert_any(client.stat(&file, close(opened.id)), &[OK, STALE]);
    until_stale(&served, &mut client, &file);
    assert_eq!(client.read(&file, StateId::ANONYMOUS, 0, 1).unwrap_err(), STALE);
}
