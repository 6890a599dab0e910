//! What links ask of every store: listings by raw keys, reads of one version, attributes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weir_types::{ErrorKind, FsError, Result};

use super::samples::{ASK, ODD_KEYS};
use crate::{Bucket, Copied, DirectoryPage, KeyPage, KeyRange, ObjectInfo, PutCondition, Scheme};

/// Part of the suite that every store must pass.
pub(super) async fn suite(bucket: &Bucket) {
    scans(bucket).await;
    directories(bucket).await;
    one_version(bucket).await;
    conditional_puts(bucket).await;
    uploads(bucket).await;
    if matches!(bucket.url().scheme(), Scheme::S3 | Scheme::File) {
        one_upload_wins(bucket).await;
    }
    conditional_copies(bucket).await;
    conditional_deletes(bucket).await;
}

async fn put_all(bucket: &Bucket, keys: impl IntoIterator<Item = String>) {
    let keys = stream::iter(keys).map(Ok::<_, FsError>);
    let put = |key: String| async move { bucket.put(ASK, &key, key.clone()).await };
    keys.try_for_each_concurrent(16, put).await.expect("put");
}

async fn delete_all(bucket: &Bucket, keys: impl IntoIterator<Item = String>) {
    let keys = stream::iter(keys).map(Ok::<_, FsError>);
    let delete = |key: String| async move { bucket.delete(ASK, &key).await };
    keys.try_for_each_concurrent(16, delete).await.expect("delete");
}

/// Scans `range`, checks that the pages are in order, touch and cover it, and returns the keys.
async fn scan(bucket: &Bucket, range: &KeyRange, parallel: usize) -> Vec<String> {
    let pages = bucket.scan_keys(ASK, range.clone(), parallel);
    let mut pages: Vec<KeyPage> = pages.try_collect().await.expect("scan");
    pages.sort_by(|a, b| a.after.cmp(&b.after));
    let mut end = range.after.clone();
    let mut keys = Vec::new();
    for page in pages {
        assert_eq!(page.after, end, "intervals touch");
        for object in page.objects {
            assert!(page.after.as_ref().is_none_or(|after| object.key > *after));
            assert!(page.until.as_ref().is_none_or(|until| object.key <= *until));
            assert_eq!(object.size, object.key.len() as u64);
            assert!(object.etag.is_some() && object.last_modified_unix_ms > 1_600_000_000_000);
            keys.push(String::from_utf8(object.key).expect("UTF-8"));
        }
        end = page.until;
    }
    assert_eq!(end, range.until);
    assert!(keys.is_sorted_by(|a, b| a < b), "in order, each once");
    keys
}

async fn scans(bucket: &Bucket) {
    let none = KeyRange::default();
    assert_eq!(scan(bucket, &none, 4).await, [""; 0]);
    let mut keys: BTreeSet<String> = (0..1100).map(|n| format!("scan/n{n:04}")).collect();
    keys.extend(ODD_KEYS.iter().map(|key| format!("scan/{key}")));
    // Neighbours of the slash, whose order directories get wrong.
    keys.extend(["a-", "a.b", "a/x/y", "a/x-z", "a0", "b/1"].map(|key| format!("scan/{key}")));
    put_all(bucket, keys.clone()).await;
    for parallel in [1, 8] {
        assert_eq!(scan(bucket, &none, parallel).await, Vec::from_iter(keys.clone()));
    }
    let key = |key: &str| Some(key.as_bytes().to_vec());
    for (after, until) in [
        (key("scan/a-"), key("scan/a0")),
        (key("scan/a/x"), None),
        (key("scan/a/"), key("scan/a/~")),
        (None, key("scan/n0000")),
        (key("scan/n0998"), key("scan/n0998\u{1}")),
        (key("scan/n0998"), key("scan/n0999")),
        (key("scan/\u{1}"), key("scan//")),
        (key("zzz"), None),
    ] {
        let inside = |key: &&String| {
            after.as_deref().is_none_or(|after| key.as_bytes() > after)
                && until.as_deref().is_none_or(|until| key.as_bytes() <= until)
        };
        let want: Vec<String> = keys.iter().filter(inside).cloned().collect();
        let range = KeyRange { after: after.clone(), until: until.clone() };
        assert_eq!(scan(bucket, &range, 3).await, want, "{range:?}");
    }
    delete_all(bucket, keys).await;
}

