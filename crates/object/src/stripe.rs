//! The buckets over which a volume's segments are spread, and what opens them.

use weir_keys::VolumeKeys;
use weir_types::{ErrorKind, FsError, Result, SegmentId};

use crate::Bucket;

/// One bucket or more; the first is the volume's own.
#[derive(Clone)]
pub struct StripeSet {
    buckets: Vec<Bucket>,
    keys: VolumeKeys,
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
        Ok(Self { buckets, keys: VolumeKeys::none() })
    }

    /// The same, of a volume with these keys.
    #[must_use]
    pub fn opened_by(self, keys: VolumeKeys) -> Self {
        Self { keys, ..self }
    }

    /// The volume's keys; none where it is not encrypted.
    pub fn keys(&self) -> &VolumeKeys {
        &self.keys
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConnectOptions, Meter};

    #[test]
    fn segments_spread_and_stay() {
        let bucket = |n| {
            let url = format!("memory://stripe-{n}").parse().expect("url");
            Bucket::connect(&url, &ConnectOptions::default(), &Meter::new()).expect("connect")
        };
        let set = StripeSet::new((0..3).map(bucket).collect()).expect("set");
        let mut counts = [0; 3];
        for n in 0..3_000_u128 {
            // Ids of the same millisecond, random otherwise.
            let id = SegmentId::new(1, n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
            let url = set.bucket_for(id).url();
            assert_eq!(url, set.clone().bucket_for(id).url());
            let at = set.iter().position(|bucket| bucket.url() == url).expect("one of them");
            counts[at] += 1;
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
        assert_eq!(set.first().url().to_string(), "memory://stripe-0");
        assert!(StripeSet::new(Vec::new()).is_err());
    }
}
