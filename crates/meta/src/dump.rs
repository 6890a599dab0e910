//! The rows of a state with which another volume can begin: what files, directories and settings are, and nothing of
//! who had the volume, of what was under way, and of other states of it.

use std::collections::HashMap;

use bytes::Bytes;
use weir_types::{ErrorKind, FsError, Result, SegmentId};

use crate::codec::{counter, decode, encode, last_key};
use crate::copy::{COMMIT_BYTES, put};
use crate::keys;
use crate::kv::{Commit, Key, Kv, Versioned};
use crate::volume::{LAYOUT, LAYOUT_RESTORING, LAYOUT_SNAPSHOTS};

/// Rows read at once.
const PAGE: usize = 2_000;
/// Rows of who came by NFS and of what proves handles, of how far a scrub is, and of which snapshots have dumps.
const OF_CLIENTS: [&[u8]; 5] =
    [b"knfs/client/", b"knfs/done/", b"knfs/key", b"kscrub", b"ksnapshots/dumped/"];

/// Tags of rows that say what a volume is.
const KEPT: [u8; 23] = [
    keys::INODE,
    keys::DIRENT,
    keys::DIR_TIMES,
    keys::DIR_COUNT,
    keys::XATTR,
    keys::EXTENTS,
    keys::SEGMENT,
    keys::LIVE,
    keys::BACK_REF,
    keys::ORPHAN,
    keys::COUNTER,
    keys::LINK,
    keys::LINK_OBJECT,
    keys::LINK_HIDDEN,
    keys::LINK_COUNT,
    keys::EXPORT,
    keys::EXPORT_REMOVED,
    keys::PIN,
    keys::THROUGHPUT,
    keys::DISK,
    keys::KEPT,
    keys::SEGMENT_AGE,
    keys::OBJECT_AGE,
];
/// The same of quotas.
const KEPT_OF_QUOTAS: [u8; 2] = [keys::QUOTA, keys::QUOTA_COUNT];
/// Tags of rows of one process, node, action or snapshot.
const LEFT: [u8; 19] = [
    keys::ACTION,
    keys::ACTION_CLAIM,
    keys::ACTION_PORTION,
    keys::ACTION_RESTORE,
    keys::DISK_HOLD,
    keys::PRESENCE,
    keys::BEAT,
    keys::PEER,
    keys::HOLD,
    keys::NODE_LOCKS,
    keys::RECALL,
    keys::NODE_WAITS,
    keys::RECLAIM,
    keys::BEHIND,
    keys::SHARE,
    keys::DID,
    keys::SNAPSHOT,
    keys::SNAPSHOT_ENDS,
    keys::HELD,
];
/// Rows of the volume as a whole that go with it.
const KEPT_OF_VOLUME: [&[u8]; 7] = [
    keys::FORMAT,
    keys::NEXT_INO,
    keys::NEXT_LINK,
    keys::ACLS,
    keys::PINS,
    keys::LAST_TREE,
    keys::SCHEDULE,
];

/// Some rows of a dump.
#[derive(Clone, Debug, Default)]
pub struct DumpPage {
    /// Keys and values, in the order of the keys.
    pub rows: Vec<(Key, Bytes)>,
    /// Behind which key the rest is, if there is any.
    pub next: Option<Key>,
}

/// The rows behind a key. Nothing may change the state meanwhile. A read of up to 2,000 rows, and one of the counters of
/// the segments among them.
///
/// # Errors
/// `Unsupported` for a row that this build does not know.
pub async fn dump(kv: &dyn Kv, after: Option<&[u8]>) -> Result<DumpPage> {
    let page = kv.scan(&[], after, PAGE).await?;
    let next = if page.len() < PAGE { None } else { last_key(&page) };
    let live = live_of(kv, &page).await?;
    let mut rows = Vec::with_capacity(page.len());
    for (key, Versioned { value, .. }) in page {
        if !is_kept(&key)? || is_of_dead(&key, &value, &live) {
            continue;
        }
        let value = match &key[..] {
            keys::FORMAT if decode::<u32>(&key, &value)? == LAYOUT_SNAPSHOTS => encode(&LAYOUT)?,
            _ => value,
        };
        rows.push((key, value));
    }
    Ok(DumpPage { rows, next })
}

/// Puts rows of a dump into an empty map, as far as they go; the layout's row is to be among the first of all, so that what is
/// not whole is never taken for an empty place. Some commits of 4 MiB.
pub async fn load(to: &dyn Kv, rows: Vec<(Key, Bytes)>) -> Result<()> {
    let (mut commit, mut bytes) = (Commit::default(), 0);
    for (key, value) in rows {
        bytes += key.len() + value.len();
        commit.puts.push((key, value));
        if bytes >= COMMIT_BYTES {
            put(to, std::mem::take(&mut commit)).await?;
            bytes = 0;
        }
    }
    put(to, commit).await
}

/// Rows of a dump that are loaded in the place of metadata that a volume had: nothing opens them before the end.
pub struct Restore {
    format: Bytes,
}

impl Restore {
    /// Begins in an empty map. One commit, and a sync.
    pub async fn begin(to: &dyn Kv) -> Result<Self> {
        load(to, vec![(keys::FORMAT.to_vec(), encode(&LAYOUT_RESTORING)?)]).await?;
        to.sync().await?;
        Ok(Self { format: encode(&LAYOUT)? })
    }

