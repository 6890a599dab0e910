//! What every engine must do, as one suite of tests: `conformance!(engine)` runs it.
//!
//! An engine comes in as an [`Engine`]: a way to start over nothing, and a way to start over what
//! a kill would have left.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weir_types::{ErrorKind, FsError, Result};

use super::{Check, Commit, CommitLog, Key, Kv, Outcome, Version, Versioned};

/// An engine under test, with the storage below it.
#[async_trait]
pub(crate) trait Engine: Send + Sync + Sized + 'static {
    /// What it serves.
    type Kv: Kv;
    /// Whether versions count the commits: 1, 2, 3, those of counters too, and a sum past 8 bytes is
    /// refused when it comes about. Else versions only rise, and it is an error when it is read.
    const COUNTS: bool = true;
    /// Whether commits are noted in a redo log.
    const LOGGED: bool = true;
    /// Longest key that it takes.
    const KEY_BYTES_MAX: usize = 65_535;
    /// An engine over nothing.
    async fn fresh(log: Option<Arc<dyn CommitLog>>) -> (Self, Self::Kv);
    /// An engine over what is left if the process dies at this moment.
    async fn killed(&self) -> Self::Kv;
    /// Applies one entry of a redo log, if it has one.
    async fn replay(kv: &Self::Kv, version: Version, entry: &[u8]) -> Result<bool>;
}

/// Runs the suite on an [`Engine`].
macro_rules! conformance {
    ($engine:ty) => {
        $crate::kv::conformance::conformance!($engine, without_log);
        $crate::kv::conformance::conformance!($engine:
            a_log_that_fails_stops_the_commit_only, a_cut_off_caller_leaves_log_and_map_equal,
            a_kill_loses_nothing_that_was_acknowledged, replay_refuses_gaps_and_garbage,
        );
    };
    ($engine:ty, with_checkpoints) => {
        $crate::kv::conformance::conformance!($engine);
        $crate::kv::conformance::conformance!($engine: kept_states_stay_as_they_were,);
    };
    ($engine:ty, without_log) => {
        $crate::kv::conformance::conformance!($engine:
            absent_and_version_checks, a_conflict_changes_nothing, counters_add_up,
            what_is_no_counter_is_refused, deletes_leave_nothing, scans_are_ordered_and_limited,
            scans_end_where_the_prefix_ends, nonsense_is_refused, a_check_alone_writes_nothing,
            checked_increments_lose_nothing, adds_never_conflict, it_agrees_with_a_sorted_map,
            a_changed_counter_has_another_version, values_lead_to_other_keys,
            what_has_no_number_leads_nowhere, what_is_raised_never_falls,
            raises_never_conflict,
        );
    };
    ($engine:ty: $($test:ident,)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            $crate::kv::conformance::$test::<$engine>().await;
        })*
    };
}
pub(crate) use conformance;

/// A redo log in memory that can be told to fail.
#[derive(Default)]
pub(crate) struct TestLog {
    pub(crate) entries: Mutex<Vec<(Version, Vec<u8>)>>,
    pub(crate) full: AtomicBool,
    pub(crate) broken: AtomicBool,
}

impl CommitLog for TestLog {
    fn append(&self, version: Version, entry: &[u8]) -> Result<()> {
        if self.full.load(Ordering::SeqCst) {
            return Err(FsError::new(ErrorKind::NoSpace, "the disk is full"));
        }
        if self.broken.load(Ordering::SeqCst) {
            return Err(FsError::new(ErrorKind::Retry, "the disk is broken"));
        }
        self.entries.lock().push((version, entry.to_vec()));
        Ok(())
    }
}

impl TestLog {
    fn take(&self) -> Vec<(Version, Vec<u8>)> {
        self.entries.lock().clone()
    }

    /// Asserts that versions start at 1 and have no gaps.
    fn assert_ordered(&self) {
        let versions: Vec<_> = self.take().into_iter().map(|(version, _)| version).collect();
        assert_eq!(versions, (1..=versions.len() as u64).collect::<Vec<_>>());
    }
}

