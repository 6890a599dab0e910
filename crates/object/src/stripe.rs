//! The buckets over which a volume's segments are spread.

use weir_types::{ErrorKind, FsError, Result, SegmentId};

use crate::Bucket;

/// One bucket or more; the first is the volume's own.
#[derive(Clone)]
pub struct StripeSet {
    buckets: Vec<Bucket>,
}

impl StripeSet {
    /// A stripe set over `buckets`, in the order of `volume.json`.
    ///
    /// # Errors
    /// `Invalid` when there is none.
    pub fn new(buckets: Vec<Bucket>) -> Result<Self> {
        if buckets.is_empty() {
            let why = "the stripe set names no bucket: name at least the volume's own";
            return Err(FsError::new(ErrorKind::Invalid, why));
        }
        Ok(Self { buckets })
    }

    /// The bucket that holds segment `id`. For a given number of buckets always the same.
    pub fn bucket_for(&self, id: SegmentId) -> &Bucket {
        // The random end of the id without the eight bits that already spread it over keys.
        let spread = (id.0 >> 8) as u64;
        &self.buckets[(spread % self.buckets.len() as u64) as usize]
    }

    /// The volume's own bucket, which also holds `volume.json` and the metadata.
    pub fn first(&self) -> &Bucket {
        &self.buckets[0]
    }

    /// All buckets, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Bucket> {
        self.buckets.iter()
    }
}
