//! Directories in which somebody else makes links, pipes and devices.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{
    Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, Result, UpdateVersion,
};
use rustix::fs::{CWD, Mode, RenameFlags, mkfifoat, renameat_with};

use super::root::{LOCK_FILE, LocalStore};
use super::walk::opened;
use crate::asks::{ChangeAsk, OpenWalk};

struct Hostile {
    all: tempfile::TempDir,
    _socket: UnixListener,
    store: LocalStore,
}

/// A bucket with `real/file` in it and much that is no object, beside a directory that is nobody
/// else's business.
fn hostile() -> Hostile {
    let all = tempfile::tempdir().expect("temp dir");
    let (bucket, outside) = (all.path().join("bucket"), all.path().join("outside"));
    fs::create_dir_all(bucket.join("real")).expect("mkdir");
    fs::create_dir_all(outside.join("below")).expect("mkdir");
    fs::write(bucket.join("real/file"), "object").expect("write");
    for name in ["secret", "below/secret"] {
        fs::write(outside.join(name), "secret").expect("write");
    }
    for (target, name) in [
        ("../outside/secret", "link"),
        ("../outside", "directory"),
        ("..", "up"),
        ("loop", "loop"),
        ("/etc/passwd", "real/absolute"),
        ("file", "real/inside"),
        ("/proc/self/root/etc/passwd", "magic"),
        ("nowhere", "dangling"),
    ] {
        symlink(target, bucket.join(name)).expect("symlink");
    }
    mkfifoat(CWD, bucket.join("pipe"), Mode::from_raw_mode(0o666)).expect("mkfifo");
    let socket = UnixListener::bind(bucket.join("socket")).expect("socket");
    let store = LocalStore::open(&bucket, false).expect("open");
    Hostile { all, _socket: socket, store }
}

/// Keys at which there is nothing, though a program that follows links would find something.
const NO_OBJECTS: [&str; 12] = [
    "link",
    "directory/secret",
    "directory/below/secret",
    "up/outside/secret",
    "loop",
    "loop/x",
    "real/absolute",
    "real/inside",
    "magic",
    "dangling",
    "pipe",
    "socket",
];

/// Every name below a directory, with what it is.
fn tree(directory: &FilePath) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("read_dir") {
        let path = entry.expect("entry").path();
        let meta = fs::symlink_metadata(&path).expect("look");
        let text = match meta.is_file() {
            true => fs::read_to_string(&path).expect("read"),
            false => format!("{:?}", meta.file_type()),
        };
        if meta.is_dir() {
            found.extend(tree(&path));
        }
        found.insert(path, text);
    }
    found
}

async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(Duration::from_secs(10), work).await;
    done.unwrap_or_else(|_| panic!("{what} hangs"))
}

fn ask(mode: PutMode, extension: impl Clone + Send + Sync + 'static) -> PutOptions {
    let mut options = PutOptions::from(mode);
    options.extensions.insert(extension);
    options
}

#[tokio::test(flavor = "multi_thread")]
async fn no_operation_leaves_the_directory() {
    let Hostile { all, store, .. } = hostile();
    let before = tree(all.path());
    let real = Path::from("real/file");
    let etag = store.head(&real).await.expect("head").e_tag;
    let update = || PutMode::Update(UpdateVersion { e_tag: etag.clone(), version: None });
    let payload = || PutPayload::from_static(b"overwritten");
    for key in NO_OBJECTS {
        let path = Path::from(key);
        for outcome in [
            soon("get", store.get(&path)).await.map(drop),
            soon("head", store.head(&path)).await.map(drop),
            soon("range", store.get_range(&path, 0..1)).await.map(drop),
            soon("delete", store.delete(&path)).await,
            soon("copy", store.copy(&path, &Path::from("copy"))).await,
        ] {
            let error = outcome.expect_err(key);
            assert!(matches!(error, Error::NotFound { .. }), "{key}: {error:?}");
        }
        for mode in [PutMode::Overwrite, PutMode::Create, update()] {
            if key != "loop/x" || mode != PutMode::Create {
                let put = store.put_opts(&path, payload(), mode.clone().into());
                soon("put", put).await.expect_err(key);
            }
            let ask_copy = ChangeAsk::Copy { from: real.clone(), etag: etag.clone() };
            let copy = store.put_opts(&path, payload(), ask(mode.clone(), ask_copy));
            soon("copy to", copy).await.expect_err(key);
            let delete = store.put_opts(&path, payload(), ask(mode, ChangeAsk::Delete));
            soon("delete if", delete).await.expect_err(key);
        }
        let ask_copy = ChangeAsk::Copy { from: path.clone(), etag: None };
        let to = Path::from("c");
        let copy = store.put_opts(&to, payload(), ask(PutMode::Create, ask_copy));
        soon("copy from", copy).await.expect_err(key);
        if let Ok(mut upload) = soon("begin", store.put_multipart(&path)).await {
            soon("part", upload.put_part(payload())).await.expect("beside it");
            soon("complete", upload.complete()).await.expect_err(key);
        }
        for prefix in [Some(&path), None] {
            let listed = store.list(prefix).map_ok(|meta| meta.location.to_string());
            let listed: Vec<_> = soon("list", listed.try_collect()).await.expect("list");
            let want = if prefix.is_none() { vec!["real/file"] } else { vec![] };
            assert_eq!(listed, want, "{prefix:?}");
            let level = soon("level", store.list_with_delimiter(prefix)).await.expect("level");
            let want = if prefix.is_none() { vec![Path::from("real")] } else { vec![] };
            assert_eq!((level.objects, level.common_prefixes), (vec![], want), "{prefix:?}");
        }
    }
    let lock = all.path().join("bucket").join(LOCK_FILE);
    let mut after = tree(all.path());
    after.remove(&lock);
    assert_eq!(after, before);
}

