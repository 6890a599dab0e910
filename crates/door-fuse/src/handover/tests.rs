use super::*;

#[test]
fn each_open_inode_is_kept_once() {
    let file = |handle, ino| FileHandover {
        handle,
        ino: Known(ino),
        write: false,
        client: 0,
        direct: false,
        maps_writable: false,
    };
    let dir = DirHandover { handle: 1, ino: Ino(4), copy: Copy::No, ended: false };
    let state = FuseHandover {
        session: SessionHandover {
            write_bytes: 4096,
            setxattr_ext: true,
            resends: false,
            acl: true,
            passthrough: false,
            passthrough_off: None,
        },
        files_last: 9,
        files: vec![file(3, 7), file(5, 7), file(6, 5)],
        dirs_last: 1,
        dirs: vec![dir],
        modes: Vec::new(),
        stale: None,
        turned: vec![Known::new(Ino(7), 3)],
        listings: Vec::new(),
        locks: Vec::new(),
        untold: vec![TreeChange::Name(Ino(1), b"a\xff".to_vec())],
    };
    assert_eq!(state.open(), [Ino(4), Ino(5), Ino(7)]);
    assert!(state.obeys_acls());
    let text = serde_json::to_string(&state).expect("encodes");
    assert_eq!(serde_json::from_str::<FuseHandover>(&text).expect("decodes"), state);
}
