//! Removed files that sessions have open.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_types::{CHUNK_BYTES, Ino, SegmentId, UnixTime};

use super::race::jumbled;
use super::{assert_sound, clock, file, meta, record, write};
use crate::sessions::SessionId;
use crate::{Meta, check, forget_holds, keys};

const ONE: SessionId = SessionId(1);
const TWO: SessionId = SessionId(2);

fn live(sessions: &[SessionId]) -> BTreeSet<SessionId> {
    sessions.iter().copied().collect()
}

/// A file with bytes and no name.
async fn orphan(meta: &Meta, name: &str, segment: u128) -> Ino {
    let ino = file(meta, Ino::ROOT, name).await;
    write(meta, ino, 0, record(segment, 80, 100)).await;
    meta.unlink(Ino::ROOT, name.as_bytes()).await.unwrap();
    ino
}

#[tokio::test]
async fn what_is_held_stays_until_nobody_who_lives_holds_it() {
    let meta = meta().await;
    let (named, free) = (file(&meta, Ino::ROOT, "n").await, orphan(&meta, "a", 1).await);
    let held = orphan(&meta, "b", 2).await;
    assert_eq!(meta.hold(ONE, &[named, held, Ino(999)]).await.unwrap(), [held]);
    assert_eq!(meta.hold(ONE, &[held]).await.unwrap(), [held], "again");
    assert_eq!(meta.hold(TWO, &[held]).await.unwrap(), [held]);
    assert_sound(&meta).await;
    let both = [(held, ONE), (held, TWO)];
    assert_eq!(meta.holds(named, held).await.unwrap(), both);
    assert_eq!(meta.holds(held, held).await.unwrap(), both);
    assert_eq!(meta.holds(Ino(1), free).await.unwrap(), []);
    for (ino, whole) in [(named, true), (free, true), (held, true), (Ino(999), false)] {
        assert_eq!(meta.is_whole(ino).await.unwrap(), whole, "{ino}");
    }

    // One that has a name again is no matter of a purge.
    let all = [named, free, held, Ino(999)];
    meta.purge_unheld(&all, &live(&[ONE, TWO])).await.unwrap();
    assert_eq!(meta.orphans(None, 9).await.unwrap(), [held]);
    meta.let_go(ONE, &[held, free]).await.unwrap();
    meta.purge_unheld(&all, &live(&[ONE, TWO])).await.unwrap();
    assert!(!meta.chunks(held, 0..1).await.unwrap().list.is_empty());
    assert_sound(&meta).await;

    // The other one died.
    meta.purge_unheld(&all, &live(&[ONE])).await.unwrap();
    assert_eq!(meta.orphans(None, 9).await.unwrap(), []);
    assert_eq!(meta.holds(Ino(1), Ino(u64::MAX)).await.unwrap(), []);
    assert_eq!(meta.hold(ONE, &[held]).await.unwrap(), [], "it is gone");
    assert_eq!(meta.inode(named).await.unwrap().nlink, 1);
    assert_sound(&meta).await;
}

#[tokio::test]
async fn what_is_being_purged_is_not_held_any_more() {
    let meta = jumbled(1).await;
    let ino = file(&meta, Ino::ROOT, "a").await;
    for chunk in 0..2_100 {
        write(&meta, ino, chunk * CHUNK_BYTES, record(1, 80, 10)).await;
    }
    meta.unlink(Ino::ROOT, b"a").await.unwrap();
    let other = Meta::open(Arc::clone(meta.kv()), clock()).await.unwrap();
    let (lives, inos) = (live(&[ONE]), [ino]);
    let (purged, held) = tokio::join!(meta.purge_unheld(&inos, &lives), async {
        while meta.chunks(ino, 0..1).await.unwrap().list.len() == 1 {
            tokio::task::yield_now().await;
        }
        assert!(!other.is_whole(ino).await.unwrap(), "what was not found is no hole");
        other.hold(ONE, &[ino]).await
    });
    purged.unwrap();
    assert_eq!(held.unwrap(), [], "some of its bytes are gone");
    assert_sound(&meta).await;
}

