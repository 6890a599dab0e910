//! The metadata of one open volume, and what belongs to the volume as a whole.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use weir_types::{ErrorCode, ErrorKind, FileKind, FsError, Ino, Inode, Result, UnixTime};

use crate::codec::{Seen, counter, decode_seen, encode, version};
use crate::fresh::Fresh;
use crate::keys;
use crate::kv::{Coming, Followed, Key, Kv, Version, Versioned};
use crate::leases::Leases;
use crate::op::{Tries, Tx, no_inode, seen_inode};
use crate::recent_views::RecentViews;

/// The layout of keys and values of a volume that has no snapshots and no quotas.
pub(crate) const LAYOUT: u32 = 1;
/// What is loaded of a dump is not all there.
pub(crate) const LAYOUT_RESTORING: u32 = 0;
/// The layout of one that has snapshots: builds that know none must not collect it.
pub(crate) const LAYOUT_SNAPSHOTS: u32 = 2;
/// The layout of one that ever had quotas, whose counters a build that knows none would not keep; it may have
/// snapshots, too.
pub(crate) const LAYOUT_WITH_QUOTAS: u32 = 3;

/// How many inode numbers one checked commit reserves. Those left at the end of a mount are lost,
/// of 2^64.
const INO_BLOCK: u64 = 4_096;

/// Where the time comes from.
pub type Clock = Arc<dyn Fn() -> UnixTime + Send + Sync>;

/// The metadata of one volume.
pub struct Meta {
    pub(crate) kv: Arc<dyn Kv>,
    clock: Clock,
    inos: tokio::sync::Mutex<Reserved>,
    /// How often reserving inode numbers failed.
    inos_failed: AtomicU64,
    pub(crate) fresh: Fresh,
    /// There are links, or were when this process looked.
    pub(crate) has_links: AtomicBool,
    /// There are quotas, or were once.
    pub(crate) has_quotas: AtomicBool,
    leases: OnceLock<Arc<Leases>>,
    pub(crate) recent_views: RecentViews<Meta>,
}

/// Inode numbers for new files.
#[derive(Debug, Default)]
struct Reserved {
    /// Reserved by a checked commit and not given out yet.
    left: Range<u64>,
    /// Why the last try that failed did.
    error: Option<FsError>,
}

/// Attributes of the root directory of a new volume.
#[derive(Clone, Copy, Debug)]
pub struct RootAttr {
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// What the volume holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Inodes, removed but not yet purged ones included.
    pub inodes: u64,
    /// File bytes that extents cover.
    pub stored_bytes: u64,
}

/// Which node writes the volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriterRecord {
    /// Counts the takeovers, from 1.
    pub epoch: u64,
    /// The writer's name for people.
    pub node: String,
    /// When it took over.
    pub since: UnixTime,
}

/// Where a writer keeps what the bucket does not have yet, and whether it left any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastMount {
    /// The mount, as in [`WriterRecord::node`]. A record of any other than the last writer says
    /// nothing: a build that knows no such records wrote since.
    pub node: String,
    /// Process and machine, for people.
    pub host: String,
    /// Its tier directory, as it was named to it.
    pub tier: String,
    /// Its journal directory, likewise; `None` if `fsync` ended in the bucket.
    pub journal: Option<String>,
    /// It ended, and all that it was told is in the bucket.
    pub clean: bool,
}

impl Meta {
    /// Makes the root directory in an empty Kv; `Exists` if it holds a volume already. One commit.
    pub async fn format(kv: &dyn Kv, root: RootAttr, now: UnixTime) -> Result<()> {
        let root = Inode {
            mode: root.mode & 0o7777,
            uid: root.uid,
            gid: root.gid,
            nlink: 2,
            ..Inode::new(Ino::ROOT, FileKind::Directory, Ino::ROOT, now)
        };
        let mut tx = Tx::default();
        tx.check(keys::FORMAT.to_vec(), None);
        tx.put(keys::FORMAT.to_vec(), encode(&LAYOUT)?);
        tx.put(keys::NEXT_INO.to_vec(), encode(&(Ino::ROOT.0 + 1))?);
        tx.put_inode(&root)?;
        tx.add(keys::INODES.to_vec(), 1);
        if tx.apply_to(kv).await? {
            return Ok(());
        }
        let context = "the metadata holds a volume already; choose another place for a new one";
        Err(FsError::new(ErrorKind::Exists, context))
    }