async fn level(bucket: &Bucket, below: &str, after: Option<&str>) -> Vec<String> {
    let pages = bucket.list_directory(ASK, below.as_bytes(), after.map(str::as_bytes));
    let pages: Vec<DirectoryPage> = pages.try_collect().await.expect("list");
    let mut keys = Vec::new();
    for page in pages {
        keys.extend(page.objects.into_iter().map(|object| object.key));
        keys.extend(page.directories);
    }
    keys.sort();
    keys.into_iter().map(|key| String::from_utf8(key).expect("UTF-8")).collect()
}

async fn directories(bucket: &Bucket) {
    let mut keys: Vec<String> = (0..1010).map(|n| format!("dir/sub/{n:04}/x/y")).collect();
    keys.extend(["dir/a", "dir/sub-", "dir/sub0", "dir/sub/z", "dirt/x"].map(str::to_owned));
    put_all(bucket, keys.clone()).await;
    // `file://` also shows directories that were emptied.
    let top = level(bucket, "", None).await;
    assert!(["dir/", "dirt/"].iter().all(|key| top.iter().any(|have| have == key)), "{top:?}");
    assert_eq!(level(bucket, "dir/", None).await, ["dir/a", "dir/sub-", "dir/sub/", "dir/sub0"]);
    assert_eq!(level(bucket, "dir/", Some("dir/sub-")).await, ["dir/sub/", "dir/sub0"]);
    assert_eq!(level(bucket, "dir/", Some("dir/sub/")).await, ["dir/sub0"]);
    assert_eq!(level(bucket, "dir/sub0/", None).await, [""; 0]);
    assert_eq!(level(bucket, "nowhere/", None).await, [""; 0]);
    let mut want: Vec<String> = (0..1010).map(|n| format!("dir/sub/{n:04}/")).collect();
    want.push("dir/sub/z".to_owned());
    assert_eq!(level(bucket, "dir/sub/", None).await, want);
    assert_eq!(level(bucket, "dir/sub/", Some("dir/sub/0999/")).await, want[1000..]);
    delete_all(bucket, keys).await;
}

/// Reads with `get_pieces` what has the ETag `etag`.
async fn pieces(bucket: &Bucket, key: &str, etag: Option<&str>) -> Result<Vec<u8>> {
    let mut got = Vec::new();
    let mut take = |piece: Bytes| got.extend_from_slice(&piece);
    bucket.get_pieces(ASK, key, 1..8, etag, &mut take).await?;
    Ok(got)
}

