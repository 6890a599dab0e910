use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};

use object_store::path::Path;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::pages::PageAsk;
use super::scan::{Scan, Source};
use super::*;
use crate::listed::{PAGE_KEYS, Page, is_addressable};

/// Keys in memory, listed as a server does, one page of `page_keys` at a time.
#[derive(Clone)]
struct Fake {
    keys: Arc<BTreeMap<Vec<u8>, u64>>,
    page_keys: usize,
    lists: Arc<AtomicUsize>,
    under_way: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Fake {
    fn new(keys: impl IntoIterator<Item = Vec<u8>>, page_keys: usize) -> Self {
        let keys = keys.into_iter().zip(1..).collect();
        Self {
            keys: Arc::new(keys),
            page_keys,
            lists: Arc::default(),
            under_way: Arc::default(),
            most: Arc::default(),
        }
    }

    /// Lists `range` and checks that the pages tell the truth about all of it.
    async fn check(&self, range: KeyRange, parallel: usize) {
        let scan = Scan::new(self.clone(), range.clone(), parallel).into_stream();
        let mut pages: Vec<KeyPage> = scan.try_collect().await.expect("scan");
        pages.sort_by(|a, b| a.after.cmp(&b.after));
        let mut end = range.after.clone();
        for page in &pages {
            assert_eq!(page.after, end, "intervals touch");
            assert!(page.until.is_none() || page.until > page.after);
            let want = self.between(page.after.as_deref(), page.until.as_deref());
            let have: Vec<_> = page.objects.iter().map(|o| (o.key.clone(), o.size)).collect();
            assert_eq!(have, want);
            end.clone_from(&page.until);
        }
        assert_eq!(end, range.until);
    }

    fn between(&self, after: Option<&[u8]>, until: Option<&[u8]>) -> Vec<(Vec<u8>, u64)> {
        let lower = after.map_or(Bound::Unbounded, Bound::Excluded);
        let upper = until.map_or(Bound::Unbounded, Bound::Included);
        if after.zip(until).is_some_and(|(after, until)| after >= until) {
            return Vec::new();
        }
        let found = self.keys.range::<[u8], _>((lower, upper));
        found.map(|(key, size)| (key.clone(), *size)).collect()
    }
}

impl Source for Fake {
    async fn page(&mut self, ask: &PageAsk) -> Result<Page> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        let now = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        // A key that is no UTF-8 cannot be asked for: only by token.
        let after = ask.token.as_ref().map(|hex| {
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16)).collect()
        });
        let after = after.map_or_else(|| ask.after.clone(), |key: Result<_, _>| key.ok());
        assert!(ask.token.is_some() || after.iter().all(|key| str::from_utf8(key).is_ok()));
        let lower = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.keys.range::<[u8], _>((lower, Bound::Unbounded));
        let mut found: Vec<_> =
            behind.take(self.page_keys + 1).map(|(key, size)| (key.clone(), *size)).collect();
        let truncated = found.len() > self.page_keys;
        found.truncate(self.page_keys);
        let hex = |key: &[u8]| key.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let token = found.last().filter(|_| truncated).map(|(key, _)| hex(key));
        let object = |(key, size)| ListedObject {
            key,
            size,
            etag: None,
            last_modified_unix_ms: 0,
            cannot_show: None,
        };
        let objects = found.into_iter().map(object).collect();
        Ok(Page { objects, directories: Vec::new(), truncated, token })
    }
}

fn digits(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| format!("n{n:07}").into_bytes()).collect()
}

fn days(count: usize) -> Vec<Vec<u8>> {
    let key = |n: usize| {
        let (part, day) = (n % 700, n / 700);
        let (year, month, day) = (2020 + day / 336, day / 28 % 12 + 1, day % 28 + 1);
        format!("lake/year={year}/month={month:02}/day={day:02}/part-{part:05}.parquet")
    };
    (0..count).map(|n| key(n).into_bytes()).collect()
}

fn hashes(count: usize, rng: &mut StdRng) -> Vec<Vec<u8>> {
    (0..count).map(|_| format!("objects/{:032x}", rng.random::<u128>()).into_bytes()).collect()
}

/// A forest of uneven directories with names of words and numbers.
fn forest(count: usize, rng: &mut StdRng) -> Vec<Vec<u8>> {
    let words = ["src", "test", "data", "ümläut", "img", "日本", "a", "zz", "README", "01", "X"];
    let mut directories = vec![String::new()];
    let mut keys = Vec::new();
    while keys.len() < count {
        let below = directories.choose(rng).cloned().unwrap_or_default();
        let word = words.choose(rng).copied().unwrap_or_default();
        let name = format!("{below}{word}-{}", rng.random_range(0..50_000));
        if rng.random_bool(0.01) {
            directories.push(format!("{name}/"));
        }
        keys.push(name.into_bytes());
    }
    keys
}