pub(crate) fn key(text: &str) -> Key {
    text.as_bytes().to_vec()
}

pub(crate) fn put(name: &str, value: &str) -> Commit {
    Commit { puts: vec![(key(name), value.to_owned().into())], ..Commit::default() }
}

pub(crate) fn version(outcome: Outcome) -> Version {
    match outcome {
        Outcome::Applied(version) => version,
        Outcome::Conflict => panic!("conflict where none may be"),
    }
}

pub(crate) async fn get(kv: &(impl Kv + ?Sized), name: &str) -> Option<Versioned> {
    kv.get_many(&[key(name)]).await.unwrap().remove(0)
}

async fn count(kv: &impl Kv, name: &str) -> i64 {
    let value = get(kv, name).await.map(|have| have.value);
    value.map_or(0, |value| i64::from_le_bytes(value.as_ref().try_into().unwrap()))
}

pub(crate) async fn dump(kv: &(impl Kv + ?Sized)) -> Vec<(Key, Versioned)> {
    kv.scan(b"", None, usize::MAX).await.unwrap()
}

pub(crate) async fn absent_and_version_checks<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let guarded = |check: Check, value: &str| Commit { checks: vec![check], ..put("a", value) };
    let absent = || Check::Absent(key("a"));
    let first = version(kv.commit(guarded(absent(), "1")).await.unwrap());
    assert!(first > 0);
    assert_eq!(kv.commit(guarded(absent(), "2")).await.unwrap(), Outcome::Conflict);
    let at = |version| Check::Version(key("a"), version);
    assert_eq!(kv.commit(guarded(at(first + 1), "2")).await.unwrap(), Outcome::Conflict);
    let second = version(kv.commit(guarded(at(first), "2")).await.unwrap());
    assert!(second > first);
    let elsewhere = Check::Version(key("none"), first);
    assert_eq!(kv.commit(guarded(elsewhere, "3")).await.unwrap(), Outcome::Conflict);
    let have = kv.get_many(&[key("none"), key("a")]).await.unwrap();
    assert_eq!(have, [None, Some(Versioned { version: second, value: "2".into() })]);
}

/// A value with a number behind its first byte, and some more.
fn leading_to(number: u64) -> Bytes {
    let mut value = vec![1];
    let mut rest = number;
    while rest >= 0x80 {
        value.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    value.extend([rest as u8, 0xff, 0]);
    value.into()
}

fn tagged(tag: u8, number: u64) -> Key {
    std::iter::once(tag).chain(number.to_be_bytes()).collect()
}

pub(crate) async fn values_lead_to_other_keys<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let all_bits = (1 << 63) - 1;
    for number in [0, 1, 127, 128, 16_383, 16_384, 1 << 32, 1 << 56, 1 << 62, all_bits] {
        let puts = [(key("a"), leading_to(number)), (tagged(b'I', number), "inode".into())];
        let adds = vec![(tagged(b'C', number), 7)];
        kv.commit(Commit { puts: puts.into(), adds, ..Commit::default() }).await.unwrap();
        let followed = kv.follow(&key("a"), b"TICI").await.unwrap();
        let keys = [key("a"), tagged(b'I', number), tagged(b'C', number)];
        let [from, inode, count] = kv.get_many(&keys).await.unwrap().try_into().unwrap();
        assert!(inode.is_some() && count.is_some());
        assert_eq!(followed.from, from, "{number}");
        assert_eq!(followed.to, [None, inode.clone(), count, inode], "{number}");
        let followed = kv.follow(&key("a"), b"").await.unwrap();
        assert_eq!((followed.from, followed.to), (from, Vec::new()));
    }
}

