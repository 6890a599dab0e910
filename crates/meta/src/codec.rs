//! Values as bytes: one version byte, then postcard. Counters alone are bare, as the Kv wants them.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_types::{
    Account, ErrorKind, FileKind, FsError, Ino, Inode, Native, Result, TreeId, UnixTime,
};

use crate::kv::{Key, Version, Versioned};
use crate::session::SessionId;

/// Version of every value's layout.
const VALUE_VERSION: u8 = 1;
/// An inode with what its native object is behind it.
const NATIVE_VERSION: u8 = 2;
/// An inode behind whose quotas it counts for: a byte of flags, and the number of a tree or 0 in four.
const COUNTED_VERSION: u8 = 4;
/// The flag of an inode that its owner's and its group's quotas count.
const OF_OWNERS: u8 = 1;
/// An inode behind the sessions that have a lease on it: a byte for how many, and eight for each.
const LENT_VERSION: u8 = 3;
/// No session, but the word that the one behind it writes.
const WRITES: SessionId = SessionId(0);
/// When a directory's entries last changed, so that later times are greater as bytes; it is also greater
/// than any of version 1.
const TIME_VERSION: u8 = 2;

/// What a directory entry leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Dirent {
    pub(crate) ino: Ino,
    pub(crate) kind: FileKind,
}

/// When a directory's entries last changed, in version 1.
#[derive(Deserialize)]
struct DirTimes {
    mtime: UnixTime,
    ctime: UnixTime,
}

