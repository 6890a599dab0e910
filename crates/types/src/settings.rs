//! Settings: plain data with units, defaults, least values and what each costs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Bytes, CHUNK_BYTES};

/// How one mount runs. Every value may be changed from mount to mount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Room that mirror files may take on the local disk. Default 10 GiB, least 64 MiB; where the
    /// disk gives less, that. A smaller tier means more GETs when the working set does not fit.
    pub tier_bytes: Bytes,
    /// Share of the tier, in percent, above which clean ranges are released. Default 95.
    pub high_water_percent: u8,
    /// Share of the tier, in percent, down to which they are released. Default 85.
    pub low_water_percent: u8,
    /// Free bytes that the tier's disk always keeps; below this, writes wait. Default 512 MiB; on a
    /// small disk the twentieth part of it, if that is less.
    pub free_floor_bytes: Bytes,
    /// Age in milliseconds at which dirty data leaves for the bucket: what the loss of the machine
    /// may cost. Default 30,000, least 100. Shorter means smaller segments and more PUTs: at 1 s
    /// and a steady trickle of writes, 2.6 million PUTs or about $13 a month.
    pub flush_age_ms: u64,
    /// Dirty bytes at which flushing starts whatever their age; of one file that is written in one go a
    /// half of them, or a segment if that is more. Default 64 MiB, least one segment.
    pub flush_start_bytes: Bytes,
    /// Milliseconds between durable points of the metadata: what the loss of the machine may cost
    /// of names and attributes. Default 1,000, least 20. Each is one PUT when something changed:
    /// at 1 s without pause about $13 a month, at 100 ms $130.
    pub meta_flush_ms: u64,
    /// Memory that the daemon's caches and transfers may take, about; the kernel's page cache is
    /// not among it. Default 1 GiB, least 256 MiB. A quarter holds metadata that was read: with
    /// less, lookups in large volumes cost GETs. A quarter holds commits while the bucket is slow.
    /// An eighth each holds segments on their way out and bodies on their way in, so less means
    /// fewer at once. A quarter holds what is known of the files in the tier, about 1 KiB for each:
    /// with more files than that, those used longest ago are released.
    pub memory_bytes: Bytes,
    /// Segments in flight to the bucket at once. Default 8, least 1. More is faster on slow links
    /// and takes one segment of memory each, within its share of `memory_bytes`.
    pub flush_parallel: usize,
    /// Ranged GETs in flight at once that somebody waits for, and half as many ahead of readers. A
    /// hydration has as many while nobody else fetches, and a quarter while others do; of objects
    /// of up to 1 MiB four times that. Default 32, least 1; within their share of `memory_bytes`.
    pub fetch_parallel: usize,
    /// Largest ranged GET. Default 8 MiB, least one record.
    pub fetch_bytes: Bytes,
    /// Most bytes fetched ahead of one sequential reader. Default 256 MiB; 0 turns it off. The
    /// window grows only while that makes the reader faster, and its bytes go to the tier.
    pub read_ahead_bytes: Bytes,
    /// The least size of a file that the kernel reads without the daemon. Default 128 KiB. One
    /// request to the daemon reads a smaller file whole, which costs less than to hand it over, and
    /// the kernel then keeps it in memory from open to open.
    pub passthrough_least_bytes: Bytes,
    /// A released file up to this size is fetched whole when it is opened for reading, so that the
    /// kernel reads it without the daemon at once. Default 1 MiB; 0 turns it off. More makes an open
    /// wait for more bytes, also where only a few of them are read.
    pub passthrough_fetch_bytes: Bytes,
    /// How long one bucket request may take, with its retries, before it fails, in milliseconds.
    /// Default 60,000, least 100.
    pub bucket_timeout_ms: u64,
    /// Of a hundred reads, how many may be asked for twice because the first answer is slow to
    /// come. Default 5: the slowest reads become faster for 5% more GETs at most. 0 turns it off.
    pub hedge_percent: u8,
    /// Age in seconds before a dead or unreferenced segment is deleted, so that readers of older
    /// metadata still find it. Default 3,600.
    pub collect_grace_s: u64,
    /// Seconds between looks for segments to collect. Default 300. Each look at unreferenced
    /// segments lists the buckets: one request per 1,000 segments. Small segments that have been
    /// there for twice as long are written into large ones: one GET for each.
    pub collect_interval_s: u64,
    /// Most bytes of the journal; where its disk gives less, that. At half of them it is emptied by
    /// flushing to the bucket. Default 1 GiB, least 16 MiB.
    pub journal_bytes: Bytes,
    /// Bytes that the volume may hold: what `df` shows, and beyond which files do not grow (ENOSPC).
    /// Default 0: as much as the bucket takes. Written bytes count, however few they are when they are
    /// compressed; what was written anew counts twice until it has left. Disks are not held back.
    pub volume_bytes: Bytes,
    /// Keep when files, directories and symlinks were read last, as `relatime` does on local file
    /// systems: where they changed since, and once a day. Default false. To open a file for reading is to
    /// read it. It costs a commit of metadata for each 500 of them that were read.
    pub relatime: bool,
    /// The database that has the volume's metadata, if it is reached by another URL than the one in
    /// `volume.json`. Default none. Without a password: that comes from PGPASSFILE, a service file or
    /// PGPASSWORD. A volume whose metadata is in its bucket refuses it.
    pub metadata_url: Option<String>,
    /// Where a mount that shares its volume listens for other nodes: `IP:PORT`, or `off` to neither give
    /// nor take. Default none: any free port of the address by which this machine reaches the database.
    pub peer_listen: Option<String>,
    /// `HOST:PORT` by which other nodes reach that, if by another address. Default none.
    pub peer_address: Option<String>,
    /// Memory, beside `memory_bytes`, for what this node fetches for all and keeps a little while.
    /// Default 128 MiB, least 16 MiB. Less means that nodes which read the same, but not at the same
    /// time, ask the bucket again.
    pub peer_cache_bytes: Bytes,
    /// Most bytes that this node gives to others in a second. Default 0: no limit. Who is refused asks
    /// the bucket.
    pub peer_give_bytes_per_s: Bytes,
    /// Where nodes share the volume, files that were made here, and those that this node alone goes on
    /// writing, may be closed before the bucket has them, and names that were made here may be acknowledged
    /// before the database has them: other nodes that look for them have them brought first. Default true.
    /// With false each close waits for the bucket, and each name for the database.
    pub write_leases: bool,
    /// Have the kernel encrypt the tier and the journal on their disks, by a key that is derived from the
    /// volume's, which must be encrypted: ext4 and f2fs can. Default false. A tier that is encrypted stays so.
    pub encrypt_tier: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tier_bytes: Bytes::gib(10),
            high_water_percent: 95,
            low_water_percent: 85,
            free_floor_bytes: Bytes::mib(512),
            flush_age_ms: 30_000,
            flush_start_bytes: Bytes::mib(64),
            meta_flush_ms: 1_000,
            memory_bytes: Bytes::gib(1),
            flush_parallel: 8,
            fetch_parallel: 32,
            fetch_bytes: Bytes::mib(8),
            read_ahead_bytes: Bytes::mib(256),
            passthrough_least_bytes: Bytes(128 << 10),
            passthrough_fetch_bytes: Bytes::mib(1),
            bucket_timeout_ms: 60_000,
            hedge_percent: 5,
            collect_grace_s: 3_600,
            collect_interval_s: 300,
            journal_bytes: Bytes::gib(1),
            volume_bytes: Bytes(0),
            relatime: false,
            metadata_url: None,
            peer_listen: None,
            peer_address: None,
            peer_cache_bytes: Bytes::mib(128),
            peer_give_bytes_per_s: Bytes(0),
            write_leases: true,
            encrypt_tier: false,
        }
    }
}