pub(crate) async fn what_has_no_number_leads_nowhere<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let puts = [0, 1, 5, u64::MAX, 1 << 63].map(|number| (tagged(b'I', number), "x".into()));
    kv.commit(Commit { puts: puts.into(), ..Commit::default() }).await.unwrap();
    let nowhere = [None, None];
    assert_eq!(kv.follow(&key("a"), b"IT").await.unwrap().to, nowhere);
    let cut_off: [&[u8]; 4] =
        [b"", &[1], &[1, 0x85], &[1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80]];
    let cut_off = cut_off.map(Bytes::from_static);
    for value in cut_off.into_iter().chain([leading_to(1 << 63), leading_to(u64::MAX)]) {
        let commit = Commit { puts: vec![(key("a"), value.clone())], ..Commit::default() };
        kv.commit(commit).await.unwrap();
        let followed = kv.follow(&key("a"), b"IT").await.unwrap();
        assert_eq!(followed.from.unwrap().value, value);
        assert_eq!(followed.to, nowhere, "{value:?}");
    }
}

pub(crate) async fn a_conflict_changes_nothing<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let old = version(kv.commit(put("old", "1")).await.unwrap());
    let before = dump(&kv).await;
    let mixed = |last: Check| Commit {
        checks: vec![Check::Absent(key("new")), last],
        puts: vec![(key("new"), "1".into())],
        deletes: vec![key("old")],
        adds: vec![(key("n"), 5)],
        raises: vec![(key("r"), "5".into())],
    };
    let outcome = kv.commit(mixed(Check::Absent(key("old")))).await.unwrap();
    assert_eq!(outcome, Outcome::Conflict);
    assert_eq!(dump(&kv).await, before);
    let done = version(kv.commit(mixed(Check::Version(key("old"), old))).await.unwrap());
    let versions: Vec<_> = dump(&kv).await.into_iter().map(|(k, v)| (k, v.version)).collect();
    let counted = if E::COUNTS { done } else { versions[0].1 };
    let raised = if E::COUNTS { done } else { versions[2].1 };
    assert_eq!(versions, [(key("n"), counted), (key("new"), done), (key("r"), raised)]);
}

pub(crate) async fn counters_add_up<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let add = |n| Commit { adds: vec![(key("n"), n)], ..Commit::default() };
    for (n, sum) in [(5, 5), (-7, -2), (0, -2), (i64::MAX, i64::MAX - 2)] {
        kv.commit(add(n)).await.unwrap();
        assert_eq!(count(&kv, "n").await, sum);
    }
    if E::COUNTS {
        let error = kv.commit(add(3)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert_eq!(count(&kv, "n").await, i64::MAX - 2);
}

pub(crate) async fn what_is_no_counter_is_refused<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    kv.commit(put("text", "hello")).await.unwrap();
    let before = dump(&kv).await;
    let commit = Commit { adds: vec![(key("text"), 1)], ..put("other", "1") };
    let error = kv.commit(commit).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(dump(&kv).await, before);
}

pub(crate) async fn deletes_leave_nothing<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    kv.commit(put("a", "1")).await.unwrap();
    let delete = Commit { deletes: vec![key("a"), key("never")], ..Commit::default() };
    kv.commit(delete).await.unwrap();
    assert_eq!(get(&kv, "a").await, None);
    assert_eq!(dump(&kv).await, []);
    let again = Commit { checks: vec![Check::Absent(key("a"))], ..put("a", "2") };
    version(kv.commit(again).await.unwrap());
}

