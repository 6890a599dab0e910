//! The engine for many nodes: a PostgreSQL database, or any server that speaks its protocol.

mod options;
mod url;

use async_trait::async_trait;
use weir_types::{ErrorKind, FsError, Result};

use super::contract::{Commit, Key, Kv, Outcome, Version, Versioned};
pub use options::PostgresOptions;
pub use url::{PostgresUrl, Server, SslMode};

/// A [`Kv`] in a PostgreSQL database.
pub struct PostgresKv {
    options: PostgresOptions,
}

impl PostgresKv {
    /// Opens the volume's tables. `NotFound` if they are not there and `create` is not set,
    /// `Permission` where the password is wrong or rights are missing, `Unsupported` if a newer
    /// build made them, `Retry` where no server answers in time.
    pub async fn open(options: PostgresOptions) -> Result<Self> {
        let problems = options.problems();
        if !problems.is_empty() {
            return Err(FsError::new(ErrorKind::Invalid, problems.join("; ")));
        }
        Err(unsupported(&options))
    }

    /// Removes the volume's schema with all that is in it; no error if it is not there. For a volume
    /// that is removed, and for one whose making did not end.
    pub async fn remove(options: &PostgresOptions) -> Result<()> {
        Err(unsupported(options))
    }

    /// From now on each commit that changes something also needs `key` to be of `version`; where it
    /// is not, the commit fails with `Fenced` and changes nothing. `None` takes that away.
    pub fn set_guard(&self, _guard: Option<(Key, Version)>) {}
}

fn unsupported(options: &PostgresOptions) -> FsError {
    let context = format!("metadata in {} is not built in yet", options.url);
    FsError::new(ErrorKind::Unsupported, context)
}

#[async_trait]
impl Kv for PostgresKv {
    async fn get_many(&self, _keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        Err(unsupported(&self.options))
    }

    async fn scan(
        &self,
        _prefix: &[u8],
        _after: Option<&[u8]>,
        _limit: usize,
    ) -> Result<Vec<(Key, Versioned)>> {
        Err(unsupported(&self.options))
    }

    async fn commit(&self, _commit: Commit) -> Result<Outcome> {
        Err(unsupported(&self.options))
    }

    async fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn durable(&self) -> Version {
        Version::MAX
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}
