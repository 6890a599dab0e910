//! A volume in a directory, mounted by this kernel, seen through its system calls.
//!
//! Where FUSE cannot be used (a container without /dev/fuse) the tests say so and do nothing.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

mod common;

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{
    FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink,
};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{START, Volume, errno};
use rustix::fs::{CWD, FallocateFlags, FlockOperation, RenameFlags, XattrFlags};
use weir_door_fuse::{FuseOptions, Transport, check_mountpoint, unmount};
use weir_types::ErrorKind;

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).unwrap();
    let names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let unique: BTreeSet<_> = names.iter().cloned().collect();
    assert_eq!(unique.len(), names.len(), "a name was listed twice");
    unique
}

/// Runs a test body on a fresh volume, mounted alone, mounted shared, and alone over io_uring.
fn on_both(body: impl Fn(&Path)) {
    let modes: [fn(FuseOptions) -> FuseOptions; 2] = [|options| options, FuseOptions::shared];
    for mode in modes {
        let Some(volume) = Volume::new() else { return };
        let mounted = volume.mount(mode);
        body(&mounted.path);
        volume.end(mounted);
    }
    let Some(volume) = Volume::new() else { return };
    let Some(mounted) = volume.mount_over_uring(|options| options) else { return };
    body(&mounted.path);
    volume.end(mounted);
}

#[test]
fn a_shared_mount_has_no_rings() {
    let Some(volume) = Volume::new() else { return };
    let wanted = |options| FuseOptions { transport: Transport::Uring, ..options };
    let mounted = volume.mount(|options| wanted(options.shared()));
    let state = mounted.mount.as_ref().unwrap().view().transport();
    assert!(state.without_rings.is_some_and(|why| why.contains("others may change")));
    volume.end(mounted);
    let mounted = volume.mount(|options| options);
    let state = mounted.mount.as_ref().unwrap().view().transport();
    assert_eq!(state.without_rings.as_deref(), Some("the default"));
    volume.end(mounted);
}

#[test]
fn names_come_move_and_go() {
    on_both(|root| {
        let at = |name: &str| root.join(name);
        fs::create_dir(at("d")).unwrap();
        fs::write(at("d/a"), "one").unwrap();
        assert_eq!(errno(fs::create_dir(at("d"))), Some(libc::EEXIST));
        assert_eq!(errno(fs::remove_dir(at("d"))), Some(libc::ENOTEMPTY));
        assert_eq!(errno(File::open(at("d/nothing"))), Some(libc::ENOENT));
        assert_eq!(errno(fs::read_dir(at("d/a"))), Some(libc::ENOTDIR));
        assert_eq!(errno(File::create(at(&"n".repeat(256)))), Some(libc::ENAMETOOLONG));

        fs::hard_link(at("d/a"), at("b")).unwrap();
        let (a, b) = (fs::metadata(at("d/a")).unwrap(), fs::metadata(at("b")).unwrap());
        assert_eq!((a.ino(), a.nlink(), b.nlink()), (b.ino(), 2, 2));
        fs::remove_file(at("d/a")).unwrap();
        assert_eq!(fs::metadata(at("b")).unwrap().nlink(), 1);

        symlink("d/../b", at("l")).unwrap();
        assert_eq!(fs::read_link(at("l")).unwrap(), Path::new("d/../b"));
        assert_eq!(fs::read_to_string(at("l")).unwrap(), "one");

        fs::write(at("c"), "two").unwrap();
        let rename = |from, to, flags| rustix::fs::renameat_with(CWD, at(from), CWD, at(to), flags);
        assert_eq!(rename("b", "c", RenameFlags::NOREPLACE), Err(rustix::io::Errno::EXIST));
        assert_eq!(rename("b", "x", RenameFlags::WHITEOUT), Err(rustix::io::Errno::INVAL));
        rename("b", "c", RenameFlags::EXCHANGE).unwrap();
        assert_eq!(fs::read_to_string(at("b")).unwrap(), "two");
        fs::rename(at("b"), at("c")).unwrap();
        assert_eq!(fs::read_to_string(at("c")).unwrap(), "two");
        assert_eq!(names(root), ["c", "d", "l"].map(str::to_owned).into());
        fs::remove_dir(at("d")).unwrap();
    });
}

