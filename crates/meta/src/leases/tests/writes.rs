//! Files that a node made, closed, and has not brought to the volume.

use std::collections::HashMap;

use super::*;
use crate::tests::{assert_sound, info, record};
use crate::{EndOfWrites, FileFlush, FlushCommit, Piece};

/// What a node has of its files, and how long they are there.
type Local = Arc<Mutex<HashMap<Ino, u64>>>;

/// A node that makes files with write leases, and what it has of them. It brings them when others ask.
async fn writer(kv: &Arc<MemoryKv>, id: u64) -> (Node, Local) {
    let mut node = Node::join(kv, id, None).await;
    let local = Local::default();
    node.leases.write_behind();
    let (leases, meta, of) = (node.leases.clone(), node.meta.clone(), local.clone());
    node.tasks.spawn(async move {
        loop {
            leases.writes_asked_for().await;
            bring(&leases, &meta, &of, u64::MAX).await;
        }
    });
    (node, local)
}

/// Files are made with write leases, which end when somebody asks, or soon.
pub(super) fn bring_now_and_then(node: &mut Node) {
    let (leases, meta) = (node.leases.clone(), node.meta.clone());
    leases.write_behind();
    node.tasks.spawn(async move {
        loop {
            let _ = timeout(Duration::from_millis(30), leases.writes_asked_for()).await;
            bring(&leases, &meta, &Local::default(), 50).await;
        }
    });
}

/// What is due goes to the volume.
async fn bring(leases: &Leases, meta: &Meta, local: &Local, age_ms: u64) {
    let due = leases.writes_due(age_ms, |_, _| true);
    for ino in &due {
        let size = local.lock().remove(ino);
        if let Some(size) = size {
            meta.truncate(*ino, size, UnixTime(9)).await.unwrap();
        }
    }
    leases.ends_of_writes(&**meta.kv(), &due).await.unwrap();
}

impl Node {
    /// Makes a file of which only this node has `size` bytes.
    async fn made(&self, local: &Local, dir: Ino, name: &str, size: u64) -> Ino {
        let ino = file(&self.meta, dir, name).await;
        assert!(self.leases.spares_flush(ino));
        local.lock().insert(ino, size);
        ino
    }
}

#[tokio::test]
async fn who_looks_at_a_file_that_another_node_made_finds_what_was_closed_there() {
    let kv = volume().await;
    let ((a, local), b) = (writer(&kv, 1).await, Node::join(&kv, 2, None).await);
    let at = a.meta.lookup(Ino::ROOT, b"d").await.unwrap().ino;
    a.made(&local, at, "x", 7).await;
    assert_eq!(b.meta.lookup(at, b"x").await.unwrap().size, 7);
    let ino = a.made(&local, at, "y", 8).await;
    assert_eq!(b.meta.inode(ino).await.unwrap().size, 8);
    assert!(!a.leases.spares_flush(ino), "it ends with the first who looks");
    let (one, along) = (a.made(&local, at, "one", 3).await, a.made(&local, at, "along", 4).await);
    b.meta.inode(one).await.unwrap();
    assert!(!a.leases.spares_flush(along), "it came along");
    for n in 0..700 {
        a.made(&local, at, &format!("n{n}"), n).await;
    }
    let mut seen = 0;
    for entry in b.meta.readdir_plus(at, 0, 10_000).await.unwrap() {
        if let Some(n) = entry.entry.name.strip_prefix(b"n") {
            assert_eq!(entry.inode.size.to_string().as_bytes(), n);
            seen += 1;
        }
    }
    assert_eq!((seen, a.leases.counts().writes), (700, 0));
    // One who changes it finds it, too.
    let ino = a.made(&local, at, "z", 9).await;
    let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    assert_eq!(b.meta.setattr(ino, mode).await.unwrap().size, 9);
    let left = kv.scan(&[keys::RECALL], None, 10).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
    assert_sound(&b.meta).await;
}

#[tokio::test]
async fn a_file_of_two_names_and_a_directory_that_is_asked_for_twice_are_asked_for_once() {
    let kv = volume().await;
    let ((mut a, local), b) = (writer(&kv, 1).await, Node::join(&kv, 2, None).await);
    defer::ahead(&mut a, Duration::from_secs(3_600)).await;
    let own = dir(&a.meta, Ino::ROOT, "own").await;
    let ino = a.made(&local, own, "x", 7).await;
    a.meta.link(ino, own, b"y").await.unwrap();
    let listed = b.meta.readdir_plus(own, 0, 100).await.unwrap();
    let sizes: Vec<_> = listed.iter().map(|plus| (plus.inode.ino, plus.inode.size)).collect();
    assert_eq!(sizes, [(ino, 7), (ino, 7)]);
    let other = dir(&a.meta, Ino::ROOT, "other").await;
    file(&a.meta, other, "x").await;
    b.meta.rename(other, b"x", other, b"z", RenameMode::Replace).await.unwrap();
    assert!(a.meta.lookup(other, b"z").await.is_ok());
    assert_sound(&b.meta).await;
}