pub(crate) async fn scans_are_ordered_and_limited<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    for name in ["d/3", "d/1", "e", "d", "c/9", "d/2", "d/10"] {
        kv.commit(put(name, name)).await.unwrap();
    }
    let names = async |prefix: &str, after: Option<&str>, limit| {
        let found = kv.scan(prefix.as_bytes(), after.map(str::as_bytes), limit).await.unwrap();
        assert!(found.iter().all(|(key, have)| key[..] == have.value[..] && have.version > 0));
        let names = found.into_iter().map(|(key, _)| String::from_utf8(key).unwrap());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("d/", None, 99).await, "d/1 d/10 d/2 d/3");
    assert_eq!(names("d/", None, 2).await, "d/1 d/10");
    assert_eq!(names("d/", Some("d/10"), 99).await, "d/2 d/3");
    assert_eq!(names("d/", Some("d/11"), 1).await, "d/2");
    assert_eq!(names("d/", Some("d/3"), 99).await, "");
    assert_eq!(names("d/", Some("a"), 1).await, "d/1");
    assert_eq!(names("d/", Some("e"), 99).await, "");
    assert_eq!(names("d", Some("d"), 99).await, "d/1 d/10 d/2 d/3");
    assert_eq!(names("", Some("d/3"), 99).await, "e");
    assert_eq!(names("", None, 99).await, "c/9 d d/1 d/10 d/2 d/3 e");
    assert_eq!(names("x", None, 99).await, "");
    assert_eq!(names("d/", None, 0).await, "");
}

pub(crate) async fn scans_end_where_the_prefix_ends<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let keys: [&[u8]; 7] =
        [b"\x00", b"\xfe\xff", b"\xff", b"\xff\x00", b"\xff\xff", b"\xff\xff\xff", b"\xff\xff\x01"];
    for key in keys {
        let puts = vec![(key.to_vec(), Bytes::new())];
        kv.commit(Commit { puts, ..Commit::default() }).await.unwrap();
    }
    let found = async |prefix: &[u8], after: Option<&[u8]>| {
        let found = kv.scan(prefix, after, 99).await.unwrap();
        found.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
    };
    let ff: [&[u8]; 3] = [b"\xff\xff", b"\xff\xff\x01", b"\xff\xff\xff"];
    assert_eq!(found(b"\xff\xff", None).await, ff);
    assert_eq!(found(b"\xff\xff", Some(b"\xff\xff\x01")).await, ff[2..]);
    assert_eq!(found(b"\xff\xff", Some(b"\xff\xff\xff")).await, [] as [&[u8]; 0]);
    assert_eq!(found(b"\xfe", None).await, [b"\xfe\xff"]);
    assert_eq!(found(b"\xff", None).await.len(), 5);
    assert_eq!(found(b"\x00", None).await, [b"\x00"]);
}

pub(crate) async fn nonsense_is_refused<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let twice = Commit { deletes: vec![key("a")], ..put("a", "1") };
    let added = Commit { adds: vec![(key("a"), 1)], ..put("a", "1") };
    let raised = Commit { raises: vec![(key("a"), "1".into())], ..put("a", "1") };
    let long = "x".repeat(E::KEY_BYTES_MAX + 1);
    for commit in [put("", "1"), put(&long, "1"), raise(&long, "1"), twice, added, raised] {
        let error = kv.commit(commit).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    kv.commit(put(&"x".repeat(E::KEY_BYTES_MAX), "1")).await.unwrap();
    assert_eq!(dump(&kv).await.len(), 1);
}

pub(crate) async fn a_check_alone_writes_nothing<E: Engine>() {
    let log = Arc::new(TestLog::default());
    let (_engine, kv) = E::fresh(Some(log.clone())).await;
    let newest = version(kv.commit(put("a", "1")).await.unwrap());
    let check = |name| Commit { checks: vec![Check::Absent(key(name))], ..Commit::default() };
    assert_eq!(kv.commit(check("b")).await.unwrap(), Outcome::Applied(newest));
    assert_eq!(kv.commit(check("a")).await.unwrap(), Outcome::Conflict);
    assert_eq!(log.take().len(), usize::from(E::LOGGED));
}

