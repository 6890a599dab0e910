//! What the doors of one daemon tell each other.

use weir_types::{ByteRange, Ino};

use super::boxed::Boxed;

/// What the clients of one door changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DoorChange {
    /// This name of the directory leads elsewhere, or nowhere.
    Name(Ino, Vec<u8>),
    /// Attributes of the inode.
    Attributes(Ino),
    /// Bytes of the file in this range, and its attributes.
    Bytes(Ino, ByteRange),
}

/// Another door of the same daemon, whose clients remember what they saw.
pub trait OtherDoor: Send + Sync {
    /// Has its clients forget what was changed by now. Returns when they have, or when that takes so long that
    /// it goes on behind.
    fn changed(&self, changes: Vec<DoorChange>) -> Boxed<'static, ()>;
}
