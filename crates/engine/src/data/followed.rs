//! A file as a mount that follows the writer saw it last.

use weir_meta::Chunks;
use weir_types::{ByteRange, CHUNK_BYTES, Inode};

/// An open file as it was at one moment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Followed {
    pub(crate) inode: Inode,
    /// Where its bytes are; `None` where that is too much to be kept.
    pub(crate) chunks: Option<Chunks>,
}

/// How an open file came to be another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// Its bytes are others, from here on.
    From(u64),
    /// Only what is said of it.
    Attributes,
}

impl Followed {
    /// Ranges that hold other bytes than at the moment `before`; `None` where that cannot be told.
    pub(crate) fn changed_since(&self, before: &Followed) -> Option<Vec<ByteRange>> {
        let (old, new) = (before.chunks.as_ref()?, self.chunks.as_ref()?);
        if old.native != new.native {
            return None;
        }
        let (mut old, mut new) = (old.list.iter().peekable(), new.list.iter().peekable());
        let mut changed = Vec::new();
        while let Some(chunk) = old.peek().into_iter().chain(new.peek()).map(|row| row.0).min() {
            let of = old.next_if(|row| row.0 == chunk).map(|row| &row.1);
            if of != new.next_if(|row| row.0 == chunk).map(|row| &row.1) {
                changed.push(ByteRange::new(chunk * CHUNK_BYTES, (chunk + 1) * CHUNK_BYTES));
            }
        }
        Some(changed)
    }
}
