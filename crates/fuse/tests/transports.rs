//! Both ways by which requests come, `/dev/fuse` and io_uring, seen through system calls.
//!
//! Where nothing can be mounted, or the kernel has no FUSE over io_uring, the tests say so and do
//! nothing.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "nothing here is async")]

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{Mounted, REQUEST_BYTES, byte_at, eventually, mount};
use rustix::fs::{XattrFlags, getxattr, listxattr, setxattr};
use rustix::mount::{MountFlags, UnmountFlags};

/// Over each transport, answered at once and by another thread.
fn on_each(body: impl Fn(Mounted)) {
    for (over_rings, is_later) in [(false, false), (false, true), (true, false), (true, true)] {
        eprintln!("over rings: {over_rings}, answered later: {is_later}");
        if let Some(mounted) = mount(over_rings, is_later) {
            body(mounted);
        }
    }
}

fn errno<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

fn read_at(path: &Path, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; bytes];
    File::open(path)?.read_exact_at(&mut buffer, offset)?;
    Ok(buffer)
}

/// A program of its own that waits for a read.
fn reader(path: &Path) -> Child {
    let mut command = Command::new("head");
    command.args(["-c", "4096"]).arg(path).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

fn ended(children: &mut [Child]) -> Vec<ExitStatus> {
    children.iter_mut().map(|child| child.wait().unwrap()).collect()
}

/// Has the kernel end a mount: by the file system in which it lets mounts be controlled.
fn abort(device: u64) {
    let control = std::env::temp_dir().join(format!("weir-fusectl-{}", std::process::id()));
    fs::create_dir(&control).unwrap();
    rustix::mount::mount("none", &control, "fusectl", MountFlags::empty(), None).unwrap();
    let aborted = fs::write(control.join(libc::minor(device).to_string()).join("abort"), "1");
    rustix::mount::unmount(&control, UnmountFlags::empty()).unwrap();
    fs::remove_dir(&control).unwrap();
    aborted.unwrap();
}

#[test]
fn each_kind_of_answer_arrives() {
    on_each(|mounted| {
        let at = |name| mounted.at(name);
        assert_eq!(fs::metadata(at("large")).unwrap().len(), 64 << 20);
        assert_eq!(errno(fs::metadata(at("nothing"))), Some(libc::ENOENT));
        assert_eq!(fs::read_link(at("link")).unwrap().as_os_str(), "file");
        assert_eq!(fs::read_dir(&mounted.path).unwrap().map(Result::unwrap).count(), 7);
        let space = rustix::fs::statvfs(&mounted.path).unwrap();
        assert_eq!((space.f_blocks, space.f_bfree, space.f_ffree), (1000, 600, 7));

        let mut value = [0; 16];
        assert_eq!(getxattr(at("file"), "user.a", &mut value).unwrap(), 5);
        assert_eq!(&value[..5], b"value");
        assert_eq!(listxattr(at("file"), &mut value).unwrap(), 7);
        assert_eq!(&value[..7], b"user.a\0");

        // These say by their error that name and bytes came as they were sent.
        let set = setxattr(at("file"), "user.b", b"bytes", XattrFlags::empty());
        assert_eq!(set, Err(rustix::io::Errno::DQUOT));
        assert_eq!(errno(symlink("target", at("symlink"))), Some(libc::EDQUOT));
        assert_eq!(errno(File::create(at("refused"))), Some(libc::EACCES));

        let new = File::create(at("new")).unwrap();
        assert_eq!(new.metadata().unwrap().ino(), 99);
        let found = rustix::fs::seek(&new, rustix::fs::SeekFrom::Data(7));
        assert_eq!(found, Ok(12));
        let mut lock = libc::flock { l_type: 1, l_whence: 0, l_start: 0, l_len: 0, l_pid: 0 };
        // SAFETY: the descriptor is open, and the kernel writes one such struct at the address.
        #[allow(unsafe_code, reason = "no library asks for locks")]
        let asked = unsafe { libc::fcntl(new.as_raw_fd(), libc::F_GETLK, &raw mut lock) };
        assert_eq!((asked, lock.l_start, lock.l_len), (0, 3, 7));
        drop(new);
        mounted.end();
    });
}

#[test]
fn large_reads_and_writes_are_whole() {
    on_each(|mounted| {
        for (offset, bytes) in [(0, 1), (5, 4096), (77, REQUEST_BYTES), (1 << 20, 7 << 20)] {
            let read = read_at(&mounted.at("large"), offset, bytes).unwrap();
            let wanted: Vec<u8> = (offset..offset + bytes as u64).map(byte_at).collect();
            assert!(read == wanted, "{bytes} bytes at {offset}");
        }
        let wanted: Vec<u8> = (0..(5 << 20) + 123).map(byte_at).collect();
        fs::write(mounted.at("file"), &wanted).unwrap();
        assert!(fs::read(mounted.at("file")).unwrap() == wanted);
        mounted.end();
    });
}

#[test]
fn many_threads_get_each_its_own_answers() {
    on_each(|mounted| {
        let file = File::open(mounted.at("large")).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..24_u64 {
                let (file, mounted) = (&file, &mounted);
                scope.spawn(move || {
                    for round in 0..40_u64 {
                        let offset = (thread * 40 + round) * 8191;
                        let bytes = [100, 4096, 70_000][(round % 3) as usize];
                        let mut buffer = vec![0; bytes];
                        file.read_exact_at(&mut buffer, offset).unwrap();
                        let right = |(at, byte): (usize, &u8)| byte_at(offset + at as u64) == *byte;
                        assert!(buffer.iter().enumerate().all(right), "{bytes} at {offset}");
                        assert_eq!(fs::metadata(mounted.at("large")).unwrap().ino(), 3);
                        assert!(fs::metadata(mounted.at(&format!("no-{round}"))).is_err());
                    }
                });
            }
        });
        drop(file);
        mounted.end();
    });
}

