//! The session of a mount that changes the volume together with others, and what it knows of theirs.
//!
//! Every [`BEAT_MS`] it says that it lives and looks who else does. One whose beat it has seen unchanged
//! over [`SILENT_LOOKS`] looks is shut out: its commits are refused from then on, whatever it believes,
//! so that nothing of it can be in anybody's way any more. What was unchanged is counted in looks that
//! were answered, so that nobody is taken for dead because the database was away.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use weir_meta::kv::{Kv, Version};
use weir_meta::sessions::{self, Beat, PeerRow, Session, SessionId};
use weir_peer::{Fingerprint, Members, Node};
use weir_types::{ErrorCode, ErrorKind, FsError, Result, SegmentId};

use super::fence::Fence;
use super::pulse::{NodesStatus, Pulse};

/// How often a session says that it lives, in milliseconds.
pub(crate) const BEAT_MS: u64 = 3_000;
/// How long it may take to look who calls, and how long nobody is looked for after that.
const MEETING: Duration = Duration::from_secs(1);
const BETWEEN_MEETINGS: Duration = Duration::from_millis(200);
/// Looks over which a beat must be the same: a session has 12 s to come back.
const SILENT_LOOKS: u32 = 5;

/// Beats within which a session says how it is reached, if it ever does.
const SHOWN_BY: u64 = 3;

/// Bits below the session in the id of a segment.
const COUNT_BITS: u32 = 16;

/// The session that made a segment, if it was made by one: a mount that is alone leaves chance there.
fn made_by(segment: SegmentId) -> SessionId {
    SessionId((segment.0 >> COUNT_BITS) as u64)
}

/// The stamp of a segment: those that one session makes rise.
fn stamp_of(segment: SegmentId) -> u64 {
    segment.unix_ms() << COUNT_BITS | segment.0 as u64 & ((1 << COUNT_BITS) - 1)
}

/// Up to which stamp the sessions that live have settled what becomes of their segments.
pub(crate) struct Settled(HashMap<SessionId, u64>);

impl Settled {
    /// As these say.
    pub(crate) fn of(live: &[Session]) -> Self {
        Self(live.iter().map(|session| (session.id, session.said.settled)).collect())
    }

    /// Whether the metadata names a segment by now or never will: whoever made it has no commit of it
    /// before them, or has ended.
    pub(crate) fn has(&self, segment: SegmentId) -> bool {
        self.0.get(&made_by(segment)).is_none_or(|settled| stamp_of(segment) < *settled)
    }
}

/// The segments of a session.
#[derive(Debug, Default)]
struct Stamps {
    /// That of the newest one: milliseconds, and a count below them.
    last: u64,
    /// Those that are being packed, sent or committed.
    under_way: BTreeSet<u64>,
}

/// What is done just before each beat, so that who sees the beat knows that it is done.
#[async_trait]
pub(crate) trait BeforeBeat: Send + Sync {
    /// The beat is not made where this fails.
    async fn before_beat(&self) -> Result<()>;

    /// Sessions were looked at: the beat was made.
    async fn after_look(&self, live: &[Session]) -> Result<()>;
}

/// Beats that were seen, and over how many looks they were the same.
#[derive(Debug, Default)]
pub(crate) struct Watch(HashMap<SessionId, (Version, u32)>);

impl Watch {
    /// Takes note of a look, and answers those that have been silent for too long.
    pub(crate) fn look<'a>(&mut self, seen: &'a [Session]) -> Vec<&'a Session> {
        self.0.retain(|id, _| seen.iter().any(|session| session.id == *id));
        let mut silent = Vec::new();
        for session in seen {
            let (beat, looks) = self.0.entry(session.id).or_insert((session.beat, 0));
            *looks = if *beat == session.beat { *looks + 1 } else { 1 };
            *beat = session.beat;
            silent.extend((*looks >= SILENT_LOOKS).then_some(session));
        }
        silent
    }
}