#[test]
fn nodes_have_their_kind_mode_and_owner() {
    on_both(|root| {
        let fifo = root.join("fifo");
        let mode = rustix::fs::Mode::from_raw_mode(0o640);
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let meta = fs::metadata(&fifo).unwrap();
        assert!(meta.file_type().is_fifo());
        let dir = root.join("d");
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o2775)).unwrap();
        std::os::unix::fs::chown(&dir, Some(5), Some(6)).unwrap();
        fs::write(dir.join("f"), "").unwrap();
        let made = fs::metadata(dir.join("f")).unwrap();
        assert_eq!((made.uid(), made.gid()), (0, 6), "a set-gid directory hands its group down");
        let file = File::open(dir.join("f")).unwrap();
        file.set_modified(std::time::UNIX_EPOCH - std::time::Duration::from_millis(1200)).unwrap();
        let meta = file.metadata().unwrap();
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (-2, 800_000_000));
        assert!(meta.ctime() >= START / 1_000_000_000, "the engine's clock");
    });
}

#[test]
fn bytes_are_where_they_were_put() {
    on_both(|root| {
        let path = root.join("f");
        let mut file =
            OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        let block: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
        file.write_all(&block).unwrap();
        let mut back = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut back).unwrap();
        assert!(back == block, "what was written is read");

        let mut end = OpenOptions::new().append(true).open(&path).unwrap();
        end.write_all(b"tail").unwrap();
        assert_eq!(file.metadata().unwrap().len(), 3_000_004);
        let mut tail = [0; 4];
        file.read_exact_at(&mut tail, 3_000_000).unwrap();
        assert_eq!(&tail, b"tail");

        file.set_len(10).unwrap();
        file.set_len(100).unwrap();
        assert_eq!(fs::read(&path).unwrap(), [&block[..10], &[0; 90]].concat());
        File::create(&path).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 0, "O_TRUNC");
        file.sync_all().unwrap();
        File::open(root).unwrap().sync_all().unwrap();
    });
}

#[test]
fn holes_are_found_made_and_copied() {
    on_both(|root| {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(root.join("sparse"))
            .unwrap();
        file.write_all_at(&[1; 8192], 1 << 20).unwrap();
        let mut look = &file;
        let seek = |from| rustix::fs::seek(&file, from);
        assert_eq!(seek(rustix::fs::SeekFrom::Data(0)), Ok(1 << 20));
        assert_eq!(seek(rustix::fs::SeekFrom::Hole(1 << 20)), Ok((1 << 20) + 8192));
        assert_eq!(seek(rustix::fs::SeekFrom::Data(2 << 20)), Err(rustix::io::Errno::NXIO));

        let fallocate = |flags, offset, len| rustix::fs::fallocate(&file, flags, offset, len);
        fallocate(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 1 << 20, 4096).unwrap();
        let mut bytes = [9; 4097];
        file.read_exact_at(&mut bytes, 1 << 20).unwrap();
        assert_eq!((&bytes[..4096], bytes[4096]), (&[0; 4096][..], 1));
        fallocate(FallocateFlags::empty(), 0, 2 << 20).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 2 << 20);
        let collapse = fallocate(FallocateFlags::COLLAPSE_RANGE, 0, 4096);
        assert_eq!(collapse, Err(rustix::io::Errno::OPNOTSUPP));

        let copy = File::create_new(root.join("copy")).unwrap();
        look.seek(SeekFrom::Start(0)).unwrap();
        let copied = rustix::fs::copy_file_range(&file, None, &copy, None, 2 << 20).unwrap();
        assert!(copied > 0);
        let all = fs::read(root.join("sparse")).unwrap();
        assert!(fs::read(root.join("copy")).unwrap() == all[..copied]);
    });
}

/// As one request where the kernel has one for it (Linux 6.18).
#[test]
fn more_than_4_gib_are_copied_at_once() {
    on_both(|root| {
        const WHOLE: u64 = 6 << 30;
        let file = File::create_new(root.join("large")).unwrap();
        file.set_len(WHOLE).unwrap();
        file.write_all_at(b"near the end", WHOLE - 4096).unwrap();
        let (file, copy) = (File::open(root.join("large")).unwrap(), root.join("copy"));
        let copy = File::create_new(copy).unwrap();
        let (mut copied, mut calls) = (0, 0);
        while copied < WHOLE {
            let left = (WHOLE - copied) as usize;
            copied += rustix::fs::copy_file_range(&file, None, &copy, None, left).unwrap() as u64;
            calls += 1;
        }
        match calls {
            1 => {}
            _ => eprintln!("SKIPPED: this kernel asks for less at once"),
        }
        let mut bytes = [0; 12];
        let copy = File::open(root.join("copy")).unwrap();
        copy.read_exact_at(&mut bytes, WHOLE - 4096).unwrap();
        assert_eq!((&bytes, copy.metadata().unwrap().len()), (b"near the end", WHOLE));
    });
}

