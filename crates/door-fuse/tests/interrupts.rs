//! Programs that wait for a bucket which does not answer, and the signals that they get.
//!
//! Where FUSE cannot be used (a container without /dev/fuse) the tests say so and do nothing.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]
#![allow(
    clippy::disallowed_methods,
    reason = "what is waited for is the kernel and other processes"
)]

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Mounted, Volume};
use rustix::process::{Pid, Signal, kill_process};
use weir_door_fuse::FuseOptions;
use weir_engine::{Attributes, LinkOptions, Policy};
use weir_object::testing::Gate;

/// Far less than the bucket's time limit, and enough for a busy machine.
const SOON: Duration = Duration::from_secs(30);
/// Enough for a signal to do what it does.
const A_WHILE: Duration = Duration::from_millis(500);
const FILE_BYTES: usize = 4 << 20;
/// Files that an open brings here.
const SMALL: usize = 5;
const SMALL_BYTES: usize = 300_000;

type Change = fn(FuseOptions) -> FuseOptions;

/// Over `/dev/fuse` and over io_uring.
fn on_both(change: Change, body: impl Fn(Cold)) {
    for over_uring in [false, true] {
        if let Some(cold) = Cold::new(over_uring, change) {
            body(cold);
        }
    }
}

/// A mounted volume with one file, `cold`, whose bytes are in the bucket only.
struct Cold {
    /// Goes first: who takes the rest apart must not wait.
    gate: OpenAtLast,
    volume: Volume,
    mounted: Mounted,
}

struct OpenAtLast(Gate);

impl Drop for OpenAtLast {
    fn drop(&mut self) {
        self.0.open();
    }
}

impl Cold {
    /// `None` where nothing can be mounted, or not over io_uring if that is wanted.
    fn new(over_uring: bool, change: Change) -> Option<Self> {
        let gate = Gate::default();
        let behind = gate.clone();
        let mut volume = Volume::with(Some(Arc::new(move |store| Arc::new(behind.store(store)))))?;
        volume.settings.bucket_timeout_ms = 600_000;
        volume.settings.memory_bytes = weir_types::Bytes::mib(256);
        volume.settings.read_ahead_bytes = weir_types::Bytes(0);
        let mounted = volume.mount(change);
        for name in ["cold", "other"] {
            fs::write(mounted.path.join(name), bytes()).unwrap();
        }
        for number in 0..SMALL {
            fs::write(mounted.path.join(format!("small-{number}")), &bytes()[..SMALL_BYTES])
                .unwrap();
        }
        fs::create_dir(mounted.path.join("dir")).unwrap();
        volume.end(mounted);
        // Mounted anew, the kernel has none of its pages either.
        let mounted = match over_uring {
            true => volume.mount_over_uring(change)?,
            false => volume.mount(change),
        };
        volume.runtime.block_on(mounted.engine.release_all()).unwrap();
        Some(Self { gate: OpenAtLast(gate), volume, mounted })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.mounted.path.join(name)
    }

    /// How many requests of this kind came.
    fn requests(&self, kind: &str) -> u64 {
        let all = self.mounted.mount.as_ref().unwrap().view().requests();
        all.iter().find(|(name, _)| *name == kind).map_or(0, |(_, count)| *count)
    }

    /// Starts a program, and returns when it waits for one more request of this kind.
    fn waiting(&self, kind: &str, line: &str) -> Child {
        let before = self.requests(kind);
        let mut child = shell(line);
        let end = Instant::now() + SOON;
        while self.requests(kind) == before {
            assert!(Instant::now() < end, "no {kind} came of `{line}`");
            assert_eq!(child.try_wait().unwrap(), None, "`{line}` waits for nothing");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(A_WHILE);
        assert_eq!(child.try_wait().unwrap(), None, "`{line}` waits for nothing");
        child
    }

    /// A program that waits for bytes of the bucket, which does not answer any more.
    fn direct_read(&self) -> Child {
        fs::metadata(self.at("cold")).unwrap();
        self.gate.0.shut();
        let file = shown(&self.at("cold"));
        self.waiting("read", &format!("dd if={file} iflag=direct of=/dev/null bs=4096 count=1"))
    }

    /// The bucket answers again: all is as it should be.
    fn end(self) {
        self.gate.0.open();
        assert!(fs::read(self.at("cold")).unwrap() == bytes(), "the mount goes on");
        fs::write(self.at("more"), "more").unwrap();
        fs::File::open(self.at("more")).unwrap().sync_all().unwrap();
        self.volume.end(self.mounted);
    }
}

fn bytes() -> Vec<u8> {
    (0..FILE_BYTES).map(|i| (i % 251) as u8).collect()
}

/// A line of one program. What a shell without a terminal starts behind itself ignores SIGINT and
/// SIGQUIT, and so would all that it starts; this program does not.
fn shell(line: &str) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -c 0; exec env --default-signal=INT,QUIT {line}")]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// How a program ended, which it must soon.
fn ended(mut child: Child, what: &str) -> ExitStatus {
    let end = Instant::now() + SOON;
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return status,
            None if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
            None => panic!("{what}: it stays"),
        }
    }
}

