//! LOCK, LOCKT, LOCKU, TEST_STATEID, FREE_STATEID.

use weir_engine::{Lock, LockOwner, LockSpace};
use weir_types::Ino;

use crate::common::client::Client;
use crate::common::codes::{
    BAD_RANGE, BAD_STATEID, BADXDR, DENIED, INVAL, ISDIR, LOCKS_HELD, OK, OLD_STATEID, OPENMODE,
    Stat, lock, share, stable,
};
use crate::common::ops::{self, Locker, Open, Range, StateId, close, lockt, locku, putfh};
use crate::common::ops_session::{free_stateid, test_stateid};
use crate::common::replies::{Holder, Res};
use crate::common::{Served, assert_any};

const ALL: Range = (0, u64::MAX);

/// A file that is open for both, and the first lock owner's view of it.
struct Locked {
    client: Client,
    file: Vec<u8>,
    open: StateId,
}

impl Locked {
    fn new(served: &Served, name: &str) -> Self {
        let mut client = served.client(name);
        let root = client.root();
        let (file, open) = client.make(&root, "file");
        Self { client, file, open }
    }

    /// An owner's first lock.
    fn first(&mut self, kind: u32, range: Range, owner: &str) -> Res {
        let locker = Locker::New(self.open, owner.as_bytes());
        self.client.at(&self.file, ops::lock(kind, false, range, &locker))
    }

    fn more(&mut self, kind: u32, range: Range, id: StateId) -> Res {
        self.client.at(&self.file, ops::lock(kind, false, range, &Locker::Known(id)))
    }

    fn test(&mut self, kind: u32, range: Range, owner: &str) -> Res {
        self.client.at(&self.file, lockt(kind, range, owner.as_bytes()))
    }

    fn unlock(&mut self, id: StateId, range: Range) -> Res {
        self.client.at(&self.file, locku(id, range))
    }

