//! Commits by chance, beside a sorted map.

use std::collections::BTreeMap;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::engine::{Engine, dump, key};
use crate::kv::{Check, Commit, Key, Kv, Outcome, Version, Versioned};

/// A commit over few keys, so that they meet often.
pub(crate) fn random_commit(rng: &mut StdRng, model: &BTreeMap<Key, Versioned>) -> Commit {
    let mut commit = Commit::default();
    let count = rng.random_range(1..6);
    let mut free: Vec<_> = (0..12).map(|n| key(&format!("k{n:02}"))).collect();
    for _ in 0..count {
        let key = free.swap_remove(rng.random_range(0..free.len()));
        match rng.random_range(0..4) {
            0 => commit.deletes.push(key),
            1 => commit.adds.push(([b"n", &key[..]].concat(), rng.random_range(-9..9))),
            _ => {
                let value = vec![rng.random_range(0..255); rng.random_range(0..300)];
                commit.puts.push((key, value.into()));
            }
        }
    }
    for _ in 0..rng.random_range(0..3) {
        let key = key(&format!("k{:02}", rng.random_range(0..12)));
        let right = rng.random_range(0..8) > 0;
        commit.checks.push(match (model.get(&key), right) {
            (Some(have), true) => Check::Version(key, have.version),
            (None, false) => Check::Version(key, 1),
            _ => Check::Absent(key),
        });
    }
    commit
}

/// What the contract says the commit does.
pub(crate) fn apply_to_model(
    model: &mut BTreeMap<Key, Versioned>,
    newest: &mut Version,
    commit: Commit,
) -> bool {
    let holds = |check: &Check| match check {
        Check::Absent(key) => !model.contains_key(key),
        Check::Version(key, version) => model.get(key).map(|v| v.version) == Some(*version),
    };
    if !commit.checks.iter().all(holds) {
        return false;
    }
    *newest += 1;
    let version = *newest;
    for (key, value) in commit.puts {
        model.insert(key, Versioned { version, value });
    }
    for key in commit.deletes {
        model.remove(&key);
    }
    for (key, add) in commit.adds {
        let have = model.get(&key).map_or([0; 8], |v| v.value.as_ref().try_into().unwrap());
        let sum = i64::from_le_bytes(have) + add;
        let value = Bytes::copy_from_slice(&sum.to_le_bytes());
        model.insert(key, Versioned { version, value });
    }
    true
}

pub(crate) fn seeded(test: &str) -> StdRng {
    let seed =
        std::env::var("WEIR_TEST_SEED").map_or_else(|_| rand::random(), |s| s.parse().unwrap());
    eprintln!("{test}: WEIR_TEST_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

pub(crate) async fn it_agrees_with_a_sorted_map<E: Engine>() {
    let mut rng = seeded("it_agrees_with_a_sorted_map");
    let (_engine, kv) = E::fresh(None).await;
    let (mut model, mut newest) = (BTreeMap::new(), 0);
    for _ in 0..400 {
        let commit = random_commit(&mut rng, &model);
        let outcome = kv.commit(commit.clone()).await.unwrap();
        if let (false, Outcome::Applied(version)) = (E::COUNTS, outcome) {
            assert!(version > newest, "{version} after {newest}");
            newest = version - 1;
        }
        let applied = apply_to_model(&mut model, &mut newest, commit.clone());
        let expect = if applied { Outcome::Applied(newest) } else { Outcome::Conflict };
        assert_eq!(outcome, expect, "{commit:?}");
        if rng.random_range(0..20) == 0 {
            kv.sync().await.unwrap();
            assert_eq!(kv.durable(), newest);
        }
    }
    let mut found = dump(&kv).await;
    for (key, have) in &mut found {
        let counter = !E::COUNTS && key.starts_with(b"n");
        have.version = if counter { model[key].version } else { have.version };
    }
    assert_eq!(found, model.into_iter().collect::<Vec<_>>());
}