pub(crate) async fn a_changed_counter_has_another_version<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let add = |n| Commit { adds: vec![(key("n"), n)], ..Commit::default() };
    let checked = |check, commit| Commit { checks: vec![check], ..commit };
    let seen = async || get(&kv, "n").await.unwrap().version;
    let first = || Check::Absent(key("n"));
    version(kv.commit(checked(first(), put("a", "1"))).await.unwrap());
    version(kv.commit(checked(first(), add(1))).await.unwrap());
    assert_eq!(kv.commit(checked(first(), put("a", "2"))).await.unwrap(), Outcome::Conflict);
    let old = seen().await;
    let held = || Check::Version(key("n"), old);
    version(kv.commit(checked(held(), put("a", "3"))).await.unwrap());
    // As many as before, and yet changed.
    version(kv.commit(add(1)).await.unwrap());
    version(kv.commit(add(-1)).await.unwrap());
    assert_eq!(count(&kv, "n").await, 1);
    assert_eq!(kv.commit(checked(held(), put("a", "4"))).await.unwrap(), Outcome::Conflict);
    let delete = || Commit { deletes: vec![key("n")], ..Commit::default() };
    assert_eq!(kv.commit(checked(held(), delete())).await.unwrap(), Outcome::Conflict);
    let now = Check::Version(key("n"), seen().await);
    version(kv.commit(checked(now, delete())).await.unwrap());
    assert_eq!(get(&kv, "n").await, None);
    // What is put is counted on from, and what is put over a counter is all of it.
    let seven = Bytes::copy_from_slice(&7_i64.to_le_bytes());
    let put_seven = || Commit { puts: vec![(key("n"), seven.clone())], ..Commit::default() };
    let put_at = version(kv.commit(put_seven()).await.unwrap());
    version(kv.commit(add(-9)).await.unwrap());
    assert_eq!(count(&kv, "n").await, -2);
    let stale = Check::Version(key("n"), put_at);
    assert_eq!(kv.commit(checked(stale, put("a", "5"))).await.unwrap(), Outcome::Conflict);
    let now = Check::Version(key("n"), seen().await);
    version(kv.commit(checked(now, put_seven())).await.unwrap());
    assert_eq!(count(&kv, "n").await, 7);
}

fn raise(name: &str, value: &str) -> Commit {
    Commit { raises: vec![(key(name), value.to_owned().into())], ..Commit::default() }
}

pub(crate) async fn what_is_raised_never_falls<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let checked = |check, commit| Commit { checks: vec![check], ..commit };
    let mut versions = Vec::new();
    for (value, highest) in
        [("b", "b"), ("a", "b"), ("", "b"), ("ba", "ba"), ("c", "c"), ("c", "c")]
    {
        version(kv.commit(raise("r", value)).await.unwrap());
        let have = get(&kv, "r").await.unwrap();
        assert_eq!(have.value, highest, "after {value}");
        versions.push(have.version);
    }
    assert!(versions.windows(2).all(|pair| pair[0] != pair[1]), "{versions:?}");
    assert_eq!(dump(&kv).await.len(), 1);
    let at = |version| Check::Version(key("r"), version);
    let delete = || Commit { deletes: vec![key("r")], ..Commit::default() };
    assert_eq!(kv.commit(checked(at(versions[4]), delete())).await.unwrap(), Outcome::Conflict);
    assert_eq!(
        kv.commit(checked(at(versions[4]), raise("r", "d"))).await.unwrap(),
        Outcome::Conflict
    );
    version(kv.commit(checked(at(versions[5]), raise("r", "d"))).await.unwrap());
    assert_eq!(kv.commit(checked(at(versions[5]), delete())).await.unwrap(), Outcome::Conflict);
    let now = get(&kv, "r").await.unwrap().version;
    version(kv.commit(checked(at(now), delete())).await.unwrap());
    assert_eq!(get(&kv, "r").await, None);
    // What was removed is forgotten, and what is put is raised on from.
    version(kv.commit(checked(Check::Absent(key("r")), raise("r", "a"))).await.unwrap());
    assert_eq!(get(&kv, "r").await.unwrap().value, "a");
    assert_eq!(
        kv.commit(checked(Check::Absent(key("r")), delete())).await.unwrap(),
        Outcome::Conflict
    );
    let put_at = version(kv.commit(put("r", "5")).await.unwrap());
    assert_eq!(get(&kv, "r").await.unwrap(), Versioned { version: put_at, value: "5".into() });
    version(kv.commit(raise("r", "4")).await.unwrap());
    assert_eq!(get(&kv, "r").await.unwrap().value, "5");
    assert_eq!(kv.commit(checked(at(put_at), delete())).await.unwrap(), Outcome::Conflict);
    version(kv.commit(delete()).await.unwrap());
    assert_eq!(dump(&kv).await, []);
}

