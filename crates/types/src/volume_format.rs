//! What a volume is: fixed when it is made, but for where its metadata is and what opens its keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Bytes, CHUNK_BYTES, Codec, Encryption, SegmentId, VolumeId};

/// The newest volume format that this build reads and writes.
pub const FORMAT_VERSION: u32 = 3;
/// The format of volumes whose metadata is in their own bucket: the first one, unchanged.
const IN_BUCKET: u32 = 1;
/// The format of volumes whose metadata is in a database.
const IN_DATABASE: u32 = 2;
/// The format of volumes that are encrypted, or begin in another one.
const SEALED_OR_CLONED: u32 = 3;

/// What `volume.json` says: fixed when the volume is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeFormat {
    /// Version of the whole on-disk format; see docs/format.md.
    pub format_version: u32,
    /// The volume's name among all volumes.
    pub id: VolumeId,
    /// Bucket URLs over which segments are spread; the first is the volume's own URL.
    pub stripe_set: Vec<String>,
    /// Largest record in bytes; at most 1 MiB.
    pub record_bytes: u64,
    /// Bytes at which a segment is full and leaves.
    pub segment_bytes: u64,
    /// How records are compressed.
    pub codec: Codec,
    /// When the volume was made, in seconds since 1970.
    pub created_unix_s: i64,
    /// The database that has the metadata: a URL without a password. In format version 2, and required
    /// there; else the metadata is in the first bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<String>,
    /// What opens the volume's keys; without it the volume is not encrypted. In format version 3 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
    /// Volumes whose segments it shares, the oldest first. In format version 3 only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<Origin>,
}

/// A volume that another one begins in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Its bucket URLs, as they were reached then.
    pub stripe_set: Vec<String>,
    /// Its name.
    pub volume: VolumeId,
    /// The snapshot of it that must be kept.
    pub snapshot: String,
    /// Segments with this id and smaller ones are there, and not in an older origin: 32 hexadecimal digits.
    pub newest_segment: String,
}

impl Origin {
    /// The largest id of a segment that is there; `None` if it is no id.
    pub fn newest(&self) -> Option<SegmentId> {
        self.newest_segment.parse().ok()
    }
}

impl VolumeFormat {
    /// The same volume with its metadata elsewhere; `None` is its bucket.
    #[must_use]
    pub fn with_metadata(self, metadata: Option<String>) -> Self {
        Self { metadata, ..self }.versioned()
    }

    /// The same volume with its keys opened by other secrets; `None` is without keys.
    #[must_use]
    pub fn with_encryption(self, encryption: Option<Encryption>) -> Self {
        Self { encryption, ..self }.versioned()
    }

    /// The same volume, which begins in another one.
    #[must_use]
    pub fn with_origin(mut self, origin: Origin) -> Self {
        self.origins.push(origin);
        self.versioned()
    }

    fn versioned(self) -> Self {
        Self { format_version: self.least_version(), ..self }
    }

    /// The oldest format that can say it.
    fn least_version(&self) -> u32 {
        if self.encryption.is_some() || !self.origins.is_empty() {
            SEALED_OR_CLONED
        } else if self.metadata.is_some() {
            IN_DATABASE
        } else {
            IN_BUCKET
        }
    }

