//! Scrubbing the volume.

use weir_types::Result;

use crate::engine::Engine;
use crate::services::scrub::ScrubView;
use crate::volume::boxed::{Boxed, boxed};

impl Engine {
    /// How far the scrub is, or how the last one ended. One read.
    pub fn scrub(&self) -> Boxed<'_, Result<ScrubView>> {
        boxed(self.scrubber.view())
    }

    /// Begins to read every byte that the volume has in its buckets, at this rate at most, or gives the scrub that runs
    /// another rate. A GET for each segment, and the reading of all extents where one is damaged. It goes on after a restart.
    /// `ReadOnly` where the volume is.
    pub fn begin_scrub(&self, max_bytes_per_s: Option<u64>) -> Boxed<'_, Result<ScrubView>> {
        boxed(self.scrubber.begin(max_bytes_per_s))
    }

    /// Ends it, if one runs. A read and a commit.
    pub fn end_scrub(&self) -> Boxed<'_, Result<ScrubView>> {
        boxed(self.scrubber.end())
    }
}
