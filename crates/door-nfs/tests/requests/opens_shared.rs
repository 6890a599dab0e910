//! Share reservations: what an open denies to others.

use crate::common::Served;
use crate::common::assert_any;
use crate::common::codes::{FILE_OPEN, LOCKED, OK, SHARE_DENIED, share, stable};
use crate::common::ops::{self, Open, StateId, close, open_downgrade, remove, rename};

#[test]
fn an_open_is_refused_what_another_denies_and_denies_nothing_that_another_has() {
    let served = Served::new();
    let mut first = served.client("a");
    let mut second = served.client("b");
    let root = first.root();
    let file = first.file(&root, "file", b"bytes");
    for held in [share::READ, share::WRITE, share::BOTH] {
        for denied in 0..=3 {
            let (_, opened) =
                first.open(&root, &Open::new(held, "file").deny(denied)).expect("opens");
            for wanted in [share::READ, share::WRITE, share::BOTH] {
                for deny in 0..=3 {
                    let open = Open::new(wanted, "file").deny(deny);
                    let conflict = wanted & denied != 0 || held & deny != 0;
                    let context = format!("{held} denies {denied}, {wanted} denies {deny}");
                    match second.open(&root, &open) {
                        Ok((_, opened)) => {
                            assert!(!conflict, "{context}");
                            assert_eq!(second.stat(&file, close(opened.id)), OK);
                        }
                        Err(stat) => {
                            assert_eq!((stat, conflict), (SHARE_DENIED, true), "{context}");
                        }
                    }
                }
            }
            assert_eq!(first.stat(&file, close(opened.id)), OK);
        }
    }
}

#[test]
fn owners_of_one_client_are_apart_and_one_owner_is_not_in_its_own_way() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let file = client.file(&root, "file", b"");
    let deny = Open::both("file").deny(share::BOTH);
    let id = client.open_as(&root, "one", deny.clone()).expect("opens");
    let refused = client.open_as(&root, "two", Open::read("file"));
    assert_eq!(refused.unwrap_err(), SHARE_DENIED);
    let again = client.open_as(&root, "one", deny).expect("opens again");
    assert_eq!(again, id.with(2));
    let by_handle = client.open_as(&file, "two", Open::handle(share::READ));
    assert_eq!(by_handle.unwrap_err(), SHARE_DENIED);
}

#[test]
fn less_is_denied_after_a_downgrade() {
    let served = Served::new();
    let mut first = served.client("a");
    let mut second = served.client("b");
    let root = first.root();
    let file = first.file(&root, "file", b"");
    first.open(&root, &Open::read("file")).expect("opens");
    let deny = Open::both("file").deny(share::WRITE);
    let (_, opened) = first.open(&root, &deny).expect("opens");
    assert_eq!(second.open(&root, &Open::both("file")).unwrap_err(), SHARE_DENIED);
    assert_eq!(first.stat(&file, open_downgrade(opened.id, share::READ, share::NONE)), OK);
    second.open(&root, &Open::both("file")).expect("opens");
}

#[test]
fn what_is_denied_is_denied_without_an_open_too() {
    let served = Served::new();
    let mut first = served.client("a");
    let mut second = served.client("b");
    let root = first.root();
    let file = first.file(&root, "file", b"bytes");
    let deny = Open::both("file").deny(share::BOTH);
    let (_, opened) = first.open(&root, &deny).expect("opens");
    let anonymous = StateId::ANONYMOUS;
    assert_eq!(second.read(&file, anonymous, 0, 5).unwrap_err(), LOCKED, "9.1.2");
    let written = second.write(&file, anonymous, 0, stable::UNSTABLE, b"x");
    assert_eq!(written.unwrap_err(), LOCKED);
    let written = second.write(&file, StateId::BYPASS, 0, stable::UNSTABLE, b"x");
    assert_eq!(written.unwrap_err(), LOCKED, "8.2.3: for WRITE it is as the anonymous one");
    assert_any(second.set(&file, &ops::set_size(0)), &[LOCKED]);
    // READ may pass by it; nobody must let it.
    match second.read(&file, StateId::BYPASS, 0, 5) {
        Ok((bytes, _)) => assert_eq!(bytes, b"bytes"),
        Err(stat) => assert_eq!(stat, LOCKED),
    }
    let truncating = crate::common::client::Client::truncating("file");
    assert_eq!(second.open(&root, &truncating).unwrap_err(), SHARE_DENIED);
    assert_eq!(first.size(&file), 5, "nothing was cut");
    first.write(&file, opened.id, 0, stable::UNSTABLE, b"B").expect("the holder writes");
    assert_eq!(first.stat(&file, close(opened.id)), OK);
    second.read(&file, anonymous, 0, 5).expect("nobody denies it");
}

#[test]
fn a_name_goes_while_the_file_is_open_or_the_server_says_so() {
    let served = Served::new();
    let mut first = served.client("a");
    let mut second = served.client("b");
    let root = first.root();
    let file = first.file(&root, "file", b"bytes");
    first.file(&root, "other", b"");
    let deny = Open::read("file").deny(share::BOTH);
    let (_, opened) = first.open(&root, &deny).expect("opens");
    assert_any(second.stat(&root, remove("file")), &[OK, FILE_OPEN]);
    assert_any(second.between(&root, &root, rename("other", "file")).stat, &[OK, FILE_OPEN]);
    assert_eq!(first.read(&file, opened.id, 0, 9).expect("reads").0, b"bytes");
}
