//! Nodes over one map in memory, whose answers are late by chance.

mod defer;
mod writes;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use weir_types::{ErrorKind, FileKind, FsError, Ino, Result, UnixTime};

use super::*;
use crate::keys;
use crate::kv::{Commit, MemoryKv, Outcome, Version};
use crate::sessions::{NodeRow, join};
use crate::tests::{clock, dir, file, kind_of, meta_over, new};
use crate::{Meta, RenameMode, SetAttr, XattrMode};

/// How many times a test waits for something that others do, 10 ms each.
const LOOKS: u32 = 500;

/// A Kv that counts reads, and can be slow.
struct Slow {
    kv: Arc<MemoryKv>,
    reads: AtomicU64,
    commits: AtomicU64,
    dice: Option<Mutex<StdRng>>,
    /// Commits are made, and nobody is told.
    lose_answers: AtomicBool,
    /// Commits are on their way, and nobody is told.
    is_slow: AtomicBool,
    on_its_way: Mutex<Vec<Commit>>,
}

impl Slow {
    fn over(kv: &Arc<MemoryKv>, seed: Option<u64>) -> Arc<Self> {
        Arc::new(Self {
            kv: kv.clone(),
            reads: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            dice: seed.map(|seed| Mutex::new(StdRng::seed_from_u64(seed))),
            lose_answers: AtomicBool::new(false),
            is_slow: AtomicBool::new(false),
            on_its_way: Mutex::default(),
        })
    }

    async fn late(&self) {
        let pause = self.dice.as_ref().map(|dice| dice.lock().random_range(0..600_u64));
        match pause {
            Some(us @ 200..) => sleep(Duration::from_micros(us)).await,
            Some(_) => tokio::task::yield_now().await,
            None => {}
        }
    }
}

