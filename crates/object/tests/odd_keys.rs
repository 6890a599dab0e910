//! Listings of buckets whose keys no file system and no path library would take.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;

use futures::TryStreamExt;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weir_object::testing::FakeS3;
use weir_object::{
    Bucket, Component, ConnectOptions, DirectoryPage, KeyPage, KeyRange, ListedObject, Meter,
    RequestKind,
};
use weir_types::ErrorKind;

const LINK: Component = Component::Link;

fn connect(url: &str, options: &ConnectOptions) -> (Bucket, Meter) {
    let meter = Meter::new();
    let url = url.parse().expect("url");
    (Bucket::connect(&url, options, &meter).expect("connect"), meter)
}

async fn scan(bucket: &Bucket, range: KeyRange, parallel: usize) -> Vec<ListedObject> {
    let pages = bucket.scan_keys(LINK, range.clone(), parallel);
    let mut pages: Vec<KeyPage> = pages.try_collect().await.expect("scan");
    pages.sort_by(|a, b| a.after.cmp(&b.after));
    let mut end = range.after;
    for page in &pages {
        assert_eq!(page.after, end, "intervals touch");
        end.clone_from(&page.until);
    }
    assert_eq!(end, range.until);
    pages.into_iter().flat_map(|page| page.objects).collect()
}

async fn level(bucket: &Bucket, below: &str, after: Option<&[u8]>) -> Vec<Vec<u8>> {
    let pages = bucket.list_directory(LINK, below.as_bytes(), after);
    let pages: Vec<DirectoryPage> = pages.try_collect().await.expect("list");
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for page in pages {
        let mut of_page: Vec<_> = page.objects.into_iter().map(|object| object.key).collect();
        of_page.extend(page.directories);
        of_page.sort();
        assert!(keys.last() < of_page.first(), "pages are in order");
        keys.extend(of_page);
    }
    keys
}

fn keys_of(listed: &[ListedObject]) -> Vec<&[u8]> {
    listed.iter().map(|object| object.key.as_slice()).collect()
}

