//! Rows of actions and pins.

use weir_types::{ErrorKind, FileKind, Ino, Restore, RestoreTier};

use super::{assert_sound, dir, file, kind_of, meta};
use crate::sessions::SessionId;
use crate::{ActionClaim, ActionPortion, ActionRow, ActionRowKind, keys};

fn row() -> ActionRow {
    ActionRow {
        kind: ActionRowKind::Hydrate,
        roots: vec![(Ino(2), "/a".to_owned())],
        recursive: false,
        max_bytes_per_s: None,
        asked_unix_ms: 1,
        end: None,
    }
}

#[tokio::test]
async fn actions_are_kept_by_number_and_a_number_is_given_once() {
    let meta = meta().await;
    for number in [2, 1, 300] {
        meta.add_action(number, &row(), None, None).await.unwrap();
    }
    assert_eq!(kind_of(meta.add_action(2, &row(), None, None).await), ErrorKind::Exists);
    let other = ActionRow { recursive: true, ..row() };
    meta.put_action(300, &other, &[1]).await.unwrap();
    assert_eq!(meta.actions().await.unwrap(), [(2, row()), (300, other)]);
    assert_sound(&meta).await;
}

#[tokio::test]
async fn how_what_is_archived_is_restored_is_kept_with_the_action() {
    let meta = meta().await;
    let restore = Restore { tier: RestoreTier::Bulk, days: 3 };
    meta.add_action(1, &row(), None, Some(&restore)).await.unwrap();
    meta.add_action(2, &row(), None, None).await.unwrap();
    assert_sound(&meta).await;
    let all = meta.claimed_actions().await.unwrap();
    let these = meta.these_actions(&[1, 2]).await.unwrap();
    assert_eq!(all.iter().map(|(_, of)| of.restore).collect::<Vec<_>>(), [Some(restore), None]);
    assert_eq!(these, all.into_iter().map(|(_, of)| Some(of)).collect::<Vec<_>>());
    meta.put_action(2, &row(), &[1]).await.unwrap();
    assert_eq!(meta.kv.scan(&[keys::ACTION_RESTORE], None, 10).await.unwrap(), []);
}

#[tokio::test]
async fn an_action_is_one_nodes_and_ends_once() {
    let meta = meta().await;
    let claim = |session| ActionClaim {
        session: SessionId(session),
        node: "a".to_owned(),
        tier: "/tier".to_owned(),
        runs: false,
        files: (2, 1),
        bytes: (20, 10),
        counted: true,
        refused: 0,
    };
    meta.add_action(1, &row(), Some(&claim(7)), None).await.unwrap();
    meta.add_action(2, &row(), None, None).await.unwrap();
    let seen = meta.claimed_actions().await.unwrap();
    let (one, two) = (seen[0].1.clone(), seen[1].1.clone());
    assert_eq!((one.claim.clone().unwrap().1, two.claim), (claim(7), None));
    let version = one.claim.as_ref().map(|(version, _)| *version);
    let both = [(1, version, claim(8)), (2, None, claim(8))];
    assert!(meta.claim_actions(&both).await.unwrap());
    assert!(!meta.claim_actions(&both).await.unwrap(), "they are another's by now");
    assert!(!meta.end_action(1, &one, &row(), &[]).await.unwrap(), "it is another's");
    let now = meta.these_actions(&[1, 2, 3]).await.unwrap();
    let [Some(one), Some(_), None] = &now[..] else { panic!("{now:?}") };
    assert_eq!(one.claim.as_ref().unwrap().1.session, SessionId(8));
    assert!(meta.end_action(1, one, &row(), &[2]).await.unwrap());
    assert!(!meta.end_action(1, one, &row(), &[]).await.unwrap(), "it has ended");
    let left = meta.claimed_actions().await.unwrap();
    assert_eq!((left.len(), left[0].0, left[0].1.claim.is_some()), (1, 1, true));
    // Of a node that does not come back what is its alone ends; the rest is anybody's.
    let archive = ActionRow { kind: ActionRowKind::Archive, ..row() };
    for (number, row) in [(3, row()), (4, archive)] {
        meta.add_action(number, &row, Some(&claim(9)), None).await.unwrap();
    }
    assert_eq!(meta.lose_actions(SessionId(9), 5, "gone").await.unwrap(), 1);
    meta.unclaim_actions().await.unwrap();
    let left = meta.claimed_actions().await.unwrap();
    let told: Vec<_> = left
        .iter()
        .map(|(number, of)| (*number, of.row.1.end.is_some(), of.claim.is_some()))
        .collect();
    assert_eq!(told[1..], [(3, true, true), (4, false, false)]);
    assert_sound(&meta).await;
}