    /// The metadata in `kv`; `NotFound` if it was never formatted, `Unsupported` if a newer build
    /// did. One read.
    pub async fn open(kv: Arc<dyn Kv>, clock: Clock) -> Result<Meta> {
        let found = kv.get_many(&[keys::FORMAT.to_vec()]).await?;
        let Some(layout) = decode_seen::<u32>(keys::FORMAT, found[0].as_ref())? else {
            let context = "the metadata holds no volume; make one with `weir format`";
            return Err(FsError::new(ErrorKind::NotFound, context));
        };
        if layout.value == LAYOUT_RESTORING {
            let context = "restoring the metadata did not come to its end: run `weir restore-volume --metadata-from` again";
            return Err(FsError::new(ErrorKind::Corrupt, context));
        }
        if !(LAYOUT..=LAYOUT_WITH_QUOTAS).contains(&layout.value) {
            let (have, newest) = (layout.value, LAYOUT_WITH_QUOTAS);
            let context = format!("metadata layout {have}, this build knows {newest}: update weir");
            return Err(FsError::new(ErrorKind::Unsupported, context).coded(ErrorCode::VolumeNewer));
        }
        Ok(Meta {
            kv,
            clock,
            inos: tokio::sync::Mutex::default(),
            inos_failed: AtomicU64::new(0),
            fresh: Fresh::default(),
            has_links: AtomicBool::new(false),
            has_quotas: AtomicBool::new(layout.value == LAYOUT_WITH_QUOTAS),
            leases: OnceLock::new(),
            recent_views: RecentViews::default(),
        })
    }

    /// Others may change the volume meanwhile: nothing is believed of what they could have done. To be
    /// called before anything else.
    pub fn set_shared(&self) {
        self.fresh.nothing_is();
        self.has_links.store(true, Ordering::Release);
    }

    /// The Kv below.
    pub fn kv(&self) -> &Arc<dyn Kv> {
        &self.kv
    }

    /// Spares the engine a search for an entry that its directory never had. To be called before it
    /// is asked for one that may well be new.
    pub(crate) fn expect_new(&self, dir: Ino, entry: &Key) {
        if self.fresh.never_had(dir, entry) {
            self.kv.expect_absent(entry, &|| self.fresh.never_had(dir, entry));
        }
    }

    /// Has this mount remember what it has leases on, and give these back where another node changes
    /// something. To be called once, before anything is changed.
    pub fn set_leases(&self, leases: Arc<Leases>) {
        // A second call is none.
        let _ = self.leases.set(leases);
    }

    /// The leases of this mount, if it shares the volume.
    pub fn leases(&self) -> Option<&Arc<Leases>> {
        self.leases.get()
    }

