//! The buckets over which a volume's segments are spread, and what opens them.

use weir_keys::VolumeKeys;
use weir_types::{ErrorKind, FsError, Result, SegmentId};

use crate::Bucket;

/// One bucket or more; the first is the volume's own.
#[derive(Clone)]
pub struct StripeSet {
    buckets: Vec<Bucket>,
    keys: VolumeKeys,
    origins: Vec<OriginSet>,
}

/// The buckets of a volume that another one begins in: what that shares of it is never changed there.
#[derive(Clone)]
pub struct OriginSet {
    /// Segments with this id and smaller ones are here, and not in an older one.
    pub newest: SegmentId,
    /// Its buckets, in the order of its `volume.json`.
    pub buckets: Vec<Bucket>,
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
        Ok(Self { buckets, keys: VolumeKeys::none(), origins: Vec::new() })
    }

    /// The same, of a volume with these keys.
    #[must_use]
    pub fn opened_by(self, keys: VolumeKeys) -> Self {
        Self { keys, ..self }
    }

    /// The same, of a volume that begins in others, the oldest first.
    #[must_use]
    pub fn beginning_in(self, origins: Vec<OriginSet>) -> Self {
        Self { origins, ..self }
    }

    /// Volumes that this one begins in, the oldest first.
    pub fn origins(&self) -> &[OriginSet] {
        &self.origins
    }

    /// The largest id of a segment of another volume: the volume's own have larger ones.
    pub fn newest_shared(&self) -> Option<SegmentId> {
        self.origins.last().map(|origin| origin.newest)
    }

    /// Whether segment `id` is the volume's own, to be removed when nothing uses it.
    pub fn is_own(&self, id: SegmentId) -> bool {
        self.newest_shared().is_none_or(|newest| id > newest)
    }

    /// The volume's keys; none where it is not encrypted.
    pub fn keys(&self) -> &VolumeKeys {
        &self.keys
    }

    /// The bucket that holds segment `id`. For a given number of buckets always the same.
    pub fn bucket_for(&self, id: SegmentId) -> &Bucket {
        let origin = self.origins.iter().find(|origin| id <= origin.newest);
        let buckets = origin.map_or(&self.buckets, |origin| &origin.buckets);
        // The random end of the id without the eight bits that already spread it over keys.
        let spread = (id.0 >> 8) as u64;
        &buckets[(spread % buckets.len() as u64) as usize]
    }

    /// The volume's own bucket, which also holds `volume.json` and the metadata.
    pub fn first(&self) -> &Bucket {
        &self.buckets[0]
    }

    /// All buckets of its own, in order.
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

    #[test]
    fn what_a_volume_shares_is_where_it_was_made() {
        let bucket = |name: &str| {
            let url = format!("memory://{name}").parse().expect("url");
            Bucket::connect(&url, &ConnectOptions::default(), &Meter::new()).expect("connect")
        };
        let origin =
            |ms, name| OriginSet { newest: SegmentId::new(ms, 7), buckets: vec![bucket(name)] };
        let set = StripeSet::new(vec![bucket("own")]).expect("set");
        assert!(set.is_own(SegmentId::new(1, 1)));
        let set = set.beginning_in(vec![origin(10, "first"), origin(20, "second")]);
        for (ms, low, name) in [
            (1, 0, "first"),
            (10, 7, "first"),
            (10, 8, "second"),
            (20, 7, "second"),
            (20, 8, "own"),
            (30, 0, "own"),
        ] {
            let id = SegmentId::new(ms, low);
            assert_eq!(
                set.bucket_for(id).url().to_string(),
                format!("memory://{name}"),
                "{ms} {low}"
            );
            assert_eq!(set.is_own(id), name == "own");
        }
        assert_eq!(set.iter().count(), 1);
    }
}
