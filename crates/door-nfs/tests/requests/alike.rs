//! What another server answers to the same requests: where this one says something else, there is a reason for it.

use crate::common::attrs::Set;
use crate::common::client::Client;
use crate::common::codes::{OK, Stat, attr, kind, lock, op, share, stable};
use crate::common::ops::{self, Claim, Handle, Locker, Make, Open, Page, StateId, putfh};
use crate::common::ops_session::{free_stateid, reclaim_complete};
use crate::common::rpc::Cred;
use crate::common::xdr::Writer;
use crate::goes_on::servers;

const USER: u32 = 4_711;

/// Asks a server, in a directory of its own, and keeps what it says.
struct Asking {
    client: Client,
    dir: Handle,
    file: Handle,
    answers: Vec<(String, Stat)>,
}

impl Asking {
    /// In a new directory of an export, with a file, a directory that has one in it, and a symlink.
    fn of(address: std::net::SocketAddr, export: &str) -> Self {
        let name = format!("alike {}", std::process::id());
        let mut client = Client::new(address, &name);
        let root = client.root();
        let top = export
            .split('/')
            .filter(|name| !name.is_empty())
            .fold(root, |at, name| client.lookup(&at, name).expect("the export is there"));
        let dir = client.mkdir(&top, &name, 0o755);
        let file = client.file(&dir, "file", b"bytes");
        let sub = client.mkdir(&dir, "sub", 0o755);
        client.file(&sub, "inner", b"");
        assert_eq!(client.stat(&dir, ops::symlink("link", "file")), OK);
        Self { client, dir, file, answers: Vec::new() }
    }

    fn says(&mut self, what: impl Into<String>, stat: Stat) {
        self.answers.push((what.into(), stat));
    }

    /// What an operation on the directory is answered with.
    fn dir(&mut self, what: impl Into<String>, op: ops::Op) {
        let stat = self.client.stat(&self.dir, op);
        self.says(what, stat);
    }

    /// The same of the file.
    fn file(&mut self, what: impl Into<String>, op: ops::Op) {
        let stat = self.client.stat(&self.file, op);
        self.says(what, stat);
    }

    /// The same of what has this name.
    fn named(&mut self, name: &str, what: impl Into<String>, op: ops::Op) {
        let found = self.client.lookup(&self.dir, name).expect("is there");
        let stat = self.client.stat(&found, op);
        self.says(what, stat);
    }

    /// The same of an open.
    fn open(&mut self, what: impl Into<String>, open: &Open) -> Option<StateId> {
        let opened = self.client.open(&self.dir, open);
        self.says(what, opened.as_ref().err().copied().unwrap_or(OK));
        opened.ok().map(|(_, opened)| opened.id)
    }

    fn names(&mut self) {
        let long = "n".repeat(256);
        for (what, name) in [
            ("no name", ""),
            (".", "."),
            ("..", ".."),
            ("a name with a slash", "a/b"),
            ("a name that is too long", &long),
            ("a name that is there", "file"),
        ] {
            self.dir(format!("MKDIR of {what}"), ops::mkdir(name, 0o755));
            self.dir(format!("SYMLINK of {what}"), ops::symlink(name, "x"));
            let guarded = Open::both(name).make(Make::Guarded(Set::new()));
            self.open(format!("OPEN that makes {what}"), &guarded);
            if name != "file" {
                self.dir(format!("LOOKUP of {what}"), ops::lookup(name));
                self.dir(format!("REMOVE of {what}"), ops::remove(name));
                for (old, new) in [("file", name), (name, "file")] {
                    let stat =
                        self.client.between(&self.dir, &self.dir, ops::rename(old, new)).stat;
                    let how = if old == name { "from" } else { "to" };
                    self.says(format!("RENAME {how} {what}"), stat);
                }
            }
            let stat = self.client.between(&self.file, &self.dir, ops::link(name)).stat;
            self.says(format!("LINK to {what}"), stat);
        }
        self.dir("LOOKUP of a name that is absent", ops::lookup("absent"));
        self.dir("REMOVE of a name that is absent", ops::remove("absent"));
        self.dir("REMOVE of a directory that has something", ops::remove("sub"));
        self.dir(
            "CREATE of a file",
            ops::create(Writer::new().u32(kind::REG), b"reg", &Set::new()),
        );
        self.dir("CREATE of a FIFO", ops::create(Writer::new().u32(kind::FIFO), b"p", &Set::new()));
        self.dir("READLINK of a directory", ops::readlink());
        self.file("READLINK of a file", ops::readlink());
        self.file("LOOKUP in a file", ops::lookup("x"));
        self.file("LOOKUPP from a file", ops::lookupp());
        self.file("MKDIR in a file", ops::mkdir("x", 0o755));
        self.file("REMOVE in a file", ops::remove("x"));
        self.named("link", "LOOKUP in a symlink", ops::lookup("x"));
    }

