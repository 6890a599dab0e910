//! Parts of the data plane alone, with all others left out or replaced: no engine, no names.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;
use weir_meta::kv::MemoryKv;
use weir_meta::{Meta, RootAttr};
use weir_object::testing::{FaultControl, FaultPlan, connect_faulty};
use weir_object::{Bucket, BucketUrl, Component, ConnectOptions, Meter, RequestKind, StripeSet};
use weir_tier::{Amount, DiskSpace, Mirror, Tier, TierOptions};
use weir_types::{
    ByteRange, Bytes, Codec, ErrorKind, FsError, Ino, LinkId, Native, Result, Settings, UnixTime,
    VolumeFormat, VolumeId,
};

use super::admission::budget::Budget;
use super::fetch::{Fetcher, FetcherParts, Priority};
use super::flush::Flusher;
use super::mirrors::Mirrors;
use super::nodes::Nodes;
use super::segments::Segments;
use super::space::Space;
use super::upward::NativeObjects;
use crate::volume::context::{Clock, Context, Counts};
use crate::volume::fence::Fence;

const MIB: u64 = 1 << 20;
const NOW: UnixTime = UnixTime(1);

/// What parts stand on.
struct Ground {
    _directory: TempDir,
    context: Arc<Context>,
    tier: Arc<Tier>,
}

/// A clock that a look moves on by `step_ms`.
fn clock(step_ms: u64) -> Clock {
    let (at, id) = (AtomicU64::new(0), AtomicU64::new(1));
    Clock {
        now: Arc::new(|| NOW),
        now_ms: Arc::new(move || at.fetch_add(step_ms, Ordering::Relaxed) + 1),
        random: Arc::new(move || u128::from(id.fetch_add(1, Ordering::Relaxed))),
    }
}

fn ground(tier_bytes: u64, step_ms: u64) -> Ground {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = clock(step_ms);
    let settings = Settings {
        tier_bytes: Bytes(tier_bytes),
        free_floor_bytes: Bytes(0),
        ..Settings::default()
    };
    let space =
        DiskSpace { bytes: 1 << 40, free_bytes: 1 << 40, files: 1 << 20, free_files: 1 << 20 };
    let (tier, _) = Tier::open(TierOptions {
        directory: directory.path().join("tier"),
        tier_bytes,
        high_water_percent: settings.high_water_percent,
        low_water_percent: settings.low_water_percent,
        free_floor_bytes: 0,
        boot_id: "boot".to_owned(),
        now_ms: clock.now_ms.clone(),
        memory_bytes: settings.memory().tier_files,
        ask_space: Arc::new(move |_| Ok(space)),
        inherited: weir_tier::Inherited::default(),
        sealed: Vec::new(),
    })
    .expect("a tier");
    let context = Context {
        format: VolumeFormat {
            format_version: 1,
            id: VolumeId("volume".to_owned()),
            stripe_set: vec!["memory://b".to_owned()],
            record_bytes: MIB,
            segment_bytes: 4 * MIB,
            codec: Codec::Lz4,
            created_unix_s: 0,
            metadata: None,
            encryption: None,
            origins: Vec::new(),
        },
        url: "memory://b".to_owned(),
        settings,
        read_only: false,
        clock,
        meter: Meter::new(),
        counts: Counts::default(),
        stopping: AtomicBool::new(false),
        obeys_acls: AtomicBool::new(false),
        fence: Arc::new(Fence::new("memory://b".to_owned(), false)),
        together: None,
    };
    Ground { _directory: directory, context: Arc::new(context), tier: Arc::new(tier) }
}

/// The lower half of a data plane, over metadata in memory and a bucket that fails as it is told.
struct Plane {
    ground: Ground,
    meta: Arc<Meta>,
    buckets: StripeSet,
    bucket: Bucket,
    faults: FaultControl,
    nodes: Arc<Nodes>,
    mirrors: Arc<Mirrors>,
    space: Arc<Space>,
}

/// There are no links.
struct NoLinks;

impl NativeObjects for NoLinks {
    fn bucket(&self, link: LinkId) -> Result<Bucket> {
        Err(FsError::new(ErrorKind::NotFound, format!("there is no link {link}")))
    }

    fn object_was_read(&self, _: LinkId, _: &str, _: u64) {}

    fn object_is_another(&self, _: &Native, ino: Ino) {
        panic!("inode {ino} is no object");
    }
}

impl Plane {
    async fn new(name: &str, plan: &str) -> Self {
        let ground = ground(64 * MIB, 0);
        let url: BucketUrl = format!("memory://{name}").parse().expect("a URL");
        let options = ConnectOptions { timeout_ms: 100, ..ConnectOptions::default() };
        let plan: FaultPlan = plan.parse().expect("a plan");
        let connected = connect_faulty(&url, &options, &ground.context.meter, &plan);
        let (bucket, faults) = connected.expect("a bucket");
        let kv = Arc::new(MemoryKv::new());
        let root = RootAttr { mode: 0o755, uid: 0, gid: 0 };
        Meta::format(&*kv, root, NOW).await.expect("formats");
        let meta = Meta::open(kv, Arc::new(|| NOW)).await.expect("opens");
        let (meta, nodes) = (Arc::new(meta), Arc::new(Nodes::default()));
        let mirrors =
            Mirrors::new(meta.clone(), ground.tier.clone(), nodes.clone(), None, (false, false));
        let space = Space::new(ground.context.clone(), ground.tier.clone());
        Self {
            meta,
            buckets: StripeSet::new(vec![bucket.clone()]).expect("a stripe set"),
            bucket,
            faults,
            nodes,
            mirrors: Arc::new(mirrors),
            space: Arc::new(space),
            ground,
        }
    }

