use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;

use async_trait::async_trait;
use weir_meta::sessions::SessionId;
use weir_object::{Bucket, Component, ConnectOptions, Meter, RequestKind, StripeSet};
use weir_peer::{Answer, FileRecord, Handler, Members, ObjectRange, Refusal};
use weir_segment::{Owner, SegmentBuilder, decode_record};
use weir_tier::{DiskSpace, Inherited, Tier, TierOptions};
use weir_types::{
    Codec, DataChange, ErrorKind, FileKind, FsError, Ino, Inode, LinkId, Native, RecordRef,
    SegmentId, Settings, UnixTime,
};

use super::give::Rate;
use super::listen::Listen;
use super::resident::{first_question, packed};
use super::ways::split;
use super::*;
use crate::data::fetch::by_peers::get_run_by_peers;
use crate::data::records::plan;
use crate::data::upward::NativeObjects;

const MIB: u64 = 1 << 20;

struct NoLinks;

impl NativeObjects for NoLinks {
    fn bucket(&self, link: LinkId) -> Result<Bucket> {
        Err(FsError::new(ErrorKind::NotFound, format!("there is no link {link}")))
    }

    fn object_was_read(&self, _: LinkId, _: &str, _: u64) {}

    fn object_is_another(&self, _: &Native, _: Ino) {}
}

/// A bucket with segments, and what was asked of it.
struct Store {
    buckets: StripeSet,
    meter: Meter,
    records: Vec<RecordRef>,
}

impl Store {
    /// `segments` of 8 records of 1 MiB each, which do not compress.
    async fn new(segments: u8) -> Self {
        let url = "memory://peers".parse().expect("a URL");
        let meter = Meter::new();
        let bucket = Bucket::connect(&url, &ConnectOptions::default(), &meter).expect("connects");
        let mut records = Vec::new();
        for n in 1..=segments {
            let id = SegmentId(u128::from(n) << 64);
            let mut builder = SegmentBuilder::new(id, Codec::None, MIB);
            for at in 0..8_u8 {
                let owner = Owner { ino: Ino(u64::from(n)), offset: u64::from(at) * MIB };
                records.push(builder.push(owner, &vec![n ^ at << 4; MIB as usize]).expect("fits"));
            }
            let bytes = builder.finish().bytes;
            bucket.put(Component::Data, &id.object_key(), bytes).await.expect("puts");
        }
        let buckets = StripeSet::new(vec![bucket]).expect("a set");
        Self { buckets, meter, records }
    }

    fn received(&self) -> u64 {
        self.meter.snapshot().bytes_received()
    }

    fn gets(&self) -> u64 {
        self.meter.snapshot().requests(RequestKind::Get)
    }

    fn source(&self) -> Source {
        Source::new(self.buckets.clone(), Arc::new(NoLinks))
    }

    /// Reads all records as a fetch does; answers whether each is what it should be.
    async fn read_all(&self, peers: &Peers) {
        let mut got = HashMap::new();
        for run in plan(self.records.iter().copied(), 8 * MIB) {
            let mut each = |record: RecordRef, bytes: Bytes| {
                assert!(got.insert((record.segment, record.position), bytes).is_none(), "twice");
                Ok(())
            };
            get_run_by_peers(peers, &self.buckets, &run, &mut each).await.expect("reads");
        }
        for (at, record) in self.records.iter().enumerate() {
            let want = ((at / 8) as u8 + 1) ^ ((at % 8) as u8) << 4;
            let bytes = &got[&(record.segment, record.position)];
            assert!(bytes.len() as u64 == MIB && bytes.iter().all(|byte| *byte == want), "{at}");
        }
    }
}

/// A node that knows these others.
fn node(store: &Store, id: u64, others: Vec<Node>) -> Arc<Peers> {
    let together = Arc::new(Together::beside(SessionId(id), others));
    Arc::new(Peers::new(together, store.source(), None, (64 << 20, 0)).expect("a node"))
}

fn here() -> Listen {
    let settings = Settings { peer_listen: Some("127.0.0.1:0".into()), ..Settings::default() };
    Listen::of(&settings, None).expect("an address")
}

