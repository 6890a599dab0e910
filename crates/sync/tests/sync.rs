//! Trees copied between directories and buckets, and what must not happen on the way.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use object_store::ObjectStore;
use object_store::memory::InMemory;
use rustix::fs::{FileType, XattrFlags};
use tempfile::TempDir;
use weir_object::testing::{FaultPlan, FaultStore, S3Server};
use weir_object::{Bucket, Component, ConnectOptions, Meter};
use weir_sync::{Comparison, Options, Place, Progress, Report, Scope, sync};
use weir_types::{ErrorKind, Result};

const OPTIONS: Options = Options {
    snapshot: false,
    scope: Scope { only: None, leave: Vec::new() },
    comparison: Comparison::SizeAndTime,
    delete: false,
    empty: false,
    dry_run: false,
    verify: false,
    jobs: 8,
};

struct World {
    dir: TempDir,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().expect("dir");
        for name in ["from", "to"] {
            fs::create_dir(dir.path().join(name)).expect("dir");
        }
        World { dir }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    fn write(&self, below: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().expect("a parent")).expect("dirs");
        fs::write(&path, bytes).expect("written");
    }

    /// Makes a file old: stores tell seconds, and within one nothing is known.
    fn age(&self, below: &str) {
        let file = fs::File::open(self.path(below)).expect("open");
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
            .expect("a time");
    }

    fn place(&self, name: &str) -> Place {
        Place::directory(&self.path(name), false).expect("a place")
    }

    async fn sync(&self, options: Options) -> Report {
        run(&self.place("from"), &self.place("to"), options).await.expect("synced")
    }
}

async fn run(from: &Place, to: &Place, options: Options) -> Result<Report> {
    sync(from, to, &options, &Arc::new(Progress::default())).await
}

fn memory() -> Bucket {
    over(Arc::new(InMemory::new()))
}

fn over(store: Arc<dyn ObjectStore>) -> Bucket {
    let url = "memory://b/tree".parse().expect("a URL");
    Bucket::from_store(&url, store, &ConnectOptions::default(), &Meter::new())
}

/// Path, mode, time, length and first byte of a file.
type Facts = (PathBuf, u32, (i64, i64), usize, Option<u8>);

/// Everything below a directory.
fn tree(root: &Path) -> Vec<Facts> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("read").map(|entry| entry.expect("entry")) {
            let (path, meta) = (entry.path(), entry.metadata().expect("metadata"));
            let bytes = match meta.is_symlink() {
                true => fs::read_link(&path).expect("link").as_os_str().as_bytes().to_vec(),
                false if meta.is_dir() => Vec::new(),
                false => fs::read(&path).expect("read"),
            };
            if meta.is_dir() {
                open.push(path.clone());
            }
            let below = path.strip_prefix(root).expect("below").to_owned();
            found.push((
                below,
                meta.mode(),
                (meta.mtime(), meta.mtime_nsec()),
                bytes.len(),
                bytes.first().copied(),
            ));
        }
    }
    found.sort();
    found
}

fn assert_same(world: &World) {
    let (from, to) = (tree(&world.path("from")), tree(&world.path("to")));
    let differ: Vec<_> = from.iter().filter(|of| !to.contains(of)).collect();
    let extra: Vec<_> = to.iter().filter(|of| !from.contains(of)).collect();
    assert!(differ.is_empty() && extra.is_empty(), "differ: {differ:?}, extra: {extra:?}");
}

#[tokio::test]
async fn a_directory_becomes_like_another_and_stays_so() {
    let world = World::new();
    world.write("from/a/b/c.txt", "deep");
    world.write("from/a-b", "sorts between");
    world.write("from/empty file", "");
    fs::create_dir(world.path("from/empty")).expect("dir");
    fs::set_permissions(world.path("from/a"), fs::Permissions::from_mode(0o2750)).expect("mode");
    fs::set_permissions(world.path("from/a-b"), fs::Permissions::from_mode(0o4711)).expect("mode");
    symlink("a/b/c.txt", world.path("from/link")).expect("link");
    symlink("/nowhere", world.path("from/a/dangling")).expect("link");
    fs::hard_link(world.path("from/a-b"), world.path("from/a/same")).expect("hard link");
    let sparse = fs::File::create(world.path("from/sparse")).expect("file");
    std::os::unix::fs::FileExt::write_at(&sparse, b"end", 64 << 20).expect("written");
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    sparse.set_modified(old).expect("a time");
    let report = world.sync(OPTIONS).await;
    assert_eq!((report.failed, report.skipped), (0, 0), "{report:?}");
    assert_same(&world);
    let of = |name: &str| fs::metadata(world.path(name)).expect("metadata");
    assert_eq!(of("to/a-b").ino(), of("to/a/same").ino(), "one file with two names");
    assert!(of("to/sparse").blocks() * 512 < 1 << 20, "the hole was filled");

    let again = world.sync(OPTIONS).await;
    assert_eq!((again.copied, again.bytes, again.failed), (0, 0, 0), "{again:?}");
    world.write("from/a/b/c.txt", "other");
    fs::set_permissions(world.path("from/empty file"), fs::Permissions::from_mode(0o600))
        .expect("mode");
    let changed = world.sync(OPTIONS).await;
    assert_eq!(changed.bytes, 5, "{changed:?}");
    assert_same(&world);
}

