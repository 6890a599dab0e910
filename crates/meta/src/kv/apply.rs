//! The rules of a commit that no engine may decide for itself.

use std::collections::BTreeSet;

use bytes::Bytes;
use weir_types::{ErrorKind, FsError, Result};

use super::contract::{COMMIT_BYTES_MAX, Check, Commit, Key, Version, Versioned};
use super::entry::Entry;

/// Longest key that an engine must take, in bytes: SlateDB's limit.
const KEY_BYTES_MAX: usize = u16::MAX as usize;

/// Refuses a commit that makes no sense: a key that is empty or too long, or one that is to become
/// two things at once; and one that no log could hold.
pub(super) fn validate(commit: &Commit) -> Result<()> {
    let bytes = changed_bytes(commit);
    if bytes > COMMIT_BYTES_MAX {
        let context = format!(
            "metadata commit changes {bytes} bytes, more than the {COMMIT_BYTES_MAX} of one commit; \
             please report it"
        );
        return Err(FsError::new(ErrorKind::Invalid, context));
    }
    let puts = commit.puts.iter().map(|(key, _)| key);
    let adds = commit.adds.iter().map(|(key, _)| key);
    let raises = commit.raises.iter().map(|(key, _)| key);
    let mut seen = BTreeSet::new();
    for key in puts.chain(adds).chain(raises).chain(&commit.deletes) {
        let why = if key.is_empty() {
            "an empty key"
        } else if key.len() > KEY_BYTES_MAX {
            "a key longer than 65,535 bytes"
        } else if !seen.insert(key) {
            "the same key twice"
        } else {
            continue;
        };
        let context = format!("metadata commit changes {why}: {}", key.escape_ascii());
        return Err(FsError::new(ErrorKind::Invalid, context));
    }
    Ok(())
}

/// Bytes of the keys and values that the commit changes.
fn changed_bytes(commit: &Commit) -> usize {
    let values = commit.puts.iter().chain(&commit.raises);
    let puts = values.map(|(key, value)| key.len() + value.len());
    let adds = commit.adds.iter().map(|(key, _)| key.len() + size_of::<i64>());
    puts.chain(adds).chain(commit.deletes.iter().map(Key::len)).sum()
}

/// Whether the commit only checks.
pub(super) fn changes_nothing(commit: &Commit) -> bool {
    let Commit { checks: _, puts, deletes, adds, raises } = commit;
    puts.is_empty() && deletes.is_empty() && adds.is_empty() && raises.is_empty()
}

/// The keys whose values decide the commit: those of its checks, of its counters, and of
/// what it raises.
pub(super) fn keys_read(commit: &Commit) -> Vec<Key> {
    let checked = commit.checks.iter().map(|check| match check {
        Check::Absent(key) | Check::Version(key, _) => key.clone(),
    });
    let counted = commit.adds.iter().map(|(key, _)| key.clone());
    let raised = commit.raises.iter().map(|(key, _)| key.clone());
    checked.chain(counted).chain(raised).collect()
}

/// The entry that `commit` comes to as number `version`; `None` if a check does not hold. `have`
/// are the present values of [`keys_read`].
pub(super) fn resolve(
    commit: Commit,
    version: Version,
    have: &[Option<Versioned>],
) -> Result<Option<Entry>> {
    let (checked, rest) = have.split_at(commit.checks.len());
    let (counters, raised) = rest.split_at(commit.adds.len());
    let holds = |(check, have): (&Check, &Option<Versioned>)| match check {
        Check::Absent(_) => have.is_none(),
        Check::Version(_, version) => have.as_ref().is_some_and(|have| have.version == *version),
    };
    if !commit.checks.iter().zip(checked).all(holds) {
        return Ok(None);
    }
    let mut puts = commit.puts;
    for ((key, add), have) in commit.adds.into_iter().zip(counters) {
        let now = counter(&key, have.as_ref())?;
        let sum = now.checked_add(add).ok_or_else(|| {
            let context = format!("counter {}: {now} + {add} overflows", key.escape_ascii());
            FsError::new(ErrorKind::Invalid, context)
        })?;
        puts.push((key, Bytes::copy_from_slice(&sum.to_le_bytes())));
    }
    for ((key, value), have) in commit.raises.into_iter().zip(raised) {
        let have = have.as_ref().map(|have| have.value.clone());
        puts.push((key, have.map_or(value.clone(), |have| have.max(value))));
    }
    Ok(Some(Entry { version, puts, deletes: commit.deletes }))
}

/// The value of a counter; absent means 0.
fn counter(key: &[u8], have: Option<&Versioned>) -> Result<i64> {
    let Some(Versioned { value, .. }) = have else {
        return Ok(0);
    };
    let bytes = value.as_ref().try_into().map_err(|_| {
        let (name, len) = (key.escape_ascii(), value.len());
        let context = format!("counter {name} holds {len} bytes instead of 8: it is no counter");
        FsError::new(ErrorKind::Corrupt, context)
    })?;
    Ok(i64::from_le_bytes(bytes))
}

/// Whether the redo log entry of commit `next` is to be applied on top of commit `stored`: no if
/// it is there already, `Corrupt` if commits between the two are missing.
pub(super) fn check_replay(stored: Version, next: Version) -> Result<bool> {
    if next <= stored {
        return Ok(false);
    }
    if next == stored + 1 {
        return Ok(true);
    }
    let context = format!(
        "redo log continues at commit {next} but the metadata ends at commit {stored}: the commits \
         between are missing; set the log aside, mount without it"
    );
    Err(FsError::new(ErrorKind::Corrupt, context))
}