    /// Puts some rows; some commits of 4 MiB, and a sync.
    pub async fn load(&mut self, to: &dyn Kv, mut rows: Vec<(Key, Bytes)>) -> Result<()> {
        let format = rows.extract_if(.., |(key, _)| key == keys::FORMAT).next();
        self.format = format.map_or_else(|| self.format.clone(), |(_, value)| value);
        load(to, rows).await?;
        to.sync().await
    }

    /// Makes them metadata; durable when it returns. One commit.
    pub async fn end(self, to: &dyn Kv) -> Result<()> {
        load(to, vec![(keys::FORMAT.to_vec(), self.format)]).await?;
        to.sync().await
    }
}

/// The row that is to be loaded before any other.
pub fn first_row() -> Result<(Key, Bytes)> {
    Ok((keys::FORMAT.to_vec(), encode(&LAYOUT)?))
}

fn is_kept(key: &[u8]) -> Result<bool> {
    let unknown = || {
        let text =
            format!("this build does not know what row {} is: update weir", key.escape_ascii());
        FsError::new(ErrorKind::Unsupported, text)
    };
    let tag = *key.first().ok_or_else(unknown)?;
    match tag {
        b'M' => Ok(KEPT_OF_VOLUME.contains(&key)),
        keys::KEPT => Ok(!OF_CLIENTS.iter().any(|of| key.starts_with(of))),
        _ if KEPT.contains(&tag) || KEPT_OF_QUOTAS.contains(&tag) => Ok(true),
        _ if LEFT.contains(&tag) => Ok(false),
        _ => Err(unknown()),
    }
}

/// The bytes that extents have in each segment of which a row tells.
async fn live_of(kv: &dyn Kv, page: &[(Key, Versioned)]) -> Result<HashMap<SegmentId, i64>> {
    let of_segments = [keys::SEGMENT, keys::BACK_REF, keys::SEGMENT_AGE];
    let told = page.iter().filter(|(key, _)| of_segments.contains(&key[0]));
    let mut ids: Vec<_> = told.filter_map(|(key, _)| keys::parse_segment(key)).collect();
    ids.sort_unstable();
    ids.dedup();
    let wanted: Vec<Key> = ids.iter().map(|id| keys::live(*id)).collect();
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    let found = kv.get_many(&wanted).await?;
    let counts = wanted.iter().zip(&found).map(|(key, found)| counter(key, found.as_ref()));
    ids.into_iter().zip(counts).map(|(id, count)| Ok((id, count?))).collect()
}

/// Whether a row is one of a segment in which nothing has bytes: it may be gone by the time it is looked for.
fn is_of_dead(key: &[u8], value: &[u8], live: &HashMap<SegmentId, i64>) -> bool {
    match key[0] {
        keys::LIVE => value.iter().all(|byte| *byte == 0),
        keys::SEGMENT | keys::BACK_REF | keys::SEGMENT_AGE => {
            let count = keys::parse_segment(key).and_then(|id| live.get(&id));
            count.is_none_or(|count| *count <= 0)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::kv::MemoryKv;
    use crate::tests::{dir, file, meta_over};
    use crate::{check, sum};
    use weir_types::Ino;

    #[tokio::test]
    async fn what_is_loaded_is_the_volume_without_who_had_it() {
        let kv = Arc::new(MemoryKv::new());
        let meta = meta_over(kv.clone()).await;
        let a = dir(&meta, Ino::ROOT, "a").await;
        for n in 0..3_000 {
            file(&meta, a, &format!("f{n}")).await;
        }
        meta.keep(&[
            ("nfs/client/1/2".to_owned(), Some(Bytes::from_static(b"x"))),
            ("nfs/export/a".to_owned(), Some(Bytes::from_static(b"y"))),
        ])
        .await
        .expect("keeps");
        let put = |key: &[u8]| (key.to_vec(), Bytes::from_static(b"1"));
        let puts = vec![put(keys::ALIVE), put(b"Z1"), put(b"A12345678")];
        kv.commit(Commit { puts, ..Commit::default() }).await.expect("commits");
        let (copy, mut after) = (MemoryKv::new(), None);
        load(&copy, vec![first_row().expect("a row")]).await.expect("loads");
        let mut rows = 0;
        loop {
            let page = dump(&*kv, after.as_deref()).await.expect("reads");
            rows += page.rows.len() as u64;
            load(&copy, page.rows).await.expect("loads");
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(check(&copy).await.expect("checks"), []);
        assert_eq!(sum(&copy, &|_| ()).await.expect("sums").rows, rows);
        for (key, is_there) in [
            (&b"knfs/export/a"[..], true),
            (b"knfs/client/1/2", false),
            (keys::ALIVE, false),
            (b"Z1", false),
            (keys::NEXT_INO, true),
        ] {
            let found = copy.get_many(&[key.to_vec()]).await.expect("reads");
            assert_eq!(found[0].is_some(), is_there, "{}", key.escape_ascii());
        }
        assert!(is_kept(b"!").is_err() && is_kept(b"").is_err());
    }
}