#[tokio::test]
async fn what_only_the_destination_has_goes_only_if_asked() {
    let world = World::new();
    world.write("from/keep", "1");
    world.write("to/old/deep/file", "2");
    symlink("/etc", world.path("to/old/link")).expect("link");
    let report = world.sync(OPTIONS).await;
    assert_eq!((report.extra, report.deleted), (4, 0));
    let dry = world.sync(Options { delete: true, dry_run: true, ..OPTIONS }).await;
    assert_eq!(dry.deleted, 4);
    assert!(world.path("to/old/deep/file").exists());
    let report = world.sync(Options { delete: true, ..OPTIONS }).await;
    assert_eq!((report.deleted, report.failed), (4, 0), "{report:?}");
    assert_same(&world);
    assert!(Path::new("/etc/passwd").exists());
}

#[tokio::test]
async fn an_empty_source_deletes_nothing_unless_that_is_meant() {
    let world = World::new();
    world.write("to/all", "1");
    let options = Options { delete: true, ..OPTIONS };
    let refused = run(&world.place("from"), &world.place("to"), options.clone()).await;
    let refused = refused.expect_err("refused");
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("is it mounted?"), "{refused}");
    assert!(world.path("to/all").exists());
    let report = world.sync(Options { empty: true, ..options }).await;
    assert_eq!(report.deleted, 1);
}

