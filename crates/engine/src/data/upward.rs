//! What the data plane asks of those above it. They are given to it when it is made.

use async_trait::async_trait;
use bytes::Bytes;
use weir_object::Bucket;
use weir_types::{ByteRange, Ino, LinkId, Native, Result};

/// What links know of the objects that are files. Below them, because a fetch needs it.
pub(crate) trait NativeObjects: Send + Sync {
    /// The bucket of a link. No request.
    fn bucket(&self, link: LinkId) -> Result<Bucket>;

    /// A GET of an object was answered with so many bytes.
    fn object_was_read(&self, link: LinkId, key: &str, bytes: u64);

    /// A read found that the object is not what the metadata says.
    fn object_is_another(&self, native: &Native, ino: Ino);
}

/// Bytes as the bucket has them. Below those who fetch, because an open of a file that is lent needs some.
#[async_trait]
pub(crate) trait StoredBytes: Send + Sync {
    /// Those of a range; holes are zeros. One GET for each object that they are in, or for each 8 MiB.
    async fn read_stored(&self, ino: Ino, range: ByteRange) -> Result<Bytes>;
}

/// Told when somebody waits for bytes of a file. Below those who bring whole trees, because a read
/// knows first.
pub(crate) trait WaitedFor: Send + Sync {
    /// Somebody opened the file or waits for bytes of it.
    fn needed(&self, ino: Ino);
}