/// How [`Settings::memory_bytes`] is shared out, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryShares {
    /// Metadata that was read from the bucket.
    pub metadata_cache: u64,
    /// Metadata that is on its way to the bucket.
    pub metadata_unflushed: u64,
    /// Segments that are being packed or sent.
    pub uploads: u64,
    /// Bodies that are being received.
    pub fetches: u64,
    /// What is known of the files in the tier.
    pub tier_files: u64,
}

impl Settings {
    /// What each part of the daemon may take.
    pub fn memory(&self) -> MemoryShares {
        let all = self.memory_bytes.0;
        MemoryShares {
            metadata_cache: all / 4,
            metadata_unflushed: (all / 4).max(64 << 20),
            uploads: all / 8,
            fetches: all / 8,
            tier_files: all / 4,
        }
    }

    /// All that is wrong with these values, one sentence each; empty when they are fine.
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut least = |name: &str, have: u64, least: u64| {
            if have < least {
                found.push(format!("{name} is {have}: the least is {least}"));
            }
        };
        least("tier_bytes", self.tier_bytes.0, 64 << 20);
        least("flush_age_ms", self.flush_age_ms, 100);
        least("flush_start_bytes", self.flush_start_bytes.0, CHUNK_BYTES);
        least("meta_flush_ms", self.meta_flush_ms, 20);
        least("memory_bytes", self.memory_bytes.0, 256 << 20);
        least("flush_parallel", self.flush_parallel as u64, 1);
        least("fetch_parallel", self.fetch_parallel as u64, 1);
        least("fetch_bytes", self.fetch_bytes.0, CHUNK_BYTES);
        least("bucket_timeout_ms", self.bucket_timeout_ms, 100);
        least("journal_bytes", self.journal_bytes.0, 16 << 20);
        least("peer_cache_bytes", self.peer_cache_bytes.0, 16 << 20);
        if self.low_water_percent >= self.high_water_percent || self.high_water_percent > 100 {
            let (low, high) = (self.low_water_percent, self.high_water_percent);
            found.push(format!("water marks {low}% and {high}%: need low < high <= 100"));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_fine_and_every_problem_is_told() {
        assert_eq!(Settings::default().problems(), Vec::<String>::new());
        let bad = Settings { fetch_parallel: 0, low_water_percent: 99, ..Settings::default() };
        assert_eq!(bad.problems().len(), 2);
    }

    #[test]
    fn unknown_settings_are_refused() {
        let error = serde_json::from_str::<Settings>(r#"{"tier_bites": 1}"#).unwrap_err();
        assert!(error.to_string().contains("tier_bites"), "{error}");
    }
}
