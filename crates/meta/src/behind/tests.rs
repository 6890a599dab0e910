use weir_types::{ErrorKind, Ino};

use super::batch::{Batch, provisional};
use super::noted::Noted;
use super::queue::Queue;
use crate::keys;
use crate::kv::{Check, Commit};
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
    queue.settle(1);
    assert_eq!((queue.waiting(), queue.is_settled(1), queue.is_settled(2)), (1, true, false));
    assert!(queue.take(1).is_none() && queue.take(2).is_some());
}
