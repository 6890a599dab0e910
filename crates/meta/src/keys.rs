//! The keys: a one-byte tag, then big-endian numbers, so that they sort as their numbers do.
//!
//! docs/format.md ("Metadata keys") is the other half of this file; change both or neither.

use weir_types::{ChunkIndex, Ino, LinkId, SegmentId, TreeId};
use xxhash_rust::xxh3::xxh3_64;

use crate::kv::Key;
use crate::quota_of::QuotaOf;
use crate::session::SessionId;
use crate::share_row::ShareRow;

pub(crate) const INODE: u8 = b'I';
pub(crate) const DIRENT: u8 = b'D';
pub(crate) const DIR_TIMES: u8 = b'T';
pub(crate) const DIR_COUNT: u8 = b'N';
pub(crate) const XATTR: u8 = b'X';
pub(crate) const EXTENTS: u8 = b'E';
pub(crate) const SEGMENT: u8 = b'S';
pub(crate) const LIVE: u8 = b'L';
pub(crate) const BACK_REF: u8 = b'R';
pub(crate) const ORPHAN: u8 = b'O';
pub(crate) const COUNTER: u8 = b'C';
pub(crate) const LINK: u8 = b'B';
pub(crate) const LINK_OBJECT: u8 = b'K';
pub(crate) const LINK_HIDDEN: u8 = b'H';
pub(crate) const LINK_COUNT: u8 = b'Q';
pub(crate) const EXPORT: u8 = b'W';
pub(crate) const EXPORT_REMOVED: u8 = b'V';
pub(crate) const ACTION: u8 = b'A';
pub(crate) const ACTION_CLAIM: u8 = b'a';
pub(crate) const ACTION_PORTION: u8 = b'p';
pub(crate) const ACTION_RESTORE: u8 = b'e';
pub(crate) const PIN: u8 = b'P';
pub(crate) const THROUGHPUT: u8 = b'U';
pub(crate) const DISK: u8 = b'Y';
pub(crate) const DISK_HOLD: u8 = b'y';
pub(crate) const PRESENCE: u8 = b'Z';
pub(crate) const BEAT: u8 = b'z';
pub(crate) const PEER: u8 = b'J';
pub(crate) const HOLD: u8 = b'G';
pub(crate) const NODE_LOCKS: u8 = b'F';
pub(crate) const RECALL: u8 = b'j';
pub(crate) const NODE_WAITS: u8 = b'f';
pub(crate) const RECLAIM: u8 = b'o';
pub(crate) const BEHIND: u8 = b'b';
pub(crate) const KEPT: u8 = b'k';
pub(crate) const SHARE: u8 = b'u';
pub(crate) const DID: u8 = b'v';
pub(crate) const QUOTA: u8 = b'q';
pub(crate) const QUOTA_COUNT: u8 = b'n';
pub(crate) const SNAPSHOT: u8 = b's';
pub(crate) const SNAPSHOT_ENDS: u8 = b'x';
pub(crate) const HELD: u8 = b'h';
pub(crate) const SEGMENT_AGE: u8 = b'r';
pub(crate) const OBJECT_AGE: u8 = b'w';

/// Behind [`SHARE`]: accounts, and what sessions have of them.
const SHARE_ACCOUNT: u8 = 0;
const SHARE_HELD: u8 = 1;
/// Names no session: what those did that are settled.
const SETTLED: u64 = u64::MAX;