#[tokio::test]
async fn portions_are_given_to_nodes_and_go_with_their_actions() {
    let meta = meta().await;
    let claim = |session| ActionClaim {
        session: SessionId(session),
        node: "a".to_owned(),
        tier: "/tier".to_owned(),
        runs: false,
        files: (0, 0),
        bytes: (0, 0),
        counted: false,
        refused: 0,
    };
    meta.add_action(1, &row(), Some(&claim(7)), None).await.unwrap();
    let given = async || meta.asked_of_nodes().await.unwrap().portions;
    assert_eq!(given().await, None);
    let nodes = [claim(7), claim(8)];
    assert_eq!(kind_of(meta.add_actions(1, &row(), false, &nodes).await), ErrorKind::Exists);
    assert_eq!(given().await, None, "nothing was given");
    meta.add_actions(2, &row(), false, &nodes).await.unwrap();
    let first = given().await;
    let all = meta.claimed_actions().await.unwrap();
    let portions: Vec<_> =
        all.iter().map(|(_, of)| of.portion.as_ref().map(|of| (of.group, of.nth))).collect();
    assert_eq!(portions, [None, Some((2, 0)), Some((2, 1))]);
    assert_eq!(meta.these_actions(&[1, 3]).await.unwrap()[1], Some(all[2].1.clone()));
    let seen = &all[2].1;
    let full = ActionPortion { full: vec![SessionId(8)], ..seen.portion.clone().unwrap() };
    assert!(meta.give_portion(3, seen, &full, &claim(7)).await.unwrap());
    assert!(!meta.give_portion(3, seen, &full, &claim(9)).await.unwrap(), "it is another's");
    assert_ne!(given().await, first);
    let now = meta.these_actions(&[3]).await.unwrap().pop().flatten().unwrap();
    assert_eq!((now.portion, now.claim.unwrap().1), (Some(full), claim(7)));
    assert_sound(&meta).await;
    meta.put_action(2, &row(), &[3]).await.unwrap();
    assert_eq!(meta.kv.scan(&[keys::ACTION_PORTION], None, 10).await.unwrap().len(), 1);
    assert_sound(&meta).await;
}

#[tokio::test]
async fn pins_are_of_inodes_that_are_there_and_go_with_them() {
    let meta = meta().await;
    let mut inos = Vec::new();
    for i in 0..1_500 {
        inos.push(file(&meta, Ino::ROOT, &format!("f{i}")).await);
    }
    let wanted: Vec<_> = inos.iter().copied().chain([Ino(99_999)]).collect();
    assert_eq!(meta.set_pins(&wanted, true).await.unwrap(), inos);
    assert_eq!(meta.pins().await.unwrap(), inos);
    let before = meta.asked_of_nodes().await.unwrap();
    assert_eq!(meta.set_pins(&inos[..1_000], false).await.unwrap().len(), 1_000);
    assert_eq!(meta.pins().await.unwrap(), inos[1_000..]);
    assert_ne!(meta.asked_of_nodes().await.unwrap(), before);
    meta.unlink(Ino::ROOT, b"f1499").await.unwrap();
    meta.purge(inos[1_499]).await.unwrap();
    assert_eq!(meta.pins().await.unwrap(), inos[1_000..1_499]);
    assert_sound(&meta).await;
}

#[tokio::test]
async fn what_lies_below_is_told_by_parents() {
    let meta = meta().await;
    let outer = dir(&meta, Ino::ROOT, "outer").await;
    let inner = dir(&meta, outer, "inner").await;
    let inside = file(&meta, inner, "f").await;
    let beside = meta.create(Ino::ROOT, b"g", super::new(FileKind::Regular)).await.unwrap().ino;
    for (ino, root, lies) in [
        (inside, outer, true),
        (inside, inner, true),
        (inside, inside, true),
        (inside, Ino::ROOT, true),
        (beside, outer, false),
        (outer, inner, false),
    ] {
        assert_eq!(meta.lies_below(ino, &[Ino(77), root]).await.unwrap(), lies, "{ino} {root}");
    }
    assert_eq!(kind_of(meta.lies_below(Ino(500), &[outer]).await), ErrorKind::NotFound);
}
