//! Names that a node makes before the database has them.

use super::*;
use crate::behind::{BehindLog, Replayed, replay};
use crate::tests::assert_sound;

/// A log in memory.
#[derive(Default)]
pub(super) struct Log {
    entries: Mutex<Vec<Vec<u8>>>,
    noted: AtomicU64,
    is_full: AtomicBool,
}

impl BehindLog for Log {
    fn note(&self, entry: &[u8]) -> Result<()> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(FsError::new(ErrorKind::NoSpace, "full"));
        }
        self.noted.fetch_add(entry.len() as u64, Ordering::Relaxed);
        self.entries.lock().push(entry.to_vec());
        Ok(())
    }

    fn noted(&self) -> u64 {
        self.noted.load(Ordering::Relaxed)
    }

    fn clear_if(&self, noted: u64) -> Result<bool> {
        let is_it = self.noted() == noted;
        if is_it {
            self.entries.lock().clear();
        }
        Ok(is_it)
    }
}

/// A node makes names before the database has them; directories that it does not make any in for `age` it gives back.
pub(super) async fn ahead(node: &mut Node, age: Duration) -> Arc<Log> {
    let log = Arc::new(Log::default());
    node.leases.write_behind();
    node.leases.defer_to(node.behind.clone(), log.clone()).await.unwrap();
    let behind = node.behind.clone();
    node.tasks.spawn(async move {
        loop {
            behind.comes().await;
            sleep(Duration::from_millis(20)).await;
            let _ = behind.drain().await;
        }
    });
    let (leases, kv) = (node.leases.clone(), node.meta.kv().clone());
    node.tasks.spawn(async move {
        loop {
            let _ = timeout(Duration::from_millis(10), leases.directories_asked_for()).await;
            let age_ms = u64::try_from(age.as_millis()).unwrap();
            leases.end_directories(&*kv, age_ms).await.unwrap();
        }
    });
    log
}

const LONG: Duration = Duration::from_secs(3_600);

impl Node {
    fn commits(&self) -> u64 {
        self.kv.commits.load(Ordering::Relaxed)
    }

    /// It is killed: nothing that it does goes on.
    async fn killed(mut self) {
        self.tasks.abort_all();
        while self.tasks.join_next().await.is_some() {}
    }

    /// Nothing is sent by itself any more.
    async fn stopped(&mut self) {
        self.tasks.abort_all();
        while self.tasks.join_next().await.is_some() {}
    }
}

async fn names_in(node: &Node, dir: Ino) -> usize {
    node.meta.readdir(dir, 0, 100_000).await.unwrap().len()
}

/// What a mount that follows has of a log, and who it is.
async fn taken_up(kv: &Arc<MemoryKv>, log: &Log, id: u64) -> (Node, Replayed) {
    let node = Node::join(kv, id, None).await;
    let entries = log.entries.lock().clone();
    let replayed = replay(&*node.kv, &entries).await.unwrap();
    log.clear_if(log.noted()).unwrap();
    replayed.forget(&*node.kv).await.unwrap();
    crate::sessions::end(&*node.kv, SessionId(1)).await.unwrap();
    (node, replayed)
}

#[tokio::test]
async fn names_in_a_directory_of_ones_own_are_many_to_a_commit_and_others_see_each_at_once() {
    let kv = volume().await;
    let (mut a, b) = (Node::join(&kv, 1, None).await, Node::join(&kv, 2, None).await);
    let log = ahead(&mut a, LONG).await;
    writes::bring_now_and_then(&mut a);
    let own = dir(&a.meta, Ino::ROOT, "own").await;
    let before = a.commits();
    let mut inos = Vec::new();
    for n in 0..300 {
        inos.push(file(&a.meta, own, &format!("n{n}")).await);
        if n % 3 == 0 {
            let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
            a.meta.setattr(inos[n], mode).await.unwrap();
        }
    }
    let made = a.commits() - before;
    assert!(made < 100, "{made} commits for 400 changes");
    assert!(!log.entries.lock().is_empty());
    let sub = dir(&a.meta, own, "sub").await;
    file(&a.meta, sub, "x").await;
    // By a name, by what is not there, by a list, and by one of the same name.
    assert_eq!(b.meta.lookup(own, b"n299").await.unwrap().ino, inos[299]);
    assert_eq!(b.meta.lookup(own, b"n3").await.unwrap().mode, 0o600);
    assert_eq!(kind_of(b.meta.lookup(own, b"none").await), ErrorKind::NotFound);
    assert_eq!(names_in(&b, own).await, 301);
    assert_eq!(b.meta.lookup(own, b"sub").await.unwrap().nlink, 2);
    assert_eq!(names_in(&b, sub).await, 1);
    let taken = b.meta.create(own, b"n0", new(FileKind::Regular)).await;
    assert_eq!(kind_of(taken), ErrorKind::Exists);
    file(&b.meta, own, "theirs").await;
    assert!(a.meta.lookup(own, b"theirs").await.is_ok());
    assert_eq!(kind_of(a.meta.rmdir(Ino::ROOT, b"own").await), ErrorKind::NotEmpty);
    a.leases.end_deferring().await.unwrap();
    assert!(log.entries.lock().is_empty());
    assert_sound(&b.meta).await;
}