/// The counter of inodes, those of removed but open files included.
pub(crate) const INODES: &[u8] = b"Cinodes";
/// The counter of file bytes that extents cover.
pub(crate) const STORED: &[u8] = b"Cstored";
/// The version of this layout; there from the moment the volume is formatted.
pub(crate) const FORMAT: &[u8] = b"Mformat";
/// The first inode number that nobody has reserved.
pub(crate) const NEXT_INO: &[u8] = b"Mnext_ino";
/// The first link name that nobody has had.
pub(crate) const NEXT_LINK: &[u8] = b"Mnext_link";
/// The first number that no snapshot has had.
pub(crate) const NEXT_SNAPSHOT: &[u8] = b"Mnext_snapshot";
/// Who writes.
pub(crate) const WRITER: &[u8] = b"Mwriter";
/// Where the last writer had its tier and its journal, and how it ended.
pub(crate) const LAST_MOUNT: &[u8] = b"Mlast_mount";
/// The mount that may change the volume, where the engine below fences nobody itself.
pub(crate) const GUARD: &[u8] = b"Mguard";
/// Counts who became the only one that changes the volume, and who joined those who do.
pub(crate) const JOINS: &[u8] = b"Mjoins";
/// The session that does what one of them has to do for all.
pub(crate) const DUTY: &[u8] = b"Mduty";
/// How often a database was mounted, and for how many hours.
pub(crate) const AGE: &[u8] = b"Mage";
/// Some inode has or had an access control list.
pub(crate) const ACLS: &[u8] = b"Macls";
/// Put whenever a portion of an action is given to a node.
pub(crate) const PORTIONS: &[u8] = b"Mportions";
/// Put whenever files are pinned or unpinned.
pub(crate) const PINS: &[u8] = b"Mpins";
/// When the writer last proved that it is the writer.
pub(crate) const ALIVE: &[u8] = b"Malive";

/// The last number of a tree with a quota that somebody has had.
pub(crate) const LAST_TREE: &[u8] = b"Mlast_tree";
/// When snapshots are made by themselves.
pub(crate) const SCHEDULE: &[u8] = b"Mschedule";

/// The least cookie of an entry: those below are for `.` and `..` and for the start.
pub(crate) const COOKIE_MIN: u64 = 16;

fn of_ino(tag: u8, ino: Ino, room: usize) -> Key {
    let mut key = Vec::with_capacity(9 + room);
    key.push(tag);
    key.extend_from_slice(&ino.0.to_be_bytes());
    key
}

fn of_segment(tag: u8, segment: SegmentId, room: usize) -> Key {
    let mut key = Vec::with_capacity(17 + room);
    key.push(tag);
    key.extend_from_slice(&segment.0.to_be_bytes());
    key
}

pub(crate) fn inode(ino: Ino) -> Key {
    of_ino(INODE, ino, 0)
}

/// The readdir cookie of `name`: 63 bits, so that it is positive in every protocol.
pub(crate) fn cookie(name: &[u8]) -> u64 {
    (xxh3_64(name) >> 1).max(COOKIE_MIN)
}

pub(crate) fn dirent(dir: Ino, name: &[u8]) -> Key {
    let mut key = of_ino(DIRENT, dir, 8 + name.len());
    key.extend_from_slice(&cookie(name).to_be_bytes());
    key.extend_from_slice(name);
    key
}

/// Prefix of all entries of `dir`.
pub(crate) fn dirents(dir: Ino) -> Key {
    of_ino(DIRENT, dir, 0)
}

/// Prefix of the entries of `dir` whose cookie is this. No key ends here, because no name is empty.
pub(crate) fn dirents_at(dir: Ino, cookie: u64) -> Key {
    let mut key = of_ino(DIRENT, dir, 8);
    key.extend_from_slice(&cookie.to_be_bytes());
    key
}

pub(crate) fn dir_times(dir: Ino) -> Key {
    of_ino(DIR_TIMES, dir, 0)
}

pub(crate) fn dir_count(dir: Ino) -> Key {
    of_ino(DIR_COUNT, dir, 0)
}

pub(crate) fn xattr(ino: Ino, name: &[u8]) -> Key {
    let mut key = of_ino(XATTR, ino, name.len());
    key.extend_from_slice(name);
    key
}

pub(crate) fn xattrs(ino: Ino) -> Key {
    of_ino(XATTR, ino, 0)
}

pub(crate) fn extents(ino: Ino, chunk: ChunkIndex) -> Key {
    let mut key = of_ino(EXTENTS, ino, 8);
    key.extend_from_slice(&chunk.to_be_bytes());
    key
}

pub(crate) fn extents_of(ino: Ino) -> Key {
    of_ino(EXTENTS, ino, 0)
}

pub(crate) fn segment(segment: SegmentId) -> Key {
    of_segment(SEGMENT, segment, 0)
}

