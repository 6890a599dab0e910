//! Whose a quota is.

use weir_types::TreeId;

/// Whose quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuotaOf {
    /// That of a tree of directories.
    Tree(TreeId),
    /// That of the files of a user.
    User(u32),
    /// That of the files of a group.
    Group(u32),
}
