use std::collections::HashSet;
use std::fs::File;
use std::path::Path as FilePath;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use futures::TryStreamExt;
use futures::future::join_all;
use object_store::path::Path;
use object_store::{
    Attribute, Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion,
};

use super::root::{LOCK_FILE, LocalStore};

fn open() -> (tempfile::TempDir, LocalStore) {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = LocalStore::open(dir.path(), false).expect("open");
    (dir, store)
}

fn text(n: usize) -> PutPayload {
    format!("{n:04}").into()
}

fn update(e_tag: Option<String>) -> PutOptions {
    PutMode::Update(UpdateVersion { e_tag, version: None }).into()
}

async fn keys(store: &LocalStore) -> Vec<String> {
    store.list(None).map_ok(|meta| meta.location.to_string()).try_collect().await.expect("list")
}

#[tokio::test]
async fn no_etag_comes_back() {
    let (_dir, store) = open();
    let path = Path::from("a/b");
    let created = store.put_opts(&path, text(0), PutMode::Create.into()).await.expect("create");
    let mut seen = HashSet::from([created.e_tag.clone()]);
    let mut last = created.e_tag;
    // The same length each time, faster than a coarse clock ticks, inodes used again at once.
    for n in 1..200 {
        let put = store.put_opts(&path, text(n), update(last)).await.expect("update");
        assert!(seen.insert(put.e_tag.clone()), "{n}: {:?} was there before", put.e_tag);
        assert_eq!(store.head(&path).await.expect("head").e_tag, put.e_tag);
        last = put.e_tag;
    }
}

