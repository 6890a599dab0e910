//! Renaming: the one operation that touches up to four inodes.

use weir_types::{Ino, Inode, Result};

use crate::Meta;

/// What may become of something that has the new name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// It is replaced.
    Replace,
    /// The rename fails with `Exists`.
    NoReplace,
    /// The two swap their names; it must exist.
    Exchange,
}

/// What a rename did.
#[derive(Clone, Debug)]
pub struct Renamed {
    /// What has the new name now.
    pub moved: Inode,
    /// What had it before, as it is now: with one link less, maybe 0 (then it is an orphan), or,
    /// exchanged, under the old name. `None` if there was nothing, or both names lead to one inode.
    pub replaced: Option<Inode>,
}

impl Meta {
    /// Renames by POSIX's rules. Two read rounds, one more for each level of directories above the
    /// new place when a directory changes its parent, and one commit.
    pub async fn rename(
        &self,
        _from_dir: Ino,
        _from_name: &[u8],
        _to_dir: Ino,
        _to_name: &[u8],
        _mode: RenameMode,
    ) -> Result<Renamed> {
        todo!()
    }
}