#[test]
fn a_removed_file_lives_as_long_as_it_is_open() {
    on_both(|root| {
        let path = root.join("f");
        fs::write(&path, "still here").unwrap();
        let mut file = File::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "still here");
        assert_eq!(errno(fs::metadata(&path)), Some(libc::ENOENT));
    });
}

#[test]
fn large_directories_list_every_name_once() {
    on_both(|root| {
        let wanted: BTreeSet<_> = (0..2500).map(|i| format!("file-{i:05}")).collect();
        for name in &wanted {
            File::create(root.join(name)).unwrap();
        }
        assert_eq!(names(root), wanted);
        assert_eq!(names(root), wanted, "the kernel's own copy too");
        fs::remove_file(root.join("file-00007")).unwrap();
        File::create(root.join("new")).unwrap();
        let after = names(root);
        assert!(after.contains("new") && !after.contains("file-00007"));
        for name in &after {
            fs::remove_file(root.join(name)).unwrap();
        }
        assert!(names(root).is_empty());
    });
}

#[test]
fn attributes_beside_the_file_are_kept() {
    on_both(|root| {
        let path = root.join("f");
        File::create(&path).unwrap();
        let set = |name: &str, value: &[u8], flags| rustix::fs::setxattr(&path, name, value, flags);
        set("user.a", b"value", XattrFlags::CREATE).unwrap();
        assert_eq!(set("user.a", b"", XattrFlags::CREATE), Err(rustix::io::Errno::EXIST));
        assert_eq!(set("user.b", b"", XattrFlags::REPLACE), Err(rustix::io::Errno::NODATA));
        let mut room = [0; 16];
        let length = rustix::fs::getxattr(&path, "user.a", &mut room).unwrap();
        assert_eq!(&room[..length], b"value");
        let small = rustix::fs::getxattr(&path, "user.a", &mut room[..2]);
        assert_eq!(small, Err(rustix::io::Errno::RANGE));
        let length = rustix::fs::listxattr(&path, &mut room).unwrap();
        assert_eq!(&room[..length], b"user.a\0".as_slice());
        rustix::fs::removexattr(&path, "user.a").unwrap();
        let gone = rustix::fs::getxattr(&path, "user.a", &mut room);
        assert_eq!(gone, Err(rustix::io::Errno::NODATA));
        let acl = set("system.posix_acl_access", b"\x02\0\0\0", XattrFlags::empty());
        assert_eq!(acl, Err(rustix::io::Errno::OPNOTSUPP));
        // Who hears this asks for no other file's label.
        if !Path::new("/sys/fs/selinux/enforce").exists() {
            let label = rustix::fs::getxattr(&path, "security.selinux", &mut room);
            assert_eq!(label, Err(rustix::io::Errno::OPNOTSUPP));
            set("security.selinux", b"a:label", XattrFlags::empty()).unwrap();
            let length = rustix::fs::getxattr(&path, "security.selinux", &mut room).unwrap();
            assert_eq!(&room[..length], b"a:label");
        }
    });
}

#[test]
fn the_time_of_birth_stays() {
    on_both(|root| {
        let path = root.join("f");
        fs::write(&path, "text").unwrap();
        let born = || {
            let born = fs::metadata(&path).unwrap().created().unwrap();
            born.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as i64
        };
        let first = born();
        assert!((START..START + 1_000_000_000_000).contains(&first), "{first}");
        fs::write(&path, "other").unwrap();
        assert_eq!(born(), first);
    });
}

const NOBODY: u32 = 65_534;

/// Runs a shell line as a user without privileges.
fn as_nobody(line: &str) {
    let status = Command::new("sh").args(["-c", line]).uid(NOBODY).gid(NOBODY).status().unwrap();
    assert!(status.success(), "{line}");
}

