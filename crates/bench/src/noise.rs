//! Bytes to be written that neither compression nor deduplication makes fewer.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Every block of this size is different from all others of the same seed: it is the smallest that
/// storage deduplicates by.
const BLOCK_BYTES: usize = 4096;

/// A buffer that is random, and made new block by block at next to no cost.
pub struct Noise {
    buffer: Vec<u8>,
    blocks: u64,
}

impl Noise {
    /// A buffer of so many bytes; the same seed gives the same bytes.
    pub fn new(seed: u64, bytes: usize) -> Self {
        let mut buffer = vec![0; bytes];
        StdRng::seed_from_u64(seed).fill(&mut buffer[..]);
        Self { buffer, blocks: 0 }
    }

    /// The next bytes, as many as the buffer has: no block of them was there before.
    pub fn refreshed(&mut self) -> &[u8] {
        for block in self.buffer.chunks_mut(BLOCK_BYTES) {
            self.blocks += 1;
            let stamp = self.blocks.to_le_bytes();
            let bytes = block.len().min(stamp.len());
            block[..bytes].copy_from_slice(&stamp[..bytes]);
        }
        &self.buffer
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_block_comes_twice_and_the_seed_says_all() {
        let length = 5 * BLOCK_BYTES + 100;
        let (mut one, mut same) = (Noise::new(7, length), Noise::new(7, length));
        let mut other = Noise::new(8, length);
        let mut seen = HashSet::new();
        for _ in 0..3 {
            let bytes = one.refreshed();
            assert_eq!(bytes, same.refreshed());
            assert_ne!(bytes, other.refreshed());
            assert!(bytes.chunks(BLOCK_BYTES).all(|block| seen.insert(block.to_owned())));
        }
    }
}