#[tokio::test(start_paused = true)]
async fn many_listings_share_any_tree() {
    let seed = rand::random();
    eprintln!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    // The last is how many times faster than one listing they are at least; in a forest that
    // depends on how uneven it grew (5.3 to 7.5 times in 14 of them).
    let sets = [
        ("digits", digits(300_000), 5),
        ("days", days(300_000), 5),
        ("hashes", hashes(300_000, &mut rng), 5),
        ("forest", forest(300_000, &mut rng), 3),
    ];
    for (name, keys, faster) in sets {
        let fake = Fake::new(keys, PAGE_KEYS);
        let start = tokio::time::Instant::now();
        fake.check(KeyRange::default(), 16).await;
        let rounds = start.elapsed().as_millis() / 50;
        let lists = fake.lists.load(Ordering::SeqCst);
        let least = fake.keys.len().div_ceil(PAGE_KEYS);
        let each = lists as f64 / rounds as f64;
        eprintln!("{name}: {lists} LISTs ({least} at least), {each:.1} in each of {rounds} rounds");
        assert!(fake.most.load(Ordering::SeqCst) <= 16);
        assert!(lists <= least * 2 + 1, "{name}: {lists} LISTs, {least} would do");
        assert!(rounds <= least as u128 / faster, "{name}: {rounds} rounds, {least} one by one");
    }
}

#[tokio::test(start_paused = true)]
async fn small_listings_cost_few_requests() {
    for (keys, most) in [(0, 1), (1, 1), (999, 1), (1000, 1), (1001, 3), (5000, 9), (50_000, 99)] {
        let fake = Fake::new(digits(keys), PAGE_KEYS);
        fake.check(KeyRange::default(), 64).await;
        let lists = fake.lists.load(Ordering::SeqCst);
        assert!(lists <= most, "{keys} keys took {lists} LISTs");
    }
}

#[tokio::test(start_paused = true)]
async fn pages_tell_the_truth_about_odd_keys_in_any_range() {
    let seed = rand::random();
    eprintln!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut odd = |longest: usize| -> Vec<u8> {
        let len = rng.random_range(0..longest);
        // Few bytes, so that keys are near each other; some of them no UTF-8.
        let bytes = b"aabb//..\x00\x01 \x7f\xc3\xbc\xff0";
        (0..len).map(|_| bytes[rng.random_range(0..bytes.len())]).collect()
    };
    for round in 0..300 {
        let keys: Vec<_> = (0..round * 3).map(|_| odd(12)).collect();
        let mut fake = Fake::new(keys, 7);
        let mut ends = [odd(4), odd(4)];
        ends.sort();
        let [after, until] = ends;
        let after = Some(after).filter(|key| str::from_utf8(key).is_ok() && round % 3 > 0);
        let until = Some(until).filter(|until| round % 2 > 0 && Some(until) > after.as_ref());
        fake.check(KeyRange { after: after.clone(), until: until.clone() }, 5).await;
        // Ends that are keys, too.
        if let Some(key) = fake.keys.keys().nth(round).cloned() {
            fake.page_keys = 3;
            let plain = Some(key).filter(|key| str::from_utf8(key).is_ok());
            fake.check(KeyRange { after: plain.clone(), until: None }, 8).await;
            let until = plain.filter(|key| Some(key) > after.as_ref());
            fake.check(KeyRange { after, until }, 8).await;
        }
    }
}

#[test]
fn addressable_is_what_the_library_can_express() {
    let seed: u64 = rand::random();
    eprintln!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut good = 0;
    for _ in 0..100_000 {
        let len = rng.random_range(0..7);
        let bytes = b"ab./ \x01\x7f\xc3\xbc%#";
        let key: Vec<u8> = (0..len).map(|_| bytes[rng.random_range(0..bytes.len())]).collect();
        let parsed = str::from_utf8(&key).ok().and_then(|text| Path::parse(text).ok());
        // The library drops a slash at either end, and knows the empty path.
        let same = parsed.is_some_and(|path| !key.is_empty() && path.as_ref().as_bytes() == key);
        assert_eq!(is_addressable(&key), same, "{}", key.escape_ascii());
        good += u32::from(same);
    }
    assert!(good > 1000);
}