pub(crate) fn live(segment: SegmentId) -> Key {
    of_segment(LIVE, segment, 0)
}

pub(crate) fn back_ref(segment: SegmentId, ino: Ino, chunk: ChunkIndex) -> Key {
    let mut key = of_segment(BACK_REF, segment, 16);
    key.extend_from_slice(&ino.0.to_be_bytes());
    key.extend_from_slice(&chunk.to_be_bytes());
    key
}

pub(crate) fn back_refs(segment: SegmentId) -> Key {
    of_segment(BACK_REF, segment, 0)
}

pub(crate) fn orphan(ino: Ino) -> Key {
    of_ino(ORPHAN, ino, 0)
}

fn of_link(tag: u8, link: LinkId, rest: &[u8]) -> Key {
    let mut key = Vec::with_capacity(5 + rest.len());
    key.push(tag);
    key.extend_from_slice(&link.0.to_be_bytes());
    key.extend_from_slice(rest);
    key
}

pub(crate) fn link(link: LinkId) -> Key {
    of_link(LINK, link, &[])
}

/// The row of an object of a link; also, for an empty object key, the prefix of all of them.
pub(crate) fn link_object(link: LinkId, object_key: &[u8]) -> Key {
    of_link(LINK_OBJECT, link, object_key)
}

/// The row of an object that cannot show; also the prefix of all of them.
pub(crate) fn link_hidden(link: LinkId, object_key: &[u8]) -> Key {
    of_link(LINK_HIDDEN, link, object_key)
}

/// A counter of a link; without a name the prefix of all.
pub(crate) fn link_count(link: LinkId, what: &[u8]) -> Key {
    of_link(LINK_COUNT, link, what)
}

/// The row of a file that is to be exported: because its bytes changed, or its name.
pub(crate) fn export(link: LinkId, ino: Ino, name: bool) -> Key {
    let mut key = exports_of(link, ino);
    key.push(u8::from(name));
    key
}

/// Prefix of both rows of a file.
pub(crate) fn exports_of(link: LinkId, ino: Ino) -> Key {
    of_link(EXPORT, link, &ino.0.to_be_bytes())
}

/// Prefix of all rows of files of a link that are to be exported.
pub(crate) fn exports(link: LinkId) -> Key {
    of_link(EXPORT, link, &[])
}

/// The row of an object that is to be deleted; also the prefix of all of them.
pub(crate) fn export_removed(link: LinkId, object_key: &[u8]) -> Key {
    of_link(EXPORT_REMOVED, link, object_key)
}

/// The inode of a row of a file that is to be exported, and whether it is that of its name.
pub(crate) fn parse_export(key: &[u8]) -> Option<(Ino, bool)> {
    Some((Ino(number_at(key, 5)?), *key.get(13)? == 1))
}

pub(crate) fn parse_link(key: &[u8]) -> Option<LinkId> {
    Some(LinkId(u32::from_be_bytes(key.get(1..5)?.try_into().ok()?)))
}

/// The object key of a row of a link.
pub(crate) fn parse_object_key(key: &[u8]) -> Option<&[u8]> {
    key.get(5..)
}

fn of_action(tag: u8, number: u64) -> Key {
    let mut key = vec![tag];
    key.extend_from_slice(&number.to_be_bytes());
    key
}

pub(crate) fn action(number: u64) -> Key {
    of_action(ACTION, number)
}

/// The row of which node works on an action.
pub(crate) fn action_claim(number: u64) -> Key {
    of_action(ACTION_CLAIM, number)
}

/// The row of an action that is a portion of one.
pub(crate) fn action_portion(number: u64) -> Key {
    of_action(ACTION_PORTION, number)
}

/// The row of a hydration that has what is archived restored.
pub(crate) fn action_restore(number: u64) -> Key {
    of_action(ACTION_RESTORE, number)
}

pub(crate) fn pin(ino: Ino) -> Key {
    of_ino(PIN, ino, 0)
}