    /// What a range is to somebody else.
    fn is_free(&mut self, range: Range) -> bool {
        match self.test(lock::WRITE, range, "somebody else").stat {
            OK => true,
            DENIED => false,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_lock_is_taken_and_let_go() {
    let served = Served::new();
    let mut a = Locked::new(&served, "a");
    let taken = a.first(lock::WRITE, (0, 10), "owner");
    assert_eq!(taken.stat, OK);
    let id = taken.state();
    assert_eq!(id.seqid, 1);
    assert_ne!(id.other, a.open.other);
    assert_eq!(served.world.engine().held_locks().len(), 1, "in the engine's own table");
    let more = a.more(lock::WRITE, (20, 10), id);
    assert_eq!((more.stat, more.state()), (OK, id.with(2)));
    assert_eq!(a.more(lock::WRITE, (30, 10), id).stat, OLD_STATEID);
    assert!(!a.is_free((0, 1)) && !a.is_free((29, 1)) && a.is_free((10, 10)) && a.is_free((30, 9)));
    let less = a.unlock(id.with(2), (0, 10));
    assert_eq!((less.stat, less.state()), (OK, id.with(3)));
    assert!(a.is_free((0, 20)));
    assert_eq!(a.unlock(id.with(2), ALL).stat, OLD_STATEID);
    assert_eq!(a.unlock(id.with(3), ALL).stat, OK);
    assert!(a.is_free(ALL));
    assert_eq!(served.world.engine().held_locks().len(), 0);
    assert_eq!(a.unlock(id.with(4), ALL).stat, OK, "what is not locked is let go too");
}

#[test]
fn who_holds_it_is_told_to_who_is_refused() {
    let served = Served::new();
    let mut a = Locked::new(&served, "a");
    let mut b = Locked::new(&served, "b");
    assert_eq!(a.first(lock::WRITE, (100, 50), "holder").stat, OK);
    for refused in [
        b.first(lock::READ, (120, 1), "other"),
        b.first(lock::WRITEW, (0, u64::MAX), "other"),
        b.first(lock::READW, (149, 2), "other"),
        b.test(lock::READ, (90, 11), "other"),
        // The name of an owner is one of its client.
        b.test(lock::WRITE, ALL, "holder"),
        a.test(lock::WRITE, ALL, "another owner"),
    ] {
        assert_eq!(refused.stat, DENIED);
        let Holder { offset, len, kind, client, owner } = refused.holder();
        assert_eq!((offset, len, kind), (100, 50, lock::WRITE));
        assert_eq!((client, &owner[..]), (a.client.id, &b"holder"[..]));
    }
    assert_eq!(b.first(lock::WRITE, (0, 100), "other").stat, OK);
    assert_eq!(a.test(lock::WRITE, (100, 50), "holder").stat, OK, "not in its own way");
}

#[test]
fn readers_share_and_writers_do_not() {
    let served = Served::new();
    let mut a = Locked::new(&served, "a");
    let mut b = Locked::new(&served, "b");
    let of_a = a.first(lock::READ, (0, 10), "owner").state();
    let of_b = b.first(lock::READ, (5, 10), "owner").state();
    assert_eq!(a.more(lock::WRITE, (0, 10), of_a).stat, DENIED, "no upgrade beside a reader");
    let upgraded = a.more(lock::WRITE, (0, 5), of_a);
    assert_eq!(upgraded.stat, OK, "where nobody else reads");
    assert_eq!(b.more(lock::READ, (0, 10), of_b).stat, DENIED);
    assert_eq!(a.more(lock::READ, (0, 5), upgraded.state()).stat, OK, "a downgrade");
    assert_eq!(b.more(lock::READ, (0, 10), of_b).stat, OK);
}

#[test]
fn a_range_is_split_and_joined() {
    let served = Served::new();
    let mut a = Locked::new(&served, "a");
    let id = a.first(lock::WRITE, (0, 100), "owner").state();
    let id = a.unlock(id, (40, 20)).state();
    assert!(a.is_free((40, 20)) && !a.is_free((39, 1)) && !a.is_free((60, 1)));
    let id = a.more(lock::WRITE, (30, 40), id).state();
    assert!(!a.is_free((40, 20)));
    let id = a.more(lock::READ, (0, 50), id).state();
    let reader = a.test(lock::READ, (0, 50), "somebody else");
    assert_eq!(reader.stat, OK);
    assert_eq!(a.test(lock::READ, (50, 1), "somebody else").stat, DENIED);
    let id = a.unlock(id, (10, u64::MAX)).state();
    assert!(a.is_free((10, u64::MAX)) && !a.is_free((9, 1)));
    assert_eq!(a.unlock(id, ALL).stat, OK);
}

#[test]
fn ranges_end_where_files_do() {
    let served = Served::new();
    let mut a = Locked::new(&served, "a");
    for range in [(0, 0), (10, u64::MAX - 5), (u64::MAX, 2), (1 << 63, (1 << 63) + 1)] {
        let stat = a.first(lock::WRITE, range, "owner").stat;
        assert_any(stat, &[INVAL, BAD_RANGE]);
        assert_any(a.test(lock::WRITE, range, "owner").stat, &[INVAL, BAD_RANGE]);
    }
    let id = a.first(lock::WRITE, (1_000, u64::MAX), "owner").state();
    assert_any(a.unlock(id, (0, 0)).stat, &[INVAL, BAD_RANGE]);
    assert!(a.is_free((0, 1_000)) && !a.is_free(((1 << 62) - 2, 1)));
    // Beyond what a file can have: locked, or said to be no range.
    for range in [(u64::MAX - 1, 1), (1 << 63, 5), (u64::MAX, u64::MAX)] {
        assert_any(a.test(lock::READ, range, "other").stat, &[DENIED, BAD_RANGE, INVAL, OK]);
    }
    let Holder { offset, len, .. } = a.test(lock::READ, ALL, "other").holder();
    assert_eq!((offset, len), (1_000, u64::MAX), "to the end is told as it was asked");
}

#[test]
fn a_lock_wants_a_file_that_is_open_for_it() {
    let served = Served::new();
    let mut a = Locked::new(&served, "a");
    let root = a.client.root();
    let reader = a.client.open_as(&root, "reader", Open::read("file")).expect("opens");
    let only = Open::new(share::WRITE, "file");
    let writer = a.client.open_as(&root, "writer", only).expect("opens");
    let mut stat = |file: &[u8], kind, locker: Locker<'_>| {
        a.client.stat(file, ops::lock(kind, false, ALL, &locker))
    };
    let file = a.file.clone();
    assert_eq!(stat(&file, lock::WRITE, Locker::New(reader, b"r")), OPENMODE, "18.10.3");
    assert_eq!(stat(&file, lock::READ, Locker::New(writer, b"w")), OPENMODE);
    assert_eq!(stat(&file, lock::READ, Locker::New(reader, b"r")), OK);
    for id in [StateId::ANONYMOUS, StateId::BYPASS, StateId { seqid: 1, other: [4; 12] }] {
        assert_eq!(stat(&file, lock::READ, Locker::New(id, b"x")), BAD_STATEID);
        assert_eq!(stat(&file, lock::READ, Locker::Known(id)), BAD_STATEID);
    }
    assert_eq!(stat(&file, lock::READ, Locker::Known(reader)), BAD_STATEID, "it is no lock");
    assert_any(stat(&root, lock::READ, Locker::New(reader, b"d")), &[ISDIR, BAD_STATEID]);
    assert_eq!(a.client.stat(&root, lockt(lock::READ, ALL, b"d")), ISDIR);
    let other = a.client.file(&root, "other", b"");
    let wrong =
        a.client.stat(&other, ops::lock(lock::READ, false, ALL, &Locker::New(reader, b"o")));
    assert_eq!(wrong, BAD_STATEID, "of another file");
    let kind = a.client.stat(&file, ops::lock(9, false, ALL, &Locker::New(reader, b"r")));
    assert_any(kind, &[INVAL, BADXDR]);
}

#[test]
fn an_owner_that_is_known_may_come_by_its_open_again() {
    let served = Served::new();
    let mut a = Locked::new(&served, "a");
    let first = a.first(lock::WRITE, (0, 10), "owner").state();
    let again = a.first(lock::WRITE, (10, 10), "owner");
    assert_eq!((again.stat, again.state()), (OK, first.with(2)));
    let other = a.first(lock::WRITE, (30, 10), "other").state();
    assert_ne!(other.other, first.other);
    assert_eq!(a.first(lock::WRITE, (0, 1), "other").stat, DENIED);
}

#[test]
fn locks_end_with_the_open_or_keep_it() {
    let served = Served::new();
    let mut a = Locked::new(&served, "a");
    let mut b = Locked::new(&served, "b");
    let id = a.first(lock::WRITE, ALL, "owner").state();
    let (file, open) = (a.file.clone(), a.open);
    let closed = a.client.stat(&file, close(open));
    assert_any(closed, &[OK, LOCKS_HELD]);
    if closed == LOCKS_HELD {
        assert_eq!(b.first(lock::READ, ALL, "other").stat, DENIED);
        assert_eq!(a.unlock(id, ALL).stat, OK);
        assert_eq!(a.client.stat(&file, close(open)), OK);
    }
    assert_eq!(b.first(lock::READ, ALL, "other").stat, OK);
    assert_eq!(a.unlock(id, ALL).stat, BAD_STATEID);
}

/// What TEST_STATEID says of these.
fn tested(client: &mut Client, ids: &[StateId]) -> Vec<Stat> {
    client.call(&[test_stateid(ids)]).ok().last().tested()
}

#[test]
fn states_are_tested_and_freed() {
    let served = Served::new();
    let mut a = Locked::new(&served, "a");
    let mut stranger = served.client("b");
    let id = a.first(lock::WRITE, ALL, "owner").state();
    let id = a.more(lock::WRITE, ALL, id).state();
    let nobody = StateId { seqid: 1, other: [4; 12] };
    let ids = [a.open, id, id.with(1), id.with(9), nobody, StateId::ANONYMOUS];
    let wanted = [OK, OK, OLD_STATEID, BAD_STATEID, BAD_STATEID, BAD_STATEID];
    assert_eq!(tested(&mut a.client, &ids), wanted);
    assert_eq!(tested(&mut stranger, &[a.open, id]), [BAD_STATEID; 2], "of another client");
    assert_eq!(tested(&mut a.client, &[]), []);
    let free = |client: &mut Client, id| client.call(&[free_stateid(id)]).stat;
    assert_eq!(free(&mut a.client, a.open), LOCKS_HELD, "18.38.3");
    assert_eq!(free(&mut a.client, id), LOCKS_HELD);
    assert_eq!(free(&mut stranger, id), BAD_STATEID);
    assert_eq!(free(&mut a.client, nobody), BAD_STATEID);
    let id = a.unlock(id, ALL).state();
    assert_eq!(free(&mut a.client, id), OK);
    assert_eq!(free(&mut a.client, id), BAD_STATEID);
    assert_eq!(tested(&mut a.client, &[id, a.open]), [BAD_STATEID, OK]);
    // The owner begins anew.
    let again = a.first(lock::WRITE, ALL, "owner").state();
    assert_eq!(again.seqid, 1);
}

#[test]
fn locks_are_advice_for_bytes() {
    let served = Served::new();
    let mut a = Locked::new(&served, "a");
    let mut b = Locked::new(&served, "b");
    let id = a.first(lock::WRITE, ALL, "owner").state();
    let (file, open) = (b.file.clone(), b.open);
    b.client.write(&file, open, 0, stable::UNSTABLE, b"x").expect("writes");
    b.client.read(&file, open, 0, 1).expect("reads");
    // The state of a lock serves for bytes, as its open does.
    a.client.write(&file, id, 0, stable::UNSTABLE, b"y").expect("writes");
    assert_eq!(a.client.read(&file, id, 0, 1).expect("reads").0, b"y");
}

#[test]
fn a_lock_in_one_compound_goes_by_the_current_state() {
    let served = Served::new();
    let mut client = served.client("a");
    let root = client.root();
    let now = StateId::CURRENT;
    let ops = [
        putfh(&root),
        Open::making("file").op(),
        ops::lock(lock::WRITE, false, ALL, &Locker::New(now, b"owner")),
        locku(now, ALL),
    ];
    let reply = client.call(&ops).ok();
    assert_eq!(reply.last().state().seqid, 2);
}

#[test]
fn a_hundred_owners_hold_a_byte_each() {
    let served = Served::new();
    let mut a = Locked::new(&served, "a");
    let ids: Vec<StateId> = (0..100u64)
        .map(|at| a.first(lock::WRITE, (at * 2, 1), &format!("owner {at}")).state())
        .collect();
    let mut b = Locked::new(&served, "b");
    for at in 0..100u64 {
        assert!(!b.is_free((at * 2, 1)) && b.is_free((at * 2 + 1, 1)), "{at}");
    }
    for id in ids {
        assert_eq!(a.unlock(id, ALL).stat, OK);
    }
    assert!(b.is_free(ALL));
}

#[test]
fn locks_of_local_programs_are_in_the_way_and_these_are_in_theirs() {
    let served = Served::new();
    let mut a = Locked::new(&served, "a");
    let engine = served.world.engine();
    let ino = served.world.run(engine.lookup(Ino::ROOT, b"file")).expect("a file").ino;
    let file = (ino, LockSpace::Posix);
    let local = |start, last| Lock { owner: LockOwner(77), start, last, exclusive: true, pid: 7 };
    let take = |lock| {
        let granted = served.world.run(engine.lock(file, lock, false)).expect("asks");
        granted.map(|granted| granted.keep()).is_some()
    };
    assert!(take(local(0, 99)));
    let refused = a.first(lock::READ, (50, 100), "owner");
    let holder = refused.holder();
    assert_eq!((holder.offset, holder.len, holder.kind), (0, 100, lock::WRITE));
    let id = a.first(lock::WRITE, (100, 100), "owner").state();
    assert!(!take(local(150, 150)));
    served.world.run(engine.unlock(file, LockOwner(77), (0, 99))).expect("lets go");
    assert_eq!(a.more(lock::WRITE, (0, 100), id).stat, OK);
    assert!(!take(local(0, 0)));
    let (file, open) = (a.file.clone(), a.open);
    assert_eq!(a.unlock(id.with(0), ALL).stat, OK);
    assert!(take(local(0, u64::MAX)));
    assert_eq!(a.client.stat(&file, close(open)), OK);
}
