//! Identifiers.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number of an inode, unique in its volume and never used twice.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Ino(pub u64);

/// Bits of an inode's number in the volume as it is now. Those of files in snapshots have the
/// snapshot's number above them, and fill 56 bits with it: what a door has to tell files apart.
const LIVE_BITS: u32 = 36;

impl Ino {
    /// The root directory, as FUSE numbers it.
    pub const ROOT: Ino = Ino(1);
    /// Inodes of the volume as it is now are below this.
    pub const LIVE_MAX: u64 = 1 << LIVE_BITS;
    /// Most snapshots that a volume can ever have had.
    pub const SNAPSHOTS_MAX: u32 = (1 << 20) - 2;
    /// The directory of the snapshots.
    pub const SNAPSHOTS: Ino = Ino(((Self::SNAPSHOTS_MAX as u64 + 1) << LIVE_BITS) | 1);

    /// The inode with this number as snapshot `number` has it.
    #[must_use]
    pub fn in_snapshot(self, number: u32) -> Self {
        Self((u64::from(number) << LIVE_BITS) | (self.0 & (Self::LIVE_MAX - 1)))
    }

    /// The number of the snapshot that this is an inode of, and the inode that it is there; `None`
    /// for one of the volume as it is now, and for the directory of the snapshots.
    pub fn of_snapshot(self) -> Option<(u32, Ino)> {
        let number = u32::try_from(self.0 >> LIVE_BITS).ok()?;
        let plain = Ino(self.0 & (Self::LIVE_MAX - 1));
        (1..=Self::SNAPSHOTS_MAX).contains(&number).then_some((number, plain))
    }

    /// Whether this is in a snapshot, or their directory: nobody can change it.
    pub fn is_past(self) -> bool {
        self == Self::SNAPSHOTS || self.of_snapshot().is_some()
    }
}

impl fmt::Display for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Name of a segment: 48 bits of milliseconds since 1970, then 80 random bits, so that names sort
/// by age and never collide. Written as 32 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SegmentId(pub u128);

/// Names a directory tree that has a quota, from 1; never used twice in a volume.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct TreeId(pub u32);

impl fmt::Display for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Names a link, from 1; never used twice in a volume.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct LinkId(pub u32);

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl SegmentId {
    /// The id that stands for no segment: the bytes are in the file's native object.
    pub const NATIVE: SegmentId = SegmentId(0);

    /// The id of a segment made at `unix_ms`, with the low 80 bits of `random`.
    pub fn new(unix_ms: u64, random: u128) -> Self {
        let low = random & ((1 << 80) - 1);
        Self((u128::from(unix_ms & ((1 << 48) - 1)) << 80) | low)
    }

    /// When the segment was made, in milliseconds since 1970.
    pub fn unix_ms(self) -> u64 {
        (self.0 >> 80) as u64
    }

    /// The key below a volume's prefix: `seg/<2 hex>/<32 hex>`. The two digits come from the
    /// random end, so that keys spread over an object store's partitions.
    pub fn object_key(self) -> String {
        format!("seg/{:02x}/{self}", self.0 as u8)
    }

    /// The segment that `key` names, if it is a segment's key (with or without a prefix before).
    pub fn from_object_key(key: &str) -> Option<Self> {
        let (rest, name) = key.rsplit_once('/')?;
        let id: Self = name.parse().ok()?;
        (rest == "seg" || rest.ends_with(&id.object_key()[..6])).then_some(id)
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SegmentId({self})")
    }
}

impl FromStr for SegmentId {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        if s.len() != 32 || s.bytes().any(|b| !matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(format!("`{s}` is not a segment id: 32 lower-case hex digits"));
        }
        u128::from_str_radix(s, 16).map(Self).map_err(|e| e.to_string())
    }
}

/// Name of a volume: a random UUID in its usual text form.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct VolumeId(pub String);

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_of_a_snapshot_is_none_of_the_volume_and_none_of_another_snapshot() {
        for plain in [Ino::ROOT, Ino(77), Ino(Ino::LIVE_MAX - 1)] {
            assert_eq!((plain.of_snapshot(), plain.is_past()), (None, false));
            for number in [1, 2, Ino::SNAPSHOTS_MAX] {
                let past = plain.in_snapshot(number);
                assert_eq!((past.of_snapshot(), past.is_past()), (Some((number, plain)), true));
                assert!(past.0 < 1 << 56, "{past} has room for what a door adds");
                assert_ne!(past, Ino::SNAPSHOTS);
            }
        }
        assert_eq!((Ino::SNAPSHOTS.of_snapshot(), Ino::SNAPSHOTS.is_past()), (None, true));
        const { assert!(Ino::SNAPSHOTS.0 < 1 << 56) };
        assert!(!Ino(u64::MAX).is_past());
    }

    #[test]
    fn segment_key_round_trips_and_sorts_by_age() {
        let old = SegmentId::new(1_000, u128::MAX);
        let new = SegmentId::new(1_001, 0);
        assert!(old < new);
        assert_eq!(old.unix_ms(), 1_000);
        assert_eq!(SegmentId::from_object_key(&old.object_key()), Some(old));
        assert_eq!(SegmentId::from_object_key(&format!("a/b/{}", new.object_key())), Some(new));
        assert_eq!(SegmentId::from_object_key("meta/wal/0001.sst"), None);
        assert_eq!(SegmentId::from_object_key(&format!("seg/zz/{old}")), None);
    }
}
