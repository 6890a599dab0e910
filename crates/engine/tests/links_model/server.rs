//! Where the objects of the links are: in memory, or at the server that `WEIR_LINKS_MODEL_URL`
//! names. What a server cannot hold, nobody puts there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::time::Duration;

use futures::TryStreamExt;
use weir_object::testing::change_odd;
use weir_object::{Bucket, ConnectOptions, KeyRange, ListedObject, Meter, PutCondition};
use weir_types::Result;

use super::{LAKE, LONG};

/// What a server cannot do it is not to be asked for longer.
const ASKED: Duration = Duration::from_secs(2);
/// Markers of directories. Those named `m` are no directories of ours.
const MARKERS: [&str; 6] =
    ["lake/d/", "lake/m/", "lake/m/n/", "lake/d/deep/", "pool/d/", "pool/m/"];
/// Keys that are no paths, of some part or other.
const HIDDEN: [&str; 9] = [
    "lake//a",
    "lake/d//b",
    "lake/d/./a",
    "lake/m/../a",
    "lake/line\nfeed",
    "lake/d/one\u{1}",
    "pool/two\u{1}/x",
    "pool/d/line\nfeed/x",
    concat!(
        "pool/",
        "oooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo",
        "oooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo",
        "oooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo",
        "oooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo",
    ),
];

/// The server, and what it can hold.
#[derive(Debug)]
pub struct Server {
    url: Option<String>,
    /// Keys `k` and `k/x` together, however they are put.
    pub nests: bool,
    /// Objects with names as long as can be, over one another.
    pub long: bool,
    /// Keys of no file.
    pub odd: Vec<&'static str>,
}

pub fn is_odd(key: &[u8]) -> bool {
    MARKERS.iter().chain(&HIDDEN).any(|odd| odd.as_bytes() == key)
}

pub fn connect(url: &str) -> Bucket {
    connect_for(url, 10_000)
}

/// With so much time for each call.
fn connect_for(url: &str, timeout_ms: u64) -> Bucket {
    let url = url.parse().expect("a URL");
    let options = ConnectOptions { timeout_ms, ..ConnectOptions::default() };
    Bucket::connect(&url, &options, &Meter::new()).expect("connects")
}

/// All objects, by key.
pub async fn list(bucket: &Bucket) -> Vec<ListedObject> {
    let pages = bucket.scan_keys(LAKE, KeyRange::default(), 1);
    let pages: Vec<_> = pages.try_collect().await.expect("lists");
    pages.into_iter().flat_map(|page| page.objects).collect()
}

/// Puts an object in parts, as those that are large go.
pub async fn put_parts(bucket: &Bucket, key: &str, bytes: &[u8]) -> Result<()> {
    let (size, nothing) = (bytes.len() as u64, BTreeMap::new());
    let upload = bucket.begin_upload(LAKE, key, size, &nothing).await?;
    for (at, part) in bytes.chunks(upload.part_bytes() as usize).enumerate() {
        upload.part(at + 1, part.to_vec().into()).await?;
    }
    upload.complete(&PutCondition::Any).await.map(drop)
}

impl Server {
    /// That of this process, which is asked once.
    pub fn this() -> &'static Self {
        static THIS: OnceLock<Server> = OnceLock::new();
        THIS.get_or_init(|| {
            let url = std::env::var("WEIR_LINKS_MODEL_URL").ok();
            let mut server = Self { url, nests: true, long: true, odd: Vec::new() };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(server.learn());
            eprintln!("{server:?}");
            server
        })
    }

    /// Whether it is a real one.
    pub fn is_real(&self) -> bool {
        self.url.is_some()
    }

    /// A place where nothing is.
    pub fn place(&self, name: &str) -> String {
        let id = rand::random::<u64>();
        match &self.url {
            Some(url) => format!("{url}/{name}-{id:x}"),
            None => format!("memory://{name}-{id:x}"),
        }
    }

    async fn learn(&mut self) {
        let place = |name: &str| connect_for(&self.place(name), ASKED.as_millis() as u64);
        let mut odd = Vec::new();
        for key in MARKERS.into_iter().chain(HIDDEN) {
            let bucket = place("odd");
            let bytes = if key.ends_with('/') { "" } else { "odd" };
            let put = change_odd(&bucket, key, Some(bytes.into())).await;
            let shows = list(&bucket).await.iter().map(|o| &*o.key).eq([key.as_bytes()]);
            let deleted = change_odd(&bucket, key, None).await;
            if put.is_ok() && shows && deleted.is_ok() && list(&bucket).await.is_empty() {
                odd.push(key);
            }
        }
        let long = "n".repeat(LONG);
        let holds_long = holds(&place("long"), [&long, &long]).await;
        let nests =
            holds(&place("a"), ["a", "a/b"]).await && holds(&place("b"), ["a/b", "a"]).await;
        (self.long, self.nests, self.odd) = (holds_long, nests, odd);
    }
}

/// Whether objects can be put at these keys, one after the other, whole and in parts. Parts that
/// the server does not put together are given up soon.
async fn holds(bucket: &Bucket, keys: [&str; 2]) -> bool {
    for key in keys {
        if bucket.put(LAKE, key, "whole").await.is_err() {
            return false;
        }
    }
    for key in keys {
        let put = put_parts(bucket, key, b"in parts");
        if !matches!(tokio::time::timeout(ASKED, put).await, Ok(Ok(()))) {
            return false;
        }
    }
    let keys = BTreeSet::from(keys);
    list(bucket).await.iter().map(|o| &*o.key).eq(keys.iter().map(|key| key.as_bytes()))
}