pub(crate) fn throughput(number: u64) -> Key {
    let mut key = vec![THROUGHPUT];
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// A row by which nodes keep to limits together.
pub(crate) fn share(row: ShareRow) -> Key {
    let (what, number) = match row {
        ShareRow::Account(number) => (SHARE_ACCOUNT, number),
        ShareRow::Held(session) => (SHARE_HELD, session.0),
        ShareRow::Did(session) => return of_session(DID, session.0),
        ShareRow::DidBefore => return of_session(DID, SETTLED),
    };
    let mut key = vec![SHARE, what];
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// Which row by which nodes keep to limits a key is of.
pub(crate) fn parse_share(key: &[u8]) -> Option<ShareRow> {
    match (*key.first()?, *key.get(1)?) {
        (SHARE, SHARE_ACCOUNT) => Some(ShareRow::Account(number_at(key, 2)?)),
        (SHARE, SHARE_HELD) => Some(ShareRow::Held(SessionId(number_at(key, 2)?))),
        (DID, _) => match number_at(key, 1)? {
            SETTLED => Some(ShareRow::DidBefore),
            session => Some(ShareRow::Did(SessionId(session))),
        },
        _ => None,
    }
}

/// The row of a disk; for an empty name the prefix of all of them.
pub(crate) fn disk(name: &str) -> Key {
    let mut key = Vec::with_capacity(1 + name.len());
    key.push(DISK);
    key.extend_from_slice(name.as_bytes());
    key
}

/// The row of the session that has a disk.
pub(crate) fn disk_hold(ino: Ino) -> Key {
    of_ino(DISK_HOLD, ino, 0)
}

/// The row of a snapshot; for an empty name the prefix of all of them.
pub(crate) fn snapshot(name: &str) -> Key {
    let mut key = vec![SNAPSHOT];
    key.extend_from_slice(name.as_bytes());
    key
}

/// The row of a snapshot that has no name any more and is not gone yet.
pub(crate) fn snapshot_ends(number: u32) -> Key {
    let mut key = vec![SNAPSHOT_ENDS];
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The row that says by which snapshot a segment is held that nothing else uses.
pub(crate) fn held(segment: SegmentId) -> Key {
    of_segment(HELD, segment, 0)
}

/// The row that says when a segment was used, and which storage class it is in.
pub(crate) fn segment_age(segment: SegmentId) -> Key {
    of_segment(SEGMENT_AGE, segment, 0)
}

/// The row that says the same of a file's object in a linked bucket.
pub(crate) fn object_age(ino: Ino) -> Key {
    of_ino(OBJECT_AGE, ino, 0)
}

fn of_session(tag: u8, session: u64) -> Key {
    let mut key = vec![tag];
    key.extend_from_slice(&session.to_be_bytes());
    key
}

/// The row of a session's presence.
pub(crate) fn presence(session: u64) -> Key {
    of_session(PRESENCE, session)
}

/// The row of a session's beat.
pub(crate) fn beat(session: u64) -> Key {
    of_session(BEAT, session)
}

/// The row of how other sessions reach a session.
pub(crate) fn peer(session: u64) -> Key {
    of_session(PEER, session)
}

/// The row by which a session holds an orphan.
pub(crate) fn hold(ino: Ino, session: u64) -> Key {
    let mut key = holds_of(ino);
    key.extend_from_slice(&session.to_be_bytes());
    key
}

/// Prefix of all rows by which an orphan is held.
pub(crate) fn holds_of(ino: Ino) -> Key {
    of_ino(HOLD, ino, 8)
}

/// The row by which a lease of a session is asked back.
pub(crate) fn recall(session: u64, ino: Ino) -> Key {
    let mut key = recalls_of(session);
    key.extend_from_slice(&ino.0.to_be_bytes());
    key
}

/// Prefix of all rows by which leases of a session are asked back.
pub(crate) fn recalls_of(session: u64) -> Key {
    of_session(RECALL, session)
}

/// The inode of a row by which a lease is asked back.
pub(crate) fn parse_recall(key: &[u8]) -> Option<Ino> {
    number_at(key, 9).map(Ino)
}

/// The inode whose lease lets a node remember this row: its attributes, and the entries of a directory.
pub(crate) fn leased_with(key: &[u8]) -> Option<Ino> {
    match key.first() {
        Some(&(INODE | DIR_TIMES | XATTR | DIRENT)) => parse_ino(key),
        _ => None,
    }
}

/// The row of the locks that nodes have of a file.
pub(crate) fn node_locks(ino: Ino) -> Key {
    of_ino(NODE_LOCKS, ino, 0)
}

/// The row of those that wait for locks at a session.
pub(crate) fn node_waits(session: u64) -> Key {
    of_session(NODE_WAITS, session)
}

/// The row that lets a session's locks stand after its end.
pub(crate) fn reclaim(session: u64) -> Key {
    of_session(RECLAIM, session)
}

/// The row that says which commits of a session that it acknowledged before are there.
pub(crate) fn behind(session: u64) -> Key {
    of_session(BEHIND, session)
}

/// The row that a door keeps under a name; also the prefix of those whose names begin so.
pub(crate) fn kept(name: &str) -> Key {
    let mut key = vec![KEPT];
    key.extend_from_slice(name.as_bytes());
    key
}

fn of_quota(tag: u8, of: QuotaOf, room: usize) -> Key {
    let (what, number) = match of {
        QuotaOf::Tree(tree) => (0, tree.0),
        QuotaOf::User(uid) => (1, uid),
        QuotaOf::Group(gid) => (2, gid),
    };
    let mut key = Vec::with_capacity(6 + room);
    key.extend([tag, what]);
    key.extend(number.to_be_bytes());
    key
}

/// The row of a quota.
pub(crate) fn quota(of: QuotaOf) -> Key {
    of_quota(QUOTA, of, 0)
}

/// The counter of what counts for a quota: inodes, or bytes that extents cover.
pub(crate) fn quota_count(of: QuotaOf, bytes: bool) -> Key {
    let mut key = of_quota(QUOTA_COUNT, of, 1);
    key.push(u8::from(bytes));
    key
}

/// Whose quota a row is of, or a counter.
pub(crate) fn parse_quota(key: &[u8]) -> Option<QuotaOf> {
    let number = u32::from_be_bytes(key.get(2..6)?.try_into().ok()?);
    match key.get(1)? {
        0 => Some(QuotaOf::Tree(TreeId(number))),
        1 => Some(QuotaOf::User(number)),
        2 => Some(QuotaOf::Group(number)),
        _ => None,
    }
}

/// The big-endian number at `at`; `None` if the key is too short.
fn number_at(key: &[u8], at: usize) -> Option<u64> {
    let bytes = key.get(at..at + 8)?;
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

/// The inode of a key that starts with tag and inode.
pub(crate) fn parse_ino(key: &[u8]) -> Option<Ino> {
    number_at(key, 1).map(Ino)
}

/// The session of a key that starts with tag and session.
pub(crate) fn parse_session(key: &[u8]) -> Option<u64> {
    number_at(key, 1)
}

/// The inode and the session of a hold's key.
pub(crate) fn parse_hold(key: &[u8]) -> Option<(Ino, u64)> {
    Some((Ino(number_at(key, 1)?), number_at(key, 9)?))
}

/// The number of a throughput rule's key.
pub(crate) fn parse_throughput(key: &[u8]) -> Option<u64> {
    number_at(key, 1)
}

/// The number of an action's key, of its claim's, or of its portion's.
pub(crate) fn parse_action(key: &[u8]) -> Option<u64> {
    number_at(key, 1)
}

/// The cookie and name of an entry's key.
pub(crate) fn parse_dirent(key: &[u8]) -> Option<(u64, &[u8])> {
    Some((number_at(key, 9)?, key.get(17..)?))
}

/// The chunk of an extents key.
pub(crate) fn parse_chunk(key: &[u8]) -> Option<ChunkIndex> {
    number_at(key, 9)
}

/// The segment of a key that starts with tag and segment.
pub(crate) fn parse_segment(key: &[u8]) -> Option<SegmentId> {
    let bytes = key.get(1..17)?;
    Some(SegmentId(u128::from_be_bytes(bytes.try_into().ok()?)))
}

/// The inode and chunk of a back reference's key.
pub(crate) fn parse_back_ref(key: &[u8]) -> Option<(Ino, ChunkIndex)> {
    Some((Ino(number_at(key, 17)?), number_at(key, 25)?))
}
