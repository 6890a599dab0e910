//! Which mount may change the volume, where the engine below fences nobody by itself: the one that
//! put the guard's row last. The engine holds each of its commits against the row's version.

use weir_types::{ErrorKind, FsError, Result};

use crate::codec::encode;
use crate::keys;
use crate::kv::{Commit, Key, Kv, Outcome, Version};

/// The guard's row, as one mount put it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The row.
    pub key: Key,
    /// Of which version it is as long as that mount may change the volume.
    pub version: Version,
}

impl Guard {
    /// Makes `mount` the one that may change the volume. One commit.
    pub async fn take(kv: &dyn Kv, mount: &str) -> Result<Guard> {
        let key = keys::GUARD.to_vec();
        let put = (key.clone(), encode(&mount)?);
        match kv.commit(Commit { puts: vec![put], ..Commit::default() }).await? {
            Outcome::Applied(version) => Ok(Guard { key, version }),
            Outcome::Conflict => {
                Err(FsError::new(ErrorKind::Bug, "a commit that checks nothing conflicts"))
            }
        }
    }

    /// Whether that mount still may. One read.
    pub async fn holds(&self, kv: &dyn Kv) -> Result<bool> {
        let found = kv.get_many(std::slice::from_ref(&self.key)).await?;
        Ok(found[0].as_ref().is_some_and(|found| found.version == self.version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::MemoryKv;

    #[tokio::test]
    async fn who_took_it_last_has_it() {
        let kv = MemoryKv::new();
        let first = Guard::take(&kv, "one").await.expect("takes");
        assert!(first.holds(&kv).await.expect("reads"));
        let second = Guard::take(&kv, "one").await.expect("takes");
        assert!(!first.holds(&kv).await.expect("reads"), "also by the same name");
        assert!(second.holds(&kv).await.expect("reads"));
    }
}
