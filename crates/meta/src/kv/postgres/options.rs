//! What a PostgreSQL engine can be told, and what each choice costs.

use std::time::Duration;

use super::url::PostgresUrl;

/// Longest key, in bytes: that of an object of a link. An index of PostgreSQL takes 2,700, and Aurora
/// DSQL 1,024, so there the keys of a linked bucket may have 1,019 bytes.
pub(super) const KEY_BYTES_MAX: usize = 1_100;

/// How a [`PostgresKv`](super::PostgresKv) runs.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// The database.
    pub url: PostgresUrl,
    /// The volume's id: letters, digits, `-` and `_`, at most 48. Its tables are in a schema of
    /// their own, named after it, so that a database can hold several volumes.
    pub volume: String,
    /// Make the schema and its tables if they are not there; also bring those of an older version
    /// up to date, which is done without it too. Without this, opening what is not there is
    /// `NotFound`. Default false.
    pub create: bool,
    /// How long a read, a commit or an open waits for the server before it is `Retry`, in
    /// milliseconds. Default 60,000, least 100. A commit that waited in vain was not made, or its
    /// error says that this is not known.
    pub timeout_ms: u64,
    /// Most connections to the server: half of them commit, the others read. Default 4, least 2:
    /// each is a process there. They are made when they are first needed.
    pub connections: usize,
    /// Whether commits that wait at the same time share a transaction. Default true.
    pub group: bool,
    /// Only read: a server that takes no writes (a hot standby) will do, commits are `ReadOnly`, and
    /// the user needs no right but SELECT. Default false.
    pub read_only: bool,
    /// Whoever asks waits at a terminal: opening fails at once where nothing listens at any of the
    /// server's addresses. Default false: a server that is about to start is waited for.
    pub hasty: bool,
}

impl PostgresOptions {
    /// The volume's tables in the database, with defaults for the rest.
    pub fn new(url: PostgresUrl, volume: impl Into<String>) -> Self {
        Self {
            url,
            volume: volume.into(),
            create: false,
            timeout_ms: 60_000,
            connections: 4,
            group: true,
            read_only: false,
            hasty: false,
        }
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// All that is wrong with these values, one sentence each.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.timeout_ms < 100 {
            problems.push(format!("timeout_ms is {}: the least is 100", self.timeout_ms));
        }
        if self.connections < 2 {
            problems.push(format!("connections is {}: the least is 2", self.connections));
        }
        let named = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if self.volume.is_empty() || self.volume.len() > 48 || !self.volume.bytes().all(named) {
            let id = self.volume.escape_debug();
            problems
                .push(format!("volume is `{id}`: 1 to 48 letters, digits, `-` and `_` are an id"));
        }
        problems
    }
}
