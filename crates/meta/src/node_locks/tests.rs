//! Two nodes, each with its own table, over one store.

use std::sync::Arc;

use weir_types::{ErrorKind, UnixTime};

use super::*;
use crate::check;
use crate::kv::MemoryKv;
use crate::locks::LockTable;
use crate::reclaims::{ReclaimRow, outlive, outlive_no_more};
use crate::sessions::{NodeRow, end, join};
use crate::tests::{file, meta_over};

const POSIX: LockSpace = LockSpace::Posix;
const FLOCK: LockSpace = LockSpace::Flock;
const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);

struct Node {
    kv: Arc<dyn Kv>,
    session: SessionId,
    table: LockTable,
}

fn lock(owner: u64, start: u64, last: u64, exclusive: bool) -> Lock {
    Lock { owner: LockOwner(owner), start, last, exclusive, pid: 77 }
}

impl Node {
    async fn joined(kv: &Arc<MemoryKv>, session: SessionId) -> Self {
        let text = String::new;
        let (name, host, tier, build) = (text(), text(), text(), text());
        let node = NodeRow { name, host, tier, build, since: UnixTime(7) };
        join(&**kv, session, &node, &[]).await.expect("joins");
        Self { kv: kv.clone(), session, table: LockTable::new() }
    }

    async fn say(
        &self,
        ino: Ino,
        own: &[(LockSpace, Lock)],
        wanted: Option<(LockSpace, Lock)>,
    ) -> Option<Lock> {
        let said =
            NodeLocks { session: self.session, ino, own, wanted, claimed: None, anew: false };
        say(&*self.kv, said).await.expect("says")
    }

    /// What was in the way.
    async fn lock(&self, ino: Ino, space: LockSpace, lock: Lock) -> Option<Lock> {
        let own = self.table.held_with(ino, space, lock);
        let held = self.say(ino, &own, Some((space, lock))).await;
        if held.is_none() {
            self.table.try_lock(ino, space, lock).expect("is free here");
        }
        held
    }

    /// Takes over what its owner had at a session that has ended.
    async fn claim(&self, of: SessionId, ino: Ino, lock: Lock) -> Result<Option<Lock>> {
        let own = self.table.held_with(ino, POSIX, lock);
        let (wanted, claimed) = (Some((POSIX, lock)), Some(of));
        let said =
            NodeLocks { session: self.session, ino, own: &own, wanted, claimed, anew: false };
        let held = say(&*self.kv, said).await?;
        if held.is_none() {
            self.table.try_lock(ino, POSIX, lock).expect("is free here");
        }
        Ok(held)
    }

    async fn unlock(&self, ino: Ino, space: LockSpace, owner: u64, start: u64, last: u64) {
        self.table.unlock(ino, space, LockOwner(owner), start, last);
        assert_eq!(self.say(ino, &self.table.held(ino), None).await, None);
    }

    async fn has_row(&self, ino: Ino) -> bool {
        self.kv.get_many(&[keys::node_locks(ino)]).await.expect("reads")[0].is_some()
    }
}

async fn two_nodes() -> (Arc<MemoryKv>, crate::Meta, Ino, Node, Node) {
    let kv = Arc::new(MemoryKv::new());
    let meta = meta_over(kv.clone()).await;
    let ino = file(&meta, Ino::ROOT, "f").await;
    let (a, b) = (Node::joined(&kv, A).await, Node::joined(&kv, B).await);
    (kv, meta, ino, a, b)
}

#[tokio::test]
async fn writers_exclude_each_other_over_nodes_and_readers_do_not() {
    let (kv, _meta, ino, a, b) = two_nodes().await;
    assert_eq!(a.lock(ino, POSIX, lock(1, 0, 9, true)).await, None);
    let told = Lock { pid: 0, ..lock(1, 0, 9, true) };
    assert_eq!(
        b.lock(ino, POSIX, lock(1, 9, 20, false)).await,
        Some(told),
        "the same owner elsewhere is another"
    );
    let asked =
        in_the_way(&*kv, B, ino, (POSIX, lock(8, 0, u64::MAX, false))).await.expect("reads");
    assert_eq!(asked, Some(told));
    assert_eq!(
        in_the_way(&*kv, A, ino, (POSIX, lock(8, 0, 5, true))).await.expect("reads"),
        None,
        "its own"
    );
    assert_eq!(b.lock(ino, POSIX, lock(1, 10, 20, true)).await, None, "other bytes");
    assert_eq!(b.lock(ino, FLOCK, lock(1, 0, 0, true)).await, None, "of another kind");
    assert!(a.lock(ino, FLOCK, lock(1, 5, 5, false)).await.is_some(), "it is for the whole file");
    assert_eq!(
        a.lock(ino, POSIX, lock(1, 0, 9, false)).await,
        None,
        "for reading only from now on"
    );
    assert_eq!(b.lock(ino, POSIX, lock(2, 0, 9, false)).await, None, "readers share");
    assert!(a.lock(ino, POSIX, lock(1, 3, 3, true)).await.is_some());
    assert_eq!(check(&*kv).await.expect("checks"), []);
}