#[tokio::test]
async fn a_link_at_the_destination_leads_nowhere() {
    let world = World::new();
    world.write("from/d/victim", "new");
    world.write("outside/victim", "old");
    symlink(world.path("outside"), world.path("to/d")).expect("link");
    let report = world.sync(OPTIONS).await;
    assert!(report.failed > 0, "{report:?}");
    assert_eq!(fs::read(world.path("outside/victim")).expect("read"), b"old");
    // Only the destination has the link, so that it may go.
    let report = world.sync(Options { delete: true, ..OPTIONS }).await;
    assert_eq!(report.failed, 0, "{report:?}");
    assert_eq!(fs::read(world.path("outside/victim")).expect("read"), b"old");
    assert_eq!(fs::read(world.path("to/d/victim")).expect("read"), b"new");
    // An object of that key, too.
    fs::remove_dir_all(world.path("to/d")).expect("removed");
    symlink(world.path("outside"), world.path("to/d")).expect("link");
    let bucket = memory();
    bucket.put(Component::Data, "d/victim", "newer").await.expect("put");
    let report = run(&Place::Bucket(bucket), &world.place("to"), OPTIONS).await.expect("ran");
    assert_eq!(fs::read(world.path("outside/victim")).expect("read"), b"old", "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_goes_to_a_bucket_to_another_and_comes_back() {
    let server = S3Server::start().await.expect("S3 server");
    let connect = |bucket: &str| {
        let url = server.bucket(bucket, "a/tree").expect("bucket");
        Bucket::connect(&url, &server.options(), &Meter::new()).expect("connect")
    };
    let (first, second) = (Place::Bucket(connect("first")), Place::Bucket(connect("second")));
    let world = World::new();
    world.write("from/small", "small");
    world.write("from/a/b/empty", "");
    world.write("from/a-b", "sorts between a and what is in it");
    let large: Vec<u8> = (0..40_u32 << 18).flat_map(u32::to_le_bytes).collect();
    world.write("from/a/large", &large);
    let bytes = large.len() as u64 + 38;
    for name in ["from/small", "from/a/b/empty", "from/a-b", "from/a/large"] {
        world.age(name);
    }
    let options = Options { verify: true, ..OPTIONS };
    for (from, to, copied) in [
        (&world.place("from"), &first, (4, bytes)),
        (&world.place("from"), &first, (0, 0)),
        (&first, &second, (4, bytes)),
        (&first, &second, (0, 0)),
        (&second, &world.place("to"), (4, bytes)),
        (&second, &world.place("to"), (0, 0)),
    ] {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let report = run(from, to, options.clone()).await.expect("synced");
        assert_eq!(report.failed, 0, "{report:?}");
        assert_eq!((report.copied, report.bytes), copied, "{report:?}");
    }
    assert_eq!(fs::read(world.path("to/a/large")).expect("read"), large);
    assert_eq!(fs::read(world.path("to/a/b/empty")).expect("read"), b"");
    let told = connect("second").head_attributes(Component::Data, "small").await.expect("head").1;
    assert!(told["file-permissions"].starts_with("0100"), "{told:?}");

    // What marks a directory is no file, and stays.
    fs::remove_file(world.path("from/a/large")).expect("removed");
    let delete = Options { delete: true, ..OPTIONS };
    let report = run(&world.place("from"), &first, delete).await.expect("synced");
    assert_eq!((report.deleted, report.failed), (1, 0), "{report:?}");
    assert!(connect("first").head(Component::Data, "a/large").await.is_err());
    assert!(run(&first, &Place::Bucket(connect("first")), OPTIONS).await.is_err(), "one place");
}

#[tokio::test]
async fn names_that_no_object_can_have_fail_alone() {
    let world = World::new();
    world.write("from/good", "1");
    let odd = world.path("from").join(std::ffi::OsStr::from_bytes(b"odd\xff"));
    fs::write(odd, "2").expect("written");
    let report = run(&world.place("from"), &Place::Bucket(memory()), OPTIONS).await.expect("ran");
    assert_eq!((report.copied, report.failed), (1, 1));
    assert!(report.failures[0].error.contains("UTF-8"), "{report:?}");
}

#[tokio::test]
async fn a_copy_with_other_bytes_is_told() {
    let world = World::new();
    world.write("from/file", vec![7; 100_000]);
    let plan: FaultPlan = "op=get,where=half,what=bitflip".parse().expect("a plan");
    let store = FaultStore::new(Arc::new(InMemory::new()), &plan);
    let options = Options { verify: true, ..OPTIONS };
    let bucket = Place::Bucket(over(Arc::new(store)));
    let report = run(&world.place("from"), &bucket, options).await.expect("ran");
    assert_eq!(report.failed, 1, "{report:?}");
    assert!(report.failures[0].error.contains("other bytes"), "{report:?}");
}

#[tokio::test]
async fn a_run_that_is_broken_off_leaves_files_whole_and_goes_on() {
    let world = World::new();
    for n in 0..200 {
        world.write(&format!("from/d{}/f{n}", n % 7), vec![n as u8; 50_000]);
    }
    world.write("to/d0/f0", "as it was");
    let progress = Arc::new(Progress::default());
    let (from, to, told) = (world.place("from"), world.place("to"), progress.clone());
    let options = Options { jobs: 2, ..OPTIONS };
    let running = tokio::spawn(async move { sync(&from, &to, &options, &told).await });
    while progress.files_done.load(Ordering::Relaxed) < 20 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    progress.cancelled.store(true, Ordering::Relaxed);
    let broken_off = running.await.expect("no panic").expect_err("broken off");
    assert!(broken_off.to_string().contains("run it again"), "{broken_off}");
    for (path, _, _, length, _) in tree(&world.path("to")) {
        let whole = world.path("to").join(&path).is_dir() || [50_000, 9].contains(&length);
        assert!(whole, "{path:?} has {length} bytes");
    }
    let report = world.sync(OPTIONS).await;
    assert!(report.same >= 20 && report.failed == 0, "{report:?}");
    assert_same(&world);
}

/// Bytes that no other offset has.
fn numbered(bytes: u64) -> Vec<u8> {
    (0..bytes / 8).flat_map(u64::to_le_bytes).collect()
}

/// Breaks a copy of one file off once so many bytes are there, from a place that may be a bucket.
async fn broken_off_at(bytes: u64, from: &Place, to: &Place) {
    let progress = Arc::new(Progress::default());
    let options = OPTIONS;
    let run = sync(from, to, &options, &progress);
    let enough = async {
        while progress.bytes_done.load(Ordering::Relaxed) < bytes {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        progress.cancelled.store(true, Ordering::Relaxed);
    };
    let (ended, ()) = tokio::join!(run, enough);
    ended.expect_err("broken off");
}

/// The file that an earlier run left, if it left one.
fn left(world: &World) -> Option<PathBuf> {
    let entries = fs::read_dir(world.path("to")).expect("read").map(|entry| entry.expect("entry"));
    entries.map(|entry| entry.path()).find(|path| !path.ends_with("large"))
}

#[tokio::test]
async fn a_large_file_goes_on_where_it_was_broken_off_if_it_is_still_the_same() {
    const NOTED: u64 = 256 << 20;
    let world = World::new();
    let (from, to) = (world.place("from"), world.place("to"));
    let bytes = numbered(NOTED + (128 << 20));
    world.write("from/large", &bytes);
    broken_off_at(NOTED + (1 << 20), &from, &to).await;
    let begun = left(&world).expect("the beginning is kept");
    // What was written is not written again, so that a change of it stays, and is told if asked.
    let file = fs::OpenOptions::new().write(true).open(&begun).expect("open");
    file.write_all_at(b"other", 0).expect("written");
    let report = world.sync(Options { verify: true, ..OPTIONS }).await;
    assert_eq!(report.failed, 1, "{report:?}");
    let got = fs::read(world.path("to/large")).expect("read");
    assert!(got.starts_with(b"other") && got[5..] == bytes[5..], "it went on, and to the end");
    assert_eq!(left(&world), None);
    assert!(xattr(&world.path("to/large")).is_empty(), "nothing of it shows");

    // With another source nothing of it is taken.
    fs::remove_file(world.path("to/large")).expect("removed");
    broken_off_at(NOTED + (1 << 20), &from, &to).await;
    assert!(left(&world).is_some());
    world.write("from/large", vec![7; 1 << 20]);
    world.sync(OPTIONS).await;
    assert!(fs::read(world.path("to/large")).expect("read") == vec![7; 1 << 20]);
    assert_eq!(left(&world), None);
    assert!(xattr(&world.path("to/large")).is_empty(), "nothing of the one before shows");
}

#[tokio::test]
async fn a_large_object_goes_on_where_it_was_broken_off_if_it_is_still_the_same() {
    const NOTED: u64 = 256 << 20;
    let (world, bucket) = (World::new(), memory());
    let bytes = numbered(NOTED + (128 << 20));
    let put = |bytes: Vec<u8>| async {
        bucket.put(Component::Data, "large", bytes).await.expect("put");
    };
    put(bytes.clone()).await;
    let (from, to) = (Place::Bucket(bucket.clone()), world.place("to"));
    broken_off_at(NOTED + (32 << 20), &from, &to).await;
    let begun = left(&world).expect("the beginning is kept");
    let file = fs::OpenOptions::new().write(true).open(&begun).expect("open");
    file.write_all_at(b"other", 0).expect("written");
    run(&from, &to, OPTIONS).await.expect("synced");
    let got = fs::read(world.path("to/large")).expect("read");
    assert!(got.starts_with(b"other") && got[5..] == bytes[5..], "it went on, and to the end");

    // Another object of the same length is another one.
    fs::remove_file(world.path("to/large")).expect("removed");
    broken_off_at(NOTED + (32 << 20), &from, &to).await;
    assert!(left(&world).is_some());
    let others: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
    put(others.clone()).await;
    run(&from, &to, OPTIONS).await.expect("synced");
    assert!(fs::read(world.path("to/large")).expect("read") == others);
    assert_eq!(left(&world), None);
    assert!(xattr(&world.path("to/large")).is_empty());
}

fn xattr(path: &Path) -> Vec<u8> {
    let mut names = vec![0; 4096];
    let length = rustix::fs::listxattr(path, &mut names[..]).expect("listed");
    names.truncate(length);
    names
}

#[tokio::test]
async fn places_in_each_other_are_refused() {
    let world = World::new();
    world.write("from/sub/x", "1");
    for (from, to) in [("from", "from"), ("from", "from/sub"), ("from/sub", "from")] {
        let refused = run(&world.place(from), &world.place(to), OPTIONS).await;
        assert!(refused.is_err(), "{from} to {to}");
    }
    let inside = format!("file://{}", world.path("from/sub").display()).parse().expect("a URL");
    let bucket = Bucket::connect(&inside, &ConnectOptions::default(), &Meter::new());
    let refused =
        run(&world.place("from"), &Place::Bucket(bucket.expect("a bucket")), OPTIONS).await;
    assert!(refused.is_err());
}

#[tokio::test]
async fn sockets_pipes_and_attributes_go_with_the_rest() {
    let world = World::new();
    let _socket =
        std::os::unix::net::UnixListener::bind(world.path("from/socket")).expect("socket");
    let fifo = world.path("from/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, 0o640.into(), 0).expect("pipe");
    world.write("from/file", "1");
    let has_attributes = set(&world.path("from/file"), "user.kind", "a");
    let report = world.sync(OPTIONS).await;
    assert_eq!((report.copied, report.skipped, report.failed), (3, 0, 0), "{report:?}");
    let mode = |name: &str| fs::symlink_metadata(world.path(name)).expect("is there").mode();
    for name in ["socket", "pipe", "file"] {
        assert_eq!(mode(&format!("to/{name}")), mode(&format!("from/{name}")), "{name}");
    }
    if has_attributes {
        assert_eq!(attribute(&world.path("to/file"), "user.kind"), b"a");
    }
    let bucket = Place::Bucket(memory());
    let report = run(&world.place("from"), &bucket, OPTIONS).await.expect("ran");
    assert_eq!((report.copied, report.skipped, report.failed), (1, 2, 0), "{report:?}");
}

fn set(path: &Path, name: &str, value: &str) -> bool {
    let set = rustix::fs::setxattr(path, name, value.as_bytes(), XattrFlags::empty());
    set != Err(rustix::io::Errno::OPNOTSUPP) && set.map(|()| true).expect("set")
}

fn attribute(path: &Path, name: &str) -> Vec<u8> {
    let mut value = vec![0; 100];
    let length = rustix::fs::getxattr(path, name, &mut value[..]).expect("is there");
    value.truncate(length);
    value
}

/// Whatever is looked at first, and whichever of both names is the one that is there.
#[tokio::test]
async fn two_names_of_one_file_are_two_names_of_one_again() {
    const FILES: usize = 200;
    let world = World::new();
    let (first, second) = (|n| format!("a/{n}"), |n| format!("b/{n}"));
    let make = |top: &str, n: usize| {
        world.write(&format!("{top}/{}", first(n)), format!("file {n}"));
        fs::create_dir_all(world.path(&format!("{top}/b"))).expect("made");
        let names = [first(n), second(n)].map(|name| world.path(&format!("{top}/{name}")));
        fs::hard_link(&names[0], &names[1]).expect("linked");
    };
    (0..FILES).for_each(|n| make("from", n));
    let whole = Options { delete: true, snapshot: true, ..OPTIONS };
    world.sync(whole.clone()).await;
    for n in 0..FILES {
        let names = [first(n), second(n)].map(|name| world.path(&format!("to/{name}")));
        let apart = |name: &PathBuf| {
            let copied = std::process::Command::new("cp")
                .args(["-p", "--remove-destination"])
                .args([&world.path(&format!("from/{}", first(n))), name])
                .status();
            assert!(copied.expect("runs").success());
        };
        match n % 4 {
            // Its ctime is another one then, and its attributes are looked at.
            0 => fs::remove_file(&names[1]).expect("removed"),
            1 => fs::remove_file(&names[0]).expect("removed"),
            2 => apart(&names[0]),
            _ => world.write(&format!("to/{}", second(n)), "longer than it was"),
        }
    }
    let report = world.sync(whole.clone()).await;
    assert_eq!(report.failed, 0, "{report:?}");
    for n in 0..FILES {
        let names = [first(n), second(n)].map(|name| world.path(&format!("to/{name}")));
        let of = |name: &PathBuf| {
            let meta = fs::metadata(name).expect("is there");
            (meta.ino(), meta.nlink(), meta.len())
        };
        assert_eq!(of(&names[0]), of(&names[1]), "{n}");
        assert_eq!(
            (of(&names[0]).1, of(&names[0]).2),
            (2, format!("file {n}").len() as u64),
            "{n}"
        );
    }
    let report = world.sync(whole).await;
    assert_eq!((report.copied, report.failed), (0, 0), "a second run does something: {report:?}");
}

#[tokio::test]
async fn an_earlier_state_comes_back_whatever_became_of_it() {
    let world = World::new();
    for file in ["same", "grown", "gone/deep/a", "was-file", "was-dir/a/b", "linked/object"] {
        world.write(&format!("to/{file}"), file);
    }
    fs::hard_link(world.path("to/grown"), world.path("to/second")).expect("linked");
    symlink("same", world.path("to/was-link")).expect("linked");
    let has_attributes = set(&world.path("to/same"), "user.kind", "a");
    let copied = std::process::Command::new("cp")
        .args(["-a", "--no-target-directory"])
        .args([world.path("to"), world.path("from")])
        .status();
    assert!(copied.expect("runs").success());

    world.write("to/grown", "grown and more");
    fs::remove_dir_all(world.path("to/gone")).expect("removed");
    fs::remove_dir_all(world.path("to/was-dir")).expect("removed");
    for file in ["was-file", "was-link"] {
        fs::remove_file(world.path(&format!("to/{file}"))).expect("removed");
        world.write(&format!("to/{file}/inside"), "came since");
    }
    world.write("to/was-dir", "a file");
    world.write("to/new/deep/b", "came since");
    world.write("to/linked/object", "an object of somebody else");
    world.write("to/new/linked/object", "an object of somebody else");
    if has_attributes {
        set(&world.path("to/same"), "user.kind", "b");
    }
    let leave = vec![b"linked".into(), b"new/linked".into()];
    let whole = Options {
        delete: true,
        empty: true,
        snapshot: true,
        scope: Scope { only: None, leave },
        ..OPTIONS
    };
    let only = |path: &str| Scope { only: Some(path.into()), leave: Vec::new() };
    let one = Options { scope: only("gone/deep"), ..whole.clone() };
    let report = world.sync(one.clone()).await;
    assert_eq!((report.copied, report.deleted, report.failed), (3, 0, 0), "{report:?}");
    assert!(world.path("to/gone/deep/a").exists() && world.path("to/new/deep/b").exists());
    let report = world.sync(Options { scope: only("was-link"), ..whole.clone() }).await;
    assert_eq!((report.copied, report.deleted, report.failed), (1, 2, 0), "{report:?}");

    let report = world.sync(whole.clone()).await;
    assert_eq!((report.failed, report.extra), (0, 0), "{report:?}");
    let told = |name: &str| fs::read(world.path(name)).expect("reads");
    assert_eq!(told("to/linked/object"), b"an object of somebody else");
    assert_eq!(told("to/new/linked/object"), b"an object of somebody else");
    fs::remove_dir_all(world.path("to/new")).expect("removed");
    fs::copy(world.path("from/linked/object"), world.path("to/linked/object")).expect("copied");
    let left = std::process::Command::new("diff")
        .args(["-r", "--no-dereference"])
        .args([world.path("to"), world.path("from")])
        .output();
    assert_eq!(String::from_utf8_lossy(&left.expect("runs").stdout), "");
    let inode = |name: &str| fs::metadata(world.path(name)).expect("is there").ino();
    assert_eq!(inode("to/grown"), inode("to/second"));
    if has_attributes {
        assert_eq!(attribute(&world.path("to/same"), "user.kind"), b"a");
    }
    let again = world.sync(whole).await;
    assert_eq!((again.copied, again.deleted, again.failed), (0, 0, 0), "{again:?}");
}

#[tokio::test]
async fn random_trees_become_the_same() {
    use rand::{RngExt, SeedableRng};
    let seed = std::env::var("WEIR_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(rand::random::<u64>);
    eprintln!("WEIR_SEED={seed}");
    let mut random = rand::rngs::StdRng::seed_from_u64(seed);
    let names = ["a", "a-", "a0", "b", "B", "ab", "a b", "ü"];
    let world = World::new();
    for round in 0..12 {
        for _ in 0..30 {
            let side = if random.random_bool(0.7) { "from" } else { "to" };
            let depth = random.random_range(1..4);
            let parts: Vec<&str> =
                (0..depth).map(|_| names[random.random_range(0..names.len())]).collect();
            let path = world.path(side).join(parts.join("/"));
            let parent = path.parent().expect("a parent").to_owned();
            match random.random_range(0..5) {
                0 => drop(fs::remove_dir_all(&path)),
                1 => drop(fs::remove_file(&path)),
                2 if fs::create_dir_all(&parent).is_ok() => drop(symlink(parts[0], &path)),
                _ if fs::create_dir_all(&parent).is_ok() => {
                    let length = random.random_range(0..5_000);
                    let _ = fs::write(&path, vec![round; length]);
                }
                _ => {}
            }
        }
        let options = Options { delete: true, empty: true, ..OPTIONS };
        let report = world.sync(options).await;
        assert_eq!(report.failed, 0, "{report:?}");
        assert_same(&world);
    }
}