#[test]
fn who_waits_can_be_killed() {
    on_each(|mounted| {
        let mut waiting: Vec<Child> = (0..4).map(|_| reader(&mounted.at("waits"))).collect();
        std::thread::sleep(Duration::from_millis(300));
        for child in &mut waiting {
            assert!(child.try_wait().unwrap().is_none(), "it waits for nothing");
            child.kill().unwrap();
        }
        ended(&mut waiting);
        assert_eq!(mounted.tiny.interrupted.load(Ordering::SeqCst), 4);
        mounted.end();
    });
}

#[test]
fn who_is_killed_at_any_moment_is_let_go() {
    on_each(|mounted| {
        for round in 0..150_u64 {
            let mut waiting = reader(&mounted.at("waits"));
            std::thread::sleep(Duration::from_micros(round * 97 % 5000));
            waiting.kill().unwrap();
            eventually("it is gone", || waiting.try_wait().unwrap().is_some());
        }
        mounted.end();
    });
}

#[test]
fn more_may_wait_than_are_served_at_a_time() {
    on_each(|mounted| {
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..200 {
                scope.spawn(|| {
                    assert_eq!(errno(read_at(&mounted.at("stuck"), 0, 4096)), None);
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
            eventually("many wait", || mounted.tiny.waiting.lock().unwrap().len() >= 32);
            eventually("all are served", || {
                let replies = std::mem::take(&mut *mounted.tiny.waiting.lock().unwrap());
                replies.into_iter().for_each(|reply| reply.bytes(&[7; 4096]));
                done.load(Ordering::SeqCst) == 200
            });
        });
        mounted.end();
    });
}

#[test]
fn a_request_that_panics_or_is_dropped_fails_alone() {
    on_each(|mounted| {
        for name in ["panics", "dropped"] {
            for _ in 0..40 {
                assert_eq!(errno(read_at(&mounted.at(name), 0, 4096)), Some(libc::EIO), "{name}");
            }
        }
        assert_eq!(read_at(&mounted.at("large"), 9, 1).unwrap(), [byte_at(9)]);
        mounted.end();
    });
}

#[test]
fn others_are_served_while_some_wait() {
    on_each(|mounted| {
        let mut waiting: Vec<Child> = (0..6).map(|_| reader(&mounted.at("stuck"))).collect();
        eventually("all wait", || mounted.tiny.waiting.lock().unwrap().len() == 6);
        assert_eq!(read_at(&mounted.at("large"), 9, 1).unwrap(), [byte_at(9)]);
        let replies = std::mem::take(&mut *mounted.tiny.waiting.lock().unwrap());
        replies.into_iter().for_each(|reply| reply.bytes(b"late"));
        for child in &mut waiting {
            // It read to the end of the file, and that is not the end of what it wants.
            eventually("it goes on", || {
                let replies = std::mem::take(&mut *mounted.tiny.waiting.lock().unwrap());
                replies.into_iter().for_each(|reply| reply.bytes(b""));
                child.try_wait().unwrap().is_some()
            });
        }
        mounted.end();
    });
}

#[test]
fn a_name_that_expires_is_asked_for_and_what_is_mounted_on_it_stays() {
    on_each(|mounted| {
        let at = mounted.at("large");
        let looked = || {
            fs::metadata(&at).unwrap();
            mounted.tiny.lookups.load(Ordering::SeqCst)
        };
        let before = looked();
        assert_eq!(looked(), before, "it is believed");
        let other = std::env::temp_dir().join(format!("weir-over-{}", std::process::id()));
        fs::write(&other, "mounted here").unwrap();
        rustix::mount::mount_bind(&other, &at).unwrap();
        mounted.notifier.expire_entry(1, b"large").unwrap();
        assert_eq!(fs::read(&at).unwrap(), b"mounted here");
        assert_eq!(looked(), before + 1);
        rustix::mount::unmount(&at, UnmountFlags::empty()).unwrap();
        fs::remove_file(other).unwrap();
        let unknown = mounted.notifier.expire_entry(1, b"nothing").unwrap_err();
        assert_eq!(unknown.kind(), io::ErrorKind::NotFound);
        mounted.end();
    });
}

#[test]
fn after_a_new_epoch_no_name_is_believed_and_open_files_stay() {
    on_each(|mounted| {
        let looked = || {
            fs::metadata(mounted.at("large")).unwrap();
            mounted.tiny.lookups.load(Ordering::SeqCst)
        };
        let open = File::open(mounted.at("large")).unwrap();
        let before = looked();
        assert_eq!(looked(), before, "it is believed");
        match mounted.notifier.inc_epoch() {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                eprintln!("SKIPPED: this kernel has no epochs: it needs Linux 6.16");
            }
            told => {
                told.unwrap();
                assert_eq!(looked(), before + 1, "it is asked for");
                assert_eq!(looked(), before + 1, "and believed again");
                let mut byte = [0];
                open.read_exact_at(&mut byte, 9).unwrap();
                assert_eq!(byte, [byte_at(9)]);
            }
        }
        drop(open);
        mounted.end();
    });
}