#[tokio::test]
async fn what_is_let_go_in_the_middle_is_free_elsewhere_and_the_row_goes_with_the_last_lock() {
    let (_kv, _meta, ino, a, b) = two_nodes().await;
    assert_eq!(a.lock(ino, POSIX, lock(1, 0, 99, true)).await, None);
    a.unlock(ino, POSIX, 1, 40, 49).await;
    assert!(b.lock(ino, POSIX, lock(1, 39, 41, false)).await.is_some());
    assert_eq!(b.lock(ino, POSIX, lock(1, 40, 49, true)).await, None);
    assert!(a.lock(ino, POSIX, lock(1, 0, 99, false)).await.is_some());
    a.unlock(ino, POSIX, 1, 0, u64::MAX).await;
    assert!(a.has_row(ino).await, "the other node's are there");
    b.unlock(ino, POSIX, 1, 0, u64::MAX).await;
    assert!(!a.has_row(ino).await);
}

#[tokio::test]
async fn locks_of_a_session_that_ended_are_in_nobodys_way() {
    let (kv, _meta, ino, a, b) = two_nodes().await;
    assert_eq!(a.lock(ino, FLOCK, lock(1, 0, 0, true)).await, None);
    assert!(b.lock(ino, FLOCK, lock(1, 0, 0, false)).await.is_some());
    end(&*kv, A).await.expect("ends");
    assert_eq!(in_the_way(&*kv, B, ino, (FLOCK, lock(1, 0, 0, true))).await.expect("reads"), None);
    assert_eq!(b.lock(ino, FLOCK, lock(1, 0, 0, true)).await, None);
    b.unlock(ino, FLOCK, 1, 0, 0).await;
    assert!(!b.has_row(ino).await, "nothing of the dead one stays");
}

#[tokio::test]
async fn one_of_two_who_lock_at_once_gets_it() {
    let (_kv, _meta, ino, a, b) = two_nodes().await;
    for round in 0..50 {
        let wanted = lock(round, round, round + 3, true);
        let (of_a, of_b) = tokio::join!(a.lock(ino, POSIX, wanted), b.lock(ino, POSIX, wanted));
        assert_eq!(of_a.is_none(), of_b.is_some(), "round {round}");
        let winner = if of_a.is_none() { &a } else { &b };
        winner.unlock(ino, POSIX, round, 0, u64::MAX).await;
    }
    assert!(!a.has_row(ino).await);
}

#[tokio::test]
async fn what_was_not_told_is_said_anew_and_can_be_applied_no_more() {
    let (kv, _meta, ino, a, _b) = two_nodes().await;
    let row = keys::node_locks(ino);
    let late = crate::kv::Commit {
        checks: vec![crate::kv::Check::Absent(row.clone())],
        puts: vec![(row, encode(&Vec::<NodeLock>::new()).expect("encodes"))],
        ..Default::default()
    };
    let said = NodeLocks { session: A, ino, own: &[], wanted: None, claimed: None, anew: true };
    assert_eq!(say(&*kv, said).await.expect("says"), None);
    assert_eq!(kv.commit(late).await.expect("is there"), crate::kv::Outcome::Conflict);
    assert_eq!(a.lock(ino, POSIX, lock(1, 0, 9, true)).await, None);
    a.unlock(ino, POSIX, 1, 0, 9).await;
    assert!(!a.has_row(ino).await);
}