    /// All that is wrong with these values, one sentence each; empty when they are fine.
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        let record = self.record_bytes;
        if !(4096..=CHUNK_BYTES).contains(&record) || !record.is_power_of_two() {
            found.push(format!("record size {record}: need a power of two from 4 KiB to 1 MiB"));
        }
        if !(record..=256 << 20).contains(&self.segment_bytes) {
            let have = Bytes(self.segment_bytes);
            found.push(format!("segment size {have}: need at least one record, at most 256 MiB"));
        }
        if self.stripe_set.is_empty() {
            found.push("the stripe set names no bucket".to_owned());
        }
        if self.format_version != self.least_version() {
            let (have, need) = (self.format_version, self.least_version());
            found
                .push(format!("it says format version {have}, and what it says is version {need}"));
        }
        found.extend(self.encryption.iter().flat_map(Encryption::problems));
        let newest: Vec<_> = self.origins.iter().map(Origin::newest).collect();
        let is_named = self.origins.iter().all(|origin| !origin.stripe_set.is_empty());
        if newest.iter().any(Option::is_none) || !newest.is_sorted() || !is_named {
            found.push("what it says of the volumes that it begins in makes no sense".to_owned());
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_in_its_bucket_is_described_as_ever_and_one_elsewhere_says_where() {
        let old = r#"{
  "format_version": 1,
  "id": "one",
  "stripe_set": [
    "s3://b/vol"
  ],
  "record_bytes": 1048576,
  "segment_bytes": 16777216,
  "codec": "lz4",
  "created_unix_s": 5
}"#;
        let format: VolumeFormat = serde_json::from_str(old).expect("reads");
        assert_eq!(format.problems(), Vec::<String>::new());
        assert_eq!(serde_json::to_string_pretty(&format).expect("writes"), old);
        let moved = format.clone().with_metadata(Some("postgres://u@db/weir".to_owned()));
        assert_eq!((moved.format_version, moved.problems().len()), (2, 0));
        let text = serde_json::to_string(&moved).expect("writes");
        assert!(text.ends_with(r#""metadata":"postgres://u@db/weir"}"#), "{text}");
        assert_eq!(serde_json::from_str::<VolumeFormat>(&text).expect("reads"), moved);
        assert_eq!(moved.clone().with_metadata(None), format);
        for bad in [
            VolumeFormat { metadata: None, ..moved.clone() },
            VolumeFormat { metadata: moved.metadata, ..format },
        ] {
            assert_eq!(bad.problems().len(), 1, "{bad:?}");
        }
    }

    #[test]
    fn a_clone_says_where_it_begins_in_a_format_that_older_ones_refuse() {
        let origin = |newest: &str| Origin {
            stripe_set: vec!["s3://b/vol".to_owned()],
            volume: VolumeId("one".to_owned()),
            snapshot: "monday".to_owned(),
            newest_segment: newest.to_owned(),
        };
        let (old, new) = ("00".repeat(16), "01".repeat(16));
        let format = |origins: &[Origin]| {
            let plain = VolumeFormat {
                format_version: 1,
                id: VolumeId("two".to_owned()),
                stripe_set: vec!["s3://b/clone".to_owned()],
                record_bytes: 1 << 20,
                segment_bytes: 16 << 20,
                codec: Codec::Lz4,
                created_unix_s: 5,
                metadata: None,
                encryption: None,
                origins: Vec::new(),
            };
            origins.iter().cloned().fold(plain, VolumeFormat::with_origin)
        };
        let clone = format(&[origin(&old), origin(&new)]);
        assert_eq!((clone.format_version, clone.problems()), (3, Vec::new()));
        let text = serde_json::to_string(&clone).expect("writes");
        assert_eq!(serde_json::from_str::<VolumeFormat>(&text).expect("reads"), clone);
        let moved = clone.clone().with_metadata(Some("postgres://u@db/w".to_owned()));
        assert_eq!((moved.format_version, moved.problems()), (3, Vec::new()));
        let nowhere = Origin { stripe_set: Vec::new(), ..origin(&old) };
        for bad in [&[origin("x")][..], &[origin(&new), origin(&old)], &[nowhere]] {
            assert_eq!(format(bad).problems().len(), 1, "{bad:?}");
        }
    }

    #[test]
    fn an_encrypted_volume_has_a_format_that_older_ones_refuse() {
        let encryption = serde_json::json!({"cipher": "aes-256-gcm", "older": [], "wraps": [
            {"name": "a", "created_unix_s": 1, "derivation": {"kind": "key-file", "salt": "00"}, "sealed": "00"}]});
        let encryption: Encryption = serde_json::from_value(encryption).expect("reads");
        let plain = VolumeFormat {
            format_version: 1,
            id: VolumeId("one".to_owned()),
            stripe_set: vec!["s3://b/vol".to_owned()],
            record_bytes: 1 << 20,
            segment_bytes: 16 << 20,
            codec: Codec::Lz4,
            created_unix_s: 5,
            metadata: None,
            encryption: None,
            origins: Vec::new(),
        };
        let sealed = plain.clone().with_encryption(Some(encryption));
        assert_eq!((sealed.format_version, sealed.problems()), (3, Vec::new()));
        let text = serde_json::to_string(&sealed).expect("writes");
        assert_eq!(serde_json::from_str::<VolumeFormat>(&text).expect("reads"), sealed);
        for bad in [
            VolumeFormat { encryption: None, ..sealed.clone() },
            VolumeFormat { encryption: sealed.encryption.clone(), ..plain.clone() },
            VolumeFormat { format_version: 1, ..sealed.clone() },
        ] {
            assert_eq!(bad.problems().len(), 1, "{bad:?}");
        }
        assert_eq!(sealed.with_encryption(None), plain);
    }
}
