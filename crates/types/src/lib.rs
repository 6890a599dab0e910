//! The words that every room of Weir shares: ids, units, errors, attributes, extents and settings.
//!
//! Plain data only: nothing here does I/O, reads a clock or is async. Values flow in from the
//! outside (a clock, a decoder, a command line) and out to whoever needs to speak of them.

mod disk;
mod encryption;
mod error;
mod error_code;
mod extent;
mod ids;
mod inode;
mod range;
mod restore;
mod settings;
mod storage_class;
mod units;
mod volume_format;

pub use disk::DiskCache;
pub use encryption::{Cipher, Derivation, Encryption, KeyWrap};
pub use error::{ErrorKind, FsError, Result};
pub use error_code::ErrorCode;
pub use extent::{CHUNK_BYTES, ChunkIndex, Codec, Extent, RecordRef, chunk_range};
pub use ids::{Ino, LinkId, SegmentId, TreeId, VolumeId};
pub use inode::{Account, DataChange, FileKind, Inode, Native, UnixTime};
pub use range::ByteRange;
pub use restore::{ArchiveClass, Restore, RestoreTier};
pub use settings::Settings;
pub use storage_class::{ClassMove, StorageClass};
pub use units::{Bytes, NanoUsd};
pub use volume_format::{FORMAT_VERSION, Origin, VolumeFormat};