    fn moves(&mut self) {
        let (dir, file) = (self.dir.clone(), self.file.clone());
        let sub = self.client.lookup(&dir, "sub").expect("is there");
        for (what, from, to, old, new) in [
            ("a file to itself", &dir, &dir, "file", "file"),
            ("a file over a directory", &dir, &dir, "file", "sub"),
            ("a directory over a file", &dir, &dir, "sub", "file"),
            ("a directory into itself", &dir, &sub, "sub", "x"),
            ("what is absent", &dir, &dir, "absent", "x"),
            ("into a file", &dir, &file, "sub", "x"),
            ("from a file", &file, &dir, "x", "y"),
        ] {
            let stat = self.client.between(from, to, ops::rename(old, new)).stat;
            self.says(format!("RENAME {what}"), stat);
        }
        self.client.mkdir(&dir, "empty", 0o755);
        for (what, old, new) in [
            ("over a directory that has something", "empty", "sub"),
            ("over an empty one", "sub", "empty"),
            ("back", "empty", "sub"),
        ] {
            let stat = self.client.between(&dir, &dir, ops::rename(old, new)).stat;
            self.says(format!("RENAME of a directory {what}"), stat);
        }
        let stat = self.client.between(&file, &dir, ops::link("second")).stat;
        self.says("LINK", stat);
        let stat = self.client.between(&dir, &dir, ops::rename("file", "second")).stat;
        self.says("RENAME over another name of the file", stat);
        self.dir("LOOKUP of the first name after that", ops::lookup("file"));
        self.dir("LOOKUP of the second name after that", ops::lookup("second"));
        let stat = self.client.between(&sub, &dir, ops::link("third")).stat;
        self.says("LINK of a directory", stat);
        let stat = self.client.between(&dir, &file, ops::link("third")).stat;
        self.says("LINK into a file", stat);
    }

    fn attributes(&mut self) {
        let set = |set: Set| ops::setattr(StateId::ANONYMOUS, &set);
        self.dir("the size of a directory", set(Set::new().size(1)));
        self.named("link", "the size of a symlink", set(Set::new().size(1)));
        self.file("a size", set(Set::new().size(9)));
        self.file("a size beyond all", set(Set::new().size(u64::MAX)));
        self.file("an owner by number", set(Set::new().owner("7")));
        self.file("an owner whom nobody knows", set(Set::new().owner("who@nowhere.example")));
        self.file("no owner", set(Set::new().owner("")));
        self.file("a time", set(Set::new().modified(Some((5, 7)))));
        self.file(
            "a time of too many nanoseconds",
            set(Set::new().modified(Some((5, 1_000_000_000)))),
        );
        self.file(
            "an attribute that is only read",
            set(Set::new().raw(attr::FILEID, Writer::new().u64(1))),
        );
        self.file("GETATTR of one that is only set", ops::getattr(&[attr::TIME_ACCESS_SET]));
        self.file("GETATTR of one that nobody knows", ops::getattr(&[200]));
        self.file("VERIFY of what it is", ops::verify(&Set::new().size(9)));
        self.file("VERIFY of what it is not", ops::verify(&Set::new().size(8)));
        self.file("NVERIFY of what it is", ops::nverify(&Set::new().size(9)));
        self.file("NVERIFY of what it is not", ops::nverify(&Set::new().size(8)));
        let only_set = Set::new().modified(None);
        self.file("VERIFY of one that is only set", ops::verify(&only_set));
        let listing = Page { cookie: 0, verifier: [0; 8], dircount: 4_096, maxcount: 4_096 };
        self.file("READDIR of a file", ops::readdir(listing, &[]));
        for (what, page) in [
            ("from a cookie that is none", Page { cookie: 1, ..listing }),
            ("in too little room", Page { maxcount: 10, ..listing }),
        ] {
            self.dir(format!("READDIR {what}"), ops::readdir(page, &[]));
        }
        self.dir("ACCESS", ops::access(63));
        self.file("SECINFO in a file", ops::secinfo("x"));
        self.dir("SECINFO of what is absent", ops::secinfo("absent"));
    }

