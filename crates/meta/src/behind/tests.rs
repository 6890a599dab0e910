use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use tokio::sync::Notify;
use weir_types::{ErrorKind, FileKind, Ino, Result};

use super::batch::{Batch, provisional};
use super::noted::Noted;
use super::queue::Queue;
use super::{BehindKv, BehindLog};
use crate::codec::{Dirent, encode};
use crate::keys;
use crate::kv::{Check, Commit, Followed, Key, Kv, MemoryKv, Outcome, Version, Versioned};
use crate::session::SessionId;

fn put(key: &str, value: &'static str, check: Check) -> Commit {
    let puts = vec![(key.into(), value.into())];
    Commit { checks: vec![check], puts, ..Commit::default() }
}

fn noted() -> Noted {
    let commit = Commit {
        checks: vec![Check::Absent(b"a".into()), Check::Version(b"b".into(), provisional(3))],
        puts: vec![(keys::inode(Ino(7)), "x".into()), (b"a".into(), "".into())],
        deletes: Vec::new(),
        adds: vec![(b"n".into(), -5)],
        raises: vec![(b"t".into(), "9".into())],
    };
    Noted { session: SessionId(u64::MAX), number: 4, commit }
}

#[test]
fn what_is_noted_is_read_back_and_what_is_not_is_refused() {
    let entry = noted().encode().unwrap();
    let back = Noted::decode(&entry).unwrap();
    assert_eq!((back.session, back.number, back.commit), (SessionId(u64::MAX), 4, noted().commit));
    let kind = |bytes: &[u8]| Noted::decode(bytes).err().unwrap().kind();
    for len in 1..entry.len() {
        assert_eq!(kind(&entry[..len]), ErrorKind::Corrupt, "{len}");
    }
    assert_eq!(kind(&[2, 0, 0]), ErrorKind::Unsupported);
    assert_eq!(kind(&[]), ErrorKind::Unsupported);
}

#[test]
fn several_come_to_what_they_come_to_in_turn() {
    let mut batch = Batch::of(1);
    batch.join(1, &put("a", "1", Check::Absent(b"a".into())));
    batch.join(2, &put("a", "2", Check::Version(b"a".into(), provisional(1))));
    let more = Commit {
        adds: vec![(b"n".into(), 3), (b"m".into(), 1)],
        raises: vec![(b"t".into(), "5".into())],
        ..put("c", "1", Check::Version(b"d".into(), 8))
    };
    batch.join(3, &more);
    let less = Commit {
        adds: vec![(b"n".into(), 2), (b"m".into(), -1)],
        raises: vec![(b"t".into(), "4".into())],
        ..Commit::default()
    };
    batch.join(4, &less);
    let commit = batch.commit();
    let checks = [Check::Absent(b"a".into()), Check::Version(b"d".into(), 8)];
    assert_eq!(commit.checks, checks);
    assert_eq!(commit.puts, [(b"a".into(), "2".into()), (b"c".to_vec(), "1".into())]);
    assert_eq!(commit.adds, [(b"n".to_vec(), 5)]);
    assert_eq!(commit.raises, [(b"t".to_vec(), "5".into())]);
    let versions = [(b"a".to_vec(), provisional(2)), (b"c".to_vec(), provisional(3))];
    assert_eq!((batch.put(), batch.last), (versions.to_vec(), 4));
}

#[test]
fn what_is_sent_takes_no_more_and_others_wait_for_what_they_meet_only() {
    let mut queue = Queue::default();
    queue.push(&Commit {
        adds: vec![(b"n".into(), 1)],
        ..put("Da1", "1", Check::Absent(b"Da1".into()))
    });
    let taken = queue.take(1).unwrap();
    assert_eq!((taken.last, taken.tried), (1, false));
    queue.push(&put("Da2", "1", Check::Absent(b"Da2".into())));
    assert!(queue.take(1).unwrap().tried, "the same ones again");
    assert_eq!((queue.has_any(&[b"Da1".to_vec()]), queue.has_below(b"Da")), (Some(1), Some(2)));
    assert_eq!((queue.has_any(&[b"Da3".to_vec()]), queue.has_below(b"Db")), (None, None));
    let add = |key: &str| Commit { adds: vec![(key.into(), 1)], ..Commit::default() };
    assert_eq!((queue.meets(&add("n")), queue.meets(&add("Da1"))), (None, Some(1)));
    assert_eq!(queue.meets(&put("x", "1", Check::Absent(b"n".into()))), Some(1));
    // Whoever changes what one rests on comes behind it, too; who rests on the same does not.
    queue.push(&put("Da3", "1", Check::Version(b"Ia".into(), 5)));
    assert_eq!(queue.meets(&put("Ia", "2", Check::Version(b"Ia".into(), 5))), Some(3));
    let gone = Commit { deletes: vec![b"Ia".to_vec()], ..Commit::default() };
    assert_eq!((queue.meets(&gone), queue.meets(&add("Ia"))), (Some(3), Some(3)));
    assert_eq!(queue.meets(&put("x", "1", Check::Version(b"Ia".into(), 5))), None);
    queue.settle(1);
    assert_eq!((queue.waiting(), queue.is_settled(1), queue.is_settled(2)), (2, true, false));
    assert!(queue.take(1).is_none() && queue.take(2).is_some());
}

