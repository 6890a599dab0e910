//! States that are kept, by chance: each stays as the map was.

use rand::RngExt;
use rand::rngs::StdRng;

use super::engine::{Engine, dump, key};
use super::random::seeded;
use crate::kv::{CheckpointId, Commit, Key, Kv, Versioned};

/// A commit that checks nothing, over few keys: values, counters, what is raised, and one kind in the place
/// of another.
fn commit_of(rng: &mut StdRng) -> Commit {
    let mut commit = Commit::default();
    let mut free: Vec<_> = ["k", "n", "r"]
        .iter()
        .flat_map(|kind| (0..5).map(move |n| key(&format!("{kind}{n}"))))
        .collect();
    for _ in 0..rng.random_range(1..6) {
        let key = free.swap_remove(rng.random_range(0..free.len()));
        let number = rng.random_range(-9..9_i64);
        match (key[0], rng.random_range(0..8)) {
            (_, 0) => commit.deletes.push(key),
            (b'n', 1) => commit.puts.push((key, number.to_le_bytes().to_vec().into())),
            (b'n', _) => commit.adds.push((key, number)),
            (b'r', 1..5) => commit.raises.push((key, vec![rng.random_range(0..255); 3].into())),
            _ => commit
                .puts
                .push((key, vec![rng.random_range(0..255); rng.random_range(0..300)].into())),
        }
    }
    commit
}

/// What only engines can that keep states.
pub(crate) async fn kept_states_stay_by_chance<E: Engine>() {
    let mut rng = seeded("kept_states_stay_by_chance");
    let (_engine, kv) = E::fresh(None).await;
    let checkpoints = kv.checkpoints().unwrap();
    let mut kept: Vec<(CheckpointId, Vec<(Key, Versioned)>)> = Vec::new();
    for round in 0..60 {
        for _ in 0..rng.random_range(1..5) {
            // Several at once, so that an engine which has several ways to commit takes them.
            let commits: Vec<_> =
                (0..rng.random_range(1..5)).map(|_| kv.commit(commit_of(&mut rng))).collect();
            for done in futures::future::join_all(commits).await {
                done.unwrap();
            }
        }
        match rng.random_range(0..3) {
            0 if !kept.is_empty() => {
                let (id, _) = kept.swap_remove(rng.random_range(0..kept.len()));
                checkpoints.release(id).await.unwrap();
            }
            1 => kept.push((checkpoints.keep(&round.to_string()).await.unwrap(), dump(&kv).await)),
            _ => {}
        }
        for (id, then) in &kept {
            let state = checkpoints.at(*id).await.unwrap();
            assert_eq!(dump(&*state).await, *then, "round {round}");
            let keys: Vec<_> = then.iter().map(|(key, _)| key.clone()).collect();
            let values: Vec<_> = then.iter().map(|(_, value)| Some(value.clone())).collect();
            assert_eq!(state.get_many(&keys).await.unwrap(), values, "round {round}");
        }
    }
}