#[tokio::test]
async fn every_odd_key_is_listed() {
    let long = "l".repeat(700);
    let odd: Vec<&[u8]> = vec![
        b"",
        b"/",
        b"//a",
        b"/a",
        b"./x",
        b"a",
        b"a/",
        b"a/../b",
        b"a//b",
        b"a/b",
        b"a+b c%2F&<\">'",
        b"ctrl\x01\n\r\t\x7f",
        b"nul\x00",
        b"space ",
        b"no utf8 \xff\xfe",
        b"\xc3\xbc\xf0\x9f\xa6\x80",
        long.as_bytes(),
    ];
    let mut keys: BTreeSet<Vec<u8>> = odd.iter().map(|key| [b"p/", *key].concat()).collect();
    let want: BTreeSet<&[u8]> = odd.iter().copied().collect();
    // Neighbours of the prefix.
    keys.extend([b"o".to_vec(), b"p".to_vec(), b"p-".to_vec(), b"p0".to_vec(), b"pq/x".to_vec()]);
    for page_keys in [1, 2, 1000] {
        let server = FakeS3::start(keys.clone(), page_keys, false).await.expect("start");
        let (bucket, _) = connect("s3://b/p", &server.options());
        let found = scan(&bucket, KeyRange::default(), 4).await;
        assert_eq!(keys_of(&found), Vec::from_iter(want.clone()));
        let first = &found[0];
        assert_eq!((first.size, first.last_modified_unix_ms), (2, 1_714_979_289_000));
        assert_eq!(first.etag.as_deref(), Some("\"d41d8cd98f00b204e9800998ecf8427e\""));
        for object in &found {
            // The fake answers no HEAD.
            if !weir_object::is_addressable(&object.key) {
                let one = bucket.head_listed(LINK, &object.key).await.expect("one");
                assert_eq!(one.as_ref(), Some(object), "{}", object.key.escape_ascii());
            }
        }
        for missing in [&b"//"[..], b"a/../", b"no utf8 \xff", b"space/", b"ctrl\x01\n\r\t\x7f\x7f"]
        {
            assert_eq!(bucket.head_listed(LINK, missing).await.expect("none"), None);
        }
        let top: Vec<&[u8]> = vec![b"", b"./", b"/", b"a", b"a+b c%2F&<\">'", b"a/"];
        let found = level(&bucket, "", None).await;
        assert_eq!(found[..top.len()], top);
        assert_eq!(found.len(), 12);
        assert_eq!(level(&bucket, "a/", None).await, [&b"a/"[..], b"a/../", b"a//", b"a/b"]);
        for at in 0..found.len() {
            let rest = level(&bucket, "", Some(&found[at])).await;
            assert_eq!(rest, found[at + 1..], "{page_keys} {}", found[at].escape_ascii());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_odd_keys_in_random_intervals() {
    let seed = rand::random();
    eprintln!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut odd = |least: usize| -> Vec<u8> {
        let len = rng.random_range(least..10);
        let bytes = b"aabc//..\x01 %+\xc3\xbc\xff09";
        (0..len).map(|_| bytes[rng.random_range(0..bytes.len())]).collect()
    };
    let keys: BTreeSet<Vec<u8>> = (0..9_000).map(|_| odd(1)).collect();
    let server = FakeS3::start(keys.clone(), 100, false).await.expect("start");
    let (bucket, meter) = connect("s3://b", &server.options());
    for round in 0..30 {
        let mut ends = [odd(1), odd(1)];
        ends.sort();
        let [after, until] = ends.map(Some);
        let (after, until) = match round % 4 {
            0 => (None, None),
            1 => (after, None),
            2 => (None, until),
            _ if after < until => (after, until),
            _ => continue,
        };
        let found = scan(&bucket, KeyRange { after: after.clone(), until: until.clone() }, 6).await;
        let inside = |key: &&Vec<u8>| {
            after.as_ref().is_none_or(|after| *key > after)
                && until.as_ref().is_none_or(|until| *key <= until)
        };
        let want: Vec<&[u8]> = keys.iter().filter(inside).map(Vec::as_slice).collect();
        let found = keys_of(&found);
        let differ = found.iter().zip(&want).find(|(a, b)| a != b);
        assert_eq!((differ, found.len()), (None, want.len()), "{after:?} {until:?}");
    }
    assert!(meter.snapshot().row(LINK, RequestKind::List).is_some_and(|row| row.failed == 0));
}

#[tokio::test]
async fn a_server_without_order_is_refused() {
    let keys = (0..50).map(|n| format!("{n:03}").into_bytes()).collect();
    let server = FakeS3::start(keys, 20, true).await.expect("start");
    let (bucket, meter) = connect("s3://b", &server.options());
    let pages = bucket.scan_keys(LINK, KeyRange::default(), 4);
    let error = pages.try_collect::<Vec<_>>().await.expect_err("out of order");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(meter.snapshot().requests(RequestKind::List), 1);
}

#[tokio::test]
async fn a_directory_shows_its_names_as_they_are() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut want = BTreeSet::new();
    let names: [&[u8]; 8] =
        [b"a", b"a-", b"b\xff/c\xfe", b"ctrl\x01", b"sp /x", b"b/y", b"b-/z", b"k#x"];
    for name in names {
        let path = dir.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
        std::fs::write(path, name).expect("write");
        want.insert(name.to_vec());
    }
    // Leftovers, a link back up, a link that leads nowhere, an empty directory.
    let links: [&[u8]; 2] = [b"b/up", b"dead"];
    std::fs::write(dir.path().join("b/y#123"), "no").expect("write");
    std::os::unix::fs::symlink(dir.path(), dir.path().join("b/up")).expect("link");
    std::os::unix::fs::symlink("nowhere", dir.path().join("dead")).expect("link");
    std::fs::create_dir(dir.path().join("empty")).expect("mkdir");
    let url = format!("file://{}", dir.path().display());
    let (bucket, _) = connect(&url, &ConnectOptions::default());
    let (found, hidden): (Vec<_>, Vec<_>) = scan(&bucket, KeyRange::default(), 4)
        .await
        .into_iter()
        .partition(|object| object.cannot_show.is_none());
    let want: Vec<&[u8]> = want.iter().map(Vec::as_slice).collect();
    assert_eq!((keys_of(&found), keys_of(&hidden)), (want, links.to_vec()));
    assert_eq!(bucket.head_listed(LINK, b"ctrl\x02").await.expect("none"), None);
    assert_eq!(bucket.head_listed(LINK, b"b\xff/").await.expect("none"), None);
    assert_eq!(bucket.head_listed(LINK, b"").await.expect("none"), None);
    for object in &found {
        assert_eq!(object.size, object.key.len() as u64);
        let one = bucket.head_listed(LINK, &object.key).await.expect("one");
        assert_eq!(one.as_ref(), Some(object), "{}", object.key.escape_ascii());
        if let Ok(key) = std::str::from_utf8(&object.key)
            && weir_object::is_addressable(&object.key)
        {
            assert_eq!(bucket.head(LINK, key).await.expect("head").etag, object.etag, "{key}");
        }
    }
    let after = Some(b"b/y".to_vec());
    let found = scan(&bucket, KeyRange { after, until: Some(b"b\xff".to_vec()) }, 4).await;
    assert_eq!(keys_of(&found), [&b""[..]; 0]);
    assert_eq!(level(&bucket, "b/", None).await, [&b"b/up"[..], b"b/y"]);
    // An empty directory in its place is not one whose files are gone.
    let (root, away) = (dir.path().to_owned(), dir.path().with_extension("away"));
    std::fs::rename(&root, &away).expect("rename");
    std::fs::create_dir(&root).expect("mkdir");
    let short = ConnectOptions { timeout_ms: 200, ..Default::default() };
    let url = url.parse().expect("url");
    let fresh = Bucket::connect(&url, &short, &Meter::new()).expect("another directory");
    assert_eq!(scan(&fresh, KeyRange::default(), 1).await, []);
    std::fs::remove_dir(&root).expect("rmdir");
    std::fs::rename(&away, &root).expect("rename");
    let error = fresh.scan_keys(LINK, KeyRange::default(), 1).try_collect::<Vec<_>>().await;
    assert_eq!(error.expect_err("it is away").kind(), ErrorKind::Retry);
}