/// The session of this mount.
pub(crate) struct Together {
    id: SessionId,
    /// Those that had this tier before, and ended.
    before: Vec<SessionId>,
    ticks: AtomicU64,
    /// As of the last look.
    live: Mutex<Arc<Vec<Session>>>,
    on_duty: AtomicBool,
    stamps: Mutex<Stamps>,
    /// How others reach this one: what is to be said, and what was said last.
    shown: Mutex<[Option<PeerRow>; 2]>,
    /// How others of those that live are reached.
    peers: Mutex<HashMap<SessionId, Option<Node>>>,
    /// Somebody called who is not known.
    stranger: Notify,
    /// It was looked who lives.
    looked: watch::Sender<()>,
    pulse: Pulse,
}

impl Together {
    /// A session that has joined.
    pub(crate) fn new(id: SessionId) -> Self {
        let (ticks, live, on_duty, stamps) = Default::default();
        let (shown, peers, stranger, looked) = Default::default();
        let (before, pulse) = (Vec::new(), Pulse::new());
        Self { id, before, ticks, live, on_duty, stamps, shown, peers, stranger, looked, pulse }
    }

    /// One that has the tier which these had before.
    pub(crate) fn after(self, before: impl Iterator<Item = SessionId>) -> Self {
        Self { before: before.collect(), ..self }
    }

    /// Whether that session had this tier before.
    pub(crate) fn had(&self, session: SessionId) -> bool {
        self.before.contains(&session)
    }

    /// Those that had this tier before, and ended.
    pub(crate) fn before(&self) -> &[SessionId] {
        &self.before
    }

    /// One that knows of these others, without a database.
    #[cfg(test)]
    pub(crate) fn beside(id: SessionId, others: Vec<Node>) -> Self {
        let together = Self::new(id);
        together.know(others);
        together
    }

    /// The others are these.
    #[cfg(test)]
    pub(crate) fn know(&self, others: Vec<Node>) {
        let others = others.into_iter().enumerate();
        let others = others.map(|(at, node)| (SessionId(at as u64 + 1_000), Some(node)));
        *self.peers.lock() = others.collect();
    }

    /// Says with the next beat how this session is reached.
    pub(crate) fn show(&self, row: PeerRow) {
        self.shown.lock()[0] = Some(row);
    }

    /// How that session is reached, if it lived when it was looked last and can be asked.
    pub(crate) fn peer(&self, session: SessionId) -> Option<Node> {
        self.peers.lock().get(&session)?.clone()
    }

    /// How the session is reached that made a segment, if it is another one that lived when it was looked last.
    pub(crate) fn maker(&self, segment: SegmentId) -> Option<Node> {
        self.peer(made_by(segment))
    }

    /// Those of the other sessions that lived when it was looked last and can be asked.
    pub(crate) fn peers(&self) -> Vec<Node> {
        self.peers.lock().values().flatten().cloned().collect()
    }

    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    /// All sessions that lived when it was looked last, this one too; none before the first look.
    pub(crate) fn live(&self) -> Arc<Vec<Session>> {
        self.live.lock().clone()
    }

    /// Whether this is the one that does what one has to do for all. One that was, and does not know yet
    /// that it is not, can commit nothing any more.
    pub(crate) fn is_on_duty(&self) -> bool {
        self.on_duty.load(Ordering::Acquire)
    }

    /// How this node is among the others; `shut_out` says whether they let it change nothing any more.
    pub(crate) fn status(&self, shut_out: bool) -> NodesStatus {
        let on_duty = self.is_on_duty() && !shut_out;
        let status = self.pulse.status(self.id.to_string(), &self.live());
        NodesStatus { on_duty, shut_out, ..status }
    }