#[tokio::test]
async fn versions_move_on_when_the_clock_goes_back() {
    let (dir, store) = open();
    let path = Path::from("k");
    store.put(&path, text(0)).await.expect("put");
    let file = dir.path().join("k");
    let future = UNIX_EPOCH + Duration::from_secs(10_000_000_000);
    let handle = File::options().write(true).open(&file).expect("open");
    handle.set_modified(future).expect("touch");
    let etag = store.head(&path).await.expect("head").e_tag;
    store.put_opts(&path, text(1), update(etag)).await.expect("update");
    let after = std::fs::metadata(&file).and_then(|meta| meta.modified()).expect("modified");
    assert_eq!(after, future + Duration::from_micros(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_of_several_processes_take_turns() {
    let (dir, first) = open();
    // Opened apart, they share nothing but the lock file.
    let second = LocalStore::open(dir.path(), false).expect("open");
    let path = Path::from("turns");
    first.put(&path, text(0)).await.expect("put");
    let add = |store: LocalStore| {
        let path = path.clone();
        tokio::spawn(async move {
            let mut done = 0;
            while done < 50 {
                let have = store.get(&path).await.expect("get");
                let etag = have.meta.e_tag.clone();
                let bytes = have.bytes().await.expect("body");
                let n: usize = String::from_utf8_lossy(&bytes).parse().expect("number");
                match store.put_opts(&path, text(n + 1), update(etag)).await {
                    Ok(_) => done += 1,
                    Err(Error::Precondition { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        })
    };
    for task in join_all([add(first.clone()), add(second)]).await {
        task.expect("task");
    }
    let bytes = first.get(&path).await.expect("get").bytes().await.expect("body");
    assert_eq!(bytes, "0100");
}

#[tokio::test]
async fn leftovers_stay_out_of_sight() {
    let (dir, store) = open();
    store.put(&Path::from("d/k"), text(1)).await.expect("put");
    for leftover in ["d/k#1", "d/k#18446744073709551615", "x#7"] {
        std::fs::write(dir.path().join(leftover), "torn").expect("leftover");
    }
    let put = store.put(&Path::from("d/k"), text(2)).await.expect("put again");
    store.put_opts(&Path::from("d/k"), text(3), update(put.e_tag)).await.expect("update");
    store.put_opts(&Path::from("d/n"), text(4), PutMode::Create.into()).await.expect("create");
    assert!(dir.path().join(LOCK_FILE).exists());
    assert_eq!(keys(&store).await, ["d/k", "d/n"]);
    let level = store.list_with_delimiter(None).await.expect("level");
    assert_eq!((level.objects, level.common_prefixes), (vec![], vec![Path::from("d")]));
    let error = store.get(&Path::parse("d/k#1").expect("path")).await.expect_err("hidden");
    assert!(!matches!(error, Error::NotFound { .. }), "a leftover is no object: {error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn listings_stand_files_that_vanish() {
    let (_dir, store) = open();
    let path = |n: usize| Path::from(format!("k/{n}"));
    for n in 0..300 {
        store.put(&path(n), text(n)).await.expect("put");
    }
    let deleting = store.clone();
    let deletes = tokio::spawn(async move {
        for n in 0..300 {
            deleting.delete(&path(n)).await.expect("delete");
        }
    });
    let mut rounds = 0;
    while !deletes.is_finished() {
        keys(&store).await;
        rounds += 1;
    }
    assert!(rounds > 0);
    assert_eq!(keys(&store).await, Vec::<String>::new());
}

#[tokio::test]
async fn directories_are_synced_once_and_survive_their_removal() {
    let (dir, store) = open();
    store.put(&Path::from("x/y/z"), text(1)).await.expect("put");
    let root = dir.path();
    let known = |store: &LocalStore| store.durable.lock().clone();
    assert_eq!(known(&store), HashSet::from(["x".into(), "x/y".into()]));
    // Made by somebody else, perhaps not synced: not known until this process has synced it.
    std::fs::create_dir(root.join("other")).expect("mkdir");
    store.put(&Path::from("other/k"), text(2)).await.expect("put");
    assert!(known(&store).contains(FilePath::new("other")));
    std::fs::remove_dir_all(root.join("x")).expect("rm");
    store.put(&Path::from("x/y/z"), text(3)).await.expect("put again");
    assert_eq!(keys(&store).await, ["other/k", "x/y/z"]);
}

#[tokio::test]
async fn attributes_belong_to_one_version() {
    let (_dir, store) = open();
    let (path, name) = (Path::from("k"), Attribute::Metadata("mark".into()));
    let mut options = PutOptions::from(PutMode::Create);
    options.attributes.insert(name.clone(), "mine".into());
    store.put_opts(&path, text(1), options).await.expect("put");
    let found = store.get(&path).await.expect("get").attributes;
    assert_eq!(found.get(&name).map(|value| value.as_ref()), Some("mine"));
    store.put(&path, PutPayload::from(Bytes::from_static(b"longer"))).await.expect("replace");
    assert!(store.get(&path).await.expect("get").attributes.is_empty());
}

#[tokio::test]
async fn a_root_that_is_gone_or_another_is_away_and_stays_empty() {
    let (dir, store) = open();
    let (k, deep) = (Path::from("k"), Path::from("x/y"));
    store.put(&k, text(1)).await.expect("put");
    store.put(&deep, text(1)).await.expect("put");
    let (root, away) = (dir.path().to_owned(), dir.path().with_extension("away"));
    std::fs::rename(&root, &away).expect("rename");
    for empty_in_its_place in [false, true] {
        if empty_in_its_place {
            std::fs::create_dir(&root).expect("mkdir");
        }
        let outcomes = [
            store.put(&deep, text(2)).await.map(drop),
            store.put_opts(&k, text(2), PutMode::Create.into()).await.map(drop),
            store.get(&k).await.map(drop),
            store.delete(&k).await,
            store.list(None).try_collect::<Vec<_>>().await.map(drop),
            store.list_with_delimiter(None).await.map(drop),
        ];
        for outcome in outcomes {
            let verdict = crate::failure::judge(&outcome.expect_err("it is away"));
            assert!(verdict.transient, "{verdict:?}");
        }
        assert!(!root.join("x").exists());
    }
    std::fs::remove_dir(&root).expect("it stayed empty");
    std::fs::rename(&away, &root).expect("rename back");
    assert_eq!(keys(&store).await, ["k", "x/y"]);
}

#[tokio::test]
async fn a_name_may_be_as_long_as_the_disk_allows() {
    let (_dir, store) = open();
    let path = Path::from(format!("a/{}", "n".repeat(255)));
    let put = store.put_opts(&path, text(1), PutMode::Create.into()).await.expect("creates");
    store.put_opts(&path, text(2), update(put.e_tag)).await.expect("updates");
    store.put(&path, text(3)).await.expect("puts");
    let mut upload = store.put_multipart(&path).await.expect("begins");
    upload.put_part(text(4)).await.expect("puts a part");
    upload.complete().await.expect("completes");
    assert_eq!(keys(&store).await, [path.to_string()]);
    assert_eq!(store.get(&path).await.expect("get").bytes().await.expect("bytes"), "0004");
}
