//! What every store must do, as a suite to run on a bucket that nobody else uses.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload, UpdateVersion};
use weir_types::{ErrorKind, Result};

use super::samples::{ASK, ODD_KEYS};
use crate::Bucket;

/// Runs the suite in `bucket`, below whose prefix nothing may be and nothing will be left.
///
/// # Panics
/// When the store does not do as it must.
pub async fn conformance(bucket: &Bucket) {
    bucket.probe().await.expect("the bucket can be used");
    whole_and_ranged_reads(bucket).await;
    absent_objects(bucket).await;
    bad_keys(bucket).await;
    odd_keys(bucket).await;
    listings(bucket).await;
    one_creator(bucket).await;
    replacements(bucket).await;
    updates(bucket).await;
    large_objects(bucket).await;
    super::native::suite(bucket).await;
    let left: Vec<_> = bucket.list(ASK, "").try_collect().await.expect("list");
    assert_eq!(left, [], "everything was deleted");
}

async fn whole_and_ranged_reads(bucket: &Bucket) {
    bucket.put(ASK, "read/empty", Bytes::new()).await.expect("put nothing");
    assert_eq!(bucket.get(ASK, "read/empty").await.expect("get nothing").len(), 0);
    let pieces = [Bytes::from_static(b"0123"), Bytes::new(), Bytes::from_static(b"456789")];
    bucket.put(ASK, "read/ten", PutPayload::from_iter(pieces)).await.expect("put pieces");
    assert_eq!(bucket.get(ASK, "read/ten").await.expect("get"), "0123456789");
    for (range, want) in [(0..10, "0123456789"), (0..1, "0"), (9..10, "9"), (3..7, "3456")] {
        let got = bucket.get_range(ASK, "read/ten", range.clone()).await.expect("range");
        assert_eq!(got, want, "{range:?}");
    }
    assert_eq!(bucket.get_range(ASK, "read/ten", 4..4).await.expect("empty range").len(), 0);
    for range in [5..11, 10..11, 50..60] {
        let error = bucket.get_range(ASK, "read/ten", range.clone()).await.expect_err("too far");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{range:?}: {error}");
    }
    let info = bucket.head(ASK, "read/ten").await.expect("head");
    assert_eq!((info.key.as_str(), info.size), ("read/ten", 10));
    assert!(info.last_modified_unix_ms > 1_600_000_000_000, "{info:?}");
    let etag = info.etag.expect("an ETag");
    let same = bucket.get_range_if_match(ASK, "read/ten", 2..4, &etag).await;
    assert_eq!(same.expect("unchanged"), "23");
    bucket.replace(ASK, "read/ten", Bytes::from_static(b"abcdefghij")).await.expect("replace");
    let error = bucket.get_range_if_match(ASK, "read/ten", 2..4, &etag).await.expect_err("changed");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    for key in ["read/empty", "read/ten"] {
        bucket.delete(ASK, key).await.expect("delete");
    }
}

async fn absent_objects(bucket: &Bucket) {
    let kind = |result: Result<()>| result.expect_err("absent").kind();
    assert_eq!(kind(bucket.get(ASK, "absent/x").await.map(drop)), ErrorKind::NotFound);
    assert_eq!(kind(bucket.get_range(ASK, "absent/x", 0..1).await.map(drop)), ErrorKind::NotFound);
    assert_eq!(kind(bucket.head(ASK, "absent/x").await.map(drop)), ErrorKind::NotFound);
    bucket.delete(ASK, "absent/x").await.expect("nothing to delete is fine");
    let none: Vec<_> = bucket.list(ASK, "absent").try_collect().await.expect("an empty listing");
    assert_eq!(none, []);
}

async fn bad_keys(bucket: &Bucket) {
    for key in ["", "/x", "x/", "x//y", "x/../y", "./x", "x\ny"] {
        let error = bucket.put(ASK, key, Bytes::new()).await.expect_err(key);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{key:?}: {error}");
    }
}

