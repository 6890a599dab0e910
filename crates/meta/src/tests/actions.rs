//! Rows of actions and pins.

use weir_types::{ErrorKind, FileKind, Ino};

use super::{assert_sound, dir, file, kind_of, meta};
use crate::{ActionRow, ActionRowKind};

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
        meta.add_action(number, &row()).await.unwrap();
    }
    assert_eq!(kind_of(meta.add_action(2, &row()).await), ErrorKind::Exists);
    let other = ActionRow { recursive: true, ..row() };
    meta.put_action(300, &other, &[1]).await.unwrap();
    assert_eq!(meta.actions().await.unwrap(), [(2, row()), (300, other)]);
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
    assert_eq!(meta.set_pins(&inos[..1_000], false).await.unwrap().len(), 1_000);
    assert_eq!(meta.pins().await.unwrap(), inos[1_000..]);
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