#[tokio::test]
async fn locks_go_with_the_inode_and_do_not_come_back() {
    let (kv, meta, ino, a, b) = two_nodes().await;
    assert_eq!(a.lock(ino, POSIX, lock(1, 0, 9, true)).await, None);
    meta.unlink(Ino::ROOT, b"f").await.expect("unlinks");
    meta.purge(ino).await.expect("purges");
    assert!(!a.has_row(ino).await);
    let wanted = (POSIX, lock(1, 0, 9, true));
    let (own, wanted) = (&[wanted], Some(wanted));
    let said = NodeLocks { session: B, ino, own, wanted, claimed: None, anew: false };
    assert_eq!(say(&*kv, said).await.expect_err("is gone").kind(), ErrorKind::NotFound);
    a.unlock(ino, POSIX, 1, 0, 9).await;
    assert!(!b.has_row(ino).await);
    assert_eq!(check(&*kv).await.expect("checks"), []);
}

#[tokio::test]
async fn locks_that_outlive_their_session_are_nobodys_but_who_claims_them() {
    let (kv, _meta, ino, a, b) = two_nodes().await;
    outlive(&*kv, A, ReclaimRow { lease_ms: 1 }).await.expect("says so");
    assert_eq!(a.lock(ino, POSIX, lock(1, 10, 99, true)).await, None);
    assert_eq!(a.lock(ino, POSIX, lock(2, 0, 9, false)).await, None);
    let early = b.claim(A, ino, lock(7, 10, 99, true)).await.expect_err("it lives");
    assert_eq!(early.kind(), ErrorKind::Conflict);
    end(&*kv, A).await.expect("ends");
    for wanted in [lock(7, 99, 200, false), lock(7, 0, 9, true)] {
        assert!(b.lock(ino, POSIX, wanted).await.is_some(), "{wanted:?} is held");
    }
    // Not all of it was had, not so, or by two.
    for wanted in [lock(7, 99, 100, true), lock(7, 0, 9, true), lock(7, 5, 15, false)] {
        let error = b.claim(A, ino, wanted).await.expect_err("was not had");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{wanted:?}");
    }
    for wanted in [lock(8, 0, 9, false), lock(7, 20, 29, true), lock(7, 10, 19, false)] {
        assert_eq!(b.claim(A, ino, wanted).await.expect("was had"), None, "{wanted:?}");
    }
    b.claim(A, ino, lock(7, 20, 29, true)).await.expect_err("it was claimed before");
    b.unlock(ino, POSIX, 7, 20, 29).await;
    let c = Node::joined(&kv, SessionId(3)).await;
    assert_eq!(c.lock(ino, POSIX, lock(1, 20, 29, true)).await, None, "claimed and let go");
    assert!(c.lock(ino, POSIX, lock(1, 30, 30, true)).await.is_some(), "not claimed yet");
    outlive_no_more(&*kv, &[A]).await.expect("says so");
    c.claim(A, ino, lock(1, 30, 30, true)).await.expect_err("too late");
    assert_eq!(c.lock(ino, POSIX, lock(1, 30, 30, true)).await, None);
    assert!(c.lock(ino, POSIX, lock(1, 0, 0, true)).await.is_some(), "of the other node by now");
    assert_eq!(check::check(&*kv).await.expect("reads"), []);
}

#[tokio::test]
async fn a_claim_joins_what_its_owner_had_in_parts_and_to_the_end() {
    let (kv, _meta, ino, a, b) = two_nodes().await;
    outlive(&*kv, A, ReclaimRow { lease_ms: 1 }).await.expect("says so");
    assert_eq!(a.lock(ino, POSIX, lock(1, 0, 9, true)).await, None);
    assert_eq!(a.lock(ino, POSIX, lock(1, 10, 19, false)).await, None);
    assert_eq!(a.lock(ino, POSIX, lock(1, 20, u64::MAX, true)).await, None);
    end(&*kv, A).await.expect("ends");
    b.claim(A, ino, lock(5, 0, 30, true)).await.expect_err("in the middle it was shared");
    assert_eq!(b.claim(A, ino, lock(5, 5, u64::MAX, false)).await.expect("was had"), None);
    assert!(b.lock(ino, POSIX, lock(6, 4, 4, true)).await.is_some(), "the rest is there");
    assert_eq!(b.claim(A, ino, lock(5, 0, 4, true)).await.expect("was had"), None);
    b.claim(A, ino, lock(5, 0, 0, false)).await.expect_err("nothing is left");
}
