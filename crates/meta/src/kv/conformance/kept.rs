//! States that are kept.

use weir_types::ErrorKind;

use super::engine::{Engine, dump, get, key, put};
use crate::kv::{Commit, Kv};

/// What only engines can that keep states.
pub(crate) async fn kept_states_stay_as_they_were<E: Engine>() {
    let (_engine, kv) = E::fresh(None).await;
    let checkpoints = kv.checkpoints().unwrap();
    assert_eq!(checkpoints.kept().await.unwrap(), []);
    kv.commit(put("a", "1")).await.unwrap();
    kv.commit(Commit { adds: vec![(key("n"), 3)], ..Commit::default() }).await.unwrap();
    let before = dump(&kv).await;
    let first = checkpoints.keep("first").await.unwrap();
    kv.commit(put("a", "2")).await.unwrap();
    kv.commit(Commit { deletes: vec![key("n")], ..Commit::default() }).await.unwrap();
    let second = checkpoints.keep("second").await.unwrap();
    let then = dump(&kv).await;
    kv.commit(put("b", "1")).await.unwrap();
    kv.sync().await.unwrap();
    let mut kept = checkpoints.kept().await.unwrap();
    kept.sort_unstable_by(|one, other| one.1.cmp(&other.1));
    assert_eq!(kept, [(first, "first".to_owned()), (second, "second".to_owned())]);
    let at_first = checkpoints.at(first).await.unwrap();
    assert_eq!((dump(&*at_first).await, get(&*at_first, "b").await), (before, None));
    assert_eq!(dump(&*checkpoints.at(second).await.unwrap()).await, then);
    checkpoints.release(first).await.unwrap();
    checkpoints.release(first).await.unwrap();
    assert_eq!(checkpoints.at(first).await.err().unwrap().kind(), ErrorKind::NotFound);
    assert_eq!(dump(&*checkpoints.at(second).await.unwrap()).await, then);
    assert_eq!(checkpoints.kept().await.unwrap(), [(second, "second".to_owned())]);
}