    /// A file without a name, with these bytes in its mirror.
    async fn file(&self, bytes: &[u8]) -> Arc<Mirror> {
        let inode = self.meta.new_disk_file(bytes.len() as u64).await.expect("a file");
        let mirror = self.ground.tier.mirror(&inode).expect("a mirror");
        assert!(mirror.write_at(0, bytes, NOW).expect("writes").is_empty());
        mirror
    }

    fn flusher(&self) -> Arc<Flusher> {
        let segments = Segments::new(self.ground.context.clone(), self.buckets.clone());
        let (context, nodes) = (self.ground.context.clone(), self.nodes.clone());
        let (mirrors, space) = (self.mirrors.clone(), self.space.clone());
        Arc::new(Flusher::new(context, nodes, None, mirrors, space, Arc::new(segments)))
    }

    fn fetcher(&self) -> Arc<Fetcher> {
        Arc::new(Fetcher::new(FetcherParts {
            context: self.ground.context.clone(),
            meta: self.meta.clone(),
            tier: self.ground.tier.clone(),
            buckets: self.buckets.clone(),
            nodes: self.nodes.clone(),
            mirrors: self.mirrors.clone(),
            space: self.space.clone(),
            natives: Arc::new(NoLinks),
            budget: Arc::new(Budget::default()),
            peers: None,
        }))
    }

    fn gets(&self) -> u64 {
        let requests = self.ground.context.meter.snapshot();
        requests.row(Component::Data, RequestKind::Get).map_or(0, |row| row.requests)
    }
}

fn noise(len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    StdRng::seed_from_u64(1).fill_bytes(&mut bytes);
    bytes
}

#[tokio::test(start_paused = true)]
async fn space_alone_asks_for_a_flush_and_says_why_there_is_no_room() {
    let Ground { _directory, context, tier } = ground(4 * MIB, 1_000);
    let space = Arc::new(Space::new(context, tier.clone()));
    let inode = weir_types::Inode::new(Ino(7), weir_types::FileKind::Regular, Ino::ROOT, NOW);
    let mirror = tier.mirror(&inode).expect("a mirror");
    assert!(mirror.write_at(0, &noise(3 * MIB), NOW).expect("writes").is_empty());
    let wanted = |mib| Amount { bytes: mib * MIB, files: 0 };
    assert!(space.make_room(wanted(1)).await.expect("looks"));
    space.expect(MIB);
    assert!(!space.make_room(wanted(1)).await.expect("looks"), "what is coming has that room");
    space.arrived(MIB);
    space.reserve(wanted(1));
    assert!(!space.room_to_spare(wanted(1)), "a hydration has that room");
    space.unreserve(wanted(1));
    assert!(space.room_to_spare(wanted(1)));
    let full = space.wait_for_room(wanted(2)).await.expect_err("all of it is dirty");
    assert_eq!(full.kind(), ErrorKind::Retry);
    assert!(full.to_string().contains("the bucket does not take"), "{full}");
    space.flush_wanted.notified().await;
}

#[tokio::test]
async fn a_flusher_keeps_what_the_bucket_refuses_and_names_what_it_took() {
    let plane = Plane::new("flusher-alone", "op=put,what=503,where=before").await;
    let (flusher, bytes) = (plane.flusher(), noise(3 * MIB));
    let mirror = plane.file(&bytes).await;
    let ino = mirror.ino();
    flusher.flush_files(&[ino]).await.expect_err("the bucket refuses");
    assert_eq!(mirror.dirty_bytes(), bytes.len() as u64, "all of it is dirty still");
    let none = plane.meta.chunks(ino, 0..3).await.expect("reads");
    assert!(none.list.is_empty(), "nothing is named that is not there: {:?}", none.list);
    plane.faults.set_on(false);
    flusher.flush_files(&[ino]).await.expect("the bucket takes it");
    assert_eq!(mirror.dirty_bytes(), 0);
    let named = plane.meta.chunks(ino, 0..3).await.expect("reads").list;
    assert_eq!(named.len(), 3);
    for extent in named.iter().flat_map(|(_, extents)| extents) {
        let key = extent.record.segment.object_key();
        plane.bucket.head(Component::Data, &key).await.expect("it is in the bucket");
    }
}

#[tokio::test]
async fn what_was_purged_from_the_metadata_alone_leaves_nothing_to_flush() {
    let plane = Plane::new("purged-alone", "").await;
    let ino = plane.file(&noise(MIB)).await.ino();
    plane.meta.purge_all(&[ino]).await.expect("purges");
    plane.flusher().flush_data().await.expect("flushes");
    assert!(plane.ground.tier.find(ino).is_none(), "its mirror is for nobody");
    assert_eq!((plane.ground.tier.dirty_bytes(), plane.ground.tier.unflushed().len()), (0, 0));
}

#[tokio::test]
async fn a_fetcher_without_names_brings_bytes_once_for_all_who_want_them() {
    let plane = Plane::new("fetcher-alone", "").await;
    let bytes = noise(2 * MIB);
    let mirror = plane.file(&bytes).await;
    plane.flusher().flush_files(&[mirror.ino()]).await.expect("flushes");
    mirror.idle();
    assert_eq!(plane.space.release_all().await.expect("releases"), bytes.len() as u64);
    let all = [ByteRange::new(0, bytes.len() as u64)];
    let fetcher = plane.fetcher();
    let fetch = || fetcher.fetch(&mirror, &all, Priority::Demand);
    let (one, two) = tokio::join!(fetch(), fetch());
    one.and(two).expect("fetches");
    assert_eq!(plane.gets(), 1, "one GET for both");
    let mut got = Vec::new();
    mirror.read_at(0, bytes.len(), &mut got).expect("reads");
    assert!(got == bytes);
}