#[tokio::test]
async fn a_read_that_meets_what_waits_finds_it_and_others_do_not_wait() {
    let kv = volume().await;
    let mut a = Node::join(&kv, 1, None).await;
    ahead(&mut a, LONG).await;
    a.stopped().await;
    let own = dir(&a.meta, Ino::ROOT, "own").await;
    let ino = file(&a.meta, own, "x").await;
    a.meta.xattr_set(ino, b"user.x", b"1", XattrMode::Any).await.unwrap();
    let waiting = a.behind.waiting();
    assert!(waiting >= 2, "{waiting}");
    let d = a.meta.lookup(Ino::ROOT, b"d").await.unwrap().ino;
    assert!(a.meta.lookup(d, b"f").await.is_ok());
    assert_eq!(a.behind.waiting(), waiting, "they have nothing to do with it");
    // A row that is remembered no more is read behind what waits.
    a.leases.state.lock().forget(&[own, ino]);
    assert_eq!(a.meta.lookup(own, b"x").await.unwrap().ino, ino);
    assert_eq!(a.behind.waiting(), 0);
    a.meta.unlink(own, b"x").await.unwrap();
    file(&a.meta, own, "y").await;
    assert_eq!(names_in(&a, own).await, 1);
    assert_sound(&a.meta).await;
}