    fn bytes(&mut self) {
        let some = StateId::ANONYMOUS;
        self.dir("READ of a directory", ops::read(some, 0, 1));
        self.named("link", "READ of a symlink", ops::read(some, 0, 1));
        self.file("READ at the end", ops::read(some, 9, 1));
        self.file("READ beyond the end", ops::read(some, 1 << 40, 1));
        self.file("READ of nothing", ops::read(some, 0, 0));
        self.file(
            "READ by a state that nobody has",
            ops::read(StateId { seqid: 1, other: [9; 12] }, 0, 1),
        );
        self.dir("WRITE to a directory", ops::write(some, 0, stable::UNSTABLE, b"x"));
        self.named("link", "WRITE to a symlink", ops::write(some, 0, stable::UNSTABLE, b"x"));
        self.file("WRITE of nothing", ops::write(some, 0, stable::UNSTABLE, b""));
        self.file("WRITE by nobody", ops::write(some, 0, stable::FILE_SYNC, b"x"));
        self.file("WRITE at the end of all", ops::write(some, u64::MAX, stable::UNSTABLE, b"x"));
        self.file("COMMIT", ops::commit(0, 0));
        self.dir("COMMIT of a directory", ops::commit(0, 0));
        self.file("COMMIT beyond all", ops::commit(u64::MAX, 2));
        let reading = self.open("OPEN to read", &Open::read("second")).expect("opens");
        self.file("WRITE by who only reads", ops::write(reading, 0, stable::UNSTABLE, b"x"));
        self.file("a size by who only reads", ops::setattr(reading, &Set::new().size(1)));
        self.file("CLOSE", ops::close(reading));
        self.file("READ by what is closed", ops::read(reading, 0, 1));
        self.file("CLOSE of what is closed", ops::close(reading));
    }

    fn opens(&mut self) {
        self.open("OPEN of a directory", &Open::read("sub"));
        self.open("OPEN of a symlink", &Open::read("link"));
        self.open("OPEN of a FIFO", &Open::read("p"));
        self.open("OPEN of what is absent", &Open::read("absent"));
        self.open("OPEN for nothing", &Open::new(share::NONE, "second"));
        self.open("OPEN that denies what there is not", &Open::read("second").deny(4));
        let inside = self.client.open(&self.file, &Open::read("x")).err().unwrap_or(OK);
        self.says("OPEN in a file", inside);
        self.open("OPEN that reclaims after all", &Open::read("").claim(Claim::Previous));
        for (what, verifier) in [("once", [1; 8]), ("again", [1; 8]), ("by another one", [2; 8])] {
            let exclusive = Open::both("exclusive").make(Make::Exclusive41(verifier, Set::new()));
            self.open(format!("OPEN that makes exclusively {what}"), &exclusive);
        }
        let both = self.open("OPEN for both", &Open::both("second").owner(b"one")).expect("opens");
        let denies = Open::read("second").owner(b"two").deny(share::WRITE);
        self.open("OPEN that denies what somebody has", &denies);
        self.file("OPEN_DOWNGRADE to nothing", ops::open_downgrade(both, 0, 0));
        let less = self.client.at(&self.file, ops::open_downgrade(both, share::READ, 0));
        self.says("OPEN_DOWNGRADE", less.stat);
        let now = both.with(0);
        self.file("OPEN_DOWNGRADE to what it is not", ops::open_downgrade(now, share::BOTH, 0));
        self.file("WRITE after that", ops::write(now, 0, stable::UNSTABLE, b"x"));
        self.file("CLOSE by an old state", ops::close(both));
        self.file("CLOSE by one of the future", ops::close(both.with(99)));
        self.file("CLOSE by the one of now", ops::close(now));
        let held = self.open("OPEN that denies all", &Open::both("second").deny(share::BOTH));
        self.open("OPEN of what is denied", &Open::read("second").owner(b"two"));
        self.file("READ by nobody of what is denied", ops::read(StateId::ANONYMOUS, 0, 1));
        self.file(
            "WRITE by nobody to what is denied",
            ops::write(StateId::ANONYMOUS, 0, stable::UNSTABLE, b"x"),
        );
        self.dir("REMOVE of what somebody has denied", ops::remove("exclusive"));
        self.file("CLOSE of what denies", ops::close(held.expect("opens")));
    }

