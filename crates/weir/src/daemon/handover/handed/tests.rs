use std::io::Write;

use super::*;

fn attempt(kept: Vec<i32>) -> Attempt {
    Attempt {
        id: "one".to_owned(),
        from: "0.1.0".to_owned(),
        began_ns: 7,
        old: 9,
        kept,
        failed: None,
    }
}

fn state() -> serde_json::Value {
    serde_json::json!({
        "version": 1,
        "directory": {"Unix": [47, 0xff]},
        "mountpoint": {"Unix": [47, 109]},
        "device": 5,
        "locks": [6, 7],
        "sockets": {"unix": 8, "users": null, "tcp": 10},
        "in_passthrough": [{"ino": 3, "opens": 1, "writers": 2, "writable": true}],
        "fuse": {
            "session": {
                "write_bytes": 1_048_576, "setxattr_ext": true, "resends": true, "acl": false,
                "passthrough": true, "passthrough_off": null,
            },
            "files_last": 12,
            "files": [{
                "handle": 11, "ino": 3, "write": true, "client": 1000, "direct": true,
                "maps_writable": true,
            }],
            "dirs_last": 4,
            "dirs": [{"handle": 2, "ino": 1, "copy": "Alone", "ended": false}],
            "modes": [{"ino": 3, "files": 1, "backing": 1}],
            "stale": [3],
            "listings": [{"ino": 1, "open": 1, "whole": false, "changed": true}],
            "locks": [{
                "ino": 3, "whole_file": false, "owner": 77, "start": 0, "last": 9,
                "exclusive": true, "pid": 4,
            }],
        },
    })
}

#[test]
fn what_is_handed_over_has_this_shape() {
    // A change of it is a new version: another binary reads it.
    let read = understand(state().to_string().as_bytes()).expect("understood");
    assert_eq!(serde_json::to_value(&read).expect("encodes"), state());
    assert_eq!(read.fuse.open(), [weir_types::Ino(1), weir_types::Ino(3)]);
}

#[test]
fn what_another_version_wrote_is_refused() {
    for (field, value) in [("version", 2.into()), ("more", true.into())] {
        let mut state = state();
        state[field] = value;
        let error = understand(state.to_string().as_bytes()).expect_err(field);
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
    assert!(understand(b"").is_err());
}

#[test]
fn memory_that_is_handed_over_cannot_be_changed_and_is_read_as_it_was_written() {
    let kept = File::open("/dev/null").expect("opens");
    let wanted = attempt(vec![number(&kept)]);
    let mut memory = memory(&wanted, b"{\"a\":\n1}").expect("memory");
    assert!(memory.write_all(b"x").is_err(), "it is sealed");
    // As if it came from another process: nobody here owns the number.
    let descriptor = std::os::fd::IntoRawFd::into_raw_fd(memory);
    let (attempt, text) = read(descriptor).expect("reads");
    assert_eq!((attempt, text.as_slice()), (wanted, b"{\"a\":\n1}".as_slice()));
    // Not the number itself, which another test may have by now.
    assert!(read(i32::MAX).is_err() && read(-1).is_err(), "nothing is there");
    assert!(read(0).is_err(), "standard input is not handed over");
}

#[test]
fn what_cannot_pass_is_not_tried_again() {
    let of = |kind| may_pass(&FsError::new(kind, "no"));
    assert!(of(ErrorKind::Retry) && of(ErrorKind::NotFound) && of(ErrorKind::Conflict));
    assert!(!of(ErrorKind::Unsupported) && !of(ErrorKind::Bug) && !of(ErrorKind::Invalid));
}