#[tokio::test]
async fn a_directory_in_which_names_are_made_is_taken_and_given_back_when_none_are() {
    let kv = volume().await;
    let mut a = Node::join(&kv, 1, None).await;
    ahead(&mut a, Duration::from_millis(150)).await;
    let at = a.meta.lookup(Ino::ROOT, b"d").await.unwrap().ino;
    a.lease(at, b"f").await;
    let mut made = 0;
    while a.leases.writes.lock().of(at) != Some(false) {
        file(&a.meta, at, &format!("n{made}")).await;
        made += 1;
        assert!(made < 1_000, "it is never taken");
        sleep(Duration::from_millis(5)).await;
    }
    let mut ahead = 0;
    for n in 0..100 {
        file(&a.meta, at, &format!("later{n}")).await;
        ahead += u64::from(a.behind.waiting() > 0);
    }
    assert!(ahead > 50, "{ahead}");
    for _ in 0..LOOKS {
        if a.leases.writes.lock().of(at).is_none() {
            break;
        }
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(a.leases.writes.lock().of(at), None);
    assert!(a.has(at), "it is remembered still");
    let row = kv.get_many(&[keys::inode(at)]).await.unwrap().remove(0).unwrap();
    assert_eq!(crate::codec::writer_of(&row.value), None);
    let b = Node::join(&kv, 2, None).await;
    let asked = a.leases.counts().given_back;
    assert_eq!(names_in(&b, at).await, 101 + made);
    assert_eq!(a.leases.counts().given_back, asked, "nobody need be asked to list it");
    assert_sound(&b.meta).await;
}

#[tokio::test]
async fn what_a_killed_node_had_acknowledged_comes_with_its_log_and_only_that() {
    let kv = volume().await;
    let mut a = Node::join(&kv, 1, None).await;
    let log = ahead(&mut a, LONG).await;
    let own = dir(&a.meta, Ino::ROOT, "own").await;
    let first = file(&a.meta, own, "first").await;
    a.behind.drain().await.unwrap();
    // What is in the database is in the log, too, until that is long.
    assert!(!log.entries.lock().is_empty());
    let mut last = Ino(0);
    a.stopped().await;
    for n in 0..1_500 {
        last = file(&a.meta, own, &format!("n{n}")).await;
    }
    let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    a.meta.setattr(first, mode).await.unwrap();
    let sub = dir(&a.meta, own, "sub").await;
    file(&a.meta, sub, "x").await;
    assert!(a.behind.waiting() > 1_000);
    a.killed().await;
    let (b, replayed) = taken_up(&kv, &log, 2).await;
    assert!(replayed.lost.is_empty() && replayed.lost_changes == 0, "{replayed:?}");
    assert_eq!(names_in(&b, own).await, 1_502);
    assert_eq!(b.meta.lookup(own, b"n1499").await.unwrap().ino, last);
    assert_eq!(b.meta.lookup(own, b"first").await.unwrap().mode, 0o600);
    assert_eq!(names_in(&b, sub).await, 1);
    assert!(kv.scan(&[keys::BEHIND], None, 10).await.unwrap().is_empty());
    assert_sound(&b.meta).await;
}

#[tokio::test]
async fn what_was_removed_since_does_not_come_back_and_what_others_made_stays() {
    let kv = volume().await;
    let mut a = Node::join(&kv, 1, None).await;
    let log = ahead(&mut a, LONG).await;
    let own = dir(&a.meta, Ino::ROOT, "own").await;
    let gone = file(&a.meta, own, "gone").await;
    let kept = file(&a.meta, own, "kept").await;
    a.behind.drain().await.unwrap();
    a.stopped().await;
    let lost = file(&a.meta, own, "both").await;
    let mine = file(&a.meta, own, "mine").await;
    let set = |mode| SetAttr { mode: Some(mode), ..SetAttr::default() };
    a.meta.setattr(lost, set(0o611)).await.unwrap();
    a.meta.setattr(kept, set(0o622)).await.unwrap();
    a.killed().await;
    // It is shut out, and others go on.
    let deletes = vec![keys::presence(1), keys::beat(1)];
    kv.commit(Commit { deletes, ..Commit::default() }).await.unwrap();
    let b = Node::join(&kv, 2, None).await;
    b.meta.unlink(own, b"gone").await.unwrap();
    b.meta.setattr(kept, set(0o644)).await.unwrap();
    let theirs = file(&b.meta, own, "both").await;
    let (c, replayed) = taken_up(&kv, &log, 3).await;
    assert_eq!(replayed.lost, [(lost, "both".to_owned())]);
    assert_eq!(replayed.lost_changes, 2, "of what is lost, and of what another one changed");
    assert_eq!(c.meta.lookup(own, b"both").await.unwrap().ino, theirs);
    assert_eq!(c.meta.lookup(own, b"mine").await.unwrap().ino, mine);
    assert_eq!(c.meta.lookup(own, b"kept").await.unwrap().mode, 0o644);
    assert_eq!(kind_of(c.meta.lookup(own, b"gone").await), ErrorKind::NotFound, "{gone}");
    assert_sound(&c.meta).await;
}

#[tokio::test]
async fn what_was_sent_is_not_made_twice_whatever_became_of_the_answer() {
    let kv = volume().await;
    let mut a = Node::join(&kv, 1, None).await;
    let log = ahead(&mut a, LONG).await;
    let own = dir(&a.meta, Ino::ROOT, "own").await;
    a.behind.drain().await.unwrap();
    a.stopped().await;
    file(&a.meta, own, "x").await;
    a.kv.lose_answers.store(true, Ordering::Relaxed);
    assert_eq!(kind_of(a.behind.drain().await), ErrorKind::Retry);
    file(&a.meta, own, "y").await;
    a.kv.lose_answers.store(false, Ordering::Relaxed);
    a.behind.drain().await.unwrap();
    assert_eq!(a.behind.waiting(), 0);
    // The same with one that is killed before it hears of it.
    file(&a.meta, own, "z").await;
    a.kv.lose_answers.store(true, Ordering::Relaxed);
    assert_eq!(kind_of(a.behind.drain().await), ErrorKind::Retry);
    a.killed().await;
    let (b, replayed) = taken_up(&kv, &log, 2).await;
    assert_eq!(replayed.applied, 0, "{replayed:?}");
    assert_eq!(names_in(&b, own).await, 3);
    assert_sound(&b.meta).await;
}

#[tokio::test]
async fn what_was_sent_and_comes_late_is_void() {
    let kv = volume().await;
    let mut a = Node::join(&kv, 1, None).await;
    let log = ahead(&mut a, LONG).await;
    let own = dir(&a.meta, Ino::ROOT, "own").await;
    let ino = file(&a.meta, own, "x").await;
    a.stopped().await;
    let set = |mode| SetAttr { mode: Some(mode), ..SetAttr::default() };
    a.kv.is_slow.store(true, Ordering::Relaxed);
    // Behind the commit that makes the file, in one of its own, that checks nothing else.
    assert_eq!(kind_of(a.behind.drain().await), ErrorKind::Retry);
    a.meta.setattr(ino, set(0o611)).await.unwrap();
    let first = std::mem::take(&mut *a.kv.on_its_way.lock());
    a.kv.is_slow.store(false, Ordering::Relaxed);
    a.behind.drain().await.unwrap();
    a.kv.is_slow.store(true, Ordering::Relaxed);
    a.meta.setattr(ino, set(0o622)).await.unwrap();
    assert_eq!(kind_of(a.behind.drain().await), ErrorKind::Retry);
    let second = std::mem::take(&mut *a.kv.on_its_way.lock());
    a.kv.is_slow.store(false, Ordering::Relaxed);
    a.behind.drain().await.unwrap();
    a.meta.setattr(ino, set(0o633)).await.unwrap();
    a.behind.drain().await.unwrap();
    for late in first.into_iter().chain(second) {
        assert_eq!(kv.commit(late).await.unwrap(), Outcome::Conflict);
    }
    assert_eq!(a.meta.inode(ino).await.unwrap().mode, 0o633);
    // And so is one of a node that was killed, once its log is replayed.
    a.kv.is_slow.store(true, Ordering::Relaxed);
    a.meta.setattr(ino, set(0o644)).await.unwrap();
    assert_eq!(kind_of(a.behind.drain().await), ErrorKind::Retry);
    let late = a.kv.on_its_way.lock().pop().unwrap();
    a.killed().await;
    let (b, replayed) = taken_up(&kv, &log, 2).await;
    assert_eq!((replayed.applied, replayed.lost_changes), (1, 0), "{replayed:?}");
    assert_eq!(kv.commit(late).await.unwrap(), Outcome::Conflict);
    assert_eq!(b.meta.inode(ino).await.unwrap().mode, 0o644);
    assert_sound(&b.meta).await;
}

#[tokio::test]
async fn a_log_of_the_past_and_a_copy_of_one_change_nothing() {
    let kv = volume().await;
    let mut a = Node::join(&kv, 1, None).await;
    let log = ahead(&mut a, LONG).await;
    let own = dir(&a.meta, Ino::ROOT, "own").await;
    let ino = file(&a.meta, own, "x").await;
    a.behind.drain().await.unwrap();
    let copy = log.entries.lock().clone();
    assert!(!copy.is_empty());
    a.leases.end_deferring().await.unwrap();
    crate::sessions::end(&*a.kv, SessionId(1)).await.unwrap();
    a.killed().await;
    let mut b = Node::join(&kv, 2, None).await;
    b.meta.rename(own, b"x", Ino::ROOT, b"y", RenameMode::Replace).await.unwrap();
    let set = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    b.meta.setattr(ino, set).await.unwrap();
    let replayed = replay(&*b.kv, &copy).await.unwrap();
    assert_eq!((replayed.applied, replayed.past), (0, copy.len() as u64), "{replayed:?}");
    replayed.forget(&*b.kv).await.unwrap();
    assert_eq!(names_in(&b, own).await, 0);
    assert_eq!(b.meta.lookup(Ino::ROOT, b"y").await.unwrap().mode, 0o600);
    // Two copies of what a killed node left: the second one finds that it was there.
    let log = ahead(&mut b, LONG).await;
    b.stopped().await;
    let mine = dir(&b.meta, Ino::ROOT, "mine").await;
    file(&b.meta, mine, "z").await;
    let copy = log.entries.lock().clone();
    b.killed().await;
    let c = Node::join(&kv, 3, None).await;
    let replayed = replay(&*c.kv, &copy).await.unwrap();
    assert_eq!(replayed.applied, copy.len() as u64, "{replayed:?}");
    let again = replay(&*c.kv, &copy).await.unwrap();
    assert_eq!((again.applied, again.past), (0, 0), "{again:?}");
    again.forget(&*c.kv).await.unwrap();
    crate::sessions::end(&*c.kv, SessionId(2)).await.unwrap();
    c.meta.unlink(mine, b"z").await.unwrap();
    assert_eq!(replay(&*c.kv, &copy).await.unwrap().past, copy.len() as u64);
    assert_eq!(names_in(&c, mine).await, 0);
    assert_sound(&c.meta).await;
}

#[tokio::test]
async fn without_room_in_the_log_and_without_a_beat_names_are_made_in_the_database() {
    let kv = volume().await;
    let mut a = Node::join(&kv, 1, None).await;
    let log = ahead(&mut a, LONG).await;
    a.stopped().await;
    let own = dir(&a.meta, Ino::ROOT, "own").await;
    log.is_full.store(true, Ordering::Relaxed);
    file(&a.meta, own, "x").await;
    assert_eq!(a.behind.waiting(), 0);
    log.is_full.store(false, Ordering::Relaxed);
    file(&a.meta, own, "y").await;
    assert_eq!(a.behind.waiting(), 1);
    a.leases.trusted_until_ms.store(0, Ordering::Release);
    file(&a.meta, own, "z").await;
    assert_eq!(names_in(&a, own).await, 3);
    assert_sound(&a.meta).await;
}

/// Makes names in a directory of its own, one after the other, and says how many there are.
async fn make(node: Arc<Meta>, dir: Ino, made: Arc<AtomicU64>, until: Instant) {
    let mut n = 0;
    while Instant::now() < until {
        node.create(dir, format!("n{n}").as_bytes(), new(FileKind::Regular)).await.unwrap();
        n += 1;
        made.store(n, Ordering::SeqCst);
        if n % 64 == 0 {
            sleep(Duration::from_millis(15)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_name_is_there_for_all_when_the_create_returned() {
    let seed: u64 = u64::from(rand::random::<u32>());
    eprintln!("seed {seed}");
    let kv = volume().await;
    let mut nodes = Vec::new();
    for id in 0..3 {
        let mut node = Node::join(&kv, id + 1, Some(seed + id)).await;
        writes::bring_now_and_then(&mut node);
        ahead(&mut node, Duration::from_millis(100)).await;
        nodes.push(node);
    }
    let until = Instant::now() + Duration::from_secs(4);
    let mut tasks = JoinSet::new();
    let mut made = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let own = dir(&node.meta, Ino::ROOT, &format!("own{at}")).await;
        let count = Arc::new(AtomicU64::new(0));
        tasks.spawn(make(node.meta.clone(), own, count.clone(), until));
        made.push((own, count));
    }
    for (at, node) in nodes.iter().enumerate() {
        let (meta, (own, count)) = (node.meta.clone(), made[(at + 1) % 3].clone());
        tasks.spawn(async move {
            let mut dice = StdRng::seed_from_u64(seed + 10 + at as u64);
            while Instant::now() < until {
                sleep(Duration::from_millis(dice.random_range(0..150))).await;
                let there = count.load(Ordering::SeqCst);
                if let Some(last) = there.checked_sub(1) {
                    let name = format!("n{last}");
                    meta.lookup(own, name.as_bytes()).await.unwrap_or_else(|e| {
                        panic!("{name} of node {at} returned, and is not there: {e}")
                    });
                }
                let there = count.load(Ordering::SeqCst);
                let listed = meta.readdir(own, 0, 100_000).await.unwrap().len() as u64;
                assert!(listed >= there, "{there} names had returned, and {listed} are listed");
                if dice.random_range(0..4) == 0 {
                    let name = format!("theirs{}", dice.random_range(0..20));
                    let _ = meta.create(own, name.as_bytes(), new(FileKind::Regular)).await;
                }
            }
        });
    }
    while Instant::now() < until {
        sleep(Duration::from_millis(100)).await;
        nodes.iter().for_each(Node::forgive);
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    for ((_, count), node) in made.iter().zip(&nodes) {
        let (names, commits) = (count.load(Ordering::SeqCst), node.commits());
        eprintln!("{names} names, {commits} commits, {:?}", node.leases.counts());
    }
    for node in &nodes {
        node.behind.drain().await.unwrap();
    }
    assert_sound(&nodes[0].meta).await;
}