/// The same, in one more group.
fn as_nobody_of(group: u32, line: &str) {
    let user = format!("--reuid={NOBODY} --regid={NOBODY} --groups={group}");
    let mut words: Vec<_> = user.split(' ').collect();
    words.extend(["sh", "-c", line]);
    assert!(Command::new("setpriv").args(words).status().unwrap().success(), "{line}");
}

#[test]
fn a_change_by_the_unprivileged_takes_privileges_away() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: needs root to be somebody else");
        return;
    }
    on_both(|root| {
        let path = root.join("f");
        let shown = path.display();
        fs::write(&path, "text").unwrap();
        let arm = || fs::set_permissions(&path, fs::Permissions::from_mode(0o6777)).unwrap();
        let mode = || fs::metadata(&path).unwrap().mode() & 0o7777;
        for line in [
            format!("echo x >> {shown}"),
            format!("echo x > {shown}"),
            format!("truncate -s 1 {shown}"),
            format!("truncate -s 4096 {shown}"),
            format!(
                "dd if=/dev/zero of={shown} bs=4096 count=1 oflag=direct conv=notrunc status=none"
            ),
            format!("fallocate -l 10000 {shown}"),
        ] {
            arm();
            assert_eq!(mode(), 0o6777);
            as_nobody(&line);
            assert_eq!(mode(), 0o777, "{line}");
        }
        arm();
        fs::write(&path, "by root").unwrap();
        assert_eq!(mode(), 0o6777, "root keeps them");
        std::os::unix::fs::chown(&path, Some(1), None).unwrap();
        assert_eq!(mode(), 0o777, "a new owner never has them");
    });
}

/// As on ext4, which does it by the same rule.
#[test]
fn set_gid_without_execution_is_for_those_in_the_group() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: needs root to be somebody else");
        return;
    }
    const GROUP: u32 = 4711;
    on_both(|root| {
        let path = root.join("f");
        let shown = path.display();
        fs::write(&path, vec![1; 10_000]).unwrap();
        let arm = || {
            std::os::unix::fs::chown(&path, Some(NOBODY), Some(GROUP)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o6664)).unwrap();
        };
        let mode = || fs::metadata(&path).unwrap().mode() & 0o7777;
        let dd = "dd if=/dev/zero bs=4096 count=1 oflag=direct conv=notrunc status=none";
        for line in [
            format!("echo x >> {shown}"),
            format!("echo x > {shown}"),
            format!("truncate -s 8192 {shown}"),
            format!("{dd} of={shown}"),
            format!("fallocate -l 10000 {shown}"),
            format!("fallocate -p -o 4096 -l 4096 {shown}"),
            format!("fallocate -z -o 0 -l 4096 {shown}"),
            format!("chgrp {NOBODY} {shown}"),
        ] {
            arm();
            as_nobody(&line);
            assert_eq!(mode(), 0o664, "{line}");
            arm();
            as_nobody_of(GROUP, &line);
            assert_eq!(mode(), 0o2664, "a member of the group: {line}");
        }
        arm();
        // What was left to a member, through the same open file, is nobody's else.
        let inherited = fs::OpenOptions::new().append(true).open(&path).unwrap();
        let append = |mut command: Command| {
            let file = inherited.try_clone().unwrap();
            command.args(["-c", "echo x"]).stdout(file).status().unwrap();
        };
        let mut member = Command::new("setpriv");
        let (user, group) = (format!("--reuid={NOBODY}"), format!("--groups={GROUP}"));
        member.args([&user, "--regid=65534", &group, "sh"]);
        append(member);
        assert_eq!(mode(), 0o2664);
        let mut other = Command::new("sh");
        other.uid(NOBODY).gid(NOBODY);
        append(other);
        assert_eq!(mode(), 0o664);
    });
}

/// Who runs a line: by which words of setpriv, and whether a file keeps what it has when its group may
/// execute it.
const WHO: [(&str, bool); 4] = [
    ("--no-new-privs", true),
    ("--bounding-set=-fsetid --inh-caps=-fsetid", false),
    ("--reuid=65534 --regid=65534 --clear-groups", false),
    ("--reuid=65534 --regid=65534 --clear-groups --inh-caps=+fsetid --ambient-caps=+fsetid", true),
];