#[tokio::test]
async fn a_write_lease_ends_with_the_commit_that_brings_all_of_the_file() {
    let kv = volume().await;
    let (a, _local) = writer(&kv, 1).await;
    let at = a.meta.lookup(Ino::ROOT, b"d").await.unwrap().ino;
    let ino = file(&a.meta, at, "x").await;
    let flush = |whole| FlushCommit {
        segments: vec![(record(1, 0, 0).segment, info(20))],
        files: vec![FileFlush {
            ino,
            pieces: vec![Piece { offset: 0, record: record(1, 80, 10), len: 10 }],
            whole,
            ..FileFlush::default()
        }],
    };
    a.meta.commit_flush(flush(false)).await.unwrap();
    assert!(a.leases.spares_flush(ino), "there may be more");
    let row = || async { kv.get_many(&[keys::inode(ino)]).await.unwrap().pop().flatten().unwrap() };
    assert_eq!(crate::codec::writer_of(&row().await.value), Some(SessionId(1)));
    let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    a.meta.setattr(ino, mode).await.unwrap();
    assert_eq!(crate::codec::writer_of(&row().await.value), Some(SessionId(1)), "as before");
    assert!(!a.leases.ends_when_whole(ino));
    assert_eq!(a.leases.writes_due(0, |_, _| false), [], "somebody writes it");
    assert_eq!(a.leases.writes_due(0, |_, why| why == EndOfWrites::Age), [ino]);
    assert!(a.leases.ends_when_whole(ino) && !a.leases.spares_flush(ino));
    a.meta.commit_flush(flush(true)).await.unwrap();
    assert_eq!(a.leases.counts().writes, 0);
    // It goes on remembering the file.
    let value = row().await.value;
    assert_eq!(
        (crate::codec::writer_of(&value), crate::codec::lent_to(&value)),
        (None, vec![SessionId(1)])
    );
    let before = a.reads();
    assert_eq!(a.meta.inode(ino).await.unwrap().mode & 0o777, 0o600);
    assert!(a.has(ino) && a.reads() == before);
}