    /// The id of a new segment, under way until [`Together::segment_done`]. It names this session, and is
    /// larger than the one before, whatever the clock does.
    pub(crate) fn segment_id(&self, unix_ms: u64) -> SegmentId {
        let stamp = {
            let mut stamps = self.stamps.lock();
            stamps.last = (stamps.last + 1).max(unix_ms << COUNT_BITS);
            let stamp = stamps.last;
            stamps.under_way.insert(stamp);
            stamp
        };
        let session = u128::from(self.id.0);
        let count = u128::from(stamp & ((1 << COUNT_BITS) - 1));
        SegmentId::new(stamp >> COUNT_BITS, session << COUNT_BITS | count)
    }

    /// The metadata names a segment by now, or never will.
    pub(crate) fn segment_done(&self, segment: SegmentId) {
        self.stamps.lock().under_way.remove(&stamp_of(segment));
    }

    /// The stamp below which that holds of all segments of this session.
    fn settled(&self) -> u64 {
        let stamps = self.stamps.lock();
        stamps.under_way.first().copied().unwrap_or(stamps.last + 1)
    }

    /// Says that this session lives, and looks who else does.
    async fn beat(&self, kv: &dyn Kv, watch: &mut Watch, before: &dyn BeforeBeat) -> Result<()> {
        before.before_beat().await?;
        let tick = self.ticks.load(Ordering::Relaxed) + 1;
        let show = {
            let [wanted, said] = &*self.shown.lock();
            wanted.clone().filter(|_| wanted != said)
        };
        let say = Beat { tick, settled: self.settled() };
        sessions::beat(kv, self.id, say, show.as_ref()).await?;
        if show.is_some() {
            self.shown.lock()[1] = show;
        }
        self.ticks.store(tick, Ordering::Relaxed);
        self.pulse.answered();
        let mut seen = sessions::sessions(kv).await?;
        let silent: Vec<_> = watch.look(&seen).into_iter().cloned().collect();
        for session in silent.iter().filter(|session| session.id != self.id) {
            if sessions::evict(kv, session).await? {
                self.pulse.evicted();
                let Session { id, node, .. } = session;
                tracing::warn!(%id, host = %node.host, tier = %node.tier,
                    "a node has been silent for too long and is shut out: what it had not flushed is in \
                     its tier, and it must be mounted anew");
                seen.retain(|other| other.id != *id);
            }
        }
        *self.live.lock() = Arc::new(seen);
        self.look_for_peers(kv).await?;
        self.on_duty.store(sessions::on_duty(kv, self.id).await?, Ordering::Release);
        before.after_look(&self.live()).await
    }
}

impl Together {
    /// Asks how those are reached that live and have not said so yet. One read where there is any such one:
    /// what a session says of it with its first beat stays as it is.
    async fn look_for_peers(&self, kv: &dyn Kv) -> Result<()> {
        let live = self.live();
        let unknown: Vec<&Session> = {
            let mut peers = self.peers.lock();
            peers.retain(|id, _| live.iter().any(|session| session.id == *id));
            let others = live.iter().filter(|session| session.id != self.id);
            others.filter(|session| !peers.contains_key(&session.id)).collect()
        };
        if unknown.is_empty() {
            self.looked.send_replace(());
            return Ok(());
        }
        let ids: Vec<_> = unknown.iter().map(|session| session.id).collect();
        for (session, row) in unknown.into_iter().zip(sessions::peers(kv, &ids).await?) {
            let node = row.map(|row| Node {
                fingerprint: Fingerprint(row.fingerprint),
                address: row.address,
            });
            if node.is_some() || session.said.tick > SHOWN_BY {
                self.peers.lock().insert(session.id, node);
            }
        }
        self.looked.send_replace(());
        Ok(())
    }