/// A log that keeps nothing.
struct NoLog;

impl BehindLog for NoLog {
    fn note(&self, _entry: &[u8]) -> Result<()> {
        Ok(())
    }

    fn noted(&self) -> u64 {
        0
    }

    fn clear_if(&self, _noted: u64) -> Result<bool> {
        Ok(true)
    }
}

/// The first that is followed is answered late.
#[derive(Default)]
struct Late {
    kv: MemoryKv,
    was_late: AtomicBool,
    has_read: Notify,
    may_answer: Notify,
}

#[async_trait]
impl Kv for Late {
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        self.kv.get_many(keys).await
    }

    async fn follow(&self, key: &Key, tags: &[u8]) -> Result<Followed> {
        let found = self.kv.follow(key, tags).await;
        if !self.was_late.swap(true, Ordering::Relaxed) {
            self.has_read.notify_one();
            self.may_answer.notified().await;
        }
        found
    }

    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Versioned)>> {
        self.kv.scan(prefix, after, limit).await
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome> {
        self.kv.commit(commit).await
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

#[tokio::test]
async fn what_comes_to_the_database_behind_a_read_is_not_missed() {
    let late = Arc::new(Late::default());
    let behind = BehindKv::new(late.clone());
    behind.begin(SessionId(1), Arc::new(NoLog), Box::new(|_, _| {})).await.unwrap();
    let (from, to) = (keys::dirent(Ino(1), b"n"), keys::inode(Ino(7)));
    let entry = encode(&Dirent { ino: Ino(7), kind: FileKind::Regular }).unwrap();
    let puts = vec![(from.clone(), entry), (to.clone(), "old".into())];
    let Outcome::Applied(version) =
        behind.commit(Commit { puts, ..Commit::default() }).await.unwrap()
    else {
        panic!("nobody else is there")
    };
    let new = Commit {
        checks: vec![Check::Version(to.clone(), version)],
        puts: vec![(to, "new".into())],
        ..Commit::default()
    };
    behind.push(&new).unwrap();
    let reader = behind.clone();
    let read = tokio::spawn(async move { reader.follow(&from, &[keys::INODE]).await });
    // It has read what the database has, and then that has more.
    late.has_read.notified().await;
    behind.drain().await.unwrap();
    late.may_answer.notify_one();
    let found = read.await.unwrap().unwrap();
    assert_eq!(found.to[0].as_ref().unwrap().value, "new");
}

#[tokio::test]
async fn what_changes_something_that_others_rest_on_waits_for_them() {
    let behind = BehindKv::new(Arc::new(MemoryKv::new()));
    behind.begin(SessionId(1), Arc::new(NoLog), Box::new(|_, _| {})).await.unwrap();
    let dir = keys::inode(Ino(2));
    let puts = vec![(dir.clone(), "dir".into())];
    let Outcome::Applied(version) =
        behind.commit(Commit { puts, ..Commit::default() }).await.unwrap()
    else {
        panic!("nobody else is there")
    };
    // A name in it waits, and then it is moved.
    let seen = || Check::Version(dir.clone(), version);
    let name = keys::dirent(Ino(2), b"n");
    let puts = vec![(name.clone(), "n".into())];
    behind.push(&Commit { checks: vec![seen()], puts, ..Commit::default() }).unwrap();
    let puts = vec![(dir.clone(), "moved".into())];
    let moved = behind.commit(Commit { checks: vec![seen()], puts, ..Commit::default() }).await;
    assert!(matches!(moved, Ok(Outcome::Applied(_))), "{moved:?}");
    behind.drain().await.unwrap();
    assert!(behind.get_many(&[name]).await.unwrap()[0].is_some());
}
