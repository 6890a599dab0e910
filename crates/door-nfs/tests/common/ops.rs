//! Operations with their arguments, as RFC 5662, 7862 and 8276 have them.

use super::attrs::Set;
use super::codes::{op, share};
use super::xdr::Writer;

/// A file handle.
pub type Handle = Vec<u8>;
/// Eight bytes that only who made them understands.
pub type Verifier = [u8; 8];
/// Names a session.
pub type SessionId = [u8; 16];

/// Names what a client holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StateId {
    pub seqid: u32,
    pub other: [u8; 12],
}

impl StateId {
    /// Nobody's.
    pub const ANONYMOUS: Self = Self { seqid: 0, other: [0; 12] };
    /// Reads past locks and shares.
    pub const BYPASS: Self = Self { seqid: u32::MAX, other: [0xff; 12] };
    /// What an operation before it in the same compound made.
    pub const CURRENT: Self = Self { seqid: 1, other: [0; 12] };
    /// What nothing is called.
    pub const INVALID: Self = Self { seqid: u32::MAX, other: [0; 12] };

    pub fn with(self, seqid: u32) -> Self {
        Self { seqid, ..self }
    }
}

/// An operation of a compound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    pub number: u32,
    pub arguments: Writer,
}

/// One with any arguments.
pub fn raw(number: u32, arguments: Writer) -> Op {
    Op { number, arguments }
}

fn plain(number: u32) -> Op {
    raw(number, Writer::new())
}

fn named(number: u32, name: &[u8]) -> Op {
    raw(number, Writer::new().opaque(name))
}

impl Writer {
    pub fn stateid(self, id: StateId) -> Self {
        self.u32(id.seqid).fixed(&id.other)
    }

    fn owner(self, owner: &[u8]) -> Self {
        // The client that an owner is of is that of the session: the number is not looked at.
        self.u64(0x0dd).opaque(owner)
    }
}

pub fn access(bits: u32) -> Op {
    raw(op::ACCESS, Writer::new().u32(bits))
}

pub fn close(id: StateId) -> Op {
    raw(op::CLOSE, Writer::new().u32(0).stateid(id))
}

pub fn commit(offset: u64, count: u32) -> Op {
    raw(op::COMMIT, Writer::new().u64(offset).u32(count))
}

pub fn delegreturn(id: StateId) -> Op {
    raw(op::DELEGRETURN, Writer::new().stateid(id))
}

/// `what` is the kind with what belongs to it.
pub fn create(what: Writer, name: &[u8], set: &Set) -> Op {
    raw(op::CREATE, set.write(what.opaque(name)))
}

pub fn mkdir(name: &str, mode: u32) -> Op {
    create(Writer::new().u32(2), name.as_bytes(), &Set::new().mode(mode))
}

pub fn symlink(name: &str, target: &str) -> Op {
    create(Writer::new().u32(5).opaque(target.as_bytes()), name.as_bytes(), &Set::new())
}

pub fn getattr(attributes: &[u32]) -> Op {
    raw(op::GETATTR, Writer::new().bitmap(attributes))
}

pub fn getfh() -> Op {
    plain(op::GETFH)
}

pub fn link(name: &str) -> Op {
    named(op::LINK, name.as_bytes())
}

/// A size alone, where any attribute will do.
pub fn set_size(bytes: u64) -> Set {
    Set::new().size(bytes)
}

/// Who asks for a lock.
#[derive(Clone, Debug)]
pub enum Locker<'a> {
    /// An owner that has nothing locked in this file yet, by what it opened.
    New(StateId, &'a [u8]),
    /// One that has.
    Known(StateId),
}

/// A range: `u64::MAX` bytes reach to the end.
pub type Range = (u64, u64);

pub fn lock(kind: u32, reclaim: bool, range: Range, locker: &Locker<'_>) -> Op {
    let to = Writer::new().u32(kind).bool(reclaim).u64(range.0).u64(range.1);
    let to = match locker {
        Locker::New(open, owner) => to.bool(true).u32(0).stateid(*open).u32(0).owner(owner),
        Locker::Known(id) => to.bool(false).stateid(*id).u32(0),
    };
    raw(op::LOCK, to)
}

pub fn lockt(kind: u32, range: Range, owner: &[u8]) -> Op {
    raw(op::LOCKT, Writer::new().u32(kind).u64(range.0).u64(range.1).owner(owner))
}

pub fn locku(id: StateId, range: Range) -> Op {
    raw(op::LOCKU, Writer::new().u32(2).u32(0).stateid(id).u64(range.0).u64(range.1))
}

pub fn lookup(name: &str) -> Op {
    named(op::LOOKUP, name.as_bytes())
}

pub fn lookup_bytes(name: &[u8]) -> Op {
    named(op::LOOKUP, name)
}

pub fn lookupp() -> Op {
    plain(op::LOOKUPP)
}

pub fn verify(set: &Set) -> Op {
    raw(op::VERIFY, set.write(Writer::new()))
}

pub fn nverify(set: &Set) -> Op {
    raw(op::NVERIFY, set.write(Writer::new()))
}

