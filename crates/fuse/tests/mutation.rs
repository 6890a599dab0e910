//! Any bytes at all into the decoders: a bounded run of what the fuzz target does.
//!
//! `WEIR_SEED` repeats a run.

mod entry;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn seeded() -> StdRng {
    let seed = std::env::var("WEIR_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(rand::random::<u64>);
    eprintln!("WEIR_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

#[test]
fn nothing_that_comes_makes_it_panic() {
    let mut random = seeded();
    for _ in 0..5_000 {
        let mut message = vec![0_u8; random.random_range(0..200)];
        random.fill(&mut message[..]);
        entry::fuse(&message);
        if message.len() >= 8 {
            let length = random.random_range(0..=message.len() as u32 + 2);
            message[..4].copy_from_slice(&length.to_ne_bytes());
            message[4..8].copy_from_slice(&random.random_range(0..60_u32).to_ne_bytes());
            entry::fuse(&message);
        }
    }
}

/// Of each kind, with numbers small enough to be sizes of what follows, and names.
#[test]
fn what_is_almost_a_request_is_understood_the_same_either_way() {
    let mut random = seeded();
    for round in 0..10_000_u32 {
        let mut message = vec![0_u8; 40];
        message[4..8].copy_from_slice(&(round % 60).to_ne_bytes());
        for _ in 0..random.random_range(0..14) {
            message.extend(random.random_range(0..24_u32).to_ne_bytes());
        }
        for _ in 0..random.random_range(0..4) {
            let name = vec![b'n'; random.random_range(0..12)];
            message.extend(name);
            message.push(0);
        }
        message.truncate(message.len() - random.random_range(0..3));
        entry::fuse(&message);
    }
}