#[test]
fn serving_ends_though_requests_wait() {
    on_each(|mut mounted| {
        let device = fs::metadata(&mounted.path).unwrap().dev();
        let mut waiting: Vec<Child> = (0..6).map(|_| reader(&mounted.at("stuck"))).collect();
        eventually("all wait", || mounted.tiny.waiting.lock().unwrap().len() == 6);
        mounted.unmount(UnmountFlags::DETACH);
        abort(device);
        mounted.ended();
        assert!(ended(&mut waiting).iter().all(|status| !status.success()));
        // Answers that nobody waits for any more find nobody.
        let replies = std::mem::take(&mut *mounted.tiny.waiting.lock().unwrap());
        replies.into_iter().for_each(|reply| reply.bytes(&[1; 4096]));
    });
}

/// Run by the test below, as a daemon that is killed.
#[test]
fn a_daemon_that_serves_until_it_is_killed() {
    let Ok(how) = std::env::var("WEIR_TEST_DAEMON") else { return };
    let Some(mounted) = mount(how == "uring", false) else {
        eprintln!("\nMOUNTED none");
        return;
    };
    eprintln!("\nMOUNTED {}", mounted.path.display());
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn the_kernel_clears_up_after_a_killed_daemon() {
    for how in ["dev", "uring"] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_daemon_that_serves_until_it_is_killed", "--nocapture"]);
        command.env("WEIR_TEST_DAEMON", how).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut daemon = command.spawn().unwrap();
        let (mut said, mut out) = (String::new(), daemon.stderr.take().unwrap());
        let path = loop {
            let mut byte = [0];
            out.read_exact(&mut byte).unwrap();
            said.push(char::from(byte[0]));
            let mut lines = said.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            if let Some(line) = lines.find_map(|line| line.strip_prefix("MOUNTED ")) {
                break std::path::PathBuf::from(line.trim());
            }
        };
        if path.as_os_str() == "none" {
            daemon.wait().unwrap();
            continue;
        }
        let mut waiting = reader(&path.join("stuck"));
        std::thread::sleep(Duration::from_millis(200));
        assert!(waiting.try_wait().unwrap().is_none(), "it waits for nothing");
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        eventually("who waits is let go", || waiting.try_wait().unwrap().is_some());
        assert_eq!(errno(fs::metadata(path.join("large"))), Some(libc::ENOTCONN), "{how}");
        rustix::mount::unmount(&path, UnmountFlags::empty()).unwrap();
        fs::remove_dir(&path).unwrap();
    }
}

/// What the kernel does not offer is not missed.
#[test]
fn without_rings_all_comes_from_the_device() {
    if let Some(mounted) = mount(false, false) {
        let open = OpenOptions::new().read(true).write(true).open(mounted.at("large"));
        drop(open.unwrap());
        mounted.end();
    }
}