    fn locks(&mut self) {
        let all = (0, u64::MAX);
        let open = self.open("OPEN to lock", &Open::both("second").owner(b"locks")).expect("opens");
        let lock_by = |owner, kind, range| ops::lock(kind, false, range, &Locker::New(open, owner));
        self.file("LOCK of no bytes", lock_by(b"one", lock::WRITE, (0, 0)));
        self.file("LOCK beyond all", lock_by(b"one", lock::WRITE, (u64::MAX, 2)));
        let locked = self.client.at(&self.file, lock_by(b"one", lock::WRITE, (0, 10)));
        self.says("LOCK", locked.stat);
        let id = locked.state();
        self.file("LOCK of what another one has", lock_by(b"two", lock::READ, (5, 10)));
        self.file("LOCK of what another one has not", lock_by(b"two", lock::READ, (10, 10)));
        self.file("LOCKT of one's own", ops::lockt(lock::WRITE, (0, 10), b"one"));
        self.file("LOCKT of what another one has", ops::lockt(lock::WRITE, (0, 10), b"three"));
        self.file("LOCKT of no bytes", ops::lockt(lock::WRITE, (0, 0), b"three"));
        self.file("LOCKU of what nobody has", ops::locku(id, (100, 10)));
        self.file("LOCKU by an open", ops::locku(open, all));
        let reclaims = Locker::New(open.with(0), b"four");
        self.file("LOCK that is reclaimed after all", ops::lock(lock::WRITE, true, all, &reclaims));
        let reading = Open::read("second").owner(b"reads");
        let reading = self.open("OPEN to read and lock", &reading).expect("opens");
        let by_reader = Locker::New(reading, b"five");
        let above = (1 << 20, 10);
        self.file(
            "LOCK to write of what is read",
            ops::lock(lock::WRITE, false, above, &by_reader),
        );
        self.dir("LOCK of a directory", ops::lock(lock::WRITE, false, above, &by_reader));
        self.file("CLOSE of what has no locks", ops::close(reading.with(0)));
        let freed = self.client.call(&[free_stateid(id.with(0))]).stat;
        self.says("FREE_STATEID of what has locks", freed);
        self.file("CLOSE of what has locks", ops::close(open.with(0)));
        self.file("LOCKU after that", ops::locku(id.with(0), all));
    }

    fn sessions(&mut self) {
        let garbage = self.client.call(&[putfh(b"garbage")]).stat;
        self.says("PUTFH of what is no handle", garbage);
        let none = self.client.call(&[putfh(b"")]).stat;
        self.says("PUTFH of nothing", none);
        let old_client = Writer::new()
            .fixed(&[1; 8])
            .opaque(b"old")
            .u32(1)
            .opaque(b"tcp")
            .opaque(b"127.0.0.1.0.1")
            .u32(1);
        for (what, op) in [
            ("GETATTR without a handle", ops::getattr(&[attr::TYPE])),
            ("RESTOREFH without one", ops::restorefh()),
            ("SAVEFH without one", ops::savefh()),
            ("SETCLIENTID", ops::raw(op::SETCLIENTID, old_client)),
            (
                "OPEN_CONFIRM",
                ops::raw(op::OPEN_CONFIRM, Writer::new().stateid(StateId::ANONYMOUS).u32(1)),
            ),
            ("RENEW", ops::raw(op::RENEW, Writer::new().u64(1))),
            ("RECLAIM_COMPLETE once more", reclaim_complete(false)),
        ] {
            let stat = self.client.call(&[op]).stat;
            self.says(what, stat);
        }
        let bare = self.client.bare(&[ops::putrootfh()]).stat;
        self.says("an operation without SEQUENCE", bare);
        let sequence = self.client.sequence(0);
        let twice = self.client.call_with(&sequence, &[sequence.op()]).stat;
        self.says("SEQUENCE in the middle", twice);
        let mut late = self.client.sequence(0);
        late.seqid += 5;
        let late = self.client.call_with(&late, &[]).stat;
        self.client.slots[0] -= 1;
        self.says("SEQUENCE out of order", late);
        let mut far = self.client.sequence(0);
        far.slot = 9_999;
        let far = self.client.call_with(&far, &[]).stat;
        self.client.slots[0] -= 1;
        self.says("SEQUENCE of a slot that is none", far);
        let still = self.client.call(&[ops::putrootfh()]).stat;
        self.says("the session after that", still);
    }