const ENDS: [Signal; 5] = [Signal::TERM, Signal::INT, Signal::QUIT, Signal::ALARM, Signal::KILL];

/// All that waits is ended by each signal that ends programs.
fn is_killed(cold: &Cold, kind: &str, line: &str) {
    for end in ENDS {
        let child = cold.waiting(kind, line);
        signal(&child, end);
        let status = ended(child, &format!("`{line}` with {end:?}"));
        assert_eq!(status.signal(), Some(end.as_raw()), "`{line}`");
    }
}

/// The same for what each end begins anew; `line` says what.
fn each_is_killed(cold: &Cold, kind: &str, ends: &[Signal], line: impl Fn(usize) -> String) {
    for (number, end) in ends.iter().enumerate() {
        let line = line(number);
        let child = cold.waiting(kind, &line);
        signal(&child, *end);
        let status = ended(child, &format!("`{line}` with {end:?}"));
        assert_eq!(status.signal(), Some(end.as_raw()), "`{line}`");
    }
}

const TWO: [Signal; 2] = [Signal::TERM, Signal::KILL];

fn as_it_is(options: FuseOptions) -> FuseOptions {
    options
}

fn by_the_daemon(mut options: FuseOptions) -> FuseOptions {
    options.passthrough = false;
    options
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn who_waits_for_bytes_can_be_killed() {
    on_both(by_the_daemon, |cold| {
        for name in ["cold", "other"] {
            fs::metadata(cold.at(name)).unwrap();
        }
        cold.gate.0.shut();
        let file = shown(&cold.at("cold"));
        // The kernel asks once for a page, and all who read it wait for that request of nobody. Only what
        // kills wakes them; SIGQUIT would write a core first.
        let line = format!("cat {file}");
        let first = cold.waiting("read", &line);
        for end in ENDS.into_iter().filter(|end| *end != Signal::QUIT) {
            let mut child = shell(&line);
            std::thread::sleep(A_WHILE);
            assert_eq!(child.try_wait().unwrap(), None, "`{line}` waits for nothing");
            signal(&child, end);
            assert_eq!(ended(child, &line).signal(), Some(end.as_raw()));
        }
        signal(&first, Signal::KILL);
        ended(first, &line);
        let file = shown(&cold.at("other"));
        let part = "bs=4096 count=1 conv=notrunc";
        // dd catches SIGINT, and ends by it all the same.
        is_killed(&cold, "read", &format!("dd if={file} iflag=direct of=/dev/null {part}"));
        cold.end();
    });
}

#[test]
fn who_is_killed_while_a_write_waits_has_written_nothing() {
    on_both(by_the_daemon, |cold| {
        fs::metadata(cold.at("cold")).unwrap();
        cold.gate.0.shut();
        let file = shown(&cold.at("cold"));
        is_killed(&cold, "write", &format!("dd if=/dev/zero of={file} bs=10 count=1 conv=notrunc"));
        cold.end();
    });
}

#[test]
fn who_is_killed_in_an_fsync_leaves_it_to_the_daemon() {
    on_both(
        |options| options,
        |cold| {
            fs::write(cold.at("new"), "new").unwrap();
            cold.gate.0.shut();
            is_killed(&cold, "fsync", &format!("sync {}", shown(&cold.at("new"))));
            cold.end();
        },
    );
}

#[test]
fn a_timer_of_the_program_interrupts_nothing() {
    on_both(by_the_daemon, |cold| {
        let child = cold.direct_read();
        let before = cold.requests("read");
        // dd catches it, and would read again if it were interrupted.
        for _ in 0..3 {
            signal(&child, Signal::USR1);
            std::thread::sleep(A_WHILE);
        }
        assert_eq!(cold.requests("read"), before);
        cold.gate.0.open();
        assert!(ended(child, "dd").success());
        cold.end();
    });
}

#[test]
fn who_is_told_to_end_after_a_timer_is_ended_all_the_same() {
    on_both(by_the_daemon, |cold| {
        let child = cold.direct_read();
        signal(&child, Signal::USR1);
        std::thread::sleep(A_WHILE);
        signal(&child, Signal::KILL);
        ended(child, "dd after another signal");
        cold.end();
    });
}

/// An open brings a small file here, and waits a second for it; then whoever reads waits.
#[test]
fn who_waits_in_an_open_or_a_read_after_it_can_be_killed() {
    on_both(as_it_is, |cold| {
        for number in 0..SMALL {
            fs::metadata(cold.at(&format!("small-{number}"))).unwrap();
        }
        fs::metadata(cold.at("cold")).unwrap();
        cold.gate.0.shut();
        each_is_killed(&cold, "open", &ENDS, |number| {
            format!("dd if={} of=/dev/null bs=1", shown(&cold.at(&format!("small-{number}"))))
        });
        let file = shown(&cold.at("cold"));
        let line = format!("dd if={file} iflag=direct of=/dev/null bs=4096 count=1");
        each_is_killed(&cold, "read", &TWO, |_| line.clone());
        cold.end();
    });
}

/// Of a linked bucket, whose names come when somebody looks for them.
#[test]
fn who_waits_for_names_can_be_killed() {
    on_both(as_it_is, |cold| {
        let lake = cold.volume.dir.path().join("lake");
        for dir in ["a", "b", "c", "d"] {
            fs::create_dir_all(lake.join(dir)).unwrap();
            fs::write(lake.join(dir).join("name"), "text").unwrap();
        }
        let options = LinkOptions {
            url: format!("file://{}", lake.display()),
            import: Policy::default(),
            export: Policy::default(),
            lazy_dirs: true,
            attributes: Attributes::Auto,
            poll_s: 3_600,
            endpoint: None,
            region: None,
            profile: None,
            anonymous: false,
        };
        let ino = weir_types::Ino(fs::metadata(cold.at("dir")).unwrap().ino());
        let linked = cold.mounted.engine.link_bucket(ino, "/dir", options);
        cold.volume.runtime.block_on(linked).unwrap();
        assert_eq!(fs::read_dir(cold.at("dir")).unwrap().count(), 4);
        cold.gate.0.shut();
        let dir = shown(&cold.at("dir"));
        each_is_killed(&cold, "lookup", &TWO, |number| {
            format!("stat {dir}/{}/name", ["a", "b"][number])
        });
        each_is_killed(&cold, "opendir", &TWO, |number| {
            format!("ls -U {dir}/{}", ["c", "d"][number])
        });
        cold.gate.0.open();
        for at in ["a", "b", "c", "d"] {
            assert_eq!(fs::read_to_string(cold.at("dir").join(at).join("name")).unwrap(), "text");
        }
        cold.end();
    });
}

#[test]
fn who_is_killed_while_a_hole_waits_leaves_it_to_the_daemon() {
    on_both(by_the_daemon, |cold| {
        // The kernel has its pages, and the tier has not.
        assert!(fs::read(cold.at("other")).unwrap() == bytes());
        cold.volume.runtime.block_on(cold.mounted.engine.release_all()).unwrap();
        fs::metadata(cold.at("cold")).unwrap();
        cold.gate.0.shut();
        let file = shown(&cold.at("other"));
        each_is_killed(&cold, "fallocate", &TWO, |_| format!("fallocate -p -o 10 -l 20 {file}"));
        cold.gate.0.open();
        let mut wanted = bytes();
        wanted[10..30].fill(0);
        eventually("it is a hole", || fs::read(cold.at("other")).unwrap() == wanted);
        cold.end();
    });
}

#[test]
fn who_is_killed_while_a_copy_waits_leaves_it_to_the_daemon() {
    on_both(by_the_daemon, |cold| {
        fs::metadata(cold.at("other")).unwrap();
        fs::write(cold.at("copy"), vec![1; 100_000]).unwrap();
        cold.gate.0.shut();
        let (from, to) = (shown(&cold.at("other")), shown(&cold.at("copy")));
        // Less than is worth sharing: its bytes are read.
        let python = format!(
            "python3 -c 'import os; os.copy_file_range(os.open(\"{from}\", 0), os.open(\"{to}\", 1), 50000)'"
        );
        each_is_killed(&cold, "copy_file_range", &TWO, |_| python.clone());
        cold.gate.0.open();
        let mut wanted = vec![1; 100_000];
        wanted[..50_000].copy_from_slice(&bytes()[..50_000]);
        eventually("it is copied", || fs::read(cold.at("copy")).unwrap() == wanted);
        cold.end();
    });
}

/// What is renamed over another file must be in the bucket before.
#[test]
fn who_is_killed_while_a_rename_waits_leaves_it_to_the_daemon() {
    on_both(as_it_is, |cold| {
        for number in 0..TWO.len() {
            fs::write(cold.at(&format!("new-{number}")), "new").unwrap();
        }
        fs::metadata(cold.at("other")).unwrap();
        cold.gate.0.shut();
        let other = shown(&cold.at("other"));
        each_is_killed(&cold, "rename", &TWO, |number| {
            format!("mv -fT {} {other}", shown(&cold.at(&format!("new-{number}"))))
        });
        assert_eq!(fs::metadata(cold.at("other")).unwrap().len(), FILE_BYTES as u64);
        cold.gate.0.open();
        eventually("both are renamed", || {
            let left = |number| cold.at(&format!("new-{number}")).exists();
            !(0..TWO.len()).any(left)
        });
        assert_eq!(fs::read(cold.at("other")).unwrap(), b"new");
        cold.end();
    });
}

/// Where the metadata holds all that it may while the bucket is away, changes of it wait.
fn fill_the_metadata(cold: &Cold) {
    let (file, value) = (cold.at("full"), vec![7; 60_000]);
    fs::write(&file, "").unwrap();
    let (done, told) = std::sync::mpsc::channel();
    // The last one waits too, until the bucket is back.
    std::thread::spawn(move || {
        for number in 0..4_000 {
            let name = format!("user.{}", number % 8);
            let set = rustix::fs::setxattr(&file, name, &value, rustix::fs::XattrFlags::empty());
            let Ok(()) = set else { return };
            let Ok(()) = done.send(()) else { return };
        }
    });
    while told.recv_timeout(Duration::from_secs(2)).is_ok() {}
}

#[test]
fn what_is_changed_behind_a_killed_caller_is_seen() {
    on_both(as_it_is, |cold| {
        for name in ["gone", "kept-of-gone", "linked", "private"] {
            fs::write(cold.at(name), name).unwrap();
        }
        fs::remove_file(cold.at("kept-of-gone")).unwrap();
        fs::hard_link(cold.at("gone"), cold.at("kept-of-gone")).unwrap();
        fs::create_dir(cold.at("empty")).unwrap();
        cold.gate.0.shut();
        fill_the_metadata(&cold);
        let is_before = || {
            let links = |name| fs::metadata(cold.at(name)).unwrap().nlink();
            assert_eq!((links("gone"), links("kept-of-gone"), links("linked")), (2, 2, 1));
            assert_eq!(fs::metadata(cold.at("private")).unwrap().mode() & 0o777, 0o644);
            assert!(cold.at("empty").exists());
            for name in ["made", "node", "dir-made", "symlink", "link"] {
                assert!(!cold.at(name).exists(), "{name}");
            }
        };
        is_before();
        for (kind, line) in [
            ("unlink", "unlink gone"),
            ("rmdir", "rmdir empty"),
            ("create", "dd if=/dev/null of=made status=none"),
            ("mknod", "mkfifo node"),
            ("mkdir", "mkdir dir-made"),
            ("symlink", "ln -s linked symlink"),
            ("link", "ln linked link"),
            ("setattr", "chmod 600 private"),
        ] {
            let dir = shown(&cold.mounted.path);
            let child = cold.waiting(kind, &format!("sh -c 'cd {dir} && exec {line}'"));
            signal(&child, Signal::KILL);
            assert_eq!(ended(child, line).signal(), Some(Signal::KILL.as_raw()), "`{line}`");
        }
        is_before();
        cold.gate.0.open();
        let now = |name: &str| fs::symlink_metadata(cold.at(name)).ok();
        let all_made =
            || ["made", "node", "dir-made", "symlink", "link"].iter().all(|n| now(n).is_some());
        eventually("what was made is there", all_made);
        eventually("what was removed is gone", || now("gone").is_none() && now("empty").is_none());
        let links = |name| now(name).map(|of| of.nlink());
        eventually("links are counted", || {
            (links("kept-of-gone"), links("linked")) == (Some(1), Some(2))
        });
        eventually("attributes are new", || {
            now("private").is_some_and(|of| of.mode() & 0o777 == 0o600)
        });
        cold.end();
    });
}

/// In a mount that is not alone with its volume the daemon keeps the locks.
#[test]
fn who_waits_for_a_lock_can_be_killed_while_the_bucket_is_away() {
    let Some(cold) = Cold::new(false, FuseOptions::shared) else { return };
    let file = fs::File::create(cold.at("lock")).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    cold.gate.0.shut();
    let line = format!("flock {} true", shown(&cold.at("lock")));
    each_is_killed(&cold, "setlk", &TWO, |_| line.clone());
    drop(file);
    cold.end();
}

/// What the kernel remembers may be a moment older than what was left to the daemon.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < end, "it is not so that {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
