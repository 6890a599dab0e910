//! READDIR.

use std::collections::HashSet;

use crate::common::Served;
use crate::common::assert_any;
use crate::common::client::{Client, compound};
use crate::common::codes::{BAD_COOKIE, INVAL, NOT_SAME, NOTDIR, OK, Stat, TOOSMALL, attr};
use crate::common::ops::{Page, mkdir, putfh, readdir, remove};
use crate::common::replies::Listing;
use crate::common::rpc::Head;

const FIRST: Page = Page { cookie: 0, verifier: [0; 8], dircount: 32_768, maxcount: 32_768 };

/// Makes so many directories, many requests in flight.
fn fill(client: &mut Client, dir: &[u8], count: usize) {
    let slots = client.session.fore.requests.min(32) as usize;
    let names: Vec<String> = (0..count).map(|at| format!("entry-{at:05}")).collect();
    for batch in names.chunks(slots) {
        let calls: Vec<u32> = (0u32..)
            .zip(batch)
            .map(|(slot, name)| client.start(slot, &[putfh(dir), mkdir(name, 0o755)]))
            .collect();
        for xid in calls {
            client.finish(xid).ok();
        }
    }
}

fn page(client: &mut Client, dir: &[u8], page: Page, attributes: &[u32]) -> Result<Listing, Stat> {
    let res = client.at(dir, readdir(page, attributes));
    if res.stat == OK { Ok(res.listing()) } else { Err(res.stat) }
}

#[test]
fn an_empty_directory_has_no_entries() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let listing = page(&mut client, &root, FIRST, &[]).expect("lists");
    assert_eq!((listing.entries.len(), listing.eof), (0, true), "not `.` and `..` either");
}

#[test]
fn five_thousand_entries_come_once_each_in_pieces_of_any_size() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let dir = client.mkdir(&root, "dir", 0o755);
    fill(&mut client, &dir, 5_000);
    for (maxcount, attributes) in [
        (1 << 20, &[][..]),
        (32_768, &[attr::FILEID, attr::TYPE, attr::MODE, attr::SIZE, attr::FILEHANDLE]),
        (700, &[attr::RDATTR_ERROR]),
    ] {
        let entries = client.list(&dir, maxcount, attributes);
        let names: HashSet<_> = entries.iter().map(|entry| entry.name.clone()).collect();
        assert_eq!((entries.len(), names.len()), (5_000, 5_000), "{maxcount}");
        let cookies: HashSet<u64> = entries.iter().map(|entry| entry.cookie).collect();
        assert_eq!(cookies.len(), 5_000);
        assert!(cookies.iter().all(|cookie| *cookie > 2), "0, 1 and 2 mean something else");
        assert!(entries.iter().all(|entry| entry.attrs.numbers().len() == attributes.len()));
    }
}

#[test]
fn entries_tell_what_getattr_tells() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    client.file(&root, "file", b"bytes");
    client.mkdir(&root, "dir", 0o750);
    let asked = [
        attr::TYPE,
        attr::CHANGE,
        attr::SIZE,
        attr::FSID,
        attr::FILEHANDLE,
        attr::FILEID,
        attr::MODE,
        attr::NUMLINKS,
        attr::OWNER,
        attr::OWNER_GROUP,
        attr::SPACE_USED,
        attr::TIME_METADATA,
        attr::TIME_MODIFY,
        attr::MOUNTED_ON_FILEID,
    ];
    let entries = client.list(&root, 32_768, &asked);
    assert_eq!(entries.len(), 2);
    for entry in entries {
        let handle = entry.attrs.bytes(attr::FILEHANDLE).to_vec();
        let name = String::from_utf8(entry.name).expect("UTF-8");
        assert_eq!(client.lookup(&root, &name).expect("is there"), handle);
        assert_eq!(client.attrs(&handle, &asked), entry.attrs, "{name}");
    }
}