async fn one_version(bucket: &Bucket) {
    bucket.put(ASK, "version/x", "0123456789").await.expect("put");
    let (info, attributes) = bucket.head_attributes(ASK, "version/x").await.expect("head");
    assert_eq!((info.size, attributes), (10, BTreeMap::new()));
    let etag = info.etag.expect("an ETag");
    assert_eq!(pieces(bucket, "version/x", Some(&etag)).await.expect("get"), b"1234567");
    for other in ["abcdefghij", "short", "much longer than before"] {
        bucket.replace(ASK, "version/x", other).await.expect("replace");
        let error = pieces(bucket, "version/x", Some(&etag)).await.expect_err("changed");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{other}: {error}");
    }
    assert_eq!(pieces(bucket, "version/x", None).await.expect("any"), b"uch lon");
    bucket.delete(ASK, "version/x").await.expect("delete");
    for etag in [None, Some(&*etag)] {
        let error = pieces(bucket, "version/x", etag).await.expect_err("gone");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
    let error = bucket.head_attributes(ASK, "version/x").await.expect_err("gone");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

fn attributes(mode: &str) -> BTreeMap<String, String> {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    BTreeMap::from([pair("file-permissions", mode), pair("user-agent", "weir test/1.0")])
}

/// Stores keep attributes, but for directories.
async fn has_attributes(bucket: &Bucket, key: &str, want: &BTreeMap<String, String>) {
    let (_, have) = bucket.head_attributes(ASK, key).await.expect("head");
    assert!(have == *want || bucket.url().scheme() == Scheme::File, "{have:?}");
}

async fn conditional_puts(bucket: &Bucket) {
    let (first, second) = (attributes("0100644"), attributes("0100600"));
    let put = async |bytes: &'static str, attributes: &_, condition: PutCondition| {
        let put = bucket.put_object(ASK, "put/x", bytes, attributes, &condition).await;
        put.expect("put")
    };
    let matches = |info: &ObjectInfo| PutCondition::Matches(info.etag.clone().expect("ETag"));
    let stale = PutCondition::Matches("\"stale\"".to_owned());
    assert_eq!(put("no", &first, stale.clone()).await, None);
    let one = put("one", &first, PutCondition::Absent).await.expect("absent");
    assert_eq!((one.key.as_str(), one.size), ("put/x", 3));
    assert_eq!(bucket.head(ASK, "put/x").await.expect("head").etag, one.etag);
    has_attributes(bucket, "put/x", &first).await;
    assert_eq!(put("no", &second, PutCondition::Absent).await, None);
    assert_eq!(put("no", &second, stale).await, None);
    let two = put("two two", &second, matches(&one)).await.expect("as it was");
    assert_ne!(two.etag, one.etag);
    assert_eq!(put("no", &first, matches(&one)).await, None);
    assert_eq!(bucket.get(ASK, "put/x").await.expect("get"), "two two");
    has_attributes(bucket, "put/x", &second).await;
    put("three", &BTreeMap::new(), PutCondition::Any).await.expect("any");
    has_attributes(bucket, "put/x", &BTreeMap::new()).await;
    let bad = BTreeMap::from([("x".to_owned(), "ü".to_owned())]);
    let error = bucket.put_object(ASK, "put/x", "no", &bad, &PutCondition::Any).await;
    assert_eq!(error.expect_err("no header carries it").kind(), ErrorKind::Invalid);
    let bad = PutCondition::Matches("\n".to_owned());
    let error = bucket.put_object(ASK, "put/x", "no", &first, &bad).await;
    assert_eq!(error.expect_err("nor that").kind(), ErrorKind::Invalid);
    let error = pieces(bucket, "put/x", Some("\n")).await.expect_err("nor that");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(bucket.get(ASK, "put/x").await.expect("get"), "three");
    bucket.delete(ASK, "put/x").await.expect("delete");
}

/// Uploads `bytes` in parts, the last one first, each twice.
async fn upload(
    bucket: &Bucket,
    bytes: &Bytes,
    attributes: &BTreeMap<String, String>,
    condition: &PutCondition,
) -> Option<ObjectInfo> {
    let size = bytes.len() as u64;
    let upload = bucket.begin_upload(ASK, "up/x", size, attributes).await.expect("begin");
    let step = upload.part_bytes() as usize;
    let part = |number: usize| bytes.slice((number - 1) * step..bytes.len().min(number * step));
    for round in 0..2 {
        let numbers = (1..=upload.parts()).rev();
        let parts = numbers.map(|number| upload.part(number, part(number)));
        let done = futures::future::try_join_all(parts).await;
        done.unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
    upload.complete(condition).await.expect("complete")
}

async fn uploads(bucket: &Bucket) {
    let whole: Vec<u8> =
        (0..9_u32 << 18).flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    let whole = Bytes::from(whole);
    let (first, second) = (attributes("0100644"), attributes("0100600"));
    let stale = PutCondition::Matches("\"stale\"".to_owned());
    assert_eq!(upload(bucket, &whole, &first, &stale).await, None);
    let one = upload(bucket, &whole, &first, &PutCondition::Absent).await.expect("absent");
    assert_eq!((one.key.as_str(), one.size), ("up/x", whole.len() as u64));
    assert!(bucket.get(ASK, "up/x").await.expect("get") == whole);
    assert_eq!(bucket.head(ASK, "up/x").await.expect("head").etag, one.etag);
    has_attributes(bucket, "up/x", &first).await;
    assert_eq!(upload(bucket, &whole, &second, &PutCondition::Absent).await, None);
    assert_eq!(upload(bucket, &whole, &second, &stale).await, None);
    has_attributes(bucket, "up/x", &first).await;
    let same = PutCondition::Matches(one.etag.expect("ETag"));
    let little = whole.slice(..5);
    let two = upload(bucket, &little, &second, &same).await.expect("as it was");
    assert_eq!(bucket.get(ASK, "up/x").await.expect("get"), little);
    has_attributes(bucket, "up/x", &second).await;
    assert_eq!(upload(bucket, &whole, &first, &same).await, None);
    let nothing = upload(bucket, &Bytes::new(), &first, &PutCondition::Any).await.expect("any");
    assert_ne!(nothing.etag, two.etag);
    assert_eq!(bucket.head(ASK, "up/x").await.expect("head").size, 0);

    let begin = || bucket.begin_upload(ASK, "up/y", 9 << 20, &first);
    let open = begin().await.expect("begin");
    for (number, len) in [(0, 8 << 20), (1, 7 << 20), (2, 2 << 20), (3, 0)] {
        let error = open.part(number, Bytes::from(vec![0; len])).await.expect_err("no such part");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    open.part(2, Bytes::from(vec![0; 1 << 20])).await.expect("part");
    let error = open.complete(&PutCondition::Any).await.expect_err("a part is missing");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    begin().await.expect("begin").abort().await.expect("abort");
    let error = bucket.head(ASK, "up/y").await.expect_err("never completed");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    bucket.delete(ASK, "up/x").await.expect("delete");
}

async fn one_upload_wins(bucket: &Bucket) {
    for round in 0..8 {
        let one = async |n: u8| {
            let bytes = Bytes::from(vec![n; 100]);
            let open = bucket.begin_upload(ASK, "up/race", 100, &BTreeMap::new()).await;
            let open = open.expect("begin");
            open.part(1, bytes).await.expect("part");
            open.complete(&PutCondition::Absent).await.expect("complete").is_some().then_some(n)
        };
        let all = futures::future::join_all((0..8).map(one)).await;
        let winners: Vec<u8> = all.into_iter().flatten().collect();
        assert_eq!(winners.len(), 1, "round {round}: {winners:?}");
        assert_eq!(bucket.get(ASK, "up/race").await.expect("get"), vec![winners[0]; 100]);
        bucket.delete(ASK, "up/race").await.expect("delete");
    }
}

async fn conditional_copies(bucket: &Bucket) {
    let want = attributes("0100755");
    let put = async |key: &str, bytes: &'static str| {
        let put = bucket.put_object(ASK, key, bytes, &want, &PutCondition::Any).await;
        put.expect("put").expect("any").etag.expect("ETag")
    };
    let copy = async |from: &str, etag: Option<&str>, to: &str, condition: &PutCondition| {
        bucket.copy_object_if(ASK, from, etag, to, condition).await.expect("copy")
    };
    let done = async |copied: Copied, bytes: &str| {
        let Copied::Done(info) = copied else { panic!("{copied:?}") };
        assert_eq!((info.key.as_str(), info.size), ("copy/to", bytes.len() as u64));
        let head = bucket.head(ASK, "copy/to").await.expect("head");
        // One is in seconds, perhaps.
        assert!(head.last_modified_unix_ms.abs_diff(info.last_modified_unix_ms) < 1_000);
        assert_eq!(head.etag, info.etag);
        assert_eq!(bucket.get(ASK, "copy/to").await.expect("get"), bytes);
        has_attributes(bucket, "copy/to", &want).await;
        info.etag.expect("ETag")
    };
    let (any, absent) = (PutCondition::Any, PutCondition::Absent);
    let stale = "\"stale\"";
    let stale_target = PutCondition::Matches(stale.to_owned());
    let one = put("copy/ü/one", "bytes").await;
    let one = Some(one.as_str());
    assert_eq!(copy("copy/gone", None, "copy/to", &any).await, Copied::SourceChanged);
    assert_eq!(copy("copy/gone", one, "copy/to", &any).await, Copied::SourceChanged);
    assert_eq!(copy("copy/ü/one", Some(stale), "copy/to", &any).await, Copied::SourceChanged);
    assert_eq!(copy("copy/ü/one", one, "copy/to", &stale_target).await, Copied::TargetChanged);
    let error = bucket.head(ASK, "copy/to").await.expect_err("never made");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let find = async |etag: Option<&str>| {
        bucket.find_copy(ASK, "copy/ü/one", etag, "copy/to").await.expect("looks")
    };
    assert_eq!(find(one).await, None);
    let made = done(copy("copy/ü/one", one, "copy/to", &absent).await, "bytes").await;
    assert_eq!(find(one).await.expect("it is there").etag, Some(made));
    assert_eq!(find(Some(stale)).await, None);
    let theirs = PutCondition::Matches(put("copy/to", "what is theirs").await);
    assert_eq!(copy("copy/ü/one", one, "copy/to", &absent).await, Copied::TargetChanged);
    assert_eq!(copy("copy/ü/one", one, "copy/to", &stale_target).await, Copied::TargetChanged);
    assert_eq!(copy("copy/ü/one", Some(stale), "copy/to", &theirs).await, Copied::SourceChanged);
    assert_eq!(bucket.get(ASK, "copy/to").await.expect("get"), "what is theirs");
    assert_eq!(find(one).await, None);
    done(copy("copy/ü/one", one, "copy/to", &theirs).await, "bytes").await;
    put("copy/ü/one", "more bytes").await;
    assert_eq!(copy("copy/ü/one", one, "copy/to", &any).await, Copied::SourceChanged);
    done(copy("copy/ü/one", None, "copy/to", &any).await, "more bytes").await;
    for bad in [(Some("\n"), &any), (None, &PutCondition::Matches("\n".to_owned()))] {
        let error = bucket.copy_object_if(ASK, "copy/ü/one", bad.0, "copy/to", bad.1).await;
        assert_eq!(error.expect_err("no header carries it").kind(), ErrorKind::Invalid);
    }
    for key in ["copy/ü/one", "copy/to"] {
        bucket.delete(ASK, key).await.expect("delete");
    }
}

async fn conditional_deletes(bucket: &Bucket) {
    let put = async |bytes: &'static str| {
        let none = BTreeMap::new();
        let put = bucket.put_object(ASK, "delete/x ü", bytes, &none, &PutCondition::Any).await;
        put.expect("put").expect("any").etag.expect("ETag")
    };
    let delete = async |etag: &str| bucket.delete_if(ASK, "delete/x ü", etag).await;
    assert!(delete("\"stale\"").await.expect("nothing is there"));
    let one = put("one").await;
    assert!(!delete("\"stale\"").await.expect("another is there"));
    let two = put("two two").await;
    assert!(!delete(&one).await.expect("another is there"));
    assert_eq!(bucket.get(ASK, "delete/x ü").await.expect("get"), "two two");
    assert!(delete(&two).await.expect("this one"));
    let error = bucket.head(ASK, "delete/x ü").await.expect_err("gone");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(delete(&two).await.expect("it is gone"));
    assert_eq!(delete("\n").await.expect_err("no header carries it").kind(), ErrorKind::Invalid);
}

/// Puts `count` random keys that are addressable but odd, lists them in random intervals and
/// directories, and compares with what was put.
///
/// # Panics
/// When a listing is not what was put.
pub async fn random_listings(bucket: &Bucket, count: usize, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut keys = BTreeSet::new();
    let parts = ["a", "a-", "a0", "ü", "日本", " x ", "%2F", "+", "&amp;", "<k>", "\"", "~", "é.b"];
    let mut taken = BTreeSet::new();
    while keys.len() < count {
        let depth = rng.random_range(1..4);
        let part = |rng: &mut StdRng| {
            format!("{}{}", parts[rng.random_range(0..parts.len())], rng.random_range(0..40))
        };
        let key = (0..depth).map(|_| part(&mut rng)).collect::<Vec<_>>().join("/");
        // Not all stores hold `k` beside `k/x`.
        let above: Vec<&str> = key.match_indices('/').map(|(at, _)| &key[..at]).collect();
        if taken.contains(&key) || above.iter().any(|above| keys.contains(*above)) {
            continue;
        }
        taken.extend(above.into_iter().map(str::to_owned));
        keys.insert(key);
    }
    put_all(bucket, keys.clone()).await;
    let all: Vec<String> = keys.iter().cloned().collect();
    assert_eq!(scan(bucket, &KeyRange::default(), 8).await, all);
    for _ in 0..20 {
        let mut ends = [rng.random_range(0..all.len()), rng.random_range(0..all.len())];
        ends.sort_unstable();
        let [from, to] = ends;
        let mut until = all[to].clone().into_bytes();
        if rng.random_bool(0.5) {
            until.push(b'!');
        }
        let want: Vec<String> = keys
            .iter()
            .filter(|key| **key > all[from] && key.as_bytes() <= until.as_slice())
            .cloned()
            .collect();
        let after = Some(all[from].clone().into_bytes());
        let range = KeyRange { after, until: Some(until) };
        assert_eq!(scan(bucket, &range, 5).await, want, "{range:?}");
    }
    let below = all[rng.random_range(0..all.len())].split_once('/').map_or("", |(top, _)| top);
    let below = if below.is_empty() { String::new() } else { format!("{below}/") };
    let mut want = BTreeSet::new();
    for key in keys.iter().filter_map(|key| key.strip_prefix(&below)) {
        let end = key.find('/').map_or(key.len(), |at| at + 1);
        want.insert(format!("{below}{}", &key[..end]));
    }
    assert_eq!(level(bucket, &below, None).await, Vec::from_iter(want));
    delete_all(bucket, keys).await;
    assert_eq!(scan(bucket, &KeyRange::default(), 2).await, [""; 0]);
}