/// Nodes that know each other.
async fn nodes(store: &Store, count: u64) -> Vec<Arc<Peers>> {
    let mut all = Vec::new();
    for id in 0..count {
        let peers = node(store, id, Vec::new());
        peers.listen(here(), None).await;
        all.push(peers);
    }
    let known: Vec<_> = all.iter().map(|one| as_node(one)).collect();
    for (at, one) in all.iter().enumerate() {
        let mut others = known.clone();
        others.remove(at);
        one.together.know(others);
    }
    all
}

fn as_node(peers: &Peers) -> Node {
    Node { fingerprint: peers.me(), address: peers.address().expect("it listens") }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_read_the_same_cost_one_pass_over_the_bucket() {
    let store = Arc::new(Store::new(6).await);
    let nodes = nodes(&store, 4).await;
    let reading: Vec<_> = nodes
        .iter()
        .map(|peers| {
            let (store, peers) = (store.clone(), peers.clone());
            tokio::spawn(async move { store.read_all(&peers).await })
        })
        .collect();
    for reader in reading {
        reader.await.expect("reads");
    }
    let all = 6 * 8 * MIB;
    let sum = |of: fn(&Figures) -> &AtomicU64| -> u64 {
        nodes.iter().map(|one| of(&one.figures).load(Ordering::Relaxed)).sum()
    };
    assert_eq!(sum(|f| &f.failures), 0);
    assert!(sum(|f| &f.taken_bytes) > 2 * all, "each takes about three of four parts");
    // A machine that does much else may have an answer come so late that the bucket is asked, too.
    let twice = sum(|f| &f.hedges) * 8 * MIB;
    assert!(twice <= all / 2, "{twice} bytes were asked for twice");
    assert!(
        (all..=all + all / 5 + twice).contains(&store.received()),
        "{} of {all}",
        store.received()
    );
    let unused = sum(|f| &f.given_bytes) - sum(|f| &f.taken_bytes);
    assert!(unused <= twice, "{unused} bytes were given in vain, {twice} asked for twice");
    let asked: Vec<_> = nodes.iter().map(|one| one.held.bytes()).collect();
    assert!(asked.iter().all(|bytes| *bytes > 0), "all of them ask the bucket: {asked:?}");
}

/// A node that has one to ask, which answers so, takes all right, and leaves that out soon.
async fn leaves_out(answer: impl Fn(&ObjectRange) -> Option<Answer> + Send + Sync + 'static) {
    struct Hand<F>(F, AtomicUsize);
    struct All;
    #[async_trait]
    impl Members for All {
        fn has(&self, _: &Fingerprint) -> bool {
            true
        }
    }
    #[async_trait]
    impl<F: Fn(&ObjectRange) -> Option<Answer> + Send + Sync> Handler for Hand<F> {
        async fn answer(&self, _: &Fingerprint, ask: Ask) -> Answer {
            let Ask::Bytes(range) = ask else { return Answer::Refused(Refusal::Unknown) };
            self.1.fetch_add(1, Ordering::Relaxed);
            match self.0(&range) {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        }
    }
    let store = Store::new(6).await;
    let (identity, hand) = (Identity::new().expect("makes"), Arc::new(Hand(answer, 0.into())));
    let at = "127.0.0.1:0".parse().expect("an address");
    let server = Server::listen(at, &identity, Arc::new(All), hand.clone()).await.expect("listens");
    let other = Node { fingerprint: identity.fingerprint(), address: server.address().to_string() };
    let peers = node(&store, 1, vec![other.clone()]);
    peers.listen(here(), None).await;
    store.read_all(&peers).await;
    assert!(peers.left_out.had(&other.fingerprint));
    let asked = hand.1.load(Ordering::Relaxed);
    assert!((1..=8).contains(&asked), "it was asked {asked} times");
}

#[tokio::test]
async fn wrong_bytes_are_found_and_their_giver_is_asked_no_more() {
    leaves_out(|range| Some(Answer::Given(vec![7; (range.end - range.start) as usize].into())))
        .await;
}

#[tokio::test]
async fn too_few_bytes_are_none() {
    leaves_out(|range| Some(Answer::Given(vec![7; (range.end - range.start - 1) as usize].into())))
        .await;
}

#[tokio::test]
async fn one_that_does_not_know_the_question_is_left_out() {
    leaves_out(|_| Some(Answer::Refused(Refusal::Unknown))).await;
}

#[tokio::test]
async fn one_that_says_nothing_costs_a_hedge() {
    leaves_out(|_| None).await;
}

#[tokio::test]
async fn where_nobody_can_be_reached_all_comes_from_the_bucket() {
    let store = Store::new(4).await;
    let unused = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = unused.local_addr().expect("it has one").to_string();
    drop(unused);
    let somebody = |address: &str| Node {
        fingerprint: Identity::new().expect("makes").fingerprint(),
        address: address.to_owned(),
    };
    let others = vec![somebody(&address), somebody("no.such.host.invalid:7"), somebody("nonsense")];
    let peers = node(&store, 1, others);
    peers.listen(here(), None).await;
    store.read_all(&peers).await;
    assert_eq!(peers.figures.taken_bytes.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn what_is_got_for_all_is_got_once_and_is_bounded() {
    let store = Store::new(4).await;
    let held = Arc::new(Held::new(Arc::new(store.source()), 8 * MIB));
    let object = |n: u128| Object::Segment(SegmentId(n << 64));
    let one = object(1);
    let (a, b) = tokio::join!(held.get(&one, 0..MIB), held.get(&one, 0..MIB));
    assert_eq!(a.expect("reads"), b.expect("reads"));
    assert_eq!((store.gets(), held.bytes()), (1, MIB));
    let wider = held.get(&one, MIB / 2..3 * MIB).await.expect("reads");
    assert_eq!((store.gets(), held.bytes(), wider.len() as u64), (2, 3 * MIB, 5 * MIB / 2));
    let whole = held.get(&one, 0..4 * MIB).await.expect("reads");
    assert_eq!((store.gets(), store.received()), (3, 4 * MIB));
    assert_eq!(whole.slice((MIB / 2) as usize..3 * MIB as usize), wider);
    for n in 2..=4 {
        held.get(&object(n), 0..4 * MIB).await.expect("reads");
        assert!(held.bytes() <= 8 * MIB, "{}", held.bytes());
    }
    let gets = store.gets();
    held.get(&object(4), 0..4 * MIB).await.expect("reads");
    assert_eq!(store.gets(), gets, "it is here");
    held.forget(&object(4));
    held.get(&object(4), 0..4 * MIB).await.expect("reads");
    assert_eq!(store.gets(), gets + 1);
    let gone = held.get(&object(9), 0..MIB).await.expect_err("there is none");
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    assert_eq!(held.bytes(), 4 * MIB, "what failed takes no room, once some was made for it");
    assert!(held.get(&object(9), 0..MIB).await.is_err(), "and is tried again");
}

#[tokio::test]
async fn no_more_is_given_than_was_allowed() {
    let rate = Rate::new(8 * MIB);
    assert!(rate.may(4 * MIB) && rate.may(4 * MIB - 1024));
    assert!(!rate.may(4 * MIB));
    let unlimited = Rate::new(0);
    assert!((0..1000).all(|_| unlimited.may(4 * MIB)));
}

#[test]
fn each_piece_has_one_owner_and_only_the_share_of_who_goes_moves() {
    let node = |n: u8| Node { fingerprint: Fingerprint([n; 32]), address: n.to_string() };
    let all: Vec<_> = (1..=4).map(node).collect();
    let seen_by = |me: &Node, nodes: &[Node], piece: u64| {
        let others = nodes.iter().filter(|one| *one != me).cloned().collect();
        let object = Object::Segment(SegmentId(u128::from(piece) << 70));
        let ranked = route::ranked((&object, piece), me.fingerprint, others);
        ranked[0].clone().unwrap_or_else(|| me.clone())
    };
    let mut shares = HashMap::<String, u32>::new();
    let mut moved = 0;
    for piece in 0..4_000 {
        let owner = seen_by(&all[0], &all, piece);
        assert!(all.iter().all(|me| seen_by(me, &all, piece) == owner));
        let after = seen_by(&all[0], &all[..3], piece);
        moved += u32::from(after != owner && owner == all[3]);
        assert!(after == owner || owner == all[3], "only what the last one had moves");
        *shares.entry(owner.address).or_default() += 1;
    }
    assert!(shares.values().all(|share| (850..1150).contains(share)), "{shares:?}");
    assert_eq!(moved, shares["4"]);
}

#[test]
fn ranges_are_cut_where_another_node_may_be_the_owner() {
    let cut = |range| split(range).map(|part| (part.start, part.end)).collect::<Vec<_>>();
    assert_eq!(cut(5..6), [(5, 6)]);
    assert_eq!(cut(0..4 * MIB), [(0, 4 * MIB)]);
    let parts = [(4 * MIB - 1, 4 * MIB), (4 * MIB, 8 * MIB), (8 * MIB, 8 * MIB + 1)];
    assert_eq!(cut(4 * MIB - 1..8 * MIB + 1), parts);
    assert!(cut(7..7).is_empty());
}

#[test]
fn where_it_listens_is_checked() {
    let of = |listen: Option<&str>, address: Option<&str>| {
        let settings = Settings {
            peer_listen: listen.map(str::to_owned),
            peer_address: address.map(str::to_owned),
            ..Settings::default()
        };
        Listen::of(&settings, None)
    };
    assert_eq!(of(Some("off"), None).expect("off"), Listen::Off);
    let Ok(Listen::At { bind, from_others, address }) = of(None, Some("nat.example:7070")) else {
        panic!("an address");
    };
    assert!(bind.ip().is_loopback() && bind.port() == 0 && from_others.is_loopback());
    assert_eq!(address.as_deref(), Some("nat.example:7070"));
    for bad in ["", "10.0.0.1", "host:7070", "1.2.3.4:99999", "on"] {
        let error = of(Some(bad), None).expect_err(bad).to_string();
        assert!(error.contains("--peer-listen"), "{error}");
    }
    for bad in ["", "host", ":7", "host:0", "host:x", "host:70000"] {
        let error = of(None, Some(bad)).expect_err(bad).to_string();
        assert!(error.contains("--peer-address"), "{error}");
    }
    let any = of(Some("0.0.0.0:7070"), None).expect("an address");
    assert!(matches!(any, Listen::At { from_others, .. } if !from_others.is_unspecified()));
}

#[tokio::test]
async fn a_port_that_is_taken_is_no_end() {
    let store = Store::new(1).await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("it has one").to_string();
    let settings = Settings { peer_listen: Some(address), ..Settings::default() };
    let peers = node(&store, 1, Vec::new());
    peers.listen(Listen::of(&settings, None).expect("an address"), None).await;
    assert!(peers.address().is_none() && !peers.pays(MIB) && peers.row().is_none());
}

fn tier(directory: &std::path::Path) -> Arc<Tier> {
    let options = TierOptions {
        directory: directory.to_owned(),
        tier_bytes: 64 << 20,
        high_water_percent: 90,
        low_water_percent: 50,
        free_floor_bytes: 0,
        memory_bytes: 1 << 30,
        ask_space: DiskSpace::kernel(),
        inherited: Inherited::default(),
        sealed: Vec::new(),
        boot_id: "boot".to_owned(),
        now_ms: Arc::new(|| 0),
    };
    let (tier, _) = Tier::open(options).expect("opens");
    tier.confirm().expect("confirms");
    Arc::new(tier)
}

/// Puts a file of these bytes into a tier.
fn put(tier: &Tier, ino: Ino, bytes: &[u8]) {
    let (now, size) = (UnixTime(0), bytes.len() as u64);
    let inode = Inode {
        ino,
        kind: FileKind::Regular,
        mode: 0o644,
        uid: 0,
        gid: 0,
        nlink: 1,
        size,
        rdev: 0,
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        parent: Ino::ROOT,
        data: DataChange { generation: 1, dropped: None },
        stored_bytes: 0,
        target: None,
        account: weir_types::Account::default(),
        native: None,
    };
    let mirror = tier.mirror(&inode).expect("mirror");
    let filled = mirror.fill(0, bytes.len() as u64, Some(bytes), mirror.stamp());
    assert!(filled.expect("fills"));
}

#[test]
fn a_record_of_a_file_that_is_here_is_packed_as_it_is_in_its_segment() {
    let dir = tempfile::tempdir().expect("tempdir");
    let tier = tier(dir.path());
    let noise: Vec<u8> = (0..MIB).map(|at| ((at * at) >> 7) as u8 ^ (at >> 3) as u8).collect();
    let text = b"what repeats is compressed ".repeat(10_000);
    let raws = [&noise[..], &text, &noise[..100_000], &text[..5_000], b"x"];
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd] {
        let mut builder = SegmentBuilder::new(SegmentId(77), codec, MIB);
        let mut files = Vec::new();
        for (at, raw) in raws.iter().enumerate() {
            let ino = Ino(100 + at as u64);
            put(&tier, ino, raw);
            let record = builder.push(Owner { ino, offset: 0 }, raw).expect("fits");
            files.push(FileRecord { record, ino, offset: 0 });
        }
        let segment = builder.finish().bytes;
        for (of, raw) in files.iter().zip(raws) {
            let one = packed(&tier, std::slice::from_ref(of)).expect("it is here");
            let start = of.record.position as usize;
            assert_eq!(one, segment[start..start + of.record.stored_bytes as usize], "{codec:?}");
            assert_eq!(
                decode_record(&weir_keys::VolumeKeys::none(), &of.record, None, one)
                    .expect("decodes"),
                raw
            );
        }
        let all: usize = files.iter().map(|of| of.record.stored_bytes as usize).sum();
        assert_eq!(packed(&tier, &files).expect("all are").len(), all);
        files[2].offset = 4_096;
        assert_eq!(packed(&tier, &files), None, "one is not");
    }
}

#[test]
fn as_many_records_are_asked_for_as_one_answer_may_have() {
    let record = |n: u32, stored_bytes| FileRecord {
        record: RecordRef {
            segment: SegmentId(1),
            position: n,
            stored_bytes,
            raw_bytes: 1 << 20,
            checksum: 0,
        },
        ino: Ino(1),
        offset: 0,
    };
    let large: Vec<_> = (0..9).map(|n| record(n, 1 << 20)).collect();
    assert_eq!(first_question(&large).len(), 4);
    let small: Vec<_> = (0..200).map(|n| record(n, 4_096)).collect();
    assert_eq!(first_question(&small).len(), resident::RECORDS_MAX);
    assert!(first_question(&[]).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_has_in_its_tier_comes_from_there() {
    let store = Store::new(1).await;
    let dir = tempfile::tempdir().expect("tempdir");
    let tier = tier(dir.path());
    let whole: Vec<u8> = (0..8_u8).flat_map(|at| vec![1 ^ at << 4; MIB as usize]).collect();
    put(&tier, Ino(1), &whole);
    let together = Arc::new(Together::beside(SessionId(1), Vec::new()));
    let giver = Peers::new(together, store.source(), Some(tier.clone()), (64 << 20, 0));
    let all = [Arc::new(giver.expect("a node")), node(&store, 2, Vec::new())];
    for one in &all {
        one.listen(here(), None).await;
    }
    all[0].together.know(vec![as_node(&all[1])]);
    all[1].together.know(vec![as_node(&all[0])]);
    let records = store.records.iter().enumerate();
    let files: Vec<_> = records
        .map(|(at, record)| FileRecord { record: *record, ino: Ino(1), offset: at as u64 * MIB })
        .collect();
    let asked = first_question(&files);
    assert!(
        all[1].records_of_tier(asked).await.is_none(),
        "nobody asked for it, and who made it is gone"
    );
    assert!(all[1].records_of_anybody(asked).await.is_some(), "unless all are asked");
    assert!(all[0].records_of_anybody(asked).await.is_none());
    assert!(all[0].records_of_tier(asked).await.is_none(), "the other one has nothing");
    let (mut bytes, from) = all[1].records_of_tier(asked).await.expect("it is in a tier");
    assert_eq!(from.fingerprint, all[0].me());
    for (at, of) in asked.iter().enumerate() {
        let stored = bytes.split_to(of.record.stored_bytes as usize);
        let raw =
            decode_record(&weir_keys::VolumeKeys::none(), &of.record, None, stored).expect("sound");
        assert_eq!(raw, whole[at * MIB as usize..][..MIB as usize]);
    }
    // Another version of the file, and none.
    tier.remove(Ino(1)).expect("removes");
    assert!(all[1].records_of_tier(asked).await.is_none());
    put(&tier, Ino(1), &vec![9; 8 * MIB as usize]);
    assert!(all[1].records_of_tier(asked).await.is_none());
    assert_eq!(all[1].figures.failures.load(Ordering::Relaxed), 0, "nobody is to blame");
    assert_eq!(store.gets(), 0);
}