pub(crate) async fn raises_never_conflict<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let kv = Arc::new(kv);
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let kv = Arc::clone(&kv);
            tokio::spawn(async move {
                for n in 0..25 {
                    let value = format!("{:03}", (n * 16 + task) % 390);
                    version(kv.commit(raise("r", &value)).await.unwrap());
                    assert!(get(&*kv, "r").await.unwrap().value >= value);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(get(&*kv, "r").await.unwrap().value, "389");
}

pub(crate) async fn checked_increments_lose_nothing<E: Engine>() {
    const TASKS: usize = 16;
    const EACH: usize = 25;
    let log = Arc::new(TestLog::default());
    let (_engine, kv) = E::fresh(Some(log.clone())).await;
    let kv = Arc::new(kv);
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let kv = Arc::clone(&kv);
            tokio::spawn(async move {
                for _ in 0..EACH {
                    increment(&*kv).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(count(&*kv, "n").await, (TASKS * EACH) as i64);
    assert_eq!(log.take().len(), if E::LOGGED { TASKS * EACH } else { 0 });
    log.assert_ordered();
}

/// Adds one by reading and checking, as often as it takes.
async fn increment(kv: &impl Kv) {
    loop {
        let have = get(kv, "n").await;
        let check = match &have {
            None => Check::Absent(key("n")),
            Some(have) => Check::Version(key("n"), have.version),
        };
        let now = have.map_or(0, |v| i64::from_le_bytes(v.value.as_ref().try_into().unwrap()));
        let next = Bytes::copy_from_slice(&(now + 1).to_le_bytes());
        let puts = vec![(key("n"), next)];
        let commit = Commit { checks: vec![check], puts, ..Commit::default() };
        if kv.commit(commit).await.unwrap() != Outcome::Conflict {
            return;
        }
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn adds_never_conflict<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let kv = Arc::new(kv);
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let kv = Arc::clone(&kv);
            tokio::spawn(async move {
                for _ in 0..25 {
                    let adds = vec![(key("n"), task)];
                    version(kv.commit(Commit { adds, ..Commit::default() }).await.unwrap());
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(count(&*kv, "n").await, 25 * (0..16).sum::<i64>());
}

/// A commit over few keys, so that they meet often.
fn random_commit(rng: &mut StdRng, model: &BTreeMap<Key, Versioned>) -> Commit {
    let mut commit = Commit::default();
    let count = rng.random_range(1..6);
    let mut free: Vec<_> = (0..12).map(|n| key(&format!("k{n:02}"))).collect();
    for _ in 0..count {
        let key = free.swap_remove(rng.random_range(0..free.len()));
        match rng.random_range(0..4) {
            0 => commit.deletes.push(key),
            1 => commit.adds.push(([b"n", &key[..]].concat(), rng.random_range(-9..9))),
            _ => {
                let value = vec![rng.random_range(0..255); rng.random_range(0..300)];
                commit.puts.push((key, value.into()));
            }
        }
    }
    for _ in 0..rng.random_range(0..3) {
        let key = key(&format!("k{:02}", rng.random_range(0..12)));
        let right = rng.random_range(0..8) > 0;
        commit.checks.push(match (model.get(&key), right) {
            (Some(have), true) => Check::Version(key, have.version),
            (None, false) => Check::Version(key, 1),
            _ => Check::Absent(key),
        });
    }
    commit
}

/// What the contract says the commit does.
fn apply_to_model(
    model: &mut BTreeMap<Key, Versioned>,
    newest: &mut Version,
    commit: Commit,
) -> bool {
    let holds = |check: &Check| match check {
        Check::Absent(key) => !model.contains_key(key),
        Check::Version(key, version) => model.get(key).map(|v| v.version) == Some(*version),
    };
    if !commit.checks.iter().all(holds) {
        return false;
    }
    *newest += 1;
    let version = *newest;
    for (key, value) in commit.puts {
        model.insert(key, Versioned { version, value });
    }
    for key in commit.deletes {
        model.remove(&key);
    }
    for (key, add) in commit.adds {
        let have = model.get(&key).map_or([0; 8], |v| v.value.as_ref().try_into().unwrap());
        let sum = i64::from_le_bytes(have) + add;
        let value = Bytes::copy_from_slice(&sum.to_le_bytes());
        model.insert(key, Versioned { version, value });
    }
    true
}

fn seeded(test: &str) -> StdRng {
    let seed =
        std::env::var("WEIR_TEST_SEED").map_or_else(|_| rand::random(), |s| s.parse().unwrap());
    eprintln!("{test}: WEIR_TEST_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

pub(crate) async fn it_agrees_with_a_sorted_map<E: Engine>() {
    let mut rng = seeded("it_agrees_with_a_sorted_map");
    let (_engine, kv) = E::fresh(None).await;
    let (mut model, mut newest) = (BTreeMap::new(), 0);
    for _ in 0..400 {
        let commit = random_commit(&mut rng, &model);
        let outcome = kv.commit(commit.clone()).await.unwrap();
        if let (false, Outcome::Applied(version)) = (E::COUNTS, outcome) {
            assert!(version > newest, "{version} after {newest}");
            newest = version - 1;
        }
        let applied = apply_to_model(&mut model, &mut newest, commit.clone());
        let expect = if applied { Outcome::Applied(newest) } else { Outcome::Conflict };
        assert_eq!(outcome, expect, "{commit:?}");
        if rng.random_range(0..20) == 0 {
            kv.sync().await.unwrap();
            assert_eq!(kv.durable(), newest);
        }
    }
    let mut found = dump(&kv).await;
    for (key, have) in &mut found {
        let counter = !E::COUNTS && key.starts_with(b"n");
        have.version = if counter { model[key].version } else { have.version };
    }
    assert_eq!(found, model.into_iter().collect::<Vec<_>>());
}

pub(crate) async fn a_log_that_fails_stops_the_commit_only<E: Engine>() {
    let log = Arc::new(TestLog::default());
    let (_engine, kv) = E::fresh(Some(log.clone())).await;
    kv.commit(put("a", "1")).await.unwrap();
    let before = dump(&kv).await;
    log.broken.store(true, Ordering::SeqCst);
    let error = kv.commit(put("b", "1")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    assert_eq!(dump(&kv).await, before);
    log.broken.store(false, Ordering::SeqCst);
    assert_eq!(kv.commit(put("c", "1")).await.unwrap(), Outcome::Applied(2));
    log.assert_ordered();
}

pub(crate) async fn a_cut_off_caller_leaves_log_and_map_equal<E: Engine>() {
    let mut rng = seeded("a_cut_off_caller_leaves_log_and_map_equal");
    let log = Arc::new(TestLog::default());
    let (engine, kv) = E::fresh(Some(log.clone())).await;
    let kv = Arc::new(kv);
    for n in 0..200 {
        let caller = {
            let kv = Arc::clone(&kv);
            tokio::spawn(async move { kv.commit(put(&format!("k{n}"), "1")).await })
        };
        for _ in 0..rng.random_range(0..6) {
            tokio::task::yield_now().await;
        }
        caller.abort();
        let _ = caller.await;
    }
    // One more, so that the last of those cut off has ended.
    kv.commit(put("end", "1")).await.unwrap();
    log.assert_ordered();
    let again = engine.killed().await;
    for (version, entry) in log.take() {
        E::replay(&again, version, &entry).await.unwrap();
    }
    assert_eq!(dump(&again).await, dump(&*kv).await);
}

pub(crate) async fn a_kill_loses_nothing_that_was_acknowledged<E: Engine>() {
    let mut rng = seeded("a_kill_loses_nothing_that_was_acknowledged");
    let log = Arc::new(TestLog::default());
    let (engine, kv) = E::fresh(Some(log.clone())).await;
    let (mut model, mut newest) = (BTreeMap::new(), 0);
    for round in 0..120 {
        let commit = random_commit(&mut rng, &model);
        apply_to_model(&mut model, &mut newest, commit.clone());
        kv.commit(commit).await.unwrap();
        if round == 50 {
            kv.sync().await.unwrap();
        }
    }
    let again = engine.killed().await;
    let held = again.durable();
    for (version, entry) in log.take() {
        assert_eq!(E::replay(&again, version, &entry).await.unwrap(), version > held);
    }
    assert_eq!(dump(&again).await, model.into_iter().collect::<Vec<_>>());
    assert_eq!(again.commit(put("next", "1")).await.unwrap(), Outcome::Applied(newest + 1));
}

pub(crate) async fn replay_refuses_gaps_and_garbage<E: Engine>() {
    let log = Arc::new(TestLog::default());
    let (_engine, kv) = E::fresh(Some(log.clone())).await;
    for name in ["a", "b", "c"] {
        kv.commit(put(name, "some value")).await.unwrap();
    }
    let entries = log.take();
    let (_other, empty) = E::fresh(None).await;
    let corrupt = async |version, entry: &[u8]| {
        let error = E::replay(&empty, version, entry).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    };
    corrupt(2, &entries[1].1).await;
    corrupt(1, &entries[1].1).await;
    for cut in 0..entries[0].1.len() {
        corrupt(1, &entries[0].1[..cut]).await;
    }
    corrupt(1, &[&entries[0].1[..], b"x"].concat()).await;
    assert_eq!(dump(&empty).await, []);
    assert!(E::replay(&empty, 1, &entries[0].1).await.unwrap());
    assert!(!E::replay(&empty, 1, &entries[0].1).await.unwrap());
}

/// What only engines can that keep states.
pub(crate) async fn kept_states_stay_as_they_were<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let checkpoints = kv.checkpoints().unwrap();
    assert_eq!(checkpoints.kept().await.unwrap(), []);
    kv.commit(put("a", "1")).await.unwrap();
    kv.commit(Commit { adds: vec![(key("n"), 3)], ..Commit::default() }).await.unwrap();
    let before = dump(&kv).await;
    let first = checkpoints.keep("first").await.unwrap();
    kv.commit(put("a", "2")).await.unwrap();
    kv.commit(Commit { deletes: vec![key("n")], ..Commit::default() }).await.unwrap();
    let second = checkpoints.keep("second").await.unwrap();
    let then = dump(&kv).await;
    kv.commit(put("b", "1")).await.unwrap();
    kv.sync().await.unwrap();
    let mut kept = checkpoints.kept().await.unwrap();
    kept.sort_unstable_by(|one, other| one.1.cmp(&other.1));
    assert_eq!(kept, [(first, "first".to_owned()), (second, "second".to_owned())]);
    let at_first = checkpoints.at(first).await.unwrap();
    assert_eq!((dump(&*at_first).await, get(&*at_first, "b").await), (before, None));
    assert_eq!(dump(&*checkpoints.at(second).await.unwrap()).await, then);
    checkpoints.release(first).await.unwrap();
    checkpoints.release(first).await.unwrap();
    assert_eq!(checkpoints.at(first).await.err().unwrap().kind(), ErrorKind::NotFound);
    assert_eq!(dump(&*checkpoints.at(second).await.unwrap()).await, then);
    assert_eq!(checkpoints.kept().await.unwrap(), [(second, "second".to_owned())]);
}
