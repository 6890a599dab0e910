//! What the data plane asks of those above it. They are given to it when it is made.

use weir_object::Bucket;
use weir_types::{Ino, LinkId, Native, Result};

/// What links know of the objects that are files. Below them, because a fetch needs it.
pub(crate) trait NativeObjects: Send + Sync {
    /// The bucket of a link. No request.
    fn bucket(&self, link: LinkId) -> Result<Bucket>;

    /// A read found that the object is not what the metadata says.
    fn object_is_another(&self, native: &Native, ino: Ino);
}

/// Told when somebody waits for bytes of a file. Below those who bring whole trees, because a read
/// knows first.
pub(crate) trait WaitedFor: Send + Sync {
    /// Somebody opened the file or waits for bytes of it.
    fn needed(&self, ino: Ino);
}