#[async_trait]
impl Kv for Slow {
    fn is_far(&self) -> bool {
        true
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.late().await;
        let found = self.kv.get_many(keys).await;
        self.late().await;
        found
    }

    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Versioned)>> {
        self.late().await;
        let found = self.kv.scan(prefix, after, limit).await;
        self.late().await;
        found
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome> {
        self.commits.fetch_add(1, Ordering::Relaxed);
        if self.is_slow.load(Ordering::Relaxed) {
            self.on_its_way.lock().push(commit);
            return Err(FsError::new(ErrorKind::Retry, "nobody knows"));
        }
        self.late().await;
        let outcome = self.kv.commit(commit).await;
        self.late().await;
        match self.lose_answers.load(Ordering::Relaxed) {
            true => Err(FsError::new(ErrorKind::Retry, "nobody knows")),
            false => outcome,
        }
    }

    async fn sync(&self) -> Result<()> {
        self.kv.sync().await
    }

    fn durable(&self) -> Version {
        self.kv.durable()
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// A node, with what it does in the background.
struct Node {
    meta: Arc<Meta>,
    kv: Arc<Slow>,
    /// Before it.
    behind: BehindKv,
    leases: Arc<Leases>,
    tasks: JoinSet<()>,
}

impl Node {
    async fn join(kv: &Arc<MemoryKv>, id: u64, seed: Option<u64>) -> Self {
        let kv = Slow::over(kv, seed);
        let text = String::new;
        let (name, host, tier, build) = (text(), text(), text(), text());
        let row = NodeRow { name, host, tier, build, since: UnixTime(0) };
        join(&*kv, SessionId(id), &row, &[]).await.unwrap();
        let began = Instant::now();
        let leases = Arc::new(Leases::new(SessionId(id), Arc::new(move || began.elapsed())));
        let behind = BehindKv::new(kv.clone());
        let meta = Meta::open(Arc::new(behind.clone()), clock()).await.unwrap();
        meta.set_shared();
        meta.set_leases(leases.clone());
        leases.beat_begins();
        leases.beat_answered();
        let mut tasks = JoinSet::new();
        let before: Arc<dyn Kv> = meta.kv().clone();
        let (of_take, of_give) = ((leases.clone(), before.clone()), (leases.clone(), before));
        tasks.spawn(async move { of_take.0.take_loop(&*of_take.1).await });
        tasks.spawn(async move { of_give.0.give_back_loop(&*of_give.1).await });
        Self { meta: Arc::new(meta), kv, behind, leases, tasks }
    }

    /// Looks at a name until there are leases on it and its directory.
    async fn lease(&self, dir: Ino, name: &[u8]) -> Ino {
        for _ in 0..LOOKS {
            self.forgive();
            let ino = self.meta.lookup(dir, name).await.unwrap().ino;
            if self.has(ino) && self.has(dir) {
                self.meta.lookup(dir, name).await.unwrap();
                return ino;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("no lease was taken");
    }

    fn has(&self, ino: Ino) -> bool {
        self.leases.state.lock().has(ino)
    }

    /// Leases may be taken at once, whatever was asked back; and a beat was answered.
    fn forgive(&self) {
        self.leases.state.lock().forgive();
        self.leases.writes.lock().forgive();
        self.leases.beat_begins();
        self.leases.beat_answered();
    }

    fn reads(&self) -> u64 {
        self.kv.reads.load(Ordering::Relaxed)
    }

    /// Whether all of it was remembered.
    async fn knows(&self, dir: Ino, name: &[u8]) -> bool {
        let before = self.reads();
        let _ = self.meta.lookup(dir, name).await;
        self.reads() == before
    }
}

async fn volume() -> Arc<MemoryKv> {
    let kv = Arc::new(MemoryKv::new());
    let meta = meta_over(kv.clone()).await;
    let at = dir(&meta, Ino::ROOT, "d").await;
    file(&meta, at, "f").await;
    kv
}

async fn two_nodes() -> (Node, Node, Ino) {
    let kv = volume().await;
    let (a, b) = (Node::join(&kv, 1, None).await, Node::join(&kv, 2, None).await);
    let at = a.meta.lookup(Ino::ROOT, b"d").await.unwrap().ino;
    (a, b, at)
}

#[tokio::test]
async fn what_is_looked_at_again_is_remembered_until_somebody_changes_it() {
    let (a, b, at) = two_nodes().await;
    let ino = a.lease(at, b"f").await;
    assert!(a.knows(at, b"f").await);
    let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    b.meta.setattr(ino, mode).await.unwrap();
    assert_eq!(a.meta.lookup(at, b"f").await.unwrap().mode, 0o600);
    a.lease(at, b"f").await;
    // Entries that are not there are remembered, too.
    assert_eq!(kind_of(a.meta.lookup(at, b"g").await), ErrorKind::NotFound);
    assert!(a.knows(at, b"g").await);
    let g = file(&b.meta, at, "g").await;
    assert_eq!(a.meta.lookup(at, b"g").await.unwrap().ino, g);
    a.lease(at, b"g").await;
    b.meta.unlink(at, b"g").await.unwrap();
    assert_eq!(kind_of(a.meta.lookup(at, b"g").await), ErrorKind::NotFound);
    let counts = a.leases.counts();
    assert!(counts.given_back >= 3 && counts.taken > 3 && counts.hits > 3, "{counts:?}");
    assert!(b.leases.counts().asked_back >= 3);
}

#[tokio::test]
async fn names_that_are_missed_again_and_again_are_asked_for_no_more() {
    let (a, b, at) = two_nodes().await;
    a.lease(at, b"f").await;
    let miss = async |name: &str| kind_of(a.meta.lookup(at, name.as_bytes()).await);
    for n in 0..8 {
        assert_eq!(miss(&format!("first{n}")).await, ErrorKind::NotFound);
    }
    let mut asked = u64::MAX;
    for n in 0..LOOKS {
        let before = a.reads();
        assert_eq!(miss(&format!("later{n}")).await, ErrorKind::NotFound);
        asked = a.reads() - before;
        if asked == 0 {
            break;
        }
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(asked, 0);
    assert!(a.knows(at, b"f").await);
    let made = file(&b.meta, at, "new").await;
    assert_eq!(a.meta.lookup(at, b"new").await.unwrap().ino, made);
}

#[tokio::test]
async fn every_kind_of_change_asks_for_leases() {
    let (a, b, at) = two_nodes().await;
    let other = dir(&b.meta, Ino::ROOT, "e").await;
    let ino = a.lease(at, b"f").await;
    let seen = |a: &Node| (a.meta.clone(), at);
    b.meta.xattr_set(ino, b"user.x", b"1", XattrMode::Any).await.unwrap();
    assert_eq!(&a.meta.xattr_get(ino, b"user.x").await.unwrap()[..], b"1");
    a.lease(at, b"f").await;
    b.meta.link(ino, other, b"l").await.unwrap();
    assert_eq!(a.meta.inode(ino).await.unwrap().nlink, 2);
    a.lease(at, b"f").await;
    b.meta.rename(at, b"f", other, b"f", RenameMode::Replace).await.unwrap();
    let (meta, at) = seen(&a);
    assert_eq!(kind_of(meta.lookup(at, b"f").await), ErrorKind::NotFound);
    a.lease(other, b"f").await;
    b.meta.rename(other, b"l", other, b"f", RenameMode::Replace).await.unwrap();
    // Both names are of one inode: nothing is done.
    assert!(a.meta.lookup(other, b"l").await.is_ok());
    b.meta.rename(other, b"f", other, b"h", RenameMode::Replace).await.unwrap();
    assert_eq!(kind_of(a.meta.lookup(other, b"f").await), ErrorKind::NotFound);
    let sub = dir(&b.meta, at, "s").await;
    a.lease(at, b"s").await;
    file(&b.meta, sub, "x").await;
    let times = b.meta.inode(sub).await.unwrap().mtime;
    assert_eq!(a.meta.inode(sub).await.unwrap().mtime, times);
    b.meta.unlink(sub, b"x").await.unwrap();
    a.lease(at, b"s").await;
    b.meta.rmdir(at, b"s").await.unwrap();
    assert_eq!(kind_of(a.meta.lookup(at, b"s").await), ErrorKind::NotFound);
    crate::tests::assert_sound(&a.meta).await;
}

#[tokio::test]
async fn what_one_changes_itself_stays_under_its_lease() {
    let (a, b, at) = two_nodes().await;
    let ino = a.lease(at, b"f").await;
    b.lease(at, b"f").await;
    let mode = |mode| SetAttr { mode: Some(mode), ..SetAttr::default() };
    a.meta.setattr(ino, mode(0o611)).await.unwrap();
    assert!(a.has(ino) && !b.has(ino));
    assert_eq!(a.meta.lookup(at, b"f").await.unwrap().mode, 0o611);
    assert!(a.knows(at, b"f").await);
    // The lease is in the row still: somebody else asks for it.
    b.meta.setattr(ino, mode(0o622)).await.unwrap();
    assert_eq!(a.meta.lookup(at, b"f").await.unwrap().mode, 0o622);
    a.lease(at, b"f").await;
    file(&a.meta, at, "own").await;
    assert!(a.has(at) && a.knows(at, b"f").await, "other entries stay remembered");
    assert!(a.meta.lookup(at, b"own").await.is_ok());
}

#[tokio::test]
async fn nothing_is_believed_longer_than_a_beat_allows() {
    let (a, _b, at) = two_nodes().await;
    a.lease(at, b"f").await;
    a.leases.trusted_until_ms.store(0, Ordering::Release);
    assert!(!a.knows(at, b"f").await);
    a.leases.beat_begins();
    assert!(!a.knows(at, b"f").await, "it was not answered");
    a.leases.beat_answered();
    assert!(a.knows(at, b"f").await);
}

#[tokio::test]
async fn one_that_is_gone_is_not_waited_for_and_one_that_is_silent_is() {
    let (mut a, b, at) = two_nodes().await;
    let ino = a.lease(at, b"f").await;
    a.tasks.abort_all();
    while a.tasks.join_next().await.is_some() {}
    let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    let change = b.meta.setattr(ino, mode);
    let mut change = std::pin::pin!(change);
    assert!(timeout(Duration::from_millis(300), &mut change).await.is_err(), "it may remember");
    crate::sessions::end(&*b.kv, SessionId(1)).await.unwrap();
    timeout(Duration::from_secs(10), change).await.expect("it is gone").unwrap();
    let left = b.kv.scan(&[keys::RECALL], None, 10).await.unwrap();
    assert!(left.is_empty(), "nobody else would delete it: {left:?}");
}

#[tokio::test]
async fn a_commit_of_which_nothing_is_known_ends_the_lease() {
    let (a, _b, at) = two_nodes().await;
    let ino = a.lease(at, b"f").await;
    a.kv.lose_answers.store(true, Ordering::Relaxed);
    let mode = SetAttr { mode: Some(0o644), ..SetAttr::default() };
    assert_eq!(kind_of(a.meta.setattr(ino, mode).await), ErrorKind::Retry);
    assert!(!a.has(ino) && a.has(at));
}

#[tokio::test]
async fn a_mount_that_is_alone_reads_what_was_lent() {
    let (a, b, at) = two_nodes().await;
    let ino = a.lease(at, b"f").await;
    b.lease(at, b"f").await;
    let kv = a.kv.kv.clone();
    drop((a, b));
    let alone = Meta::open(kv, clock()).await.unwrap();
    assert_eq!(alone.lookup(at, b"f").await.unwrap().ino, ino);
    crate::tests::assert_sound(&alone).await;
    file(&alone, at, "g").await;
    alone.unlink(at, b"f").await.unwrap();
    crate::tests::assert_sound(&alone).await;
}

/// What a writer of a name says of it: even while it is as the number says, odd while that changes.
#[derive(Default)]
struct Said {
    turns: AtomicU64,
    mtime: AtomicI64,
}

/// Changes the name `n{at}` and its file, and says so.
async fn change(node: Arc<Meta>, (dir, at): (Ino, usize), said: Arc<Vec<Said>>, until: Instant) {
    let name = format!("n{at}");
    let said = &said[at];
    let mut time = 1;
    while Instant::now() < until {
        said.turns.fetch_add(1, Ordering::SeqCst);
        said.mtime.store(0, Ordering::SeqCst);
        let made = node.create(dir, name.as_bytes(), new(FileKind::Regular)).await.unwrap();
        said.turns.fetch_add(1, Ordering::SeqCst);
        for _ in 0..4 {
            time += 1;
            let set = SetAttr { mtime: Some(UnixTime(time)), ..SetAttr::default() };
            node.setattr(made.ino, set).await.unwrap();
            said.mtime.store(time, Ordering::SeqCst);
            // A write lease on a file that was there.
            node.leases().into_iter().for_each(|leases| leases.waited_for_bucket(made.ino));
            sleep(Duration::from_millis(40)).await;
        }
        said.turns.fetch_add(1, Ordering::SeqCst);
        node.unlink(dir, name.as_bytes()).await.unwrap();
        said.turns.fetch_add(1, Ordering::SeqCst);
        sleep(Duration::from_millis(60)).await;
    }
}

/// Looks at all names, and holds what it finds against what their writers say.
async fn look(node: Arc<Meta>, dir: Ino, said: Arc<Vec<Said>>, until: Instant) {
    while Instant::now() < until {
        for (at, said) in said.iter().enumerate() {
            let (turn, mtime) =
                (said.turns.load(Ordering::SeqCst), said.mtime.load(Ordering::SeqCst));
            let found = node.lookup(dir, format!("n{at}").as_bytes()).await;
            if said.turns.load(Ordering::SeqCst) != turn {
                continue;
            }
            match (turn % 4, found) {
                (0, found) => assert!(found.is_err(), "n{at} is gone"),
                (2, found) => {
                    assert!(found.unwrap().mtime.0 >= mtime, "n{at} is older than {mtime}")
                }
                _ => {}
            }
        }
        sleep(Duration::from_millis(3)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_sees_what_was_before_a_change_that_returned() {
    let seed: u64 = u64::from(rand::random::<u32>());
    eprintln!("seed {seed}");
    let kv = volume().await;
    let mut nodes = Vec::new();
    for id in 0..3 {
        let mut node = Node::join(&kv, id + 1, Some(seed + id)).await;
        writes::bring_now_and_then(&mut node);
        defer::ahead(&mut node, Duration::from_millis(20)).await;
        nodes.push(node);
    }
    let at = nodes[0].meta.lookup(Ino::ROOT, b"d").await.unwrap().ino;
    let said = Arc::new((0..6).map(|_| Said::default()).collect::<Vec<_>>());
    let until = Instant::now() + Duration::from_secs(4);
    let mut tasks = JoinSet::new();
    for one in 0..said.len() {
        tasks.spawn(change(nodes[one % 2].meta.clone(), (at, one), said.clone(), until));
    }
    for node in nodes.iter().chain(&nodes) {
        tasks.spawn(look(node.meta.clone(), at, said.clone(), until));
    }
    while Instant::now() < until {
        sleep(Duration::from_millis(200)).await;
        nodes.iter().for_each(Node::forgive);
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    for node in &nodes {
        node.behind.drain().await.unwrap();
    }
    let counts: Vec<_> = nodes.iter().map(|node| node.leases.counts()).collect();
    eprintln!("{counts:?}");
    assert!(counts.iter().all(|counts| counts.taken > 0 && counts.given_back > 0), "{counts:?}");
    crate::tests::assert_sound(&nodes[0].meta).await;
}