#[test]
fn a_piece_is_as_small_as_was_asked_for() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    fill(&mut client, &root, 100);
    for maxcount in [200u32, 500, 1_000, 4_096] {
        let from = Page { maxcount, dircount: 0, ..FIRST };
        let sequence = client.sequence(0);
        let op = readdir(from, &[attr::FILEID]);
        let arguments = compound(1, &[sequence.op(), putfh(&root), op]);
        let said = client.connection.call(&Head::compound(&client.cred), &arguments);
        let crate::common::rpc::Answer::Done(bytes) = said.answer else { panic!("{said:?}") };
        // Before it: status, tag, number of results, SEQUENCE, PUTFH, and the operation with its status.
        let before = 4 + 8 + 4 + (8 + 36) + 8 + 8;
        assert!(bytes.len() - before <= maxcount as usize, "{maxcount}: {}", bytes.len() - before);
        let listing = crate::common::replies::Reply::read(&bytes).ok().last().listing();
        assert!(!listing.entries.is_empty() && !listing.eof, "{maxcount}");
    }
    for maxcount in [0, 1, 16, 20] {
        let from = Page { maxcount, ..FIRST };
        assert_eq!(page(&mut client, &root, from, &[]).unwrap_err(), TOOSMALL, "{maxcount}");
    }
    // A directory count is a hint; 0 is none.
    for dircount in [0, 1, 100] {
        let from = Page { dircount, ..FIRST };
        assert!(!page(&mut client, &root, from, &[]).expect("lists").entries.is_empty());
    }
}

#[test]
fn a_cookie_is_taken_with_its_verifier_only() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    fill(&mut client, &root, 50);
    let listing = page(&mut client, &root, Page { maxcount: 600, ..FIRST }, &[]).expect("lists");
    let cookie = listing.entries.last().expect("some").cookie;
    let next = Page { cookie, verifier: listing.verifier, ..FIRST };
    assert!(page(&mut client, &root, next, &[]).is_ok());
    let mut verifier = listing.verifier;
    verifier[7] ^= 1;
    let wrong = Page { verifier, ..next };
    assert_any(page(&mut client, &root, wrong, &[]).unwrap_err(), &[NOT_SAME, BAD_COOKIE]);
    for cookie in [1, 2] {
        let reserved = Page { cookie, ..next };
        let res = page(&mut client, &root, reserved, &[]);
        assert_any(res.err().unwrap_or(OK), &[BAD_COOKIE, OK]);
    }
}

#[test]
fn what_stays_comes_once_while_the_rest_comes_and_goes() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    fill(&mut client, &root, 300);
    let mut from = Page { maxcount: 1_500, ..FIRST };
    let (mut seen, mut round) = (Vec::new(), 0);
    loop {
        let listing = page(&mut client, &root, from, &[]).expect("lists");
        seen.extend(listing.entries.iter().map(|entry| entry.name.clone()));
        if listing.eof {
            break;
        }
        let last = listing.entries.last().expect("some");
        from = Page { cookie: last.cookie, verifier: listing.verifier, ..from };
        // Of the first ten names one a round goes, also the one that the cookie is of.
        if round < 10 {
            assert_eq!(client.stat(&root, remove(&format!("entry-{round:05}"))), OK);
        } else if last.name > b"entry-00200".to_vec() {
            let name = String::from_utf8(last.name.clone()).expect("UTF-8");
            assert_eq!(client.stat(&root, remove(&name)), OK);
        }
        client.mkdir(&root, &format!("new-{round}"), 0o755);
        round += 1;
        assert!(round < 1_000, "no end");
    }
    let unique: HashSet<_> = seen.iter().collect();
    assert_eq!(unique.len(), seen.len(), "a name came twice");
    for at in 10..200 {
        assert!(unique.contains(&format!("entry-{at:05}").into_bytes()), "{at} did not come");
    }
}

#[test]
fn only_directories_are_listed() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let file = client.file(&root, "file", b"");
    assert_eq!(page(&mut client, &file, FIRST, &[]).unwrap_err(), NOTDIR);
    let write_only = page(&mut client, &root, FIRST, &[attr::TIME_MODIFY_SET]);
    assert_any(write_only.err().unwrap_or(OK), &[INVAL]);
}