    /// Waits for a while, and looks who has come when somebody calls who is not known. That is no look by which a session
    /// is found to be silent.
    async fn rest(&self, kv: &dyn Kv, how_long: Duration) {
        let rest = tokio::time::sleep(how_long);
        tokio::pin!(rest);
        loop {
            tokio::select! {
                // Whoever calls keeps no beat waiting but for one look.
                biased;
                () = &mut rest => return,
                () = self.stranger.notified() => {}
            }
            let look = async {
                let seen = sessions::sessions(kv).await?;
                *self.live.lock() = Arc::new(seen);
                self.look_for_peers(kv).await
            };
            if let Ok(Err(error)) = tokio::time::timeout(MEETING, look).await {
                tracing::debug!(%error, "who calls is not found out");
            }
            // Whoever reaches the port may call.
            tokio::time::sleep(BETWEEN_MEETINGS).await;
        }
    }
}

#[async_trait]
impl Members for Together {
    fn has(&self, who: &Fingerprint) -> bool {
        self.peers.lock().values().flatten().any(|node| node.fingerprint == *who)
    }

    async fn meet(&self, who: &Fingerprint) -> bool {
        let mut looked = self.looked.subscribe();
        // One may be under way that began before it had come.
        for _ in 0..2 {
            self.stranger.notify_one();
            if looked.changed().await.is_err() || self.has(who) {
                break;
            }
        }
        self.has(who)
    }
}

/// Says that this session lives until it does not any more.
pub(crate) async fn beat_loop(
    together: Arc<Together>,
    fence: Arc<Fence>,
    kv: Arc<dyn Kv>,
    before: Arc<dyn BeforeBeat>,
) {
    let mut watch = Watch::default();
    while !fence.is_up() {
        if let Err(error) = together.beat(&*kv, &mut watch, &*before).await {
            together.pulse.failed();
            tracing::warn!(%error, "a beat of this node's session was missed");
        }
        together.rest(&*kv, Duration::from_millis(BEAT_MS)).await;
    }
}

/// Sessions that are in the way of a mount that wants to be alone; each is known to be dead, or
/// `take_over` says that it is to be shut out. Waits until it is known; `Conflict` if one lives.
pub(crate) async fn in_the_way(kv: &dyn Kv, url: &str, take_over: bool) -> Result<Vec<SessionId>> {
    let (mut watch, mut first) = (Watch::default(), None);
    loop {
        let seen = sessions::sessions(kv).await?;
        let silent: Vec<_> = watch.look(&seen).iter().map(|session| session.id).collect();
        if take_over || silent.len() == seen.len() {
            return Ok(seen.iter().map(|session| session.id).collect());
        }
        let beats: HashMap<_, _> = seen.iter().map(|one| (one.id, one.beat)).collect();
        let first = first.get_or_insert_with(|| beats.clone());
        let alive = seen.iter().find(|one| first.get(&one.id).is_none_or(|beat| *beat != one.beat));
        if let Some(session) = alive {
            let text = format!(
                "{url} is mounted with --shared by {}, {} among them: mount it with --shared here, \
                 too, or unmount it there; with --take-over all of them are shut out",
                if seen.len() == 1 { "a node".to_owned() } else { format!("{} nodes", seen.len()) },
                session.node.host
            );
            return Err(FsError::new(ErrorKind::Conflict, text).coded(ErrorCode::VolumeInUse));
        }
        tokio::time::sleep(Duration::from_millis(BEAT_MS)).await;
    }
}

#[cfg(test)]
mod tests {
    use weir_meta::sessions::NodeRow;
    use weir_types::UnixTime;

    use super::*;

    fn session(id: u64, beat: Version) -> Session {
        let text = String::new;
        let (name, host, tier, build) = (text(), text(), text(), text());
        let node = NodeRow { name, host, tier, build, since: UnixTime(0) };
        Session { id: SessionId(id), node, said: Beat::default(), beat }
    }

    #[test]
    fn only_a_beat_that_stays_the_same_is_silence() {
        let mut watch = Watch::default();
        for look in 1..SILENT_LOOKS {
            let seen = [session(1, 7), session(2, u64::from(look))];
            assert!(watch.look(&seen).is_empty(), "look {look}");
        }
        let seen = [session(1, 7), session(2, 99)];
        let silent: Vec<_> = watch.look(&seen).iter().map(|session| session.id).collect();
        assert_eq!(silent, [SessionId(1)]);
        assert!(watch.look(&[session(2, 99)]).is_empty(), "it begins anew");
        assert!(watch.look(&[session(1, 7), session(2, 100)]).is_empty(), "also who comes back");
    }