#[tokio::test]
async fn holds_that_are_many_are_found_and_forgotten() {
    let meta = meta().await;
    let mut inos = Vec::new();
    for at in 0..520 {
        inos.push(orphan(&meta, &format!("f{at}"), at + 1).await);
    }
    for session in [ONE, TWO] {
        assert_eq!(meta.hold(session, &inos).await.unwrap().len(), 520);
    }
    assert_eq!(meta.holds(Ino(1), inos[519]).await.unwrap().len(), 1_040);
    assert_eq!(meta.holds(inos[3], inos[511]).await.unwrap().len(), 2 * 509);
    meta.purge_unheld(&inos, &live(&[TWO])).await.unwrap();
    assert_eq!(meta.orphans(None, 1_000).await.unwrap().len(), 520);
    forget_holds(&**meta.kv()).await.unwrap();
    assert_eq!(meta.holds(Ino(1), inos[519]).await.unwrap(), []);
    meta.purge_all(&inos).await.unwrap();
    assert_sound(&meta).await;
}

#[tokio::test]
async fn a_hold_and_a_purge_never_both_go_through() {
    let (mut held_first, mut purged_first) = (0, 0);
    for seed in 0..200 {
        let meta = jumbled(seed).await;
        let other = Meta::open(Arc::clone(meta.kv()), clock()).await.unwrap();
        let inos = [orphan(&meta, "a", 1).await, orphan(&meta, "b", 2).await];
        let both = live(&[ONE, TWO]);
        let (held, purged, second) = tokio::join!(
            other.hold(TWO, &inos[1..]),
            meta.purge_unheld(&inos, &both),
            other.purge_unheld(&inos, &both),
        );
        purged.unwrap();
        second.unwrap();
        let held = held.unwrap();
        assert_eq!(meta.orphans(None, 9).await.unwrap(), held);
        let there = !meta.chunks(inos[1], 0..1).await.unwrap().list.is_empty();
        assert_eq!(there, !held.is_empty(), "all of it or nothing");
        held_first += u32::from(there);
        purged_first += u32::from(!there);
        assert_sound(&meta).await;
    }
    assert!(held_first > 0 && purged_first > 0, "{held_first} {purged_first}");
}

#[tokio::test]
async fn a_hold_of_nothing_is_told() {
    let meta = meta().await;
    let ino = orphan(&meta, "a", 1).await;
    meta.hold(ONE, &[ino]).await.unwrap();
    meta.purge(ino).await.unwrap();
    let problems = check(&**meta.kv()).await.unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].0.contains("is not there"), "{problems:?}");
    assert!(meta.kv().scan(&[keys::HOLD], None, 9).await.unwrap().len() == 1);
}

/// One node flushes, cuts and removes while two others pack the same records anew.
#[tokio::test]
async fn packing_anew_beside_other_nodes_loses_nothing() {
    const NOW: UnixTime = UnixTime(70);
    for seed in 0..300 {
        let meta = jumbled(seed).await;
        let open = async || Meta::open(Arc::clone(meta.kv()), clock()).await.unwrap();
        let (second, third) = (open().await, open().await);
        let (a, b) = (file(&meta, Ino::ROOT, "a").await, file(&meta, Ino::ROOT, "b").await);
        write(&meta, a, 0, record(1, 0, 100)).await;
        write(&meta, b, 0, record(1, 200, 100)).await;
        let pack = async |meta: &Meta, into: u128| {
            for (ino, at) in [(a, 0), (b, 200)] {
                let moves = [(record(1, at, 100), record(into, at, 100))];
                let info = [(SegmentId(into), super::info(200))];
                meta.relocate(ino, 0, &moves, &info).await.unwrap();
            }
            meta.forget_segment(SegmentId(1), meta.snapshots_seen().await.unwrap()).await.unwrap();
        };
        let changes = async {
            write(&meta, a, 50, record(2, 0, 100)).await;
            meta.truncate(b, 40, NOW).await.unwrap();
            write(&meta, b, 40, record(3, 0, 20)).await;
        };
        tokio::join!(pack(&second, 8), changes, pack(&third, 9));
        // What each byte is of: a record, and where in it.
        let bytes = async |ino: Ino| {
            let chunks = meta.chunks(ino, 0..1).await.unwrap().list;
            let extents = chunks.into_iter().flat_map(|(_, extents)| extents);
            extents.map(|e| (e.start, e.len, e.record.segment.0, e.skip)).collect::<Vec<_>>()
        };
        let packed = |segment: u128| [8, 9].contains(&segment);
        let (of_a, of_b) = (bytes(a).await, bytes(b).await);
        assert!(matches!(of_a[..], [(0, 50, s, 0), (50, 100, 2, 0)] if packed(s)), "{of_a:?}");
        assert!(matches!(of_b[..], [(0, 40, s, 0), (40, 20, 3, 0)] if packed(s)), "{of_b:?}");
        assert_sound(&meta).await;
    }
}