/// What OPEN makes.
#[derive(Clone, Debug)]
pub enum Make {
    Nothing,
    Unchecked(Set),
    Guarded(Set),
    Exclusive(Verifier),
    Exclusive41(Verifier, Set),
}

/// What OPEN opens.
#[derive(Clone, Debug)]
pub enum Claim {
    Name(Vec<u8>),
    /// The current file, as it was open before the server restarted.
    Previous,
    /// The current file.
    Handle,
    /// A kind and its bytes.
    Raw(u32, Writer),
}

/// The arguments of OPEN.
#[derive(Clone, Debug)]
pub struct Open {
    pub access: u32,
    pub deny: u32,
    pub owner: Vec<u8>,
    pub make: Make,
    pub claim: Claim,
}

impl Open {
    pub fn new(access: u32, name: &str) -> Self {
        let claim = Claim::Name(name.as_bytes().to_vec());
        Self { access, deny: 0, owner: b"opener".to_vec(), make: Make::Nothing, claim }
    }

    pub fn read(name: &str) -> Self {
        Self::new(share::READ, name)
    }

    pub fn both(name: &str) -> Self {
        Self::new(share::BOTH, name)
    }

    /// For reading and writing, made where it is not there.
    pub fn making(name: &str) -> Self {
        Self::both(name).make(Make::Unchecked(Set::new().mode(0o644)))
    }

    pub fn handle(access: u32) -> Self {
        Self::new(access, "").claim(Claim::Handle)
    }

    pub fn make(self, make: Make) -> Self {
        Self { make, ..self }
    }

    pub fn claim(self, claim: Claim) -> Self {
        Self { claim, ..self }
    }

    pub fn deny(self, deny: u32) -> Self {
        Self { deny, ..self }
    }

    pub fn owner(self, owner: &[u8]) -> Self {
        Self { owner: owner.to_vec(), ..self }
    }

    pub fn op(&self) -> Op {
        let to = Writer::new().u32(0).u32(self.access).u32(self.deny).owner(&self.owner);
        let to = match &self.make {
            Make::Nothing => to.u32(0),
            Make::Unchecked(set) => set.write(to.u32(1).u32(0)),
            Make::Guarded(set) => set.write(to.u32(1).u32(1)),
            Make::Exclusive(verifier) => to.u32(1).u32(2).fixed(verifier),
            Make::Exclusive41(verifier, set) => set.write(to.u32(1).u32(3).fixed(verifier)),
        };
        let to = match &self.claim {
            Claim::Name(name) => to.u32(0).opaque(name),
            Claim::Previous => to.u32(1).u32(0),
            Claim::Handle => to.u32(4),
            Claim::Raw(kind, bytes) => to.u32(*kind).add(bytes),
        };
        raw(op::OPEN, to)
    }
}

pub fn open_downgrade(id: StateId, access: u32, deny: u32) -> Op {
    raw(op::OPEN_DOWNGRADE, Writer::new().stateid(id).u32(0).u32(access).u32(deny))
}

pub fn putfh(handle: &[u8]) -> Op {
    named(op::PUTFH, handle)
}

pub fn putpubfh() -> Op {
    plain(op::PUTPUBFH)
}

pub fn putrootfh() -> Op {
    plain(op::PUTROOTFH)
}

pub fn read(id: StateId, offset: u64, count: u32) -> Op {
    raw(op::READ, Writer::new().stateid(id).u64(offset).u32(count))
}

/// Where to begin, and how much may come.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub cookie: u64,
    pub verifier: Verifier,
    pub dircount: u32,
    pub maxcount: u32,
}

pub fn readdir(from: Page, attributes: &[u32]) -> Op {
    let to = Writer::new().u64(from.cookie).fixed(&from.verifier);
    raw(op::READDIR, to.u32(from.dircount).u32(from.maxcount).bitmap(attributes))
}

pub fn readlink() -> Op {
    plain(op::READLINK)
}

pub fn remove(name: &str) -> Op {
    named(op::REMOVE, name.as_bytes())
}

pub fn rename(old: &str, new: &str) -> Op {
    raw(op::RENAME, Writer::new().opaque(old.as_bytes()).opaque(new.as_bytes()))
}

pub fn restorefh() -> Op {
    plain(op::RESTOREFH)
}

pub fn savefh() -> Op {
    plain(op::SAVEFH)
}

pub fn secinfo(name: &str) -> Op {
    named(op::SECINFO, name.as_bytes())
}

/// Of the current file, or of its parent.
pub fn secinfo_no_name(parent: bool) -> Op {
    raw(op::SECINFO_NO_NAME, Writer::new().u32(parent.into()))
}

pub fn setattr(id: StateId, set: &Set) -> Op {
    raw(op::SETATTR, set.write(Writer::new().stateid(id)))
}

pub fn write(id: StateId, offset: u64, stable: u32, data: &[u8]) -> Op {
    raw(op::WRITE, Writer::new().stateid(id).u64(offset).u32(stable).opaque(data))
}