    /// Nothing has to be done with a beat, or it cannot be.
    struct Nothing(bool);

    #[async_trait]
    impl BeforeBeat for Nothing {
        async fn before_beat(&self) -> Result<()> {
            match self.0 {
                true => Ok(()),
                false => Err(FsError::new(ErrorKind::Retry, "the database is away")),
            }
        }

        async fn after_look(&self, _: &[Session]) -> Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn beats_are_counted_and_who_is_silent_is_counted_once() {
        let kv: Arc<dyn Kv> = Arc::new(weir_meta::kv::MemoryKv::new());
        let node = |build: &str| NodeRow { build: build.to_owned(), ..session(0, 0).node };
        for (id, build) in [(1, "1"), (2, "2")] {
            sessions::join(&*kv, SessionId(id), &node(build), &[]).await.expect("joins");
        }
        let (together, mut watch) = (Together::new(SessionId(1)), Watch::default());
        let beat = Duration::from_millis(BEAT_MS);
        for look in 1..=SILENT_LOOKS {
            tokio::time::sleep(beat).await;
            together.beat(&*kv, &mut watch, &Nothing(true)).await.expect("beats");
            let told = together.status(false);
            let silent = look == SILENT_LOOKS;
            assert_eq!((told.beats, told.since_beat_ms), (look.into(), 0));
            assert_eq!((told.live, told.evicted), if silent { (1, 1) } else { (2, 0) }, "{look}");
            assert_eq!(told.builds.len(), if silent { 1 } else { 2 });
        }
        together.beat(&*kv, &mut watch, &Nothing(true)).await.expect("beats");
        tokio::time::sleep(beat).await;
        together.beat(&*kv, &mut watch, &Nothing(false)).await.expect_err("it is away");
        let told = together.status(false);
        assert_eq!((told.evicted, told.on_duty, told.since_beat_ms), (1, true, BEAT_MS));
        let out = together.status(true);
        assert!(out.shut_out && !out.on_duty, "whoever is shut out does nothing for others");
    }

    #[test]
    fn segments_of_a_session_name_it_and_differ() {
        let together = Together::new(SessionId(0x1234));
        let ids: Vec<_> = [70, 70, 60, 80].map(|ms| together.segment_id(ms)).into();
        assert!(
            ids.is_sorted() && ids.iter().all(|id| made_by(*id) == SessionId(0x1234)),
            "{ids:?}"
        );
        assert_eq!(
            [70, 70, 70, 80],
            [0, 1, 2, 3].map(|at| ids[at].unix_ms()),
            "no clock goes back"
        );
        assert!((1..4).all(|at| ids[at] != ids[at - 1]));
    }

    #[test]
    fn a_segment_is_settled_when_nothing_before_it_is_under_way() {
        let together = Together::new(SessionId(7));
        let [first, second] = [70, 60].map(|ms| together.segment_id(ms));
        let settled = || {
            let said = Beat { tick: 1, settled: together.settled() };
            Settled::of(&[Session { id: SessionId(7), said, ..session(7, 1) }])
        };
        together.segment_done(second);
        assert!(!settled().has(first) && !settled().has(second), "the first may come yet");
        let before = settled();
        together.segment_done(first);
        assert!(settled().has(first) && settled().has(second));
        let third = together.segment_id(60);
        assert!(!settled().has(third) && settled().has(second));
        assert!(!before.has(third), "what was said before is true of it, too");
        together.segment_done(third);
        let other = Together::new(SessionId(8)).segment_id(70);
        assert!(settled().has(other), "whoever made it is not there any more");
    }
}