/// The modes of files after each of `lines`, by each of `WHO`, with both kinds of set-group-id.
fn modes_after(dir: &Path, lines: &[&str]) -> Vec<String> {
    let cases: Vec<_> = lines.iter().flat_map(|line| [(line, 0o6777), (line, 0o6666)]).collect();
    let mut modes = Vec::new();
    for (who, _) in WHO {
        let path = |number: usize| dir.join(format!("privileged-{number}"));
        let mut script = "set -e\n".to_owned();
        for (number, (line, armed)) in cases.iter().enumerate() {
            let file = path(number);
            fs::write(&file, vec![1; 10_000]).unwrap();
            std::os::unix::fs::chown(&file, Some(NOBODY), Some(4711)).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(*armed)).unwrap();
            script += &format!("F={}\n{line}\n", file.display());
        }
        // One process for all: each that is forked off has our files until it is another program.
        let mut command = Command::new("setpriv");
        command.args(who.split(' ')).args(["sh", "-c", &script]);
        assert!(command.status().unwrap().success(), "{script} by {who}");
        for (number, (line, armed)) in cases.iter().enumerate() {
            let mode = fs::metadata(path(number)).unwrap().mode() & 0o7777;
            modes.push(format!("{mode:o} of {armed:o} after `{line}` by {who}"));
            fs::remove_file(path(number)).unwrap();
        }
    }
    modes
}

/// It is not the number of the user but the capability, as on the file system of this directory.
#[test]
fn who_may_keep_privileges_is_who_has_the_capability() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: needs root to be somebody else");
        return;
    }
    let lines = [
        "echo x >> $F",
        "echo x > $F",
        "truncate -s 1 $F",
        "truncate -s 20000 $F",
        "dd if=/dev/zero of=$F bs=4096 count=1 oflag=direct conv=notrunc status=none",
        "fallocate -l 20000 $F",
    ];
    let local = tempfile::tempdir().unwrap();
    fs::set_permissions(local.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let wanted = modes_after(local.path(), &lines);
    for (who, keeps) in WHO {
        let cut =
            format!("{} of 6777 after `truncate -s 1 $F` by {who}", if keeps { 6777 } else { 777 });
        assert!(wanted.contains(&cut), "not as ever: {cut}: {wanted:#?}");
    }
    on_both(|root| {
        for (ours, wanted) in modes_after(root, &lines).iter().zip(&wanted) {
            assert_eq!(ours, wanted);
        }
    });
}

#[test]
fn direct_and_synchronous_io_work() {
    on_both(|root| {
        let path = root.join("f");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        let direct = options.custom_flags(libc::O_DIRECT | libc::O_SYNC).open(&path).unwrap();
        direct.write_all_at(&[7; 8192], 0).unwrap();
        let cached = options.custom_flags(0).open(&path).unwrap();
        let mut byte = [0];
        cached.read_exact_at(&mut byte, 8191).unwrap();
        assert_eq!(byte, [7]);
        cached.write_all_at(&[8], 0).unwrap();
        direct.read_exact_at(&mut byte, 0).unwrap();
        assert_eq!(byte, [8]);
    });
}

/// Names the file that [`take_the_lock`] is to lock, and whether it waits.
const LOCK_FILE: &str = "WEIR_TEST_LOCK_FILE";
const LOCK_WAIT: &str = "WEIR_TEST_LOCK_WAIT";
/// Takes the lock with `flock` and not with `fcntl`.
const LOCK_WHOLE: &str = "WEIR_TEST_LOCK_WHOLE";

/// The other process of the test below: says hello, takes the lock, ends with 0, or with 1 if
/// somebody else has it.
#[test]
#[ignore = "run by another test, in a process of its own"]
fn take_the_lock() {
    let file = OpenOptions::new().write(true).open(std::env::var(LOCK_FILE).unwrap()).unwrap();
    let how = match std::env::var(LOCK_WAIT).is_ok() {
        true => FlockOperation::LockExclusive,
        false => FlockOperation::NonBlockingLockExclusive,
    };
    eprintln!("hello");
    let taken = match std::env::var(LOCK_WHOLE).is_ok() {
        true => rustix::fs::flock(&file, how),
        false => rustix::fs::fcntl_lock(&file, how),
    };
    match taken {
        Ok(()) => std::process::exit(0),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => std::process::exit(1),
        Err(error) => panic!("{error}"),
    }
}

fn other_process(path: &Path, wait: bool) -> Child {
    other_process_with(path, wait, &[])
}