    pub(crate) async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        match self.leases.get() {
            Some(leases) => leases.get(&*self.kv, keys).await,
            None => self.kv.get_many(keys).await,
        }
    }

    /// These are looked at, and may be so again.
    pub(crate) fn looked_at(&self, inos: &[Ino]) {
        if let Some(leases) = self.leases.get() {
            leases.looked_at(inos);
        }
    }

    /// [`Kv::follow`], from memory where there are leases.
    pub(crate) async fn follow(&self, key: &Key, tags: &[u8]) -> Result<Followed> {
        match self.leases.get() {
            Some(leases) => leases.follow(&*self.kv, key, tags).await,
            None => self.kv.follow(key, tags).await,
        }
    }

    /// Before a directory is listed: what another node has made there is in the database. One read, where nodes share the
    /// volume and it is not known.
    pub(crate) async fn has_names(&self, dir: Ino, after_cookie: u64) -> Result<()> {
        match self.leases.get().filter(|_| after_cookie == 0) {
            Some(leases) => leases.get(&*self.kv, &[keys::inode(dir)]).await.map(drop),
            None => Ok(()),
        }
    }

    /// The same, and when entries of `dirs` changed, for [`time_after`](crate::codec::time_after), where
    /// others may say so at the same moment.
    pub(crate) async fn get_with_times<const N: usize>(
        &self,
        mut keys: Vec<Key>,
        dirs: [Ino; N],
    ) -> Result<(Vec<Option<Versioned>>, [Option<Versioned>; N])> {
        let mut times = [const { None }; N];
        if !self.kv.is_far() {
            return Ok((self.get(&keys).await?, times));
        }
        let asked = keys.len();
        keys.extend(dirs.map(keys::dir_times));
        let mut found = self.get(&keys).await?;
        found.drain(asked..).zip(&mut times).for_each(|(found, place)| *place = found);
        Ok((found, times))
    }

    /// Commits; `false`: a check did not hold and the operation is to be redone. Where other nodes have
    /// leases on what it changes, these are asked back first: two reads and a commit, and what it takes
    /// them to answer.
    pub(crate) async fn apply(&self, tx: Tx) -> Result<bool> {
        // Before anybody can see it.
        tx.puts().for_each(|key| self.fresh.comes(key));
        match self.leases.get() {
            Some(leases) => leases.apply(&*self.kv, tx).await,
            None => tx.apply_to(&*self.kv).await,
        }
    }

    /// The stored inode, without the times of its entries; `NotFound` if there is none.
    pub(crate) async fn stored_inode(&self, ino: Ino) -> Result<Seen<Inode>> {
        let found = self.get(&[keys::inode(ino)]).await?;
        seen_inode(ino, found[0].as_ref())?.ok_or_else(|| no_inode(ino))
    }

    /// Where the time comes from.
    pub(crate) fn clock(&self) -> Clock {
        self.clock.clone()
    }

    pub(crate) fn now(&self) -> UnixTime {
        (self.clock)()
    }

    /// A number that no inode ever had. One read and one commit for each 4,096. All who wait for
    /// them share one try and its error: each waits no longer than that.
    pub(crate) async fn next_ino(&self) -> Result<Ino> {
        let failed = self.inos_failed.load(Ordering::Acquire);
        let mut inos = self.inos.lock().await;
        if inos.left.is_empty() {
            if self.inos_failed.load(Ordering::Acquire) != failed
                && let Some(error) = &inos.error
            {
                return Err(error.share());
            }
            match self.reserve_inos().await {
                Ok(left) => inos.left = left,
                Err(error) => {
                    inos.error = Some(error.share());
                    self.inos_failed.fetch_add(1, Ordering::AcqRel);
                    return Err(error);
                }
            }
            // Before the first of them is given out; later ones are larger.
            self.fresh.begin(inos.left.start);
        }
        let ino = inos.left.start;
        inos.left.start += 1;
        Ok(Ino(ino))
    }

    async fn reserve_inos(&self) -> Result<Range<u64>> {
        let mut tries = Tries::new("reserve inode numbers");
        loop {
            tries.next().await?;
            let found = self.get(&[keys::NEXT_INO.to_vec()]).await?;
            let Some(next) = decode_seen::<u64>(keys::NEXT_INO, found[0].as_ref())? else {
                let context = "the metadata does not know its next inode number; run a check";
                return Err(FsError::new(ErrorKind::Corrupt, context));
            };
            let range = next.value..next.value + INO_BLOCK;
            if range.end > Ino::LIVE_MAX {
                let context = "the volume has had as many files as there are numbers for: copy it";
                return Err(FsError::new(ErrorKind::NoSpace, context));
            }
            let mut tx = Tx::default();
            tx.check(keys::NEXT_INO.to_vec(), Some(next.version));
            tx.put(keys::NEXT_INO.to_vec(), encode(&range.end)?);
            if self.apply(tx).await? {
                return Ok(range);
            }
        }
    }

    /// The number of the layout, or this one if that is greater; the commit holds that still. One read.
    pub(crate) async fn layout_at_least(&self, least: u32, tx: &mut Tx) -> Result<u32> {
        let key = keys::FORMAT.to_vec();
        let found = self.get(std::slice::from_ref(&key)).await?;
        let seen = decode_seen::<u32>(&key, found[0].as_ref())?;
        tx.check(key, version(found[0].as_ref()));
        Ok(seen.map_or(least, |seen| seen.value.max(least)))
    }

    /// Counts of inodes and bytes. One read round.
    pub async fn usage(&self) -> Result<Usage> {
        let found = self.get(&[keys::INODES.to_vec(), keys::STORED.to_vec()]).await?;
        let count = |key, at: usize| Ok(counter(key, found[at].as_ref())?.max(0).cast_unsigned());
        Ok(Usage { inodes: count(keys::INODES, 0)?, stored_bytes: count(keys::STORED, 1)? })
    }

    /// Who writes the volume; `None` if nobody ever did. One read.
    pub async fn writer(&self) -> Result<Option<WriterRecord>> {
        let found = self.get(&[keys::WRITER.to_vec()]).await?;
        Ok(decode_seen(keys::WRITER, found[0].as_ref())?.map(|seen| seen.value))
    }

    /// Returns when it is sure that nobody has taken the volume over: makes a commit and syncs it,
    /// which a fenced writer cannot. Two PUTs at most.
    pub async fn prove_writer(&self) -> Result<()> {
        let mut tx = Tx::default();
        tx.put(keys::ALIVE.to_vec(), encode(&self.now().0)?);
        self.apply(tx).await?;
        self.sync().await
    }

    /// Who wrote the volume last, and where that is which it may not have brought to the bucket.
    /// No record where a build wrote that makes none. One read.
    pub async fn last_writer(&self) -> Result<(Option<WriterRecord>, Option<LastMount>)> {
        let found = self.get(&[keys::WRITER.to_vec(), keys::LAST_MOUNT.to_vec()]).await?;
        let writer: Option<WriterRecord> =
            decode_seen(keys::WRITER, found[0].as_ref())?.map(|seen| seen.value);
        let mount: Option<LastMount> =
            decode_seen(keys::LAST_MOUNT, found[1].as_ref())?.map(|seen| seen.value);
        let mount = mount.filter(|m| writer.as_ref().is_some_and(|w| w.node == m.node));
        Ok((writer, mount))
    }

    /// Makes `mount` the writer, if the record is still of epoch `expected` (`None`: there is
    /// none); `Conflict` if somebody else was faster. One read and one commit.
    pub async fn take_writer(
        &self,
        expected: Option<u64>,
        mount: &LastMount,
    ) -> Result<WriterRecord> {
        let found = self.get(&[keys::WRITER.to_vec()]).await?;
        let before: Option<WriterRecord> =
            decode_seen(keys::WRITER, found[0].as_ref())?.map(|seen| seen.value);
        let epoch = before.as_ref().map(|record| record.epoch);
        let node = &mount.node;
        let after =
            WriterRecord { epoch: epoch.unwrap_or(0) + 1, node: node.clone(), since: self.now() };
        let mut tx = Tx::default();
        tx.check(keys::WRITER.to_vec(), version(found[0].as_ref()));
        tx.put(keys::WRITER.to_vec(), encode(&after)?);
        tx.put(keys::LAST_MOUNT.to_vec(), encode(mount)?);
        if epoch == expected && self.apply(tx).await? {
            return Ok(after);
        }
        let who = before.map_or("nobody".to_owned(), |record| record.node);
        let context =
            format!("`{node}` wants to write the volume, but others took it (last: {who})");
        Err(FsError::new(ErrorKind::Conflict, context))
    }

    /// Notes that the writer `mount` ends, with all that it was told in the bucket; durable when
    /// this returns. `Conflict` if another one writes. One read, one commit and a sync.
    pub async fn end_cleanly(&self, mount: &LastMount) -> Result<()> {
        let found = self.get(&[keys::WRITER.to_vec()]).await?;
        let writer = decode_seen::<WriterRecord>(keys::WRITER, found[0].as_ref())?;
        let mut tx = Tx::default();
        tx.check(keys::WRITER.to_vec(), version(found[0].as_ref()));
        tx.put(keys::LAST_MOUNT.to_vec(), encode(&LastMount { clean: true, ..mount.clone() })?);
        let ours = writer.is_some_and(|seen| seen.value.node == mount.node);
        if !ours || !self.apply(tx).await? {
            let context = format!("`{}` ends, but is not the writer any more", mount.node);
            return Err(FsError::new(ErrorKind::Conflict, context));
        }
        self.sync().await
    }

    /// How often the volume was mounted, and for how many hours, where its mounts count that. One read.
    pub async fn age(&self) -> Result<u64> {
        let found = self.get(&[keys::AGE.to_vec()]).await?;
        Ok(decode_seen(keys::AGE, found[0].as_ref())?.map_or(0, |seen| seen.value))
    }

    /// Makes that one more, and more than `least`; answers what it is then. One read and one commit.
    pub async fn raise_age(&self, least: u64) -> Result<u64> {
        let mut tries = Tries::new("note the age of the metadata");
        loop {
            tries.next().await?;
            let found = self.get(&[keys::AGE.to_vec()]).await?;
            let before: Option<Seen<u64>> = decode_seen(keys::AGE, found[0].as_ref())?;
            let age = before.map_or(0, |seen| seen.value).max(least) + 1;
            let mut tx = Tx::default();
            tx.check(keys::AGE.to_vec(), version(found[0].as_ref()));
            tx.put(keys::AGE.to_vec(), encode(&age)?);
            if self.apply(tx).await? {
                return Ok(age);
            }
        }
    }

    /// Says that a sync comes: see [`Kv::sync_comes`].
    pub fn sync_comes(&self) -> Coming {
        self.kv.sync_comes()
    }

    /// Returns when all that was committed before is durable.
    pub async fn sync(&self) -> Result<()> {
        self.kv.sync().await
    }

    /// Whether the log or the bucket has each commit that can be seen; see [`Kv::logged`].
    pub fn logged(&self) -> bool {
        self.kv.logged()
    }

    /// The newest commit known to be durable.
    pub fn durable(&self) -> Version {
        self.kv.durable()
    }

    /// Syncs and ends; no call may follow.
    pub async fn close(&self) -> Result<()> {
        self.kv.close().await
    }
}