/// A decoded value and the version it was read at.
#[derive(Clone, Debug)]
pub(crate) struct Seen<T> {
    pub(crate) version: Version,
    pub(crate) value: T,
    /// Of an inode: the sessions that have a lease on it, or had.
    pub(crate) lent_to: Vec<SessionId>,
    /// The one of them that has a write lease.
    pub(crate) writer: Option<SessionId>,
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Bytes> {
    Ok(append(value, vec![VALUE_VERSION])?.into())
}

fn append<T: Serialize>(value: &T, to: Vec<u8>) -> Result<Vec<u8>> {
    postcard::to_extend(value, to).map_err(|e| {
        FsError::new(ErrorKind::Bug, "cannot encode a metadata value; please report it")
            .with_source(e)
    })
}

/// An inode: as any value, unless it has a native object, which then follows, or counts for quotas, which
/// then stand before it.
pub(crate) fn encode_inode(inode: &Inode) -> Result<Bytes> {
    let mut to = Vec::new();
    if inode.account != Account::default() {
        to.extend([COUNTED_VERSION, if inode.account.owners { OF_OWNERS } else { 0 }]);
        to.extend(inode.account.tree.map_or(0, |tree| tree.0).to_be_bytes());
    }
    to.push(if inode.native.is_some() { NATIVE_VERSION } else { VALUE_VERSION });
    let to = append(inode, to)?;
    Ok(match &inode.native {
        None => to,
        Some(native) => append(native, to)?,
    }
    .into())
}

/// Whose quotas a stored inode counts for, and the rest of it.
fn counted(bytes: &[u8]) -> (Account, &[u8]) {
    match bytes {
        [COUNTED_VERSION, flags, a, b, c, d, rest @ ..] => {
            let tree = u32::from_be_bytes([*a, *b, *c, *d]);
            let tree = (tree > 0).then_some(TreeId(tree));
            (Account { tree, owners: flags & OF_OWNERS != 0 }, rest)
        }
        _ => (Account::default(), bytes),
    }
}

/// The stored inode, lent to these; as it is if to none. At most 255.
pub(crate) fn lend(inode: &[u8], to: &[SessionId]) -> Bytes {
    let inode = apart(inode).1;
    if to.is_empty() {
        return Bytes::copy_from_slice(inode);
    }
    let count = u8::try_from(to.len()).unwrap_or(u8::MAX);
    let mut bytes = vec![LENT_VERSION, count];
    to.iter().take(count.into()).for_each(|one| bytes.extend_from_slice(&one.0.to_be_bytes()));
    bytes.extend_from_slice(inode);
    bytes.into()
}

/// The stored inode with a write lease: of this session, which may have more of it than the volume.
pub(crate) fn lend_to_writer(inode: &[u8], writer: SessionId) -> Bytes {
    lend(inode, &[WRITES, writer])
}

/// Those to whom a stored inode is lent, for reading or writing.
pub(crate) fn lent_to(bytes: &[u8]) -> Vec<SessionId> {
    sessions(bytes).filter(|one| *one != WRITES).collect()
}

/// Who has a write lease on a stored inode.
pub(crate) fn writer_of(bytes: &[u8]) -> Option<SessionId> {
    let mut sessions = sessions(bytes);
    (sessions.next() == Some(WRITES)).then(|| sessions.next()).flatten()
}

fn sessions(bytes: &[u8]) -> impl Iterator<Item = SessionId> {
    let of = |one: &[u8; 8]| SessionId(u64::from_be_bytes(*one));
    apart(bytes).0.as_chunks().0.iter().map(of)
}

/// The names of those to whom a stored inode is lent, and the inode. What is cut short is the inode, and
/// found out as it is decoded.
fn apart(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes {
        [LENT_VERSION, count, rest @ ..] => {
            rest.split_at_checked(8 * usize::from(*count)).unwrap_or((&[], bytes))
        }
        _ => (&[], bytes),
    }
}

pub(crate) fn decode_inode(key: &[u8], bytes: &[u8]) -> Result<Inode> {
    let (account, bytes) = counted(apart(bytes).1);
    let Some((&NATIVE_VERSION, body)) = bytes.split_first() else {
        return Ok(Inode { account, ..decode(key, bytes)? });
    };
    let decoded = postcard::take_from_bytes::<Inode>(body).and_then(|(inode, rest)| {
        let (native, rest) = postcard::take_from_bytes::<Native>(rest)?;
        match rest {
            [] => Ok(Inode { account, native: Some(native), ..inode }),
            _ => Err(postcard::Error::DeserializeBadEncoding),
        }
    });
    decoded.map_err(|e| corrupt(key, e.to_string()))
}

/// When a directory's entries last changed: later is greater.
pub(crate) fn encode_time(time: UnixTime) -> Bytes {
    let ordered = time.0.cast_unsigned() ^ (1 << 63);
    let mut value = vec![TIME_VERSION];
    value.extend(ordered.to_be_bytes());
    value.into()
}

/// The mtime and ctime that a directory has of its entries.
fn decode_times(key: &[u8], bytes: &[u8]) -> Result<(UnixTime, UnixTime)> {
    if let Some((&TIME_VERSION, body)) = bytes.split_first() {
        let ordered = body.try_into().map_err(|_| corrupt(key, "no time".to_owned()))?;
        let time = UnixTime((u64::from_be_bytes(ordered) ^ (1 << 63)).cast_signed());
        return Ok((time, time));
    }
    let DirTimes { mtime, ctime } = decode(key, bytes)?;
    Ok((mtime, ctime))
}

/// When an entry of `dir` changes `now` that changed before at `times`: later than that, whatever the
/// clocks of two nodes say.
pub(crate) fn time_after(dir: Ino, now: UnixTime, times: Option<&Versioned>) -> Result<UnixTime> {
    let Some(found) = times else { return Ok(now) };
    let (before, _) = decode_times(&crate::keys::dir_times(dir), &found.value)?;
    Ok(now.max(UnixTime(before.0.saturating_add(1))))
}

fn corrupt(key: &[u8], why: String) -> FsError {
    let key = key.escape_ascii();
    FsError::new(ErrorKind::Corrupt, format!("metadata value of key {key}: {why}; run a check"))
}

pub(crate) fn decode<T: DeserializeOwned>(key: &[u8], bytes: &[u8]) -> Result<T> {
    let corrupt = |why| corrupt(key, why);
    let body = match bytes.split_first() {
        Some((&VALUE_VERSION, body)) => body,
        Some((version, _)) => return Err(corrupt(format!("layout version {version} is unknown"))),
        None => return Err(corrupt("empty".to_owned())),
    };
    let (value, rest) = postcard::take_from_bytes(body).map_err(|e| corrupt(e.to_string()))?;
    if !rest.is_empty() {
        return Err(corrupt(format!("{} bytes too many", rest.len())));
    }
    Ok(value)
}

/// Decodes what a read found, if it found something.
pub(crate) fn decode_seen<T: DeserializeOwned>(
    key: &[u8],
    found: Option<&Versioned>,
) -> Result<Option<Seen<T>>> {
    let Some(found) = found else { return Ok(None) };
    let value = decode(key, &found.value)?;
    Ok(Some(Seen { version: found.version, value, lent_to: Vec::new(), writer: None }))
}

/// The value of a counter; absent means 0.
pub(crate) fn counter(key: &[u8], found: Option<&Versioned>) -> Result<i64> {
    let Some(found) = found else { return Ok(0) };
    let bytes = found.value.as_ref().try_into().map_err(|_| {
        let context = format!("counter {} is not 8 bytes long; run a check", key.escape_ascii());
        FsError::new(ErrorKind::Corrupt, context)
    })?;
    Ok(i64::from_le_bytes(bytes))
}

/// Folds the times of a directory's entries into its inode.
///
/// The entries' time of change stands above the inode's own even where that is later (somebody set
/// it to the future): an explicit setting of times removes the `T` row, so one that is there is of
/// a later change.
pub(crate) fn merge_times(inode: &mut Inode, times: Option<&Versioned>) -> Result<()> {
    if let Some(found) = times {
        let (mtime, ctime) = decode_times(&crate::keys::dir_times(inode.ino), &found.value)?;
        inode.mtime = mtime;
        inode.ctime = inode.ctime.max(ctime);
    }
    Ok(())
}

/// The version of what a read found, as a check wants it.
pub(crate) fn version(found: Option<&Versioned>) -> Option<Version> {
    found.map(|found| found.version)
}

/// The last key of a page of a scan, from where the next one goes on.
pub(crate) fn last_key<V>(page: &[(Key, V)]) -> Option<Key> {
    page.last().map(|(key, _)| key.clone())
}