fn other_process_with(path: &Path, wait: bool, more: &[&str]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "take_the_lock", "--ignored", "--nocapture"]);
    command.env(LOCK_FILE, path);
    if wait {
        command.env(LOCK_WAIT, "1");
    }
    for name in more {
        command.env(name, "1");
    }
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut hello = [0; 6];
    child.stderr.as_mut().unwrap().read_exact(&mut hello).unwrap();
    assert_eq!(&hello, b"hello\n");
    child
}

#[test]
fn record_locks_hold_between_processes() {
    on_both(|root| {
        let path = root.join("f");
        let file = File::create(&path).unwrap();
        rustix::fs::fcntl_lock(&file, FlockOperation::LockExclusive).unwrap();
        assert_eq!(other_process(&path, false).wait().unwrap().code(), Some(1));

        let mut waiting = other_process(&path, true);
        waiting.kill().unwrap();
        assert_eq!(waiting.wait().unwrap().code(), None, "a waiting process can be killed");

        let mut waiting = other_process(&path, true);
        rustix::fs::fcntl_lock(&file, FlockOperation::Unlock).unwrap();
        assert_eq!(waiting.wait().unwrap().code(), Some(0));

        rustix::fs::fcntl_lock(&file, FlockOperation::LockExclusive).unwrap();
        drop(file);
        assert_eq!(other_process(&path, false).wait().unwrap().code(), Some(0), "close unlocks");
    });
}

#[test]
fn locks_of_whole_files_are_apart_from_those_of_records() {
    on_both(|root| {
        let path = root.join("f");
        let (file, again) = (File::create(&path).unwrap(), File::open(&path).unwrap());
        rustix::fs::fcntl_lock(&file, FlockOperation::LockExclusive).unwrap();
        rustix::fs::flock(&again, FlockOperation::NonBlockingLockExclusive).unwrap();
        let whole = |wait| other_process_with(&path, wait, &[LOCK_WHOLE]);
        assert_eq!(whole(false).wait().unwrap().code(), Some(1));

        let mut waiting = whole(true);
        waiting.kill().unwrap();
        assert_eq!(waiting.wait().unwrap().code(), None, "a waiting process can be killed");

        rustix::fs::fcntl_lock(&file, FlockOperation::Unlock).unwrap();
        assert_eq!(whole(false).wait().unwrap().code(), Some(1), "it is another lock");
        // Another descriptor of the same file is another owner, and its close lets go.
        drop(File::open(&path).unwrap());
        assert_eq!(whole(false).wait().unwrap().code(), Some(1));
        let mut waiting = whole(true);
        drop(again);
        assert_eq!(waiting.wait().unwrap().code(), Some(0), "close unlocks");
    });
}

#[test]
fn more_than_there_is_cannot_be_allocated() {
    on_both(|root| {
        let file = File::create(root.join("f")).unwrap();
        let allocate = |len| rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len);
        assert_eq!(allocate(1 << 60), Err(rustix::io::Errno::NOSPC));
        assert_eq!(allocate(17 << 40), Err(rustix::io::Errno::FBIG), "no file is that large");
        assert_eq!(file.metadata().unwrap().len(), 0);
    });
}

/// `FS_IOC_FIEMAP`
const FIEMAP: libc::c_ulong = 0xc020_660b;

#[test]
#[allow(unsafe_code, reason = "no library has this call")]
fn holes_are_found_by_seeking_and_not_by_fiemap() {
    on_both(|root| {
        let file = OpenOptions::new().write(true).read(true).create_new(true).open(root.join("f"));
        let file = file.unwrap();
        file.write_all_at(&[1; 4096], 1 << 20).unwrap();
        let seek = |from| rustix::fs::seek(&file, from);
        assert_eq!(seek(rustix::fs::SeekFrom::Data(0)), Ok(1 << 20));
        assert_eq!(seek(rustix::fs::SeekFrom::Hole(1 << 20)), Ok((1 << 20) + 4096));
        // struct fiemap: start, length, flags, mapped, extents, reserved
        let mut map = [0_u64, u64::MAX, 0, 0];
        // SAFETY: the descriptor is open, and the kernel writes to no more than this struct, which
        // has room for no extents.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP, map.as_mut_ptr()) };
        let error = std::io::Error::last_os_error().raw_os_error();
        assert_eq!((done, error), (-1, Some(libc::EOPNOTSUPP)));
    });
}

