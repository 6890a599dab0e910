//! Orphans: inodes without a name that somebody may still have open.

use weir_types::{Ino, Result};

use crate::Meta;

impl Meta {
    /// Up to `limit` orphans after `after`, by number. One read round.
    pub async fn orphans(&self, _after: Option<Ino>, _limit: usize) -> Result<Vec<Ino>> {
        todo!()
    }

    /// Removes an orphan for good: extents, attributes, inode. Doing it again is no error;
    /// `Invalid` if the inode has a name. One commit for about 2,000 chunks.
    pub async fn purge(&self, _ino: Ino) -> Result<()> {
        todo!()
    }
}