#[tokio::test]
async fn walks_tell_of_what_is_no_object() {
    let Hostile { all, store, .. } = hostile();
    fs::write(all.path().join("bucket/plain"), "").expect("write");
    for one_level in [false, true] {
        let open = OpenWalk { below: Vec::new(), after: None, one_level };
        let mut walk = opened(store.walk(&open)).expect("walk");
        let mut hidden = BTreeSet::new();
        let mut shown = BTreeSet::new();
        loop {
            let (next, page) = walk.page(3).await.expect("page");
            for object in page.objects {
                let key = String::from_utf8(object.key).expect("text");
                let _ = match object.cannot_show {
                    Some(why) => hidden.insert((key, why)),
                    None => shown.insert(key),
                };
            }
            if !page.truncated {
                break;
            }
            walk = next;
        }
        let top = NO_OBJECTS.iter().filter(|key| !key.contains('/')).chain(&["directory", "up"]);
        let below = NO_OBJECTS.iter().filter(|key| key.starts_with("real/") && !one_level);
        let names: BTreeSet<_> = hidden.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(names, top.chain(below).copied().collect());
        assert!(hidden.contains(&("pipe".to_owned(), "it is a pipe")), "{hidden:?}");
        assert_eq!(shown.contains("real/file"), !one_level);
        assert!(shown.contains("plain"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_while_a_directory_turns_into_a_link_and_back() {
    let Hostile { all, store, .. } = hostile();
    let (bucket, outside) = (all.path().join("bucket"), all.path().join("outside"));
    let before = tree(&outside);
    fs::create_dir(bucket.join("swap")).expect("mkdir");
    fs::write(bucket.join("swap/secret"), "inside").expect("write");
    symlink("../outside", bucket.join("other")).expect("symlink");
    let stop = Arc::new(AtomicBool::new(false));
    let swapping = thread::spawn({
        let (stop, bucket) = (Arc::clone(&stop), bucket.clone());
        move || {
            let mut swaps = 0;
            while !stop.load(Ordering::Relaxed) || swaps % 2 == 1 {
                let (one, other) = (bucket.join("swap"), bucket.join("other"));
                renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).expect("exchange");
                swaps += 1;
            }
            swaps
        }
    });
    let (mut got, mut refused) = (0, 0);
    let mut count = |outcome: Result<()>| match outcome {
        Ok(()) => got += 1,
        Err(_) => refused += 1,
    };
    for n in 0..1500 {
        let key = Path::from("swap/secret");
        if let Ok(found) = store.get(&key).await {
            assert_eq!(found.bytes().await.expect("body"), "inside");
            count(Ok(()));
        }
        let new = Path::from(format!("swap/new{}", n % 7));
        count(store.put(&new, PutPayload::from_static(b"new")).await.map(drop));
        count(store.copy(&key, &new).await);
        count(store.delete(&new).await);
        let listed = store.list(Some(&Path::from("swap"))).map_ok(|meta| meta.location);
        let listed: Result<Vec<_>> = listed.try_collect().await;
        assert!(listed.iter().flatten().all(|path| !path.as_ref().contains("below")), "{n}");
    }
    stop.store(true, Ordering::Relaxed);
    let swaps = swapping.join().expect("swaps");
    assert!(swaps > 100 && got > 100 && refused > 100, "{swaps} {got} {refused}");
    assert_eq!(tree(&outside), before);
}

#[tokio::test]
async fn a_root_behind_a_link_is_resolved_once() {
    let Hostile { all, .. } = hostile();
    let name = all.path().join("name");
    symlink("bucket", &name).expect("symlink");
    let store = LocalStore::open(&name, false).expect("open");
    fs::remove_file(&name).expect("rm");
    symlink("outside", &name).expect("symlink");
    store.get(&Path::from("real/file")).await.expect("still there");
    store.get(&Path::from("secret")).await.expect_err("another directory");
}

#[tokio::test]
async fn what_is_made_is_for_one_user_unless_it_is_shared() {
    let dir = tempfile::tempdir().expect("temp dir");
    fs::write(dir.path().join("usual"), "").expect("write");
    fs::create_dir(dir.path().join("usual.d")).expect("mkdir");
    let mode = |path: &str| {
        let meta = fs::symlink_metadata(dir.path().join(path)).expect(path);
        meta.permissions().mode() & 0o777
    };
    let usual = (mode("usual.d"), mode("usual"));
    for (shared, (directories, files)) in [(false, (0o700, 0o600)), (true, usual)] {
        let store = LocalStore::open(dir.path(), shared).expect("open");
        let key = |name: &str| Path::from(format!("{shared}/a/{name}"));
        let put = store.put(&key("put"), PutPayload::new()).await.expect("put");
        let update = PutMode::Update(UpdateVersion { e_tag: put.e_tag, version: None });
        store.put_opts(&key("put"), PutPayload::new(), update.into()).await.expect("update");
        store.copy(&key("put"), &key("copy")).await.expect("copy");
        let mut upload = store.put_multipart(&key("parts")).await.expect("begin");
        upload.put_part(PutPayload::from_static(b"1")).await.expect("part");
        for made in fs::read_dir(dir.path().join(format!("{shared}/a"))).expect("read_dir") {
            let path = made.expect("entry").path();
            assert_eq!(mode(path.to_str().expect("text")), files, "{}", path.display());
        }
        upload.complete().await.expect("complete");
        assert_eq!(mode(&format!("{shared}/a/parts")), files);
        assert_eq!([mode(&format!("{shared}")), mode(&format!("{shared}/a"))], [directories; 2]);
        assert_eq!(mode(LOCK_FILE), files);
        fs::remove_file(dir.path().join(LOCK_FILE)).expect("rm");
    }
}