/// Waits until there is a write lease on a file.
async fn until_spared(node: &Node, ino: Ino) {
    for _ in 0..LOOKS {
        if node.leases.spares_flush(ino) {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("no write lease was taken: {:?}", node.leases.counts());
}

#[tokio::test]
async fn a_file_that_was_there_gets_a_write_lease_where_one_node_waits_for_the_bucket_with_it() {
    let kv = volume().await;
    let ((a, local), (b, _)) = (writer(&kv, 1).await, writer(&kv, 2).await);
    let at = a.meta.lookup(Ino::ROOT, b"d").await.unwrap().ino;
    let ino = a.meta.lookup(at, b"f").await.unwrap().ino;
    let waits = |node: &Node, times| (0..times).for_each(|_| node.leases.waited_for_bucket(ino));
    waits(&a, 2);
    sleep(Duration::from_millis(100)).await;
    assert!(!a.leases.spares_flush(ino), "twice is not again and again");
    waits(&a, 1);
    until_spared(&a, ino).await;
    // What it remembered is the row with its mark.
    assert!(a.has(ino) && a.leases.counts().writes == 1);
    local.lock().insert(ino, 7);
    assert_eq!(b.meta.lookup(at, b"f").await.unwrap().size, 7);
    assert!(!a.leases.spares_flush(ino), "somebody asked");
    waits(&a, 9);
    sleep(Duration::from_millis(200)).await;
    assert!(!a.leases.spares_flush(ino), "and is left alone for a while");
    // The other one may have it.
    waits(&b, 3);
    until_spared(&b, ino).await;
    // Where all is asked for none is taken that would not be brought.
    a.leases.have_all_brought(&*kv, &[SessionId(2)]).await.unwrap();
    assert!(!b.leases.spares_flush(ino));
    waits(&b, 9);
    sleep(Duration::from_millis(200)).await;
    assert!(!b.leases.spares_flush(ino), "a snapshot may be made");
    b.forgive();
    // Who has a lease for reading keeps it.
    let g = file(&a.meta, at, "g").await;
    a.leases.writes_due(0, |_, _| true);
    a.leases.ends_of_writes(&**a.meta.kv(), &[g]).await.unwrap();
    b.lease(at, b"g").await;
    (0..9).for_each(|_| a.leases.waited_for_bucket(g));
    sleep(Duration::from_millis(200)).await;
    assert!(!a.leases.spares_flush(g) && b.has(g));
    assert_sound(&b.meta).await;
}

#[tokio::test]
async fn a_write_lease_whose_taking_had_no_answer_holds_nobody_up_and_is_taken_anew() {
    let kv = volume().await;
    let ((a, local), b) = (writer(&kv, 1).await, Node::join(&kv, 2, None).await);
    let at = a.meta.lookup(Ino::ROOT, b"d").await.unwrap().ino;
    let ino = a.meta.lookup(at, b"f").await.unwrap().ino;
    a.lease(at, b"f").await;
    let row = || async { kv.get_many(&[keys::inode(ino)]).await.unwrap().pop().flatten().unwrap() };
    a.kv.lose_answers.store(true, Ordering::Relaxed);
    (0..3).for_each(|_| a.leases.waited_for_bucket(ino));
    let mut looks = 0..LOOKS;
    while crate::codec::writer_of(&row().await.value).is_none() {
        looks.next().expect("the database has it");
        sleep(Duration::from_millis(10)).await;
    }
    sleep(Duration::from_millis(50)).await;
    a.kv.lose_answers.store(false, Ordering::Relaxed);
    assert!(!a.leases.spares_flush(ino), "nobody knows whether it is there");
    a.meta.truncate(ino, 5, UnixTime(1)).await.unwrap();
    let look = timeout(Duration::from_secs(10), b.meta.inode(ino)).await.expect("no wait");
    assert_eq!(look.unwrap().size, 5);
    // It can be had again.
    a.forgive();
    a.lease(at, b"f").await;
    a.leases.waited_for_bucket(ino);
    until_spared(&a, ino).await;
    local.lock().insert(ino, 7);
    assert_eq!(b.meta.inode(ino).await.unwrap().size, 7);
    assert_sound(&b.meta).await;
}

#[tokio::test]
async fn what_a_node_wrote_that_is_gone_another_may_have_to_write() {
    let kv = volume().await;
    let ((mut a, local), (b, others)) = (writer(&kv, 1).await, writer(&kv, 2).await);
    let at = a.meta.lookup(Ino::ROOT, b"d").await.unwrap().ino;
    let ino = a.made(&local, at, "x", 7).await;
    a.tasks.abort_all();
    while a.tasks.join_next().await.is_some() {}
    crate::sessions::end(&*b.kv, SessionId(1)).await.unwrap();
    b.lease(at, b"x").await;
    (0..3).for_each(|_| b.leases.waited_for_bucket(ino));
    until_spared(&b, ino).await;
    others.lock().insert(ino, 9);
    let c = Node::join(&kv, 3, None).await;
    assert_eq!(c.meta.inode(ino).await.unwrap().size, 9);
}

#[tokio::test]
async fn who_asks_while_a_write_lease_is_taken_has_what_there_is() {
    for seed in 0..3 {
        let kv = volume().await;
        let ((a, local), b) = (writer(&kv, 1).await, Node::join(&kv, 2, Some(seed)).await);
        let at = a.meta.lookup(Ino::ROOT, b"d").await.unwrap().ino;
        let ino = a.meta.lookup(at, b"f").await.unwrap().ino;
        let mut size = 0;
        for n in 1..20 {
            a.forgive();
            a.leases.waited_for_bucket(ino);
            sleep(Duration::from_micros(100 * n)).await;
            // As an append does.
            match a.leases.spares_flush(ino) {
                true => local.lock().insert(ino, n).map_or((), drop),
                false => drop(a.meta.truncate(ino, n, UnixTime(1)).await.unwrap()),
            }
            size = n.max(size);
            assert_eq!(b.meta.inode(ino).await.unwrap().size, size, "seed {seed}, {n}");
        }
    }
}

#[tokio::test]
async fn where_another_node_removes_all_that_one_made_most_are_given_up_unasked() {
    const FILES: usize = 300;
    let kv = volume().await;
    let ((a, _), b) = (writer(&kv, 1).await, Node::join(&kv, 2, None).await);
    let at = a.meta.lookup(Ino::ROOT, b"d").await.unwrap().ino;
    let names: Vec<_> = (0..FILES).map(|n| format!("f{n}")).collect();
    let mut inos = Vec::new();
    for name in &names {
        inos.push(file(&a.meta, at, name).await);
    }
    a.leases.writes_due(0, |_, _| true);
    a.leases.ends_of_writes(&**a.meta.kv(), &inos).await.unwrap();
    assert!(inos.iter().all(|ino| a.has(*ino)), "it remembers what it made");
    let asked = |node: &Node| node.leases.counts().asked_back;
    // One now and then: no other goes along.
    b.meta.unlink(at, names[0].as_bytes()).await.unwrap();
    sleep(Duration::from_millis(300)).await;
    b.meta.unlink(at, names[1].as_bytes()).await.unwrap();
    assert!(inos[2..].iter().all(|ino| a.has(*ino)));
    let before = asked(&b);
    let last = FILES - 1;
    for name in &names[2..last] {
        // What is used meanwhile stays.
        a.meta.inode(inos[last]).await.unwrap();
        b.meta.unlink(at, name.as_bytes()).await.unwrap();
        if asked(&b) - before < 100 {
            sleep(Duration::from_millis(20)).await;
        }
    }
    let (times, left) = (asked(&b) - before, a.has(inos[last]));
    assert!(times < FILES as u64 / 2, "asked {times} times for {FILES} files");
    assert!(left, "it is used");
    let found = b.meta.inode(inos[last]).await.unwrap();
    assert_eq!((found.nlink, a.meta.inode(inos[last]).await.unwrap().nlink), (1, 1));
    assert_sound(&b.meta).await;
}

#[tokio::test]
async fn a_writer_is_waited_for_as_long_as_it_lives() {
    let kv = volume().await;
    let ((mut a, local), b) = (writer(&kv, 1).await, Node::join(&kv, 2, None).await);
    let at = a.meta.lookup(Ino::ROOT, b"d").await.unwrap().ino;
    let ino = a.made(&local, at, "x", 7).await;
    a.leases.trusted_until_ms.store(0, Ordering::Release);
    assert!(!a.leases.spares_flush(ino), "it may be shut out by now");
    a.tasks.abort_all();
    while a.tasks.join_next().await.is_some() {}
    let mut look = std::pin::pin!(b.meta.lookup(at, b"x"));
    assert!(timeout(Duration::from_millis(300), &mut look).await.is_err(), "it may bring more");
    crate::sessions::end(&*b.kv, SessionId(1)).await.unwrap();
    let found = timeout(Duration::from_secs(10), look).await.expect("it is gone").unwrap();
    assert_eq!(found.size, 0);
    let before = b.reads();
    b.meta.inode(ino).await.unwrap();
    assert_eq!(b.reads(), before + 1, "nobody is asked twice");
}

#[tokio::test]
async fn all_that_was_closed_can_be_asked_for_and_what_is_made_later_holds_nobody_up() {
    let kv = volume().await;
    let ((a, local), b) = (writer(&kv, 1).await, Node::join(&kv, 2, None).await);
    let at = a.meta.lookup(Ino::ROOT, b"d").await.unwrap().ino;
    for n in 0..20 {
        a.made(&local, at, &format!("a{n}"), 5).await;
    }
    let (meta, more) = (a.meta.clone(), local.clone());
    let making = tokio::spawn(async move {
        for n in 0.. {
            let ino = file(&meta, at, &format!("b{n}")).await;
            more.lock().insert(ino, 5);
            tokio::task::yield_now().await;
        }
    });
    // One that never had a lease, and one that is not there.
    let _c = Node::join(&kv, 3, None).await;
    let both = [1, 2, 3, 4].map(SessionId);
    let asked = b.leases.have_all_brought(&*kv, &both);
    timeout(Duration::from_secs(10), asked).await.expect("it ends").unwrap();
    making.abort();
    for n in 0..20 {
        let key = keys::dirent(at, format!("a{n}").as_bytes());
        let found = kv.follow(&key, &[keys::INODE]).await.unwrap().to.pop().flatten();
        let row = found.expect("it is there");
        assert_eq!(crate::codec::writer_of(&row.value), None, "a{n}");
    }
}

#[tokio::test]
async fn in_a_directory_that_was_made_here_nothing_is_asked_for() {
    let kv = volume().await;
    let ((a, _local), b) = (writer(&kv, 1).await, Node::join(&kv, 2, None).await);
    let own = dir(&a.meta, Ino::ROOT, "own").await;
    file(&a.meta, own, "first").await;
    let before = a.reads();
    for n in 0..50 {
        let name = format!("f{n}");
        assert!(a.meta.lookup(own, name.as_bytes()).await.is_err());
        let ino = file(&a.meta, own, &name).await;
        assert_eq!(a.meta.inode(ino).await.unwrap().nlink, 1);
        assert_eq!(a.meta.lookup(own, name.as_bytes()).await.unwrap().ino, ino);
        assert_eq!(a.meta.xattr_list(ino).await.unwrap().len(), 0);
    }
    assert_eq!(a.reads(), before);
    // Until somebody else makes something there.
    file(&b.meta, own, "theirs").await;
    assert!(a.meta.lookup(own, b"theirs").await.is_ok());
    assert_eq!(
        kind_of(a.meta.create(own, b"theirs", new(FileKind::Regular)).await),
        ErrorKind::Exists
    );
    let mtime = b.meta.inode(own).await.unwrap().mtime;
    assert_eq!(a.meta.inode(own).await.unwrap().mtime, mtime);
}