#[test]
fn a_volume_with_a_size_shows_it_and_takes_no_more() {
    const MIB: u64 = 1 << 20;
    let Some(mut volume) = Volume::new() else { return };
    volume.settings.volume_bytes = weir_types::Bytes(8 * MIB);
    let mounted = volume.mount(|options| options);
    let at = |name: &str| mounted.path.join(name);
    let space = || rustix::fs::statvfs(&mounted.path).unwrap();
    let free = || space().f_bavail * space().f_frsize;
    assert_eq!((space().f_blocks * space().f_frsize, free()), (8 * MIB, 8 * MIB));

    let no_space = Some(libc::ENOSPC);
    fs::write(at("a"), vec![1; 6 << 20]).unwrap();
    assert_eq!(free(), 2 * MIB);
    assert_eq!(errno(fs::write(at("b"), vec![2; 3 << 20])), no_space);
    let left = fs::metadata(at("b")).unwrap().len();
    assert!((MIB..3 * MIB).contains(&left), "what fits is written: {left}");
    fs::remove_file(at("b")).unwrap();

    let file = OpenOptions::new().write(true).open(at("a")).unwrap();
    File::open(at("a")).unwrap().sync_all().unwrap();
    let allocate = |offset, len| {
        rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, offset, len).map_err(Into::into)
    };
    allocate(0, 6 * MIB).unwrap();
    assert_eq!(errno(allocate(6 * MIB, 5 * MIB)), no_space);
    allocate(6 * MIB, MIB).unwrap();
    assert_eq!(errno(fs::copy(at("a"), at("copy"))), no_space);
    fs::remove_file(at("copy")).unwrap();

    let mut written = 6 * MIB;
    while file.write_all_at(&[3; 4096], written).is_ok() {
        written += 4096;
        assert!(written <= 8 * MIB, "it is full");
    }
    file.write_all_at(&[4; 1 << 20], 0).unwrap();
    file.sync_all().unwrap();
    file.write_all_at(&[5; 1 << 20], MIB).expect("what is there may be written anew");
    assert_eq!(errno(file.write_all_at(&[6], 9 * MIB)), no_space);
    file.set_len(MIB).unwrap();
    fs::write(at("b"), vec![7; 3 << 20]).expect("there is room again");
    drop(file);
    volume.end(mounted);

    volume.settings.volume_bytes = weir_types::Bytes(2 * MIB);
    let mounted = volume.mount(|options| options);
    assert_eq!(rustix::fs::statvfs(&mounted.path).unwrap().f_bavail, 0, "less than it holds");
    assert_eq!(fs::read(mounted.path.join("b")).unwrap(), vec![7; 3 << 20]);
    volume.end(mounted);
}

#[test]
fn everything_is_there_after_a_remount() {
    let Some(volume) = Volume::new() else { return };
    let mounted = volume.mount(|options| options);
    fs::create_dir(mounted.path.join("d")).unwrap();
    fs::write(mounted.path.join("d/f"), vec![3; 100_000]).unwrap();
    volume.end(mounted);
    assert!(names(&volume.dir.path().join("mnt")).is_empty());

    let mounted = volume.mount(|mut options| {
        options.read_only = true;
        options.extra = vec!["noexec".to_owned()];
        options
    });
    assert_eq!(fs::read(mounted.path.join("d/f")).unwrap(), vec![3; 100_000]);
    assert_eq!(errno(File::create(mounted.path.join("x"))), Some(libc::EROFS));
    volume.end(mounted);
}

#[test]
fn a_busy_mount_says_who_holds_it_and_goes_lazily() {
    let Some(volume) = Volume::new() else { return };
    let mut mounted = volume.mount(|options| options);
    let file = File::create(mounted.path.join("f")).unwrap();
    let mount = mounted.mount.take().unwrap();
    let error = mount.unmount(false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry);
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    let again = check_mountpoint(&mounted.path).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Exists);

    mount.unmount(true).unwrap();
    file.write_all_at(b"still served", 0).unwrap();
    drop(file);
    mount.wait().unwrap();
    assert_eq!(unmount(&mounted.path, false).unwrap_err().kind(), ErrorKind::NotFound);
    volume.runtime.block_on(mounted.engine.shutdown()).unwrap();
}
