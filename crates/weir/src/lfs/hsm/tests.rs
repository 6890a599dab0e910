use weir_engine::Root;
use weir_types::Ino;

use super::*;

fn state(flags: &[&str]) -> FileState {
    let has = |flag| flags.contains(&flag);
    FileState {
        exists: has("exists"),
        dirty: has("dirty"),
        released: has("released"),
        archived: has("archived"),
        pinned: has("pinned"),
        lost: has("lost"),
        size: 3_000,
        resident_bytes: 0,
        object: None,
        action: None,
    }
}

fn action(kind: ActionKind, state: ActionState) -> ActionView {
    ActionView {
        id: ActionId(3),
        request: ActionRequest {
            kind,
            roots: vec![Root { ino: Ino(2), path: "f".to_owned() }],
            recursive: false,
            max_bytes_per_s: None,
            restore: None,
        },
        state,
        asked_unix_ms: 0,
        ended_unix_ms: None,
        files_total: 1,
        files_done: 0,
        bytes_total: 3_000,
        bytes_done: 1_000,
        counted: true,
        refused: 0,
        reasons: Vec::new(),
        portion: None,
        archived: Default::default(),
        node: None,
    }
}

#[test]
fn states_read_as_lustre_writes_them() {
    for (flags, text) in [
        // Published output of clusters with Lustre HSM (docs.hpc.dkf.hu, "DMF and archiving").
        (
            &["released", "exists", "archived"][..],
            "(0x0000000d) released exists archived, archive_id:1",
        ),
        (&[], "(0x00000000)"),
        // lfs-hsm(1), EXAMPLES: `exists dirty archived`, 0x0000000b.
        (&["exists", "dirty", "archived"], "(0x0000000b) exists dirty archived, archive_id:1"),
        // FSx for Lustre's guide on exporting: a file is exported when `exists archived` is told.
        (&["exists", "archived"], "(0x00000009) exists archived, archive_id:1"),
        // Words and order of the last flags: the comment above hsm_check_test in Lustre's tests.
        (
            &["exists", "archived", "pinned", "lost"],
            "(0x00000059) exists archived never_release lost_from_hsm, archive_id:1",
        ),
        (&["pinned"], "(0x00000010) never_release"),
    ] {
        assert_eq!(state_text(&state(flags)), format!(": {text}"));
    }
}

/// The guide of FSx for Lustre: "A return value of NOOP indicates that the file has successfully
/// been loaded"; its check loops look for ARCHIVE. Lustre's own test 112 takes the action from the
/// second word on.
#[test]
fn actions_read_as_lustre_writes_them() {
    let here = FileState { resident_bytes: 4_096, ..state(&[]) };
    let part = FileState { resident_bytes: 2_048, ..state(&[]) };
    assert_eq!(action_text(&here, None), ": NOOP");
    let done = action(ActionKind::Hydrate, ActionState::Done);
    assert_eq!(action_text(&part, Some(&done)), ": NOOP");
    let running = action(ActionKind::Hydrate, ActionState::Running);
    assert_eq!(action_text(&part, Some(&running)), ": RESTORE running (2048 bytes moved)");
    assert_eq!(action_text(&here, Some(&running)), ": RESTORE running (3000 bytes moved)");
    let waiting = action(ActionKind::Archive, ActionState::Waiting);
    assert_eq!(action_text(&here, Some(&waiting)), ": ARCHIVE waiting (from 0 to EOF)");
    let mut running = action(ActionKind::Archive, ActionState::Running);
    assert_eq!(action_text(&here, Some(&running)), ": ARCHIVE running (1000 bytes moved)");
    running.files_total = 9;
    assert_eq!(action_text(&here, Some(&running)), ": ARCHIVE running (0 bytes moved)");
}

#[test]
fn only_norelease_can_be_set() {
    let read = |line: &str| {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        words::read(&words, &SET).and_then(|words| check_flags(&words))
    };
    assert!(read("--norelease f").is_ok());
    for (line, errno) in [
        ("--archived f", Errno::OPNOTSUPP),
        ("--norelease --lost f", Errno::OPNOTSUPP),
        ("--archive-id 2 f", Errno::OPNOTSUPP),
        ("f", Errno::INVAL),
    ] {
        assert_eq!(read(line).expect_err(line).errno, errno, "{line}");
    }
}

#[test]
fn files_come_from_a_list_as_well() {
    let dir = tempfile::tempdir().expect("dir");
    let list = dir.path().join("list");
    std::fs::write(&list, "/abs/a\n\nb c\n").expect("write");
    let line = ["-a", "1", "x", "--filelist", list.to_str().expect("text"), "--mntpath", "/mnt"];
    let words = words::read(&line.map(OsString::from), &REQUEST).expect("read");
    let found = paths(&words).map_err(|failure| failure.text).expect("paths");
    assert_eq!(found, ["x", "/abs/a", "/mnt/b c"].map(PathBuf::from));
}

/// What lies on no mount fails as an ioctl on it would, and what is not there as stat would.
#[test]
fn exit_codes_are_errno() {
    let dir = tempfile::tempdir().expect("dir");
    for (path, errno) in
        [(dir.path().to_owned(), Errno::NOTTY), (dir.path().join("x"), Errno::NOENT)]
    {
        let mut answer = Answer { command: "hsm_state", out: Vec::new(), first: None };
        let files = Files::find(&[path], &mut answer);
        assert!(files.found.is_empty());
        assert_eq!(answer.first, Some(errno));
    }
}