    /// As a user who owns nothing there.
    fn others(&mut self) {
        let root = std::mem::replace(&mut self.client.cred, Cred::user(USER));
        let set = |set: Set| ops::setattr(StateId::ANONYMOUS, &set);
        self.dir("MKDIR in another one's directory", ops::mkdir("theirs", 0o755));
        self.dir("REMOVE from another one's directory", ops::remove("second"));
        self.file("a mode of another one's file", set(Set::new().mode(0o777)));
        self.file("an owner of another one's file", set(Set::new().owner("4711")));
        self.file(
            "WRITE to another one's file",
            ops::write(StateId::ANONYMOUS, 0, stable::UNSTABLE, b"x"),
        );
        self.file("a time of another one's file", set(Set::new().modified(None)));
        self.open("OPEN of another one's file to write", &Open::both("second"));
        self.open("OPEN of another one's file to read", &Open::read("second"));
        self.client.cred = root;
    }
}

/// What NFS-Ganesha 4.3 says otherwise, by how a question ends, and why this one does.
const OTHERWISE: &[(&str, &str)] = &[
    ("a name with a slash", "either is an error of names, 15.1.7"),
    ("READLINK of a directory", "18.24.3 has WRONG_TYPE"),
    ("READLINK of a file", "18.24.3 has WRONG_TYPE"),
    ("READ of a symlink", "18.22.3 has SYMLINK"),
    ("WRITE to a symlink", "18.32.3 has SYMLINK"),
    ("OPEN of a FIFO", "18.16.3 has WRONG_TYPE for what is no symlink"),
    ("READ by a state that nobody has", "4.1 has no STALE_STATEID any more, 15.1.16"),
    ("CLOSE of what is closed", "such a state is none, 18.2.3"),
    ("CLOSE of what has locks", "18.2.3 lets a server free the locks, as POSIX has it"),
    ("LOCKU after that", "the locks went with the open"),
    ("LOCKU by an open", "18.12.3 asks for the state of a lock"),
    (
        "LOCK of a directory",
        "the state is looked at before the kind of the file, and no directory has one",
    ),
    ("COMMIT beyond all", "all of the file is committed, whatever the range"),
    ("WRITE at the end of all", "larger than a file may be, 15.1.4"),
    ("a size beyond all", "larger than a file may be, 15.1.4"),
    ("an owner whom nobody knows", "nobody is taken for somebody else, 5.9"),
    ("no owner", "no name is the name of nobody, 5.9"),
];

#[test]
#[ignore = "a case runs it beside another server"]
fn both_answer_alike() {
    let export = std::env::var("WEIR_NFS_EXPORTS").expect("WEIR_NFS_EXPORTS=PATH,...");
    let mut asked = servers().into_iter().zip(export.split(',')).map(|(address, export)| {
        let mut asking = Asking::of(address, export);
        asking.names();
        asking.moves();
        asking.attributes();
        asking.bytes();
        asking.opens();
        asking.locks();
        asking.sessions();
        asking.others();
        asking.answers
    });
    let (ours, theirs) = (asked.next().expect("a server"), asked.next().expect("another one"));
    let (mut alike, mut otherwise, mut problems) = (0, 0, Vec::new());
    for ((what, ours), (_, theirs)) in ours.into_iter().zip(theirs) {
        let why = OTHERWISE.iter().find(|(of, _)| what.ends_with(of));
        match (ours == theirs, why) {
            (true, _) => alike += 1,
            (false, Some((_, why))) => {
                otherwise += 1;
                eprintln!("{what}: {ours:?}, the other one {theirs:?}: {why}");
            }
            (false, None) => problems.push(format!("{what}: {ours:?}, the other one {theirs:?}")),
        }
    }
    eprintln!("{alike} answers are alike, {otherwise} are not");
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}
