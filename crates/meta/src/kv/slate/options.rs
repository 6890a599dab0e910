//! What a SlateDB engine can be told, and what each choice costs.

use std::time::Duration;

use slatedb::config::{
    CompactionWorkerOptions, CompactorOptions, DbReaderOptions, GarbageCollectorDirectoryOptions,
    GarbageCollectorOptions, Settings, SstBlockSize,
};

/// Memtable bytes at which one becomes a level-0 table. Two or so of these live in memory.
const L0_TABLE_BYTES: usize = 32 << 20;

/// What one GET brings of a table. A far bucket takes as long for 4 KiB, SlateDB's own size, and
/// neighbours are wanted next: the extents of 1 GiB fill one block.
pub(super) const BLOCK_SIZE: SstBlockSize = SstBlockSize::Block64Kib;

/// Level-0 tables at which writers wait for the compactor.
pub(super) const L0_TABLES_MAX: usize = 16;

/// Bytes of one compacted table.
const TABLE_BYTES: usize = 64 << 20;

/// Milliseconds between looks for work of its own. They are answered from memory. A compaction takes
/// three of them, one after the other, and whoever closes may wait for it.
const POLL_MS: u64 = 1_000;

/// Time between passes of the collector: a LIST of each of four directories.
const COLLECT: Duration = Duration::from_secs(3_600);

/// How long a manifest update may be retried. An engine that gives up must be reopened, so it
/// never does: callers are told by their own timeouts.
const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// How a [`SlateKv`](super::SlateKv) runs.
#[derive(Clone, Debug)]
pub struct SlateOptions {
    /// Make the database if there is none. Without this, opening one that is not there is
    /// `NotFound`. Default false.
    pub create: bool,
    /// Milliseconds between flushes of what was committed: what the loss of the machine may cost.
    /// Default 1,000, least 20. Each is one PUT if something changed: at 1 s without pause about
    /// $13 a month, at 100 ms $130.
    pub meta_flush_ms: u64,
    /// How long a read, a commit, a sync or an open waits for the bucket before it is `Retry`, in
    /// milliseconds. Default 60,000, least 100. Nothing is lost by it: the engine itself goes on
    /// trying for ever. Commits touch the bucket only to read what is not cached, and to wait when
    /// `unflushed_bytes` are full: one that waited in vain was not made.
    pub timeout_ms: u64,
    /// Memory for blocks, indexes and filters read from the bucket. Default 256 MiB. A lookup that
    /// is not in it costs one ranged GET of 64 KiB for each table that may hold the key.
    pub cache_bytes: u64,
    /// Memory for what is committed but not in a table yet; when it is full, commits wait. Default
    /// 256 MiB, least 64 MiB: about half a million commits while the bucket is away.
    pub unflushed_bytes: u64,
    /// Milliseconds between looks for another writer. Default 60,000, least 100. This is what an idle
    /// mount costs: a GET each time, $0.02 a month at the default. A writer that was taken over
    /// notices at its next flush, or, when it only reads, after this time and a second.
    pub poll_ms: u64,
}

impl Default for SlateOptions {
    fn default() -> Self {
        Self {
            create: false,
            meta_flush_ms: 1_000,
            timeout_ms: 60_000,
            cache_bytes: 256 << 20,
            unflushed_bytes: 256 << 20,
            poll_ms: 60_000,
        }
    }
}

impl SlateOptions {
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    pub(super) fn look(&self) -> Duration {
        Duration::from_millis(self.poll_ms)
    }

    /// All that is wrong with these values, one sentence each.
    pub(super) fn problems(&self) -> Vec<String> {
        let least = [
            ("meta_flush_ms", self.meta_flush_ms, 20),
            ("timeout_ms", self.timeout_ms, 100),
            ("unflushed_bytes", self.unflushed_bytes, 64 << 20),
            ("poll_ms", self.poll_ms, 100),
        ];
        let too_low = least.iter().filter(|(_, have, least)| have < least);
        too_low
            .map(|(name, have, least)| format!("{name} is {have}: the least is {least}"))
            .collect()
    }

    pub(super) fn settings(&self) -> Settings {
        let poll = Duration::from_millis(self.poll_ms.min(POLL_MS));
        Settings {
            flush_interval: Some(Duration::from_millis(self.meta_flush_ms)),
            manifest_poll_interval: poll,
            manifest_update_timeout: NEVER,
            max_unflushed_bytes: self.unflushed_bytes as usize,
            l0_sst_size_bytes: L0_TABLE_BYTES,
            l0_max_ssts: L0_TABLES_MAX,
            l0_max_ssts_per_key: L0_TABLES_MAX,
            l0_flush_parallelism: 2,
            compactor_options: Some(compactor(poll)),
            garbage_collector_options: Some(garbage_collector()),
            ..Settings::default()
        }
    }
}

/// Two compactions of two parts at a time, each reading up to 8 tables 2 MiB ahead: 64 MiB at most.
fn compactor(poll: Duration) -> CompactorOptions {
    CompactorOptions {
        poll_interval: poll,
        manifest_update_timeout: NEVER,
        max_concurrent_compactions: 2,
        worker: Some(CompactionWorkerOptions {
            max_concurrent_compactions: 2,
            compactions_poll_interval: poll,
            max_sst_size: TABLE_BYTES,
            max_fetch_tasks: 2,
            bytes_to_fetch: 1 << 20,
            max_subcompactions: 2,
            ..CompactionWorkerOptions::default()
        }),
        ..CompactorOptions::default()
    }
}

/// What is older than 5 minutes, each hour, without the passes that serve nobody here: a fence must
/// outlive every writer that may still sleep, and there are no clones.
fn garbage_collector() -> GarbageCollectorOptions {
    let pass = GarbageCollectorDirectoryOptions { interval: Some(COLLECT), ..Default::default() };
    GarbageCollectorOptions {
        manifest_options: Some(pass),
        wal_options: Some(pass),
        compacted_options: Some(pass),
        compactions_options: Some(pass),
        wal_fence_options: None,
        detach_options: None,
        ..GarbageCollectorOptions::default()
    }
}

/// How a [`SlateReader`](super::SlateReader) runs.
#[derive(Clone, Debug)]
pub struct SlateReaderOptions {
    /// Milliseconds between looks for what the writer made durable. Default 2,000, least 100.
    /// About 10 GETs and HEADs each time: $5.30 a month at the default, $1 at 10,000.
    pub poll_ms: u64,
    /// How long a read or an open waits for the bucket before it is `Retry`, in milliseconds.
    /// Default 60,000, least 100.
    pub timeout_ms: u64,
    /// Memory for blocks, indexes and filters read from the bucket. Default 256 MiB.
    pub cache_bytes: u64,
}

impl Default for SlateReaderOptions {
    fn default() -> Self {
        Self { poll_ms: 2_000, timeout_ms: 60_000, cache_bytes: 256 << 20 }
    }
}

impl SlateReaderOptions {
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    pub(super) fn settings(&self) -> DbReaderOptions {
        DbReaderOptions {
            manifest_poll_interval: Duration::from_millis(self.poll_ms.max(100)),
            ..DbReaderOptions::default()
        }
    }
}
