//! The fuzz targets' entry points over a bounded number of seeded mutations, so that every test
//! run covers them without a fuzzer.

mod common;
mod entry;

use common::{CODECS, known_records, pack, pack_sealed};
use entry::ID;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use weir_keys::VolumeKeys;

const MUTATIONS: usize = 20_000;

/// Changes `bytes` a little: bits, bytes, telling numbers, cuts, repeats and insertions.
fn mutate(rng: &mut StdRng, bytes: &mut Vec<u8>) {
    for _ in 0..=rng.random_range(0..4) {
        if bytes.is_empty() {
            bytes.push(rng.random());
        }
        let at = rng.random_range(0..bytes.len());
        match rng.random_range(0..6) {
            0 => bytes[at] ^= 1 << rng.random_range(0..8),
            1 => bytes[at] = rng.random(),
            2 => {
                let telling = [0, 1, 39, 40, 1 << 20, (1 << 20) + 1, u32::MAX - 40, u32::MAX];
                let number = telling[rng.random_range(0..telling.len())].to_le_bytes();
                let end = (at + 4).min(bytes.len());
                bytes[at..end].copy_from_slice(&number[..end - at]);
            }
            3 => bytes.truncate(at),
            4 => {
                let piece = bytes[at..(at + 50).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes.insert(at, rng.random()),
        }
    }
}

#[test]
fn no_mutation_breaks_a_decoder() {
    let seed = std::env::var("WEIR_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(20_261_121);
    eprintln!("seed {seed}; another with WEIR_SEED=n");
    let keys = VolumeKeys::by_chance().expect("random bytes");
    let plain = CODECS.map(|(codec, _)| pack(ID, codec, &known_records()));
    let sealed = CODECS.map(|(codec, _)| pack_sealed(&keys, ID, codec, &known_records()));
    let segments: Vec<_> = plain.into_iter().chain(sealed).collect();
    let mut rng = StdRng::seed_from_u64(seed);
    for _ in 0..MUTATIONS {
        let sealed = &segments[rng.random_range(0..segments.len())];
        let which = rng.random_range(0..sealed.records.len());
        let record = sealed.records[which].record;
        let start = record.position as usize;
        let mut stored = sealed.bytes[start..start + record.stored_bytes as usize].to_vec();
        mutate(&mut rng, &mut stored);
        entry::record(&stored);
        entry::sealed_record(&keys, &stored, &known_records()[which].1);
        let mut object = sealed.bytes.to_vec();
        mutate(&mut rng, &mut object);
        entry::index(&object);
        entry::scan(&object);
    }
}