async fn odd_keys(bucket: &Bucket) {
    for key in ODD_KEYS {
        let key = format!("odd/{key}");
        bucket.put(ASK, &key, Bytes::from(key.clone())).await.expect(&key);
        assert_eq!(bucket.get(ASK, &key).await.expect(&key), key.as_bytes());
    }
    let listed: BTreeSet<_> =
        bucket.list(ASK, "odd").map_ok(|info| info.key).try_collect().await.expect("list");
    let want: BTreeSet<_> = ODD_KEYS.iter().map(|key| format!("odd/{key}")).collect();
    assert_eq!(listed, want);
    for key in want {
        bucket.delete(ASK, &key).await.expect(&key);
        let error = bucket.head(ASK, &key).await.expect_err(&key);
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
}

async fn listings(bucket: &Bucket) {
    // More than a page; neighbours of the slash, whose order directories get wrong.
    let mut keys: Vec<String> = (0..1100).map(|n| format!("list/n{n:04}")).collect();
    keys.extend(["a", "a-b", "a.b", "b/x/y/z", "b0"].map(|key| format!("list/dir/{key}")));
    keys.extend(["list/dir-c", "list/dir/aa/1", "list/dir/aa/2"].map(str::to_owned));
    let every = |keys: Vec<String>| stream::iter(keys).map(Ok::<_, weir_types::FsError>);
    every(keys.clone())
        .try_for_each_concurrent(16, |key| async move { bucket.put(ASK, &key, "x").await })
        .await
        .expect("put");
    keys.sort();
    let all: Vec<_> = bucket.list(ASK, "list").try_collect().await.expect("list");
    assert!(all.iter().all(|info| info.size == 1));
    assert_eq!(all.into_iter().map(|info| info.key).collect::<Vec<_>>(), keys);
    let some: Vec<_> =
        bucket.list(ASK, "list/dir/").map_ok(|info| info.key).try_collect().await.expect("list");
    let below: Vec<_> = keys.iter().filter(|key| key.starts_with("list/dir/")).cloned().collect();
    assert_eq!(some, below, "a prefix ends at a slash");

    let store = bucket.store(ASK);
    let offset = Path::from("list/n1090");
    let late: Vec<_> =
        store.list_with_offset(Some(&Path::from("list")), &offset).try_collect().await.expect("l");
    assert_eq!(late.first().map(|meta| meta.location.as_ref()), Some("list/n1091"));
    assert_eq!(late.len(), 9);
    let level = store.list_with_delimiter(Some(&Path::from("list/dir"))).await.expect("level");
    assert_eq!(level.common_prefixes, ["list/dir/aa", "list/dir/b"].map(Path::from));
    let names: Vec<_> = level.objects.iter().filter_map(|meta| meta.location.filename()).collect();
    assert_eq!(names, ["a", "a-b", "a.b", "b0"]);
    every(keys)
        .try_for_each_concurrent(16, |key| async move { bucket.delete(ASK, &key).await })
        .await
        .expect("delete");
}

async fn one_creator(bucket: &Bucket) {
    for round in 0..8 {
        let key = format!("race/{round}");
        let tasks: Vec<_> = (0..16)
            .map(|task| {
                let (bucket, key) = (bucket.clone(), key.clone());
                let text = format!("{task}");
                tokio::spawn(async move { bucket.put_new(ASK, &key, text).await })
            })
            .collect();
        let mut winners = Vec::new();
        for (task, handle) in tasks.into_iter().enumerate() {
            if handle.await.expect("task").expect("put_new") {
                winners.push(task);
            }
        }
        assert_eq!(winners.len(), 1, "round {round}: {winners:?}");
        let have = bucket.get(ASK, &key).await.expect("get");
        assert_eq!(have, winners[0].to_string());
        assert!(!bucket.put_new(ASK, &key, have).await.expect("taken"), "the same bytes, later");
        bucket.delete(ASK, &key).await.expect("delete");
        assert!(bucket.put_new(ASK, &key, "again").await.expect("free again"));
        bucket.delete(ASK, &key).await.expect("delete");
    }
}

async fn replacements(bucket: &Bucket) {
    for n in 0..20_u32 {
        let text = "x".repeat(n as usize);
        bucket.replace(ASK, "replaced", text.clone()).await.expect("replace");
        assert_eq!(bucket.get(ASK, "replaced").await.expect("get"), text, "seen at once");
        let listed: Vec<_> = bucket.list(ASK, "").try_collect().await.expect("list");
        assert_eq!(listed.iter().map(|info| info.size).collect::<Vec<_>>(), [u64::from(n)]);
    }
    bucket.delete(ASK, "replaced").await.expect("delete");
}

async fn update(
    store: &Arc<dyn ObjectStore>,
    path: &Path,
    text: String,
    etag: Option<String>,
) -> object_store::Result<object_store::PutResult> {
    let version = UpdateVersion { e_tag: etag, version: None };
    store.put_opts(path, text.into(), PutMode::Update(version).into()).await
}

/// Refused, or (where answers get lost) in doubt because somebody else's object is there.
fn is_refused(result: &object_store::Result<object_store::PutResult>) -> bool {
    match result {
        Err(Error::Precondition { .. }) => true,
        Err(error) => error.to_string().contains("is unknown"),
        Ok(_) => false,
    }
}

/// Adds `mark` to the object's text, once, while others add theirs.
async fn add_mark(store: &Arc<dyn ObjectStore>, path: &Path, mark: &str) {
    loop {
        let have = store.get(path).await.expect("get");
        let etag = have.meta.e_tag.clone();
        let text = text_of(&have.bytes().await.expect("body"));
        if text.split(' ').any(|have| have == mark.trim()) {
            return;
        }
        // Refused or in doubt: the next look tells.
        let _ = update(store, path, text + mark, etag).await;
    }
}

fn text_of(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn updates(bucket: &Bucket) {
    let store = bucket.store(ASK);
    let path = Path::from("update/counter");
    let absent = update(&store, &path, "1".to_owned(), Some("\"none\"".to_owned())).await;
    assert!(is_refused(&absent), "{absent:?}");
    let first = store.put_opts(&path, "0".into(), PutMode::Create.into()).await.expect("create");
    let again = store.put_opts(&path, "0".into(), PutMode::Create.into()).await;
    assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
    let second = update(&store, &path, "00".to_owned(), first.e_tag.clone()).await.expect("update");
    assert_ne!(first.e_tag, second.e_tag);
    assert_eq!(store.head(&path).await.expect("head").e_tag, second.e_tag);
    let stale = update(&store, &path, "9".to_owned(), first.e_tag).await;
    assert!(is_refused(&stale), "{stale:?}");
    let have = bucket.get(ASK, "update/counter").await.expect("get");
    assert_eq!(have, "00", "what was refused was not applied");

    // Whoever cannot know whether an update was applied reads again: so each adds its own mark.
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let (store, path) = (Arc::clone(&store), path.clone());
            tokio::spawn(async move {
                for n in 0..5 {
                    add_mark(&store, &path, &format!(" {task}.{n}")).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("task");
    }
    let text = text_of(&bucket.get(ASK, "update/counter").await.expect("get"));
    let marks: Vec<&str> = text.split(' ').skip(1).collect();
    let different: BTreeSet<&str> = marks.iter().copied().collect();
    assert_eq!((marks.len(), different.len()), (40, 40), "lost or doubled: {text}");
    store.delete(&path).await.expect("delete");
}

async fn large_objects(bucket: &Bucket) {
    let whole: Vec<u8> =
        (0..20_u32 << 18).flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    let whole = Bytes::from(whole);
    bucket.put(ASK, "large/one", whole.clone()).await.expect("put 20 MiB");
    assert!(bucket.get(ASK, "large/one").await.expect("get 20 MiB") == whole);
    let range = (7 << 20) + 1..(15 << 20) + 3;
    let part = bucket.get_range(ASK, "large/one", range.clone()).await.expect("get 8 MiB");
    assert!(part == whole.slice(range.start as usize..range.end as usize));

    let store = bucket.store(ASK);
    let path = Path::from("large/parts");
    let mut upload = store.put_multipart(&path).await.expect("begin");
    for part in whole.chunks(6 << 20) {
        upload.put_part(Bytes::copy_from_slice(part).into()).await.expect("part");
    }
    let error = bucket.head(ASK, "large/parts").await.expect_err("not complete");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    upload.complete().await.expect("complete");
    assert!(bucket.get(ASK, "large/parts").await.expect("get") == whole);
    let mut upload = store.put_multipart(&Path::from("large/dropped")).await.expect("begin");
    upload.put_part("x".into()).await.expect("part");
    upload.abort().await.expect("abort");
    for key in ["large/one", "large/parts"] {
        bucket.delete(ASK, key).await.expect("delete");
    }
}
