//! Small files of a hydration that are gathered, to be sorted by their place.

use weir_types::{CHUNK_BYTES, Result};

use super::found::Found;

/// Files, and bytes of them, that are gathered.
const BATCH_FILES: usize = 32_768;
const BATCH_BYTES: u64 = 2 << 30;

/// Small files to be sorted by their place.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) files: Vec<Found>,
    pub(super) bytes: u64,
}

impl Batch {
    /// Takes a file in, or gives it back if it is not small, or not in segments as a whole.
    pub(super) fn push(&mut self, file: Found) -> Result<(), Found> {
        let is_small = (1..=CHUNK_BYTES).contains(&file.size);
        if !is_small || file.remote_bytes < file.size || file.is_native {
            return Err(file);
        }
        self.bytes += file.size;
        self.files.push(file);
        Ok(())
    }

    pub(super) fn is_full(&self) -> bool {
        self.files.len() >= BATCH_FILES || self.bytes >= BATCH_BYTES
    }
}
